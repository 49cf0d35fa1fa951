"""List the named soils, and show drawbar pull over slip and sinkage over load of a wheel on them."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lfdm_ros.cli.common import add_former
from lfdm_ros.errors import InputError
from lfdm_ros.ground.soil_wheel import Settled, SoilWheel, WheelMotion, WheelOutcome, settle
from lfdm_ros.ground.soils import SoilProperties, load_soil, soil_names
from lfdm_ros.models.chassis import static_loads
from lfdm_ros.reports import COLOURS, GREY, add_figure_argument, require_figure, save_figure
from lfdm_ros.vehicles import load_vehicle

SLIPS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
EPILOG = """examples:
  lfdm soil
  lfdm soil lete_sand dry_sand
  lfdm soil lete_sand mine.yaml --radius 0.47 --width 0.318 --rigid --load 6310
  lfdm soil lete_sand sandy_loam_15 clayey_soil_38 dry_sand --figure pull.png"""


@dataclass(frozen=True)
class WheelOnSoil:
    """A wheel on a soil."""

    wheel: SoilWheel
    soil: SoilProperties
    load: float

    def at(self, slip: float, load: float | None = None) -> Settled:
        return settle(self.wheel, self.soil, self.load if load is None else load, WheelMotion.of(slip))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("soils", nargs="*", metavar="SOIL", help="names, or YAML files; none: list the named ones")
    parser.add_argument("--vehicle", default="hmmwv", help="vehicle of the front tyre (default %(default)s)")
    parser.add_argument("--radius", type=float, help="radius of the wheel [m] (default: the vehicle's)")
    parser.add_argument("--width", type=float, help="width of the wheel [m] (default: the vehicle's)")
    parser.add_argument("--stiffness", type=float, help="vertical stiffness of the tyre [N/m] (default: the vehicle's)")
    parser.add_argument("--rigid", action="store_true", help="a rigid wheel")
    parser.add_argument("--load", type=float, help="wheel load [N] (default: the vehicle's at rest)")
    parser.add_argument("--json", action="store_true", help="machine-readable")
    add_figure_argument(parser, "drawbar pull over slip and sinkage over load")
    add_former(parser, "--plot", "--figure", type=Path)


def run(args: argparse.Namespace) -> int:
    soils = [load_soil(name) for name in (args.soils or soil_names())]
    require_figure(args.figure)
    if not args.soils and not args.figure:
        if args.json:
            print(json.dumps([{"name": soil.name, "description": soil.description, **soil.parameters} for soil in soils], indent=1))
            return 0
        print(f"{'name':24} {'kphi':>10} {'kc':>9} {'n':>6} {'c':>7} {'phi':>5} {'K':>5}  description\n"
              f"{'':24} {'kN/m^(n+2)':>10} {'kN/m^(n+1)':>9} {'':>6} {'kPa':>7} {'deg':>5} {'mm':>5}")
        for soil in soils:
            print(f"{soil.name:24} {soil.frictional_modulus / 1e3:10.5g} {soil.cohesive_modulus / 1e3:9.4g} {soil.sinkage_exponent:6.3g}"
                  f" {soil.cohesion / 1e3:7.3g} {np.degrees(soil.friction_angle):5.3g} {1e3 * soil.shear_modulus_x:5.3g}"
                  f"  {soil.description}")
        return 0
    cases = [_case(args, soil) for soil in soils]
    if args.json:
        print(json.dumps([_record(case) for case in cases], indent=1))
    else:
        for case in cases:
            _show(case)
    if args.figure:
        _draw(args.figure, cases)
    return 0


def _case(args: argparse.Namespace, soil: SoilProperties) -> WheelOnSoil:
    p = load_vehicle(args.vehicle).parameters

    def given(option: str, parameter: str) -> float:
        value = getattr(args, option)
        if value is None and parameter not in p:
            raise InputError(f"vehicle '{args.vehicle}' has no {parameter}; give --{option}")
        return p[parameter] if value is None else value

    stiffness = np.inf if args.rigid else given("stiffness", "tyre_vertical_stiffness_front")
    load = static_loads(SimpleNamespace(**p))[0] if args.load is None else args.load
    return WheelOnSoil(SoilWheel(given("radius", "wheel_radius"), given("width", "tyre_width"), stiffness), soil, load)


def _record(case: WheelOnSoil) -> dict[str, Any]:
    rows = []
    for slip in SLIPS:
        at = case.at(slip)
        rows.append({"slip": slip, "outcome": at.outcome.value, "sinkage": at.sinkage, "drawbar_pull": at.forces and at.forces.fx,
                     "moment": at.forces and at.forces.moment})
    return {"soil": case.soil.name, "load": case.load, "rows": rows}


def _show(case: WheelOnSoil) -> None:
    wheel = case.wheel
    kind = f"{wheel.stiffness / 1e3:.4g} kN/m" if np.isfinite(wheel.stiffness) else "rigid"
    print(f"{case.soil.name}: {case.soil.description}\n"
          f"  wheel of radius {wheel.radius:g} m, width {wheel.width:g} m, {kind}, load {case.load:.0f} N\n"
          f"  {'slip':>5} {'pull N':>8} {'moment N m':>11} {'sinkage mm':>11}  outcome")
    for slip in SLIPS:
        at = case.at(slip)
        forces = f"{at.forces.fx:8.0f} {at.forces.moment:11.1f} {1e3 * at.sinkage:11.1f}" if at.forces else f"{'-':>8} {'-':>11} {'-':>11}"
        print(f"  {slip:5.2f} {forces}  {at.outcome.value}")


def _draw(path: Path, cases: list[WheelOnSoil]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.set_prop_cycle(color=COLOURS)
    slips = np.concatenate([np.linspace(-0.3, 0.1, 33), np.linspace(0.12, 0.8, 35)])
    for case in cases:
        pulls = [(at.forces.fx if at.forces and at.outcome is WheelOutcome.SUPPORTED else np.nan) for at in (case.at(s) for s in slips)]
        (line,) = left.plot(slips, np.array(pulls) / 1e3, label=case.soil.name)
        loads = np.linspace(0.05, 2.0, 40) * case.load
        depths = [(at.sinkage if at.outcome is WheelOutcome.SUPPORTED else np.nan) for at in (case.at(0.2, load) for load in loads)]
        right.plot(loads / 1e3, 1e3 * np.array(depths), color=line.get_color())
    left.axhline(0.0, color=GREY, lw=0.8)
    left.set(xlabel="slip [1]", ylabel="drawbar pull [kN]", title=f"load {cases[0].load / 1e3:.2f} kN")
    right.set(xlabel="wheel load [kN]", ylabel="sinkage [mm]", title="slip 0.2")
    left.legend(fontsize=8)
    save_figure(figure, path)
