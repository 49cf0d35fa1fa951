"""Between a friction coefficient and the latent value that is Gaussian (paper 004, eqs 1-2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.errors import InputError, quote

LARGEST = 3.0  # of a friction coefficient, as for the wheels
MARGIN = 0.02  # of coefficients that are given, to either end


@dataclass(frozen=True)
class FrictionLink:
    """mu = ice + (dry - ice) / (1 + exp(-f)): every latent value f is a friction between ice and dry, and every such friction one f.

    Raises:
        InputError: ice is not above 0, dry not above ice, or beyond what tyres have.
    """

    ice: float = 0.1
    dry: float = 0.8

    def __post_init__(self) -> None:
        for name in ("ice", "dry"):
            require_number(name, getattr(self, name))
        if self.ice <= 0.0:
            raise InputError(f"ice: a friction coefficient of {self.ice:g}; give more than 0")
        if self.dry > LARGEST:
            raise InputError(f"dry: a friction coefficient of {self.dry:g}; give at most {LARGEST:g}")
        if self.ice >= self.dry:
            raise InputError(f"ice: its friction {self.ice:g} is not below that of dry ground, {self.dry:g}; exchange ice and dry")

    @classmethod
    def around(cls, friction: ArrayLike) -> FrictionLink:
        """Returns a link for coefficients, all of them between its ends, with some room: a latent value is finite, and a spline through it
        stays inside."""
        values = np.asarray(friction, float)
        return cls((1.0 - MARGIN) * float(values.min()), (1.0 + MARGIN) * float(values.max()))

    def friction(self, latent: ArrayLike) -> np.ndarray:
        """Computes mu [1] of latent values of any shape (eq 1)."""
        f = np.asarray(latent, float)
        return np.asarray(self.ice + (self.dry - self.ice) * (0.5 + 0.5 * np.tanh(0.5 * f)))

    def latent(self, friction: ArrayLike) -> np.ndarray:
        """Returns the latent values of friction coefficients of any shape (eq 2).

        Raises:
            InputError: one is not between ice and dry.
        """
        mu = np.asarray(friction, float)
        outside = ~((mu > self.ice) & (mu < self.dry))
        if outside.any():
            raise InputError(f"friction: {mu[outside].flat[0]:g} is not between ice, {self.ice:g}, and dry, {self.dry:g}; "
                             "widen them, or leave that value out")
        return np.asarray(np.log((mu - self.ice) / (self.dry - mu)))


def require_number(name: str, value: Any) -> None:
    """Raises InputError, which names the key, for what is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)) or not np.isfinite(value):
        raise InputError(f"{name}: {quote(value)} is no finite number")
