"""Observations of a field, each value with its own noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.errors import InputError
from lfdm_ros.ground.link import FrictionLink


@dataclass(frozen=True, eq=False)
class Observations:
    """Latent values (n,) that were seen at places (n, 2) [m], and the standard deviations (n,) of their noise.

    Raises:
        InputError: shapes that do not fit, a value that is not finite, or noise below 0.
    """

    places: np.ndarray
    latent: np.ndarray
    noise: np.ndarray

    def __post_init__(self) -> None:
        places, latent = np.array(self.places, float).reshape(-1, 2), np.array(self.latent, float).ravel()
        noise = np.array(np.broadcast_to(np.asarray(self.noise, float), latent.shape))
        if len(places) != len(latent):
            raise InputError(f"observations: {len(places)} places and {len(latent)} values; give a value for each place")
        for name, values in (("places", places), ("latent", latent), ("noise", noise)):
            if not np.isfinite(values).all():
                row = int(np.argmax(~np.isfinite(values).reshape(len(values), -1).all(axis=1)))
                raise InputError(f"observations: {name} of number {row} is no finite number")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        if (noise < 0.0).any():
            raise InputError(f"observations: noise of number {int(np.argmin(noise))} is below 0")

    @classmethod
    def of_friction(cls, places: ArrayLike, friction: ArrayLike, link: FrictionLink, noise: ArrayLike) -> Observations:
        """Makes observations of friction coefficients (n,); `noise` is that of their latent values.

        Raises:
            InputError: as the record, or one is not between ice and dry.
        """
        return cls(np.asarray(places, float), link.latent(friction), np.asarray(noise, float))

    def __len__(self) -> int:
        return len(self.latent)

    def where(self, which: np.ndarray) -> Observations:
        """Returns the observations for which a mask (n,) is true."""
        return Observations(self.places[which], self.latent[which], self.noise[which])

    def and_also(self, others: Observations) -> Observations:
        """Returns these, then others."""
        return Observations(*(np.concatenate(pair) for pair in (
            (self.places, others.places), (self.latent, others.latent), (self.noise, others.noise))))

    @classmethod
    def none(cls) -> Observations:
        """Makes an empty set of observations."""
        return cls(np.empty((0, 2)), np.empty(0), np.empty(0))
