"""The density of a friction field's hyperparameters, given what was seen of one field: for the samplers that ask for no more."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lfdm_ros.errors import InputError, quote
from lfdm_ros.ground import FieldPrior, Observations
from lfdm_ros.ground.fitting import log_likelihoods
from lfdm_ros.ground.prior import possible
from lfdm_ros.inference.priors import Prior


class FieldPriorDensity:
    """Log prior and log likelihood of particles (N, D), as `BatchedDensity`: names (D,) are values of `FieldPrior`.

    The field itself is integrated out: the likelihood is that of a Gaussian process, whose cost grows with the cube of the observations.
    """

    def __init__(self, observations: Observations, unknowns: Mapping[str, Prior], fixed: FieldPrior | None = None):
        """Args:
            unknowns: prior by name.
            fixed: the values that are known. Where sigma_n is unknown it is the noise of all observations, otherwise each has its own.

        Raises:
            InputError: an unknown that a field does not have.
        """
        self.evaluations = 0
        self._fixed = fixed or FieldPrior()
        for name in unknowns:
            if name not in self._fixed.values:
                raise InputError(f"{quote(name)} is no value of a field; there are: {', '.join(self._fixed.values)}")
        self._unknowns = dict(unknowns)
        self._seen, self._noise = observations, None if "sigma_n" in unknowns else observations.noise
        self.names = list(unknowns)

    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """particles (N, D) -> log prior (N,), log likelihood (N,); -inf where no field has such values."""
        return self.of(particles, self._seen.latent)

    def of(self, particles: np.ndarray, latent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of other latent values at the same places, (n,) or each particle's own (N, n)."""
        prior: np.ndarray = np.sum([own.log_density(x) for own, x in zip(self._unknowns.values(), particles.T)], axis=0)
        likelihood = np.full(len(particles), -np.inf)
        values = self.constrain(particles)
        inside = np.flatnonzero((prior > -np.inf) & possible(values))
        if len(inside):
            every = {name: np.full(len(inside), own) for name, own in self._fixed.values.items()}
            every |= {name: own[inside] for name, own in values.items()}
            likelihood[inside] = log_likelihoods(every, self._seen.places, latent if latent.ndim == 1 else latent[inside], self._noise)
            self.evaluations += len(inside)
        return prior, likelihood

    def log_likelihood(self, particles: np.ndarray) -> np.ndarray:
        """particles (N, D) -> log likelihood (N,)."""
        return self(particles)[1]

    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` particles (N, D) from the prior."""
        return np.column_stack([own.coordinate(own.frozen().rvs(count, random_state=rng)) for own in self._unknowns.values()])

    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]:
        """particles (N, D) -> values (N,) by name."""
        return {name: own.value(x) for (name, own), x in zip(self._unknowns.items(), particles.T)}
