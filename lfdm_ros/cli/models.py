"""List the vehicle models; of those that are named, the states, inputs, outputs and parameters."""

import argparse
import json
import math
from dataclasses import asdict

from lfdm_ros.models import Field, Model, chassis_slots, get_model, model_names, usual_spec

EPILOG = "example:\n  lfdm models\n  lfdm models eight_dof\n  lfdm models eighteen_dof/tmeasy_nr/gearbox\n  lfdm models --json"
_KINDS = ("states", "inputs", "outputs", "parameters")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="*", help="all of these models, with units (default: a table of all models)")
    parser.add_argument("--json", action="store_true", help="machine-readable, all of each model")


def run(args: argparse.Namespace) -> int:
    models = {name: get_model(usual_spec(name)) for name in args.name or model_names()}
    slots = {name: {slot: list(parts) for slot, parts in chassis_slots(name.split("/")[0]).items()} for name in models}
    if args.json:
        print(json.dumps([{"name": name, "spec": m.name, "description": m.description, "source": m.source, "parts": slots[name],
                           **{kind: [_record(f) for f in getattr(m, kind)] for kind in _KINDS}} for name, m in models.items()], indent=1))
    elif args.name:
        for name, model in models.items():
            _print_model(name, model, slots[name])
    else:
        _print_table(models, slots)
    return 0


def _record(field: Field) -> dict[str, object]:
    return {key: (None if isinstance(value, float) and math.isinf(value) else value)
            for key, value in asdict(field).items() if key != "strict"}


def _print_table(models: dict[str, Model], slots: dict[str, dict[str, list[str]]]) -> None:
    print(f"{'model':22}{'states':>7}{'inputs':>7}{'outputs':>8}{'parameters':>11}  description")
    for name, m in models.items():
        print(f"{name:22}{len(m.states):7}{len(m.inputs):7}{len(m.outputs):8}{len(m.parameters):11}  {m.description.partition(';')[0]}")
    parts: dict[str, dict[str, None]] = {}
    for by_slot in slots.values():
        for slot, names in by_slot.items():
            parts.setdefault(slot, {}).update(dict.fromkeys(names))
    print("\nparts to choose, MODEL/PART/PART:")
    for slot, there in parts.items():
        print(f"  {slot + ':':18}{', '.join(there)}")
    print("\nlfdm models NAME: its states, inputs, outputs and parameters with units, and the parts that it takes")


def _print_model(name: str, model: Model, slots: dict[str, list[str]]) -> None:
    print(f"{name}: {model.description}\n  source: {model.source}")
    if slots:
        parts = "; ".join(f"{slot}: {', '.join(there)}" for slot, there in slots.items())
        print(f"  shown as {model.name}; parts to choose: {parts}")
    for kind in _KINDS:
        print(f"  {kind}")
        for field in getattr(model, kind):
            print(f"    {field.name:32} {field.unit:12} {field.description}" + (f" ({field.symbol})" if field.symbol else ""))
