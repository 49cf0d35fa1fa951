"""The effect of uncertain friction on open-loop manoeuvres: the experiments of paper 004, with more samples.

A true field is drawn from the prior of a patch length and observed on a coarse grid with the paper's noise; the manoeuvre is then driven on
samples of the posterior field. For a patch length the truth is the same for all spacings of the observations; without observations the
samples are those of the prior. Patch lengths, noise, numbers of samples and steering are the paper's. Speeds, masses and friction
coefficients, which it does not give, are assumptions (`MANOEUVRES`, `LINK`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import pi
from typing import Any

import numpy as np

from lfdm_lab.studies import STUDIES
from lfdm_ros.cache_key import SIMULATION_DEPENDENCIES, cache_key
from lfdm_ros.ground import DensePosterior, FieldPosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, Grid, Observations
from lfdm_ros.models.spinning import SLOW, SPIN
from lfdm_ros.numerics import binomial_interval
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import Vehicle, load_vehicle

CACHE_DEPENDENCIES = (*SIMULATION_DEPENDENCIES, "ground", f"{STUDIES}/friction")
LINK = FrictionLink(0.1, 0.8)
DRY = 0.8  # friction coefficient of the tyre measurements
NOISE = 0.15  # of an observation's latent value (004)
STEP, SAMPLE, SHOWN = 1e-3, 0.02, 0.1  # [s] of physics, of trajectories, of trajectories in the results
ICE_LENGTH = 4.0  # [m]
CHUNK = 250  # fields at a time
SIDE = 12.0  # [m] of map beyond the path on constant friction
DEGREE = pi / 180.0


@dataclass(frozen=True)
class Manoeuvre:
    """Coasting at `speed` [m/s]; from `start` [s] the front wheels are steered to `angle` [rad], in a step or at `rate` [rad/s].

    sigma_f: of the field; ice_at: time [s] at which the vehicle reaches an observed strip of ice, if any.
    """

    name: str
    chassis: str
    speed: float
    angle: float
    seconds: float
    start: float = 0.5
    rate: float = np.inf
    sigma_f: float = 1.0
    ice_at: float | None = None

    def steering(self, times: np.ndarray) -> np.ndarray:
        """Returns the angle of the front wheels (n,) [rad]."""
        since = np.maximum(times - self.start, 0.0)
        return np.where(since > 0.0, np.minimum(np.where(since > 0.0, self.rate, 0.0) * np.maximum(since, 1e-9), self.angle), 0.0)


MANOEUVRES = {m.name: m for m in (
    Manoeuvre("step", "nonlinear_bicycle", 28.0, 1.0 * DEGREE, 4.0),
    Manoeuvre("ice_strip", "nonlinear_bicycle", 10.0, 4.5 * DEGREE, 5.0, ice_at=2.0),
    # 40 deg/s at the steering wheel with a ratio of 16; a field with patches of ice.
    Manoeuvre("ramp", "eight_dof/fiala", 18.0, 10.0 * DEGREE, 6.0, rate=40.0 / 16.0 * DEGREE, sigma_f=1.6),
    Manoeuvre("sharp_step", "eight_dof/fiala", 26.0, 6.0 * DEGREE, 5.0, sigma_f=1.6),
)}
PATCHES = (1.0, 3.0, 10.0)  # [m]
SPACINGS = (None, 4.0, 2.0)  # [m] between observations; None: no observations
PAPER = (("step", 1.0, 4.0), ("step", 3.0, 4.0), ("ice_strip", 3.0, 4.0))  # manoeuvre, patch length, spacing of figs 15, 16, 18


@dataclass(frozen=True)
class Item:
    """A part of the study; plain data for other processes. kind: drive or convergence."""

    kind: str
    manoeuvre: str = "step"
    patch: float = 3.0
    spacing: float | None = 2.0
    samples: int = 200
    seed: int = 1
    vehicle: str = "hmmwv"


def items(samples: int, vehicle: str = "hmmwv") -> list[Item]:
    """Returns all parts: those of the paper, spin-outs by manoeuvre, patch length and observations, and convergence."""
    paper = [Item("drive", name, patch, spacing, samples, vehicle=vehicle) for name, patch, spacing in PAPER]
    table = [Item("drive", name, patch, spacing, samples, vehicle=vehicle)
             for name in ("step", "ramp", "sharp_step") for patch in PATCHES for spacing in SPACINGS]
    return [*dict.fromkeys([*paper, *table]), Item("convergence", samples=min(samples, 40), vehicle=vehicle)]


def key(item: Item) -> str:
    """Hashes all that a result depends on."""
    return cache_key({"item": asdict(item), "manoeuvre": repr(MANOEUVRES[item.manoeuvre]), "vehicle": load_vehicle(item.vehicle).identity},
                  CACHE_DEPENDENCIES)


def work(item: Item) -> dict[str, Any]:
    """Computes a part; returns its result as JSON."""
    return {**asdict(item), **{"drive": _driven, "convergence": _converged}[item.kind](item)}


# -- Drives -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ManoeuvreBatch:
    """A manoeuvre of a vehicle, compiled for batches of friction fields."""

    manoeuvre: Manoeuvre
    vehicle: Vehicle
    batch: BatchRollout
    start: np.ndarray

    @classmethod
    def of(cls, manoeuvre: Manoeuvre, name: str) -> ManoeuvreBatch:
        """Prepares a manoeuvre of the vehicle `name`. Raises InputError: the vehicle lacks parameters of the model."""
        # The field is the bicycle's friction coefficient; four-wheel tyres are scaled by its ratio to that of their measurement.
        vehicle = load_vehicle(name).replace(friction_scale=1.0, friction_front=1.0, friction_rear=1.0, friction_field=0.0)
        times = np.arange(0.0, manoeuvre.seconds + SAMPLE / 2, SAMPLE)
        steering = manoeuvre.steering(times) / vehicle.parameters["max_road_wheel_angle"]
        model = vehicle.model(f"{manoeuvre.chassis}/friction_field")
        batch = BatchRollout(model=model, vehicle=vehicle, dt=STEP, times=times, parameters=["friction_field"],
                             inputs=np.column_stack([np.clip(steering, -1.0, 1.0), 0.0 * times, 0.0 * times]),
                             channels=["x", "y", "vx", "vy", "yaw_rate"])
        return cls(manoeuvre, vehicle, batch, initial_state(model, vehicle, vx=manoeuvre.speed))

    def on(self, fields: Sequence[FrictionField]) -> np.ndarray:
        """Returns trajectories (fields, samples, 5): x, y [m], vx, vy [m/s], yaw rate [rad/s]."""
        reference = 1.0 if self.manoeuvre.chassis == "nonlinear_bicycle" else DRY
        tables = [FieldTable(field, reference) for field in fields]
        return np.array(self.batch.trajectories(np.array([[table.number] for table in tables]), self.start))

    def plain(self, friction: float = 0.5 * (LINK.ice + LINK.dry)) -> np.ndarray:
        """Returns the trajectory (samples, 5) on constant friction, that of a latent value of 0, the field's mean."""
        return np.asarray(self.on([FrictionField.uniform(friction, LINK)])[0])

    def map(self, spacing: float) -> Grid:
        """Returns a grid over the path on constant friction, with a margin of SIDE."""
        path = self.plain()[:, :2]
        low, high = path.min(axis=0) - SIDE, path.max(axis=0) + SIDE
        return Grid.covering((float(low[0]), float(low[1])), (float(high[0]), float(high[1])), spacing)


def _spun(runs: np.ndarray) -> np.ndarray:
    """Returns (n,) True for each trajectory of (n, samples, 5) that spins."""
    vx, vy = runs[..., 2], runs[..., 3]
    return np.asarray((np.arctan2(np.abs(vy), np.maximum(np.abs(vx), SLOW)) >= SPIN).any(axis=1))


def _observe(prior: FieldPrior, grid: Grid, spacing: float | None, ice: float | None,
             rng: np.random.Generator) -> tuple[Observations, FrictionField]:
    """Draws a true field, with a strip of ice from x = `ice` [m] on, and observations of it on a grid of `spacing` [m]."""
    latent = FieldPosterior(prior, grid).draw(1, rng)[0]
    if ice is not None:
        latent[:, (grid.xs >= ice) & (grid.xs < ice + ICE_LENGTH)] = -4.0
    truth = FrictionField(grid, latent, LINK)
    sides = [np.empty(0)] * 2 if spacing is None else [np.arange(ends[0] + 0.5 * spacing, ends[-1], spacing) for ends in (grid.xs, grid.ys)]
    places = np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)
    values = truth.latent_at(*places.T) + NOISE * rng.standard_normal(len(places))
    return Observations(places, values, np.full(len(places), NOISE)), truth


def _driven(item: Item) -> dict[str, Any]:
    """Drives over samples of the field given the observations."""
    began = time.perf_counter()
    manoeuvre = MANOEUVRES[item.manoeuvre]
    drive, rng = ManoeuvreBatch.of(manoeuvre, item.vehicle), np.random.default_rng([item.seed, round(10 * item.patch)])
    prior = FieldPrior(alpha_x=item.patch, alpha_y=item.patch, sigma_f=manoeuvre.sigma_f, sigma_n=NOISE)
    grid, plain = drive.map(min(item.patch / 3.0, 1.0)), drive.plain()
    ice = None if manoeuvre.ice_at is None else manoeuvre.speed * manoeuvre.ice_at
    observations, truth = _observe(prior, grid, item.spacing, ice, rng)
    observations = _near(observations, plain)
    runs, fields_seconds = _on_samples(drive, FieldPosterior(prior, grid, observations), item.samples, rng)
    yaw_rate, spun = runs[..., 4], _spun(runs)
    every = round(SHOWN / SAMPLE)
    outside = grid.outside(runs[..., 0], runs[..., 1]).mean()
    return {"spins": int(spun.sum()), "truth_spins": bool(_spun(drive.on([truth]))[0]),
            "yaw_rate_sd_max": float(yaw_rate.std(axis=0).max()), "observations": len(observations),
            "nodes": grid.nx * grid.ny, "outside": float(outside), "time": (np.arange(0, yaw_rate.shape[1], every) * SAMPLE).tolist(),
            "yaw_rate_mean": yaw_rate.mean(axis=0)[::every].tolist(), "yaw_rate_sd": yaw_rate.std(axis=0)[::every].tolist(),
            "yaw_rate_plain": plain[::every, 4].tolist(), "yaw_rate_samples": np.round(yaw_rate[:12, ::every], 5).tolist(),
            "position_sd": np.sqrt(runs[..., :2].var(axis=0).sum(axis=1))[::every].tolist(),
            "way_sd": _latent_sd(prior, observations, plain)[::every].tolist(),
            "fields_seconds": fields_seconds, "seconds": time.perf_counter() - began}


def _near(observations: Observations, path: np.ndarray, reach: float = 10.0) -> Observations:
    """Returns the observations within `reach` [m] of a path (n, 5); others carry no information, at a cost cubic in their number."""
    if not len(observations):
        return observations
    near = np.linalg.norm(observations.places[:, None] - path[None, ::10, :2], axis=2).min(axis=1) <= reach
    return Observations(observations.places[near], observations.latent[near], observations.noise[near])


def _latent_sd(prior: FieldPrior, observations: Observations, path: np.ndarray) -> np.ndarray:
    """Returns the standard deviation of the latent field along a path (n, 5)."""
    return np.sqrt(np.maximum(np.diag(DensePosterior(prior, path[:, :2], observations).covariance), 0.0))


def _on_samples(drive: ManoeuvreBatch, posterior: FieldPosterior, samples: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """Drives on samples of a field; returns trajectories (samples, n, 5), and the time to draw the fields [s]."""
    runs, seconds = [], 0.0
    for first in range(0, samples, CHUNK):
        began = time.perf_counter()
        fields = [FrictionField(posterior.grid, latent, LINK) for latent in posterior.draw(min(CHUNK, samples - first), rng)]
        seconds += time.perf_counter() - began
        runs.append(drive.on(fields))
    return np.concatenate(runs), seconds


# -- Convergence --------------------------------------------------------------------------------------------------------------


def _converged(item: Item) -> dict[str, Any]:
    """Drives on grids of decreasing spacing, halved in each step (004, figs 2-3); returns distances from the trajectory on the finest."""
    manoeuvre = MANOEUVRES["step"]
    drive, rng = ManoeuvreBatch.of(manoeuvre, item.vehicle), np.random.default_rng(item.seed)
    prior = FieldPrior(alpha_x=item.patch, alpha_y=item.patch)
    finest, levels = item.patch / 16.0, 5
    covered = drive.map(finest)
    last = 2 ** (levels - 1)
    nx, ny = (n + (-(n - 1)) % last for n in (covered.nx, covered.ny))
    grid = Grid(covered.x, covered.y, finest, nx, ny)
    posterior = FieldPosterior(prior, grid)
    errors: list[list[float]] = [[] for _ in range(levels - 1)]
    deviations = []
    for _ in range(item.samples):
        latent = posterior.draw(1, rng)[0]
        fields = [FrictionField(Grid(grid.x, grid.y, finest * 2**k, (nx - 1) // 2**k + 1, (ny - 1) // 2**k + 1),
                                latent[::2**k, ::2**k], LINK) for k in range(levels)]
        runs = drive.on(fields)[..., :2]
        deviation = np.linalg.norm(runs[1:] - runs[0], axis=2)
        for k, of_level in enumerate(deviation):
            errors[k].append(float(of_level.max()))
        deviations.append(deviation)
    length = float(np.linalg.norm(np.diff(drive.plain()[:, :2], axis=0), axis=1).sum())
    every = round(SHOWN / SAMPLE)
    return {"spacings": [finest * 2**k for k in range(1, levels)], "per_patch": [16.0 / 2**k for k in range(1, levels)],
            "nodes": [((nx - 1) // 2**k + 1) * ((ny - 1) // 2**k + 1) for k in range(1, levels)],
            "error": [float(np.sqrt(np.mean(np.square(one)))) / length for one in errors],
            "deviation": np.sqrt(np.mean(np.square(deviations), axis=0))[:, ::every].tolist(),
            "time": (np.arange(0, deviations[0].shape[1], every) * SAMPLE).tolist()}


# -- Results ------------------------------------------------------------------------------------------------------------------


def rows(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns one record for each cell of drives."""
    return [{"manoeuvre": run["manoeuvre"], "patch_length_m": run["patch"], "observation_spacing_m": run["spacing"],
             "observations": run["observations"], "samples": run["samples"], "spin_out_probability": run["spins"] / run["samples"],
             "interval": list(binomial_interval(run["spins"], run["samples"])), "truth_spins": run["truth_spins"],
             "yaw_rate_sd_max": run["yaw_rate_sd_max"],
             "nodes": run["nodes"], "outside": run["outside"]}
            for run in found if run["kind"] == "drive"]


def tables(found: Sequence[Mapping[str, Any]]) -> list[tuple[list[str], list[list[str]]]]:
    """Returns heads and rows: drives; convergence."""
    drives = []
    for row in rows(found):
        spacing, (low, high) = row["observation_spacing_m"], row["interval"]
        every = "none" if spacing is None else f"{spacing:g} ({row['observations']})"
        drives.append([row["manoeuvre"], f"{row['patch_length_m']:g}", every, str(row["samples"]),
                       f"{row['spin_out_probability']:.3f}", f"{low:.3f} to {high:.3f}", "yes" if row["truth_spins"] else "no",
                       f"{row['yaw_rate_sd_max']:.4f}"])
    shown = [(["manoeuvre", "patches [m]", "observed every [m]", "samples", "spin-outs", "95 %", "on the truth",
               "largest sd of yaw rate [rad/s]"], drives)]
    for run in found:
        if run["kind"] == "convergence":
            shown.append((["nodes a patch", "nodes", "error / way"], [[f"{a:g}", str(n), f"{e:.2e}"] for a, n, e in zip(
                run["per_patch"], run["nodes"], run["error"])]))
    return shown
