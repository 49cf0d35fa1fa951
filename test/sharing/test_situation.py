"""The record that shared control decides by."""

import math

import numpy as np
import pytest

from lfdm_ros.control import Measured, Path
from lfdm_ros.errors import InputError
from lfdm_ros.sharing.situation import Corridor, Situation, StampedCommand, still_acting
from lfdm_ros.vehicles import load_vehicle

STATE = Measured(0.98, {"x": 0.0, "y": 0.0, "yaw": 0.0, "vx": 10.0, "vy": 0.5, "yaw_rate": 0.0})


def test_ages_and_defaults():
    situation = Situation(1.0, load_vehicle("hmmwv"), STATE, operator=StampedCommand(0.5, 0.1))
    assert situation.state_age == pytest.approx(0.02) and situation.operator_age == 0.5 and math.isnan(situation.autonomy_age)
    assert situation.applied.inputs == (0.0, 0.0, 0.0) and situation.value("vy") == 0.5 and math.isnan(situation.value("roll"))


@pytest.mark.parametrize("values", [(math.nan, 0.0, 0.0), (1.1, 0.0, 0.0), (0.0, math.inf, 0.0), (0.0, 0.0, -0.1)])
def test_a_command_is_finite_and_in_range(values):
    with pytest.raises(InputError):
        StampedCommand(0.0, *values)


def test_reverse_throttle_is_no_brake():
    back = StampedCommand(0.0, 0.0, -0.5)
    assert back.pedal == 0.5 and back.reverse and StampedCommand(0.0, 0.0, 0.2, 0.5).pedal == pytest.approx(-0.3)


def test_commands_that_still_act():
    sent = [StampedCommand(t) for t in (0.0, 0.1, 0.2, 0.3)]
    assert still_acting(sent, since=0.25, delay=0.1) == tuple(sent[1:])
    assert still_acting(sent, since=-1.0, delay=0.0) == tuple(sent) and still_acting(sent, 9.0, 0.0) == (sent[-1],)


def test_corridor_between_its_rows():
    corridor = Corridor(Path(np.array([[0.0, 0.0], [10.0, 0.0]])), np.array([[0.0, 1.0, 2.0], [10.0, 2.0, 4.0]]))
    left, right = corridor.room_at(np.array([5.0]))
    assert (left, right) == (1.5, 3.0)
    points = np.array([[5.0, 1.4], [5.0, 1.6], [5.0, -2.9], [5.0, -3.1], [9.0, 1.7]])
    assert corridor.holds(points).tolist() == [True, False, True, False, True]
