"""One friction field, known everywhere: a sample, or a mean, of the latent field on a grid."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.errors import InputError
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.link import FrictionLink
from lfdm_ros.ground.spline import coefficients, look_up


@dataclass(frozen=True, eq=False)
class FrictionField:
    """Latent values (ny, nx) at the nodes of a grid, a cubic spline between them, and the link from there to friction.

    The spline runs through the latent value: through the friction itself it would overshoot beyond ice and dry. Beyond the map's edges the
    friction of the nearest point on them holds; `outside` counts such places.

    Raises:
        InputError: values of another shape, or one that is not finite.
    """

    grid: Grid
    latent: np.ndarray
    link: FrictionLink = field(default_factory=FrictionLink)

    def __post_init__(self) -> None:
        latent = np.array(self.latent, float)
        if latent.shape != self.grid.shape:
            raise InputError(f"latent: values of shape {latent.shape} for a grid of (ny, nx) = {self.grid.shape}")
        if not np.isfinite(latent).all():
            row, column = np.argwhere(~np.isfinite(latent))[0]
            raise InputError(f"latent: no finite number at row {row}, column {column}; fill holes before")
        latent.setflags(write=False)
        object.__setattr__(self, "latent", latent)

    @classmethod
    def uniform(cls, friction: float, link: FrictionLink | None = None) -> FrictionField:
        """Returns the same friction everywhere. Raises InputError where it is not between ice and dry."""
        link = link or FrictionLink()
        return cls(Grid(0.0, 0.0, 1.0, 4, 4), np.full((4, 4), float(link.latent(friction))), link)

    def latent_at(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Computes latent values at places of one shape [m]."""
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        return look_up(self.coefficients, self.grid, x.ravel(), y.ravel())[0].reshape(x.shape)

    def friction_at(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Computes friction [1] at places of one shape [m]."""
        return self.link.friction(self.latent_at(x, y))

    def slopes_at(self, x: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Computes the change of friction along x and y [1/m] at places of one shape [m]; 0 beyond an edge."""
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        latent, along_x, along_y = look_up(self.coefficients, self.grid, x.ravel(), y.ravel())
        per_latent = (self.link.dry - self.link.ice) * 0.25 / np.cosh(0.5 * latent) ** 2
        return (per_latent * along_x).reshape(x.shape), (per_latent * along_y).reshape(x.shape)

    def outside(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Finds the places [m] beyond the map, where its edge is clamped."""
        return self.grid.outside(np.asarray(x, float), np.asarray(y, float))

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Coefficients of the spline, (ny + 2, nx + 2), see `spline.coefficients`."""
        return coefficients(self.latent)
