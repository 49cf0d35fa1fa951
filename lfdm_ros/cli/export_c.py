"""`lfdm export c`: a vehicle as one C file and one header."""

import argparse
import sys
from pathlib import Path

from lfdm_ros.cli.common import show_progress

EPILOG = """Steps, batches of vehicles, slopes and outputs with exact derivatives, and the start of a run, in C99 without
allocation; the header says how each is called. Scalars by default; -DLFDM_VECTORS chooses vectors, which gcc and clang know:
  cc -std=c99 -O2 -c NAME.c
  gcc -std=c99 -O3 -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math -freciprocal-math \\
    -fno-if-conversion -DLFDM_VECTORS -c NAME.c

example:
  lfdm export c --vehicle hmmwv --model eight_dof --out hmmwv_c
  lfdm export c --vehicle result/vehicle.yaml --model eighteen_dof --name plant --out firmware/plant"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm export c`."""
    parser.add_argument("--name", default="", help="begins the names of files and functions (default: VEHICLE_MODEL)")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder to write to")


def run(args: argparse.Namespace) -> int:
    """Writes the files and says what they hold."""
    from lfdm_ros.exports.c_files import write_c
    from lfdm_ros.vehicles import load_vehicle

    vehicle = load_vehicle(args.vehicle)
    model = vehicle.model(args.model, args.tyre)
    with show_progress("writing the equations"):
        files = write_c(vehicle, model, args.out, args.name)
    print(f"{files.source}, {files.header.name}: {model.name} of {vehicle.name}, {len(model.states)} states, "
          f"{len(model.parameters)} parameters, {files.source.stat().st_size / 1000:.0f} kB", file=sys.stderr)
    return 0
