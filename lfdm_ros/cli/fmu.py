"""Describe an FMU, and check a plant file by a short drive (docs/howto/plants.md)."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path

EPILOG = """example:
  lfdm fmu info vehicle.fmu
  lfdm fmu check plant.yaml

Exit status of check 1: something does not agree, such as a sign or a unit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = actions.add_parser("info", help="version, kinds, platforms, step, variables by causality; no code of it runs")
    info.add_argument("fmu", metavar="FILE.fmu", type=Path)
    info.set_defaults(run_action=_info)
    check = actions.add_parser("check", help="drive a plant for some seconds and check signs, units and positions")
    check.add_argument("plant", metavar="PLANT", help="a plant file, an FMU, or a registered plant")
    check.add_argument("--vehicle", default="hmmwv", metavar="NAME", help="its vehicle file (default %(default)s)")
    check.set_defaults(run_action=_check)
    for action in (info, check):
        action.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    return int(args.run_action(args))


def _info(args: argparse.Namespace) -> int:
    from lfdm_ros.plants.fmu import CAUSALITIES, read_fmu

    if args.fmu.suffix == ".ssp":
        return _info_of_system(args.fmu, args.json)
    fmu = read_fmu(args.fmu)
    step = None if math.isnan(fmu.step) else fmu.step
    if args.json:
        print(json.dumps({
            "file": str(fmu.path), "fmi": fmu.version, "name": fmu.name, "kinds": fmu.kinds, "platforms": fmu.platforms, "step": step,
            "input_derivatives": fmu.input_derivatives, "variable_step": fmu.variable_step,
            "variables": [{key: value for key, value in asdict(v).items() if key != "reference"} for v in fmu.variables.values()]}))
        return 0
    print(f"{fmu.path}: {fmu.name or 'no name'}, FMI {fmu.version}, {', '.join(fmu.kinds) or 'no kind'}\n"
          f"  platforms: {', '.join(fmu.platforms) or 'none'}\n"
          f"  step: {'not said' if step is None else f'{step:g} s'}; inputs within a step: {'linear' if fmu.input_derivatives else 'held'}")
    counts = Counter(v.causality for v in fmu.variables.values())
    for causality in (*CAUSALITIES, *sorted(counts.keys() - set(CAUSALITIES))):
        if not counts[causality]:
            continue
        print(f"  {causality}: {counts[causality]}")
        for v in fmu.variables.values():
            if v.causality == causality:
                start = f" = {v.start}" if v.start else ""
                kind = "" if v.type == "Float64" and not v.array else f" {v.type}{' array' if v.array else ''}"
                print(f"    {v.name}{start}{f' [{v.unit}]' if v.unit else ''}{kind}{f': {v.description}' if v.description else ''}")
    return 0


def _info_of_system(path: Path, as_json: bool) -> int:
    from lfdm_ros.plants.fmu import read_ssp

    system = read_ssp(path)
    links = [(f"{a.part}.{a.name}", f"{b.part}.{b.name}") for a, b in ((link.source, link.target) for link in system.links)]
    connectors = {name: f"{v.part}.{v.name}" for name, v in system.variables.items() if name != f"{v.part}.{v.name}"}
    if as_json:
        print(json.dumps({"file": str(path), "links": links, "connectors": connectors, "parts": {
            name: {"name": fmu.name, "fmi": fmu.version, "kinds": fmu.kinds} for name, fmu in system.parts.items()}}))
        return 0
    print(f"{path}: {len(system.parts)} FMUs")
    for name, fmu in system.parts.items():
        print(f"  {name}: {fmu.name or 'no name'}, FMI {fmu.version}, {', '.join(fmu.kinds) or 'no kind'}")
    for source, target in links:
        print(f"  {source} to {target}")
    for name, inside in connectors.items():
        print(f"  {name}: {inside}")
    return 0


def _check(args: argparse.Namespace) -> int:
    from lfdm_ros.plants.checks import check_plant
    from lfdm_ros.plants.plant_file import open_plant
    from lfdm_ros.vehicles import load_vehicle

    findings = check_plant(open_plant(args.plant, load_vehicle(args.vehicle)))
    wrong = sum(not finding.ok for finding in findings)
    if args.json:
        print(json.dumps({"plant": args.plant, "wrong": wrong, "findings": [asdict(finding) for finding in findings]}))
    else:
        for finding in findings:
            print(f"{'ok   ' if finding.ok else 'WRONG'}  {finding.text}")
    return 1 if wrong else 0
