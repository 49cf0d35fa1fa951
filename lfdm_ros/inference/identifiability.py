"""Fisher information of data about each unknown, from exact sensitivities without sampling, and combinations that are not identified.

With the Jacobian J of the errors by the unknowns, their covariance S, and P the prior's standard deviations in its own scale (the logarithm
of a log-normal one), the Fisher information in units of the prior is

    F = P J' S^-1 J P,

and (I + F)^-1 the local covariance of the posterior, that of the prior being I. Along an eigenvector of F with eigenvalue w the posterior
is 1 / sqrt(1 + w) times as wide as the prior: below w = 1 the prior dominates. F is local: averaging the covariance over several points
gives the expected one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.inference import gaussian
from lfdm_ros.inference.likelihood import Likelihood
from lfdm_ros.inference.plan import INITIAL
from lfdm_ros.inference.priors import Prior

INFORMED = 1.0  # eigenvalue of the information below which the prior dominates
UNINFORMED = 1.0 / (1.0 + INFORMED)  # the same limit as an eigenvalue of the covariance
MEMBER = 0.15  # share of an unknown's variance in the unidentified directions, from which it is listed
LINKED = 0.08  # off-diagonal element of the projector on those directions, from which two unknowns are grouped
EQUAL = 1.6  # weights of a sum may differ by this factor, due to the average over points

Noise = Sequence[tuple[float, float]]  # of each group of errors: standard deviation, correlation of neighbours


def whiten(likelihood: Likelihood, parts: Sequence[np.ndarray], noise: Noise) -> np.ndarray:
    """Whitens errors, or derivatives of them, of each group (n, ...) -> (M, ...), to independent standard deviations."""
    return np.concatenate([gaussian.whiten(group, part, likelihood.runs(g) if rho else None, sigma, rho)
                           for g, (group, part, (sigma, rho)) in enumerate(zip(likelihood.groups, parts, noise))])


def information_root(likelihood: Likelihood, priors: Sequence[Prior], q: np.ndarray, noise: Noise) -> np.ndarray:
    """Computes S^-1/2 J P at q (Q,), (M, Q): root' root is the information; P in the coordinates of the search, where samplers need it."""
    return whiten(likelihood, likelihood.error_slopes(q), noise) * units(priors, q)


def units(priors: Sequence[Prior], q: np.ndarray) -> np.ndarray:
    """Returns the change of each unknown at q (Q,) for one standard deviation of its prior in the coordinate of the search."""
    return np.array([prior.spread() * (value if prior.logarithmic else 1.0) for prior, value in zip(priors, q)])


def _changes(priors: Sequence[Prior], q: np.ndarray) -> np.ndarray:
    return np.array([prior.change(value) for prior, value in zip(priors, q)])


def fisher(likelihood: Likelihood, priors: Sequence[Prior], q: np.ndarray, noise: Noise) -> np.ndarray | None:
    """Computes F at q (Q,), (Q, Q); None where the model cannot be simulated there."""
    with np.errstate(all="ignore"):
        root = whiten(likelihood, likelihood.error_slopes(q), noise) * _changes(priors, q)
    return root.T @ root if np.isfinite(root).all() else None


@dataclass(frozen=True)
class Unidentified:
    """Unknowns of which the data identify only some combinations.

    dimension: number of unidentified directions among the `members`; kind: alone, sum, difference, ratio, product, or
    combination; correlation: of a pair, or of one member with the best combination of the others; width: of the widest direction in
    units of the prior.
    """

    members: tuple[str, ...]
    dimension: int
    kind: str
    correlation: float
    width: float
    direction: Mapping[str, float]

    @property
    def words(self) -> str:
        """Clause on the identified part of the members."""
        members = in_words(self.members)
        if self.kind == "alone":
            return f"the data say next to nothing of {members} (stays {self.width:.2f} times as wide as the prior)"
        if self.kind == "combination":
            combination = " ".join(f"{'-' if c < 0 else '+'} {abs(c):.2f} {name}" for name, c in self.direction.items()).removeprefix("+ ")
            if len(self.members) - self.dimension != 1:
                return f"{members} are separable only in part: {self.dimension} of their {len(self.members)} directions stay unknown"
            return f"{members} enter only in one combination, {combination} (each in prior standard deviations)"
        return f"{members} enter only as a {self.kind} (r = {self.correlation:.2f})"

    @property
    def remedy(self) -> str:
        """Remedy without another recording."""
        if self.kind == "alone":
            return "hold it fixed" if len(self.members) == 1 else "hold them fixed"
        return f"calibrate the {self.kind}" if self.dimension == len(self.members) - 1 else "hold some of them fixed"

    def as_dict(self) -> dict[str, Any]:
        """Returns the entries of summary.json."""
        return {"members": list(self.members), "dimension": self.dimension, "kind": self.kind, "correlation": self.correlation,
                "sd_over_prior_sd": self.width, "text": f"{self.words}: {self.remedy}"}


@dataclass(frozen=True)
class Knowledge:
    """Covariance (Q, Q) of the unknowns in units and scale of the prior, whose covariance is the unit matrix; `q`: their values."""

    priors: Mapping[str, Prior]
    covariance: np.ndarray
    q: np.ndarray

    @property
    def widths(self) -> dict[str, float]:
        """Posterior over prior standard deviation."""
        return dict(zip(self.priors, np.sqrt(np.diag(self.covariance)).tolist()))

    @property
    def informed(self) -> int:
        """Number of directions in which the data dominate the prior."""
        return int((np.linalg.eigvalsh(self.covariance) < UNINFORMED).sum())

    def widest(self) -> tuple[float, dict[str, float]]:
        """Returns the width in units of the prior, and the direction of it."""
        weights, vectors = np.linalg.eigh(self.covariance)
        return float(np.sqrt(weights[-1])), dict(zip(self.priors, vectors[:, -1].tolist()))

    def unidentified(self) -> list[Unidentified]:
        """Returns the groups of unknowns that the data do not identify, or not separately; widest first."""
        weights, vectors = np.linalg.eigh(self.covariance)
        weak = vectors[:, weights >= UNINFORMED]
        projector = weak @ weak.T
        names = list(self.priors)
        return sorted([self._group(names, members, projector) for members in _components(projector)], key=lambda group: -group.width)

    def _group(self, names: Sequence[str], members: list[int], projector: np.ndarray) -> Unidentified:
        block = projector[np.ix_(members, members)]
        weights, vectors = np.linalg.eigh(block)
        dimension = max(1, int((weights > 0.5).sum()))
        part = self.covariance[np.ix_(members, members)]
        width = float(np.sqrt(np.linalg.eigvalsh(part)[-1]))
        chosen = tuple(names[i] for i in members)
        combination = vectors[:, 0] * np.sign(vectors[np.abs(vectors[:, 0]).argmax(), 0])
        kind = "alone" if dimension == len(members) else "combination"
        if dimension == len(members) - 1:
            priors = [list(self.priors.values())[i] for i in members]
            kind = _kind(combination / _changes(priors, self.q[members]), self.q[members], [prior.unit for prior in priors])
        return Unidentified(chosen, dimension, kind, _correlation(part), width, dict(zip(chosen, combination.tolist())))


def expected(priors: Mapping[str, Prior], informations: Sequence[np.ndarray], q: np.ndarray) -> Knowledge:
    """Averages the covariance expected of a posterior, from F at several points; `q`: their representative point."""
    unit = np.eye(len(priors))
    return Knowledge(priors, np.mean([np.linalg.inv(unit + information) for information in informations], axis=0), q)


def from_draws(priors: Mapping[str, Prior], draws: Mapping[str, np.ndarray]) -> Knowledge:
    """Computes the covariance of a posterior from draws of each unknown."""
    columns = [prior.relative(draws[name].ravel()) for name, prior in priors.items()]
    return Knowledge(priors, np.atleast_2d(np.cov(columns)), np.array([draws[name].mean() for name in priors]))


def in_words(names: Sequence[str]) -> str:
    """Unknowns in words: 'front and rear roll damping'."""
    stems: dict[str, list[str]] = {}
    for name in names:
        stem, _, end = name.rpartition("_")
        if end in ("front", "rear"):
            stems.setdefault(stem, []).append(end)
        else:
            stems.setdefault(name, [])
    parts = []
    for stem, ends in stems.items():
        shown = stem.removeprefix(INITIAL)
        plain = ("initial " if stem.startswith(INITIAL) else "") + shown.replace("_", " ").replace(".", " ")
        parts.append(f"{' and '.join(ends)} {plain}".strip())
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _kind(weights: np.ndarray, q: np.ndarray, units_: Sequence[str]) -> str:
    # weights (m,): derivatives of the identified combination by the unknowns, in SI.
    if len(set(units_)) == 1 and _alike(weights):
        return "sum"
    if len(set(units_)) == 1 and len(weights) == 2 and _alike(weights * [1.0, -1.0]):
        return "difference"
    exponents = weights * q
    if _alike(exponents):
        return "product"
    return "ratio" if len(weights) == 2 and _alike(exponents * [1.0, -1.0]) else "combination"


def _alike(values: np.ndarray) -> bool:
    return bool((values > 0).all() or (values < 0).all()) and bool(np.abs(values).max() < EQUAL * np.abs(values).min())


def _correlation(covariance: np.ndarray) -> float:
    if len(covariance) == 1:
        return 0.0
    if len(covariance) == 2:
        return float(covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]))
    inverse = np.linalg.inv(covariance + 1e-12 * np.eye(len(covariance)))
    explained = 1.0 - 1.0 / (np.diag(covariance) * np.diag(inverse))
    return -float(np.sqrt(max(0.0, explained.min())))


def _components(projector: np.ndarray) -> list[list[int]]:
    # Unknowns linked by unidentified directions.
    left = [i for i in range(len(projector)) if projector[i, i] > MEMBER]
    out = []
    while left:
        group, open_ = [], [left.pop(0)]
        while open_:
            i = open_.pop()
            group.append(i)
            linked = [j for j in left if abs(projector[i, j]) > LINKED]
            left = [j for j in left if j not in linked]
            open_ += linked
        out.append(sorted(group))
    return out
