"""Units as people write them in files."""

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.units import COMMON, to_si, unit_scale


@pytest.mark.parametrize("value, unit, expected_unit, expected", [
    (36.0, "km/h", "m/s", 10.0), (60.0, "rpm", "rad/s", 2 * np.pi), (180.0, "deg", "rad", np.pi), (1.0, "g_0", "m/s^2", 9.80665),
    (20.0, "degC", "K", 293.15), (3.0, "1", "1", 3.0), (2.0, "kN*m", "N*m", 2000.0), (1.0, "N*m*s/deg", "N*m*s/rad", 180 / np.pi),
])
def test_conversion(value, unit, expected_unit, expected):
    assert to_si(value, unit, expected_unit, "here") == pytest.approx(expected)
    np.testing.assert_allclose(to_si(np.array([value, value]), unit, expected_unit, "here"), [expected] * 2)


@pytest.mark.parametrize("unit, expected_unit", [("kg", "m"), ("m/s", "m"), ("parsnip", "m"), ("", "kg"), ("m", "1")])
def test_refusal_names_place_and_units(unit, expected_unit):
    with pytest.raises(InputError) as error:
        to_si(1.0, unit, expected_unit, "car.yaml: chassis.cg_height")
    assert "car.yaml: chassis.cg_height" in str(error.value) and f"'{expected_unit}'" in str(error.value)


def test_a_power_may_be_a_fraction_in_parentheses():
    assert to_si(4.0, "km^(1/2)", "m^0.5", "x") == pytest.approx(4.0 * 1000.0 ** 0.5)
    for wrong in ("m^(1/0)", "m^(1/2/3)", "m^(1/x)", "m^1/2)"):
        with pytest.raises(InputError):
            to_si(1.0, wrong, "m", "x")


@pytest.mark.parametrize(("unit", "expected"), COMMON)
def test_common_units_are_pints(unit, expected):
    factor, offset, dimension = unit_scale(expected)
    assert (factor, offset) == (1.0, 0.0)
    assert unit_scale(unit) == (COMMON[unit, expected], 0.0, dimension)
    assert to_si(3.7, unit, expected, "x") == unit_scale(unit)[0] * 3.7
