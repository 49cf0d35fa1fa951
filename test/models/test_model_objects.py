"""A model is an object: its own equations run whatever it is called, and what is compiled is kept by them."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.backends import advance_kernel, casadi_model
from lfdm_ros.models import Model, Record, get_model
from lfdm_ros.simulation import BatchRollout, Simulator, forward_sensitivity
from lfdm_ros.vehicles import load_vehicle

NAME = "linear_single_track"
VEHICLE = load_vehicle("hmmwv")
TIMES = np.linspace(0.0, 1.0, 11)


def with_slower_yaw(model: Model) -> Model:
    """The same declaration and name; the yaw angle grows half as fast."""

    def build(m):
        own = model.build(m)
        turning, *others = own.motions
        own.motions = (lambda x, u, q: Record(yaw=0.5 * turning(x, u, q).yaw), *others)
        return own

    return replace(model, build=build)


def final_yaw(model: Model) -> float:
    simulator = Simulator(VEHICLE, model)
    simulator.reset(vx=10.0)
    simulator.advance([0.2, 0.0, 0.0], [0.2, 0.0, 0.0], 1000)
    return float(simulator.outputs[simulator.output_index["yaw"]])


def test_equations_under_a_known_name_are_its_own():
    """Not the registry's, in any kernel: one vehicle, many, derivatives."""
    known = get_model(NAME)
    changed = with_slower_yaw(known)
    assert changed.name == known.name
    assert final_yaw(changed) == pytest.approx(0.5 * final_yaw(known), rel=1e-6) and final_yaw(known) > 0.1

    common = dict(vehicle=VEHICLE, dt=0.001, times=TIMES, inputs=np.tile([0.2, 0.0, 0.0], (len(TIMES), 1)), channels=["yaw"])
    x0 = np.array([10.0 if field.name == "vx" else 0.0 for field in known.states])
    batches = [BatchRollout(model=model, parameters=["yaw_inertia"], **common).trajectories([[VEHICLE.parameters["yaw_inertia"]]], x0)
               for model in (known, changed)]
    np.testing.assert_allclose(batches[1], 0.5 * batches[0], rtol=1e-9)
    slopes = [forward_sensitivity(model=model, x0=x0, parameters=["cornering_stiffness_front"], method="exact", **common).sensitivities
              for model in (known, changed)]
    np.testing.assert_allclose(slopes[1], 0.5 * slopes[0], rtol=1e-9)


def test_compiled_code_is_kept_by_the_equations():
    known = get_model(NAME)
    assert casadi_model(known).digest != casadi_model(with_slower_yaw(known)).digest
    assert advance_kernel(known) is advance_kernel(get_model(NAME))


def test_one_object_however_it_is_spelled():
    assert get_model("eight_dof/fiala/motor") is get_model("eight_dof") is get_model("eight_dof/motor")


def test_a_model_goes_to_another_process_by_its_name_or_not_at_all():
    known = get_model("eight_dof/tmeasy")
    assert pickle.loads(pickle.dumps(known)) is known
    with pytest.raises(pickle.PicklingError, match="register"):
        pickle.dumps(with_slower_yaw(get_model(NAME)))
