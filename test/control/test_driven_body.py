"""One outline for who drives, who judges and who looks, and it is the vehicle's."""

from pathlib import Path as File

import numpy as np
import pytest
from drivers import Blind

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.safety.stops import Stops
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker
from lfdm_ros.resources import share_directory
from lfdm_ros.sensors import Lidar, LidarSettings
from lfdm_ros.simulation import Circle, Goal, Pose, Scenario, World
from lfdm_ros.vehicles import load_vehicle, with_motor_map

SHIPPED = sorted(path.stem for path in File(share_directory() / "config" / "vehicles").glob("*.yaml"))
DRIVEN = [name for name in SHIPPED if name != "rhode_dual_track"]  # of that one only the tyres are known
SETTINGS = Settings(time_budget=0.0, use_limit_table=False)


@pytest.mark.parametrize("name", DRIVEN)
def test_controller_monitor_and_lidar_see_the_same_outline(name):
    vehicle = with_motor_map(load_vehicle(name))
    stops, outline, mount = Stops(SETTINGS, vehicle), vehicle.footprint, vehicle.lidar
    random, size = np.random.default_rng(3), outline.front + outline.rear
    for place in random.uniform(-2.0 * size, 2.0 * size, (40, 2)):
        x, y, yaw = random.uniform(-1.0, 1.0, 3)
        world = World((Circle(*place, 0.1 * size),))
        seen = Obstacles(place[None], np.array([0.1 * size]), np.zeros((1, 2)), 0.0)
        by_controller = float(stops.distances(np.array([[x, y, yaw]]), np.zeros(1), 0.0, seen)[0, 0])
        monitor = RunMonitor(world, outline, {"x": 0, "y": 1, "yaw": 2})
        monitor.update(0.0, [x, y, yaw])
        # Far off the controller does not look; inside a corner the two measure a depth each in its way.
        if by_controller < np.inf and monitor.verdict.least_clearance > 0.0:
            assert by_controller == pytest.approx(monitor.verdict.least_clearance, abs=1e-9)
        assert (by_controller <= 0.0) == (monitor.verdict.collisions > 0)

    post = Circle(3.0 * size, 0.4 * size, 0.1 * size)
    tracker, settings = ObstacleTracker(mount=mount), LidarSettings(range_min=0.0, noise_sd=0.0)
    for k in range(2):
        tracker.update(Lidar(World((post,)), settings, mount=mount).scan(0.1 * k, 0.1, 0.2, 0.3), 0.1, 0.2, 0.3)
    assert tracker.obstacles().centres == pytest.approx(np.array([[post.x, post.y]]), abs=0.1 + 0.02 * size)
    assert vehicle.lidar.place(0.1, 0.2, 0.3) == pytest.approx(
        [0.1 + np.cos(0.3) * mount.x - np.sin(0.3) * mount.y, 0.2 + np.sin(0.3) * mount.x + np.cos(0.3) * mount.y])


@pytest.mark.parametrize(("name", "width"), [("hmmwv", 2.2), ("dart", 0.19)])
@pytest.mark.parametrize("changes", [{}, {"obstacle_margin": 5.0, "stop_margin": 3.0, "path_margin": 2.0, "sight": 5.0}])
def test_no_setting_of_the_controller_changes_what_is_a_collision(name, width, changes):
    """A post that the vehicle's side just touches, and one that it just passes."""
    vehicle, driver = load_vehicle(name), Blind(settings=Settings(**changes))
    for aside, hit in ((-0.005, ("post",)), (0.005, ())):
        post = Circle(3.0, 0.5 * width + 0.2 + aside, 0.2, name="post")
        scenario = Scenario("beside", Pose(speed=5.0), None, 1.2, World((post,)), Goal(100.0, 0.0), speed=5.0)
        assert drive(vehicle, scenario, driver, PlantSettings("driven_bicycle", None, lidar=None)).collisions == hit


def test_a_car_of_a_tenth_the_size_drives_where_it_fits():
    """Between posts .6 m apart: a full-size vehicle does not fit, nor does this one with the outline of one."""
    posts = tuple(Circle(2.5, side * 0.45, 0.15, name="post") for side in (1.0, -1.0))
    corridor = np.array([[0.0, 0.4, 0.4], [5.0, 0.4, 0.4]])
    scenario = Scenario("posts", Pose(speed=1.0), None, 6.0, World(posts), path=np.array([[0.0, 0.0], [5.0, 0.0]]), speed=1.5,
                        corridor=corridor)
    dart, plant = load_vehicle("dart"), PlantSettings("driven_bicycle", None, step=5e-3)
    run = drive(dart, scenario, Controller(dart, SETTINGS), plant)
    assert not run.collisions and run.reached < 6.0 and 0.05 < run.least_clearance < 0.3 - 0.5 * 0.19 + 1e-6
    broad = dart.replace(overall_width=2.2, front_overhang=2.3, rear_overhang=2.3)
    assert drive(broad, scenario, Controller(broad, SETTINGS), plant).collisions


def test_other_actuators_are_refused_while_driving():
    vehicle = load_vehicle("hmmwv")
    controller = Controller(vehicle, SETTINGS)
    controller.set_vehicle(vehicle.replace(sprung_mass=2500.0, overall_width=2.4))
    assert controller.outline.half_width == 1.2
    with pytest.raises(InputError, match="other actuators"):
        controller.set_vehicle(vehicle.replace(actuation_delay=0.1))


def test_who_moves_off_does_not_spin_wheels():
    """Wheels that spin do not steer, and drove on for a quarter of a second after the throttle was let go."""
    vehicle = load_vehicle("hmmwv")
    controller = Controller(vehicle, SETTINGS)
    scenario = Scenario("start", Pose(speed=0.5), None, 3.0, World(()), Goal(80.0, 0.0), speed=18.0)
    run = drive(vehicle, scenario, controller, PlantSettings("twenty_four_dof"))
    faster = np.max([run.column(f"omega_{wheel}") for wheel in ("fl", "fr", "rl", "rr")], axis=0) * vehicle.parameters["wheel_radius"]
    assert run.column("vx")[-1] > 8.0
    assert (faster - run.column("vx")).max() < 6.0
