"""List the vehicle models with their states, inputs, outputs and parameters."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict

from lfdm_ros.models import Field, chassis_slots, get_model, model_names, usual_spec

EPILOG = "example:\n  lfdm models eight_dof\n  lfdm models eighteen_dof/tmeasy_nr/gearbox\n  lfdm models --json"
_KINDS = ("states", "inputs", "outputs", "parameters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", help="only these models")
    parser.add_argument("--json", action="store_true", help="machine-readable")


def _record(field: Field) -> dict[str, object]:
    return {key: (None if isinstance(value, float) and math.isinf(value) else value)
            for key, value in asdict(field).items() if key != "strict"}


def run(args: argparse.Namespace) -> int:
    names = args.name or model_names()
    models = {name: get_model(usual_spec(name)) for name in names}
    slots = {name: {slot: list(parts) for slot, parts in chassis_slots(name.split("/")[0]).items()} for name in names}
    if args.json:
        print(json.dumps([{"name": name, "spec": m.name, "description": m.description, "source": m.source, "parts": slots[name],
                           **{kind: [_record(f) for f in getattr(m, kind)] for kind in _KINDS}} for name, m in models.items()], indent=1))
        return 0
    for name, model in models.items():
        print(f"{name}: {model.description}\n  source: {model.source}")
        if slots[name]:
            parts = "; ".join(f"{slot}: {', '.join(there)}" for slot, there in slots[name].items())
            print(f"  shown as {model.name}; parts to choose: {parts}")
        for kind in _KINDS:
            print(f"  {kind}")
            for field in getattr(model, kind):
                print(f"    {field.name:32} {field.unit:12} {field.description}" + (f" ({field.symbol})" if field.symbol else ""))
    return 0
