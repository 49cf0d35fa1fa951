"""Whole runs of one vehicle: `rollout` with the model's half-implicit step, and with other integrators.

- `rollout_rk4`: explicit, fourth order, fixed steps. For comparison: the tyre at low speed is too stiff for it at usual steps.
- `rollout_implicit`: BDF with error control by SUNDIALS. The reference to which the others converge, and for stiff cases; some hundred
  times slower.

Both solve the continuous equations (`rhs`), where a held state (such as the acceleration of the load transfer) solves its algebraic
equation, and friction at rest is a damper. Gears are constant between outputs and change after each by the rule of the model's step; in
`rollout_rk4` after each step."""

import numpy as np

from lfdm_ros.backends import RUNGE_KUTTA, SolverFailed, casadi_model, compiled_model_function, implicit_interval, sensitivity_kernel
from lfdm_ros.errors import InputError
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.simulator import SimulationDiverged, Simulator, diverged

# Steps in one compiled call; bounds the memory of a long run.
CHUNK = 20_000


def rollout(simulator: Simulator, profile: InputProfile, until: float, output_step: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Runs from the simulator's present state and returns times (K,) [s] and outputs (K, ny), the first row at the start.

    The profile is sampled at each physics step, so its rows need not lie on the outputs. Leaves the simulator at the end of the run. Raises
    InputError: output_step is not a multiple of the physics step; SimulationDiverged: a state is not finite.
    """
    substeps = substeps_of(simulator, output_step)
    count = int(np.floor(until / output_step + 1e-9)) + 1
    start = time = simulator.time
    dt = simulator.dt
    kernel, p = sensitivity_kernel(simulator.model), simulator.vehicle.vector(simulator.model)
    no_seeds = np.zeros((len(simulator.state), kernel.directions)), np.zeros((0, kernel.directions))
    shift = casadi_model(simulator.model).input_time
    states = np.empty((count, len(simulator.state)))
    states[0] = x = simulator.state.copy()
    # Whole rows if they fit.
    chunk = CHUNK // substeps * substeps or CHUNK
    total = (count - 1) * substeps
    for done in range(0, total, chunk):
        length = min(chunk, total - done)
        # Inputs are constant over a step, sampled at the model's input time. Times are summed, as in the C++ library: at the start of a
        # ramp the rounding of t decides in which step a wheel first turns.
        steps = np.cumsum(np.concatenate([[time], np.full(length, dt)]))
        time = steps[-1]
        inputs = simulator.complete(profile.sample(steps + shift * dt))
        run, _ = kernel.run(x, no_seeds[0], p, no_seeds[1], inputs, 1, dt, True)
        first, last = done // substeps + 1, (done + length) // substeps + 1
        states[first:last] = run[first * substeps - done::substeps]
        if not np.isfinite(run[-1]).all():
            bad = int(np.argmax(~np.isfinite(run).all(axis=1)))
            raise diverged(simulator, float(steps[bad]), run[max(bad - 1, 0)])
        x = run[-1]
    times = start + np.arange(count) * output_step
    inputs = simulator.complete(profile.sample(times))
    outputs = report(simulator, states, inputs)
    simulator.jump(states[-1], (count - 1) * substeps, inputs[-1])
    return times, outputs


def report(simulator: Simulator, states: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Returns the outputs (K, ny) of states (K, nx) under inputs (K, nu)."""
    x, u = np.empty(states.shape[1]), np.empty(inputs.shape[1])
    bound = compiled_model_function(simulator.model, "outputs").bind(x, u, simulator.vehicle.vector(simulator.model), [simulator.dt])
    outputs = np.empty((len(states), len(bound.results[0])))
    for k in range(len(states)):
        x[:], u[:] = states[k], inputs[k]
        bound.evaluate()
        outputs[k] = bound.results[0]
    return outputs


def substeps_of(simulator: Simulator, output_step: float) -> int:
    """Returns the physics steps between two outputs. Raises InputError: output_step is not a multiple of the physics step."""
    substeps = round(output_step / simulator.dt)
    if substeps < 1 or abs(substeps * simulator.dt - output_step) > 1e-9 * output_step:
        raise InputError(f"output step {output_step} s is not a multiple of the physics step {simulator.dt} s")
    return substeps


class IntegrationFailed(SimulationDiverged):
    """Failure of the implicit solver. `time` [s], `state` (nx,): of its last output; `reason`: the solver's."""

    def __init__(self, time: float, state: np.ndarray, reason: str):
        RuntimeError.__init__(self, f"the implicit integrator failed after t = {time:.6g} s: {reason}")
        self.time, self.state, self.reason = time, state, reason


def rollout_rk4(simulator: Simulator, profile: InputProfile, until: float, output_step: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Runs with the classic Runge-Kutta method, steps of `simulator.dt`; arguments and results as `rollout`.

    Starts from the simulator's state and leaves the simulator unchanged. Raises InputError: output_step is not a multiple of the physics
    step; SimulationDiverged: a state is not finite.
    """
    substeps = substeps_of(simulator, output_step)
    times, inputs = _samples(simulator, profile, until, output_step)
    kernel = sensitivity_kernel(simulator.model, scheme=RUNGE_KUTTA)
    no_seeds = np.zeros((len(simulator.state), kernel.directions))
    states, _ = kernel.run(simulator.state, no_seeds, simulator.vehicle.vector(simulator.model), np.zeros((0, kernel.directions)),
                           inputs, substeps, simulator.dt, False)
    broken = ~np.isfinite(states).all(axis=1)
    if broken.any():
        k = int(np.argmax(broken))
        raise SimulationDiverged(float(times[k]), states[k])
    return times, report(simulator, states, inputs)


def rollout_implicit(simulator: Simulator, profile: InputProfile, until: float, output_step: float = 0.01,
                     tolerance: float = 1e-8) -> tuple[np.ndarray, np.ndarray]:
    """Runs with an implicit method of variable step and order; arguments and results as `rollout`.

    Starts from the simulator's state and leaves the simulator unchanged. `tolerance` is the local error allowed, relative, and absolute in
    SI units. Raises InputError: output_step or tolerance is not positive; IntegrationFailed: the solver could not keep its tolerance.
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
