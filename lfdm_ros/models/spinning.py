"""Spin of a vehicle: one measure for rollouts, episodes and the run monitor."""

import math

SPIN = 0.5236  # [rad] slip angle of a spinning vehicle: 30 degrees
SLOW = 3.0  # [m/s] below which the slip angle is not meaningful


def sideslip(vx: float, vy: float) -> float:
    """Returns the angle between heading, or that of the rear, and course [rad], 0 to pi / 2; below SLOW it counts as at that speed."""
    return math.atan2(abs(vy), max(abs(vx), SLOW))
