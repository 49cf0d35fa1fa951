"""Scenarios of CommonRoad. Oracle: commonroad-io 2026.1, which has read `document()`."""

import json
import math

import numpy as np
import pytest

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import Circle, load_scenario
from lfdm_ros.simulation.path import Path

CHANGE = "<speedLimit>15</speedLimit>"


def points(tag, xy):
    return f"<{tag}>" + "".join(f"<point><x>{x}</x><y>{y}</y></point>" for x, y in xy) + f"</{tag}>"


def lane(name, left, right, rest=""):
    return f'<lanelet id="{name}">{points("leftBound", left)}{points("rightBound", right)}{rest}</lanelet>'


def state(tag, step, x, y, yaw, speed):
    return (f"<{tag}><position><point><x>{x}</x><y>{y}</y></point></position><orientation><exact>{yaw}</exact></orientation>"
            f"<time><exact>{step}</exact></time><velocity><exact>{speed}</exact></velocity></{tag}>")


def interval(tag, low, high):
    return f"<{tag}><intervalStart>{low}</intervalStart><intervalEnd>{high}</intervalEnd></{tag}>"


# Two lanes that bend to the left at x = 100 m; the goal is in the left one, behind the bend.
BEND = [(100.0 + 40.0 * math.sin(a), 40.0 - 40.0 * math.cos(a)) for a in np.linspace(0.0, 0.5, 9)]
OUT = [(np.array(p) - (100.0, 40.0)) / 40.0 for p in BEND]
LANES = (
    lane(1, [(0, 1.75), (60, 1.75), (100, 1.75)], [(0, -1.75), (60, -1.75), (100, -1.75)],
         f'<successor ref="3"/><adjacentLeft ref="2" drivingDir="same"/>{CHANGE}')
    + lane(2, [(0, 5.25), (100, 5.25)], [(0, 1.75), (100, 1.75)],
           f'<successor ref="4"/><adjacentRight ref="1" drivingDir="same"/><adjacentLeft ref="9" drivingDir="opposite"/>{CHANGE}')
    + lane(3, [np.array(p) - 1.75 * o for p, o in zip(BEND, OUT)], [np.array(p) + 1.75 * o for p, o in zip(BEND, OUT)],
           '<predecessor ref="1"/><adjacentLeft ref="4" drivingDir="same"/>')
    + lane(4, [np.array(p) - 5.25 * o for p, o in zip(BEND, OUT)], [np.array(p) - 1.75 * o for p, o in zip(BEND, OUT)],
           '<predecessor ref="2"/><adjacentRight ref="3" drivingDir="same"/>'))
GOAL = ("<goalState><position><rectangle><length>8</length><width>3</width><orientation>0.3</orientation>"
        "<center><x>110.4</x><y>5.2</y></center></rectangle></position>"
        + interval("orientation", 0.1, 0.5) + interval("time", 95, 130) + interval("velocity", 5.0, 14.0) + "</goalState>")
EGO = state("initialState", 5, 2.0, 0.1, 0.0, 10.0)
OBSTACLES = (
    '<obstacle id="20"><role>dynamic</role><type>car</type><shape><rectangle><length>4.5</length><width>1.8</width></rectangle></shape>'
    + state("initialState", 0, 30.0, 0.0, 0.0, 12.0)
    + "<trajectory>" + "".join(state("state", k, 30.0 + 1.2 * k, 0.002 * k * k, 0.01 * k, 12.0) for k in range(1, 40))
    + "</trajectory></obstacle>"
    '<obstacle id="21"><role>dynamic</role><type>bicycle</type><shape><circle><radius>0.6</radius></circle></shape>'
    + state("initialState", 15, 60.0, -8.0, 1.5, 3.0)
    + "<trajectory>" + "".join(state("state", k, 60.0, -8.0 + 0.3 * (k - 15), 1.5, 3.0) for k in range(16, 30)) + "</trajectory></obstacle>"
    '<obstacle id="22"><role>static</role><type>parkedVehicle</type><shape><polygon>'
    "<point><x>-2</x><y>-1</y></point><point><x>2</x><y>-1</y></point><point><x>3</x><y>0</y></point><point><x>2</x><y>1</y></point>"
    "<point><x>-2</x><y>1</y></point></polygon></shape>" + state("initialState", 0, 80.0, -6.0, 0.4, 0.0) + "</obstacle>")


def document(lanes=LANES, obstacles=OBSTACLES, ego=EGO, goal=GOAL, version="2018b", step="0.1", more=""):
    return (f'<commonRoad commonRoadVersion="{version}" benchmarkID="ZAM_Own-1_1_T-1" timeStepSize="{step}">{lanes}'
            f'{obstacles}{more}<planningProblem id="7">{ego}{goal}</planningProblem></commonRoad>')


@pytest.fixture
def write(tmp_path):
    def to(**parts):
        file = tmp_path / "own.xml"
        file.write_text(document(**parts))
        return file
    return to


# Corners or centre by commonroad-io's `occupancy_at_time`; step 5 is the planning problem's first.
PARKED = [[78.5473, -7.6999], [77.7685, -5.8578], [81.4527, -4.3001], [82.7632, -4.8317], [82.2315, -6.1422]]
PLACES = {
    ("car 20", 5): [[33.7978, -0.9613], [33.7078, 0.8364], [38.2022, 1.0613], [38.2922, -0.7364]],
    ("car 20", 12): [[42.2739, -0.8749], [42.0584, 0.9122], [46.5261, 1.4509], [46.7416, -0.3362]],
    ("car 20", 39): [[75.0611, 1.3542], [74.3768, 3.019], [78.5389, 4.7298], [79.2232, 3.065]],
    ("car 20", 41): None, ("bicycle 21", 12): None, ("bicycle 21", 20): [[60.0, -6.5]], ("bicycle 21", 39): None,
    ("parkedVehicle 22", 5): PARKED, ("parkedVehicle 22", 39): PARKED}
# (step, x, y, orientation, velocity) and commonroad-io's `is_reached`.
VERDICTS = [
    (100, 110.0, 5.0, 0.3, 10.0, True), (94, 110.0, 5.0, 0.3, 10.0, False), (95, 110.0, 5.0, 0.3, 10.0, True),
    (130, 110.0, 5.0, 0.3, 10.0, True), (131, 110.0, 5.0, 0.3, 10.0, False), (100, 110.0, 5.0, 0.6, 10.0, False),
    (100, 110.0, 5.0, 0.3 + math.tau, 10.0, True), (100, 110.0, 5.0, 0.3, 14.5, False), (100, 106.6, 4.0, 0.3, 10.0, True),
    (100, 105.8, 4.0, 0.3, 10.0, False), (100, 113.0, 7.5, 0.2, 6.0, True), (100, 113.0, 7.8, 0.2, 6.0, False)]


def place(world, name, time):
    """Returns where an obstacle is at a time, None where it is not there."""
    k = next(k for k in range(len(world.obstacles)) if world.label(k) == name)
    obstacle = world.obstacles[k]
    points = np.array([[obstacle.x, obstacle.y]]) if isinstance(obstacle, Circle) else obstacle.vertices
    found = world.place(points, k, time + 1e-9)
    return found if np.abs(found).max() < 1e4 else None


def test_obstacles_are_where_commonroad_has_them(write):
    world = load_scenario(write()).world
    for delay in (0.0, 2.0):  # what comes later is the same
        for (name, step), expected in PLACES.items():
            found = place(world.delayed(delay), name, 0.1 * (step - 5) + delay)
            if expected is None:
                assert found is None, (name, step)
            else:
                # A corner is another's as well: which comes first is free.
                apart = np.hypot(*(found[:, None] - np.array(expected)[None]).transpose(2, 0, 1))
                assert found.shape == np.shape(expected) and apart.min(axis=0).max() < 1e-4, (name, step)


def test_a_trajectory_may_begin_with_the_initial_state(write):
    again = OBSTACLES.replace("<trajectory>", "<trajectory>" + state("state", 0, 30.0, 0.0, 0.0, 12.0), 1)
    assert load_scenario(write(obstacles=again)).world.obstacles[0].steps == load_scenario(write()).world.obstacles[0].steps


def test_the_goal_is_reached_where_commonroad_says_so(write):
    scenario = load_scenario(write())
    assert [scenario.arrived(0.1 * (k - 5), np.array([x, y, yaw]), v) for k, x, y, yaw, v, _ in VERDICTS] == [v[-1] for v in VERDICTS]


def test_the_way_changes_lanes_within_them(write):
    scenario = load_scenario(write())
    path = Path(scenario.path)
    assert scenario.initial.speed == 10.0 and scenario.duration == pytest.approx(12.6)
    ends = path.at(np.array([path.project(np.array([x]), np.array([y]))[0][0] for x, y in ((2.0, 0.1), (100.0, 3.5))]))
    assert np.allclose(ends[:2], [[2.0, 100.0], [0.0, 3.5]], atol=0.05)
    # On the goal's lane, whose middle turns about (100, 40) at 36.5 m.
    behind = scenario.path[scenario.path[:, 0] > 102.0]
    assert np.allclose(np.hypot(*(behind - (100.0, 40.0)).T), 36.5, atol=0.1)
    # The corridor: all lanes of the direction.
    assert np.allclose(scenario.corridor[:, 1:].sum(axis=1), 7.0, atol=0.2)
    # In the goal in the middle of its time, 10.75 s, gaining or losing 2 m/s^2 at first.
    assert scenario.speed == pytest.approx(10.1, abs=0.4)


def test_a_lane_that_is_not_for_cars_is_no_corridor(write):
    """Behind the bend the lane beside the goal's is a bus lane."""
    lanes = LANES.replace('<predecessor ref="1"/>', '<predecessor ref="1"/><laneletType>busLane</laneletType>')
    scenario = load_scenario(write(lanes=lanes))
    room = scenario.corridor[:, 1:].sum(axis=1)
    assert np.allclose(room[scenario.path[:, 0] < 95.0], 7.0, atol=0.1) and np.allclose(room[scenario.path[:, 0] > 104.0], 3.5, atol=0.2)


def test_the_vehicles_own_recording_is_no_obstacle(write):
    own = ('<obstacle id="40"><role>dynamic</role><type>car</type>'
           "<shape><rectangle><length>4.5</length><width>1.8</width></rectangle></shape>"
           + state("initialState", 0, -3.0, 0.1, 0.0, 10.0) + "<trajectory>"
           + "".join(state("state", k, k - 3.0, 0.1, 0.0, 10.0) for k in range(1, 90)) + "</trajectory></obstacle>")
    names = [obstacle.name for obstacle in load_scenario(write(obstacles=OBSTACLES + own)).world.obstacles]
    assert names == [obstacle.name for obstacle in load_scenario(write()).world.obstacles]
    beside = own.replace("<y>0.1</y>", "<y>5.1</y>")
    assert len(load_scenario(write(obstacles=OBSTACLES + beside)).world.obstacles) == len(names) + 1


def test_a_goal_that_counts_early_does_not_slow_the_vehicle(write):
    early = GOAL.replace(interval("time", 95, 130), interval("time", 5, 2000))
    assert load_scenario(write(goal=early)).speed == 10.0
    # Not if the goal is for slower ones: it counts in the middle of its time.
    assert load_scenario(write(goal=early.replace(interval("velocity", 5.0, 14.0), interval("velocity", 1.0, 5.0)))).speed < 5.0


def test_signs_of_2020a_limit_the_speed(write):
    signs = ('<trafficSign id="50"><trafficSignElement><trafficSignID>274</trafficSignID><additionalValue>8.5</additionalValue>'
             "</trafficSignElement></trafficSign>")
    lanes = LANES.replace("<speedLimit>15</speedLimit>", '<trafficSignRef ref="50"/>')
    obstacles = OBSTACLES.replace("<role>dynamic</role>", "").replace("<role>static</role>", "")
    for tag, number in (("dynamicObstacle", 20), ("dynamicObstacle", 21), ("staticObstacle", 22)):
        begin = obstacles.index(f'<obstacle id="{number}"')
        end = obstacles.index("</obstacle>", begin)
        obstacles = (obstacles[:begin] + f"<{tag}" + obstacles[begin + 9:end] + f"</{tag}>" + obstacles[end + 11:])
    old, new = load_scenario(write()), load_scenario(write(lanes=lanes, obstacles=obstacles, more=signs, version="2020a"))
    assert new.speed == 8.5
    assert [o.name for o in new.world.obstacles] == [o.name for o in old.world.obstacles]
    assert np.array_equal(new.world.edges_at(1.0)[0], old.world.edges_at(1.0)[0])


def test_without_a_place_the_lane_is_followed_until_the_time(write):
    scenario = load_scenario(write(goal="<goalState>" + interval("time", 25, 35) + "</goalState>"))
    assert abs(scenario.path[:, 1]).max() < 12.0 and scenario.speed == 10.0 and scenario.duration == pytest.approx(3.1)
    assert not scenario.arrived(1.9, np.zeros(3), 0.0) and scenario.arrived(2.0, np.zeros(3), 0.0)
    free = load_scenario(write(goal=""))
    assert not free.goal_states and free.duration == 30.0


def test_with_time_to_spare_it_drives_with_the_traffic_and_stops_at_the_goal(write):
    late = GOAL.replace(interval("time", 95, 130), interval("time", 300, 300)).replace(interval("velocity", 5.0, 14.0), "")
    scenario = load_scenario(write(goal=late))
    assert scenario.speed == 10.0 and np.hypot(*(scenario.path[-1] - (110.4, 5.2))) < 1.0
    slow = load_scenario(write(goal=late.replace("</goalState>", interval("velocity", 2.0, 5.0) + "</goalState>")))
    assert slow.speed < 5.0 and len(slow.path) > len(scenario.path)


def test_a_goal_of_one_instant_can_be_reached(write):
    file = write(goal="<goalState><time><exact>15</exact></time></goalState>", obstacles="")
    assert main(["drive", str(file), "--json"]) == 0


REFUSED = {
    "a document": ({}, "<commonRoad", "<opendrive", "</commonRoad>", "</opendrive>"),
    "format '2017a'": ({"version": "2017a"},),
    "timeStepSize": ({"step": "soon"},),
    "no planningProblem": ({}, '<planningProblem id="7">', '<note id="7">', "</planningProblem>", "</note>"),
    "no lanelet: there": ({"lanes": ""},),
    "lanelet 1: 3 points to the left and 2 to the right": ({}, "<point><x>60</x><y>-1.75</y></point>", ""),
    "lanelet 2: all its points": ({}, "<x>0</x><y>5.25</y>", "<x>100</x><y>5.25</y>",
                                  "<x>0</x><y>1.75</y></point><point><x>100</x><y>1.75</y>",
                                  "<x>100</x><y>1.75</y></point><point><x>100</x><y>1.75</y>"),
    "parkedVehicle 22: a polygon of 1 points": ({}, "<polygon>", "<polygon><point><x>1</x><y>1</y></point></polygon><polygon>"),
    "lanelet 2: speedLimit": ({}, '"opposite"/><speedLimit>15', '"opposite"/><speedLimit>fast'),
    "car 20: times of its states must rise": ({}, "<time><exact>7</exact></time>", "<time><exact>5</exact></time>"),
    "car 20: no time": ({}, "<time><exact>7</exact></time>", ""),
    "bicycle 21: radius": ({}, "<radius>0.6</radius>", "<radius>nan</radius>"),
    "bicycle 21: radius is -1": ({}, "<radius>0.6</radius>", "<radius>-1</radius>"),
    "parkedVehicle 22: corner": ({}, "<point><x>3</x><y>0</y></point>", "<point><x>2</x><y>-1</y></point>"),
    "no lane leads from lanelet 1 to the goal": ({}, '<successor ref="3"/>', "", '<successor ref="4"/>', ""),
    "planningProblem 7: goal: no lanelet '77'": ({"goal": '<goalState><position><lanelet ref="77"/></position></goalState>'},),
    "planningProblem 7: no velocity": ({}, "<velocity><exact>10.0</exact></velocity></initialState>", "</initialState>"),
    "document type": ({}, "<commonRoad", "<!DOCTYPE commonRoad [<!ENTITY a 'b'>]><commonRoad"),
    "not readable XML": ({}, "</commonRoad>", ""),
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_files_name_the_element(write, words):
    parts, *changes = REFUSED[words]
    file = write(**parts)
    text = file.read_text()
    for old, new in zip(changes[::2], changes[1::2]):
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    with pytest.raises(InputError) as error:
        load_scenario(file)
    assert str(error.value).startswith(str(file)) and words in str(error.value), error.value
    assert len(str(error.value)) < 400


def test_no_seed_changes_it(write):
    with pytest.raises(InputError, match="no seed"):
        load_scenario(write(), 3)


def test_it_is_driven(write, capsys, tmp_path):
    """Round the car ahead, which drives 12 m/s, into the goal of the other lane; traffic has been seen before the start."""
    status = main(["drive", str(write()), "--vehicle", "sedan", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert status == 0, found
    assert 9.0 <= found["reached"] <= 12.5 and not found["collision"] and found["outside"] < 0.05


def test_who_comes_from_behind_is_named(write, capsys):
    """The lanes ahead are closed: the vehicle brakes, and what follows it as recorded, over both of them, does not."""
    wall = ('<obstacle id="30"><role>static</role><type>roadBoundary</type><shape><rectangle><length>2</length><width>7</width></rectangle>'
            "</shape>" + state("initialState", 0, 60.0, 1.75, 0.0, 0.0) + "</obstacle>")
    follower = ('<obstacle id="31"><role>dynamic</role><type>car</type>'
                "<shape><rectangle><length>4.5</length><width>5</width></rectangle></shape>"
                + state("initialState", 0, -13.0, 1.75, 0.0, 10.0) + "<trajectory>"
                + "".join(state("state", k, -13.0 + k, 1.75, 0.0, 10.0) for k in range(1, 90)) + "</trajectory></obstacle>")
    assert main(["drive", str(write(obstacles=wall + follower)), "--vehicle", "sedan"]) == 1
    assert "hit from behind by car 31" in capsys.readouterr().out
