"""Pure pursuit and MPPI, as the controller is compared with them: they drive, avoid what can be avoided, and stop before what cannot."""

import numpy as np
import pytest

from lfdm_lab.studies import driving as studies
from lfdm_lab.studies.driving import RIVALS
from lfdm_lab.studies.mppi import Clearances, Mppi, Sampling
from lfdm_lab.studies.pure_pursuit import PurePursuit
from lfdm_ros.control.path import Path
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import Plant, drive
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sensors import LidarSettings
from lfdm_ros.simulation import Circle, Goal, Polygon, Pose, Scenario, World
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
PLANT = Plant("driven_bicycle", None, step=5e-3, lidar=LidarSettings(resolution=np.radians(1.0)))
FAST = Sampling(samples=256)


def driver(name):
    if name == "lattice":
        return PurePursuit(HMMWV, Settings(time_budget=0.0))
    return Mppi(HMMWV, Settings(time_budget=0.0, **RIVALS[name]), FAST)


def towards(*obstacles, speed=10.0, duration=12.0, goal=70.0, y=0.0):
    return Scenario("yard", Pose(y=y, speed=speed), None, duration, World(obstacles), Goal(goal, 0.0), speed=speed)


@pytest.mark.parametrize("name", ["lattice", "mppi"])
def test_drives_a_straight_road(name):
    run = drive(HMMWV, towards(y=1.0), driver(name), PLANT)
    assert run.reached == pytest.approx(6.8, abs=0.6) and run.outcomes["SOLVED"] >= len(run.commands) - 1
    assert abs(run.column("y")[-1]) < 0.7 and np.abs(run.commands).max() <= 1.0


@pytest.mark.parametrize("name", ["lattice", "mppi"])
def test_avoids_one_circle(name):
    run = drive(HMMWV, towards(Circle(40.0, 0.2, 1.5, name="rock")), driver(name), PLANT)
    assert not run.collisions and run.reached < 9.0 and run.least_clearance > 0.2


@pytest.mark.parametrize("name", ["lattice", "mppi"])
def test_stops_before_a_wall(name):
    wall = Polygon(np.array([[45.0, -60.0], [46.0, -60.0], [46.0, 60.0], [45.0, 60.0]]), name="wall")
    run = drive(HMMWV, towards(wall, duration=20.0), driver(name), PLANT, patience=1.0)
    assert not run.collisions and np.isnan(run.reached) and run.blocked > 0
    # When no way has been seen for a while it stops here and now, as the controller does.
    assert run.column("vx")[-1] < 0.1 and 0.2 < run.least_clearance < 30.0 and run.times[-1] < 15.0


def test_both_drive_along_a_path_and_stop_at_its_end():
    path = Path(np.column_stack([np.arange(0.0, 41.0), 2.0 * np.sin(np.arange(0.0, 41.0) / 12.0)]))
    for name in ("lattice", "mppi"):
        it = driver(name)
        scenario = Scenario("bend", Pose(speed=6.0, yaw=float(path.yaw[0])), None, 20.0, World(), Goal(1.0, 0.0), speed=6.0)
        it.go_to = lambda goal, speed, follow=it.follow: follow(path, 6.0)
        run = drive(HMMWV, scenario, it, PLANT)
        assert run.reached < 15.0 and run.column("vx")[-1] < 1.5, name
        s, offset = path.project(run.column("x"), run.column("y"))
        assert np.abs(offset).max() < 1.5 and s[-1] == pytest.approx(path.length, abs=1.5), name


def test_without_a_task_or_a_state_both_brake():
    for name in ("lattice", "mppi"):
        it = driver(name)
        assert it.cycle(0.0).command[2] > 0.0
        state = dict.fromkeys(("x", "y", "yaw", "vx", "vy", "yaw_rate"), 0.0)
        assert it.cycle(0.05, Measured(0.05, state)).outcome.name == "STOPPED"
        with pytest.raises(InputError, match="speed to a goal is 0"):
            it.go_to(Goal(10.0, 0.0), 0.0)


def test_the_same_seed_samples_the_same_run():
    rock, runs = Circle(30.0, 0.0, 1.0), []
    for seed in (1, 1, 2):
        it = Mppi(HMMWV, Settings(time_budget=0.0, period=0.05), Sampling(samples=64, seed=seed))
        runs.append(drive(HMMWV, towards(rock, duration=2.0), it, PLANT).commands)
    assert np.array_equal(runs[0], runs[1]) and not np.array_equal(runs[0], runs[2])


def test_the_map_shows_the_distance_to_what_is_there_now():
    shown = Clearances()
    there = Obstacles(np.array([[10.0, 0.0], [0.0, 300.0]]), np.array([1.0, 2.0]), np.array([[0.0, 2.0], [0.0, 0.0]]), 1.0)
    shown.fill(there, 2.0, 5.0, 0.0)
    x, y = np.array([[10.0, 10.0], [13.0, 500.0]]), np.array([[2.0, 0.0], [2.0, 0.0]])
    assert shown.at(x, y) == pytest.approx(np.array([[-1.0, 1.0], [2.0, 4.0]]), abs=0.25)
    shown.fill(Obstacles(np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2)), 3.0), 3.0, 5.0, 0.0)
    assert (shown.at(x, y) == 4.0).all()


def test_the_study_asks_all_of_them_the_same():
    trials = studies.dense_fields(30, None, studies.DENSITIES, studies.SPEEDS, tuple(studies.RIVALS), Settings(time_budget=0.0))
    counts = {name: sum(trial.controller == name for trial in trials) for name in studies.RIVALS}
    assert counts == {"mpc": 540, "kinematic": 180, "lattice": 180, "mppi": 54}
    few = studies.dense_fields(5, 2, (8.0,), (40,), tuple(studies.RIVALS), Settings(time_budget=0.0))
    assert [(t.controller, t.seed) for t in few] == [*(("mpc", k) for k in range(1, 6)), *((name, k) for name in (
        "kinematic", "lattice", "mppi") for k in (1, 2))]
    assert len({(t.scenario, t.seed, t.controller, t.density) for t in trials}) == len(trials)
    assert {t.density for t in trials} == {1.0, 2.0, 4.0, 8.0, 12.0, 14.0} and all(t.plant.seed == t.seed for t in trials)
    for name, kind in (("lattice", PurePursuit), ("mppi", Mppi)):
        assert isinstance(studies.make_driver(name, HMMWV, next(t.settings for t in trials if t.controller == name)), kind)
