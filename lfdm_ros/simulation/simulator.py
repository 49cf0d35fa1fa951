"""One vehicle, advanced in compiled calls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import ARRAYS, advance_kernel, casadi_model, compiled_model_function
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.models import Model
from lfdm_ros.models.declaration import PLACES
from lfdm_ros.models.starting import loaded_radius, rolling
from lfdm_ros.simulation.equilibrium import equilibrium, standing
from lfdm_ros.vehicles import Vehicle


class SimulationDiverged(RuntimeError):
    """Divergence: a state is no longer finite, at `time` [s] with `state` (nx,)."""

    def __init__(self, time: float, state: np.ndarray):
        super().__init__(f"the simulation diverged before t = {time:.6g} s")
        self.time, self.state = time, state


class OutOfReach(SimulationDiverged):
    """Wheel beyond the travel of its linkage, at `time` [s] with `state` (nx,); `wheel`: fl, fr, rl or rr."""

    def __init__(self, time: float, state: np.ndarray, wheel: str):
        RuntimeError.__init__(self, f"the {PLACES.get(wheel, wheel)} wheel is out of the reach of its linkage at t = {time:.6g} s")
        self.time, self.state, self.wheel = time, state, wheel


def diverged(simulator: Simulator, time: float, state: np.ndarray) -> SimulationDiverged:
    """Makes the exception for a run with its last finite `state` at `time`."""
    functions = casadi_model(simulator.model)
    if functions.linked and np.isfinite(state).all():
        margins = np.array(functions.reach(state, simulator.complete(np.zeros(3)), simulator.vehicle.vector(simulator.model))).ravel()
        if margins.min() < 0.0:
            return OutOfReach(time, state, simulator.model.wheels[int(margins.argmin())])
    return SimulationDiverged(time, state)


def initial_state(model: str | Model, vehicle: Vehicle, **values: float) -> np.ndarray:
    """Returns a state (nx,) from named values [SI]; other states are those of the vehicle at rest, with freely rolling wheels in first
    gear. Raises InputError: no such state, not a finite number, or a vehicle without `equilibrium`."""
    chosen = vehicle.model(model)
    fields = chosen.states
    names = [f.name for f in fields]
    for name, value in values.items():
        if name not in names:
            raise InputError(f"model '{chosen.name}' has no state '{name}'{suggest(name, names)}")
        if not math.isfinite(value):
            raise InputError(f"initial {name} is {value}, not a finite number")
    state = {field.name: 1.0 if field.name == "gear" else 0.0 for field in fields} | equilibrium(chosen, vehicle) | values
    p = SimpleNamespace(**vehicle.parameters)

    def follow() -> None:
        state.update({name: value for name, value in rolling(chosen, p, state, ARRAYS).items() if name not in values})

    follow()
    if "height_map" in (f.name for f in chosen.parameters):
        radii = {wheel: loaded_radius(p, "front" if wheel.startswith("f") else "rear") for wheel in chosen.wheels}
        state.update({name: value for name, value in standing(chosen, vehicle, state, radii).items() if name not in values})
        follow()
    return np.array([state[name] for name in names])


def with_ground(model: Model, inputs: ArrayLike, **values: float) -> np.ndarray:
    """Extends the driver's inputs (..., 3) by ground contact and wind, for a model with these inputs: (..., nu).

    `values` are constants by name, without the wheel for all wheels: `ground_friction=0.3, ground_friction_fl=0.9, wind_y=500.0`. Defaults:
    level ground with the friction of the road on which the tyre was measured, no wind. Raises InputError: the model has no such input, or a
    value is out of range.
    """
    driver = np.asarray(inputs, float)
    fields = model.inputs[driver.shape[-1]:]
    declared = {field.name: field for field in fields} | {field.stem: field for field in fields}
    for name, value in values.items():
        if name not in declared:
            hint = (suggest(name, declared, "it has: ") if declared
                    else f": it drives on a plane; '{model.name}/given_ground' takes the ground as inputs")
            raise InputError(f"model '{model.name}' has no input '{name}'{hint}")
        if not declared[name].lower <= value <= declared[name].upper:
            raise InputError(f"{name} = {value:g} {declared[name].unit} is outside [{declared[name].lower:g}, {declared[name].upper:g}]")
    contact = [values.get(field.name, values.get(field.stem, field.default)) for field in fields]
    return np.concatenate([driver, np.broadcast_to(contact, (*driver.shape[:-1], len(contact)))], axis=-1)


class Simulator:
    """A vehicle advanced tick by tick; each tick is one compiled call of many fixed steps."""

    def __init__(self, vehicle: Vehicle, model: str | Model = "eight_dof", dt: float = 1e-3, tyre: str | None = None):
        """Compiles the model on first use (a second or so).

        Args:
            model: a chassis, or a full specification; the vehicle completes it (`Vehicle.spec`).
            dt: physics step [s].
            tyre: name of a tyre model; default the vehicle's.

        Raises:
            InputError: no such model, the vehicle lacks parameters, or dt is not in (0, 0.1].
        """
        if not 0.0 < dt <= 0.1:
            raise InputError(f"physics step {dt} s is outside (0, 0.1]")
        self.model, self.vehicle, self.dt = vehicle.model(model, tyre), vehicle, dt
        self._p = vehicle.vector(self.model)
        self.output_names = tuple(f.name for f in self.model.outputs)
        self.output_index = {name: i for i, name in enumerate(self.output_names)}
        self._u_from, self._u = np.zeros((2, len(self.model.inputs)))
        self._h = np.array([dt])
        self._state_index = {f.name: i for i, f in enumerate(self.model.states)}
        self.state = np.zeros(len(self.model.states))
        self._advance = advance_kernel(self.model)(self.state, self._p, self._u_from, self._u)
        self._linked = casadi_model(self.model).linked
        self._before = self.state.copy()
        self._report = compiled_model_function(self.model, "outputs").bind(self.state, self._u, self._p, self._h)
        self.reset()

    def reset(self, **values: float) -> None:
        """Sets time to 0 and the state from named values, as `initial_state`."""
        self.state[:] = initial_state(self.model, self.vehicle, **values)
        self._steps = 0
        self._u[:] = with_ground(self.model, np.zeros(3))

    def meet(self, **values: float) -> None:
        """Sets ground contact and wind until the reset; names, defaults and errors as `with_ground`."""
        self._u[:] = with_ground(self.model, self._u[:3], **values)

    def complete(self, inputs: ArrayLike) -> np.ndarray:
        """Extends the driver's inputs (..., 3) by the present ground contact and wind: (..., nu)."""
        driver = np.asarray(inputs, float)
        return np.concatenate([driver, np.broadcast_to(self._u[3:], (*driver.shape[:-1], len(self._u) - 3))], axis=-1)

    @property
    def time(self) -> float:
        """Simulated time since the reset [s]."""
        return self._steps * self.dt

    def advance(self, u0: ArrayLike, u1: ArrayLike, n: int) -> None:
        """Advances n steps, the inputs (3,) (steering, throttle, brake), or all (nu,), linear from u0 to u1.

        With three inputs, ground contact and wind stay as set by `meet`. Raises SimulationDiverged: a state is not finite; `OutOfReach`
        beyond the travel of a wheel's linkage.
        """
        if len(u0) < len(self._u):  # type: ignore[arg-type]
            u0, u1 = self.complete(u0), self.complete(u1)
        self._u_from[:], self._u[:] = u0, u1
        if self._linked:
            self._before[:] = self.state
        finite = self._advance(n, self.dt) if n else True
        self._steps += n
        if not finite:
            raise self._diverged(n)

    def _diverged(self, n: int) -> SimulationDiverged:
        """Makes the exception for the last n steps, of a vehicle with linkages by repeating them one by one."""
        if not self._linked:
            return SimulationDiverged(self.time, self.state.copy())
        first, last, final = self._u_from.copy(), self._u.copy(), self.state.copy()
        self.state[:] = self._before
        for k in range(n):
            self._before[:] = self.state
            self._u_from[:], self._u[:] = (first + (last - first) * ((k + i) / n) for i in (0, 1))
            if not self._advance(1, self.dt):
                break
        self._u_from[:], self._u[:], self.state[:] = first, last, final
        return diverged(self, self.time - (n - k) * self.dt, self._before.copy())

    def jump(self, state: ArrayLike, n: int, u: ArrayLike) -> None:
        """Sets the result of another integrator after n steps: state (nx,) and inputs, (nu,) or (3,)."""
        self.state[:], self._u[:len(u)] = state, u  # type: ignore[arg-type]
        self._steps += n

    @property
    def parameters(self) -> Mapping[str, float]:
        """Parameters of the vehicle by name, SI."""
        return self.vehicle.parameters

    @property
    def speed(self) -> float:
        """Present longitudinal velocity [m/s]."""
        return float(self.state[self._state_index["vx"]])

    @property
    def outputs(self) -> np.ndarray:
        """Present outputs: (ny,) in the order of `output_names`, SI. The array is reused by the next call."""
        self._report.evaluate()
        return self._report.results[0]
