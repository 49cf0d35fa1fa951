"""`lfdm vehicle new`: a vehicle file from mass and wheelbase, and what each model still needs."""

import argparse
import sys
from pathlib import Path

from lfdm_ros.cli.common import YAML, add_former, check_out
from lfdm_ros.documents import parse_yaml
from lfdm_ros.errors import InputError, quote
from lfdm_ros.models import model_names
from lfdm_ros.vehicles import CLASSES, Vehicle, save_vehicle, typical_vehicle
from lfdm_ros.vehicles.schema import keys_of
from lfdm_ros.vehicles.typical import GIVEN
from lfdm_ros.vehicles.vehicle import check

EPILOG = """Each value says where it is from: given, a rule with its source, or typical of the class; what is typical is a guess:
measure it, or calibrate it (lfdm calibrate --new).

classes: """ + "; ".join(f"{name}: {like.title}" for name, like in CLASSES.items()) + """

example:
  lfdm vehicle new --mass 1500 --wheelbase 2.7 --out my_car.yaml
  lfdm vehicle new --class small --mass 1.6 --wheelbase 0.174 --front-share 0.54 --change track_front=0.16 --out my_rc_car.yaml"""

_OPTIONS = {"track": ("track_front", "m", "from wheel to wheel"), "cg_height": ("cg_height", "m", "of the centre of mass above the ground"),
            "wheel_radius": ("wheel_radius", "m", "loaded"), "yaw_inertia": ("yaw_inertia", "kg*m^2", "of the whole vehicle"),
            "lock": ("max_road_wheel_angle", "rad", "angle of the road wheels at full lock")}
# What matters most where it is typical only, in this order.
_MATTERS = ("cornering_stiffness_front", "cornering_stiffness_rear", "cg_to_front_axle", "max_road_wheel_angle", "friction_max",
            "cg_height", "roll_stiffness_front", "roll_stiffness_rear", "wheel_inertia", "motor_map", "rolling_resistance")
_SHOWN = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm vehicle new`."""
    parser.add_argument("--mass", type=float, required=True, metavar="KG", help="of the whole vehicle, as it is driven")
    parser.add_argument("--wheelbase", type=float, required=True, metavar="M")
    parser.add_argument("--class", dest="kind", choices=CLASSES, default="car", help="class of vehicle (default: car)")
    parser.add_argument("--front-share", type=float, metavar="SHARE", help="of the weight on the front axle, 0 to 1")
    parser.add_argument("--power", type=float, metavar="KW", help="at the wheels")
    for name, (_, unit, text) in _OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, metavar=unit.upper(), help=text)
    parser.add_argument("--change", action="append", default=[], metavar="NAME=VALUE", help="any other value of vehicle files, SI; repeat")
    add_former(parser, "--known", "--change")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.yaml", help="its stem becomes the vehicle's name")


def run(args: argparse.Namespace) -> int:
    """Writes the file, and says what each model still needs."""
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
    # Of a table its first number says it.
    typical = {key for key in keys if "typical" in vehicle.sources.get(key, vehicle.sources.get(key.replace("_map", "_speed_0"), ""))}
    first = [key for key in _MATTERS if key in typical][:_SHOWN]
    if not first:
        return "can run"
    return f"can run; {len(typical)} of its {len(keys)} values are typical only, first to measure or calibrate: {', '.join(first)}"
