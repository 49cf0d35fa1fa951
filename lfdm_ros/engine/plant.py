"""The vehicle's part of a tick: actuators, selector and physics. Independent of ROS and of pacing."""

import math
from collections.abc import Callable

import numpy as np

from lfdm_ros.engine.command_hold import Inputs
from lfdm_ros.errors import InputError
from lfdm_ros.plants.plant import AnySimulator
from lfdm_ros.simulation import Simulator
from lfdm_ros.simulation.actuator import Actuator, Selector
from lfdm_ros.simulation.world import Pose

# Hold of the actuator's output [s]; a physics step where that is longer.
_ACTUATOR_HOLD = 0.002

# The stage between the actuators and the vehicle: takes their output (3,) and returns the vehicle's inputs; the same array where it
# changes nothing, which then holds for the tick.
Between = Callable[[np.ndarray], np.ndarray]


class ActuatedPlant:
    """Simulator, internal or an external plant, with its actuators, selector and the stage between."""

    def __init__(self, simulator: AnySimulator, steps: int, actuator: Actuator | None = None, between: Between | None = None) -> None:
        """Connects the simulator with its actuators. simulator: compiled and reset to the initial state. steps: physics steps in a tick.
        actuator: None: commands act at once. A selector follows in either case."""
        self.simulator, self.steps = simulator, steps
        self._actuator, self._between = actuator, between
        self._selector = Selector()
        self.inputs = np.zeros(3)  # of the last step

    @property
    def period_ns(self) -> int:
        """Duration of a tick [ns]."""
        return round(self.simulator.dt * 1e9) * self.steps

    def reset(self, pose: Pose, time: float) -> None:
        """Puts the vehicle at a pose, at a time [s]."""
        self.simulator.reset(x=pose.x, y=pose.y, yaw=pose.yaw, vx=pose.speed)
        self.inputs = np.zeros(3)
        self._selector.reset()
        if self._actuator is not None:
            self._actuator.reset(time)

    def swap(self, simulator: Simulator) -> None:
        """Replaces the simulator by another of the same model and step, from the state reached. Raises InputError: a plant of others
        drives."""
        present = self.simulator
        if not isinstance(present, Simulator):
            raise InputError(f"{present.name} is a plant of others; its parameters are its own")
        simulator.jump(present.state, round(present.time / present.dt), self.inputs)
        self.simulator = simulator

    def drive(self, time: float, inputs: Inputs | np.ndarray) -> None:
        """Advances by a tick from a time [s], with steering, throttle and brake as commanded. Raises SimulationDiverged."""
        if self._actuator is None:
            self.inputs = self._reaching(np.array(inputs))
            self.simulator.advance(self.inputs, self.inputs, self.steps)
            return
        self._actuator.send(time, inputs)
        dt = self.simulator.dt
        hold, done = max(1, round(_ACTUATOR_HOLD / dt)), 0
        while done < self.steps:
            steps, outputs = hold, self._actuator.advance(time + done * dt)
            self.inputs = self._reaching(outputs)
            if self.inputs is outputs:  # as many holds at once as are all the same
                holds = math.ceil(min((self._actuator.steady() - 1e-9) / (hold * dt), self.steps))
                steps = max(holds, 1) * hold
            steps = min(steps, self.steps - done)
            self.simulator.advance(self.inputs, self.inputs, steps)
            done += steps

    def _reaching(self, inputs: np.ndarray) -> np.ndarray:
        if self._between is not None:
            inputs = self._between(inputs)
        return self._selector.through(inputs, self.simulator.speed)
