"""What can be set: ranges, types, and that what is said about each setting is enough to make parameters from."""

import dataclasses
import math

import pytest

from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.settings import SETTINGS, SOLVERS, Settings
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.vehicles import load_vehicle

DESCRIBED = SETTINGS.by_field
NUMBERS = [name for name, p in DESCRIBED.items() if isinstance(p.default, (int, float)) and not isinstance(p.default, bool)]


def test_each_setting_is_described():
    assert list(DESCRIBED) == [f.name for f in dataclasses.fields(Settings)]
    for name, about in DESCRIBED.items():
        assert about.name == name and about.default == getattr(Settings(), name)
        assert about.description and not about.description.endswith(".")
        if name in NUMBERS:
            assert about.unit and math.isfinite(about.lower) and math.isfinite(about.upper)
            assert about.lower <= about.default <= about.upper


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_out_of_range_or_of_another_type_are_refused(name):
    about = DESCRIBED[name]
    default = about.default
    for value in (about.lower - 1.0, about.upper + 1.0, math.nan, math.inf, "1", None, True):
        if isinstance(default, int) and isinstance(value, float) and math.isfinite(value):
            value = int(value)
        with pytest.raises(InputError, match=f"setting {name} "):
            dataclasses.replace(Settings(), **{name: value})


@pytest.mark.parametrize("name", [n for n in NUMBERS if isinstance(DESCRIBED[n].default, int)])
def test_whole_numbers_are_whole(name):
    with pytest.raises(InputError, match=f"setting {name} "):
        dataclasses.replace(Settings(), **{name: DESCRIBED[name].default + 0.5})


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
    live = {name for name, about in DESCRIBED.items() if about.live}
    assert not live & {"model", "solver", "period", "near_stages", "near_step", "far_stages", "far_step", "substeps", "obstacles"}
    assert {"friction_use", "load_margin", "obstacle_margin", "weight_lateral", "time_budget", "compensate"} <= live
