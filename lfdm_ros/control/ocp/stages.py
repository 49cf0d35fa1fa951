"""Parameters and bounds of the problem's stages, from path, speeds, limits and obstacles near the present plan."""

import math
from typing import Any

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.control.limits import LimitTable
from lfdm_ros.control.ocp.terms import BoundContext, PlannedVehicle, ProblemLayout
from lfdm_ros.control.plan import Trajectory
from lfdm_ros.control.routing.navigator import SLOWDOWN
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.simulation.path import Path


class StageParameters:
    """Stage parameters c (N+1, nc), and the bounds lower and upper (N+1, ng) of their rows; changed in place.

    Attributes:
        column: part of c (N+1,) by name of `ProblemLayout.stage_parameters`.
        obstacles: positions x, y and radii [m], part of c (N+1, slots, 3).
    """

    def __init__(self, layout: ProblemLayout, trajectory: Trajectory, substeps: int, lag: float):
        """Allocates the stages. lag: time constant of the steering [s]."""
        self._trajectory, count = trajectory, len(trajectory.grid)
        names = layout.stage_parameters
        self.c = np.zeros((count, len(names)))
        self.column = {name: self.c[:, i] for i, name in enumerate(names)}
        step = self.column["step"]
        step[:-1] = trajectory.durations / substeps
        step[-1] = step[-2]
        self.column["decay"][:] = np.exp(-step / lag) if layout.lag else 0.0
        first = names.index("obstacle_x_0") if layout.obstacles else len(names)
        self.obstacles = self.c[:, first:].reshape(count, layout.obstacles, 3)
        self._slots, self._pose = np.empty((count, layout.obstacles, 3)), np.array([trajectory.place[name] for name in ("x", "y", "yaw")])
        self._avoid = native("lfdm_ros.control.ocp.stages_native", (POINTER, INTEGER, INTEGER, *[POINTER] * 3, INTEGER, POINTER, INTEGER),
                             INTEGER, ("lfdm_ros.control.ocp.stages",))
        self.lower, self.upper = np.full((2, count, len(layout.constraints)), np.inf)
        self.lower *= -1.0
        self._bounds_of = [(i, constraint.bounds) for i, constraint in enumerate(layout.constraints)]
        self._stations: np.ndarray | None = None  # distances of the stages along the path [m]

    @property
    def station(self) -> float:
        """Distance of the plan's start along the path [m]."""
        return 0.0 if self._stations is None else float(self._stations[0])

    def forget(self) -> None:
        """Clears the stations, so that the plan is located on the whole path of the next reference."""
        self._stations = None

    # -- The reference --------------------------------------------------------------------------------------------------

    def follow(self, reference: Reference, settings: Settings, limits: LimitTable | None, vehicle: PlannedVehicle) -> None:
        """Sets parameters and bounds of each stage from the reference and the limits."""
        s = self._locate(reference.path)
        self.column["friction"][:] = settings.friction_use * vehicle.friction
        fastest = self._speeds(reference, s, vehicle.outline.scale * SLOWDOWN)
        self._steering_limit(limits if settings.use_limit_table else None)
        self._bounds(reference, settings, vehicle, s, fastest)

    def _locate(self, path: Path) -> np.ndarray:
        """Finds the path's points nearest to the stages; returns their distances along the path (N+1,) [m]."""
        column, t = self.column, self._trajectory
        x, y, yaw = t.column("x"), t.column("y"), t.column("yaw")
        near = self._stations
        if near is None:
            near = float(path.project(x[:1], y[:1])[0][0]) + np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
        s: np.ndarray
        s, offset, px, py, pyaw, curvature = path.locate(x, y, near)
        self._stations = s
        column["path_x"][:], column["path_y"][:] = px, py
        # Curvature of the parallel curve through the stage's point.
        column["path_curvature"][:] = curvature / np.maximum(1.0 - curvature * offset, 0.2)
        column["path_cos"][:], column["path_sin"][:] = np.cos(pyaw), np.sin(pyaw)
        column["path_yaw"][:] = pyaw + 2.0 * math.pi * np.round((yaw - pyaw) / (2.0 * math.pi))
        return s

    def _speeds(self, reference: Reference, s: np.ndarray, slowdown: float) -> np.ndarray:
        """Sets reference speeds at s (N+1,) [m]; returns the speed limits (N+1,) [m/s], `slowdown` [m/s] below a speed that is too high."""
        speed, slope = self.column["path_speed"], self.column["path_speed_slope"]
        speed[:], slope[:] = reference.speed_at(s)
        # A vehicle that is too fast slows down moderately: hard braking for the limit would leave no grip to steer.
        with np.errstate(invalid="ignore"):
            slowed = self._trajectory.column("vx")[0] - slowdown - reference.slowing * self._trajectory.grid
            fastest: np.ndarray = np.fmax(slowed, reference.highest)
        early = speed >= reference.highest - 1e-6
        speed[early] = np.maximum(speed, fastest)[early]
        slope[early & (speed > reference.highest)] = 0.0
        return fastest

    def _steering_limit(self, limits: LimitTable | None) -> None:
        at_rest, slope = self.column["limit"], self.column["limit_slope"]
        if limits is None:
            at_rest[:], slope[:] = 1.0, 0.0
            return
        v = np.maximum(self._trajectory.column("vx"), 0.0)
        limit, above, below = limits.at(np.array([v, v + 0.5, v - 0.5]))
        rise = above - below
        at_rest[:], slope[:] = limit - rise * v, rise

    def _bounds(self, reference: Reference, settings: Settings, vehicle: PlannedVehicle, s: np.ndarray, fastest: np.ndarray) -> None:
        context = BoundContext(settings, reference, vehicle.outline, s, self._trajectory.grid, fastest)
        for i, bounds in self._bounds_of:
            self.lower[:, i], self.upper[:, i] = bounds(context) if callable(bounds) else bounds

    # -- Obstacles ------------------------------------------------------------------------------------------------------

    def avoid(self, obstacles: Obstacles | None, time: float, sigmas: float) -> None:
        """Sets the obstacles nearest to each stage, half on its left and half on its right.

        Args:
            time: of the plan's start [s]; sigmas: standard deviations of its velocity by which a moving obstacle grows.
        """
        t, slots = self._trajectory, self._slots.shape[1]
        if not slots:
            return
        o = NO_OBSTACLES if obstacles is None or not len(obstacles.radii) else obstacles
        later = t.grid + (time - o.time) if len(o.radii) else t.grid
        centres, radii = np.ascontiguousarray(o.centres + o.shifts(later)), np.ascontiguousarray(o.spread(later, sigmas))
        self._avoid(*addresses(t.z, *t.z.shape, self._pose, centres, radii, len(o.radii), self._slots, slots))
        self.obstacles[:] = self._slots


FAR_AWAY = 60.0  # [m] position of an unused obstacle slot


def avoid(z: Any, place: Any, centres: Any, radii: Any, found: Any) -> None:
    """Finds the obstacles nearest to each stage, half of the slots on its left and half on its right, nearest first.

    Args:
        z: states (N+1, nz); place: of x, y, yaw in them (3,).
        centres: of the obstacles at the time of each stage (N+1, m, 2) [m]; radii (N+1, m) [m].
        found: written, (N+1, slots, 3): x, y, radius [m]; FAR_AWAY where there is none.
    """
    half = found.shape[1] // 2
    for k in range(len(z)):
        x, y, yaw = z[k, place[0]], z[k, place[1]], z[k, place[2]]
        c, s = math.cos(yaw), math.sin(yaw)
        for side in range(2):
            least, taken = -math.inf, -1  # distance and index of the last selected circle
            for slot in range(half * side, half * side + half):
                best, distance = -1, FAR_AWAY
                for j in range(centres.shape[1]):
                    dx, dy = centres[k, j, 0] - x, centres[k, j, 1] - y
                    if (c * dy - s * dx > 0.0) == (side == 0):
                        away = math.sqrt(dx * dx + dy * dy) - radii[k, j]
                        if away < distance and (away > least or (away == least and j > taken)):
                            best, distance = j, away
                found[k, slot, 0], found[k, slot, 1], found[k, slot, 2] = x + FAR_AWAY, y, 0.0
                if best >= 0:
                    found[k, slot, 0], found[k, slot, 1], found[k, slot, 2] = centres[k, best, 0], centres[k, best, 1], radii[k, best]
                    least, taken = distance, best
                else:
                    least = math.inf
