"""Ground files (config/grounds/*.yaml): friction as a number, a random field, patches; soils; heights."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from lfdm_ros import documents
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.ground.friction_field import MARGIN, MAX_FRICTION, FrictionField, FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.maps import HeightMap
from lfdm_ros.ground.posterior import FieldPosterior
from lfdm_ros.ground.prior import FieldPrior, Observations
from lfdm_ros.ground.soils import SoilMap, SoilProperties, SoilRegion, load_soil, within

_KEYS = ("name", "description", "area", "seed", "friction", "observations", "patches", "soil", "soils", "heights")
_LINK = tuple(f.name for f in fields(FrictionLink))
_PRIOR = tuple(f.name for f in fields(FieldPrior))


@dataclass(frozen=True, eq=False)
class GroundDescription:
    """Ground of a file: the true field, and the knowledge of a vehicle that has the file.

    Friction is relative to the road of the vehicle's file: 1 is that road.

    Attributes:
        name: of its file.
        field: true friction.
        median: posterior median of the friction; equal to `field` except for a random field.
        sd: standard deviation (ny, nx) of the latent friction with mean `median`.
        belief: posterior of a random field, without the patches.
        soils: map of soils; models of soft soil ignore the friction there.
        heights: map of heights.
        document: self-contained source for `load_ground`, with the seed and the values of its soils.
    """

    name: str
    field: FrictionField
    median: FrictionField
    sd: np.ndarray
    belief: FieldPosterior | None = None
    soils: SoilMap | None = None
    heights: HeightMap | None = None
    document: Mapping[str, Any] | None = None

    @property
    def even(self) -> bool:
        """True if the friction is known and that of the vehicle's nominal road everywhere."""
        return self.belief is None and bool(np.all(np.abs(self.field.link.friction(self.field.latent) - 1.0) < 1e-9))

    def require_start(self, x: float, y: float) -> None:
        """Raises InputError, which names file and key, for a start off the map [m]."""
        grid = self.field.grid
        if bool(grid.outside(np.array(x), np.array(y))):
            raise InputError(f"ground {self.name}: area: the vehicle begins at ({x:g}, {y:g}), off the map of x {_span(grid.xs)} and "
                             f"y {_span(grid.ys)}; widen it, or begin elsewhere")

    def left_at(self, path: np.ndarray | None) -> str:
        """Describes in one line where a path (n, 2) [m] leaves the map; empty if it does not."""
        grid = self.field.grid
        outside = np.zeros(0, bool) if path is None else grid.outside(path[:, 0], path[:, 1])
        if path is None or not outside.any():
            return ""
        x, y = path[int(outside.argmax())]
        return (f"ground {self.name}: area: the path leaves the map of x {_span(grid.xs)} and y {_span(grid.ys)} at ({x:g}, {y:g}); beyond "
                "its edges values are those of the nearest point")

    def drawn(self, count: int, seed: int = 1) -> list[FrictionField]:
        """Draws samples of the field, given the file's observations; the field itself if it is known."""
        if self.belief is None:
            return [self.field]
        latent = self.belief.draw(count, np.random.default_rng(seed))
        return [FrictionField(self.field.grid, np.where(self.sd > 0.0, one, self.median.latent), self.field.link) for one in latent]


def _span(values: np.ndarray) -> str:
    return f"{values[0]:g} to {values[-1]:g} m"


def load_ground(source: str | os.PathLike[str] | Mapping[str, Any], seed: int | None = None) -> GroundDescription:
    """Reads a ground by its name, from a file or a document. seed: of the random field, in place of the file's. Raises InputError: one line
    that names file and key."""
    data, where = documents.of_config("grounds", source, "ground")
    data = documents.mapping(data, where, ("area", "friction"), _KEYS)
    grid = _grid(data["area"], f"{where}: area")
    patches = _patches(data.get("patches") or [], f"{where}: patches")
    name = documents.text(data.get("name", os.path.splitext(os.path.basename(where))[0]), f"{where}: name")
    if isinstance(data["friction"], dict):
        ground = _random(name, data, grid, seed, where)
    else:
        for key in ("seed", "observations"):
            if key in data:
                raise InputError(f"{where}: {key}: the friction is the same everywhere; leave it out, or give a field")
        if seed is not None:
            raise InputError(f"{where}: no random field that a seed could change; leave the seed out")
        everywhere = _friction(data["friction"], f"{where}: friction")
        values = [everywhere, *(value for value, _ in patches)]
        link = FrictionLink.around(values)
        level = FrictionField(grid, np.full(grid.shape, float(link.latent(everywhere))), link)
        ground = GroundDescription(name, level, level, np.zeros(grid.shape))
    soils, inline = _soils(data, grid, where)
    seed_entry = {"seed": _seed_of(data, seed, where)} if ground.belief else {}
    return replace(_patched(ground, patches, where), soils=soils, document={**data, "name": name, **seed_entry, **inline},
                   heights=_heights(data["heights"], grid, f"{where}: heights") if "heights" in data else None)


def _seed_of(data: Mapping[str, Any], seed: int | None, where: str) -> int:
    return documents.integer(data.get("seed", 0), f"{where}: seed", 0) if seed is None else seed


def _random(name: str, data: Mapping[str, Any], grid: Grid, seed: int | None, where: str) -> GroundDescription:
    here = f"{where}: friction"
    values = documents.numbers(data["friction"], here, optional=(*_LINK, *_PRIOR))
    seed = _seed_of(data, seed, where)
    with prefixing(here):
        link = FrictionLink(**{key: value for key, value in values.items() if key in _LINK})
        prior = FieldPrior(**{key: value for key, value in values.items() if key in _PRIOR})
    observations = _observations(data.get("observations") or [], link, prior, f"{where}: observations")
    with prefixing(where):
        posterior = FieldPosterior(prior, grid, observations)
    latent = posterior.draw(1, np.random.default_rng(seed))[0]
    truth, median = FrictionField(grid, latent, link), FrictionField(grid, posterior.mean(), link)
    return GroundDescription(name, truth, median, posterior.sd(), posterior)


def _patched(ground: GroundDescription, patches: list[tuple[float, np.ndarray | tuple[float, float, float]]],
             where: str) -> GroundDescription:
    """Returns the ground with patches of known friction; later ones cover earlier ones."""
    if not patches:
        return ground
    grid, link = ground.field.grid, ground.field.link
    latent, fixed, sd = ground.field.latent.copy(), ground.median.latent.copy(), ground.sd.copy()
    x, y = np.meshgrid(grid.xs, grid.ys)
    for i, (friction, shape) in enumerate(patches):
        inside = within(shape, x, y) if isinstance(shape, np.ndarray) else (x - shape[0]) ** 2 + (y - shape[1]) ** 2 <= shape[2] ** 2
        if not inside.any():
            raise InputError(f"{where}: patches[{i}]: covers no node of the map; is it outside, or smaller than the spacing, "
                             f"{grid.spacing:g} m?")
        with prefixing(f"{where}: patches[{i}]"):
            latent[inside] = fixed[inside] = link.latent(friction)
        sd[inside] = 0.0
    patched = FrictionField(grid, latent, link)
    return GroundDescription(ground.name, patched, FrictionField(grid, fixed, link) if ground.belief else patched, sd, ground.belief)


def _soils(data: Mapping[str, Any], grid: Grid, where: str) -> tuple[SoilMap | None, dict[str, Any]]:
    """Reads the soils; returns also their entry of a self-contained document."""
    if "soil" not in data:
        if "soils" in data:
            raise InputError(f"{where}: soils: give the soil outside of them as well, as soil")
        return None, {}
    everywhere, regions = _soil(data["soil"], f"{where}: soil"), []
    for here, entry in documents.entries(data.get("soils") or [], f"{where}: soils", "{soil, polygon: [[x, y], ...]}"):
        values = documents.mapping(entry, here, ("soil", "polygon"))
        regions.append(SoilRegion(_corners(values["polygon"], f"{here}: polygon"), _soil(values["soil"], f"{here}: soil")))
    inline = {"soil": everywhere.document,
              "soils": [{"soil": region.soil.document, "polygon": region.corners.tolist()} for region in regions]}
    return SoilMap(everywhere, regions, grid.spacing, max(1.0, grid.spacing)), inline


def _soil(node: Any, where: str) -> SoilProperties:
    """Reads a soil by name or file, or with all its values."""
    if isinstance(node, Mapping):
        return load_soil(node, where)
    with prefixing(where):
        return load_soil(documents.text(node, where))


def _heights(node: Any, grid: Grid, where: str) -> HeightMap:
    """Returns the sum of a plane through the origin, heights at the nodes, and bumps of the shape (1 + cos) / 2."""
    values = documents.mapping(node, where, optional=("rise_x", "rise_y", "values", "bumps"))
    rise_x, rise_y = (documents.number(values.get(key, 0.0), f"{where}: {key}") for key in ("rise_x", "rise_y"))
    x, y = np.meshgrid(grid.xs, grid.ys)
    heights = rise_x * x + rise_y * y
    if "values" in values:
        heights = heights + _table(values["values"], grid, f"{where}: values")
    for here, entry in documents.entries(values.get("bumps") or [], f"{where}: bumps", "{x, y, radius, height}"):
        bump = documents.numbers(entry, here, ("x", "y", "radius", "height"))
        if bump["radius"] < 2.0 * grid.spacing:
            raise InputError(f"{here}: radius: {bump['radius']:g} m is less than two spacings of {grid.spacing:g} m")
        distance = np.minimum(np.hypot(x - bump["x"], y - bump["y"]) / bump["radius"], 1.0)
        heights = heights + 0.5 * bump["height"] * (1.0 + np.cos(np.pi * distance))
    return HeightMap(grid, heights)


def _table(node: Any, grid: Grid, where: str) -> np.ndarray:
    """Reads numbers at the nodes of a grid, line by line from the lowest y."""
    if not isinstance(node, list) or len(node) != grid.ny or not all(isinstance(line, list) and len(line) == grid.nx for line in node):
        raise InputError(f"{where}: give {grid.ny} lines of {grid.nx} numbers, one for each node of the area, from the lowest y")
    for row, line in enumerate(node):
        for column, value in enumerate(line):
            if value is None or value != value:
                raise InputError(f"{where}: a hole in row {row}, column {column}, at ({grid.xs[column]:g}, {grid.ys[row]:g}); fill it "
                                 "before")
    return np.array([[documents.number(value, f"{where}: row {row}") for value in line] for row, line in enumerate(node)])


def _grid(node: Any, where: str) -> Grid:
    values = documents.mapping(node, where, ("x", "y", "spacing"))
    (left, right), (low, high) = (documents.interval(values[key], f"{where}: {key}") for key in ("x", "y"))
    try:
        return Grid.covering((left, low), (right, high), documents.number(values["spacing"], f"{where}: spacing"))
    except InputError as error:
        raise InputError(f"{where}: {error}; nodes are {values['spacing']!r} m apart") from None


def _friction(node: Any, where: str) -> float:
    value = documents.number(node, where)
    if not 0.0 < value <= MAX_FRICTION / (1.0 + MARGIN):
        raise InputError(f"{where}: {value:g} is not between 0 and {MAX_FRICTION / (1.0 + MARGIN):.3g}")
    return value


def _observations(node: Any, link: FrictionLink, prior: FieldPrior, where: str) -> Observations:
    rows = []
    for here, entry in documents.entries(node, where, "{x, y, friction}"):
        values = documents.numbers(entry, here, ("x", "y", "friction"), ("noise",))
        with prefixing(here):
            rows.append((values["x"], values["y"], float(link.latent(values["friction"])), values.get("noise", prior.sigma_n)))
    table = np.array(rows).reshape(-1, 4)
    with prefixing(where):
        return Observations(table[:, :2], table[:, 2], table[:, 3])


def _patches(node: Any, where: str) -> list[tuple[float, np.ndarray | tuple[float, float, float]]]:
    """Reads friction and shape of each patch: corners (n, 2), or the centre and radius of a circle."""
    patches: list[tuple[float, np.ndarray | tuple[float, float, float]]] = []
    for here, entry in documents.entries(node, where, "{friction, polygon: [[x, y], ...]} or {friction, circle: {x, y, radius}}"):
        values = documents.mapping(entry, here, ("friction",), ("polygon", "circle"))
        if ("circle" in values) == ("polygon" in values):
            raise InputError(f"{here}: give either circle or polygon")
        friction = _friction(values["friction"], f"{here}: friction")
        if "circle" in values:
            circle = documents.numbers(values["circle"], f"{here}: circle", ("x", "y", "radius"))
            if circle["radius"] <= 0.0:
                raise InputError(f"{here}: circle: radius is {circle['radius']:g} m; give more than 0")
            patches.append((friction, (circle["x"], circle["y"], circle["radius"])))
            continue
        patches.append((friction, _corners(values["polygon"], f"{here}: polygon")))
    return patches


def _corners(node: Any, where: str) -> np.ndarray:
    """Reads the corners (n, 2) of a polygon."""
    if not isinstance(node, list) or len(node) < 3 or not all(isinstance(row, list) and len(row) == 2 for row in node):
        raise InputError(f"{where}: give at least three corners [x, y]")
    return np.array([[documents.number(value, where) for value in row] for row in node])
