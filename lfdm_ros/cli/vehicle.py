"""Write a vehicle file from what is known, import vehicles of the C++ library LFDM, show what one holds, and check its suspension."""

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

from lfdm_ros.cli import vehicle_check, vehicle_new
from lfdm_ros.cli.common import YAML, check_out
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.files import write_text
from lfdm_ros.models import model_names
from lfdm_ros.vehicles import Vehicle, import_lfdm, load_vehicle, save_vehicle
from lfdm_ros.vehicles.body import RULE
from lfdm_ros.vehicles.commonroad import import_commonroad
from lfdm_ros.vehicles.lfdm_json_out import lfdm_files
from lfdm_ros.vehicles.tir_file import tir_text

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

    vehicle_new.add_arguments(add("new", "a vehicle file from mass and wheelbase, the rest typical of its class", vehicle_new.run,
                                  vehicle_new.EPILOG))
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
    vehicle_check.add_arguments(add("check", "a suspension's camber, toe, track and motion ratio over its travel, and where it ends",
                                    vehicle_check.run))


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
    for line in notes:
        print(line, file=sys.stderr)
    print(f"{args.out}: {_summary(vehicle)}", file=sys.stderr)
    print(vehicle.assumed, file=sys.stderr)  # the library's files have no body
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
    for line in notes:
        print(f"note: {line}", file=sys.stderr)
    print(f"{args.out}: {', '.join(f'{stem}.json' for stem in files)}", file=sys.stderr)
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
        try:
            models.append(vehicle.model(name).name)
        except InputError:  # the vehicle has no parameters for it
            continue
    parts = "; ".join(f"{slot} {', '.join(vehicle.parts(slot)) or 'none'}" for slot in ("tyre", "powertrain", "steering"))
    return f"{parts}; models {', '.join(models) or 'none'}"
