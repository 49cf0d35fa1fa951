"""A baseline: model predictive path integral control, which samples instead of solving.

Williams, Drews, Goldfain, Rehg, Theodorou 2018, "Information-theoretic model predictive control: theory and applications to autonomous
driving" (2017 at ICRA as "Information theoretic MPC for model-based reinforcement learning"), Algorithms 1 and 2: K disturbed copies of
the plan are rolled out, and the plan becomes their mean, weighted by exp(-cost / temperature). What is sampled are the rates of steering
and pedal (Kim et al. 2022, "Smooth model predictive path integral control without smoothing"), so that no plan asks for what the actuators
cannot do. The rollouts are one call of the batch kernel, of the model that the settings name.

The cost has the terms of nav2's MPPI controller, with its temperature and gamma: CostCritic as a map of clearances around the vehicle (what
moves counts where it is now), PathFollow (progress along the way of the lattice), PathAlign, a critic of speed and a constraint of lateral
acceleration. As in nav2, a plan that collides is not driven, and where all samples do, the vehicle brakes.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from lfdm_lab.studies.baseline import Baseline
from lfdm_ros.control.cycle import ARRIVED, BLOCKED, Cycle, Outcome
from lfdm_ros.control.prediction import Measured, Pose, Prediction
from lfdm_ros.control.settings import Settings
from lfdm_ros.control.wayfinding import Way
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import BatchRollout
from lfdm_ros.vehicles import Vehicle

CHANNELS = ("x", "y", "yaw", "vx", "yaw_rate")
COLLISION = 1e4  # cost of a rollout that touches something; sums of all others stay below
STRIDE = 8  # every so many samples of a rollout are looked for on the path


@dataclass(frozen=True)
class Sampling:
    """Numbers of the method. Weights are of means over the horizon.

    samples, steps, step [s]: of the rollouts; longest: of the model's steps [s]; temperature, gamma: of the weights, and of the cost of
    disturbances; lateral [m/s^2], pedal [1/s]: one standard deviation of what a second of disturbances changes; seed.
    progress: a second of driving at the task's speed; align [1/m]; speeding [s/m] and its square; sideways: lateral acceleration beyond
    `most_sideways` [m/s^2]; near, nearer: within these distances [m] of an obstacle, as share of them, and their weights.
    """

    samples: int = 1024
    steps: int = 40
    step: float = 0.1
    longest: float = 0.05
    temperature: float = 0.3
    gamma: float = 0.015
    lateral: float = 3.0
    pedal: float = 0.6
    seed: int = 1
    progress: float = 5.0
    align: float = 0.5
    speeding: float = 4.0
    sideways: float = 2.0
    most_sideways: float = 4.5
    near: float = 1.5
    near_weight: float = 3.0
    nearer: float = 0.4
    nearer_weight: float = 40.0


class Clearances:
    """A map of the distance to the nearest obstacle around the vehicle [m], cut off at `FAR`."""

    RESOLUTION, REACH, FAR = 0.25, 115.0, 4.0

    def __init__(self) -> None:
        self._cells = 2 * round(self.REACH / self.RESOLUTION)
        self._grid = np.full((self._cells, self._cells), self.FAR, np.float32)
        self._x = self._y = 0.0

    def fill(self, obstacles: Obstacles, time: float, x: float, y: float) -> None:
        """Of obstacles as they are at `time` [s], around (x, y) [m]."""
        self._grid.fill(self.FAR)
        self._x, self._y = x - self.REACH, y - self.REACH
        if not len(obstacles.radii):
            return
        centres = obstacles.at(time).centres
        for (cx, cy), radius in zip(centres.tolist(), obstacles.radii.tolist()):
            (i0, i1), (j0, j1) = (np.clip([int((c - o - radius - self.FAR) / self.RESOLUTION), int((c - o + radius + self.FAR)
                                                                                                  / self.RESOLUTION) + 1],
                                          0, self._cells).tolist() for c, o in ((cx, self._x), (cy, self._y)))
            if i0 < i1 and j0 < j1:
                along = (np.arange(i0, i1) + 0.5) * self.RESOLUTION + self._x - cx
                across = (np.arange(j0, j1) + 0.5) * self.RESOLUTION + self._y - cy
                part = self._grid[i0:i1, j0:j1]
                np.minimum(part, np.hypot(along[:, None], across) - radius, out=part, casting="same_kind")
        for edge in (self._grid[0], self._grid[-1], self._grid[:, 0], self._grid[:, -1]):
            edge.fill(self.FAR)

    def at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Distances [m] of points of any shape; outside of the map `FAR`, as its outermost cells."""
        i, j = (np.minimum(np.maximum((v - o) * (1.0 / self.RESOLUTION), 0.0), self._cells - 1.0).astype(np.int32)
                for v, o in ((x, self._x), (y, self._y)))
        return self._grid[i, j]


class Mppi(Baseline):
    """Drives one vehicle; a `closed_loop.Driver`. The same seed gives the same run."""

    def __init__(self, vehicle: Vehicle, settings: Settings | None = None, sampling: Sampling | None = None) -> None:
        """Compiles the model's batch, or loads it from the cache.

        Raises:
            InputError: no such model, or the vehicle lacks parameters of it.
        """
        super().__init__(vehicle, settings)
        vehicle, outline, s = self.vehicle, self.outline, self.settings
        m = self.sampling = sampling or Sampling()
        self._prediction = Prediction(s.model, vehicle, vehicle.actuators.delay, vehicle.actuators.steering_lag)
        p = SimpleNamespace(**vehicle.parameters)
        self._wheelbase, self._full_lock = p.cg_to_front_axle + p.cg_to_rear_axle, p.max_road_wheel_angle
        times = m.step * np.arange(m.steps + 1)
        self._batch = BatchRollout(model=s.model, vehicle=vehicle, dt=m.longest, times=times, inputs=np.zeros((len(times), 3)),
                                   parameters=(), channels=CHANNELS, precision="float32")
        self._map = Clearances()
        # Discs that cover the vehicle's outline.
        length = outline.front + outline.rear
        count = max(3, math.ceil(length / (0.9 * outline.half_width)))
        self._discs = (length * (np.arange(count) + 0.5) / count - outline.rear).tolist()
        self._disc = math.hypot(outline.half_width, 0.5 * length / count)
        self._random = np.random.default_rng(m.seed)
        self._rates = np.zeros((m.steps, 2))
        self._mapped: Obstacles | None = None  # what the map shows
        self._measured: Measured | None = None

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """The command for the period that begins at `now` [s]."""
        began = time.perf_counter()
        finder, s = self._finder, self.settings
        self._measured = measured or self._measured
        if self._measured is not None:
            x = self._prediction.at(self._measured, now + self.vehicle.actuators.delay)[0]
            pose = Pose(*(float(x[i]) for i in range(4)))
            finder.look(now, pose)
        if self._measured is None or finder.way is None or finder.done:
            return self._send(now, Cycle((0.0, 0.0, 0.0), Outcome.STOPPED, ARRIVED if finder.done else "no state or no task",
                                         done=finder.done), self._command[0], -s.stop_brake, began)
        way = finder.way
        if self._mapped is not finder.obstacles:
            self._mapped = finder.obstacles
            self._map.fill(finder.obstacles, now, pose.x, pose.y)
        collides = self._improve(x, pose, way)
        if collides:
            return self._send(now, Cycle((0.0, 0.0, 0.0), Outcome.BRAKING, "every rollout hits something", blocked=True, route=way.path),
                              self._command[0], -s.largest_brake, began)
        steering, pedal = self._values(self._rates[None])[0, 1]
        # The first step is longer than a period: on the way to it.
        share = s.period / self.sampling.step
        wanted = [before + share * (value - before) for before, value in zip(self._command, (float(steering), float(pedal)))]
        return self._send(now, Cycle((0.0, 0.0, 0.0), Outcome.SOLVED, BLOCKED if way.blocked else "", blocked=way.blocked, route=way.path),
                          wanted[0], wanted[1], began)

    # -- The method -----------------------------------------------------------------------------------------------------------------

    def _improve(self, x: np.ndarray, pose: Pose, way: Way) -> bool:
        """One iteration on the plan from the state x; whether whatever was tried collides."""
        m, s = self.sampling, self.settings
        self._shift(s.period)
        v = max(pose.vx, 1.0)
        # A second of rates adds up to `lateral` and `pedal`: what steering may do shrinks with the square of the speed.
        spread = 1.0 / math.sqrt(m.step)
        sd = spread * np.array([min(m.lateral * self._wheelbase / v**2 / self._full_lock, 0.5 * self.rate_limits.steering), m.pedal])
        noise = self._random.normal(size=(m.samples, m.steps, 2)) * sd
        noise[0] = 0.0  # the plan itself,
        noise[1, :, 0], noise[1, :, 1] = 0.0, -self.rate_limits.down  # and with the brake
        noise = self._limited(self._rates + noise) - self._rates
        costs = self._costs(x, self._rates + noise, way, pose)
        costs += m.gamma * (self._rates / sd**2 * noise).sum(axis=(1, 2))
        best = int(np.argmin(costs))
        if costs[best] >= COLLISION:
            self._rates[:] = (0.0, -self.rate_limits.down)
            return True
        weights = np.exp(-(costs - costs[best]) / m.temperature)
        mean = self._rates + np.tensordot(weights / weights.sum(), noise, axes=1)
        # The mean of a way on the left and one on the right may lead into what lies between.
        self._rates = mean if self._costs(x, mean[None], way, pose)[0] < COLLISION else self._rates + noise[best]
        return False

    def _shift(self, time: float) -> None:
        m = self.sampling
        at = np.arange(m.steps) + time / m.step
        self._rates = np.column_stack([np.interp(at, np.arange(m.steps), column, right=0.0) for column in self._rates.T])

    def _limited(self, rates: np.ndarray) -> np.ndarray:
        r = self.rate_limits
        return np.clip(rates, (-r.steering, -r.down), (r.steering, r.up))

    def _values(self, rates: np.ndarray) -> np.ndarray:
        """Steering and pedal (n, steps + 1, 2) from now on."""
        s = self.settings
        values = np.empty((len(rates), rates.shape[1] + 1, 2))
        values[:, 0] = self._command
        steps = self.sampling.step * rates
        lower, upper = np.array([-1.0, -s.largest_brake]), np.array([1.0, s.largest_throttle])
        for k in range(rates.shape[1]):  # one by one: a value at its limit leaves it at once
            following = values[:, k + 1]
            np.add(values[:, k], steps[:, k], out=following)
            np.maximum(following, lower, out=following)
            np.minimum(following, upper, out=following)
        return values

    def _costs(self, x: np.ndarray, rates: np.ndarray, way: Way, pose: Pose) -> np.ndarray:
        """Costs (n,) of the rollouts of rates (n, steps, 2) from the state x."""
        m = self.sampling
        values = self._values(rates)
        inputs = np.empty((*values.shape[:2], 3))
        inputs[..., 0] = values[..., 0]
        np.maximum(values[..., 1], 0.0, out=inputs[..., 1])
        np.maximum(-values[..., 1], 0.0, out=inputs[..., 2])
        runs = self._batch.trajectories(np.zeros((len(rates), 0)), x, inputs)
        bad = ~np.isfinite(runs).all(axis=(1, 2))  # the model diverged
        if bad.any():
            runs = np.where(bad[:, None, None], 0.0, runs)
        px, py, yaw, vx, yaw_rate = np.ascontiguousarray(runs.transpose(2, 0, 1))[:, :, 1:]
        cosine, sine = np.cos(yaw), np.sin(yaw)
        away = np.full(px.shape, np.inf, np.float32)
        for ahead in self._discs:
            np.minimum(away, self._map.at(px + ahead * cosine, py + ahead * sine), out=away)
        away -= self._disc
        costs = np.where((away <= 0.0).any(axis=1), COLLISION, 0.0)
        for reach, weight in ((m.near, m.near_weight), (m.nearer, m.nearer_weight)):
            costs += weight * np.maximum(1.0 - away / reach, 0.0).mean(axis=1)
        costs += m.sideways * np.square(np.maximum(np.abs(vx * yaw_rate) - m.most_sideways, 0.0)).mean(axis=1)

        # Along the path, at some of the samples.
        chosen = slice(STRIDE - 1, None, STRIDE)
        start = self._finder.station(pose.x, pose.y)
        near = start + m.step * np.cumsum(np.maximum(vx, 0.0), axis=1)[:, chosen]
        shape = near.shape
        along, offset = (a.reshape(shape) for a in way.path.project(px[:, chosen].ravel(), py[:, chosen].ravel(), near.ravel()))
        over = np.maximum(vx[:, chosen] - np.interp(along, way.path.s, way.speeds), 0.0)
        highest = max(float(way.speeds.max()), 1.0)
        costs += m.align * np.abs(offset).mean(axis=1) + m.speeding * (over + over * over).mean(axis=1)
        costs -= m.progress * (np.minimum(along[:, -1], way.path.length) - start) / highest
        return np.where(np.isfinite(costs) & ~bad, np.minimum(costs, 2.0 * COLLISION), 2.0 * COLLISION)

    def _send(self, now: float, cycle: Cycle, steering: float, pedal: float, began: float) -> Cycle:
        sent = super()._send(now, cycle, steering, pedal, began)
        self._prediction.sent(now, *self._command)
        return sent
