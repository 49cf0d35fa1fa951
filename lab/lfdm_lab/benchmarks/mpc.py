"""The controller's cycle in closed loop on one core under continuous load: time, and its parts.

`lfdm bench mpc`. The vehicle drives at 15 m/s to a goal through an endless field of circles; the controller receives the next 8, ten times
a second. The plant is the 24-DOF model with an actuation delay of 100 ms and a state age of 20 ms. The horizon has 40 stages with
constraints for 4 circles (the nearest of each stage, two on each side), wheel loads, friction, steering limit, corridor and speed.
`cycle_ms_*` is the wall clock of `Controller.cycle`, `cycle_cpu_ms_*` this thread's processor time (they differ on a busy machine). Garbage
collection is enabled; objects created before the first cycle are exempt (`gc.freeze`). Slow solvers drive fewer cycles (SLOW_CYCLES).

- `*/MODEL/hpipm_8_rows`: constraints for all 8 circles at every stage.
- `*/MODEL/hpipm_slalom`: a straight line through a slalom in which an obstacle constraint is active in every cycle.
- `*/MODEL/hpipm_slalom_budget`: the same with the default `time_budget`; all others have no time limit.
- `part_cpu_ms_p50/MODEL/hpipm/PART`: processor time, in a separate run because of the cost of the clocks.
- `look_ms_*`: route search around the same circles, after the command has been sent.
- `ratio_p50/MODEL/SOLVER`: over HPIPM in the same run.
- `solved_share`, `active_share`: share of cycles with a solved plan, and with an active obstacle constraint.
- `first_start_s`, `start_s`: a process from its first line to the first command, including imports and the table of limits, with an empty
  cache and with a filled one.
"""

import gc
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_lab.benchmarks import _subjects as subjects
from lfdm_lab.cli.bench import Measurement
from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Actuator, Goal, Simulator
from lfdm_ros.simulation.path import Path
from lfdm_ros.solvers import SolverMissing
from lfdm_ros.vehicles import load_vehicle

VEHICLE, PLANT, TYRE = "hmmwv", "twenty_four_dof", "tmeasy"
MODELS, SOLVERS = ("driven_bicycle", "eight_dof"), ("hpipm", "piqp", "ipopt")
SLOW_CYCLES = {"ipopt": 300}
WARM_UP = 25  # cycles that do not count, with the cold start
SPEED, DELAY, AGE = 15.0, 0.1, 1  # [m/s], [s], [cycles]
DETECTED, BEHIND = 8, 5.0  # circles detected; distance behind the vehicle up to which they are [m]
SPACING, OFFSET, RADIUS = 12.0, 2.0, 0.8  # [m] of the slalom
FIELD_SPACING, MAX_OFFSET, RADII, SEED = 20.0, 6.0, (0.5, 2.0), 1  # [m] of the field; its seed
OBSERVED = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay", "roll", "roll_rate", "omega_fl", "omega_fr", "omega_rl", "omega_rr")
PARTS = {"delay_prediction": "_prediction.at", "shift": "planner.shift", "references": "planner.stages.follow",
         "obstacles": "planner.stages.avoid", "linearise": "planner.program.linearise", "solver": "planner.solver.solve",
         "check": "planner.program.qp.residual", "outcome": "planner.program.outcome", "snapshot": "planner.trajectory.snapshot",
         "stop": "_guard.decide"}


def measure(runs: int, cycles: int = 5000, models: Sequence[str] = MODELS, solvers: Sequence[str] = SOLVERS) -> list[Measurement]:
    """Measures models and solvers. Raises InputError: unknown model or solver, or too few cycles."""
    for option, names, choices in (("--models", models, MODELS), ("--solvers", solvers, SOLVERS)):
        for name in names:
            if name not in choices:
                raise InputError(f"{option} {name}: choose from {', '.join(choices)}")
    if cycles < 100:
        raise InputError(f"--cycles {cycles}: give 100 or more")
    records = []
    for model in models:
        records += cost_of_start(model, runs)
    with one_core():
        for model in models:
            records += of_model(model, solvers, runs, cycles)
    return records


def of_model(model: str, solvers: Sequence[str], runs: int, cycles: int) -> list[Measurement]:
    """Measures the cycles with one model, by solver."""
    records: list[Measurement] = []
    medians: dict[str, float] = {}

    def add(name: str, drives: Sequence[CycleTimes]) -> None:
        records.extend(records_of(f"{model}/{name}", drives))
        medians[name] = float(np.median([np.median(d.wall) for d in drives]))

    for solver in solvers:
        try:
            controller = make_controller(model, solver)
        except SolverMissing as error:
            print(error, file=sys.stderr)
            continue
        add(solver, [through(field, controller, few(solver, cycles)) for _ in range(1 if solver in SLOW_CYCLES else runs)])
        if solver != "hpipm":
            continue
        records += searches_of(model, controller, cycles)
        records += parts_of(model, controller, min(cycles, 1000))
        if model == MODELS[0]:
            add("hpipm_8_rows", [through(field, make_controller(model, solver, obstacles=DETECTED), cycles)])
        add("hpipm_slalom", [through(slalom, controller, min(cycles, 2500))])
        shipped = make_controller(model, solver, time_budget=Settings().time_budget)
        add("hpipm_slalom_budget", [through(slalom, shipped, min(cycles, 2500))])
    if base := medians.get("hpipm"):
        records += [Measurement(f"ratio_p50/{model}/{name}", median / base, "1", 0.0, 1) for name, median in medians.items()
                    if name != "hpipm"]
    return records


def few(solver: str, cycles: int) -> int:
    """Returns the number of cycles of a solver, fewer for those of SLOW_CYCLES."""
    return min(cycles, SLOW_CYCLES.get(solver, cycles))


# -- Driving --------------------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class CycleTimes:
    """Wall clock and processor time of each cycle, and time of each route search [s]; shares of cycles that are solved, and that have an
    active obstacle constraint."""

    wall: np.ndarray
    cpu: np.ndarray
    searches: np.ndarray
    solved: float
    active: float


class DelayedPlant:
    """The vehicle with its actuators, and a delayed state."""

    def __init__(self, period: float):
        self._simulator = Simulator(load_vehicle(VEHICLE), PLANT, 1e-3, TYRE)
        self._simulator.reset(vx=SPEED)
        self._actuator, self._period = Actuator(DELAY, 0.0, 0.8), period
        self._columns = [self._simulator.output_index[name] for name in OBSERVED]
        self._inputs = np.zeros(3)
        self._states: list[dict[str, float]] = []

    def state(self, k: int) -> tuple[float, dict[str, float]]:
        """Returns the time stamp [s] and the values of the state that arrives in cycle k."""
        self._states.append(dict(zip(OBSERVED, self._simulator.outputs[self._columns].tolist())))
        k = max(k - AGE, 0)
        return k * self._period, self._states[k]

    def advance(self, now: float, command: tuple[float, float, float]) -> None:
        """Advances by a period with a new command."""
        self._actuator.send(now, command)
        before, self._inputs = self._inputs, np.asarray(self._actuator.advance(now + self._period))
        self._simulator.advance(before, self._inputs, round(self._period / 1e-3))


def make_controller(model: str, solver: str, **settings: Any) -> Controller:
    """Creates a controller, by default without a time limit, which would make results depend on the clock."""
    vehicle = load_vehicle(VEHICLE).replace(actuation_delay=DELAY)
    chosen = Settings(model=model, solver=solver, **{"time_budget": 0.0, **settings})
    return Controller(vehicle, chosen, limits_of(vehicle, chosen))


Scene = Callable[[float, float], Obstacles]


def field(now: float, x: float) -> Obstacles:
    """Returns the next circles of the endless field."""
    index = np.arange(DETECTED) + max(math.ceil((x - BEHIND) / FIELD_SPACING), 2)
    draws = np.array([np.random.default_rng((SEED, i)).random(3) for i in index.tolist()])
    centres = np.column_stack([FIELD_SPACING * (index + 0.5 * draws[:, 0]), MAX_OFFSET * (2.0 * draws[:, 1] - 1.0)])
    return Obstacles(centres, RADII[0] + (RADII[1] - RADII[0]) * draws[:, 2], np.zeros((DETECTED, 2)), now)


def slalom(now: float, x: float) -> Obstacles:
    """Returns the next circles of the endless slalom."""
    index = np.arange(DETECTED) + max(math.ceil((x - BEHIND) / SPACING), 2)
    centres = np.column_stack([SPACING * index, np.where(index % 2, OFFSET, -OFFSET)])
    return Obstacles(centres, np.full(DETECTED, RADIUS), np.zeros((DETECTED, 2)), now)


def through(scene: Scene, controller: Controller, cycles: int, after: Callable[[], None] = lambda: None) -> CycleTimes:
    """Drives to a goal through the field, or along the line of the slalom; calls `after` after each cycle that counts."""
    period = controller.settings.period
    controller.reset()
    end = 100.0 + SPEED * period * (cycles + WARM_UP)
    if scene is field:
        controller.go_to(Goal(end, 0.0), SPEED)
    else:
        controller.follow(Path(np.array([[0.0, 0.0], [end, 0.0]])), SPEED, stop=False)
    plant = DelayedPlant(period)
    wall, cpu, searches, cycles_done, route, search_time = [], [], [], [], None, 0.0
    gc.collect()
    gc.freeze()
    try:
        for k in range(cycles + WARM_UP):
            now = k * period
            measured_at, state = plant.state(k)
            if k % 5 == 0:
                controller.update_obstacles(scene(now, state["x"]))
            start, busy = time.perf_counter(), time.thread_time()
            cycle: Cycle = controller.cycle(now, Measured(measured_at, state))
            busy, ended = time.thread_time() - busy, time.perf_counter()
            if k >= WARM_UP:
                wall.append(ended - start)
                cpu.append(busy)
                cycles_done.append(cycle)
                after()
                if cycle.route is not route:  # the last search found a new one
                    searches.append(search_time)
            route, start = cycle.route, time.perf_counter()
            controller.poll(now)
            search_time = time.perf_counter() - start
            plant.advance(now, cycle.command)
    finally:
        gc.unfreeze()
    return CycleTimes(np.array(wall), np.array(cpu), np.array(searches),
                      float(np.mean([c.outcome is CycleOutcome.SOLVED for c in cycles_done])),
                      float(np.mean(["obstacle" in (*c.active, *c.violated) for c in cycles_done])))


# -- Numbers --------------------------------------------------------------------------------------------------------

def records_of(name: str, drives: Sequence[CycleTimes]) -> list[Measurement]:
    """Summarises repetitions of a run; `max` is the largest of all."""
    out = []
    for clock, seconds in (("cycle_ms", [d.wall for d in drives]), ("cycle_cpu_ms", [d.cpu for d in drives])):
        for what, percent in (("p50", 50.0), ("p99", 99.0), ("max", 100.0)):
            values = [1e3 * float(np.percentile(one, percent)) for one in seconds]
            record = Measurement.of(f"{clock}_{what}/{name}", values, "ms")
            out.append(record if what != "max" else Measurement(record.name, max(values), "ms", record.spread, record.runs))
    out.append(Measurement(f"cycles/{name}", float(len(drives[0].wall)), "1", 0.0, len(drives)))
    return [*out, Measurement.of(f"solved_share/{name}", [d.solved for d in drives], "1"),
            Measurement.of(f"active_share/{name}", [d.active for d in drives], "1")]


def searches_of(model: str, controller: Controller, cycles: int) -> list[Measurement]:
    """Measures the search for a route."""
    times = 1e3 * through(field, controller, min(cycles, 2500)).searches
    return [Measurement(f"look_ms_{name}/{model}", float(np.percentile(times, percent)), "ms", 0.0, 1)
            for name, percent in (("p50", 50.0), ("p99", 99.0), ("max", 100.0)) if len(times)]


def parts_of(model: str, controller: Controller, cycles: int) -> list[Measurement]:
    """Measures the cycle's processor time by part; `rest` is the time outside of the parts."""
    spent = dict.fromkeys(PARTS, 0.0)
    table: list[dict[str, float]] = []
    undo = []
    for part, attribute_path in PARTS.items():
        *owners, name = attribute_path.split(".")
        owner: Any = controller
        for attribute in owners:
            owner = getattr(owner, attribute)
        setattr(owner, name, timed(getattr(owner, name), part, spent))
        undo.append((owner, name))

    def after() -> None:
        table.append(dict(spent))

    try:
        drive = through(field, controller, cycles, after)
    finally:
        for owner, name in undo:
            delattr(owner, name)  # restores that of the class
    parts = np.diff([[row[part] for part in PARTS] for row in table], axis=0)
    rest = drive.cpu[1:] - parts.sum(axis=1)
    return [Measurement(f"part_cpu_ms_p50/{model}/hpipm/{part}", 1e3 * float(np.median(values)), "ms", 0.0, 1)
            for part, values in (*zip(PARTS, parts.T), ("rest", rest))]


def timed(call: Callable[..., Any], part: str, spent: dict[str, float]) -> Callable[..., Any]:
    """Wraps a call so that its processor time is added to that of its part."""
    def wrapped(*arguments: Any, **named: Any) -> Any:
        start = time.thread_time()
        result = call(*arguments, **named)
        spent[part] += time.thread_time() - start
        return result

    return wrapped


def cost_of_start(model: str, runs: int) -> list[Measurement]:
    """Measures the time of a process from its first line to the first command, with an empty cache and with a filled one [s]."""
    script = (
        "import time; t = time.perf_counter(); from lfdm_ros.control.controller import Controller, limits_of; "
        "from lfdm_ros.control.prediction import Measured; from lfdm_ros.control.settings import Settings; "
        "from lfdm_ros.simulation import Goal; from lfdm_ros.vehicles import load_vehicle; "
        f"v = load_vehicle({VEHICLE!r}); s = Settings(model={model!r}); "
        "c = Controller(v, s, limits_of(v, s)); c.go_to(Goal(500.0, 0.0), 15.0); "
        "c.cycle(0.0, Measured(0.0, dict(x=0, y=0, yaw=0, vx=10, vy=0, yaw_rate=0))); "
        "print(time.perf_counter() - t)")

    first, later = subjects.seconds_of_starts(script, runs)
    return [Measurement.of(f"first_start_s/{model}", first, "s"), Measurement.of(f"start_s/{model}", later, "s")]


@contextmanager
def one_core() -> Iterator[None]:
    """Pins this process to one core, if supported."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
