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
REMEMBERED = 2000  # windows in all, on the map and off it
_LEAST = 0.01  # by so much [nat] the latent friction is better known after a window that says something
_TOLERANCE = 1e-3  # of the latent friction: the map is made anew again and again
_BEYOND = 0.5  # of `reach`, which the map is larger by than it needs to be: so it need not move with every metre


@dataclass(frozen=True)
class LearnerSettings(Declared):
    """Prior of a ground before the first drive, resolution of its map, and noise of the vehicle's measurements.

    Raises:
        InputError: a value is out of its range; the message names it.
    """

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
        """Takes random field, observations and area of a ground's file; the rest of the file is to be learned.

        Raises:
            InputError: the settings do not fit together.
        """
        if ground is not None and ground.belief is not None:
            link, prior, seen = ground.field.link, ground.belief.prior, ground.belief.observations
        else:
            link, seen = FrictionLink(settings.ice, settings.dry), Observations.none()
            prior = FieldPrior(a0=float(link.latent(settings.usual_friction)), alpha_x=settings.patch_length,
                               alpha_y=settings.patch_length, sigma_f=settings.patch_deviation)
        grid = None
        if ground is not None:
            area = ground.field.grid
            grid = Grid.covering((area.x, area.y), (float(area.xs[-1]), float(area.ys[-1])), _spacing(settings, prior))
        return cls(link, prior, seen, grid)

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


def _on(grid: Grid, seen: Observations) -> Observations:
    return seen.where(~grid.outside(*seen.places.T))


@dataclass(frozen=True, eq=False)
class DriveSegment:
    """A part of a drive of which what lies before `since` [s] was in the part before."""

    drive: MeasuredDrive
    since: float


@dataclass(eq=False)
class _Window:
    """place (2,) [m]; log_likelihood (M,); says [nat]; the stretch that it lies in; its observation as it was found last."""

    place: np.ndarray
    log_likelihood: np.ndarray
    says: float
    stretch: DriveSegment
    site: np.ndarray


class LearnedGround:
    """Feels stretches of drives, keeps of them what says most, and makes a field of it.

    Attributes:
        felt: windows in all; silent: of these such as said nothing.
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
        self._kept: dict[tuple[int, int], list[_Window]] = {}
        self._grid: Grid | None = None
        self.felt = self.silent = 0
        self._feels = self._feeling(vehicle, posterior)

    def _feeling(self, vehicle: Vehicle, posterior: Mapping[str, np.ndarray] | None) -> FrictionEstimator:
        return FrictionEstimator(vehicle, self._prior_ground.link, self._prior_ground.prior,
                                 EstimatorSettings(model=self._model, noise=self._settings.noise), posterior)

    @property
    def kept(self) -> int:
        """Windows that say something and are remembered."""
        return sum(map(len, self._kept.values()))

    def take(self, vehicle: Vehicle, posterior: Mapping[str, np.ndarray] | None = None) -> None:
        """Changes to another calibration: the remembered windows are estimated again.

        Raises:
            InputError: as `FrictionEstimator`; then nothing has changed.
        """
        self._feels = self._feeling(vehicle, posterior)
        stretches = dict.fromkeys(window.stretch for windows in self._kept.values() for window in windows)
        self._kept.clear()
        self.felt = self.silent = 0
        for stretch in stretches:
            self.feel(stretch)

    def feel(self, stretch: DriveSegment) -> int:
        """Feels a stretch; returns how many of its windows said something.

        Raises:
            InputError: as `FrictionEstimator.feel`.
        """
        felt, prior = self._feels.feel(stretch.drive, stretch.since), self._prior_ground.prior
        if not len(felt):
            return 0
        _, variance = tilted(felt, prior.mean(*felt.places.T), np.full(len(felt), prior.sigma_f))
        said = 0
        for place, logs, left in zip(felt.places, felt.log_likelihood, variance):
            window = _Window(place, logs, math.log(prior.sigma_f) - 0.5 * math.log(left), stretch, np.zeros(2))
            if window.says >= _LEAST:
                self._keep(window)
                said += 1
        self.felt, self.silent = self.felt + len(felt), self.silent + len(felt) - said
        return said

    def _keep(self, window: _Window) -> None:
        prior, (x, y) = self._prior_ground.prior, window.place
        cell = math.floor(x / (QUARTER * prior.alpha_x)), math.floor(y / (QUARTER * prior.alpha_y))
        # The newest last, and of those that say the same the newer one first.
        there = [*self._kept.pop(cell, ()), window]
        if len(there) > self._settings.windows_per_place:
            there.remove(min(there, key=lambda one: one.says))
        self._kept[cell] = there
        while self.kept > REMEMBERED:  # the place where nobody was for longest
            del self._kept[next(iter(self._kept))]

    def known(self, place: tuple[float, float]) -> FrictionPosteriorMap:
        """Computes the posterior map around the vehicle at a place [m]."""
        belief, s = self._prior_ground, self._settings
        self._grid = grid = belief.around(s, place, self._grid)
        here = [window for windows in self._kept.values() for window in windows if not grid.outside(*window.place)]
        here = sorted(here, key=lambda window: -window.says)[:s.most_windows]
        seen = _on(grid, belief.seen)
        if here:
            felt = FrictionLikelihood(np.array([w.place for w in here]), LATENT, np.array([w.log_likelihood for w in here]))
            found = sites(belief.prior, felt, seen, np.array([w.site for w in here]).T, tolerance=_TOLERANCE)
            for window, site in zip(here, found.T):
                window.site = site
            seen = seen.and_also(observations_of(felt, found))
        return FrictionPosteriorMap.of(FieldPosterior(belief.prior, grid, seen), belief.link, s.draws)
