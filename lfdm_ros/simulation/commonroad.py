"""Import of CommonRoad scenarios: lanes, traffic and planning problem as a `Course` (formats 2018b and 2020a).

Althoff, Koschi and Manzinger, "CommonRoad: Composable Benchmarks for Motion Planning on Roads" (IV 2017), and the format's documentation.
The path follows lanes and changes between adjacent ones; they and the lanes of the same direction beside them are its corridor. Traffic
moves as recorded, without reaction to the vehicle. The vehicle's initial state gives position, yaw and speed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lfdm_ros.documents import is_number, parse_xml
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.simulation.courses import Course
from lfdm_ros.simulation.world import Circle, GoalState, MotionStep, Polygon, Pose, contains, turn

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_BYTES = 100_000_000
SPACING = 2.0  # [m] of the path's points
CHANGE_TIME = 4.0  # [s] of a lane change in lanes of sufficient length
CHANGE_COST, SHORT_COST = 10.0, 1000.0  # [m], and [m^2] over the lane's length, of a lane change: long lanes are better
HEADING = math.radians(60.0)  # maximum angle between vehicle and lane
ACCELERATION = 2.0  # [m/s^2] towards the reference speed
USUAL_SPEED = 50.0 / 3.6  # [m/s] for a start at standstill without a speed limit sign
OBSERVATION_TIME = 1.0  # [s] of observed traffic before the start: CommonRoad's planners get all states at the start
DURATION = 30.0  # [s] of a drive without a time limit
SAME_PLACE = 0.1  # [m] between two positions of one vehicle
SPEED_LIMITS = ("274", "274.1", "R2-1")  # signs with a speed as their value [m/s]
NOT_FOR_CARS = ("sidewalk", "crosswalk", "bicycleLane", "busLane", "busStop", "restricted", "border", "shoulder")
_KINDS = {"car": "car", "taxi": "car", "parkedVehicle": "car", "priorityVehicle": "car", "truck": "van", "bus": "van", "train": "van",
          "motorcycle": "cyclist", "bicycle": "cyclist", "pedestrian": "pedestrian", "constructionZone": "wall", "roadBoundary": "wall",
          "building": "wall", "median_strip": "wall", "pillar": "post", "vegetation": "tree"}


@dataclass(frozen=True, eq=False)
class _Lane:
    """A lanelet: edges (n, 2) [m], successors, adjacent lanes (left, right) of the same direction, speed limit [m/s], and whether it is for
    cars."""

    left: np.ndarray
    right: np.ndarray
    following: tuple[str, ...]
    beside: tuple[str | None, str | None]
    limit: float
    open: bool

    @cached_property
    def centre(self) -> np.ndarray:
        middle: np.ndarray = 0.5 * (self.left + self.right)
        return middle

    @cached_property
    def outline(self) -> np.ndarray:
        return np.concatenate([self.left, self.right[::-1]])

    @cached_property
    def length(self) -> float:
        return float(_stations(self.centre)[-1])

    def find(self, point: np.ndarray) -> tuple[float, float, float]:
        """Returns the nearest point of the centre line: fraction of the length, distance [m] and heading [rad]."""
        line = self.centre
        part, apart = _project(point, line)
        k, s = int(np.argmin(apart)), _stations(line)
        return float((s[k] + part[k] * (s[k + 1] - s[k])) / s[-1]), float(apart[k]), math.atan2(*(line[k + 1] - line[k])[::-1])


def read_commonroad(path: Path) -> Course:
    """Reads a scenario of CommonRoad with its first planning problem. Raises InputError: a file that cannot be read, of another format or
    without a planning problem, an invalid element, or a goal not connected by lanes; the message names file, element and id."""
    with prefixing(path, OSError):
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: longer than {MAX_BYTES} bytes")
        data = path.read_bytes()
    root = parse_xml(data, str(path))
    if root.tag != "commonRoad":
        raise InputError(f"{path}: a document {quote(root.tag)}; a scenario of CommonRoad begins with commonRoad")
    if root.get("commonRoadVersion") not in ("2018b", "2020a"):
        raise InputError(f"{path}: format {quote(root.get('commonRoadVersion'))}; this reads 2018b and 2020a")
    step = root.get("timeStepSize", "")
    if not is_number(step) or not 0.0 < float(step) <= 10.0:
        raise InputError(f"{path}: timeStepSize is {quote(step)}; give seconds above 0, for example 0.1")
    with prefixing(path):
        return _Scene(root, float(step)).course()


class _Scene:
    """Lanes, obstacles and first planning problem of a file; `step` [s]: unit of its times."""

    def __init__(self, root: Element, step: float) -> None:
        self._step = step
        signs = {sign.get("id", ""): min(_speeds_of(sign), default=math.inf) for sign in root.iter("trafficSign")}
        self._lanes = {lane.get("id", ""): _lane(lane, signs) for lane in root.iter("lanelet")
                       if lane.find("leftBound") is not None}  # references are elements `lanelet`, too
        problem = root.find("planningProblem")
        if problem is None:
            raise InputError("no planningProblem: nothing to do")
        if not self._lanes:
            raise InputError("no lanelet: there is no lane to drive along")
        where = f"planningProblem {problem.get('id')}"
        initial = _child(problem, "initialState", where)
        self._begin = _value(initial, "time", where)
        x, y = _position(initial, where)
        self._pose = Pose(float(x), float(y), _value(initial, "orientation", where), _value(initial, "velocity", where))
        self._obstacles = tuple(obstacle for element in root if element.tag in (
            "obstacle", "dynamicObstacle", "staticObstacle", "environmentObstacle") for obstacle in self._obstacle(element))
        self._goals = [self._goal(goal, where) for goal in problem.findall("goalState")]

    # ---- Task ----------------------------------------------------------------------------------------------------------

    def course(self) -> Course:
        """Returns the task."""
        route, goal = self._route()
        areas = goal.areas if goal else ()
        duration = goal.time[1] + self._step if goal and math.isfinite(goal.time[1]) else DURATION  # one step more for goals of one instant
        route = self._extended(route, duration)
        path, distance = self._path(route, areas)
        limit = self._lanes[route[0]].limit
        speed, flow = self._speed(0.5 * sum(goal.time) if goal else math.nan, distance, limit), min(self._pose.speed, limit)
        if goal and distance is not None and speed < flow:
            # With time to spare: at the initial speed if this reaches the goal, or with a stop there until it counts.
            if goal.time[0] <= distance / flow and goal.speed[0] <= flow <= goal.speed[1]:
                speed = flow
            elif goal.speed[0] <= 0.0:
                speed = flow
                s, end = _stations(path), self._pose_station(path) + max(distance, 1.0)
                path = np.vstack([path[s < end - 0.2], [np.interp(end, s, path[:, k]) for k in (0, 1)]])
        rows = [self._row(row) for row in _rows(route, self._lanes)]
        edges = [np.concatenate([getattr(self._lanes[row[side]], name) for row in rows]) for side, name in ((0, "left"), (-1, "right"))]
        corridor = np.column_stack([_stations(path), *([_project(point, edge)[1].min() for point in path] for edge in edges)])
        return Course(self._pose, speed, duration, self._obstacles, path=path, corridor=corridor, goal_states=tuple(self._goals))

    def _goal(self, goal: Element, where: str) -> GoalState:
        areas: list[np.ndarray] = []
        position = goal.find("position")
        for part in () if position is None else position:
            if part.tag == "lanelet":
                areas.append(self._at(part.get("ref", ""), f"{where}: goal").outline)
            else:
                areas.append(_outline(part, f"{where}: goal"))
        time = _interval(goal, "time", where)
        return GoalState(tuple(areas), (self._time(time[0]), self._time(time[1])), _interval(goal, "velocity", where),
                       _interval(goal, "orientation", where))

    def _speed(self, time: float, distance: float | None, limit: float) -> float:
        """Returns the reference speed [m/s] to reach the goal at a distance [m] at a time [s]; without these the initial speed."""
        begin = self._pose.speed
        speed = begin if begin > 1.0 else min(limit, USUAL_SPEED)
        if distance is not None and math.isfinite(time) and time > 0.0:
            # distance = speed time - (speed - begin)^2 / 2 a, with constant acceleration at first.
            a = math.copysign(ACCELERATION, distance - begin * time)
            speed = begin + a * time - math.copysign(math.sqrt(max((a * time) ** 2 + 2.0 * a * (begin * time - distance), 0.0)), a)
        return float(np.clip(speed, 1.0, max(1.0, limit)))

    # ---- Path ----------------------------------------------------------------------------------------------------------

    def _route(self) -> tuple[list[str], GoalState | None]:
        """Returns the lanes to the nearest goal, or the lane of the start, and the goal."""
        starts = self._lanes_at(np.array([self._pose.x, self._pose.y]), self._pose.yaw)
        if not self._goals or not self._goals[0].areas:
            return starts[:1], self._goals[0] if self._goals else None
        ends: dict[str, GoalState] = {}
        for goal in self._goals:
            yaw = 0.5 * sum(goal.yaw)
            for area in goal.areas:
                through = [name for name, lane in self._lanes.items() if _across(lane.find(area.mean(axis=0))[2], yaw) <= HEADING
                           and contains(area, _resampled(lane.centre, np.linspace(0.01, 0.99, max(3, round(lane.length))))).any()]
                for name in (*through, *self._lanes_at(area.mean(axis=0), yaw)):
                    ends.setdefault(name, goal)
        route = self._shortest(starts, ends)
        if not route:
            raise InputError(f"no lane leads from lanelet {starts[0]} to the goal in lanelet {', '.join(ends)}")
        return route, ends[route[-1]]

    def _lanes_at(self, point: np.ndarray, yaw: float) -> list[str]:
        """Returns the lanes at a point, sorted by the angle to `yaw` [rad], if finite; outside of all lanes the nearest one."""
        nearest = {name: lane.find(point) for name, lane in self._lanes.items()}
        inside = [name for name, lane in self._lanes.items() if contains(lane.outline, point)]
        if not inside:
            return [min(nearest, key=lambda name: (_across(nearest[name][2], yaw) > HEADING, nearest[name][1]))]
        inside.sort(key=lambda name: _across(nearest[name][2], yaw))
        return [name for name in inside if _across(nearest[name][2], yaw) <= HEADING] or inside[:1]

    def _shortest(self, starts: Sequence[str], ends: Collection[str]) -> list[str]:
        """Returns the shortest route from one of `starts`, later ones at higher cost, to one of `ends` (Dijkstra); empty without one."""
        queue = [(10.0 * k, name, [name]) for k, name in enumerate(starts)]
        done: set[str] = set()
        while queue:
            cost, name, route = heapq.heappop(queue)
            if name in ends:
                return route
            if name in done:
                continue
            done.add(name)
            lane = self._lanes[name]
            for other in filter(self._lanes.get, lane.following):
                heapq.heappush(queue, (cost + lane.length, other, [*route, other]))
            for beside in lane.beside:
                if beside in self._lanes:
                    heapq.heappush(queue, (cost + CHANGE_COST + SHORT_COST / lane.length, beside, [*route, beside]))
        return []

    def _extended(self, route: list[str], duration: float) -> list[str]:
        """Extends a route by the straightest successors to the maximum distance within a time [s]."""
        limit, here = self._lanes[route[-1]].limit, np.array([self._pose.x, self._pose.y])
        far = max(self._pose.speed + 5.0, limit if math.isfinite(limit) else 0.0, USUAL_SPEED) * duration + 50.0
        route = list(route)
        length = sum(self._lanes[name].length for name in route) - self._lanes[route[0]].find(here)[0] * self._lanes[route[0]].length
        while length < far:
            last = np.diff(self._lanes[route[-1]].centre[-2:], axis=0)[0]
            choices = []
            for name in self._lanes[route[-1]].following:
                if name in self._lanes and name not in route:
                    ends = self._lanes[name].centre
                    onward = ends[-1] - ends[0]
                    choices.append((abs(last[0] * onward[1] - last[1] * onward[0]) / math.hypot(*onward) - (last @ onward > 0.0), name))
            if not choices:
                break
            route.append(min(choices)[1])
            length += self._lanes[route[-1]].length
        return route

    def _path(self, route: list[str], areas: Sequence[np.ndarray]) -> tuple[np.ndarray, float | None]:
        """Returns the path's points (n, 2) [m], and the distance along it to the centre of the goal [m], None without areas."""
        here, pieces = np.array([self._pose.x, self._pose.y]), list[np.ndarray]()
        for row in _rows(route, self._lanes):
            first, last = self._lanes[row[0]], self._lanes[row[-1]]
            share = np.linspace(0.0, 1.0, max(2, math.ceil(max(first.length, last.length) / SPACING) + 1))
            line = _resampled(first.centre, share)
            if len(row) > 1:
                begin = first.find(here)[0] if not pieces else 0.0
                until = min(1.0, begin + CHANGE_TIME * max(self._pose.speed, 5.0) / first.length,
                            *(last.find(middle)[0] for middle in (area.mean(axis=0) for area in areas) if contains(last.outline, middle)))
                w = np.clip((share - begin) / max(until - begin, 1e-3), 0.0, 1.0)[:, None]
                w = w * w * (3.0 - 2.0 * w)
                line = (1.0 - w) * line + w * _resampled(last.centre, share)
            pieces.append(line)
        points = np.concatenate(pieces)
        points = points[np.concatenate([[True], np.hypot(*np.diff(points, axis=0).T) > 0.2])]
        near = min(int(np.argmin(np.hypot(*(points - here).T))), len(points) - 2)
        points = points[max(0, near - math.ceil(10.0 / SPACING)):]  # keeps 10 m behind the vehicle
        if not areas:
            return points, None
        s = _stations(points)
        inside = np.any([contains(area, points) for area in areas], axis=0)
        middle = float(s[inside].mean()) if inside.any() else s[np.argmin(np.hypot(*(points - areas[0].mean(axis=0)).T))]
        return points, middle - self._pose_station(points)

    def _pose_station(self, points: np.ndarray) -> float:
        """Returns the vehicle's initial distance along a path (n, 2) [m]."""
        return float(_stations(points)[np.argmin(np.hypot(*(points - [self._pose.x, self._pose.y]).T))])

    def _row(self, driven: list[str]) -> list[str]:
        """Returns adjacent lanes of one direction, from left to right: the driven ones and those of the road beside them."""
        row = driven[:1]
        for side, end in ((0, 0), (1, -1)):
            while (beside := self._lanes[row[end]].beside[side]) in self._lanes and beside not in row and (
                    beside in driven or self._lanes[str(beside)].open):
                row.insert(0 if side == 0 else len(row), str(beside))
        return row

    def _at(self, name: str, where: str) -> _Lane:
        if name not in self._lanes:
            raise InputError(f"{where}: no lanelet {quote(name)}")
        return self._lanes[name]

    # ---- Traffic -------------------------------------------------------------------------------------------------------

    def _time(self, steps: float) -> float:
        return (steps - self._begin) * self._step

    def _is_vehicle(self, places: np.ndarray, times: np.ndarray) -> bool:
        """Checks whether what moves through places (n, 2) [m] at times (n,) [s] is the vehicle itself: it begins where the vehicle does."""
        here = np.hypot(*(places - [self._pose.x, self._pose.y]).T) < SAME_PLACE
        return bool((here & (np.abs(times) < 0.5 * self._step)).any())

    def _obstacle(self, element: Element) -> Iterator[Circle | Polygon]:
        name = f"{element.findtext('type') or 'obstacle'} {element.get('id')}"
        kind = _KINDS.get(element.findtext("type", ""), "")
        if element.find("occupancySet") is not None:
            raise InputError(f"{name}: a prediction by occupancySet; only trajectories are read")
        states = [state for state in (element.find("initialState"), *element.iterfind("trajectory/state")) if state is not None]
        if len(states) > 1 and _value(states[0], "time", name) == _value(states[1], "time", name):
            del states[1]  # a trajectory may begin with the initial state
        places = np.array([_position(state, name) for state in states]).reshape(-1, 2)
        yaws = np.array([_yaw(state, name) for state in states])
        times = np.array([self._time(_value(state, "time", name)) for state in states])
        if (np.diff(times) <= 0.0).any():
            raise InputError(f"{name}: times of its states must rise")
        moves = len(states) > 1
        present = (float(times[0]), float(times[-1]) + 0.5 * self._step) if moves else (0.0, math.inf)
        if present[1] <= 0.0 or (moves and self._is_vehicle(places, times)):
            return
        for shape in _child(element, "shape", name):
            centre, radius = (_point(_child(shape, "center", name), name) if shape.find("center") is not None else np.zeros(2)), math.nan
            if shape.tag == "circle":
                radius, corners = _number(shape.findtext("radius"), f"{name}: radius"), np.zeros((0, 2))
            else:
                corners = _outline(shape, name)
                centre = corners.mean(axis=0)
            if not states:  # an obstacle of the environment
                places, yaws, times = np.zeros((1, 2)), np.zeros(1), np.zeros(1)
            # The outline rotates about the mean of its corners, which moves around the recorded position.
            middles = places + turn(centre, yaws)
            speeds = np.diff(middles, axis=0) / np.diff(times)[:, None] if moves else np.zeros((1, 2))
            k = int(np.clip(np.searchsorted(times, 0.0, "right") - 1, 0, max(len(times) - 2, 0)))
            at = middles[k] - times[k] * speeds[k]  # extrapolated to time 0
            steps = tuple(MotionStep(float(t), float(v[0]), float(v[1]), float(yaw - yaws[k]))
                          for t, v, yaw in zip(times[k + 1:], (*speeds[k + 1:], speeds[-1]), yaws[k + 1:]))
            vx, vy = speeds[k].tolist()
            words: dict[str, Any] = {"vx": vx, "vy": vy, "name": name, "kind": kind, "steps": steps, "present": present}
            with prefixing(name):
                if shape.tag == "circle":
                    yield Circle(float(at[0]), float(at[1]), radius, **words)
                else:
                    yield Polygon(at + turn(corners - centre, np.array(yaws[k])), **words)


def _across(heading: float, yaw: float) -> float:
    """Returns the angle between a heading and a yaw [rad], 0 for an unspecified yaw."""
    return abs(math.remainder(heading - yaw, math.tau)) if math.isfinite(yaw) else 0.0


def _rows(route: list[str], lanes: dict[str, _Lane]) -> list[list[str]]:
    """Groups the lanes of a route by adjacency."""
    rows = [[route[0]]]
    for before, name in itertools.pairwise(route):
        if name in lanes[before].beside:
            rows[-1].append(name)
        else:
            rows.append([name])
    return rows


# ---- Elements ---------------------------------------------------------------------------------------------------------------


def _lane(element: Element, signs: dict[str, float]) -> _Lane:
    where = f"lanelet {element.get('id')}"
    left, right = (np.array([_xy(point, where) for point in _child(element, bound, where).iterfind("point")]).reshape(-1, 2)
                   for bound in ("leftBound", "rightBound"))
    if len(left) != len(right) or len(left) < 2:
        raise InputError(f"{where}: {len(left)} points to the left and {len(right)} to the right; give as many, 2 or more")
    if np.ptp(left + right, axis=0).max() < 1e-3:
        raise InputError(f"{where}: all its points lie in one place")
    beside = []
    for side in ("adjacentLeft", "adjacentRight"):
        neighbour = element.find(side)
        beside.append(neighbour.get("ref") if neighbour is not None and neighbour.get("drivingDir") == "same" else None)
    limits = [signs.get(sign.get("ref", ""), math.inf) for sign in element.iterfind("trafficSignRef")]
    if (limit := element.findtext("speedLimit")) is not None:
        limits.append(_number(limit, f"{where}: speedLimit"))
    return _Lane(left, right, tuple(s.get("ref", "") for s in element.iterfind("successor")), (beside[0], beside[1]),
                 min(limits, default=math.inf), not any(kind.text in NOT_FOR_CARS for kind in element.iterfind("laneletType")))


def _speeds_of(sign: Element) -> Iterator[float]:
    for part in sign.iterfind("trafficSignElement"):
        if part.findtext("trafficSignID") in SPEED_LIMITS:
            yield _number(part.findtext("additionalValue"), f"trafficSign {sign.get('id')}: additionalValue")


def _outline(shape: Element, where: str) -> np.ndarray:
    """Returns the corners (n, 2) of a shape in its axes [m]; 24 for a circle."""
    if shape.tag == "polygon":
        corners = np.array([_xy(point, where) for point in shape.iterfind("point")]).reshape(-1, 2)
        if len(corners) > 3 and np.array_equal(corners[0], corners[-1]):  # some writers close the ring
            corners = corners[:-1]
        if len(corners) < 3:
            raise InputError(f"{where}: a polygon of {len(corners)} points; give 3 or more")
        return corners
    middle = _point(_child(shape, "center", where), where) if shape.find("center") is not None else np.zeros(2)
    if shape.tag == "rectangle":
        length, width = (_number(shape.findtext(side), f"{where}: {side}") for side in ("length", "width"))
        yaw = _number(shape.findtext("orientation", "0"), f"{where}: orientation")
        corners = 0.5 * np.array([(length, width), (-length, width), (-length, -width), (length, -width)])
        turned: np.ndarray = middle + turn(corners, np.array(yaw))
        return turned
    if shape.tag == "circle":
        around = np.linspace(0.0, math.tau, 24, endpoint=False)
        return middle + _number(shape.findtext("radius"), f"{where}: radius") * np.column_stack([np.cos(around), np.sin(around)])
    raise InputError(f"{where}: shape {quote(shape.tag)}; there are rectangle, circle and polygon")


def _child(element: Element, tag: str, where: str) -> Element:
    child = element.find(tag)
    if child is None:
        raise InputError(f"{where}: no {tag}")
    return child


def _number(text: str | None, where: str) -> float:
    if text is None or not is_number(text.strip()) or not math.isfinite(float(text)):
        raise InputError(f"{where}: expected a number, found {quote(text)}")
    return float(text)


def _xy(point: Element, where: str) -> tuple[float, float]:
    x, y = (_number(point.findtext(axis), f"{where}: {axis}") for axis in ("x", "y"))
    return x, y


def _point(element: Element, where: str) -> np.ndarray:
    return np.array(_xy(element, where))


def _position(state: Element, where: str) -> np.ndarray:
    """Returns the position (2,) of a state [m], for an area its mean."""
    position = _child(state, "position", where)
    point = position.find("point")
    if point is not None:
        return _point(point, where)
    if not len(position):
        raise InputError(f"{where}: an empty position")
    return np.asarray(_outline(position[0], where).mean(axis=0))


def _interval(state: Element, tag: str, where: str) -> tuple[float, float]:
    """Returns the limits of a quantity: its interval, its exact value twice, or infinity if it is missing."""
    node = state.find(tag)
    if node is None:
        return -math.inf, math.inf
    exact = node.findtext("exact")
    names = ("exact", "exact") if exact is not None else ("intervalStart", "intervalEnd")
    low, high = (_number(node.findtext(name), f"{where}: {tag}: {name}") for name in names)
    return low, high


def _value(state: Element, tag: str, where: str, default: float = math.nan) -> float:
    """Returns a quantity, for an interval its midpoint. Raises InputError: missing, without a default."""
    low, high = _interval(state, tag, where)
    if math.isfinite(low):
        return 0.5 * (low + high)
    if math.isnan(default):
        raise InputError(f"{where}: no {tag}")
    return default


def _yaw(state: Element, where: str) -> float:
    """Returns the heading of an obstacle's state [rad]: its orientation, that of its velocity (point masses have x and y), or 0."""
    if state.find("orientation") is None and state.find("velocityY") is not None:
        return math.atan2(_value(state, "velocityY", where), _value(state, "velocity", where))
    return _value(state, "orientation", where, 0.0)


# ---- Lines ------------------------------------------------------------------------------------------------------------------


def _stations(line: np.ndarray) -> np.ndarray:
    """Returns the distance along a line (n, 2) of each of its points [m]."""
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])


def _resampled(line: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Returns points (n, 2) of a line at fractions (n,) of its length."""
    s = _stations(line)
    return np.column_stack([np.interp(share * s[-1], s, line[:, axis]) for axis in (0, 1)])


def _project(point: np.ndarray, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Projects a point onto each segment of a line (n, 2): fraction of the segment, and distance (n - 1,) [m]."""
    steps = np.diff(line, axis=0)
    part = np.clip(((point - line[:-1]) * steps).sum(axis=1) / np.maximum((steps ** 2).sum(axis=1), 1e-12), 0.0, 1.0)
    return part, np.hypot(*(line[:-1] + part[:, None] * steps - point).T)
