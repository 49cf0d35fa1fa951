"""`lfdm calibrate --new`: a recipe to begin with, from what recordings hold."""

import argparse
import sys
import tempfile
from pathlib import Path

from lfdm_ros.cli.calibrate_check import check
from lfdm_ros.cli.common import show_progress
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.files import write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm calibrate --new`."""
    parser.add_argument("--new", action="append", default=[], metavar="BAG", help="propose a recipe from this bag, or with --mapping from "
                        "any other recording, and say why; repeat")
    parser.add_argument("--vehicle", metavar="NAME", help="with --new: the vehicle that was driven, a name or a file (lfdm vehicle new)")
    parser.add_argument("--model", metavar="NAME", help="with --new: the model to calibrate (default: as the recordings suggest)")
    parser.add_argument("--exact-steering", action="store_true", help="with --new: the recorded angle of the road wheels is exact, as a "
                        "simulator's, and has no unknown scale")
    parser.add_argument("--mapping", metavar="FILE.yaml", help="with --new: the mapping that imports the recordings")


def run(args: argparse.Namespace) -> int:
    """Writes the recipe to --out, which must be one that `lfdm calibrate` can read, and prints what was decided and why."""
    from lfdm_ros.calibration import load_recipe
    from lfdm_ros.calibration.proposal import propose
    from lfdm_ros.vehicles import load_vehicle

    if args.recipe is not None or args.bag:
        raise InputError("--new proposes a recipe; leave out RECIPE and --bag")
    if args.check and args.mapping:
        raise InputError("--check needs bags: leave out --mapping, or import the recordings first")
    if args.vehicle is None:
        raise InputError("--vehicle NAME is missing: which vehicle was driven (lfdm vehicle new writes one)")
    if args.out is None or Path(args.out).suffix not in (".yaml", ".yml"):
        raise InputError("--out FILE.yaml is missing: where the recipe goes")
    out = Path(args.out)
    if out.exists():
        raise InputError(f"--out {out}: exists already; choose another name or remove it")
    vehicle = load_vehicle(args.vehicle)
    with tempfile.TemporaryDirectory(prefix="lfdm_new_") as folder:
        called, before = args.new, []
        if args.mapping:
            called = [f"bags/{Path(source).stem}" for source in args.new]
            before = [f"lfdm bag import {source} --mapping {args.mapping} --out {bag}" for source, bag in zip(args.new, called)]
        with show_progress("reading the recordings"):
            proposal = propose(_bags(args, Path(folder)), vehicle, args.vehicle, called, before,
                               model=args.model or "", sampler=args.sampler or "", exact_steering=args.exact_steering)
        if not args.json:
            print(*proposal.reasons, sep="\n")
        draft = Path(folder) / out.name
        write_text(draft, proposal.text)
        load_recipe(draft)  # nothing that cannot be read is left at --out
    with prefixing(f"--out {out}", OSError):
        write_text(out, proposal.text)
    if args.check:
        return check(load_recipe(out), called, as_json=args.json, figure=args.figure, reasons=proposal.reasons)
    print(f"wrote {out}; edit it, then:")
    for line in (*before, f"lfdm calibrate {out} --check " + " ".join(f"--bag {bag}" for bag in called)):
        print(f"  {line}")
    return 0


def _bags(args: argparse.Namespace, folder: Path) -> list[Path]:
    if args.mapping is None:
        return [Path(bag) for bag in args.new]
    from lfdm_ros.bags import import_recording, recordings_in
    from lfdm_ros.resources import find_config

    bags: list[Path] = []
    mapping = find_config("recordings", args.mapping)
    for i, source in enumerate(source for given in args.new for source in recordings_in(given, mapping)):
        bags.append(folder / f"{i}_{source.stem}")
        import_recording(source, mapping, bags[-1],
                         warn=lambda line: print(f"warning: {line}", file=sys.stderr))
    return bags
