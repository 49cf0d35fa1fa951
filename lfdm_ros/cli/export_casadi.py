"""`lfdm export casadi`: a vehicle as serialized functions of CasADi."""

import argparse
import sys
from pathlib import Path

EPILOG = """Writes step, rhs, outputs and, where the model has no gears, dae (x, z, u, p) -> (ode, alg), each as a file that
casadi.Function.load reads, and vehicle.json with names, units, bounds, parameters and the state at rest.

example:
  lfdm export casadi --vehicle result/vehicle.yaml --model eleven_dof --out learned
  python -c "import casadi; print(casadi.Function.load('learned/dae.casadi'))\""""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm export casadi`."""
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder to write to")


def run(args: argparse.Namespace) -> int:
    """Writes the files and names them."""
    from lfdm_ros.exports.casadi_files import write_casadi
    from lfdm_ros.exports.variables import exported
    from lfdm_ros.vehicles import load_vehicle

    export = exported(load_vehicle(args.vehicle), args.model, args.tyre)
    made = write_casadi(export, args.out)
    print(f"{args.out}: {export.model.name} of {export.vehicle.name}: {', '.join(path.name for path in made)}", file=sys.stderr)
    return 0
