"""A whole run of one vehicle."""

from __future__ import annotations

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.simulator import Simulator


def rollout(simulator: Simulator, profile: InputProfile, until: float, output_step: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Runs from the simulator's present state and returns times (K,) [s] and outputs (K, ny), the first row at the start.

    Between outputs the inputs are linear, so `output_step` also is the resolution of the profile.

    Raises:
        InputError: output_step is not a multiple of the physics step.
        SimulationDiverged: a state is not finite.
    """
    substeps = round(output_step / simulator.dt)
    if substeps < 1 or abs(substeps * simulator.dt - output_step) > 1e-9 * output_step:
        raise InputError(f"output step {output_step} s is not a multiple of the physics step {simulator.dt} s")
    count = int(np.floor(until / output_step + 1e-9)) + 1
    times = simulator.time + np.arange(count) * output_step
    inputs = profile.sample(times)
    outputs = np.empty((count, len(simulator.output_names)))
    simulator.advance(inputs[0], inputs[0], 0)
    outputs[0] = simulator.outputs
    for k in range(1, count):
        simulator.advance(inputs[k - 1], inputs[k], substeps)
        outputs[k] = simulator.outputs
    return times, outputs
