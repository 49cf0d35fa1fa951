"""What a model misses, learned out of sample: what is put in comes out, and intervals hold what they say on new pieces."""

import json

import numpy as np
import pytest
from scipy import stats

from lfdm_ros.calibration.model_error import ModelError, PieceErrors, learn, level_of, sensor_noise, tried

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
    assert ModelError.of(json.loads(json.dumps(found.as_dict()))) == found


@pytest.mark.parametrize(("shape", "heavy"), [("ramp", False), ("share", True)])
def test_intervals_hold_nine_tenths_of_new_pieces(shape, heavy):
    """From 25 pieces, eight times over, on average; errors of pieces whose size differs from piece to piece are no harder."""
    held, said = [], []
    for seed in range(8):
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
