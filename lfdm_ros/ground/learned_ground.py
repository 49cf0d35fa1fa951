"""Friction field learned while driving, from local friction estimates.

An hour's drive has 18,000 windows. Each cell, a quarter of a patch long, keeps its few most informative windows, and the number of windows
of a map is limited: the cost does not grow with the distance driven, and repeated passes do not reduce the variance below the model error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from lfdm_ros.ground.friction_estimator import LATENT, EstimatorSettings, FrictionEstimator, MeasuredDrive
from lfdm_ros.ground.friction_field import FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.ground_file import GroundDescription
from lfdm_ros.ground.learning import FrictionLikelihood, observations_of, sites, tilted
from lfdm_ros.ground.posterior import FieldPosterior, FrictionPosteriorMap
from lfdm_ros.ground.prior import FieldPrior, Observations
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.vehicles import Vehicle

QUARTER = 0.25  # of a patch: size of a cell of windows, and default spacing of the map's nodes
MAX_WINDOWS = 2000  # stored windows, on the map and off it
_MIN_INFORMATION = 0.01  # [nat] on the latent friction of a stored window
_TOLERANCE = 1e-3  # of the latent friction; coarse, as the map is updated often
_BEYOND = 0.5  # extra size of the map as a fraction of `reach`, so it need not move every metre


@dataclass(frozen=True)
class LearnerSettings(Declared):
    """Prior of a ground before the first drive, resolution of its map, and noise of the measurements. Raises InputError: a value out of
    its range; the message names it."""

    ABOUT: ClassVar[str] = "ground: "

    ice: float = setting(0.1, "1", "minimum friction, relative to the vehicle's nominal road; this and the next settings up to "
                                   "patch_deviation apply if the ground's file has no random field", 0.01, 3.0)
    dry: float = setting(1.1, "1", "maximum friction", 0.01, 3.0)
    usual_friction: float = setting(1.0, "1", "prior median of the friction, between ice and dry", 0.01, 3.0)
    patch_length: float = setting(8.0, "m", "correlation length of the friction", 0.05, 1000.0)
    patch_deviation: float = setting(2.5, "1", "standard deviation of the latent friction; without measurements 90 % lie between 0.23 "
                                             "and 1.10 with 2.5, between 0.53 and 1.09 with 1.5", 0.1, 5.0)
    spacing: float = setting(0.0, "m", "between the map's nodes; 0: a quarter of a patch", 0.0, 100.0)
    reach: float = setting(80.0, "m", "minimum extent of the map around the vehicle, with which it moves; with a ground's file its area",
                           1.0, 2000.0)
    most_windows: int = setting(400, "", "maximum number of windows of the drive for one map", 10, 2000)
    windows_per_place: int = setting(2, "", "most informative windows kept in each cell, a quarter of a patch long", 1, 100)
    draws: int = setting(16, "", "samples of the field, published with its mean and deviation", 0, 32)
    noise_vx: float = setting(0.03, "m/s", "standard deviation of the measured longitudinal velocity", 1e-4, 10.0)
    noise_vy: float = setting(0.03, "m/s", "of the lateral velocity", 1e-4, 10.0)
    noise_yaw_rate: float = setting(0.005, "rad/s", "of the yaw rate", 1e-5, 10.0)
    noise_wheel_speeds: float = setting(0.1, "rad/s", "of each wheel speed", 1e-4, 100.0)

    @property
    def noise(self) -> dict[str, float]:
        """Noise by channel, for EstimatorSettings."""
        return {"vx": self.noise_vx, "vy": self.noise_vy, "yaw_rate": self.noise_yaw_rate, "omega": self.noise_wheel_speeds}


LEARNER = Exposed(LearnerSettings)


@dataclass(frozen=True, eq=False)
class GroundPrior:
    """Prior of a ground before the drive. observations: earlier ones; grid: of its map, None: moving with the vehicle."""

    link: FrictionLink
    prior: FieldPrior
    observations: Observations = field(default_factory=Observations.none)
    grid: Grid | None = None

    @classmethod
    def of(cls, settings: LearnerSettings, ground: GroundDescription | None = None) -> GroundPrior:
        """Combines the settings with random field, observations and area of a ground's file; the rest of the file is to be learned. Raises
        InputError: inconsistent settings."""
        if ground is not None and ground.belief is not None:
            link, prior, observations = ground.field.link, ground.belief.prior, ground.belief.observations
        else:
            link, observations = FrictionLink(settings.ice, settings.dry), Observations.none()
            prior = FieldPrior(a0=float(link.latent(settings.usual_friction)), alpha_x=settings.patch_length,
                               alpha_y=settings.patch_length, sigma_f=settings.patch_deviation)
        grid = None
        if ground is not None:
            area = ground.field.grid
            grid = Grid.covering((area.x, area.y), (float(area.xs[-1]), float(area.ys[-1])), _spacing(settings, prior))
        return cls(link, prior, observations, grid)

    def around(self, settings: LearnerSettings, place: tuple[float, float], last: Grid | None = None) -> Grid:
        """Returns the grid of a map around the vehicle at a position [m]; last: previous grid, returned while it reaches far enough."""
        if self.grid is not None:
            return self.grid
        if last is not None and all(first + settings.reach <= at <= end - settings.reach for at, first, end in zip(
                place, (last.x, last.y), (last.xs[-1], last.ys[-1]))):
            return last
        spacing = _spacing(settings, self.prior)
        side = 2 * math.ceil((1.0 + _BEYOND) * settings.reach / spacing)
        x, y = (spacing * (round(at / spacing) - side // 2) for at in place)
        return Grid(x, y, spacing, side + 1, side + 1)

    def before(self, settings: LearnerSettings, place: tuple[float, float]) -> FrictionPosteriorMap:
        """Returns the posterior without observations of this drive."""
        grid = self.around(settings, place)
        return FrictionPosteriorMap.of(FieldPosterior(self.prior, grid, _on(grid, self.observations)), self.link, settings.draws)


def _spacing(settings: LearnerSettings, prior: FieldPrior) -> float:
    return settings.spacing or QUARTER * min(prior.alpha_x, prior.alpha_y)


def _on(grid: Grid, observations: Observations) -> Observations:
    return observations.where(~grid.outside(*observations.places.T))


@dataclass(frozen=True, eq=False)
class DriveSegment:
    """Part of a drive; rows before `since` [s] belong to the previous part, too."""

    drive: MeasuredDrive
    since: float


@dataclass(eq=False)
class _Window:
    """Stored window: place (2,) [m]; log_likelihood (M,); information [nat]; segment of the drive; site of the last map (2,)."""

    place: np.ndarray
    log_likelihood: np.ndarray
    information: float
    segment: DriveSegment
    site: np.ndarray


class LearnedGround:
    """Friction field of the most informative windows of a drive.

    Attributes:
        estimated: number of windows; uninformative: number of those without information.
    """

    def __init__(self, vehicle: Vehicle, belief: GroundPrior, settings: LearnerSettings, model: str = "eight_dof",
                 posterior: Mapping[str, np.ndarray] | None = None) -> None:
        """Starts without estimates. model, posterior: see `EstimatorSettings` and `FrictionEstimator`. Raises InputError: as
        `FrictionEstimator`."""
        self._prior_ground, self._settings, self._model = belief, settings, model
        self._windows: dict[tuple[int, int], list[_Window]] = {}
        self._grid: Grid | None = None
        self.estimated = self.uninformative = 0
        self._estimator = self._make_estimator(vehicle, posterior)

    def _make_estimator(self, vehicle: Vehicle, posterior: Mapping[str, np.ndarray] | None) -> FrictionEstimator:
        return FrictionEstimator(vehicle, self._prior_ground.link, self._prior_ground.prior,
                                 EstimatorSettings(model=self._model, noise=self._settings.noise), posterior)

    @property
    def stored(self) -> int:
        """Number of stored windows."""
        return sum(map(len, self._windows.values()))

    def set_vehicle(self, vehicle: Vehicle, posterior: Mapping[str, np.ndarray] | None = None) -> None:
        """Changes the calibration and estimates the segments of stored windows again. Raises InputError: as `FrictionEstimator`, without
        any change."""
        self._estimator = self._make_estimator(vehicle, posterior)
        segments = dict.fromkeys(window.segment for windows in self._windows.values() for window in windows)
        self._windows.clear()
        self.estimated = self.uninformative = 0
        for segment in segments:
            self.estimate(segment)

    def estimate(self, segment: DriveSegment) -> int:
        """Estimates the friction of a segment; returns its number of informative windows. Raises InputError: as
        `FrictionEstimator.estimate`."""
        likelihoods, prior = self._estimator.estimate(segment.drive, segment.since), self._prior_ground.prior
        if not len(likelihoods):
            return 0
        _, variance = tilted(likelihoods, prior.mean(*likelihoods.places.T), np.full(len(likelihoods), prior.sigma_f))
        informative = 0
        for place, logs, remaining in zip(likelihoods.places, likelihoods.log_likelihood, variance):
            window = _Window(place, logs, math.log(prior.sigma_f) - 0.5 * math.log(remaining), segment, np.zeros(2))
            if window.information >= _MIN_INFORMATION:
                self._store(window)
                informative += 1
        self.estimated, self.uninformative = self.estimated + len(likelihoods), self.uninformative + len(likelihoods) - informative
        return informative

    def _store(self, window: _Window) -> None:
        prior, (x, y) = self._prior_ground.prior, window.place
        cell = math.floor(x / (QUARTER * prior.alpha_x)), math.floor(y / (QUARTER * prior.alpha_y))
        # The newest last; among equally informative windows the oldest is removed.
        windows = [*self._windows.pop(cell, ()), window]
        if len(windows) > self._settings.windows_per_place:
            windows.remove(min(windows, key=lambda one: one.information))
        self._windows[cell] = windows
        while self.stored > MAX_WINDOWS:  # removes the cell visited least recently
            del self._windows[next(iter(self._windows))]

    def posterior_map(self, place: tuple[float, float]) -> FrictionPosteriorMap:
        """Computes the posterior map around the vehicle at a position [m]."""
        belief, s = self._prior_ground, self._settings
        self._grid = grid = belief.around(s, place, self._grid)
        on_map = [window for windows in self._windows.values() for window in windows if not grid.outside(*window.place)]
        on_map = sorted(on_map, key=lambda window: -window.information)[:s.most_windows]
        observations = _on(grid, belief.observations)
        if on_map:
            likelihoods = FrictionLikelihood(np.array([w.place for w in on_map]), LATENT, np.array([w.log_likelihood for w in on_map]))
            new_sites = sites(belief.prior, likelihoods, observations, np.array([w.site for w in on_map]).T, tolerance=_TOLERANCE)
            for window, site in zip(on_map, new_sites.T):
                window.site = site
            observations = observations.and_also(observations_of(likelihoods, new_sites))
        return FrictionPosteriorMap.of(FieldPosterior(belief.prior, grid, observations), belief.link, s.draws)
