"""Many vehicles with different parameters on the same inputs, in one compiled parallel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import numba_kernels
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.vehicles import Vehicle


class BatchRollout:
    """N runs at once; each run has its own values of some parameters, all share inputs and sample times."""

    def __init__(self, *, model: str, vehicle: Vehicle, dt: float, times: ArrayLike, inputs: ArrayLike,
                 parameters: Sequence[str], channels: Sequence[str], hold: bool = False):
        """Args:
            dt: largest physics step [s]; the sample interval is divided into the fewest equal steps that are not longer.
            times: (K,) sample times [s], evenly spaced.
            inputs: (K, 3) steering, throttle, brake at the sample times, linear in between.
            hold: the inputs are kept from each sample to the next instead, as an actuator keeps a command.
            parameters: P names of what `theta` holds.
            channels: C names of states to report or compare.

        Raises:
            InputError: unknown model, parameter or channel; times not evenly spaced; inputs not finite.
        """
        self.model = get_model(model)
        self._kernels = numba_kernels(model)
        names = [f.name for f in self.model.parameters]
        states = [f.name for f in self.model.states]
        for name in parameters:
            if name not in names:
                raise InputError(f"model '{model}' has no parameter '{name}'; `lfdm models` lists them")
        for name in channels:
            if name not in states:
                raise InputError(f"model '{model}' has no state '{name}' to compare; choose from {', '.join(states)}")
        self.times = np.asarray(times, float)
        steps = np.diff(self.times)
        if len(self.times) < 2 or steps.min() <= 0 or np.ptp(steps) > 1e-6 * steps.max():
            raise InputError("sample times must rise evenly; resample the recording")
        self._inputs = np.array(inputs, float, order="C")
        if self._inputs.shape != (len(self.times), len(self.model.inputs)) or not np.isfinite(self._inputs).all():
            raise InputError(f"inputs must be finite, of shape ({len(self.times)}, {len(self.model.inputs)})")
        interval = (self.times[-1] - self.times[0]) / (len(self.times) - 1)
        self._substeps = max(1, int(np.ceil(interval / dt - 1e-9)))
        self._h = interval / self._substeps
        self._base = vehicle.vector(self.model)
        self._hold = bool(hold)
        self._columns = np.array([names.index(n) for n in parameters], dtype=np.int64)
        self._rows = np.array([states.index(n) for n in channels], dtype=np.int64)

    def trajectories(self, theta: ArrayLike, x0: ArrayLike) -> np.ndarray:
        """Runs theta (N, P) from x0 (nx,) or (N, nx); returns the channels (N, K, C), row 0 at the start."""
        unobserved = np.full((len(self.times), len(self._rows)), np.nan)
        return self._run(theta, x0, unobserved, keep=True)[1]

    def squared_errors(self, theta: ArrayLike, x0: ArrayLike, observed: ArrayLike) -> np.ndarray:
        """Sums over the samples of (model - observed)^2, (N, C); observed (K, C) has NaN where nothing was measured.

        A run that diverged has +inf.
        """
        sums = self._run(theta, x0, np.array(observed, float, order="C"), keep=False)[0]
        return np.where(np.isfinite(sums), sums, np.inf)

    @staticmethod
    def counts(observed: ArrayLike) -> np.ndarray:
        """Number of measured samples by channel, (C,)."""
        return np.isfinite(np.asarray(observed, float)).sum(axis=0)

    def _run(self, theta: ArrayLike, x0: ArrayLike, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray]:
        theta = np.atleast_2d(np.asarray(theta, float))
        n, c = len(theta), len(self._rows)
        if observed.shape != (len(self.times), c):
            raise ValueError(f"observed has shape {observed.shape}, expected {(len(self.times), c)}")
        parameters = np.repeat(self._base[:, None], n, axis=1)
        parameters[self._columns] = theta.T
        start = np.array(np.broadcast_to(np.asarray(x0, float), (n, len(self.model.states))).T, order="C")
        sums = np.empty((n, c))
        kept = np.empty((n, len(self.times), c) if keep else (0, 0, 0))
        self._kernels.batch(parameters, start, self._inputs, self._hold, self._substeps, self._h, self._rows, observed, sums, kept, keep)
        return sums, kept
