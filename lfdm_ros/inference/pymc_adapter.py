"""PyMC and PyTensor: the model of a stage, and all uses of unstable names of these packages.

In the model the simulator is one Op, the moments of the errors; priors, noise and the Gaussian stay in PyTensor. It serves PyMC's samplers,
predictives and gradients of the posterior; the package's samplers use the same density in NumPy, `lfdm_ros.inference.model`. `MADE_FOR`
lists the supported releases; `LOOK_AT` lists per name the properties that a new release must keep.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection, RaveledVars
from pymc.smc.kernels import SMC_KERNEL
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, IntegrationError, State
from pymc.step_methods.hmc.quadpotential import QuadPotentialFullAdapt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from lfdm_ros.inference.gaussian import MOMENTS, ErrorGroup, correlated_noise, log_density
from lfdm_ros.inference.likelihood import Likelihood
from lfdm_ros.inference.model import ErrorPriors
from lfdm_ros.inference.plan import RHO, SIGMA
from lfdm_ros.inference.priors import Prior

MADE_FOR = {"pymc": ("5.25", "5.28"), "pytensor": ("2.31", "2.38")}
LOOK_AT = {
    "CpuLeapfrogIntegrator": "its __init__ reads _pytensor_function, _raveled_inputs and dtype of the density (as _Density gives them) and "
                             "keeps _potential and _logp_dlogp_func(q, map); _step(epsilon, state) is one leapfrog step, an "
                             "IntegrationError in it a divergence; the fields of State are those that _Integrator._step fills",
    "GradientSharedStep": "reads _extra_vars_shared of the density; pm.NUTS takes it as logp_dlogp_func, `integrator` may be replaced, "
                          "`tune` says whether it adapts, and astep(point) -> point, [statistics]",
    "QuadPotentialFullAdapt": "velocity, energy; (size, mean, covariance, weight, rng=)",
    "SMC_KERNEL": "its __init__ is not called: update_beta_and_weights and resample read draws, threshold and rng, read and write beta, "
                  "weights, iteration, log_marginal_likelihood, resampling_indexes, tempered_posterior, prior_logp, likelihood_logp, "
                  "tempered_posterior_logp; _initialize_kernel fills the last four, variables and var_info",
}
Drift = Callable[[np.ndarray, np.ndarray, float, Callable[[np.ndarray], np.ndarray]], tuple[np.ndarray, np.ndarray]]


class CannotDrift(IntegrationError):
    """Ends a trajectory of NUTS as a divergence does."""


class _Density:
    """Stand-in for PyMC's compiled density, with the attributes that the step and its integrator read."""

    dtype = "float64"
    _raveled_inputs = True

    def __init__(self, function: Callable[[np.ndarray], tuple[float, np.ndarray]]):
        self._pytensor_function = function
        self._extra_vars_shared: dict[str, Any] = {}


class _Integrator(CpuLeapfrogIntegrator):
    def __init__(self, potential: Any, density: _Density, drift: Drift):
        super().__init__(potential, density)
        self._drift = drift

    def _step(self, epsilon: float, state: State) -> State:
        p = state.p + 0.5 * epsilon * state.q_grad
        q, p = self._drift(state.q.data, p, float(epsilon), self._potential.velocity)
        logp, slope = self._logp_dlogp_func(q, state.q.point_map_info)
        p = p + 0.5 * epsilon * slope
        v = self._potential.velocity(p)
        energy = self._potential.energy(p, velocity=v) - logp
        return State(RaveledVars(q, state.q.point_map_info), p, v, slope, energy, logp, state.index_in_trajectory + int(np.sign(epsilon)))


class NutsChain:
    """A chain of PyMC's NUTS on a given density with given leapfrog steps."""

    def __init__(self, model: pm.Model, function: Callable[[np.ndarray], tuple[float, np.ndarray]], drift: Drift, start: np.ndarray, *,
                 mean: np.ndarray, covariance: np.ndarray, weight: float, target_accept: float, seed: np.random.SeedSequence):
        """Prepares a chain from `start` (D,). `model`: of these unknowns, whose density is not compiled; `function`: x (D,) -> log density,
        slope (D,); `drift`: q, p, time, velocity of p -> q, p after that time without forces; may raise CannotDrift; `mean`, `covariance`,
        `weight`: initial metric of the adaptation, and the number of draws it counts for."""
        rng, potential_rng = (np.random.default_rng(child) for child in seed.spawn(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "experimental", since 2018
            potential = QuadPotentialFullAdapt(len(start), mean, covariance, weight, rng=potential_rng)
        density = _Density(function)
        self._step = pm.NUTS(model=model, potential=potential, target_accept=target_accept, logp_dlogp_func=density, rng=rng)
        self._step.integrator = _Integrator(potential, density, drift)
        self._point = DictToArrayBijection.map({v.name: np.asarray(x) for v, x in zip(model.value_vars, start)})

    def draw(self, tuning: bool) -> tuple[np.ndarray, Mapping[str, Any]]:
        """Returns the next draw (D,) and its statistics."""
        self._step.tune = tuning
        self._point, (statistics,) = self._step.astep(self._point)
        return self._point.data.copy(), statistics


class TemperedPopulation(SMC_KERNEL):
    """PyMC's temperatures, weights and resampling of a population with this package's density and moves."""

    stats_dtypes_shapes: dict[str, Any] = {"log_marginal_likelihood": (float, []), "beta": (float, []), "accept_rate": (float, [])}

    def __init__(self, draws: int = 2000, start: Any = None, model: pm.Model | None = None, random_seed: Any = None, threshold: float = 0.5,
                 compile_kwargs: Any = None):
        """Replaces PyMC's initialisation, which would compile two unused densities; `model` is for pm.sample_smc only."""
        self.draws, self.start, self.threshold, self.rng = draws, start, threshold, np.random.default_rng(random_seed)
        self.beta, self.iteration, self.log_marginal_likelihood = 0.0, 0, 0.0
        self.weights = np.full(draws, 1.0 / draws)
        self.model = model

    @abstractmethod
    def begin(self) -> None:
        """Gives the population and its densities before the first temperature."""

    def set_rng(self, rng: np.random.Generator) -> None:
        """Sets the generator; PyMC would copy its compiled functions here, which do not draw."""
        self.rng = rng

    def _initialize_kernel(self) -> None:
        if self.start:
            raise ValueError("the population starts from the prior; `start` would change the target's meaning, not the target")
        model = pm.modelcontext(self.model)
        point, self.variables = model.initial_point(), model.value_vars
        self.var_info = {v.name: (point[v.name].shape, point[v.name].size) for v in self.variables}
        self.begin()


class Moments(Op):
    """q (Q,) -> moments (G, 3) and their derivatives (G, 3, Q).

    One simulation gives both, and the gradient uses the second output of the same node. Ops of one likelihood are equal, so PyTensor merges
    the nodes of all groups.
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
    """Builds the joint density of a stage, with the variables NAME, sigma.GROUP and rho.GROUP and one observed vector for each group.
    Arguments are those of `BatchedDensity`."""
    moments = Moments(likelihood)
    with pm.Model() as model:
        q = pt.stack([prior.variable(name) for name, prior in unknowns.items()])
        noise = {label: (p.noise.variable(SIGMA + label), p.correlation.variable(RHO + label) if p.correlation else pt.constant(0.0))
                 for label, p in errors.items()}
        for index, group in enumerate(likelihood.groups):
            pm.CustomDist(group.label, q, *noise[group.label], np.arange(group.count), logp=_gaussian(moments, index, group),
                          random=_response(likelihood, index), signature="(q),(),(),(k)->(k)", observed=likelihood.measured(index))
    return model


def _gaussian(moments: Moments, index: int, group: ErrorGroup) -> Callable[..., Any]:
    def logp(value: Any, q: Any, sigma: Any, rho: Any, rows: Any) -> Any:
        return log_density(group, [moments(q)[0][index, i] for i in range(MOMENTS)], pt.log(sigma), rho, maths=pt)

    return logp


def _response(likelihood: Likelihood, index: int) -> Callable[..., np.ndarray]:
    def draw(q: np.ndarray, sigma: np.ndarray, rho: np.ndarray, rows: np.ndarray, rng: np.random.Generator, size: Any = None) -> np.ndarray:
        # One draw of the unknowns at a time, as PyMC's predictive sampling requires.
        response = likelihood.measured(index) - likelihood.errors(q[None, :])[index][0]
        return response + correlated_noise(rng, (*(size or ()), len(rows)), sigma, rho)

    return draw
