"""run all nodes for a long time, and check memory, shared memory, processes and messages

The run is `lfdm up` in processes of its own, with --page `lfdm cockpit`. Exit status 1: memory grew by more than 5 %, shared memory or
processes were left, messages were lost, an error was logged, the page lost its connection, or the run did not end properly."""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.files import write_text
from lfdm_ros.reports import NamedValue, add_figure_argument, draw_values, require_figure, save_figure

EPILOG = """examples:
  lfdm soak                                     # an hour of simulated driving at 10 times real time
  lfdm soak --wall 360 --json soak.json         # six minutes by the wall clock
  lfdm soak --page --wall 3600                  # the cockpit, with a page that reads and drives
  lfdm soak --stack autonomy --composed --duration 60 --speed 0"""
_RECIPE = "recipe.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm soak`."""
    parser.add_argument("--stack", metavar="STACK.yaml",
                        help="stack with a simulator, by name or file (default: soak, which has all nodes; with --page: shared_human)")
    parser.add_argument("--page", action="store_true", help="run `lfdm cockpit`, with a page without a browser that reads and drives")
    parser.add_argument("--duration", type=float, default=3600.0, metavar="S", help="simulated seconds (default: %(default)g)")
    parser.add_argument("--speed", type=float, metavar="F",
                        help="simulated seconds per second; 0: as fast as possible (default: 10, with --page 1)")
    parser.add_argument("--wall", type=float, default=7200.0, metavar="S", help="end after S seconds (default: %(default)g)")
    parser.add_argument("--composed", action="store_true", help="all nodes in one process, instead of one each")
    parser.add_argument("--set", action="append", default=[], metavar="NODE.PARAM=VALUE", dest="overrides", help="as of lfdm up")
    parser.add_argument("--bag", type=Path, metavar="BAG", help="folder for the recording (default: removed after the run)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    add_figure_argument(parser, "the growth of each process with its 95 %% interval, and its memory from the warm-up to the end")


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm soak`; returns the exit status."""
    from lfdm_lab.fuzzing.drive import RECIPE, drive_bag
    from lfdm_lab.stacks.soak import soak
    from lfdm_ros.stacks.stack import load_stack, parse_override

    for name in ("duration", "wall"):
        if not getattr(args, name) > 0.0:
            raise InputError(f"--{name} {getattr(args, name):g}: give more than 0 s")
    if args.json is not None and not args.json.resolve().parent.is_dir():
        raise InputError(f"--json {args.json}: no folder {args.json.parent}")
    require_figure(args.figure)
    if args.page and args.composed:
        raise InputError("--page: the processes are those of its stack; leave out --composed")
    name, speed = args.stack or ("shared_human" if args.page else "soak"), args.speed
    if speed is None:
        speed = 1.0 if args.page else 10.0
    stack = load_stack(name)
    if not stack.declares("stop_time"):
        raise InputError(f"--stack {name}: it has no simulator, whose time ends the run")
    for text in args.overrides:
        stack.with_override(*parse_override(text), f"--set {text}")
    with tempfile.TemporaryDirectory(prefix="lfdm_soak_") as place:
        folder, overrides = Path(place), dict(text.split("=", 1) for text in args.overrides)
        if any(entry.executable == "calibrator" for entry in stack.nodes):  # give it one calibration to do
            (folder / "watched").mkdir()
            drive_bag(folder / "watched" / "drive")
            (folder / _RECIPE).write_text(RECIPE, encoding="utf-8")
            overrides = {"watch_directory": str(folder / "watched"), "recipe": str(folder / _RECIPE), "store": str(folder / "store"),
                         **overrides}
        result = soak(name, args.bag or folder / "bag", seconds=args.duration, speed=speed, wall=args.wall,
                      composed=args.composed, page=args.page, overrides=overrides,
                      report=lambda line: print(line, file=sys.stderr, flush=True))
    if args.json is not None:
        write_text(args.json, json.dumps(result.record(), indent=2) + "\n")
    print(_table(result))
    if args.figure is not None:
        growths = [*result.processes, *([result.total] if result.total else [])]
        save_figure(draw_values([("growth [MB/h], 95 %", [NamedValue(g.name, g.slope, g.low, g.high) for g in growths]),
                                 ("memory at the end, from that after the warm-up [MB]",
                                  [NamedValue(g.name, g.end, min(g.start, g.end), max(g.start, g.end)) for g in growths])]), args.figure)
    for failure in result.failures:
        print(f"lfdm soak: {failure}", file=sys.stderr)
    return 1 if result.failures else 0


def _table(result: Any) -> str:
    lines = [f"{result.stack}: simulated {result.simulated_seconds:.1f} s in {result.wall_seconds:.1f} s, {result.speed_factor:.2f} x real "
             f"time, {result.laps} times back to the start; exit status {result.exit_status}",
             f"{'process':24} {'MB':>8} {'at the end':>10} {'growth':>8} {'MB/h':>8} {'CPU s/s':>8}  "
             f"{'95 % of MB/h':20} {'files':14} sockets"]
    for g in (*result.processes, *([result.total] if result.total else [])):
        lines.append(f"{g.name:24} {g.start:8.1f} {g.end:10.1f} {100 * g.share:7.2f}% {g.slope:8.1f} {g.cost:8.3f}  "
                     f"{f'{g.low:.1f} to {g.high:.1f}':20} {', '.join(map(str, g.files)):14} {', '.join(map(str, g.sockets))}")
    lines.append("files, sockets: after the warm-up, at the end, at most")
    lines.append(f"shared memory: {result.segments_most} segments at most, {len(result.segments_left)} left; bag: {result.bag}")
    return "\n".join(lines)
