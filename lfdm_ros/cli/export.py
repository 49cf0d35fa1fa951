"""Write a vehicle for other tools: an FMU, or functions of CasADi."""

import argparse

from lfdm_ros.cli import export_fmu

EPILOG = export_fmu.EPILOG

_FORMS = {"fmu": (export_fmu, "an FMU (FMI 2.0 or 3.0), or an SSP with the draws of a posterior")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_subparsers(dest="form", metavar="FORM", required=True)
    for name, (module, summary) in _FORMS.items():
        form = forms.add_parser(name, help=summary, epilog=module.EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(form)
        form.set_defaults(run_form=module.run)


def run(args: argparse.Namespace) -> int:
    return int(args.run_form(args))
