"""Write a vehicle for other tools: as an FMU, as C, for a browser, or as functions of CasADi."""

import argparse
import sys
from pathlib import Path

from lfdm_ros.cli.common import check_out, show_progress
from lfdm_ros.errors import InputError
from lfdm_ros.models.declaration import WHEELS

EPILOG = """The FMU is for co-simulation and, where the model has no discrete states (gears), for model exchange too. Inputs
that are set are held over the next step; with FMI 2.0 their slopes can be given (fmi2SetRealInputDerivatives), and
with linear_inputs = true inputs belong to the step's end. start.x, start.y, start.yaw, start.vx say where the vehicle
begins. An --out that ends in .ssp is an SSP.

example:
  lfdm export fmu --vehicle hmmwv --model eighteen_dof --out hmmwv.fmu
  lfdm export fmu --vehicle result/vehicle.yaml --model eleven_dof --draws 50 --fmi 3 --out learned.ssp
  lfdm export fmu --vehicle sedan --model eight_dof --platform linux64,win64,aarch64-linux,macos --out sedan.fmu"""

_C_EPILOG = """Steps, batches of vehicles, slopes and outputs with exact derivatives, and the start of a run, in C99 without
allocation; the header says how each is called. Scalars by default; -DLFDM_VECTORS chooses vectors, which gcc and clang know:
  cc -std=c99 -O2 -c NAME.c
  gcc -std=c99 -O3 -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math -freciprocal-math \\
    -fno-if-conversion -mprefer-vector-width=256 -DLFDM_VECTORS -c NAME.c     (the width: x86-64 only)

example:
  lfdm export c --vehicle hmmwv --model eight_dof --out hmmwv_c
  lfdm export c --vehicle result/vehicle.yaml --model eighteen_dof --name plant --out firmware/plant"""

_WASM_EPILOG = """\
Writes vehicle.wasm, vehicle.js (a module with the class Vehicle) and index.html, a page to drive the vehicle on by keys. A
browser loads them from a server only. Needs the extra 'export'.

example:
  lfdm export wasm --vehicle hmmwv --model eight_dof --out drive_me
  python -m http.server --directory drive_me"""

_TYRE_EPILOG = """A tyre FMU has the variables of Project Chrono's FMU_ForceElementTire: pose and motion of a wheel and the ground
below it in, the load on it out. With --chassis, a vehicle FMU whose wheels have the names of Chrono's FMU_WheeledVehicle
or FMU_WheeledVehiclePtrain, a system (SSP) of that and four tyres is written.

example:
  lfdm export tyre --vehicle hmmwv --tyre tmeasy --wheel fl --out front_left.fmu
  lfdm export tyre --vehicle hmmwv --tyre tmeasy --chassis FMU2cs_WheeledVehiclePtrain.fmu --out car.ssp"""

_CASADI_EPILOG = """Writes step, rhs, outputs and, where the model has no gears, dae (x, z, u, p) -> (ode, alg), each as a file that
casadi.Function.load reads, and vehicle.json with names, units, bounds, parameters and the state at rest.

example:
  lfdm export casadi --vehicle result/vehicle.yaml --model eleven_dof --out learned
  python -c "import casadi; print(casadi.Function.load('learned/dae.casadi'))\""""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_subparsers(dest="form", metavar="FORM", required=True)
    for name, (run_form, summary, epilog) in _FORMS.items():
        form = forms.add_parser(name, help=summary, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
        form.add_argument("--vehicle", required=True, help="name in config/vehicles, or a YAML file, as that of a calibration's result")
        if name != "tyre":
            form.add_argument("--model", default="eighteen_dof", help="model name, see `lfdm models` (default %(default)s)")
        form.add_argument("--tyre", help="tyre model (default: the vehicle's)")
        if name in ("fmu", "tyre"):
            form.add_argument("--fmi", type=int, choices=(2, 3), default=2, help="version of the interface (default %(default)s)")
            form.add_argument("--platform", metavar="NAMES", help="linux64, win64, aarch64-linux, macos, by commas (default: this "
                              "machine's); for others than this machine's the extra 'export' is needed")
            form.add_argument("--step", type=float, default=1e-3, help="longest step of the equations [s] (default %(default)s)")
            form.add_argument("--out", required=True, type=Path, help="file to write, .fmu or .ssp")
            form.add_argument("--draws", type=int, default=0, metavar="N", help="add N draws of the posterior as parameter sets (SSV)")
        if name == "tyre":
            one = form.add_mutually_exclusive_group()
            one.add_argument("--wheel", choices=WHEELS, default=WHEELS[0], help="wheel of the tyre (default %(default)s)")
            one.add_argument("--chassis", type=Path, metavar="FMU", help="vehicle FMU without tyres; --out is an SSP that gives it four")
        elif name == "c":
            form.add_argument("--name", default="", help="begins the names of files and functions (default: VEHICLE_MODEL)")
        if name not in ("fmu", "tyre"):
            form.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder to write to")
        form.set_defaults(run_form=run_form)


def run(args: argparse.Namespace) -> int:
    if getattr(args, "draws", 0) < 0:
        raise InputError(f"--draws {args.draws}: give a number of draws")
    args.run_form(args)
    return 0


def _fmu(args: argparse.Namespace) -> None:
    from lfdm_ros.exports.fmu_file import posterior_draws, write_fmu
    from lfdm_ros.exports.library import own_platform, platforms_named
    from lfdm_ros.exports.variables import exported
    from lfdm_ros.vehicles import load_vehicle

    check_out(args.out, ".fmu", ".ssp")
    platforms = platforms_named(args.platform) if args.platform else [own_platform()]
    export = exported(load_vehicle(args.vehicle), args.model, args.tyre, args.step)
    summary = Path(args.vehicle).parent / "summary.json"
    posterior_summary = summary if Path(args.vehicle).suffix in (".yaml", ".yml") and summary.is_file() else None
    draws = posterior_draws(Path(args.vehicle), [export], args.draws)[0] if args.draws else []
    with show_progress("compiling the equations and linking"):
        write_fmu(export, args.out, args.fmi, platforms, draws, posterior_summary)
    kinds = "co-simulation and model exchange" if export.exchange else "co-simulation"
    drawn = f", {len(draws)} draws" if draws else ""
    print(f"{args.out}: {export.model.name} of {export.vehicle.name}, FMI {args.fmi}.0, {kinds}, for {', '.join(platforms)}; "
          f"{len(export.tunable)} tunable parameters{drawn}, {args.out.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def _tyre(args: argparse.Namespace) -> None:
    from lfdm_ros.exports.fmu_file import posterior_draws, write_fmu
    from lfdm_ros.exports.library import own_platform, platforms_named
    from lfdm_ros.exports.tyre_system import write_tyre_system
    from lfdm_ros.exports.variables import exported_tyre
    from lfdm_ros.vehicles import load_vehicle

    check_out(args.out, ".ssp" if args.chassis else ".fmu")
    platforms, vehicle = platforms_named(args.platform) if args.platform else [own_platform()], load_vehicle(args.vehicle)
    wheels = WHEELS if args.chassis else (args.wheel,)
    tyres = {wheel: exported_tyre(vehicle, wheel, args.tyre, args.step) for wheel in wheels}
    export = tyres[wheels[0]]
    draws = posterior_draws(Path(args.vehicle), list(tyres.values()), args.draws, part=True) if args.draws else [[]] * len(tyres)
    with show_progress("compiling the equations and linking"):
        if args.chassis:
            write_tyre_system(args.chassis, tyres, args.out, args.fmi, platforms, dict(zip(tyres, draws)))
        else:
            write_fmu(export, args.out, args.fmi, platforms, draws[0])
    drawn = f", {len(draws[0])} draws" if args.draws else ""
    print(f"{args.out}: {export.model.name} of {vehicle.name}, {', '.join(wheels)}{f' on {args.chassis}' if args.chassis else ''}, "
          f"FMI {args.fmi}.0, for {', '.join(platforms)}{drawn}, {args.out.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def _c(args: argparse.Namespace) -> None:
    from lfdm_ros.exports.c_files import write_c
    from lfdm_ros.vehicles import load_vehicle

    vehicle = load_vehicle(args.vehicle)
    model = vehicle.model(args.model, args.tyre)
    with show_progress("writing the equations"):
        files = write_c(vehicle, model, args.out, args.name)
    print(f"{files.source}, {files.header.name}: {model.name} of {vehicle.name}, {len(model.states)} states, "
          f"{len(model.parameters)} parameters, {files.source.stat().st_size / 1000:.0f} kB", file=sys.stderr)


def _wasm(args: argparse.Namespace) -> None:
    from lfdm_ros.exports.library import write_wasm
    from lfdm_ros.vehicles import load_vehicle

    vehicle = load_vehicle(args.vehicle)
    model = vehicle.model(args.model, args.tyre)
    with show_progress("writing and compiling the equations"):
        files = write_wasm(vehicle, model, args.out)
    print(f"{args.out}: {model.name} of {vehicle.name}, {files.module.stat().st_size / 1000:.0f} kB; "
          f"python -m http.server --directory {args.out}", file=sys.stderr)


def _casadi(args: argparse.Namespace) -> None:
    from lfdm_ros.exports.casadi_files import write_casadi
    from lfdm_ros.exports.variables import exported
    from lfdm_ros.vehicles import load_vehicle

    export = exported(load_vehicle(args.vehicle), args.model, args.tyre)
    written = write_casadi(export, args.out)
    print(f"{args.out}: {export.model.name} of {export.vehicle.name}: {', '.join(path.name for path in written)}", file=sys.stderr)


_FORMS = {"fmu": (_fmu, "an FMU (FMI 2.0 or 3.0), or an SSP with the draws of a posterior", EPILOG),
          "tyre": (_tyre, "a tyre as an FMU for a vehicle of others, such as Chrono's, or that vehicle on four of them", _TYRE_EPILOG),
          "c": (_c, "one C file and its header, which need nothing else", _C_EPILOG),
          "wasm": (_wasm, "WebAssembly, a loader in JavaScript, and a page to drive the vehicle on", _WASM_EPILOG),
          "casadi": (_casadi, "serialized functions of CasADi, for other optimal control", _CASADI_EPILOG)}
