"""The PyMC model of a stage, for whoever wants PyMC's own samplers, predictives or gradients of the same posterior.

The simulator enters as one Op, the moments of the errors; priors, noise and the Gaussian stay in PyTensor. The package's samplers take the
density from `lfdm_ros.inference.model`, which is the same in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from lfdm_ros.inference.gaussian import MOMENTS, Group, correlated_noise, log_density
from lfdm_ros.inference.likelihood import Likelihood
from lfdm_ros.inference.model import ErrorPriors
from lfdm_ros.inference.plan import RHO, SIGMA
from lfdm_ros.inference.priors import Prior

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
