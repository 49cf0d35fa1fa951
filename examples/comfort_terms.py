"""A cost and a constraint for the controller: comfort by little lateral jerk, and an area to keep out of.

    LFDM_PLUGINS=examples/comfort_terms.py lfdm drive ... --set terms="lateral_jerk=0.1, keep_out"
"""

import math

import numpy as np

from lfdm_ros.control import Constraint, Term, register_mpc_term


def lateral_jerk(m, stage):
    """Returns the change of the lateral acceleration over a stage by its duration [m/s^3]."""
    return (stage.end.ay - stage.z.ay) / stage.duration


def keep_out(name, corners, margin):
    """Returns a constraint: the vehicle's outline stays `margin` [m] away from a convex polygon, corners (n, 2) [m] counterclockwise."""
    corners = np.asarray(corners, float)
    along = np.roll(corners, -1, axis=0) - corners
    normals = np.column_stack([along[:, 1], -along[:, 0]]) / np.hypot(*along.T)[:, None]

    def row(m, stage):
        # The largest distance between the outline, a rectangle, and an edge's line.
        z, k = stage.z, stage.k
        cos, sin, distance = m.cos(z.yaw), m.sin(z.yaw), -math.inf
        for (x, y), (nx, ny) in zip(corners.tolist(), normals.tolist()):
            ahead, aside = nx * cos + ny * sin, ny * cos - nx * sin
            gap = nx * (z.x - x) + ny * (z.y - y) + m.fmin(k.front * ahead, -k.rear * ahead) - k.half_width * m.fabs(aside)
            distance = m.fmax(distance, gap)
        return distance

    return Constraint(name, row, bounds=(margin, math.inf), penalty=300.0)


JERK = Term("lateral_jerk", lateral_jerk, weight=0.02, at_end=False)
SITE = keep_out("keep_out", [(35.0, -4.0), (45.0, -4.0), (45.0, -0.5), (35.0, -0.5)], margin=0.3)
register_mpc_term(JERK)
register_mpc_term(SITE)
