"""Body of a vehicle outside its equations: outline, sensor mounts, actuators, mass, and steady-state handling.

Shared by simulator, collision checks, LIDAR, tracker and controller. Files give lengths from the axles, which are measurable and
independent of the load; here they are from the vehicle's position point, the centre of the sprung mass.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lfdm_ros.errors import InputError, quote
from lfdm_ros.models import Field

SECTIONS: dict[str, tuple[Field, ...]] = {
    "body": (
        Field("front_overhang", "m", "from the front axle to the vehicle's front end", "", 0.0, 20.0),
        Field("rear_overhang", "m", "from the rear axle to the vehicle's rear end", "", 0.0, 20.0),
        Field("overall_width", "m", "width over all, without mirrors", "", 0.01, 10.0)),
    "sensors": (
        Field("lidar_x", "m", "position of the LIDAR, ahead of the front axle", "", -20.0, 20.0),
        Field("lidar_y", "m", "position of the LIDAR, left of the centreline", "", -20.0, 20.0),
        Field("lidar_yaw", "rad", "yaw of the LIDAR relative to the vehicle, + left", "", -math.pi, math.pi),
        Field("lidar_z", "m", "height of the LIDAR above the ground", "", 0.0, 20.0),
        Field("lidar_noise", "m", "standard deviation of the LIDAR's ranges", "", 1e-4, 10.0),
        Field("imu_x", "m", "position of the IMU, ahead of the front axle", "", -20.0, 20.0),
        Field("imu_y", "m", "position of the IMU, left of the centreline", "", -20.0, 20.0),
        Field("imu_z", "m", "height of the IMU above the ground", "", 0.0, 20.0)),
    "actuators": (
        Field("actuation_delay", "s", "from a command to its effect", "", 0.0, 2.0),
        Field("steering_lag", "s", "time constant of the steering actuator", "", 0.0, 2.0),
        Field("steering_rate", "1/s", "maximum steering rate, as fraction of full lock", "", 0.04, 100.0),
        Field("throttle_rate", "1/s", "maximum rate of the throttle actuator", "", 0.01, 1000.0),
        Field("brake_rate", "1/s", "maximum rate of the brake actuator", "", 0.01, 1000.0)),
}
PARAMETERS: dict[str, Field] = {f.name: f for fields in SECTIONS.values() for f in fields}

# Node parameters and controller settings that moved to the vehicle file, with their names there.
MOVED = {"vehicle_front": "front_overhang", "vehicle_rear": "rear_overhang", "vehicle_width": "overall_width",
         **{name: name for name in ("lidar_x", "lidar_y", "lidar_yaw", "actuation_delay", "steering_lag", "steering_rate")}}

# Default body, typical of road vehicles: length 1.6 wheelbases, width 1.2 tracks or else 2/3 of the wheelbase.
OVERHANG, WIDER, WIDE = 0.3, 1.2, 2.0 / 3.0
RULE = "overhangs of 0.3 wheelbases, and 1.2 times as wide as the track or else two thirds of the wheelbase"
STEERING_RATE = 0.8  # [1/s] default: full lock in 1.25 s
FULL_LENGTH = 4.0  # [m] of a full-size vehicle, at least


def moved(name: str, override: str = "vehicle_changes: [{}=VALUE]") -> str:
    """Returns the new location of one of MOVED, for a message; `override`: how to set it for one run."""
    section = next(section for section, fields in SECTIONS.items() if name in {f.name for f in fields})
    return f"it is of the vehicle now: {section}.{name} in its file ({PARAMETERS[name].description}), or {override.format(name)}"


@dataclass(frozen=True)
class Footprint:
    """Rectangular outline from above: distances of its sides from the position point [m], positive. Raises InputError: one is not finite or
    not positive."""

    front: float
    rear: float
    half_width: float

    def __post_init__(self) -> None:
        for name in ("front", "rear", "half_width"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise InputError(f"footprint: {name} is {quote(value)}; give a finite number")
        if min(self.front, self.rear, self.half_width) <= 0.0:
            raise InputError("front, rear and half_width of a footprint must be more than 0")

    @property
    def scale(self) -> float:
        """Size against a full-size vehicle, 1 for a length of 4 m or more: factor on lengths and speeds of controller and tracker."""
        return min(1.0, (self.front + self.rear) / FULL_LENGTH)


@dataclass(frozen=True)
class Mount:
    """Pose of a sensor in the vehicle's axes: x ahead of the position point, y to its left, z above the ground [m], yaw, + left, and then
    pitch, + nose down [rad]."""

    x: float = 0.0
    y: float = 0.0
    yaw: float = 0.0
    z: float = 0.0
    pitch: float = 0.0

    def place(self, x: float, y: float, yaw: float) -> np.ndarray:
        """Returns the place (2,) [m] of the sensor on a vehicle at x, y [m], yaw [rad]."""
        c, s = math.cos(yaw), math.sin(yaw)
        return np.array([x + self.x * c - self.y * s, y + self.x * s + self.y * c])


@dataclass(frozen=True)
class Actuators:
    """Actuator dynamics: common delay [s], steering lag [s], maximum rates [1/s]; inf: unlimited."""

    delay: float = 0.0
    steering_lag: float = 0.0
    steering_rate: float = math.inf
    throttle_rate: float = math.inf
    brake_rate: float = math.inf


@dataclass(frozen=True)
class Description:
    """Constants of a vehicle for external controllers, as in `VehicleDescription.msg`; NaN: unknown.

    mass [kg]; wheelbase, distances of the front and rear axle from the position point, tracks, unloaded wheel_radius [m]; full_lock: angle
    of the front wheels at steering input 1 [rad].
    """

    vehicle: str
    mass: float
    wheelbase: float
    front_axle: float
    rear_axle: float
    track_front: float
    track_rear: float
    wheel_radius: float
    full_lock: float
    outline: Footprint
    actuators: Actuators


def mass_of(p: Mapping[str, float]) -> float:
    """Returns the mass of the whole vehicle [kg]; 0 if unknown."""
    return sum(p.get(name, 0.0) for name in ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "mass"))


def cornering_compliance(p: Mapping[str, float]) -> tuple[float, float]:
    """Returns the slip angle per lateral force of front and rear axle [rad/N]; 0 if unknown."""
    front, rear = (1.0 / max(2.0 * p.get(f"cornering_stiffness_{axle}", math.inf), 1.0) for axle in ("front", "rear"))
    return front, rear


def understeer_gradient(p: Mapping[str, float]) -> float:
    """Returns the understeer gradient: road-wheel angle beyond Ackermann per lateral acceleration [rad s^2/m]; negative: oversteer."""
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    front, rear = cornering_compliance(p)
    return mass_of(p) / (a + b) * (b * front - a * rear)
