"""Drive, record and calibrate a hidden vehicle on the real ROS graph; needs no data.

A vehicle whose parameters are drawn from the priors drives three manoeuvres in lockstep, faster than real time; its noisy
measurements are recorded to bags; the calibrator infers the parameters from the bags alone; a fourth manoeuvre, never fitted,
shows how well the calibrated vehicle predicts. Before and after, an operator behind a slow link shares the vehicle with the controller:
their risk, and the outcome."""

import argparse
import shutil
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.errors import InputError, Interrupted
from lfdm_ros.reports import BLUE, GREEN, GREY, INK, ORANGE, PALE, RED, save_figure, save_png

SCENARIO, STATUS = "nato_lane_change", "shared_control/status"
BEFORE, AFTER = "before", "after"
MAX_DURATION = 30.0  # [s] of a drive; it ends at the goal


@dataclass(frozen=True, eq=False)
class SharedDrive:
    """One drive. times, k and risk: of each decision (n,), risk (n, 2) the largest probability of a failure within the horizon by the
    operator alone and by autonomy; x, y: path of the vehicle (m,) [m]; posterior: version in force at the end, 0 for the vehicle file;
    summary: of the run."""

    name: str
    times: np.ndarray
    k: np.ndarray
    risk: np.ndarray
    x: np.ndarray
    y: np.ndarray
    posterior: int
    summary: dict[str, Any]

    @property
    def outcome(self) -> str:
        if self.summary["collisions"]:
            return f"hits {self.summary['first_collision']}"
        return "lifts a wheel" if self.summary["lifted_wheels_most"] else "arrives" if self.summary["task_done"] else "does not arrive"


def share(name: str, hidden: Path, store: Path, bag: Path, seed: int) -> SharedDrive:
    """Runs the stack of shared control on the graph with the hidden vehicle. The other nodes use the vehicle file, or the posterior in
    force in the store. Raises InputError, RunError, Interrupted: as `run_stack`."""
    from lfdm_ros.ros.runtime import exit_status
    from lfdm_ros.stacks.compose import run_stack

    summary = run_stack("shared_control", speed=0.0, duration=MAX_DURATION, quiet=True, overrides={
        "scenario": SCENARIO, "vehicle_simulator.vehicle": str(hidden), "recorder.bag": str(bag), "calibrator.watch_directory": "",
        "calibrator.store": str(store), "operator_model.seed": seed, "mpc_controller.on_finish": "shutdown"})
    if status := exit_status(summary["reason"]):
        raise Interrupted(status)
    return read(name, bag, summary)


def read(name: str, bag: Path, summary: dict[str, Any]) -> SharedDrive:
    from lfdm_ros.bags import open_bag, read_series

    rows, posterior = [], 0
    with open_bag(bag) as opened:
        for connection, stamp, cdr in opened.raw(opened.select(STATUS)):
            status = opened.decode(cdr, connection.msgtype)
            risk = [max((p for label, p in zip(status.probability_names, status.probabilities) if label.startswith(driver)), default=np.nan)
                    for driver in ("operator", "autonomy")]
            rows.append((1e-9 * stamp, status.k, *risk))
            posterior = int(status.posterior_version)
    table = np.array(rows).reshape(-1, 4)
    path = read_series(bag, "vehicle/state", ["x", "y"]).values
    return SharedDrive(name, table[:, 0], table[:, 1], table[:, 2:], path[:, 0], path[:, 1], posterior, summary)


def apply(store: Path, result: Path) -> str:
    """Applies a calibration in a store as the calibrator does in AUTO, or by hand if the gates refuse it; returns a line."""
    from lfdm_ros.calibration.gates import GateLimits
    from lfdm_ros.calibration.store import APPLIED, PosteriorStore
    from lfdm_ros.engine.calibrations import AUTO, Applier

    writer = PosteriorStore(store).writer()
    try:
        applier = Applier(writer, policy=lambda: AUTO, limits=GateLimits, speed=lambda: 0.0, changed=lambda version: None)
        version = writer.add(result)
        line = applier.offer(version)
        if writer.in_force() is None:
            writer.put_in_force(version.number, APPLIED, "requested by the demo")
            line += "; applied by hand"
        return line
    finally:
        writer.close()


def table(drives: list[SharedDrive]) -> str:
    rows = [("outcome", [drive.outcome for drive in drives]),
            ("least clearance [m]", [f"{drive.summary['least_clearance']:.2f}" for drive in drives]),
            ("mean share of autonomy k", [f"{drive.k.mean():.2f}" for drive in drives]),
            ("operator's risk, mean", [f"{np.nanmean(drive.risk[:, 0]):.2f}" for drive in drives]),
            ("autonomy's risk, mean", [f"{np.nanmean(drive.risk[:, 1]):.2f}" for drive in drives]),
            ("posterior", [f"version {drive.posterior}" if drive.posterior else "vehicle file" for drive in drives])]
    width = max(len(text) for _, texts in rows for text in texts) + 2
    lines = ["", f"an operator behind 0.5 s and the controller share the hidden vehicle, {SCENARIO.replace('_', ' ')}:",
             f"{'':26}" + "".join(f"{drive.name:>{width}}" for drive in drives)]
    return "\n".join(lines + [f"{name:26}" + "".join(f"{text:>{width}}" for text in texts) for name, texts in rows])


def draw_shared(path: Path, drives: list[SharedDrive]) -> None:
    """Writes a PNG: the paths between the cones; risk and k over time."""
    from matplotlib.figure import Figure

    from lfdm_ros.simulation import Circle, load_scenario

    figure = Figure(figsize=(11.0, 5.4), layout="constrained")
    rows: Any = figure.subplots(1 + len(drives), 1, height_ratios=(1.2, *(1.0 for _ in drives)))
    colours = dict(zip((BEFORE, AFTER), (ORANGE, BLUE)))
    circles = [item for item in load_scenario(SCENARIO).world.obstacles if isinstance(item, Circle)]
    rows[0].plot([c.x for c in circles], [c.y for c in circles], "^", color=GREY, ms=3, label="cones")
    for drive, axis in zip(drives, rows[1:]):
        rows[0].plot(drive.x, drive.y, color=colours[drive.name], label=f"{drive.name}: {drive.outcome}")
        axis.plot(drive.times, drive.risk[:, 0], color=RED, lw=1.0, label="risk of the operator alone")
        axis.plot(drive.times, drive.risk[:, 1], color=GREEN, lw=1.0, label="risk of autonomy's plan")
        axis.fill_between(drive.times, drive.k, color="0.85", label="k, share of autonomy")
        axis.set(ylim=(0.0, 1.05), ylabel=f"{drive.name} [1]")
    rows[0].set(xlabel="x [m]", ylabel="y [m]")
    rows[0].legend(fontsize=8, loc="upper right")
    rows[1].legend(fontsize=8, loc="upper right")
    rows[-1].set_xlabel("time [s]")
    save_png(figure, path)


CHANNELS = {"yaw_rate": "yaw rate [rad/s]", "vy": "lateral velocity [m/s]"}
DRAWS = 100
PRIOR, POSTERIOR, TRUTH, DATA = PALE, BLUE, RED, INK


def draw(path: Path, recipe: Any, truth: dict[str, float], result: Path, bag: Path) -> None:
    """Writes a PNG of the hidden parameters `truth`, by the recipe's names, and of a calibration in the folder `result`; `bag`: recording
    of a manoeuvre that was not fitted."""
    from matplotlib.figure import Figure

    from lfdm_ros.calibration import load_posterior_summary

    posterior = load_posterior_summary(result, thinned=DRAWS)
    parameters = {p.name: p for stage in recipe.stages for p in stage.parameters}
    rng = np.random.default_rng(posterior["seed"])
    prior_draws = np.column_stack([parameters[n].prior.frozen().rvs(DRAWS, random_state=rng) for n in posterior["parameter_names"]])
    figure: Any = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.25))
    _parameters(left.subplots(), posterior, parameters, truth)
    axes = right.subplots(len(CHANNELS), sharex=True)
    bands = {colour: _responses(recipe, parameters, posterior["parameter_names"], draws, bag)
             for colour, draws in ((PRIOR, prior_draws), (POSTERIOR, posterior["thinned_draws"]))}
    _prediction(axes, bands, bag)
    save_figure(figure, path)


def _parameters(axis: Any, posterior: dict[str, Any], parameters: dict[str, Any], truth: dict[str, float]) -> None:
    names = posterior["parameter_names"]
    for row, name in enumerate(names):
        low, high = parameters[name].prior.frozen().ppf([0.0, 1.0])
        if not np.isfinite([low, high]).all():
            low, high = parameters[name].prior.frozen().ppf([0.005, 0.995])

        def scaled(value: float, low: float = low, high: float = high) -> float:
            return (value - low) / (high - low)

        axis.barh(row, 1.0, height=0.55, color=PRIOR, label="prior" if row == 0 else None)
        interval = [scaled(posterior["hdi_lower"][row]), scaled(posterior["hdi_upper"][row])]
        axis.plot(interval, [row, row], color=POSTERIOR, lw=13, solid_capstyle="butt", label="posterior, 94 %" if row == 0 else None)
        axis.plot(scaled(posterior["means"][row]), row, "|", color=POSTERIOR, ms=13, mew=2)  # visible however narrow the interval
        axis.plot(scaled(truth[name]), row - 0.36, "v", color=TRUTH, ms=8, label="hidden truth" if row == 0 else None)
    axis.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axis.invert_yaxis()
    axis.set_xticks([0, 1], ["prior's lower end", "upper end"])
    axis.set_title("parameters, inferred from three manoeuvres")
    axis.legend(loc="upper center", bbox_to_anchor=(0.3, -0.06), ncols=3, frameon=False, fontsize=9)


def _prediction(axes: Any, bands: dict[str, tuple[np.ndarray, np.ndarray]], bag: Path) -> None:
    from lfdm_ros.bags import read_series

    measured = read_series(bag, "measured/state", list(CHANNELS))
    for column, (axis, label) in enumerate(zip(axes, CHANNELS.values())):
        axis.plot(measured.time[::2], measured.values[::2, column], ".", color=DATA, ms=2, label="measured, never fitted")
        for colour, (times, responses) in bands.items():
            low, high = np.nanquantile(responses[..., column], [0.03, 0.97], axis=0)
            name = "prior" if colour == PRIOR else "posterior"
            axis.fill_between(times, low, high, color=colour, alpha=0.6 if name == "prior" else 1.0, lw=0.8, ec=colour,
                              label=f"predicted, {name}", zorder=1 if name == "prior" else 3)
        axis.set_ylabel(label)
        # Some of the prior's vehicles spin: the axis is for the measured one.
        low, high = measured.values[:, column].min(), measured.values[:, column].max()
        axis.set_ylim(low - 0.8 * (high - low), high + 0.8 * (high - low))
    axes[0].set_title("a manoeuvre that was not fitted")
    axes[0].legend(loc="upper right", fontsize=8)
    axes[-1].set_xlabel("time [s]")


def _responses(recipe: Any, parameters: dict[str, Any], names: list[str], draws: np.ndarray, bag: Path) -> tuple[np.ndarray, np.ndarray]:
    from lfdm_ros.inference.dataset import find_recordings, load_window
    from lfdm_ros.inference.likelihood import RolloutLikelihood
    from lfdm_ros.inference.plan import DEFAULT_STATE, Inputs

    (recording,) = find_recordings([bag])
    data = load_window(recording, 0.0, np.inf, model=recipe.model, vehicle=recipe.start_vehicle, step=recipe.step,
                       channels={name: ("measured/state", name) for name in CHANNELS}, state_topic=DEFAULT_STATE, inputs=Inputs())
    rollout = RolloutLikelihood([data], model=recipe.model, vehicle=recipe.start_vehicle, step=recipe.step,
                                unknowns=[parameters[name].targets for name in names])
    return data.times, rollout.responses(draws)[0]


TEST_SCENARIO = "sine_steer"
# Vehicles that spin or tip over are uninformative: beyond these [rad], draw again.
MAX_SIDESLIP, MAX_ROLL = 0.2, 0.15

EPILOG = """example:
  lfdm demo
  lfdm demo --seed 7 --out another_demo
  lfdm demo --record-only drives            the bags alone, to calibrate from by hand (docs/howto/commands.md#calibrate)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, default=Path("demo_result"), help="folder of bags, posterior and report (default %(default)s)")
    parser.add_argument("--record-only", type=Path, metavar="DIR", help="record the bags into this folder, and end")
    parser.add_argument("--seed", type=int, default=1, help="draws the hidden vehicle, its noise and the posterior (default %(default)s)")
    parser.add_argument("--draws", type=int, help="draws in each chain (default: the recipe's)")
    parser.add_argument("--chains", type=int, help="chains (default: the recipe's)")


def run(args: argparse.Namespace) -> int:
    from lfdm_ros.calibration.recipe import load_recipe
    from lfdm_ros.cli.calibrate import HumanLine
    from lfdm_ros.vehicles import save_vehicle

    began = time.perf_counter()
    if args.seed < 0:
        raise InputError(f"--seed {args.seed}: give 0 or more")
    steps = 2 if args.record_only else 6
    args.out = args.record_only or args.out
    # Only results of an earlier demo are replaced.
    if args.out.exists() and any(args.out.iterdir()) and not (args.out / "hidden_vehicle.yaml").is_file():
        raise InputError(f"{args.out} is not empty and not of an earlier demo; give another folder")
    shutil.rmtree(args.out, ignore_errors=True)
    args.out.mkdir(parents=True)
    recipe = load_recipe("hmmwv_demo")
    scenarios = [name for stage in recipe.stages for name in stage.recordings]
    _print_step(f"1/{steps}  drawing a hidden vehicle from the priors of {recipe.path.name}, seed {args.seed}")
    truth, hidden = _hidden_vehicle(recipe, [*scenarios, TEST_SCENARIO], args.seed)
    hidden_file = args.out / "hidden_vehicle.yaml"
    save_vehicle(hidden, hidden_file)
    _print_step(f"2/{steps}  driving on the ROS graph in lockstep, recording bags")
    bags = {}
    for index, scenario in enumerate([*scenarios, TEST_SCENARIO]):
        folder = "recordings" if not args.record_only else "test" if scenario == TEST_SCENARIO else "training"
        bags[scenario] = args.out / folder / scenario
        summary = record_drive(scenario, hidden_file, bags[scenario], seed=1000 * args.seed + index)
        _print_step(f"     {scenario:22} {summary['simulated_seconds']:5.1f} s in {summary['wall_seconds']:4.1f} s "
                    f"({summary['speed_factor']:.0f} x real time), {summary['messages_recorded']} messages")
    if args.record_only:
        calibrate_by_hand = f"  lfdm calibrate {recipe.path.stem} --bag {args.out / 'training'}"
        _print_step(f"\nnow calibrate by hand; the parameters that were hidden stand in {hidden_file}:\n"
                    f"{calibrate_by_hand} --check\n{calibrate_by_hand} --out result\n"
                    f"  lfdm predict --posterior result --bag {args.out / 'test'} --out check")
        return 0
    store = args.out / "store"
    _print_step("3/6  sharing the vehicle with an operator behind a link, by the vehicle file")
    shares = [share(BEFORE, hidden_file, store, args.out / "recordings" / "shared_before", args.seed)]
    _print_step("4/6  calibrating from the bags")
    from lfdm_ros.calibration import calibrate, predict

    result = args.out / "calibration"
    with closing(HumanLine()) as show:
        outcome = calibrate(recipe, [bags[s] for s in scenarios], result, draws=args.draws, chains=args.chains, seed=args.seed,
                            progress=show)
    _print_step(f"5/6  predicting {TEST_SCENARIO}, which was not fitted")
    after = predict(bags[TEST_SCENARIO], args.out / "prediction", posterior=result, seed=args.seed)
    before = predict(bags[TEST_SCENARIO], args.out / "prediction_uncalibrated", vehicle=recipe.start_vehicle, model=recipe.model,
                     seed=args.seed)
    _print_step(f"6/6  sharing the vehicle again, by the posterior: {apply(store, result)}")
    shares.append(share(AFTER, hidden_file, store, args.out / "recordings" / "shared_after", args.seed))
    print(_table(recipe, truth, outcome), _errors(before, after), sep="\n")
    draw(args.out / "demo.png", recipe, truth, result, bags[TEST_SCENARIO])
    draw_shared(args.out / "shared.png", shares)
    print(table(shares))
    print(f"\npictures {args.out / 'demo.png'}\n         {args.out / 'shared.png'}")
    print(f"report   {result / 'report.html'}\nall of it took {time.perf_counter() - began:.0f} s")
    return 0


def _print_step(line: str) -> None:
    print(line, flush=True)


def _hidden_vehicle(recipe: Any, scenarios: list[str], seed: int) -> tuple[dict[str, float], Any]:
    rng = np.random.default_rng([seed, 1])
    parameters = [parameter for stage in recipe.stages for parameter in stage.parameters]
    for _ in range(1000):
        truth = {p.name: float(p.prior.frozen().rvs(random_state=rng)) for p in parameters}
        changes = {target: factor * truth[p.name] for p in parameters for target, factor in p.targets}
        hidden = recipe.start_vehicle.replace(source="hidden by the demo", **changes)
        if all(_drives(hidden, recipe.model, scenario) for scenario in scenarios):
            return truth, hidden
    raise InputError(f"{recipe.path}: nearly every vehicle of these priors spins or tips over in {', '.join(scenarios)}; narrow the priors")


def _drives(vehicle: Any, model: str, name: str) -> bool:
    from lfdm_ros.simulation import Simulator, load_scenario, rollout

    scenario = load_scenario(name)
    if scenario.profile is None:
        raise InputError(f"scenario {name} is a task without inputs of a driver; the demo needs those")
    simulator = Simulator(vehicle, model=model)
    simulator.reset(vx=scenario.initial.speed)
    _, outputs = rollout(simulator, scenario.profile, scenario.duration)
    vx, vy, roll = (np.abs(outputs[:, simulator.output_index[name]]) for name in ("vx", "vy", "roll"))
    return bool((np.arctan2(vy, np.maximum(vx, 1.0)) < MAX_SIDESLIP).all() and (roll < MAX_ROLL).all())


def record_drive(scenario: str, vehicle: Path, bag: Path, seed: int) -> dict[str, Any]:
    from lfdm_ros.ros.runtime import exit_status
    from lfdm_ros.stacks.compose import run_stack

    summary = run_stack("demo", record=bag, quiet=True, overrides={
        "scenario": scenario, "vehicle_simulator.vehicle": str(vehicle), "state_sensor.seed": seed})
    if status := exit_status(summary["reason"]):
        raise Interrupted(status)
    if not summary.get("scenario_finished") or summary["messages_dropped"]:
        raise InputError(f"{bag}: {scenario} ended early ({summary['reason']}) or lost messages; run `lfdm doctor`")
    return summary


def _table(recipe: Any, truth: dict[str, float], outcome: dict[str, Any]) -> str:
    lines = ["", f"{'parameter':30} {'truth':>9} {'prior mean':>11} {'posterior':>18} {'94 % interval':>21}  truth inside"]
    inside = 0
    for stage, row in zip(recipe.stages, outcome["stages"]):
        for parameter in stage.parameters:
            got, true = row["parameters"][parameter.name], truth[parameter.name]
            low, high = got["hdi_3%"], got["hdi_97%"]
            inside += low <= true <= high
            posterior, interval = f"{got['mean']:.5g} ± {got['sd']:.2g}", f"[{low:.5g}, {high:.5g}]"
            lines.append(f"{parameter.name:30} {true:9.5g} {parameter.prior.frozen().mean():11.5g} {posterior:>18} {interval:>21}  "
                         f"{'yes' if low <= true <= high else 'no'}")
    lines.append(f"{inside} of {len(truth)} truths inside their 94 % interval")
    return "\n".join(lines)


def _errors(before: dict[str, Any], after: dict[str, Any]) -> str:
    return "\n".join([
        "", f"mean RMSE on {TEST_SCENARIO} against the noisy measurements:", f"{'channel':12} {'uncalibrated':>13} {'calibrated':>11}",
        *(f"{channel:12} {before['rmse'][channel]['posterior']:13.4g} {row['posterior']:11.4g}" for channel, row in after["rmse"].items())])
