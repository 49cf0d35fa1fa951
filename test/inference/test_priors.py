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
