"""The curve that a stop follows, and what a stop comes to that was driven along it: loops on arrays by index.

Numbers in, numbers out: Python runs it as it stands, and `stop_native`, `curve_native` make machine code of the same text.
"""

from __future__ import annotations

import math
from typing import Any

from lfdm_ros.control.stop_law import FASTEST, SPACING

BEYOND = 60.0  # [m] straight on after the curve's end
LONGEST = 500.0  # [m] of a curve: a stop from 70 m/s; where a state jumps, the plan before it lies anywhere
MOVES = 1e-3  # [m] places of a plan that are nearer to the one before are the same
TOUCHES, LESS = 0.02, 0.02  # [m] so near is hit; so much nearer than now it may come to what is too near already
EACH = 2  # poses of which one is looked at for what lies hidden


def lay(plan: Any, places: Any) -> int:
    """The curve through the places of a plan, and straight on.

    Args:
        plan: x, y [m], course [rad] (3, m).
        places: written, (n, 4) with room for LONGEST: x, y [m], course [rad], curvature [1/m] at even distances.

    Returns the number of places.
    """
    x, y, course = plan[0], plan[1], plan[2]
    most, count = len(places), 0
    last, total, way = 0, 0.0, 0.0  # the last place that counts, its distance, and that of the place looked at
    for j in range(1, len(x)):
        piece = math.sqrt((x[j] - x[j - 1]) ** 2 + (y[j] - y[j - 1]) ** 2)
        way += piece
        if not piece > MOVES:
            continue
        while count < most and count * SPACING < way:
            share = (count * SPACING - total) / (way - total)
            places[count, 0] = x[last] + share * (x[j] - x[last])
            places[count, 1] = y[last] + share * (y[j] - y[last])
            places[count, 2] = course[last] + share * (course[j] - course[last])
            count += 1
        last, total = j, way
    longest = min(total + BEYOND, LONGEST)
    cosine, sine = math.cos(course[last]), math.sin(course[last])
    while count < most and count * SPACING < longest:
        beyond = count * SPACING - total
        places[count, 0] = x[last] + beyond * cosine
        places[count, 1] = y[last] + beyond * sine
        places[count, 2] = course[last]
        count += 1
    for i in range(count):
        left, right = max(i - 1, 0), min(i + 1, count - 1)
        places[i, 3] = (places[right, 2] - places[left, 2]) / ((right - left) * SPACING)
    return count


def nearest(curve: Any, x: float, y: float) -> int:
    """Number of the place of a curve (n, 4 or more) that is nearest to (x, y) [m]."""
    found, least = 0, math.inf
    for i in range(len(curve)):
        away = (curve[i, 0] - x) ** 2 + (curve[i, 1] - y) ** 2
        if away < least:
            found, least = i, away
    return found


def needed(here: float, margin: float) -> float:
    """What is to be kept from an obstacle that is so far away now [m]: what stands nearer already may come as near as that; who is in an
    obstacle may leave it, but not drive further into it."""
    return min(margin, max(here - LESS, 0.0) if here > 0.0 else here - LESS)


def judge(rows: Any, count: int, circles: Any, outline: Any, lidar: Any, time: float, margin: float, growth: float, sight: bool,
          result: Any) -> None:
    """What a stop comes to.

    Args:
        rows: (n, 5), of which `count` count, as `stop_law.drive` writes them from `time` [s] on, in that of the circles.
        circles: (m, 5) x, y [m], velocities [m/s], radius [m].
        outline: front, rear, half width [m]; lidar: its place x, y [m] on the vehicle.
        margin: to keep [m]; growth: how much more from what moves, with time [m/s]; sight: whether it counts what lies hidden.
        result: written, (4,): least distance [m]; 1 where all is kept, else 0; the speed at which something is hit, 0 for never, and that
            at which a front corner comes to where nothing was seen [m/s].
    """
    front, rear, half = outline[0], outline[1], outline[2]
    middle, long = 0.5 * (front - rear), 0.5 * (front + rear)
    result[0], result[1], result[2], result[3] = math.inf, 1.0, 0.0, 0.0
    for k in range(count):
        if not (math.isfinite(rows[k, 1]) and math.isfinite(rows[k, 2]) and math.isfinite(rows[k, 3])):
            result[0] = -math.inf
    if result[0] < 0.0 or not rows[count - 1, 4] < FASTEST:
        result[0], result[1], result[2] = -math.inf, 0.0, math.inf
        return
    x0, y0 = rows[0, 1], rows[0, 2]
    length = 0.0
    for k in range(1, count):
        length += math.sqrt((rows[k, 1] - rows[k - 1, 1]) ** 2 + (rows[k, 2] - rows[k - 1, 2]) ** 2)
    first_hit = count
    for j in range(len(circles)):
        cx, cy, vx, vy, radius = circles[j, 0], circles[j, 1], circles[j, 2], circles[j, 3], circles[j, 4]
        moves = vx != 0.0 or vy != 0.0
        if not (moves or math.sqrt((cx - x0) ** 2 + (cy - y0) ** 2) - radius < length + front + rear):
            continue
        need, least = 0.0, math.inf
        for k in range(count):
            now, c, t = rows[k, 0], math.cos(rows[k, 3]), math.sin(rows[k, 3])
            dx, dy = cx - rows[k, 1], cy - rows[k, 2]
            if moves:
                dx, dy = dx + (time + now) * vx, dy + (time + now) * vy
            qx, qy = abs(c * dx + t * dy - middle) - long, abs(c * dy - t * dx) - half
            beside, behind = max(qx, 0.0), max(qy, 0.0)
            away = math.sqrt(beside * beside + behind * behind) + min(max(qx, qy), 0.0) - radius
            if moves:
                away -= growth * now
            if k == 0:
                need = needed(away, margin)
            if away < least:
                least = away
            if k < first_hit and away <= min(need, TOUCHES):
                first_hit = k
        if least < result[0]:
            result[0] = least
        if not least >= need:
            result[1] = 0.0
    if first_hit < count:
        result[2] = rows[first_hit, 4]
    if sight:
        result[3] = unseen(rows, count, circles, front, half, lidar)


def unseen(rows: Any, count: int, circles: Any, front: float, half: float, lidar: Any) -> float:
    """The speed at which a front corner comes to a place that circles hide from the LIDAR where it is at first [m/s]; 0 for never."""
    c0, t0 = math.cos(rows[0, 3]), math.sin(rows[0, 3])
    sx, sy = rows[0, 1] + lidar[0] * c0 - lidar[1] * t0, rows[0, 2] + lidar[0] * t0 + lidar[1] * c0
    most = 0.0
    for side in (-half, half):
        for k in range(0, count, EACH):
            c, t = math.cos(rows[k, 3]), math.sin(rows[k, 3])
            if hides(circles, rows[k, 1] + front * c - side * t - sx, rows[k, 2] + front * t + side * c - sy, sx, sy):
                most = max(most, rows[k, 4])
                break
    return most


def hides(circles: Any, px: float, py: float, sx: float, sy: float) -> bool:
    """Whether a place (px, py) from (sx, sy) lies behind a circle, seen from there. A circle about (sx, sy) hides nothing."""
    away = math.sqrt(px * px + py * py)
    ux, uy = px / max(away, 1e-6), py / max(away, 1e-6)
    for j in range(len(circles)):
        cx, cy, radius = circles[j, 0] - sx, circles[j, 1] - sy, circles[j, 4]
        ahead = ux * cx + uy * cy
        if abs(ux * cy - uy * cx) < radius and 0.0 < ahead < away and cx * cx + cy * cy > radius * radius:
            return True
    return False
