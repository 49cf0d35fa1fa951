"""Vehicle for Autoware's simple_planning_simulator: the Python class that its vehicle model LEARNED_STEER_VEL loads.

The simulator makes the class without arguments, calls `load_params` and `reset` if it has a file, reads the names of states and actions,
sets the time step, and then calls `forward` once a step, with values in the order of those names. Its reference point is the middle of the
rear axle; all other states of the model (wheel spins, roll, gears, delayed commands) are kept here.
"""

import math
from collections.abc import Sequence

import numpy as np

from lfdm_ros import documents
from lfdm_ros.engine.inversion import Follower, MotionSetpoint
from lfdm_ros.errors import InputError
from lfdm_ros.resources import find_config
from lfdm_ros.simulation import Simulator
from lfdm_ros.simulation.actuator import Actuator
from lfdm_ros.vehicles import Vehicle, load_vehicle

STATES = ("POS_X", "POS_Y", "YAW", "YAW_RATE", "VX", "VY", "STEER")
ACTIONS = ("VX_DES", "STEER_DES")
_KEYS = ("vehicle", "vehicle_changes", "model", "tyre", "actuators")
_PHYSICS = 1e-3  # [s], the longest step
_SAME = 1e-6  # largest difference between a state and the same one returned last


class AutowareVehicle:
    """Vehicle in Autoware's simulator; positions of the middle of the rear axle, angle of the front wheels, SI."""

    def __init__(self) -> None:
        self._settings: dict[str, object] = {"vehicle": "hmmwv"}
        self._dt = 0.025
        self._simulator: Simulator | None = None
        self._vehicle: Vehicle | None = None
        self._time: float = 0.0
        self._steps, self._rear = 1, 0.0
        self._inputs: np.ndarray = np.zeros(3)
        self._actuator: Actuator = Actuator()
        self._last: tuple[float, ...] | None = None

    def load_params(self, path: str) -> None:
        """Reads the settings from a file, given by its path or its name in config/autoware. Raises InputError: names the file and the
        key."""
        found = find_config("autoware", path)
        data = documents.mapping(documents.read_yaml(found)[0], str(found), required=("vehicle",), optional=_KEYS)
        self._settings, self._simulator = dict(data), None
        self._make()

    def reset(self) -> None:
        """Discards the last state: the next `forward` begins with its argument."""
        self._last = None

    def dtSet(self, dt: float) -> None:
        """Sets the time between two calls of `forward` [s]. Raises InputError outside 0.0001 to 1 s."""
        if not 1e-4 <= dt <= 1.0:
            raise InputError(f"a step of {dt} s; give 0.0001 to 1 s")
        self._dt, self._simulator = float(dt), None

    def get_state_names(self) -> list[str]:
        return list(STATES)

    def get_action_names(self) -> list[str]:
        return list(ACTIONS)

    def forward(self, action: Sequence[float], state: Sequence[float]) -> tuple[float, ...]:
        """Returns the state after a step. A state other than the last returned one begins a new run there. Raises InputError: not finite,
        or the wrong number of values."""
        if len(action) != len(ACTIONS) or len(state) != len(STATES) or not all(map(math.isfinite, (*action, *state))):
            raise InputError(f"forward takes {', '.join(ACTIONS)} and {', '.join(STATES)}, all finite; got {list(action)}, {list(state)}")
        if self._simulator is None:
            self._make()
        simulator = self._simulator
        assert simulator is not None
        if self._last is None or any(abs(a - b) > _SAME for a, b in zip(self._last, state)):
            self._begin(simulator, state)
        outputs = self._outputs(simulator)
        command = self._follower.inputs(self._time, outputs["vx"], outputs["yaw_rate"], MotionSetpoint(action[0], angle=action[1]))
        self._actuator.send(self._time, command)
        steps, before, begin = self._steps, self._inputs, self._time
        for k in range(steps):
            after = self._actuator.advance(begin + (k + 1) * self._dt / steps)
            simulator.advance(before, after, 1)
            before = after
        self._inputs, self._time = before, begin + self._dt
        self._last = self._state(simulator)
        return self._last

    def _make(self) -> None:
        changes = self._settings.get("vehicle_changes") or []
        if not isinstance(changes, list):
            raise InputError("vehicle_changes: give a list of NAME=VALUE")
        vehicle = load_vehicle(str(self._settings["vehicle"]), changes)
        model, tyre = str(self._settings.get("model") or "eight_dof"), self._settings.get("tyre")
        self._steps = math.ceil(self._dt / _PHYSICS - 1e-9)
        self._simulator = Simulator(vehicle, model=model, dt=self._dt / self._steps, tyre=str(tyre) if tyre else None)
        if self._vehicle != vehicle:
            self._follower = Follower(vehicle)
        self._vehicle, self._rear = vehicle, vehicle.parameters["cg_to_rear_axle"]
        self._last = None

    def _begin(self, simulator: Simulator, state: Sequence[float]) -> None:
        """Sets the vehicle to a state, with its wheels rolling and its steering at the given angle."""
        x, y, yaw, yaw_rate, vx, vy, steer = map(float, state)
        simulator.reset(x=x + self._rear * math.cos(yaw), y=y + self._rear * math.sin(yaw), yaw=yaw, vx=vx, vy=vy + self._rear * yaw_rate,
                        yaw_rate=yaw_rate)
        self._inputs = np.array([self._follower.steering.input(steer), 0.0, 0.0])
        self._time = 0.0
        self._follower.begin(steer)
        assert self._vehicle is not None
        self._actuator = Actuator.of(self._vehicle.actuators) if self._settings.get("actuators", True) else Actuator()
        self._actuator.reset(0.0, self._inputs)

    def _outputs(self, simulator: Simulator) -> dict[str, float]:
        values = simulator.outputs
        return {name: float(values[simulator.output_index[name]]) for name in ("x", "y", "yaw", "yaw_rate", "vx", "vy")}

    def _state(self, simulator: Simulator) -> tuple[float, ...]:
        o = self._outputs(simulator)
        return (o["x"] - self._rear * math.cos(o["yaw"]), o["y"] - self._rear * math.sin(o["yaw"]), o["yaw"], o["yaw_rate"], o["vx"],
                o["vy"] - self._rear * o["yaw_rate"], self._follower.steering.angle_of(float(self._inputs[0])))
