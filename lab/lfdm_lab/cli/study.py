"""Studies: series of calibrations or of drives.

priors: sensitivity to the priors. Calibrated again with the prior of each unknown twice and half as wide, one at a time.
bags: consistency of recordings. Each bag calibrated alone, the posteriors compared.
mpc: goals and collisions of the controller in obstacle fields and every other scenario with a goal or a path, against other controllers.
delay: effect of old states and a slow actuator, with and without compensation.
lane_change: highest entry speeds of the lane changes of ISO 3888-2 and NATO, without and with 200 ms of delay.
density: goals and collisions in obstacle fields up to 14 times as dense, beside a kinematic model.
radar: benefit of a radar beside the LIDAR. Crossing obstacles in the open and behind a van, with and without it, on the same seeds.
movers: moving and occluded obstacles. Fourteen scenarios, beside an emergency brake on the same obstacles.
barn: score in the worlds of the BARN challenge.
risk: calibration of the failure probability. Predictions against outcomes, in the assumed world and in others.
friction: effect of unknown friction. Drives on samples of a friction field, conditioned on observations (paper 004).
sharing: benefit of shared control. Operator, autonomy and both together at several latencies of the operator's link, on the same seeds."""

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lfdm_lab.cli import study_control
from lfdm_ros.bounds import CHAINS, DRAWS, SEEDS
from lfdm_ros.cli import sbc
from lfdm_ros.cli.calibrate import read_options
from lfdm_ros.cli.common import add_backend
from lfdm_ros.errors import InputError

EPILOG = """example:
  lfdm study priors genesis --bag fast_lap --out sensitivity       (sensitivity to the priors)
  lfdm study bags my_recipe --bag monday --bag tuesday --bag wednesday --out compared      (consistency of recordings)
  lfdm study mpc --out driven                                      (100 obstacle fields at each of 20, 40, 60 mph, and all scenarios)
  lfdm study mpc --speeds 40 --seeds 10 --controllers mpc          (only a table)
  lfdm study delay --out delayed
  lfdm study lane_change --step 1 --out changed
  lfdm study density --out dense                                   (30 fields at each speed and density; goals, collisions)
  lfdm study radar --out crossed                                   (10 seeds at four speeds in the open and behind a van)
  lfdm study movers --seeds 10 --out moved                         (pedestrians, crossing cars, a cut-in; beside an emergency brake)
  lfdm study movers --scenarios recorded/ --vehicle sedan          (a folder of CommonRoad's scenarios)
  lfdm study barn --scenarios the-barn-challenge/jackal_helper/worlds/BARN
  lfdm study risk --out judged                                     (2000 episodes: reliability diagram, slope, calibration error)
  lfdm study sharing --out shared --seeds 10                       (operator, autonomy, both, at four latencies in three scenarios)
  lfdm study friction --out slippery                               (200 fields a cell: yaw rates, spin-outs, nodes, cost)

The directory contains results.json and plots; the studies of driving, from mpc on, also write their table, and do not require a
directory. Ctrl-C keeps finished runs; the same command resumes, and more --seeds of mpc, density, movers and risk extend the study. The
studies of driving use all cores of this machine. Exit status 1: bags contradict each other, the controller has a collision (mpc,
density), does worse than an emergency brake (movers), lifts a wheel or misses its goals (mpc; beyond 40 mph these may be missed),
probabilities are wrong (risk), or sharing does not help (sharing)."""

CALIBRATIONS = ("priors", "bags")
FORMER = "sbc"  # is `lfdm sbc` now
STUDIES = (*CALIBRATIONS, *study_control.NAMES)
_COMMON = ("recipe", "bag", "stage", "seed", "draws", "sampler", "errors", "option")
_DRIVEN = ("seeds", "vehicle", "set", "json")
# Options of each study besides --scheduler and --out.
OPTIONS = {"sbc": (*_COMMON, "survey", "seeds", "likelihood", "steps", "final_steps"),
           "priors": (*_COMMON, "chains"), "bags": (*_COMMON, "chains"),
           "mpc": (*_DRIVEN, "speeds", "controllers", "slow_seeds"), "delay": _DRIVEN, "lane_change": ("vehicle", "set", "json", "step"),
           "density": (*_DRIVEN, "speeds", "densities", "controllers", "slow_seeds"), "risk": (*_DRIVEN, "slow_seeds"),
           "friction": ("seeds", "vehicle", "json"), "radar": ("seeds", "vehicle", "json"),
           "movers": (*_DRIVEN, "seed", "scenarios", "record"), "barn": ("vehicle", "set", "json", "scenarios"),
           "sharing": ("seeds", "seed", "json", "latencies", "scenarios", "controls", "ablation", "record")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `lfdm study`."""
    parser.add_argument("study", metavar="NAME", choices=(*STUDIES, FORMER), help=f"one of: {', '.join(STUDIES)}")
    parser.add_argument("recipe", metavar="RECIPE", nargs="?", help=f"recipe file or name (default {sbc.DEFAULT_RECIPE})")
    parser.add_argument("--bag", action="append", default=[], metavar="BAG", help="a recording that the recipe names; repeat. sbc takes "
                        "windows, inputs and initial states from it; without it, the scenario of that name is driven")
    parser.add_argument("--survey", metavar="FILE", help="sbc of a recipe of a friction field: the places of this CSV (x, y, friction) "
                        "instead of those of the recipe")
    parser.add_argument("--stage", action="append", default=[], metavar="NAME", help="only this stage; repeat (default: all)")
    parser.add_argument("--seeds", type=int, metavar="N", help="sbc: replications (default 500); mpc, delay, density: obstacle fields at "
                        "each speed (default 100, 10, 30; density: and each density); radar: of each meeting (default 10); "
                        "movers: of each scenario (default 30); friction: fields of each cell (default 200)")
    parser.add_argument("--seed", type=int, metavar="S", help="the same seed gives the same study (default: sbc 1, else the recipe's); "
                        "movers, sharing: the first of --seeds (default 1)")
    parser.add_argument("--draws", type=int, metavar="N", help="draws of each posterior (sbc: 200) or chain (default: the recipe's)")
    parser.add_argument("--chains", type=int, metavar="N", help="priors, bags: independent chains (default: the recipe's)")
    parser.add_argument("--sampler", metavar="NAME", help="as lfdm calibrate --help lists them (default: sbc the recipe's, else "
                        "least_squares)")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of the sampler; repeat")
    parser.add_argument("--errors", metavar="NAME", help="white, ar1 or inflated instead of what the recipe's stages say")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="tcp://HOST:PORT of a Dask scheduler, or local:N for N processes here")
    add_backend(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="directory for the results")
    sbc.add_own_arguments(parser)
    study_control.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Runs `lfdm study`; returns the exit status."""
    for name in dict.fromkeys(option for options in OPTIONS.values() for option in options):
        if getattr(args, name) not in (None, [], False) and name not in OPTIONS[args.study]:
            shown = "RECIPE" if name == "recipe" else f"--{name.replace('_', '-')}"
            raise InputError(f"{shown}: study {args.study} has no such option; leave it out")
    if args.study == FORMER:
        print("warning: lfdm study sbc is lfdm sbc now; the next release takes the new name only", file=sys.stderr)
        return sbc.run(args)
    driven = args.study in study_control.NAMES
    sbc.check_bounds(args, {"seeds": (1 if driven else 20, 100_000), "draws": DRAWS, "seed": SEEDS, "chains": CHAINS,
                            "slow_seeds": (0, 100_000), "step": (0.1, 50.0)})
    if driven:
        args.vehicle = args.vehicle or "hmmwv"
        return study_control.run_control_study(args)
    args.recipe = args.recipe or sbc.DEFAULT_RECIPE
    if args.out is None:
        raise InputError(f"study {args.study} needs a directory for its results; add --out DIR")
    return _run_variants(args)


def _run_variants(args: argparse.Namespace) -> int:
    if not args.bag:
        raise InputError(f"study {args.study} needs recordings; add --bag BAG")
    from lfdm_lab.studies import variants
    from lfdm_ros.calibration import load_recipe
    from lfdm_ros.calibration.recipe import sampled_by
    from lfdm_ros.samplers.sampler import QUICK
    from lfdm_ros.scheduling import get_scheduler

    recipe = load_recipe(args.recipe, errors=args.errors)
    changes = {name: value for name in ("draws", "chains", "seed") if (value := getattr(args, name)) is not None}
    recipe = sampled_by(recipe, args.sampler or QUICK, read_options(args.option))
    recipe = replace(recipe, stages=tuple(sbc.chosen_stages(recipe, args.stage)), **changes)
    study, show = {"priors": (variants.study_priors, _print_priors), "bags": (variants.study_bags, _print_bags)}[args.study]
    with get_scheduler(args.scheduler) as scheduler:
        sbc.print_workers(scheduler)
        outcome = study(recipe, args.bag, args.out, scheduler=scheduler, progress=partial(sbc.print_progress, items="calibrations"))
    print(f"{outcome['recipe']}, sampler {outcome['sampler']}, {outcome['calibrations']} calibrations of {outcome['chains']} x "
          f"{outcome['draws']} draws\n")
    show(outcome)
    print(f"\nwrote {args.out}: results.json, {args.study}.png and .svg")
    return 1 if any(row.get("apart") for row in outcome["unknowns"].values()) else 0


def _print_priors(outcome: dict[str, Any]) -> None:
    width = max(map(len, outcome["unknowns"]))
    print(f"{'unknown':{width}}  {'mean':>11}  {'sd':>9}  {'unit':10}  {'prior x':>7}  {'shift/sd':>8}  {'sd x':>5}  largest shift is of")
    for name, row in outcome["unknowns"].items():
        first = f"{name:{width}}  {row['mean']:11.5g}  {row['sd']:9.3g}  {row['unit']:10}"
        for change in row["tried"]:
            text = change["error"] if "error" in change else (f"{change['shift']:+8.2f}  {change['sd_ratio']:5.2f}  {change['of']}"
                                                            + ("" if change["judged"] else "   (excludes the posterior: not assessed)"))
            print(f"{first}  {change['factor']:7.2f}  {text}")
            first = " " * len(first)
        if not row["tried"]:
            print(first)
    print()
    for name, row in outcome["unknowns"].items():
        print(f"{name}: {row['text']}")
    noise = max((change["chance"] for row in outcome["unknowns"].values() for change in row["tried"] if "chance" in change), default=0.0)
    if noise > 0.2 and not outcome["independent"]:
        print(f"sampling noise of a mean is up to {noise:.2f} sd and is subtracted; more draws resolve smaller shifts")


def _print_bags(outcome: dict[str, Any]) -> None:
    width = max(map(len, outcome["unknowns"]))
    bags = list(next(iter(outcome["unknowns"].values()))["bags"])
    cells = {name: [f"{row['bags'][bag]['mean']:.5g} ± {row['bags'][bag]['sd']:.3g}" for bag in bags]
             for name, row in outcome["unknowns"].items()}
    widths = [max(len(bag), *(len(row[i]) for row in cells.values())) for i, bag in enumerate(bags)]
    units = max(4, *(len(row["unit"]) for row in outcome["unknowns"].values()))
    print("  ".join([f"{'unknown':{width}}", f"{'unit':{units}}", *(f"{bag:>{w}}" for bag, w in zip(bags, widths)), f"{'chi2':>8}",
                     f"{'p':>8}"]) + f"   each p must be above {outcome['level_of_each']:.4f}")
    for name, row in outcome["unknowns"].items():
        print("  ".join([f"{name:{width}}", f"{row['unit']:{units}}", *(f"{cell:>{w}}" for cell, w in zip(cells[name], widths)),
                         f"{row['chi2']:8.1f}", f"{row['p']:8.2g}"]))
    print()
    for name, row in outcome["unknowns"].items():
        print(f"{name}: {row['text']}")
    for bag, reason in outcome["left_out"].items():
        print(f"left out: {bag}: {reason}")
    for bag, warnings in outcome["warnings"].items():
        for text in warnings:
            if "intervals" in text and "residuals" in text:
                print(f"warning: {bag}: {text}")
