"""The multibody with constraints left in its equations, as paper 001 compares them: a tree with its loops, and free bodies with all joints.

`Tree`: Pinocchio, the tree that MuJoCo has too, tie rods as bodies of nearly no mass. `Free`: each of 19 bodies has six coordinates; joints
are rows of J in  [M J'; J 0] (a, -f) = (Q, c),  solved as a dense system, compiled by numba. Neither has tyres. Part of `lfdm bench
multibody`.
"""

from __future__ import annotations

import time
from typing import Any

import numba
import numpy as np

from lfdm_lab.benchmarks import _bodies as bodies
from lfdm_ros.models import WHEELS
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.vehicles import Vehicle

# Of the test that both are the same mechanism: torques on a lower arm, the pitman arm and a wheel [N m].
TORQUES = {"lower_arm_fl": 900.0, "lower_arm_rr": -400.0, "arm": 150.0, "wheel_rl": 300.0}
ROD_MASS = 1e-6


class Tree:
    """Pinocchio's: 42 coordinates, 27 rows of constraints."""

    def __init__(self, vehicle: Vehicle):
        import pinocchio as pin

        self.pin, self.points = pin, bodies.Points(vehicle)
        self.masses, self.p = self.points.bodies(), self.points.p
        self.model = pin.Model()
        self.model.gravity.linear[:] = [0.0, 0.0, -GRAVITY]
        self.joints: dict[str, int] = {}
        self.places: dict[str, np.ndarray] = {}
        self.constraints: list[Any] = []
        self._add("body", None, pin.JointModelFreeFlyer(), np.zeros(3))
        for wheel, at in self.points.of.items():
            self._add(f"upper_arm_{wheel}", "body", self._hinge(self.points.axis("upper_arm", wheel)), at["upper_arm_fore"])
            self._add(f"lower_arm_{wheel}", "body", self._hinge(self.points.axis("lower_arm", wheel)), at["lower_arm_fore"])
            self._add(f"upright_{wheel}", f"lower_arm_{wheel}", pin.JointModelSpherical(), at["lower_ball_joint"])
            self._add(f"wheel_{wheel}", f"upright_{wheel}", pin.JointModelRY(), at["wheel_centre"])
        self._add("arm", "body", self._hinge(self.points.tilt[:, 2]), self.points.arm)
        self._add("link", "body", pin.JointModelTranslation(), self.points.link)
        for wheel, at in self.points.of.items():
            inner, outer = at["tie_rod_inner"], at["tie_rod_outer"]
            self.masses[f"rod_{wheel}"] = ROD_MASS, 0.5 * (inner + outer), ROD_MASS * 0.01 * np.eye(3)
            self._add(f"turn_{wheel}", "link" if wheel[0] == "f" else "body", pin.JointModelRX(), inner)
            self._add(f"rod_{wheel}", f"turn_{wheel}", pin.JointModelRZ(), inner)
            self._close(f"rod_{wheel}", f"upright_{wheel}", outer)
            self._close(f"upper_arm_{wheel}", f"upright_{wheel}", at["upper_ball_joint"])
        self._close("arm", "link", self.points.arm_end)
        for wheel in WHEELS:
            start = self.model.idx_vs[self.joints[f"wheel_{wheel}"]]
            self.model.armature[start] = self.p.axle_inertia
        self.data = self.model.createData()
        self.closed, self.closing = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        self.closed.extend(self.constraints)
        self.closing.extend([constraint.createData() for constraint in self.constraints])
        pin.initConstraintDynamics(self.model, self.data, self.closed, self.closing)
        self.settings = pin.ProximalSettings(1e-12, 0.0, 1)

    def _hinge(self, axis: np.ndarray) -> Any:
        return self.pin.JointModelRevoluteUnaligned(axis)

    def _add(self, name: str, parent: str | None, joint: Any, place: np.ndarray) -> None:
        pin = self.pin
        above, origin = (self.joints[parent], self.places[parent]) if parent else (0, np.zeros(3))
        index = self.model.addJoint(above, joint, pin.SE3(np.eye(3), place - origin), name)
        if name in self.masses:
            mass, centre, inertia = self.masses[name]
            self.model.appendBodyToJoint(index, pin.Inertia(mass, centre - place, inertia), pin.SE3.Identity())
        self.joints[name], self.places[name] = index, place

    def _close(self, one: str, other: str, place: np.ndarray) -> None:
        pin = self.pin
        ends = [(self.joints[name], pin.SE3(np.eye(3), place - self.places[name])) for name in (one, other)]
        self.constraints.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, self.model, *ends[0], *ends[1]))

    @property
    def size(self) -> tuple[int, int]:
        """Coordinates and rows of constraints."""
        return self.model.nv, 3 * len(self.constraints)

    def accelerations(self) -> np.ndarray:
        """Of the body in the construction pose at rest under TORQUES, and of the bodies' own joints there."""
        q, v, torque = self.pin.neutral(self.model), np.zeros(self.model.nv), np.zeros(self.model.nv)
        at = {name: self.model.idx_vs[self.joints[name]] for name in TORQUES}
        for name, value in TORQUES.items():
            torque[at[name]] = value
        a = self._dynamics(q, v, torque)
        return np.concatenate([a[:6], [a[at[name]] for name in TORQUES]])

    def _dynamics(self, q: np.ndarray, v: np.ndarray, torque: np.ndarray) -> np.ndarray:
        return self.pin.constraintDynamics(self.model, self.data, q, v, torque, self.closed, self.closing, self.settings)

    def microseconds(self, steps: int) -> float:
        """Of one step: accelerations and one step of Euler's method."""
        pin, step = self.pin, 1e-5
        q, v, torque = pin.neutral(self.model), np.zeros(self.model.nv), np.zeros(self.model.nv)
        began = time.perf_counter()
        for _ in range(steps):
            v = v + step * self._dynamics(q, v, torque)
            q = pin.integrate(self.model, q, step * v)
        return 1e6 * (time.perf_counter() - began) / steps


# -- Free bodies --------------------------------------------------------------------------------------------------------------------

BALL, ALIGNED, PERPENDICULAR, DISTANCE = 0, 1, 2, 3


class Free:
    """114 coordinates, 99 rows of constraints.

    Rows are of four kinds: a point of two bodies together (3 rows), axes of two bodies along each other (3 rows), an axis of one across an
    axis of the other (1 row), a distance of two points kept (1 row).
    """

    def __init__(self, vehicle: Vehicle):
        self.points = points = bodies.Points(vehicle)
        masses = points.bodies()
        self.names = list(masses)
        self.mass = np.array([mass for mass, _, _ in masses.values()])
        self.centre = np.array([centre for _, centre, _ in masses.values()])
        self.inertia = np.array([inertia for _, _, inertia in masses.values()])
        self.kinds: list[tuple[int, int, int]] = []
        self.vectors: list[np.ndarray] = []
        for wheel, at in points.of.items():
            for arm in ("lower_arm", "upper_arm"):
                self._hinge("body", f"{arm}_{wheel}", at[f"{arm}_fore"], points.axis(arm, wheel))
            for arm in ("lower", "upper"):
                self._point(f"{arm}_arm_{wheel}", f"upright_{wheel}", at[f"{arm}_ball_joint"])
            self._hinge(f"upright_{wheel}", f"wheel_{wheel}", at["wheel_centre"], np.array([0.0, 1.0, 0.0]))
            inner = "link" if wheel[0] == "f" else "body"
            self._row(DISTANCE, inner, f"upright_{wheel}", at["tie_rod_inner"], at["tie_rod_outer"])
        self._hinge("body", "arm", points.arm, points.tilt[:, 2])
        self._point("arm", "link", points.arm_end)
        self._row(ALIGNED, "body", "link", np.zeros(3), np.zeros(3))
        self.table, self.arms = np.array(self.kinds), np.array(self.vectors)

    def _row(self, kind: int, one: str, other: str, first: np.ndarray, second: np.ndarray) -> None:
        i, k = self.names.index(one), self.names.index(other)
        if kind in (BALL, DISTANCE):
            first, second = first - self.centre[i], second - self.centre[k]
        self.kinds.append((kind, i, k))
        self.vectors.append(np.array([first, second]))

    def _point(self, one: str, other: str, place: np.ndarray) -> None:
        self._row(BALL, one, other, place, place)

    def _hinge(self, one: str, other: str, place: np.ndarray, axis: np.ndarray) -> None:
        self._point(one, other, place)
        across = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
        for normal in (across / np.linalg.norm(across), np.cross(axis, across) / np.linalg.norm(across)):
            self._row(PERPENDICULAR, one, other, normal, axis)

    @property
    def size(self) -> tuple[int, int]:
        """Coordinates and rows of constraints."""
        return 6 * len(self.names), int(sum(3 if kind in (BALL, ALIGNED) else 1 for kind, _, _ in self.kinds))

    def _solve(self, torques: np.ndarray, steps: int) -> np.ndarray:
        rotation = np.repeat(np.eye(3)[None], len(self.names), axis=0)
        return simulate(self.mass, self.inertia, self.table, self.arms, self.size[1], self.centre.copy(), rotation,
                        np.zeros((len(self.names), 6)), torques, GRAVITY, steps, 1e-5)

    def accelerations(self) -> np.ndarray:
        """As `Tree.accelerations`."""
        torques = np.zeros((len(self.names), 3))
        axes = {name: self._axis(name) for name in TORQUES}
        for name, value in TORQUES.items():
            carrier = name.replace("wheel", "upright") if name.startswith("wheel") else "body"
            torques[self.names.index(name)] += value * axes[name]
            torques[self.names.index(carrier)] -= value * axes[name]
        a = self._solve(torques, 0)
        found = [a[self.names.index("body")]]
        for name, axis in axes.items():
            carrier = name.replace("wheel", "upright") if name.startswith("wheel") else "body"
            found.append(np.array([(a[self.names.index(name), 3:] - a[self.names.index(carrier), 3:]) @ axis]))
        return np.concatenate(found)

    def _axis(self, name: str) -> np.ndarray:
        if name == "arm":
            return self.points.tilt[:, 2]
        part, wheel = name.rsplit("_", 1)
        return np.array([0.0, 1.0, 0.0]) if part == "wheel" else self.points.axis(part, wheel)

    def microseconds(self, steps: int) -> float:
        """Of one step: accelerations and one step of Euler's method."""
        torques = np.zeros((len(self.names), 3))
        self._solve(torques, 1)
        began = time.perf_counter()
        self._solve(torques, steps)
        return 1e6 * (time.perf_counter() - began) / steps


@numba.njit(cache=False)
def cross(a, b):
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@numba.njit(cache=False)
def skew(a):
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])


@numba.njit(cache=False)
def simulate(mass, inertia, table, arms, rows, place, rotation, velocity, torques, gravity, steps, h):
    """Steps of Euler's method, at least one evaluation; the last accelerations (bodies, 6)."""
    count = len(mass)
    size = 6 * count
    accelerations = np.zeros((count, 6))
    for _ in range(max(steps, 1)):
        whole, right = np.zeros((size + rows, size + rows)), np.zeros(size + rows)
        for i in range(count):
            turned = rotation[i] @ inertia[i] @ rotation[i].T
            w = velocity[i, 3:]
            for j in range(3):
                whole[6 * i + j, 6 * i + j] = mass[i]
            whole[6 * i + 3:6 * i + 6, 6 * i + 3:6 * i + 6] = turned
            right[6 * i + 2] = -mass[i] * gravity
            right[6 * i + 3:6 * i + 6] = torques[i] - cross(w, turned @ w)
        row = size
        for n in range(len(table)):
            kind, one, other = table[n]
            w1, w2 = velocity[one, 3:], velocity[other, 3:]
            a, b = rotation[one] @ arms[n, 0], rotation[other] @ arms[n, 1]
            i, j = 6 * one, 6 * other
            if kind == 0:
                whole[row:row + 3, i:i + 3], whole[row:row + 3, j:j + 3] = np.eye(3), -np.eye(3)
                whole[row:row + 3, i + 3:i + 6], whole[row:row + 3, j + 3:j + 6] = -skew(a), skew(b)
                right[row:row + 3] = cross(w2, cross(w2, b)) - cross(w1, cross(w1, a))
                row += 3
            elif kind == 1:
                whole[row:row + 3, i + 3:i + 6], whole[row:row + 3, j + 3:j + 6] = np.eye(3), -np.eye(3)
                row += 3
            elif kind == 2:
                normal = cross(a, b)
                whole[row, i + 3:i + 6], whole[row, j + 3:j + 6] = normal, -normal
                first, second = cross(w1, a), cross(w2, b)
                right[row] = -(cross(w1, first) @ b + 2.0 * first @ second + a @ cross(w2, second))
                row += 1
            else:
                way = place[other] + b - place[one] - a
                whole[row, i:i + 3], whole[row, j:j + 3] = -way, way
                whole[row, i + 3:i + 6], whole[row, j + 3:j + 6] = -cross(a, way), cross(b, way)
                rate = velocity[other, :3] + cross(w2, b) - velocity[one, :3] - cross(w1, a)
                right[row] = -(rate @ rate) - way @ (cross(w2, cross(w2, b)) - cross(w1, cross(w1, a)))
                row += 1
        whole[:size, size:] = whole[size:, :size].T
        accelerations = np.linalg.solve(whole, right)[:size].copy().reshape(count, 6)
        if steps > 0:
            velocity += h * accelerations
            for i in range(count):
                place[i] += h * velocity[i, :3]
                # First order, and square again by one step of Newton's method.
                moved = rotation[i] + h * (skew(velocity[i, 3:]) @ rotation[i])
                rotation[i] = 0.5 * moved @ (3.0 * np.eye(3) - moved.T @ moved)
    return accelerations
