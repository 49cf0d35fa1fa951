"""Least squares against posteriors that are known exactly, against SMC, and on problems that it must not hide the weakness of."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from lfdm_ros.bags import import_recording
from lfdm_ros.calibration import calibrate, load_recipe
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.inference.gaussian import ErrorGroup
from lfdm_ros.inference.likelihood import ChannelSamples
from lfdm_ros.inference.model import BatchedDensity, ErrorPriors
from lfdm_ros.inference.plan import Objective
from lfdm_ros.inference.priors import Prior
from lfdm_ros.libraries import arviz
from lfdm_ros.resources import find_config
from lfdm_ros.samplers import least_squares
from lfdm_ros.samplers.least_squares import weigh
from lfdm_ros.samplers.sampler import Problem, get_sampler
from lfdm_ros.vehicles import load_vehicle

az = arviz()


class Curve:
    """Responses of two channels, y = a exp(-b t) and z = a + c t, that a function of the unknowns gives."""

    channels = ("y", "z")

    def __init__(self, response, truth, noise=(0.02, 0.3), seed=0, gap=True):
        self.response = response
        rng = np.random.default_rng(seed)
        self.observed = response(np.array([truth]))[0] + rng.standard_normal((200, 2)) * noise
        if gap:
            self.observed[::3, 1] = np.nan

        self.columns = [ChannelSamples(column) for column in self.observed.T]
        self.groups = tuple(ErrorGroup(name, len(column.rows), column.runs) for name, column in zip(self.channels, self.columns))

    def errors(self, q):
        return [column.values - self.response(np.asarray(q))[:, column.rows, c] for c, column in enumerate(self.columns)]

    def moments(self, q):
        return np.stack([column.moments(error.T).T for column, error in zip(self.columns, self.errors(q))], axis=1)

    def error_slopes(self, q):
        steps = 1e-6 * np.eye(len(q))
        above, below = self.errors(q + steps), self.errors(q - steps)
        return [(a - b).T / 2e-6 for a, b in zip(above, below)]

    def measured(self, group):
        return self.columns[group].values


T = np.linspace(0.0, 1.0, 200)


def linear(q):
    return np.stack([q[:, :1] + q[:, 1:2] * T, q[:, :1] - q[:, 1:2] * T], axis=-1)


def decay(q):
    return np.stack([q[:, :1] * np.exp(-q[:, 1:2] * T), q[:, :1] + 0.0 * T], axis=-1)


def prior(kind, **numbers):
    return Prior(kind, tuple(numbers.items()), "")


NOISE = {"y": ErrorPriors(prior("log_normal", median=0.1, log_sd=1.0)), "z": ErrorPriors(prior("half_normal", sigma=0.5))}


def solve(likelihood, unknowns, objective=None, start=None, draws=2000, chains=4, report=None):
    density = BatchedDensity(likelihood, unknowns, NOISE)
    first = np.full(len(unknowns), np.nan) if start is None else np.array(start)
    return least_squares.run(Problem(likelihood, density, unknowns, NOISE, first, objective or Objective()), draws=draws, chains=chains,
                             seed=np.random.SeedSequence(3), report=report)


def test_linear_gaussian_problem_is_solved_exactly():
    """Responses linear, priors normal: given the noise the posterior is Gaussian with a closed form."""
    likelihood = Curve(linear, (1.0, 0.5))
    run = solve(likelihood, {"a": prior("normal", mean=0.8, sd=0.05), "b": prior("normal", mean=0.0, sd=1.0)})
    precision, right = np.diag([0.05**-2, 1.0]), np.array([0.8 * 0.05**-2, 0.0])
    for c, sign in enumerate((1.0, -1.0)):
        rows = np.isfinite(likelihood.observed[:, c])
        gain = np.column_stack([np.ones(rows.sum()), sign * T[rows]])
        sigma = np.exp(np.log(run.draws[f"sigma.{likelihood.channels[c]}"]).mean())
        precision += gain.T @ gain / sigma**2
        right += gain.T @ likelihood.observed[rows, c] / sigma**2
    covariance = np.linalg.inv(precision)
    mean = covariance @ right
    for i, name in enumerate("ab"):
        sd = covariance[i, i] ** 0.5
        assert run.point[name] == pytest.approx(mean[i], abs=0.02 * sd)
        assert run.draws[name].std() == pytest.approx(sd, rel=0.03)
        assert run.draws[name].mean() == pytest.approx(mean[i], abs=0.06 * sd)
    assert np.corrcoef(run.draws["a"].ravel(), run.draws["b"].ravel())[0, 1] == pytest.approx(
        covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]), abs=0.03)
    assert run.statistics["pareto_k"] < 0.5


def test_agrees_with_smc_where_the_posterior_is_nearly_gaussian():
    """Same model, same data: means and widths of every unknown, noise among them."""
    likelihood = Curve(decay, (2.0, 1.5))
    unknowns = {"a": prior("log_normal", median=1.0, log_sd=0.7), "b": prior("truncated_normal", mean=1.0, sd=2.0, lower=0.0)}
    density = BatchedDensity(likelihood, unknowns, NOISE)
    problem = Problem(likelihood, density, unknowns, NOISE, np.array([np.nan, np.nan]), Objective())
    one = least_squares.run(problem, draws=2000, chains=4, seed=np.random.SeedSequence(1), report=None)
    other = get_sampler("smc")(problem, draws=1000, chains=2, seed=np.random.SeedSequence(1), report=None)
    for name in ("a", "b", "sigma.y", "sigma.z"):
        sd = other.draws[name].std()
        # The posterior of a noise is skewed, and its mode lies 0.15 sd below its mean with so few samples.
        assert one.draws[name].mean() == pytest.approx(other.draws[name].mean(), abs=(0.15 if name in "ab" else 0.3) * sd), name
        assert one.draws[name].std() == pytest.approx(sd, rel=0.1), name
    assert one.statistics["pareto_k"] < 0.7
    assert one.evaluations < other.evaluations / 5
    assert one.log_likelihood.max() == pytest.approx(other.log_likelihood.max(), abs=0.5)


@pytest.mark.parametrize(("kind", "numbers", "low", "high"), [
    ("half_normal", {"sigma": 2.0}, 0.1, 6.0), ("log_normal", {"median": 3.0, "log_sd": 0.4}, 0.5, 9.0),
    ("normal", {"mean": 1.0, "sd": 2.0}, -6.0, 7.0), ("truncated_normal", {"mean": 1.0, "sd": 2.0, "lower": 0.0}, 0.1, 7.0),
    ("uniform", {"lower": 1.0, "upper": 4.0}, 1.1, 3.9)])
@pytest.mark.parametrize("unknown", [False, True])
def test_the_residual_of_a_prior_is_its_density(kind, numbers, low, high, unknown):
    """-r^2/2 and the log density of the coordinate differ by a constant, and its slope is that of the density."""
    p = prior(kind, **numbers).as_unknown() if unknown else prior(kind, **numbers)
    q = np.linspace(low, high, 50)
    density = p.frozen().logpdf(q) + (np.log(q) if p.logarithmic else 0.0)
    constant = density + 0.5 * p.deviation(p.coordinate(q)) ** 2
    np.testing.assert_allclose(constant, constant[0], atol=1e-9)
    x = p.coordinate(q)
    numeric = -(p.deviation(x + 1e-6) ** 2 - p.deviation(x - 1e-6) ** 2) / 4e-6
    np.testing.assert_allclose(p.slope(x), numeric, rtol=1e-6, atol=1e-7)
    assert p.logarithmic == (kind in ("half_normal", "log_normal") and not unknown)
    draws = p.coordinate(p.frozen().rvs(20000, random_state=1))
    assert p.spread() == pytest.approx(draws.std(), rel=0.03)
    np.testing.assert_allclose(p.value(p.coordinate(q)), q)


def test_a_direction_that_the_data_do_not_tell_is_named():
    """Only a + 2 b is in the responses; along the other direction the prior's width must remain."""
    def sums(q):
        s = q[:, :1] + 2.0 * q[:, 1:2]
        return np.stack([s * T, s + 0.0 * T], axis=-1)

    run = solve(Curve(sums, (2.0, 1.0)), {"a": prior("uniform", lower=0.0, upper=8.0), "b": prior("uniform", lower=0.0, upper=4.0)})
    named = [text for text in run.warnings if text.startswith("the data do not tell")]
    assert len(named) == 1
    assert "0.71 a - 0.71 b (each in" in named[0]
    assert "1.00 times as wide" in named[0]
    widths = [row["sd_over_prior_sd"] for row in run.statistics["information"]]
    assert widths[0] == pytest.approx(1.0, abs=1e-3)
    assert widths[1] < 0.05
    s = run.draws["a"] + 2.0 * run.draws["b"]
    assert s.mean() == pytest.approx(4.0, abs=0.02)
    assert s.std() < 0.02
    assert run.draws["a"].std() > 0.5
    for name, upper in (("a", 8.0), ("b", 4.0)):
        assert (run.draws[name] > 0.0).all()
        assert (run.draws[name] < upper).all()


def test_an_optimum_at_a_bound_stays_there():
    run = solve(Curve(linear, (1.0, 0.5)), {"a": prior("uniform", lower=0.0, upper=0.9), "b": prior("uniform", lower=-2.0, upper=2.0)})
    assert run.point["a"] == pytest.approx(0.9, abs=1e-6)
    assert (run.draws["a"] <= 0.9).all()


def test_a_posterior_that_is_no_gaussian_is_said_to_be_none():
    """Only 1/a is measured, and badly: the posterior of a has a long tail that a Gaussian has not."""
    def inverse(q):
        return np.stack([1.0 / q[:, :1] + 0.0 * T, 0.0 * q[:, :1] * T], axis=-1)

    run = solve(Curve(inverse, (2.0,), noise=(3.0, 0.3)), {"a": prior("uniform", lower=0.2, upper=100.0)})
    assert run.statistics["pareto_k"] > 0.7
    assert any("is not the Gaussian" in text for text in run.warnings)


def test_draws_that_the_data_rule_out_are_not_drawn():
    """A response with 1/a: near 0, where the bell curve at the optimum still reaches, it is off by more than anything that was measured."""
    def inverse(q):
        return np.stack([1.0 / q[:, :1] + 0.0 * T, 0.0 * q[:, :1] * T], axis=-1)

    likelihood = Curve(inverse, (0.5,), noise=(8.0, 0.3), gap=False)
    run = solve(likelihood, {"a": prior("normal", mean=0.5, sd=0.3)})
    a = run.draws["a"].ravel()
    mean, sigma = likelihood.observed[:, 0].mean(), run.draws["sigma.y"].mean()
    grid = np.linspace(-1.0, 2.0, 30_001)
    with np.errstate(divide="ignore", over="ignore"):
        density = np.exp(-0.5 * (mean - 1.0 / grid) ** 2 * 200 / sigma**2 - 0.5 * ((grid - 0.5) / 0.3) ** 2)
    density /= density.sum()
    assert run.statistics["importance"]["without_weight"] > 0
    assert np.quantile(a, 0.02) == pytest.approx(grid[np.searchsorted(np.cumsum(density), 0.02)], abs=0.03)
    assert a.mean() == pytest.approx((grid * density).sum(), abs=0.02)


def test_search_does_not_stop_in_the_worse_of_two_optima():
    """The start lies in the basin of a local optimum; a draw from the prior in the other one is preferred."""
    def waves(q):
        return np.stack([np.sin(6.0 * q[:, :1] * T), np.cos(6.0 * q[:, :1] * T)], axis=-1)

    run = solve(Curve(waves, (2.0,), noise=(0.1, 0.1)), {"a": prior("uniform", lower=0.0, upper=6.0)}, start=[5.0])
    assert run.point["a"] == pytest.approx(2.0, abs=0.01)
    assert run.statistics["objective"]["start_at"] == {"a": 5.0}
    assert run.statistics["objective"]["optimum"] < run.statistics["objective"]["start"]


@pytest.mark.parametrize(("scale", "minimiser"), [("measured_sd", "trust_region"), ("measured_sd", "powell"),
                                                  ("error_range", "trust_region")])
def test_other_objectives_are_what_they_say(scale, minimiser):
    """The objective against its definition, written out here, and its optimum against a direct search."""
    from scipy.optimize import minimize

    likelihood = Curve(decay, (2.0, 1.5), noise=(0.1, 0.3), gap=False)
    unknowns = {"a": prior("uniform", lower=0.5, upper=4.0), "b": prior("uniform", lower=0.1, upper=4.0)}

    def cost(q):
        error = likelihood.observed - decay(q[None])[0]
        if scale == "measured_sd":
            return ((error / likelihood.observed.std(axis=0)) ** 2).sum()
        return (((error - error.min(axis=0)) / np.ptp(error, axis=0)) ** 2).sum()

    run = solve(likelihood, unknowns, Objective(scale, minimiser), start=[2.0, 1.5])
    optimum = np.array([run.point["a"], run.point["b"]])
    assert run.statistics["objective"]["optimum"] == pytest.approx(cost(optimum), rel=1e-9)
    assert cost(optimum) <= cost(np.array([2.0, 1.5]))
    assert any("is not the likelihood" in text for text in run.warnings)
    if scale == "measured_sd":
        expected = minimize(cost, [2.0, 1.5], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x
        np.testing.assert_allclose(optimum, expected, rtol=1e-5 if minimiser == "trust_region" else 1e-3)


def test_progress_rises_and_counts_runs():
    unknowns = {"a": prior("normal", mean=1.0, sd=1.0), "b": prior("normal", mean=1.0, sd=1.0)}
    seen = []
    run = solve(Curve(decay, (2.0, 1.5)), unknowns, report=seen.append)
    assert [s.progress for s in seen] == sorted(s.progress for s in seen)
    assert [s.evaluations for s in seen] == sorted(s.evaluations for s in seen)
    assert seen[-1].progress < 1.0
    assert run.evaluations > seen[-1].evaluations
    assert any("objective" in s.message for s in seen) and "weighing draws" in seen[-2].message

    def stop(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(Curve(decay, (2.0, 1.5)), unknowns, report=stop)


def test_nothing_to_simulate_is_an_error():
    def broken(q):
        return np.full((len(q), 200, 2), np.inf)

    likelihood = Curve(decay, (2.0, 1.5))
    likelihood.response = broken
    likelihood.squared_errors = lambda q: np.full((len(q), 2), np.inf)
    with pytest.raises(ValueError, match="no draw of the priors can be simulated"):
        solve(likelihood, {"a": prior("normal", mean=1.0, sd=1.0), "b": prior("normal", mean=1.0, sd=1.0)})


def test_whole_calibration_in_stages(quick, truth):
    """The files of `lfdm calibrate` with the stages of the small problem."""
    out, summary = quick
    assert [stage["sampler"] for stage in summary["stages"]] == ["least_squares", "least_squares"]
    rows = {name: row for stage in summary["stages"] for name, row in stage["parameters"].items()}
    vehicle = load_vehicle(out / "vehicle.yaml")
    optimum = {name: value for stage in summary["stages"] for name, value in stage["objective"]["optimum_at"].items()}
    for name, value in truth.items():
        assert abs(optimum[name] - value) < 4.0 * rows[name]["sd"], name
        assert rows[name]["sd"] < 0.1 * value, name
        for target in rows[name]["targets"]:
            assert vehicle.parameters[target] == pytest.approx(optimum[name], rel=1e-12)
    assert "least-squares optimum of recipe small, stage lateral" in vehicle.sources["cornering_stiffness_rear"]
    assert summary["rmse"]["vy"]["posterior"] == pytest.approx(0.02, rel=0.15)
    assert all(0.8 < covered <= 1.0 for covered in summary["coverage_90"].values())
    assert any(text.startswith("longitudinal: intervals are Laplace's") for text in summary["warnings"])
    data = az.from_netcdf(str(out / "posterior.nc"))
    assert data.posterior["lateral.initial.vx"].shape == (2, 100)
    assert float(data.sample_stats["lateral.objective"]) == pytest.approx(summary["stages"][1]["objective"]["optimum"])
    assert "Pareto k" in (out / "report.html").read_text()


@pytest.mark.usefixtures("without_pictures")
def test_command_and_recipe_choose_the_sampler(quick, recipe_file, bags, tmp_path, capsys):
    given = [part for bag in bags.values() for part in ("--bag", str(bag))]
    recipe_file.write_text(recipe_file.read_text().replace("seed: 3", "seed: 3\nsampler: nuts"))
    assert load_recipe(recipe_file).sampler == "nuts"
    assert main(["calibrate", str(recipe_file), "--out", str(tmp_path / "out"), "--sampler", "least_squares", *given]) == 0
    assert "objective (noise): " in capsys.readouterr().out
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["stages"][1]["parameters"] == json.loads((quick[0] / "summary.json").read_text())["stages"][1]["parameters"]
    assert main(["calibrate", str(recipe_file), "--out", str(tmp_path / "out"), "--sampler", "annealing", *given]) == 2
    assert "sampler 'annealing' is unknown; choose one of: smc, nuts, " in capsys.readouterr().err


def test_recipe_chooses_the_objective(recipe_file):
    text = recipe_file.read_text()
    assert load_recipe(recipe_file).stages[1].objective == Objective("noise", "trust_region")
    recipe_file.write_text(text.replace("    recording: turn\n", "    recording: turn\n    least_squares: {scale: measured_sd}\n"))
    assert load_recipe(recipe_file).stages[1].objective == Objective("measured_sd", "trust_region")
    recipe_file.write_text(text.replace("    recording: turn\n", "    recording: turn\n    least_squares: {scale: l1}\n"))
    with pytest.raises(InputError, match=r"least_squares\.scale: 'l1' is not one of: noise, measured_sd, error_range"):
        load_recipe(recipe_file)


@pytest.fixture(scope="module")
def rhode(reference_data, tmp_path_factory):
    """The bag of the recording that the recipes rhode and rhode_notebook are for."""
    bag = tmp_path_factory.mktemp("rhode") / "bag"
    import_recording(reference_data / "rhode_simulink_dual_track", find_config("recordings", "rhode"), bag)
    return bag


@pytest.mark.usefixtures("without_pictures")
def test_rhode_reference(rhode, tmp_path):
    """Normalised by the variance of the measurements: 21410 and 20901 N/rad per axle, RMSE 0.057 rad/s and 0.019 rad."""
    summary = calibrate(load_recipe("rhode"), [rhode], tmp_path / "out", draws=100, chains=2)
    optimum = summary["stages"][0]["objective"]["optimum_at"]
    assert optimum["axle_cornering_stiffness_front"] == pytest.approx(21410.0, abs=5.0)
    assert optimum["axle_cornering_stiffness_rear"] == pytest.approx(20901.0, abs=5.0)
    assert summary["rmse"]["yaw_rate"]["posterior"] == pytest.approx(0.057, abs=5e-4)
    assert summary["rmse"]["vy"]["posterior"] / 10.0 == pytest.approx(0.019, abs=5e-4)
    vehicle = load_vehicle(tmp_path / "out" / "vehicle.yaml")
    assert vehicle.parameters["cornering_stiffness_front"] == pytest.approx(0.5 * optimum["axle_cornering_stiffness_front"])


@pytest.mark.usefixtures("without_pictures")
def test_rhode_notebook(rhode, tmp_path):
    """The published objective: 3082.016 at (12000, 11000), 2858.22 where its Powell search stopped, and less at an optimum."""
    recipe = load_recipe("rhode_notebook")
    objective = calibrate(recipe, [rhode], tmp_path / "published", draws=20, chains=1)["stages"][0]["objective"]
    assert objective["optimum"] == pytest.approx(2858.2229, abs=2e-3)
    assert objective["optimum_at"]["axle_cornering_stiffness_front"] == pytest.approx(11130.3, abs=1.0)
    assert objective["optimum_at"]["axle_cornering_stiffness_rear"] == pytest.approx(11054.7, abs=1.0)

    stage = replace(recipe.stages[0], objective=Objective("error_range"))
    elsewhere = replace(recipe, stages=(stage,), fixed={"cornering_stiffness_front": 6000.0, "cornering_stiffness_rear": 5500.0})
    objective = calibrate(elsewhere, [rhode], tmp_path / "further", draws=20, chains=1)["stages"][0]["objective"]
    assert objective["start_at"]["axle_cornering_stiffness_front"] == pytest.approx(12000.0)
    assert objective["start"] == pytest.approx(3082.016, abs=1e-3)
    assert objective["optimum"] < 2850.0


def test_draws_become_those_of_the_density():
    rng = np.random.default_rng(1)
    x = rng.normal(0.0, 1.0, 20_000)
    weighed = weigh(stats.gamma(8.0, scale=0.12, loc=-0.7).logpdf(x) - stats.norm.logpdf(x))
    assert weighed.pareto_k < 0.7 and weighed.power == 1.0
    drawn = x[weighed.resample(rng)]
    target = stats.gamma(8.0, scale=0.12, loc=-0.7)
    assert drawn.mean() == pytest.approx(target.mean(), abs=0.01)
    assert drawn.std() == pytest.approx(target.std(), rel=0.03)
    np.testing.assert_allclose(np.quantile(drawn, [0.05, 0.5, 0.95]), target.ppf([0.05, 0.5, 0.95]), atol=0.03)


def test_what_cannot_be_has_no_weight():
    """Where the density is 0, or a millionth of what the approximation says, nothing is left of the draws; the others stay as they are."""
    rng = np.random.default_rng(2)
    x = rng.normal(1.0, 0.4, 4000)
    absurd = x < 0.3
    log_weights = np.where(x < 0.0, -np.inf, np.where(absurd, -30.0, 0.0))
    weighed = weigh(log_weights)
    assert weighed.without_weight == absurd.sum() > 100
    drawn = x[weighed.resample(rng)]
    assert drawn.min() >= 0.3
    assert np.sort(np.unique(drawn)).tolist() == np.sort(x[~absurd]).tolist()


def test_weights_that_the_draws_do_not_reach_are_tempered():
    """A Gaussian far narrower than the density: no weights make its draws the density's, but they are not left to a handful either."""
    rng = np.random.default_rng(3)
    x = rng.normal(0.0, 1.0, 2000)
    weighed = weigh(stats.norm(6.0, 1.0).logpdf(x) - stats.norm.logpdf(x))
    assert weighed.pareto_k > 0.7
    assert 0.0 < weighed.power < 1.0
    assert weighed.effective == pytest.approx(200.0, rel=0.02)
    assert 0.5 < x[weighed.resample(rng)].mean() < 6.0


def test_nothing_possible_leaves_all_as_they_are():
    weighed = weigh(np.full(50, -np.inf))
    assert weighed.power == 0.0 and np.isinf(weighed.pareto_k)
    assert sorted(weighed.resample(np.random.default_rng(0))) == list(range(50))


def test_draws_that_are_of_another_density_only_have_to_be_possible():
    log_weights = np.array([0.0, -50.0, 3.0, -np.inf] * 50)
    weighed = weigh(log_weights, alike=True)
    assert set(weighed.weights.tolist()) == {0.0, 1.0 / 150.0}
