"""Figures of a calibration, as paper 000 shows them, on Matplotlib's Agg canvas (no display, no global state).

ArviZ's own plots would not serve: they go through pyplot's global state, compile their kernel density by numba at the first use (a minute),
and have neither bands of responses nor residuals, which most figures are.
"""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import stats

from lfdm_ros import reports
from lfdm_ros.calibration.predictive import evenly, lag_one
from lfdm_ros.inference.priors import Prior
from lfdm_ros.libraries import arviz

DPI, COLOURS = 100, 64  # in a page
HDI = 0.94  # probability of the interval
PAIRS = 8  # unknowns in a scatter matrix
LAGS = 40  # of an autocorrelation
DATA, POSTERIOR, PRIOR = reports.INK, reports.BLUE, reports.ORANGE


def to_image(figure: Figure) -> str:
    """Returns the figure as an element of a page: PNG of few colours, a third of the size."""
    from PIL import Image

    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # once, where savefig draws a second time for the layout
    drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    small = io.BytesIO()
    drawn.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(small, format="png")
    return f'<img alt="" src="data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}">'


def posteriors(draws: Mapping[str, np.ndarray], priors: Mapping[str, Prior], labels: Mapping[str, str]) -> Figure:
    """Draws the density of each unknown (C, N) with its 94 % interval and mean, and the prior."""
    figure, axes = _grid(len(draws), columns=3, height=2.1)
    for axis, (name, values) in zip(axes, draws.items()):
        flat = values.ravel()
        x, density = kernel_density(flat)
        lower, upper = arviz().hdi(flat, hdi_prob=HDI)
        axis.plot(x, density, color=POSTERIOR, lw=1.4)
        inside = (x >= lower) & (x <= upper)
        axis.fill_between(x[inside], density[inside], color=POSTERIOR, alpha=0.2, lw=0)
        axis.axvline(flat.mean(), color=POSTERIOR, lw=0.8, ls=":")
        axis.plot(x, priors[name].frozen().pdf(x), color=PRIOR, lw=1.0)
        axis.set_title(f"{flat.mean():.5g}   [{lower:.5g}, {upper:.5g}]", fontsize=8)
        _label(axis, labels[name], "")
        axis.set_yticks([])
    return figure


def traces(draws: Mapping[str, np.ndarray], labels: Mapping[str, str]) -> Figure:
    """Draws the density (left) and particles (right) of each unknown, chain by chain."""
    figure = Figure(figsize=(10.0, 1.35 * len(draws)), layout="constrained")
    axes = figure.subplots(len(draws), 2, squeeze=False, width_ratios=(1, 2))
    for row, (name, values) in zip(axes, draws.items()):
        for axis in row:
            axis.set_prop_cycle(color=reports.COLOURS)
        for chain in values:
            row[0].plot(*kernel_density(chain), lw=0.8)
            row[1].plot(chain, lw=0.3, alpha=0.7)
        row[0].set_yticks([])
        _label(row[0], labels[name], "")
        row[1].margins(x=0)
        row[1].tick_params(labelsize=7)
    _label(axes[-1, 1], "particle", "")
    return figure


def responses(times: np.ndarray, observed: np.ndarray, prior: np.ndarray, posterior: np.ndarray, noisy: np.ndarray,
              labels: Sequence[str]) -> Figure:
    """Draws measurements (K, C), and 90 % bands of responses (n, K, C): of the prior, the posterior, and the posterior with its noise."""
    figure, axes = _grid(len(labels), columns=2, height=2.4)
    for column, (axis, label) in enumerate(zip(axes, labels)):
        _band(axis, times, prior[:, :, column], PRIOR, 0.18, "prior")
        _band(axis, times, noisy[:, :, column], POSTERIOR, 0.22, "posterior with noise")
        _band(axis, times, posterior[:, :, column], POSTERIOR, 0.9, "posterior")
        axis.plot(times, observed[:, column], ".", color=DATA, ms=1.6, label="measured")
        # Priors may be wide; show the range of the data.
        finite = observed[np.isfinite(observed[:, column]), column]
        margin = 0.6 * (np.ptp(finite) or 1.0)
        axis.set_ylim(finite.min() - margin, finite.max() + margin)
        _label(axis, "time [s]", label)
    axes[0].legend(fontsize=7, frameon=False, markerscale=4)
    return figure


def overview(times: Sequence[np.ndarray], observed: Sequence[np.ndarray], runs: Sequence[np.ndarray], labels: Sequence[str]) -> Figure:
    """Draws all pieces of a prediction on one time axis, a panel for each channel: measurements (K, C), responses (n, K, C)."""
    figure = Figure(figsize=(10.0, 0.6 + 1.9 * len(labels)), layout="constrained")
    axes = figure.subplots(len(labels), 1, squeeze=False, sharex=True)[:, 0]
    for column, (axis, label) in enumerate(zip(axes, labels)):
        for i, (t, data, responses) in enumerate(zip(times, observed, runs)):
            _band(axis, t, responses[:, :, column], POSTERIOR, 0.35, "90 % of the responses" if i == 0 else "")
            with np.errstate(all="ignore"):
                middle = np.nanmedian(responses[:, :, column], axis=0)
            axis.plot(t, middle, color=POSTERIOR, lw=1.2, zorder=3, label="median response" if i == 0 else "")
            axis.plot(t, data[:, column], ".", color=DATA, ms=2.0, alpha=0.5, label="measured" if i == 0 else "")
        _label(axis, "", label)
    _label(axes[-1], "time [s]", labels[-1])
    axes[0].legend(fontsize=7, frameon=False, markerscale=4, ncols=3)
    return figure


def residual_plot(times: np.ndarray, residual: np.ndarray, labels: Sequence[str], sigma: Mapping[int, float]) -> Figure:
    """Draws the measured minus mean response (K, C), with 2 sigma of the inferred noise where there is one."""
    figure, axes = _grid(len(labels), columns=2, height=1.7)
    for column, (axis, label) in enumerate(zip(axes, labels)):
        axis.plot(times, residual[:, column], ".", color=POSTERIOR, ms=1.6)
        axis.axhline(0.0, color=DATA, lw=0.6)
        if column in sigma:
            axis.axhspan(-2 * sigma[column], 2 * sigma[column], color=POSTERIOR, alpha=0.1, lw=0)
        axis.set_title(f"lag-1 correlation {lag_one([residual[:, column]]):.2f}", fontsize=8)
        _label(axis, "time [s]", label)
    return figure


def autocorrelations(residual: np.ndarray, labels: Sequence[str]) -> Figure:
    """Draws the correlation of residuals (K, C) with those some samples before, and the band in which it is for white noise."""
    figure, axes = _grid(len(labels), columns=4, height=1.6)
    for axis, label, column in zip(axes, labels, residual.T):
        series = column[np.isfinite(column)]
        lags = np.arange(1, min(LAGS, len(series) - 1) + 1)
        total = float(series @ series) or 1.0
        axis.bar(lags, [float(series[lag:] @ series[:-lag]) / total for lag in lags], width=0.8, color=POSTERIOR)
        axis.axhspan(-2.0 / math.sqrt(len(series)), 2.0 / math.sqrt(len(series)), color=DATA, alpha=0.12, lw=0)
        axis.set_ylim(-0.4, 1.0)
        axis.set_title(label, fontsize=8)
        _label(axis, "samples before", "")
    return figure


def pairs(draws: Mapping[str, np.ndarray], labels: Mapping[str, str]) -> Figure:
    """Draws the scatter of every pair of the first few unknowns (C, N), their densities on the diagonal."""
    names = list(draws)[:PAIRS]
    figure = Figure(figsize=(1.0 + 1.35 * len(names), 0.8 + 1.25 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), len(names), squeeze=False)
    flat = {name: draws[name].ravel() for name in names}
    broken = [labels[name].replace("_", "\n", 1).replace(" [", "\n[") for name in names]
    some = evenly(len(flat[names[0]]), 500)
    for (i, j), axis in np.ndenumerate(axes):
        if j > i:
            axis.set_visible(False)
            continue
        if i == j:
            axis.plot(*kernel_density(flat[names[i]]), color=POSTERIOR, lw=1.2)
            axis.set_yticks([])
        else:
            axis.plot(flat[names[j]][some], flat[names[i]][some], ".", color=POSTERIOR, ms=1.5, alpha=0.6)
        axis.locator_params(nbins=3)
        _label(axis, broken[j] if i == len(names) - 1 else "", broken[i] if j == 0 and i else "")
        axis.tick_params(labelsize=6, labelbottom=i == len(names) - 1, labelleft=j == 0 and i > 0)
    return figure


def ess_evolution(draws: Mapping[str, np.ndarray], labels: Mapping[str, str], points: int = 8) -> Figure:
    """Draws bulk and tail ESS against the number of draws; it should rise linearly."""
    az = arviz()
    figure, axes = _grid(len(draws), columns=3, height=1.8)
    for axis, (name, values) in zip(axes, draws.items()):
        counts = np.unique(np.linspace(values.shape[1] / points, values.shape[1], points).astype(int))
        counts = counts[counts >= 4]
        for method, style in (("bulk", "-"), ("tail", "--")):
            ess = [float(az.ess(values[:, :n], method=method)) for n in counts]
            axis.plot(counts * len(values), ess, style, color=POSTERIOR, lw=1.2, label=method)
        axis.axhline(400, color=PRIOR, lw=0.8, ls=":")
        axis.set_ylim(bottom=0)
        axis.set_title(labels[name], fontsize=8)
        _label(axis, "draws", "ESS")
    axes[0].legend(fontsize=7, frameon=False)
    return figure


def correlations(draws: Mapping[str, np.ndarray], labels: Mapping[str, str]) -> Figure:
    names = list(draws)
    matrix = np.corrcoef([draws[name].ravel() for name in names])
    size = 2.6 + 0.42 * len(names)
    figure = Figure(figsize=(size + 1.2, size), layout="constrained")
    axis = figure.subplots()
    image = axis.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu_r")
    ticks = [labels[name] for name in names]
    axis.set_xticks(range(len(names)), ticks, rotation=60, ha="right", fontsize=7)
    axis.set_yticks(range(len(names)), ticks, fontsize=7)
    for (i, j), value in np.ndenumerate(matrix):
        axis.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6.5, color="white" if abs(value) > 0.6 else DATA)
    figure.colorbar(image, ax=axis, shrink=0.7).ax.tick_params(labelsize=7)
    return figure


def kernel_density(values: np.ndarray, points: int = 160) -> tuple[np.ndarray, np.ndarray]:
    """Estimates a Gaussian kernel density on an even grid; a spike where all values are the same."""
    spread = np.ptp(values)
    if not spread:
        return values[:1].repeat(2), np.array([0.0, 1.0])
    x = np.linspace(values.min() - 0.05 * spread, values.max() + 0.05 * spread, points)
    return x, stats.gaussian_kde(values[:: max(1, len(values) // 2000)])(x)


def _band(axis: Any, times: np.ndarray, runs: np.ndarray, colour: str, alpha: float, label: str) -> None:
    # Draws that diverged are left out.
    alive = runs[np.isfinite(runs).all(axis=1)]
    if len(alive):
        axis.fill_between(times, *np.quantile(alive, [0.05, 0.95], axis=0), color=colour, alpha=alpha, lw=0, label=label)


def _grid(count: int, columns: int, height: float) -> tuple[Figure, list[Any]]:
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=({1: 5.0, 2: 9.0}.get(columns, 3.4 * columns), height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axis in axes[count:]:
        axis.set_visible(False)
    return figure, axes


def _label(axis: Any, x: str, y: str) -> None:
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)
    axis.tick_params(labelsize=7)
