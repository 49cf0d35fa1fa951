"""Prior of the latent field, a Gaussian process (paper 004, eqs 3-4), and observations of it with individual noise.

The kernel is a product of one along x and one along y, hence fast: the covariance of points and a grid is two thin matrices, and the
eigenvalues of a grid's covariance are products of those of its sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.errors import InputError, quote
from lfdm_ros.ground.friction_field import FrictionLink
from lfdm_ros.ground.grid import require_number

UNITS = {"a0": "1", "a1": "1/m", "a2": "1/m", "alpha_x": "m", "alpha_y": "m", "gamma": "1", "sigma_f": "1", "sigma_n": "1"}
POSITIVE = ("alpha_x", "alpha_y", "sigma_f")


@dataclass(frozen=True)
class FieldPrior:
    """f(x) ~ GP(a0 + a1 x + a2 y, sigma_f^2 exp(-|dx / alpha_x|^(2 / gamma) - |dy / alpha_y|^(2 / gamma))), x and y in metres.

    alpha_x, alpha_y: mean lengths of patches [m]; gamma 1: squared exponential, smooth, 2: exponential, rough, below 1 not positive
    definite; sigma_f: standard deviation of the field, 1 in the paper, above 1.5 with patches of pure ice and pure dry road; sigma_n:
    default standard deviation of an observation's noise. Raises InputError: a value is not finite or out of range; the message names it.
    """

    a0: float = 0.0
    a1: float = 0.0
    a2: float = 0.0
    alpha_x: float = 3.0
    alpha_y: float = 3.0
    gamma: float = 1.0
    sigma_f: float = 1.0
    sigma_n: float = 0.15

    def __post_init__(self) -> None:
        for field in fields(self):
            require_number(field.name, getattr(self, field.name))
        for name in POSITIVE:
            if getattr(self, name) <= 0.0:
                raise InputError(f"{name}: {getattr(self, name):g} is not above 0")
        if self.sigma_n < 0.0:
            raise InputError(f"sigma_n: {self.sigma_n:g} is below 0")
        if self.gamma < 1.0:
            raise InputError(f"gamma: {self.gamma:g} is below 1, where the kernel is not positive definite; give 1 or more")

    def having(self, **changes: float) -> FieldPrior:
        """Returns a copy with some values changed. Raises InputError: no such value, or one out of range."""
        names = [field.name for field in fields(self)]
        for name in changes:
            if name not in names:
                raise InputError(f"{quote(name)} is no value of a field; there are: {', '.join(names)}")
        return replace(self, **changes)

    @property
    def values(self) -> dict[str, float]:
        """All values by name."""
        return dict(zip((field.name for field in fields(self)), astuple(self)))

    def mean(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Returns the mean (eq 3) at points x, y [m] of any shape."""
        return np.asarray(self.a0 + self.a1 * x + self.a2 * y)

    def along_x(self, distance: np.ndarray) -> np.ndarray:
        """Returns the kernel's factor along x at distances of any shape [m]; 1 at 0."""
        return factor(distance, self.alpha_x, self.gamma)

    def along_y(self, distance: np.ndarray) -> np.ndarray:
        """Returns the kernel's factor along y."""
        return factor(distance, self.alpha_y, self.gamma)

    def covariance(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Returns the kernel (eq 4) between points (n, 2) and (m, 2) [m]: (n, m)."""
        away = first[:, None, :] - second[None, :, :]
        return np.asarray(self.sigma_f**2 * self.along_x(away[..., 0]) * self.along_y(away[..., 1]))


def possible(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Checks which values (K,) by name are in the ranges of `FieldPrior`: (K,)."""
    minimum = {**dict.fromkeys((*POSITIVE, "sigma_n"), 0.0), "gamma": 1.0}
    return np.all([np.isfinite(value) & (value > 0.0 if name in POSITIVE else value >= minimum.get(name, -np.inf))
                   for name, value in values.items()], axis=0)


def factor(distance: np.ndarray, alpha: float, gamma: float) -> np.ndarray:
    """Computes exp(-|distance / alpha|^(2 / gamma)), and 0 below 1e-30: denormal products take ten times as long."""
    scaled = np.asarray(distance, float) / alpha
    power = scaled * scaled
    if gamma != 1.0:
        power **= 1.0 / gamma
    return np.where(power < 69.0, np.exp(-power), 0.0)


@dataclass(frozen=True, eq=False)
class Observations:
    """Latent values (n,) observed at points (n, 2) [m], with the standard deviations (n,) of their noise. Raises InputError: wrong shapes,
    a value that is not finite, or noise below 0."""

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
        """Converts observed friction coefficients (n,), with `noise` of their latent values. Raises InputError: as the class, or one is not
        between ice and dry."""
        return cls(np.asarray(places, float), link.latent(friction), np.asarray(noise, float))

    def __len__(self) -> int:
        return len(self.latent)

    def where(self, which: np.ndarray) -> Observations:
        """Returns the observations selected by a mask (n,)."""
        return Observations(self.places[which], self.latent[which], self.noise[which])

    def and_also(self, others: Observations) -> Observations:
        """Returns the concatenation with others."""
        return Observations(*(np.concatenate(pair) for pair in (
            (self.places, others.places), (self.latent, others.latent), (self.noise, others.noise))))

    @classmethod
    def none(cls) -> Observations:
        """Returns an empty set of observations."""
        return cls(np.empty((0, 2)), np.empty(0), np.empty(0))
