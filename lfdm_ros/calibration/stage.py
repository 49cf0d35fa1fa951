"""One stage: data, model, sampling and what the posterior predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lfdm_ros.calibration.dataset import Dataset, initial_priors
from lfdm_ros.calibration.likelihood import RolloutLikelihood
from lfdm_ros.calibration.model import BatchedDensity, build_model
from lfdm_ros.calibration.predictive import PREDICTIVE_DRAWS, Predictive, predict_draws
from lfdm_ros.calibration.priors import Prior
from lfdm_ros.calibration.recipe import INITIAL, SIGMA, Parameter, Recipe, Stage
from lfdm_ros.calibration.samplers import Problem, Report, Sampler, SampleRun
from lfdm_ros.errors import InputError
from lfdm_ros.vehicles import Vehicle


@dataclass(frozen=True)
class StageResult:
    """A finished stage. `priors` has every unknown in order; `vehicle` is the one the stage began with, `after` has what is passed on."""

    stage: Stage
    dataset: Dataset
    priors: Mapping[str, Prior]
    run: SampleRun
    prior_draws: Mapping[str, np.ndarray]  # (1, n) by unknown
    prior_predictive: Predictive
    posterior_predictive: Predictive
    vehicle: Vehicle
    after: Vehicle


def run_stage(stage: Stage, dataset: Dataset, recipe: Recipe, vehicle: Vehicle, sampler: Sampler, *, draws: int, chains: int,
              seed: np.random.SeedSequence, report: Report | None = None) -> StageResult:
    """Infers the unknowns of a stage for `vehicle`.

    Raises:
        InputError: no particle of the prior can be simulated.
    """
    where = f"{recipe.path}: stages ({stage.name})"
    likelihood = RolloutLikelihood(dataset, model=recipe.model, vehicle=vehicle, step=recipe.step,
                                   unknowns=[p.targets for p in stage.parameters], estimated=[state for state, _ in stage.estimate])
    parameters = {p.name: p.prior for p in stage.parameters}
    initial = initial_priors(stage, dataset, recipe.model, where)
    noise = {c.name: c.noise for c in stage.channels}
    model = build_model(likelihood, parameters, initial, noise)
    density = BatchedDensity(model)
    states = {INITIAL + state: prior for state, prior in initial.items()}
    start = [_present(p, vehicle) for p in stage.parameters] + [dataset.initial.get(state, np.nan) for state in initial]
    problem = Problem(likelihood, density, {**parameters, **states}, noise, np.array(start), stage.objective)
    sampling, prior_seed, noise_seed = seed.spawn(3)
    try:
        run = sampler(problem, draws=draws, chains=chains, seed=sampling, report=report)
    except ValueError as error:
        raise InputError(f"{where}: {error}; narrow the priors, check the initial state or take a smaller step") from None

    def predictive(values: Mapping[str, np.ndarray], rng: np.random.Generator) -> Predictive:
        q = np.stack([values[name] for name in problem.unknowns], axis=-1)
        sigma = np.stack([values[SIGMA + channel] for channel in dataset.channels], axis=-1)
        return predict_draws(likelihood, q, sigma, rng)

    rng = np.random.default_rng(prior_seed)
    prior_draws = {name: values[None, :] for name, values in density.constrain(density.draw_prior(PREDICTIVE_DRAWS, rng)).items()}
    passed_on = {target: factor * run.point[p.name] for p in stage.parameters for target, factor in p.targets}
    return StageResult(
        stage=stage, dataset=dataset, run=run, prior_draws=prior_draws, prior_predictive=predictive(prior_draws, rng),
        posterior_predictive=predictive(run.draws, np.random.default_rng(noise_seed)), vehicle=vehicle,
        priors={**problem.unknowns, **{SIGMA + k: v for k, v in noise.items()}},
        after=vehicle.replace(source=f"{run.point_is} of recipe {recipe.path.stem}, stage {stage.name}, recording {dataset.recording.name}",
                              **passed_on))


def _present(parameter: Parameter, vehicle: Vehicle) -> float:
    # What the vehicle has now: the mean over the parameters that the unknown sets, NaN where it has none of them.
    values: Sequence[float] = [vehicle.parameters[name] / factor for name, factor in parameter.targets if name in vehicle.parameters]
    return float(np.mean(values)) if values else float("nan")
