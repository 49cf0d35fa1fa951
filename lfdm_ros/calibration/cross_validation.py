"""How a stage predicts what it was fitted to, had it not been: blocked cross-validation, at the price of two simulations.

Blocks are left out in turn, FOLDS times. A block is a whole data set where several say the same, otherwise a stretch in time of one, whose
run still begins where it began (Bergmeir and Benitez 2012: neighbours in time must not stand for each other). Where the optimum would be
without a block is found by one Newton step from the optimum of all,

    q_k = q + H_k^-1 J_b' e_b,

e_b being the errors of the block in independent standard deviations, J_b their slopes and H_k the curvature that prior and the other blocks
leave (Rad and Maleki 2020; Giordano et al. 2019), shortened where the other blocks do not like it; the block is then simulated there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lfdm_ros.calibration.model_error import PieceErrors, level_of, sensor_noise
from lfdm_ros.inference import gaussian
from lfdm_ros.inference.identifiability import Noise, units
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.priors import Prior

FOLDS = 5
SHORTER = (1.0, 0.5, 0.2)  # of a step that the other blocks do not like


@dataclass(frozen=True)
class _Rows:
    """The samples of one group of errors: their data set, channel, row of it, and fold; all (n,)."""

    data: np.ndarray
    channel: np.ndarray
    row: np.ndarray
    fold: np.ndarray


def cross_validate(likelihood: RolloutLikelihood, priors: Sequence[Prior], q: np.ndarray, noise: Noise) -> dict[str, list[PieceErrors]]:
    """The errors of each group in the blocks that were left out; without what is not finite.

    Args:
        priors: of the unknowns, in the order of q.
        q: (Q,) the posterior's mode or mean.
        noise: of each group: standard deviation, correlation of neighbours.
    """
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
            own = [part.fold == fold for part in rows]
            block = np.concatenate([root[mask] for root, mask in zip(roots, own)])
            inverse = np.linalg.inv(whole - block.T @ block)
            step = inverse @ block.T @ np.concatenate([residual[mask] for residual, mask in zip(residuals, own)])
            inverses.append(inverse)
            trials += [_moved(priors, q, shorter * step * unit) for shorter in SHORTER]
        tried = likelihood.errors(np.array(trials))
        chosen = [_best([[part[len(SHORTER) * fold + i] for part in tried] for i in range(len(SHORTER))], whiten,
                        [part.fold != fold for part in rows]) + len(SHORTER) * fold for fold in range(FOLDS)]
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
    sets = [np.unique(data) for data, _, _ in places]
    # Data sets of which too few say the same are cut in time.
    cut = {int(i) for own in sets if len(own) < FOLDS for i in own}
    order = {i: place % FOLDS for place, i in enumerate(i for i in range(len(likelihood.datasets)) if i not in cut)}
    out = []
    for data, channel, row in places:
        length, whole = (np.array(values)[data] for values in (
            [len(one.times) for one in likelihood.datasets], [order.get(i, 0) for i in range(len(likelihood.datasets))]))
        fold = np.where(np.isin(data, list(cut)), row * FOLDS // length, whole)
        out.append(_Rows(data, channel, row, fold))
    return out


def _sensor(likelihood: RolloutLikelihood, rows: _Rows) -> float:
    # Noise of the sensor of a group; 0 where it cannot be told.
    found = sensor_noise([likelihood.datasets[i].observed[rows.row[(rows.data == i) & (rows.channel == c)], c]
                          for i, c in sorted(set(zip(rows.data.tolist(), rows.channel.tolist())))])
    return found if np.isfinite(found) else 0.0


def _moved(priors: Sequence[Prior], q: np.ndarray, step: np.ndarray) -> np.ndarray:
    # Inside the priors; half the way to a bound that would be crossed.
    lower, upper = np.array([prior.bounds() for prior in priors]).T
    moved = q + step
    moved = np.where(moved <= lower, 0.5 * (q + lower), moved)
    result: np.ndarray = np.where(moved >= upper, 0.5 * (q + upper), moved)
    return result


def _best(tried: Sequence[Sequence[np.ndarray]], whiten: Callable[[Sequence[np.ndarray]], list[np.ndarray]],
          others: Sequence[np.ndarray]) -> int:
    # Which of the errors has the least cost in the rows of the others.
    costs = [sum(float((part[mask] ** 2).sum()) for part, mask in zip(whiten(errors), others)) for errors in tried]
    return int(np.argmin(np.where(np.isfinite(costs), costs, np.inf)))


