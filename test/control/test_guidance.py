"""Ways round obstacles: against a flood fill, exact distances, and situations whose answer is known."""

import dataclasses
import itertools

import numpy as np
import pytest
from scipy import ndimage

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import native
from lfdm_ros.control.routing.lattice import BLOCKED_COST, MAX_SLOPE_CHANGE, LatticeSettings, search
from lfdm_ros.control.routing.lattice_planner import LatticePlanner
from lfdm_ros.control.routing.routes import Route
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation.path import Path

HALF_WIDTH, MARGIN = 1.1, 0.5
GUIDE = LatticePlanner()


def field(centres: object = (), radii: object = 1.0, velocities: object = 0.0) -> Obstacles:
    places = np.array(centres, float).reshape(-1, 2)
    return Obstacles(places, np.broadcast_to(np.asarray(radii, float), len(places)).copy(),
                     np.broadcast_to(np.asarray(velocities, float), places.shape).copy(), 0.0)


def wall(x: float, low: float, high: float) -> list[list[float]]:
    """Centres of circles of 0.7 m that stand side by side."""
    return [[x, y] for y in np.arange(low, high + 1e-9, 1.0)]


def sides(x: float, to: float, y: float) -> list[list[float]]:
    """The two long walls of a dead end."""
    return [[at, side * y] for at in np.arange(x, to, 1.0) for side in (1.0, -1.0)]


def route(obstacles: Obstacles, speed: float = 9.0, yaw: float = 0.0, goal: tuple[float, float] = (118.0, 0.0),
          previous: Route | None = None, x: float = 0.0, y: float = 0.0, guide: LatticePlanner = GUIDE) -> Route:
    return guide.route(x, y, yaw, speed, *goal, obstacles, HALF_WIDTH, MARGIN, previous)


def clearance(found: Route, obstacles: Obstacles, speed: float = 0.0) -> float:
    """Least distance [m] between the vehicle's side and an obstacle over the path, exactly, at 2 cm; moving ones when it is there."""
    s = np.arange(0.0, found.path.length, 0.02)
    x, y, _, _ = found.path.at(s)
    time = s / speed if speed else 0.0 * s
    return min((float(np.hypot(x - c[0] - v[0] * time, y - c[1] - v[1] * time).min() - r) for c, r, v in
                zip(obstacles.centres, obstacles.radii, obstacles.velocities)), default=np.inf) - HALF_WIDTH


def passable(obstacles: Obstacles, goal: float) -> bool:
    """Whether a disc with the margin can get from the origin to (goal, 0) over a fine grid."""
    x, y = np.meshgrid(np.arange(-5.0, 130.0, 0.5), np.arange(-30.0, 30.1, 0.5), indexing="ij")
    free = np.ones(x.shape, bool)
    for (cx, cy), radius in zip(obstacles.centres, obstacles.radii):
        free &= np.hypot(x - cx, y - cy) >= radius + HALF_WIDTH + MARGIN
    parts, _ = ndimage.label(free)
    start, end = parts[10, 60], parts[round((goal + 5.0) / 0.5), 60]
    return bool(start) and start == end


def random_field(seed: int, count: int, first: float) -> Obstacles:
    random = np.random.default_rng(seed)
    centres = np.column_stack([random.uniform(first, 115.0, count), random.uniform(-30.0, 30.0, count)])
    radii = random.uniform(0.3, 1.5, count)
    keep = np.hypot(centres[:, 0] - 118.0, centres[:, 1]) > radii + 3.0
    return field(centres[keep], radii[keep])


def begins_at_the_vehicle(found: Route, x: float, y: float, yaw: float) -> bool:
    path = found.path
    return np.hypot(path.x[0] - x, path.y[0] - y) < 1e-6 and abs(path.yaw[0] - yaw) < 1e-3


@pytest.mark.parametrize(("speed", "count"), [(9.0, 20), (9.0, 40), (13.0, 40), (18.0, 25)])
def test_random_fields(speed: float, count: int) -> None:
    tried, found = 0, 0
    for seed in range(40):
        obstacles = random_field(seed, count, 15.0 + speed)
        if not passable(obstacles, 118.0):
            continue
        yaw = 0.3 * np.sin(seed)
        way = route(obstacles, speed, yaw)
        assert begins_at_the_vehicle(way, 0.0, 0.0, yaw)
        tried += 1
        if not way.blocked:
            found += 1
            assert clearance(way, obstacles) >= 0.0
            assert np.hypot(way.path.x[-1] - 118.0, way.path.y[-1]) <= GUIDE.settings.goal_tolerance + 0.3
            assert way.free_length == way.path.length
    assert tried >= 38 and found >= tried - 1


def test_free_length_of_what_is_blocked() -> None:
    """As far as it says, a blocked route is free; it does not stop short of what it could reach."""
    stopped = 0
    for seed in range(25):
        obstacles = random_field(seed, 50, 25.0)
        obstacles = field(np.vstack([obstacles.centres, wall(90.0, -45.0, 45.0)]), np.append(obstacles.radii, np.full(91, 0.7)))
        way = route(obstacles)
        assert way.blocked and way.free_length >= 1.0
        assert way.path.at(np.array([way.free_length]))[0] < 90.0 - 0.7 - HALF_WIDTH
        keep = way.path.s <= way.free_length + 1e-9
        path = way.path
        free = Path.of_samples(*(a[keep] for a in (path.s, path.x, path.y, path.yaw, path.curvature)))
        assert clearance(dataclasses.replace(way, path=free), obstacles) >= 0.0
        if (way.path.at(np.array([way.free_length]))[0] < 80.0) and passable(obstacles, 80.0):
            stopped += 1
    assert stopped <= 3


def test_nothing_in_the_way() -> None:
    way = route(field())
    assert not way.blocked and way.kind == "lattice"
    assert way.path.y == pytest.approx(0.0, abs=1e-9) and way.path.length == pytest.approx(118.0)


def test_the_frame_does_not_matter() -> None:
    """The same scene turned and moved gives the same route, turned and moved."""
    obstacles, angle, move = random_field(4, 30, 25.0), 2.1, np.array([300.0, -80.0])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    one = route(obstacles, yaw=0.1)
    goal = turn @ [118.0, 0.0] + move
    moved = dataclasses.replace(obstacles, centres=obstacles.centres @ turn.T + move)
    two = route(moved, yaw=0.1 + angle, goal=(goal[0], goal[1]), x=move[0], y=move[1])
    back = (np.column_stack([two.path.x, two.path.y]) - move) @ turn
    assert back == pytest.approx(np.column_stack([one.path.x, one.path.y]), abs=1e-6)
    again = route(obstacles, yaw=0.1 + 6.0 * np.pi)  # a yaw that counts whole turns
    assert begins_at_the_vehicle(again, 0.0, 0.0, 0.1 + 6.0 * np.pi) and again.path.y == pytest.approx(one.path.y, abs=1e-6)


@pytest.mark.parametrize("speed", [0.0, 9.0, 18.0])
def test_curvature_can_be_driven(speed: float) -> None:
    """It never turns tighter than the tightest circle by more than the spline's overshoot, nor at once tighter than grip allows."""
    way = route(field([[45.0, 0.0]], 3.0), speed)
    assert not way.blocked
    assert np.abs(way.path.curvature).max() < 1.3 / GUIDE.settings.smallest_radius
    first = way.path.s < 0.5 * max(speed, 3.0)
    assert (np.abs(way.path.curvature[first]) * speed**2).max() < 1.3 * GUIDE.settings.lateral_acceleration


def test_speed_forbids_what_the_circle_allows() -> None:
    """10 m aside within 34 m: two arcs of about 30 m radius, for which 27 m/s is too fast, braking or not."""
    obstacles = field(wall(35.0, -45.0, 8.0), 0.7)
    assert not route(obstacles, 4.0).blocked
    assert route(obstacles, 27.0).blocked


@pytest.mark.parametrize("speed", [9.0, 18.0])
def test_wall_with_an_open_end(speed: float) -> None:
    obstacles = field(wall(70.0, -40.0, 22.0), 0.7)
    way = route(obstacles, speed)
    assert not way.blocked and way.path.y.max() > 23.0 and clearance(way, obstacles) >= 0.0


@pytest.mark.parametrize("gap", [2.4, 2.8, 3.9, 5.0])
@pytest.mark.parametrize("aside", [0.0, 0.25, -4.6])
def test_gap(gap: float, aside: float) -> None:
    """The vehicle is 2.2 m wide and keeps 0.5 m on each side: 3.2 m."""
    half = 0.5 * gap + 0.7
    obstacles = field(wall(70.0, aside + half, 45.0) + [[70.0, 2.0 * aside - y] for _, y in wall(70.0, aside + half, 50.0)], 0.7)
    way = route(obstacles)
    assert way.blocked == (gap < 3.2)
    if way.blocked:
        assert 55.0 < way.free_length < 71.5
    else:
        assert clearance(way, obstacles) >= 0.5 * MARGIN


def test_dead_end() -> None:
    seen = field(wall(80.0, -12.0, 12.0) + sides(45.0, 80.0, 12.0), 0.7)
    way = route(seen)
    assert not way.blocked and np.abs(way.path.y).max() > 13.0 and clearance(way, seen) >= 0.0
    closed = field(wall(80.0, -45.0, 45.0) + sides(45.0, 80.0, 12.0), 0.7)
    way = route(closed)
    assert way.blocked and 70.0 < way.free_length < 80.0
    inside = field(wall(30.0, -12.0, 12.0) + sides(-5.0, 30.0, 12.0), 0.7)
    way = route(inside)
    assert way.blocked and 20.0 < way.free_length < 30.0


def test_noise_does_not_change_sides() -> None:
    """An obstacle dead ahead: whichever side was chosen first is kept when the obstacle jitters."""
    random, previous, chosen = np.random.default_rng(5), None, set()
    for _ in range(50):
        obstacles = field([[45.0, 0.0] + random.normal(0.0, 0.05, 2), [80.0, 0.0] + random.normal(0.0, 0.05, 2)], 2.0)
        previous = route(obstacles, previous=previous)
        at = np.interp([45.0, 80.0], previous.path.x, previous.path.y)
        chosen.add((float(np.sign(at[0])), float(np.sign(at[1]))))
    assert len(chosen) == 1
    alone = {float(np.sign(np.interp(45.0, (way := route(field([[45.0, d]], 2.0))).path.x, way.path.y))) for d in (-0.3, 0.3)}
    assert alone == {-1.0, 1.0}  # without a route before, the near side is the better one


def test_a_much_better_side_is_taken() -> None:
    before = route(field([[45.0, -0.5]], 2.0))
    assert np.interp(45.0, before.path.x, before.path.y) > 0.0
    after = route(field([[45.0, -0.5]] + wall(50.0, 1.0, 45.0), [2.0] + 45 * [0.7]), previous=before)
    assert not after.blocked and np.interp(48.0, after.path.x, after.path.y) < 0.0


def test_symmetric_scene_is_decided_and_always_alike() -> None:
    ways = [route(field([[45.0, 0.0]], 2.0), guide=guide) for guide in (GUIDE, GUIDE, LatticePlanner())]
    assert not ways[0].blocked and abs(np.interp(45.0, ways[0].path.x, ways[0].path.y)) > 3.0
    for way in ways[1:]:
        assert (way.path.x == ways[0].path.x).all() and (way.path.y == ways[0].path.y).all()


def test_moving_obstacle_is_met_where_it_will_be() -> None:
    speed = 10.0
    crossing = field([[50.0, -15.0]], 2.0, [0.0, 3.0])  # on the line when the vehicle gets there
    way = route(crossing, speed)
    assert not way.blocked and clearance(way, crossing, speed) >= 0.0
    assert np.abs(way.path.y).max() > 1.0
    gone = field([[50.0, 0.0]], 2.0, [0.0, 3.0])  # on the line now
    assert route(gone, speed).path.y == pytest.approx(0.0, abs=1e-6)
    ahead = field([[40.0, 0.0]], 2.0, [10.0, 0.0])  # as fast as the vehicle
    assert route(ahead, speed).path.y == pytest.approx(0.0, abs=1e-6)
    oncoming = field([[90.0, 0.0]], 2.0, [-10.0, 0.0])  # met half way
    way = route(oncoming, speed)
    assert not way.blocked and clearance(way, oncoming, speed) >= 0.0 and abs(np.interp(45.0, way.path.x, way.path.y)) > 3.0


@pytest.mark.parametrize("yaw", [1.7, -1.7, 2.5, np.pi, -3.0])
@pytest.mark.parametrize("speed", [5.0, 12.0])
def test_goal_behind(yaw: float, speed: float) -> None:
    way = route(field(), speed, yaw, (60.0, 0.0))
    assert way.kind == "turn" and not way.blocked and begins_at_the_vehicle(way, 0.0, 0.0, yaw)
    assert np.hypot(way.path.x[-1] - 60.0, way.path.y[-1]) < 1.0
    assert np.abs(way.path.curvature).max() < 1.3 / GUIDE.settings.smallest_radius
    assert way.side == (-1 if 0.0 < yaw < 3.1 else 1 if yaw < 0.0 else way.side)


def test_turn_is_made_to_the_free_side() -> None:
    for side in (1, -1):
        obstacles = field([[14.0, 10.0 * side]], 3.0)
        way = route(obstacles, 6.0, 0.0, (-60.0, 0.0))
        assert way.side == -side and not way.blocked and clearance(way, obstacles) >= 0.0
    tight = field([[30.0 * np.cos(a), 30.0 * np.sin(a)] for a in np.arange(0.0, 2.0 * np.pi, 0.05)] +
                  [[0.0, 12.0], [0.0, -12.0]], [0.7] * 126 + [4.0] * 2)
    way = route(tight, 6.0, 0.0, (-60.0, 0.0))
    assert way.kind == "turn" and way.blocked and way.free_length > 0.0
    x, y, _, _ = way.path.at(np.array([way.free_length]))
    assert np.hypot(x, y)[0] < 30.0 - 0.7 - HALF_WIDTH


@pytest.mark.parametrize(("goal", "speed", "yaw"), [((-60.0, 0.0), 8.0, 0.0), ((0.0, 15.0), 8.0, 0.0), ((-6.0, 1.0), 5.0, 0.0),
                                                    ((6.0, 6.0), 5.0, 0.0), ((80.0, 10.0), 15.0, 0.5)])
def test_driven_step_by_step_it_gets_there(goal: tuple[float, float], speed: float, yaw: float) -> None:
    """The vehicle moves along each route for a tenth of a second and asks again: a turn must not begin anew each time."""
    x, y, previous = 0.0, 0.0, None
    for _ in range(300):
        previous = route(field(), speed, yaw, goal, previous, x, y)
        (x,), (y,), (yaw,), _ = (a.tolist() for a in previous.path.at(np.array([0.1 * speed])))
        if np.hypot(goal[0] - x, goal[1] - y) < 3.0:
            return
    pytest.fail(f"at ({x:.1f}, {y:.1f}) after 30 s")


@pytest.mark.parametrize("goal", [(2.0, 0.5), (0.0, 0.0), (3.0, -1.0), (-1.0, 0.0)])
def test_goal_closer_than_a_station(goal: tuple[float, float]) -> None:
    way = route(field(), 3.0, 0.0, goal)
    assert way.kind == "near" and not way.blocked and begins_at_the_vehicle(way, 0.0, 0.0, 0.0)
    assert np.hypot(way.path.x[-1] - goal[0], way.path.y[-1] - goal[1]) < 2.1


def test_obstacle_on_top_of_the_vehicle() -> None:
    way = route(field([[1.0, 0.0]], 2.0))
    assert way.blocked and way.free_length == 0.0


def test_inside_the_margin_there_is_a_way_out() -> None:
    obstacles = field([[0.0, 3.3]], 2.0)  # 0.2 m from the vehicle's side
    way = route(obstacles)
    assert not way.blocked and clearance(way, obstacles) >= 0.15
    ahead = field([[1.0, 2.95]], 1.6)  # 0.4 m away; straight on it comes closer first
    way = route(ahead)
    assert not way.blocked and clearance(way, ahead) > 0.2


def test_goal_inside_an_obstacle() -> None:
    way = route(field([[118.0, 0.5]], 3.0))
    assert way.blocked and way.free_length > 90.0


@pytest.mark.parametrize("change", [{"x": np.nan}, {"y": np.inf}, {"yaw": np.nan}, {"speed": np.nan}, {"goal_x": np.nan},
                                    {"goal_y": np.inf}, {"half_width": -1.0}, {"margin": np.nan}])
def test_bad_arguments(change: dict) -> None:
    usual = {"x": 0.0, "y": 0.0, "yaw": 0.0, "speed": 5.0, "goal_x": 50.0, "goal_y": 0.0, "half_width": 1.0, "margin": 0.5}
    with pytest.raises(InputError, match=next(iter(change))):
        GUIDE.route(obstacles=field(), **{**usual, **change})


@pytest.mark.parametrize("obstacles", [field([[np.nan, 1.0]]), field([[5.0, 1.0]], np.inf), field([[5.0, 1.0]], -1.0),
                                       field([[5.0, 1.0]], 1.0, np.nan), Obstacles(np.zeros((2, 2)), np.ones(3), np.zeros((2, 2)), 0.0)])
def test_bad_obstacles(obstacles: Obstacles) -> None:
    with pytest.raises(InputError, match="obstacle"):
        route(obstacles)


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="longest_station"):
        LatticeSettings(longest_station=2.0)


N, PARTS, WIDTH, SLOPES = 3, 2, 5, 3


def test_machine_code_and_text_find_the_cheapest_of_all_ways() -> None:
    rng = np.random.default_rng(2)
    field = rng.random((N * PARTS, 2 * WIDTH - 1)).astype(np.float32)
    field[3, 2] = BLOCKED_COST
    deviation, lengths = rng.random((N, WIDTH)).astype(np.float32), rng.random(SLOPES).astype(np.float32)
    penalties, changes = np.cumsum(rng.random((N, MAX_SLOPE_CHANGE + 1)), axis=1).astype(np.float32), np.array([1, 2, 1])
    penalties[:, 0] = 0.0
    rows = np.empty((2, WIDTH), np.float32)
    text, code = np.empty((2, N + 1, SLOPES + 2 * MAX_SLOPE_CHANGE, WIDTH + SLOPES - 1), np.float32)
    search(field, PARTS, deviation, lengths, penalties, changes, 1, text, rows)
    arguments = (POINTER, INTEGER, *[POINTER] * 4, INTEGER, *[POINTER] * 2, *[INTEGER] * 3)
    entry = native("lfdm_ros.control.routing.lattice_native", arguments, INTEGER, ("lfdm_ros.control.routing.lattice",), "search")
    entry(field.ctypes.data, PARTS, *(a.ctypes.data for a in (deviation, lengths, penalties, changes)), 1, code.ctypes.data,
          rows.ctypes.data, N, SLOPES, WIDTH)
    np.testing.assert_array_equal(text, code)

    best = {}
    for way in itertools.product(range(SLOPES), repeat=N):
        place, slope, cost = WIDTH // 2, 1, 0.0
        for k, j in enumerate(way):
            if abs(j - slope) > changes[k] or not 0 <= place + j - 1 < WIDTH:
                cost = np.inf
                break
            passed = sum(field[k * PARTS + m - 1, 2 * place + int(np.floor(2.0 * (j - 1) * m / PARTS + 0.5))] for m in (1, 2))
            cost += penalties[k, abs(j - slope)] + passed + deviation[k, place] + lengths[j]
            place, slope = place + j - 1, j
        best[place, slope] = min(best.get((place, slope), np.inf), cost)
    inner = text[N, MAX_SLOPE_CHANGE:MAX_SLOPE_CHANGE + SLOPES, SLOPES // 2:SLOPES // 2 + WIDTH]
    for (place, slope), cost in best.items():
        if cost < BLOCKED_COST:
            assert abs(inner[slope, place] - cost) < 1e-4
