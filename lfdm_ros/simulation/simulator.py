"""One vehicle, advanced in compiled calls."""

from __future__ import annotations

import difflib

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import numba_kernels
from lfdm_ros.errors import InputError
from lfdm_ros.models import WHEELS, get_model
from lfdm_ros.vehicles import Vehicle


class SimulationDiverged(RuntimeError):
    """A state is no longer a finite number. `time` [s] and `state` (nx,) say when and what."""

    def __init__(self, time: float, state: np.ndarray):
        super().__init__(f"the simulation diverged before t = {time:.6g} s")
        self.time, self.state = time, state


def initial_state(model: str, vehicle: Vehicle, **values: float) -> np.ndarray:
    """A state (nx,) from named values [SI]; the rest is 0, but wheels that are not given roll freely.

    Raises:
        InputError: no such state, or not a finite number.
    """
    fields = get_model(model).states
    names = [f.name for f in fields]
    for name, value in values.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            raise InputError(f"model '{model}' has no state '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        if not np.isfinite(value):
            raise InputError(f"initial {name} is {value}, not a finite number")
    p = vehicle.parameters
    half_track = {"fl": 0.5, "fr": -0.5, "rl": 0.5, "rr": -0.5}
    base = p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    state = dict.fromkeys(names, 0.0)
    for wheel in WHEELS:
        front = wheel[0] == "f"
        arm = p["cg_to_rear_axle"] if front else p["cg_to_front_axle"]
        axle = "front" if front else "rear"
        load = 4.903325 * (p["sprung_mass"] * arm / base + p["unsprung_load_share"] * p[f"unsprung_mass_{axle}"])
        radius = p["wheel_radius"] - load / p[f"tyre_vertical_stiffness_{axle}"]
        speed = values.get("vx", 0.0) - values.get("yaw_rate", 0.0) * half_track[wheel] * p[f"track_{axle}"]
        state[f"omega_{wheel}"] = speed / radius
    state.update(values)
    return np.array([state[name] for name in names])


class Simulator:
    """A vehicle that is advanced tick by tick; each tick is one compiled call of many fixed steps."""

    def __init__(self, vehicle: Vehicle, model: str = "eight_dof", dt: float = 1e-3):
        """Compiles the model on first use (seconds); `dt` is the physics step [s].

        Raises:
            InputError: no such model, the vehicle lacks parameters, or dt is not in (0, 0.1].
        """
        if not 0.0 < dt <= 0.1:
            raise InputError(f"physics step {dt} s is outside (0, 0.1]")
        self.model, self.vehicle, self.dt = get_model(model), vehicle, dt
        self._kernels = numba_kernels(model)
        self._p = vehicle.vector(self.model)
        self.output_names = tuple(f.name for f in self.model.outputs)
        self.output_index = {name: i for i, name in enumerate(self.output_names)}
        self._u_from, self._u = np.zeros((2, len(self.model.inputs)))
        self._y = np.zeros(len(self.output_names))
        self.reset()

    def reset(self, **values: float) -> None:
        """Sets time to 0 and the state from named values, as `initial_state`."""
        self.state = initial_state(self.model.name, self.vehicle, **values)
        self._steps = 0
        self._u[:] = 0.0

    @property
    def time(self) -> float:
        """Simulated time since the reset [s]."""
        return self._steps * self.dt

    def advance(self, u0: ArrayLike, u1: ArrayLike, n: int) -> None:
        """Advances n steps, the inputs (3,) (steering, throttle, brake) linear from u0 to u1.

        Raises:
            SimulationDiverged: a state is not finite.
        """
        self._u_from[:], self._u[:] = u0, u1
        self._kernels.advance(self.state, self._p, self._u_from, self._u, n, self.dt)
        self._steps += n
        if not np.isfinite(self.state).all():
            raise SimulationDiverged(self.time, self.state.copy())

    @property
    def outputs(self) -> np.ndarray:
        """What the vehicle reports now: (ny,) in the order of `output_names`, SI. The array is reused by the next call."""
        self._kernels.outputs(self.state, self._u, self._p, self.dt, self._y)
        return self._y
