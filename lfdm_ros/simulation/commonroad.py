"""Scenarios of CommonRoad: its lanes, traffic and planning problem as a task of ours (formats 2018b and 2020a).

Althoff, Koschi and Manzinger, "CommonRoad: Composable Benchmarks for Motion Planning on Roads" (IV 2017), and the format's documentation.
The way leads along lanes and changes them where both lie side by side; they are its corridor. Traffic drives as recorded, whatever the
vehicle does. The vehicle's initial state gives place, heading and speed.
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
SPACING = 2.0  # [m] of the way's points
CHANGE_TIME = 4.0  # [s] that a change of lanes takes where the lanes are long enough
CHANGE_COST, SHORT_COST = 10.0, 1000.0  # [m] of way, and [m^2] by the lane's length, that a change is worth: long lanes are better
HEADING = math.radians(60.0)  # by which the vehicle may stand across its lane
ACCELERATION = 2.0  # [m/s^2] with which the speed of the way is reached
USUAL_SPEED = 50.0 / 3.6  # [m/s] for a vehicle standing at the start, without a speed limit sign
UNDER_WAY = 1.0  # [s] for which the traffic has been seen before: its planners are given all states from the start
DURATION = 30.0  # [s] of a drive without an end
SPEED_LIMITS = ("274", "274.1", "R2-1")  # signs whose value is a speed [m/s]
_KINDS = {"car": "car", "taxi": "car", "parkedVehicle": "car", "priorityVehicle": "car", "truck": "van", "bus": "van", "train": "van",
          "motorcycle": "cyclist", "bicycle": "cyclist", "pedestrian": "pedestrian", "constructionZone": "wall", "roadBoundary": "wall",
          "building": "wall", "median_strip": "wall", "pillar": "post", "vegetation": "tree"}


@dataclass(frozen=True, eq=False)
class _Lane:
    """A lanelet: edges (n, 2) [m], lanes that follow, lanes of its direction beside it, highest speed [m/s]."""

    left: np.ndarray
    right: np.ndarray
    following: tuple[str, ...]
    beside: tuple[str | None, str | None]
    limit: float

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
        """Returns the nearest place of the centre line: its share of the length, its distance [m] and its heading [rad]."""
        line = self.centre
        part, apart = _project(point, line)
        k, s = int(np.argmin(apart)), _stations(line)
        return float((s[k] + part[k] * (s[k + 1] - s[k])) / s[-1]), float(apart[k]), math.atan2(*(line[k + 1] - line[k])[::-1])


def read_commonroad(path: Path) -> Course:
    """Reads a scenario of CommonRoad with its first planning problem.

    Raises:
        InputError: a file that cannot be read, of another format or without a planning problem, an element that is not as the format says,
            or a goal to which no lane leads; the message names file, element and id.
    """
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
    """A file's lanes, obstacles and first planning problem; `step` [s] is that of its times."""

    def __init__(self, root: Element, step: float) -> None:
        self._step = step
        signs = {sign.get("id", ""): min(_speeds_of(sign), default=math.inf) for sign in root.iter("trafficSign")}
        self._lanes = {lane.get("id", ""): _lane(lane, signs) for lane in root.iter("lanelet")
                       if lane.find("leftBound") is not None}  # the format calls references to one lanelet, too
        problem = root.find("planningProblem")
        if problem is None:
            raise InputError("no planningProblem: nothing to do")
        if not self._lanes:
            raise InputError("no lanelet: there is no way to drive along")
        where = f"planningProblem {problem.get('id')}"
        initial = _child(problem, "initialState", where)
        self._begin = _value(initial, "time", where)
        x, y = _position(initial, where)
        self._pose = Pose(float(x), float(y), _value(initial, "orientation", where), _value(initial, "velocity", where))
        self._obstacles = tuple(obstacle for element in root if element.tag in (
            "obstacle", "dynamicObstacle", "staticObstacle", "environmentObstacle") for obstacle in self._obstacle(element))
        self._goals = [self._goal(goal, where) for goal in problem.findall("goalState")]

    # ---- the task ------------------------------------------------------------------------------------------------------

    def course(self) -> Course:
        """Returns the task."""
        route, goal = self._route()
        areas = goal.areas if goal else ()
        duration = goal.time[1] + self._step if goal and math.isfinite(goal.time[1]) else DURATION  # goals of one instant count
        route = self._extended(route, duration)
        path, way = self._path(route, areas)
        limit = self._lanes[route[0]].limit
        speed, flow = self._speed(0.5 * sum(goal.time) if goal else math.nan, way, limit), min(self._pose.speed, limit)
        if goal and way is not None and goal.speed[0] <= 0.0 and speed < flow:
            # With the traffic, and a stop at the goal, where there is time to spare.
            speed = flow
            s, end = _stations(path), self._pose_station(path) + max(way, 1.0)
            path = np.vstack([path[s < end - 0.2], [np.interp(end, s, path[:, k]) for k in (0, 1)]])
        rows = [sorted(row, key=self._row(row[0]).index) for row in _rows(route, self._lanes)]
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

    def _speed(self, time: float, way: float | None, limit: float) -> float:
        """Returns the speed of the way [m/s]: that at which the vehicle is at the goal, `way` [m] ahead, at a time [s]; or its first."""
        begin = self._pose.speed
        speed = begin if begin > 1.0 else min(limit, USUAL_SPEED)
        if way is not None and math.isfinite(time) and time > 0.0:
            # way = speed time - (speed - begin)^2 / 2 a, as it gains or loses speed at first.
            a = math.copysign(ACCELERATION, way - begin * time)
            speed = begin + a * time - math.copysign(math.sqrt(max((a * time) ** 2 + 2.0 * a * (begin * time - way), 0.0)), a)
        return float(np.clip(speed, 1.0, max(1.0, limit)))

    # ---- the way -------------------------------------------------------------------------------------------------------

    def _route(self) -> tuple[list[str], GoalState | None]:
        """Returns the lanes to the nearest goal, or that of the start, and the goal."""
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
        """Returns the lanes that a point lies in, those that head as `yaw` [rad] says first, if it is known; in none, the nearest."""
        found = {name: lane.find(point) for name, lane in self._lanes.items()}
        inside = [name for name, lane in self._lanes.items() if contains(lane.outline, point)]
        if not inside:
            return [min(found, key=lambda name: (_across(found[name][2], yaw) > HEADING, found[name][1]))]
        inside.sort(key=lambda name: _across(found[name][2], yaw))
        return [name for name in inside if _across(found[name][2], yaw) <= HEADING] or inside[:1]

    def _shortest(self, starts: Sequence[str], ends: Collection[str]) -> list[str]:
        """Returns the shortest way from a lane to another (Dijkstra), later ones of `starts` being dearer; empty if there is none."""
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
        """Returns a route with lanes that follow, the straightest, for as far as the vehicle may come in a time [s]."""
        limit, here = self._lanes[route[-1]].limit, np.array([self._pose.x, self._pose.y])
        far = max(self._pose.speed + 5.0, limit if math.isfinite(limit) else 0.0, USUAL_SPEED) * duration + 50.0
        route = list(route)
        way = sum(self._lanes[name].length for name in route) - self._lanes[route[0]].find(here)[0] * self._lanes[route[0]].length
        while way < far:
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
            way += self._lanes[route[-1]].length
        return route

    def _path(self, route: list[str], areas: Sequence[np.ndarray]) -> tuple[np.ndarray, float | None]:
        """Returns the way's points (n, 2) [m], and how far it is from the vehicle to the middle of the goal [m], None without areas."""
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
        points = points[max(0, near - math.ceil(10.0 / SPACING)):]  # of those behind the vehicle only the last
        if not areas:
            return points, None
        s = _stations(points)
        inside = np.any([contains(area, points) for area in areas], axis=0)
        middle = float(s[inside].mean()) if inside.any() else s[np.argmin(np.hypot(*(points - areas[0].mean(axis=0)).T))]
        return points, middle - self._pose_station(points)

    def _pose_station(self, points: np.ndarray) -> float:
        """Returns how far along a way (n, 2) the vehicle begins [m]."""
        return float(_stations(points)[np.argmin(np.hypot(*(points - [self._pose.x, self._pose.y]).T))])

    def _row(self, lane: str) -> list[str]:
        """Returns the lanes of one direction side by side, from left to right."""
        row = [lane]
        for side, end in ((0, 0), (1, -1)):
            while (beside := self._lanes[row[end]].beside[side]) in self._lanes and beside not in row:
                row.insert(0 if side == 0 else len(row), str(beside))
        return row

    def _at(self, name: str, where: str) -> _Lane:
        if name not in self._lanes:
            raise InputError(f"{where}: no lanelet {quote(name)}")
        return self._lanes[name]

    # ---- traffic -------------------------------------------------------------------------------------------------------

    def _time(self, steps: float) -> float:
        return (steps - self._begin) * self._step

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
        if present[1] <= 0.0:
            return
        for shape in _child(element, "shape", name):
            centre, radius = (_point(_child(shape, "center", name), name) if shape.find("center") is not None else np.zeros(2)), math.nan
            if shape.tag == "circle":
                radius, corners = _number(shape.findtext("radius"), f"{name}: radius"), np.zeros((0, 2))
            else:
                corners = _outline(shape, name)
                centre = corners.mean(axis=0)
            if not states:  # of the environment, in place
                places, yaws, times = np.zeros((1, 2)), np.zeros(1), np.zeros(1)
            # The outline turns about the mean of its corners, which moves about the recorded place.
            middles = places + turn(centre, yaws)
            speeds = np.diff(middles, axis=0) / np.diff(times)[:, None] if moves else np.zeros((1, 2))
            k = int(np.clip(np.searchsorted(times, 0.0, "right") - 1, 0, max(len(times) - 2, 0)))
            at = middles[k] - times[k] * speeds[k]  # at time 0, were it there
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
    """Returns the angle between two headings [rad], 0 where one is not known."""
    return abs(math.remainder(heading - yaw, math.tau)) if math.isfinite(yaw) else 0.0


def _rows(route: list[str], lanes: dict[str, _Lane]) -> list[list[str]]:
    """Returns the lanes of a route, those side by side together."""
    rows = [[route[0]]]
    for before, name in itertools.pairwise(route):
        if name in lanes[before].beside:
            rows[-1].append(name)
        else:
            rows.append([name])
    return rows


# ---- elements ---------------------------------------------------------------------------------------------------------------


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
    if (given := element.findtext("speedLimit")) is not None:
        limits.append(_number(given, f"{where}: speedLimit"))
    return _Lane(left, right, tuple(s.get("ref", "") for s in element.iterfind("successor")), (beside[0], beside[1]),
                 min(limits, default=math.inf))


def _speeds_of(sign: Element) -> Iterator[float]:
    for part in sign.iterfind("trafficSignElement"):
        if part.findtext("trafficSignID") in SPEED_LIMITS:
            yield _number(part.findtext("additionalValue"), f"trafficSign {sign.get('id')}: additionalValue")


def _outline(shape: Element, where: str) -> np.ndarray:
    """Returns the corners (n, 2) of a shape in its own axes [m]; of a circle, 24 of them."""
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
    found = element.find(tag)
    if found is None:
        raise InputError(f"{where}: no {tag}")
    return found


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
    """Returns the place (2,) of a state [m], of an uncertain one the middle of its area."""
    position = _child(state, "position", where)
    point = position.find("point")
    if point is not None:
        return _point(point, where)
    if not len(position):
        raise InputError(f"{where}: an empty position")
    return np.asarray(_outline(position[0], where).mean(axis=0))


def _interval(state: Element, tag: str, where: str) -> tuple[float, float]:
    """Returns the ends of a quantity: those of its interval, its exact value twice, or infinite ones where it is not given."""
    found = state.find(tag)
    if found is None:
        return -math.inf, math.inf
    exact = found.findtext("exact")
    names = ("exact", "exact") if exact is not None else ("intervalStart", "intervalEnd")
    low, high = (_number(found.findtext(name), f"{where}: {tag}: {name}") for name in names)
    return low, high


def _value(state: Element, tag: str, where: str, default: float = math.nan) -> float:
    """Returns a quantity, of an interval its middle. Raises InputError: there is none, and no default."""
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


# ---- lines ------------------------------------------------------------------------------------------------------------------


def _stations(line: np.ndarray) -> np.ndarray:
    """Returns the distance along a line (n, 2) of each of its points [m]."""
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])


def _resampled(line: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Returns points (n, 2) of a line at shares (n,) of its length."""
    s = _stations(line)
    return np.column_stack([np.interp(share * s[-1], s, line[:, axis]) for axis in (0, 1)])


def _project(point: np.ndarray, line: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the place on each piece of a line (n, 2) that is nearest to a point, as share of the piece, and its distance (n - 1,) [m]."""
    steps = np.diff(line, axis=0)
    part = np.clip(((point - line[:-1]) * steps).sum(axis=1) / np.maximum((steps ** 2).sum(axis=1), 1e-12), 0.0, 1.0)
    return part, np.hypot(*(line[:-1] + part[:, None] * steps - point).T)
