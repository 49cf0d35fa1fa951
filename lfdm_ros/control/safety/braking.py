"""Control law that stops a vehicle along a curve, the simulation of the prediction model under it, and its evaluation.

Numeric functions on arrays by index: Python runs them as they are, and `braking_native` compiles the same source.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from lfdm_ros.numerics import arc

MAX_LATERAL_SHARE = 0.9  # largest lateral share of the circle: tyres with more grip than assumed must not brake less
# [m/s^2] of braking in any bend: more, at the lateral limit of the tyres, makes the vehicle spin
MIN_BRAKING = 1.0
# Lengths and speeds, here and below, are those of a full-size vehicle; they are in proportion for a smaller one (`Footprint.scale`).
SPACING = 1.0  # [m] between the places of a curve
MAX_TICK_DISTANCE, MAX_TICK, MAX_TICKS = 2.0, 0.2, 200  # largest distance [m] and time [s] between evaluations of the law, and their number
MAX_SPEED = 1e3  # [m/s] beyond it a state has diverged
STEERING_PREVIEW = 0.15  # [s] preview of the steering
# [1/s], [m/s]: steering towards the curve, over the speed or this. Twice the gain overshoots a shift of 3 m at 9 m/s by 1 m where the
# steering takes 1.25 s to full lock.
TRACKING_GAIN, MIN_TRACKING_SPEED = 1.5, 4.0
STANDSTILL_SPEED = 0.5  # [m/s] below which the vehicle stands
# Delay [s] after which the drive torque has decayed when the throttle is released: shafts and tyres unwind (to a quarter in the 24-DOF
# model), which the prediction model lacks.
DRIVE_DECAY_TIME = 0.12


class BrakingModel(NamedTuple):
    """Vehicle data of the braking controller. full_brake: deceleration at full brake [m/s^2]; strongest: largest brake of a stop;
    rear_brake: the rear axle's share of the brake force; rear_load: of the static load; lift: loss of rear_load per m/s^2 of braking;
    wheelbase, front_axle, rear_axle (from the centre of mass) [m]; full_lock [rad]; understeer, rear_slip [rad s^2/m]; scale: size against
    a full-size vehicle."""

    full_brake: float
    strongest: float
    rear_brake: float
    rear_load: float
    lift: float
    wheelbase: float
    front_axle: float
    rear_axle: float
    full_lock: float
    understeer: float
    rear_slip: float
    scale: float


class Pedals(NamedTuple):
    """Limits of the actuators. steering, up, down: rates [1/s]; brake: -pedal at most; throttle: pedal at most."""

    steering: float
    up: float
    down: float
    brake: float
    throttle: float


def braking(v: BrakingModel, lateral: float, circle: float) -> float:
    """Returns the largest deceleration [m/s^2] without locked wheels or loss of the rear axle's lateral force, at a lateral acceleration
    [m/s^2] on a friction circle of `circle` [m/s^2]."""
    # (share a)^2 + (rear lateral)^2 = (circle (rear - lift a))^2
    square = circle * circle
    p, q = v.rear_brake * v.rear_brake - square * v.lift * v.lift, square * v.rear_load * v.lift
    r = v.rear_load * v.rear_load * (lateral * lateral - square)
    limit = (math.sqrt(max(q * q - p * r, 0.0)) - q) / p if p > 1e-9 else circle
    return max(min(limit, circle), MIN_BRAKING)


def law(braking: Callable[..., float], v: BrakingModel, course: float, curvature: float, x0: float, y0: float, bend: float, x: float,
        y: float, yaw: float, vx: float, ay: float, circle: float) -> tuple[float, float]:
    """Returns steering and pedal that stop the vehicle at (x, y, yaw) along a curve with the nearest place (x0, y0), on a friction circle
    of `circle` [m/s^2] there."""
    speed = max(vx, 0.0)
    # On the curve the vehicle has a sideslip angle: kinematic by curvature, less the slip of the rear axle.
    slip = (v.rear_axle - v.rear_slip * speed * speed) * curvature
    turned = math.remainder(yaw + slip - course, 2.0 * math.pi)
    aside = math.cos(course) * (y - y0) - math.sin(course) * (x - x0)
    road = math.atan(v.wheelbase * bend) + v.understeer * speed * speed * bend - turned - math.atan(
        TRACKING_GAIN * (aside + v.front_axle * math.sin(turned)) / max(speed, v.scale * MIN_TRACKING_SPEED))
    lateral = max(speed * speed * max(abs(bend), abs(curvature)), abs(ay))
    limit = braking(v, min(lateral, MAX_LATERAL_SHARE * circle), circle)
    return min(max(road / v.full_lock, -1.0), 1.0), -min(limit / v.full_brake, v.strongest)


def drive(law: Callable[..., Any], braking: Callable[..., float], advance: Callable[[Any, int, float], bool], model: Any, v: BrakingModel,
          pedals: Pedals, curve: Any, near: int, command: Any, first: Any, weakest: float, longest: float, places: Any, state: Any,
          before: Any, after: Any, rows: Any) -> int:
    """Simulates the prediction model under the law until it stands.

    Args:
        law, braking: as above; advance: advance(model, n, h) integrates `state` (nx,) by n steps of h seconds, the inputs linear from
            `before` (nu,) to `after` (nu,), and returns True if all is finite.
        curve: places (n, 5): x, y [m], course [rad], curvature [1/m], friction circle [m/s^2]; near: index of the nearest one.
        command: steering and pedal in force (2,); first: duration [s], steering and pedal before the law begins (3,), 0 s for none.
        weakest: lower bound of the pedal; longest: step of the model [s]; places: indices of x, y, yaw, vx, ay in the state (5,).
        rows: written, (MAX_TICKS, 7): time [s], x, y [m], yaw [rad], speed [m/s], steering and pedal in force.

    Returns the number of rows.
    """
    px, py, pyaw, pvx, pay = places[0], places[1], places[2], places[3], places[4]
    last, spacing, standstill = len(curve) - 1, v.scale * SPACING, v.scale * STANDSTILL_SPEED
    steering, pedal = command[0], command[1]
    before[0], before[1], before[2] = steering, max(pedal, 0.0), max(-pedal, 0.0)
    rows[0, 0], rows[0, 1], rows[0, 2], rows[0, 3], rows[0, 4] = 0.0, state[px], state[py], state[pyaw], state[pvx]
    rows[0, 5], rows[0, 6] = steering, pedal
    now, count, i, lingers = 0.0, 1, near, max(pedal, 0.0)
    while count < MAX_TICKS:
        if count == 1 and first[0] > 0.0:
            step, aim, press = first[0], first[1], first[2]
        else:
            x, y, vx = state[px], state[py], state[pvx]
            if not standstill <= vx < MAX_SPEED:
                break
            step = min(v.scale * MAX_TICK_DISTANCE / vx, MAX_TICK)
            best = (curve[i, 0] - x) ** 2 + (curve[i, 1] - y) ** 2
            while i < last:
                further = (curve[i + 1, 0] - x) ** 2 + (curve[i + 1, 1] - y) ** 2
                if further > best:
                    break
                i, best = i + 1, further
            bend = curve[min(i + round(STEERING_PREVIEW * vx / spacing), last), 3]
            aim, press = law(braking, v, curve[i, 2], curve[i, 3], curve[i, 0], curve[i, 1], bend, x, y, state[pyaw], vx, state[pay],
                             curve[i, 4])
            press = max(press, weakest)
        turn = pedals.steering * step
        steering = min(max(aim, -1.0, steering - turn), 1.0, steering + turn)
        pedal = min(max(press, -pedals.brake, pedal - pedals.down * step), pedals.throttle, pedal + pedals.up * step)
        driven = max(pedal, min(lingers, lingers - pedals.down * (now + step - DRIVE_DECAY_TIME)), 0.0)
        after[0], after[1], after[2] = steering, driven, max(-pedal, 0.0)
        pieces = math.ceil(step / longest)
        sound = advance(model, pieces, step / pieces)
        before[0], before[1], before[2] = after[0], after[1], after[2]
        now += step
        rows[count, 0], rows[count, 1], rows[count, 2], rows[count, 3] = now, state[px], state[py], state[pyaw]
        rows[count, 4], rows[count, 5], rows[count, 6] = state[pvx], steering, pedal
        count += 1
        if not sound:
            break
    return count


EXTENSION = 60.0  # [m] straight after the curve's end
MAX_LENGTH = 500.0  # [m] of a curve: a stop from 70 m/s; after a jump of the state the previous plan may lie anywhere
MIN_PIECE = 1e-3  # [m] smallest distance between distinct places of a plan
CONTACT_DISTANCE, APPROACH_TOLERANCE = 0.02, 0.02  # [m] distance of a contact; permitted approach to obstacles inside the margin
POSE_STRIDE = 2  # every second pose is checked for occlusion


def lay(plan: Any, places: Any, scale: float) -> int:
    """Makes the curve through the places of a plan, extended straight.

    Args:
        plan: x, y [m], course [rad] (3, m).
        places: written, (n, 4) with room for MAX_LENGTH: x, y [m], course [rad], curvature [1/m] at even distances.
        scale: size of the vehicle against a full-size one.

    Returns the number of places.
    """
    x, y, course = plan[0], plan[1], plan[2]
    most, count, spacing = len(places), 0, scale * SPACING
    last, total, distance = 0, 0.0, 0.0  # the last place that counts, its distance, and that of the place looked at
    for j in range(1, len(x)):
        piece = math.sqrt((x[j] - x[j - 1]) ** 2 + (y[j] - y[j - 1]) ** 2)
        distance += piece
        if not piece > MIN_PIECE:
            continue
        while count < most and count * spacing < distance:
            share = (count * spacing - total) / (distance - total)
            places[count, 0] = x[last] + share * (x[j] - x[last])
            places[count, 1] = y[last] + share * (y[j] - y[last])
            places[count, 2] = course[last] + share * (course[j] - course[last])
            count += 1
        last, total = j, distance
    longest = min(total + scale * EXTENSION, scale * MAX_LENGTH)
    cosine, sine = math.cos(course[last]), math.sin(course[last])
    while count < most and count * spacing < longest:
        beyond = count * spacing - total
        places[count, 0] = x[last] + beyond * cosine
        places[count, 1] = y[last] + beyond * sine
        places[count, 2] = course[last]
        count += 1
    for i in range(count):
        left, right = max(i - 1, 0), min(i + 1, count - 1)
        places[i, 3] = (places[right, 2] - places[left, 2]) / ((right - left) * spacing)
    return count


def nearest(curve: Any, x: float, y: float) -> int:
    """Returns the index of the place of a curve (n, 4 or more) that is nearest to (x, y) [m]."""
    found, least = 0, math.inf
    for i in range(len(curve)):
        away = (curve[i, 0] - x) ** 2 + (curve[i, 1] - y) ** 2
        if away < least:
            found, least = i, away
    return found


def needed(here: float, margin: float, tolerance: float) -> float:
    """Returns the required distance from an obstacle that is `here` [m] away now: the margin, or the present distance if smaller; a vehicle
    inside an obstacle may leave it, but not drive further into it. tolerance: permitted approach [m]."""
    return min(margin, max(here - tolerance, 0.0) if here > 0.0 else here - tolerance)


def judge(rows: Any, count: int, circles: Any, outline: Any, lidar: Any, time: float, margin: float, growth: float, sight: bool,
          result: Any) -> None:
    """Evaluates a stop.

    Args:
        rows: (n, 7), `count` of them in use, as `braking.drive` writes them from `time` [s] on, the time scale of the circles.
        circles: (m, 8) x, y [m], velocities [m/s], radius [m], begin of its braking (inf: never) and time to its standstill [s], and rate
            of turn of the velocity to the left [rad/s].
        outline: front, rear, half width [m], scale; lidar: its position x, y [m] on the vehicle.
        margin: to keep [m]; growth: of the margin from moving obstacles with time [m/s]; sight: occluded places count.
        result: written, (4,): smallest distance [m]; 1 if all margins are kept, else 0; speed of the first contact, 0 for none, and of a
            front corner at an occluded place [m/s].
    """
    front, rear, half, scale = outline[0], outline[1], outline[2], outline[3]
    middle, long = 0.5 * (front - rear), 0.5 * (front + rear)
    result[0], result[1], result[2], result[3] = math.inf, 1.0, 0.0, 0.0
    for k in range(count):
        if not (math.isfinite(rows[k, 1]) and math.isfinite(rows[k, 2]) and math.isfinite(rows[k, 3])):
            result[0] = -math.inf
    if result[0] < 0.0 or not rows[count - 1, 4] < MAX_SPEED:
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
                travel = min(time + now, circles[j, 5])
                braked = min(time + now - travel, circles[j, 6])
                travel += braked - 0.5 * braked * braked / circles[j, 6]
                ahead, aside = travel, 0.0
                if circles[j, 7] != 0.0:
                    ahead, aside = arc(travel, travel * circles[j, 7])
                dx, dy = dx + ahead * vx - aside * vy, dy + ahead * vy + aside * vx
            qx, qy = abs(c * dx + t * dy - middle) - long, abs(c * dy - t * dx) - half
            beside, behind = max(qx, 0.0), max(qy, 0.0)
            away = math.sqrt(beside * beside + behind * behind) + min(max(qx, qy), 0.0) - radius
            if moves:
                away -= growth * now
            if k == 0:
                need = needed(away, margin, scale * APPROACH_TOLERANCE)
            if away < least:
                least = away
            if k < first_hit and away <= min(need, scale * CONTACT_DISTANCE):
                first_hit = k
        if least < result[0]:
            result[0] = least
        if not least >= need:
            result[1] = 0.0
    if first_hit < count:
        result[2] = rows[first_hit, 4]
    if sight:
        result[3] = blind_speed(rows, count, circles, front, half, lidar)


def blind_speed(rows: Any, count: int, circles: Any, front: float, half: float, lidar: Any) -> float:
    """Returns the speed of a front corner at a place that is occluded from the LIDAR's first position [m/s]; 0: never."""
    c0, t0 = math.cos(rows[0, 3]), math.sin(rows[0, 3])
    sx, sy = rows[0, 1] + lidar[0] * c0 - lidar[1] * t0, rows[0, 2] + lidar[0] * t0 + lidar[1] * c0
    most = 0.0
    for side in (-half, half):
        for k in range(0, count, POSE_STRIDE):
            c, t = math.cos(rows[k, 3]), math.sin(rows[k, 3])
            if occludes(circles, rows[k, 1] + front * c - side * t - sx, rows[k, 2] + front * t + side * c - sy, sx, sy):
                most = max(most, rows[k, 4])
                break
    return most


def occludes(circles: Any, px: float, py: float, sx: float, sy: float) -> bool:
    """Checks that a circle occludes the place (px, py) from (sx, sy). A circle around (sx, sy) occludes nothing."""
    away = math.sqrt(px * px + py * py)
    ux, uy = px / max(away, 1e-6), py / max(away, 1e-6)
    for j in range(len(circles)):
        cx, cy, radius = circles[j, 0] - sx, circles[j, 1] - sy, circles[j, 4]
        ahead = ux * cx + uy * cy
        if abs(ux * cy - uy * cx) < radius and 0.0 < ahead < away and cx * cx + cy * cy > radius * radius:
            return True
    return False
