"""Lengths and speeds of controller, route search and tracker on a vehicle that is smaller than a car."""

import math

import numpy as np
import pytest

from lfdm_ros.control import LatticePlanner, LatticeSettings
from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.routing.manoeuvring import SteeredAxles
from lfdm_ros.control.safety.stops import curve_of
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.perception import Obstacles, TrackerSettings
from lfdm_ros.sensors import LidarSettings
from lfdm_ros.simulation import Circle, Goal, Pose, Scenario, World
from lfdm_ros.vehicles import load_vehicle

ART, HMMWV = load_vehicle("art"), load_vehicle("hmmwv")
SMALL = ART.footprint.scale


@pytest.mark.parametrize("name", ["hmmwv", "hmmwv_multibody", "sedan", "audi", "genesis", "av21", "rav4"])
def test_a_car_has_the_declared_defaults(name):
    car = load_vehicle(name)
    assert car.footprint.scale == 1.0
    for settings in (Settings(), LatticeSettings()):
        assert settings.fitted(car.footprint.scale) is settings
    assert LidarSettings().on(car) == LidarSettings() and TrackerSettings().on(car) == TrackerSettings()


def test_defaults_follow_from_the_vehicle_and_changes_do_not():
    assert ART.footprint.scale == pytest.approx(0.705 / 4.0, rel=1e-3)
    settings = Settings(stop_margin=0.03).fitted(SMALL)
    assert settings.obstacle_margin == pytest.approx(0.4 * SMALL) and settings.stop_margin == 0.03
    assert settings.weight_lateral == pytest.approx(2.0 / SMALL**2) and settings.penalty_obstacle == pytest.approx(300.0 / SMALL)
    assert (settings.path_braking, settings.route_period, settings.sight) == (3.5, 0.1, 100.0)  # of tyres, time and sensors
    assert settings.fitted(SMALL) == settings
    lattice, tracker, lidar = LatticeSettings().fitted(SMALL), TrackerSettings().on(ART), LidarSettings(noise_sd=0.03).on(ART)
    assert (lattice.smallest_radius, lattice.scale) == (pytest.approx(10.0 * SMALL), SMALL)
    assert (tracker.chain_radius, tracker.noise_sd, tracker.speed_sd) == (pytest.approx(0.75 * SMALL), 0.01, 10.0)
    assert (lidar.range_min, lidar.noise_sd) == (pytest.approx(0.5 * SMALL), 0.03)


def test_defaults_stay_within_their_ranges():
    assert LatticeSettings().fitted(1e-3).offset_step == 0.02


def test_live_changes_of_a_small_vehicle_are_in_metres():
    controller = Controller(ART, Settings(use_limit_table=False))
    controller.tune(obstacle_margin=0.2)
    assert controller.settings.obstacle_margin == 0.2 and controller.settings.stop_margin == pytest.approx(0.15 * SMALL)
    controller.tune(obstacle_margin=0.4)  # the default of a full-size vehicle, too
    assert controller.settings.obstacle_margin == 0.4


@pytest.mark.parametrize("posts", [[], [(12.0, 0.5)], [(9.0, -1.0), (15.0, 2.5), (22.0, -2.0)]])
def test_a_small_vehicle_has_the_route_of_a_large_one_in_small(posts):
    ways = []
    for k in (1.0, 0.125):
        centres = k * np.array(posts).reshape(-1, 2)
        around = Obstacles(centres, np.full(len(centres), 0.5 * k), 0.0 * centres, 0.0)
        planner = LatticePlanner(LatticeSettings(lateral_acceleration=4.0 * k, braking=3.0 * k).fitted(k))
        route = planner.route(0.0, 0.0, 0.1, 4.0 * k, 30.0 * k, 3.0 * k, around, 1.1 * k, 0.4 * k)
        assert not route.blocked and route.kind == "lattice"
        ways.append(np.array([route.path.x, route.path.y]) / k)
    assert ways[0] == pytest.approx(ways[1], abs=1e-6)


def test_the_curve_of_a_stop_has_places_as_near_as_the_vehicle_is_small():
    turned = np.linspace(0.0, 1.0, 40)
    large, small = (curve_of(k * 8.0 * np.sin(turned), k * 8.0 * (1.0 - np.cos(turned)), turned, k) for k in (1.0, 0.125))
    assert small.spacing == 0.125 and small.places[:, :2] == pytest.approx(0.125 * large.places[:, :2])
    assert small.curvature == pytest.approx(8.0 * large.curvature)


def test_what_rolls_heavily_gets_the_throttle_for_it_at_once():
    assert SteeredAxles(1.0, 2.0, 0.5, pull=1.6, drag=0.6).hold == pytest.approx(0.375)
    assert SteeredAxles(1.0, 2.0, 0.5, pull=13.0, drag=0.3).hold == 0.0


def test_a_small_car_weaves_between_posts():
    """Gaps of 1.2 m: with the margins of a car they would be closed."""
    rows = [Circle(x, y, 0.075) for x, ys in ((2.5, np.arange(-1.5, 0.1, 0.15)), (6.5, np.arange(-0.2, 1.4, 0.15))) for y in ys]
    walls = [Circle(x, y, 0.075) for x in np.arange(-1.0, 9.0, 0.15) for y in (-1.5, 1.35)]
    scenario = Scenario("posts", Pose(0.0, 0.0, 0.0), None, 20.0, World((*rows, *walls)), Goal(9.0, 0.0, 0.5), speed=2.0)
    settings, plant = Settings(time_budget=0.0), PlantSettings.of(ART, "eighteen_dof")
    run = drive(ART, scenario, Controller(ART, settings, limits_of(ART, settings, plant.tyre)), plant, patience=8.0)
    assert math.isfinite(run.reached) and not run.collisions
    assert run.outcomes["MANOEUVRING"] == 0
