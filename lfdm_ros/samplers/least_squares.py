"""Least squares with Gaussian intervals at the optimum (Laplace's approximation): seconds in place of minutes of a sampler.

The optimum of the default objective is the mode of the posterior of paper 000, eq. 3. With the errors e_c of group c,

    minimise over q:  sum_c |e_c(q)|^2 / sigma_c^2 + sum_j r_j(q_j)^2,

with the residual r_j of prior j, and the mode sigma_c given those errors: the two alternate until convergence. If neighbouring errors are
correlated, e_c is whitened with the correlation rho_c, estimated with sigma_c (Cochrane and Orcutt 1949). Unknowns are optimised in the
coordinate of their priors (a logarithm for some) in units of the prior's standard deviation. In these units the Fisher information
F = sum_c J_c' J_c / sigma_c^2 measures the identifiability: along an eigenvector of eigenvalue w the posterior is 1 / sqrt(1 + w) times as
wide as the prior, whose curvature is the 1 (for a uniform prior that of a Gaussian of equal width).

The draws of the Gaussian are resampled with Pareto-smoothed importance weights of the posterior, as the Gaussian may extend to impossible
vehicles, such as a stiffness near 0.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import optimize

from lfdm_ros.inference.gaussian import ErrorGroup, misfit, scatter
from lfdm_ros.inference.identifiability import INFORMED, information_root, whiten
from lfdm_ros.inference.model import ErrorPriors
from lfdm_ros.inference.plan import RHO, SIGMA
from lfdm_ros.inference.priors import Prior
from lfdm_ros.libraries import arviz
from lfdm_ros.samplers.sampler import Problem, Report, SamplerProgress, SampleRun

PARETO_LIMIT = 0.7  # above it importance weights, and hence the corrected approximation, are unreliable (Vehtari et al. 2024)
SHARE_EFFECTIVE, MIN_EFFECTIVE = 0.1, 100.0  # minimum effective draws above that limit: share, and number
NO_WEIGHT = 1e-3  # of the mean weight


@dataclass(frozen=True)
class Weighed:
    """Draws of an approximation with importance weights.

    weights (n,), of sum 1; pareto_k: shape of the tail of the raw weights; power: of the density ratio, below 1 for a minimum number of
    effective draws; effective: effective number of draws; without_weight: number of draws of negligible weight.
    """

    weights: np.ndarray
    pareto_k: float
    power: float

    @property
    def effective(self) -> float:
        return float(1.0 / (self.weights**2).sum())

    @property
    def without_weight(self) -> int:
        return int((self.weights < NO_WEIGHT / len(self.weights)).sum())

    def resample(self, rng: np.random.Generator) -> np.ndarray:
        """Draws the indices (n,) of equally weighted draws in random order, by systematic resampling."""
        count = len(self.weights)
        edges = np.cumsum(self.weights)
        return rng.permutation(np.minimum(np.searchsorted(edges / edges[-1], (np.arange(count) + rng.uniform()) / count), count - 1))


def weigh(log_weights: np.ndarray, alike: bool = False) -> Weighed:
    """Computes Pareto-smoothed importance weights (Vehtari et al. 2024) from log density minus that of the approximation (n,).

    For a heavy tail (k above PARETO_LIMIT) the correction is partial: the largest power of the weights with enough effective draws, as a
    step of annealed importance sampling (Neal 2001). Draws with a millionth of the expected density lose their weight in any case. `alike`:
    gives equal weights to possible draws, as they are not from this density.
    """
    possible = np.isfinite(log_weights)
    if not possible.any():
        return Weighed(np.full(len(log_weights), 1.0 / len(log_weights)), float("inf"), 0.0)
    raw = np.where(possible, log_weights, -1e300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the caller reports a heavy tail
        smoothed, shape = arviz().psislw(raw)
    shape = float(shape)
    if alike:
        return Weighed(possible / possible.sum(), shape, 0.0)
    if shape <= PARETO_LIMIT:
        return Weighed(_normalised(np.asarray(smoothed)), shape, 1.0)
    enough = min(0.9 * possible.sum(), max(MIN_EFFECTIVE, SHARE_EFFECTIVE * len(raw)))
    low, high = 0.0, 1.0
    for _ in range(40):
        power = 0.5 * (low + high)
        weights = _normalised(power * raw)
        low, high = (power, high) if 1.0 / (weights**2).sum() >= enough else (low, power)
    return Weighed(_normalised(low * raw), shape, low)


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


START_DRAWS = 64  # from the prior, candidates for the start besides the vehicle's values
DIFFERENCE = 1e-4  # of central differences, in standard deviations of the prior
TOLERANCE = 1e-10  # of objective, step and gradient
NOISE_TOLERANCE = 1e-6  # relative change of the noise, for the alternation with the errors
NOISE_ROUNDS = 50
WEIGHED = 256  # draws between two reports
GIVE_UP = 1000  # maximum rounds of rejection sampling within the bounds


@dataclass(frozen=True)
class _Noise:
    """Mode of one group's noise: standard deviation, and correlation of neighbours."""

    sigma: float
    rho: float = 0.0


@dataclass(frozen=True)
class _Optimum:
    x: np.ndarray
    noise: tuple[_Noise, ...]  # by group
    iterations: int
    message: str


def run(problem: Problem, *, draws: int, chains: int, seed: np.random.SeedSequence, report: Report | None) -> SampleRun:
    """Optimises the stage's objective and draws from the Gaussian at the optimum; see `lfdm_ros.samplers.sampler.Sample`."""
    began, rng = time.perf_counter(), np.random.default_rng(seed)
    fit = _Fit(problem, report)
    start = fit.initial_guess()
    optimum = fit.minimise(start if problem.objective.minimiser == "powell" else fit.best_of(start, rng))
    weights, directions = np.linalg.eigh(fit.fisher(optimum))
    weights = np.maximum(weights, 0.0)

    fit.progress(0.8, "intervals")
    count = draws * chains
    x = _draw_inside(optimum.x, directions / np.sqrt(1.0 + weights), fit.lower, fit.upper, count, rng)
    log_gaussian = -0.5 * (((x - optimum.x) @ directions) ** 2 * (1.0 + weights)).sum(axis=1)
    values = dict(zip(problem.unknowns, fit.values(x).T))
    for group, moments, mode in zip(problem.likelihood.groups, fit.moments(optimum.x), optimum.noise):
        drawn, log_noise = _draw_noise(problem.errors[group.label], moments, group, mode, count, rng)
        log_gaussian += log_noise
        values[SIGMA + group.label] = drawn[0]
        if problem.errors[group.label].correlation is not None:
            values[RHO + group.label] = drawn[1]
    priors = problem.priors
    points = np.column_stack([priors[name].coordinate(values[name]) for name in problem.density.names])
    log_prior, log_likelihood = np.empty(count), np.empty(count)
    for first in range(0, count, WEIGHED):
        fit.progress(0.8 + 0.19 * first / count, f"weighing draws, {first} of {count}")
        part = slice(first, first + WEIGHED)
        log_prior[part], log_likelihood[part] = problem.density(points[part])
    fit.runs += count
    weighed = weigh(log_prior + log_likelihood - log_gaussian, alike=problem.objective.scale != "noise")
    chosen = weighed.resample(rng)
    values, log_likelihood = {name: row[chosen] for name, row in values.items()}, log_likelihood[chosen]

    def named(x: np.ndarray) -> dict[str, float]:
        return {name: float(value) for name, value in zip(problem.unknowns, fit.values(x[None])[0])}

    begin, end = fit.objective(start, optimum.noise), fit.objective(optimum.x, optimum.noise)
    return SampleRun(
        draws={name: values[name].reshape(chains, draws) for name in priors}, log_likelihood=log_likelihood.reshape(chains, draws),
        point=named(optimum.x), point_is="least-squares optimum", evaluations=fit.runs, seconds=time.perf_counter() - began,
        statistics={
            "objective": {"scale": problem.objective.scale, "minimiser": problem.objective.minimiser, "start": begin, "optimum": end,
                          "start_at": named(start), "optimum_at": named(optimum.x)},
            "iterations": optimum.iterations, "ended": optimum.message, "pareto_k": weighed.pareto_k,
            "importance": {"power": weighed.power, "effective_draws": weighed.effective, "without_weight": weighed.without_weight},
            "information": [{"sd_over_prior_sd": float(_width(weight)), "direction": dict(zip(problem.unknowns, direction.tolist()))}
                            for weight, direction in zip(weights, directions.T)]},
        stored={"objective": ((), np.array(end))},
        account=f"least squares, {optimum.iterations} iterations, objective {begin:.6g} to {end:.6g}",
        warnings=_warnings(problem, weights, directions, weighed))


def mode(problem: Problem, report: Report | None = None) -> np.ndarray:
    """Finds the unknowns (Q,) at the posterior's mode. Raises ValueError: no draw of the prior can be simulated."""
    fit = _Fit(problem, report)
    return fit.values(fit.minimise(fit.best_of(fit.initial_guess(), np.random.default_rng(0))).x[None])[0]


class _Fit:
    """Errors of a stage in the coordinates of the search, x = coordinate / spread of the prior."""

    def __init__(self, problem: Problem, report: Report | None):
        self._problem, self._report = problem, report
        self._priors: Sequence[Prior] = tuple(problem.unknowns.values())
        self.spread = np.array([prior.spread() for prior in self._priors])
        with np.errstate(divide="ignore"):
            self.lower, self.upper = np.array([prior.coordinate(np.array(prior.bounds())) for prior in self._priors]).T / self.spread
        # One vector of errors over the groups, divided by `slices`.
        self._groups = problem.likelihood.groups
        self._slices = [slice(a, b) for a, b in pairwise(np.cumsum([0, *(group.count for group in self._groups)]).tolist())]
        self.runs = 0

    def values(self, x: np.ndarray) -> np.ndarray:
        """Computes q (N, Q) for x (N, Q)."""
        return np.column_stack([prior.value(column) for prior, column in zip(self._priors, (x * self.spread).T)])

    def errors(self, x: np.ndarray) -> np.ndarray:
        """Computes measured minus model (N, M) for x (N, Q)."""
        self.runs += len(x)
        return np.concatenate(self._problem.likelihood.errors(self.values(x)), axis=1)

    def moments(self, x: np.ndarray) -> np.ndarray:
        """Computes the moments of the errors at x (Q,), (G, 3)."""
        self.runs += 1
        return np.asarray(self._problem.likelihood.moments(self.values(x[None]))[0])

    def residuals(self, x: np.ndarray, noise: Sequence[_Noise]) -> np.ndarray:
        """Computes the residuals (N, R) at x (N, Q); the objective is their sum of squares."""
        error, scale = self.errors(x), self._problem.objective.scale
        if scale == "noise":
            deviations = [prior.deviation(column) for prior, column in zip(self._priors, (x * self.spread).T)]
            whitened = whiten(self._problem.likelihood, [error[:, part].T for part in self._slices], _pairs(noise)).T  # (N, M)
            return np.concatenate([whitened, np.column_stack(deviations)], axis=1)
        for c, part in enumerate(self._slices):
            if scale == "error_range":
                # The minimum is mapped to 0, as published.
                lowest, highest = error[:, part].min(axis=1), error[:, part].max(axis=1)
                error[:, part] = (error[:, part] - lowest[:, None]) / (highest - lowest)[:, None]
            else:
                error[:, part] /= self._problem.likelihood.measured(c).std()
        return error

    def objective(self, x: np.ndarray, noise: Sequence[_Noise]) -> float:
        return float((self.residuals(x[None], noise) ** 2).sum())

    def jacobian(self, x: np.ndarray, noise: Sequence[_Noise]) -> np.ndarray:
        """Computes the Jacobian of the residuals, (R, Q): exact for the likelihood, central differences for other objectives."""
        if self._problem.objective.scale != "noise":
            return self._slopes(lambda points: self.residuals(points, noise), x)
        deviations = self._slopes(lambda points: np.column_stack(
            [prior.deviation(column) for prior, column in zip(self._priors, (points * self.spread).T)]), x)
        return np.concatenate([self._information_root(x, noise), deviations])

    def fisher(self, optimum: _Optimum) -> np.ndarray:
        """Returns the information of the data at the optimum in units of the priors, (Q, Q)."""
        root = self._information_root(optimum.x, optimum.noise)
        return np.asarray(root.T @ root)

    def _information_root(self, x: np.ndarray, noise: Sequence[_Noise]) -> np.ndarray:
        self.runs += 1
        return information_root(self._problem.likelihood, self._priors, self.values(x[None])[0], _pairs(noise))

    def _slopes(self, function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        # Central differences (R, Q), one-sided at a bound, in one call of the simulator.
        steps = DIFFERENCE * np.eye(len(x))
        above, below = np.minimum(x + steps, self.upper), np.maximum(x - steps, self.lower)
        values = function(np.concatenate([above, below]))
        return ((values[: len(x)] - values[len(x):]) / np.diag(above - below)[:, None]).T

    def noise(self, x: np.ndarray) -> tuple[_Noise, ...]:
        """Returns the mode of the noise given the errors at x, by group."""
        return tuple(_noise_mode(self._problem.errors[group.label], moments, group)
                     for group, moments in zip(self._groups, self.moments(x)))

    def initial_guess(self) -> np.ndarray:
        """Returns x of the problem's start, with the prior's median for values that are missing or outside the prior."""
        medians = np.array([float(prior.frozen().median()) for prior in self._priors])
        bounds = np.array([prior.bounds() for prior in self._priors])
        inside = (self._problem.start > bounds[:, 0]) & (self._problem.start < bounds[:, 1])
        return self._search(np.where(inside, self._problem.start, medians))

    def best_of(self, start: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Selects the best of `start` and some draws from the prior, each with its optimal noise if that is estimated. Raises ValueError:
        none can be simulated."""
        q = np.column_stack([prior.frozen().rvs(START_DRAWS, random_state=rng) for prior in self._priors])
        x = np.column_stack([prior.coordinate(column) for prior, column in zip(self._priors, q.T)]) / self.spread
        x = np.concatenate([start[None], x])
        self.progress(0.0, "looking for a start")
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            if self._problem.objective.scale == "noise":
                squares = self._problem.likelihood.moments(self.values(x))[:, :, 0]
                self.runs += len(x)
                cost = np.log(squares) @ np.array([group.count for group in self._groups])
            else:
                cost = (self.residuals(x, [_Noise(1.0)] * len(self._groups)) ** 2).sum(axis=1)
        cost = np.where(np.isnan(cost), np.inf, cost)
        if np.isposinf(cost).all():
            raise ValueError("no draw of the priors can be simulated")
        return x[np.argmin(cost)]

    def minimise(self, x: np.ndarray) -> _Optimum:
        """Minimises from x (Q,). Raises ValueError: the start cannot be simulated."""
        if self._problem.objective.minimiser == "powell":
            return self._powell(x)
        noise, iterations = self.noise(x), 0
        if not all(np.isfinite(group.sigma) for group in noise):
            raise ValueError("the start of the search cannot be simulated")
        for _ in range(NOISE_ROUNDS):
            result = optimize.least_squares(self._reported_residuals, x, self.jacobian, args=(noise,), bounds=(self.lower, self.upper),
                                            ftol=TOLERANCE, xtol=TOLERANCE, gtol=TOLERANCE)
            x, previous, iterations = result.x, noise, iterations + int(result.njev or 0)
            noise = self.noise(x)
            change = [(np.log(new.sigma / old.sigma), new.rho - old.rho) for new, old in zip(noise, previous)]
            if self._problem.objective.scale != "noise" or np.abs(change).max() < NOISE_TOLERANCE:
                break
        return _Optimum(x, noise, iterations, result.message.strip("`"))

    def _powell(self, x: np.ndarray) -> _Optimum:
        # In SI units and without the minimiser's bounds, which change its search.
        bounds = np.array([prior.bounds() for prior in self._priors])
        noise = self.noise(x)

        def cost(q: np.ndarray) -> float:
            if ((q <= bounds[:, 0]) | (q >= bounds[:, 1])).any():
                return float("inf")
            total = float((self._reported_residuals(self._search(q), noise) ** 2).sum())
            return total if np.isfinite(total) else float("inf")

        result = optimize.minimize(cost, self.values(x[None])[0], method="Powell")
        x = self._search(result.x)
        return _Optimum(x, self.noise(x), int(result.nit), str(result.message))

    def _search(self, q: np.ndarray) -> np.ndarray:
        return np.array([prior.coordinate(value) for prior, value in zip(self._priors, q)]) / self.spread

    def _reported_residuals(self, x: np.ndarray, noise: Sequence[_Noise]) -> np.ndarray:
        residuals = self.residuals(x[None], noise)[0]
        # Without a known number of evaluations, this share increases monotonically below 1.
        self.progress(0.8 * (1.0 - 0.97**self.runs), f"objective {residuals @ residuals:.6g}, {self.runs} runs")
        return residuals

    def progress(self, progress: float, message: str) -> None:
        """Reports at temperature 1."""
        if self._report is not None:
            self._report(SamplerProgress(1.0, progress, float("nan"), self.runs, message))


def _pairs(noise: Sequence[_Noise]) -> list[tuple[float, float]]:
    return [(group.sigma, group.rho) for group in noise]


def _noise_cost(priors: ErrorPriors, moments: np.ndarray, group: ErrorGroup, log_sigma: float, rho: float) -> float:
    # Minus the log density of log sigma and rho.
    cost = group.weight * misfit(group, moments, log_sigma, rho) - priors.noise.frozen().logpdf(np.exp(log_sigma)) - log_sigma
    return float(cost if priors.correlation is None else cost - priors.correlation.frozen().logpdf(rho))


def _noise_mode(priors: ErrorPriors, moments: np.ndarray, group: ErrorGroup) -> _Noise:
    if not np.isfinite(moments).all():
        return _Noise(float("nan"))
    rho, sigma = 0.0, _sigma_mode(priors, moments, group, 0.0)
    if priors.correlation is None:
        return _Noise(sigma)
    lower, upper = priors.correlation.bounds()
    margin = 1e-9 * (upper - lower)
    for _ in range(NOISE_ROUNDS):
        log_sigma = np.log(sigma)
        result = optimize.minimize_scalar(lambda r, z=log_sigma: _noise_cost(priors, moments, group, z, r),
                                          bounds=(lower + margin, upper - margin), method="bounded", options={"xatol": 1e-12})
        change, rho = abs(result.x - rho), float(result.x)
        previous, sigma = sigma, _sigma_mode(priors, moments, group, rho)
        if change < 0.1 * NOISE_TOLERANCE and abs(np.log(sigma / previous)) < 0.1 * NOISE_TOLERANCE:
            break
    return _Noise(sigma, rho)


def _sigma_mode(priors: ErrorPriors, moments: np.ndarray, group: ErrorGroup, rho: float) -> float:
    lower, upper = np.log(_noise_bounds(priors.noise))
    centre = 0.5 * np.log(max(scatter(moments, rho) / (1.0 - rho * rho) / group.count, 1e-300))
    # The mode lies between that of the errors alone and that of the prior.
    away = np.log(float(priors.noise.frozen().median()))
    left, right = max(min(centre, away) - 1.0, lower), min(max(centre, away) + 1.0, upper)
    result = optimize.minimize_scalar(lambda z: _noise_cost(priors, moments, group, z, rho), bounds=(left, right), method="bounded",
                                      options={"xatol": 1e-9})
    return float(np.exp(result.x))


def _draw_noise(priors: ErrorPriors, moments: np.ndarray, group: ErrorGroup, mode: _Noise, count: int,
                rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    # Draws of sigma and rho from the Gaussian in log sigma and rho, and the log density of their coordinates up to a constant.
    steps = [1e-4, 1e-4 * (1.0 - mode.rho**2)][:1 if priors.correlation is None else 2]

    def cost(shift: np.ndarray) -> float:
        return _noise_cost(priors, moments, group, np.log(mode.sigma) + shift[0], mode.rho + (shift[1] if len(shift) > 1 else 0.0))

    axes = np.diag(steps)
    curvature = np.array([[cost(a + b) - cost(a - b) - cost(b - a) + cost(-a - b) for b in axes] for a in axes]) / (
        4.0 * np.outer(steps, steps))
    # At a bound, or with very few samples, the curvature may not be that of a maximum.
    if not np.isfinite(curvature).all() or np.linalg.eigvalsh(curvature).min() <= 0.0:
        curvature = group.weight * np.diag([2.0 * group.count, group.count / (1.0 - mode.rho**2)][:len(steps)])
    root = np.linalg.cholesky(np.linalg.inv(curvature))
    lower, upper = np.log(_noise_bounds(priors.noise))
    bounds = [(lower, upper)] + ([] if priors.correlation is None else [priors.correlation.bounds()])
    centre = np.array([np.log(mode.sigma), mode.rho][:len(steps)])
    below, above = np.array(bounds).T
    drawn = _draw_inside(centre, root, below, above, count, rng)
    z = np.linalg.solve(root, (drawn - centre).T)
    log_density = -0.5 * (z * z).sum(axis=0) - (0.0 if priors.noise.logarithmic else drawn[:, 0])
    return [np.exp(drawn[:, 0]), *drawn[:, 1:].T], log_density


def _noise_bounds(prior: Prior) -> np.ndarray:
    lower, upper = prior.bounds()
    return np.array([max(lower, 1e-300), min(upper, 1e300)])


def _draw_inside(centre: np.ndarray, root: np.ndarray, lower: np.ndarray, upper: np.ndarray, count: int,
                 rng: np.random.Generator) -> np.ndarray:
    """Draws (count, Q) from a Gaussian of covariance root root' truncated to the bounds. Raises ValueError: the Gaussian has hardly any
    mass between them."""
    draws = np.empty((0, len(centre)))
    for _ in range(GIVE_UP):
        new = centre + rng.standard_normal((count, len(centre))) @ root.T
        draws = np.concatenate([draws, new[((new >= lower) & (new <= upper)).all(axis=1)]])
        if len(draws) >= count:
            return draws[:count]
    raise ValueError("the intervals at the optimum lie outside the bounds of the priors")


def _width(weight: float) -> float:
    """Returns the posterior over the prior standard deviation along an eigenvector of the Fisher information."""
    return float(1.0 / np.sqrt(1.0 + weight))


def _warnings(problem: Problem, weights: np.ndarray, directions: np.ndarray, weighed: Weighed) -> tuple[str, ...]:
    out = ["intervals are Laplace's: the Gaussian of the likelihood's curvature at the optimum"
           + (", its draws weighed by the posterior's density" if problem.objective.scale == "noise" else "")]
    if problem.objective.scale != "noise":
        out.append(f"the objective '{problem.objective.scale}' is not the likelihood: the optimum need not be the likeliest point, and "
                   "neither priors nor noise weighed in finding it")
    elif weighed.power < 1.0:
        out.append(f"the posterior is not the Gaussian at the optimum (Pareto k {weighed.pareto_k:.2f}, above {PARETO_LIMIT}), whose draws "
                   f"reach it only in part (weights to the power {weighed.power:.2g}); use --sampler smc for intervals")
    for weight, direction in zip(weights, directions.T):
        if weight < INFORMED:
            out.append(f"the data do not tell {_combination(tuple(problem.unknowns), direction)} (each in standard deviations of its "
                       f"prior): it stays {_width(weight):.2f} times as wide as the prior")
    return tuple(out)


def _combination(names: Sequence[str], direction: np.ndarray) -> str:
    """Formats the main terms of a direction: '0.71 a - 0.71 b', or the name alone."""
    sign = np.sign(direction[np.abs(direction) > 0.99 * np.abs(direction).max()][0])
    terms = [(sign * d, name) for d, name in zip(direction, names) if abs(d) > 0.2]
    text = " ".join(f"{'-' if d < 0 else '+'} {abs(d):.2f} {name}" for d, name in terms).removeprefix("+ ")
    return text if len(terms) > 1 else terms[0][1]
