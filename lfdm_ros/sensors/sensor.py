"""Simulated sensors by name: the protocol, and the registry, open to other packages."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from lfdm_ros import documents, plugins
from lfdm_ros.errors import InputError, prefixing, quote, suggest
from lfdm_ros.parameters import Declared
from lfdm_ros.sensors.ground_rays import Surface
from lfdm_ros.simulation.world import World
from lfdm_ros.vehicles import Mount, Vehicle

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True)
class VehicleView:
    """True motion at an instant: simulated time [s], pose of the position point [m, rad], roll, + right side down, and pitch, + nose
    down, against the horizontal [rad], and the model's outputs by name."""

    time: float
    x: float
    y: float
    yaw: float
    roll: float = 0.0
    pitch: float = 0.0
    outputs: Mapping[str, float] = field(default_factory=dict)


ByPlace = Callable[[np.ndarray, np.ndarray], np.ndarray]  # function of x, y of equal shape [m]


@dataclass(frozen=True, eq=False)
class SensorScene:
    """Surroundings of a vehicle for sensors.

    Attributes:
        world: obstacles.
        ground: heights; None: level.
        area: x, y of two opposite corners of the map of `friction` and `soil` [m]; None: no map.
        friction: relative to the vehicle's nominal road; None: uniform.
        soil: index of the soil; None: firm ground.
        lines: painted on the ground, (n, 2) each [m].
    """

    world: World
    ground: Surface | None = None
    area: tuple[float, float, float, float] | None = None
    friction: ByPlace | None = None
    soil: ByPlace | None = None
    lines: Sequence[np.ndarray] = ()


class Sensor(Protocol[T_co]):
    """A sensor on a vehicle: mount, measurements per simulated second [Hz], and time from stamp to arrival [s]."""

    @property
    def mount(self) -> Mount: ...

    @property
    def rate(self) -> float: ...

    @property
    def latency(self) -> float: ...

    def measure(self, view: VehicleView) -> T_co:
        """Measures; a function of the view, the settings and the seed alone, for reproducible runs."""


@dataclass(frozen=True)
class SensorMessage:
    """A message published by a sensor.

    Attributes:
        type: such as sensor_msgs/msg/LaserScan; a header, if any, gets stamp and frame.
        fields: `fields(measurement)` returns its fields.
        suffix: of the topic sensors/NAME, such as /camera_info.
        frame: suffix of the frame, after the sensor's name, such as _optical.
        depth: queue depth of the publisher.
    """

    type: str
    fields: Callable[[Any], Mapping[str, Any]]
    suffix: str = ""
    frame: str = ""
    depth: int = 10_000


@dataclass(frozen=True)
class SensorType:
    """A kind of sensor: `make(settings, mount, surroundings, seed)` returns the sensor, `messages` are those of its measurements.

    Attributes:
        settings: a `Declared` record, whose fields are keys of a vehicle's file.
        poor: minimum values of settings for a disturbed sensor.
    """

    name: str
    description: str
    settings: type[Declared]
    make: Callable[[Any, Mount, SensorScene, int], Sensor[Any]]
    messages: tuple[SensorMessage, ...]
    poor: Mapping[str, float] = field(default_factory=dict)

    def disturbed(self, settings: Any) -> Any:
        """Returns the settings of a disturbed sensor. Raises InputError: not supported by the type."""
        if not self.poor:
            raise InputError(f"sensors of type {self.name} cannot be disturbed; give SensorType(poor={{...}}), or withhold this one")
        return replace(settings, **{name: max(getattr(settings, name), value) for name, value in self.poor.items()})


SENSORS: plugins.Door[SensorType] = plugins.Door("sensor", "lfdm_ros.sensors", SensorType, "make")
register_sensor = SENSORS.register


def make_sensors(vehicle: Vehicle, surroundings: SensorScene, disturbed: Collection[str] = ()) -> dict[str, tuple[SensorType, Sensor[Any]]]:
    """Returns the sensors of a vehicle's file by name; settings are {value, unit} or plain, in the declared unit.

    Args:
        disturbed: names of disturbed sensors (`SensorType.poor`).

    Raises:
        InputError: an unknown type or setting, a value out of range, or one that cannot be disturbed; names the sensor.
    """
    sensors = {}
    for name, entry in vehicle.sensors.items():
        where = f"vehicle '{vehicle.name}': sensors.{name}"
        kind = SENSORS.find(entry["type"], where)
        units = {f.name: f.metadata["unit"] for f in fields(kind.settings)}  # type: ignore[arg-type]
        values = {}
        for key, value in entry.items():
            if key in ("type", "seed", "x", "y", "z", "yaw", "pitch"):
                continue
            if key not in units:
                raise InputError(f"{where}: unknown key {quote(key)}{suggest(key, tuple(units), 'allowed: ')}")
            values[key] = documents.quantity(value, units[key], f"{where}.{key}")[0] if isinstance(value, dict) else value
        with prefixing(where):
            settings = kind.settings(**values)
            if name in disturbed:
                settings = kind.disturbed(settings)
            sensors[name] = kind, kind.make(settings, vehicle.sensor_mounts[name], surroundings, entry.get("seed", 1))
    return sensors


def find_sensor(vehicle: Vehicle, name: str, kind: type[T], where: str, surroundings: SensorScene | None = None) -> T:
    """Returns a sensor of a vehicle's file by name; where: the parameter or option with the name, for the error. Raises InputError: no
    sensor of this kind and name."""
    sensors = {key: sensor for key, (_, sensor) in make_sensors(vehicle, surroundings or SensorScene(World())).items()
               if isinstance(sensor, kind)}
    if name not in sensors:
        title = kind.__name__.lower()
        raise InputError(f"{where}: vehicle '{vehicle.name}' has no {title} {quote(name)}{suggest(name, tuple(sensors), 'there are: ')}; "
                         "add it to the section sensors of its file")
    return sensors[name]
