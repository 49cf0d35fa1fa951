"""Many vehicles, each with its own parameters and, where given, inputs, in one compiled parallel call."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import RunBatch, compile_batch, default_backend
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.models import Model
from lfdm_ros.scheduling import Scheduler
from lfdm_ros.vehicles import Vehicle

PRECISIONS = ("float64", "float32")
MEMORY = 2**30  # bytes of parameters and states that are handed over at a time


@dataclass(frozen=True)
class Sampling:
    """Common data of runs of one vehicle at the same sample times, checked. Plain data, so it can go to another process."""

    model: Model
    base: np.ndarray  # (np,) all parameters of the model
    columns: np.ndarray  # (P,) places of the parameters that a call gives
    rows: np.ndarray  # (C,) places of the states that are reported
    parameters: tuple[str, ...]
    prescribed: tuple[str, ...]
    times: np.ndarray  # (K,) [s]
    substeps: int  # between samples
    h: float  # [s]
    hold: bool

    def table(self, inputs: ArrayLike) -> np.ndarray:
        """Returns inputs and prescribed states as an array (K, 3 + M), or (N, K, 3 + M) where each of N vehicles has its own. Raises
        InputError: not finite, or of another shape."""
        table = np.asarray(inputs, float)
        shape = (len(self.times), len(self.model.inputs) + len(self.prescribed))
        if table.ndim not in (2, 3) or table.shape[-2:] != shape or not np.isfinite(table).all():
            raise InputError(f"inputs must be finite, of shape {shape}, or (vehicles, {shape[0]}, {shape[1]})"
                             + (f"; the last columns are {', '.join(self.prescribed)}" if self.prescribed else ""))
        return table


def checked_sampling(*, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, parameters: Sequence[str],
                     channels: Sequence[str], hold: bool, prescribed: Sequence[str]) -> Sampling:
    """Returns the arguments that `BatchRollout` and `SensitivityRollout` share. Raises InputError: as theirs."""
    declared = vehicle.model(model)
    names, states = [f.name for f in declared.parameters], [f.name for f in declared.states]
    check_names(declared, "parameter", parameters, names)
    check_names(declared, "state", channels, states)
    check_names(declared, "state", prescribed, states)
    for name in prescribed:
        if (role := declared.states[states.index(name)].role) != "continuous":
            raise InputError(f"model '{declared.name}': state '{name}' cannot be prescribed, it is {role}; choose from "
                             + ", ".join(f.name for f in declared.states if f.role == "continuous"))
    instants = np.asarray(times, float)
    steps = np.diff(instants)
    if len(instants) < 2 or steps.min() <= 0 or np.ptp(steps) > 1e-6 * steps.max():
        raise InputError("sample times must rise evenly; resample the inputs")
    interval = float(instants[-1] - instants[0]) / (len(instants) - 1)
    substeps = max(1, int(np.ceil(interval / dt - 1e-9)))  # the fewest equal steps that are not longer than dt
    return Sampling(declared, vehicle.vector(declared), np.array([names.index(n) for n in parameters], dtype=np.int64),
                    np.array([states.index(n) for n in channels], dtype=np.int64), tuple(parameters), tuple(prescribed), instants,
                    substeps, interval / substeps, bool(hold))


def check_names(model: Model, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raises:
        InputError: a name is not known, or is there twice.
    """
    for name in names:
        if name not in known:
            raise InputError(f"model '{model.name}' has no {what} '{name}'"
                             + (suggest(name, known) or f"; `lfdm models {model.name}` lists them"))
    if len(set(names)) != len(names):
        raise InputError(f"a {what} is named twice: {', '.join(names)}")


class BatchRollout:
    """N runs at once, at the same sample times; each run has its own values of some parameters and, optionally, its own inputs.

    Can be pickled, and be used by several threads at once.
    """

    def __init__(self, *, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, inputs: ArrayLike,
                 parameters: Sequence[str], channels: Sequence[str], hold: bool = False, precision: str = "float64",
                 prescribed: Sequence[str] = (), backend: str = ""):
        """Compiles the model for these runs.

        Args:
            dt: largest physics step [s]; the sample interval is divided into the fewest equal steps that are not longer.
            times: (K,) sample times [s], evenly spaced.
            inputs: (K, 3 + M) steering, throttle, brake at the sample times, linear in between, then the prescribed states; or
                (N, K, 3 + M), those of each run.
            parameters: P names of what `theta` holds.
            channels: C names of states to report or compare.
            hold: the driver's inputs are kept from each sample to the next instead, as an actuator keeps a command.
            precision: float64, or float32: about twice as fast. Over 10 s of slalom at 1 ms position, velocity and yaw rate differ by up to
                2e-3 of their range (eight_dof and eighteen_dof with TMeasy tyres), 6e-4 (other chassis and tyres).
            prescribed: M names of continuous states that follow a series instead of the equations: linear between samples, each
                step starting from its value, whatever `hold` is. The vehicle is dragged along: vx taken from a recording without
                throttle, say. Their values in `x0` are not used.
            backend: name of the back end that runs them (`lfdm_ros.backends.BACKENDS`); empty: that of LFDM_BACKEND, or cpu.

        Raises:
            InputError: unknown model, parameter, state or back end; times not evenly spaced; inputs not finite.
        """
        if precision not in PRECISIONS:
            raise InputError(f"precision '{precision}' must be one of {', '.join(PRECISIONS)}")
        self._sampling = checked_sampling(model=model, vehicle=vehicle, dt=dt, times=times, parameters=parameters, channels=channels,
                                          hold=hold, prescribed=prescribed)
        self._precision, self._backend = precision, backend or default_backend()
        self._inputs = self._in_order(np.array(inputs, float))
        self._compiled(separate_inputs=self._inputs.ndim == 3)

    @property
    def model(self) -> Model:
        return self._sampling.model

    @property
    def times(self) -> np.ndarray:
        """(K,) sample times [s]."""
        return self._sampling.times

    @property
    def backend(self) -> str:
        """Name of the back end."""
        return self._backend

    @property
    def channels(self) -> int:
        """Number C of reported states."""
        return len(self._sampling.rows)

    def trajectories(self, theta: ArrayLike, x0: ArrayLike, inputs: ArrayLike | None = None) -> np.ndarray:
        """Runs theta (N, P) from x0 (nx,) or (N, nx); returns the channels (N, K, C), row 0 at the start.

        The result is a view of an array (K, C, N) in which the runs lie next to each other: `result.transpose(1, 2, 0)`, without a copy.
        `inputs`, of one form that the constructor takes, replace those for this call. Where they are a view of this kind, they are
        not copied either.

        Raises:
            InputError: inputs not finite or of another shape.
        """
        unobserved = np.full((len(self.times), len(self._sampling.rows)), np.nan)
        return self._run(theta, x0, inputs, unobserved, keep=True)[1]

    def squared_errors(self, theta: ArrayLike, x0: ArrayLike, observed: ArrayLike, inputs: ArrayLike | None = None) -> np.ndarray:
        """Sums over the samples of (model - observed)^2, (N, C); observed (K, C) has NaN where nothing was measured.

        A run that diverged has +inf. `inputs` as in `trajectories`.

        Raises:
            InputError: inputs not finite or of another shape.
        """
        sums = self._run(theta, x0, inputs, np.array(observed, float, order="C"), keep=False)[0]
        return np.where(np.isfinite(sums), sums, np.inf)

    @staticmethod
    def counts(observed: ArrayLike) -> np.ndarray:
        """Returns the number of measured samples by channel, (C,)."""
        measured: np.ndarray = np.isfinite(np.asarray(observed, float)).sum(axis=0)
        return measured

    def _in_order(self, inputs: ArrayLike) -> np.ndarray:
        """Returns the inputs as the kernel takes them, with the vehicle as the last index."""
        table = self._sampling.table(inputs)
        return np.ascontiguousarray(np.moveaxis(table, 0, -1) if table.ndim == 3 else table)

    def _compiled(self, separate_inputs: bool) -> RunBatch:
        return compile_batch(self._backend, self._sampling.model, self._precision, separate_inputs, self._sampling.prescribed)

    def _run(self, theta: ArrayLike, x0: ArrayLike, inputs: ArrayLike | None, observed: np.ndarray,
             keep: bool) -> tuple[np.ndarray, np.ndarray]:
        common = self._sampling
        theta = np.atleast_2d(np.asarray(theta, float))
        n, shape = len(theta), (len(common.times), len(common.rows))
        if observed.shape != shape:
            raise ValueError(f"observed has shape {observed.shape}, expected {shape}")
        table = self._inputs if inputs is None else self._in_order(inputs)
        if table.ndim == 3 and table.shape[2] != n:
            raise InputError(f"{n} runs with the inputs of {table.shape[2]}; give inputs for each run, or one for all")
        starts = np.broadcast_to(np.asarray(x0, float), (n, len(self.model.states)))
        run = self._compiled(separate_inputs=table.ndim == 3)

        def part(first: int, end: int) -> tuple[np.ndarray, np.ndarray | None]:
            parameters = np.repeat(common.base[:, None], end - first, axis=1)
            parameters[common.columns] = theta[first:end].T
            own = np.ascontiguousarray(table[..., first:end]) if table.ndim == 3 else table
            return run(parameters, np.array(starts[first:end].T, order="C"), own, common.hold, common.substeps, common.h, common.rows,
                       observed, keep)

        size = max(1, MEMORY // (8 * (len(common.base) + starts.shape[1])))
        if n <= size:
            sums, outputs = part(0, n)
            return sums, np.empty((0, 0, 0)) if outputs is None else outputs
        # Parameters of all vehicles at once are most of the memory that a large batch takes.
        sums, whole = np.empty((n, shape[1])), np.empty((*shape, n if keep else 0))
        for first in range(0, n, size):
            end = min(first + size, n)
            sums[first:end], outputs = part(first, end)
            if outputs is not None:
                whole[..., first:end] = outputs.transpose(1, 2, 0)
        return sums, whole.transpose(2, 0, 1) if keep else np.empty((0, 0, 0))


PIECE = 16_384  # vehicles
NUMBERS = 2**27  # of a piece's results at most: 1 GiB


@dataclass(frozen=True)
class Spread:
    """Quantiles (Q, K, C) of the runs that stayed finite, `runs` in all, and how many did not."""

    quantiles: np.ndarray
    runs: int
    diverged: int


def motion_spread(rollout: BatchRollout, theta: np.ndarray, x0: np.ndarray, shares: Sequence[float],
                  scheduler: Scheduler) -> Iterator[Spread]:
    """Yields the spread of the runs that are done, last that of all.

    Vehicles go in pieces, on the workers of a scheduler or one after the other, so that memory is bounded whatever their number. A quantile
    is the mean of those of the pieces, weighted by their runs. The pieces, and so the result, are the same whatever computes
    them; the work of a lost worker is repeated.

    Args:
        theta: (N, P) parameters of the runs.
        x0: (nx,) state at the start.
        shares: Q shares of the runs, 0 to 1.
    """
    size = max(1, min(PIECE, NUMBERS // max(1, len(rollout.times) * rollout.channels)))
    pieces = [theta[first:first + size] for first in range(0, len(theta), size)]
    found: dict[int, Spread] = {}
    for number, spread in scheduler.map(partial(_spread, rollout, x0, tuple(shares)), pieces):
        found[number] = spread
        yield _together([found[k] for k in sorted(found)])


def _spread(rollout: BatchRollout, x0: np.ndarray, shares: tuple[float, ...], theta: np.ndarray) -> Spread:
    runs = rollout.trajectories(theta, x0)
    finite = np.isfinite(runs).all(axis=(1, 2))
    if not finite.any():
        return Spread(np.full((len(shares), *runs.shape[1:]), np.nan), len(runs), len(runs))
    quantiles = np.quantile(runs[finite] if not finite.all() else runs, shares, axis=0)
    return Spread(quantiles, len(runs), int((~finite).sum()))


def _together(parts: Sequence[Spread]) -> Spread:
    weights = np.array([part.runs - part.diverged for part in parts], float)
    if not weights.sum():
        return Spread(parts[0].quantiles, sum(part.runs for part in parts), sum(part.diverged for part in parts))
    alive = weights > 0.0
    quantiles = np.average([part.quantiles for part, lives in zip(parts, alive) if lives], axis=0, weights=weights[alive])
    return Spread(quantiles, sum(part.runs for part in parts), sum(part.diverged for part in parts))
