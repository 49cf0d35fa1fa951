"""Initial points of Markov chains: around the least-squares optimum, dispersed as the posterior allows."""

from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.inference.plan import Objective
from lfdm_ros.samplers import least_squares
from lfdm_ros.samplers.sampler import Problem, Report, SamplerProgress

DRAWS = 1000  # of the Gaussian at the optimum
MARGIN = 10.0  # of log density below the best draw, besides the number of unknowns; draws beyond it are rejected


@dataclass(frozen=True)
class Starts:
    """Points (C, D), and covariance (D, D) of their Gaussian, in the density's coordinates; evaluations so far."""

    points: np.ndarray
    covariance: np.ndarray
    evaluations: int


def find_starts(problem: Problem, chains: int, seed: np.random.SeedSequence, report: Report | None) -> Starts:
    """Finds a start for each chain: draws of Laplace's approximation with sufficient posterior density. Raises ValueError: no draw can be
    simulated."""
    def forward(state: SamplerProgress) -> None:
        if report is not None:
            report(replace(state, progress=0.0, message=f"optimum: {state.message}"))

    optimum = least_squares.run(replace(problem, objective=Objective()), draws=max(DRAWS, chains), chains=1, seed=seed, report=forward)
    priors = problem.priors
    points = np.column_stack([priors[name].coordinate(optimum.draws[name][0]) for name in problem.density.names])
    prior, likelihood = problem.density(points)
    logp = prior + likelihood
    best = logp.max()
    if not np.isfinite(best):
        raise ValueError("nothing near the least-squares optimum can be simulated")
    allowed = np.flatnonzero(logp > best - points.shape[1] - MARGIN)
    return Starts(points[np.resize(allowed, chains)], np.atleast_2d(np.cov(points, rowvar=False)), optimum.evaluations + len(points))


def bounds(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Returns minima and maxima (D,) of the density's coordinates; infinite without a bound."""
    priors = [problem.priors[name] for name in problem.density.names]
    with np.errstate(divide="ignore"):
        lower, upper = np.array([prior.coordinate(np.array(prior.bounds())) for prior in priors]).T
    return lower, upper
