"""The bodies of a multibody vehicle as engines for mechanisms have them: points, masses and inertias in the construction pose.

Part of `lfdm bench multibody` and of the multibody's test against MuJoCo.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from lfdm_ros.models import WHEELS
from lfdm_ros.models.double_wishbone import POINTS
from lfdm_ros.vehicles import Vehicle

ENDS = ("spring_upper", "spring_lower", "damper_upper", "damper_lower")


def possible(vehicle: Vehicle) -> Vehicle:
    """The vehicle with moments of inertia that a body can have: of no arm is one larger than the other two together.

    The published arms are a little beyond that, and MuJoCo refuses them; about their axes, where they turn, nothing changes.
    """
    p, changes = vehicle.parameters, dict[str, Any]()
    for axle in ("front", "rear"):
        for arm in ("lower_arm", "upper_arm"):
            stem = f"{arm}_inertia_{axle}"
            lacking = p[f"{stem}_z"] - p[f"{stem}_x"] - p[f"{stem}_y"]
            if lacking > 0.0:
                changes[f"{stem}_y"] = p[f"{stem}_y"] + 1.01 * lacking
    return vehicle.replace(source="", **changes)


class Points:
    """Of a vehicle in the construction pose, in the body's axes from the sprung mass's centre."""

    def __init__(self, vehicle: Vehicle):
        self.p = p = SimpleNamespace(**vehicle.parameters)
        height = -p.cg_above_pivots
        self.origins = {"front": np.array([p.cg_to_front_axle - p.wheel_centre_front_x, 0.0, height]),
                        "rear": np.array([-p.cg_to_rear_axle - p.wheel_centre_rear_x, 0.0, height])}
        self.of = {wheel: {name: self._point(name, wheel) for name in (*POINTS, *ENDS)} for wheel in WHEELS}
        c, s = np.cos(p.pitman_arm_tilt), np.sin(p.pitman_arm_tilt)
        self.tilt = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
        self.arm = self.origins["front"] + self.three("pitman_arm_pivot")
        self.link = self.origins["front"] + self.three("steering_link_centre")
        self.arm_end = self.arm + self.tilt[:, 0] * p.pitman_arm_length

    def three(self, name: str) -> np.ndarray:
        """A key of three numbers."""
        return np.array([getattr(self.p, f"{name}_{axis}") for axis in "xyz"])

    def _point(self, name: str, wheel: str) -> np.ndarray:
        axle = axle_of(wheel)
        return self.origins[axle] + np.array([1.0, side_of(wheel), 1.0]) * self.three(f"{name}_{axle}")

    def axis(self, arm: str, wheel: str) -> np.ndarray:
        """Of an arm: turning about it lifts the ball joint."""
        way = side_of(wheel) * (self.of[wheel][f"{arm}_fore"] - self.of[wheel][f"{arm}_aft"])
        return way / np.linalg.norm(way)

    def bodies(self) -> dict[str, tuple[float, np.ndarray, np.ndarray]]:
        """Mass, mass centre and inertia in the body's axes, by name."""
        p = self.p
        found = {"body": (p.sprung_mass, np.zeros(3), np.diag([p.roll_inertia, p.pitch_inertia, p.yaw_inertia]))}
        for wheel, at in self.of.items():
            axle = axle_of(wheel)
            for arm, ball_joint in (("lower_arm", "lower_ball_joint"), ("upper_arm", "upper_ball_joint")):
                axis, pivot = self.axis(arm, wheel), at[f"{arm}_fore"]
                normal = np.cross(axis, at[ball_joint] - pivot)
                normal /= np.linalg.norm(normal)
                axes = np.column_stack([axis, np.cross(normal, axis), normal])
                found[f"{arm}_{wheel}"] = (getattr(p, f"{arm}_mass_{axle}"), at[f"{arm}_centre"],
                                           axes @ np.diag(self.three(f"{arm}_inertia_{axle}")) @ axes.T)
            found[f"upright_{wheel}"] = (getattr(p, f"upright_mass_{axle}"), at["upright_centre"],
                                         np.diag(self.three(f"upright_inertia_{axle}")))
            steering = p.pitman_arm_mass + p.steering_link_mass if axle == "front" else 0.0
            mass = (0.5 * (getattr(p, f"unsprung_mass_{axle}") - steering)
                    - sum(found[f"{name}_{wheel}"][0] for name in ("lower_arm", "upper_arm", "upright")))
            across = p.wheel_transverse_inertia
            found[f"wheel_{wheel}"] = (mass, at["wheel_centre"], np.diag([across, p.wheel_inertia - p.axle_inertia, across]))
        found["arm"] = (p.pitman_arm_mass, self.arm + self.tilt[:, 0] * p.pitman_arm_centre,
                        self.tilt @ np.diag(self.three("pitman_arm_inertia")) @ self.tilt.T)
        found["link"] = (p.steering_link_mass, self.link, self.tilt @ np.diag(self.three("steering_link_inertia")) @ self.tilt.T)
        return found


def axle_of(wheel: str) -> str:
    """front or rear."""
    return "front" if wheel[0] == "f" else "rear"


def side_of(wheel: str) -> float:
    """1 on the left, -1 on the right."""
    return 1.0 if wheel[1] == "l" else -1.0
