"""`lfdm export fmu`: a vehicle as an FMU, with its parameters tunable, exact derivatives and what its calibration knows of it."""

import argparse
import sys
from pathlib import Path

from lfdm_ros.cli.common import show_progress
from lfdm_ros.errors import InputError

EPILOG = """The FMU is for co-simulation and, where the model has no discrete states (gears), for model exchange too. Inputs
that are set are held over the next step; with FMI 2.0 their slopes can be given (fmi2SetRealInputDerivatives), and
with linear_inputs = true inputs belong to the step's end. start.x, start.y, start.yaw, start.vx say where the vehicle
begins. An --out that ends in .ssp is an SSP.

example:
  lfdm export fmu --vehicle hmmwv --model eighteen_dof --out hmmwv.fmu
  lfdm export fmu --vehicle result/vehicle.yaml --model eleven_dof --draws 50 --fmi 3 --out learned.ssp
  lfdm export fmu --vehicle sedan --model eight_dof --platform linux64,win64,aarch64-linux,macos --out sedan.fmu"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm export fmu`."""
    parser.add_argument("--fmi", type=int, choices=(2, 3), default=2, help="version of the interface (default %(default)s)")
    parser.add_argument("--platform", metavar="NAMES", help="linux64, win64, aarch64-linux, macos, by commas (default: this machine's); "
                        "for others than this machine's the extra 'export' is needed")
    parser.add_argument("--step", type=float, default=1e-3, help="longest step of the equations [s] (default %(default)s)")
    parser.add_argument("--draws", type=int, default=0, metavar="N", help="so many draws of the posterior as parameter sets (SSV)")
    parser.add_argument("--out", required=True, type=Path, help="file to write, .fmu or .ssp")


def run(args: argparse.Namespace) -> int:
    """Writes the file and says what it holds."""
    from lfdm_ros.exports.fmu_file import write_fmu
    from lfdm_ros.exports.library import own_platform, platforms_named
    from lfdm_ros.exports.parameter_sets import posterior_draws
    from lfdm_ros.exports.variables import TUNABLE, exported
    from lfdm_ros.vehicles import load_vehicle

    if args.out.suffix not in (".fmu", ".ssp"):
        raise InputError(f"--out {args.out}: give a name that ends in .fmu or .ssp")
    if not args.out.resolve().parent.is_dir():
        raise InputError(f"--out {args.out}: no folder {args.out.parent}")
    if args.draws < 0:
        raise InputError(f"--draws {args.draws}: give a number of draws")
    platforms = platforms_named(args.platform) if args.platform else [own_platform()]
    export = exported(load_vehicle(args.vehicle), args.model, args.tyre, args.step)
    summary = Path(args.vehicle).parent / "summary.json"
    known = summary if Path(args.vehicle).suffix in (".yaml", ".yml") and summary.is_file() else None
    draws = posterior_draws(Path(args.vehicle), export, args.draws) if args.draws else []
    with show_progress("compiling the equations and linking"):
        write_fmu(export, args.out, args.fmi, platforms, draws, known)
    kinds = "co-simulation and model exchange" if export.exchange else "co-simulation"
    tunable = sum(v.kind == TUNABLE for v in export.variables)
    drawn = f", {len(draws)} draws" if draws else ""
    print(f"{args.out}: {export.model.name} of {export.vehicle.name}, FMI {args.fmi}.0, {kinds}, for {', '.join(platforms)}; "
          f"{tunable} tunable parameters{drawn}, {args.out.stat().st_size / 1000:.0f} kB", file=sys.stderr)
    return 0
