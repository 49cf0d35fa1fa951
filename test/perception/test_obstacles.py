"""Obstacles from scans of known worlds."""

from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.perception.grouping import circles_of
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker, TrackerSettings
from lfdm_ros.sensors import Lidar, LidarSettings, Scan
from lfdm_ros.simulation.world import Circle, MotionStep, Polygon, World
from lfdm_ros.vehicles import Mount

PERIOD, DEGREE = 0.1, np.deg2rad(1.0)
MOUNT = Mount(1.0)
ALL = TrackerSettings(max_obstacles=1000)


def box(x, y, length, width, yaw=0.0, **motion):
    corners = 0.5 * np.array([[length, width], [-length, width], [-length, -width], [length, -width]])
    cos, sin = np.cos(yaw), np.sin(yaw)
    return Polygon(corners @ np.array([[cos, sin], [-sin, cos]]) + [x, y], **motion)


def forward(speed):
    return lambda time: (speed * time, 0.0, 0.0)


def drive(obstacles, path, scans, settings=None, seed=1, **lidar):
    """What the tracker gives out after each scan."""
    sensor, tracker = Lidar(World(tuple(obstacles)), LidarSettings(**lidar), seed, MOUNT), ObstacleTracker(settings, MOUNT)
    result = []
    for k in range(scans):
        pose = path(k * PERIOD)
        tracker.update(sensor.scan(k * PERIOD, *pose), *pose)
        result.append(tracker.obstacles())
    return result


def moving(history):
    return sum(int(np.any(o.velocities, axis=1).sum()) for o in history)


def outside(points, obstacles):
    """Distances (n,) of points from the nearest circle, negative inside."""
    return (np.hypot(*(points[:, None] - obstacles.centres).transpose(2, 0, 1)) - obstacles.radii).min(axis=1)


def mixed_field(seed, count=40):
    """Circles, boxes and walls left and right of a straight lane."""
    random, obstacles, places = np.random.default_rng(seed), [], []
    while len(obstacles) < count:
        x, y = random.uniform(10.0, 150.0), random.uniform(-25.0, 25.0)
        if abs(y) < 3.5 or any((x - a) ** 2 + (y - b) ** 2 < 25.0 for a, b in places):
            continue
        places.append((x, y))
        kind = random.integers(4)
        if kind < 2:
            obstacles.append(Circle(x, y, random.uniform(0.15, 2.0)))
        elif kind == 2:
            obstacles.append(box(x, y, random.uniform(0.3, 2.0), random.uniform(0.3, 4.0), random.uniform(0.0, 3.0)))
        else:
            obstacles.append(box(x, y, random.uniform(4.0, 15.0), 0.3, random.uniform(-0.3, 0.3)))
    return obstacles


def manual(ranges, stamp=0.0, increment=DEGREE):
    ranges = np.asarray(ranges, float)
    return Scan(stamp, -0.5 * increment * (len(ranges) - 1), increment, 0.5, 100.0, ranges)


def one_circle(stamp, beams=181):
    """A circle of 1 m, 10 m ahead of the sensor, by beams of 1 deg."""
    angle = np.deg2rad(np.arange(beams) - beams // 2)
    with np.errstate(invalid="ignore"):
        ranges = 10.0 * np.cos(angle) - np.sqrt(1.0 - (10.0 * np.sin(angle)) ** 2)
    return manual(np.where(np.isnan(ranges) | (np.cos(angle) < 0.9), np.inf, ranges), stamp)


# -- One scan ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_visible_surfaces_are_covered_and_little_else(seed):
    obstacles = mixed_field(seed)
    noisy = Lidar(World(tuple(obstacles)), LidarSettings(noise_sd=0.02), seed, MOUNT)
    fine = Lidar(World(tuple(obstacles)), LidarSettings(noise_sd=0.0, resolution=noisy.settings.resolution / 5), mount=MOUNT)
    share, beyond = [], []
    for k in range(0, 40, 4):
        x = 2.6 * k
        tracker = ObstacleTracker(ALL, MOUNT)
        tracker.update(noisy.scan(0.1 * k, x, 0.0, 0.0), x, 0.0, 0.0)
        tracker.update(noisy.scan(0.1 * k + 0.1, x, 0.0, 0.0), x, 0.0, 0.0)
        seen = tracker.obstacles()
        # Surface points between two beams that returned from the same surface; what ends between two beams is not seen.
        r = fine.scan(0.0, x, 0.0, 0.0).ranges
        angle = fine.angle_min + fine.settings.resolution * np.arange(len(r))
        step = np.arange(len(r)) % 5
        low, high = r[np.arange(len(r)) - step], r[np.minimum(np.arange(len(r)) - step + 5 * (step > 0), len(r) - 1)]
        with np.errstate(invalid="ignore"):
            good = (r < 40.0) & (np.abs(low - high) < 0.5) & (np.abs(r - low) < 0.5)
            points = np.column_stack([x + 1.0 + r * np.cos(angle), r * np.sin(angle)])[good]
        beyond += list(outside(points, seen))
        # Area in front of what is seen, which is free in truth: beams that enter a circle before they end.
        grid = np.linspace(0.0, 1.0, 80)[None, :] * np.minimum(r, 40.0)[:, None]
        free = np.dstack([x + 1.0 + grid * np.cos(angle)[:, None], grid * np.sin(angle)[:, None]])[::5, :-1].reshape(-1, 2)
        share.append((outside(free, seen) < 0.0).mean())
    assert len(beyond) > 1000 and np.mean(np.array(beyond) < 0.05) > 0.998 and max(beyond) < 0.3
    assert np.mean(share) < 0.03


def test_wall_is_a_chain_of_small_circles():
    seen = drive([box(15.0, 0.0, 0.5, 30.0)], forward(0.0), 1, noise_sd=0.0)[0]
    assert 20 <= len(seen.radii) <= 30
    assert seen.radii.max() < 0.75 + 2 * 0.03 + 1e-6
    # They stand out towards the sensor by less than half their radius.
    assert (14.75 - (seen.centres[:, 0] - seen.radii)).max() < 0.4
    assert np.all(outside(np.column_stack([np.full(200, 14.75), np.linspace(-14.85, 14.85, 200)]), seen) < 0.05)


def test_wall_at_a_grazing_angle_is_one_surface():
    seen = drive([box(50.0, 3.15, 90.0, 0.3)], forward(0.0), 1, noise_sd=0.02)[0]
    assert np.all(outside(np.column_stack([np.linspace(6.0, 28.0, 200), np.full(200, 3.0)]), seen) < 0.05)


@pytest.mark.parametrize("x, y, radius", [(10.0, 3.0, 0.5), (20.0, -5.0, 1.0), (15.0, 8.0, 3.5), (-3.0, 6.0, 1.5)])
def test_arc_gives_the_whole_circle(x, y, radius):
    seen = drive([Circle(x, y, radius)], forward(0.0), 1, noise_sd=0.02)[0]
    assert len(seen.radii) == 1
    assert np.hypot(*(seen.centres[0] - [x, y])) < 0.12
    assert radius < seen.radii[0] + 0.03 < radius + 0.25


def test_group_goes_across_the_end_of_a_full_circle():
    seen = drive([Circle(-8.0, 0.0, 0.7)], forward(0.0), 1, noise_sd=0.0, field_of_view=2 * np.pi)[0]
    assert len(seen.radii) == 1
    assert seen.centres[0] == pytest.approx([-8.0, 0.0], abs=0.02)


def test_ring_around_the_sensor():
    scan = manual(np.full(360, 2.0))
    seen = circles_of(scan, 0.0, 0.0, 0.0, TrackerSettings())
    angle = np.linspace(0.0, 2 * np.pi, 300)
    around = Obstacles(np.column_stack([seen.x, seen.y])[~seen.frame], seen.radius[~seen.frame], np.empty(0), 0.0)
    assert np.all(outside(2.0 * np.column_stack([np.cos(angle), np.sin(angle)]), around) < 0.01)
    assert outside(np.zeros((1, 2)), around)[0] > 0.5  # the sensor itself is free


def test_place_of_the_sensor_and_sense_of_its_turn_count():
    mount = Mount(2.0, -0.5, 0.4)
    sensor = Lidar(World((Circle(12.0, 5.0, 0.6),)), LidarSettings(noise_sd=0.0), mount=mount)
    scan = sensor.scan(0.0, 1.0, 2.0, 0.3)
    reverse = replace(scan, angle_min=-scan.angle_min, angle_increment=-scan.angle_increment, ranges=scan.ranges[::-1].copy())
    for each in (scan, reverse):
        tracker = ObstacleTracker(mount=mount)
        tracker.update(each, 1.0, 2.0, 0.3)
        assert tracker.obstacles().centres == pytest.approx(np.array([[12.0, 5.0]]), abs=0.05)


def test_beam_that_saw_nothing_parts_and_lost_beams_do_not():
    ranges = np.full(61, np.inf)
    ranges[25:36] = 5.0
    for gap, groups in ((np.nan, 1), (np.inf, 2)):
        ranges[30] = gap
        seen = circles_of(manual(ranges), 0.0, 0.0, 0.0, TrackerSettings(arc_radius_min=3.9))
        assert (seen.body == np.arange(len(seen.x))).sum() == groups


def test_number_is_limited_to_the_nearest():
    obstacles = [Circle(5.0 + 3.0 * k, 6.0 * (-1) ** k, 0.5) for k in range(12)]
    everything = drive(obstacles, forward(0.0), 2, ALL)[-1]
    nearest = drive(obstacles, forward(0.0), 2, TrackerSettings(max_obstacles=5))[-1]
    assert len(everything.radii) > 5
    np.testing.assert_array_equal(nearest.centres, everything.centres[:5])
    distance = np.hypot(*everything.centres.T) - everything.radii
    assert np.all(np.diff(distance) >= 0.0)


def test_what_stands_within_sight_is_given_out_however_much_it_is():
    """A vehicle that knows only the nearest of many drives faster than it can stop before the others."""
    random = np.random.default_rng(3)
    angle = np.linspace(-2.0, 2.0, 100)
    posts = np.column_stack([random.uniform(20.0, 80.0, 100) * f(angle) for f in (np.cos, np.sin)])
    seen = drive([Circle(x, y, 0.4) for x, y in posts], forward(0.0), 2)[-1]
    far = np.hypot(*posts.T) > 40.0
    assert (outside(posts, seen) < 0.5).mean() > 0.9 and (outside(posts[far], seen) < 0.5).mean() > 0.85


def test_lone_return_needs_two_sightings():
    post = drive([Circle(40.0, 0.0, 0.15)], forward(0.0), 2)
    assert [len(o.radii) for o in post] == [0, 1]
    # False returns, each at another place.
    tracker = ObstacleTracker()
    for k in range(20):
        ranges = np.full(181, np.inf)
        ranges[(37 * k) % 181] = 20.0 + 7.0 * (k % 4)
        tracker.update(manual(ranges, 0.1 * k), 0.0, 0.0, 0.0)
        assert not len(tracker.obstacles().radii)


# -- Motion -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("obstacle, speed", [
    (Circle(15.0, -5.0, 0.7, 3.0, 4.0), 0.0), (Circle(30.0, 0.0, 1.0, 20.0, 0.0), 26.0), (Circle(25.0, -8.0, 0.5, 0.0, 5.0), 8.0),
    (Circle(45.0, 4.0, 1.0, -10.0, 0.0), 5.0), (Circle(12.0, -6.0, 0.3, 0.0, 2.0), 0.0), (box(25.0, -15.0, 2.0, 4.5, vy=8.0), 5.0)])
def test_velocity_after_one_second(obstacle, speed):
    errors = []
    for seed in range(8):
        seen = drive([obstacle], forward(speed), 12, seed=seed)[-1]
        assert len(seen.radii)
        errors += list(np.hypot(*(seen.velocities - [obstacle.vx, obstacle.vy]).T))
    assert np.mean(errors) < 0.5
    assert np.mean(np.array(errors) < 0.5) > 0.85


def test_deviations_are_as_large_as_errors_are():
    """Of what moves about 95 % lie within two of them, and they are not ten times too large; what stands is known better than by a look."""
    post, car = Circle(20.0, 6.0, 0.4), Circle(15.0, -5.0, 0.7, 3.0, 4.0)
    scaled = []
    for seed in range(12):
        seen = drive([post, car], forward(5.0), 15, seed=seed)[-1]
        assert seen.deviations.shape == (len(seen.radii), 2) and np.isfinite(seen.deviations).all()
        assert (seen.deviations[~seen.moving] < [[TrackerSettings().noise_sd, 1e-9]]).all()
        scaled += list(((seen.velocities - [car.vx, car.vy])[seen.moving] / seen.deviations[seen.moving, 1:]).ravel())
        assert (seen.where(seen.moving).deviations == seen.deviations[seen.moving]).all()
    assert len(scaled) >= 20
    assert np.mean(np.abs(scaled) < 2.0) > 0.8 and np.sqrt(np.mean(np.square(scaled))) > 0.1


def test_the_circles_of_a_long_thing_are_known_as_well_as_it_is():
    """All of a car that crosses move as it does, and no circle of it as uncertainly as what is seen first."""
    car = Polygon([(20.0, -9.0), (21.8, -9.0), (21.8, -4.6), (20.0, -4.6)], vx=0.0, vy=3.0)
    seen = drive([car], forward(5.0), 20)[-1]
    assert seen.moving.sum() > 2 and seen.deviations[seen.moving, 1].max() < 2.0


def test_how_large_a_thing_was_seen_is_told_from_how_large_it_is_made():
    """Cones at 12 to 29 m, at places between the beams as they come: covered, but in the mean not larger than they are."""
    random, size, cover, error, spread = np.random.default_rng(3), [], [], [], []
    for seed in range(60):
        x, y = random.uniform(12.0, 28.0), random.uniform(-8.0, 8.0)
        seen = drive([Circle(x, y, 0.15)], lambda time: (0.0, 0.0, 0.0), 3, seed=seed)[-1]
        assert len(seen.radii) == 1
        size.append(seen.radii[0] - seen.excess[0])
        cover.append(seen.radii[0])
        across = np.array([-y, x]) / np.hypot(x, y)
        error.append((seen.centres[0] - [x, y]) @ across)
        spread.append(seen.deviations[0, 0])
    assert np.mean(size) == pytest.approx(0.15, abs=0.02) and np.mean(cover) > 0.22
    # As far aside as that says; noise of the sensor alone would be half of it.
    assert np.std(error) < 1.3 * np.mean(spread) and np.mean(spread) > 0.05


def test_where_cones_stand_is_known_better_with_each_look_that_says_something_new():
    """Who drives at them sees their ends between other beams each time: errors shrink, and what is said of them with them."""
    random, first, last = np.random.default_rng(5), [], []
    for seed in range(80):
        x, y = random.uniform(26.0, 30.0), random.uniform(1.5, 4.0) * random.choice([-1.0, 1.0])
        history = drive([Circle(x, y, 0.15)], forward(12.0), 12, seed=seed)
        for seen, errors in ((history[1], first), (history[-1], last)):
            # Where its side towards the lane is: what is passed.
            edge = abs(seen.centres[0, 1]) - (seen.radii[0] - seen.excess[0])
            errors.append((edge - (abs(y) - 0.15), seen.centres[0, 0] - x, seen.deviations[0, 0]))
    first, last = np.array(first), np.array(last)
    assert last[:, 2].mean() < 0.4 * first[:, 2].mean()
    for errors in (first, last):
        for column in (0, 1):
            assert 0.5 < np.sqrt(np.mean((errors[:, column] / errors[:, 2]) ** 2)) < 1.3  # as large as is said


def test_who_stands_sees_the_same_each_time_and_knows_no_more():
    random, error, spread = np.random.default_rng(6), [], []
    for seed in range(60):
        x, y = random.uniform(16.0, 28.0), random.uniform(-8.0, 8.0)
        history = drive([Circle(x, y, 0.15)], lambda time: (0.0, 0.0, 0.0), 12, seed=seed)
        assert history[-1].deviations[0, 0] > 0.9 * min(o.deviations[0, 0] for o in history[1:])
        across = np.array([-y, x]) / np.hypot(x, y)
        error.append((history[-1].centres[0] - [x, y]) @ across)
        spread.append(history[-1].deviations[0, 0])
    assert np.std(error) < 1.3 * np.mean(spread)


def test_what_creeps_is_followed():
    """Too slow to count as moving: a mean that does not fit begins anew."""
    for seed in range(10):
        history = drive([Circle(15.0, 3.0, 0.15, 0.0, 0.4)], forward(3.0), 30, seed=seed)
        away = [np.hypot(*(o.centres[0] - [15.0, 3.0 + 0.4 * o.time])) for o in history[5:]]
        assert max(away) < 0.4


def first_moving(history, place):
    """Time [s] and velocity with which something is first given out as moving, within 4 m of a place, which depends on time."""
    for k, seen in enumerate(history):
        near = seen.moving & (np.hypot(*(seen.centres - place(k * PERIOD)).T) < 4.0)
        if near.any():
            return k * PERIOD, seen.velocities[near].mean(axis=0)
    return np.inf, np.full(2, np.nan)


@pytest.mark.parametrize("seed", range(4))
def test_a_car_that_backs_out_moves_before_it_has_gone_far(seed):
    """Alone, and from between parked ones, where its ends are hidden and it is seen as one with them at first."""
    steps = (MotionStep(2.0, 0.0, 1.4), MotionStep(6.0, 0.0, 0.0))
    for parked in ((), (-5.4, -2.7, 2.7, 5.4)):
        row = [box(45.0, -4.35, 1.8, 4.4, steps=steps), *(box(45.0 + x, -4.35, 1.8, 4.4) for x in parked)]
        history = drive(row, forward(9.0), 40, seed=seed)
        found, velocity = first_moving(history, lambda time: np.array([45.0, -4.35 + 1.4 * max(time - 2.0, 0.0)]))
        assert 2.0 < found < 3.6, parked  # by its size alone only once it has come 3.3 m, 2.4 s after it began
        assert velocity[1] == pytest.approx(1.4, abs=0.6)
        assert moving(history[:20]) == 0


def test_a_walker_who_has_just_stopped_may_go_on_for_a_while():
    history = drive([Circle(30.0, -4.0, 0.3, vy=1.4, steps=(MotionStep(2.0, 0.0, 0.0),))], forward(2.0), 80)
    stood = next(k for k, seen in enumerate(history) if k > 20 and not seen.moving.any())
    assert history[stood].suspected[0] == pytest.approx([0.0, 1.4], abs=0.5)
    assert not history[stood + 32].may_move.any()


@pytest.mark.parametrize("braking", [3.0, 6.0])
def test_what_may_halt_is_where_its_speeds_add_up_to(braking):
    walks = Obstacles(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2), np.array([[3.0, -4.0], [0.0, 0.0]]), 0.0)
    may = walks.halting(walks.moving, np.array([0.0, 0.7]), braking)
    assert len(may.radii) == 4 and may.goes_on.tolist() == [True, True, False, False]
    for time in (0.0, 0.5, 1.0, 3.0):
        middles = (np.arange(round(time / 1e-4)) + 0.5) * 1e-4
        way = [1e-4 * np.maximum(5.0 - braking * np.maximum(middles - begins, 0.0), 0.0).sum() for begins in (0.0, 0.7)]
        expected = [5.0 * time, 0.0, *way]
        np.testing.assert_allclose(np.hypot(*may.shifts(np.array([time]))[0].T), expected, atol=1e-3)


@pytest.mark.parametrize("braking", [0.0, 2.0])
def test_what_turns_is_where_its_velocities_add_up_to(braking):
    o = Obstacles(np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]), np.ones(3), np.array([[3.0, -4.0], [-2.0, 1.0], [4.0, 0.0]]), 1.0,
                  turns=np.array([0.8, -1.7, 0.0]))
    if braking:
        o = o.halting(np.ones(3, bool), np.array([0.3]), braking).where(np.arange(6) > 2)
    step, speed, turned, place = 1e-3, np.hypot(*o.velocities.T), np.arctan2(*o.velocities.T[::-1]), np.zeros((3, 2))
    for k in range(2000):
        now = np.maximum(speed - braking * max((k + 0.5) * step - 0.3, 0.0), 0.0)
        place += step * now[:, None] * np.column_stack([np.cos(turned), np.sin(turned)])
        turned = turned + o.turns * step * now / speed  # by the bend of its way
    np.testing.assert_allclose(o.shifts(np.array([2.0]))[0], place, atol=0.02)
    if not braking:
        later = o.at(3.0)
        np.testing.assert_allclose(later.centres, o.centres + place, atol=0.02)
        np.testing.assert_allclose(np.arctan2(*later.velocities.T[::-1]), np.arctan2(np.sin(turned), np.cos(turned)), atol=1e-9)
        np.testing.assert_allclose(o.at(2.2).at(3.0).centres, later.centres, atol=1e-12)


def test_nothing_static_ever_moves_in_40_passes():
    shown = 0
    for seed in range(40):
        history = drive(mixed_field(seed), lambda time, seed=seed: (26.0 * time + seed % 50, 0.0, 0.0), 16, noise_sd=(0.02, 0.03)[seed % 2],
                        drop_out=(0.0, 0.02)[seed // 2 % 2], seed=seed)
        assert moving(history) == 0, f"seed {seed}"
        shown += sum(len(o.radii) for o in history)
    assert shown > 20 * 40 * 16


@pytest.mark.parametrize("seed", [2, 29, 30, 55])
def test_nothing_static_moves_in_long_passes(seed):
    # Walls seen end-on, parts that come and go, boxes that look like arcs.
    lidar = dict(noise_sd=0.03, drop_out=0.02) if seed % 2 else dict(noise_sd=0.02)
    assert moving(drive(mixed_field(seed), forward(26.0), 60, seed=seed, **lidar)) == 0


ROWS = {
    "walls": [box(100.0, 3.15, 300.0, 0.3), box(100.0, -5.15, 300.0, 0.3)],
    "wall at the limit of the range": [box(100.0, 99.9, 300.0, 0.3)],
    "wall through gaps": [box(100.0, 20.0, 300.0, 0.3)] + [Circle(3.0 * k, 6.0, 1.2) for k in range(80)],
    "boxes": [box(x, 6.0 + x % 3, 1.0, 1.0, 0.3 * x) for x in range(10, 250, 6)],
    "cars": [box(x, 6.0 + x % 3, 4.5, 2.0, 0.3 * x) for x in range(10, 250, 9)],
    "fence": [Circle(2.0 * k, 5.0, 0.1) for k in range(5, 120)],
    "big circles": [Circle(45.0 * k, side * 25.0, 15.0) for k in range(5) for side in (1, -1)],
}


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_static_things_do_not_move(row):
    bend = 80.0

    def turn(time):
        angle = 26.0 * time / bend
        return bend * np.sin(angle), bend * (1.0 - np.cos(angle)), angle

    for path, lidar in ((forward(26.0), dict(noise_sd=0.03, drop_out=0.05)), (forward(26.0), dict(field_of_view=2 * np.pi)),
                        (turn, dict(noise_sd=0.03))):
        history = drive(ROWS[row], path, 80 if row in ("fence", "wall through gaps") else 40, **lidar)
        assert moving(history) == 0
        assert any(len(o.radii) for o in history)


def test_what_comes_out_of_a_wall_moves_by_its_own_size():
    """First it is seen as one with the wall; another follows it close behind, and is at each place that it has left."""
    wall = [Circle(12.0 + 1.5 * i, -4.0, 0.9) for i in range(6)]
    row = [Circle(16.0, -4.2 - 2.0 * i, 0.5, 0.0, 1.5) for i in range(3)]
    for seed in range(3):
        history = drive([*wall, *row], lambda time: (8.0, 0.0, 0.0), 30, seed=seed, noise_sd=0.02)
        for k in range(20, 30):  # after 2 m, 1.3 s; it was seen alone from 1.2 m on
            place = -4.2 + 0.15 * k
            seen = history[k]
            first = np.hypot(seen.centres[:, 0] - 16.0, seen.centres[:, 1] - place).argmin()
            assert seen.velocities[first] == pytest.approx([0.0, 1.5], abs=0.4), (seed, k)


def test_stops_being_moving_when_it_stands():
    tracker, flags = ObstacleTracker(), []
    for k in range(50):
        y = -6.0 + 3.0 * min(0.1 * k, 2.0)
        sensor = Lidar(World((Circle(12.0, y, 0.7),)), LidarSettings(), seed=k)
        tracker.update(sensor.scan(0.1 * k, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)
        flags.append(bool(np.any(tracker.obstacles().velocities)))
    assert flags[12] and flags[20]
    assert not any(flags[35:])


def test_nothing_stays_behind_of_a_moving_car():
    history = drive([box(20.0, -20.0, 2.0, 4.5, vy=8.0)], forward(0.0), 40)
    for k in range(20, 40):
        assert np.all(np.abs(history[k].centres[:, 1] - (-20.0 + 0.8 * k)) < 4.5)  # half of it is 2.25, a circle reaches 0.8 beyond


# -- Memory -----------------------------------------------------------------------------------------------------------------


def test_static_thing_behind_the_view_is_kept_for_a_time():
    view = dict(field_of_view=np.pi)
    settings = TrackerSettings(passed=1000.0)
    history = drive([Circle(6.0, 4.0, 0.6)], lambda time: (min(10.0 * time, 12.0), 0.0, 0.0), 70, settings, **view)
    kept = [k for k, o in enumerate(history) if len(o.radii)]
    lost_sight = 6  # at 6 m and 0.6 s it is beside the sensor
    assert kept[-1] - lost_sight == pytest.approx(40, abs=2)
    assert history[30].centres[0] == pytest.approx([6.0, 4.0], abs=0.15)
    # Far behind it is forgotten at once.
    history = drive([Circle(6.0, 4.0, 0.6)], forward(26.0), 30, **view)
    assert len(history[10].radii) and not len(history[16].radii)


def test_occluded_static_thing_is_kept_and_a_moving_one_goes_on_while_it_is_hidden():
    hider = box(8.0, 0.0, 0.5, 8.0)  # its shadow ends at y = 10 m, where the moving one would be at scan 47

    def run(thing, hide_at, scans, settings=None, vanishes=False):
        tracker, result = ObstacleTracker(settings), []
        for k in range(scans):
            world = World((thing,) * (k < hide_at or not vanishes) + (hider,) * (k >= hide_at))
            tracker.update(Lidar(world, LidarSettings(), seed=3).scan(0.1 * k, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)
            result.append(tracker.obstacles())
        return result

    history = run(Circle(20.0, 0.0, 1.0), 10, 60)
    there = [bool(np.any(o.centres[:, 0] > 15.0)) for o in history]
    assert all(there[:49]) and not any(there[52:])
    walker = Circle(20.0, -4.0, 1.0, 0.0, 3.0)
    for vanishes in (False, True):
        history = run(walker, 15, 60, vanishes=vanishes)
        for k in range(15, 45):
            far = history[k].centres[:, 0] > 15.0
            assert history[k].centres[far][0] == pytest.approx([20.0, -4.0 + 0.3 * k], abs=0.7 if k < 24 else 1.2)
        # It comes out where it should, or is seen not to.
        assert np.any(history[58].centres[:, 0] > 15.0) != vanishes
    history = run(walker, 15, 40, TrackerSettings(hidden_memory=1.0))
    assert np.any(history[23].centres[:, 0] > 15.0) and not np.any(history[28].centres[:, 0] > 15.0)


def test_a_part_of_a_moving_thing_that_showed_a_few_times_is_not_kept_as_long_as_the_thing():
    tracker, counts = ObstacleTracker(), []
    for k in range(30):
        world = World((Circle(20.0, -4.0, 1.0, 0.0, 3.0),) + (Circle(20.0, -2.6, 0.15, 0.0, 3.0),) * (12 <= k < 15)
                      + (box(8.0, 0.0, 0.5, 8.0),) * (k >= 15))
        tracker.update(Lidar(world, LidarSettings(), seed=3).scan(0.1 * k, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)
        counts.append(int((tracker.obstacles().centres[:, 0] > 15.0).sum()))
    assert counts[11] == 1 and counts[14] == counts[18] == 2 and counts[21:] == [1] * 9


def test_what_goes_out_of_sight_behind_something_does_not_seem_to_slow_down():
    """A car that crosses at 9 m/s, of which less and less is seen."""
    house = box(22.0, 0.0, 10.0, 12.0)
    car = Polygon(np.array([[34.0, -32.2], [36.0, -32.2], [36.0, -27.8], [34.0, -27.8]]), vy=9.0)
    tracker = ObstacleTracker()
    for k in range(34):
        tracker.update(Lidar(World((car, house)), LidarSettings(), seed=1).scan(0.1 * k, 0.0, 0.0, 0.0), 0.0, 0.0, 0.0)
        found = tracker.obstacles().where(tracker.obstacles().moving)
        if k >= 20:
            assert np.abs(found.velocities[:, 1] - 9.0).max() < 1.5 and np.abs(found.centres[:, 1] + 30.0 - 0.9 * k).max() < 3.0, k


def test_dropped_when_the_sensor_sees_through_its_place_and_lost_beams_are_no_evidence():
    empty = np.full(181, np.inf)
    for ranges, left in ((empty, [1, 1, 0, 0]), (np.full(181, np.nan), [1, 1, 1, 1]), (np.full(181, 200.0), [1, 1, 0, 0])):
        tracker = ObstacleTracker()
        for k in range(5):
            tracker.update(one_circle(0.1 * k), 0.0, 0.0, 0.0)
        assert len(tracker.obstacles().radii) == 1
        counts = []
        for k in range(5, 9):
            tracker.update(manual(ranges, 0.1 * k), 0.0, 0.0, 0.0)
            counts.append(len(tracker.obstacles().radii))
        assert counts == left


# -- Bounded work -----------------------------------------------------------------------------------------------------------


def circles_made(monkeypatch, scan):
    """How many circles a scan became before the tracker looked at them, and after."""
    made = []

    def counted(*arguments):
        circles = circles_of(*arguments)
        made.append(len(circles.x))
        return circles

    monkeypatch.setattr("lfdm_ros.perception.tracker.circles_of", counted)
    tracker = ObstacleTracker()
    tracker.update(scan, 0.0, 0.0, 0.0)
    return made[0], tracker.tracked


@pytest.mark.parametrize("reach", [240.0, 1e3, 1e5, 1e6, 1e30, float(np.finfo(np.float32).max)])
@pytest.mark.parametrize("beams", [541, 36_000])
def test_work_does_not_grow_with_the_range(monkeypatch, reach, beams):
    scan = Scan(0.0, -np.pi, 2.0 * np.pi / beams, 0.5, float(np.finfo(np.float32).max), np.full(beams, reach))
    made, kept = circles_made(monkeypatch, scan)
    assert made <= 2.0 * np.pi * 250.0 / 1.2 + 1.0 and kept <= 256
    assert (made > 0) == (reach < 250.0)


def test_work_does_not_grow_with_the_beams(monkeypatch):
    ranges = np.random.default_rng(1).uniform(1.0, 250.0, 36_000)
    made, kept = circles_made(monkeypatch, Scan(0.0, -np.pi, 2.0 * np.pi / 36_000, 0.5, 1e9, ranges))
    assert made <= 4 * 4096 and kept <= 256


def test_of_many_circles_the_nearest_are_kept_with_their_bodies():
    ranges = np.where(np.arange(720) % 4 < 2, 20.0 + 0.1 * np.arange(720), np.inf)
    circles = circles_of(Scan(0.0, -np.pi, np.deg2rad(0.5), 0.5, 100.0, ranges), 0.0, 0.0, 0.0, TrackerSettings())
    fewer = circles.nearest(0.0, 0.0, 50)
    assert len(fewer.x) == 50 < len(circles.x)
    reach = np.sort(np.hypot(circles.x, circles.y) - circles.radius)[:50]
    np.testing.assert_array_equal(np.sort(np.hypot(fewer.x, fewer.y) - fewer.radius), reach)
    assert ((fewer.body >= -1) & (fewer.body < 50)).all() and (fewer.body == np.arange(50)).any()
    assert circles.nearest(0.0, 0.0, len(circles.x)) is circles


# -- Bad input --------------------------------------------------------------------------------------------------------------


def same(a, b):
    return a.time == b.time and all(np.array_equal(getattr(a, n), getattr(b, n)) for n in ("centres", "radii", "velocities"))


@pytest.mark.parametrize("change, words", [
    (dict(ranges=np.empty(0)), "at least one beam"), (dict(ranges=np.ones((2, 3))), "at least one beam"),
    (dict(ranges=[1.0, 2.0]), "array of floats"), (dict(angle_increment=0.0), "angle_increment is 0"),
    (dict(angle_increment=np.nan), "angle_increment is nan"), (dict(angle_increment=0.1), "more than one turn"),
    (dict(stamp=np.nan), "stamp is nan"), (dict(stamp=np.inf), "stamp is inf"), (dict(angle_min=np.inf), "angle_min"),
    (dict(range_min=-1.0), "range_min"), (dict(range_min=200.0), "range_min"), (dict(range_max=np.nan), "range_max")])
def test_bad_scan_is_refused_and_changes_nothing(change, words):
    tracker, other = ObstacleTracker(), ObstacleTracker()
    for t in (tracker, other):
        t.update(one_circle(0.0), 0.0, 0.0, 0.0)
    before = tracker.obstacles()
    with pytest.raises(InputError, match=words):
        tracker.update(replace(one_circle(0.1), **change), 0.0, 0.0, 0.0)
    assert tracker.obstacles() is before
    for t in (tracker, other):
        t.update(one_circle(0.2), 0.5, 0.0, 0.0)
    assert same(tracker.obstacles(), other.obstacles())


@pytest.mark.parametrize("pose", [(np.nan, 0.0, 0.0), (0.0, np.inf, 0.0), (0.0, 0.0, np.nan), (np.inf, -np.inf, 0.0)])
def test_bad_pose_is_refused(pose):
    tracker = ObstacleTracker()
    tracker.update(one_circle(0.0), 0.0, 0.0, 0.0)
    before = tracker.obstacles()
    with pytest.raises(InputError, match="not finite"):
        tracker.update(one_circle(0.1), *pose)
    assert tracker.obstacles() is before


@pytest.mark.parametrize("value", [np.inf, np.nan, -np.inf, 0.1, 100.1])
@pytest.mark.parametrize("beams", [1, 181])
def test_scan_of_nothing(value, beams):
    tracker = ObstacleTracker()
    tracker.update(manual(np.full(beams, value), 3.0), 0.0, 0.0, 0.0)
    seen = tracker.obstacles()
    assert seen.time == 3.0 and seen.centres.shape == (0, 2) and seen.velocities.shape == (0, 2)


def test_stamps():
    tracker = ObstacleTracker()
    assert tracker.obstacles().time == -np.inf and not len(tracker.obstacles().radii)
    tracker.update(one_circle(5.0), 0.0, 0.0, 0.0)
    first = tracker.obstacles()
    tracker.update(manual(np.full(181, np.inf), 5.0), 0.0, 0.0, 0.0)  # the same stamp: ignored
    assert tracker.obstacles() is first
    tracker.update(manual(np.full(181, np.inf), 1.0), 0.0, 0.0, 0.0)  # back: what was known is of another time
    assert tracker.obstacles().time == 1.0 and not len(tracker.obstacles().radii)
    tracker.update(one_circle(1.1), 0.0, 0.0, 0.0)
    tracker.reset()
    assert tracker.obstacles().time == -np.inf and not len(tracker.obstacles().radii)


def test_remembered_and_seen_things_do_not_pile_up():
    settings = TrackerSettings(max_obstacles=1000, max_tracks=1000)
    history = drive([box(100.0, 5.0, 300.0, 0.3)], forward(26.0), 60, settings, noise_sd=0.03, drop_out=0.1)
    visible = 60.0 / 1.2  # what can be resolved of the wall, ahead and behind
    assert max(len(o.radii) for o in history) < 2 * visible


def test_long_pause_forgets():
    tracker = ObstacleTracker()
    tracker.update(one_circle(0.0), 0.0, 0.0, 0.0)
    tracker.update(manual(np.full(181, np.nan), 1e6), 0.0, 0.0, 0.0)
    assert not len(tracker.obstacles().radii)


def test_random_ranges_give_finite_circles_that_hold_every_return():
    random = np.random.default_rng(5)
    tracker = ObstacleTracker()
    for k in range(150):
        ranges = random.choice([np.inf, np.nan, -np.inf, 1.0, 2.0, 0.5, 100.0], size=random.integers(1, 361))
        ranges = np.where(random.random(len(ranges)) < 0.5, ranges, random.uniform(0.0, 110.0, len(ranges)))
        if k % 3 == 0:  # surfaces instead
            knots = np.arange(0, len(ranges) + 40, 40)
            ranges = np.interp(np.arange(len(ranges)), knots, random.uniform(1.0, 30.0, len(knots)))
        scan, pose = manual(ranges, 0.1 * k), random.uniform(-3.0, 3.0, 3)
        tracker.update(scan, *pose)
        seen = tracker.obstacles()
        assert np.isfinite(seen.centres).all() and np.isfinite(seen.velocities).all() and (seen.radii > 0.0).all()
        assert len(seen.radii) <= 256 and seen.radii.max(initial=0.0) < 10.0
        circles = circles_of(scan, *pose, tracker.settings)
        good = (ranges >= 0.5) & (ranges <= 100.0)
        angle = (pose[2] + scan.angle_min + scan.angle_increment * np.arange(len(ranges)))[good]
        points = pose[:2] + ranges[good][:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
        solid = ~circles.frame
        all_seen = Obstacles(np.column_stack([circles.x, circles.y])[solid], circles.radius[solid], np.empty(0), 0.0)
        if len(points):
            assert outside(points, all_seen).max() < -0.05  # two standard deviations are 0.06


def test_same_scans_same_numbers():
    runs = [drive(mixed_field(7), forward(20.0), 25, noise_sd=0.03, drop_out=0.1) for _ in range(2)]
    assert all(same(a, b) for a, b in zip(*runs))
    with pytest.raises(ValueError):
        runs[0][-1].centres[0, 0] = 1.0


@pytest.mark.parametrize("change", [dict(noise_sd=0.0), dict(gap_factor=0.5), dict(chain_radius=np.nan), dict(max_obstacles=0),
                                    dict(max_tracks=2.5), dict(static_memory=-1.0), dict(gate=0.0), dict(arc_radius_max=0.05)])
def test_bad_settings_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        TrackerSettings(**change)


# -- What may move ----------------------------------------------------------------------------------------------------------


def test_a_walker_is_suspected_to_move_before_that_is_certain():
    walker = Circle(25.0, -4.0, 0.3, vy=1.4)
    history = drive([walker], forward(8.0), 20)
    believed = next(k for k, seen in enumerate(history) if seen.moving.any())
    assert history[0].new.all() and history[0].hypotheses(3.0, 0.3).radii[-1] == pytest.approx(history[0].radii[0] + 0.3)
    history = [replace(seen, new=None) for seen in history]
    suspected = next(k for k, seen in enumerate(history) if seen.may_move.any())
    assert suspected <= believed - 2
    first = history[suspected]
    np.testing.assert_allclose(first.suspected[first.may_move], [[0.0, 1.4]], atol=0.8)
    goes_on = first.hypotheses(3.0, 0.3)
    assert len(goes_on.radii) == len(first.radii) + 1 and goes_on.moving.sum() == 1  # and halts, where it is
    np.testing.assert_array_equal(goes_on.centres[-1], first.centres[first.may_move][0])
    assert first.hypotheses(0.5, 0.3).moving.sum() == 1 == len(first.hypotheses(0.5, 0.3).radii)  # too fast to halt at once


def test_standing_things_are_hardly_ever_suspected():
    """Of the sightings in ten passes, among small things on both sides."""
    suspected = sightings = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        posts = [Circle(x, rng.choice([-1.0, 1.0]) * rng.uniform(2.5, 8.0), rng.uniform(0.1, 0.5)) for x in np.arange(15.0, 75.0, 5.0)]
        for seen in drive(posts, forward(12.0), 40, seed=seed):
            suspected, sightings = suspected + int(seen.suspected.any(axis=1).sum()), sightings + len(seen.radii)
    assert sightings > 2000 and suspected < 0.01 * sightings, (suspected, sightings)


def test_a_new_part_of_a_moving_car_moves_with_it():
    """A car that drifts across, whose side few beams meet: no part of it is given out as standing for long."""
    car = box(22.0, 4.2, 4.4, 1.8, vx=10.0, vy=-1.0)
    history = drive([car], forward(14.0), 35)
    parts = [(seen.velocities[:, 0] > 5.0).sum() for seen in history], [len(seen.radii) for seen in history]
    moves, given = (np.array(part[15:]) for part in parts)
    assert (moves > 0).all() and moves.sum() > 0.9 * given.sum(), (moves, given)


def drive_with_jump(obstacles, path, scans, jump, at, seed):
    """As `drive`; the pose that comes with the scans is off by `jump` from scan `at` on."""
    sensor, tracker, result = Lidar(World(tuple(obstacles)), LidarSettings(), seed, MOUNT), ObstacleTracker(None, MOUNT), []
    for k in range(scans):
        pose = path(k * PERIOD)
        tracker.update(sensor.scan(k * PERIOD, *pose), *np.add(pose, jump if k >= at else 0.0))
        result.append(tracker.obstacles())
    return result


@pytest.mark.parametrize("jump", [(0.8, 0.4, 0.0), (0.0, 1.5, 0.0), (0.0, 0.0, 0.04)])
def test_a_pose_that_jumps_sets_nothing_in_motion(jump):
    """As where a receiver of GNSS finds its corrections again."""
    for seed in (1, 2, 5):
        history = drive_with_jump(mixed_field(seed), forward(6.0), 40, jump, 20, seed)
        assert moving(history) == 0
        away = np.hypot(*np.subtract(history[20].centres[:6, None], history[19].centres[None]).transpose(2, 0, 1)).min(axis=1)
        assert np.median(away) > 0.3  # they are where they are seen


def test_three_cars_that_drive_the_same_way_are_no_jump_of_the_pose():
    cars = [box(40.0 + 9.0 * k, 6.0 - 4.0 * k, 4.4, 1.8, vx=-8.0) for k in range(3)]
    history = drive(cars, lambda time: (0.0, 0.0, 0.0), 20)
    assert next(k for k, seen in enumerate(history) if seen.moving.sum() >= 3) <= 9
    assert np.median(history[-1].velocities[history[-1].moving, 0]) == pytest.approx(-8.0, abs=0.8)
