"""Pieces of a prediction: table, trajectories, and the worst ones."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lfdm_ros.calibration.predictive import Predictive
from lfdm_ros.inference.dataset import Dataset

PLACE = ("x", "y")
FAR = 8.0  # times the median RMSE of the pieces, from which one is reported as outlying
SHOWN = 4  # of the outlying pieces


@dataclass(frozen=True)
class Piece:
    """One predicted data set; speed and lateral acceleration of the model's run (K, 2); rmse and coverage by channel, the latter where the
    noise is known."""

    name: str
    start: float
    end: float
    motion: np.ndarray
    rmse: Mapping[str, float]
    coverage: Mapping[str, float]


def piece_of(data: Dataset, predictive: Predictive, motion: np.ndarray, noisy_channels: Sequence[int]) -> Piece:
    """Summarises one piece; `noisy_channels`: indices of the channels with known noise."""
    names = data.channels
    with np.errstate(over="ignore", invalid="ignore"):
        rmse = {name: _rms(predictive.residuals[:, c]) for c, name in enumerate(names)}
    inside = (predictive.widened or predictive.ranks).inside(0.9)
    coverage = {names[c]: float(inside[np.isfinite(predictive.observed[:, c]), c].mean()) for c in noisy_channels
                if np.isfinite(predictive.observed[:, c]).any()}
    if set(PLACE) <= set(names):
        rmse["position"] = float(np.hypot(rmse["x"], rmse["y"]))
    return Piece(data.name, float(data.times[0]), float(data.times[-1]), motion, rmse, coverage)


def worst(pieces: Sequence[Piece], count: int) -> list[int]:
    """Returns the indices of the pieces with the largest error, worst first: RMSE over the mean of all pieces, of the worst channel
    among those whose noise is known, or among all."""
    names = list(pieces[0].coverage) or list(pieces[0].rmse)
    table = np.array([[piece.rmse.get(name, np.nan) for name in names] for piece in pieces])
    with np.errstate(all="ignore"):
        ratio = np.where(np.isinf(table), np.inf, table / np.nanmean(np.where(np.isinf(table), np.nan, table), axis=0))
    return [int(i) for i in np.argsort(-np.where(np.isnan(ratio), 0.0, ratio).max(axis=1), kind="stable")[:count]]


def outlying(labels: Sequence[Sequence[str]], datasets: Sequence[Dataset], predictives: Sequence[Predictive]) -> list[str]:
    """Writes a line for each label with outlying pieces, such as those where the model spins: their names, and the RMSE without them."""
    found: dict[str, list[tuple[Dataset, float, int]]] = {}
    for channel_labels, data, predictive in zip(labels, datasets, predictives):
        for c, label in enumerate(channel_labels):
            count = int(np.isfinite(predictive.observed[:, c]).sum())
            if count:
                with np.errstate(over="ignore"):
                    found.setdefault(label, []).append((data, _rms(predictive.residuals[:, c]), count))
    out = []
    for label, rows in found.items():
        limit = FAR * float(np.median([rmse for _, rmse, _ in rows]))
        far = [(data, rmse) for data, rmse, _ in rows if not rmse <= limit]
        if not far or 2 * len(far) > len(rows):
            continue
        left = [(rmse, count) for _, rmse, count in rows if rmse <= limit]
        rest = np.sqrt(sum(rmse**2 * count for rmse, count in left) / sum(count for _, count in left))
        which = ", ".join(f"{data.name} at [{data.times[0]:.1f}, {data.times[-1]:.1f}] s ({rmse:.3g})" for data, rmse in far[:SHOWN])
        more = f" and {len(far) - SHOWN} more" if len(far) > SHOWN else ""
        out.append(f"{label}: {len(far)} of {len(rows)} pieces err more than {FAR:g} times as much as most, as where a model spins: {which}"
                   f"{more}; RMSE of the others {rest:.3g}")
    return out


def pieces_csv(pieces: Sequence[Piece], use: str) -> str:
    """Writes a row for each piece: time, use, speed, RMSE and coverage by channel."""
    channels = list(dict.fromkeys(name for piece in pieces for name in piece.rmse))
    covered = list(dict.fromkeys(name for piece in pieces for name in piece.coverage))
    rows = [["piece", "start", "end", "use", "mean_speed", "max_lateral_acceleration", *(f"rmse_{name}" for name in channels),
             *(f"coverage_90_{name}" for name in covered)]]
    rows += [[piece.name or str(number), f"{piece.start:.3f}", f"{piece.end:.3f}", use, f"{np.nanmean(piece.motion[:, 0]):.4g}",
              f"{np.nanmax(np.abs(piece.motion[:, 1])):.4g}", *(_number(piece.rmse.get(name)) for name in channels),
              *(_number(piece.coverage.get(name)) for name in covered)] for number, piece in enumerate(pieces)]
    return _text(rows)


def trajectories_csv(datasets: Sequence[Dataset], predictives: Sequence[Predictive], before: Sequence[np.ndarray]) -> str:
    """Writes measurement, response, the 90 % interval of draws with their noise, and the response before the calibration, at every sample
    of every piece. before: responses (K, C) by data set, or empty."""
    names, kinds = datasets[0].channels, ("_measured", "", "_5%", "_95%", *(["_before"] if before else []))
    rows = [["piece", "time", *(f"{name}{suffix}" for name in names for suffix in kinds)]]
    for number, (data, found) in enumerate(zip(datasets, predictives)):
        flat = found.noisy.reshape(-1, *found.noisy.shape[2:])
        with np.errstate(all="ignore"):
            low, high = np.quantile(flat, [0.05, 0.95], axis=0)
        then = [before[number][np.isfinite(data.observed).any(axis=1)]] if before else []
        stacked = np.stack([found.observed, found.response, low, high, *then], axis=2).reshape(len(found.times), -1)
        label = data.name or str(number)
        rows += [[label, f"{time:.4f}", *map(_number, row)] for time, row in zip(found.times, stacked)]
    return _text(rows)


def _rms(errors: np.ndarray) -> float:
    measured = errors[~np.isnan(errors)]
    return float(np.sqrt((measured**2).mean())) if len(measured) else float("nan")


def _number(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.6g}"


def _text(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
