"""Vectors of three scalars, for equations in space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lfdm_ros.models.equations import Operations, Scalar


@dataclass(frozen=True)
class Vector:
    """Components along the axes of a frame. Multiply a scalar from the right: `v * 2.0`, since scalars of a graph do not accept vectors."""

    x: Scalar
    y: Scalar
    z: Scalar

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self.x - other.x, self.y - other.y, self.z - other.z)

    def __neg__(self) -> Vector:
        return Vector(-self.x, -self.y, -self.z)

    def __mul__(self, scalar: Scalar) -> Vector:
        return Vector(self.x * scalar, self.y * scalar, self.z * scalar)

    def dot(self, other: Vector) -> Scalar:
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vector) -> Vector:
        return Vector(self.y * other.z - self.z * other.y, self.z * other.x - self.x * other.z, self.x * other.y - self.y * other.x)

    @property
    def squared(self) -> Scalar:
        """Square of the length."""
        return self.dot(self)

    @property
    def components(self) -> tuple[Scalar, Scalar, Scalar]:
        return self.x, self.y, self.z


ZERO = Vector(0.0, 0.0, 0.0)
X, Y, Z = Vector(1.0, 0.0, 0.0), Vector(0.0, 1.0, 0.0), Vector(0.0, 0.0, 1.0)


def vector_of(p: Any, name: str) -> Vector:
    """Returns the vector that a record has as NAME_x, NAME_y, NAME_z."""
    return Vector(*(getattr(p, f"{name}_{axis}") for axis in "xyz"))


def unit(m: Operations, v: Vector) -> Vector:
    """Returns the direction of a vector that is not 0."""
    direction: Vector = v * (1.0 / m.sqrt(v.squared))
    return direction


def turned(v: Vector, axis: Vector, c: Scalar, s: Scalar) -> Vector:
    """Turns a vector after a rotation about a unit vector by the angle with this cosine and sine (Rodrigues)."""
    after: Vector = v * c + axis.cross(v) * s + axis * (axis.dot(v) * (1.0 - c))
    return after


@dataclass(frozen=True)
class Basis:
    """The axes of a body, as vectors of another frame."""

    x: Vector
    y: Vector
    z: Vector

    def out(self, v: Vector) -> Vector:
        """Returns a vector with components along these axes, in the other frame."""
        outside: Vector = self.x * v.x + self.y * v.y + self.z * v.z
        return outside

    def into(self, v: Vector) -> Vector:
        """Returns a vector of the other frame, by components along these axes."""
        return Vector(self.x.dot(v), self.y.dot(v), self.z.dot(v))
