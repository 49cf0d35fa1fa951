"""Write a vehicle for other tools: as C, or for a browser."""

import argparse

from lfdm_ros.cli import export_c, export_wasm

EPILOG = export_c.EPILOG

_FORMS = {"c": (export_c, "one C file and its header, which need nothing else"),
          "wasm": (export_wasm, "WebAssembly, a loader in JavaScript, and a page to drive the vehicle on")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    forms = parser.add_subparsers(dest="form", metavar="FORM", required=True)
    for name, (module, summary) in _FORMS.items():
        form = forms.add_parser(name, help=summary, epilog=module.EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(form)
        form.set_defaults(run_form=module.run)


def run(args: argparse.Namespace) -> int:
    return int(args.run_form(args))
