"""Random-walk Metropolis, all chains in lockstep: gradient-free with few assumptions, for comparison with the other samplers.

Chains start around the least-squares optimum. During tuning, proposals adapt to the covariance of the history of all chains, scaled for
the optimal acceptance in many dimensions (Roberts, Gelman and Gilks 1997); afterwards they are fixed, so that the chains converge to the
posterior.
"""

import time
from contextlib import suppress

import numpy as np

from lfdm_ros.samplers.chains import Collector
from lfdm_ros.samplers.sampler import Problem, Report, SampleRun
from lfdm_ros.samplers.starts import find_starts

ADAPT = 250  # steps between two estimates of the covariance
ACCEPTANCE = 0.234
LONG, SHARE = 3.0, 0.1  # factor and share of longer proposals, to leave corners
BLOCK = 10  # draws per report


def run(problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None, tune: int,
        thin: int) -> SampleRun:
    """Draws from the posterior of a stage; see `lfdm_ros.samplers.sampler.Sample`."""
    began = time.perf_counter()
    start_seed, walk_seed = seed.spawn(2)
    starts = find_starts(problem, chains, start_seed, report)
    walk = _RandomWalk(problem, starts.points, starts.covariance, np.random.default_rng(walk_seed))
    collector = Collector(problem, tune=tune, draws=draws, chains=chains, evaluations=starts.evaluations, began=began, report=report,
                          thin=thin)
    try:
        for first in range(0, tune, ADAPT):
            count = min(ADAPT, tune - first)
            positions = walk.steps(count, adapt=True)
            walk.adapt(positions)
            for chain in range(chains):
                collector.add(chain, positions[chain], tuning=True, evaluations=count)
        walk.accepted = walk.proposed = 0
        for first in range(0, draws, BLOCK):
            count = min(BLOCK, draws - first)
            positions = walk.steps(count * thin, adapt=False)[:, thin - 1::thin]
            for chain in range(chains):
                collector.add(chain, positions[chain], tuning=False, evaluations=count * thin)
    except KeyboardInterrupt:
        if not collector.useful:
            raise
    acceptance = walk.accepted / max(walk.proposed, 1)
    return collector.finish(collector.particles(), statistics={"tuning": tune, "thinning": thin, "acceptance": acceptance}, stored={},
                            account=f"random-walk Metropolis, {tune} steps of tuning and {thin} for each draw, "
                                    f"{100 * acceptance:.0f} % accepted")


class _RandomWalk:
    """C walkers with a common proposal covariance."""

    def __init__(self, problem: Problem, points: np.ndarray, covariance: np.ndarray, rng: np.random.Generator):
        self._density, self._points, self._rng = problem.density, points.copy(), rng
        self._logp = np.add(*problem.density(points))
        self._root = np.linalg.cholesky(covariance)
        self._scale = 2.38 / np.sqrt(points.shape[1])
        self._history: list[np.ndarray] = []
        self.accepted = self.proposed = 0

    def steps(self, count: int, adapt: bool) -> np.ndarray:
        """Moves the walkers; returns their positions after each step (C, count, D)."""
        positions = np.empty((len(self._points), count, self._points.shape[1]))
        for step in range(count):
            length = self._scale * np.where(self._rng.random((len(self._points), 1)) < SHARE, LONG, 1.0)
            proposal = self._points + length * self._rng.standard_normal(self._points.shape) @ self._root.T
            logp = np.add(*self._density(proposal))
            accept = np.log(self._rng.random(len(logp))) < logp - self._logp
            self._points[accept], self._logp[accept] = proposal[accept], logp[accept]
            self.accepted += int(accept.sum())
            self.proposed += len(accept)
            if adapt:
                self._scale *= float(np.exp((accept.mean() - ACCEPTANCE) / np.sqrt(1.0 + len(self._history))))
            positions[:, step] = self._points
        return positions

    def adapt(self, positions: np.ndarray) -> None:
        """Sets the proposal covariance from the later half of all steps (C, n, D) so far."""
        self._history.append(positions)
        late = np.concatenate(self._history[len(self._history) // 2:], axis=1)
        covariance = np.atleast_2d(np.cov(late.reshape(-1, late.shape[2]), rowvar=False))
        with suppress(np.linalg.LinAlgError):  # singular until the walkers have moved in every direction
            self._root = np.linalg.cholesky(covariance)
