"""Jumps of the scans' poses: a simultaneous motion of all static obstacles is due to the pose."""

import math
from dataclasses import dataclass

import numpy as np

# Largest distance of pairs [m]; number of pairs that must agree on a motion, tolerance [m], and smallest displacement [m].
MAX_JUMP, LEAST, AGREE, MIN_JUMP = 2.0, 3, 0.3, 0.15
NEAR_ENOUGH = 1.0  # [m] within which a pair may agree on a shift before its turn is known


@dataclass(frozen=True)
class PoseJump:
    """Motion of the map relative to the vehicle: a rotation about the origin [rad], then a shift (2,) [m]."""

    angle: float
    shift: np.ndarray

    def moved(self, places: np.ndarray) -> np.ndarray:
        """Returns positions (2, n) after the jump."""
        return self.turned(places) + self.shift[:, None]

    def turned(self, vectors: np.ndarray) -> np.ndarray:
        """Returns vectors (2, n) after the jump."""
        c, s = math.cos(self.angle), math.sin(self.angle)
        return np.array([[c, -s], [s, c]]) @ vectors


def find_jump(before: np.ndarray, now: np.ndarray) -> PoseJump | None:
    """Returns the rigid motion from the earlier positions of static obstacles, (2, n) [m], to the detected ones, (2, m) [m]; None if fewer
    than three, or than half of the nearest pairs, agree on one, or if it is within the sensor's noise.

    The motion is the least-squares fit to the pairs that agree (Umeyama 1991, "Least-squares estimation of transformation parameters
    between two point patterns", in the plane without scale).
    """
    if min(before.shape[1], now.shape[1]) < LEAST:
        return None
    apart = np.hypot(before[0][:, None] - now[0], before[1][:, None] - now[1])
    there = apart.argmin(axis=1)
    mutual = np.flatnonzero((apart.argmin(axis=0)[there] == np.arange(len(there))) & (apart.min(axis=1) < MAX_JUMP))
    if len(mutual) < LEAST or np.median(apart[mutual, there[mutual]]) < MIN_JUMP:
        return None
    p, q = before[:, mutual], now[:, there[mutual]]
    off = q - p - np.median(q - p, axis=1)[:, None]
    agree, found = np.hypot(*off) < NEAR_ENOUGH, None
    for _ in range(3):
        if agree.sum() < max(LEAST, 0.5 * len(mutual)):
            return None
        a, b = p[:, agree].mean(axis=1), q[:, agree].mean(axis=1)
        u, v = p[:, agree] - a[:, None], q[:, agree] - b[:, None]
        angle = math.atan2(float((u[0] * v[1] - u[1] * v[0]).sum()), float((u * v).sum()))
        turn = PoseJump(angle, np.zeros(2))
        found = PoseJump(angle, b - turn.turned(a[:, None])[:, 0])
        off = np.hypot(*(q - found.moved(p)))
        agree = off < AGREE
    assert found is not None
    displacement = np.median(np.hypot(*(found.moved(p) - p)[:, agree])) if agree.sum() >= max(LEAST, 0.5 * len(mutual)) else 0.0
    return found if displacement > max(MIN_JUMP, 3.0 * float(np.sqrt(np.mean(off[agree] ** 2)))) else None
