"""record, inspect, import and damage rosbag2 recordings"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from random import Random

from lfdm_ros.cli.progress import progress
from lfdm_ros.errors import InputError

EPILOG = """examples:
  lfdm bag import acc.csv --mapping sbel_hmmwv --out acc_bag
  lfdm bag info acc_bag
  lfdm bag record --out drive --topics /vehicle/state /control/command
  lfdm bag fuzz drive --seeds 20 --out damaged"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands record, info, import and fuzz."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def add(name: str, summary: str, example: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=summary, description=summary, epilog=f"example: {example}")

    record = add("record", "write the raw bytes of topics to a new bag until Ctrl-C; a killed recorder leaves a readable bag",
                 "lfdm bag record --out drive --topics /vehicle/state /control/command --duration 60")
    record.add_argument("--out", required=True, metavar="BAG", help="folder to create")
    which = record.add_mutually_exclusive_group(required=True)
    which.add_argument("--topics", nargs="+", metavar="TOPIC", help="topics to record")
    which.add_argument("--all", action="store_true", help="record every topic, also those that appear later")
    record.add_argument("--duration", type=float, metavar="S", help="stop after so many seconds")
    _add_storage(record)

    info = add("info", "show what is in a bag, also one that was not closed properly", "lfdm bag info drive --json")
    info.add_argument("bag", metavar="BAG", help="folder of a rosbag2 recording, its .mcap or .db3 file, or a .bag of ROS 1")
    info.add_argument("--json", action="store_true", help="machine-readable")
    info.add_argument("--no-digest", action="store_true", help="do not hash the content (faster on large bags)")

    imported = add("import", "turn a recording in CSV, MAT or NPY files into a bag",
                   "lfdm bag import acc.csv --mapping sbel_hmmwv --out acc_bag")
    imported.add_argument("source", metavar="SOURCE", help="the recording's main file, or its folder; or a folder of recordings, all of "
                          "which are imported")
    imported.add_argument("--mapping", required=True, metavar="FILE.yaml",
                          help="mapping file, or the name of one that ships with the package")
    imported.add_argument("--out", required=True, metavar="BAG", help="folder to create; of several recordings with a bag for each")
    imported.add_argument("--recording", metavar="NAME", help="name of the recording (default: the stem of SOURCE)")
    _add_storage(imported)

    fuzz = add("fuzz", "write damaged copies of a bag, one for each seed, to try readers on",
               "lfdm bag fuzz drive --seeds 20 --out damaged")
    fuzz.add_argument("bag", metavar="BAG", type=Path, help="folder of a rosbag2 recording")
    fuzz.add_argument("--seeds", type=int, default=20, metavar="N", help="copies, of seeds 1 to N (default %(default)s)")
    fuzz.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder to create for DIR/1, DIR/2, ...")


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm bag`; returns the exit status."""
    if args.action == "record":
        # The only part that needs ROS.
        from lfdm_ros.nodes.recorder import record_from_cli

        return int(record_from_cli(args))
    return {"info": _info, "import": _import, "fuzz": _fuzz}[args.action](args)


def _info(args: argparse.Namespace) -> int:
    from lfdm_ros.bags import bag_info, format_info

    info = bag_info(args.bag, digest=not args.no_digest)
    print(json.dumps(info, indent=2) if args.json else format_info(info))
    return 0


def _import(args: argparse.Namespace) -> int:
    from lfdm_ros.bags import recordings_in
    from lfdm_ros.resources import find_config

    mapping = find_config("recordings", args.mapping)
    sources = [Path(args.source)] if args.recording else recordings_in(args.source, mapping)
    if sources == [Path(args.source)]:
        _import_one(args, sources[0], mapping, Path(args.out))
        return 0
    if Path(args.out).exists():
        raise InputError(f"{args.out} exists already; choose another path or remove it")
    refused = []
    for source in sources:
        try:
            _import_one(args, source, mapping, Path(args.out) / source.stem)
        except InputError as error:
            refused.append(error)
            print(f"lfdm bag import: {error}", file=sys.stderr)
    done = len(sources) - len(refused)
    print(f"imported {done} of {len(sources)} recordings to {args.out}" + ("; other commands take this folder as --bag" if done else ""))
    if refused:
        raise InputError(f"{args.source}: {len(refused)} of {len(sources)} recordings were not imported, the first since {refused[0]}")
    return 0


def _import_one(args: argparse.Namespace, source: Path, mapping: Path, out: Path) -> None:
    from lfdm_ros.bags import import_recording

    with progress(f"importing {source}"):
        counts = import_recording(source, mapping, out, args.recording, args.storage,
                                  warn=lambda line: print(f"lfdm bag import: warning: {line}", file=sys.stderr))
    for topic, count in counts.items():
        print(f"{topic}: {count} messages")
    print(f"wrote {out}")


def _fuzz(args: argparse.Namespace) -> int:
    from lfdm_ros.fuzzing import damage_bag

    if args.seeds < 1:
        raise InputError(f"--seeds {args.seeds}: give 1 or more")
    if not args.bag.is_dir():
        raise InputError(f"{args.bag} is no folder of a recording")
    try:
        args.out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out {args.out}: {error.strerror}") from None
    for seed in range(1, args.seeds + 1):
        damage = damage_bag(args.bag, args.out / str(seed), Random(f"bags {seed}"))
        print(f"{args.out / str(seed)}: {damage.what}")
    return 0


def _add_storage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap", help="storage of the bag (default: mcap)")
