"""Time of 1,024 rollouts each of an operator's command, of a plan and of the stops that may replace them, 3 s ahead among 40 obstacles in a
corridor.

`lfdm bench risk`. For comparison: a plain loop over one vehicle's compiled step with the same obstacle checks in NumPy; half the rollouts
(`half`); the defaults, which end when the result is clear (`until_clear`); and these while the autonomy stack drives on the graph.
"""

import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from lfdm_lab.cli.bench import Measurement
from lfdm_ros.backends import advance_kernel
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import Measured
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.risk import RiskRollouts, RiskSettings
from lfdm_ros.sharing.situation import Corridor, Situation, StampedCommand
from lfdm_ros.simulation import initial_state
from lfdm_ros.simulation.path import Path
from lfdm_ros.simulation.world import Circle, World
from lfdm_ros.vehicles import load_vehicle

SPEED, OBSTACLES, ASSESSMENTS, PLAIN = 18.0, 40, 200, 16
INTENTIONS = 5  # operator and plan; autonomy's stop at once, and with the operator's command before it, at once and after taking over
GRAPH_SECONDS = 45.0
VEHICLE = load_vehicle("hmmwv")


def measure(runs: int) -> list[Measurement]:
    """Measures all numbers of `lfdm bench risk`."""
    settings = RiskSettings(clear=0.0)  # always all rollouts, and all stops
    situation = example()
    half, shipped = replace(settings, rollouts=settings.rollouts // 2), RiskSettings()
    records = []
    for name, changed in (("", settings), ("/half", half), ("/eighteen_dof", replace(settings, model="eighteen_dof")),
                          ("/float64", replace(settings, single=False))):
        rollouts = RiskRollouts(VEHICLE, changed)
        times = [assessed(rollouts, situation) for _ in range(runs)]
        records += _quantiles(name, times)
        if not name:
            count = INTENTIONS * rollouts.rollouts
            records += [Measurement.of("rollouts", [count] * runs, "1"),
                        Measurement.of("horizon_s", [settings.horizon] * runs, "s"),
                        Measurement.of("rollouts_cpu_ms", [cpu(rollouts, situation) for _ in range(runs)], "ms")]
            plain = [plain_loop(rollouts, situation) * count for _ in range(runs)]
            records += [Measurement.of("plain_loop_ms", [1e3 * t for t in plain], "ms"),
                        Measurement.of("ratio/plain_loop", [t / np.median(rollout_times) for t, rollout_times in zip(plain, times)], "1")]
    quick = RiskRollouts(VEHICLE, shipped)
    records += _quantiles("/until_clear", [assessed(quick, situation) for _ in range(runs)])
    for name, chosen in (("", settings), ("/half", half), ("/until_clear", shipped)):
        records += _quantiles(f"{name}/beside_graph", beside_graph(chosen, situation, runs))
    return records


def _quantiles(name: str, times: list[np.ndarray]) -> list[Measurement]:
    return [Measurement.of(f"rollouts_ms_{label}{name}", [1e3 * float(np.percentile(t, share)) for t in times], "ms")
            for label, share in (("p50", 50), ("p99", 99), ("max", 100))]


def example() -> Situation:
    """Returns a situation: obstacles, a curved lane, and an operator with slightly too much steering."""
    rng = np.random.default_rng(3)
    places = np.column_stack([rng.uniform(8.0, 75.0, OBSTACLES), rng.uniform(3.0, 20.0, OBSTACLES) * rng.choice([-1.0, 1.0], OBSTACLES)])
    detected = Obstacles(places, rng.uniform(0.3, 1.2, OBSTACLES), np.zeros((OBSTACLES, 2)), 0.0)
    t = np.arange(0.0, 4.01, 0.1)
    plan = Plan(("x", "y", "yaw", "vx"), t, np.column_stack([SPEED * t, 0.0 * t, 0.0 * t, np.full(len(t), SPEED)]),
                np.column_stack([0.0 * t, np.full(len(t), 0.15), 0.0 * t]))
    lane = Path(np.column_stack([np.linspace(-30.0, 150.0, 91), 0.0004 * np.linspace(-30.0, 150.0, 91) ** 2]))
    known = {"x": 0.0, "y": 0.0, "yaw": 0.0, "vx": SPEED, "vy": 0.0, "yaw_rate": 0.0}
    operator, autonomy = StampedCommand(0.0, 0.02, 0.15), StampedCommand(0.0, 0.0, 0.15)
    return Situation(0.0, VEHICLE, Measured(0.0, known), (), operator, autonomy, plan, detected, lane,
                     Corridor(lane, np.array([[0.0, 3.5, 3.5], [180.0, 3.5, 3.5]])))


def assessed(rollouts: RiskRollouts, situation: Situation) -> np.ndarray:
    """Returns the wall clock time of each of ASSESSMENTS assessments (n,) [s]."""
    rollouts.assess(situation)
    return np.array([rollouts.assess(situation).seconds for _ in range(ASSESSMENTS)])


def cpu(rollouts: RiskRollouts, situation: Situation) -> float:
    """Returns the processor time of an assessment on all cores together [ms]."""
    begin = time.process_time()
    for _ in range(50):
        rollouts.assess(situation)
    return 1e3 * (time.process_time() - begin) / 50


def plain_loop(rollouts: RiskRollouts, situation: Situation) -> float:
    """Returns the time of one rollout in a loop: a vehicle's compiled step from sample to sample, exact clearances by NumPy [s]."""
    s, model = rollouts.settings, rollouts.model
    world = World(tuple(Circle(x, y, radius) for (x, y), radius in zip(situation.obstacles.centres, situation.obstacles.radii)))
    x, before, after = initial_state(model, VEHICLE, vx=SPEED), np.array([0.02, 0.15, 0.0]), np.array([0.02, 0.15, 0.0])
    begin = time.perf_counter()
    for _ in range(PLAIN):
        x[:] = initial_state(model, VEHICLE, vx=SPEED)
        advance = advance_kernel(model)(x, VEHICLE.vector(model), before, after)
        for _ in rollouts.times[1:]:
            advance(round(s.sample / s.step), s.step)
            world.clearance(0.0, x[0], x[1], x[2], VEHICLE.footprint)
    return (time.perf_counter() - begin) / PLAIN


def beside_graph(settings: RiskSettings, situation: Situation, runs: int) -> list[np.ndarray]:
    """Measures assessments [s] every 50 ms, as in the node, while simulator, LIDAR and controller drive on the graph."""
    rollouts, found = RiskRollouts(VEHICLE, settings), []
    for _ in range(runs):
        stack = subprocess.Popen(
            [sys.executable, "-m", "lfdm_ros.cli", "up", "autonomy", "--speed", "1", "--duration", str(GRAPH_SECONDS)],
            env=os.environ | {"ROS_DOMAIN_ID": "86", "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5 * GRAPH_SECONDS)  # until it drives
            seconds = []
            for _ in range(ASSESSMENTS):
                seconds.append(rollouts.assess(situation).seconds)
                time.sleep(max(0.05 - seconds[-1], 0.0))
            if stack.poll() is not None:
                raise RuntimeError("the graph ended before the measurement did")
        finally:
            stack.terminate()
            stack.wait()
        found.append(np.array(seconds))
    return found
