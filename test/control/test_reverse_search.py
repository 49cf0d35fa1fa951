"""The search for ways with changes of direction, against geometry of its own; and the map of what was seen, against rays."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lfdm_ros.control.prediction import PlanarState
from lfdm_ros.control.routing.reverse_search import CELLS, Outcome, ReverseSearch
from lfdm_ros.control.routing.visibility_map import MAP_CELLS, VISIBILITY_MEMORY, VisibilityMap
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.vehicles import Footprint, load_vehicle

HMMWV = load_vehicle("hmmwv")
REAR, TIGHTEST, MARGIN = HMMWV.parameters["cg_to_rear_axle"], 0.2, 0.2
ALL_SEEN = np.ones((CELLS, CELLS), bool)


def search_of(outline=HMMWV.footprint, scale=1.0):
    return ReverseSearch(outline, scale * REAR, TIGHTEST / scale)


SEARCH = search_of()
HALF = 0.5 * CELLS * SEARCH.cell


def found(circles, goal, tolerance=2.0, seen=ALL_SEEN, pose=(0.0, 0.0, 0.0), search=SEARCH, states=600):
    half = 0.5 * CELLS * search.cell
    search.begin(pose, goal, tolerance, np.reshape(circles, (-1, 3)), MARGIN * search.cell / SEARCH.cell, seen, (-half, -half))
    while search.outcome is Outcome.SEARCHING:
        search.advance(states)
    return search.legs() if search.outcome is Outcome.FOUND else []


def wall(x0, x1, y0, y1):
    count = max(round(max(abs(x1 - x0), abs(y1 - y0)) / 0.4), 1)
    return [(x, y, 0.25) for x, y in zip(np.linspace(x0, x1, count + 1), np.linspace(y0, y1, count + 1))]


def clearance(poses, circles, outline=HMMWV.footprint):
    """The distance of rectangles to circles, by the nearest point of the rectangle to each centre; below 0 inside."""
    table, least = np.reshape(circles, (-1, 3)), math.inf
    for x, y, yaw in poses:
        c, s = math.cos(yaw), math.sin(yaw)
        ahead, left = c * (table[:, 0] - x) + s * (table[:, 1] - y), c * (table[:, 1] - y) - s * (table[:, 0] - x)
        nearest = np.clip(ahead, -outline.rear, outline.front), np.clip(left, -outline.half_width, outline.half_width)
        least = min(least, float((np.hypot(ahead - nearest[0], left - nearest[1]) - table[:, 2]).min(initial=math.inf)))
    return least


WORLDS = {
    "wall ahead": (wall(3.4, 3.4, -8.0, 8.0), (40.0, 0.0)),
    "pocket": (wall(-20.0, 4.0, 3.2, 3.2) + wall(-20.0, 4.0, -3.2, -3.2) + wall(4.0, 4.0, -3.2, 3.2), (30.0, 0.0)),
    "slot": (wall(-8.0, -3.4, -1.0, -1.0) + wall(-3.4, -3.4, -1.0, 1.0) + wall(4.2, 9.0, -1.0, -1.0) + wall(4.2, 4.2, -1.0, 1.0)
             + wall(-20.0, 30.0, -2.4, -2.4), (40.0, 5.0)),
    "serpentine": (wall(-10.0, 60.0, 12.0, 12.0) + wall(-10.0, 60.0, -12.0, -12.0) + wall(15.0, 15.0, -12.0, 5.0)
                   + wall(29.0, 29.0, -5.0, 12.0) + wall(43.0, 43.0, -12.0, 5.0), (52.0, 0.0)),
    "into a bay": (wall(20.0, 20.0, -9.0, -4.0) + wall(24.4, 24.4, -9.0, -4.0) + wall(0.0, 45.0, -9.4, -9.4) + wall(0.0, 45.0, 6.0, 6.0),
                   (22.2, -6.4)),
    "behind": ([], (-30.0, 2.0)),
}


@pytest.mark.parametrize("name", WORLDS)
def test_a_way_is_free_and_can_be_driven(name):
    circles, goal = WORLDS[name]
    legs = found(circles, goal, 1.0)
    assert legs, SEARCH.outcome
    assert clearance(np.concatenate([leg.poses for leg in legs]), circles) > 0.6 * MARGIN
    for leg, following in zip(legs, [*legs[1:], None]):
        x, y, yaw = leg.poses.T
        x, y = x - REAR * np.cos(yaw), y - REAR * np.sin(yaw)
        chord = np.hypot(np.diff(x), np.diff(y))
        # The rear axle moves along the vehicle, one way, and no bend is tighter than the vehicle can drive.
        course = np.arctan2(np.diff(y), np.diff(x)) + (math.pi if leg.reverse else 0.0)
        middle = 0.5 * (yaw[1:] + yaw[:-1])
        assert np.abs(np.sin(course - middle)).max() < 1e-3 and np.cos(course - middle).min() > 0.0
        assert np.abs(np.diff(yaw) / chord).max() < TIGHTEST and np.abs(leg.s - np.concatenate([[0.0], np.cumsum(chord)])).max() < 0.02
        if following is not None:
            assert following.reverse is not leg.reverse and np.abs(following.poses[0] - leg.poses[-1]).max() == 0.0
    assert np.hypot(*(legs[-1].poses[-1, :2] - goal)) < 1.0 and np.abs(legs[0].poses[0]).max() < 1e-12


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_the_way_scales_with_the_vehicle(scale):
    o = HMMWV.footprint
    outline = Footprint(scale * o.front, scale * o.rear, scale * o.half_width)
    circles, goal = WORLDS["wall ahead"]
    ways = [found(factor * np.array(circles), (factor * goal[0], 0.0), factor, search=search)
            for search, factor in ((search_of(outline, scale), scale), (search_of(), 1.0))]
    assert [leg.reverse for leg in ways[0]] == [leg.reverse for leg in ways[1]]
    lengths = [sum(leg.s[-1] for leg in way) for way in ways]
    assert lengths[0] / scale == pytest.approx(lengths[1], rel=0.1)
    assert clearance(np.concatenate([leg.poses for leg in ways[0]]), scale * np.array(circles), outline) > 0.6 * scale * MARGIN


def test_it_backs_only_where_something_was_seen():
    circles, goal = WORLDS["wall ahead"]
    blind = ALL_SEEN.copy()
    columns = np.arange(CELLS) * SEARCH.cell - HALF < -2.4
    blind[:, columns] = False
    assert not found(circles, goal, seen=blind) and SEARCH.ends_unseen
    blind[:, columns & (np.arange(CELLS) * SEARCH.cell - HALF > -6.0)] = True
    legs = found(circles, goal, seen=blind)
    assert legs and min(leg.poses[:, 0].min() for leg in legs if leg.reverse) > -6.0 + 2.4 - 1.0


def test_closed_and_narrow_places():
    ring = wall(20.0, 40.0, 8.0, 8.0) + wall(20.0, 40.0, -8.0, -8.0) + wall(20.0, 20.0, -8.0, 8.0) + wall(40.0, 40.0, -8.0, 8.0)
    assert not found(ring, (30.0, 0.0)) and SEARCH.outcome is Outcome.CLOSED and SEARCH.states == 0
    for gap, open_ in ((2.2 + 2.0 * MARGIN + 0.3, True), (2.3, False)):
        half = 0.5 * gap + 0.25
        line = wall(20.0, 20.0, half, 50.0) + wall(20.0, 20.0, -half, -50.0) + wall(-30.0, -30.0, -50.0, 50.0) + wall(
            -30.0, 20.0, 50.0, 50.0) + wall(-30.0, 20.0, -50.0, -50.0)
        legs = found(line, (40.0, 0.0))
        assert bool(legs) == open_, (gap, SEARCH.outcome)
        assert SEARCH.states <= 150_000


def test_a_goal_off_the_map_is_gone_towards():
    legs = found(wall(20.0, 20.0, -10.0, 30.0), (500.0, 0.0))
    x, y, _ = legs[-1].poses[-1]
    assert x > HALF - 2.0 * SEARCH.length and clearance(np.concatenate([leg.poses for leg in legs]), wall(20.0, 20.0, -10.0, 30.0)) > 0.1
    assert [leg.reverse for leg in legs] == [False] and abs(y) < HALF


def test_slices_do_not_change_the_way():
    circles, goal = WORLDS["into a bay"]
    ways = [np.concatenate([leg.poses for leg in found(circles, goal, states=states)]) for states in (37, 100_000)]
    assert (ways[0] == ways[1]).all()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(-25.0, 40.0), st.floats(-20.0, 20.0), st.floats(0.1, 2.0)), max_size=25),
       st.floats(-3.1, 3.1))
def test_no_way_among_random_things_touches_one(circles, yaw):
    start = clearance([(0.0, 0.0, yaw)], circles) if circles else math.inf
    if start < 0.05:
        return
    legs = found(circles, (30.0, 5.0), pose=(0.0, 0.0, yaw))
    if legs and circles:
        assert clearance(np.concatenate([leg.poses for leg in legs]), circles) > min(0.5 * MARGIN, start - 0.06)


# -- The map ---------------------------------------------------------------------------------------------------------


def obstacles(*rows, time=0.0, sector=None):
    table = np.array(rows, float).reshape(-1, 5)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], time, sector=sector)


HERE = PlanarState(0.0, 0.0, 0.0, 0.0)


def map_of(seen, now=0.0, pose=HERE, sight=40.0, cells=1.0):
    the_map = VisibilityMap(HMMWV.footprint, cells)
    the_map.look(now, pose, np.array([pose.x, pose.y]), sight, seen)
    return the_map


def places_of(the_map):
    corner = np.array(the_map.corner)
    return np.array([(corner[0] + j, corner[1] + i) for i in range(MAP_CELLS) for j in range(MAP_CELLS)])


@pytest.mark.parametrize("sector", [None, (0.0, math.radians(60.0)), (2.0, math.radians(120.0))])
def test_what_is_in_view_is_what_rays_reach(sector):
    rows = [(12.0, 3.0, 2.0, 0.0, 0.0), (-8.0, -6.0, 1.0, 0.0, 0.0), (5.0, -9.0, 0.4, 0.5, 0.0)]
    the_map = map_of(obstacles(*rows, sector=sector))
    places, seen = places_of(the_map), the_map.places(0.0).ravel()
    steps = np.linspace(0.0, 1.0, 400)[1:-1, None]
    middle, half = sector or (0.0, math.pi)
    unsure = 0
    for place, is_seen in zip(places[::3], seen[::3]):
        away = math.hypot(*place)
        gaps = [np.hypot(*(steps * place - row[:2]).T).min() - row[2] for row in rows]
        off = abs(math.remainder(math.atan2(place[1], place[0]) - middle, 2.0 * math.pi)) - half
        inside = any(math.hypot(place[0] - row[0], place[1] - row[1]) < row[2] + 0.8 for row in rows)
        if away < 4.0 or abs(away - 40.0) < 1.0 or min(map(abs, gaps)) < 0.8 or abs(off) < 0.03 or inside:
            unsure += 1
            continue
        assert is_seen == (min(gaps) > 0.0 and away < 40.0 and off < 0.0), place
    assert unsure < 0.2 * len(places[::3])


def test_places_count_for_a_minute_and_move_with_the_map():
    the_map = map_of(obstacles())
    seen = the_map.places(VISIBILITY_MEMORY - 1.0)
    assert seen.any() and not the_map.places(VISIBILITY_MEMORY + 1.0).any()
    before = {tuple(place) for place, is_seen in zip(places_of(the_map), seen.ravel()) if is_seen}
    the_map.look(1.0, PlanarState(70.0, 3.0, 0.0, 0.0), np.array([70.0, 3.0]), 1.0, obstacles(time=1.0))
    after = {tuple(place) for place, is_seen in zip(places_of(the_map), the_map.places(1.0).ravel()) if is_seen}
    kept = before & {tuple(place) for place in places_of(the_map)}
    assert len(kept) > 100 and kept <= after and all(math.hypot(x - 70.0, y - 3.0) < 4.0 for x, y in after - kept)


def test_things_out_of_view_are_remembered_and_others_not():
    hidden, plain = (20.0, 0.0, 0.5, 0.0, 0.0), (15.0, 10.0, 0.5, 0.0, 0.0)
    the_map = map_of(obstacles(hidden, plain))
    assert len(the_map.recall(0.0, obstacles(hidden, plain)).radii) == 2
    screen = (8.0, 0.0, 1.5, 0.0, 0.0)
    now = obstacles(screen, time=1.0)
    the_map.look(1.0, PlanarState(0.0, 0.0, 0.0, 0.0), np.zeros(2), 40.0, now)
    known = the_map.recall(1.0, now)
    assert {tuple(c) for c in known.centres} == {(8.0, 0.0), (20.0, 0.0)}  # the other's place is in view, and empty
    # From a sensor that looks the other way, too.
    the_map = map_of(obstacles(plain))
    turned = obstacles(time=1.0, sector=(math.pi, 1.0))
    the_map.look(1.0, PlanarState(0.0, 0.0, 0.0, 0.0), np.zeros(2), 40.0, turned)
    assert len(the_map.recall(1.0, turned).radii) == 1 and len(the_map.recall(1.0, NO_OBSTACLES).radii) == 1
    the_map.clear()
    assert not len(the_map.recall(1.0, NO_OBSTACLES).radii)
    # Beyond the sensor's range, and near its end.
    the_map = map_of(obstacles((21.0, 0.0, 0.5, 0.0, 0.0)))
    for sight, kept in ((15.0, True), (20.7, True), (21.5, True), (40.0, False)):
        the_map.look(1.0, HERE, np.zeros(2), sight, obstacles(time=1.0))
        assert bool(len(the_map.recall(1.0, NO_OBSTACLES).radii)) == kept, sight


def test_places_where_something_moves_are_not_calm_for_a_while():
    the_map = map_of(obstacles((-10.0, -6.0, 0.5, 0.0, 1.5)))
    path = np.array([(-10.0, y) for y in (-6.0, -4.0, -2.5)])
    assert not the_map.is_calm(0.5, path).any() and the_map.is_calm(0.5, np.array([(-10.0, 4.0), (-5.0, -6.0)])).all()
    assert the_map.is_calm(10.0, path).all()
