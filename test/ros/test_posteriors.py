"""The posterior message: made of a calibration's files, taken over by a vehicle or refused with the reason."""

import math
from typing import Any

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldTable, FrictionField
from lfdm_ros.msg import Posterior
from lfdm_ros.ros.posteriors import calibrated, posterior_message, version_message
from lfdm_ros.vehicles import load_vehicle

POSTERIOR: dict[str, Any] = {
    "model": "eight_dof", "vehicle": "hmmwv", "version": "0.1.0", "seed": 5, "parameter_names": ["stiffness"], "units": ["N/rad"],
    "means": [50e3], "standard_deviations": [500.0], "hdi_lower": [49e3], "hdi_upper": [51e3], "r_hat": [None], "ess_bulk": [900.0],
    "ess_tail": [800.0], "draws": 30, "thinned_draws": [[49e3], [51e3]], "recordings": ["turn"], "recording_sha256": ["ab"]}
SUMMARY: dict[str, Any] = {"recipe": "small.yaml", "held": {"rolling_resistance": 0.013}, "stages": [
    {"name": "lateral", "passed_on": {"cornering_stiffness_front": 50e3, "cornering_stiffness_rear": 60e3}}]}


@pytest.fixture
def message() -> Posterior:
    return posterior_message(POSTERIOR, SUMMARY, 3)


def test_the_message_needs_no_recipe_to_be_used(message: Posterior) -> None:
    assert list(message.target_names) == ["rolling_resistance", "cornering_stiffness_front", "cornering_stiffness_rear"]
    assert list(message.target_values) == [0.013, 50e3, 60e3] and list(message.target_units)[1:] == ["N/rad", "N/rad"]
    assert message.posterior_version == 3 and message.recipe == "small.yaml" and message.draws == 2
    assert list(message.thinned_draws) == [49e3, 51e3] and math.isnan(message.r_hat[0])
    hmmwv = load_vehicle("hmmwv")
    vehicle = calibrated(hmmwv, hmmwv.spec("eight_dof"), message)
    assert {name for name in vehicle.parameters if vehicle.parameters[name] != hmmwv.parameters[name]} == set(message.target_names)
    assert vehicle.parameters["cornering_stiffness_rear"] == 60e3


def test_a_vehicle_that_is_on_a_ground_takes_what_it_would_take_without(message: Posterior) -> None:
    hmmwv, table = load_vehicle("hmmwv"), FieldTable(FrictionField.uniform(0.5))
    vehicle = calibrated(hmmwv.replace(friction_field=table.number), hmmwv.spec("eight_dof"), message)
    assert vehicle.parameters["cornering_stiffness_rear"] == 60e3 and vehicle.parameters["friction_field"] == table.number


def test_nothing_in_force_is_the_vehicle_file() -> None:
    hmmwv = load_vehicle("hmmwv")
    assert calibrated(hmmwv, hmmwv.spec("eight_dof"), version_message(None)) is hmmwv


@pytest.mark.parametrize(("changes", "words"), [
    ({"vehicle": "sedan"}, "posterior 3 is of vehicle 'sedan', this is 'hmmwv'"),
    ({"model": "eighteen_dof"}, "posterior 3 is of model 'eighteen_dof'"),
    ({"model": "no_such"}, "posterior 3 is of model 'no_such'"),
    ({"target_values": [1.0]}, "3 target_names for 1 target_values"),
    ({"target_names": ["no_such"], "target_values": [1.0]}, "unknown parameter 'no_such'"),
    ({"target_names": ["sprung_mass"], "target_values": [math.nan]}, "posterior 3: .*sprung_mass = nan"),
    ({"target_names": ["sprung_mass"], "target_values": [-5.0]}, "sprung_mass = -5"),
])
def test_what_does_not_fit_is_refused_with_the_reason(message: Posterior, changes: dict[str, Any], words: str) -> None:
    for name, value in changes.items():
        setattr(message, name, value)
    hmmwv = load_vehicle("hmmwv")
    with pytest.raises(InputError, match=words):
        calibrated(hmmwv, hmmwv.spec("eight_dof"), message)


@pytest.mark.parametrize("key", ["means", "thinned_draws", "seed"])
def test_an_incomplete_posterior_is_an_error(key: str) -> None:
    with pytest.raises(InputError, match="cannot be published"):
        posterior_message({name: value for name, value in POSTERIOR.items() if name != key}, SUMMARY, 1)
