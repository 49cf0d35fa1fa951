"""Model against data: moments of the errors of many particles in a few compiled calls.

The likelihood (`lfdm_ros.inference.gaussian`) needs of the errors, measured - model, only the moments A, B and D of each group. q holds the
unknowns of a stage: parameters, then nuisances, then initial states of each data set.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from lfdm_ros.backends import in_parallel
from lfdm_ros.inference.dataset import Dataset
from lfdm_ros.inference.gaussian import MOMENTS, ErrorGroup
from lfdm_ros.inference.measurement import InputPath, OutputPath
from lfdm_ros.inference.plan import MISALIGNMENT
from lfdm_ros.simulation import BatchRollout, SensitivityRollout, initial_state
from lfdm_ros.vehicles import Vehicle

Targets = Sequence[tuple[str, float]]  # vehicle parameter, factor
_Reduced = TypeVar("_Reduced")
BLOCK = 16  # particles per SIMD block
CHUNK = 200_000  # values of responses, and of inputs of individual particles, in one batch of a core; sized for its cache
LAUNCH = 2**25  # the same for other devices
GAP = 2.5  # usual intervals; larger gaps separate runs


class Likelihood(Protocol):
    """Interface of a simulator to a density."""

    groups: tuple[ErrorGroup, ...]

    def moments(self, q: np.ndarray) -> np.ndarray:
        """Computes A, B, D of each group (N, G, 3) for q (N, Q); +inf where a run diverged."""

    def moments_and_slopes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes moments (G, 3) and their exact derivatives (G, 3, Q) for q (Q,)."""

    def measured(self, group: int) -> np.ndarray:
        """Returns the samples of a group (n,)."""

    def errors(self, q: np.ndarray) -> list[np.ndarray]:
        """Computes for each group measured minus model (N, n) at q (N, Q)."""

    def error_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        """Computes for each group the exact derivatives of measured minus model (n, Q) at q (Q,)."""

    def runs(self, group: int) -> np.ndarray:
        """Marks the starts of unbroken runs of a group's samples, as a mask (n,)."""


class ChannelSamples:
    """One channel of one data set: measured rows, and which of those are consecutive."""

    def __init__(self, observed: np.ndarray):
        self.rows = np.flatnonzero(np.isfinite(observed))
        self.values = observed[self.rows]
        distance = np.diff(self.rows)
        follows = distance <= GAP * np.median(distance) if len(distance) else np.zeros(0, bool)
        self.before = np.flatnonzero(follows)  # indices of samples followed by a consecutive one
        self.ends = np.concatenate([np.flatnonzero(np.concatenate([[True], ~follows])), np.flatnonzero(np.concatenate([~follows, [True]]))])
        self.runs = len(self.ends) // 2
        # All rows of an even recording: a view suffices.
        self.pick: slice | np.ndarray = slice(None) if len(self.rows) == len(observed) else self.rows

    def moments(self, errors: np.ndarray) -> np.ndarray:
        """Computes moments (3, N) of errors (n, N)."""
        squares = np.einsum("kn,kn->n", errors, errors)
        if self.runs == 1:
            neighbours = np.einsum("kn,kn->n", errors[:-1], errors[1:])
        else:
            neighbours = np.einsum("kn,kn->n", errors[self.before], errors[self.before + 1])
        return np.stack([squares, neighbours, squares - (errors[self.ends] ** 2).sum(axis=0)])

    def slopes(self, errors: np.ndarray, derivatives: np.ndarray) -> np.ndarray:
        """Computes derivatives of the moments (3, Q) from errors (n,) and their derivatives (n, Q)."""
        squares = 2.0 * errors @ derivatives
        a, b = self.before, self.before + 1
        return np.stack([squares, errors[a] @ derivatives[b] + errors[b] @ derivatives[a],
                         squares - 2.0 * errors[self.ends] @ derivatives[self.ends]])


class _Piece:
    """One data set: maps a stage's unknowns to responses as measured by the sensors."""

    def __init__(self, data: Dataset, *, model: str, vehicle: Vehicle, step: float, unknowns: Sequence[Targets], nuisances: Sequence[str],
                 estimated: Sequence[str], columns: Sequence[int]):
        if data.on_ground is not None:
            vehicle = vehicle.replace(source="", **data.on_ground.numbers)
        targets = list(dict.fromkeys(target for unknown in unknowns for target, _ in unknown))
        self._mixing = np.zeros((len(unknowns), len(targets)))
        for row, unknown in enumerate(unknowns):
            for target, factor in unknown:
                self._mixing[row, targets.index(target)] = factor
        recorded = {**dict.fromkeys(estimated, 0.0), **data.initial}
        self._x0 = initial_state(model, vehicle, **recorded)
        self._centre = np.array([recorded[name] for name in estimated])

        def direction(name: str) -> np.ndarray:
            # A changed speed changes the wheels that roll freely with it; the dependence is linear.
            return initial_state(model, vehicle, **{**recorded, name: recorded[name] + 1.0}) - self._x0

        self._directions = np.array([direction(name) for name in estimated]).reshape(len(estimated), len(self._x0))
        self._nuisances = slice(len(unknowns), len(unknowns) + len(nuisances))
        self._corrections = self._of_the_start(data, nuisances, estimated, direction)
        self._states = np.array(columns, int)  # of q
        self._inputs, self._outputs = InputPath(data, nuisances), OutputPath(data.channels, nuisances)
        self.data = data
        self.columns = [ChannelSamples(column) for column in data.observed.T]
        # A delayed input is not constant between the grid's points.
        self._hold = data.hold and not self._inputs.shifts_time
        self._arguments: dict[str, Any] = {"model": model, "vehicle": vehicle, "dt": step, "times": data.times, "parameters": targets,
                           "channels": self._outputs.channels, "hold": self._hold, "prescribed": data.following}
        self._rollout = BatchRollout(**self._arguments, inputs=data.table)
        self._sensitivity: SensitivityRollout | None = None

    def _of_the_start(self, data: Dataset, nuisances: Sequence[str], estimated: Sequence[str],
                      direction: Callable[[str], np.ndarray]) -> np.ndarray:
        # Correction of the initial state measured by the same sensors, per unit of each nuisance (M, nx).
        out = np.zeros((len(nuisances), len(self._x0)))
        free = [name for name in data.initial if name not in (*estimated, *data.following)]
        for row, nuisance in enumerate(nuisances):
            channel = nuisance.removesuffix(".offset")
            if channel in data.sourced and channel in free:
                out[row] = -direction(channel)
            # Small angle; the sensor is that of the initial state unless the rotated channels come from another one.
            turned = [name for name in ("vx", "vy", "yaw") if name in data.channels]
            if nuisance == MISALIGNMENT and set(turned) <= set(data.sourced):
                for name, other, sign in (("vy", "vx", 1.0), ("vx", "vy", -1.0)):
                    if name in free and other in data.initial:
                        out[row] += sign * data.initial[other] * direction(name)
                if "yaw" in free:
                    out[row] -= direction("yaw")
        return out

    @property
    def plain(self) -> bool:
        """True if the kernel's own sums of squares are those of the errors."""
        return self._outputs.trivial

    @property
    def on_processor(self) -> bool:
        return self._rollout.backend == "cpu"

    @property
    def own_inputs(self) -> bool:
        """True if inputs differ between particles."""
        return bool(self._inputs.columns)

    def squared_errors(self, q: np.ndarray) -> np.ndarray:
        """Computes sums over the samples (N, C) for q (N, Q); +inf where a run diverged."""
        inputs = self._inputs.inputs(q[:, self._nuisances]) if self.own_inputs else None
        return self._rollout.squared_errors(q[:, :len(self._mixing)] @ self._mixing, self.initial_states(q), self.data.observed, inputs)

    def responses(self, q: np.ndarray) -> np.ndarray:
        """Computes the responses (K, C, N) for q (N, Q)."""
        theta, values = q[:, :len(self._mixing)] @ self._mixing, q[:, self._nuisances]
        inputs = self._inputs.inputs(values) if self.own_inputs else None
        return self._outputs.measured(self._rollout.trajectories(theta, self.initial_states(q), inputs).transpose(1, 2, 0), values)

    def motion(self, q: np.ndarray) -> np.ndarray:
        """Computes speed and lateral acceleration of a steady turn, vx yaw_rate, of the model (K, 2) for q (Q,)."""
        theta, values = q[None, :len(self._mixing)] @ self._mixing, q[None, self._nuisances]
        rollout = BatchRollout(**{**self._arguments, "channels": ("vx", "yaw_rate")}, inputs=self.data.table)
        vx, yaw_rate = rollout.trajectories(theta, self.initial_states(q[None]),
                                            self._inputs.inputs(values) if self._inputs.columns else None)[0].T
        return np.column_stack([vx, vx * yaw_rate])

    def derivatives(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes responses (K, C) and their exact derivatives (K, C, Q) for q (Q,)."""
        if self._sensitivity is None:
            self._sensitivity = SensitivityRollout(**self._arguments, inputs=self.data.table)
        count, values = len(self._mixing), q[self._nuisances]
        used = [*range(self._nuisances.stop), *self._states]
        theta = np.zeros((self._mixing.shape[1], len(used)))
        theta[:, :count] = self._mixing.T
        start = np.concatenate([np.zeros((count, len(self._x0))), self._corrections, self._directions]).T
        inputs, by_input = None, None
        if self._inputs.columns:
            inputs, slopes = self._inputs.slopes(values)
            by_input = np.zeros((*slopes.shape[:2], len(used)))
            by_input[:, :, self._nuisances] = slopes
        responses, some = self._sensitivity.run(q[:count] @ self._mixing, self.initial_states(q[None])[0], theta, start, inputs, by_input)
        full = np.zeros((*some.shape[:2], len(q)))
        full[:, :, used] = some
        measured = self._outputs.measured(responses[:, :, None], values[None])[:, :, 0]
        return measured, self._outputs.slopes(responses, full, values, self._nuisances)

    def initial_states(self, q: np.ndarray) -> np.ndarray:
        """Computes the initial states (N, nx) for q (N, Q)."""
        return self._x0 + (q[:, self._states] - self._centre) @ self._directions + q[:, self._nuisances] @ self._corrections


class RolloutLikelihood:
    """A vehicle model on the data sets of a stage; methods without a text as in `Likelihood`."""

    def __init__(self, datasets: Sequence[Dataset], *, model: str, vehicle: Vehicle, step: float, unknowns: Sequence[Targets],
                 nuisances: Sequence[str] = (), estimated: Sequence[Sequence[str]] = (), labels: Sequence[Sequence[str]] = (),
                 correlated: bool = False):
        """Compiles the rollouts of data sets. `unknowns`: for each, the vehicle parameters it sets and the factors; `nuisances`: names, see
        `lfdm_ros.inference.measurement`; `estimated`: for each data set, initial states that are unknown too; the others are as recorded,
        wheels that were not recorded roll freely; `labels`: for each data set, the error group of each channel, by default its name;
        `correlated`: True to compute B and D, which may otherwise be 0."""
        self.datasets, self.model = tuple(datasets), model
        estimated = estimated or [()] * len(datasets)
        labels = labels or [data.channels for data in datasets]
        first = len(unknowns) + len(nuisances)
        self.pieces: list[_Piece] = []
        for data, states in zip(datasets, estimated):
            self.pieces.append(_Piece(data, model=model, vehicle=vehicle, step=step, unknowns=unknowns, nuisances=nuisances,
                                      estimated=states, columns=range(first, first + len(states))))
            first += len(states)
        self.count, self._correlated = first, correlated  # number of unknowns
        self._gather(labels)

    def _gather(self, labels: Sequence[Sequence[str]]) -> None:
        self._labels = labels
        names = list(dict.fromkeys(label for piece in labels for label in piece))
        self._members: list[list[tuple[int, int]]] = [  # of each group: data set, channel
            [(i, c) for i, piece in enumerate(labels) for c, label in enumerate(piece) if label == name] for name in names]
        self.groups = tuple(ErrorGroup(name, sum(len(self.pieces[i].columns[c].rows) for i, c in members),
                                  sum(self.pieces[i].columns[c].runs for i, c in members))
                            for name, members in zip(names, self._members))

    @property
    def weights(self) -> dict[str, float]:
        """Powers of the likelihood by group of errors."""
        return {group.label: group.weight for group in self.groups}

    def weighted(self, weights: Mapping[str, float]) -> RolloutLikelihood:
        """Returns this likelihood with other powers of some groups."""
        changed = copy.copy(self)
        changed.groups = tuple(replace(group, weight=weights.get(group.label, group.weight)) for group in self.groups)
        return changed

    def correlation_times(self, q: np.ndarray) -> dict[str, float]:
        """Estimates the number of samples of each group's errors at q (Q,) that inform as much as one independent one: 1 + 2 sum_k r_k.

        r_k is the correlation over k samples about zero, to include constant errors; summed over the data sets and until it is not positive
        (Geyer 1992).
        """
        errors = [piece.responses(np.asarray(q, float)[None])[:, :, 0] for piece in self.pieces]
        out = {}
        for group, members in zip(self.groups, self._members):
            parts = [column.values - errors[i][column.rows, c] for i, c in members for column in [self.pieces[i].columns[c]]]
            longest = max(map(len, parts))
            products = np.zeros(longest)
            for part in parts:
                n = len(part)
                products[:n] += np.fft.irfft(np.abs(np.fft.rfft(part, 2 * n)) ** 2, 2 * n)[:n]
            negative = np.flatnonzero(products <= 0.0)
            last = negative[0] if len(negative) else longest
            out[group.label] = max(1.0, float(2.0 * products[:last].sum() / products[0] - 1.0))
        return out

    def only(self, mask: Sequence[bool]) -> RolloutLikelihood:
        """Returns the likelihood of the same unknowns given some of the data sets."""
        part = copy.copy(self)
        part.datasets = tuple(data for data, used in zip(self.datasets, mask) if used)
        part.pieces = [piece for piece, used in zip(self.pieces, mask) if used]
        part._gather([labels for labels, used in zip(self._labels, mask) if used])
        return part.weighted(self.weights)

    def moments(self, q: np.ndarray) -> np.ndarray:
        q = np.atleast_2d(np.asarray(q, float))
        out = np.zeros((len(q), len(self.groups), MOMENTS))
        for number in range(len(self.pieces)):
            out += self._moments_of(number, q)
        return np.where(np.isfinite(out), out, np.inf)

    def _moments_of(self, number: int, q: np.ndarray) -> np.ndarray:
        # Moments of one data set (N, G, 3).
        piece, out = self.pieces[number], np.zeros((len(q), len(self.groups), MOMENTS))
        groups = [next(g for g, members in enumerate(self._members) if (number, c) in members) for c in range(len(piece.columns))]

        def sums(part: slice) -> None:
            for g, column in zip(groups, piece.squared_errors(q[part]).T):
                out[part, g, 0] += column

        def moments(part: slice) -> None:
            for g, column, error in zip(groups, piece.columns, _errors(piece, q[part])):
                out[part, g] += column.moments(error).T

        plain = piece.plain and not self._correlated
        if plain and not piece.own_inputs:
            sums(slice(0, len(q)))
        else:
            self._each_chunk(piece, len(q), sums if plain else moments)
        return out

    def moments_and_slopes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moments, slopes = np.zeros((len(self.groups), MOMENTS)), np.zeros((len(self.groups), MOMENTS, self.count))

        def reduce(piece: _Piece, responses: np.ndarray, derivatives: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
            errors = [column.values - responses[column.rows, c] for c, column in enumerate(piece.columns)]
            return [(column.moments(error[:, None])[:, 0], column.slopes(error, -derivatives[column.rows, c]))
                    for c, (column, error) in enumerate(zip(piece.columns, errors))]

        results = self._each_derivative(q, reduce)
        for g, members in enumerate(self._members):
            for i, c in members:
                moments[g] += results[i][c][0]
                slopes[g] += results[i][c][1]
        return moments, slopes

    def measured(self, group: int) -> np.ndarray:
        return np.concatenate([self.pieces[i].columns[c].values for i, c in self._members[group]])

    def errors(self, q: np.ndarray) -> list[np.ndarray]:
        q = np.atleast_2d(np.asarray(q, float))
        errors = [[np.empty((len(q), len(column.rows))) for column in piece.columns] for piece in self.pieces]
        for piece, room in zip(self.pieces, errors):
            def evaluate(part: slice, piece: _Piece = piece, room: list[np.ndarray] = room) -> None:
                for target, error in zip(room, _errors(piece, q[part])):
                    target[part] = error.T

            self._each_chunk(piece, len(q), evaluate)
        return [np.concatenate([errors[i][c] for i, c in members], axis=1) for members in self._members]

    def error_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        results = self._each_derivative(q, lambda piece, _, derivatives: [
            -derivatives[column.rows, c] for c, column in enumerate(piece.columns)])
        return [np.concatenate([results[i][c] for i, c in members]) for members in self._members]

    def runs(self, group: int) -> np.ndarray:
        columns = [self.pieces[i].columns[c] for i, c in self._members[group]]
        return np.concatenate([~np.isin(np.arange(len(column.rows)), column.before + 1) for column in columns])

    def motion(self, q: np.ndarray) -> list[np.ndarray]:
        """Computes for each data set speed and lateral acceleration of a steady turn, of the model (K, 2), at q (Q,)."""
        return [piece.motion(np.asarray(q, float)) for piece in self.pieces]

    def places(self, group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Locates a group's samples: data set, channel of it, row of that (n,)."""
        rows = [self.pieces[i].columns[c].rows for i, c in self._members[group]]
        data, channel = ([np.full(len(one), member[place]) for one, member in zip(rows, self._members[group])] for place in (0, 1))
        return np.concatenate(data), np.concatenate(channel), np.concatenate(rows)

    def responses(self, q: np.ndarray) -> list[np.ndarray]:
        """Computes for each data set the measurements of ideal sensors (N, K, C) at q (N, Q)."""
        q = np.atleast_2d(np.asarray(q, float))
        return [piece.responses(q).transpose(2, 0, 1) for piece in self.pieces]

    def response_parts(self, number: int, q: np.ndarray, limit: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields parts of the particles q (N, Q), and the measurements of ideal sensors of one data set (n, K, C), with `limit` bytes in
        flight."""
        piece = self.pieces[number]
        samples, channels = piece.data.observed.shape
        # Inputs, outputs of the model, measurements, and room for a copy of the caller.
        width = max(BLOCK, limit // (8 * samples * (piece.data.table.shape[1] + 4 * channels)) // BLOCK * BLOCK)
        for first in range(0, len(q), width):
            part = slice(first, min(first + width, len(q)))
            yield part, piece.responses(q[part]).transpose(2, 0, 1)

    def _each_derivative(self, q: np.ndarray, reduce: Callable[[_Piece, np.ndarray, np.ndarray], _Reduced]) -> list[_Reduced]:
        """Applies `reduce` to the responses (K, C) of each piece at q (Q,) and their derivatives (K, C, Q), which are discarded."""
        q = np.asarray(q, float)
        results: dict[int, _Reduced] = {}

        def one(i: int) -> None:
            results[i] = reduce(self.pieces[i], *self.pieces[i].derivatives(q))

        if len(self.pieces) == 1:
            one(0)  # which runs on all cores
        else:
            in_parallel(one, len(self.pieces))
        return [results[i] for i in range(len(self.pieces))]

    @staticmethod
    def _each_chunk(piece: _Piece, count: int, look: Callable[[slice], None]) -> None:
        """Calls `look` with parts of `count` particles, on all cores."""
        samples, channels = piece.data.observed.shape
        numbers = samples * max(channels, piece.data.table.shape[1] if piece.own_inputs else 0)
        limit = CHUNK if piece.on_processor else LAUNCH
        width = max(BLOCK, limit // numbers // BLOCK * BLOCK)

        def one(i: int) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                look(slice(i * width, min((i + 1) * width, count)))

        chunks = -(-count // width)
        if chunks == 1:
            one(0)
        else:
            in_parallel(one, chunks)


def _errors(piece: _Piece, q: np.ndarray) -> list[np.ndarray]:
    """Computes for each channel measured minus model (n, N) at q (N, Q)."""
    responses = piece.responses(q)
    return [column.values[:, None] - responses[column.pick, c] for c, column in enumerate(piece.columns)]
