"""Intersection of beams with the ground: rays against heights by place, for a sensor that pitches and rolls with its vehicle.

`march` is Python's text, and translated by numba where it runs often (`lfdm_ros.sensors.loops_native`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import native
from lfdm_ros.vehicles import Mount

HALVINGS = 14  # of the step in which a beam goes under: to less than a millimetre
_ARGUMENTS = (POINTER, INTEGER, INTEGER, POINTER, POINTER, POINTER, POINTER, INTEGER)  # of `loops_native.march`


class Raised(Protocol):
    """A map of heights, as `lfdm_ros.ground.HeightMap`."""

    grid: Any
    heights: np.ndarray


@dataclass(frozen=True, eq=False)
class Surface:
    """The ground as beams meet it, straight between nodes: heights (ny, nx) [m] at nodes from x, y on, `spacing` apart [m].
    Bumps shorter than a spacing may be overlooked."""

    heights: np.ndarray
    x: float
    y: float
    spacing: float

    @classmethod
    def of(cls, raised: Raised | None) -> Surface | None:
        """Returns a map's; None of none."""
        return None if raised is None else cls(np.ascontiguousarray(raised.heights), raised.grid.x, raised.grid.y, raised.grid.spacing)


def turned(vectors: np.ndarray, yaw: float, pitch: float, roll: float) -> np.ndarray:
    """Vectors (n, 3) of a body's axes in those of the map: by yaw, then pitch, + nose down, then roll, + right side down [rad]."""
    cy, sy, cp, sp, cr, sr = (f(a) for a in (yaw, pitch, roll) for f in (math.cos, math.sin))
    x, y, z = vectors.T
    y, z = cr * y - sr * z, sr * y + cr * z
    x, z = cp * x + sp * z, cp * z - sp * x
    return np.column_stack([cy * x - sy * y, sy * x + cy * y, z])


def rays(mount: Mount, beams: np.ndarray, pose: tuple[float, float, float], roll: float, pitch: float) -> tuple[np.ndarray, np.ndarray]:
    """Computes the origin (3,) [m] of beams (n, 2) in the sensor's axes, its height over the ground at the pose, and directions (n, 3).

    Args:
        pose: x, y [m] and yaw [rad] of the vehicle's position point; roll, pitch: of its body against the horizontal [rad].
    """
    x, y, yaw = pose
    ways = turned(np.column_stack([beams, np.zeros(len(beams))]), mount.yaw, mount.pitch, 0.0)
    return turned(np.array([[mount.x, mount.y, mount.z]]), yaw, pitch, roll)[0] + (x, y, 0.0), turned(ways, yaw, pitch, roll)


def ground_ranges(surface: Surface, mount: Mount, beams: np.ndarray, pose: tuple[float, float, float], roll: float, pitch: float,
                  reach: float) -> np.ndarray:
    """Computes the ranges (n,) [m] at which beams meet the ground; inf: not within `reach` [m]. The rest as in `rays`."""
    eye, ways = rays(mount, beams, pose, roll, pitch)
    ny, nx = surface.heights.shape
    numbers, ranges = np.array([surface.x, surface.y, surface.spacing, reach]), np.empty(len(beams))
    begin, ways = np.append(eye, pose[:2]), np.ascontiguousarray(ways)
    kernel = native("lfdm_ros.sensors.loops_native", _ARGUMENTS, INTEGER, ("lfdm_ros.sensors.ground_rays",), "march")
    kernel(surface.heights.ctypes.data, ny, nx, *(a.ctypes.data for a in (numbers, begin, ways, ranges)), len(ranges))
    return ranges


def height(heights: np.ndarray, numbers: np.ndarray, x: float, y: float) -> float:
    """Interpolates the height of a place, straight between nodes; beyond the edges that of the nearest point."""
    ny, nx = heights.shape
    across = min(max((x - numbers[0]) / numbers[2], 0.0), nx - 1.0)
    along = min(max((y - numbers[1]) / numbers[2], 0.0), ny - 1.0)
    i, j = min(int(across), nx - 2), min(int(along), ny - 2)
    t, s = across - i, along - j
    return (1.0 - s) * ((1.0 - t) * heights[j, i] + t * heights[j, i + 1]) + s * ((1.0 - t) * heights[j + 1, i] + t * heights[j + 1, i + 1])


def march(height: Any, heights: np.ndarray, numbers: np.ndarray, eye: np.ndarray, ways: np.ndarray, ranges: np.ndarray) -> int:
    """Fills the ranges (n,) [m] at which rays go under the ground; inf where none does.

    Args:
        height: the function above, or what numba made of it.
        heights: (ny, nx) [m]; numbers: x, y of the first node, spacing, reach [m].
        eye: where they begin, x, y, height over the ground at the place that follows, x, y (5,) [m]; ways: their directions (n, 3).
    """
    base, step = height(heights, numbers, eye[3], eye[4]), numbers[2]
    count = math.ceil(numbers[3] / step)
    for b in range(len(ranges)):
        wx, wy, wz = ways[b, 0], ways[b, 1], ways[b, 2]
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
