"""Rigid bodies that move on a carrier, by velocity transformation: their share of M(q) q'' = Q (Jalon & Bayo 1994, ch. 5; Jain 2011).

The carrier has six coordinates, the velocity v of its origin and its angular velocity w in its own axes; a body on it follows them and
some coordinates more, by columns (v_j, w_j) of its mass centre's velocity and of its angular velocity relative to the carrier:

    (1) M_jk = m v_j.v_k + w_j.I w_k,  M_vj = m v_j,  M_wj = r x m v_j + I w_j,  M_vv, M_vw, M_ww: mass, first and second moments
    (2) a = w x (w x r) + 2 w x v_r + a_r,  e = w x w_r + e_r                           accelerations at q'' = 0, from the rates alone
    (3) f = m (a + base),  t = I e + (w + w_r) x I (w + w_r)                            base: w x v less gravity
    (4) Q_v -= f,  Q_w -= r x f + t,  Q_j -= v_j.f + w_j.t
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lfdm_ros.models.equations import Scalar
from lfdm_ros.models.vectors import ZERO, Basis, Vector, X, Y, Z

# Coordinates of a corner after the carrier's six: the steering linkage, the suspension's angle, the wheel's spin.
STEERING, ANGLE, SPIN = 6, 7, 8


@dataclass(frozen=True)
class Column:
    """Motion of a body with a coordinate: velocity of its mass centre and angular velocity relative to the carrier, for a unit of its
    rate."""

    velocity: Vector
    turning: Vector = ZERO


@dataclass(frozen=True)
class Body:
    """A body at an instant: where it is on the carrier, and how it moves there.

    inertia(w): its tensor about its mass centre times w; velocity, turning: relative to the carrier; acceleration, turning_acceleration:
    the same with coordinates that do not accelerate; spin: angular momentum of a rotor on it, relative to it.
    """

    mass: Scalar
    centre: Vector
    inertia: Callable[[Vector], Vector]
    velocity: Vector = ZERO
    turning: Vector = ZERO
    acceleration: Vector = ZERO
    turning_acceleration: Vector = ZERO
    spin: Vector = ZERO


def principal(moments: Vector, axes: Basis) -> Callable[[Vector], Vector]:
    """Returns the inertia of a body by its principal moments about these axes."""
    def of(w: Vector) -> Vector:
        inner = axes.into(w)
        return axes.out(Vector(moments.x * inner.x, moments.y * inner.y, moments.z * inner.z))
    return of


def tensor(inertia: Callable[[Vector], Vector]) -> Callable[[Vector], Vector]:
    """Returns the same inertia, its nine entries computed once."""
    axes = Basis(inertia(X), inertia(Y), inertia(Z))
    return axes.out


class System:
    """A symmetric system A q'' = b; of A the entries [i][k] with k <= i. The carrier's coordinates are 0 to 5."""

    def __init__(self, size: int):
        self.a: list[list[Scalar]] = [[0.0] * (i + 1) for i in range(size)]
        self.b: list[Scalar] = [0.0] * size

    def add(self, i: int, k: int, value: Scalar) -> None:
        if k > i:
            i, k = k, i
        self.a[i][k] = self.a[i][k] + value

    def push(self, columns: Sequence[Scalar], force: Scalar) -> None:
        """Adds a force along columns of velocities."""
        self.b = [b + column * force for b, column in zip(self.b, columns, strict=True)]

    def resist(self, columns: Sequence[Scalar], slope: Scalar) -> None:
        """Adds a force that falls by `slope` for a unit of acceleration along columns of velocities."""
        for i, one in enumerate(columns):
            along = slope * one
            for k in range(i + 1):
                self.a[i][k] = self.a[i][k] + along * columns[k]

    def carry(self, body: Body, columns: dict[int, Column], w: Vector, base: Vector) -> None:
        """Adds a body (1-4); columns: by their coordinates; w: angular velocity of the carrier, base: as in (3)."""
        mass, r = body.mass, body.centre
        first = r * mass
        for i, axis in enumerate((X, Y, Z)):
            self.add(i, i, mass)
            moment = first.cross(axis)  # of momentum along this axis
            turned = body.inertia(axis) + r.cross(axis.cross(first))
            for k, (of_velocity, of_turning) in enumerate(zip(moment.components, turned.components)):
                self.add(3 + k, i, of_velocity)
                if k <= i:
                    self.add(3 + i, 3 + k, of_turning)
        total = w + body.turning
        force = (w.cross(w.cross(r) + body.velocity * 2.0) + body.acceleration + base) * mass
        torque = (body.inertia(w.cross(body.turning) + body.turning_acceleration) + total.cross(body.inertia(total) + body.spin))
        for i, value in enumerate((*force.components, *(r.cross(force) + torque).components)):
            self.b[i] = self.b[i] - value
        momenta = {j: (column.velocity * mass, body.inertia(column.turning)) for j, column in columns.items()}
        for j, (momentum, angular) in momenta.items():
            for i, value in enumerate((*momentum.components, *(r.cross(momentum) + angular).components)):
                self.add(j, i, value)
            for k, column in columns.items():
                if k <= j:
                    self.add(j, k, momentum.dot(column.velocity) + angular.dot(column.turning))
            self.b[j] = self.b[j] - columns[j].velocity.dot(force) - columns[j].turning.dot(torque)

    def absorb(self, other: System) -> None:
        """Adds a system of the same coordinates."""
        self.b = [mine + its for mine, its in zip(self.b, other.b, strict=True)]
        self.a = [[mine + its for mine, its in zip(*rows, strict=True)] for rows in zip(self.a, other.a, strict=True)]

    # -- Solution: the last coordinate first (L D L' from the end) ----------------------------------------------------------------
    def eliminate(self) -> Eliminated:
        """Eliminates the last coordinate, and returns its dependence on the others."""
        return self.eliminate_as(self.b[-1] / self.a[-1][-1], 1.0 / self.a[-1][-1])

    def eliminate_as(self, acceleration: Scalar, mobility: Scalar) -> Eliminated:
        """Does the same for a coordinate with this acceleration where the others do not accelerate, and this compliance to them."""
        *row, _ = self.a.pop()
        self.b.pop()
        share = [value * mobility for value in row]
        for i, value in enumerate(row):
            self.b[i] = self.b[i] - value * acceleration
            for k in range(i + 1):
                self.a[i][k] = self.a[i][k] - share[i] * row[k]
        return Eliminated(acceleration, share)

    def solve(self) -> list[Scalar]:
        """Returns the accelerations of the remaining coordinates."""
        later: list[Eliminated] = []
        while self.b:
            later.append(self.eliminate())
        accelerations: list[Scalar] = []
        for coordinate in reversed(later):
            accelerations.append(coordinate.acceleration_after(accelerations))
        return accelerations


@dataclass(frozen=True)
class Eliminated:
    """An eliminated coordinate: its acceleration with the others at zero, and its dependence on them."""

    acceleration: Scalar
    share: list[Scalar]

    def acceleration_after(self, before: Sequence[Scalar]) -> Scalar:
        """Returns its acceleration, from those of the coordinates before it."""
        value = self.acceleration
        for share, other in zip(self.share, before, strict=True):
            value = value - share * other
        return value
