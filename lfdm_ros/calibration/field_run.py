"""The values of a friction field from places where its friction was seen, and the files that come out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lfdm_ros import __version__
from lfdm_ros.calibration.field_recipe import FieldRecipe, read_survey
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.errors import InputError
from lfdm_ros.files import reason, write_text
from lfdm_ros.ground import FieldPrior, FrictionLink, Observations
from lfdm_ros.inference.field_prior import FieldPriorDensity
from lfdm_ros.inference.identifiability import from_draws
from lfdm_ros.samplers.sampler import SMC, SamplerProgress

STAGE = "field"
MARGIN = 2.0  # patches around what was seen, on the map of ground.yaml
FINENESS = 3.0  # nodes of it in a patch
MOST_NODES = 1000  # along a side


def calibrate_field(recipe: FieldRecipe, survey: str | os.PathLike[str], out: str | os.PathLike[str], *, draws: int | None = None,
                    chains: int | None = None, seed: int | None = None, options: Mapping[str, Any] | None = None,
                    progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Infers the unknowns and writes posterior.nc, summary.json and ground.yaml, a ground with the posterior means and what was seen.

    Args:
        survey: CSV, see `read_survey`.
        draws, chains, seed, options: of the sampler, instead of the recipe's.
        progress: called between likelihood calls; it may raise KeyboardInterrupt to stop.

    Returns:
        What summary.json says.

    Raises:
        InputError: the survey does not fit the recipe, no such option, or `out` cannot be written.
        KeyboardInterrupt: stopped; nothing is written.
    """
    seen = read_survey(survey, recipe)
    settings = SMC.having({**recipe.options, **(options or {})}).settings
    draws, chains, seed = draws or recipe.draws, chains or recipe.chains, recipe.seed if seed is None else seed
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}") from None
    from lfdm_ros.samplers import smc

    def report(state: SamplerProgress) -> None:
        if progress is not None:
            progress(Progress(STAGE, 0, 1, state.temperature, state.progress, state.time_left, state.message, state.ess))

    density = FieldPriorDensity(seen, recipe.unknowns, recipe.held)
    try:
        run = smc.sample(density, draws=draws, chains=chains, seed=np.random.SeedSequence(seed), report=report,
                         steps=int(settings["steps"]), final_steps=int(settings["final_steps"]))
    except ValueError as error:
        raise InputError(f"{recipe.path}: unknowns: {error}; give priors of fields that what was seen could be of") from None
    if run.temperature < 1.0:  # stopped: a flatter density than the posterior
        raise KeyboardInterrupt
    summary = _summary(recipe, survey, seen, run, seed=seed, settings=settings)
    found = recipe.held.having(**{name: row["mean"] for name, row in summary["parameters"].items()})
    try:
        _write(directory, recipe, run, summary, found, seen)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {reason(error)}") from None
    return summary


def _summary(recipe: FieldRecipe, survey: str | os.PathLike[str], seen: Observations, run: Any, *, seed: int,
             settings: Mapping[str, float]) -> dict[str, Any]:
    from lfdm_ros.calibration.summary import ARVIZ_COLUMNS, HDI, R_HAT_LIMIT
    from lfdm_ros.libraries import arviz

    az = arviz()
    with np.errstate(invalid="ignore"):
        table = az.summary(az.from_dict(dict(run.draws)), hdi_prob=HDI, round_to="none")
    rows: dict[str, dict[str, Any]] = {}
    for name, prior in recipe.unknowns.items():
        row: dict[str, Any] = {column: float(table.loc[name, column]) for column in ARVIZ_COLUMNS}
        rows[name] = {**row, "sd_over_prior_sd": float(prior.relative(run.draws[name]).std(ddof=1)), "unit": prior.unit or "1",
                      "prior": str(prior)}
    untold = [group.as_dict() for group in from_draws(recipe.unknowns, run.draws).untold()]
    chains = len(run.log_evidence)
    return {
        "version": __version__, "recipe": str(recipe.path), "survey": str(survey), "places": len(seen), "seed": seed,
        "sampler": SMC.name, "options": dict(settings), "draws": run.log_likelihood.shape[1], "chains": chains, "note": recipe.note,
        "link": {"ice": recipe.link.ice, "dry": recipe.link.dry},
        "held": {name: value for name, value in recipe.held.values.items() if name not in rows}, "parameters": rows,
        "log_evidence": float(run.log_evidence.mean()), "log_evidence_sd": float(run.log_evidence.std(ddof=1)) if chains > 1 else None,
        "evaluations": run.evaluations, "seconds": run.seconds, "untold": untold,
        "warnings": [f"R-hat of {name} is {row['r_hat']:.3f}, {R_HAT_LIMIT} or more; take more draws or chains"
                     for name, row in rows.items() if row["r_hat"] >= R_HAT_LIMIT]}


def _write(directory: Path, recipe: FieldRecipe, run: Any, summary: Mapping[str, Any], found: FieldPrior, seen: Observations) -> None:
    from lfdm_ros.calibration import results
    from lfdm_ros.calibration.summary import write_json
    from lfdm_ros.libraries import arviz

    write_json(directory / "summary.json", summary)
    data = arviz().from_dict(posterior=dict(run.draws), log_likelihood={STAGE: run.log_likelihood})
    data.attrs.update({"lfdm_ros_version": __version__, "seed": summary["seed"], "recipe": recipe.text})
    results.write_inference_data(directory / "posterior.nc", data)
    write_text(directory / "ground.yaml", ground_document(recipe.link, found, seen, recipe.path.name))


def ground_document(link: FrictionLink, prior: FieldPrior, seen: Observations, source: str) -> str:
    """A ground file (`lfdm_ros.ground.ground_file`) of a field: its values, and what was seen of it."""
    longest, shortest = max(prior.alpha_x, prior.alpha_y), min(prior.alpha_x, prior.alpha_y)
    low, high = seen.places.min(axis=0) - MARGIN * longest, seen.places.max(axis=0) + MARGIN * longest
    spacing = max(shortest / FINENESS, float((high - low).max()) / MOST_NODES)
    rows = [{"x": x, "y": y, "friction": friction} | ({} if noise == prior.sigma_n else {"noise": noise})
            for (x, y), friction, noise in zip(seen.places.tolist(), link.friction(seen.latent).tolist(), seen.noise.tolist())]
    document = {"area": {"x": [float(low[0]), float(high[0])], "y": [float(low[1]), float(high[1])], "spacing": spacing},
                "friction": {"ice": link.ice, "dry": link.dry, **prior.values}, "observations": rows}
    written: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=130)
    return f"# Posterior means of recipe {source}, and what was seen.\n{written}"
