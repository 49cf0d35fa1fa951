"""nutpie's NUTS against posteriors that are known, also where bounds cut them off."""

import numpy as np
import pytest
from problems import Walled, stop_at

pytest.importorskip("nutpie", reason="the package nutpie is not installed")

from lfdm_ros.samplers import nutpie


@pytest.fixture(scope="module")
def walled():
    return Walled()


def sample(asked, draws, chains, seed=1, report=None, tune=400):
    return nutpie.run(asked, draws=draws, chains=chains, seed=np.random.SeedSequence(seed), report=report, tune=tune)


def test_a_posterior_cut_off_by_bounds(walled):
    seen = []
    run = sample(walled.problem, 600, 3, report=seen.append)
    walled.check(run.draws)
    assert run.stored["tree_size"][1].shape == (3, 600) == run.log_likelihood.shape
    # The trace of nutpie and the draws that were handed over belong together: so many simulations as steps.
    assert run.evaluations > run.stored["tree_size"][1].sum()
    assert run.statistics["gradients_per_draw"] > 1.0
    assert not run.stopped
    progress = [state.progress for state in seen]
    assert progress == sorted(progress)


def test_coordinates_without_bounds():
    line = nutpie.Line(np.array([-1.0, 2.0, -np.inf, -np.inf]), np.array([3.0, np.inf, 5.0, np.inf]))
    x = np.array([2.5, 2.1, -4.0, 0.3])
    z = line.coordinates(x)
    back, by_z, logarithm, slope = line.point(z)
    np.testing.assert_allclose(back, x, rtol=1e-14)
    assert logarithm == pytest.approx(np.log(np.abs(by_z)).sum(), rel=1e-14)
    for i, step in enumerate(1e-6 * np.eye(4)):
        (above, _, more, _), (below, _, less, _) = line.point(z + step), line.point(z - step)
        assert (above - below)[i] / 2e-6 == pytest.approx(by_z[i], rel=1e-8)
        assert (more - less) / 2e-6 == pytest.approx(slope[i], abs=1e-8)
    far = line.point(np.array([800.0, -800.0, -800.0, 0.0]))[0]
    np.testing.assert_array_equal(far, [3.0, 2.0, 5.0, 0.0])


def test_same_seed_same_draws_from_starts_apart(walled):
    one, again, other = (sample(walled.problem, 20, 3, seed=seed, tune=60) for seed in (1, 1, 2))
    for name, values in one.draws.items():
        assert np.array_equal(values, again.draws[name])
        assert not np.array_equal(values, other.draws[name])
        assert len(np.unique(values[:, 0])) == 3


def test_a_run_that_is_stopped(walled, monkeypatch):
    monkeypatch.setattr(nutpie, "POLL", 0.005)

    with pytest.raises(KeyboardInterrupt):  # still tuning
        sample(walled.problem, 20000, 2, report=stop_at(0.0), tune=40)
    stopped = sample(walled.problem, 20000, 2, report=stop_at(0.01), tune=40)
    chains, count = stopped.draws["a"].shape
    assert chains == 2
    assert 10 <= count < 20000
    assert stopped.stopped
    assert stopped.log_likelihood.shape == (chains, count) == stopped.stored["energy"][1].shape
    assert f"stopped after {count} of 20000 draws" in stopped.warnings[-1]


def test_a_failure_in_its_threads_is_told(walled, monkeypatch):
    def broken(self, x):
        raise OSError("no space")

    monkeypatch.setattr(nutpie.LogDensity, "__call__", broken)
    with pytest.raises(OSError, match="no space"):
        sample(walled.problem, 20, 2)


def test_a_chain_that_cannot_begin_ends_the_run(walled, monkeypatch):
    monkeypatch.setattr(nutpie.LogDensity, "__call__", lambda self, x: (np.nan, np.full(len(x), np.nan)))
    with pytest.raises(RuntimeError):
        sample(walled.problem, 20, 2)
