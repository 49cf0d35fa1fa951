"""Friction of the ground, learned while a vehicle drives: estimates by place, and the field that follows.

An hour's drive has 18,000 windows. In each place, a quarter of a patch long, the few most informative windows are kept, and on the map
only as many places as the limit of observations: the cost does not grow with the distance driven, and repeated passes do not reduce the
variance below the model's error.
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

QUARTER = 0.25  # of a patch: as far as two windows speak of the same place, and as the map's nodes are apart
MAX_WINDOWS = 2000  # windows in all, on the map and off it
_MIN_INFORMATION = 0.01  # [nat] gained on the latent friction by a window that is stored
_TOLERANCE = 1e-3  # of the latent friction: the map is made anew again and again
_BEYOND = 0.5  # of `reach`, which the map is larger by than it needs to be: so it need not move with every metre


@dataclass(frozen=True)
class LearnerSettings(Declared):
    """Prior of a ground before the first drive, resolution of its map, and noise of the vehicle's measurements. Raises InputError: a value
    is out of its range; the message names it."""

    ABOUT: ClassVar[str] = "ground: "

    ice: float = setting(0.1, "1", "least friction that there may be, over that of the vehicle's own road; this and what follows up to "
                                   "patch_deviation: where the ground's file has no random field", 0.01, 3.0)
    dry: float = setting(1.1, "1", "largest friction that there may be", 0.01, 3.0)
    usual_friction: float = setting(1.0, "1", "median of what is expected where nothing is known, between ice and dry", 0.01, 3.0)
    patch_length: float = setting(8.0, "m", "of patches of one friction", 0.05, 1000.0)
    patch_deviation: float = setting(2.5, "1", "standard deviation of the latent friction; where nobody drove 90 % lie between 0.23 "
                                             "and 1.10 with 2.5, between 0.53 and 1.09 with 1.5", 0.1, 5.0)
    spacing: float = setting(0.0, "m", "between the map's nodes; 0: a quarter of a patch", 0.0, 100.0)
    reach: float = setting(80.0, "m", "the map goes at least so far around the vehicle, and with it; of a ground's file it has the area",
                           1.0, 2000.0)
    most_windows: int = setting(400, "", "windows of the drive that one map is made of, at most", 10, 2000)
    windows_per_place: int = setting(2, "", "of one place, a quarter of a patch long: those that say most", 1, 100)
    draws: int = setting(16, "", "samples of the field that are told with its mean and deviation", 0, 32)
    noise_vx: float = setting(0.03, "m/s", "standard deviation of the measured forward speed", 1e-4, 10.0)
    noise_vy: float = setting(0.03, "m/s", "of the speed to the left", 1e-4, 10.0)
    noise_yaw_rate: float = setting(0.005, "rad/s", "of the yaw rate", 1e-5, 10.0)
    noise_wheel_speeds: float = setting(0.1, "rad/s", "of each wheel's", 1e-4, 100.0)

    @property
    def noise(self) -> dict[str, float]:
        """Noise by channel, as EstimatorSettings takes it."""
        return {"vx": self.noise_vx, "vy": self.noise_vy, "yaw_rate": self.noise_yaw_rate, "omega": self.noise_wheel_speeds}


LEARNER = Exposed(LearnerSettings)


@dataclass(frozen=True, eq=False)
class GroundPrior:
    """Prior knowledge of a ground before the drive. seen: observations; grid: of its map; None: one that goes with the vehicle."""

    link: FrictionLink
    prior: FieldPrior
    seen: Observations = field(default_factory=Observations.none)
    grid: Grid | None = None

    @classmethod
    def of(cls, settings: LearnerSettings, ground: GroundDescription | None = None) -> GroundPrior:
        """Takes random field, observations and area of a ground's file; the rest of the file is to be learned. Raises InputError: the
        settings do not fit together."""
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
        """Returns the grid of a map with the vehicle at a place [m]; last: of the map before, which is kept while it reaches far enough."""
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
        return FrictionPosteriorMap.of(FieldPosterior(self.prior, grid, _on(grid, self.seen)), self.link, settings.draws)


def _spacing(settings: LearnerSettings, prior: FieldPrior) -> float:
    return settings.spacing or QUARTER * min(prior.alpha_x, prior.alpha_y)


def _on(grid: Grid, observations: Observations) -> Observations:
    return observations.where(~grid.outside(*observations.places.T))


@dataclass(frozen=True, eq=False)
class DriveSegment:
    """Part of a drive; its rows before `since` [s] were in the part before, too."""

    drive: MeasuredDrive
    since: float


@dataclass(eq=False)
class _Window:
    """place (2,) [m]; log_likelihood (M,); information [nat]; the segment that it lies in; its observation as it was found last."""

    place: np.ndarray
    log_likelihood: np.ndarray
    information: float
    segment: DriveSegment
    site: np.ndarray


class LearnedGround:
    """Friction field of the most informative windows of a drive.

    Attributes:
        estimated: windows in all; uninformative: those of them without information.
    """

    def __init__(self, vehicle: Vehicle, belief: GroundPrior, settings: LearnerSettings, model: str = "eight_dof",
                 posterior: Mapping[str, np.ndarray] | None = None) -> None:
        """Starts without estimates.

        Args:
            model, posterior: as `EstimatorSettings` and `FrictionEstimator` have them.

        Raises:
            InputError: as `FrictionEstimator`.
        """
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
        """Number of windows in store."""
        return sum(map(len, self._windows.values()))

    def set_vehicle(self, vehicle: Vehicle, posterior: Mapping[str, np.ndarray] | None = None) -> None:
        """Changes to another calibration: the remembered windows are estimated again. Raises InputError: as `FrictionEstimator`; then
        nothing has changed."""
        self._estimator = self._make_estimator(vehicle, posterior)
        segments = dict.fromkeys(window.segment for windows in self._windows.values() for window in windows)
        self._windows.clear()
        self.estimated = self.uninformative = 0
        for segment in segments:
            self.estimate(segment)

    def estimate(self, segment: DriveSegment) -> int:
        """Estimates the friction of a segment; returns the number of its informative windows. Raises InputError: as
        `FrictionEstimator.estimate`."""
        likelihoods, prior = self._estimator.estimate(segment.drive, segment.since), self._prior_ground.prior
        if not len(likelihoods):
            return 0
        _, variance = tilted(likelihoods, prior.mean(*likelihoods.places.T), np.full(len(likelihoods), prior.sigma_f))
        informative = 0
        for place, logs, left in zip(likelihoods.places, likelihoods.log_likelihood, variance):
            window = _Window(place, logs, math.log(prior.sigma_f) - 0.5 * math.log(left), segment, np.zeros(2))
            if window.information >= _MIN_INFORMATION:
                self._keep(window)
                informative += 1
        self.estimated, self.uninformative = self.estimated + len(likelihoods), self.uninformative + len(likelihoods) - informative
        return informative

    def _keep(self, window: _Window) -> None:
        prior, (x, y) = self._prior_ground.prior, window.place
        cell = math.floor(x / (QUARTER * prior.alpha_x)), math.floor(y / (QUARTER * prior.alpha_y))
        # The newest last, and of those that say the same the newer one first.
        there = [*self._windows.pop(cell, ()), window]
        if len(there) > self._settings.windows_per_place:
            there.remove(min(there, key=lambda one: one.information))
        self._windows[cell] = there
        while self.stored > MAX_WINDOWS:  # the place where nobody was for longest
            del self._windows[next(iter(self._windows))]

    def posterior_map(self, place: tuple[float, float]) -> FrictionPosteriorMap:
        """Computes the posterior map around the vehicle at a place [m]."""
        belief, s = self._prior_ground, self._settings
        self._grid = grid = belief.around(s, place, self._grid)
        here = [window for windows in self._windows.values() for window in windows if not grid.outside(*window.place)]
        here = sorted(here, key=lambda window: -window.information)[:s.most_windows]
        observations = _on(grid, belief.seen)
        if here:
            likelihoods = FrictionLikelihood(np.array([w.place for w in here]), LATENT, np.array([w.log_likelihood for w in here]))
            found = sites(belief.prior, likelihoods, observations, np.array([w.site for w in here]).T, tolerance=_TOLERANCE)
            for window, site in zip(here, found.T):
                window.site = site
            observations = observations.and_also(observations_of(likelihoods, found))
        return FrictionPosteriorMap.of(FieldPosterior(belief.prior, grid, observations), belief.link, s.draws)
