"""Other integrators than the half-implicit step of `Simulator`, with the interface of `rollout`.

- `rollout_rk4`: explicit, fourth order, fixed steps. For comparison: the tyre at low speed is too stiff for it at usual steps.
- `rollout_implicit`: BDF with error control through SUNDIALS. The reference to which the others converge, and the choice for stiff cases;
  some hundred times slower.

Both solve the continuous equations (`rhs`), in which a held state (the acceleration that makes the load transfer, say) is the
solution of its own equation, and friction at rest is a damper. Gears stay between outputs and change after each by the rule of
the model's step; in `rollout_rk4` after each step.
"""

from __future__ import annotations

import numpy as np

from lfdm_ros.backends import RUNGE_KUTTA, SolverFailed, compiled_model_function, implicit_interval, sensitivity_kernel
from lfdm_ros.errors import InputError
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.rollout import report, substeps_of
from lfdm_ros.simulation.simulator import SimulationDiverged, Simulator


class IntegrationFailed(SimulationDiverged):
    """The implicit solver gave up. `time` [s] and `state` (nx,) are the last output it reached; `reason` is the solver's."""

    def __init__(self, time: float, state: np.ndarray, reason: str):
        RuntimeError.__init__(self, f"the implicit integrator failed after t = {time:.6g} s: {reason}")
        self.time, self.state, self.reason = time, state, reason


def rollout_rk4(simulator: Simulator, profile: InputProfile, until: float, output_step: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Runs with the classic Runge-Kutta method, steps of `simulator.dt`; arguments and results as `rollout`.

    Starts from the simulator's state and leaves the simulator as it is.

    Raises:
        InputError: output_step is not a multiple of the physics step.
        SimulationDiverged: a state is not finite.
    """
    substeps = substeps_of(simulator, output_step)
    times, inputs = _samples(simulator, profile, until, output_step)
    kernel = sensitivity_kernel(simulator.model, scheme=RUNGE_KUTTA)
    nothing = np.zeros((len(simulator.state), kernel.directions))
    states, _ = kernel.run(simulator.state, nothing, simulator.vehicle.vector(simulator.model), np.zeros((0, kernel.directions)),
                           inputs, substeps, simulator.dt, False)
    broken = ~np.isfinite(states).all(axis=1)
    if broken.any():
        k = int(np.argmax(broken))
        raise SimulationDiverged(float(times[k]), states[k])
    return times, report(simulator, states, inputs)


def rollout_implicit(simulator: Simulator, profile: InputProfile, until: float, output_step: float = 0.01,
                     tolerance: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
    """Runs with an implicit method of variable step and order; arguments and results as `rollout`.

    Starts from the simulator's state and leaves the simulator as it is. `tolerance` is the local error allowed, relative, and
    absolute in SI units.

    Raises:
        InputError: output_step or tolerance is not positive.
        IntegrationFailed: the solver could not keep its tolerance.
    """
    if not output_step > 0.0 or not tolerance > 0.0:
        raise InputError(f"output step {output_step} s and tolerance {tolerance} must be positive")
    model, dt = simulator.model, simulator.dt
    times, inputs = _samples(simulator, profile, until, output_step)
    advance = implicit_interval(model, output_step, tolerance)
    p = simulator.vehicle.vector(model)
    discrete = np.array([field.role == "discrete" for field in model.states])
    rule = compiled_model_function(model, "step") if discrete.any() else None
    states = np.empty((len(times), len(simulator.state)))
    states[0] = simulator.state
    for k in range(1, len(times)):
        try:
            states[k] = advance(states[k - 1], inputs[k - 1], inputs[k], p)
        except SolverFailed as error:
            raise IntegrationFailed(float(times[k - 1]), states[k - 1].copy(), str(error)) from None
        if rule is not None:
            states[k, discrete] = rule(states[k], inputs[k], p, dt)[0][discrete]
    return times, report(simulator, states, inputs)


def _samples(simulator: Simulator, profile: InputProfile, until: float, output_step: float) -> tuple[np.ndarray, np.ndarray]:
    count = int(np.floor(until / output_step + 1e-9)) + 1
    times = simulator.time + np.arange(count) * output_step
    return times, simulator.complete(profile.sample(times))

