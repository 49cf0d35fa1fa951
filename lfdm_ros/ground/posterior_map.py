"""Posterior of a friction field on a map: mean, deviation and samples of equal weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.ground.field import FrictionField
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.link import FrictionLink
from lfdm_ros.ground.posterior import FieldPosterior


@dataclass(frozen=True, eq=False)
class FrictionPosteriorMap:
    """Latent friction at the nodes of a grid: mean and standard deviation (ny, nx), and samples (D, ny, nx), D may be 0.

    Raises:
        InputError: shapes that do not fit, what is not finite, or a deviation below 0.
    """

    grid: Grid
    link: FrictionLink
    mean: np.ndarray
    sd: np.ndarray
    draws: np.ndarray

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("sd", self.sd), ("draws", self.draws)):
            shape = (len(values), *self.grid.shape) if name == "draws" else self.grid.shape
            if values.shape != shape:
                raise InputError(f"known friction: {name} of shape {values.shape} for a grid of (ny, nx) = {self.grid.shape}")
            if not np.isfinite(values).all():
                raise InputError(f"known friction: {name} is not finite everywhere")
        if (self.sd < 0.0).any():
            raise InputError("known friction: a standard deviation is below 0")

    @classmethod
    def of(cls, posterior: FieldPosterior, link: FrictionLink, draws: int, seed: int = 1) -> FrictionPosteriorMap:
        """Makes the map of a posterior with `draws` samples; one seed, so that they change no more than the posterior does."""
        drawn = posterior.draw(draws, np.random.default_rng(seed)) if draws else np.empty((0, *posterior.grid.shape))
        return cls(posterior.grid, link, posterior.mean(), posterior.sd(), drawn)

    @property
    def median(self) -> FrictionField:
        """The median of the friction, which is that of the latent friction's mean."""
        return FrictionField(self.grid, self.mean, self.link)

    @property
    def drawn(self) -> list[FrictionField]:
        """The samples."""
        return [FrictionField(self.grid, one, self.link) for one in self.draws]
