"""Predictions a few draws at a time against all of them at once; the error of the model beside them."""

import json
import tracemalloc
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from lfdm_ros.calibration import predictive
from lfdm_ros.calibration.model_error import ModelError, PieceErrors, learn, level_of, sensor_noise, tried
from lfdm_ros.calibration.predictive import MIN_DRAWS, PREDICTIVE_DRAWS, Ranks, compare, predict_draws, storable_draws
from lfdm_ros.inference.dataset import Dataset, Recording
from lfdm_ros.inference.gaussian import correlated_noise
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.vehicles import load_vehicle

ROWS, FINER, CHAINS, DRAWS = 300, 10, 2, 150


def data_set() -> Dataset:
    """A turn at 15 m/s on a grid that is ten times finer than the samples, one channel of which lacks some."""
    rng = np.random.default_rng(1)
    observed = np.full((ROWS, 2), np.nan)
    observed[::FINER] = rng.normal([0.0, 0.1], 0.05, (ROWS // FINER, 2))
    observed[100:200, 0] = np.nan
    inputs = np.column_stack([0.05 * np.ones(ROWS), np.full(ROWS, 0.2), np.zeros(ROWS)])
    return Dataset(Recording("a", None, ""), 0.002 * np.arange(ROWS), inputs, False, observed, ("vy", "yaw_rate"), {"vx": 15.0})


@pytest.fixture(scope="module")
def problem():
    """Two turns, draws of a stiffness, and of noise and correlation for each."""
    rng = np.random.default_rng(2)
    data = [data_set(), replace(data_set(), observed=data_set().observed[::-1])]
    likelihood = RolloutLikelihood(data, model="eight_dof", vehicle=load_vehicle("hmmwv"), step=0.002,
                                   unknowns=[[("cornering_stiffness_front", 1.0)]])
    q = rng.normal(50e3, 5e3, (CHAINS, DRAWS, 1))
    sigma, rho = rng.uniform(0.02, 0.1, (2, CHAINS, DRAWS, 2)), rng.uniform(0.0, 0.7, (2, CHAINS, DRAWS, 2))
    return likelihood, q, list(sigma), list(rho)


def run(problem, **changes):
    """Predictions from the draws of `problem`."""
    return predict_draws(*problem, np.random.default_rng(3), **({"stored": PREDICTIVE_DRAWS, "noise": True} | changes))


@pytest.mark.parametrize("count", [1, 2, 7, 40, 399, 400])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_are_those_of_all_draws_together(count, level):
    rng = np.random.default_rng(count)
    # Few different values, so that many are equal to each other and to what was measured.
    draws, observed = rng.integers(-4, 5, (count, 60, 3)) * 0.25, rng.integers(-6, 7, (60, 3)) * 0.25
    draws[:, 30:] += rng.normal(size=(count, 30, 3))
    observed[::9, 1] = np.nan
    draws[count // 2, 5::10, 2] = np.nan
    if count >= 40:
        draws[0, 7::10, 0] = np.inf  # beyond the interval; np.quantile makes NaN of one at its end
    ranks = Ranks(observed)
    for part in np.array_split(draws, 5):
        ranks.add(part)
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    np.testing.assert_array_equal(ranks.inside(level), (observed >= lower) & (observed <= upper))


def test_parts_make_what_all_draws_at_once_make(problem, monkeypatch):
    monkeypatch.setattr(predictive, "IN_FLIGHT", 1)  # 16 draws
    likelihood, q, sigma, rho = problem
    rng = np.random.default_rng(3)
    for found, responses, data, s, r in zip(run(problem), likelihood.responses(q.reshape(-1, 1)), likelihood.datasets, sigma, rho):
        rows = np.isfinite(data.observed).any(axis=1)
        noise = np.moveaxis(correlated_noise(rng, (CHAINS, DRAWS, 2, ROWS), s, r), 3, 2)
        noisy = (responses.reshape(CHAINS, DRAWS, ROWS, 2) + noise)[:, :, rows]
        np.testing.assert_array_equal(found.times, data.times[rows])
        np.testing.assert_array_equal(found.observed, data.observed[rows])
        np.testing.assert_allclose(found.mean, responses[:, rows].mean(axis=0), rtol=1e-12)
        np.testing.assert_array_equal(found.noisy, noisy.astype(np.float32))
        chosen = np.unique(np.linspace(0, CHAINS * DRAWS - 1, 100).astype(int))
        np.testing.assert_array_equal(found.sample, responses[chosen][:, rows].astype(np.float32))
        np.testing.assert_allclose(found.squares, np.nansum((responses[chosen] - data.observed) ** 2, axis=1), rtol=1e-12)
        assert found.alive.all()
        lower, upper = np.quantile(noisy.reshape(-1, *noisy.shape[2:]), [0.05, 0.95], axis=0)
        np.testing.assert_array_equal(found.ranks.inside(0.9), (data.observed[rows] >= lower) & (data.observed[rows] <= upper))


def test_errors_are_those_of_the_draws_that_live(problem):
    likelihood, q, sigma, rho = problem
    wild = q.copy()
    wild[0, 0] = np.nan  # as one that diverges
    found = compare([(("a", "b"), one) for one in run((likelihood, wild, sigma, rho))])
    chosen = np.unique(np.linspace(0, CHAINS * DRAWS - 1, 100).astype(int))[1:]
    for c, label in enumerate("ab"):
        errors = [(responses[chosen] - data.observed)[:, :, c]
                  for responses, data in zip(likelihood.responses(q.reshape(-1, 1)), likelihood.datasets)]
        expected = np.sqrt(np.nanmean(np.concatenate(errors, axis=1) ** 2, axis=1)).mean()
        assert found[label].rmse == pytest.approx(expected, rel=1e-9)


def test_the_more_data_the_fewer_draws_are_kept(problem, monkeypatch):
    data = problem[0].datasets
    values = 10 * sum(np.isfinite(one.observed).any(axis=1).sum() * 2 for one in data)
    assert storable_draws(data) == PREDICTIVE_DRAWS
    monkeypatch.setattr(predictive, "MAX_MEMORY", 200 * values)
    assert storable_draws(data) == 200
    whole, fewer = run(problem), run(problem, stored=200)
    for a, b in zip(whole, fewer):
        assert b.noisy.shape[:2] == (CHAINS, 100)
        np.testing.assert_array_equal(b.noisy, a.noisy[:, b.draw_index])
        assert len(b.sample) == 50
        # What is said of the errors does not depend on it.
        np.testing.assert_array_equal(b.mean, a.mean)
        np.testing.assert_array_equal(b.squares, a.squares)
        np.testing.assert_array_equal(b.ranks.inside(0.9), a.ranks.inside(0.9))
    monkeypatch.setattr(predictive, "MAX_MEMORY", 1)
    assert storable_draws(data) == MIN_DRAWS
    assert run(problem, noise=False)[0].noisy.size == 0


def test_memory_is_that_of_the_work_in_flight(monkeypatch):
    """76 pieces of 2 s on a grid of 1 ms, measured at 100 Hz: all responses, with and without noise, would be 2 GB."""
    pieces, samples = 76, 2000
    observed = np.full((samples, 2), np.nan)
    observed[::10] = 0.0
    one = SimpleNamespace(observed=observed, times=0.001 * np.arange(samples), channels=("vy", "yaw_rate"))

    class Still:
        datasets = (one,) * pieces

        @staticmethod
        def response_parts(number, q, limit):
            for first in range(0, len(q), 16):
                yield slice(first, first + 16), np.zeros((len(q[first:first + 16]), samples, 2))

    monkeypatch.setattr(predictive, "correlated_noise", lambda rng, shape, sigma, rho: np.zeros(shape))
    noise = [np.zeros((4, 1000, 2))] * pieces
    tracemalloc.start()
    try:
        found = predict_draws(Still(), np.zeros((4, 1000, 1)), noise, noise, np.random.default_rng(0), noise=True,
                              stored=storable_draws(Still.datasets))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[0].noisy.shape == (4, 55, 200, 2)
    assert peak < 50e6


TIME = np.linspace(0.0, 5.0, 200)


def pieces(count: int, seed: int, deviation, heavy: bool = False) -> list[PieceErrors]:
    """Errors of pieces that differ by their response: a Gaussian process of this deviation (200,) of time and level, noise 0.1."""
    rng = np.random.default_rng(seed)
    lags = np.abs(np.subtract.outer(TIME, TIME))
    root = np.linalg.cholesky(np.exp(-lags / 1.5) + 1e-9 * np.eye(len(TIME)))
    out = []
    for _ in range(count):
        level = rng.uniform(0.2, 3.0) * np.sin(rng.uniform(0.5, 2.0) * TIME + rng.uniform(0.0, 6.0))
        size = np.sqrt(4.0 / rng.chisquare(4.0)) if heavy else 1.0
        error = size * deviation(level) * (root @ rng.normal(size=len(TIME))) + rng.normal(0.0, 0.1, len(TIME))
        out.append(PieceErrors(TIME, error, np.full(len(TIME), 0.0), level, 0.3, 0.1))
    return out


SHAPES = {"constant": lambda level: 0.5 * np.ones_like(TIME), "drift": lambda level: 0.4 * np.sqrt(TIME), "ramp": lambda level: 0.3 * TIME,
          "share": lambda level: 0.4 * np.abs(level)}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_variance_that_was_put_in_comes_out(shape):
    found = learn(pieces(150, 1, SHAPES[shape]), "held_out")
    level = 2.0 * np.cos(TIME)
    got, put = np.sqrt(found.variance(TIME, level)), SHAPES[shape](level)
    assert np.abs(got - put).max() < 0.2 * put.max()
    assert 0.7 < found.memory < 2.2
    assert found.noise == pytest.approx(0.1)
    assert ModelError(**json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize(("shape", "heavy"), [("ramp", False), ("share", True)])
def test_intervals_hold_nine_tenths_of_new_pieces(shape, heavy):
    """From 25 pieces, four times over, on average; errors of pieces whose size differs from piece to piece are no harder."""
    held, said = [], []
    for seed in range(4):
        some = pieces(25, seed, SHAPES[shape], heavy)
        found = learn(some, "held_out")
        said.append(tried(some))
        held += [np.mean(np.abs(one.error) <= stats.norm.ppf(0.95) * one.width(found))
                 for one in pieces(40, 100 + seed, SHAPES[shape], heavy)]
    assert 0.87 < np.mean(held) < 0.94
    assert np.mean(said) == pytest.approx(np.mean(held), abs=0.03)


def test_nothing_is_added_where_nothing_is_missed():
    found = learn(pieces(60, 3, lambda level: np.zeros_like(TIME)), "held_out")
    assert np.sqrt(found.variance(TIME, np.sin(TIME))).max() < 0.04
    assert learn(pieces(2, 3, SHAPES["ramp"]), "held_out") is None
    assert np.isnan(tried(pieces(3, 3, SHAPES["ramp"])))


def test_a_position_counts_by_how_far_it_went():
    assert level_of("x", np.array([5.0, 6.0, 8.0])).tolist() == [0.0, 1.0, 3.0]
    assert level_of("omega_fl", np.array([5.0, 6.0])).tolist() == [0.0, 1.0]
    assert level_of("yaw_rate", np.array([5.0, 6.0])).tolist() == [5.0, 6.0]


def test_noise_of_a_sensor_is_seen_through_any_smooth_motion():
    rng = np.random.default_rng(4)
    motion = 3.0 * np.sin(2.0 * TIME) + TIME**2
    assert sensor_noise([motion + rng.normal(0.0, 0.2, 200) for _ in range(3)]) == pytest.approx(0.2, rel=0.12)
    assert np.isnan(sensor_noise([motion]))  # none at all
    assert np.isnan(sensor_noise([np.repeat(rng.normal(size=40), 5)]))  # held between samples
