"""Kinematics of a vehicle's suspension over its travel, limits of its linkage, and the vehicle at rest on it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from lfdm_ros.backends import ARRAYS, casadi_model
from lfdm_ros.errors import InputError
from lfdm_ros.models import AXLES, SLOTS
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.vectors import ZERO, Vector, Z
from lfdm_ros.simulation.equilibrium import equilibrium
from lfdm_ros.simulation.simulator import initial_state
from lfdm_ros.vehicles import Vehicle

MODEL = "multibody_hmmwv"
_GRID, _MAX_ANGLE = 2e-3, 1.5  # [rad] step and limit of the lower arm's angle in the search for the ends of the travel
_ENDS = ("upper arm", "tie rod")


@dataclass(frozen=True)
class Travel:
    """Left wheel over its travel, + up from the construction pose: arrays (n,).

    travel, dx, dy: shift of its centre up, forward and outwards [m]; camber, toe_in [rad] as in ISO 8855; motion_ratio: change of the
    spring's length per travel; force: of spring and stops at the wheel [N]; angle: of the lower arm [rad].
    """

    travel: np.ndarray
    dx: np.ndarray
    dy: np.ndarray
    camber: np.ndarray
    toe_in: np.ndarray
    motion_ratio: np.ndarray
    force: np.ndarray
    angle: np.ndarray


@dataclass(frozen=True)
class Reach:
    """Range of the travel of an axle [m], its limiting part below and above, and travels at which the stops begin [m]."""

    lowest: float
    highest: float
    below: str
    above: str
    rebound_stop: float
    bump_stop: float


@dataclass(frozen=True)
class Instant:
    """Instantaneous kinematics of a wheel.

    roll_centre: height above the ground [m], where the normal of the contact point's path meets the vehicle's centreplane; braked, driven:
    forward motion per upward motion [1], of the contact point of a wheel braked against the upright, and of the centre of a wheel driven
    from the body.
    """

    roll_centre: float
    braked: float
    driven: float


class Suspension:
    """The suspension of a vehicle with struts and a steering linkage, at any travel."""

    def __init__(self, vehicle: Vehicle):
        """Raises InputError: the vehicle has no points of a suspension."""
        parts = {slot: vehicle.parts(slot) for slot in ("suspension", "struts", "steering_linkage")}
        for slot, names in parts.items():
            if not names:
                kinds = ", ".join(SLOTS[slot])
                raise InputError(f"vehicle '{vehicle.name}' has no {slot.replace('_', ' ')} to check ({kinds}); hmmwv_multibody has")
        self.vehicle, self._p = vehicle, SimpleNamespace(**vehicle.parameters)
        self._kinematics, self._struts, self._linkage = (SLOTS[slot][names[0]].build(ARRAYS) for slot, names in parts.items())
        self._corners = {axle: self._kinematics.prepare(self._p, axle, True, ZERO) for axle in AXLES}
        self._springs = {axle: self._struts.prepare(self._p, axle, True, ZERO) for axle in AXLES}

    def _at(self, axle: str, angle: Any) -> tuple[Any, Any, Any]:
        """Computes pose, rates by the angle, and strut; NaN out of reach."""
        q, cos, sin = self._corners[axle], np.cos(angle), np.sin(angle)
        with np.errstate(invalid="ignore"):
            pose = self._kinematics.pose(q, cos, sin, ZERO)
            return pose, self._kinematics.rates(q, pose, ZERO)[0], self._struts.strut(self._springs[axle], q, cos, sin)

    def of_angle(self, axle: str, angle: Any) -> Travel:
        """Computes the poses at these angles [rad] of the lower arm."""
        angle = np.atleast_1d(np.asarray(angle, float))
        pose, rates, strut = self._at(axle, angle)
        first = self._at(axle, 0.0)[0].wheel
        lift = rates.on_upright(pose, pose.wheel).z
        axis, spring = pose.axis, self._springs[axle]
        return Travel(pose.wheel.z - first.z, pose.wheel.x - first.x, pose.wheel.y - first.y,
                      np.arctan2(-axis.z, np.hypot(axis.x, axis.y)), np.arctan2(axis.x, axis.y), -strut.spring_slope / lift,
                      self._struts.spring_force(spring, strut.spring) * -strut.spring_slope / lift, angle)

    def of_travel(self, axle: str, travel: Sequence[float] | np.ndarray) -> Travel:
        """Computes the poses at these travels [m], which must be within reach."""
        travels = np.asarray(travel, float)
        grid = self._grid(axle)
        angle = np.interp(travels, self.of_angle(axle, grid).travel, grid)
        for _ in range(8):  # Newton's method from an interpolation, to rounding
            pose, rates, _ = self._at(axle, angle)
            angle = angle - (self.of_angle(axle, angle).travel - travels) / rates.on_upright(pose, pose.wheel).z
        return self.of_angle(axle, angle)

    def _grid(self, axle: str) -> np.ndarray:
        """Returns angles from the lowest to the highest pose around the construction pose, with increasing travel."""
        grid = np.arange(-round(_MAX_ANGLE / _GRID), round(_MAX_ANGLE / _GRID) + 1) * _GRID
        pose, rates, _ = self._at(axle, grid)
        with np.errstate(invalid="ignore"):
            good = np.isfinite(pose.wheel.z) & (rates.on_upright(pose, pose.wheel).z > 0.0)
        middle = len(grid) // 2
        below, above = np.flatnonzero(~good[:middle]), np.flatnonzero(~good[middle:])
        return grid[below[-1] + 1 if len(below) else 0:middle + above[0] if len(above) else len(grid)]

    def reach(self, axle: str) -> Reach:
        """Computes the range of travel of an axle with straight steering."""
        grid = self._grid(axle)
        at = self.of_angle(axle, grid)

        def end(angle: float) -> str:
            margins = self._at(axle, angle)[0].reach
            return _ENDS[int(margins[0] > margins[1])] if min(margins) < 0.0 else "the wheel's path turns back"

        lengths = np.asarray(self._at(axle, grid)[2].spring)[::-1]
        spring = self._springs[axle]
        stops = np.interp([spring.rebound_stop_length, spring.bump_stop_length], lengths, at.travel[::-1])
        return Reach(float(at.travel[0]), float(at.travel[-1]), end(grid[0] - _GRID), end(grid[-1] + _GRID), *map(float, stops))

    def steered(self, steering: float) -> tuple[float, float]:
        """Computes the angles of the left and right front wheel [rad], + left, at a steering input, in the construction pose; NaN out of
        reach."""
        q = self._linkage.prepare(self._p, ZERO)
        shift: Vector = self._linkage.shift(self._linkage.commanded(steering, q), q).displacement
        with np.errstate(invalid="ignore"):
            axes = [self._kinematics.pose(self._kinematics.prepare(self._p, "front", left, ZERO), 1.0, 0.0, shift).axis
                    for left in (True, False)]
        left, right = (float(np.arctan2(-axis.x, axis.y)) for axis in axes)
        return left, right

    def instant(self, axle: str, angle: float, radius: float) -> Instant:
        """Computes the kinematics of the left wheel at an angle of the lower arm [rad]; radius: loaded, in the wheel's plane [m]."""
        pose, rates, _ = self._at(axle, angle)
        axis = pose.axis
        lean = axis.z
        contact = pose.wheel + (axis * lean - Z) * (radius / np.sqrt(1.0 - lean * lean))
        patch, centre = (rates.on_upright(pose, point) for point in (contact, pose.wheel))
        return Instant(float(contact.y * patch.y / patch.z), float(patch.x / patch.z), float(centre.x / centre.z))

    def _support(self, axle: str, instant: Instant, height: float) -> dict[str, float]:
        """Computes the roll centre height, and the shares [%] of the load transfer by braking and drive that the linkage carries."""
        p = self.vehicle.parameters
        lever = 100.0 * (p["cg_to_front_axle"] + p["cg_to_rear_axle"]) / height
        braked = p[f"brake_torque_{axle}"] / max(p["brake_torque_front"] + p["brake_torque_rear"], 1e-12)
        front = p.get("front_drive_share", 0.5)
        sense, driven = (1.0, front) if axle == "front" else (-1.0, 1.0 - front)
        return {"roll_centre_height_m": instant.roll_centre,
                "anti_dive_percent" if axle == "front" else "anti_lift_braking_percent": sense * braked * instant.braked * lever,
                "anti_lift_driving_percent" if axle == "front" else "anti_squat_percent": sense * driven * instant.driven * lever}

    def standing(self) -> dict[str, Any]:
        """Returns the vehicle at rest: height of its centre of gravity, pitch, and for each axle (left wheel) the figures of
        `lfdm vehicle check`. Raises InputError: no equilibrium, or missing parameters of the multibody."""
        model = self.vehicle.model(MODEL)
        state, axles = equilibrium(model, self.vehicle), {}
        values = initial_state(model, self.vehicle)
        loads = np.array(casadi_model(model).wheel_loads(values, np.zeros(len(model.inputs)), self.vehicle.vector(model))).ravel()
        for axle, wheels in AXLES.items():
            at = self.of_angle(axle, state[f"arm_angle_{wheels[0]}"])
            near = self.of_travel(axle, at.travel + np.array([-1e-4, 1e-4]))
            rate = float(np.diff(near.force)[0] / 2e-4)
            load = float(loads[model.wheels.index(wheels[0])])
            sprung = load / GRAVITY - 0.5 * self.vehicle.parameters[f"unsprung_mass_{axle}"]
            axles[axle] = {"travel_mm": 1e3 * float(at.travel[0]), "camber_deg": math.degrees(at.camber[0]),
                           "toe_in_deg": math.degrees(at.toe_in[0]), "motion_ratio": float(at.motion_ratio[0]), "wheel_load_n": load,
                           "wheel_rate_n_per_m": rate, "ride_frequency_hz": math.sqrt(max(rate, 0.0) / sprung) / (2.0 * math.pi)}
            radius = self.vehicle.parameters["wheel_radius"] - load / self.vehicle.parameters[f"tyre_vertical_stiffness_{axle}"]
            axles[axle] |= self._support(axle, self.instant(axle, float(at.angle[0]), radius), state["z"])
        return {"cg_height_m": state["z"], "pitch_deg": math.degrees(state["pitch"]), **axles}

    def rows(self, axle: str, travels: Sequence[float]) -> list[dict[str, float]]:
        """Returns rows of the table for the `travels` [m] within reach."""
        reach = self.reach(axle)
        within = [travel for travel in travels if reach.lowest <= travel <= reach.highest]
        at = self.of_travel(axle, within)
        return [{"travel_mm": 1e3 * travel, "dy_mm": 1e3 * float(dy), "camber_deg": math.degrees(camber), "toe_in_deg": math.degrees(toe),
                 "motion_ratio": float(ratio), "track_mm": 2e3 * float(dy + self._corners[axle].wheel_centre.y), "dx_mm": 1e3 * float(dx)}
                for travel, dx, dy, camber, toe, ratio in zip(within, at.dx, at.dy, at.camber, at.toe_in, at.motion_ratio)]


def reach_in_mm(reach: Reach) -> dict[str, Any]:
    """Converts a reach to a dictionary in mm, for files."""
    return {f"{name}_mm" if isinstance(value, float) else name: 1e3 * value if isinstance(value, float) else value
            for name, value in asdict(reach).items()}
