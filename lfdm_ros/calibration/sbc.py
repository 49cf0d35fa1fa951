"""Simulation-based calibration of the posterior's width. Talts et al. 2018, arXiv:1804.06788.

Truths are drawn from the priors of a stage, data are simulated with them on the stage's windows, inputs and initial states, and inferred
like recordings. If likelihood and sampler are right, the rank of a truth among its posterior draws is uniform. Truths are drawn by SciPy's
distributions, inference uses `Prior.log_density`, which is implemented independently: they check each other.

The band around the ECDF of the ranks holds the whole curve with a given probability (Säilynoja, Bürkner and Vehtari 2022, "Graphical test
for discrete uniformity", Statistics and Computing 32:32): the least of the pointwise binomial probabilities, whose distribution is
simulated. For V unknowns each is tested at LEVEL / V, so that a right stage fails with probability LEVEL at most.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from lfdm_ros import __version__
from lfdm_ros.calibration.checkpoint import result_key
from lfdm_ros.calibration.field_calibration import STAGE as FIELD_STAGE
from lfdm_ros.calibration.field_calibration import FieldRecipe
from lfdm_ros.calibration.stage import StageModel, stage_model
from lfdm_ros.errors import InputError, prefixing, reason
from lfdm_ros.files import replacing, write_text
from lfdm_ros.ground import DensePosterior, Observations
from lfdm_ros.inference.dataset import StageData
from lfdm_ros.inference.gaussian import ErrorGroup, correlated_noise
from lfdm_ros.inference.likelihood import Likelihood, RolloutLikelihood
from lfdm_ros.inference.model import BatchedDensity, FieldPriorDensity, PopulationDensity
from lfdm_ros.inference.plan import RHO, SIGMA, Recipe, Stage
from lfdm_ros.inference.priors import Prior
from lfdm_ros.libraries import arviz
from lfdm_ros.samplers.sampler import DEFAULT, SMC, Evaluation, Problem, Sampler, get_sampler, samplers_with
from lfdm_ros.scheduling import Scheduler

GAUSSIAN, PUBLISHED = "gaussian", "published"
LEVEL = 0.05  # probability that a correct stage fails
FAR = 5.0  # |z| that does not occur by chance
BINS = 20
TOGETHER, ALONE = 25, 5  # replications of a block: in lockstep, or one by one
REDRAWS = 1000  # of one truth that cannot be simulated
SIMULATED = 20_000  # samples behind a band


@dataclass(frozen=True)
class Design:
    """Study of a stage: its data sets and the inference. Plain data, so it can go to another process.

    options: of the sampler, that are not as they are by default. likelihood: `published` puts in that of the code published with paper
    000, which must fail.
    """

    recipe: Recipe
    stage: Stage
    data: StageData
    sampler: str = DEFAULT
    draws: int = 200
    seed: int = 1
    likelihood: str = GAUSSIAN
    options: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def method(self) -> Sampler:
        """The sampler with its options. Raises InputError as `get_sampler`."""
        return get_sampler(self.sampler, self.options)

    def __getstate__(self) -> dict[str, Any]:
        # Workers look the sampler up by name: its functions may not be picklable.
        return {name: value for name, value in self.__dict__.items() if name != "method"}

    @property
    def size(self) -> int:
        """Replications of a block."""
        return TOGETHER if self.method.together else ALONE

    @cached_property
    def key(self) -> str:
        vehicle = self.recipe.start_vehicle
        return result_key({
            "recipe": self.recipe.text, "model": vehicle.spec(self.recipe.model), "vehicle": dict(vehicle.parameters),
            "stage": self.stage.name, "sampler": self.sampler, "options": self.method.settings, "draws": self.draws, "seed": self.seed,
            "likelihood": self.likelihood, "recordings": sorted(self.data.recordings)})

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def title(self) -> str:
        return f"{self.name}, {self.sampler}, {self.likelihood}"

    @property
    def head(self) -> dict[str, Any]:
        return {"recipe": self.recipe.path.name, "model": self.recipe.model, "sampler": self.sampler, "likelihood": self.likelihood,
                "seed": self.seed, "draws": self.draws, "settings": self.method.settings}

    def check(self) -> None:
        """Raises InputError for settings that do not go together."""
        if self.likelihood == PUBLISHED and not self.method.together:
            raise InputError(f"likelihood {PUBLISHED} runs with sampler {samplers_with('together')} only, not {self.sampler}")
        if self.likelihood == PUBLISHED and any(channel.correlation for channel in self.stage.channels.values()):
            raise InputError(f"{self.recipe.path}: stages ({self.name}): likelihood {PUBLISHED} has no correlated errors; take a stage "
                             "with errors: white")

    def block(self, replications: range) -> Replications:
        return run_block(self, replications)


@dataclass(frozen=True)
class Replications:
    """R of them. By variable (R, V): u, normalised ranks of the truths in (0, 1); z, (posterior mean - truth) / posterior sd in the
    coordinate of the search (logarithm where that has one); truths. redrawn: truths that could not be simulated and were drawn again."""

    names: tuple[str, ...]
    u: np.ndarray
    z: np.ndarray
    truths: np.ndarray
    redrawn: int
    evaluations: int
    seconds: float

    @staticmethod
    def joined(parts: Sequence[Replications]) -> Replications:
        return Replications(parts[0].names, u=np.concatenate([p.u for p in parts]), z=np.concatenate([p.z for p in parts]),
                            truths=np.concatenate([p.truths for p in parts]), redrawn=sum(p.redrawn for p in parts),
                            evaluations=sum(p.evaluations for p in parts), seconds=sum(p.seconds for p in parts))


def _seeds(design: StudyDesign, replications: range) -> list[list[np.random.SeedSequence]]:
    """Returns the seeds of truth, data and inference of each replication, the same in any block."""
    return [np.random.SeedSequence(design.seed, spawn_key=(0, number)).spawn(3) for number in replications]


def _prior_populations(design: StudyDesign, density: PopulationDensity, replications: range) -> np.ndarray:
    """Draws particles (R, N, D) from the prior for a whole block, so that those of a replication do not depend on the others."""
    block, first = divmod(replications.start, design.size)
    rng = np.random.default_rng(np.random.SeedSequence(design.seed, spawn_key=(1, block)))
    return density.draw_prior(design.size * design.draws, rng).reshape(design.size, design.draws, -1)[first:first + len(replications)]


def _scored(priors: Mapping[str, Prior], posteriors: Sequence[Mapping[str, np.ndarray]], truths: Mapping[str, np.ndarray],
            rngs: Sequence[np.random.Generator], redrawn: int, evaluations: int, began: float) -> Replications:
    """Returns ranks and z of the truths among the draws of each posterior."""
    u, z = np.empty((2, len(posteriors), len(priors)))
    for i, draws in enumerate(posteriors):
        for v, (name, prior) in enumerate(priors.items()):
            u[i, v], z[i, v] = score(prior, draws[name], truths[name][i], rngs[i])
    return Replications(tuple(priors), u, z, np.column_stack([truths[name] for name in priors]), redrawn, evaluations,
                        time.perf_counter() - began)


class SimulatedLikelihood:
    """Likelihoods of one design with different data as one, for one compiled density.

    `present` are evaluated next, each for its number of rows in `shares`; None: the first for all.
    """

    def __init__(self, first: Likelihood):
        self.groups: tuple[ErrorGroup, ...] = first.groups
        self.present: Sequence[Likelihood] = [first]
        self.shares: Sequence[int] | None = None
        self.latest: Sequence[np.ndarray] = ()  # moments by share

    def moments(self, q: np.ndarray) -> np.ndarray:
        """Computes A, B, D of each group (N, G, 3) for q (N, Q)."""
        parts = [q] if self.shares is None else np.split(q, np.cumsum(self.shares)[:-1])
        self.latest = [one.moments(part) if len(part) else np.empty((0, len(self.groups), 3)) for one, part in zip(self.present, parts)]
        return np.concatenate(self.latest)

    # Interface for samplers that work on one data set at a time.

    def moments_and_slopes(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.present[0].moments_and_slopes(q)

    def measured(self, group: int) -> np.ndarray:
        return self.present[0].measured(group)

    def errors(self, q: np.ndarray) -> list[np.ndarray]:
        return self.present[0].errors(q)

    def error_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        return self.present[0].error_slopes(q)

    def runs(self, group: int) -> np.ndarray:
        return self.present[0].runs(group)


class Bench:
    """Density and kernel that all blocks of a design share, compiled once in a process."""

    def __init__(self, design: Design):
        self.model = stage_model(design.stage, design.data, design.recipe, design.recipe.start_vehicle)
        self.likelihood = SimulatedLikelihood(self.model.likelihood)
        self.density = BatchedDensity(self.likelihood, self.model.unknowns, self.model.errors)
        self.problem = Problem(self.likelihood, self.density, self.model.unknowns, self.model.errors, self.model.start,
                               design.stage.objective)
        self.priors: Mapping[str, Prior] = self.problem.priors

    @cached_property
    def frozen(self) -> dict[str, Any]:
        """The priors as SciPy has them."""
        return {name: prior.frozen() for name, prior in self.priors.items()}


_BENCHES: dict[str, Bench] = {}  # at most one, by the key of its design


def run_block(design: Design, replications: range) -> Replications:
    """Draws truths, simulates and infers; `replications`: their numbers, within one block of the design. Raises InputError: truths of these
    priors cannot be simulated."""
    began = time.perf_counter()
    if design.key not in _BENCHES:
        _BENCHES.clear()
        _BENCHES[design.key] = Bench(design)
    bench, seeds = _BENCHES[design.key], _seeds(design, replications)
    truths, redrawn = draw_truths(design, bench, [np.random.default_rng(child[0]) for child in seeds])
    data_rngs = [np.random.default_rng(child[1]) for child in seeds]
    models = [stage_model(design.stage, data, design.recipe, design.recipe.start_vehicle)
              for data in simulate(design.data, bench.model, truths, data_rngs)]
    before = bench.density.evaluations
    evaluations = 0  # besides those of the density
    inference_seeds = [child[2] for child in seeds]
    if design.method.together:
        draws = _infer_together(design, bench, models, replications, inference_seeds)
    else:
        draws, evaluations = _infer_alone(design, bench, models, inference_seeds)
    evaluations += bench.density.evaluations - before
    return _scored(bench.priors, draws, truths, data_rngs, redrawn, evaluations, began)


def draw_truths(design: Design, bench: Bench, rngs: Sequence[np.random.Generator]) -> tuple[dict[str, np.ndarray], int]:
    # The likelihood is zero where a run diverges, which restricts the prior to finite runs; truths must be drawn from the same prior.
    values = {name: np.empty(len(rngs)) for name in bench.priors}
    open_, redrawn = np.arange(len(rngs)), 0
    for _ in range(REDRAWS):
        for i in map(int, open_):
            for name, distribution in bench.frozen.items():
                values[name][i] = distribution.rvs(random_state=rngs[i])
        q = np.column_stack([values[name][open_] for name in bench.model.unknowns])
        open_ = open_[~np.isfinite(bench.model.likelihood.moments(q)).all(axis=(1, 2))]
        if not len(open_):
            return values, redrawn
        redrawn += len(open_)
    raise InputError(f"{design.recipe.path}: stages ({design.stage.name}): truths of these priors diverge {REDRAWS} times in a row; "
                     "narrow the priors")


def simulate(data: StageData, model: StageModel, truths: Mapping[str, np.ndarray], rngs: Sequence[np.random.Generator]) -> list[StageData]:
    """Simulates the data sets of each truth: the model's responses at the measured samples, with independent noise."""
    responses = model.likelihood.responses(np.column_stack([truths[name] for name in model.unknowns]))
    out = []
    for i, rng in enumerate(rngs):
        fitted = []
        for (segment, dataset), piece, response in zip(data.fitted, model.likelihood.pieces, responses):
            observed = np.full_like(dataset.observed, np.nan)
            for c, (channel, column) in enumerate(zip(segment.channels, piece.columns)):
                sigma, rho = truths[SIGMA + channel.label][i], truths.get(RHO + channel.label, np.zeros(len(rngs)))[i]
                firsts, lasts = column.ends[:column.runs], column.ends[column.runs:]
                noise = np.concatenate([correlated_noise(rng, (last - first + 1,), sigma, rho) for first, last in zip(firsts, lasts)])
                observed[column.rows, c] = response[i, column.rows, c] + noise
            fitted.append((segment, replace(dataset, observed=observed)))
        out.append(StageData(tuple(fitted)))
    return out


def _infer_together(design: Design, bench: Bench, models: Sequence[StageModel], replications: range,
                    seeds: Sequence[np.random.SeedSequence]) -> list[dict[str, np.ndarray]]:
    density, together = bench.density, design.method.together
    assert together is not None
    populations = _prior_populations(design, density, replications)
    likelihoods = [model.likelihood for model in models]
    published = [PublishedLikelihood(likelihood) for likelihood in likelihoods] if design.likelihood == PUBLISHED else []

    def evaluate(particles: np.ndarray, chains: Sequence[int]) -> Evaluation:
        # Outside the priors the likelihood is not evaluated.
        inside = density.log_prior(particles) > -np.inf
        bench.likelihood.present = [likelihoods[chain] for chain in chains]
        bench.likelihood.shares = inside.reshape(len(chains), -1).sum(axis=1).tolist()
        prior, likelihood = density(particles)
        if published:
            values = density.constrain(particles[inside])
            sigma = np.column_stack([values[SIGMA + group.label] for group in bench.likelihood.groups])
            shares = np.split(sigma, np.cumsum(bench.likelihood.shares)[:-1])
            likelihood[inside] = np.concatenate([published[chain](moments, share) for chain, moments, share in
                                                 zip(chains, bench.likelihood.latest, shares)])
        return prior, likelihood

    try:
        draws = together(density, evaluate, populations, seeds, **design.method.settings)
    finally:
        bench.likelihood.shares = None
    return [density.constrain(population) for population in draws]


def _infer_alone(design: Design, bench: Bench, models: Sequence[StageModel],
                 seeds: Sequence[np.random.SeedSequence]) -> tuple[list[dict[str, np.ndarray]], int]:
    draws, evaluations = [], 0
    for model, seed in zip(models, seeds):
        bench.likelihood.present = [model.likelihood]
        before = bench.density.evaluations
        run = design.method(replace(bench.problem, start=model.start), draws=design.draws, chains=1, seed=seed, report=None)
        evaluations += run.evaluations - (bench.density.evaluations - before)  # those of the density are counted by the caller
        draws.append({name: values.ravel() if design.method.independent else _thinned(values) for name, values in run.draws.items()})
    return draws, evaluations


def _thinned(values: np.ndarray) -> np.ndarray:
    # Draws of a Markov chain remember each other, and ranks among them pile up at the ends; every k-th is as good as independent.
    flat = values.ravel()
    return flat[:: max(1, round(len(flat) / max(1.0, float(arviz().ess(values)))))]


def score(prior: Prior, draws: np.ndarray, truth: float, rng: np.random.Generator) -> tuple[float, float]:
    """Computes the normalised rank of a truth among draws (N,), made continuous, and z."""
    x, true = np.asarray(prior.coordinate(draws)), prior.coordinate(truth)
    spread = float(x.std(ddof=1))
    return ((draws < truth).sum() + rng.random()) / (len(draws) + 1), float((x.mean() - true) / spread) if spread else np.inf


@dataclass(frozen=True)
class FieldDesign:
    """Study of a friction field: recipe and places (n, 2) [m] of the survey.

    A field of each truth is drawn at the places by the root of its dense covariance, measured with its noise and inferred by SMC.
    """

    recipe: FieldRecipe
    places: np.ndarray = field(repr=False)
    draws: int = 200
    seed: int = 1
    options: Mapping[str, float] = field(default_factory=dict)
    name: str = FIELD_STAGE
    size: int = TOGETHER

    @property
    def title(self) -> str:
        return f"{self.recipe.path.stem}, {len(self.places)} places"

    @property
    def settings(self) -> Mapping[str, float]:
        return SMC.having(self.options).settings

    @property
    def head(self) -> dict[str, Any]:
        return {"recipe": self.recipe.path.name, "sampler": SMC.name, "likelihood": GAUSSIAN, "seed": self.seed, "draws": self.draws,
                "settings": dict(self.settings), "places": len(self.places)}

    @cached_property
    def key(self) -> str:
        return result_key({"recipe": self.recipe.text, "places": self.places.tolist(), "draws": self.draws, "seed": self.seed,
                           "settings": dict(self.settings)})

    def check(self) -> None:
        """Accepts any settings."""

    def block(self, replications: range) -> Replications:
        """Draws truths and surveys of them, and infers."""
        from lfdm_ros.samplers import smc

        began, recipe = time.perf_counter(), self.recipe
        seeds = _seeds(self, replications)
        truths = {name: np.array([prior.frozen().rvs(random_state=np.random.default_rng([*child[0].generate_state(4), k]))
                                  for child in seeds]) for k, (name, prior) in enumerate(recipe.unknowns.items())}
        rngs = [np.random.default_rng(child[1]) for child in seeds]
        latent = np.empty((len(rngs), len(self.places)))
        for i, rng in enumerate(rngs):  # the values that a survey of one field measures
            prior = recipe.fixed.having(**{name: float(values[i]) for name, values in truths.items()})
            latent[i] = DensePosterior(prior, self.places).draw(1, rng)[0] + prior.sigma_n * rng.standard_normal(len(self.places))
        first = Observations(self.places, latent[0], np.full(len(self.places), recipe.fixed.sigma_n))
        density = FieldPriorDensity(first, recipe.unknowns, recipe.fixed)

        def evaluate(particles: np.ndarray, chains: Sequence[int]) -> Evaluation:
            return density.of(particles, np.repeat(latent[list(chains)], len(particles) // len(chains), axis=0))

        found = smc.together(density, evaluate, _prior_populations(self, density, replications), [child[2] for child in seeds],
                             steps=int(self.settings["steps"]), final_steps=int(self.settings["final_steps"]))
        return _scored(recipe.unknowns, [density.constrain(q) for q in found], truths, rngs, 0, density.evaluations, began)


StudyDesign = Design | FieldDesign  # work that a study repeats; plain data, so it can go to another process


class PublishedLikelihood:
    """Likelihood of the code published with paper 000, for one data set: a known error that the check must find.

    sum_c [ -n_c log(2 pi sigma_c^2) / 2 - sum_j A_j / (2 sigma_c^2) ] / |y_c|: the squared errors of all channels with each sigma, and
    each channel weighted by the inverse norm of its data.
    """

    def __init__(self, likelihood: RolloutLikelihood):
        self._counts = np.array([group.count for group in likelihood.groups])
        self._weights = 1.0 / np.array([np.linalg.norm(likelihood.measured(g)) for g in range(len(likelihood.groups))])

    def __call__(self, moments: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """Computes log likelihood (N,) for moments (N, G, 3), sigma (N, G)."""
        total = moments[:, :, 0].sum(axis=1, keepdims=True)
        each = self._weights * (-0.5 * self._counts * np.log(2.0 * np.pi * sigma**2) - total / (2.0 * sigma**2))
        return np.asarray(each.sum(axis=1))


class Band:
    """Simultaneous band of the ECDF of `count` uniform values, see the module.

    ArviZ has the same band (the tests compare), but no p; here one simulation gives both, so that verdict and figure agree.
    """

    def __init__(self, count: int):
        self.count = count
        self.places = np.arange(1, min(count, 100)) / min(count, 100)  # (K,)
        # Probability of at most -1, 0, .. values below each place.
        table = np.asarray(stats.binom.cdf(np.arange(-1, count + 1)[:, None], count, self.places))
        self._pointwise = 2.0 * np.minimum(table[1:], 1.0 - table[:-1])  # (count + 1, K)
        rng = np.random.default_rng(20220418)
        self._minima = np.sort([self._smallest(rng.random(count)) for _ in range(SIMULATED)])

    def _below(self, u: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.sort(u), self.places, side="right")

    def _smallest(self, u: np.ndarray) -> float:
        return float(self._pointwise[self._below(u), np.arange(len(self.places))].min())

    def p_value(self, u: np.ndarray) -> float:
        """Returns the probability that uniform values deviate from the diagonal as far as u (count,)."""
        return float((1 + np.searchsorted(self._minima, self._smallest(u), side="right")) / (1 + SIMULATED))

    def difference(self, u: np.ndarray) -> np.ndarray:
        """Returns the ECDF minus the diagonal at `places`."""
        return self._below(u) / self.count - self.places

    def bounds(self, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Returns the bounds of the difference, which leaves them anywhere with probability `level`."""
        pointwise = np.quantile(self._minima, level)
        low, high = (np.asarray(stats.binom.ppf(q, self.count, self.places)) / self.count - self.places
                     for q in (pointwise / 2, 1 - pointwise / 2))
        return low, high


@lru_cache(maxsize=4)
def band_of(count: int) -> Band:
    """Returns the band for `count` replications; the same each time."""
    return Band(count)


def assess(found: Replications) -> dict[str, Any]:
    """Judges a stage: for each variable p (of the simultaneous band), variance (times 12; 1 if uniform, more: too narrow),
    chi2 and its p, far (share with |z| > FAR), shares of truths in central 50 and 90 % intervals, and passes, at LEVEL over the number of
    variables."""
    count, variables = found.u.shape
    band = band_of(count)
    rows: dict[str, Any] = {}
    for name, u, z in zip(found.names, found.u.T, found.z.T):
        chi2 = float(((np.histogram(u, np.linspace(0.0, 1.0, BINS + 1))[0] - count / BINS) ** 2).sum() / (count / BINS))
        p = band.p_value(u)
        rows[name] = {"p": p, "variance": float(12.0 * u.var()), "chi2": chi2, "chi2_p": float(stats.chi2.sf(chi2, BINS - 1)),
                      "far": float((np.abs(z) > FAR).mean()), "z_mean": float(z.mean()), "z_sd": float(z.std()),
                      **{f"coverage_{share}": float((np.abs(u - 0.5) < 0.005 * share).mean()) for share in (50, 90)},
                      "passes": bool(p > LEVEL / variables)}
    return {"replications": count, "redrawn": found.redrawn, "evaluations": found.evaluations, "seconds": found.seconds,
            "level_of_each": LEVEL / variables, "passes": all(row["passes"] for row in rows.values()), "unknowns": rows}


def plot(found: Replications, title: str) -> Any:
    """Draws the ECDF differences of all variables with their bands, as a Matplotlib figure."""
    from matplotlib.figure import Figure

    from lfdm_ros.calibration.plots import POSTERIOR, PRIOR

    band = band_of(len(found.u))
    low, high = band.bounds(LEVEL / len(found.names))
    columns = min(3, len(found.names))
    rows = -(-len(found.names) // columns)
    figure = Figure(figsize=(3.4 * columns, 0.4 + 1.9 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(found.names):]:
        axis.set_visible(False)
    for axis, name, u in zip(axes, found.names, found.u.T):
        axis.fill_between(band.places, low, high, color=POSTERIOR, alpha=0.2, lw=0, step="mid")
        axis.plot(band.places, band.difference(u), color=POSTERIOR if band.p_value(u) > LEVEL / len(found.names) else PRIOR, lw=1.2)
        axis.axhline(0.0, color="black", lw=0.5)
        axis.set_title(name, fontsize=8)
        axis.tick_params(labelsize=7)
    figure.suptitle(f"{title}: ECDF of the ranks minus uniform, {len(found.u)} replications", fontsize=9)
    return figure


@dataclass(frozen=True)
class StudyProgress:
    """Progress of a study: the stage, replications done and in all, seconds that remain (NaN: unknown)."""

    stage: str
    done: int
    total: int
    remaining: float = float("nan")


def study(designs: Sequence[StudyDesign], out: str | os.PathLike[str], *, replications: int, scheduler: Scheduler,
          progress: Callable[[StudyProgress], None] | None = None) -> dict[str, Any]:
    """Runs the replications of each design and writes results.json, which it returns, and sbc_STAGE.png and .svg to `out`.

    Blocks that an earlier study with the same settings finished are taken from `out`, so more replications can be added. Raises InputError:
    inconsistent settings, or `out` cannot be written; KeyboardInterrupt: stopped; results.json has the finished blocks.
    """
    from lfdm_ros.reports import save_pictures

    for design in designs:
        design.check()
    directory = Path(out)
    block_folder = directory / "blocks"
    with prefixing(f"cannot write to {directory}", OSError):
        block_folder.mkdir(parents=True, exist_ok=True)
    outcome: dict[str, Any] = {"study": "sbc", "version": __version__, **designs[0].head, "asked": replications, "interrupted": False,
                               "level": LEVEL, "stages": {}}

    def write() -> None:
        write_text(directory / "results.json", json.dumps(outcome, indent=1) + "\n")

    try:
        for design in designs:
            parts: dict[int, Replications] = {}
            try:
                _run(design, block_folder, replications, scheduler, progress, parts)
            finally:
                if parts:
                    found = Replications.joined([parts[number] for number in sorted(parts)])
                    outcome["stages"][design.name] = assess(found)
                    save_pictures(plot(found, design.title), directory / f"sbc_{design.name}")
                    write()
    except KeyboardInterrupt:
        outcome["interrupted"] = True
        write()
        raise
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {reason(error)}") from None
    return outcome


def _run(design: StudyDesign, folder: Path, replications: int, scheduler: Scheduler, progress: Callable[[StudyProgress], None] | None,
         parts: dict[int, Replications]) -> None:
    blocks = [range(first, min(first + design.size, replications)) for first in range(0, replications, design.size)]
    files = [folder / f"{design.name}_{design.key[:16]}_{block.start}_{block.stop}.npz" for block in blocks]
    parts.update({i: part for i, file in enumerate(files) if (part := _load(file, design.key)) is not None})
    missing = [i for i in range(len(blocks)) if i not in parts]
    began, had = time.perf_counter(), sum(len(part.u) for part in parts.values())

    def show() -> None:
        done = sum(len(part.u) for part in parts.values())
        left = (time.perf_counter() - began) / (done - had) * (replications - done) if done > had else float("nan")
        if progress is not None:
            progress(StudyProgress(design.name, done, replications, left))

    show()
    for number, part in scheduler.map(design.block, [blocks[i] for i in missing]):
        _save(files[missing[number]], design.key, part)
        parts[missing[number]] = part
        show()


def _save(file: Path, key: str, part: Replications) -> None:
    head = {"key": key, "names": part.names, "redrawn": part.redrawn, "evaluations": part.evaluations, "seconds": part.seconds}
    with replacing(file) as scratch, scratch.open("wb") as stream:
        np.savez(stream, head=np.array(json.dumps(head)), u=part.u, z=part.z, truths=part.truths)


def _load(file: Path, key: str) -> Replications | None:
    try:
        with np.load(file, allow_pickle=False) as stored:
            head = json.loads(str(stored["head"]))
            if head.pop("key") != key:
                return None
            return Replications(tuple(head.pop("names")), u=stored["u"], z=stored["z"], truths=stored["truths"], **head)
    except (OSError, ValueError, KeyError, TypeError):  # missing or truncated
        return None
