"""Model against data: moments of the errors of many particles in a few compiled calls.

The Gaussian likelihood of paper 000, eq. 3, with independent channels c of n_c samples and sampled noise sigma_c, needs the data only
through A_c(q) = sum_k e_kc^2, e = measured - model. With errors of first-order autoregression (correlation rho_c of neighbours, R_c
unbroken runs of samples, marginal deviation sigma_c) it needs B_c = sum e_k e_{k+1} within runs, and D_c = A_c without the first and the
last of each run:

    log p = sum_c [ -n log(sigma) - (n - R)/2 log(1 - rho^2) - n/2 log(2 pi) - (A - 2 rho B + rho^2 D) / (2 sigma^2 (1 - rho^2)) ].

q holds the unknowns of a stage: parameters, then nuisances, then initial states of each data set.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lfdm_ros.backends import cores
from lfdm_ros.calibration.dataset import Dataset
from lfdm_ros.calibration.measurement import InputPath, OutputPath
from lfdm_ros.simulation import BatchRollout, SensitivityRollout, initial_state
from lfdm_ros.vehicles import Vehicle

Targets = Sequence[tuple[str, float]]  # vehicle parameter, factor
MOMENTS = 3  # A, B and D
CHUNK = 1_500_000  # numbers of responses that are looked at together: about what a core's cache holds
# Samples further apart than this many times the usual distance do not follow each other.
GAP = 2.5


@dataclass(frozen=True)
class Group:
    """Errors that share noise and correlation: label, number of samples n, unbroken runs of them."""

    label: str
    count: int
    runs: int


class Likelihood(Protocol):
    """What the PyMC model needs of a simulator."""

    groups: tuple[Group, ...]

    def moments(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> A, B, D of each group (N, G, 3); +inf where a run diverged."""
        ...

    def moments_and_slopes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q (Q,) -> moments (G, 3) and their derivatives (G, 3, Q)."""
        ...

    def measured(self, group: int) -> np.ndarray:
        """The samples of a group (n,)."""
        ...

    def errors(self, q: np.ndarray) -> list[np.ndarray]:
        """q (N, Q) -> for each group measured minus model (N, n)."""
        ...

    def error_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        """q (Q,) -> for each group the derivatives of measured minus model (n, Q)."""
        ...

    def runs(self, group: int) -> np.ndarray:
        """Where unbroken runs of a group's samples begin, as a mask (n,)."""
        ...


class _Column:
    """One channel of one data set: which rows were measured, and which of those follow each other."""

    def __init__(self, observed: np.ndarray):
        self.rows = np.flatnonzero(np.isfinite(observed))
        self.values = observed[self.rows]
        distance = np.diff(self.rows)
        follows = distance <= GAP * np.median(distance) if len(distance) else np.zeros(0, bool)
        self.before = np.flatnonzero(follows)  # places of samples whose next one follows
        self.ends = np.concatenate([np.flatnonzero(np.concatenate([[True], ~follows])), np.flatnonzero(np.concatenate([~follows, [True]]))])
        self.runs = len(self.ends) // 2
        # All rows of an even recording: a view will do.
        self.pick: slice | np.ndarray = slice(None) if len(self.rows) == len(observed) else self.rows

    def moments(self, errors: np.ndarray) -> np.ndarray:
        """errors (n, N) -> (3, N)."""
        squares = np.einsum("kn,kn->n", errors, errors)
        if self.runs == 1:
            neighbours = np.einsum("kn,kn->n", errors[:-1], errors[1:])
        else:
            neighbours = np.einsum("kn,kn->n", errors[self.before], errors[self.before + 1])
        return np.stack([squares, neighbours, squares - (errors[self.ends] ** 2).sum(axis=0)])

    def slopes(self, errors: np.ndarray, derivatives: np.ndarray) -> np.ndarray:
        """errors (n,) and their derivatives (n, Q) -> derivatives of the moments (3, Q)."""
        squares = 2.0 * errors @ derivatives
        a, b = self.before, self.before + 1
        return np.stack([squares, errors[a] @ derivatives[b] + errors[b] @ derivatives[a],
                         squares - 2.0 * errors[self.ends] @ derivatives[self.ends]])


class _Piece:
    """One data set: the values of a stage's unknowns to responses as the sensors would say them."""

    def __init__(self, data: Dataset, *, model: str, vehicle: Vehicle, step: float, unknowns: Sequence[Targets], nuisances: Sequence[str],
                 estimated: Sequence[str], columns: Sequence[int]):
        targets = list(dict.fromkeys(target for unknown in unknowns for target, _ in unknown))
        self._mixing = np.zeros((len(unknowns), len(targets)))
        for row, unknown in enumerate(unknowns):
            for target, factor in unknown:
                self._mixing[row, targets.index(target)] = factor
        recorded = {**dict.fromkeys(estimated, 0.0), **data.initial}
        self._x0 = initial_state(model, vehicle, **recorded)
        self._centre = np.array([recorded[name] for name in estimated])
        # A changed speed changes the wheels that roll freely with it; the dependence is linear.
        self._directions = np.array([initial_state(model, vehicle, **{**recorded, name: recorded[name] + 1.0}) - self._x0
                                     for name in estimated]).reshape(len(estimated), len(self._x0))
        self._nuisances = slice(len(unknowns), len(unknowns) + len(nuisances))
        self._states = np.array(columns, int)  # of q
        self._inputs, self._outputs = InputPath(data, nuisances), OutputPath(data.channels, nuisances)
        self.data = data
        self.columns = [_Column(column) for column in data.observed.T]
        # An input that is late is no longer held between the grid's points.
        self._hold = data.hold and not self._inputs.shifts_time
        self._arguments: dict[str, Any] = {"model": model, "vehicle": vehicle, "dt": step, "times": data.times, "parameters": targets,
                           "channels": self._outputs.channels, "hold": self._hold, "prescribed": data.following}
        self._rollout = BatchRollout(**self._arguments, inputs=data.table)
        self._sensitivity: SensitivityRollout | None = None

    @property
    def plain(self) -> bool:
        """Whether the kernel's own sums of squares are those of the errors."""
        return not self._inputs.columns and self._outputs.trivial

    def squared_errors(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> sums over the samples (N, C); +inf where a run diverged."""
        return self._rollout.squared_errors(q[:, :len(self._mixing)] @ self._mixing, self._start(q), self.data.observed)

    def responses(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> (K, C, N)."""
        theta, values = q[:, :len(self._mixing)] @ self._mixing, q[:, self._nuisances]
        inputs = self._inputs.inputs(values) if self._inputs.columns else None
        return self._outputs.measured(self._rollout.trajectories(theta, self._start(q), inputs).transpose(1, 2, 0), values)

    def derivatives(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q (Q,) -> responses (K, C) and their exact derivatives (K, C, Q)."""
        if self._sensitivity is None:
            self._sensitivity = SensitivityRollout(**self._arguments, inputs=self.data.table)
        count, values = len(self._mixing), q[self._nuisances]
        used = [*range(count), *(self._nuisances.start + i for i in self._inputs.columns), *self._states]
        theta = np.zeros((self._mixing.shape[1], len(used)))
        theta[:, :count] = self._mixing.T
        start = np.zeros((len(self._x0), len(used)))
        start[:, len(used) - len(self._states):] = self._directions.T
        inputs, by_input = None, None
        if self._inputs.columns:
            inputs, slopes = self._inputs.slopes(values)
            by_input = np.zeros((*slopes.shape[:2], len(used)))
            by_input[:, :, count:count + len(self._inputs.columns)] = slopes[:, :, self._inputs.columns]
        responses, some = self._sensitivity.run(q[:count] @ self._mixing, self._start(q[None])[0], theta, start, inputs, by_input)
        full = np.zeros((*some.shape[:2], len(q)))
        full[:, :, used] = some
        measured = self._outputs.measured(responses[:, :, None], values[None])[:, :, 0]
        return measured, self._outputs.slopes(responses, full, values, self._nuisances)

    def _start(self, q: np.ndarray) -> np.ndarray:
        if not len(self._centre):
            return np.broadcast_to(self._x0, (len(q), len(self._x0)))
        return self._x0 + (q[:, self._states] - self._centre) @ self._directions


class RolloutLikelihood:
    """A vehicle model on the data sets of a stage."""

    def __init__(self, datasets: Sequence[Dataset], *, model: str, vehicle: Vehicle, step: float, unknowns: Sequence[Targets],
                 nuisances: Sequence[str] = (), estimated: Sequence[Sequence[str]] = (), labels: Sequence[Sequence[str]] = (),
                 correlated: bool = False):
        """Args:
            unknowns: for each, the vehicle parameters it sets and the factors.
            nuisances: names of those, see `lfdm_ros.calibration.measurement`.
            estimated: for each data set, initial states that are unknown too; the others are as recorded, wheels that were not recorded
                roll freely.
            labels: for each data set, the group that the errors of each channel belong to; by default the channel's name.
            correlated: whether B and D are wanted; otherwise they may be left at 0.
        """
        self.datasets = tuple(datasets)
        estimated = estimated or [()] * len(datasets)
        labels = labels or [data.channels for data in datasets]
        first = len(unknowns) + len(nuisances)
        self.pieces: list[_Piece] = []
        for data, states in zip(datasets, estimated):
            self.pieces.append(_Piece(data, model=model, vehicle=vehicle, step=step, unknowns=unknowns, nuisances=nuisances,
                                      estimated=states, columns=range(first, first + len(states))))
            first += len(states)
        self.count = first  # of unknowns
        self._correlated = correlated
        self._gather(labels)

    def _gather(self, labels: Sequence[Sequence[str]]) -> None:
        self._labels = labels
        names = list(dict.fromkeys(label for own in labels for label in own))
        self._members: list[list[tuple[int, int]]] = [  # of each group: data set, channel
            [(i, c) for i, own in enumerate(labels) for c, label in enumerate(own) if label == name] for name in names]
        self.groups = tuple(Group(name, sum(len(self.pieces[i].columns[c].rows) for i, c in members),
                                  sum(self.pieces[i].columns[c].runs for i, c in members))
                            for name, members in zip(names, self._members))

    def only(self, keep: Sequence[bool]) -> RolloutLikelihood:
        """The same unknowns, seen by some of the data sets."""
        part = copy.copy(self)
        part.datasets = tuple(data for data, kept in zip(self.datasets, keep) if kept)
        part.pieces = [piece for piece, kept in zip(self.pieces, keep) if kept]
        part._gather([labels for labels, kept in zip(self._labels, keep) if kept])
        return part

    def moments(self, q: np.ndarray) -> np.ndarray:
        """q (N, Q) -> A, B, D of each group (N, G, 3); +inf where a run diverged."""
        q = np.atleast_2d(np.asarray(q, float))
        out = np.zeros((len(q), len(self.groups), MOMENTS))
        groups = {member: g for g, members in enumerate(self._members) for member in members}
        for i, piece in enumerate(self.pieces):
            if piece.plain and not self._correlated:
                sums = piece.squared_errors(q)
                for c in range(sums.shape[1]):
                    out[:, groups[i, c], 0] += sums[:, c]
                continue

            def look(part: slice, errors: list[np.ndarray], i: int = i, piece: _Piece = piece) -> None:
                for c, (column, error) in enumerate(zip(piece.columns, errors)):
                    out[part, groups[i, c]] += column.moments(error).T

            self._each_chunk(piece, q, look)
        return np.where(np.isfinite(out), out, np.inf)

    def moments_and_slopes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q (Q,) -> moments (G, 3) and their exact derivatives (G, 3, Q)."""
        moments, slopes = np.zeros((len(self.groups), MOMENTS)), np.zeros((len(self.groups), MOMENTS, self.count))
        results = self._all_derivatives(q)
        for g, members in enumerate(self._members):
            for i, c in members:
                column, (responses, derivatives) = self.pieces[i].columns[c], results[i]
                errors = column.values - responses[column.rows, c]
                moments[g] += column.moments(errors[:, None])[:, 0]
                slopes[g] += column.slopes(errors, -derivatives[column.rows, c])
        return moments, slopes

    def measured(self, group: int) -> np.ndarray:
        """The samples of a group (n,)."""
        return np.concatenate([self.pieces[i].columns[c].values for i, c in self._members[group]])

    def errors(self, q: np.ndarray) -> list[np.ndarray]:
        """q (N, Q) -> for each group measured minus model (N, n)."""
        q = np.atleast_2d(np.asarray(q, float))
        kept = [[np.empty((len(q), len(column.rows))) for column in piece.columns] for piece in self.pieces]
        for piece, room in zip(self.pieces, kept):
            def look(part: slice, errors: list[np.ndarray], room: list[np.ndarray] = room) -> None:
                for target, error in zip(room, errors):
                    target[part] = error.T

            self._each_chunk(piece, q, look)
        return [np.concatenate([kept[i][c] for i, c in members], axis=1) for members in self._members]

    def error_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        """q (Q,) -> for each group the exact derivatives of measured minus model (n, Q)."""
        results = self._all_derivatives(q)
        return [np.concatenate([-results[i][1][self.pieces[i].columns[c].rows, c] for i, c in members]) for members in self._members]

    def runs(self, group: int) -> np.ndarray:
        """Where unbroken runs of a group's samples begin, as a mask (n,)."""
        masks = []
        for i, c in self._members[group]:
            column = self.pieces[i].columns[c]
            mask = np.ones(len(column.rows), bool)
            mask[column.before + 1] = False
            masks.append(mask)
        return np.concatenate(masks)

    def responses(self, q: np.ndarray) -> list[np.ndarray]:
        """q (N, Q) -> for each data set what the sensors would say (N, K, C)."""
        q = np.atleast_2d(np.asarray(q, float))
        return [piece.responses(q).transpose(2, 0, 1) for piece in self.pieces]

    def _all_derivatives(self, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        q = np.asarray(q, float)
        if len(self.pieces) == 1:
            return [self.pieces[0].derivatives(q)]
        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(lambda piece: piece.derivatives(q), self.pieces))

    def _each_chunk(self, piece: _Piece, q: np.ndarray, look: Callable[[slice, list[np.ndarray]], None]) -> None:
        """Calls `look` with parts of the particles and, for each channel, measured minus model (n, part)."""
        width = max(16, CHUNK // piece.data.observed.size // 16 * 16)

        def one(first: int) -> None:
            part = slice(first, min(first + width, len(q)))
            with np.errstate(over="ignore", invalid="ignore"):
                responses = piece.responses(q[part])
                look(part, [column.values[:, None] - responses[column.pick, c] for c, column in enumerate(piece.columns)])

        starts = range(0, len(q), width)
        if len(starts) == 1:
            one(0)
            return
        with ThreadPoolExecutor(cores()) as pool:
            list(pool.map(one, starts))
