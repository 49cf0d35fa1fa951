"""infer vehicle parameters from recordings"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lfdm_ros.bounds import CHAINS, DRAWS, SEEDS
from lfdm_ros.cli.common import add_backend, check_bounds, show_progress
from lfdm_ros.documents import parse_yaml
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.files import write_text
from lfdm_ros.reports import NamedValue, add_figure_argument, by_unit, draw_values, require_figure, save_figure

if TYPE_CHECKING:
    from lfdm_ros.calibration import Recipe
    from lfdm_ros.calibration.progress import Progress

EPILOG = """example:
  lfdm bag import acc.csv --mapping sbel_hmmwv --out acc        (also rr_1, simp_ramp)
  lfdm calibrate hmmwv --bag acc --bag rr_1 --bag simp_ramp --out result
  lfdm calibrate hmmwv --bag acc --bag rr_1 --bag simp_ramp --sampler least_squares --out quick
  lfdm calibrate --new monday --vehicle my_car.yaml --out my_recipe.yaml   (proposes one, and says why)
  lfdm calibrate my_recipe --bag monday --check                            (what can it teach? what to drive?)
  lfdm calibrate my_recipe --bag monday --out one
  lfdm calibrate friction_field --survey seen.csv --out result             (a friction field's values; then also ground.yaml)
  lfdm calibrate my_recipe --bag tuesday --continue one --out two          (the posterior of both)

The directory then holds posterior.nc (ArviZ), vehicle.yaml (posterior means, ready to simulate), vehicle_before.yaml (the vehicle as it
was), summary.json and report.html.
Ctrl-C keeps the stages that are done; the same command again goes on from there."""

LINE_INTERVAL = {True: 0.2, False: 10.0}  # [s], on a terminal or in a log
JSON_INTERVAL = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help="recipe file, or the name of one that ships with the package")
    parser.add_argument("--bag", action="append", default=[], metavar="BAG",
                        help="a recording that the recipe names, or a folder of bags; repeat")
    parser.add_argument("--survey", metavar="FILE", help="of a recipe of a friction field: CSV with columns x, y [m], friction and perhaps "
                        "noise")
    parser.add_argument("--out", metavar="DIR", help="directory for the results; with --new the recipe's file")
    parser.add_argument("--new", action="append", default=[], metavar="BAG", help="propose a recipe from this bag, or with --mapping from "
                        "any other recording, and say why; repeat")
    parser.add_argument("--vehicle", metavar="NAME", help="with --new: the vehicle that was driven, a name or a file (lfdm vehicle new)")
    parser.add_argument("--model", metavar="NAME", help="with --new: the model to calibrate (default: as the recordings suggest)")
    parser.add_argument("--exact-steering", action="store_true", help="with --new: the recorded angle of the road wheels is exact, as a "
                        "simulator's, and has no unknown scale")
    parser.add_argument("--mapping", metavar="FILE.yaml", help="with --new: the mapping that imports the recordings")
    parser.add_argument("--check", action="store_true", help="report identifiable parameters of the bags, and missing manoeuvres, without "
                        "sampling; with --new, of the proposed recipe")
    add_figure_argument(parser, "mean and 94 %% interval of each unknown; with --check: posterior over prior width")
    parser.add_argument("--json", action="store_true", help="with --check: the report as JSON, by stage")
    parser.add_argument("--draws", type=_positive, metavar="N", help="draws of each chain (default: the recipe's)")
    parser.add_argument("--chains", type=_positive, metavar="N", help="independent chains (default: the recipe's)")
    parser.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same draws (default: the recipe's)")
    from lfdm_ros.samplers.sampler import SAMPLERS

    parser.add_argument("--sampler", metavar="NAME", help="; ".join(f"{name}: {sampler.description}" for name, sampler in SAMPLERS.items())
                        + " (default: the recipe's)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the sampler; repeat. " + "; ".join(
        f"{name}: " + ", ".join(f"{option.name} ({option.value:g}: {option.description})" for option in sampler.options)
        for name, sampler in SAMPLERS.items() if sampler.options))
    parser.add_argument("--ground", metavar="NAME", help="the bags were recorded on this ground (config/grounds, a YAML file, a bag); "
                        "recorded: on the one that each of them holds (default: what the recipe says, else a level road)")
    parser.add_argument("--errors", metavar="NAME", help="white, ar1 or inflated instead of the error model of the recipe's stages")
    parser.add_argument("--continue", dest="continued", metavar="DIR", help="results of the same recipe: its posterior is updated with the "
                        "bags that it has not seen")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="work on a Dask cluster: tcp://HOST:PORT, or local:N for N processes here; "
                        "its workers must see the bags at the same paths")
    add_backend(parser)
    parser.add_argument("--progress-json", action="store_true", help="one JSON object a line on standard output instead of the table")


def run(args: argparse.Namespace) -> int:
    require_figure(args.figure)
    if args.new:
        return _propose(args)
    if args.recipe is None:
        raise InputError("RECIPE is missing; --new BAG --vehicle NAME proposes one")
    check_bounds(args, {"draws": DRAWS, "chains": CHAINS, "seed": SEEDS})
    from lfdm_ros.calibration import calibrate, load_recipe
    from lfdm_ros.calibration.field_calibration import is_field_recipe

    if is_field_recipe(args.recipe):
        return _run_field(args)
    if args.survey is not None:
        raise InputError(f"--survey: {args.recipe} is no recipe of a friction field; give recordings with --bag")
    if not args.bag:
        raise InputError("--bag BAG is missing: a recording that the recipe names")
    recipe = load_recipe(args.recipe, errors=args.errors, ground=args.ground)
    if args.check:
        return check(recipe, args.bag, as_json=args.json, figure=args.figure)
    if args.out is None:
        raise InputError("--out DIR is missing: where the results go (or --check, to see first what the bags can teach)")
    if args.progress_json:
        # A parent that reads the reports ends the run by SIGINT, which background programs of a shell and their children ignore.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if args.continued is not None and not args.scheduler:
        from lfdm_ros.calibration.run import check_continues_from

        check_continues_from(args.continued)
    if not (args.progress_json or args.scheduler):  # the parent, or another machine, checks the bags itself
        print_notes(args.bag)
    settings = {"draws": args.draws, "chains": args.chains, "seed": args.seed, "sampler": args.sampler,
                "options": read_options(args.option), "continued": args.continued}
    if args.scheduler is not None:
        from lfdm_ros.calibration.run import calibrate_on_cluster
        from lfdm_ros.scheduling import get_scheduler

        with get_scheduler(args.scheduler) as scheduler:
            summary = calibrate_on_cluster(scheduler, recipe, args.bag, args.out, **settings)
    else:
        with closing(ProgressJson() if args.progress_json else HumanLine()) as show:
            summary = calibrate(recipe, args.bag, args.out, **settings, progress=show)
    if not args.progress_json:
        _print_table(summary, args.out)
    _draw([stage["parameters"] for stage in summary["stages"]], args.figure)
    return 0


def _run_field(args: argparse.Namespace) -> int:
    from lfdm_ros.calibration.field_calibration import calibrate_field, load_field_recipe

    refuse_of_field(args, ("bag", "check", "sampler", "errors", "ground", "continued", "scheduler"))
    recipe = load_field_recipe(args.recipe)
    for name, meaning in (("survey", "the CSV of places where friction was seen (x, y, friction)"), ("out", "where the results go")):
        if getattr(args, name) is None:
            raise InputError(f"--{name} is missing: {meaning}")
    if args.progress_json:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with closing(ProgressJson() if args.progress_json else HumanLine()) as show:
        summary = calibrate_field(recipe, args.survey, args.out, draws=args.draws, chains=args.chains, seed=args.seed,
                                  options=read_options(args.option), progress=show)
    if not args.progress_json:
        _print_field(summary, args.out)
    _draw([summary["parameters"]], args.figure)
    return 0


def _draw(tables: Sequence[dict[str, Any]], figure: Path | None) -> None:
    """Draws posteriors, of one table for each stage, where a figure is requested."""
    if figure is not None:
        save_figure(draw_values(by_unit((row["unit"] or "1", NamedValue(name, row["mean"], row["hdi_3%"], row["hdi_97%"]))
                                        for table in tables for name, row in table.items())), figure)


def refuse_of_field(args: argparse.Namespace, names: Sequence[str]) -> None:
    """Raises InputError for options that a recipe of a friction field has no use for."""
    for name in names:
        if getattr(args, name) not in (None, [], False):
            shown = "continue" if name == "continued" else name
            raise InputError(f"--{shown}: a recipe of a friction field has no use for it; leave it out")


def read_options(given: Sequence[str]) -> dict[str, Any]:
    """Parses options of a sampler, NAME=VALUE each. Raises InputError: one is written otherwise."""
    options = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InputError(f"--option {quote(text)}: expected NAME=VALUE, for example steps=20")
        options[name] = parse_yaml(value, f"--option {quote(text)}")
    return options


class ProgressJson:
    """Progress as JSON, one object a line."""

    def __init__(self) -> None:
        self._last = -math.inf
        self._stage = -1

    def __call__(self, state: Progress) -> None:
        if state.stage_index != self._stage or state.progress == 1.0 or time.monotonic() - self._last >= JSON_INTERVAL:
            self._last, self._stage = time.monotonic(), state.stage_index
            print(state.line, flush=True)

    def close(self) -> None:
        pass


class HumanLine:
    """Progress on standard error: a line that is rewritten on a terminal, one now and then in a log."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._last = -math.inf
        self._open = False

    def __call__(self, state: Progress) -> None:
        finished = state.progress == 1.0
        if not finished and time.monotonic() - self._last < LINE_INTERVAL[self._terminal]:
            return
        self._last = time.monotonic()
        left = ""
        if math.isfinite(state.time_left) and not finished:
            left = f", {state.time_left:.0f} s left" if state.time_left < 100 else f", {state.time_left / 60:.0f} min left"
        text = f"stage {state.stage_index + 1}/{state.stage_count} {state.stage}: {state.progress:4.0%}, {state.message}{left}"
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K{text}" + ("\n" if finished else ""))
            self._open = not finished
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self._open:
            sys.stderr.write("\n")
            self._open = False


def _print_table(summary: dict[str, Any], out: str) -> None:
    width = max(len(name) for stage in summary["stages"] for name in stage["parameters"])
    for stage in summary["stages"]:
        held_out = stage["held_out"]["pieces"]
        cut = f"{len(stage['data'])} pieces fitted, {held_out} held out" if held_out or len(stage["data"]) > 1 else "one piece fitted"
        print(f"{stage['name']}: {cut}; {stage['evaluations']} simulations in {stage['seconds']:.1f} s")
        for line in stage["identifiability"].get("text", ()):
            print(f"  {line.removeprefix(stage['name'] + ': ')}")
        if objective := stage.get("objective"):
            print(f"  objective ({objective['scale']}): {objective['start']:.8g} -> {objective['optimum']:.8g}")
        for name, row in stage["parameters"].items():
            r_hat = f"  R-hat {row['r_hat']:.4f}" if math.isfinite(row["r_hat"]) else ""
            value = objective["optimum_at"].get(name, row["mean"]) if objective else row["mean"]
            print(f"  {name:{width}}  {value:12.6g} ± {row['sd']:<10.3g} {row['unit']:12}{r_hat}")
    print("RMSE: prior's medians -> what is passed on (single draws 5 to 95 %); out of sample, and share in 90 % intervals (widened)")
    for channel, row in summary["rmse"].items():
        more = ""
        if unseen := summary["out_of_sample"].get(channel):
            widened = unseen["coverage_90_widened"]
            more = f"; {unseen['rmse']:.4g}, {unseen['coverage_90']:.0%}" + (f" ({widened:.0%})" if math.isfinite(widened) else "")
        print(f"  {channel:{width}}  {row['prior_response']:10.4g} -> {row['response']:.4g} ({row['low']:.3g} to {row['high']:.3g}){more}")
    print(*(f"warning: {warning}" for warning in summary["warnings"]), summary["baseline"]["text"],
          f"wrote {out}: posterior.nc, vehicle.yaml, summary.json, report.html", sep="\n")


def _print_field(summary: dict[str, Any], out: str) -> None:
    print(f"{summary['places']} places: {summary['evaluations']} likelihoods in {summary['seconds']:.1f} s")
    for name, row in summary["parameters"].items():
        print(f"  {name:8} {row['mean']:10.4g} ± {row['sd']:<9.3g} {row['unit']:4} R-hat {row['r_hat']:.4f}   "
              f"{row['sd_over_prior_sd']:.2f} times as wide as the prior")
    print(*(f"  {group['text']}" for group in summary["untold"]), *(f"warning: {warning}" for warning in summary["warnings"]),
          f"wrote {out}: posterior.nc, summary.json, ground.yaml", sep="\n")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def check(recipe: Recipe, bags: Sequence[str], *, as_json: bool, figure: Path | None = None, **more: Any) -> int:
    """Prints the identifiability of a recipe from bags, as JSON with `more`, and draws it; returns the exit status."""
    from lfdm_ros.calibration.scoring import score_recordings

    print_notes(bags)
    with show_progress("driving the recordings with vehicles from the priors"):
        scores = score_recordings(recipe, bags)
    for score in scores.values():
        score["known"] = {
            unknown: "well known" if share < 0.1 else "known" if share < 0.5 else "hardly known" if share < 0.9 else "unknown"
            for unknown, share in score.get("expected", {}).items()}
    if as_json:
        print(json.dumps({**more, "stages": scores}))
    else:
        _print_scores(scores)
    if figure is not None:
        panels = [(f"{name}: expected standard deviation of the posterior over the prior's",
                   [NamedValue(unknown, share, share, share) for unknown, share in score.get("expected", {}).items()])
                  for name, score in scores.items()]
        save_figure(draw_values(panels, [1.0]), figure)
    return int(any("error" in score for score in scores.values()))


def print_notes(bags: Sequence[str]) -> None:
    """Prints on stderr how bags were recovered and which of their values may be wrong, before minutes are spent on them."""
    from lfdm_ros.bags import bags_in, open_bag

    for path in (path for given in bags for path in bags_in(Path(given))):
        with open_bag(path) as bag:
            if bag.note:
                print(f"warning: {path}: {bag.note}", file=sys.stderr)


def _print_scores(scores: dict[str, dict[str, Any]]) -> None:
    for name, score in scores.items():
        if "error" in score:
            print(*score["text"], sep="\n")
            continue
        print(f"{name}: the recordings tell {score['informed_directions']} of {score['unknowns']} directions (posterior over prior sd, "
              f"expected over {score['points']} points)")
        for line in score["counted"]:
            print(f"  {line}")
        width = max(map(len, score["expected"]))
        for unknown, share in score["expected"].items():
            print(f"  {unknown:{width}}  {share:6.3f}  {score['known'][unknown]}")
        for group in score["untold"]:
            print(f"  {group['text']}")


def _propose(args: argparse.Namespace) -> int:
    """Writes the recipe to --out, after checking that `lfdm calibrate` can read it, and prints decisions and reasons."""
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
        import_recording(source, mapping, bags[-1], warn=lambda line: print(f"warning: {line}", file=sys.stderr))
    return bags
