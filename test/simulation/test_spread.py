"""Quantiles of many vehicles, in pieces: against all runs at once, wherever the pieces are computed and whoever is killed."""

import os
import signal

import numpy as np
import pytest

from lfdm_ros.scheduling import get_scheduler
from lfdm_ros.simulation import BatchRollout, batch, initial_state
from lfdm_ros.simulation.batch import motion_spread
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
TIMES = 0.1 * np.arange(21)
INPUTS = np.column_stack([0.1 * np.sin(2.0 * TIMES), np.full(len(TIMES), 0.2), np.zeros(len(TIMES))])
SHARES = (0.05, 0.5, 0.95)
ROLLOUT = BatchRollout(model="eight_dof", vehicle=VEHICLE, dt=0.01, times=TIMES, inputs=INPUTS, parameters=["sprung_mass"],
                       channels=["vx", "yaw_rate"])
START = initial_state(VEHICLE.model("eight_dof"), VEHICLE, vx=12.0)


def masses(count):
    return VEHICLE.parameters["sprung_mass"] * np.random.default_rng(3).uniform(0.8, 1.2, (count, 1))


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(batch, "PIECE", 500)


def last(theta, scheduler):
    *_, found = motion_spread(ROLLOUT, theta, START, SHARES, scheduler)
    return found


def test_quantiles_of_one_piece_are_those_of_its_runs():
    theta = masses(400)
    with get_scheduler() as here:
        found = last(theta, here)
    np.testing.assert_allclose(found.quantiles, np.quantile(ROLLOUT.trajectories(theta, START), SHARES, axis=0), rtol=1e-14)
    assert (found.runs, found.diverged) == (400, 0)


def test_pieces_agree_with_all_at_once(small_pieces):
    """Within the error of a quantile of 500 runs over the root of the number of pieces."""
    theta = masses(10_000)
    with get_scheduler() as here:
        found = last(theta, here)
    runs = ROLLOUT.trajectories(theta, START)
    exact = np.quantile(runs, SHARES, axis=0)
    assert np.abs(found.quantiles - exact).max(axis=(0, 1)) == pytest.approx([0.0, 0.0], abs=0.01 * np.ptp(runs, axis=0).max())
    assert found.runs == 10_000


def test_runs_that_diverge_are_counted_and_left_out(small_pieces):
    theta = masses(1500)
    theta[[3, 700], 0] = np.nan
    theta[1000:, 0] = np.nan  # a piece without any
    with get_scheduler() as here:
        found = last(theta, here)
        nothing = last(np.full((500, 1), np.nan), here)
    assert (found.runs, found.diverged) == (1500, 502) and np.isfinite(found.quantiles).all()
    assert nothing.diverged == nothing.runs == 500


def test_a_cluster_gives_the_same_and_a_lost_worker_loses_nothing(small_pieces):
    """A worker is killed after the first piece; what it had in hand is done again."""
    pytest.importorskip("distributed", reason="Dask is not installed (pip install 'lfdm-ros[cluster]')")
    theta = masses(4000)
    with get_scheduler() as here:
        expected = last(theta, here)
    with get_scheduler("local:2") as cluster:
        done = []
        for so_far in motion_spread(ROLLOUT, theta, START, SHARES, cluster):
            if not done:
                os.kill(next(iter(cluster.workers().values())), signal.SIGKILL)
            done.append(so_far)
    assert len(done) == 8 and done[-1].runs == 4000
    np.testing.assert_array_equal(done[-1].quantiles, expected.quantiles)


def test_a_large_batch_goes_over_in_parts_to_the_bit(monkeypatch):
    """Parameters of all vehicles at once would be most of its memory."""
    theta = masses(301)
    own = np.repeat(INPUTS[None], len(theta), axis=0) * np.linspace(0.5, 1.0, len(theta))[:, None, None]
    observed = np.zeros((len(TIMES), 2))

    def runs():
        return (ROLLOUT.trajectories(theta, START), ROLLOUT.trajectories(theta, START, own),
                ROLLOUT.squared_errors(theta, START, observed, own))

    whole = runs()
    monkeypatch.setattr(batch, "MEMORY", 20_000)
    parts = runs()
    for a, b in zip(whole, parts):
        np.testing.assert_array_equal(a, b)
    assert parts[0].shape == (301, len(TIMES), 2) and parts[0].transpose(1, 2, 0).flags.c_contiguous
