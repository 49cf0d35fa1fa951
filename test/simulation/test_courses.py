"""Courses: the figures of the standards, paths that lie in their lanes, fields that can be driven; scenario files that name them."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import label

from lfdm_ros.errors import InputError
from lfdm_ros.simulation import Circle, Footprint, MotionStep, Polygon, Scenario, World, load_scenario
from lfdm_ros.simulation.courses import (
    Course,
    dead_end,
    fair_start,
    iso_3888_1,
    iso_3888_2,
    least_gap,
    moving_obstacle,
    nato_lane_change,
    obstacle_field,
    slalom,
)

FIELDS = [(8.9408, 200.0), (17.8816, 300.0), (26.8224, 400.0)]  # 20, 40, 60 mph


def lanes(course: Course) -> list[tuple[float, float, float, float]]:
    """Start, end, right and left limit of each section, as the cones mark them."""
    cones = np.array([(c.x, c.y - c.radius if "left" in c.name else c.y + c.radius) for c in course.obstacles])
    return [(cones[k:k + 6, 0].min(), cones[k:k + 6, 0].max(), cones[k:k + 6, 1].min(), cones[k:k + 6, 1].max()) for k in (0, 6, 12)]


@pytest.mark.parametrize(("width", "last"), [(1.8, 3.0), (2.2, 3.11)])
def test_iso_3888_2_has_the_dimensions_of_the_standard(width: float, last: float) -> None:
    first, second, third = lanes(iso_3888_2(width, 12.0, approach=20.0))
    assert (first[0], first[1], second[0], second[1], third[0], third[1]) == pytest.approx((20.0, 32.0, 45.5, 56.5, 69.0, 81.0))
    assert first[3] - first[2] == pytest.approx(1.1 * width + 0.25)
    assert second[3] - second[2] == pytest.approx(width + 1.0)
    assert third[3] - third[2] == pytest.approx(last)
    assert second[2] - first[3] == pytest.approx(1.0) and third[2] == pytest.approx(first[2])


def test_iso_3888_1_has_the_dimensions_of_the_standard() -> None:
    first, second, third = lanes(iso_3888_1(1.8, 22.2, approach=20.0))
    assert (first[0], first[1], second[0], second[1], third[0], third[1]) == pytest.approx((20.0, 35.0, 65.0, 90.0, 115.0, 130.0))
    assert [lane[3] - lane[2] for lane in (first, second, third)] == pytest.approx([2.23, 2.41, 2.59])
    assert 0.5 * (second[2] + second[3]) == pytest.approx(3.5) and third[2] == pytest.approx(first[2])


def test_nato_lane_change_follows_the_vehicle() -> None:
    # The FED alpha: 2.28 m wide; 28.6 m to change lane.
    first, second, third = lanes(nato_lane_change(2.28, 4.6, 15.0, approach=20.0))
    assert (first[0], first[1], second[0], second[1], third[0], third[1]) == pytest.approx((20.0, 35.0, 63.6, 88.6, 117.2, 132.2))
    assert first[3] - first[2] == pytest.approx(2.8, abs=0.05) and second[3] - second[2] == pytest.approx(3.0, abs=0.05)
    assert third[2:] == pytest.approx(first[2:])
    assert 0.5 * (second[2] + second[3]) == pytest.approx(3.5)


@pytest.mark.parametrize("course", [
    iso_3888_1(2.2, 15.0), iso_3888_2(2.2, 10.0), nato_lane_change(2.2, 4.6, 15.0), slalom(12.0)],
    ids=["iso 1", "iso 2", "nato", "slalom"])
def test_the_path_can_be_driven_within_the_corridor(course: Course) -> None:
    assert course.path is not None and course.corridor is not None
    x, y = course.path.T
    yaw = np.arctan(np.gradient(y, x))
    assert np.hypot(np.diff(x), np.diff(y)).max() < 0.6 and course.path[0] == pytest.approx([0.0, 0.0])
    world, vehicle = World(course.obstacles), Footprint(2.3, 2.3, 1.1)
    assert min(world.clearance(0.0, *pose, vehicle) for pose in zip(x, y, yaw)) > 0.1
    # Smooth: the curvature changes by less than 0.02 1/m from point to point.
    curvature = np.gradient(yaw, x)
    assert np.abs(np.diff(curvature)).max() < 0.02 and np.abs(curvature).max() < 0.07
    # The corridor lies along the path; the cones stand on its edge or outside.
    s, left, right = course.corridor.T
    assert (np.diff(s) > 0.0).all() and s[-1] == pytest.approx(np.hypot(np.diff(x), np.diff(y)).sum())
    assert min(left.min(), right.min()) > 1.1
    if course.obstacles[0].name != "cone 1":
        for cone in course.obstacles:
            k = int(np.argmin(np.hypot(x - cone.x, y - cone.y)))
            room = left[k] if cone.y > y[k] else right[k]
            assert np.hypot(x[k] - cone.x, y[k] - cone.y) - cone.radius >= room - 0.05


def test_the_slalom_passes_its_cones_on_alternate_sides() -> None:
    course = slalom(12.0, spacing=25.0, cones=6, margin=0.5)
    x, y = course.path.T
    sides = [float(np.interp(cone.x, x, y)) for cone in course.obstacles]
    assert sides == pytest.approx([1.75 * (-1.0) ** k for k in range(6)], abs=1e-3)
    assert np.diff([cone.x for cone in course.obstacles]) == pytest.approx(25.0)


def distances(course: Course, points: np.ndarray) -> np.ndarray:
    """From points (n, 2) to the nearest obstacle; what lies inside a polygon is that far from its outline."""
    nearest = np.full(len(points), np.inf)
    for obstacle in course.obstacles:
        if isinstance(obstacle, Circle):
            nearest = np.minimum(nearest, np.hypot(*(points - [obstacle.x, obstacle.y]).T) - obstacle.radius)
            continue
        for a, b in zip(obstacle.vertices, np.roll(obstacle.vertices, -1, axis=0)):
            part = np.clip((points - a) @ (b - a) / ((b - a) @ (b - a)), 0.0, 1.0)
            nearest = np.minimum(nearest, np.hypot(*(points - a - part[:, None] * (b - a)).T))
    return nearest


@pytest.mark.parametrize(("speed", "length"), FIELDS)
def test_every_field_has_a_way_and_none_straight_on(speed: float, length: float) -> None:
    xs, ys = np.arange(0.0, length + 1.0, 1.0), np.arange(-25.0, 25.5, 1.0)
    grid = np.array(np.meshgrid(xs, ys, indexing="ij")).reshape(2, -1).T
    line = np.column_stack([np.arange(0.0, length, 0.2), np.zeros(int(length * 5))])
    for seed in range(1, 31):
        course = obstacle_field(speed, length, seed)
        away = distances(course, grid).reshape(len(xs), len(ys))
        # A vehicle 2.2 m wide, at any heading, with a metre to spare on either side; at the edge of the field there is no way around.
        regions, _ = label(away > 2.1)
        assert regions[0, 25] == regions[int(length), 25] != 0, seed
        assert distances(course, line).min() < 1.1, seed
        assert sum(isinstance(o, Circle) for o in course.obstacles) > 3 and len(course.obstacles) > 8
        ends = np.array([[0.0, 0.0], [length, 0.0]])
        assert (np.array([distances(course, e[None])[0] for e in ends]) > [5.0 + 2.0 * speed, 5.0 + speed]).all(), seed


def test_obstacles_of_a_field_keep_their_distance() -> None:
    for speed, length in FIELDS:
        for seed in range(1, 6):
            course = obstacle_field(speed, length, seed)
            for k, one in enumerate(course.obstacles):
                rest = Course(course.initial, speed, 1.0, course.obstacles[:k] + course.obstacles[k + 1:])
                surface = one.vertices if isinstance(one, Polygon) else np.array([[one.x, one.y]])
                size = 0.0 if isinstance(one, Polygon) else one.radius
                assert distances(rest, surface).min() - size >= least_gap(speed) - 1e-9
    assert [least_gap(speed) for speed, _ in FIELDS] == sorted(least_gap(speed) for speed, _ in FIELDS)


def figures(course: Course | Scenario) -> list[np.ndarray]:
    obstacles = course.world.obstacles if isinstance(course, Scenario) else course.obstacles
    return [o.vertices if isinstance(o, Polygon) else np.array([o.x, o.y, o.radius]) for o in obstacles]


def equal(one: Course | Scenario, other: Course | Scenario) -> bool:
    a, b = figures(one), figures(other)
    return len(a) == len(b) and all(np.array_equal(p, q) for p, q in zip(a, b))


def test_the_seed_decides_on_the_field() -> None:
    assert equal(obstacle_field(10.0, 200.0, 5), obstacle_field(10.0, 200.0, 5))
    assert not equal(obstacle_field(10.0, 200.0, 5), obstacle_field(10.0, 200.0, 6))
    assert equal(load_scenario("obstacle_field_40", seed=9), load_scenario("obstacle_field_40", seed=9))
    assert not equal(load_scenario("obstacle_field_40", seed=9), load_scenario("obstacle_field_40"))
    assert len(obstacle_field(10.0, 200.0, 5, density=0.004).obstacles) == round(0.004 * 50.0 * 150.0)


def test_the_fields_that_ship_stay_as_they_are() -> None:
    # Circles only: their figures are sums and products, the same on every machine.
    digest = hashlib.sha256()
    for speed, length in FIELDS:
        for seed in range(1, 6):
            for circle in obstacle_field(speed, length, seed).obstacles:
                if isinstance(circle, Circle):
                    digest.update(np.array([circle.x, circle.y, circle.radius], "<f8").tobytes())
    assert digest.hexdigest() == "c13afac932a8a0fae811dfe3c09e36f3d9004177c0661e9900130363149e7b24"


@pytest.mark.parametrize("times", [2.0, 4.0, 8.0, 12.0, 14.0])
@pytest.mark.parametrize(("speed", "length"), FIELDS)
def test_a_denser_field_has_more_obstacles_and_a_fair_start(speed: float, length: float, times: float) -> None:
    shipped = 0.25 / (least_gap(speed) + 3.0) ** 2
    gap = least_gap(speed, times)
    assert 0.5 <= gap < least_gap(speed)
    for seed in (1, 2):
        course = obstacle_field(speed, length, seed, times=times)
        assert equal(course, obstacle_field(speed, length, seed, times=times))
        begin = max(10.0 + 2.0 * speed, fair_start(speed) + 2.5)
        assert len(course.obstacles) == round(times * shipped * 50.0 * (length - 10.0 - speed - begin))
        # Who brakes at 5 m/s^2 half a second after the start stands before the first of them.
        nearest = min(o.x - o.radius if isinstance(o, Circle) else o.vertices[:, 0].min() for o in course.obstacles)
        assert nearest - 2.4 > 0.5 * speed + speed ** 2 / 10.0 + 1.0
        circles = np.array([(o.x, o.y, o.radius) for o in course.obstacles if isinstance(o, Circle)])
        away = np.hypot(*(circles[:, None, :2] - circles[None, :, :2]).T) - circles[:, 2] - circles[:, 2][:, None]
        np.fill_diagonal(away, np.inf)
        assert away.min() >= gap - 1e-9


def test_the_density_of_a_scenarios_field_can_be_changed() -> None:
    assert equal(load_scenario("obstacle_field_40", seed=9, times=8.0), obstacle_field(17.8816, 300.0, 9, times=8.0))
    assert equal(load_scenario("obstacle_field_40", times=1.0), load_scenario("obstacle_field_40"))


def test_one_who_drives_straight_on_meets_both_moving_obstacles() -> None:
    course = moving_obstacle(10.0)
    vehicle = Footprint(2.3, 2.3, 1.1)
    for obstacle in course.obstacles:
        met = [World((obstacle,)).clearance(t, 10.0 * t, 0.0, 0.0, vehicle) for t in np.arange(0.0, 20.0, 0.05)]
        assert met[0] > 10.0 and min(met) < 0.0 and met[-1] > 10.0


@pytest.mark.parametrize("way_round", [False, True])
def test_the_dead_end_is_one(way_round: bool) -> None:
    course = dead_end(10.0, way_round=way_round)
    assert course.goal is not None
    xs, ys = np.arange(0.0, 140.0, 0.4), np.arange(-40.0, 40.4, 0.4)
    grid = np.array(np.meshgrid(xs, ys, indexing="ij")).reshape(2, -1).T
    regions, _ = label((distances(course, grid) > 1.1).reshape(len(xs), len(ys)))
    middle = int(np.argmin(np.abs(ys)))
    start, inside, goal = (regions[int(np.argmin(np.abs(xs - x))), middle] for x in (0.0, 85.0, course.goal.x))
    assert start == inside != 0 and goal != 0 and (goal == start) == way_round
    assert World(course.obstacles).clearance(0.0, 85.0, 0.0, 0.0, Footprint(2.3, 2.3, 1.1)) == pytest.approx(2.7)


@pytest.mark.parametrize("name", ["iso_3888_1", "iso_3888_2", "nato_lane_change", "slalom", "obstacle_field_20", "obstacle_field_40",
                                  "obstacle_field_60", "moving_obstacle", "dead_end"])
def test_shipped_courses_are_tasks(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.profile is None and scenario.speed == scenario.initial.speed > 0.0 and scenario.world.obstacles
    assert (scenario.goal is None) != (scenario.path is None) and (scenario.path is None) == (scenario.corridor is None)
    reach = scenario.goal.x if scenario.goal else scenario.corridor[-1, 0]
    assert scenario.duration > 1.5 * reach / scenario.speed


def test_a_scenario_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("""
goal: {x: 50, y: 5, stop: true}
path: [[0, 0], [20, 1], [50, 5]]
corridor: [[0, 2, 2], [50, 3, 2.5]]
hidden_traffic: cyclists
speed: 8
duration: 20
obstacles:
  - {circle: {x: 10, y: 3, radius: 1}, velocity: [0.5, -1], motion: [[2.0, 0, 0], [3.5, 0, 1]], name: dog}
  - polygon: [[30, -5], [32, -5], [31, -3]]
""")
    scenario = load_scenario(file)
    dog, rock = scenario.world.obstacles
    assert dog == Circle(10.0, 3.0, 1.0, 0.5, -1.0, "dog", steps=(MotionStep(2.0, 0.0, 0.0), MotionStep(3.5, 0.0, 1.0)))
    assert isinstance(rock, Polygon) and rock.vertices.shape == (3, 2)
    assert scenario.goal is not None and scenario.goal.stop and scenario.goal.tolerance == 3.0
    assert scenario.path.tolist() == [[0.0, 0.0], [20.0, 1.0], [50.0, 5.0]] and scenario.corridor[1].tolist() == [50.0, 3.0, 2.5]
    assert (scenario.profile, scenario.duration, scenario.speed, scenario.initial.speed) == (None, 20.0, 8.0, 0.0)
    assert scenario.hidden_speed == 5.0


def test_what_a_file_says_replaces_what_its_course_says(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("course: {kind: moving_obstacle, speed: 10}\ninitial: {y: 2}\nspeed: 6\nduration: 9\n"
                    "goal: {x: 90, y: 1}\nobstacles: [{circle: {x: 9, y: 9, radius: 1}}]\n")
    scenario = load_scenario(file)
    assert (scenario.initial.y, scenario.initial.speed, scenario.speed, scenario.duration) == (2.0, 10.0, 6.0, 9.0)
    assert scenario.goal is not None and scenario.goal.x == 90.0 and len(scenario.world.obstacles) == 3


@pytest.mark.parametrize(("text", "words"), [
    ("speed: 3", "nothing to do; give inputs, a goal, a path or a course"),
    ("{goal: {x: 1, y: 2}, duration: 3}", "missing key 'speed'"),
    ("{goal: {x: 1, y: 2}, speed: 3}", "missing key 'duration'"),
    ("{goal: {x: 1}, speed: 3, duration: 3}", "goal: missing key 'y'"),
    ("{goal: {x: 1, y: 2, tolerance: -1}, speed: 3, duration: 3}", "goal: tolerance is -1"),
    ("{goal: {x: 1, y: 2, stop: 1}, speed: 3, duration: 3}", "goal: stop: expected true or false"),
    ("{goal: {x: 1, y: 2}, speed: 0, duration: 3}", "speed is 0"),
    ("{path: [[0, 0]], speed: 3, duration: 3}", "path: give at least 2 rows"),
    ("{path: [[0, 0], [1, .nan]], speed: 3, duration: 3}", "path: give at least 2 rows of finite numbers"),
    ("{path: [[0, 0], [1]], speed: 3, duration: 3}", "path: give rows [x, y]"),
    ("{goal: {x: 1, y: 2}, speed: 3, duration: 3, corridor: [[0, 1, 1], [1, 1, 1]]}", "corridor: it lies along a path"),
    ("{path: [[0, 0], [1, 1]], speed: 3, duration: 3, corridor: [[0, 1, 1], [0, 1, 1]]}", "corridor: s must rise"),
    ("{path: [[0, 0], [1, 1]], speed: 3, duration: 3, hidden_traffic: trams}", "hidden_traffic is 'trams'; choose one of: pedestrians"),
    ("{goal: {x: 1, y: 2}, speed: 3, duration: 3, hidden_traffic: cars}", "hidden_traffic: it bounds the speed on a path; give one"),
    ("{path: [[0, 0], [1, 1]], speed: 3, duration: 3, obstacles: 3}", "obstacles: give a list"),
    ("{path: [[0, 0], [1, 1]], speed: 3, duration: 3, obstacles: [{name: a}]}", "obstacles[0]: give either circle or polygon"),
    ("{path: [[0, 0], [1, 1]], speed: 3, duration: 3, obstacles: [{circle: {x: 1, y: 1, radius: -1}}]}", "[0]: circle: radius is -1"),
    ("{path: [[0, 0], [1, 1]], speed: 3, duration: 3, obstacles: [{polygon: [[0, 0], [1, 1], [1, 0], [0, 1]]}]}", "polygon: edges 0 and 2"),
    ("{path: [[0, 0], [1, 1]], speed: 3, duration: 3, obstacles: [{circle: {x: 1, y: 1, radius: 1}, velocity: 3}]}", "velocity: give [vx"),
    ("course: {kind: karting}", "course: kind is 'karting'; choose one of: iso_3888_1"),
    ("course: slalom", "course: kind is None"),
    ("course: {kind: slalom}", "course: missing key 'speed'"),
    ("course: {kind: slalom, speed: 3, cone: 3}", "course: unknown key 'cone'"),
    ("course: {kind: slalom, speed: 3, cones: 2.5}", "course: cones: expected a whole number"),
    ("course: {kind: slalom, speed: 3, cones: 1}", "course: cones is 1"),
    ("course: {kind: dead_end, speed: 3, way_round: 1}", "course: way_round: expected true or false"),
    ("course: {kind: dead_end, speed: 3, width: 3}", "course: width is 3"),
    ("course: {kind: obstacle_field, speed: -3, length: 100}", "course: speed is -3"),
    ("course: {kind: obstacle_field, speed: 30, length: 100}", "course: length is 100 m"),
    ("course: {kind: obstacle_field, speed: 10, length: 200, density: 0.1}", "course: density is 0.1"),
    ("course: {kind: obstacle_field, speed: 10, length: 200, times: 0}", "course: times is 0"),
    ("course: {kind: obstacle_field, speed: 10, length: 200, times: 60}", "course: density is "),
    ("course: {kind: obstacle_field, speed: 10, length: 200, times: 1.0e+300}", "course: times is 1e+300"),
    ("{course: {kind: slalom, speed: 3}, path: [[0, 0], [1, 1]]}", "remove the key 'path'"),
    ("inputs: [[0, 0, 0]]", "inputs: give rows"),
    ("inputs: [[0, 0, 0, zero]]", "inputs: not all cells are numbers"),
    ("inputs: [[0, 0, 0, 2]]", "brake 2 is outside"),
    ("inputs: [[0, 0, 0, 0], [0, 0, 0, 0]]", "does not rise"),
    ("{inputs: [[0, 0, 0, 0]], duration: -1}", "duration is -1"),
    ("{inputs: [[0, 0, 0, 0]], duration: 1, initial: {sped: 3}}", "initial: unknown key 'sped'"),
    ("{inputs: [[0, 0, 0, 0]], duration: 1, initial: {speed: -3}}", "speed is -3"),
    ("{inputs: [[0, 0, 0, 0]], duration: 1, initial: {x: .nan}}", "initial: x: expected a finite number, found nan"),
    ("3", "expected a mapping with inputs"),
    ("speed: 1.0e+300\npath: [[0, 0], [10, 0]]\nduration: 1", "speed is 1e+300 m/s"),
    ("speed: 5\npath: [[0, 0], [1.0e+300, 0]]\nduration: 1", "path: point 1"),
    ("speed: 5\npath: [[0, 0], [10, 0]]\nduration: 1.0e+300", "duration is 1e+300 s"),
    ("speed: 5\npath: [[0, 0], [10, 0]]\nduration: 1\ncorridor: [[0, 1, 1], [5, 1.0e+300, 1]]", "row 1"),
    ("speed: 5\ngoal: {x: 1.0e+300, y: 0}\nduration: 1", "goal: x is 1e+300 m"),
    ("speed: 5\ngoal: {x: 10, y: 0}\nduration: 1\ninitial: {speed: 1.0e+300}", "initial: speed is 1e+300 m/s"),
    ("speed: 5\ngoal: {x: 10, y: 0}\nduration: 1\nobstacles: [{circle: {x: 0, y: 0, radius: 1}, velocity: [1.0e+300, 0]}]", "vx is 1e+300"),
    ("speed: 5\ngoal: {x: 10, y: 0}\nduration: 1\nobstacles: [{circle: {x: 0, y: 0, radius: 1}, motion: [[2, 0, 0], [1, 1, 0]]}]",
     "obstacles[0]: motion: row 1 begins at 1 s; times must rise"),
    ("speed: 5\ngoal: {x: 10, y: 0}\nduration: 1\nobstacles: [{circle: {x: 0, y: 0, radius: 1}, motion: [[2, 0]]}]",
     "obstacles[0]: motion: give rows [time, vx, vy, turned]"),
    ("course: {kind: obstacle_field, speed: 5, length: 1.0e+300}", "length is 1e+300 m"),
    ("course: {kind: obstacle_field, speed: 5, length: 100, density: 1.0e+300}", "density is 1e+300"),
    ("course: {kind: slalom, speed: 5, cones: 1000000000}", "cones is 1e+09"),
    ("course: {kind: dead_end, speed: 1.0e+300}", "speed is 1e+300"),
])
def test_errors_name_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        load_scenario(file)
    assert str(error.value).startswith(str(file)) and words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "arguments", "words"), [
    ("slalom", {"seed": 3}, "slalom has no seed"), ("coast_down", {"seed": 3}, "no course that a seed could change"),
    ("slalom", {"times": 2.0}, "slalom has no times"), ("coast_down", {"times": 2.0}, "no course that a times could change"),
    ("obstacle_field_20", {"seed": -1}, "seed is -1")])
def test_a_seed_and_a_density_need_a_course_that_takes_them(name: str, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_scenario(name, **arguments)


def test_a_file_may_be_as_long_as_its_longest_path(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    file.write_text("path:\n- [0, 0]\n- [9, 0]\nspeed: 3\nduration: 4\n#" + "x" * 1_000_000)
    path = load_scenario(file).path
    assert path is not None and len(path) == 2
