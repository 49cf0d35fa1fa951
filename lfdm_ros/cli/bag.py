"""record, inspect and import rosbag2 recordings"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from lfdm_ros.cli.common import add_action, show_progress
from lfdm_ros.errors import InputError

EPILOG = """examples:
  lfdm bag import acc.csv --mapping sbel_hmmwv --out acc_bag
  lfdm bag info acc_bag
  lfdm bag record --out drive --topics /vehicle/state /control/command"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = partial(add_action, parser.add_subparsers(dest="action", metavar="ACTION", required=True))
    record = add("record", "write the raw bytes of topics to a new bag until Ctrl-C; a killed recorder leaves a readable bag",
                 "lfdm bag record --out drive --topics /vehicle/state /control/command --duration 60")
    record.add_argument("--out", required=True, metavar="BAG", help="folder to create")
    which = record.add_mutually_exclusive_group(required=True)
    which.add_argument("--topics", nargs="+", metavar="TOPIC", help="topics to record")
    which.add_argument("--all", action="store_true", help="record every topic, also those that appear later")
    record.add_argument("--duration", type=float, metavar="S", help="stop after S seconds")
    _add_storage(record)
    info = add("info", "show what is in a bag, also one that was not closed properly", "lfdm bag info drive --json")
    info.add_argument("bag", metavar="BAG", help="folder of a rosbag2 recording, its .mcap or .db3 file, or a .bag of ROS 1")
    info.add_argument("--json", action="store_true", help="machine-readable")
    info.add_argument("--no-digest", action="store_true", help="do not hash the content (faster on large bags)")
    imported = add("import", "turn a recording in CSV, MAT or NPY files into a bag",
                   "lfdm bag import acc.csv --mapping sbel_hmmwv --out acc_bag")
    imported.add_argument("source", metavar="SOURCE", help="the recording's main file, or its folder; or a folder of recordings, all of "
                          "which are imported")
    imported.add_argument("--mapping", required=True, metavar="FILE.yaml", help="mapping file, or the name of one that ships with the "
                          "package")
    imported.add_argument("--out", required=True, metavar="BAG", help="folder to create; of several recordings with a bag for each")
    imported.add_argument("--recording", metavar="NAME", help="name of the recording (default: the stem of SOURCE)")
    _add_storage(imported)
    former = add("fuzz", "is lfdm fuzz copies now, of the package lfdm_lab; the next release takes the new name only",
                 "lfdm fuzz copies drive --seeds 20 --out damaged")
    former.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")


def run(args: argparse.Namespace) -> int:
    if args.action == "record":  # the only part that needs ROS
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
    from lfdm_ros.bags.reader import is_bag_folder
    from lfdm_ros.resources import find_config

    mapping = find_config("recordings", args.mapping)
    sources = [Path(args.source)] if args.recording else recordings_in(args.source, mapping)
    if sources == [Path(args.source)]:
        _import_one(args, sources[0], mapping, Path(args.out))
        return 0
    out = Path(args.out)
    if out.exists() and (not out.is_dir() or is_bag_folder(out)):
        raise InputError(f"{out} exists already, and is no folder of bags; choose another path or remove it")
    refused, left = [], 0
    for source in sources:
        if (bag := out / source.stem).exists():
            print(f"{bag} is there already and is left as it is; remove it to import {source} again")
            left += 1
            continue
        try:
            _import_one(args, source, mapping, bag)
        except InputError as error:
            refused.append(error)
            print(f"lfdm bag import: {error}", file=sys.stderr)
    done = len(sources) - len(refused) - left
    print(f"imported {done} of {len(sources)} recordings to {out}" + (f", {left} were there" if left else "")
          + ("; other commands take this folder as --bag" if done or left else ""))
    if refused:
        raise InputError(f"{args.source}: {len(refused)} of {len(sources)} recordings were not imported, the first since {refused[0]}")
    return 0


def _import_one(args: argparse.Namespace, source: Path, mapping: Path, out: Path) -> None:
    from lfdm_ros.bags import import_recording

    with show_progress(f"importing {source}"):
        counts = import_recording(source, mapping, out, args.recording, args.storage,
                                  warn=lambda line: print(f"lfdm bag import: warning: {line}", file=sys.stderr))
    for topic, count in counts.items():
        print(f"{topic}: {count} messages")
    print(f"wrote {out}")


def _fuzz(args: argparse.Namespace) -> int:
    from lfdm_ros.cli.main import main

    print("warning: lfdm bag fuzz is lfdm fuzz copies now; the next release takes the new name only", file=sys.stderr)
    return main(["fuzz", "copies", *args.arguments])


def _add_storage(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--storage", choices=("mcap", "sqlite3"), default="mcap", help="storage of the bag (default: mcap)")
