"""Model against data: sums of squared errors of many particles in one compiled call.

The Gaussian likelihood of paper 000, eq. 3, with independent channels c of n_c samples and sampled noise sigma_c:

    log p(y | q, sigma) = sum_c [ -n_c log(sigma_c) - n_c/2 log(2 pi) - S_c(q) / (2 sigma_c^2) ]

needs the data through S_c(q) = sum_k (y_kc - G_kc(q))^2 only. q holds the unknowns of a stage: parameters, then initial states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from lfdm_ros.calibration.dataset import Dataset
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import Vehicle

Targets = Sequence[tuple[str, float]]  # vehicle parameter, factor


class Likelihood(Protocol):
    """What the PyMC model needs of a simulator."""

    observed: np.ndarray  # (K, C), NaN where nothing was measured
    channels: tuple[str, ...]

    def squared_errors(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> S (N, C); +inf where a run diverged."""
        ...

    def trajectories(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> responses (N, K, C)."""
        ...


class RolloutLikelihood:
    """A vehicle model on one data set."""

    def __init__(self, dataset: Dataset, *, model: str, vehicle: Vehicle, step: float, unknowns: Sequence[Targets],
                 estimated: Sequence[str] = ()):
        """Args:
            unknowns: for each, the vehicle parameters it sets and the factors.
            estimated: initial states that are unknown too; the others are as recorded, wheels that were not recorded roll freely.
        """
        targets = list(dict.fromkeys(target for unknown in unknowns for target, _ in unknown))
        self.observed, self.channels, self.times = dataset.observed, dataset.channels, dataset.times
        self._mixing = np.zeros((len(unknowns), len(targets)))
        for row, unknown in enumerate(unknowns):
            for target, factor in unknown:
                self._mixing[row, targets.index(target)] = factor
        recorded = {**dict.fromkeys(estimated, 0.0), **dataset.initial}
        self._x0 = initial_state(model, vehicle, **recorded)
        self._centre = np.array([recorded[name] for name in estimated])
        # A changed speed changes the wheels that roll freely with it; the dependence is linear.
        self._directions = np.array([initial_state(model, vehicle, **{**recorded, name: recorded[name] + 1.0}) - self._x0
                                     for name in estimated]).reshape(len(estimated), len(self._x0))
        self._rollout = BatchRollout(model=model, vehicle=vehicle, dt=step, times=dataset.times, inputs=dataset.inputs,
                                     hold=dataset.hold, parameters=targets, channels=dataset.channels)

    def squared_errors(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> S (N, C); +inf where a run diverged."""
        theta, x0 = self._split(q)
        return self._rollout.squared_errors(theta, x0, self.observed)

    def trajectories(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> responses (N, K, C)."""
        theta, x0 = self._split(q)
        return self._rollout.trajectories(theta, x0)

    def _split(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q = np.atleast_2d(np.asarray(q, float))
        count = len(self._mixing)
        theta = q[:, :count] @ self._mixing
        return theta, self._x0 + (q[:, count:] - self._centre) @ self._directions if len(self._centre) else self._x0
