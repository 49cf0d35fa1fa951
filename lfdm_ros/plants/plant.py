"""Interface to external vehicle simulations: the protocol `Plant`, which `Simulator` implements as well, and its plug-ins."""

import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.models import WHEELS, Model
from lfdm_ros.models.declaration import INPUTS, OUTPUTS, Field
from lfdm_ros.plugins import Door
from lfdm_ros.simulation import SimulationDiverged, Simulator
from lfdm_ros.vehicles import Vehicle

# Outputs required by controller, monitor and messages.
REQUIRED = ("x", "y", "yaw", "vx", "vy", "yaw_rate")
CHUNK = 0.005  # [s] of linear inputs in a drive, and between two of its checks
_UNITS = {field.name: field.unit for field in OUTPUTS}
_DEFAULTS = {"gear": 0.0, "lifted_wheels": 0.0}  # of missing outputs; all others are NaN


def steps_of_chunk(dt: float, period: float | None) -> int:
    """Returns the number of steps `dt` [s] of a plant in a chunk of a drive. Raises InputError: the controller's period [s], if given, is
    no whole number of chunks."""
    steps = max(1, round(CHUNK / dt))
    if period is not None and abs(round(period / (steps * dt)) * steps * dt - period) > 1e-9:
        raise InputError(f"the controller's period of {period:g} s is no whole number of chunks of {steps * dt:g} s; choose a step that "
                         f"divides {CHUNK:g} s, such as 1 ms")
    return steps


class Plant(Protocol):
    """A vehicle advanced in fixed steps; axes of ISO 8855 (x forward, y to the left, z up), SI units.

    Attributes:
        dt: step [s], a whole number of nanoseconds.
        output_names: of `outputs`: those of `REQUIRED`, and any others of `lfdm_ros.models.declaration.OUTPUTS`.
    """

    dt: float
    output_names: tuple[str, ...]

    @property
    def outputs(self) -> np.ndarray:
        """Outputs now, (ny,) in the order of `output_names`; the array may be reused."""

    @property
    def parameters(self) -> Mapping[str, float]:
        """Parameters by name, for information; may be empty."""

    def reset(self, *, x: float, y: float, yaw: float, vx: float) -> None:
        """Restarts at time 0 at a position [m], yaw [rad] and speed [m/s]. Raises InputError: it cannot start there; `PlantFailed`."""

    def advance(self, u0: ArrayLike, u1: ArrayLike, n: int) -> None:
        """Advances n steps with steering, throttle and brake (3,) from u0 to u1, as `Simulator.advance`. Raises SimulationDiverged, as
        `PlantFailed`."""


class PlantFailed(SimulationDiverged):
    """Failure of a plant, with the reason in one line."""

    def __init__(self, message: str, time: float = math.nan, state: np.ndarray | None = None):
        RuntimeError.__init__(self, message)
        self.time, self.state = time, np.zeros(0) if state is None else state


class WrongStart(InputError):
    """Start of a plant that does not match its start values."""


def require_outputs(names: Sequence[str], where: str) -> None:
    """Raises InputError, after `where`: an output is unknown, or a required one is missing."""
    for name in names:
        if name not in _UNITS:
            raise InputError(f"{where}: no output {quote(name)}{suggest(name, _UNITS, 'there are: ')}")
    if missing := [name for name in REQUIRED if name not in names]:
        raise InputError(f"{where}: outputs lack {', '.join(missing)}; needed are {', '.join(REQUIRED)}")


class PlantSimulator:
    """Adapter of a plant to the interface of `Simulator`: all outputs of the models in their order, missing ones NaN.

    Attributes:
        vehicle: with its outline, sensors and actuators. model: its declaration, without equations.
    """

    def __init__(self, plant: Plant, vehicle: Vehicle, name: str) -> None:
        """Wraps a plant; `name`: for messages. Raises InputError: an unknown output, a missing required one, or an invalid step."""
        require_outputs(plant.output_names, name)
        if not 0.0 < plant.dt <= 0.1 or abs(plant.dt * 1e9 - round(plant.dt * 1e9)) > 1e-3:
            raise InputError(f"{name}: step {plant.dt!r} s is not a whole number of nanoseconds in (0, 0.1 s]")
        self._plant, self.vehicle, self.dt, self.name, self.output_names = plant, vehicle, plant.dt, name, tuple(_UNITS)
        self.output_index = {output: i for i, output in enumerate(self.output_names)}
        wheels = tuple(wheel for wheel in WHEELS if any(output.endswith(f"_{wheel}") for output in plant.output_names))

        def refuse(operations: Any) -> Any:
            raise InputError(f"{name} has no equations here: it is a plant of others; name a model of ours")

        states = tuple(Field(output, _UNITS[output], "") for output in plant.output_names)
        self.model = Model(name=name, description="a plant of others", source=name, states=states, inputs=INPUTS, outputs=OUTPUTS,
                           parameters=(), build=refuse, wheels=wheels)
        self._places = [self.output_index[output] for output in plant.output_names]
        self._speed, self._yaw = (plant.output_names.index(output) for output in ("vx", "yaw"))
        self._yaw_now = self.output_index["yaw"]
        self._outputs = np.full(len(OUTPUTS), math.nan)
        for output, value in _DEFAULTS.items():
            self._outputs[self.output_index[output]] = value
        self._steps = 0

    @property
    def time(self) -> float:
        """Simulated time since the reset [s]."""
        return self._steps * self.dt

    @property
    def parameters(self) -> Mapping[str, float]:
        """Parameters of the plant."""
        return self._plant.parameters

    @property
    def speed(self) -> float:
        """Present longitudinal velocity [m/s]."""
        return float(self._plant.outputs[self._speed])

    @property
    def outputs(self) -> np.ndarray:
        """Present outputs: (ny,) in the order of `output_names`, SI; the yaw is unwrapped. The array is reused by the next call."""
        before, self._outputs[self._places] = self._outputs[self._yaw_now], self._plant.outputs
        # Unwraps the yaw of plants that wrap it.
        turns = round((before - self._outputs[self._yaw_now]) / math.tau) if math.isfinite(before) else 0
        if turns:
            self._outputs[self._yaw_now] += turns * math.tau
        return self._outputs

    def reset(self, x: float = 0.0, y: float = 0.0, yaw: float = 0.0, vx: float = 0.0) -> None:
        """Restarts at time 0. Raises InputError: it cannot start, or not there."""
        self._steps, self._outputs[self._yaw_now] = 0, yaw
        try:
            with self._named("reset"):
                self._plant.reset(x=x, y=y, yaw=yaw, vx=vx)
            self._check()
        except PlantFailed as error:
            raise InputError(str(error)) from None

    def advance(self, u0: ArrayLike, u1: ArrayLike, n: int) -> None:
        """Advances n steps, the inputs linear from u0 to u1. Raises SimulationDiverged, also for outputs that are not finite."""
        with self._named("advance"):
            self._plant.advance(u0, u1, n)
        self._steps += n
        self._check()

    @contextmanager
    def _named(self, action: str) -> Iterator[None]:
        """Adds the plant's name and the line of its code to exceptions of the plant."""
        try:
            yield
        except (PlantFailed, InputError):
            raise
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            raise PlantFailed(f"{self.name}: {action} raised {type(error).__name__} at {self.time:g} s: {error} ({at.filename}, line "
                              f"{at.lineno})", self.time) from error

    def _check(self) -> None:
        with self._named("outputs"):
            outputs = np.asarray(self._plant.outputs, float)
        if outputs.shape != (len(self._plant.output_names),):
            raise PlantFailed(f"{self.name}: outputs has shape {outputs.shape}, and output_names has {len(self._plant.output_names)} names",
                              self.time)
        if not np.isfinite(outputs).all():
            invalid = ", ".join(name for name, value in zip(self._plant.output_names, outputs) if not math.isfinite(value))
            raise PlantFailed(f"{self.name}: {invalid}: no finite number at {self.time:g} s", self.time, outputs.copy())


AnySimulator = Simulator | PlantSimulator


@dataclass(frozen=True)
class PlantType:
    """A kind of plant, selected by `type` in a plant file.

    `make(settings, where)` returns a `Plant` from the other keys of the file; `where` leads messages. Raises InputError.
    """

    name: str
    description: str
    make: Callable[[Mapping[str, Any], str], Plant]


PLANTS: Door[PlantType] = Door("plant", "lfdm_ros.plants", PlantType, "make")
register_plant = PLANTS.register
