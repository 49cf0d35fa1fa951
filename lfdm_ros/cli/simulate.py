"""Run a vehicle model on a file of driver inputs and write its motion as CSV."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lfdm_ros.bounds import require
from lfdm_ros.cli.common import add_backend, add_former, check_out, show_progress, write_rows
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.models import SLOTS, Model
from lfdm_ros.reports import add_figure_argument, require_figure
from lfdm_ros.resources import find_config
from lfdm_ros.scheduling import get_scheduler

if TYPE_CHECKING:
    from lfdm_ros.simulation import InputProfile
    from lfdm_ros.vehicles import Vehicle

MAX_STEPS, MAX_ROWS = 2_000_000_000, 1_000_000  # about an hour, and a gigabyte

COLUMNS = ("x", "y", "vx", "vy", "ax", "ay", "roll", "pitch", "yaw", "roll_rate", "pitch_rate", "yaw_rate",
           "omega_fl", "omega_fr", "omega_rl", "omega_rr", "gear", "engine_speed")

EPILOG = """inputs: rows time [s], steering [-1, 1] (+ left), throttle [-1, 1] (below 0: in reverse), brake [0, 1]; blanks or commas;
header optional; linear in between.
output: SI units, body-fixed velocities and proper accelerations (ISO 8855).

example:
  printf '0 0 0.5 0\\n5 0 0.5 0\\n6 0.2 0 0\\n' > inputs.txt
  lfdm simulate --vehicle hmmwv --model eight_dof --inputs inputs.txt --until 10 --out run.csv
  lfdm simulate --vehicle hmmwv --model eighteen_dof --ground ice_in_the_bend --inputs inputs.txt --out ice.csv
  lfdm simulate --vehicle sedan --model twenty_four_dof --inputs inputs.txt --also lifted_wheels --out run.csv
  lfdm simulate --vehicle result/vehicle.yaml --draws 100000 --backend auto --inputs inputs.txt --out spread.csv"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vehicle", required=True, help="name in config/vehicles, or a YAML file")
    parser.add_argument("--model", default="eight_dof", help="model name, see `lfdm models` (default %(default)s)")
    parser.add_argument("--tyre", choices=tuple(SLOTS["tyre"]), help="tyre model (default: the vehicle's)")
    parser.add_argument("--soil", metavar="NAME",
                        help="drive on this soil (config/soils, or a YAML file), by default with the tyre bekker_wong")
    parser.add_argument("--ground", metavar="NAME",
                        help="drive on this ground (config/grounds, a YAML file, or a bag that was recorded on one)")
    parser.add_argument("--inputs", required=True, type=Path, help="file of driver inputs")
    parser.add_argument("--dt", type=float, default=1e-3, help="physics step [s] (default %(default)s)")
    parser.add_argument("--until", type=float, help="end time [s] (default: the last row of the inputs)")
    parser.add_argument("--output-step", type=float, default=0.01, help="time between rows [s] (default %(default)s)")
    parser.add_argument("--initial-speed", type=float, default=0.0, metavar="M/S", help="speed at time 0 [m/s] (default standing)")
    add_former(parser, "--speed", "--initial-speed", type=float)
    parser.add_argument("--also", action="append", default=[], metavar="NAME",
                        help="another output as a further column, e.g. lifted_wheels or tyre_fz_fl; may be repeated")
    parser.add_argument("--out", required=True, type=Path, help="CSV file to write")
    parser.add_argument("--draws", type=int, metavar="N", help="run N vehicles drawn from the posterior of the calibration whose result "
                        "the vehicle is, and write quantiles of their states")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of --draws (default %(default)s)")
    add_figure_argument(parser, "speed, lateral acceleration, yaw rate and roll, as `lfdm plot` does; of --draws median and 90 %% band")
    add_backend(parser)
    parser.add_argument("--scheduler", metavar="ADDRESS", help="--draws on a Dask cluster: tcp://HOST:PORT, or local:N for processes here")


def _check_work(until: float, dt: float, output_step: float) -> None:
    """Raises InputError for runs that would take hours or exhaust the memory."""
    for name, step, limit, items in (("--dt", dt, MAX_STEPS, "steps"), ("--output-step", output_step, MAX_ROWS, "rows")):
        if not 0.0 < step < math.inf:
            raise InputError(f"{name} {step:g}: give more than 0")
        if until > limit * step:
            raise InputError(f"{name} {step:g}: {until:g} s would be {until / step:.3g} {items}; {limit:.0e} are the most, "
                             f"give {name} {until / limit:.1e} or more, or a smaller --until")


def run(args: argparse.Namespace) -> int:
    require_figure(args.figure)
    status = _simulate(args)
    if args.figure is not None:
        from lfdm_ros.cli.plot import plot

        plot([args.out], args.figure)
    return status


def _simulate(args: argparse.Namespace) -> int:
    from lfdm_ros.simulation import InputProfile, OutOfReach, SimulationDiverged, Simulator, rollout
    from lfdm_ros.vehicles import load_vehicle

    profile = InputProfile.from_file(args.inputs)
    until = float(profile.time[-1]) if args.until is None else args.until
    if not 0.0 < until < 1e6:
        raise InputError(f"end time {until:g} s: give --until above 0 and below 1e6, or inputs whose last time is")
    require("vx", args.initial_speed, "--initial-speed")
    _check_work(until, args.dt, args.output_step)
    check_out(args.out)
    vehicle, model, tyre = load_vehicle(args.vehicle), args.model, args.tyre
    if args.ground is not None:
        from lfdm_ros.bags.grounds import find_ground
        from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround

        if args.soil is not None:
            raise InputError("--soil and --ground: a ground has its own soil; give one of them")
        on_ground = VehicleOnGround(vehicle, find_ground(args.ground))
        vehicle, tyre = on_ground.vehicle, on_ground.tyre(model, tyre)
    if args.soil is not None:
        from lfdm_ros.ground.soils import load_soil

        soil = load_soil(args.soil)
        vehicle, model = vehicle.replace(**soil.parameters, source=f"soil {soil.name}"), f"{model}/soil"
        tyre = tyre or (None if set(model.split("/")) & set(SLOTS["tyre"]) else "bekker_wong")
    if args.draws is not None:
        return _run_draws(args, vehicle, vehicle.model(model, tyre), profile, until, (*COLUMNS, *args.also))
    if args.scheduler or args.backend:
        raise InputError("--scheduler and --backend are for many vehicles; give --draws N, too")
    began = time.perf_counter()
    simulator = Simulator(vehicle, model=model, dt=args.dt, tyre=tyre)
    for name in args.also:
        if name not in simulator.output_index:
            raise InputError(f"--also {name}: no such output{suggest(name, simulator.output_names, 'there are: ')}")
    if args.dt > simulator.model.largest_step:
        print(f"warning: {simulator.model.name} needs a step of at most {simulator.model.largest_step:g} s; with --dt {args.dt:g} "
              "its results may be wrong", file=sys.stderr)
    simulator.reset(vx=args.initial_speed)
    try:
        with show_progress("compiling or loading the model"):
            rollout(simulator, profile, args.output_step, args.output_step)
        simulator.reset(vx=args.initial_speed)
        loaded = time.perf_counter()
        with show_progress(f"simulating {until:g} s"):
            times, outputs = rollout(simulator, profile, until, args.output_step)
    except SimulationDiverged as error:
        advice = "look at `lfdm vehicle check`" if isinstance(error, OutOfReach) else f"try a smaller --dt than {args.dt:g}"
        raise InputError(f"{error}; {advice}") from None
    seconds = time.perf_counter() - loaded
    columns = (*COLUMNS, *args.also)
    write_rows(args.out, columns, times, outputs[:, [simulator.output_index[name] for name in columns]], 12)
    speed = np.hypot(*outputs[-1, [simulator.output_index["vx"], simulator.output_index["vy"]]])
    print(f"{args.out}: {len(times)} rows, {until:g} s of {simulator.model.name} simulated in {seconds:.3f} s "
          f"({until / seconds:.0f} x real time), compiled or loaded in {loaded - began:.2f} s before; final speed {speed:.2f} m/s",
          file=sys.stderr)
    return 0


SHARES = (0.05, 0.5, 0.95)
MAX_DRAWS = 100_000_000


def _run_draws(args: argparse.Namespace, vehicle: Vehicle, model: Model, profile: InputProfile, until: float,
               columns: tuple[str, ...]) -> int:
    """Writes the quantiles of each column that is a state; returns the exit status. Raises InputError: the vehicle is not a calibration's
    result, or the model lacks calibrated parameters; all runs diverged."""
    from lfdm_ros.simulation import BatchRollout, initial_state, with_ground
    from lfdm_ros.simulation.batch import Spread, motion_spread

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
    from lfdm_ros.calibration.source import posterior_parameters

    values = posterior_parameters(find_config("vehicles", args.vehicle), {f.name for f in model.parameters}, model.name,
                                  f"--draws {args.draws}")
    table = np.column_stack(list(values.values()))
    rng = np.random.default_rng(args.seed)
    count = len(table)
    rows = rng.permutation(count)[:args.draws] if args.draws <= count else rng.integers(0, count, args.draws)
    return table[rows], list(values)
