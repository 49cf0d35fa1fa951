"""Many vehicles, each with its own parameters and, where given, inputs, in one compiled parallel call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import batch_kernel, run_batch
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.vehicles import Vehicle

_REALS = {"float64": "double", "float32": "float"}


def checked_inputs(model: Model, times: np.ndarray, inputs: ArrayLike) -> np.ndarray:
    """The inputs at sample times as an array (K, nu), or (N, K, nu) where each of N vehicles has its own.

    Raises:
        InputError: times not evenly spaced; inputs not finite or of another shape.
    """
    steps = np.diff(times)
    if len(times) < 2 or steps.min() <= 0 or np.ptp(steps) > 1e-6 * steps.max():
        raise InputError("sample times must rise evenly; resample the inputs")
    table = np.array(inputs, float, order="C")
    shape = (len(times), len(model.inputs))
    if table.ndim not in (2, 3) or table.shape[-2:] != shape or not np.isfinite(table).all():
        raise InputError(f"inputs must be finite, of shape {shape}, or (vehicles, {shape[0]}, {shape[1]})")
    return table


def steps_between(times: np.ndarray, dt: float) -> tuple[int, float]:
    """Number and size [s] of the equal steps between evenly spaced samples: the fewest that are not longer than dt."""
    interval = float(times[-1] - times[0]) / (len(times) - 1)
    substeps = max(1, int(np.ceil(interval / dt - 1e-9)))
    return substeps, interval / substeps


class BatchRollout:
    """N runs at once, at the same sample times; each run has its own values of some parameters and, if wanted, its own inputs."""

    def __init__(self, *, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, inputs: ArrayLike,
                 parameters: Sequence[str], channels: Sequence[str], hold: bool = False, precision: str = "float64"):
        """Args:
            dt: largest physics step [s]; the sample interval is divided into the fewest equal steps that are not longer.
            times: (K,) sample times [s], evenly spaced.
            inputs: (K, 3) steering, throttle, brake at the sample times, linear in between; or (N, K, 3), those of each run.
            hold: the inputs are kept from each sample to the next instead, as an actuator keeps a command.
            parameters: P names of what `theta` holds.
            channels: C names of states to report or compare.
            precision: float64, or float32: about twice as fast. Over 10 s of slalom at 1 ms position, velocity and yaw rate differ by up to
                2e-3 of their range (eight_dof and eighteen_dof with TMeasy tyres), 6e-4 (other chassis and tyres).

        Raises:
            InputError: unknown model, parameter or channel; times not evenly spaced; inputs not finite.
        """
        if precision not in _REALS:
            raise InputError(f"precision '{precision}' must be one of {', '.join(_REALS)}")
        self.model = vehicle.model(model)
        names = [f.name for f in self.model.parameters]
        states = [f.name for f in self.model.states]
        for name in parameters:
            if name not in names:
                raise InputError(f"model '{model}' has no parameter '{name}'; `lfdm models` lists them")
        for name in channels:
            if name not in states:
                raise InputError(f"model '{model}' has no state '{name}' to compare; choose from {', '.join(states)}")
        self.times = np.asarray(times, float)
        table = checked_inputs(self.model, self.times, inputs)
        # The kernel has the vehicle as the last index.
        self._inputs = np.ascontiguousarray(np.moveaxis(table, 0, -1)) if table.ndim == 3 else table
        self._kernel = batch_kernel(self.model.name, _REALS[precision], own_inputs=table.ndim == 3)
        self._substeps, self._h = steps_between(self.times, dt)
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
        n, shape = len(theta), (len(self.times), len(self._rows))
        if observed.shape != shape:
            raise ValueError(f"observed has shape {observed.shape}, expected {shape}")
        if self._inputs.ndim == 3 and self._inputs.shape[2] != n:
            raise InputError(f"{n} runs with the inputs of {self._inputs.shape[2]}; give inputs for each run, or one for all")
        parameters = np.repeat(self._base[:, None], n, axis=1)
        parameters[self._columns] = theta.T
        start = np.array(np.broadcast_to(np.asarray(x0, float), (n, len(self.model.states))).T, order="C")
        sums, kept = run_batch(self._kernel, parameters, start, self._inputs, self._hold, self._substeps, self._h, self._rows, observed,
                               keep)
        return sums, np.empty((0, 0, 0)) if kept is None else kept
