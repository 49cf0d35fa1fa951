"""Online learning of an operator's steering: delay, gains and remnant, from commands and measured motion.

    steering(t) = sum of g_i curvature(t, i s ahead) + g_l lateral(t - delay) + g_h heading(t - delay) + g_r yaw_rate(t - delay) + e(t)

A delayed linear driver with a remnant is the quasi-linear operator of McRuer & Jex 1967, A review of quasi-linear pilot models, IEEE Trans.
Human Factors in Electronics 8(3); the preview of curvature is MacAdam's 1981, IEEE Trans. Systems, Man and Cybernetics 11(6). Gains are in
units of `PreviewSteering`; yaw-rate errors provide lead, by which drivers compensate delays. Responses to motion are filtered by the lag of
the hands (`hand_lag`); without it, disturbances would bias all gains towards 0. The remnant e is an AR(1) process, whose correlation time
ranges from a trembling hand to a constant command. For each delay and correlation time of a grid, gains and variance have a conjugate
posterior (Bayesian linear regression, O'Hagan & Forster 2004, Kendall's Advanced Theory 2B, chapter 11), stored as sums; its evidence
weights the grid. Older samples count less (exponential forgetting).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from lfdm_ros.control.prediction import REQUIRED, Measured
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle

HAND_FREQUENCY, HAND_DAMPING, HAND_SETTLED = 10.0, 0.707, 0.3  # [rad/s], [1], [s] Hess & Modjtahedzadeh 1990, as in `teleop.body`
PREVIEW, LEAD = 0.8, 0.3  # [s] of the reference driver, whose gains are 1
PERIOD = 0.05  # [s] between samples
DELAYS = PERIOD * np.arange(1, 31)  # [s] from a motion of the vehicle to the start of the operator's response
CORRELATION_TIMES = np.array([0.1, 0.3, 1.0, 3.0, 10.0])  # [s] of the remnant
DELAY_LOG_SD = 0.7  # of the prior
AHEAD = (0.0, 1.0, 2.0)  # [s] preview times of the curvature terms
TERMS = (*(f"curvature_{ahead:g}s" for ahead in AHEAD), "lateral", "heading", "yaw_rate")
OPEN = len(AHEAD)  # terms that do not depend on the vehicle's motion
# Of the prior of the gains: means, about those of `teleop`'s two-point drivers, and standard deviations.
GAINS, GAIN_SD = np.array([0.9, 0.1, 0.0, 0.5, 0.7, 0.3]), np.array([0.4, 0.4, 0.4, 0.6, 0.6, 0.6])
SHAPE = 2.0  # of the prior of the variance, an inverse gamma
REACTION, REMNANT = 0.3, 0.0015  # [s], [1] share of full lock; defaults of `RiskSettings`
MEMORY = 60.0  # [s] time constant of the forgetting
MAX_GAP = 0.2  # [s] between samples; after a longer gap the remnant has no predecessor
MAX_STEERING = 0.95  # share of full lock; beyond, the steering may be saturated
MIN_SPEED = 2.0  # [m/s] below which samples are not used
# Samples before the first posterior, some 14 s of steering, and between two of them. A single manoeuvre does not separate the response to
# an offset from steering by preview.
ENOUGH, REFRESH = 250.0, 5


def hand_lag(step: float) -> np.ndarray:
    """Returns the impulse response of the hands in steps of `step` [s]: (H,), sum 1; a second-order lag, truncated at HAND_SETTLED."""
    w, z = HAND_FREQUENCY, HAND_DAMPING
    t, ringing = step * np.arange(max(1, round(HAND_SETTLED / step)) + 1), w * math.sqrt(1.0 - z * z)
    reached = 1.0 - np.exp(-z * w * t) * (np.cos(ringing * t) + z * w / ringing * np.sin(ringing * t))
    return np.asarray(np.diff(reached) / reached[-1])


LAG = hand_lag(PERIOD)
LATTICE = PERIOD * np.arange(1, len(DELAYS) + len(LAG))  # [s] before a command: motion that it may respond to


class PreviewSteering:
    """Steering of a driver towards a preview point (pure pursuit, Coulter 1992)."""

    def __init__(self, vehicle: Vehicle) -> None:
        """Raises KeyError if the vehicle lacks wheelbase or largest road-wheel angle."""
        p = vehicle.parameters
        self.wheelbase, self.lock = p["cg_to_front_axle"] + p["cg_to_rear_axle"], p["max_road_wheel_angle"]

    def gains(self, v: np.ndarray, preview: float = PREVIEW) -> tuple[np.ndarray, np.ndarray]:
        """Returns steering (n,), share of full lock, per metre of lateral and per radian of heading error at speeds v (n,) [m/s], by the
        arc to a point `preview` [s] ahead."""
        ahead = np.maximum(preview * v, 2.0 * self.wheelbase)
        across = 2.0 * self.wheelbase / (ahead * ahead) / self.lock
        return across, across * ahead

    def following(self, curvature: np.ndarray) -> np.ndarray:
        """Returns the kinematic steering (n,), share of full lock, for curvatures (n,) [1/m]."""
        return curvature * (self.wheelbase / self.lock)

    def curving(self, path: Path, station: np.ndarray, v: np.ndarray | float) -> np.ndarray:
        """Returns steering (3, n), share of full lock, for the curvatures of a path at the preview times AHEAD, from stations (n,) [m] at
        speeds v [m/s]."""
        return self.following(np.stack([path.at(station + ahead * v)[3] for ahead in AHEAD]))

    def terms(self, path: Path, pose: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns the terms of the steering, share of full lock: (6, n), of x, y, yaw, vx and yaw_rate (n,), SI."""
        s, lateral = path.project(pose["x"], pose["y"])
        _, _, course, curvature = path.at(s)
        v = np.maximum(pose["vx"], 0.0)
        across, heading = self.gains(v)
        return np.concatenate([self.curving(path, s, v), [-across * lateral, -heading * np.sin(pose["yaw"] - course),
                                                          -heading * LEAD * (pose["yaw_rate"] - curvature * v)]])


@dataclass(frozen=True, eq=False)
class OperatorPosterior:
    """Posterior of one operator over cells of DELAYS (T) and CORRELATION_TIMES (C).

    weights (T, C), sum 1; mean (T, C, G): of the gains of TERMS; root (T, C, G, G): of their covariance over the variance of the
    remnant; shape and scale (T, C) of the inverse gamma of that variance, share of full lock squared; samples: effective number.
    """

    weights: np.ndarray
    mean: np.ndarray
    root: np.ndarray
    shape: np.ndarray
    scale: np.ndarray
    samples: float = 0.0

    @cached_property
    def delay(self) -> tuple[float, float]:
        """Mean and standard deviation of the delay [s]."""
        p = self.weights.sum(axis=1)
        mean = float(p @ DELAYS)
        return mean, math.sqrt(max(float(p @ (DELAYS - mean)**2), 0.0))

    @cached_property
    def gains(self) -> np.ndarray:
        """Mean gains (G,) of TERMS, relative to the preview driver's."""
        return np.asarray(np.einsum("tc,tci->i", self.weights, self.mean))

    @cached_property
    def remnant(self) -> float:
        """Root of the mean variance of the remnant, share of full lock."""
        return math.sqrt(float((self.weights * self.scale / (self.shape - 1.0)).sum()))

    def draw(self, uniform: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Draws operators: delays (n,) [s], gains (G, n), standard deviation (n,) [1] and correlation time (n,) [s] of the remnant.

        Args:
            uniform: random numbers (2, n): of delay and correlation time; equal ones in the first row give equal delays.
            normal: random numbers (G + 1, n): of the gains and the variance.
        """
        by_delay = self.weights.sum(axis=1)
        row = np.minimum(np.searchsorted(np.cumsum(by_delay), uniform[0] * by_delay.sum()), len(DELAYS) - 1)
        within = np.cumsum(self.weights[row], axis=1)
        column = np.minimum((within < uniform[1, :, None] * within[:, -1:]).sum(axis=1), len(CORRELATION_TIMES) - 1)
        shape = self.shape[row, column]
        # A gamma variate by the cube of a normal one (Wilson & Hilferty 1931).
        gamma = shape * np.maximum(1.0 - 1.0 / (9.0 * shape) + normal[-1] / (3.0 * np.sqrt(shape)), 0.1)**3
        sd = np.sqrt(self.scale[row, column] / gamma)
        gains = self.mean[row, column] + sd[:, None] * np.einsum("nij,jn->ni", self.root[row, column], normal[:-1])
        return DELAYS[row], gains.T, sd, CORRELATION_TIMES[column]


def _log_prior() -> np.ndarray:
    """Returns the logarithm of a log-normal weight of DELAYS (T,), up to a constant."""
    log_prior: np.ndarray = -0.5 * (np.log(DELAYS / REACTION) / DELAY_LOG_SD)**2 - np.log(DELAYS)
    return log_prior


class OperatorLearner:
    """Online learner of one operator, from states, path and commands. Equal inputs give equal posteriors."""

    def __init__(self, vehicle: Vehicle) -> None:
        """Begins with the prior. Raises KeyError if the vehicle lacks wheelbase or largest road-wheel angle."""
        self._steering = PreviewSteering(vehicle)
        self.reset()

    def set_vehicle(self, vehicle: Vehicle) -> None:
        """Sets the vehicle, for its wheelbase and steering lock. Raises KeyError as above."""
        self._steering = PreviewSteering(vehicle)

    def reset(self) -> None:
        """Forgets the operator."""
        cells = len(DELAYS), len(CORRELATION_TIMES)
        self._sums, self._log_scale, self._count = np.zeros((*cells, len(TERMS) + 1, len(TERMS) + 1)), np.zeros(len(CORRELATION_TIMES)), 0.0
        self._posterior: OperatorPosterior | None = None
        self._new = 0
        self.restart()

    def restart(self) -> None:
        """Clears the motion history after a jump of time or position; keeps the posterior."""
        self._motion = deque[tuple[float, np.ndarray]](maxlen=round(4.0 * DELAYS[-1] / PERIOD))
        self._last = -math.inf
        self._row: np.ndarray = np.empty((0, 0))

    def on_state(self, state: Measured, path: Path) -> None:
        """Takes a state, and the path in view at that time."""
        if self._motion and state.time < self._motion[-1][0] + 0.5 * PERIOD - 1e-6:
            return
        pose = {name: np.array([state.values[name]]) for name in REQUIRED}
        self._motion.append((state.time, self._steering.terms(path, pose)[:, 0]))
        if state.values["vx"] < MIN_SPEED:
            self.restart()

    def on_command(self, stamp: float, steering: float) -> bool:
        """Takes the steering [-1, 1] commanded at `stamp` [s]; False: not used, as the motion before it is missing, the steering is
        saturated, or it follows too soon after the previous one."""
        if stamp < self._last + PERIOD - 1e-6 or not self._motion or stamp - LATTICE[-1] < self._motion[0][0] \
                or stamp > self._motion[-1][0] + MAX_GAP:
            return False
        times = np.array([time for time, _ in self._motion])
        terms = np.array([row for _, row in self._motion]).T
        row: np.ndarray = np.empty((len(DELAYS), len(TERMS) + 1))
        for i, term in enumerate(terms):
            row[:, i] = (np.interp(stamp, times, term) if i < OPEN
                         else np.convolve(np.interp(stamp - LATTICE, times, term), LAG[::-1], "valid"))
        row[:, -1] = steering
        elapsed, before = stamp - self._last, self._row
        self._last, self._row = stamp, row
        if elapsed > MAX_GAP or abs(steering) > MAX_STEERING or abs(before[0, -1]) > MAX_STEERING:
            return False
        decay = math.exp(-elapsed / MEMORY)
        share = np.exp(-elapsed / CORRELATION_TIMES)
        whitened = (row[:, None] - share[:, None] * before[:, None]) / np.sqrt(1.0 - share * share)[:, None]
        self._sums = decay * self._sums + whitened[..., :, None] * whitened[..., None, :]
        self._log_scale = decay * self._log_scale - 0.5 * np.log(1.0 - share * share)
        self._count = decay * self._count + 1.0
        self._new += 1
        return True

    @property
    def posterior(self) -> OperatorPosterior | None:
        """Posterior, at most a quarter of a second old; None: not enough samples yet."""
        if self._count >= ENOUGH and (self._posterior is None or self._new >= REFRESH):
            self._posterior, self._new = self._update(), 0
        return self._posterior

    def _update(self) -> OperatorPosterior:
        sums, shape, least = self._sums, SHAPE + 0.5 * self._count, SHAPE * REMNANT**2
        square, product, total = sums[..., :-1, :-1], sums[..., :-1, -1], sums[..., -1, -1]
        variance = np.full(total.shape, REMNANT**2)
        # The prior deviation of the gains is absolute, the conjugate one relative to the remnant, which the first pass estimates.
        for _ in range(2):
            prior_precision = variance[..., None] / GAIN_SD**2
            precision = square + prior_precision[..., None] * np.eye(len(TERMS))
            mean = np.linalg.solve(precision, (product + prior_precision * GAINS)[..., None])[..., 0]
            rest = total + (prior_precision * GAINS**2).sum(axis=-1) - np.einsum("tci,tcij,tcj->tc", mean, precision, mean)
            scale = least + 0.5 * np.maximum(rest, 0.0)
            variance = scale / shape
        log = (0.5 * (np.log(prior_precision).sum(axis=-1) - np.linalg.slogdet(precision)[1]) + SHAPE * math.log(least)
               - shape * np.log(scale) + gammaln(shape) - gammaln(SHAPE) + self._log_scale + _log_prior()[:, None])
        weights = np.exp(log - log.max())
        # Root of the covariance: transposed inverse of the Cholesky factor of the precision.
        root = np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2)
        return OperatorPosterior(weights / weights.sum(), mean, root, np.full(scale.shape, shape), scale, self._count)


def learn_drive(vehicle: Vehicle, path: Path, times: np.ndarray, states: np.ndarray, command_times: np.ndarray,
                steering: np.ndarray) -> OperatorLearner:
    """Learns the operator from a recorded drive, as from two `lfdm_ros.bags.read_series`.

    Args:
        path: in the frame of the states.
        times, states: (n,) [s], increasing, and (n, 6) in the order of `control.prediction.REQUIRED`, SI.
        command_times, steering: (m,) on the same clock, increasing, and (m,) share of full lock.

    Raises:
        KeyError: the vehicle lacks wheelbase or largest road-wheel angle.
    """
    learner, due = OperatorLearner(vehicle), 0
    for time, row in zip(times.tolist(), states.tolist()):
        learner.on_state(Measured(time, dict(zip(REQUIRED, row))), path)
        while due < len(command_times) and command_times[due] <= time:
            learner.on_command(float(command_times[due]), float(steering[due]))
            due += 1
    return learner
