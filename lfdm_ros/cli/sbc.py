"""simulation-based calibration: are a recipe's posteriors as wide as they say?

Truths are drawn from the priors, data simulated with them, inferred; the ranks of the truths among the draws must be uniform."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lfdm_ros.bounds import DRAWS, SEEDS
from lfdm_ros.cli.calibrate import read_options, refuse_of_field
from lfdm_ros.cli.common import add_backend, check_bounds
from lfdm_ros.errors import InputError, suggest

if TYPE_CHECKING:
    from lfdm_ros.calibration.sbc import StudyProgress
    from lfdm_ros.inference.plan import Recipe
    from lfdm_ros.scheduling import Scheduler

EPILOG = """example:
  lfdm sbc --out checked                                     (recipe hmmwv_demo on scenarios that it drives itself)
  lfdm sbc hmmwv --bag acc --bag rr_1 --bag simp_ramp --stage lateral --out checked
  lfdm sbc --likelihood published --seeds 100 --out wrong    (the likelihood of the paper's published code: fails)
  lfdm sbc friction_field --out checked                      (of a friction field's values)
  lfdm sbc --scheduler local:2 --out checked                 (two worker processes; or tcp://HOST:PORT of a Dask scheduler)

The directory then holds results.json and plots. Ctrl-C keeps what is done; the same command goes on from there, more --seeds add to it.
Exit status 1: a stage fails."""

SBC_DEFAULTS: dict[str, Any] = {"seeds": 500, "seed": 1, "draws": 200, "likelihood": "gaussian", "steps": None, "final_steps": None}
BOUNDS = {"seeds": (20, 100_000), "draws": DRAWS, "seed": SEEDS, "steps": (1, 10_000), "final_steps": (1, 10_000)}
DEFAULT_RECIPE = "hmmwv_demo"
RATE = 100.0  # Hz, of the recordings that are made


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help=f"recipe file or name (default {DEFAULT_RECIPE})")
    parser.add_argument("--bag", action="append", default=[], metavar="BAG", help="a recording that the recipe names, for windows, inputs "
                        "and initial states; repeat. Without it, the scenario of that name is driven")
    parser.add_argument("--survey", metavar="FILE", help="of a recipe of a friction field: the places of this CSV (x, y, friction) instead "
                        "of those of the recipe")
    parser.add_argument("--stage", action="append", default=[], metavar="NAME", help="only this stage; repeat (default: all)")
    parser.add_argument("--seeds", type=int, metavar="N", help="replications (default 500)")
    parser.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same study (default 1)")
    parser.add_argument("--draws", type=int, metavar="N", help="draws of each posterior (default 200)")
    parser.add_argument("--sampler", metavar="NAME", help="as lfdm calibrate --help lists them (default: the recipe's)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the sampler; repeat")
    parser.add_argument("--errors", metavar="NAME", help="white, ar1 or inflated instead of the error model of the recipe's stages")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="tcp://HOST:PORT of a Dask scheduler, or local:N for N processes here")
    add_backend(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory for the results")
    add_own_arguments(parser)


def add_own_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds those that other studies of calibrations do not have."""
    parser.add_argument("--likelihood", choices=("gaussian", "published"), help="gaussian (default), or published: that of the code "
                        "published with paper 000, to see that the check catches it")
    parser.add_argument("--steps", type=int, metavar="N", help="the same as --option steps=N")
    parser.add_argument("--final-steps", type=int, metavar="N", help="the same as --option final_steps=N")


def run(args: argparse.Namespace) -> int:
    check_bounds(args, BOUNDS)
    args.recipe = args.recipe or DEFAULT_RECIPE
    if args.out is None:
        raise InputError("sbc needs a directory for its results; add --out DIR")
    from lfdm_ros.calibration import sbc
    from lfdm_ros.calibration.field_calibration import is_field_recipe
    from lfdm_ros.scheduling import get_scheduler

    field = is_field_recipe(args.recipe)
    if not field and args.survey is not None:
        raise InputError("--survey: the recipe is none of a friction field; leave it out")
    designs: Sequence[Any] = [_field_design(args)] if field else _designs(args)
    with get_scheduler(args.scheduler) as scheduler:
        print_workers(scheduler)
        outcome = sbc.study(designs, args.out, replications=args.seeds or SBC_DEFAULTS["seeds"], scheduler=scheduler,
                            progress=print_progress)
    _print_table(outcome, args.out)
    return 0 if all(stage["passes"] for stage in outcome["stages"].values()) else 1


def _options(args: argparse.Namespace) -> dict[str, Any]:
    return read_options(args.option) | {name: value for name in ("steps", "final_steps") if (value := getattr(args, name)) is not None}


def _designs(args: argparse.Namespace) -> list[Any]:
    from lfdm_ros.calibration import load_recipe, sbc
    from lfdm_ros.calibration.recipe import sampled_by
    from lfdm_ros.inference.dataset import find_recordings, load_stage
    from lfdm_ros.samplers.sampler import get_sampler

    for name, value in SBC_DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    recipe = load_recipe(args.recipe, errors=args.errors)
    stages = chosen_stages(recipe, args.stage)
    recipe = sampled_by(recipe, args.sampler, _options(args))
    get_sampler(recipe.sampler, recipe.options)
    recordings = find_recordings(args.bag)
    if not recordings:
        names = dict.fromkeys(name for stage in stages for name in stage.recordings)
        recordings = find_recordings([_driven(recipe, name, args.out / "recordings" / name) for name in names])
    return [sbc.Design(recipe, stage, load_stage(stage, recordings, recipe, recipe.start_vehicle), sampler=recipe.sampler,
                       options=recipe.options, draws=args.draws, seed=args.seed, likelihood=args.likelihood) for stage in stages]


def _field_design(args: argparse.Namespace) -> Any:
    from lfdm_ros.calibration import sbc
    from lfdm_ros.calibration.field_calibration import load_field_recipe, read_survey
    from lfdm_ros.samplers.sampler import SMC

    refuse_of_field(args, ("bag", "stage", "errors", "likelihood"))
    recipe = load_field_recipe(args.recipe)
    given = _options(args)
    options = {**recipe.options, **SMC.having(given).settings} if given else recipe.options
    places = recipe.places if args.survey is None else read_survey(args.survey, recipe).places
    return sbc.FieldDesign(recipe, places, args.draws or SBC_DEFAULTS["draws"], recipe.seed if args.seed is None else args.seed, options)


def chosen_stages(recipe: Recipe, names: list[str]) -> list[Any]:
    stage_names = [stage.name for stage in recipe.stages]
    for name in names:
        if name not in stage_names:
            raise InputError(f"{recipe.path}: no stage '{name}'{suggest(name, stage_names, 'choose from: ')}")
    return [stage for stage in recipe.stages if not names or stage.name in names]


def _driven(recipe: Recipe, scenario: str, path: Path) -> Path:
    """Drives the recipe's vehicle through a scenario and records states and commands; a bag that is there is taken."""
    if path.is_dir():
        return path
    from lfdm_ros.calibration.recorded import write_drive
    from lfdm_ros.simulation import Simulator, load_scenario, rollout

    try:
        drive = load_scenario(scenario)
    except InputError as error:
        raise InputError(f"{recipe.path}: recording '{scenario}': give it with --bag; it cannot be driven ({error})") from None
    if drive.profile is None:
        raise InputError(f"{recipe.path}: recording '{scenario}': give it with --bag; that scenario is a task without inputs of a driver")
    simulator = Simulator(recipe.start_vehicle, model=recipe.model, dt=recipe.step)
    simulator.reset(vx=drive.initial.speed)
    times, outputs = rollout(simulator, drive.profile, drive.duration, 1.0 / RATE)
    # Measurements are drawn anew in each replication; their topics must only exist.
    topics = [channel.topic for stage in recipe.stages for channel in stage.channels.values()]
    columns = {name: outputs[:, column] for name, column in simulator.output_index.items()}
    return write_drive(path, scenario, times, columns, drive.profile.sample(times), simulator.model.wheels, topics)


def print_workers(scheduler: Scheduler) -> None:
    from lfdm_ros.scheduling import DaskScheduler

    if isinstance(scheduler, DaskScheduler):
        print("workers: " + ", ".join(f"{worker} (process {number})" for worker, number in scheduler.workers().items()), file=sys.stderr)


def print_progress(state: StudyProgress, items: str = "replications") -> None:
    left = f", {state.remaining:.0f} s left" if math.isfinite(state.remaining) and state.done < state.total else ""
    print(f"{state.stage}: {state.done} of {state.total} {items}{left}", file=sys.stderr, flush=True)


def _print_table(outcome: dict[str, Any], out: Path) -> None:
    print(f"{outcome['recipe']}, sampler {outcome['sampler']}, likelihood {outcome['likelihood']}, {outcome['draws']} draws")
    for name, stage in outcome["stages"].items():
        print(f"\n{name}: {'passes' if stage['passes'] else 'FAILS'}, {stage['replications']} replications, {stage['evaluations']} "
              f"simulations in {stage['seconds']:.0f} s" + (f", {stage['redrawn']} truths drawn again" if stage["redrawn"] else ""))
        width = max(map(len, stage["unknowns"]))
        print(f"  {'unknown':{width}}  {'p':>8}  {'12 var(u)':>9}  {'chi2 p':>8}  {'|z| > 5':>8}  {'in 90 %':>7}   each p must be above "
              f"{stage['level_of_each']:.4f}")
        for unknown, row in stage["unknowns"].items():
            print(f"  {unknown:{width}}  {row['p']:8.4f}  {row['variance']:9.3f}  {row['chi2_p']:8.4f}  {row['far']:8.3%}  "
                  f"{row['coverage_90']:7.3f}{'' if row['passes'] else '   FAILS'}")
    print(f"\nwrote {out}: results.json, " + ", ".join(f"sbc_{name}.png and .svg" for name in outcome["stages"]))
