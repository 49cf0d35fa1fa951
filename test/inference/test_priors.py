"""Each prior is the same distribution for PyMC, for SciPy and for the samplers, in SI."""

import numpy as np
import pymc as pm
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.inference.priors import KINDS, parse_prior

SPECS = {
    "uniform": {"prior": "uniform", "lower": 20, "upper": 80, "unit": "kN"},
    "half_normal": {"prior": "half_normal", "sigma": 30, "unit": "kN"},
    "normal": {"prior": "normal", "mean": -4, "sd": 30, "unit": "kN"},
    "log_normal": {"prior": "log_normal", "median": 30, "log_sd": 0.7, "unit": "kN"},
    "truncated_normal": {"prior": "truncated_normal", "mean": 10, "sd": 30, "lower": 5, "unit": "kN"},
}


def test_every_kind_is_tested():
    assert set(SPECS) == set(KINDS)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("unknown", [False, True])
def test_density_in_pymc_is_that_of_scipy(kind, unknown):
    prior = parse_prior(SPECS[kind], "N", "here")
    prior = prior.as_unknown() if unknown else prior
    with pm.Model() as model:
        variable = prior.variable("x")
    x = np.array([6e3, 21e3, 34e3, 79e3])
    logp = pm.logp(variable, x).eval()
    np.testing.assert_allclose(logp, prior.frozen().logpdf(x), rtol=1e-9)
    coordinates = prior.coordinate(x)
    by_coordinate = model.compile_logp(sum=False, mode="FAST_COMPILE")
    np.testing.assert_allclose(prior.log_density(coordinates), [by_coordinate({model.value_vars[0].name: one})[0] for one in coordinates],
                               rtol=1e-9)
    # Bounded priors stay in their own coordinates, see Prior.variable; unknowns too, see Prior.as_unknown.
    transform = model.rvs_to_transforms[variable]
    assert (transform is None) == (unknown or kind in ("uniform", "normal", "truncated_normal"))


@pytest.mark.parametrize(("kind", "outside"), [("uniform", [19.9e3, 80.1e3]), ("half_normal", [-1.0]), ("log_normal", [0.0, -1.0]),
                                               ("truncated_normal", [4.9e3])])
def test_there_is_no_density_beyond_the_bounds(kind, outside):
    prior = parse_prior(SPECS[kind], "N", "here").as_unknown()
    assert (prior.log_density(np.array(outside)) == -np.inf).all()
    assert np.isfinite(prior.log_density(np.array([21e3]))).all()


def test_an_unknown_over_orders_of_magnitude_stays_in_logarithms():
    wide = parse_prior({"prior": "log_normal", "median": 30, "log_sd": 2.0, "unit": "kN"}, "N", "here")
    assert wide.as_unknown().logarithmic


def test_a_distribution_is_made_once():
    """SciPy takes milliseconds for one, and a search for the noise asks hundreds of times."""
    one, same = (parse_prior(SPECS["log_normal"], "N", "here") for _ in range(2))
    assert one.frozen() is same.frozen() is not parse_prior(SPECS["log_normal"] | {"median": 31}, "N", "here").frozen()


def test_numbers_are_converted_but_ratios_are_not():
    prior = parse_prior(SPECS["log_normal"], "N", "here")
    assert prior.values == {"median": 30e3, "log_sd": 0.7}
    assert prior.frozen().median() == pytest.approx(30e3)


@pytest.mark.parametrize(("change", "message"), [
    ({"prior": "cauchy"}, "here.prior: 'cauchy' is not one of"),
    ({"lowest": 3}, "here.lowest: unknown key"),
    ({"unit": None}, "here.unit: missing"),
    ({"unit": "kg"}, "here.unit"),
    ({"lower": None}, "here.lower: missing"),
    ({"lower": float("nan")}, "here.lower: expected a finite number"),
    ({"lower": "20"}, "here.lower: expected a finite number"),
    ({"lower": 90}, "here.lower: must be less than upper"),
])
def test_what_is_wrong_with_a_prior_is_named(change, message):
    spec = {key: value for key, value in {**SPECS["uniform"], **change}.items() if value is not None}
    with pytest.raises(InputError, match=message.replace(".", r"\.")):
        parse_prior(spec, "N", "here")


def test_scale_must_be_positive():
    with pytest.raises(InputError, match=r"here\.sigma: must be greater than 0"):
        parse_prior({"prior": "half_normal", "sigma": 0, "unit": "N"}, "N", "here")


def test_a_unit_with_offset_is_refused():
    with pytest.raises(InputError, match="has an offset"):
        parse_prior({"prior": "half_normal", "sigma": 1, "unit": "degC"}, "K", "here")


@pytest.mark.parametrize(("spec", "bound", "deviation"), [
    ({"prior": "normal", "mean": 0.8, "sd": 0.3, "unit": "1"}, (0.0, 5.0), "sd"),
    ({"prior": "normal", "mean": 0.8, "sd": 0.3, "unit": "1"}, (-5.0, 1.0), "sd"),
    ({"prior": "log_normal", "median": 1.0, "log_sd": 0.5, "unit": "1"}, (0.2, 9.0), "log_sd"),
    ({"prior": "half_normal", "sigma": 1.0, "unit": "1"}, (0.0, 2.0), "sigma")])
def test_a_prior_that_oversteps_is_told_how_wide_it_may_be(spec, bound, deviation):
    prior = parse_prior(spec, "1", "here")
    said = prior.oversteps(*bound)
    assert f"the bound {bound[0]:g};" in said or f"the bound {bound[1]:g};" in said
    most = float(said.split(f"the largest {deviation} that fits is ")[1].split(";")[0])
    assert parse_prior({**spec, deviation: most}, "1", "here").oversteps(*bound) == ""
    assert parse_prior({**spec, deviation: 1.02 * most}, "1", "here").oversteps(*bound)


def test_a_prior_whose_middle_is_impossible_is_told_so():
    beyond, half = {"prior": "normal", "mean": 2, "sd": 0.1, "unit": "1"}, {"prior": "uniform", "lower": -1, "upper": 1, "unit": "1"}
    assert "its middle lies outside [0, 1]" in parse_prior(beyond, "1", "here").oversteps(0, 1)
    assert "narrow it to [0, 1]" in parse_prior(half, "1", "here").oversteps(0, 1)


@pytest.mark.parametrize(("kind", "value", "distance"), [
    ("uniform", 79e3, 0.0), ("half_normal", 147e3, 4.9), ("normal", 86e3, 3.0), ("log_normal", 30e3 * np.exp(-2.1), -3.0),
    ("truncated_normal", 70e3, 2.0)])
def test_how_far_out_a_value_is(kind, value, distance):
    prior = parse_prior(SPECS[kind], "N", "here")
    assert prior.distance(value) == pytest.approx(distance)
    assert prior.as_unknown().distance(value) == pytest.approx(distance)
