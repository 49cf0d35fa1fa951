"""Units as people write them in files; sums and shares to the last bit and as often as they say."""

import numpy as np
import pytest
from scipy.stats import binom

from lfdm_ros.errors import InputError
from lfdm_ros.numerics import binomial_interval, dot, matmul, solve
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


RANDOM = np.random.default_rng(1)


def test_products_are_those_of_matrices():
    for a, b in (((3, 4), (4, 5)), ((7, 3, 4), (7, 4, 5)), ((40, 8, 6), (6, 8)), ((2, 1), (1, 2))):
        left, right = RANDOM.standard_normal(a), RANDOM.standard_normal(b)
        np.testing.assert_allclose(matmul(left, right), left @ right, rtol=0.0, atol=1e-14)
    left, right = RANDOM.standard_normal((5, 4, 3)), RANDOM.standard_normal((5, 1, 3))
    np.testing.assert_allclose(dot(left, right), (left @ right.swapaxes(1, 2))[..., 0], rtol=0.0, atol=1e-14)


def test_sums_are_in_the_order_of_the_columns():
    left, right = np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1))
    assert matmul(left, right)[0, 0] == 0.0
    assert matmul(left[:, [0, 2, 1]], right)[0, 0] == 1.0


def test_the_solution_solves():
    root = RANDOM.standard_normal((9, 9))
    matrix, right = root @ root.T + np.eye(9), RANDOM.standard_normal((9, 4))
    kept = matrix.copy(), right.copy()
    np.testing.assert_allclose(matrix @ solve(matrix, right), right, rtol=0.0, atol=1e-11)
    assert np.array_equal(matrix, kept[0]) and np.array_equal(right, kept[1])


@pytest.mark.parametrize("runs", [16, 256, 1000])
def test_intervals_hold_what_they_say(runs: int) -> None:
    """By the exact binomial distribution, at truths between 0 and 1; of none in n the upper end is 3.7 / n."""
    ends = np.array([binomial_interval(k, runs) for k in range(runs + 1)])
    for truth in (1e-4, 0.003, 0.03, 0.2, 0.5, 0.9, 0.999):
        covered = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        assert binom.pmf(np.arange(runs + 1), runs, truth)[covered].sum() >= 0.95 - 1e-9
    assert ends[0, 0] == 0.0 and ends[0, 1] == pytest.approx(3.69 / runs, rel=0.12)
    assert ends[-1, 1] == 1.0 and ends[-1, 0] == pytest.approx(1.0 - ends[0, 1])
    assert (np.diff(ends, axis=0) > 0.0).all()


def test_of_nothing_nothing_is_known() -> None:
    assert binomial_interval(0, 0) == (0.0, 1.0)
