"""How right the intervals of a stage are on what it was not fitted to, and what its predictions have to be widened by.

On what its split held out, where there is something; otherwise by leaving blocks of what was fitted out in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros.calibration.cross_validation import cross_validate
from lfdm_ros.calibration.model_error import GAUSSIAN, PieceErrors, learn, level_of, sensor_noise, tried
from lfdm_ros.inference.plan import RHO, SIGMA

if TYPE_CHECKING:
    from lfdm_ros.calibration.predictive import Predictive
    from lfdm_ros.calibration.stage import StageResult

HELD_OUT, CROSS_VALIDATION = "held_out", "cross_validation"
RIGHT = (0.85, 0.97)  # share that 90 % intervals should hold
NEARLY = 0.75  # below which intervals are wrong


def out_of_sample(result: StageResult) -> dict[str, dict[str, Any]]:
    """By label of errors, for summary.json.

    source: held_out or cross_validation; pieces that it says it of; rmse; lost: samples of which the model has no response, since it
    diverges, which count as outside; coverage_90 of the intervals as parameters and noise make them;
    widening: how many times as wide they should be; coverage_90_widened: of those that the model error widens, each piece tried with what
    the others show; model_error: what was learned from all, None where it is too little; text.
    """
    out = {}
    held, lost = _held_out(result)
    left = _left_out(result) if any(label not in held for label in result.stage.channels) else {}
    for label in result.stage.channels:
        source, pieces = (HELD_OUT, held[label]) if label in held else (CROSS_VALIDATION, left.get(label, []))
        if pieces:
            out[label] = _row(label, pieces, source, lost.get(label, 0) if source == HELD_OUT else 0)
    return out


def _row(label: str, pieces: Sequence[PieceErrors], source: str, lost: int) -> dict[str, Any]:
    z = np.abs(np.concatenate([piece.z for piece in pieces]))
    squares = np.concatenate([piece.error for piece in pieces]) ** 2
    found = learn(pieces, source)
    row = {"source": source, "pieces": len(pieces), "samples": len(z), "rmse": float(np.sqrt(squares.mean())),
           "coverage_90": float((z <= GAUSSIAN).sum()) / (len(z) + lost), "lost": lost, "widening": float(np.quantile(z, 0.9)) / GAUSSIAN,
           "coverage_90_widened": tried(pieces), "model_error": found.as_dict() if found else None}
    return {**row, "text": _words(label, row)}


def _words(label: str, row: Mapping[str, Any]) -> str:
    where = (f"on the {row['pieces']} pieces that were held out" if row["source"] == HELD_OUT else
             f"on what was left out in turn ({row['pieces']} blocks)")
    said = f"{where}, the 90 % intervals of {label} hold {row['coverage_90']:.0%}"
    if row["coverage_90"] < RIGHT[0]:
        said += f": they should be {row['widening']:.1f} times as wide"
    elif row["coverage_90"] > RIGHT[1]:
        said += f": {row['widening']:.1f} of their width would do"
    if row["lost"]:
        said += f"; of {row['lost']} samples the model has no response, since it diverges"
    if np.isfinite(row["coverage_90_widened"]):
        said += f"; with the model error that this shows, as predictions have it, {row['coverage_90_widened']:.0%}"
    return said


def right(row: Mapping[str, Any]) -> bool:
    """Whether intervals are as wide as errors out of sample ask for."""
    return bool(RIGHT[0] <= row["coverage_90"] <= RIGHT[1])


def out_of_sample_warnings(rows: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """What the reader has to know of the intervals of a stage."""
    yield from (row["text"] for row in rows.values() if row["coverage_90"] < RIGHT[0])


def _held_out(result: StageResult) -> tuple[dict[str, list[PieceErrors]], dict[str, int]]:
    """Errors of the pieces by label; and of how many samples the model has no response."""
    members: dict[str, list[tuple[Predictive, str, int]]] = {}
    for (segment, data), predictive in zip(result.data.held_out, result.held_out_predictive):
        for c, measured in enumerate(segment.channels):
            members.setdefault(measured.label, []).append((predictive, data.channels[c], c))
    found: dict[str, list[PieceErrors]] = {}
    lost: dict[str, int] = {}
    for label, own in members.items():
        sensor, sigma = sensor_noise([one.observed[:, c] for one, _, c in own]), float(result.run.draws[SIGMA + label].mean())
        for one, channel, c in own:
            known = np.isfinite(one.residuals[:, c]) & np.isfinite(one.spread[:, c])
            lost[label] = lost.get(label, 0) + int((np.isfinite(one.observed[:, c]) & ~known).sum())
            if known.any():
                found.setdefault(label, []).append(PieceErrors(
                    (one.times - one.times[0])[known], one.residuals[known, c], one.spread[known, c],
                    level_of(channel, one.response[:, c])[known], sigma, sensor if np.isfinite(sensor) else 0.0))
    return found, lost


def _left_out(result: StageResult) -> dict[str, list[PieceErrors]]:
    draws, names = result.run.draws, result.unknowns
    noise = [(float(draws[SIGMA + group.label].mean()), float(draws[RHO + group.label].mean()) if RHO + group.label in draws else 0.0)
             for group in result.likelihood.groups]
    return cross_validate(result.likelihood, [result.priors[name] for name in names],
                          np.array([result.run.point[name] for name in names]), noise)
