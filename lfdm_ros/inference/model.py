"""The PyMC model of a stage, and its log density for many particles at once.

The simulator enters as one Op, the moments of the errors; priors, noise and the Gaussian stay in PyTensor. The batched density comes
from the same graph by `vectorize_graph`, with the Op replaced by its batched form: nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import compile as compile_function
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import vectorize_graph

from lfdm_ros.inference.gaussian import MOMENTS, Group, correlated_noise, log_density
from lfdm_ros.inference.likelihood import Likelihood
from lfdm_ros.inference.plan import RHO, SIGMA
from lfdm_ros.inference.priors import Prior
from lfdm_ros.inference.pymc_adapter import register_batched, sized

COMPILE_MODE = "FAST_COMPILE"


def without_compiler() -> Any:
    """Context in which PyTensor runs as Python: the simulator is nearly all of the cost, and C would take 15 s to compile."""
    return pytensor.config.change_flags(cxx="")


class Moments(Op):
    """q (Q,) -> moments (G, 3) and their derivatives (G, 3, Q).

    One simulation gives both, and the gradient uses the second output of the node that is there. Equal likelihood, equal Op: PyTensor
    then merges the nodes of all groups into one.
    """

    __props__ = ("likelihood",)
    itypes = [pt.dvector]
    otypes = [pt.dmatrix, pt.dtensor3]

    def __init__(self, likelihood: Likelihood):
        self.likelihood = likelihood

    def perform(self, node: Apply, inputs: list[np.ndarray], outputs: list[list[Any]]) -> None:
        outputs[0][0], outputs[1][0] = self.likelihood.moments_and_slopes(inputs[0])

    def L_op(self, inputs: Any, outputs: Any, output_gradients: Any) -> list[Any]:
        return [pt.tensordot(output_gradients[0], outputs[1], axes=[[0, 1], [0, 1]])]


class MomentsBatch(Op):
    """q (N, Q) -> moments (N, G, 3): all particles in a few compiled parallel calls."""

    __props__ = ("likelihood",)
    itypes = [pt.dmatrix]
    otypes = [pt.dtensor3, pt.dtensor4]

    def __init__(self, likelihood: Likelihood):
        self.likelihood = likelihood

    def perform(self, node: Apply, inputs: list[np.ndarray], outputs: list[list[Any]]) -> None:
        outputs[0][0] = self.likelihood.moments(inputs[0])
        outputs[1][0] = np.empty((0, 0, 0, 0))  # a population needs no derivatives


@register_batched(Moments)
def _vectorize_moments(op: Moments, node: Apply, q: Any) -> Apply:
    return MomentsBatch(op.likelihood).make_node(q)


@dataclass(frozen=True)
class ErrorPriors:
    """Of one group of errors: the standard deviation, and where neighbours are correlated, the correlation."""

    noise: Prior
    correlation: Prior | None = None


def build_model(likelihood: Likelihood, unknowns: Mapping[str, Prior], errors: Mapping[str, ErrorPriors]) -> pm.Model:
    """The joint density of a stage.

    Args:
        unknowns: prior by name, in the order of the likelihood's q.
        errors: priors by group; of groups too that this likelihood does not have.

    Returns:
        Model with the variables NAME, sigma.GROUP and rho.GROUP and one observed vector for each group.
    """
    moments = Moments(likelihood)
    with pm.Model() as model:
        q = pt.stack([prior.variable(name) for name, prior in unknowns.items()])
        noise = {label: (own.noise.variable(SIGMA + label), own.correlation.variable(RHO + label) if own.correlation else pt.constant(0.0))
                 for label, own in errors.items()}
        for index, group in enumerate(likelihood.groups):
            pm.CustomDist(group.label, q, *noise[group.label], np.arange(group.count), logp=_gaussian(moments, index, group),
                          random=_response(likelihood, index), signature="(q),(),(),(k)->(k)", observed=likelihood.measured(index))
    return model


def _gaussian(moments: Moments, index: int, group: Group) -> Callable[..., Any]:
    def logp(value: Any, q: Any, sigma: Any, rho: Any, rows: Any) -> Any:
        own = [moments(q)[0][index, i] for i in range(MOMENTS)]
        return log_density(group, own, pt.log(sigma), rho, maths=pt)

    return logp


def _response(likelihood: Likelihood, index: int) -> Callable[..., np.ndarray]:
    def draw(q: np.ndarray, sigma: np.ndarray, rho: np.ndarray, rows: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        # One draw of the unknowns at a time, as PyMC's predictive sampling asks for it.
        response = likelihood.measured(index) - likelihood.errors(q[None, :])[index][0]
        return response + correlated_noise(rng, (*(size or ()), len(rows)), sigma, rho)

    return draw


class BatchedDensity:
    """Log prior and log likelihood of particles (N, D) in the model's unconstrained space (`model.value_vars`, all scalar)."""

    def __init__(self, model: pm.Model):
        """`model`: of `build_model`."""
        self.model = model
        self.evaluations = 0
        free = model.free_RVs
        self.names = [rv.name for rv in free]
        transforms = [model.rvs_to_transforms[rv] for rv in free]
        values = [model.rvs_to_values[rv] for rv in free]
        constrained = [t.backward(v, *rv.owner.inputs) if t else v for rv, t, v in zip(free, transforms, values)]
        particles = pt.dmatrix("particles")
        with without_compiler():
            # One term for each variable, added up in NumPy: as one sum PyTensor would make it an operation that takes at most 31 terms,
            # and loops over the particles in Python.
            terms = [[term.sum() for term in model.logp(vars=variables, sum=False)] for variables in (free, model.observed_RVs)]
            outputs, joined = join_nonshared_inputs(model.initial_point(), [*terms[0], *terms[1], *constrained], values)
            batched = vectorize_graph(outputs, {joined: particles})
            first, last = len(terms[0]), len(terms[0]) + len(terms[1])
            self._prior, self._likelihood, self._constrain = (
                compile_function([particles], part, mode=COMPILE_MODE) for part in (batched[:first], batched[first:last], batched[last:]))

    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """particles (N, D) -> log prior (N,), log likelihood (N,); -inf where a run diverged, and beyond the priors, where none is made."""
        prior = self.log_prior(particles)
        inside = np.flatnonzero(prior > -np.inf)
        likelihood = np.full(len(particles), -np.inf)
        if len(inside):
            likelihood[inside] = sum(self._likelihood(particles[inside]), start=np.zeros(len(inside)))
            self.evaluations += len(inside)
        return prior, np.where(np.isnan(likelihood), -np.inf, likelihood)

    def log_prior(self, particles: np.ndarray) -> np.ndarray:
        """particles (N, D) -> log prior (N,), without a simulation."""
        total: np.ndarray = np.sum(self._prior(particles), axis=0)
        return total

    def log_likelihood(self, particles: np.ndarray) -> np.ndarray:
        """particles (N, D) -> log likelihood (N,)."""
        return self(particles)[1]

    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` particles (N, D) from the prior."""
        draws = []
        for rv in self.model.free_RVs:
            transform = self.model.rvs_to_transforms[rv]
            drawn = sized(rv, (count,))
            draws.append(transform.forward(drawn, *rv.owner.inputs) if transform else drawn)
        with without_compiler():
            return np.column_stack(pm.draw(draws, random_seed=int(rng.integers(2**31)), mode=COMPILE_MODE))

    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]:
        """particles (N, D) -> values (N,) by variable, in the units of the model."""
        return dict(zip(self.names, self._constrain(particles)))


class UpdatedDensity:
    """What new data change: from the posterior of the old data to that of all, with the old data in the target throughout.

    The first value of a call is the log density that the particles have been drawn from, prior and old data; the second what is still to
    be tempered in. Where stages before have come out differently, the old data are not seen through the same vehicle any more: then
    the second value also replaces their likelihood, and the path between both is the geometric one.
    """

    def __init__(self, old: BatchedDensity, new: BatchedDensity, *, replaces: bool):
        """`new`: the model with the new data alone, or, with `replaces`, with old and new data."""
        self.model, self.names = new.model, new.names
        self._old, self._new, self._replaces = old, new, replaces
        self._columns = [new.names.index(name) for name in old.names]

    @property
    def evaluations(self) -> int:
        """Simulations so far, of a particle on the data sets of one density."""
        return self._old.evaluations + self._new.evaluations

    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """particles (N, D) -> log prior with old data (N,), log likelihood to come (N,); -inf where a run diverged."""
        prior, coming = self._new(particles)
        before = self._old(particles[:, self._columns])[1]
        with np.errstate(invalid="ignore"):
            change = coming - before if self._replaces else coming
        return prior + before, np.where(np.isnan(change), -np.inf, change)

    def log_likelihood(self, particles: np.ndarray) -> np.ndarray:
        """particles (N, D) -> log likelihood of all data (N,)."""
        base, change = self(particles)
        return base - self._new.log_prior(particles) + change

    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` particles (N, D) from the prior."""
        return self._new.draw_prior(count, rng)

    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]:
        """particles (N, D) -> values (N,) by variable, in the units of the model."""
        return self._new.constrain(particles)


Density = BatchedDensity | UpdatedDensity
