"""The PyMC model of a stage, and its log density for many particles at once.

The simulator enters as one Op, sum of squared errors by channel; priors, noise and the Gaussian of eq. 3 stay in PyTensor. The
batched density comes from the same graph by `vectorize_graph`, with the Op replaced by its batched form: nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.shape_utils import change_dist_size
from pymc.pytensorf import compile as compile_function
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node, vectorize_graph

from lfdm_ros.calibration.likelihood import Likelihood
from lfdm_ros.calibration.priors import Prior
from lfdm_ros.calibration.recipe import INITIAL, SIGMA

COMPILE_MODE = "FAST_COMPILE"


def without_compiler() -> Any:
    """Context in which PyTensor runs as Python: the simulator is nearly all of the cost, and C would take 15 s to compile."""
    return pytensor.config.change_flags(cxx="")


class SquaredErrors(Op):
    """q (Q,) -> S (C,). Equal likelihood, equal Op: PyTensor then merges the nodes of all channels into one."""

    __props__ = ("likelihood",)
    itypes = [pt.dvector]
    otypes = [pt.dvector]

    def __init__(self, likelihood: Likelihood):
        self.likelihood = likelihood

    def perform(self, node: Apply, inputs: list[np.ndarray], outputs: list[list[Any]]) -> None:
        outputs[0][0] = self.likelihood.squared_errors(inputs[0][None, :])[0]


class SquaredErrorsBatch(Op):
    """q (N, Q) -> S (N, C): all particles in one compiled parallel call."""

    __props__ = ("likelihood",)
    itypes = [pt.dmatrix]
    otypes = [pt.dmatrix]

    def __init__(self, likelihood: Likelihood):
        self.likelihood = likelihood

    def perform(self, node: Apply, inputs: list[np.ndarray], outputs: list[list[Any]]) -> None:
        outputs[0][0] = self.likelihood.squared_errors(inputs[0])


@_vectorize_node.register(SquaredErrors)
def _vectorize_squared_errors(op: SquaredErrors, node: Apply, q: Any) -> Apply:
    return SquaredErrorsBatch(op.likelihood).make_node(q)


def build_model(likelihood: Likelihood, parameters: Mapping[str, Prior], initial: Mapping[str, Prior],
                noise: Mapping[str, Prior]) -> pm.Model:
    """The joint density of a stage.

    Args:
        parameters: unknown -> prior, in the order of the likelihood's q.
        initial: estimated initial state -> prior, which follow in q.
        noise: channel -> prior of its standard deviation.

    Returns:
        Model with the variables NAME, initial.STATE, sigma.CHANNEL and one observed vector for each channel.
    """
    op = SquaredErrors(likelihood)
    with pm.Model() as model:
        q = pt.stack([prior.variable(name) for name, prior in parameters.items()]
                     + [prior.variable(INITIAL + name) for name, prior in initial.items()])
        for column, channel in enumerate(likelihood.channels):
            measured = likelihood.observed[:, column]
            rows = np.flatnonzero(np.isfinite(measured))
            sigma = noise[channel].variable(SIGMA + channel)
            pm.CustomDist(channel, q, sigma, rows, logp=_gaussian(op, column, len(rows)), random=_response(likelihood, column),
                          signature="(q),(),(k)->(k)", observed=measured[rows])
    return model


def _gaussian(op: SquaredErrors, column: int, count: int) -> Callable[..., Any]:
    def logp(value: Any, q: Any, sigma: Any, rows: Any) -> Any:
        return -count * (pt.log(sigma) + 0.5 * np.log(2.0 * np.pi)) - op(q)[column] / (2.0 * sigma**2)

    return logp


def _response(likelihood: Likelihood, column: int) -> Callable[..., np.ndarray]:
    def draw(q: np.ndarray, sigma: np.ndarray, rows: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        # One draw of the unknowns at a time, as PyMC's predictive sampling asks for it.
        response = likelihood.trajectories(q[None, :])[0, rows, column]
        return rng.normal(response, sigma, size=(*(size or ()), len(rows)))

    return draw


class BatchedDensity:
    """Log prior and log likelihood of particles (N, D) in the model's unconstrained space (`model.value_vars`, all scalar)."""

    def __init__(self, model: pm.Model):
        self.model = model
        self.evaluations = 0
        free = model.free_RVs
        self.names = [rv.name for rv in free]
        transforms = [model.rvs_to_transforms[rv] for rv in free]
        values = [model.rvs_to_values[rv] for rv in free]
        constrained = [t.backward(v, *rv.owner.inputs) if t else v for rv, t, v in zip(free, transforms, values)]
        particles = pt.dmatrix("particles")
        with without_compiler():
            outputs, joined = join_nonshared_inputs(model.initial_point(), [model.varlogp, model.datalogp, *constrained], values)
            batched = vectorize_graph(outputs, {joined: particles})
            self._density = compile_function([particles], batched[:2], mode=COMPILE_MODE)
            self._constrain = compile_function([particles], batched[2:], mode=COMPILE_MODE)

    def __call__(self, particles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """particles (N, D) -> log prior (N,), log likelihood (N,); -inf where a run diverged."""
        prior, likelihood = self._density(particles)
        self.evaluations += len(particles)
        return prior, np.where(np.isnan(likelihood), -np.inf, likelihood)

    def draw_prior(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` particles (N, D) from the prior."""
        draws = []
        for rv in self.model.free_RVs:
            transform = self.model.rvs_to_transforms[rv]
            sized = change_dist_size(rv, (count,))
            draws.append(transform.forward(sized, *rv.owner.inputs) if transform else sized)
        with without_compiler():
            return np.column_stack(pm.draw(draws, random_seed=int(rng.integers(2**31)), mode=COMPILE_MODE))

    def constrain(self, particles: np.ndarray) -> dict[str, np.ndarray]:
        """particles (N, D) -> values (N,) by variable, in the units of the model."""
        return dict(zip(self.names, self._constrain(particles)))
