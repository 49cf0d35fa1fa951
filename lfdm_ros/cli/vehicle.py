"""Write a vehicle file from known data, import vehicles of the C++ library LFDM, show one, and check its suspension."""

import argparse
import json
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.cli.common import YAML, add_former, check_out
from lfdm_ros.documents import parse_yaml
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.files import write_text
from lfdm_ros.models import AXLES, model_names
from lfdm_ros.reports import COLOURS, add_figure_argument, require_figure, save_figure
from lfdm_ros.vehicles import CLASSES, Vehicle, import_lfdm, load_vehicle, save_vehicle, typical_vehicle
from lfdm_ros.vehicles.body import RULE
from lfdm_ros.vehicles.commonroad import import_commonroad
from lfdm_ros.vehicles.lfdm_json import lfdm_files
from lfdm_ros.vehicles.schema import keys_of
from lfdm_ros.vehicles.tir_file import tir_text
from lfdm_ros.vehicles.typical import GIVEN
from lfdm_ros.vehicles.vehicle import check

EPILOG = """import: VEHICLE.json TYRE.json [SUSPENSION.json] of LFDM become one YAML file in SI units that drives as the library does
(`conventions: lfdm`); its default tyre is the one that the tyre file is for.

example:
  lfdm vehicle new --mass 1500 --wheelbase 2.7 --out my_car.yaml
  lfdm vehicle import HMMWV/vehicle.json HMMWV/tmeasy.json --out hmmwv_lfdm.yaml
  lfdm vehicle import 24dof/vehicle.json 24dof/tmeasy.json 24dof/suspension.json --out hmmwv_lfdm.yaml
  lfdm vehicle commonroad parameters_vehicle2.yaml parameters_tire.yaml --out bmw.yaml
  lfdm vehicle tir my_car.yaml --out tyre.tir
  lfdm vehicle lfdm sedan --out sedan_json
  lfdm vehicle show hmmwv
  lfdm vehicle check hmmwv_multibody --travel=-100:100:50 --figure suspension.png"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, summary: str, run_action: Callable[[argparse.Namespace], int], epilog: str = EPILOG) -> argparse.ArgumentParser:
        action = actions.add_parser(name, help=summary, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
        action.set_defaults(run_action=run_action)
        return action

    _add_new_arguments(add("new", "a vehicle file from mass and wheelbase, the rest typical of its class", _new, _NEW_EPILOG))
    importer = add("import", "LFDM's JSON files to a vehicle file", _import)
    importer.add_argument("vehicle", metavar="VEHICLE.json", type=Path, help="LFDM's vehicle file, of any of its models")
    importer.add_argument("tyre", metavar="TYRE.json", type=Path, help="LFDM's tyre file: TMeasy, or TMeasyNr as a table or by size")
    importer.add_argument("suspension", metavar="SUSPENSION.json", type=Path, nargs="?", help="LFDM's suspension file, for 24 DOF")
    commonroad = add("commonroad", "CommonRoad's parameter files to a vehicle file", _commonroad)
    commonroad.add_argument("vehicle", metavar="PARAMETERS_VEHICLE.yaml", type=Path, help="CommonRoad's vehicle file")
    commonroad.add_argument("tyre", metavar="PARAMETERS_TIRE.yaml", type=Path, nargs="?",
                            help="CommonRoad's tyre file (default: typical tyres)")
    for action in (importer, commonroad):
        action.add_argument("--out", required=True, type=Path, help="YAML file to write; its stem becomes the vehicle's name")
    tyre = add("tir", "the vehicle's Magic Formula tyre as a .tir file", _tir)
    library = add("lfdm", "the vehicle as LFDM's JSON files", _lfdm)
    for action in (tyre, library, add("show", "the parts and the body of a vehicle, and the models that it can be", _show)):
        action.add_argument("vehicle", help="name in config/vehicles, or a YAML file")
    tyre.add_argument("--out", required=True, type=Path, help=".tir file to write")
    library.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for vehicle.json, tmeasy.json or tmeasyNr.json, "
                         "suspension.json")
    checked = add("check", "a suspension's camber, toe, track and motion ratio over its travel, and where it ends", _check)
    checked.add_argument("vehicle", help="name in config/vehicles, or a YAML file")
    checked.add_argument("--travel", metavar="FROM:TO:STEP", default="-100:100:25",
                         help="wheel travel of the tables, mm from the construction pose, + up; write --travel=-100:... (%(default)s)")
    checked.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_figure_argument(checked, "camber, toe-in, track and motion ratio over all the travel")
    add_former(checked, "--picture", "--figure", type=Path)


def run(args: argparse.Namespace) -> int:
    return int(args.run_action(args))


def _commonroad(args: argparse.Namespace) -> int:
    check_out(args.out, *YAML)
    vehicle = import_commonroad(args.vehicle, args.tyre, name=args.out.stem)
    save_vehicle(vehicle, args.out)
    guessed = sum("typical" in source or "rule" in source for source in vehicle.sources.values())
    print(f"{args.out}: {_summary(vehicle)}; {guessed} values are typical, not CommonRoad's (sources in the file)", file=sys.stderr)
    return 0


def _import(args: argparse.Namespace) -> int:
    check_out(args.out, *YAML)
    vehicle, notes = import_lfdm(args.vehicle, args.tyre, args.suspension, name=args.out.stem)
    save_vehicle(vehicle, args.out)
    # The library's files have no body.
    print(*notes, f"{args.out}: {_summary(vehicle)}", vehicle.assumed, sep="\n", file=sys.stderr)
    return 0


def _tir(args: argparse.Namespace) -> int:
    if args.out.suffix != ".tir":
        raise InputError(f"--out {args.out}: give a name that ends in .tir")
    vehicle = load_vehicle(args.vehicle)
    text = tir_text(vehicle.parameters, vehicle.name)
    with prefixing(f"--out {args.out}", OSError):
        write_text(args.out, text)
    return 0


def _lfdm(args: argparse.Namespace) -> int:
    files, notes = lfdm_files(load_vehicle(args.vehicle))
    with prefixing(f"--out {args.out}", OSError):
        args.out.mkdir(parents=True, exist_ok=True)
        for stem, content in files.items():
            write_text(args.out / f"{stem}.json", json.dumps(content, indent=2) + "\n")
    print(*(f"note: {line}" for line in notes), f"{args.out}: {', '.join(f'{stem}.json' for stem in files)}", sep="\n", file=sys.stderr)
    return 0


def _show(args: argparse.Namespace) -> int:
    vehicle = load_vehicle(args.vehicle)
    print(f"{': '.join(filter(None, (vehicle.name, vehicle.description)))}\n  {_summary(vehicle)}")
    o, lidar, actuators = vehicle.footprint, vehicle.lidar, vehicle.actuators
    print(f"  body {o.front + o.rear:.4g} x {2.0 * o.half_width:.4g} m, front end {o.front:.4g} m ahead of the centre of mass"
          + (f"; not in the file, so: {RULE}" if vehicle.assumed else ""))
    print(f"  LIDAR {lidar.x:.3g} m ahead and {lidar.y:.3g} m to the left of the centre of mass, turned by {lidar.yaw:.3g} rad")
    for name, sensor in vehicle.sensors.items():
        print(f"  {sensor['type']} {name}")
    rates = {name: getattr(actuators, f"{name}_rate") for name in ("steering", "throttle", "brake")}
    print(f"  actuators: delay {actuators.delay:g} s, steering lag {actuators.steering_lag:g} s, largest rates: "
          + ", ".join(f"{name} {rate:g} 1/s" if rate < math.inf else f"{name} any" for name, rate in rates.items()))
    return 0


def _summary(vehicle: Vehicle) -> str:
    models = []
    for name in model_names():
        with suppress(InputError):  # the vehicle has no parameters for it
            models.append(vehicle.model(name).name)
    parts = "; ".join(f"{slot} {', '.join(vehicle.parts(slot)) or 'none'}" for slot in ("tyre", "powertrain", "steering"))
    return f"{parts}; models {', '.join(models) or 'none'}"


_NEW_EPILOG = """Each value says where it is from: given, a rule with its source, or typical of the class. Typical values are guesses:
measure it, or calibrate it (lfdm calibrate --new).

classes: """ + "; ".join(f"{name}: {like.title}" for name, like in CLASSES.items()) + """

example:
  lfdm vehicle new --mass 1500 --wheelbase 2.7 --out my_car.yaml
  lfdm vehicle new --class small --mass 1.6 --wheelbase 0.174 --front-share 0.54 --change track_front=0.16 --out my_rc_car.yaml"""

_OPTIONS = {"track": ("track_front", "m", "from wheel to wheel"), "cg_height": ("cg_height", "m", "of the centre of mass above the ground"),
            "wheel_radius": ("wheel_radius", "m", "loaded"), "yaw_inertia": ("yaw_inertia", "kg*m^2", "of the whole vehicle"),
            "lock": ("max_road_wheel_angle", "rad", "angle of the road wheels at full lock")}
# Parameters that matter most where they are typical only, in this order.
_MATTERS = ("cornering_stiffness_front", "cornering_stiffness_rear", "cg_to_front_axle", "max_road_wheel_angle", "friction_max",
            "cg_height", "roll_stiffness_front", "roll_stiffness_rear", "wheel_inertia", "motor_map", "rolling_resistance")
_SHOWN = 6


def _add_new_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mass", type=float, required=True, metavar="KG", help="of the whole vehicle as driven")
    parser.add_argument("--wheelbase", type=float, required=True, metavar="M")
    parser.add_argument("--class", dest="kind", choices=CLASSES, default="car", help="class of vehicle (default: car)")
    parser.add_argument("--front-share", type=float, metavar="SHARE", help="of the weight on the front axle, 0 to 1")
    parser.add_argument("--power", type=float, metavar="KW", help="at the wheels")
    for name, (_, unit, text) in _OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, metavar=unit.upper(), help=text)
    parser.add_argument("--change", action="append", default=[], metavar="NAME=VALUE", help="any other value of vehicle files, SI; repeat")
    add_former(parser, "--known", "--change")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.yaml", help="its stem becomes the vehicle's name")


def _new(args: argparse.Namespace) -> int:
    check_out(args.out, *YAML)
    if args.out.exists():
        raise InputError(f"--out {args.out}: exists already; choose another name or remove it")
    given_values = {key: getattr(args, name) for name, (key, _, _) in _OPTIONS.items() if getattr(args, name) is not None}
    for text in args.change:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--change {quote(text)}: write NAME=VALUE, in SI units")
        given_values[name.strip()] = check(name.strip(), parse_yaml(value, f"--change {quote(text)}"), f"--change {quote(text)}")
    power = None if args.power is None else 1000.0 * args.power
    vehicle = typical_vehicle(args.out.stem, args.mass, args.wheelbase, args.kind, given_values, front_share=args.front_share, power=power)
    save_vehicle(vehicle, args.out)
    low, high = CLASSES[args.kind].masses
    if not low <= args.mass <= high:
        print(f"warning: {args.mass:g} kg is unlike a {CLASSES[args.kind].title} ({low:g} to {high:g} kg); --class gives its class",
              file=sys.stderr)
    given = sum(source.startswith(GIVEN) for source in vehicle.sources.values())
    print(f"{args.out}: {given} values given, the others by rules or typical of a {CLASSES[args.kind].title}; each says which")
    for name in model_names():
        print(f"  {name}: {needs(vehicle, name)}")
    print(f"next: lfdm calibrate --new BAG --vehicle {args.out} --out my_recipe.yaml")
    return 0


def needs(vehicle: Vehicle, model: str) -> str:
    """Returns a line on a model's needs of a vehicle: missing values or, where it can run, the typical values that matter most."""
    try:
        declared = vehicle.model(model)
    except InputError as error:
        return f"cannot run: {str(error).partition(': ')[2] or error}"
    keys = keys_of(field.name for field in declared.parameters)
    # The first number of a table says it.
    typical = {key for key in keys if "typical" in vehicle.sources.get(key, vehicle.sources.get(key.replace("_map", "_speed_0"), ""))}
    first = ", ".join([key for key in _MATTERS if key in typical][:_SHOWN])
    guesses = f"; {len(typical)} of its {len(keys)} values are typical only, first to measure or calibrate: {first}"
    return f"can run{guesses if first else ''}"


_STEERING = (-1.0, -0.5, 0.0, 0.5, 1.0)
_COLUMNS = {"travel_mm": "travel mm", "dy_mm": "dy mm", "track_mm": "track mm", "camber_deg": "camber deg", "toe_in_deg": "toe-in deg",
            "motion_ratio": "motion ratio"}
_NUMBERS = {"travel_mm": ("travel", "mm"), "camber_deg": ("camber", "deg"), "toe_in_deg": ("toe-in", "deg"),
          "motion_ratio": ("motion ratio", ""), "wheel_load_n": ("load", "N"), "wheel_rate_n_per_m": ("wheel rate", "N/m"),
          "ride_frequency_hz": ("ride", "Hz"), "roll_centre_height_m": ("roll centre", "m"), "anti_dive_percent": ("anti-dive", "%"),
          "anti_lift_braking_percent": ("anti-lift, braking", "%"), "anti_lift_driving_percent": ("anti-lift, driving", "%"),
          "anti_squat_percent": ("anti-squat", "%")}


def _check(args: argparse.Namespace) -> int:
    from lfdm_ros.simulation.suspension import Suspension, reach_in_mm

    travels = _travels(args.travel)
    require_figure(args.figure)
    suspension = Suspension(load_vehicle(args.vehicle))
    reach = {axle: suspension.reach(axle) for axle in AXLES}
    tables = {axle: suspension.rows(axle, travels) for axle in AXLES}
    steering = [dict(zip(("steering", "left_deg", "right_deg"), (value, *map(math.degrees, suspension.steered(value)))))
                for value in _STEERING]
    beyond: list[str] = []
    try:
        static = suspension.standing()
    except InputError as error:
        static, beyond = {}, [str(error)]
    beyond += [f"{axle} left and right: a travel of {1e3 * travel:g} mm is out of reach, which ends at {1e3 * end:.1f} mm ({why})"
              for axle, of in reach.items() for travel in travels
              for end, why, out in ((of.lowest, of.below, travel < of.lowest), (of.highest, of.above, travel > of.highest)) if out]
    beyond += [f"front {side}: steering {row['steering']:g} is out of reach of the tie rod" for row in steering
               for side in ("left", "right") if not math.isfinite(row[f"{side}_deg"])]
    if args.figure is not None:
        _draw(args.figure, suspension, reach, static)
    if args.json:
        finite = [{key: value if math.isfinite(value) else None for key, value in row.items()} for row in steering]
        print(json.dumps({**tables, "static": static, "reach": {axle: reach_in_mm(of) for axle, of in reach.items()},
                          "steering": finite, "out_of_reach": beyond}))
        return 0
    for axle in AXLES:
        _print_axle(axle, tables[axle], reach[axle], static.get(axle))
    print("steering in the construction pose, angles of the left and right front wheel, + left:\n  "
          + "; ".join(f"{row['steering']:g}: {row['left_deg']:.2f}, {row['right_deg']:.2f} deg" for row in steering))
    if static:
        print(f"at rest: centre of the sprung mass {static['cg_height_m']:.4f} m above the ground, pitch {static['pitch_deg']:.3f} deg, "
              "+ nose down")
    print(*beyond or ["all of it is within reach"], sep="\n")
    return 0


def _travels(text: str) -> list[float]:
    """Parses FROM:TO:STEP in mm; returns metres."""
    try:
        first, last, step = (float(part) for part in text.split(":"))
    except ValueError:
        raise InputError(f"--travel {text}: write FROM:TO:STEP in mm, as -100:100:25") from None
    if not all(map(math.isfinite, (first, last, step))) or not step > 0.0 or not 0.0 <= last - first <= 1000.0 * step:
        raise InputError(f"--travel {text}: give FROM below TO, in at most 1000 steps above 0 mm")
    return [1e-3 * (first + k * step) for k in range(math.floor((last - first) / step + 1e-9) + 1)]


def _print_axle(axle: str, rows: list[dict[str, float]], reach: Any, static: dict[str, float] | None) -> None:
    print(f"{axle} axle, left wheel; camber and toe-in as ISO 8855, travel from the construction pose, + up")
    print("  " + "".join(f"{title:>14}" for title in _COLUMNS.values()))
    for row in rows:
        print("  " + "".join(f"{row[key]:14.3f}" for key in _COLUMNS))
    print(f"  reaches from {1e3 * reach.lowest:.1f} mm ({reach.below}) to {1e3 * reach.highest:.1f} mm ({reach.above}); rebound stop from "
          f"{1e3 * reach.rebound_stop:.1f} mm down, bump stop from {1e3 * reach.bump_stop:.1f} mm up")
    if static:
        print("  at rest: " + ", ".join(f"{name} {static[key]:.6g} {unit}".rstrip()
                                          for key, (name, unit) in _NUMBERS.items() if key in static))


def _draw(path: Path, suspension: Any, reach: dict[str, Any], static: dict[str, Any]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    panels = {"camber_deg": "camber [deg]", "toe_in_deg": "toe-in [deg]", "track_mm": "track [mm]", "motion_ratio": "motion ratio"}
    for (axle, of), colour in zip(reach.items(), COLOURS):
        # Slightly inside, since slopes at the end are infinite; at most 60 mm into the bump stop.
        rows = suspension.rows(axle, np.linspace(of.lowest + 2e-3, min(of.highest - 2e-3, of.bump_stop + 0.06, 0.2), 200).tolist())
        for axis, key in zip(axes.flat, panels):
            axis.plot([row["travel_mm"] for row in rows], [row[key] for row in rows], color=colour, label=axle)
            axis.axvline(1e3 * of.rebound_stop, color=colour, ls=":", lw=1)
            if static:
                axis.axvline(static[axle]["travel_mm"], color=colour, ls="--", lw=1)
    for axis, title in zip(axes.flat, panels.values()):
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.3)
    figure.supxlabel("wheel travel from the construction pose [mm]; dashed: at rest, dotted: where the rebound stop begins", fontsize=10)
    axes.flat[0].legend()
    save_figure(figure, path)
