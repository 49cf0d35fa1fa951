"""One stage: data, model, sampling and predictions of the posterior."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace

import numpy as np

from lfdm_ros.calibration.predictive import PREDICTIVE_DRAWS, Predictive, predict_draws
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import Dataset, StageData, initial_priors
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.model import BatchedDensity, Density, ErrorPriors, UpdatedDensity
from lfdm_ros.inference.plan import INFLATED, INITIAL, RHO, SIGMA, Objective, Recipe, Segment, Stage
from lfdm_ros.inference.priors import Prior
from lfdm_ros.samplers import least_squares
from lfdm_ros.samplers.sampler import Problem, Report, Sampler, SamplerProgress, SampleRun
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class Earlier:
    """The posterior that a stage continues: hashes of the recordings used, draws (C, N) by variable, the initial vehicle."""

    hashes: frozenset[str]
    population: Mapping[str, np.ndarray]
    vehicle: Vehicle
    log_evidence: float
    weights: Mapping[str, float]


@dataclass(frozen=True)
class StageResult:
    """A finished stage. `priors` has every unknown in order; `vehicle` is the initial one, `after` has the values passed on.

    The predictives are by data set, as `data.fitted` and `data.held_out` have them.
    """

    stage: Stage
    data: StageData
    likelihood: RolloutLikelihood
    priors: Mapping[str, Prior]
    run: SampleRun
    prior_draws: Mapping[str, np.ndarray]  # (1, n) by unknown
    prior_predictive: Sequence[Predictive]
    posterior_predictive: Sequence[Predictive]
    held_out_predictive: Sequence[Predictive]
    vehicle: Vehicle
    after: Vehicle

    @property
    def unknowns(self) -> list[str]:
        """Names in the order of the likelihood's q."""
        return [name for name in self.priors if not name.startswith((SIGMA, RHO))]


@dataclass(frozen=True)
class StageModel:
    """Model of a stage for one vehicle: likelihood, unknowns with priors, errors with priors."""

    likelihood: RolloutLikelihood
    unknowns: Mapping[str, Prior]
    errors: Mapping[str, ErrorPriors]
    start: np.ndarray = field(repr=False)


def stage_model(stage: Stage, data: StageData, recipe: Recipe, vehicle: Vehicle, weights: Mapping[str, float] | None = None,
                report: Report | None = None) -> StageModel:
    """Builds the likelihood of a stage and gathers its priors. `weights`: of inflated errors, by default they are found by a least-squares
    fit; `report`: of that fit. Raises InputError: nothing was recorded to centre the prior of an initial state on."""
    where = f"{recipe.path}: stages ({stage.name})"
    likelihood = _likelihood(stage, data.fitted, recipe, vehicle, estimates=True)
    unknowns = {p.name: p.prior for p in stage.parameters} | {n.name: n.prior for n in stage.nuisance}
    start = [p.value_in(vehicle.parameters) for p in stage.parameters] + [float(n.prior.frozen().median()) for n in stage.nuisance]
    for segment, dataset in data.fitted:
        prefix = INITIAL + (f"{dataset.name}." if dataset.name else "")
        for state, prior in initial_priors(segment, dataset, recipe.model, where).items():
            unknowns[prefix + state] = prior
            start.append(dataset.initial.get(state, np.nan))
    labels = {group.label for group in likelihood.groups}
    errors = {label: ErrorPriors(c.noise, c.correlation) for label, c in stage.channels.items() if label in labels}
    if stage.errors == INFLATED and not labels <= set(weights or {}):
        plain = BatchedDensity(likelihood, unknowns, errors)

        def forward(state: SamplerProgress) -> None:
            if report is not None:
                report(replace(state, progress=0.0, message=f"correlation of the errors: {state.message}"))

        try:
            best = least_squares.mode(Problem(likelihood, plain, unknowns, errors, np.array(start), Objective()), forward)
        except ValueError as error:
            raise InputError(f"{where}: {error}; narrow the priors, check the initial state or take a smaller step") from None
        weights = {label: 1.0 / tau for label, tau in likelihood.correlation_times(best).items()} | dict(weights or {})
    return StageModel(likelihood.weighted(weights or {}), unknowns, errors, np.array(start))


def run_stage(stage: Stage, data: StageData, recipe: Recipe, vehicle: Vehicle, sampler: Sampler, *, draws: int, chains: int,
              seed: np.random.SeedSequence, report: Report | None = None, earlier: Earlier | None = None,
              model: StageModel | None = None, finished: SampleRun | None = None, keep: Callable[[SampleRun], None] | None = None,
              stored: int = PREDICTIVE_DRAWS) -> StageResult:
    """Infers the unknowns of a stage for `vehicle`.

    `earlier`: the posterior to continue; `model`: of the stage, if already built; `finished`: a stored run of the same problem, which
    replaces sampling; `keep`: called with a complete run, before predictions; `stored`: number of predictive draws to store, of
    `storable_draws`. Raises InputError: no particle of the prior can be simulated; KeyboardInterrupt: `report` raised it before or after
    the sampler was at work.
    """
    where = f"{recipe.path}: stages ({stage.name})"
    built = model or stage_model(stage, data, recipe, vehicle, earlier.weights if earlier else None, report)
    plain = BatchedDensity(built.likelihood, built.unknowns, built.errors)
    density: Density = plain if earlier is None else _update(stage, data, recipe, vehicle, earlier, built, plain)
    problem = Problem(built.likelihood, density, built.unknowns, built.errors, built.start, stage.objective,
                      earlier.population if earlier else None, earlier.log_evidence if earlier else 0.0)
    sampling, prior_seed, noise_seed = seed.spawn(3)
    try:
        run = finished or sampler(problem, draws=draws, chains=chains, seed=sampling, report=report)
    except ValueError as error:
        raise InputError(f"{where}: {error}; narrow the priors, check the initial state or take a smaller step") from None
    if keep is not None and finished is None and not run.stopped:
        keep(run)
    rng = np.random.default_rng(prior_seed)
    prior_draws = {name: values[None, :] for name, values in plain.constrain(plain.draw_prior(PREDICTIVE_DRAWS, rng)).items()}
    passed_on = {target: factor * run.point[p.name] for p in stage.parameters for target, factor in p.targets}
    source = f"{run.point_is} of recipe {recipe.path.stem}, stage {stage.name}, recording " + ", ".join(
        sorted({dataset.recording.name for _, dataset in data.fitted}))
    noise_rng = np.random.default_rng(noise_seed)

    def predictive(of: str, likelihood: RolloutLikelihood, unknowns: Sequence[str], data: Sequence[tuple[Segment, Dataset]],
                   draws: Mapping[str, np.ndarray], point: Mapping[str, float], rng: np.random.Generator,
                   noise: bool = True) -> list[Predictive]:
        # Responses to draws (C, N) by variable and to their representative point, for each data set.
        def forward(done: int) -> None:
            if report is not None:
                # Return the result even if the sampler was stopped.
                with suppress(KeyboardInterrupt) if run.stopped else nullcontext():
                    report(SamplerProgress(run.temperature, 0.99, float("nan"), run.evaluations, f"predicting {of}, {done} of {len(data)}"))

        none = np.zeros_like(next(iter(draws.values())))
        sigma = [np.stack([draws[SIGMA + c.label] for c in segment.channels], axis=-1) for segment, _ in data]
        rho = [np.stack([draws.get(RHO + c.label, none) for c in segment.channels], axis=-1) for segment, _ in data]
        q = np.stack([draws[name] for name in unknowns], axis=-1)
        return predict_draws(likelihood, q, sigma, rho, rng, stored=stored, noise=noise, report=forward,
                             point=np.array([point[name] for name in unknowns]))

    posterior = predictive("from the posterior", built.likelihood, list(built.unknowns), data.fitted, run.draws, run.point, noise_rng)
    held_out: Sequence[Predictive] = ()
    if data.held_out:
        names = [*(p.name for p in stage.parameters), *(n.name for n in stage.nuisance)]
        unseen = _likelihood(stage, data.held_out, recipe, vehicle, estimates=False)
        held_out = predictive("what was held out", unseen, names, data.held_out, run.draws, run.point, noise_rng, noise=False)
    medians = {name: float(prior.frozen().median()) for name, prior in built.unknowns.items()}
    prior = predictive("from the prior", built.likelihood, list(built.unknowns), data.fitted, prior_draws, medians, rng)
    return StageResult(stage, data, built.likelihood, problem.priors, run, prior_draws, prior, posterior, held_out, vehicle,
                       vehicle.replace(source=source, **passed_on))


def _likelihood(stage: Stage, data: Sequence[tuple[Segment, Dataset]], recipe: Recipe, vehicle: Vehicle, *,
                estimates: bool) -> RolloutLikelihood:
    return RolloutLikelihood(
        [dataset for _, dataset in data], model=recipe.model, vehicle=vehicle, step=recipe.step,
        unknowns=[p.targets for p in stage.parameters], nuisances=[n.name for n in stage.nuisance],
        estimated=[[state for state, _ in segment.estimate] if estimates else [] for segment, _ in data],
        labels=[[c.label for c in segment.channels] for segment, _ in data],
        correlated=any(c.correlation is not None for c in stage.channels.values()))


def _update(stage: Stage, data: StageData, recipe: Recipe, vehicle: Vehicle, earlier: Earlier, model: StageModel,
            plain: BatchedDensity) -> UpdatedDensity:
    # Without new data, or with other fixed parameters, reweight the old data; else temper in the new data alone.
    is_new = [dataset.recording.sha256 not in earlier.hashes for _, dataset in data.fitted]
    replaces = not any(is_new) or dict(earlier.vehicle.parameters) != dict(vehicle.parameters)
    earlier_model = stage_model(stage, data.part(earlier.hashes), recipe, earlier.vehicle, earlier.weights)
    old = BatchedDensity(earlier_model.likelihood, earlier_model.unknowns, earlier_model.errors)
    if replaces:
        return UpdatedDensity(old, plain, replaces=True)
    return UpdatedDensity(old, BatchedDensity(model.likelihood.only(is_new), model.unknowns, model.errors), replaces=False)
