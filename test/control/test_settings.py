"""What can be set, and what fits together."""

import pytest

from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.settings import SETTINGS, SOLVERS, Settings
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.vehicles import load_vehicle


@pytest.mark.parametrize("change, message", [
    (dict(solver="osqp"), "hpipm, piqp, ipopt"), (dict(obstacles=3), "even"), (dict(near_step=0.3, substeps=1), "substeps"),
    (dict(far_step=1.0), "substeps"), (dict(model="no_such"), "no_such"), (dict(compensate="yes"), "compensate"), (dict(model=3), "model")])
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        Settings(**change)


def test_steps_of_the_model_are_within_what_it_allows():
    largest = get_model("driven_bicycle").largest_step
    assert Settings(far_step=3 * largest, substeps=3).far_step == 3 * largest
    with pytest.raises(InputError, match=f"{largest:g} s"):
        Settings(far_step=3 * largest + 0.01, substeps=3)
    # A far phase that is not there has no step.
    assert Settings(far_stages=0, far_step=1.0).stages == 20


def test_a_model_that_cannot_stand_the_planners_step_is_refused_by_name():
    with pytest.raises(InputError, match=r"twenty_four_dof takes at most 0\.01 s a step: choose driven_bicycle"):
        Settings(model="twenty_four_dof")
    # The vehicle's own tyre may stand less than the model's usual one.
    with pytest.raises(InputError, match=r"eight_dof/tmeasy.* takes at most 0\.002 s"):
        Planner(load_vehicle("hmmwv_shafts"), Settings(model="eight_dof"))


def test_a_model_that_takes_its_ground_as_inputs_is_refused():
    with pytest.raises(InputError, match="driven_bicycle/given_ground takes its ground as inputs"):
        Settings(model="driven_bicycle/given_ground")


def test_wheels_on_soil_are_refused():
    with pytest.raises(InputError, match=r"steps of 0\.005 s with bekker_wong are too many to plan with; choose driven_bicycle"):
        Settings(model="eight_dof/bekker_wong/soil_map")


@pytest.mark.parametrize("solver", SOLVERS)
def test_each_solver_can_be_chosen(solver):
    assert Settings(solver=solver).solver == solver


def test_what_the_problem_is_made_of_does_not_change_while_driving():
    live = {name for name, about in SETTINGS.by_field.items() if about.live}
    assert not live & {"model", "solver", "period", "near_stages", "near_step", "far_stages", "far_step", "substeps", "obstacles"}
    assert {"friction_use", "load_margin", "obstacle_margin", "weight_lateral", "time_budget", "compensate"} <= live
