"""Calibration of a friction field: recipe (YAML) and survey of measured friction (CSV) in, posterior and ground file out.

Sampler, rows of the summary and output files are those of a vehicle's calibration; a survey takes the place of recordings, and the
likelihood is a Gaussian process's, not a simulation's, so that no `Recipe` with model, vehicle and segments describes it.
"""

import csv
import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lfdm_ros import __version__
from lfdm_ros.bounds import CHAINS, DRAWS, SEEDS
from lfdm_ros.calibration.progress import Progress
from lfdm_ros.documents import integer, interval, mapping, number, numbers, quantity, read_text, read_yaml
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.files import write_text
from lfdm_ros.ground import FieldPrior, FrictionLink, Observations
from lfdm_ros.ground.prior import UNITS, possible
from lfdm_ros.inference.identifiability import from_draws
from lfdm_ros.inference.priors import Prior, parse_prior
from lfdm_ros.resources import find_config
from lfdm_ros.samplers.sampler import SMC, SamplerProgress

KEY = "field"  # which recipes of vehicles do not have
COLUMNS, NOISE = ("x", "y", "friction"), "noise"
STAGE = "field"
MIN_PLACES = 8  # as for a fit
MAX_SURVEY_SIZE = 10_000_000  # characters
MAP_MARGIN = 2.0  # patches around the survey, on the map of ground.yaml
NODES_PER_PATCH = 3.0
MAX_NODES = 1000  # along a side of that map


@dataclass(frozen=True, eq=False)
class FieldRecipe:
    """Unknowns of a friction field with their priors; the sampler is SMC.

    unknowns: prior of values of `FieldPrior`, by name; fixed: the others. places (n, 2): of a survey to be simulated, [m]. options: values
    of sampler options other than the defaults.
    """

    path: Path
    text: str
    link: FrictionLink
    unknowns: Mapping[str, Prior]
    fixed: FieldPrior
    seed: int
    draws: int
    chains: int
    options: Mapping[str, float]
    places: np.ndarray
    note: str = ""


def is_field_recipe(name: str | os.PathLike[str]) -> bool:
    """Returns whether a recipe, by name (config/calibration) or path, describes a friction field. Raises InputError: it cannot be read."""
    document, _ = read_yaml(find_config("calibration", name))
    return isinstance(document, dict) and KEY in document


def load_field_recipe(name: str | os.PathLike[str]) -> FieldRecipe:
    """Reads a recipe of a friction field by name (config/calibration) or path. Raises InputError: not YAML, unknown or missing key, unit
    that does not fit, value or prior out of range; names file and key."""
    path = find_config("calibration", name)
    where = str(path)
    document, content = read_yaml(path)
    top = mapping(document, where, (KEY, "unknowns"), ("parameters", "survey", "seed", "draws", "chains", "sampler", "note"))
    ends = numbers(top[KEY], f"{where}: {KEY}", ("ice", "dry"))
    values = {key: quantity(value, UNITS[key], f"{where}: parameters.{key}")[0]
              for key, value in mapping(top.get("parameters", {}), f"{where}: parameters", (), UNITS).items()}
    with prefixing(where):
        link, fixed = FrictionLink(**ends), FieldPrior(**values)
    unknowns = {key: _unknown(key, spec, f"{where}: unknowns.{key}")
                for key, spec in mapping(top["unknowns"], f"{where}: unknowns", (), UNITS).items()}
    if not unknowns:
        raise InputError(f"{where}: unknowns: give the prior of at least one of: {', '.join(UNITS)}")
    both = [key for key in unknowns if key in (top.get("parameters") or {})]
    if both:
        raise InputError(f"{where}: parameters.{both[0]}: it is unknown as well; leave it out of one of the two")
    sampler = mapping(top.get("sampler", {}), f"{where}: sampler", (), SMC.settings)
    settings = SMC.having(sampler, f"{where}: sampler").settings
    seed = integer(top.get("seed", 1), f"{where}: seed", *SEEDS)
    return FieldRecipe(
        path=path, text=content, link=link, unknowns=unknowns, fixed=fixed, seed=seed,
        draws=integer(top.get("draws", 500), f"{where}: draws", *DRAWS), chains=integer(top.get("chains", 4), f"{where}: chains", *CHAINS),
        options={key: settings[key] for key in sampler}, places=_places(top.get("survey", {}), seed, f"{where}: survey"),
        note=" ".join(str(top.get("note", "")).split()))


def _unknown(name: str, spec: Any, where: str) -> Prior:
    prior = parse_prior(spec, UNITS[name], where)  # lengths and deviations are scales, and searched by their logarithms
    lower, upper = prior.bounds()
    # A density that ends at 0 has its bound there, and no draw at it.
    inside = np.array([np.nextafter(lower, upper), upper if np.isfinite(upper) else lower + 1.0 if np.isfinite(lower) else 1.0])
    inside = np.where(np.isfinite(inside), inside, -1.0)
    if not possible({name: inside}).all():
        least = "1, below which there is no such field" if name == "gamma" else "0"
        raise InputError(f"{where}: the prior reaches below {least}; use log_normal, uniform or truncated_normal")
    return prior


def _places(node: Any, seed: int, where: str) -> np.ndarray:
    spec = mapping(node, where, (), ("x", "y", "count"))
    low, high = np.transpose([interval(spec.get(key, [0.0, 40.0]), f"{where}.{key}") for key in ("x", "y")])
    count = integer(spec.get("count", 40), f"{where}.count", MIN_PLACES, 2000)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))).uniform(low, high, (count, 2))


def read_survey(path: str | os.PathLike[str], recipe: FieldRecipe) -> Observations:
    """Reads measured friction from CSV with a header: x, y [m], friction [1], and optionally, where the recipe holds sigma_n, noise, the
    standard deviation of each latent value. Raises InputError: not such a file, a friction that the recipe's link does not have, or fewer
    than 8 places; names file and line."""
    rows = list(csv.reader(io.StringIO(read_text(Path(path), "survey", MAX_SURVEY_SIZE))))
    header = [cell.strip() for cell in rows[0]] if rows else []
    missing = [name for name in COLUMNS if name not in header]
    other = [name for name in header if name not in (*COLUMNS, NOISE)]
    if missing or other or len(set(header)) != len(header):
        wrong = f"no column '{missing[0]}'" if missing else f"column {quote(other[0])} is unknown" if other else "a column stands twice"
        raise InputError(f"{path}: line 1: {wrong}; columns are {', '.join(COLUMNS)} and perhaps {NOISE}")
    if NOISE in header and "sigma_n" in recipe.unknowns:
        raise InputError(f"{path}: line 1: {NOISE}: {recipe.path.name} infers sigma_n, the noise of all; leave the column out, or hold "
                         "sigma_n")
    table = []
    for line, cells in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise InputError(f"{path}: line {line}: {len(cells)} values for {len(header)} columns")
        row = {name: _number(cell, f"{path}: line {line}: {name}") for name, cell in zip(header, cells)}
        if row.get(NOISE, 0.0) < 0.0:
            raise InputError(f"{path}: line {line}: {NOISE} {row[NOISE]:g} is below 0")
        with prefixing(f"{path}: line {line}"):
            latent = float(recipe.link.latent(row["friction"]))
        table.append((row["x"], row["y"], latent, row.get(NOISE, recipe.fixed.sigma_n)))
    if len(table) < MIN_PLACES:
        raise InputError(f"{path}: {len(table)} places; a field is inferred from at least {MIN_PLACES}")
    values = np.array(table)
    return Observations(values[:, :2], values[:, 2], values[:, 3])


def _number(cell: str, where: str) -> float:
    try:
        return number(float(cell), where)
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"{where}: {quote(cell)} is no number") from None


# -- Calibration ------------------------------------------------------------------------------------------------------------------


def calibrate_field(recipe: FieldRecipe, survey: str | os.PathLike[str], out: str | os.PathLike[str], *, draws: int | None = None,
                    chains: int | None = None, seed: int | None = None, options: Mapping[str, Any] | None = None,
                    progress: Callable[[Progress], None] | None = None) -> dict[str, Any]:
    """Infers the unknowns and writes posterior.nc, summary.json and ground.yaml, a ground with the posterior means and the survey.

    `survey`: CSV, see `read_survey`; `draws`, `chains`, `seed`, `options`: of the sampler, instead of the recipe's; `progress`: called
    between likelihood calls; it may raise KeyboardInterrupt to stop, and nothing is written. Returns the contents of summary.json. Raises
    InputError: the survey does not fit the recipe, no such option, or `out` cannot be written.
    """
    observations = read_survey(survey, recipe)
    settings = SMC.having({**recipe.options, **(options or {})}).settings
    draws, chains, seed = draws or recipe.draws, chains or recipe.chains, recipe.seed if seed is None else seed
    directory = Path(out)
    with prefixing(f"cannot write to {directory}", OSError):
        directory.mkdir(parents=True, exist_ok=True)
    from lfdm_ros.calibration import results, summary
    from lfdm_ros.inference.model import FieldPriorDensity
    from lfdm_ros.libraries import arviz
    from lfdm_ros.samplers import smc

    def report(state: SamplerProgress) -> None:
        if progress is not None:
            progress(Progress.of(state, STAGE))

    density = FieldPriorDensity(observations, recipe.unknowns, recipe.fixed)
    try:
        run = smc.sample(density, draws=draws, chains=chains, seed=np.random.SeedSequence(seed), report=report,
                         steps=int(settings["steps"]), final_steps=int(settings["final_steps"]))
    except ValueError as error:
        raise InputError(f"{recipe.path}: unknowns: {error}; give priors of fields that what was seen could be of") from None
    if run.temperature < 1.0:  # stopped: a flatter density than the posterior
        raise KeyboardInterrupt
    rows = {name: {**row, "unit": row["unit"] or "1"} for name, row in summary.parameter_rows(recipe.unknowns, run.draws).items()}
    posterior_mean = recipe.fixed.having(**{name: row["mean"] for name, row in rows.items()})
    outcome = {
        "version": __version__, "recipe": str(recipe.path), "survey": str(survey), "places": len(observations), "seed": seed,
        "sampler": SMC.name, "options": dict(settings), "draws": draws, "chains": chains, "note": recipe.note,
        "link": {"ice": recipe.link.ice, "dry": recipe.link.dry},
        "held": {name: value for name, value in recipe.fixed.values.items() if name not in rows}, "parameters": rows,
        "log_evidence": float(run.log_evidence.mean()), "log_evidence_sd": float(run.log_evidence.std(ddof=1)) if chains > 1 else None,
        "evaluations": run.evaluations, "seconds": run.seconds,
        "untold": summary.unidentified_groups(from_draws(recipe.unknowns, run.draws)), "warnings": list(summary.r_hat_warnings(rows))}
    data = arviz().from_dict(posterior=dict(run.draws), log_likelihood={STAGE: run.log_likelihood})
    data.attrs.update({"lfdm_ros_version": __version__, "seed": seed, "recipe": recipe.text})
    with prefixing(f"cannot write to {directory}", OSError):
        summary.write_json(directory / "summary.json", outcome)
        results.write_inference_data(directory / "posterior.nc", data)
        write_text(directory / "ground.yaml", ground_document(recipe.link, posterior_mean, observations, recipe.path.name))
    return outcome


def ground_document(link: FrictionLink, prior: FieldPrior, observations: Observations, source: str) -> str:
    """Returns a ground file (`lfdm_ros.ground.ground_file`) of a field: its values and the survey."""
    longest, shortest = max(prior.alpha_x, prior.alpha_y), min(prior.alpha_x, prior.alpha_y)
    low, high = observations.places.min(axis=0) - MAP_MARGIN * longest, observations.places.max(axis=0) + MAP_MARGIN * longest
    spacing = max(shortest / NODES_PER_PATCH, float((high - low).max()) / MAX_NODES)
    rows = [{"x": x, "y": y, "friction": friction} | ({} if noise == prior.sigma_n else {"noise": noise})
            for (x, y), friction, noise in zip(observations.places.tolist(), link.friction(observations.latent).tolist(),
                                               observations.noise.tolist())]
    document = {"area": {"x": [float(low[0]), float(high[0])], "y": [float(low[1]), float(high[1])], "spacing": spacing},
                "friction": {"ice": link.ice, "dry": link.dry, **prior.values}, "observations": rows}
    written: str = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=130)
    return f"# Posterior means of recipe {source}, and what was observations.\n{written}"
