"""The multibody vehicle as a model of MuJoCo, from the points and masses of the vehicle file: a second opinion, and a rival in speed.

Arms, uprights and wheels are a tree on the body; upper ball joints and the steering link's end are `connect` constraints, tie rods tendons
of fixed length. Springs and dampers are tendons too. Or every body is free, and all joints are constraints. Part of `lfdm bench multibody`
and of its test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np

from lfdm_lab.benchmarks import _bodies as bodies
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.vehicles import Vehicle

# Constraints as hard as steps of 1 ms bear: time constant [s] and damping ratio; share of the acceleration that they take.
STIFF: dict[str, Any] = {"solref": "0.002 1", "solimp": "0.9999 0.9999 0.001"}


def text(values: Iterable[float]) -> str:
    """Numbers as an attribute has them."""
    return " ".join(repr(float(value)) for value in values)


class Writer:
    """The document, body by body."""

    def __init__(self, points: Any, step: float, integrator: str):
        self.points, self.masses = points, points.bodies()
        self.root = Element("mujoco")
        SubElement(self.root, "option", timestep=repr(step), integrator=integrator, gravity=text([0.0, 0.0, -GRAVITY]), tolerance="1e-12",
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

    def tendon(self, name: str, one: tuple[str, np.ndarray], other: tuple[str, np.ndarray], **attributes: Any) -> None:
        """Between points of two bodies."""
        spatial = SubElement(self.tendons, "spatial", name=name, **attributes)
        for i, (body, place) in enumerate((one, other)):
            element, origin = self.elements[body]
            SubElement(element, "site", name=f"{name}_{i}", pos=text(place - origin))
            SubElement(spatial, "site", site=f"{name}_{i}")

    def connect(self, one: str, other: str, place: np.ndarray) -> None:
        """A point of two bodies stays together."""
        SubElement(self.equalities, "connect", body1=one, body2=other, anchor=text(place - self.elements[one][1]), **STIFF)

    def hold(self, one: str, other: str, places: Iterable[np.ndarray]) -> None:
        """Free bodies that turn on each other about the line through two points, or the point alone."""
        for place in places:
            self.connect(one, other, place)


def document(vehicle: Vehicle, step: float, *, integrator: str = "RK4", full: bool = False, passive: bool = False) -> str:
    """The model as MJCF.

    Args:
        step: [s].
        full: every body but the link is free, and all joints are constraints.
        passive: springs and dampers are linear ones of the engine, else actuators `spring_...`, `damper_...` whose control is the force.
    """
    points = bodies.Points(vehicle)
    p, writer = points.p, Writer(points, step, integrator)
    writer.body("body", "", np.zeros(3))
    SubElement(writer.elements["body"][0], "freejoint")

    def add(name: str, parent: str, place: np.ndarray, kind: str, axis: np.ndarray | None = None, armature: float = 0.0) -> None:
        writer.body(name, "" if full else parent, place)
        if not full:
            writer.joint(name, kind, axis, armature)
            return
        SubElement(writer.elements[name][0], "freejoint")
        along = axis if axis is not None else np.zeros(3)
        writer.hold(name, parent, [place] if axis is None else [place, place + 0.3 * along])

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
            attributes = dict[str, Any]()
            if passive:
                attributes = ({"stiffness": "5e5", "springlength": repr(float(getattr(p, f"spring_free_length_{bodies.axle_of(wheel)}")))}
                              if name == "spring" else {"damping": "2e4"})
            writer.tendon(f"{name}_{wheel}", ("body", at[f"{name}_upper"]), (f"lower_arm_{wheel}", at[f"{name}_lower"]), **attributes)
            if not passive:
                SubElement(writer.actuators, "motor", name=f"{name}_{wheel}", tendon=f"{name}_{wheel}")
    return tostring(writer.root, encoding="unicode")


def load(xml: str) -> tuple[Any, Any]:
    """The compiled model and its data."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(xml)
    return model, mujoco.MjData(model)
