"""Write a vehicle for other tools: as an FMU, as C, for a browser, or as functions of CasADi."""

import argparse

from lfdm_ros.cli import export_c, export_casadi, export_fmu, export_wasm

EPILOG = export_fmu.EPILOG

_FORMS = {"fmu": (export_fmu, "an FMU (FMI 2.0 or 3.0), or an SSP with the draws of a posterior"),
          "c": (export_c, "one C file and its header, which need nothing else"),
          "wasm": (export_wasm, "WebAssembly, a loader in JavaScript, and a page to drive the vehicle on"),
          "casadi": (export_casadi, "serialized functions of CasADi, for other optimal control")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_subparsers(dest="form", metavar="FORM", required=True)
    for name, (module, summary) in _FORMS.items():
        form = forms.add_parser(name, help=summary, epilog=module.EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
        form.add_argument("--vehicle", required=True, help="name in config/vehicles, or a YAML file, as that of a calibration's result")
        form.add_argument("--model", default="eighteen_dof", help="model name, see `lfdm models` (default %(default)s)")
        form.add_argument("--tyre", help="tyre model (default: the vehicle's)")
        module.add_arguments(form)
        form.set_defaults(run_form=module.run)


def run(args: argparse.Namespace) -> int:
    return int(args.run_form(args))
