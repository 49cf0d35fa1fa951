"""names that the other commands accept, with a line each"""

import argparse
import json
import re
import textwrap
from pathlib import Path

from lfdm_ros.documents import read_yaml
from lfdm_ros.resources import share_directory

EPILOG = """example:
  lfdm list scenarios
  lfdm list vehicles --json

Models are listed by `lfdm models`, soils by `lfdm soil`. Where a name is accepted, a path to your own file is too."""

KINDS = {"scenarios": "scenarios", "vehicles": "vehicles", "grounds": "grounds", "recipes": "calibration", "stacks": "stacks"}  # in config/
_WIDTH = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="kind of the names")
    parser.add_argument("--json", action="store_true", help="a list of {name, description, path}")


def run(args: argparse.Namespace) -> int:
    files = sorted((share_directory() / "config" / KINDS[args.kind]).glob("*.yaml"))
    described = [(path, describe(path)) for path in files]
    if args.json:
        print(json.dumps([{"name": path.stem, "description": text, "path": str(path)} for path, text in described], indent=1))
        return 0
    width = max(len(path.stem) for path in files)
    for path, text in described:
        print(f"{path.stem:{width}}  {text}")
    return 0


def describe(path: Path) -> str:
    """Returns a line on a file of config/: its description, or the first sentence of its leading comment, up to a semicolon. Raises
    InputError: it cannot be read."""
    document, text = read_yaml(path)
    summary = str((document or {}).get("description") or "")
    if not summary:
        comment = re.match(r"(#.*\n)+", text)
        summary = re.split(r"[.](?=\s|$)", re.sub(r"\s*\n?# ?", " ", comment[0]))[0] if comment else ""
    return textwrap.shorten(summary.split("; ")[0], _WIDTH, placeholder=" ...").rstrip(".:")
