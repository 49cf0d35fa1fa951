"""Linkages that move the tie rods' inner joints of the front axle: a pitman arm with a link, or a rack.

Both have one coordinate, the displacement s of the link to the left [m], so that they stand in the same slot. A pitman arm of length l
that turns about z of a tilted frame, with an idler arm beside it, is a parallelogram: the link is shifted by the arm's angle phi and does
not turn:

    (1) sin phi = s / l,  shift = l (cos phi - 1, sin phi, 0) in the frame
    (2) shift' = (-tan phi, 1, 0),  shift'' = (-1 / (l cos^3 phi), 0, 0),  phi' = 1 / (l cos phi),  phi'' = tan phi phi'^2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lfdm_ros.models.declaration import Field, Part, vector_fields
from lfdm_ros.models.equations import Operations, Record, Scalar
from lfdm_ros.models.rigid_body import Body, Column, principal
from lfdm_ros.models.vectors import Basis, Vector, X, Y, Z, turned, vector_of

SERVO = (
    Field("steering_stiffness", "N/m", "stiffness of the steering from the driver's hands to the link's displacement", "", 0.0, 1e9, True),
    Field("steering_damping", "N*s/m", "damping of the same", "", 0.0, 1e8),
)
_FROM = "from the middle of the front axle's lower pivots"


@dataclass(frozen=True)
class Shift:
    """Displacement of the tie rods' inner joints, and its first and second derivative by the coordinate."""

    displacement: Vector
    slope: Vector
    curvature: Vector


class Linkage(Protocol):
    """A linkage from the coordinate s to the tie rods."""

    def prepare(self, p: Any, origin: Vector) -> Record:
        """Computes what depends on the parameters alone; has `stiffness`, `damping` and `mass`, of all parts that move with the link."""

    def commanded(self, steering: Scalar, q: Record) -> Scalar:
        """Returns the displacement commanded by the driver [m]."""

    def shift(self, s: Scalar, q: Record) -> Shift:
        """Returns the displacement of the tie rods' inner joints, and its derivatives by s."""

    def bodies(self, s: Scalar, rate: Scalar, q: Record) -> Sequence[tuple[Body, Column]]:
        """Returns the bodies that move with it, as they are while s does not accelerate, and their motion with it."""


class PitmanArm:
    """A pitman arm, an idler arm and a link between them."""

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, p: Any, origin: Vector) -> Record:
        c, s = self._m.cos(p.pitman_arm_tilt), self._m.sin(p.pitman_arm_tilt)
        frame = Basis(X * c - Z * s, Y, X * s + Z * c)
        return Record(frame=frame, length=p.pitman_arm_length, lock=p.pitman_arm_length * self._m.sin(p.pitman_arm_lock),
                      pivot=origin + vector_of(p, "pitman_arm_pivot"), arm_centre=p.pitman_arm_centre, arm_mass=p.pitman_arm_mass,
                      arm_inertia=vector_of(p, "pitman_arm_inertia"), link=origin + vector_of(p, "steering_link_centre"),
                      link_mass=p.steering_link_mass, link_inertia=vector_of(p, "steering_link_inertia"),
                      mass=p.pitman_arm_mass + p.steering_link_mass, stiffness=p.steering_stiffness, damping=p.steering_damping)

    def commanded(self, steering: Scalar, q: Record) -> Scalar:
        return steering * q.lock

    def shift(self, s: Scalar, q: Record) -> Shift:
        along = self._m.sqrt(q.length * q.length - s * s)  # l cos phi
        per = 1.0 / along
        out = q.frame.out
        return Shift(out(Vector(along - q.length, s, 0.0)), out(Vector(-s * per, 1.0, 0.0)),
                     out(Vector(-q.length * q.length * per * per * per, 0.0, 0.0)))

    def bodies(self, s: Scalar, rate: Scalar, q: Record) -> Sequence[tuple[Body, Column]]:
        shift = self.shift(s, q)
        link = Body(q.link_mass, q.link + shift.displacement, principal(q.link_inertia, q.frame), shift.slope * rate,
                    acceleration=shift.curvature * (rate * rate))
        along = self._m.sqrt(q.length * q.length - s * s)
        axis, per = q.frame.z, 1.0 / along
        cos, sin = along / q.length, s / q.length
        axes = Basis(turned(q.frame.x, axis, cos, sin), turned(q.frame.y, axis, cos, sin), axis)
        to_centre = axes.x * q.arm_centre
        turning, swing = axis * per, axis.cross(to_centre)
        w = rate * per
        acceleration = s * per * w * w  # phi'' s'^2
        arm = Body(q.arm_mass, q.pivot + to_centre, principal(q.arm_inertia, axes), swing * w, axis * w,
                   swing * acceleration - to_centre * (w * w), axis * acceleration)
        return (link, Column(shift.slope)), (arm, Column(swing * per, turning))


class Rack:
    """A rack that slides to either side."""

    def __init__(self, m: Operations):
        pass

    def prepare(self, p: Any, origin: Vector) -> Record:
        return Record(lock=p.rack_travel, mass=p.rack_mass, centre=origin + vector_of(p, "rack_centre"),
                      inertia=vector_of(p, "rack_inertia"), stiffness=p.steering_stiffness, damping=p.steering_damping)

    def commanded(self, steering: Scalar, q: Record) -> Scalar:
        return steering * q.lock

    def shift(self, s: Scalar, q: Record) -> Shift:
        return Shift(Y * s, Y, Y * 0.0)

    def bodies(self, s: Scalar, rate: Scalar, q: Record) -> Sequence[tuple[Body, Column]]:
        return ((Body(q.mass, q.centre + Y * s, principal(q.inertia, Basis(X, Y, Z)), Y * rate), Column(Y)),)


PITMAN_ARM = Part("pitman_arm", "steering by a pitman arm, an idler arm and a link between them", (
    Field("pitman_arm_length", "m", "pitman arm, from its pivot to the link", "", 0.0, 2.0, True),
    Field("pitman_arm_lock", "rad", "pitman arm, angle at steering 1, + to the left", "", -1.5, 1.5, True),
    Field("pitman_arm_tilt", "rad", "pitman arm, its axis against the vertical, + forward at the top", "", -1.5, 1.5, True),
    *vector_fields("pitman_arm_pivot", "m", f"pitman arm, its pivot {_FROM}"),
    Field("pitman_arm_mass", "kg", "mass of the pitman arm", "", 0.0, 1e3),
    Field("pitman_arm_centre", "m", "pitman arm, its mass centre from the pivot", "", 0.0, 2.0),
    *vector_fields("pitman_arm_inertia", "kg*m^2", "pitman arm, principal moments of inertia along it, across it and about its axis",
                   0.0, 1e3),
    Field("steering_link_mass", "kg", "mass of the link between pitman arm and idler arm", "", 0.0, 1e3),
    *vector_fields("steering_link_centre", "m", f"link between pitman arm and idler arm, its mass centre {_FROM}"),
    *vector_fields("steering_link_inertia", "kg*m^2", "link between pitman arm and idler arm, principal moments of inertia in the arm's "
                   "frame", 0.0, 1e3),
    *SERVO), PitmanArm)
RACK = Part("rack", "steering by a rack", (
    Field("rack_travel", "m", "displacement of the rack at steering 1, + to the left", "", -1.0, 1.0, True),
    Field("rack_mass", "kg", "mass of the rack", "", 0.0, 1e3),
    *vector_fields("rack_centre", "m", f"rack, its mass centre {_FROM}"),
    *vector_fields("rack_inertia", "kg*m^2", "rack, moments of inertia", 0.0, 1e3),
    *SERVO), Rack)
VECTORS = ("pitman_arm_pivot", "pitman_arm_inertia", "steering_link_centre", "steering_link_inertia", "rack_centre", "rack_inertia")
