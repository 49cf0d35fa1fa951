"""`lfdm export wasm`: a vehicle as WebAssembly, with a loader and a page."""

import argparse
import sys
from pathlib import Path

from lfdm_ros.cli.common import show_progress

EPILOG = """Writes vehicle.wasm, vehicle.js (a module with the class Vehicle) and index.html, a page to drive the vehicle on by keys. A
browser loads them from a server only. Needs the extra 'export'.

example:
  lfdm export wasm --vehicle hmmwv --model eight_dof --out drive_me
  python -m http.server --directory drive_me"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm export wasm`."""
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder to write to")


def run(args: argparse.Namespace) -> int:
    """Writes the files and says what they hold."""
    from lfdm_ros.exports.wasm_files import write_wasm
    from lfdm_ros.vehicles import load_vehicle

    vehicle = load_vehicle(args.vehicle)
    model = vehicle.model(args.model, args.tyre)
    with show_progress("writing and compiling the equations"):
        files = write_wasm(vehicle, model, args.out)
    print(f"{args.out}: {model.name} of {vehicle.name}, {files.module.stat().st_size / 1000:.0f} kB; "
          f"python -m http.server --directory {args.out}", file=sys.stderr)
    return 0
