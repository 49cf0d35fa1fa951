"""The variables of an exported vehicle: reference, name, unit, bounds, start value."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.backends.portable import PLACE
from lfdm_ros.errors import InputError
from lfdm_ros.models import Field, Model
from lfdm_ros.models.tyre_alone import TYRE_DEFAULTS, tyre_model
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import Vehicle
from lfdm_ros.vehicles.vehicle import choose

INPUT, OUTPUT, LOCAL, PARAMETER, TUNABLE = "input", "output", "local", "parameter", "tunable"
START = (Field("x", "m", "position at the start, x"), Field("y", "m", "position at the start, y"),
         Field("yaw", "rad", "heading at the start, + left"), Field("vx", "m/s", "speed at the start"))
_STEP = Field("step", "s", "longest step of the equations", lower=1e-6)


@dataclass(frozen=True)
class ExportedVariable:
    """One scalar of an exported vehicle.

    reference: value reference; field: exported name, unit, description and bounds; kind: input, output, local, parameter (for the start) or
    tunable (a parameter that may change at any time); of_state: of a derivative, the reference of its state.
    """

    reference: int
    field: Field
    kind: str
    start: float | None = None
    nominal: float = 1.0
    of_state: int | None = None

    @property
    def name(self) -> str:
        """Exported name."""
        return self.field.name

    @property
    def bounds(self) -> tuple[float, float]:
        """Minimum and maximum."""
        f = self.field
        return (math.nextafter(f.lower, math.inf), math.nextafter(f.upper, -math.inf)) if f.strict else (f.lower, f.upper)


@dataclass(frozen=True)
class Exported:
    """A vehicle's model and its exported variables. `variables`: by reference, without those that the model does not compute; `rest` (nx,):
    its state at rest."""

    vehicle: Vehicle
    model: Model
    step: float
    variables: Sequence[ExportedVariable]
    rest: Sequence[float]

    def places(self, role: str) -> list[int]:
        """Returns the indices of the states of a role."""
        return [i for i, field in enumerate(self.model.states) if field.role == role]

    @property
    def tunable(self) -> frozenset[str]:
        """Names of the parameters that may change at any time."""
        return frozenset(v.name for v in self.variables if v.kind == TUNABLE)

    @property
    def exchange(self) -> bool:
        """True if model exchange is supported: no discrete states."""
        return not self.places("discrete")

    @property
    def first(self) -> Mapping[str, int]:
        """First references of u, y, x, dx, p and place, and those of step, linear_inputs and time."""
        m = self.model
        counts = {"u": len(m.inputs), "y": len(m.outputs), "x": len(m.states), "dx": len(m.states), "p": len(m.parameters),
                  "place": len(PLACE), "step": 1, "linear": 1, "time": 1}
        names = list(counts)
        return {name: sum(counts[before] for before in names[:i]) for i, name in enumerate(names)}


def exported(vehicle: Vehicle, model: str, tyre: str | None = None, step: float = 1e-3) -> Exported:
    """Declares the variables of an exported vehicle. model, tyre: as for `Simulator`; step: longest step of the equations [s]. Raises
    InputError: no such model, missing parameters, no equilibrium at rest, or a step out of the model's range."""
    chosen = vehicle.model(model, tyre)
    return _declared(vehicle, chosen, step, initial_state(chosen, vehicle), vehicle.vector(chosen),
                     [replace(f, name=f"start.{f.name}") for f in START])


def exported_tyre(vehicle: Vehicle, wheel: str, tyre: str | None = None, step: float = 1e-3) -> Exported:
    """Declares the variables of an exported tyre of a wheel (`lfdm_ros.models.tyre_alone`).

    Args:
        wheel: fl, fr, rl or rr.
        tyre: name of a tyre model, by default the vehicle's.
        step: longest step of the equations [s].

    Raises:
        InputError: the vehicle has no such tyre, or it cannot be exported alone; a step out of its range.
    """
    has = vehicle.parts("tyre")
    name = choose("--tyre", tyre or vehicle.default_tyre or next(iter(has), ""), has, f"vehicle '{vehicle.name}'")
    model = tyre_model(name, wheel)
    values = {**dict.fromkeys((f.name for f in model.parameters if "damping" in f.name), 0.0), **TYRE_DEFAULTS, **vehicle.parameters}
    if lacking := [f.name for f in model.parameters if f.name not in values]:
        raise InputError(f"vehicle '{vehicle.name}' lacks {', '.join(lacking)} for a tyre alone")
    return _declared(vehicle, model, step, np.zeros(len(model.states)), np.array([values[f.name] for f in model.parameters]), ())


def _declared(vehicle: Vehicle, chosen: Model, step: float, rest: np.ndarray, p: np.ndarray, places: Sequence[Field]) -> Exported:
    if not _STEP.lower <= step <= chosen.largest_step:
        raise InputError(f"step {step:g} s: {chosen.name} allows steps from {_STEP.lower:g} to {chosen.largest_step:g} s")
    empty = Exported(vehicle, chosen, step, (), tuple(rest))
    first = empty.first
    variables = [ExportedVariable(first["u"] + i, f, INPUT, f.default) for i, f in enumerate(chosen.inputs)]
    variables += [ExportedVariable(first["y"] + i, f, OUTPUT) for i, f in enumerate(chosen.outputs) if f.name in chosen.computed_outputs]
    for i, (f, value) in enumerate(zip(chosen.states, empty.rest)):
        variables.append(ExportedVariable(first["x"] + i, replace(f, name=f"state.{f.name}"), LOCAL, nominal=_nominal(value)))
    for i, f in enumerate(chosen.states):
        if f.role == "continuous":
            rate = replace(f, name=f"der(state.{f.name})", unit=_rate(f.unit), description=f"derivative of {f.description}")
            variables.append(ExportedVariable(first["dx"] + i, rate, LOCAL, of_state=first["x"] + i))
    for i, (f, value) in enumerate(zip(chosen.parameters, p)):
        source = vehicle.sources.get(f.name)
        described = replace(f, description=f"{f.description} ({source})") if source else f
        variables.append(ExportedVariable(first["p"] + i, described, TUNABLE, float(value)))
    variables += [ExportedVariable(first["place"] + i, f, PARAMETER, 0.0) for i, f in enumerate(places)]
    variables.append(ExportedVariable(first["step"], replace(_STEP, upper=chosen.largest_step), PARAMETER, step))
    return replace(empty, variables=tuple(variables))


def _rate(unit: str) -> str:
    """Returns the unit of a time derivative."""
    return {"1": "1/s", "m/s": "m/s^2", "rad/s": "rad/s^2", "m/s^2": "m/s^3", "rad/s^2": "rad/s^3"}.get(unit, f"{unit}/s")


def _nominal(rest: float) -> float:
    """Returns the nominal value of a state: its magnitude at rest, such as a tyre's deflection, or 1."""
    size = abs(float(rest))
    return float(f"{size:.1g}") if size > 1e-3 else 1.0
