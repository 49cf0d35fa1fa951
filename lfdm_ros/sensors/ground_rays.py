"""Intersection of beams with ground of varying height, for a sensor that pitches and rolls with its vehicle.

`march` is plain Python, compiled by numba (`lfdm_ros.sensors.loops_native`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.vehicles import Mount

HALVINGS = 14  # bisections of the step with the intersection, to less than a millimetre
_ARGUMENTS = (POINTER, INTEGER, INTEGER, POINTER, POINTER, POINTER, POINTER, INTEGER)  # of `loops_native.march`


@dataclass(frozen=True, eq=False)
class Surface:
    """Ground for beams, bilinear between nodes: heights (ny, nx) [m] at nodes from x, y on, `spacing` apart [m]. Bumps shorter than a
    spacing may be missed."""

    heights: np.ndarray
    x: float
    y: float
    spacing: float

    @classmethod
    def of(cls, raised: Any) -> Surface | None:
        """Converts a map of heights (`lfdm_ros.ground.HeightMap`); None stays None."""
        return None if raised is None else cls(np.ascontiguousarray(raised.heights), raised.grid.x, raised.grid.y, raised.grid.spacing)


def turned(vectors: np.ndarray, yaw: float, pitch: float, roll: float) -> np.ndarray:
    """Rotates vectors (n, 3) from body to map axes: by yaw, then pitch, + nose down, then roll, + right side down [rad]."""
    cy, sy, cp, sp, cr, sr = (f(a) for a in (yaw, pitch, roll) for f in (math.cos, math.sin))
    x, y, z = vectors.T
    y, z = cr * y - sr * z, sr * y + cr * z
    x, z = cp * x + sp * z, cp * z - sp * x
    return np.column_stack([cy * x - sy * y, sy * x + cy * y, z])


def rays(mount: Mount, beams: np.ndarray, pose: tuple[float, float, float], roll: float, pitch: float) -> tuple[np.ndarray, np.ndarray]:
    """Transforms beams (n, 2) in sensor axes to their origin (3,) [m], with the height over the ground at the pose, and directions (n, 3).
    pose: x, y [m] and yaw [rad] of the vehicle's position point; roll, pitch: of its body against the horizontal [rad]."""
    x, y, yaw = pose
    directions = turned(np.column_stack([beams, np.zeros(len(beams))]), mount.yaw, mount.pitch, 0.0)
    return turned(np.array([[mount.x, mount.y, mount.z]]), yaw, pitch, roll)[0] + (x, y, 0.0), turned(directions, yaw, pitch, roll)


def ground_ranges(surface: Surface, mount: Mount, beams: np.ndarray, pose: tuple[float, float, float], roll: float, pitch: float,
                  reach: float) -> np.ndarray:
    """Computes the ranges (n,) [m] at which beams hit the ground; inf: not within `reach` [m]. Other arguments as in `rays`."""
    eye, directions = rays(mount, beams, pose, roll, pitch)
    ny, nx = surface.heights.shape
    numbers, ranges = np.array([surface.x, surface.y, surface.spacing, reach]), np.empty(len(beams))
    begin, directions = np.append(eye, pose[:2]), np.ascontiguousarray(directions)
    kernel = native("lfdm_ros.sensors.loops_native", _ARGUMENTS, INTEGER, ("lfdm_ros.sensors.ground_rays",), "march")
    kernel(*addresses(surface.heights, ny, nx, numbers, begin, directions, ranges, len(ranges)))
    return ranges


def height(heights: np.ndarray, numbers: np.ndarray, x: float, y: float) -> float:
    """Interpolates the height at a point bilinearly; beyond the edges that of the nearest point."""
    ny, nx = heights.shape
    across = min(max((x - numbers[0]) / numbers[2], 0.0), nx - 1.0)
    along = min(max((y - numbers[1]) / numbers[2], 0.0), ny - 1.0)
    i, j = min(int(across), nx - 2), min(int(along), ny - 2)
    t, s = across - i, along - j
    return (1.0 - s) * ((1.0 - t) * heights[j, i] + t * heights[j, i + 1]) + s * ((1.0 - t) * heights[j + 1, i] + t * heights[j + 1, i + 1])


def march(height: Any, heights: np.ndarray, numbers: np.ndarray, eye: np.ndarray, directions: np.ndarray, ranges: np.ndarray) -> int:
    """Computes the ranges (n,) [m] at which rays cross the ground; inf without a crossing.

    Args:
        height: the function above, or its compiled version.
        heights: (ny, nx) [m]; numbers: x, y of the first node, spacing, reach [m].
        eye: origin of the rays: x, y, height over the ground at the point given by the last two, x, y (5,) [m]; directions: (n, 3).
    """
    base, step = height(heights, numbers, eye[3], eye[4]), numbers[2]
    count = math.ceil(numbers[3] / step)
    for b in range(len(ranges)):
        wx, wy, wz = directions[b, 0], directions[b, 1], directions[b, 2]
        ranges[b] = np.inf
        for k in range(1, count + 1):
            far = k * step
            if base + eye[2] + far * wz > height(heights, numbers, eye[0] + far * wx, eye[1] + far * wy):
                continue
            near = far - step
            for _ in range(HALVINGS):
                middle = 0.5 * (near + far)
                if base + eye[2] + middle * wz > height(heights, numbers, eye[0] + middle * wx, eye[1] + middle * wy):
                    near = middle
                else:
                    far = middle
            ranges[b] = far
            break
    return 0
