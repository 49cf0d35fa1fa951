"""hardware in the loop: what a recording shows, whether two are equal, what faults do"""

import argparse
import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

from lfdm_ros.cli.common import add_action
from lfdm_ros.errors import InputError
from lfdm_ros.files import write_text
from lfdm_ros.reports import NamedValue, add_figure_argument, draw_values, markdown_table, require_figure, save_figure

EPILOG = """examples:
  lfdm up hil --set mode=lockstep --duration 15 --record drive       # and, beside it: python examples/can_device.py
  lfdm hil report drive
  lfdm hil compare drive again
  lfdm hil faults --only steering yaw_rate"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = partial(add_action, parser.add_subparsers(dest="action", metavar="ACTION", required=True))
    report = add("report", "write a page of a recorded run: timing, faults, responses", "lfdm hil report drive --out drive.html")
    report.add_argument("bag", metavar="BAG", help="folder of a rosbag2 recording of hil_bridge")
    report.add_argument("--out", metavar="FILE.html", help="file to write (default: BAG.html beside the bag)")
    compare = add("compare", "check that two recordings of lockstep runs have equal values; exit 1 if not", "lfdm hil compare drive again")
    compare.add_argument("one", metavar="BAG")
    compare.add_argument("other", metavar="BAG")
    faults = add("faults", "drive a lane change with each fault on each signal, and report the outcomes",
                 "lfdm hil faults --json matrix.json")
    faults.add_argument("--only", nargs="+", metavar="NAME", default=[], help="kinds or signals (default: all)")
    add_figure_argument(faults, "the largest distance from the lane change by fault, beside the room of the lane")
    faults.add_argument("--json", metavar="FILE", help="write a record for each drive to this file")


def run(args: argparse.Namespace) -> int:
    return {"report": _report, "compare": _compare, "faults": _faults}[args.action](args)


def _report(args: argparse.Namespace) -> int:
    from lfdm_ros.hil.report import report

    bag = Path(args.bag)
    out = Path(args.out) if args.out else bag.resolve().with_suffix(".html")
    write_text(out, report(bag))
    print(f"wrote {out}")
    return 0


def _compare(args: argparse.Namespace) -> int:
    from lfdm_ros.hil.report import differences

    same, lines = differences(args.one, args.other)
    for topic, count in same.items():
        print(f"{topic}: {count} messages, equal")
    for line in lines:
        print(line)
    return 1 if lines else 0


def _faults(args: argparse.Namespace) -> int:
    require_figure(args.figure)
    from lfdm_ros.hil.faults import GROUPS, KINDS
    from lfdm_ros.hil.matrix import ROOM, faults_of_matrix, matrix, rows

    for name in args.only:
        if name not in KINDS and name not in GROUPS["all"]:
            raise InputError(f"--only {name}: give kinds ({', '.join(KINDS)}) or signals ({', '.join(GROUPS['all'])})")
    chosen = [f for f in faults_of_matrix() if not args.only or f.kind in args.only or f.signal in args.only]
    print(f"{len(chosen) + 1} drives ...", file=sys.stderr)
    outcomes = matrix(chosen)
    print(markdown_table(rows(outcomes)))
    if args.figure is not None:
        values = [NamedValue(f"{o.kind} {o.signal}", o.deviation, o.deviation, o.deviation) for o in outcomes]
        save_figure(draw_values([("largest distance from the lane change [m]; dashed: the room of the lane", values)], [ROOM]), args.figure)
    if args.json:
        records = [{**asdict(o), "noticed": o.noticed, "result": o.result} for o in outcomes]
        write_text(Path(args.json), json.dumps(records, indent=2) + "\n")
    return 0
