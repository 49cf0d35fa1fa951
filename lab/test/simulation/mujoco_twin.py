"""The multibody vehicle as a model of MuJoCo, from the points and masses of the vehicle file: a second opinion for its test.

Arms, uprights and wheels are a tree on the body; upper ball joints and the steering link's end are `connect` constraints, tie rods tendons
of fixed length. Springs and dampers are tendons too.
"""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from lfdm_ros.models import WHEELS
from lfdm_ros.models.chassis import GRAVITY
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


# Constraints as hard as steps of 1 ms bear: time constant [s] and damping ratio; share of the acceleration that they take.
STIFF: dict[str, Any] = {"solref": "0.002 1", "solimp": "0.9999 0.9999 0.001"}


def text(values: Iterable[float]) -> str:
    """Numbers as an attribute has them."""
    return " ".join(repr(float(value)) for value in values)


class Writer:
    """The document, body by body."""

    def __init__(self, points: Any, step: float):
        self.points, self.masses = points, points.bodies()
        self.root = Element("mujoco")
        SubElement(self.root, "option", timestep=repr(step), integrator="RK4", gravity=text([0.0, 0.0, -GRAVITY]), tolerance="1e-12",
                   iterations="50")
        self.world = SubElement(self.root, "worldbody")
        self.tendons, self.equalities = SubElement(self.root, "tendon"), SubElement(self.root, "equality")
        self.actuators = SubElement(self.root, "actuator")
        self.elements: dict[str, tuple[Element, np.ndarray]] = {}

    def body(self, name: str, parent: str, place: np.ndarray) -> Element:
        """A body with its frame at `place`; axes as the vehicle's."""
        above, origin = self.elements.get(parent, (self.world, np.zeros(3)))
        element = SubElement(above, "body", name=name, pos=text(place - origin))
        mass, centre, inertia = self.masses[name]
        SubElement(element, "inertial", pos=text(centre - place), mass=repr(float(mass)),
                   fullinertia=text([*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]))
        self.elements[name] = element, place
        return element

    def joint(self, name: str, kind: str, axis: np.ndarray | None = None, armature: float = 0.0) -> None:
        """Of the body of this name, at its frame."""
        more: dict[str, Any] = {} if axis is None else {"axis": text(axis)}
        SubElement(self.elements[name][0], "joint", name=f"{name}_{kind}_{len(self.elements[name][0])}", type=kind,
                   armature=repr(float(armature)), **more)

    def tendon(self, name: str, one: tuple[str, np.ndarray], other: tuple[str, np.ndarray]) -> None:
        """Between points of two bodies."""
        spatial = SubElement(self.tendons, "spatial", name=name)
        for i, (body, place) in enumerate((one, other)):
            element, origin = self.elements[body]
            SubElement(element, "site", name=f"{name}_{i}", pos=text(place - origin))
            SubElement(spatial, "site", site=f"{name}_{i}")

    def connect(self, one: str, other: str, place: np.ndarray) -> None:
        """A point of two bodies stays together."""
        SubElement(self.equalities, "connect", body1=one, body2=other, anchor=text(place - self.elements[one][1]), **STIFF)


def document(vehicle: Vehicle, step: float) -> str:
    """The model as MJCF with a step [s]; the force of `spring_...`, `damper_...` is their control."""
    points = Points(vehicle)
    p, writer = points.p, Writer(points, step)
    writer.body("body", "", np.zeros(3))
    SubElement(writer.elements["body"][0], "freejoint")

    def add(name: str, parent: str, place: np.ndarray, kind: str, axis: np.ndarray | None = None, armature: float = 0.0) -> None:
        writer.body(name, parent, place)
        writer.joint(name, kind, axis, armature)

    for wheel, at in points.of.items():
        for arm in ("lower_arm", "upper_arm"):
            add(f"{arm}_{wheel}", "body", at[f"{arm}_fore"], "hinge", points.axis(arm, wheel))
        add(f"upright_{wheel}", f"lower_arm_{wheel}", at["lower_ball_joint"], "ball")
        add(f"wheel_{wheel}", f"upright_{wheel}", at["wheel_centre"], "hinge", np.array([0.0, 1.0, 0.0]), p.axle_inertia)
    add("arm", "body", points.arm, "hinge", points.tilt[:, 2])
    writer.body("link", "body", points.link)
    for axis in np.eye(3):  # a parallelogram's link does not turn
        writer.joint("link", "slide", axis)
    writer.connect("link", "arm", points.arm_end)
    for wheel, at in points.of.items():
        writer.connect(f"upright_{wheel}", f"upper_arm_{wheel}", at["upper_ball_joint"])
        inner = "link" if wheel[0] == "f" else "body"
        writer.tendon(f"rod_{wheel}", (f"upright_{wheel}", at["tie_rod_outer"]), (inner, at["tie_rod_inner"]))
        SubElement(writer.equalities, "tendon", tendon1=f"rod_{wheel}", **STIFF)
        for name in ("spring", "damper"):
            writer.tendon(f"{name}_{wheel}", ("body", at[f"{name}_upper"]), (f"lower_arm_{wheel}", at[f"{name}_lower"]))
            SubElement(writer.actuators, "motor", name=f"{name}_{wheel}", tendon=f"{name}_{wheel}")
    return tostring(writer.root, encoding="unicode")


def load(xml: str) -> tuple[Any, Any]:
    """The compiled model and its data."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(xml)
    return model, mujoco.MjData(model)
