"""Friction as a function of a latent Gaussian value (paper 004, eqs 1-2), and fields of it on a grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.errors import InputError
from lfdm_ros.ground.grid import Grid, coefficients, look_up, require_number

MAX_FRICTION = 3.0  # friction coefficient, as for the wheels
MARGIN = 0.02  # of given coefficients to ice and dry, relative


@dataclass(frozen=True)
class FrictionLink:
    """Bijection mu = ice + (dry - ice) / (1 + exp(-f)) of latent values f and frictions between ice and dry. Raises InputError: ice is not
    above 0, dry not above ice, or above MAX_FRICTION."""

    ice: float = 0.1
    dry: float = 0.8

    def __post_init__(self) -> None:
        for name in ("ice", "dry"):
            require_number(name, getattr(self, name))
        if self.ice <= 0.0:
            raise InputError(f"ice: a friction coefficient of {self.ice:g}; give more than 0")
        if self.dry > MAX_FRICTION:
            raise InputError(f"dry: a friction coefficient of {self.dry:g}; give at most {MAX_FRICTION:g}")
        if self.ice >= self.dry:
            raise InputError(f"ice: its friction {self.ice:g} is not below that of dry ground, {self.dry:g}; exchange ice and dry")

    @classmethod
    def around(cls, friction: ArrayLike) -> FrictionLink:
        """Returns a link whose range contains the coefficients with a margin: latent values are finite, and a spline through them stays
        inside."""
        values = np.asarray(friction, float)
        return cls((1.0 - MARGIN) * float(values.min()), (1.0 + MARGIN) * float(values.max()))

    def friction(self, latent: ArrayLike) -> np.ndarray:
        """Computes mu [1] from latent values of any shape (eq 1)."""
        f = np.asarray(latent, float)
        return np.asarray(self.ice + (self.dry - self.ice) * (0.5 + 0.5 * np.tanh(0.5 * f)))

    def latent(self, friction: ArrayLike) -> np.ndarray:
        """Returns the latent values of friction coefficients of any shape (eq 2). Raises InputError: one is not between ice and dry."""
        mu = np.asarray(friction, float)
        outside = ~((mu > self.ice) & (mu < self.dry))
        if outside.any():
            raise InputError(f"friction: {mu[outside].flat[0]:g} is not between ice, {self.ice:g}, and dry, {self.dry:g}; "
                             "widen them, or leave that value out")
        return np.asarray(np.log((mu - self.ice) / (self.dry - mu)))


@dataclass(frozen=True, eq=False)
class FrictionField:
    """Latent values (ny, nx) at the nodes of a grid, interpolated by a cubic spline, and the link to friction.

    The spline interpolates the latent value: that of the friction would overshoot beyond ice and dry. Beyond the map's edges the friction
    is that of the nearest point; `outside` finds such points. Raises InputError: values of another shape, or one that is not finite.
    """

    grid: Grid
    latent: np.ndarray
    link: FrictionLink = field(default_factory=FrictionLink)

    def __post_init__(self) -> None:
        object.__setattr__(self, "latent", self.grid.values("latent", self.latent))

    @classmethod
    def uniform(cls, friction: float, link: FrictionLink | None = None) -> FrictionField:
        """Returns a field of constant friction. Raises InputError: it is not between ice and dry."""
        link = link or FrictionLink()
        return cls(Grid(0.0, 0.0, 1.0, 4, 4), np.full((4, 4), float(link.latent(friction))), link)

    def latent_at(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Computes latent values at points x, y [m] of equal shape."""
        return look_up(self.coefficients, self.grid, x, y)[0]

    def friction_at(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Computes friction [1] at points x, y [m] of equal shape."""
        return self.link.friction(self.latent_at(x, y))

    def outside(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Finds the points [m] beyond the map, where its edge is clamped."""
        return self.grid.outside(np.asarray(x, float), np.asarray(y, float))

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Coefficients of the spline, (ny + 2, nx + 2), see `grid.coefficients`."""
        return coefficients(self.latent)
