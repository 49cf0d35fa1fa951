"""List the vehicle models with their states, inputs, outputs and parameters."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict

from lfdm_ros.models import Field, get_model, model_names

EPILOG = "example:\n  lfdm models eight_dof\n  lfdm models --json"
_KINDS = ("states", "inputs", "outputs", "parameters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", help="only these models")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def _record(field: Field) -> dict[str, object]:
    return {key: (None if isinstance(value, float) and math.isinf(value) else value)
            for key, value in asdict(field).items() if key != "strict"}


def run(args: argparse.Namespace) -> int:
    models = [get_model(name) for name in args.name or model_names()]
    if args.json:
        print(json.dumps([{"name": m.name, "description": m.description, "source": m.source,
                           **{kind: [_record(f) for f in getattr(m, kind)] for kind in _KINDS}} for m in models], indent=1))
        return 0
    for model in models:
        print(f"{model.name}: {model.description}\n  source: {model.source}")
        for kind in _KINDS:
            print(f"  {kind}")
            for field in getattr(model, kind):
                print(f"    {field.name:32} {field.unit:12} {field.description}" + (f" ({field.symbol})" if field.symbol else ""))
    return 0
