"""The vehicle's part of a tick."""

import numpy as np

from lfdm_ros.engine.plant import Plant
from lfdm_ros.hil.faults import Fault, Injector
from lfdm_ros.simulation import Actuator, Pose, Simulator
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")


def test_a_tick_of_actuators_that_have_settled_is_the_same_in_one_go() -> None:
    """What changes something in between is asked every 2 ms; without it, or with a fault to come, a tick is as long as nothing moves."""
    def plant(**others: object) -> Plant:
        made = Plant(Simulator(HMMWV, "eight_dof", 1e-3), 20, Actuator(delay=0.05, steering_rate=2.0, throttle_rate=4.0), **others)
        made.reset(Pose(speed=10.0), 0.0)
        return made

    calls = dict.fromkeys(("one", "other", "faultless"), 0)

    def counted(made: Plant, name: str) -> Plant:
        advance = made.simulator.advance

        def count(*arguments: object) -> None:
            calls[name] += 1
            advance(*arguments)

        made.simulator.advance = count
        return made

    one, other = counted(plant(), "one"), counted(plant(between=lambda inputs: inputs.copy()), "other")
    faultless = counted(plant(between=Injector((Fault("stuck", "brake", 5.0),)).actuators), "faultless")
    for tick in range(60):
        command = (0.2 if tick > 10 else 0.0, 0.4 if tick < 30 else 0.1, 0.0)
        for each in (one, other, faultless):
            each.drive(0.02 * tick, command)
        np.testing.assert_array_equal(one.simulator.state, other.simulator.state)
        np.testing.assert_array_equal(one.simulator.state, faultless.simulator.state)
    assert calls["other"] == 600 and calls["one"] == calls["faultless"] < 300
