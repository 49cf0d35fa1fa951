"""The MPPI baseline: it arrives, avoids obstacles and brakes."""

from dataclasses import replace

import numpy as np
import pytest

from lfdm_lab.studies.driving import dense_fields, run_trial
from lfdm_lab.studies.mppi import Mppi, MppiSettings
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.settings import Settings
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")


def at(x=0.0, y=0.0, vx=10.0):
    return Measured(0.0, {"x": x, "y": y, "yaw": 0.0, "vx": vx, "vy": 0.0, "yaw_rate": 0.0})


def circles(*rows):
    table = np.array(rows, float)
    return Obstacles(table[:, :2], table[:, 2], np.zeros((len(rows), 2)), 0.0)


def test_it_passes_a_sparse_field(tmp_path):
    field = tmp_path / "field.yaml"
    field.write_text("course: {kind: obstacle_field, seed: 1, speed: 8.0, length: 60.0, width: 20.0, density: 0.005}\n")
    (trial,) = dense_fields(1, 1, [1.0], [20], ["mppi"], Settings(time_budget=0.0))
    result = run_trial(replace(trial, scenario=str(field)))
    assert result["reached"] and not result["collision"] and 0.3 < result["least_clearance"] < 3.0


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_it_steers_away_from_an_obstacle_beside_the_path(side):
    driver = Mppi(VEHICLE)
    driver.go_to(Goal(200.0, 0.0), 10.0)
    driver.update_obstacles(circles((25.0, 1.0 * side, 1.0)))
    assert side * np.mean([driver.cycle(0.0, at()).command[0] for _ in range(3)]) < -0.01


def test_it_brakes_if_all_samples_collide():
    driver = Mppi(VEHICLE)
    driver.go_to(Goal(200.0, 0.0), 10.0)
    driver.update_obstacles(circles(*((9.0, y, 1.0) for y in np.arange(-12.0, 12.1, 1.5))))
    cycle = driver.cycle(0.0, at())
    assert cycle.outcome.name == "BRAKING" and cycle.command[2] == 1.0 and not cycle.done


def test_it_follows_a_path_and_reports_its_end():
    driver = Mppi(VEHICLE, MppiSettings(rollouts=512))
    driver.follow(Path(np.array([[0.0, 0.0], [6.0, 0.0]])), 10.0)
    assert np.mean([driver.cycle(0.0, at(y=1.5)).command[0] for _ in range(3)]) < 0.0  # back to it
    assert driver.cycle(0.0, at(x=5.5)).done
