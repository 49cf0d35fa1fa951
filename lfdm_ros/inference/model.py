"""Batched log densities of a stage, of a continued stage, and of a friction field.

The simulator gives the moments of the errors; priors and Gaussian are NumPy's, without importing PyMC or compiling.
`lfdm_ros.inference.pymc_adapter` has the same as a PyMC model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lfdm_ros.errors import InputError, quote
from lfdm_ros.ground import FieldPrior, Observations
from lfdm_ros.ground.fitting import log_likelihoods
from lfdm_ros.ground.prior import possible
from lfdm_ros.inference.gaussian import log_density
from lfdm_ros.inference.likelihood import Likelihood
from lfdm_ros.inference.plan import RHO, SIGMA
from lfdm_ros.inference.priors import Prior

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True)
class ErrorPriors:
    """Priors of one group of errors: the standard deviation, and where neighbours are correlated, the correlation."""

    noise: Prior
    correlation: Prior | None = None


class PopulationDensity(Protocol):
    """Density that a population of particles (N, D) is moved to; `BatchedDensity` documents the members."""

    @property
    def evaluations(self) -> int: ...
    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...
    def log_likelihood(self, particles: np.ndarray) -> np.ndarray: ...
    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray: ...
    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]: ...


class BatchedDensity:
    """Log prior and log likelihood of particles (N, D) in the coordinates of the priors (`Prior.coordinate`).

    names (D,): NAME of the unknowns, then sigma.GROUP and rho.GROUP of each group.
    """

    def __init__(self, likelihood: Likelihood, unknowns: Mapping[str, Prior], errors: Mapping[str, ErrorPriors]):
        """Joins a likelihood with priors. `unknowns`: prior by name, in the order of the likelihood's q; `errors`: priors by group; of
        groups too that this likelihood does not have."""
        self.evaluations = 0
        self._likelihood, self._unknowns, self._errors = likelihood, unknowns, errors
        self._priors = dict(unknowns)
        for label, prior in errors.items():
            self._priors[SIGMA + label] = prior.noise
            if prior.correlation is not None:
                self._priors[RHO + label] = prior.correlation
        self.names = list(self._priors)

    @cached_property
    def model(self) -> pm.Model:
        """The same as a PyMC model, whose value variables are the coordinates."""
        from lfdm_ros.inference.pymc_adapter import build_model

        return build_model(self._likelihood, self._unknowns, self._errors)

    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes log prior (N,), log likelihood (N,) for particles (N, D); -inf where a run diverged, and outside the priors, where none
        is simulated."""
        prior = self.log_prior(particles)
        inside = np.flatnonzero(prior > -np.inf)
        likelihood = np.full(len(particles), -np.inf)
        if len(inside):
            likelihood[inside] = self._log_likelihood(self.constrain(particles[inside]))
            self.evaluations += len(inside)
        return prior, np.where(np.isnan(likelihood), -np.inf, likelihood)

    def _log_likelihood(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        moments = self._likelihood.moments(np.column_stack([values[name] for name in self._unknowns]))
        total = np.zeros(len(moments))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for group, moment in zip(self._likelihood.groups, moments.transpose(1, 2, 0)):
                total += log_density(group, moment, np.log(values[SIGMA + group.label]), values.get(RHO + group.label, 0.0))
        return total

    def log_prior(self, particles: np.ndarray) -> np.ndarray:
        """Computes log prior (N,), for particles (N, D), without a simulation."""
        return np.asarray(np.sum([prior.log_density(x) for prior, x in zip(self._priors.values(), particles.T)], axis=0))

    def log_likelihood(self, particles: np.ndarray) -> np.ndarray:
        """Computes log likelihood (N,) for particles (N, D)."""
        return self(particles)[1]

    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws `count` particles (N, D) from the prior."""
        return np.column_stack([prior.coordinate(prior.frozen().rvs(count, random_state=rng)) for prior in self._priors.values()])

    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]:
        """Computes values (N,) by variable, in the units of the model, for particles (N, D)."""
        return {name: prior.value(x) for (name, prior), x in zip(self._priors.items(), particles.T)}


class UpdatedDensity:
    """Path from the posterior of the old data to that of all data, with the old data in the target throughout.

    The first value of a call is the log density of the particles, prior and old data; the second is to be tempered in. If earlier stages
    gave another vehicle, the likelihood of the old data has changed: the second value then also replaces it, and the path between both is
    geometric.
    """

    def __init__(self, old: BatchedDensity, new: BatchedDensity, *, replaces: bool):
        """Takes `new`: the model with the new data alone, or, with `replaces`, with old and new data."""
        self.names = new.names
        self._old, self._new, self._replaces = old, new, replaces
        self._columns = [new.names.index(name) for name in old.names]

    @property
    def model(self) -> pm.Model:
        """The PyMC model of the data to be tempered in."""
        return self._new.model

    @property
    def evaluations(self) -> int:
        """Number of simulations so far: one is a particle on the data sets of one density."""
        return self._old.evaluations + self._new.evaluations

    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes log prior with old data (N,), log likelihood to come (N,) for particles (N, D); -inf where a run diverged."""
        prior, coming = self._new(particles)
        before = self._old(particles[:, self._columns])[1]
        with np.errstate(invalid="ignore"):
            change = coming - before if self._replaces else coming
        return prior + before, np.where(np.isnan(change), -np.inf, change)

    def log_likelihood(self, particles: np.ndarray) -> np.ndarray:
        """Computes log likelihood of all data (N,) for particles (N, D)."""
        base, change = self(particles)
        return base - self._new.log_prior(particles) + change

    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return self._new.draw_prior(count, rng)

    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]:
        return self._new.constrain(particles)


Density = BatchedDensity | UpdatedDensity


class FieldPriorDensity:
    """Log prior and log likelihood of particles (N, D), as `BatchedDensity`: names (D,) are values of `FieldPrior`.

    The field is integrated out: the likelihood is that of a Gaussian process, at a cost cubic in the observations.
    """

    def __init__(self, observations: Observations, unknowns: Mapping[str, Prior], fixed: FieldPrior | None = None):
        """Takes the survey of one field, priors by name and the fixed values. An unknown sigma_n is the noise of all observations;
        otherwise each has its own. Raises InputError: an unknown that a field does not have."""
        self.evaluations = 0
        self._fixed = fixed or FieldPrior()
        for name in unknowns:
            if name not in self._fixed.values:
                raise InputError(f"{quote(name)} is no value of a field; there are: {', '.join(self._fixed.values)}")
        self._unknowns = dict(unknowns)
        self._data, self._noise = observations, None if "sigma_n" in unknowns else observations.noise
        self.names = list(unknowns)

    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes log prior (N,), log likelihood (N,) for particles (N, D); -inf where no field has such values."""
        return self.of(particles, self._data.latent)

    def of(self, particles: np.ndarray, latent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Evaluates particles with other latent values at the same places, (n,) or each particle's own (N, n)."""
        prior: np.ndarray = np.sum([prior.log_density(x) for prior, x in zip(self._unknowns.values(), particles.T)], axis=0)
        likelihood = np.full(len(particles), -np.inf)
        values = self.constrain(particles)
        inside = np.flatnonzero((prior > -np.inf) & possible(values))
        if len(inside):
            every = {name: np.full(len(inside), value) for name, value in self._fixed.values.items()}
            every |= {name: values_of_name[inside] for name, values_of_name in values.items()}
            likelihood[inside] = log_likelihoods(every, self._data.places, latent if latent.ndim == 1 else latent[inside], self._noise)
            self.evaluations += len(inside)
        return prior, likelihood

    def log_likelihood(self, particles: np.ndarray) -> np.ndarray:
        return self(particles)[1]

    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return np.column_stack([prior.coordinate(prior.frozen().rvs(count, random_state=rng)) for prior in self._unknowns.values()])

    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]:
        return {name: prior.value(x) for (name, prior), x in zip(self._unknowns.items(), particles.T)}
