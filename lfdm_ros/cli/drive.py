"""Let the controller, or a simulated operator behind a link, drive a scenario in closed loop with a simulated vehicle, actuator and LIDAR,
without ROS, and report the outcome.

The vehicle is simulated by a larger model than the controller predicts with. The same command gives the same run to the bit."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lfdm_ros.cli.common import show_progress
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.reports import add_figure_argument, require_figure, save_figure

if TYPE_CHECKING:
    from lfdm_ros.control.cycle import Cycle
    from lfdm_ros.parameters import Exposed
    from lfdm_ros.sensors import Scan

EPILOG = """example:
  lfdm drive obstacle_field_40 --seed 7 --figure run.png --animation run.gif
  lfdm drive obstacle_field_60 --seed 7 --density 8
  lfdm drive nato_lane_change --state-age 0.1 --delay 0.1 --set compensate=false
  lfdm drive curve --ground ice_in_the_bend
  lfdm drive nato_lane_change --plant plant.yaml
  lfdm drive slalom --model eighteen_dof --set model=eight_dof --json
  lfdm drive nato_lane_change --driver operator --latency 0.5 --set link_jitter=0.02 --set distraction=urban

Exit status 1: the vehicle hit something, lifted a wheel, left its corridor by more than 5 cm, or did not arrive (nor stop before an
obstacle that blocks its way)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scenario", metavar="SCENARIO", help="scenario with a task: name in config/scenarios, a YAML file, "
                        "or an XML file of CommonRoad")
    parser.add_argument("--seed", type=int, metavar="S", help="of the scenario's course and the LIDAR's noise (default: the scenario's, 1)")
    parser.add_argument("--driver", choices=("controller", "operator"), default="controller", help="driver (default %(default)s)")
    parser.add_argument("--driver-seed", type=int, metavar="S", help="of the operator and its link: another person (default: --seed, or 1)")
    parser.add_argument("--latency", type=float, default=0.0, metavar="SEC", help="of the operator's link, there and back; half of it each "
                        "way (default 0)")
    parser.add_argument("--density", type=float, metavar="TIMES", help="factor on the density of an obstacle field; above 1 with a free "
                        "start, possibly without a passage (default 1)")
    parser.add_argument("--vehicle", default="hmmwv", metavar="NAME", help="name in config/vehicles, or a file (default %(default)s)")
    parser.add_argument("--change", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the vehicle, SI, changed for "
                        "simulation and controller, for example sprung_mass=2600; repeat")
    parser.add_argument("--model", metavar="MODEL", help="model of the simulated vehicle (default: the largest that the vehicle has)")
    parser.add_argument("--plant", metavar="FILE", help="drive a vehicle that others simulate: a plant file (docs/howto/plants.md), an "
                        "FMU, or a registered plant; outline, sensors, actuators and the controller's model are still --vehicle's")
    parser.add_argument("--tyre", choices=tuple(SLOTS["tyre"]), help="its tyre model (default: tmeasy where the vehicle has it, else its "
                        "own)")
    parser.add_argument("--ground", metavar="NAME", help="drive on this ground (config/grounds, a YAML file, or a bag); the controller "
                        "knows what the ground's file says is known (default: the level road of the vehicle's tyres)")
    parser.add_argument("--state-age", type=float, default=0.0, metavar="SEC", help="age of a state when it arrives (default 0)")
    parser.add_argument("--delay", type=float, metavar="SEC", help="of the actuators, known to the controller (default: the vehicle's)")
    parser.add_argument("--steering-lag", type=float, metavar="SEC", help="time constant of the steering, known (default: the vehicle's)")
    parser.add_argument("--drop-out", type=float, metavar="SHARE", help="LIDAR beams that are lost (default 0)")
    parser.add_argument("--radar", action="store_true", help="a radar beside the LIDAR; its settings: --set radar_...")
    parser.add_argument("--rear-lidar", default="", metavar="NAME", help="a second LIDAR, for what comes from behind: name of one in the "
                        "vehicle's file (hmmwv_rear_lidar has lidar_rear)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the controller and its lattice "
                        "(lattice_...) or of the operator and its link (link_...), the tracker (tracker_...), LIDAR (lidar_...) or radar "
                        "(radar_...), for example model=eight_dof, compensate=false, lidar_range=50; repeat (docs/reference/parameters.md)")
    add_figure_argument(parser, "the run")
    parser.add_argument("--animation", type=Path, metavar="FILE", help="animate the run at twice real time: .gif, or .mp4 where "
                        "ffmpeg is installed (takes a minute)")
    parser.add_argument("--record", type=Path, metavar="BAG", help="record the run, for `lfdm cockpit --bag BAG` and viewers")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.control.controller import Controller, limits_of
    from lfdm_ros.control.routing.lattice import LATTICE, LatticeSettings
    from lfdm_ros.control.settings import SETTINGS, Settings
    from lfdm_ros.engine.closed_loop import Driver, PlantSettings, drive
    from lfdm_ros.engine.run_report import ending, failures, summarise_run
    from lfdm_ros.perception.tracker import TRACKER, TrackerSettings
    from lfdm_ros.sensors import LIDAR, RADAR, Lidar, LidarSettings, RadarSettings, find_sensor
    from lfdm_ros.simulation import load_scenario
    from lfdm_ros.teleop import OPERATOR, OperatorSettings
    from lfdm_ros.teleop.network_link import LINK, NetworkLinkSettings
    from lfdm_ros.teleop.operator import Operator
    from lfdm_ros.teleop.remote import RemoteDriver
    from lfdm_ros.vehicles import load_vehicle

    _check(args)
    operated = args.driver == "operator"
    overrides, further, tracker, lidar, radar = parse_changes(
        args.set, (*((OPERATOR, LINK) if operated else (SETTINGS, LATTICE)), TRACKER, LIDAR, RADAR))
    settings = Settings() if operated else Settings(**{"time_budget": 0.0, **overrides})
    if args.drop_out is not None:
        lidar["drop_out"] = args.drop_out
    given = (("actuation_delay", args.delay), ("steering_lag", args.steering_lag))
    vehicle = load_vehicle(args.vehicle, (*args.change, *(f"{name}={value!r}" for name, value in given if value is not None)))
    if args.rear_lidar:
        find_sensor(vehicle, args.rear_lidar, Lidar, "--rear-lidar")
    if vehicle.assumed:
        print(vehicle.assumed, file=sys.stderr)
    scenario = load_scenario(args.scenario, args.seed, args.density, seed_if_any=True)
    driven, predicted, tyre = vehicle, vehicle, args.tyre
    if args.ground is not None:
        from lfdm_ros.bags.grounds import find_ground
        from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround

        ground = find_ground(args.ground)
        ground.require_start(scenario.initial.x, scenario.initial.y)
        if left := ground.left_at(scenario.path):
            print(f"warning: {left}", file=sys.stderr)
        # The maps live as long as these two.
        on_ground, estimated = VehicleOnGround(vehicle, ground), VehicleOnGround(vehicle, ground, use_median=True)
        driven, predicted, tyre = on_ground.vehicle, estimated.vehicle, on_ground.tyre(args.model or "", args.tyre)
    if args.plant:
        from lfdm_ros.plants.checks import warnings_of

        for warning in warnings_of(args.plant, vehicle):
            print(f"warning: {warning}", file=sys.stderr)
    plant = PlantSettings.of(vehicle, args.model, tyre, plant=args.plant or "", state_age=args.state_age, lidar=LidarSettings(**lidar),
                     radar=RadarSettings(**radar) if args.radar or radar else None,
                     rear_lidar=args.rear_lidar, tracker=TrackerSettings(**tracker), seed=1 if args.seed is None else args.seed)
    driver: Driver
    if operated:
        link = NetworkLinkSettings(delay=0.5 * args.latency, **further)
        seed = plant.seed if args.driver_seed is None else args.driver_seed
        driver = RemoteDriver.over(Operator(vehicle, OperatorSettings(**overrides), seed), link, link, seed)
    else:
        with show_progress("compiling or loading the controller and its vehicle model"):
            # On soil the limits of wheel loads are those of the tyres on the road.
            limits = limits_of(vehicle, settings, PlantSettings.of(vehicle, args.model, args.tyre).tyre)
            driver = Controller(predicted, settings, limits, LatticeSettings(**further))
    film = None
    if args.figure is not None or args.animation is not None:
        from lfdm_ros.engine.run_pictures import Film

        film = Film(vehicle.lidar)
    bag = None
    if args.record is not None:
        from lfdm_ros.ros.drive_bag import DriveBag

        bag = DriveBag(args.record, scenario, vehicle)
    reached = [0.0]

    def note(now: float, cycle: Cycle, scan: Scan | None) -> None:
        reached[0] = now
        if film is not None:
            film.note(now, cycle, scan)
        if bag is not None:
            bag.note(now, cycle, scan)

    with show_progress(f"driving {scenario.name}", lambda: f"{reached[0]:.1f} s of at most {scenario.duration:g} s driven"):
        found = drive(driven, scenario, driver, plant, note)
    if bag is not None:
        bag.write(found)
    outcome = {"scenario": Path(args.scenario).stem, "seed": args.seed, "controller": "operator" if operated else "mpc",
               "speed": scenario.speed, "density": 1.0 if args.density is None else args.density,
               "delay": vehicle.actuators.delay + plant.state_age + args.latency,
               **({"latency": args.latency} if operated else {"compensate": settings.compensate}), **summarise_run(scenario, found)}
    if args.plant and found.why:
        print(f"lfdm drive: {found.why}", file=sys.stderr)
    if args.json:
        print(json.dumps(outcome))
    else:
        _print(scenario.name, outcome)
    if args.figure is not None:
        from lfdm_ros.engine.run_pictures import draw_run

        assert film is not None
        save_figure(draw_run(scenario, found, vehicle.footprint, ending(outcome), film), args.figure)
    if args.animation is not None and film is not None and film.frames:
        from lfdm_ros.engine.run_pictures import animate

        with show_progress(f"drawing {args.animation}"):
            animate(args.animation, scenario, found, vehicle.footprint, film)
    return 1 if failures([outcome]) else 0


def _check(args: argparse.Namespace) -> None:
    if args.seed is not None and args.seed < 0:
        raise InputError(f"--seed {args.seed}: give 0 or more")
    for name in ("state_age", "delay", "steering_lag", "latency"):
        value = getattr(args, name)
        if value is not None and not 0.0 <= value <= 2.0:
            raise InputError(f"--{name.replace('_', '-')} {value:g}: give 0 to 2 s")
    if args.plant is not None and (given := [name for name in ("model", "tyre", "ground") if getattr(args, name) is not None]):
        raise InputError(f"--plant with --{given[0]}: a plant has its own; leave one of them out (a model of ours goes by --model)")
    require_figure(args.figure)
    if args.animation is not None:
        from lfdm_ros.engine.run_pictures import require_animation

        require_animation(args.animation)
    if args.driver != "operator" and (args.latency or args.driver_seed is not None):
        raise InputError("--latency, --driver-seed: of an operator; give --driver operator too (for the controller: --state-age, --delay)")


def _print(name: str, outcome: dict[str, Any]) -> None:
    from lfdm_ros.engine.run_report import ending

    print(f"{name}: {ending(outcome)}")
    if not outcome["cycles"]:
        return
    print(f"  {outcome['length']:.4g} m in {outcome['seconds']:.1f} s, {outcome['mean_speed']:.3g} m/s in the mean"
          + (f"; {outcome['ratio']:.3f} of the time along a straight line" if outcome["ratio"] else ""))
    if outcome["least_clearance"] is not None:
        print(f"  least clearance {outcome['least_clearance']:.2f} m")
    if outcome["largest_error"] is not None:
        print(f"  at most {outcome['largest_error']:.2f} m from the path, {outcome['outside']:.2f} m outside of the corridor")
    shown = (("least_load", 100.0, "least wheel load {:.0f} % of the static one"),
             ("lateral_acceleration", 1.0, "at most {:.1f} m/s^2 to the side"))
    if shown_values := [text.format(scale * outcome[name]) for name, scale, text in shown if outcome[name] is not None]:
        print(f"  {', '.join(shown_values)}")
    print(f"  cycles: {', '.join(f'{count} {rung.lower()}' for rung, count in outcome['outcomes'].items())}; "
          "{p50:.2f} ms in the median, 99 % within {p99:.2f} ms, {max:.1f} ms at most".format(**outcome["cycle_ms"]))
    if outcome["violated"]:
        print(f"  violated in the plan: {', '.join(f'{row} in {count} cycles' for row, count in outcome['violated'].items())}")


def parse_changes(texts: Sequence[str], records: Sequence[Exposed[Any]]) -> list[dict[str, Any]]:
    """Returns the fields of the records that NAME=VALUE change, by the names of their parameters. Raises InputError: no such parameter, or
    a value of another type."""
    from lfdm_ros.vehicles.body import MOVED, moved

    changes: list[dict[str, Any]] = [{} for _ in records]
    settings_by_name = {p.name: (i, field, type(p.default)) for i, record in enumerate(records) for field, p in record.by_field.items()}
    for text in texts:
        name, equals, value = text.partition("=")
        if name in MOVED:
            raise InputError(f"--set {text}: {moved(MOVED[name], 'lfdm drive --change {}=VALUE')}")
        if not equals:
            raise InputError(f"--set {text}: give NAME=VALUE")
        if name not in settings_by_name:
            raise InputError(f"--set {text}: no setting '{name}'{suggest(name, settings_by_name, 'choose one of: ')}")
        record, field, kind = settings_by_name[name]
        try:
            changes[record][field] = {"true": True, "false": False}[value.lower()] if kind is bool else kind(value)
        except (ValueError, KeyError):
            raise InputError(f"--set {text}: expected {'true or false' if kind is bool else 'a number'}") from None
    return changes
