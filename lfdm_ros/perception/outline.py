"""Headings of outlines: directions of the visible sides of a vehicle."""

import math

import numpy as np

MIN_RETURNS, MIN_LENGTH = 6, 1.2  # of a side, and [m]
ANGLES = np.radians(np.arange(0.0, 90.0, 2.0))
NEAR = 0.05  # [m] from a side within which returns have nearly equal weight


def outline_heading(returns: np.ndarray) -> tuple[float, float]:
    """Returns the direction [rad] of the longer visible side of a rectangle, by returns (m, 2) [m], and its standard deviation [rad]; 0 and
    inf without a sufficient side.

    Sides are searched by closeness (Zhang, Xu, Dong & Dolan 2017, "Efficient L-shape fitting for vehicle detection using laser scanners"),
    and a line is fitted to the returns of the longer one.
    """
    if len(returns) < MIN_RETURNS:
        return 0.0, math.inf
    c, s = np.cos(ANGLES), np.sin(ANGLES)
    local = returns - returns.mean(axis=0)
    depths = []
    for a in (local[:, :1] * c + local[:, 1:] * s, local[:, 1:] * c - local[:, :1] * s):
        low, high = a - a.min(axis=0), a.max(axis=0) - a
        depths.append(np.where((low * low).sum(axis=0) < (high * high).sum(axis=0), low, high))
    best = int((1.0 / np.maximum(np.minimum(*depths), NEAR)).sum(axis=0).argmax())
    on_first = depths[0][:, best] < depths[1][:, best]
    heading, sd = 0.0, math.inf
    for side in (local[on_first], local[~on_first]):
        if len(side) >= MIN_RETURNS:
            middle = side - side.mean(axis=0)
            (small, large), axes = np.linalg.eigh(middle.T @ middle)
            length = math.sqrt(12.0 * large / len(side))
            error = math.sqrt(max(small / (len(side) - 2), 1e-4) / large)
            if length > MIN_LENGTH and error < sd:
                heading, sd = math.atan2(axes[1, 1], axes[0, 1]), error
    return heading, sd
