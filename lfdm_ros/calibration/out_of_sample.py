"""Interval coverage of a stage on data that it was not fitted to, and the widening that its predictions need.

Data are the held-out pieces or, without any, blocks of the fitted data left out in turn: blocked cross-validation, at the cost of two
simulations. A block is a whole data set where several belong to a group, otherwise a stretch in time of one, whose run keeps its initial
state (Bergmeir and Benitez 2012: neighbours in time are not independent). The optimum without a block is found by one Newton step from the
optimum of all,

    q_k = q + H_k^-1 J_b' e_b,

e_b being the errors of the block in independent standard deviations, J_b their slopes and H_k the curvature of the prior and the other
blocks (Rad and Maleki 2020; Giordano et al. 2019), shortened where it raises their cost; the block is then simulated at q_k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros.calibration.model_error import GAUSSIAN, PieceErrors, learn, level_of, sensor_noise, tried
from lfdm_ros.inference import gaussian
from lfdm_ros.inference.identifiability import Noise, units
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.plan import RHO, SIGMA
from lfdm_ros.inference.priors import Prior

if TYPE_CHECKING:
    from lfdm_ros.calibration.predictive import Predictive
    from lfdm_ros.calibration.stage import StageResult

HELD_OUT, CROSS_VALIDATION = "held_out", "cross_validation"
RIGHT = (0.85, 0.97)  # share that 90 % intervals should hold
NEARLY = 0.75  # below which intervals are wrong


def out_of_sample(result: StageResult) -> dict[str, dict[str, Any]]:
    """Computes the out-of-sample statistics by label of errors, for summary.json.

    source: held_out or cross_validation; pieces; rmse; lost: samples at which the model diverges, counted as outside; coverage_90 of
    intervals from parameters and noise; widening: factor by which they should be wider; coverage_90_widened: with the model error, each
    piece tested with that of the others; model_error: learned from all pieces, None if they are too few; text.
    """
    out = {}
    held_out_errors, lost = _held_out(result)
    cross_validated = _cross_validation(result) if any(label not in held_out_errors for label in result.stage.channels) else {}
    for label in result.stage.channels:
        source, pieces = CROSS_VALIDATION, cross_validated.get(label, [])
        if label in held_out_errors:
            source, pieces = HELD_OUT, held_out_errors[label]
        if pieces:
            out[label] = _row(label, pieces, source, lost.get(label, 0) if source == HELD_OUT else 0)
    return out


def _row(label: str, pieces: Sequence[PieceErrors], source: str, lost: int) -> dict[str, Any]:
    z = np.abs(np.concatenate([piece.z for piece in pieces]))
    squares = np.concatenate([piece.error for piece in pieces]) ** 2
    found = learn(pieces, source)
    row = {"source": source, "pieces": len(pieces), "samples": len(z), "rmse": float(np.sqrt(squares.mean())),
           "coverage_90": float((z <= GAUSSIAN).sum()) / (len(z) + lost), "lost": lost, "widening": float(np.quantile(z, 0.9)) / GAUSSIAN,
           "coverage_90_widened": tried(pieces), "model_error": asdict(found) if found else None}
    return {**row, "text": _words(label, row)}


def _words(label: str, row: Mapping[str, Any]) -> str:
    where = (f"on the {row['pieces']} pieces that were held out" if row["source"] == HELD_OUT else
             f"on what was left out in turn ({row['pieces']} blocks)")
    sentence = f"{where}, the 90 % intervals of {label} hold {row['coverage_90']:.0%}"
    if row["coverage_90"] < RIGHT[0]:
        sentence += f": they should be {row['widening']:.1f} times as wide"
    elif row["coverage_90"] > RIGHT[1]:
        sentence += f": {row['widening']:.1f} of their width would do"
    if row["lost"]:
        sentence += f"; of {row['lost']} samples the model has no response, since it diverges"
    if np.isfinite(row["coverage_90_widened"]):
        sentence += f"; with the model error that this shows, as predictions have it, {row['coverage_90_widened']:.0%}"
    return sentence


def right(row: Mapping[str, Any]) -> bool:
    """Checks that intervals are as wide as the errors out of sample require."""
    return bool(RIGHT[0] <= row["coverage_90"] <= RIGHT[1])


def out_of_sample_warnings(rows: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    yield from (row["text"] for row in rows.values() if row["coverage_90"] < RIGHT[0])


def _held_out(result: StageResult) -> tuple[dict[str, list[PieceErrors]], dict[str, int]]:
    """Returns the errors of the pieces by label, and the number of samples without a response of the model."""
    members: dict[str, list[tuple[Predictive, str, int]]] = {}
    for (segment, data), predictive in zip(result.data.held_out, result.held_out_predictive):
        for c, measured in enumerate(segment.channels):
            members.setdefault(measured.label, []).append((predictive, data.channels[c], c))
    found: dict[str, list[PieceErrors]] = {}
    lost: dict[str, int] = {}
    for label, entries in members.items():
        sensor, sigma = sensor_noise([one.observed[:, c] for one, _, c in entries]), float(result.run.draws[SIGMA + label].mean())
        for one, channel, c in entries:
            finite = np.isfinite(one.residuals[:, c]) & np.isfinite(one.spread[:, c])
            lost[label] = lost.get(label, 0) + int((np.isfinite(one.observed[:, c]) & ~finite).sum())
            if finite.any():
                found.setdefault(label, []).append(PieceErrors(
                    (one.times - one.times[0])[finite], one.residuals[finite, c], one.spread[finite, c],
                    level_of(channel, one.response[:, c])[finite], sigma, sensor if np.isfinite(sensor) else 0.0))
    return found, lost


def _cross_validation(result: StageResult) -> dict[str, list[PieceErrors]]:
    draws, names = result.run.draws, result.unknowns
    noise = [(float(draws[SIGMA + group.label].mean()), float(draws[RHO + group.label].mean()) if RHO + group.label in draws else 0.0)
             for group in result.likelihood.groups]
    return cross_validate(result.likelihood, [result.priors[name] for name in names],
                          np.array([result.run.point[name] for name in names]), noise)


FOLDS = 5
STEP_FACTORS = (1.0, 0.5, 0.2)  # of a step that raises the cost of the other blocks


@dataclass(frozen=True)
class _Rows:
    """The samples of one group of errors: their data set, channel, row of it, and fold; all (n,)."""

    data: np.ndarray
    channel: np.ndarray
    row: np.ndarray
    fold: np.ndarray


def cross_validate(likelihood: RolloutLikelihood, priors: Sequence[Prior], q: np.ndarray, noise: Noise) -> dict[str, list[PieceErrors]]:
    """Returns the finite errors of each group in the blocks left out in turn. `priors`: of the unknowns, in the order of q; `q`: (Q,) the
    posterior's mode or mean; `noise`: of each group: standard deviation, correlation of neighbours."""
    rows = _folds(likelihood)
    with np.errstate(all="ignore"):
        slopes, errors = likelihood.error_slopes(q), [error[0] for error in likelihood.errors(q[None])]
        if not all(np.isfinite(part).all() for part in (*slopes, *errors)):
            return {}
        unit = units(priors, q)
        starts = [likelihood.runs(g) for g in range(len(rows))]

        def whiten(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [gaussian.whiten(group, part, starts[g] if rho else None, sigma, rho)
                    for g, (group, part, (sigma, rho)) in enumerate(zip(likelihood.groups, parts, noise))]

        roots, residuals = [part * unit for part in whiten(slopes)], whiten(errors)
        whole = np.eye(len(q)) + sum(root.T @ root for root in roots)
        inverses, trials = [], []
        for fold in range(FOLDS):
            in_fold = [part.fold == fold for part in rows]
            block = np.concatenate([root[mask] for root, mask in zip(roots, in_fold)])
            inverse = np.linalg.inv(whole - block.T @ block)
            step = inverse @ block.T @ np.concatenate([residual[mask] for residual, mask in zip(residuals, in_fold)])
            inverses.append(inverse)
            trials += [_moved(priors, q, shorter * step * unit) for shorter in STEP_FACTORS]
        tried = likelihood.errors(np.array(trials))
        chosen = [_best([[part[len(STEP_FACTORS) * fold + i] for part in tried] for i in range(len(STEP_FACTORS))], whiten,
                        [part.fold != fold for part in rows]) + len(STEP_FACTORS) * fold for fold in range(FOLDS)]
    out: dict[str, list[PieceErrors]] = {}
    sensors = [_sensor(likelihood, part) for part in rows]
    for g, (group, part, (sigma, _)) in enumerate(zip(likelihood.groups, rows, noise)):
        for key in sorted(set(zip(part.data.tolist(), part.channel.tolist(), part.fold.tolist()))):
            mask = (part.data == key[0]) & (part.channel == key[1]) & (part.fold == key[2])
            error, jacobian = tried[g][chosen[key[2]]], slopes[g][mask] * unit
            data, whole_run = likelihood.datasets[key[0]], (part.data == key[0]) & (part.channel == key[1])
            response = data.observed[part.row[whole_run], key[1]] - error[whole_run]
            spread = np.einsum("nq,qr,nr->n", jacobian, inverses[key[2]], jacobian)
            found = PieceErrors(data.times[part.row[mask]] - data.times[0], error[mask], spread,
                                level_of(data.channels[key[1]], response)[mask[whole_run]], sigma, sensors[g])
            if np.isfinite(found.error).all():
                out.setdefault(group.label, []).append(found)
    return out


def _folds(likelihood: RolloutLikelihood) -> list[_Rows]:
    places = [likelihood.places(g) for g in range(len(likelihood.groups))]
    # Groups of too few data sets are cut in time.
    cut = {int(i) for data, _, _ in places if len(members := np.unique(data)) < FOLDS for i in members}
    order = {i: place % FOLDS for place, i in enumerate(i for i in range(len(likelihood.datasets)) if i not in cut)}
    lengths = np.array([len(one.times) for one in likelihood.datasets])
    whole = np.array([order.get(i, 0) for i in range(len(likelihood.datasets))])
    return [_Rows(data, channel, row, np.where(np.isin(data, list(cut)), row * FOLDS // lengths[data], whole[data]))
            for data, channel, row in places]


def _sensor(likelihood: RolloutLikelihood, rows: _Rows) -> float:
    # Noise of the sensor of a group; 0 where it cannot be estimated.
    found = sensor_noise([likelihood.datasets[i].observed[rows.row[(rows.data == i) & (rows.channel == c)], c]
                          for i, c in sorted(set(zip(rows.data.tolist(), rows.channel.tolist())))])
    return found if np.isfinite(found) else 0.0


def _moved(priors: Sequence[Prior], q: np.ndarray, step: np.ndarray) -> np.ndarray:
    # Inside the priors; half the way to a bound that would be crossed.
    lower, upper = np.array([prior.bounds() for prior in priors]).T
    moved = q + step
    moved = np.where(moved <= lower, 0.5 * (q + lower), moved)
    return np.asarray(np.where(moved >= upper, 0.5 * (q + upper), moved))


def _best(tried: Sequence[Sequence[np.ndarray]], whiten: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
          others: Sequence[np.ndarray]) -> int:
    # Which of the errors has the least cost in the rows of the others.
    costs = [sum(float((part[mask] ** 2).sum()) for part, mask in zip(whiten(errors), others)) for errors in tried]
    return int(np.argmin(np.where(np.isfinite(costs), costs, np.inf)))
