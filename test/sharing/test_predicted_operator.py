"""What an operator will do, against what simulated ones then did."""

import numpy as np
import pytest

from lfdm_ros.control.prediction import REQUIRED, Measured
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.sharing.intentions import PredictedOperator
from lfdm_ros.simulation import load_scenario
from lfdm_ros.simulation.path import Path
from lfdm_ros.teleop import OperatorSettings
from lfdm_ros.teleop.network_link import NetworkLinkSettings
from lfdm_ros.teleop.operator import Operator
from lfdm_ros.teleop.remote import RemoteDriver
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
OWN = 0.3  # [s] from picture to hands


def states(run, end):
    """What was measured up to a row."""
    rows = range(max(end - 150, 0), end + 1)
    return [Measured(float(run.times[i]), {name: float(run.column(name)[i]) for name in REQUIRED}) for i in rows]


@pytest.mark.parametrize("latency", [0.0, 0.4])
def test_what_persons_do_in_a_lane_change_is_foreseen(latency):
    """Much better than that they hold the wheel, though each has gains of his own."""
    course, errors, held = load_scenario("iso_3888_1"), [], []
    way, delay = Path(course.path), OWN + latency
    for person in range(1, 4):
        link = NetworkLinkSettings(delay=0.5 * latency)
        driver = RemoteDriver.over(Operator(HMMWV, OperatorSettings(), person), link, link, person)
        run = drive(HMMWV, course, driver, PlantSettings(model="eight_dof", step=0.005))
        given, step = run.commands[:, 0], run.times[1] - run.times[0]
        ahead = round(delay / step)
        times = step * np.arange(ahead + 1)
        for i in range(round(2.0 / step), len(given) - ahead, 20):
            told = PredictedOperator(HMMWV).steering(way, states(run, i), float(run.times[i]), times, delay)
            assert told.shape == times.shape and told[0] == 0.0
            came = given[i:i + ahead + 1] - given[i]
            errors.append((told - came)[ahead // 2:])
            held.append(came[ahead // 2:])
    assert len(errors) > 30
    assert np.sqrt(np.mean(np.square(np.concatenate(errors)))) < 0.6 * np.sqrt(np.mean(np.square(np.concatenate(held))))


def test_nobody_answers_what_he_has_not_seen():
    """Straight along the way nothing is asked; what the first picture is not known to differ from is as that; beyond the delay it stays."""
    way = Path(np.array([[0.0, 0.0], [300.0, 0.0]]))

    def at(time, y=0.0, yaw=0.0):
        return Measured(time, {"x": 10.0 * time, "y": y, "yaw": yaw, "vx": 10.0, "vy": 0.0, "yaw_rate": 0.0})

    times, predicted = np.arange(0.0, 1.0, 0.05), PredictedOperator(HMMWV)
    assert (predicted.steering(way, [at(0.1 * k) for k in range(20)], 1.9, times, 0.5) == 0.0).all()
    assert (predicted.steering(way, [at(1.9, 1.0)], 1.9, times, 0.5) == 0.0).all()
    # Pushed to the left half a second ago: back to the right from now on, until what he does about now.
    told = predicted.steering(way, [at(0.05 * k, 0.0 if k < 30 else 0.5, 0.0 if k < 30 else 0.05) for k in range(39)], 1.9, times, 0.5)
    assert told[0] == 0.0 and told[3] < -0.01 and np.ptp(told[times >= 0.5]) < 1e-9
    left = predicted.steering(way, [at(0.05 * k, 0.0 if k < 30 else -0.5, 0.0 if k < 30 else -0.05) for k in range(39)], 1.9, times, 0.5)
    np.testing.assert_allclose(left, -told, atol=1e-12)
