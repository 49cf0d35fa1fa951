"""The posterior at any places as the paper computes it (004, eqs 6-9): one dense matrix of all places, and its Cholesky root.

For some hundred places that lie on no grid. Its time grows with their cube, and for smooth fields the matrix is nearly singular.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from lfdm_ros.ground.observations import Observations
from lfdm_ros.ground.posterior import root
from lfdm_ros.ground.prior import FieldPrior

JITTER = 1e-8  # of the variance, added before the root is taken


class DensePosterior:
    """The latent field at places (n, 2) [m], given a prior and observations: `mean` (n,) and `covariance` (n, n)."""

    def __init__(self, prior: FieldPrior, places: np.ndarray, observations: Observations | None = None):
        """Raises InputError as `FieldPosterior`, but for the map."""
        seen = Observations.none() if observations is None else observations
        self.mean, self.covariance = prior.mean(*places.T), prior.covariance(places, places)
        self._variance = prior.sigma_f**2
        if len(seen):
            gain = linalg.solve_triangular(root(prior, seen), prior.covariance(seen.places, places), lower=True)
            missing = linalg.solve_triangular(root(prior, seen), seen.latent - prior.mean(*seen.places.T), lower=True)
            self.mean, self.covariance = self.mean + gain.T @ missing, self.covariance - gain.T @ gain

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws `count` samples (count, n)."""
        lifted = self.covariance + JITTER * self._variance * np.eye(len(self.mean))
        noise = rng.standard_normal((count, len(self.mean)))
        return np.asarray(self.mean + noise @ linalg.cholesky(lifted, lower=True).T)
