"""Many vehicles with individual parameters and, optionally, inputs in one compiled parallel call."""

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
MEMORY = 2**30  # bytes of parameters and states in one call of the back end


@dataclass(frozen=True)
class Sampling:
    """Checked data common to runs of one vehicle at the same sample times. Picklable."""

    model: Model
    base: np.ndarray  # (np,) all parameters of the model
    columns: np.ndarray  # (P,) indices of the parameters given by a call
    rows: np.ndarray  # (C,) indices of the reported states
    parameters: tuple[str, ...]
    prescribed: tuple[str, ...]
    times: np.ndarray  # (K,) [s]
    substeps: int  # between samples
    h: float  # [s]
    hold: bool

    def table(self, inputs: ArrayLike) -> np.ndarray:
        """Returns inputs and prescribed states as an array (K, 3 + M), or (N, K, 3 + M) for each of N vehicles. Raises InputError: not
        finite, or of another shape."""
        table = np.asarray(inputs, float)
        shape = (len(self.times), len(self.model.inputs) + len(self.prescribed))
        if table.ndim not in (2, 3) or table.shape[-2:] != shape or not np.isfinite(table).all():
            raise InputError(f"inputs must be finite, of shape {shape}, or (vehicles, {shape[0]}, {shape[1]})"
                             + (f"; the last columns are {', '.join(self.prescribed)}" if self.prescribed else ""))
        return table


def checked_sampling(*, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, parameters: Sequence[str],
                     channels: Sequence[str], hold: bool, prescribed: Sequence[str]) -> Sampling:
    """Checks the common arguments of `BatchRollout` and `SensitivityRollout`. Raises InputError: as theirs."""
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
    substeps = max(1, int(np.ceil(interval / dt - 1e-9)))  # smallest number of equal steps up to dt
    return Sampling(declared, vehicle.vector(declared), np.array([names.index(n) for n in parameters], dtype=np.int64),
                    np.array([states.index(n) for n in channels], dtype=np.int64), tuple(parameters), tuple(prescribed), instants,
                    substeps, interval / substeps, bool(hold))


def check_names(model: Model, kind: str, names: Sequence[str], allowed: Sequence[str]) -> None:
    """Raises InputError: an unknown or repeated name."""
    for name in names:
        if name not in allowed:
            raise InputError(f"model '{model.name}' has no {kind} '{name}'"
                             + (suggest(name, allowed) or f"; `lfdm models {model.name}` lists them"))
    if len(set(names)) != len(names):
        raise InputError(f"a {kind} is named twice: {', '.join(names)}")


class BatchRollout:
    """N runs at the same sample times, with individual values of some parameters and, optionally, inputs. Picklable and thread-safe."""

    def __init__(self, *, model: str | Model, vehicle: Vehicle, dt: float, times: ArrayLike, inputs: ArrayLike,
                 parameters: Sequence[str], channels: Sequence[str], hold: bool = False, precision: str = "float64",
                 prescribed: Sequence[str] = (), backend: str = ""):
        """Compiles the model for these runs.

        Args:
            dt: maximum physics step [s]; the sample interval is divided into equal steps.
            times: (K,) sample times [s], evenly spaced.
            inputs: (K, 3 + M) steering, throttle, brake at the sample times, linear in between, then the prescribed states; or
                (N, K, 3 + M) for each run.
            parameters: P names, of the columns of `theta`.
            channels: C names of states to report or compare.
            hold: zero-order hold of the driver's inputs between samples, in place of linear ones.
            precision: float64, or float32: about twice as fast. Over 10 s of slalom at 1 ms position, velocity and yaw rate differ by up to
                2e-3 of their range (eight_dof and eighteen_dof with TMeasy tyres), 6e-4 (other chassis and tyres).
            prescribed: M names of continuous states that follow a series instead of the equations: linear between samples also with `hold`,
                each step starting from its value, such as a recorded vx without throttle. Their values in `x0` are ignored.
            backend: name of a back end (`lfdm_ros.backends.BACKENDS`); empty: that of LFDM_BACKEND, or cpu.

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

        The result is a view of a contiguous array (K, C, N): `result.transpose(1, 2, 0)` needs no copy. `inputs`, in a form of the
        constructor's, replace those for this call; views of this kind are not copied. Raises InputError: inputs not finite or of another
        shape.
        """
        unobserved = np.full((len(self.times), len(self._sampling.rows)), np.nan)
        return self._run(theta, x0, inputs, unobserved, keep=True)[1]

    def squared_errors(self, theta: ArrayLike, x0: ArrayLike, observed: ArrayLike, inputs: ArrayLike | None = None) -> np.ndarray:
        """Computes sums over the samples of (model - observed)^2, (N, C); observed (K, C), NaN if not measured.

        Diverged runs give +inf. `inputs` as in `trajectories`. Raises InputError: inputs not finite or of another shape.
        """
        sums = self._run(theta, x0, inputs, np.array(observed, float, order="C"), keep=False)[0]
        return np.where(np.isfinite(sums), sums, np.inf)

    @staticmethod
    def counts(observed: ArrayLike) -> np.ndarray:
        """Returns the number of measured samples by channel, (C,)."""
        measured: np.ndarray = np.isfinite(np.asarray(observed, float)).sum(axis=0)
        return measured

    def _in_order(self, inputs: ArrayLike) -> np.ndarray:
        """Returns the inputs for the kernel, with the vehicle as the last index."""
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
            part_inputs = np.ascontiguousarray(table[..., first:end]) if table.ndim == 3 else table
            return run(parameters, np.array(starts[first:end].T, order="C"), part_inputs, common.hold, common.substeps, common.h,
                       common.rows, observed, keep)

        size = max(1, MEMORY // (8 * (len(common.base) + starts.shape[1])))
        if n <= size:
            sums, outputs = part(0, n)
            return sums, np.empty((0, 0, 0)) if outputs is None else outputs
        # In parts, as the parameters of all vehicles would be most of a large batch's memory.
        sums, whole = np.empty((n, shape[1])), np.empty((*shape, n if keep else 0))
        for first in range(0, n, size):
            end = min(first + size, n)
            sums[first:end], outputs = part(first, end)
            if outputs is not None:
                whole[..., first:end] = outputs.transpose(1, 2, 0)
        return sums, whole.transpose(2, 0, 1) if keep else np.empty((0, 0, 0))


PIECE = 16_384  # vehicles
NUMBERS = 2**27  # maximum of a piece's results: 1 GiB


@dataclass(frozen=True)
class Spread:
    """Quantiles (Q, K, C) of the finite runs, number of all runs, and number of diverged ones."""

    quantiles: np.ndarray
    runs: int
    diverged: int


def motion_spread(rollout: BatchRollout, theta: np.ndarray, x0: np.ndarray, shares: Sequence[float],
                  scheduler: Scheduler) -> Iterator[Spread]:
    """Yields the spread of the completed runs, finally of all.

    Runs go in pieces to the workers of a scheduler or one after the other, which bounds the memory. A quantile is the mean over the pieces,
    weighted by their runs. The result does not depend on the scheduler; the work of a lost worker is repeated.

    Args:
        theta: (N, P) parameters of the runs.
        x0: (nx,) initial state.
        shares: Q probabilities, 0 to 1.
    """
    size = max(1, min(PIECE, NUMBERS // max(1, len(rollout.times) * rollout.channels)))
    pieces = [theta[first:first + size] for first in range(0, len(theta), size)]
    done: dict[int, Spread] = {}
    for number, spread in scheduler.map(partial(_spread, rollout, x0, tuple(shares)), pieces):
        done[number] = spread
        yield _combined([done[k] for k in sorted(done)])


def _spread(rollout: BatchRollout, x0: np.ndarray, shares: tuple[float, ...], theta: np.ndarray) -> Spread:
    runs = rollout.trajectories(theta, x0)
    finite = np.isfinite(runs).all(axis=(1, 2))
    if not finite.any():
        return Spread(np.full((len(shares), *runs.shape[1:]), np.nan), len(runs), len(runs))
    quantiles = np.quantile(runs[finite] if not finite.all() else runs, shares, axis=0)
    return Spread(quantiles, len(runs), int((~finite).sum()))


def _combined(parts: Sequence[Spread]) -> Spread:
    finite = [part for part in parts if part.runs > part.diverged]
    quantiles = parts[0].quantiles
    if finite:
        quantiles = np.average([part.quantiles for part in finite], axis=0, weights=[part.runs - part.diverged for part in finite])
    return Spread(quantiles, sum(part.runs for part in parts), sum(part.diverged for part in parts))
