"""Sequential Monte Carlo with all particles of all chains in one likelihood call.

A PyMC SMC kernel: temperatures, weights and resampling are PyMC's (threshold on the effective sample size), the moves are not. Each chain
is a generator that yields proposals; `sample` drives all chains in lockstep, `pm.sample_smc(kernel=LockstepKernel)` one by one.

Moves. If a polynomial fits the simulations so far, it filters the proposals before simulation, two thirds of which would be rejected
(`Surrogate`), without changing the target.

PyMC's rule stops after about 3 independence moves, and a Gaussian independence proposal is too narrow for a curved ridge without R-hat or
ESS showing it. Here independence moves with heavy tails alternate with random-walk moves of several sizes, in a fixed number at each
temperature and more at the last, whose population is the result; the others only need diversity.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.inference.model import PopulationDensity
from lfdm_ros.inference.pymc_adapter import TemperedPopulation
from lfdm_ros.samplers.sampler import SMC, Evaluation, Problem, Report, SamplerProgress, SampleRun

POINTS = 3  # simulated points per coefficient needed for a fit
GOOD = 1.3  # maximum standard deviation of beta times its error; beyond it too many proposals are rejected
FAR = 16.0  # maximum of beta times the log likelihood below its median, of points in the fit
RIDGE = 1e-9


class Surrogate:
    """Polynomial approximation of beta times the log likelihood near a population, up to a constant; selects the proposals to simulate.

    Delayed acceptance (Christen and Fox 2005, "Markov chain Monte Carlo using an approximation"): a proposal accepted by the surrogate is
    accepted or rejected by the ratio of likelihood and surrogate:

        a_1 = min(1, pi'(y) q(y, x) / (pi'(x) q(x, y))),    a_2 = min(1, pi(y) pi'(x) / (pi(x) pi'(y))).

    Both together preserve pi for any surrogate; a bad one only rejects more. It is fitted to earlier simulations of a population, in
    coordinates of its mean and covariance.
    """

    def __init__(self, mean: np.ndarray, root: np.ndarray, coefficients: np.ndarray, beta: float) -> None:
        self._mean, self._root, self._coefficients, self._beta = mean, root, coefficients, beta

    def __call__(self, particles: np.ndarray) -> np.ndarray:
        """Evaluates particles (N, D) -> (N,)."""
        return np.asarray(self._beta * (_features(particles, self._mean, self._root) @ self._coefficients))


def fitted(points: Sequence[np.ndarray], likelihoods: Sequence[np.ndarray], population: np.ndarray, likelihood: np.ndarray, beta: float,
           mean: np.ndarray, root: np.ndarray) -> Surrogate | None:
    """Fits the surrogate of a population (N, D) to its log likelihoods (N,) and to earlier simulations; None for a bad fit or too few
    points. `mean`, `root`: of the population: the lower triangular root of its covariance."""
    unique, first = np.unique(population, axis=0, return_index=True)
    x, y = np.concatenate([unique, *points]), np.concatenate([likelihood[first], *likelihoods])
    median = float(np.median(likelihood))
    weight = np.exp(0.25 * np.clip(beta * (y - median), -2.0 * FAR, 0.0))
    near = np.isfinite(y) & (beta * (y - median) > -FAR)
    d = x.shape[1]
    count = 1 + 3 * d + d * (d + 1) // 2
    if near.sum() < POINTS * count:
        return None
    features = _features(x[near], mean, root) * weight[near, None]
    products = features.T @ features
    products[np.diag_indices(count)] += RIDGE * np.trace(products) / count
    coefficients = np.linalg.solve(products, features.T @ ((y[near] - median) * weight[near]))
    surrogate = Surrogate(mean, root, coefficients, beta)
    error = beta * (likelihood[first] - median) - surrogate(unique)
    # Corrects for the population being part of the fitted data.
    return surrogate if np.std(error) * np.sqrt(1.0 + count / near.sum()) < GOOD else None


def _features(particles: np.ndarray, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    z = np.linalg.solve(root, (particles - mean).T)
    rows, columns = np.triu_indices(len(z))
    return np.concatenate([np.ones((1, z.shape[1])), z, z[rows] * z[columns], z**3, z**4]).T


STEPS, FINAL_STEPS = (int(option.value) for option in SMC.options)
TAIL_FREEDOM = 5.0  # degrees of freedom of the independence proposal
TARGET_ACCEPTANCE = 0.234  # of the random walk
REFITTED = 10  # moves between fits of the surrogate

Chain = Generator[np.ndarray, Evaluation, None]


class LockstepKernel(TemperedPopulation):
    """Kernel of alternating independence and random-walk Metropolis moves, with the density of all particles in one call."""

    def __init__(self, *args: Any, density: PopulationDensity, steps: int = STEPS, final_steps: int = FINAL_STEPS, **kwargs: Any):
        """Stores density: to be sampled, by default the model's, for pm.sample_smc; steps, final_steps: moves at each temperature, and at
        the last."""
        super().__init__(*args, **kwargs)
        self.density = density
        self.steps, self.final_steps = steps, final_steps
        self.scale = 0.0
        self.acceptance = [np.nan, np.nan]  # of independence and random-walk moves
        self.betas: list[float] = []
        self.population: np.ndarray | None = None
        self.ancestors = np.arange(self.draws)
        self.simulated: list[tuple[np.ndarray, np.ndarray]] = []  # proposals and log likelihoods of the last moves

    def fresh(self, rng: np.random.Generator, population: np.ndarray | None = None) -> LockstepKernel:
        """Returns a kernel for another chain, before its first temperature; `population` (N, D) to start from instead of the prior."""
        chain = copy.copy(self)
        chain.rng, chain.betas, chain.acceptance, chain.population = rng, [], [np.nan, np.nan], population
        chain.simulated = []
        return chain

    def run(self) -> Chain:
        """Runs the whole chain: yields particles (N, D) and receives their log prior and log likelihood."""
        yield from self.populate()
        while self.beta < 1.0:
            self.update_beta_and_weights()
            self.resample()
            self.ancestors = self.ancestors[self.resampling_indexes]
            yield from self.moves()
            self.betas.append(float(self.beta))

    def populate(self) -> Chain:
        """Draws particles from the prior, or copies those given."""
        self.tempered_posterior = self.density.draw_prior(self.draws, self.rng) if self.population is None else self.population.copy()
        self.prior_logp, self.likelihood_logp = yield self.tempered_posterior
        self.simulated = [(self.tempered_posterior.copy(), self.likelihood_logp.copy())]
        self.scale = 2.38 / np.sqrt(self.tempered_posterior.shape[1])

    def moves(self) -> Chain:
        """Makes the Metropolis moves of all particles at the present temperature."""
        particles, rng = self.tempered_posterior, self.rng
        n, d = particles.shape
        mean, covariance = particles.mean(axis=0), np.atleast_2d(np.cov(particles, rowvar=False))
        root = np.linalg.cholesky(covariance + 1e-10 * np.diag(np.diag(covariance) + 1e-12))
        accepted: tuple[list[float], list[float]] = ([], [])
        surrogate: Surrogate | None = None
        here = np.zeros(n)  # the surrogate at the particles
        log_prior = getattr(self.density, "log_prior", None)  # available if the prior is cheap compared with the likelihood
        for step in range(self.final_steps if self.beta == 1.0 else self.steps):
            independent = step % 2 == 0
            directions = rng.standard_normal((n, d)) @ root.T
            if independent:
                proposal = mean + directions / np.sqrt(rng.chisquare(TAIL_FREEDOM, (n, 1)) / TAIL_FREEDOM)
                correction = _log_t(particles, mean, root) - _log_t(proposal, mean, root)
            else:
                proposal = particles + self.scale * np.exp(0.5 * rng.standard_normal((n, 1))) * directions
                correction = 0.0
            if step % REFITTED == 0:
                points, likelihoods = zip(*self.simulated) if self.simulated else ((), ())
                surrogate = fitted(points, likelihoods, self.tempered_posterior, self.likelihood_logp, float(self.beta), mean,
                                   root) if log_prior else None
                self.simulated = []
                here = surrogate(particles) if surrogate else np.zeros(n)
            worth, ahead = np.ones(n, bool), np.zeros(n)
            if surrogate is not None and log_prior:
                ahead = surrogate(proposal)
                worth = np.log(rng.random(n)) < log_prior(proposal) - self.prior_logp + ahead - here + correction
            # NaN: proposals rejected by the surrogate are not simulated, as those outside the priors.
            prior, likelihood = yield np.where(worth[:, None], proposal, np.nan)
            self.simulated.append((proposal[worth], likelihood[worth]))
            logp = prior + likelihood * self.beta
            gain = logp - self.tempered_posterior_logp + correction if surrogate is None else \
                self.beta * (likelihood - self.likelihood_logp) - ahead + here
            accept = worth & (np.log(rng.random(n)) < gain)
            particles[accept] = proposal[accept]
            for current, new in ((self.prior_logp, prior), (self.likelihood_logp, likelihood), (self.tempered_posterior_logp, logp),
                                 (here, ahead)):
                current[accept] = new[accept]
            accepted[not independent].append(accept.mean())
            if not independent:
                self.scale *= float(np.exp((accept if surrogate is None else worth).mean() - TARGET_ACCEPTANCE))
        self.acceptance = [float(np.mean(a)) if a else np.nan for a in accepted]

    # begin, mutate, sample_stats and sample_settings are for pm.sample_smc: one chain at a time.

    def begin(self) -> None:
        self._drive(self.populate())

    def mutate(self) -> None:
        self._drive(self.moves())

    def _drive(self, chain: Chain) -> None:
        try:
            particles = next(chain)
            while True:
                particles = chain.send(self.density(particles))
        except StopIteration:
            pass

    def sample_stats(self) -> dict[str, Any]:
        return {"log_marginal_likelihood": self.log_marginal_likelihood if self.beta == 1 else np.nan, "beta": self.beta,
                "accept_rate": float(np.nanmean(self.acceptance))}

    def sample_settings(self) -> dict[str, Any]:
        return {"_n_draws": self.draws, "threshold": self.threshold, "_n_tune": self.steps}


def _log_t(x: np.ndarray, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    # Log density of the multivariate t with shape root root', up to a constant.
    z = np.linalg.solve(root, (x - mean).T)
    return -0.5 * (TAIL_FREEDOM + len(mean)) * np.log1p((z * z).sum(axis=0) / TAIL_FREEDOM)


@dataclass(frozen=True)
class SmcResult:
    """Result of `sample`; C chains of N draws.

    draws: variable -> (C, N) in the units of the model; log_likelihood (C, N); log_evidence (C,), of the data tempered in; betas:
    temperatures by chain, which end below 1 if the run was stopped; acceptance (C, 2) of independence and random-walk moves at the last
    temperature; ancestors (C, N): initial particle of each one; evaluations of the simulator; seconds.
    """

    draws: dict[str, np.ndarray]
    log_likelihood: np.ndarray
    log_evidence: np.ndarray
    betas: list[list[float]]
    acceptance: np.ndarray
    ancestors: np.ndarray
    evaluations: int
    seconds: float

    @property
    def temperature(self) -> float:
        """Temperature of the slowest chain."""
        return min(betas[-1] for betas in self.betas)


def run(problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None, steps: int,
        final_steps: int) -> SampleRun:
    """Draws from the posterior of a stage; see `lfdm_ros.samplers.sampler.Sample`."""
    population = None if problem.population is None else _population(problem, draws, chains, np.random.default_rng(seed.spawn(1)[0]))
    result = sample(problem.density, draws=draws, chains=chains, seed=seed, steps=steps, final_steps=final_steps, report=report,
                    population=population)
    temperatures = max(len(betas) for betas in result.betas)
    evidence = float(result.log_evidence.mean())
    spread = float(result.log_evidence.std(ddof=1)) if chains > 1 else None
    error = {name: genealogical_error(values, result.ancestors) for name, values in result.draws.items()}
    statistics = {"temperatures": temperatures, "acceptance": result.acceptance.mean(axis=0).tolist(),
                  "log_evidence": problem.log_evidence + evidence, "log_evidence_sd": spread}
    if problem.population is not None:
        statistics["log_evidence_of_new_data"] = evidence
    return SampleRun(
        draws=result.draws, log_likelihood=result.log_likelihood, point_is="posterior mean",
        point={name: float(result.draws[name].mean()) for name in problem.unknowns},
        evaluations=result.evaluations, seconds=result.seconds, statistics=statistics,
        stored={"beta": (("chain", "temperature"), np.array([betas + [np.nan] * (temperatures - len(betas)) for betas in result.betas])),
                "log_evidence": (("chain",), problem.log_evidence + result.log_evidence),
                "ancestor": (("chain", "draw"), result.ancestors)},
        account=f"{temperatures} temperatures" + (f", log evidence to ± {spread:.2f}" if spread is not None else ""),
        temperature=result.temperature, stopped=result.temperature < 1.0, error_of_mean=error)


def genealogical_error(values: np.ndarray, ancestors: np.ndarray) -> float:
    """Computes the standard error of the mean of particles (C, N) from their ancestry (Lee and Whiteley 2018, "Variance estimation in the
    particle filter", eq. 6 without resampling correction): descendants of one initial particle are dependent, families are independent.
    """
    errors = [(np.bincount(np.unique(families, return_inverse=True)[1], chain - chain.mean()) ** 2).sum() / len(chain) ** 2
              for chain, families in zip(values, ancestors)]
    return float(np.sqrt(np.sum(errors)) / len(values))


def _population(problem: Problem, draws: int, chains: int, rng: np.random.Generator) -> np.ndarray:
    """Returns particles (C, N, D) of the earlier posterior, with new unknowns drawn from the prior.

    If the stored numbers match, chains are kept, hence independent; otherwise particles are drawn from all.
    """
    assert problem.population is not None
    out = problem.density.draw_prior(chains * draws, rng).reshape(chains, draws, -1)
    stored_chains, stored = next(iter(problem.population.values())).shape
    pick = rng.integers(stored_chains * stored, size=(chains, draws)) if (stored_chains, stored) != (chains, draws) else \
        np.arange(chains * draws).reshape(chains, draws)
    for column, name in enumerate(problem.density.names):
        if name in problem.population:
            out[:, :, column] = problem.priors[name].coordinate(problem.population[name].ravel()[pick])
    return out


def lockstep(kernels: Sequence[LockstepKernel], evaluate: Callable[[np.ndarray, Sequence[int]], Evaluation],
             step: Callable[[Mapping[int, np.ndarray]], None] | None = None) -> None:
    """Runs chains together to the posterior, with all their particles in one call. `evaluate`: particles of some chains, concatenated, and
    the indices of those chains -> log prior, log likelihood; `step`: called after each call with the active chains. Raises ValueError: no
    particle of the start has a finite likelihood."""
    started = False
    runs = [kernel.run() for kernel in kernels]
    pending = {i: next(run) for i, run in enumerate(runs)}
    while pending:
        prior, likelihood = evaluate(np.concatenate(list(pending.values())), list(pending))
        if not (started or np.isfinite(likelihood).any()):
            raise ValueError("no particle has a finite likelihood")
        started = True
        first = 0
        for i in list(pending):
            part = slice(first, first + len(pending[i]))
            first = part.stop
            try:
                pending[i] = runs[i].send((prior[part], likelihood[part]))
            except StopIteration:
                del pending[i]
        if step is not None:
            step(pending)


def together(density: PopulationDensity, evaluate: Callable[[np.ndarray, Sequence[int]], Evaluation], populations: np.ndarray,
             seeds: Sequence[np.random.SeedSequence], *, steps: int, final_steps: int) -> np.ndarray:
    """Runs one chain for each data set; see `lfdm_ros.samplers.sampler.Together`."""
    kernel = LockstepKernel(draws=populations.shape[1], density=density, steps=steps, final_steps=final_steps)
    kernels = [kernel.fresh(np.random.default_rng(child), population) for child, population in zip(seeds, populations)]
    lockstep(kernels, evaluate)
    return np.array([kernel.tempered_posterior for kernel in kernels])


def sample(density: PopulationDensity, *, draws: int, chains: int, seed: np.random.SeedSequence, steps: int = STEPS,
           final_steps: int = FINAL_STEPS, report: Report | None = None, population: np.ndarray | None = None) -> SmcResult:
    """Runs SMC chains in lockstep; the same seed gives the same draws. `report`: called after every likelihood call; KeyboardInterrupt from
    it ends the run with the present populations, unless still at temperature 0; `population`: initial particles (C, N, D), drawn from the
    first density of `density`; by default from the prior. Raises ValueError: no particle of the start has a finite likelihood."""
    began, evaluations = time.perf_counter(), density.evaluations
    first = LockstepKernel(draws=draws, density=density, steps=steps, final_steps=final_steps)
    kernels = [first.fresh(np.random.default_rng(s), None if population is None else population[i])
               for i, s in enumerate(seed.spawn(chains))]
    clock = _RunClock(kernels, steps, final_steps, began)

    def step(pending: Mapping[int, np.ndarray]) -> None:
        if report is not None:
            report(clock.read(pending, density.evaluations - evaluations))

    try:
        lockstep(kernels, lambda particles, _: density(particles), step)
    except KeyboardInterrupt:
        if not all(kernel.betas for kernel in kernels):
            raise
    particles = np.concatenate([kernel.tempered_posterior for kernel in kernels])
    flat = density.constrain(particles)
    updated = density.log_likelihood(particles) if population is not None else np.concatenate([k.likelihood_logp for k in kernels])
    return SmcResult(draws={name: values.reshape(chains, draws) for name, values in flat.items()},
                     log_likelihood=updated.reshape(chains, draws),
                     log_evidence=np.array([kernel.log_marginal_likelihood for kernel in kernels], float),
                     betas=[kernel.betas for kernel in kernels], acceptance=np.array([kernel.acceptance for kernel in kernels]),
                     ancestors=np.array([kernel.ancestors for kernel in kernels]),
                     evaluations=density.evaluations - evaluations, seconds=time.perf_counter() - began)


class _RunClock:
    """Estimator of the remaining time: temperatures rise about geometrically, with equal cost of all moves."""

    def __init__(self, kernels: Sequence[LockstepKernel], steps: int, final_steps: int, began: float):
        self._kernels, self._steps, self._final, self._began = kernels, steps, final_steps, began
        self._calls = 0
        self._progress = 0.0
        self._ess = (0, float("nan"))  # number of temperatures, and ESS then

    def read(self, pending: Mapping[int, np.ndarray], evaluations: int) -> SamplerProgress:
        self._calls += 1
        slowest = min(self._kernels, key=lambda kernel: kernel.beta)
        if not pending:
            return self._state(1.0, 0.0, evaluations)
        if len(slowest.betas) < 2:
            return self._state(float(slowest.beta), float("nan"), evaluations)
        rate = np.log(slowest.betas[-1] / slowest.betas[0]) / (len(slowest.betas) - 1)
        temperatures = max(len(slowest.betas) + np.log(1.0 / slowest.betas[-1]) / rate, slowest.iteration)
        total = 1 + (temperatures - 1) * self._steps + self._final
        # Monotonic progress.
        self._progress = max(self._progress, min(0.99, self._calls / total))
        spent = time.perf_counter() - self._began
        return self._state(float(slowest.beta), spent / self._progress - spent, evaluations)

    def _state(self, temperature: float, remaining: float, evaluations: int) -> SamplerProgress:
        # The temperature is that of the slowest chain.
        done = min(len(kernel.betas) for kernel in self._kernels)
        if done > self._ess[0]:
            self._ess = done, self._min_ess()
        return SamplerProgress(temperature, self._progress, remaining, evaluations, f"temperature {temperature:.2g}, {evaluations} runs",
                               self._ess[1])

    def _min_ess(self) -> float:
        particles = np.array([kernel.tempered_posterior for kernel in self._kernels])
        ancestors = np.array([kernel.ancestors for kernel in self._kernels])
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nanmin([values.var() / genealogical_error(values, ancestors) ** 2 for values in np.moveaxis(particles, 2, 0)]))
