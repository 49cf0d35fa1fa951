"""Clearance against densely sampled outlines, point-in-polygon tests of another library, and cases with a known answer."""

from typing import Any

import numpy as np
import pytest
from matplotlib.path import Path as Outline

from lfdm_ros.errors import InputError
from lfdm_ros.simulation import Circle, Footprint, Goal, MotionStep, Polygon, Pose, World
from lfdm_ros.simulation.world import contains, convex_parts

VEHICLE = Footprint(front=2.5, rear=2.0, half_width=1.1)
L_SHAPE = np.array([[0.0, 0.0], [6.0, 0.0], [6.0, 2.0], [2.0, 2.0], [2.0, 5.0], [0.0, 5.0]])


def rectangle(x: float, y: float, yaw: float) -> np.ndarray:
    corners = np.array([[2.5, 1.1], [-2.0, 1.1], [-2.0, -1.1], [2.5, -1.1]])
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    return corners @ turn.T + [x, y]


def outline(corners: np.ndarray, step: float = 0.02) -> np.ndarray:
    """Points along the edges, at most a step apart."""
    parts = []
    for a, b in zip(corners, np.roll(corners, -1, axis=0)):
        count = int(np.ceil(np.hypot(*(b - a)) / step))
        parts.append(a + np.linspace(0.0, 1.0, count, endpoint=False)[:, None] * (b - a))
    return np.concatenate(parts)


def random_polygon(random: np.random.Generator, convex: bool) -> np.ndarray:
    n = int(random.integers(3, 9))
    angles = 2.0 * np.pi * (np.arange(n) + random.uniform(-0.2, 0.2, n)) / n
    radii = np.full(n, 2.0) if convex else random.uniform(0.5, 3.0, n)
    points = radii[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]) + random.uniform(-5.0, 5.0, 2)
    return points if random.uniform() < 0.5 else points[::-1]


def test_circles_agree_with_sampled_outlines() -> None:
    random = np.random.default_rng(1)
    signs = set()
    for _ in range(100):
        circle = Circle(*random.uniform(-5.0, 5.0, 2), random.uniform(0.1, 3.0), *random.uniform(-2.0, 2.0, 2))
        time, x, y, yaw = random.uniform(-2.0, 2.0, 4)
        centre = np.array([circle.x + time * circle.vx, circle.y + time * circle.vy])
        corners = rectangle(x, y, yaw)
        to_edge = np.hypot(*(outline(corners, 1e-3) - centre).T).min()
        inside = Outline(corners).contains_point(centre)
        got = World((circle,)).clearance(time, x, y, yaw, VEHICLE)
        # The shortest shift that parts a circle and a rectangle: along the line from its centre to the nearest edge.
        assert got == pytest.approx((-to_edge if inside else to_edge) - circle.radius, abs=6e-4)
        signs.add(got > 0.0)
    assert signs == {True, False}


@pytest.mark.parametrize("convex", [True, False])
def test_polygons_agree_with_sampled_outlines(convex: bool) -> None:
    random = np.random.default_rng(2)
    signs = set()
    for _ in range(60):
        vertices, (vx, vy) = random_polygon(random, convex), random.uniform(-2.0, 2.0, 2)
        time, x, y, yaw = random.uniform(-3.0, 3.0, 4)
        moved, corners = vertices + time * np.array([vx, vy]), rectangle(x, y, yaw)
        theirs, ours = outline(moved), outline(corners)
        overlap = Outline(moved).contains_points(ours).any() or Outline(corners).contains_points(theirs).any()
        got = World((Polygon(vertices, vx, vy),)).clearance(time, x, y, yaw, VEHICLE)
        if overlap:
            assert got < 0.0
        else:
            nearest = np.sqrt(((ours[:, None] - theirs[None]) ** 2).sum(axis=2)).min()
            assert got == pytest.approx(nearest, abs=0.021) and got <= nearest + 1e-9
        signs.add(bool(overlap))
    assert signs == {True, False}


def test_an_overlap_ends_after_the_shortest_shift_and_no_shorter_one() -> None:
    random = np.random.default_rng(3)
    directions = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False)
    depths = []
    for _ in range(15):
        vertices = random_polygon(random, convex=True)
        middle = vertices.mean(axis=0) + random.uniform(-1.0, 1.0, 2)
        yaw = random.uniform(-3.0, 3.0)
        world = World((Polygon(vertices),))
        depth = -world.clearance(0.0, *middle, yaw, VEHICLE)
        if depth <= 0.0:
            continue
        depths.append(depth)
        after, before = ([world.clearance(0.0, middle[0] + part * depth * np.cos(a), middle[1] + part * depth * np.sin(a), yaw, VEHICLE)
                          for a in directions] for part in (1.001, 0.999))
        assert max(after) > -1e-3 and max(before) < 0.0
    assert len(depths) > 10


@pytest.mark.parametrize(("obstacle", "expected"), [
    (Circle(5.5, 0.0, 1.0), 2.0),  # ahead
    (Circle(-4.0, 0.0, 1.0), 1.0),  # behind
    (Circle(5.5, 5.1, 1.0), 4.0),  # 3-4-5 from the corner
    (Circle(0.0, 1.0, 0.5), -0.6),
    (Polygon([[2.2, -9.0], [9.0, -9.0], [9.0, 9.0], [2.2, 9.0]]), -0.3),
    (Polygon([[-50.0, -50.0], [50.0, -50.0], [50.0, 50.0], [-50.0, 50.0]]), -51.1),  # all around
    (Polygon([[0.0, 0.0], [0.2, 0.0], [0.0, 0.2]]), -1.1),  # all under the vehicle
    (Polygon(np.array([[-9.0, -9.0], [9.0, -9.0], [9.0, 9.0], [-9.0, 9.0], [-9.0, 1.6], [8.0, 1.6], [8.0, -1.6], [-9.0, -1.6]])), 0.5),
])
def test_known_clearances(obstacle: Any, expected: float) -> None:
    assert World((obstacle,)).clearance(0.0, 0.0, 0.0, 0.0, VEHICLE) == pytest.approx(expected, abs=1e-12)


def test_the_nearest_is_named_and_all_are_in_order() -> None:
    world = World((Circle(20.0, 0.0, 1.0, name="far"), Polygon(L_SHAPE + [6.0, 0.0]), Circle(-9.0, 0.0, 1.0, vx=1.0, name="chaser")))
    assert world.nearest(0.0, 0.0, 0.0, 0.0, VEHICLE) == "obstacle 1"
    assert world.nearest(5.0, 0.0, 0.0, 0.0, VEHICLE) == "chaser"
    assert world.clearances(5.0, 0.0, 0.0, 0.0, VEHICLE) == pytest.approx([16.5, 3.5, 1.0])
    assert World().clearance(0.0, 0.0, 0.0, 0.0, VEHICLE) == np.inf and World().nearest(0.0, 0.0, 0.0, 0.0, VEHICLE) == ""


def test_convex_parts_fill_the_polygon() -> None:
    random = np.random.default_rng(4)
    for _ in range(30):
        vertices = random_polygon(random, convex=False)
        points = vertices.mean(axis=0) + random.uniform(-3.0, 3.0, (400, 2))
        whole = Outline(vertices).contains_points(points)
        parts = [Outline(part).contains_points(points) for part in convex_parts(vertices)]
        assert (np.sum(parts, axis=0) == whole).all()
    assert len(convex_parts(L_SHAPE)) == 4 and len(convex_parts(L_SHAPE[:3])) == 1


@pytest.mark.parametrize(("make", "words"), [
    (lambda: Circle(0.0, 0.0, 0.0), "radius is 0"),
    (lambda: Circle(np.nan, 0.0, 1.0), "x is nan"),
    (lambda: Circle(0.0, 0.0, 1.0, vx=np.inf), "vx is inf"),
    (lambda: Polygon([[0.0, 0.0], [1.0, 1.0]]), "at least 3 corners"),
    (lambda: Polygon([[0.0, 0.0], [1.0, 1.0], [np.inf, 0.0]]), "not finite"),
    (lambda: Polygon([[0.0, 0.0], [1.0, "a"], [1.0, 0.0]]), "must be numbers"),
    (lambda: Polygon([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), "edges 0 and 2"),
    (lambda: Polygon([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), "corner 1 of the polygon repeats"),
    (lambda: Polygon([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), "folds back at corner 1"),
    (lambda: Polygon([[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [2.0, 0.0], [0.0, 4.0]]), "edges 0 and 2"),  # a corner on an edge
    (lambda: Polygon([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), "folds back"),  # no area
    (lambda: Footprint(1.0, 0.0, 1.0), "must be more than 0"),
    (lambda: Goal(1.0, 1.0, tolerance=0.0), "tolerance is 0"),
    (lambda: Pose(speed=-1.0), "speed is -1"),
])
def test_what_is_no_obstacle_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


STEPS = (MotionStep(1.0, 0.0, 0.0), MotionStep(2.5, -1.0, 0.5, 0.8), MotionStep(4.0, 0.0, -2.0, -2.0))


@pytest.mark.parametrize("time", [0.0, 0.6, 1.0, 2.0, 3.3, 4.0, 7.5])
def test_what_changes_its_velocity_is_where_its_steps_add_up_to(time: float) -> None:
    """Velocities summed in small steps, outlines turned as complex numbers, against a world in which all stands there."""
    random = np.random.default_rng(5)
    places = random.uniform(-4.0, 4.0, (6, 2))
    polygons = [Polygon(L_SHAPE, 1.5, 0.2, steps=STEPS), Polygon(L_SHAPE - 9.0, 0.0, 1.0)]
    circles = [Circle(1.0, -6.0, 0.4, -1.0, 0.0, steps=STEPS[:2]), Circle(-3.0, 5.0, 0.6, 0.5, 0.5)]
    moved = World((polygons[0], circles[0], polygons[1], circles[1]))

    step = 1e-3
    shifts, turned = [], []
    for obstacle in moved.obstacles:
        middles = (np.arange(round(time / step)) + 0.5) * step
        acting = [next((motion_step for motion_step in reversed(obstacle.steps) if motion_step.time <= at), obstacle) for at in middles]
        shifts.append(step * sum((complex(one.vx, one.vy) for one in acting), 0j))
        turned.append(next((motion_step.turned for motion_step in reversed(obstacle.steps) if motion_step.time <= time), 0.0))

    def standing(obstacle: Circle | Polygon, shift: complex, angle: float) -> Circle | Polygon:
        if isinstance(obstacle, Circle):
            return Circle(obstacle.x + shift.real, obstacle.y + shift.imag, obstacle.radius)
        corners = obstacle.vertices @ [1.0, 1.0j]
        corners = (corners - corners.mean()) * np.exp(1j * angle) + corners.mean() + shift
        return Polygon(np.column_stack([corners.real, corners.imag]))

    there = World(tuple(standing(*one) for one in zip(moved.obstacles, shifts, turned)))
    for found, expected in zip((*moved.circles_at(time), *moved.edges_at(time)), (*there.circles_at(0.0), *there.edges_at(0.0))):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    for x, y in (*places, *there.edges_at(0.0)[0][:2]):
        np.testing.assert_allclose(moved.clearances(time, x, y, 0.3, VEHICLE), there.clearances(0.0, x, y, 0.3, VEHICLE), atol=1e-9)
    assert moved.fastest == 2.0


@pytest.mark.parametrize("steps", [
    (MotionStep(0.0, 1.0, 0.0),), (MotionStep(2.0, 0.0, 0.0), MotionStep(2.0, 1.0, 0.0)), (MotionStep(1.0, float("nan"), 0.0),)])
def test_times_of_motion_must_rise(steps: tuple[MotionStep, ...]) -> None:
    with pytest.raises(InputError, match="motion"):
        Circle(0.0, 0.0, 1.0, steps=steps)


@pytest.mark.parametrize("time", [0.0, 0.9, 1.0, 2.5, 3.9, 4.0, 9.0])
@pytest.mark.parametrize("delay", [0.0, 2.0])
def test_an_obstacle_is_met_only_while_it_is_present(time: float, delay: float) -> None:
    steps = (MotionStep(0.5, 2.0, 0.0), MotionStep(2.0, 0.0, 1.0, 0.3))
    always = Polygon(np.array([(0, 0), (4, 0), (4, 2), (0, 2)]), 1.0, -1.0, steps=steps)
    now_and_then = Polygon(always.vertices, 1.0, -1.0, steps=steps, present=(1.0, 4.0))
    there, met = (World((o,)).delayed(delay).clearance(time + delay, 5.0, 6.0, 0.2, VEHICLE) for o in (always, now_and_then))
    assert met == pytest.approx(there) if 1.0 <= time < 4.0 else met > 1e5


def test_what_appears_may_come_at_any_speed() -> None:
    """Contact is looked for where the fastest may be; what appears may be anywhere."""
    assert World((Circle(0.0, 0.0, 1.0, 3.0, 4.0, present=(0.0, 2.0)),)).fastest == 5.0
    assert World((Circle(0.0, 0.0, 1.0, present=(1.0, 2.0)),)).fastest == np.inf


@pytest.mark.parametrize("present", [(2.0, 2.0), (3.0, 1.0), (float("nan"), 1.0)])
def test_times_of_presence_must_rise(present: tuple[float, float]) -> None:
    with pytest.raises(InputError, match="present is"):
        Circle(0.0, 0.0, 1.0, present=present)


def test_an_outline_contains_as_matplotlib_says() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        angles = np.sort(rng.uniform(0.0, 2.0 * np.pi, 7))
        outline = rng.uniform(1.0, 4.0, (7, 1)) * np.column_stack([np.cos(angles), np.sin(angles)])
        points = rng.uniform(-4.0, 4.0, (200, 2))
        assert np.array_equal(contains(outline, points), Outline(outline).contains_points(points))
