"""Random-walk Metropolis against posteriors that are known, also where bounds cut them off."""

import numpy as np
import pytest
from problems import Walled, stop_at

from lfdm_ros.samplers import metropolis
from lfdm_ros.samplers.sampler import get_sampler


@pytest.fixture(scope="module")
def walled():
    return Walled()


def sample(asked, draws, chains, seed=1, report=None, **options):
    return get_sampler("metropolis", options)(asked, draws=draws, chains=chains, seed=np.random.SeedSequence(seed), report=report)


def test_a_posterior_cut_off_by_bounds(walled):
    run = sample(walled.problem, 1000, 16, tune=500, thin=5)
    walled.check(run.draws)
    assert run.statistics["acceptance"] == pytest.approx(metropolis.ACCEPTANCE, abs=0.08)
    assert "5 for each draw" in run.account
    assert not run.stopped


def test_same_seed_same_draws(walled):
    quick = {"tune": 250, "thin": 2}
    one, again, other = (sample(walled.problem, 20, 3, seed=seed, **quick) for seed in (1, 1, 2))
    for name, values in one.draws.items():
        assert np.array_equal(values, again.draws[name])
        assert not np.array_equal(values, other.draws[name])


def test_a_run_that_is_stopped(walled):
    quick = {"tune": 250, "thin": 2}

    with pytest.raises(KeyboardInterrupt):  # still tuning
        sample(walled.problem, 100, 2, report=stop_at(0.1), **quick)
    stopped = sample(walled.problem, 100, 2, report=stop_at(0.8), **quick)
    assert 10 <= stopped.draws["a"].shape[1] < 100
    assert "of 100 draws" in stopped.warnings[-1]
    assert stopped.stopped
