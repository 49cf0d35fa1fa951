"""Stops: checks that the vehicle can stop before every detected obstacle, and commands the stop.

Each driven plan has a verified stop: a period of the plan, then braking along its curve, is free of all obstacles, moving ones at their
predicted positions, and ends in sight. As long as a new plan begins with a period after which there is such a stop again, there always is
one (a recursively feasible safety filter: Wabersich & Zeilinger 2021, "A predictive safety filter for learning-based control of constrained
nonlinear dynamical systems").

A stop is verified by a rollout of the prediction model, on tyres with less than their nominal grip, from the measured state and under the
same law as the real stop. The rollout includes sliding and tracking error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import casadi_model
from lfdm_ros.backends.tick_kernel import advance_code
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL
from lfdm_ros.compiler.native import native
from lfdm_ros.control.command_limits import RateLimits
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.safety.braking import APPROACH_TOLERANCE, MAX_LENGTH, MAX_TICKS, SPACING, STEERING_PREVIEW, BrakingModel, braking, law
from lfdm_ros.control.settings import Settings
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model, chassis_slots
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.vehicles import Footprint, Vehicle
from lfdm_ros.vehicles.body import cornering_compliance, mass_of, understeer_gradient

Peak = Callable[[ArrayLike, ArrayLike, ArrayLike], np.ndarray]


def peak_of(model: Model, vehicle: Vehicle) -> Peak:
    """Returns a function for the peak acceleration of the tyres [m/s^2] on the ground at places x, y [m] (n,), for a course [rad]: (n,), or
    (1,) on uniform ground."""
    equations, p = casadi_model(model), vehicle.vector(model)
    most = GRAVITY * vehicle.parameters["friction_max"]
    names = [f.name for f in model.states]

    def peak(x: ArrayLike, y: ArrayLike, course: ArrayLike) -> np.ndarray:
        states = np.zeros((len(names), np.size(x)))
        states[[names.index(name) for name in ("x", "y", "yaw")]] = np.reshape([x, y, course], (3, -1))
        return most * np.asarray(equations.friction(states, 0.0, p)).ravel()

    if not equations.uniform:
        return peak
    everywhere = peak(0.0, 0.0, 0.0)
    return lambda x, y, course: everywhere


def braking_model_of(vehicle: Vehicle, strongest: float) -> BrakingModel:
    """Returns the braking model of a vehicle, with at most `strongest` of its brakes; unknown torques: by the tyres' peak."""
    p = vehicle.parameters
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    mass, radius = mass_of(p), p.get("wheel_radius", 0.0)
    torques = [p.get(f"brake_torque_{axle}", 0.0) for axle in ("front", "rear")]
    specified = min(sum(torques), radius, mass) > 0.0
    return BrakingModel(
        full_brake=2.0 * sum(torques) / (radius * mass) if specified else GRAVITY * p["friction_max"],
        strongest=strongest, rear_brake=torques[1] / sum(torques) if specified else 0.5, rear_load=a / (a + b),
        lift=p.get("cg_height", 0.0) / ((a + b) * GRAVITY), wheelbase=a + b, front_axle=a, rear_axle=b,
        full_lock=p["max_road_wheel_angle"], understeer=understeer_gradient(p), rear_slip=mass * a / (a + b) * cornering_compliance(p)[1],
        scale=vehicle.footprint.scale)


MAX_STEP = 0.07  # [s] longest step of the model, unless it allows less
# Lengths and speeds of a full-size vehicle; they are in proportion for a smaller one (`Footprint.scale`).
MAX_BLIND_SPEED = 1.0  # [m/s] largest speed at occluded places
LATERAL_SHIFTS = (0.0, 1.0, -1.0, 2.0, -2.0, 3.5, -3.5)  # [m] shifts of a curve to the left, in search of a free one
PLANNED = ("x", "y", "yaw", "vx")  # states of the plan of a stop; duration of its final standstill [s]
STANDS = 1.0
SHIFT_TIME_AND_LENGTH = 1.6, 6.0  # time [s] and smallest distance [m] of the shift


@dataclass(frozen=True)
class GripMargin:
    """Assumed grip: `grip` of the tyres, and `circle` used by the law in both directions together; shares of the nominal peak."""

    grip: float
    circle: float


CONSERVATIVE = GripMargin(0.75, 0.65)  # for unknown tyres
NOMINAL = GripMargin(1.0, 0.85)  # if no conservative stop is free


class Curve:
    """Curve by places at even distances s (n,) [m]: x, y [m], course [rad], curvature [1/m], each (n,); `places` (n, 4) combines them."""

    def __init__(self, places: np.ndarray, scale: float = 1.0):
        """Makes it of its places. scale: of the vehicle, by which they are nearer to each other than SPACING."""
        self.places, self.scale, self.spacing = places, scale, scale * SPACING
        self.x, self.y, self.course, self.curvature = places.T

    @property
    def s(self) -> np.ndarray:
        return self.spacing * np.arange(len(self.places))

    def shifted(self, side: float, begin: float, length: float) -> Curve:
        """Returns this curve, shifted to the left by `side` [m] from `begin` on within `length` [m], with a drivable curvature that begins
        at 0."""
        u = np.clip((self.s - begin) / length, 0.0, 1.0)
        e, slope = side * u**3 * (10.0 + u * (6.0 * u - 15.0)), side * 30.0 * (u * (1.0 - u)) ** 2 / length
        bend = side * 60.0 * u * (1.0 - u) * (1.0 - 2.0 * u) / length**2
        return Curve(np.column_stack([self.x - e * np.sin(self.course), self.y + e * np.cos(self.course), self.course + np.arctan(slope),
                                      self.curvature + bend]), self.scale)

    def nearest(self, x: float, y: float) -> int:
        """Returns the index of the place nearest to (x, y) [m]."""
        return int(np.argmin((self.x - x) ** 2 + (self.y - y) ** 2))


def curve_of(x: np.ndarray, y: np.ndarray, course: np.ndarray, scale: float = 1.0) -> Curve:
    """Returns the curve through the places of a plan (m,), extended straight; at most 500 m, for a vehicle of a scale."""
    plan, places = np.array([x, y, course], dtype=float), np.empty((round(MAX_LENGTH / SPACING), 4))
    lay = native("lfdm_ros.control.safety.braking_native", (POINTER, INTEGER, POINTER, INTEGER, REAL), INTEGER,
                 ("lfdm_ros.control.safety.braking",), "lay")
    return Curve(places[:lay(plan.ctypes.data, plan.shape[1], places.ctypes.data, len(places), scale)], scale)


def occluded(places: np.ndarray, centres: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Marks the places (n, 2) that a circle occludes from the origin (n,). A circle around the origin occludes nothing."""
    away = np.hypot(*places.T)
    ux, uy = (places / np.maximum(away, 1e-6)[:, None]).T
    ahead = np.outer(ux, centres[:, 0]) + np.outer(uy, centres[:, 1])
    aside = np.abs(np.outer(ux, centres[:, 1]) - np.outer(uy, centres[:, 0]))
    outside = np.hypot(*centres.T) > radii
    hidden: np.ndarray = ((aside < radii) & (ahead > 0.0) & (ahead < away[:, None]) & outside).any(axis=1)
    return hidden


@dataclass(frozen=True, eq=False)
class Stop:
    """Stop along a curve. clearance: smallest distance to an obstacle [m], inf without any; free: the margin (or the present distance, if
    smaller) is kept, and the curve is in sight; speed: of the first contact [m/s], 0 without; blind: speed at an occluded place [m/s];
    trust: the assumed grip."""

    curve: Curve
    clearance: float
    free: bool
    speed: float
    blind: float = 0.0
    trust: GripMargin = CONSERVATIVE


# Parameters that scale all of a model's grip: the first line present in the model.
_GRIPS = (("friction_scale",), ("friction_max", "friction_min"), ("friction_front", "friction_rear"))


def _grips(model: Model) -> tuple[str, ...]:
    """Returns the parameters that scale the grip of a model. Raises InputError if it has tyres, but no such parameter."""
    has = {f.name for f in model.parameters}
    found = next((names for names in _GRIPS if has.issuperset(names)), ())
    if not found and "tyre" in chassis_slots(model.name.split("/")[0]):
        raise InputError(f"setting model: {model.name} has no parameter to evaluate stops on less grip, friction_scale of "
                         "its ground or friction_max and friction_min of its tyres: choose fiala, or plane")
    return found


class Stops:
    """Evaluation and commands of stops. Its only state is the vehicle's data."""

    def __init__(self, settings: Settings, vehicle: Vehicle):
        """Compiles the prediction model, or loads it. Raises InputError if the vehicle lacks parameters of it."""
        self._settings, self.outline, self._lidar = settings, vehicle.footprint, vehicle.lidar
        self._rates = RateLimits.of(settings, vehicle.actuators)
        model = vehicle.model(settings.model)
        self._peak, grips = peak_of(model, vehicle), _grips(model)
        names = [f.name for f in model.states]
        self._pose, self._vx, self._ay = [names.index(name) for name in ("x", "y", "yaw")], names.index("vx"), names.index("ay")
        self._step = min(MAX_STEP, model.largest_step)
        self._places = np.array([*self._pose, self._vx, self._ay], dtype=np.int64)
        code = advance_code(model)
        self._advance = code.address
        less = {trust: vehicle.replace(source="", **{name: trust.grip * vehicle.parameters[name] for name in grips})
                for trust in (CONSERVATIVE, NOMINAL)}
        self._constants = {trust: code.constants(slippery.vector(model)) for trust, slippery in less.items()}
        arguments = [INTEGER, POINTER, POINTER, POINTER, INTEGER, *[POINTER] * 5, INTEGER, *[POINTER] * 4, INTEGER, POINTER]
        self._drive = native("lfdm_ros.control.safety.braking_native", tuple(arguments), INTEGER,
                             ("lfdm_ros.control.safety.braking", "lfdm_ros.numerics"), "drive")
        self.braked, rates, o = braking_model_of(vehicle, settings.stop_brake), self._rates, self.outline
        self._numbers = np.array([*self.braked, rates.steering, rates.up, rates.down, settings.largest_brake, settings.largest_throttle,
                                  o.front, o.rear, o.half_width, o.scale, self._lidar.x, self._lidar.y, settings.obstacle_growth])

    def hardest_pedal(self, x: np.ndarray) -> float:
        """Returns the largest brake [0, 1] without loss of the rear axle in a state (nx,), using all of the conservative grip."""
        peak = float(self._peak(*(x[k] for k in self._pose))[0])
        return min(braking(self.braked, abs(float(x[self._ay])), CONSERVATIVE.grip * peak) / self.braked.full_brake, 1.0)

    def clearance(self, plan: Plan, at: list[int], time: float, obstacles: Obstacles) -> float:
        """Returns the smallest distance of a plan to obstacles [m] from a time [s] on; `at`: indices of x, y, yaw in its states."""
        left = plan.times >= time - 1e-9
        return float(self.distances(plan.states[left][:, at], plan.times[left] - time, time, obstacles).min())

    def passes(self, plan: Plan, at: list[int], time: float, obstacles: Obstacles, margin: float) -> bool:
        """Checks that a plan keeps a margin [m], or the present distance if smaller, from a time [s] on."""
        left = plan.times >= time - 1e-9
        distance = self.distances(plan.states[left][:, at], plan.times[left] - time, time, obstacles)
        return bool((distance >= _needed(distance[0], margin, self.outline.scale)).all())

    def evaluate(self, curve: Curve, x: np.ndarray, command: tuple[float, float], first: tuple[float, float] | None, time: float,
                 obstacles: Obstacles, margin: float, max_braking: float = math.inf, sight: bool = True,
                 trust: GripMargin = CONSERVATIVE) -> Stop:
        """Evaluates the stop along a curve.

        Args:
            x: the prediction model's state (nx,); command: steering and pedal in force; time: [s], on the time scale of the obstacles.
            first: steering and pedal of a period before it begins; None: it begins now.
            margin: to keep [m]; max_braking: available deceleration [m/s^2]; sight: occluded places do not count as free.
        """
        circles = np.column_stack([obstacles.centres, obstacles.velocities, obstacles.radii, obstacles.brakes,
                                   obstacles.turn_rates])
        later = time - obstacles.time if len(circles) else 0.0
        _, (clearance, free, speed, blind) = self._driven(curve, x, command, first, max_braking, trust, circles, later, margin, sight)
        return Stop(curve, clearance, free > 0.0 and blind <= self.outline.scale * MAX_BLIND_SPEED, speed, blind, trust)

    def driven(self, curve: Curve, x: np.ndarray, command: tuple[float, float], first: tuple[float, float] | None,
               max_braking: float = math.inf, trust: GripMargin = CONSERVATIVE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns times (n,) [s], poses (n, 3) and speeds (n,) of the vehicle under the law until it stands. Arguments as in `evaluate`."""
        rows, _ = self._driven(curve, x, command, first, max_braking, trust, np.empty((0, 8)))
        return rows[:, 0], rows[:, 1:4], rows[:, 4]

    def planned(self, curve: Curve, x: np.ndarray, command: tuple[float, float], time: float, max_braking: float,
                trust: GripMargin) -> Plan:
        """Returns the plan of a stop that begins at `time` [s], with a short standstill at its end: x, y, yaw and vx. Arguments as in
        `evaluate`."""
        rows, _ = self._driven(curve, x, command, None, max_braking, trust, np.empty((0, 8)))
        stands = rows[-1:] * [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0] + [STANDS, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        rows = np.concatenate([rows, stands])
        steering, pedal = rows[:, 5:].T
        return Plan(PLANNED, time + rows[:, 0], rows[:, 1:5], np.column_stack([steering, np.maximum(pedal, 0.0), np.maximum(-pedal, 0.0)]))

    def _driven(self, curve: Curve, x: np.ndarray, command: tuple[float, float], first: tuple[float, float] | None, max_braking: float,
                trust: GripMargin, circles: np.ndarray, later: float = 0.0, margin: float = 0.0, sight: bool = False,
                ) -> tuple[np.ndarray, list[float]]:
        """Returns the rows of `braking.drive` and the result of `braking.judge`, by one compiled call."""
        table = np.empty((len(curve.places), 5))
        table[:, :4], table[:, 4] = curve.places, trust.circle * self._peak(curve.x, curve.y, curve.course)
        state, in_force = np.array(x, dtype=float), np.array(command, dtype=float)
        begin = np.array([self._settings.period, *first] if first is not None else [0.0, 0.0, 0.0])
        limits = np.array([-max_braking / self.braked.full_brake, self._step, later, margin, sight])
        inputs, rows, result = np.empty((2, 3)), np.empty((MAX_TICKS, 7)), np.empty(4)
        count = self._drive(self._advance, *(a.ctypes.data for a in (self._constants[trust], self._numbers, table)), len(table),
                            *(a.ctypes.data for a in (in_force, begin, limits, self._places, state)), len(state),
                            *(a.ctypes.data for a in (inputs[0], inputs[1], rows, circles)), len(circles), result.ctypes.data)
        return rows[:count], result.tolist()

    def command(self, curve: Curve, x: np.ndarray, trust: GripMargin = CONSERVATIVE) -> tuple[float, float]:
        """Returns steering and pedal that stop the vehicle in a state (nx,) along a curve."""
        px, py, yaw, vx = (float(x[k]) for k in (*self._pose, self._vx))
        i = curve.nearest(px, py)
        bend = curve.curvature[min(i + round(STEERING_PREVIEW * max(vx, 0.0) / curve.spacing), len(curve.s) - 1)]
        cx, cy, course = float(curve.x[i]), float(curve.y[i]), float(curve.course[i])
        return law(braking, self.braked, course, float(curve.curvature[i]), cx, cy, float(bend), px, py, yaw, vx, float(x[self._ay]),
                   trust.circle * float(self._peak(cx, cy, course)[0]))

    def occluded_sides(self, x: np.ndarray, y: np.ndarray, yaw: np.ndarray, ahead: float, viewpoint: Sequence[float],
                     obstacles: Obstacles) -> np.ndarray:
        """Marks the right and the left side of the vehicle, `ahead` [m] of its position point, at poses x, y [m], yaw [rad], each (n,),
        that are occluded from the LIDAR of the vehicle at the pose `viewpoint` (2, n)."""
        sensor, half, c, t = self._lidar.place(*viewpoint), self.outline.half_width, np.cos(yaw), np.sin(yaw)
        centres = obstacles.centres - sensor
        sides = np.concatenate([np.column_stack([x + ahead * c - side * t, y + ahead * t + side * c]) for side in (-half, half)])
        return occluded(sides - sensor, centres, obstacles.radii).reshape(2, len(x))

    def distances(self, poses: np.ndarray, times: np.ndarray, time: float, obstacles: Obstacles, growth: float | None = None) -> np.ndarray:
        """Returns distances (n, m) from the vehicle's outline at poses (n, 3), at `times` from `time` on, to each near obstacle; for moving
        ones less their uncertainty, `growth` [m/s], by default that of the settings."""
        n, growth = len(times), self._settings.obstacle_growth if growth is None else growth
        x, y, yaw = poses.T
        far = np.hypot(obstacles.centres[:, 0] - x[0], obstacles.centres[:, 1] - y[0]) - obstacles.radii
        moving = obstacles.moving
        length = float(np.hypot(np.diff(x), np.diff(y)).sum())
        near = (far < length + self.outline.front + self.outline.rear) | moving
        found = obstacles.where(near)
        if not len(found.radii):
            return np.full((n, 1), math.inf)
        away = found.centres + found.shifts((time - obstacles.time) + times) - poses[:, None, :2]
        distance = outline_distance(self.outline, away[..., 0], away[..., 1], yaw[:, None])
        left: np.ndarray = distance - found.radii - growth * moving[near] * times[:, None]
        return left

    def best(self, curves: list[Curve], x: np.ndarray, command: tuple[float, float], time: float, obstacles: Obstacles,
             margin: float, until: float = math.inf) -> Stop:
        """Returns a free stop along a curve or beside it, on nominal tyres, or the one with the mildest collision: if no conservative stop
        is free. Evaluates candidates until `until` [s], by time.perf_counter()."""
        found: Stop | None = None
        scale = self.outline.scale
        length = max(SHIFT_TIME_AND_LENGTH[0] * float(x[self._vx]), scale * SHIFT_TIME_AND_LENGTH[1])
        begins = [float(curve.s[curve.nearest(float(x[self._pose[0]]), float(x[self._pose[1]]))]) for curve in curves]
        for side in LATERAL_SHIFTS:
            for curve, begin in zip(curves, begins):
                if found is not None and perf_counter() > until:
                    return found
                candidate = curve.shifted(scale * side, begin, length) if side else curve
                stop = self.evaluate(candidate, x, command, None, time, obstacles, margin, trust=NOMINAL)
                if stop.free:
                    return stop
                if found is None or (stop.speed, stop.blind, -stop.clearance) < (found.speed, found.blind, -found.clearance):
                    found = stop
        assert found is not None
        return found


def outline_distance(outline: Footprint, dx: np.ndarray, dy: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """Returns distances from the vehicle's outline, turned by yaw [rad], to points dx, dy [m] from its position point, below 0 inside
    [m]."""
    o, c, t = outline, np.cos(yaw), np.sin(yaw)
    qx = np.abs(c * dx + t * dy - 0.5 * (o.front - o.rear)) - 0.5 * (o.front + o.rear)
    qy = np.abs(c * dy - t * dx) - o.half_width
    distance: np.ndarray = np.hypot(np.maximum(qx, 0.0), np.maximum(qy, 0.0)) + np.minimum(np.maximum(qx, qy), 0.0)
    return distance


def _needed(here: np.ndarray, margin: float, scale: float) -> np.ndarray:
    """Returns `braking.needed` of distances (m,) [m] for a vehicle of a scale."""
    tolerance = scale * APPROACH_TOLERANCE
    return np.minimum(margin, np.where(here > 0.0, np.maximum(here - tolerance, 0.0), here - tolerance))
