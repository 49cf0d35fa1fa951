"""Studies: many calibrations, or many drives, that together answer one question.

sbc: are posteriors as wide as they say? Truths drawn from the priors, data simulated with them, inferred; ranks must be uniform.
priors: do the data decide, or the priors? Calibrated again with the prior of each unknown twice and half as wide, one at a time.
bags: do the recordings agree? Each bag calibrated alone, the posteriors compared.
mpc: does the controller arrive, and hit nothing? Obstacle fields and every other scenario that is a task, against other controllers.
delay: what do old states and a slow actuator cost, and what does it help to predict through them?
lane_change: how fast can it enter the lane changes of ISO 3888-2 and NATO? Speeds grow until it fails, without and with 200 ms of delay.
density: how dense may a field be? Obstacle fields up to 14 times as dense, beside a kinematic model, pure pursuit and MPPI.
risk: is the probability of failing right? What was predicted against what happened, in the world that it knows and in others.
friction: what does friction do that is not known? Samples of a friction field, conditioned on what was seen, driven over (paper 004).
sharing: does sharing help? Operator, autonomy and both together at several latencies of the operator's link, on the same seeds.
reduction: what do smaller models learn from the multibody, and what not? 8-, 18- and 24-DOF calibrated on its recordings, predicting."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lfdm_ros.bounds import CHAINS, DRAWS, SEEDS
from lfdm_ros.cli import study_control
from lfdm_ros.cli.calibrate import read_options, refuse_of_field
from lfdm_ros.errors import InputError, quote, suggest

if TYPE_CHECKING:
    from lfdm_ros.inference.plan import Recipe
    from lfdm_ros.scheduling import Scheduler
    from lfdm_ros.studies.sbc import StudyProgress

EPILOG = """example:
  lfdm study sbc --out checked                                     (recipe hmmwv_demo on scenarios that it drives itself)
  lfdm study sbc hmmwv --bag acc --bag rr_1 --bag simp_ramp --stage lateral --out checked
  lfdm study sbc --likelihood published --seeds 100 --out wrong    (the likelihood of the paper's published code: fails)
  lfdm study sbc friction_field --out checked                      (of a friction field's values)
  lfdm study sbc --scheduler local:2 --out checked                 (two worker processes; or tcp://HOST:PORT of a Dask scheduler)
  lfdm study priors genesis --bag fast_lap --out sensitivity       (do the data decide, or the priors?)
  lfdm study bags my_recipe --bag monday --bag tuesday --bag wednesday --out compared      (do the recordings agree?)
  lfdm study mpc --out driven                                      (100 obstacle fields at each of 20, 40, 60 mph, and all scenarios)
  lfdm study mpc --speeds 40 --seeds 10 --controllers mpc          (only a table)
  lfdm study delay --out delayed
  lfdm study lane_change --step 1 --out changed
  lfdm study density --out dense                                   (30 fields at each speed and density; goals, collisions)
  lfdm study risk --out judged                                     (2000 episodes: reliability diagram, slope, calibration error)
  lfdm study sharing --out shared --seeds 10                       (operator, autonomy, both, at four latencies in three scenarios)
  lfdm study friction --out slippery                               (200 fields a cell: yaw rates, spin-outs, nodes, cost)
  lfdm study reduction --out reduced                               (three calibrations, two predictions each; some minutes)

The directory then holds results.json and plots; the studies of driving, from mpc on, also write
their table, and need no directory.
Ctrl-C keeps what is done; the same command goes on from there, sbc, mpc, density and risk with more --seeds add to it. mpc, delay,
lane_change, density, risk and friction use all cores of this machine. Exit status 1: a stage fails sbc, bags contradict each other, the
controller hits something (mpc, density), lifts a wheel or misses its goals (mpc; beyond 40 mph these may be missed), or probabilities are
wrong (risk)."""

CALIBRATIONS = ("sbc", "priors", "bags")
STUDIES = (*CALIBRATIONS, *study_control.NAMES)
SBC_DEFAULTS: dict[str, Any] = {"seeds": 500, "seed": 1, "draws": 200, "likelihood": "gaussian", "steps": None, "final_steps": None}
_COMMON = ("recipe", "bag", "stage", "seed", "draws", "sampler", "errors", "option")
_DRIVEN = ("seeds", "vehicle", "set", "json")
# Options of each study besides --scheduler and --out.
OPTIONS = {"sbc": (*_COMMON, "survey", "seeds", "likelihood", "steps", "final_steps"),
           "priors": (*_COMMON, "chains"), "bags": (*_COMMON, "chains"),
           "mpc": (*_DRIVEN, "speeds", "controllers", "slow_seeds"), "delay": _DRIVEN, "lane_change": ("vehicle", "set", "json", "step"),
           "density": (*_DRIVEN, "speeds", "densities", "controllers", "slow_seeds"), "risk": (*_DRIVEN, "slow_seeds"),
           "friction": ("seeds", "vehicle", "json"),
           "reduction": ("json",),
           "sharing": ("seeds", "json", "latencies", "scenarios", "controls", "ablation")}
DEFAULT_RECIPE = "hmmwv_demo"
RATE = 100.0  # Hz, of the recordings that are made


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm study`."""
    parser.add_argument("study", metavar="NAME", choices=STUDIES, help=f"one of: {', '.join(STUDIES)}")
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help=f"recipe file or name (default {DEFAULT_RECIPE})")
    parser.add_argument("--bag", action="append", default=[], metavar="BAG", help="a recording that the recipe names; repeat. sbc takes "
                        "windows, inputs and initial states from it; without it, the scenario of that name is driven")
    parser.add_argument("--survey", metavar="FILE", help="sbc of a recipe of a friction field: the places of this CSV (x, y, friction) "
                        "instead of those of the recipe")
    parser.add_argument("--stage", action="append", default=[], metavar="NAME", help="only this stage; repeat (default: all)")
    parser.add_argument("--seeds", type=int, metavar="N", help="sbc: replications (default 500); mpc, delay, density: obstacle fields at "
                        "each speed (default 100, 10, 30; density: and each density); friction: fields of each cell (default 200)")
    parser.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same study (default: sbc 1, else the recipe's)")
    parser.add_argument("--draws", type=int, metavar="N", help="draws of each posterior (sbc: 200) or chain (default: the recipe's)")
    parser.add_argument("--chains", type=int, metavar="N", help="priors, bags: independent chains (default: the recipe's)")
    parser.add_argument("--sampler", metavar="NAME", help="as lfdm calibrate --help lists them (default: sbc the recipe's, else "
                        "least_squares)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the sampler; repeat")
    parser.add_argument("--errors", metavar="NAME", help="white, ar1 or inflated instead of what the recipe's stages say")
    parser.add_argument("--likelihood", choices=("gaussian", "published"), help="sbc: gaussian (default), or published: that of the code "
                        "published with paper 000, to see that the check catches it")
    parser.add_argument("--steps", type=int, metavar="N", help="sbc: the same as --option steps=N")
    parser.add_argument("--final-steps", type=int, metavar="N", help="sbc: the same as --option final_steps=N")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="tcp://HOST:PORT of a Dask scheduler, or local:N for N processes here")
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory for the results")
    study_control.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm study`; returns the exit status."""
    for name in dict.fromkeys(option for options in OPTIONS.values() for option in options):
        if getattr(args, name) not in (None, [], False) and name not in OPTIONS[args.study]:
            shown = "RECIPE" if name == "recipe" else f"--{name.replace('_', '-')}"
            raise InputError(f"{shown}: study {args.study} has no such option; leave it out")
    driven = args.study in study_control.NAMES
    for name, least, most in (("seeds", 1 if driven else 20, 100_000), ("draws", *DRAWS), ("seed", *SEEDS), ("chains", *CHAINS),
                              ("slow_seeds", 0, 100_000), ("step", 0.1, 50.0), ("steps", 1, 10_000), ("final_steps", 1, 10_000)):
        value = getattr(args, name)
        if value is not None and not least <= value <= most:
            bound = f"at most {most}" if value > most else f"at least {least}"
            raise InputError(f"--{name.replace('_', '-')} {quote(value)}: {bound} are {'possible' if value > most else 'needed'}")
    if driven:
        args.vehicle = args.vehicle or "hmmwv"
        return study_control.run_control_study(args)
    args.recipe = args.recipe or DEFAULT_RECIPE
    if args.out is None:
        raise InputError(f"study {args.study} needs a directory for its results; add --out DIR")
    return _run_sbc(args) if args.study == "sbc" else _run_variants(args)


def _run_variants(args: argparse.Namespace) -> int:
    if not args.bag:
        raise InputError(f"study {args.study} needs recordings; add --bag BAG")
    from lfdm_ros.calibration import load_recipe
    from lfdm_ros.calibration.recipe import sampled_by
    from lfdm_ros.samplers.sampler import QUICK
    from lfdm_ros.scheduling import get_scheduler
    from lfdm_ros.studies import variants

    recipe = load_recipe(args.recipe, errors=args.errors)
    given = {name: value for name in ("draws", "chains", "seed") if (value := getattr(args, name)) is not None}
    recipe = sampled_by(recipe, args.sampler or QUICK, read_options(args.option))
    recipe = replace(recipe, stages=tuple(_chosen(recipe, args.stage)), **given)
    study, show = {"priors": (variants.study_priors, _print_priors), "bags": (variants.study_bags, _print_bags)}[args.study]
    with get_scheduler(args.scheduler) as scheduler:
        _print_workers(scheduler)
        outcome = study(recipe, args.bag, args.out, scheduler=scheduler, progress=partial(_print_progress, what="calibrations"))
    print(f"{outcome['recipe']}, sampler {outcome['sampler']}, {outcome['calibrations']} calibrations of {outcome['chains']} x "
          f"{outcome['draws']} draws\n")
    show(outcome)
    print(f"\nwrote {args.out}: results.json, {args.study}.png")
    return 1 if any(row.get("apart") for row in outcome["unknowns"].values()) else 0


def _run_sbc(args: argparse.Namespace) -> int:
    from lfdm_ros.calibration.field_recipe import is_field_recipe

    if is_field_recipe(args.recipe):
        return _run_field_sbc(args)
    if args.survey is not None:
        raise InputError("--survey: the recipe is none of a friction field; leave it out")
    for name, value in SBC_DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    from lfdm_ros.calibration import load_recipe
    from lfdm_ros.calibration.data import load_stage
    from lfdm_ros.calibration.recipe import sampled_by
    from lfdm_ros.inference.dataset import find_recordings
    from lfdm_ros.samplers.sampler import get_sampler
    from lfdm_ros.scheduling import get_scheduler
    from lfdm_ros.studies import sbc

    recipe = load_recipe(args.recipe, errors=args.errors)
    stages = _chosen(recipe, args.stage)
    given = {name: value for name in ("steps", "final_steps") if (value := getattr(args, name)) is not None}
    recipe = sampled_by(recipe, args.sampler, read_options(args.option) | given)
    get_sampler(recipe.sampler, recipe.options)
    recordings = find_recordings(args.bag)
    if not recordings:
        wanted = dict.fromkeys(name for stage in stages for name in stage.recordings)
        recordings = find_recordings([_driven(recipe, name, args.out / "recordings" / name) for name in wanted])
    designs = [sbc.Design(recipe, stage, load_stage(stage, recordings, recipe, recipe.start_vehicle), sampler=recipe.sampler,
                          options=recipe.options, draws=args.draws, seed=args.seed, likelihood=args.likelihood) for stage in stages]
    with get_scheduler(args.scheduler) as scheduler:
        _print_workers(scheduler)
        outcome = sbc.study(designs, args.out, replications=args.seeds, scheduler=scheduler, progress=_print_progress)
    _print_table(outcome, args.out)
    return 0 if all(stage["passes"] for stage in outcome["stages"].values()) else 1


def _run_field_sbc(args: argparse.Namespace) -> int:
    from lfdm_ros.calibration.field_recipe import load_field_recipe, read_survey
    from lfdm_ros.samplers.sampler import SMC
    from lfdm_ros.scheduling import get_scheduler
    from lfdm_ros.studies import sbc
    from lfdm_ros.studies.field_sbc import FieldDesign

    refuse_of_field(args, ("bag", "stage", "errors", "likelihood"))
    recipe = load_field_recipe(args.recipe)
    given = {name: value for name in ("steps", "final_steps") if (value := getattr(args, name)) is not None}
    options = {**recipe.options, **SMC.having(read_options(args.option) | given).settings} if given or args.option else recipe.options
    places = recipe.places if args.survey is None else read_survey(args.survey, recipe).places
    design = FieldDesign(recipe, places, args.draws or SBC_DEFAULTS["draws"], recipe.seed if args.seed is None else args.seed, options)
    with get_scheduler(args.scheduler) as scheduler:
        _print_workers(scheduler)
        outcome = sbc.study([design], args.out, replications=args.seeds or SBC_DEFAULTS["seeds"], scheduler=scheduler,
                            progress=_print_progress)
    _print_table(outcome, args.out)
    return 0 if all(stage["passes"] for stage in outcome["stages"].values()) else 1


def _chosen(recipe: Recipe, names: list[str]) -> list[Any]:
    known = [stage.name for stage in recipe.stages]
    for name in names:
        if name not in known:
            raise InputError(f"{recipe.path}: no stage '{name}'{suggest(name, known, 'choose from: ')}")
    return [stage for stage in recipe.stages if not names or stage.name in names]


def _driven(recipe: Recipe, scenario: str, path: Path) -> Path:
    """Drives the recipe's vehicle through a scenario and records states and commands; a bag that is there is taken."""
    if path.is_dir():
        return path
    from lfdm_ros.simulation import Simulator, load_scenario, rollout
    from lfdm_ros.studies.recorded import write_drive

    try:
        drive = load_scenario(scenario)
    except InputError as error:
        raise InputError(f"{recipe.path}: recording '{scenario}': give it with --bag; it cannot be driven ({error})") from None
    if drive.profile is None:
        raise InputError(f"{recipe.path}: recording '{scenario}': give it with --bag; that scenario is a task without inputs of a driver")
    simulator = Simulator(recipe.start_vehicle, model=recipe.model, dt=recipe.step)
    simulator.reset(vx=drive.initial.speed)
    times, outputs = rollout(simulator, drive.profile, drive.duration, 1.0 / RATE)
    # What is measured is drawn anew in each replication; its topics only have to be there.
    topics = [channel.topic for stage in recipe.stages for channel in stage.channels.values()]
    columns = {name: outputs[:, column] for name, column in simulator.output_index.items()}
    return write_drive(path, scenario, times, columns, drive.profile.sample(times), simulator.model.wheels, topics)


def _print_workers(scheduler: Scheduler) -> None:
    from lfdm_ros.scheduling import Cluster

    if isinstance(scheduler, Cluster):
        workers = scheduler.workers().items()
        print("workers: " + ", ".join(f"{worker} (process {number})" for worker, number in workers), file=sys.stderr)


def _print_progress(state: StudyProgress, what: str = "replications") -> None:
    left = f", {state.remaining:.0f} s left" if math.isfinite(state.remaining) and state.done < state.total else ""
    print(f"{state.stage}: {state.done} of {state.total} {what}{left}", file=sys.stderr, flush=True)


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
                  f"{row['coverage_90']:7.3f}"
                  + ("" if row["passes"] else "   FAILS"))
    print(f"\nwrote {out}: results.json, " + ", ".join(f"sbc_{name}.png" for name in outcome["stages"]))


def _print_priors(outcome: dict[str, Any]) -> None:
    width = max(map(len, outcome["unknowns"]))
    print(f"{'unknown':{width}}  {'mean':>11}  {'sd':>9}  {'unit':10}  {'prior x':>7}  {'shift/sd':>8}  {'sd x':>5}  largest shift is of")
    for name, row in outcome["unknowns"].items():
        first = f"{name:{width}}  {row['mean']:11.5g}  {row['sd']:9.3g}  {row['unit']:10}"
        for tried in row["tried"]:
            found = tried["error"] if "error" in tried else (f"{tried['shift']:+8.2f}  {tried['sd_ratio']:5.2f}  {tried['of']}"
                                                             + ("" if tried["judged"] else "   (leaves the posterior out: not judged)"))
            print(f"{first}  {tried['factor']:7.2f}  {found}")
            first = " " * len(first)
        if not row["tried"]:
            print(first)
    print()
    for name, row in outcome["unknowns"].items():
        print(f"{name}: {row['text']}")
    chance = max((tried["chance"] for row in outcome["unknowns"].values() for tried in row["tried"] if "chance" in tried), default=0.0)
    if chance > 0.2 and not outcome["independent"]:
        print(f"chance alone can move a mean by {chance:.2f} sd, which is taken off; for smaller shifts take more draws")


def _print_bags(outcome: dict[str, Any]) -> None:
    width = max(map(len, outcome["unknowns"]))
    bags = list(next(iter(outcome["unknowns"].values()))["bags"])
    cells = {name: [f"{row['bags'][bag]['mean']:.5g} ± {row['bags'][bag]['sd']:.3g}" for bag in bags]
             for name, row in outcome["unknowns"].items()}
    widths = [max(len(bag), *(len(own[i]) for own in cells.values())) for i, bag in enumerate(bags)]
    units = max(4, *(len(row["unit"]) for row in outcome["unknowns"].values()))
    print("  ".join([f"{'unknown':{width}}", f"{'unit':{units}}", *(f"{bag:>{w}}" for bag, w in zip(bags, widths)), f"{'chi2':>8}",
                     f"{'p':>8}"]) + f"   each p must be above {outcome['level_of_each']:.4f}")
    for name, row in outcome["unknowns"].items():
        print("  ".join([f"{name:{width}}", f"{row['unit']:{units}}", *(f"{cell:>{w}}" for cell, w in zip(cells[name], widths)),
                         f"{row['chi2']:8.1f}", f"{row['p']:8.2g}"]))
    print()
    for name, row in outcome["unknowns"].items():
        print(f"{name}: {row['text']}")
    for bag, why in outcome["left_out"].items():
        print(f"left out: {bag}: {why}")
    for bag, warnings in outcome["warnings"].items():
        for text in warnings:
            if "intervals" in text and "residuals" in text:
                print(f"warning: {bag}: {text}")
