"""A drive without a graph as a bag: the cockpit plays it, and its states are those of the run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drivers import Blind

from lfdm_ros.bags import read_series
from lfdm_ros.cockpit.replay import ReplayTracks
from lfdm_ros.cockpit.wire import PLAN, SCAN, STATE
from lfdm_ros.control.plan import Plan
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.errors import InputError
from lfdm_ros.ros.drive_bag import DriveBag
from lfdm_ros.simulation import load_scenario
from lfdm_ros.vehicles import load_vehicle


class Planning(Blind):
    """Says a plan, too: straight ahead from the time of the cycle."""

    def cycle(self, now, measured=None):
        times = now + np.array([0.0, 0.5])
        plan = Plan(("x", "y", "vx"), times, np.array([[now, 1.0, 5.0], [now + 2.5, 1.0, 6.0]]), np.zeros((2, 3)))
        return replace(super().cycle(now, measured), plan=plan)


def test_a_recorded_drive_is_played_as_it_was(tmp_path: Path) -> None:
    vehicle, scenario = load_vehicle("hmmwv"), replace(load_scenario("moving_obstacle"), duration=2.0)
    bag = DriveBag(tmp_path / "bag", scenario, vehicle)
    found = drive(vehicle, scenario, Planning(throttle=0.3), PlantSettings("eight_dof", "fiala"), bag.note)
    bag.write(found)
    states = read_series(tmp_path / "bag", "vehicle/state", ("x", "vx"))
    np.testing.assert_allclose(states.values, np.column_stack([found.column("x"), found.column("vx")]))
    np.testing.assert_allclose(states.time, found.times, atol=1e-9)
    replay = ReplayTracks(tmp_path / "bag")
    list(replay.load())
    assert {STATE, SCAN, PLAN, "vehicle", "world", "route", "controller"} <= replay.tracks.keys()
    assert replay.duration == pytest.approx(found.times[-1]) and len(replay.tracks["world"].messages) > 10  # it moves
    last = np.frombuffer(replay.tracks[PLAN].messages[-1][16:], "<f4").reshape(2, 3)
    np.testing.assert_allclose(last[:, 1:], [[1.0, 5.0], [1.0, 6.0]])
    ages = read_series(tmp_path / "bag", "autonomy/status", ("scan_age",))
    assert (ages.values[1:] >= 0.0).all() and ages.values.max() == pytest.approx(0.1 - 0.02, abs=0.021)
    plans = read_series(tmp_path / "bag", "control/command", ("throttle",))
    assert (plans.values == 0.3).all()
    with pytest.raises(InputError, match="exists already"):
        DriveBag(tmp_path / "bag", scenario, vehicle)
