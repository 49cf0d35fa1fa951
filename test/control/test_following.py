"""Following what drives ahead in the lane: the speed from which the vehicle stops behind it, and how steadily it drives there."""

import numpy as np
import pytest

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.cycle import CycleOutcome
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.routing.traffic import FALLING_BACK, FOLLOWING_GAP, FOLLOWING_TIME, LEADER_BRAKING, RelevantObstacles
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Scenario
from lfdm_ros.simulation.path import Path
from lfdm_ros.simulation.world import MotionStep, Polygon, Pose, World
from lfdm_ros.vehicles import load_vehicle
from lfdm_ros.vehicles.body import Footprint

PATH = Path(np.array([[0.0, 0.0], [200.0, 0.0]]))
LANE = Reference(PATH, np.full(len(PATH.s), 15.0), 15.0, np.array([[0.0, 1.75, 1.75], [200.0, 1.75, 1.75]]))
BRAKING = 3.5


def speed_behind(*rows: tuple[float, ...], front: float = 20.0, time: float = 1.0, lane: Reference = LANE) -> float:
    """Speed behind circles of rows x, y, radius, vx, vy that were seen at 1 s."""
    table = np.array(rows, float)
    relevant = RelevantObstacles(Footprint(2.4, 2.4, 1.1))
    relevant.update_obstacles(Obstacles(table[:, :2], table[:, 2], table[:, 3:], 1.0), lane)
    return relevant.following_speed(time, front, BRAKING)


def gap_at_rest(gap: float, speed: float, leader: float) -> float:
    """Gap [m] that is left once both stand, in steps of 1 ms: the leader brakes now, the vehicle after the time gap."""
    step, time = 1e-3, 0.0
    while speed > 0.0 or leader > 0.0:
        gap += step * (leader - speed)
        leader = max(leader - LEADER_BRAKING * step, 0.0)
        speed = max(speed - BRAKING * step, 0.0) if time >= FOLLOWING_TIME else speed
        time += step
    return gap


@pytest.mark.parametrize(("gap", "leader"), [(5.0, 4.0), (9.0, 5.0), (20.0, 8.0), (40.0, 14.0)])
def test_the_vehicle_stops_behind_a_leader_that_brakes_harder(gap: float, leader: float) -> None:
    speed = speed_behind((21.0 + gap, 0.5, 1.0, leader, 0.0))
    assert gap_at_rest(gap, speed, leader) == pytest.approx(FOLLOWING_GAP, abs=0.05)


def test_only_what_drives_ahead_in_the_lane_the_same_way_counts() -> None:
    assert speed_behind((40.0, 0.0, 1.0, -8.0, 0.0)) == np.inf  # comes
    assert speed_behind((40.0, 0.0, 1.0, 1.0, 6.0)) == np.inf  # crosses
    assert speed_behind((40.0, 0.0, 1.0, 0.9, 0.0)) == np.inf  # so slow that it may be passed
    assert speed_behind((40.0, 0.0, 1.0, 2.0, 1.5)) == np.inf  # leaves the lane
    assert speed_behind((24.0, 0.0, 1.0, 2.0, 0.0)) < 3.0
    assert speed_behind((40.0, 3.5, 1.0, 8.0, 0.0)) == np.inf  # in the lane beside it
    assert speed_behind((15.0, 0.0, 1.0, 8.0, 0.0)) == np.inf  # behind
    assert speed_behind((40.0, 0.0, 1.0, 8.0, 0.0), lane=Reference(PATH, LANE.speeds, 15.0)) == np.inf  # no lane is known
    near, far = speed_behind((30.0, 0.0, 1.0, 8.0, 0.0)), speed_behind((60.0, 0.0, 1.0, 8.0, 0.0))
    assert near < 8.0 < far and speed_behind((30.0, 0.0, 1.0, 8.0, 0.0), (60.0, 0.0, 1.0, 8.0, 0.0)) == near
    assert speed_behind((30.0, 0.0, 1.0, 8.0, 0.0), time=1.5) > near  # it has gone on meanwhile
    assert speed_behind((21.5, 0.0, 1.0, 8.0, 0.0)) == 8.0 - FALLING_BACK  # nearer than it may be


def counts(*rows: tuple[float, ...], y: float = 0.0, vx: float = 10.0, time: float = 1.0) -> list[bool]:
    """Which of circles of rows x, y, radius, vx, vy that were seen at 1 s count for a vehicle at x = 100 m, in a lane of 5.2 and 1.8 m."""
    wide, table = np.array([[0.0, 5.2, 1.8], [200.0, 5.2, 1.8]]), np.array(rows, float)
    relevant = RelevantObstacles(Footprint(2.4, 2.4, 1.1))
    own = Measured(time, {"x": 100.0, "y": y, "yaw": 0.0, "vx": vx, "vy": 0.0, "yaw_rate": 0.0})
    relevant.update_obstacles(Obstacles(table[:, :2], table[:, 2], table[:, 3:], 1.0), Reference(PATH, LANE.speeds, 15.0, wide), own)
    return [row[:2] in {tuple(centre) for centre in relevant.obstacles.centres.tolist()} for row in rows]


def test_who_follows_in_the_vehicle_s_track_has_to_keep_clear() -> None:
    behind = 100.0 - 2.4 - 1.0
    assert counts((behind - 3.0, 0.3, 1.0, 12.0, 0.0), (behind - 30.0, -0.3, 1.0, 24.0, 0.0)) == [False, False]  # in its lane
    assert counts((behind - 3.0, 3.5, 1.0, 12.0, 0.0), (behind - 90.0, 3.5, 1.0, 24.0, 0.0)) == [True, True]  # overtaking
    assert counts((behind - 3.0, 0.3, 1.0, 2.0, 0.0), (behind + 6.0, 0.0, 1.0, 8.0, 0.0)) == [True, True]  # slow; ahead
    # Half in the next lane: who could still stop behind it is left out: 15 m away at 14 m/s, the vehicle at 10 m/s.
    stops = 7.0 + (14.0**2 - 10.0**2) / 12.0
    assert counts((behind - stops + 0.1, 3.0, 1.0, 14.0, 0.0), (behind - stops - 0.1, 3.0, 1.0, 14.0, 0.0), y=2.0) == [True, False]
    assert counts((behind - stops - 0.1, 3.0, 1.0, 14.0, 0.0), y=2.0, time=1.1) == [True]  # it has come nearer since


@pytest.mark.parametrize("seed", [1, 2])
def test_a_slow_car_is_followed_steadily(seed: int) -> None:
    """It is met at twice its speed, slows down, and drives on; nothing brakes in earnest once it is followed."""
    vehicle = load_vehicle("hmmwv")
    car = Polygon(np.array([[-2.2, -0.9], [2.2, -0.9], [2.2, 0.9], [-2.2, 0.9]]) + [45.0, 0.1], vx=6.0, name="car",
                  steps=(MotionStep(9.0, 5.0, 0.0), MotionStep(15.0, 6.0, 0.0)))
    path = np.column_stack([np.linspace(0.0, 140.0, 281), np.zeros(281)])
    corridor = np.array([[0.0, 1.75, 4.25], [140.0, 1.75, 4.25]])
    scenario = Scenario("follow", Pose(speed=11.0), None, 22.0, World((car,)), None, path, 11.0, corridor)
    run = drive(vehicle, scenario, Controller(vehicle, Settings(time_budget=0.0)), PlantSettings("eighteen_dof", seed=seed))
    assert not run.collisions and run.outside == 0.0 and CycleOutcome.BRAKING.name not in run.outcomes
    steady = (run.times > 12.5) & (run.times < 15.0) | (run.times > 18.0)
    speed, pedal = run.column("vx")[steady], run.commands[steady, 1] - run.commands[steady, 2]
    assert np.abs(speed - np.where(run.times[steady] < 15.0, 5.0, 6.0)).max() < 0.5
    assert np.abs(np.diff(pedal)).max() < 0.1 and np.ptp(pedal) < 0.25


def test_a_tractor_is_followed_where_cars_come() -> None:
    """The first car is hidden behind it until the vehicle would be beside it."""
    def at(x: float, y: float, length: float, width: float, vx: float, name: str) -> Polygon:
        corners = 0.5 * np.array([[-length, -width], [length, -width], [length, width], [-length, width]])
        return Polygon(corners + [x, y], vx=vx, name=name)

    vehicle = load_vehicle("hmmwv")
    world = World((at(35.0, 0.0, 5.0, 2.3, 1.5, "tractor"), *(at(130.0 + 60.0 * k, 3.5, 4.4, 1.8, -8.0, f"car {k + 1}") for k in range(3))))
    scenario = Scenario("tractor", Pose(speed=10.0), None, 20.0, world, None, np.array([[0.0, 0.0], [260.0, 0.0]]), 10.0,
                        np.array([[0.0, 5.2, 2.0], [260.0, 5.2, 2.0]]))
    run = drive(vehicle, scenario, Controller(vehicle, Settings(time_budget=0.0)), PlantSettings("eighteen_dof", seed=1))
    assert not run.collisions and np.abs(run.column("y")).max() < 0.5
    assert run.column("vx")[-1] == pytest.approx(1.5, abs=0.3)
