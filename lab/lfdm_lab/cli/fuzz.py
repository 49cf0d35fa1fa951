"""Damage inputs of the package by seed, and count the outcomes.

Outcomes: answer; refused (one line with the reason, exit status 2); traceback (or a crash, or many lines); hang (killed after --limit);
lost (undamaged data that is no longer read, or messages lost without a report)."""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.files import write_text

EPILOG = """examples:
  lfdm fuzz bags --seeds 300
  lfdm fuzz nodes --seeds 300
  lfdm fuzz files --seeds 500 --json files.json
  lfdm fuzz files --seed 17 --keep damaged
  lfdm fuzz graph --duration 3600
  lfdm fuzz page --seeds 100
  lfdm fuzz copies drive --seeds 20 --out damaged

Exit status 1: there were tracebacks, hangs or losses."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands bags, nodes, files, graph, page and copies."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)

    def add(name: str, summary: str, seeds: int) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=summary, description=summary, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
        which = kind.add_mutually_exclusive_group()
        which.add_argument("--seeds", type=int, default=seeds, metavar="N", help="cases, of seeds 1 to N (default %(default)s)")
        which.add_argument("--seed", type=int, metavar="K", help="the case of this seed alone")
        kind.add_argument("--limit", type=float, metavar="S", help="processor time on each core after which a case hangs, or ten "
                                                                   "times as much by the clock (default 60, nodes 120, graph 180)")
        kind.add_argument("--json", type=Path, metavar="FILE", help="also write the counts and the failures there")
        kind.add_argument("--keep", type=Path, metavar="DIR", help="folder to create for the damaged files (default: they are removed)")
        return kind

    bags = add("bags", "damaged recordings, for all readers of recordings", 300)
    bags.add_argument("--bag", type=Path, metavar="BAG", help="recording to damage (default: a short drive, in either storage)")
    nodes = add("nodes", "damaged recordings, played into every subscribing node and used for a calibration", 300)
    nodes.add_argument("--bag", type=Path, metavar="BAG", help="recording to damage (default: a second's drive with all subscribed topics)")
    files = add("files", "damaged vehicles, scenarios, stacks, recipes, mappings, recordings, results and --set texts", 500)
    graph = add("graph", "running stacks: hostile messages, calls and parameters, signals at random times, full disks", 40)
    add("page", "the cockpit's sockets: hostile pages while another page drives", 100)
    graph.add_argument("--duration", type=float, metavar="S", help="continue for S seconds, regardless of --seeds")
    files.add_argument("--of", action="append", default=[], metavar="KIND", help="only this kind of file; repeat")
    copies = kinds.add_parser("copies", help="write damaged copies of a bag, one for each seed, to test readers",
                              epilog="example: lfdm fuzz copies drive --seeds 20 --out damaged")
    copies.add_argument("bag", metavar="BAG", type=Path, help="folder of a rosbag2 recording")
    copies.add_argument("--seeds", type=int, default=20, metavar="N", help="copies, of seeds 1 to N (default %(default)s)")
    copies.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to create for DIR/1, DIR/2, ...")


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm fuzz`; returns the exit status."""
    if args.seeds < 1:
        raise InputError(f"--seeds {args.seeds}: give 1 or more")
    if args.kind == "copies":
        return _write_copies(args.bag, args.seeds, args.out)
    from lfdm_lab.cli import fuzz_cases, fuzz_graph, fuzz_nodes, fuzz_page
    from lfdm_lab.fuzzing import ANSWER, REFUSED, Case, run_cases

    if args.limit is not None and not args.limit > 0.0:
        raise InputError(f"--limit {args.limit:g}: give more than 0 s")
    for path in (args.json, args.keep):
        if path is not None and not path.resolve().parent.is_dir():
            raise InputError(f"{path}: no folder {path.parent}")
    if args.kind == "graph" and args.duration is not None:
        if not args.duration > 0.0:
            raise InputError(f"--duration {args.duration:g}: give more than 0 s")
        args.seeds = sys.maxsize
    seeds = [args.seed] if args.seed is not None else range(1, args.seeds + 1)
    began, totals = time.monotonic(), Counter[str]()
    with ExitStack() as stack:
        if args.keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lfdm_fuzz_")))
        else:
            folder = args.keep
            try:
                folder.mkdir()
            except OSError as error:
                raise InputError(f"--keep {folder}: {error.strerror}") from None
        cases: Iterator[Case] = {
            "bags": lambda: fuzz_cases.bag_cases(seeds, folder, args.bag), "files": lambda: fuzz_cases.file_cases(seeds, folder, args.of),
            "nodes": lambda: fuzz_nodes.node_cases(seeds, folder, totals, args.bag), "page": lambda: fuzz_page.page_cases(seeds),
            "graph": lambda: fuzz_graph.graph_cases(seeds, folder, args.duration)}[args.kind]()
        if args.limit is not None:
            cases = (replace(case, limit=args.limit) for case in cases)
        tally = run_cases(args.kind, cases, print, sys.stderr)
    summary: dict[str, Any] = {**tally.summary(), "seconds": time.monotonic() - began}
    if totals:
        summary["played"] = dict(sorted(totals.items()))
    if args.json is not None:
        write_text(args.json, json.dumps(summary, indent=2))
    print(f"{args.kind}: {summary['cases']} cases in {summary['seconds']:.0f} s: {tally.line()}")
    if totals:
        refused = {name: count for name, count in totals.items() if name.startswith("refused.")}
        print(f"{totals['messages']} messages delivered {totals['delivered']} times: {totals['commands']} commands, "
              f"{sum(refused.values())} refusals for {len(refused)} reasons; {totals['calibrations']} calibrations, "
              f"{totals['calibrations_refused']} refused")
    if tally.failures:
        print(f"one alone: lfdm fuzz {args.kind} --seed {tally.failures[0]['seed']} --keep DIR")
    return 0 if summary["cases"] == summary[ANSWER] + summary[REFUSED] else 1


def _write_copies(bag: Path, seeds: int, out: Path) -> int:
    from lfdm_lab.fuzzing import damage_bag

    if not bag.is_dir():
        raise InputError(f"{bag} is no folder of a recording")
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror}") from None
    for seed in range(1, seeds + 1):
        damage = damage_bag(bag, out / str(seed), Random(f"bags {seed}"))
        print(f"{out / str(seed)}: {damage.description}")
    return 0
