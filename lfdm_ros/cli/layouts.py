"""write files for RViz, Lichtblick (Foxglove) and PlotJuggler that show a stack"""

import argparse
from pathlib import Path

from lfdm_ros.cli.up import add_stack
from lfdm_ros.files import write_text

EPILOG = """examples:
  lfdm layouts autonomy --out layouts
  lfdm layouts simulator --namespace a --namespace b --out layouts     # a set of files for each
  rviz2 -d layouts/autonomy.rviz --ros-args -p use_sim_time:=true"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stack(parser)
    parser.add_argument("--out", metavar="DIR", required=True, help="folder for the files, made if it is not there")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.stacks.layouts import layouts
    from lfdm_ros.stacks.stack import parse_override, prepare_stack

    stack, _ = prepare_stack(args.stack, overrides=dict(parse_override(text) for text in args.overrides), namespaces=args.namespace)
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    for name, content in layouts(stack, Path(args.stack).stem).items():
        write_text(out / name, content)
        print(out / name)
    return 0
