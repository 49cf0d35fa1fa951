"""Obstacles from rows of numbers."""

from typing import Any

import numpy as np

from lfdm_ros.perception.obstacles import Obstacles


def circles(*rows: tuple[float, ...], time: float = 0.0, **more: Any) -> Obstacles:
    """Returns obstacles of rows x, y, radius and, where they move, vx, vy."""
    table = np.array([(*row, *(0.0,) * (5 - len(row))) for row in rows], float).reshape(-1, 5)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], time, **more)
