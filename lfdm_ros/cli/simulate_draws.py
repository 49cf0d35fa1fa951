"""`lfdm simulate --draws N`: the manoeuvre with vehicles drawn from a calibration's posterior, as quantiles over time."""

import argparse
import sys
import time

import numpy as np

from lfdm_ros.calibration.source import posterior_parameters
from lfdm_ros.cli.common import show_progress, write_rows
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.resources import find_config
from lfdm_ros.scheduling import get_scheduler
from lfdm_ros.simulation import BatchRollout, InputProfile, initial_state, with_ground
from lfdm_ros.simulation.spread import Spread, motion_spread
from lfdm_ros.vehicles import Vehicle

SHARES = (0.05, 0.5, 0.95)
MAX_DRAWS = 100_000_000


def run(args: argparse.Namespace, vehicle: Vehicle, model: Model, profile: InputProfile, until: float, columns: tuple[str, ...]) -> int:
    """Writes the quantiles of each column that is a state; returns the exit status. Raises InputError: the vehicle is not a calibration's
    result, or the model lacks what was calibrated; all runs diverged."""
    if not 0 < args.draws <= MAX_DRAWS:
        raise InputError(f"--draws {args.draws}: give 1 to {MAX_DRAWS}")
    theta, names = _drawn(args, model)
    channels = [name for name in columns if name in {f.name for f in model.states}]
    times = args.output_step * np.arange(round(until / args.output_step) + 1)
    rollout = BatchRollout(model=model, vehicle=vehicle, dt=args.dt, times=times, inputs=with_ground(model, profile.sample(times)),
                           parameters=names, channels=channels)
    began, spread, done = time.perf_counter(), Spread(np.empty(0), 0, 0), 0
    with get_scheduler(args.scheduler) as scheduler, show_progress(f"simulating {until:g} s of {args.draws} vehicles",
                                                                    lambda: f"{done} done"):
        for spread in motion_spread(rollout, theta, initial_state(model, vehicle, vx=args.initial_speed), SHARES, scheduler):
            done = spread.runs
    seconds = time.perf_counter() - began
    if spread.diverged == spread.runs:
        raise InputError(f"all {spread.runs} runs diverged; try a smaller --dt than {args.dt:g}")
    write_rows(args.out, [f"{name}_q{100 * share:02.0f}" for name in channels for share in SHARES], times,
               spread.quantiles.transpose(1, 2, 0).reshape(len(times), -1), 9)
    note = f"; {spread.diverged} diverged and are left out" if spread.diverged else ""
    print(f"{args.out}: {len(times)} rows, quantiles of {spread.runs} vehicles in {seconds:.2f} s "
          f"({spread.runs * until / seconds:.0f} x real time){note}", file=sys.stderr)
    return 0


def _drawn(args: argparse.Namespace, model: Model) -> tuple[np.ndarray, list[str]]:
    """Returns parameters (N, P) and their names: rows of the posterior beside the vehicle file, with replacement where it has fewer."""
    values = posterior_parameters(find_config("vehicles", args.vehicle), {f.name for f in model.parameters}, model.name,
                                  f"--draws {args.draws}")
    table = np.column_stack(list(values.values()))
    rng = np.random.default_rng(args.seed)
    most = len(table)
    rows = rng.permutation(most)[:args.draws] if args.draws <= most else rng.integers(0, most, args.draws)
    return table[rows], list(values)
