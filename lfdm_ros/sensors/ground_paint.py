"""Colours of a scene's ground for a camera: friction from dry, grey, to ice, white; soils in browns; lines; hills by their slope."""

from __future__ import annotations

import math

import numpy as np

from lfdm_ros.sensors.rasteriser import SIDE
from lfdm_ros.sensors.sensor import SensorScene

_DRY, _ICE, _LINE = np.array([104.0, 104.0, 102.0]), np.array([212.0, 222.0, 232.0]), np.array([232.0, 230.0, 220.0])
_SOILS = np.array([[140.0, 107.0, 64.0], [186.0, 160.0, 104.0], [104.0, 78.0, 52.0], [152.0, 138.0, 114.0]])
_WIDTH = 0.15  # [m] of a painted line
_FINEST, _MOST_CELLS = 0.04, 4_000_000  # [m] of a cell; of all
_PLACES = 150_000  # at which friction and soil are looked up, at most
_SUN = 0.6, 0.8  # as of the obstacles
_MARGIN = 2.0  # [m] about the lines
_DARKEST, _LIGHTEST = 24.0, 231.0  # leaves room for the grain
_CONTRAST = 16.0  # of the grain


def paint(scene: SensorScene) -> tuple[np.ndarray, np.ndarray]:
    """Computes colours (ny, nx, 3) uint8 of cells, and x, y of the middle of the first and their spacing (3,) [m]."""
    corners = [np.reshape(scene.area, (2, 2))] if scene.area else []
    corners += [line + side for line in scene.lines for side in (-_MARGIN, _MARGIN)]
    if not corners:
        return np.full((1, 1, 3), _DRY, np.uint8), np.array([0.0, 0.0, 1.0])
    lower, upper = np.concatenate(corners).min(axis=0), np.concatenate(corners).max(axis=0)
    spacing = max(_FINEST, math.sqrt(float(np.prod(upper - lower)) / _MOST_CELLS))
    coarse = max(1, math.ceil(math.sqrt(float(np.prod(upper - lower)) / _PLACES) / spacing))
    nx, ny = (coarse * math.ceil((b - a) / (coarse * spacing) + 1e-9) for a, b in zip(lower, upper))
    x, y = np.meshgrid(*(a + spacing * coarse * (np.arange(n // coarse) + 0.5) for a, n in zip(lower, (nx, ny))))
    colours = np.full((*x.shape, 3), _DRY)
    if scene.soil is not None:
        colours = _SOILS[scene.soil(x, y) % len(_SOILS)]
    elif scene.friction is not None:
        colours = _DRY + np.clip(1.0 - scene.friction(x, y), 0.0, 1.0)[..., None] * (_ICE - _DRY)
    if scene.ground is not None:
        g = scene.ground
        along, across = np.gradient(g.heights, g.spacing)
        j, i = (np.clip(np.rint((v - first) / g.spacing).astype(int), 0, n - 1)
                for v, first, n in ((y, g.y, g.heights.shape[0]), (x, g.x, g.heights.shape[1])))
        colours = colours * np.clip(1.0 + 1.5 * (_SUN[0] * across[j, i] + _SUN[1] * along[j, i]), 0.5, 1.3)[..., None]
    cells = np.clip(colours, _DARKEST, _LIGHTEST).astype(np.uint8).repeat(coarse, axis=0).repeat(coarse, axis=1)
    for line in scene.lines:
        _draw_line(cells, (line - lower) / spacing, _WIDTH / spacing)
    return cells, np.array([*(lower + 0.5 * spacing), spacing])


def _draw_line(cells: np.ndarray, line: np.ndarray, width: float) -> None:
    """Paints the cells within half a width of a line (n, 2), both in cells, or at least the one that it runs through."""
    steps = np.diff(line, axis=0)
    lengths = np.hypot(*steps.T)
    steps, starts, lengths = steps[lengths > 0.0], line[:-1][lengths > 0.0], lengths[lengths > 0.0]
    counts = np.ceil(2.0 * lengths).astype(int)
    which = np.repeat(np.arange(len(counts)), counts)
    share = (np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)) / counts[which]
    places = starts[which] + share[:, None] * steps[which]
    normals = np.column_stack([-steps[:, 1], steps[:, 0]])[which] / lengths[which, None]
    most = max(0.5 * (width - 1.0), 0.0)
    for offset in np.linspace(-most, most, math.ceil(2.0 * most) + 1):
        i, j = np.floor(places + offset * normals).astype(int).T
        inside = (i >= 0) & (j >= 0) & (i < cells.shape[1]) & (j < cells.shape[0])
        cells[j[inside], i[inside]] = _LINE


def grain() -> np.ndarray:
    """Makes the tile of the ground's grain (SIDE, SIDE) uint8 about 128, of two sizes, by which a driver sees motion; always the same."""
    random = np.random.default_rng(1)
    coarse = random.standard_normal((SIDE // 8, SIDE // 8)).repeat(8, axis=0).repeat(8, axis=1)
    both = 0.6 * random.standard_normal((SIDE, SIDE)) + 0.6 * coarse
    return np.clip(128.0 + 0.5 * _CONTRAST * both, 128.0 - _CONTRAST, 128.0 + _CONTRAST).astype(np.uint8)
