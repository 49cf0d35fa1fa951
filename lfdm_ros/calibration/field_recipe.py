"""A recipe for the values of a friction field, and the places where its friction was seen: YAML and CSV in, validated records out."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.bounds import CHAINS, DRAWS, SEEDS
from lfdm_ros.documents import integer, mapping, number, quantity, read_text, read_yaml
from lfdm_ros.errors import InputError, quote
from lfdm_ros.ground import FieldPrior, FrictionLink, Observations
from lfdm_ros.ground.prior import UNITS, possible
from lfdm_ros.inference.priors import Prior, parse_prior
from lfdm_ros.resources import find_config
from lfdm_ros.samplers.sampler import SMC

KEY = "field"  # which recipes of vehicles do not have
COLUMNS, NOISE = ("x", "y", "friction"), "noise"
LEAST_SEEN = 8  # places, as for a fit
LARGEST_SURVEY = 10_000_000  # characters


@dataclass(frozen=True, eq=False)
class FieldRecipe:
    """What is inferred of a friction field; the sampler is SMC.

    unknowns: prior of values of `FieldPrior`, by name; held: the others. places (n, 2): of a survey to be simulated, [m]. options: of the
    sampler that are not as they are by default.
    """

    path: Path
    text: str
    link: FrictionLink
    unknowns: Mapping[str, Prior]
    held: FieldPrior
    seed: int
    draws: int
    chains: int
    options: Mapping[str, float]
    places: np.ndarray
    note: str = ""


def is_field_recipe(name: str | os.PathLike[str]) -> bool:
    """Whether a recipe by name (config/calibration) or path is one of a friction field. Raises InputError where it cannot be read."""
    document, _ = read_yaml(find_config("calibration", name))
    return isinstance(document, dict) and KEY in document


def load_field_recipe(name: str | os.PathLike[str]) -> FieldRecipe:
    """Reads one.

    Raises:
        InputError: not YAML, unknown or missing key, unit that does not fit, value or prior out of range; names file and key.
    """
    path = find_config("calibration", name)
    where = str(path)
    document, content = read_yaml(path)
    top = mapping(document, where, (KEY, "unknowns"), ("parameters", "survey", "seed", "draws", "chains", "sampler", "note"))
    try:
        link = FrictionLink(**{key: number(value, f"{where}: {KEY}.{key}")
                               for key, value in mapping(top[KEY], f"{where}: {KEY}", ("ice", "dry")).items()})
        held = FieldPrior(**{key: quantity(value, UNITS[key], f"{where}: parameters.{key}")[0]
                             for key, value in mapping(top.get("parameters", {}), f"{where}: parameters", (), UNITS).items()})
    except InputError as error:
        raise error if str(error).startswith(where) else InputError(f"{where}: {error}") from None
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
        path=path, text=content, link=link, unknowns=unknowns, held=held, seed=seed,
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
    """Drawn evenly over an area."""
    spec = mapping(node, where, (), ("x", "y", "count"))
    ends = []
    for key, usual in (("x", [0.0, 40.0]), ("y", [0.0, 40.0])):
        given = spec.get(key, usual)
        if not isinstance(given, list) or len(given) != 2:
            raise InputError(f"{where}.{key}: give [lowest, highest] in m, found {quote(given)}")
        first, last = (number(value, f"{where}.{key}") for value in given)
        if first >= last:
            raise InputError(f"{where}.{key}: {first:g} m is not below {last:g} m")
        ends.append((first, last))
    count = integer(spec.get("count", 40), f"{where}.count", LEAST_SEEN, 2000)
    low, high = np.transpose(ends)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))).uniform(low, high, (count, 2))


# -- What was seen ----------------------------------------------------------------------------------------------------------------


def read_survey(path: str | os.PathLike[str], recipe: FieldRecipe) -> Observations:
    """Friction that was seen, from CSV with a header: x, y [m], friction [1], and, where the recipe holds sigma_n, perhaps noise, the
    standard deviation of each latent value.

    Raises:
        InputError: not such a file, a friction that the recipe's link does not have, or fewer than 8 places; names file and line.
    """
    content = read_text(Path(path), "survey", LARGEST_SURVEY)
    rows = list(csv.reader(io.StringIO(content)))
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
        try:
            latent = float(recipe.link.latent(row["friction"]))
        except InputError as error:
            raise InputError(f"{path}: line {line}: {error}") from None
        table.append((row["x"], row["y"], latent, row.get(NOISE, recipe.held.sigma_n)))
    if len(table) < LEAST_SEEN:
        raise InputError(f"{path}: {len(table)} places; a field is inferred from at least {LEAST_SEEN}")
    values = np.array(table)
    return Observations(values[:, :2], values[:, 2], values[:, 3])


def _number(cell: str, where: str) -> float:
    try:
        return number(float(cell), where)
    except ValueError as error:
        raise error if isinstance(error, InputError) else InputError(f"{where}: {quote(cell)} is no number") from None
