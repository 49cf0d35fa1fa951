"""The equations called from the caller's own numba code."""

import numpy as np
import pytest

from lfdm_ros.backends import compiled_model_function, constants, numba_function
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.simulation import Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
MODELS = ("eight_dof", "driven_bicycle")
U0, U1, H = np.array([0.0, 0.2, 0.0]), np.array([0.2, 0.5, 0.0]), 0.001


@pytest.mark.parametrize("name", MODELS)
def test_a_loop_of_their_own_does_what_the_simulator_does(name):
    from numba import njit

    model = get_model(name)
    p = VEHICLE.vector(model)
    step, rhs, advance = (numba_function(model, function) for function in ("step", "rhs", "advance"))

    @njit
    def drive(x, p, q, u0, u1, h):
        after, slope = x.copy(), np.empty_like(x)
        step(x, u1, p, h, after)
        rhs(x, u1, p, slope)
        fine = True
        for _ in range(3):
            fine = fine and advance(x, q, u0, u1, 100, h)
        return after, slope, fine

    x = initial_state(model, VEHICLE, vx=12.0)
    simulator = Simulator(VEHICLE, model, H)
    simulator.reset(vx=12.0)
    h = np.array([H])
    expected = compiled_model_function(model, "step")(x, U1, p, h)[0], compiled_model_function(model, "rhs")(x, U1, p)[0]
    after, slope, fine = drive(x, p, constants(model, p), U0, U1, H)
    for _ in range(3):
        simulator.advance(U0, U1, 100)
    assert fine
    np.testing.assert_array_equal(after, expected[0])
    np.testing.assert_array_equal(slope, expected[1])
    np.testing.assert_array_equal(x, simulator.state)


def test_what_is_not_there():
    with pytest.raises(InputError, match="step, rhs, advance"):
        numba_function(get_model("eight_dof"), "jacobian")
    with pytest.raises(ValueError, match="parameters"):
        constants(get_model("eight_dof"), np.zeros(3))
