"""Model predictive path integral control (Williams et al., "Information-theoretic model predictive control", IEEE T-RO 34(6), 2018,
algorithm 2), as a baseline: no derivatives, no solver, rollouts of the vehicle model in each cycle, on any back end for batches."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.safety.stops import outline_distance
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.simulation import BatchRollout, Goal, initial_state
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle

STATES = ("x", "y", "yaw", "vx", "vy")
FAR = 60.0  # [m] beyond which obstacles are ignored
MAX_STEP = 0.05  # [s] of the integrator


@dataclass(frozen=True)
class MppiSettings:
    """Settings. period: of the cycles; horizon and sample of a rollout [s]; rollouts of a cycle; sds: of the noise of steering and pedal,
    correlated over `memory` [s]; temperature: of the weights; margin: kept around the vehicle [m]; seed: of the noise."""

    period: float = 0.1
    horizon: float = 4.0
    sample: float = 0.1
    rollouts: int = 1024
    sds: tuple[float, float] = (0.15, 0.4)
    memory: float = 0.6
    temperature: float = 0.3
    margin: float = 0.5
    seed: int = 1


class Mppi:
    """A driver (`control.cycle.Driver`). Obstacles are assumed to keep their velocity."""

    def __init__(self, vehicle: Vehicle, settings: MppiSettings | None = None):
        """Compiles the rollouts. Raises InputError: the vehicle has no eight_dof."""
        self.settings = s = settings or MppiSettings()
        self._vehicle, self._model = vehicle, vehicle.model("eight_dof")
        self._times = s.sample * np.arange(round(s.horizon / s.sample) + 1)
        self._rng = np.random.default_rng(s.seed)
        self._rollout = BatchRollout(model=self._model, vehicle=vehicle, dt=MAX_STEP, times=self._times, parameters=(), channels=STATES,
                                     inputs=np.zeros((len(self._times), 3)), hold=True)
        self._plan, self._last = np.zeros((len(self._times), 2)), np.zeros(2)
        self._obstacles: Obstacles = NO_OBSTACLES
        self._goal: Goal | None = None
        self._path: Path | None = None
        self._speed, self._path_position, self._length = 0.0, 0.0, math.inf

    def follow(self, path: Path, speed: float | np.ndarray, corridor: np.ndarray | None = None, stop: bool = True,
               hidden_speed: float = 0.0) -> None:
        """Follows a path at a speed [m/s]; ignores the corridor."""
        self._goal, self._path, self._length = None, path.extended(100.0), path.length
        self._speed, self._path_position = float(np.max(speed)), 0.0

    def go_to(self, goal: Goal, speed: float) -> None:
        """Drives to a goal at a speed [m/s]."""
        self._goal, self._path, self._speed = goal, None, speed

    def update_obstacles(self, obstacles: Obstacles) -> None:
        """Sets the obstacles of the last scan."""
        self._obstacles = obstacles

    def poll(self, now: float) -> None:
        """Does nothing, as it plans no route."""

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Returns the command of a cycle: the mean of the rollouts' inputs, weighted by exp(-cost / temperature)."""
        assert measured is not None
        value, s = measured.values, self.settings
        start = initial_state(self._model, self._vehicle, **{name: value[name] for name in (*STATES, "yaw_rate")})
        noise = self._noise()
        samples = self._rate_limited(np.clip(self._plan[:, :, None] + noise, -1.0, 1.0))
        inputs = np.stack([samples[:, 0], np.maximum(samples[:, 1], 0.0), np.maximum(-samples[:, 1], 0.0)], axis=1)
        runs = self._rollout.trajectories(np.zeros((s.rollouts, 0)), start, np.moveaxis(inputs, 2, 0))
        cost, free = self._cost(np.moveaxis(runs, 2, 0), samples, now)
        weights = np.exp(-(cost - cost.min()) / s.temperature)
        self._plan = samples @ (weights / weights.sum())
        steering, pedal = self._plan[0]
        if not free.any():  # all samples collide: brake fully
            pedal = -1.0
        self._last = np.array([steering, pedal])
        self._plan = np.concatenate([self._plan[round(s.period / s.sample):], self._plan[-1:]])[:len(self._times)]
        return Cycle((float(steering), max(float(pedal), 0.0), max(-float(pedal), 0.0)),
                     CycleOutcome.SOLVED if free.any() else CycleOutcome.BRAKING, done=self._arrived(value))

    def _noise(self) -> np.ndarray:
        """Draws noise (K, 2, N), correlated in time; 0 for the first run."""
        s = self.settings
        correlation = math.exp(-s.sample / s.memory)
        steps = self._rng.standard_normal((len(self._times), 2, s.rollouts)) * np.array(s.sds)[:, None]
        noise = np.empty_like(steps)
        noise[0] = steps[0]
        for k in range(1, len(noise)):
            noise[k] = correlation * noise[k - 1] + math.sqrt(1.0 - correlation * correlation) * steps[k]
        noise[:, :, 0] = 0.0
        return noise

    def _rate_limited(self, inputs: np.ndarray) -> np.ndarray:
        """Limits inputs (K, 2, N) in place by the rates of the actuators, from the last command on."""
        actuators, s = self._vehicle.actuators, self.settings
        limit = s.sample * np.array([[actuators.steering_rate], [min(actuators.throttle_rate, actuators.brake_rate)]])
        before = np.repeat(self._last[:, None], inputs.shape[2], axis=1)
        for k in range(len(inputs)):
            before = inputs[k] = np.clip(inputs[k], before - limit, before + limit)
        return inputs

    def _cost(self, states: np.ndarray, samples: np.ndarray, now: float) -> tuple[np.ndarray, np.ndarray]:
        """Computes costs (N,) of states (5, N, K) and inputs (K, 2, N), and which runs are free of collisions (N,)."""
        s = self.settings
        x, y, yaw, vx, vy = states
        cost = 3.0 * ((vx - self._speed) ** 2).mean(axis=1) + 20.0 * (np.abs(vy) > 0.2 * np.maximum(vx, 2.0)).mean(axis=1)
        cost += 4.0 * (np.diff(samples[:, 0], axis=0) ** 2).sum(axis=0) + 0.2 * (np.diff(samples[:, 1], axis=0) ** 2).sum(axis=0)
        if self._goal is not None:
            cost += np.hypot(x - self._goal.x, y - self._goal.y).min(axis=1)
        elif self._path is not None:
            position, offset = self._path.project(x.ravel(), y.ravel(), np.full(x.size, self._path_position))[:2]
            cost += 2.0 * (offset.reshape(x.shape) ** 2).mean(axis=1) - 0.5 * position.reshape(x.shape)[:, -1]
        nearest = np.full(x.shape, np.inf)
        obstacles = self._obstacles.at(now)
        if len(obstacles.radii):
            obstacles = obstacles.where(np.hypot(*(obstacles.centres - [x[0, 0], y[0, 0]]).T) < FAR)
        for centre, radius, velocity in zip(obstacles.centres, obstacles.radii, obstacles.velocities):
            dx, dy = centre[0] + velocity[0] * self._times - x, centre[1] + velocity[1] * self._times - y
            nearest = np.minimum(nearest, outline_distance(self._vehicle.footprint, dx, dy, yaw) - radius)
        touching = nearest < s.margin
        cost += 100.0 * touching.sum(axis=1) + 2.0 * np.exp(-np.maximum(nearest - s.margin, 0.0) / 0.5).sum(axis=1)
        finite = np.isfinite(cost)
        return np.where(finite, cost, 1e9), np.asarray(finite & ~touching.any(axis=1))

    def _arrived(self, value: Mapping[str, float]) -> bool:
        if self._goal is not None:
            return math.hypot(value["x"] - self._goal.x, value["y"] - self._goal.y) < self._goal.tolerance
        if self._path is None:
            return False
        places = (np.array([each]) for each in (value["x"], value["y"], self._path_position))
        (self._path_position,) = self._path.project(*places)[0].tolist()
        return self._path_position >= self._length - 1.0
