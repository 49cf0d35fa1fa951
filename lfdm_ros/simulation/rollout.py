"""A whole run of one vehicle."""

from __future__ import annotations

import numpy as np

from lfdm_ros.backends import casadi_model, compiled_model_function, sensitivity_kernel
from lfdm_ros.errors import InputError
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.simulator import Simulator, diverged

# Steps in one compiled call; bounds the memory of a long run.
CHUNK = 20_000


def rollout(simulator: Simulator, profile: InputProfile, until: float, output_step: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Runs from the simulator's present state and returns times (K,) [s] and outputs (K, ny), the first row at the start.

    The profile is read in each physics step, so its rows need not lie on the outputs. Leaves the simulator at the end of the run.

    Raises:
        InputError: output_step is not a multiple of the physics step.
        SimulationDiverged: a state is not finite.
    """
    substeps = substeps_of(simulator, output_step)
    count = int(np.floor(until / output_step + 1e-9)) + 1
    start = time = simulator.time
    dt = simulator.dt
    kernel, p = sensitivity_kernel(simulator.model), simulator.vehicle.vector(simulator.model)
    nothing = np.zeros((len(simulator.state), kernel.directions)), np.zeros((0, kernel.directions))
    shift = casadi_model(simulator.model).input_time
    states = np.empty((count, len(simulator.state)))
    states[0] = x = simulator.state.copy()
    # Whole rows where they fit.
    chunk = CHUNK // substeps * substeps or CHUNK
    total = (count - 1) * substeps
    for done in range(0, total, chunk):
        length = min(chunk, total - done)
        # Kept over each step is the input at the time at which the model reads it. Time adds up, as in the C++ library: where a
        # ramp begins, the rounding of t decides in which step a wheel first turns.
        steps = np.cumsum(np.concatenate([[time], np.full(length, dt)]))
        time = steps[-1]
        inputs = simulator.complete(profile.sample(steps + shift * dt))
        run, _ = kernel.run(x, nothing[0], p, nothing[1], inputs, 1, dt, True)
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
    """Physics steps between two outputs.

    Raises:
        InputError: output_step is not a multiple of the physics step.
    """
    substeps = round(output_step / simulator.dt)
    if substeps < 1 or abs(substeps * simulator.dt - output_step) > 1e-9 * output_step:
        raise InputError(f"output step {output_step} s is not a multiple of the physics step {simulator.dt} s")
    return substeps
