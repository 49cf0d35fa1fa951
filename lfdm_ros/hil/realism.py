"""Imperfections of sensors and actuators: rate, latency, noise, bias, dead band, quantisation by signal, declared in YAML and seeded.

    seed: 1
    sensors:
      yaw_rate: {rate: 100.0, latency: 0.01, noise: 0.002, quantisation: 0.0005, bias: 0.001}
      wheel_speeds: {noise: 0.05}                       # all four
    actuators:
      steering: {dead_band: 0.01, quantisation: 0.002}  # of the command
    vehicle: {actuation_delay: 0.04, steering_rate: 0.6}

Dead time, lag and rate limits of the actuators belong to the vehicle: `vehicle` changes the section `actuators` of its file.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from lfdm_ros import documents
from lfdm_ros.errors import prefixing
from lfdm_ros.hil.link import COMMANDS, SIGNALS, WHEEL_SPEEDS
from lfdm_ros.parameters import Declared, setting
from lfdm_ros.teleop.network_link import NetworkLink, NetworkLinkSettings
from lfdm_ros.vehicles.body import SECTIONS

_GROUPS = {"wheel_speeds": WHEEL_SPEEDS}


@dataclass(frozen=True)
class ActuatorSettings(Declared):
    """Distortion of a command before the actuator. Sizes are in the command's unit."""

    ABOUT = "actuator: "

    noise: float = setting(0.0, "1", "standard deviation of white noise", 0.0, 1e6)
    bias: float = setting(0.0, "1", "constant error", -1e6, 1e6)
    dead_band: float = setting(0.0, "1", "absolute values below this count as 0", 0.0, 1e6)
    quantisation: float = setting(0.0, "1", "step between two values; 0: none", 0.0, 1e6)


@dataclass(frozen=True)
class SensorSettings(ActuatorSettings):
    """Imperfections of a sensor. Sizes are in the signal's unit."""

    ABOUT = "sensor: "

    rate: float = setting(0.0, "Hz", "sampling rate, held in between; 0: every tick", 0.0, 1e5)
    latency: float = setting(0.0, "s", "from the measurement to its output", 0.0, 10.0)
    jitter: float = setting(0.0, "s", "mean of the additional random latency, exponential", 0.0, 10.0)
    drop: float = setting(0.0, "1", "share of lost measurements", 0.0, 1.0)


class _Channel:
    """One command or signal; the same settings, seed and values give the same results."""

    def __init__(self, settings: ActuatorSettings, seed: list[int]) -> None:
        self._settings = settings
        self._random = np.random.default_rng(seed)

    def distorted(self, value: float) -> float:
        s = self._settings
        if s.noise:
            value += s.noise * self._random.standard_normal()
        value += s.bias
        if abs(value) < s.dead_band:
            value = 0.0
        return s.quantisation * round(value / s.quantisation) if s.quantisation and math.isfinite(value) else value


class _SensorChannel(_Channel):
    """A sampled and delayed signal."""

    def __init__(self, settings: SensorSettings, seed: list[int]) -> None:
        super().__init__(settings, seed)
        self._period = 1.0 / settings.rate if settings.rate else 0.0
        delayed = settings.latency or settings.jitter or settings.drop
        link = NetworkLinkSettings(delay=settings.latency, jitter=settings.jitter, drop=settings.drop)
        link_seed = int(np.random.default_rng([*seed, 1]).integers(2**62))
        self._link: NetworkLink[float] | None = NetworkLink(link, link_seed) if delayed else None
        self._sampled = -1
        self._delivered = math.nan

    def measured(self, time: float, value: float) -> float:
        """Returns the measurement at a time [s], which must not decrease; NaN: none yet."""
        number = math.floor(time / self._period + 1e-6) if self._period else -1
        if not self._period or number > self._sampled:
            self._sampled = number
            sample = self.distorted(value)
            if self._link is None:
                self._delivered = sample
            else:
                self._link.send(time, sample)
        if self._link is not None:
            for arrival in self._link.receive(time):
                self._delivered = arrival.item
        return self._delivered


class Realism:
    """Declared imperfections of sensors and actuators; signals and commands without a declaration pass unchanged."""

    def __init__(self, sensors: Mapping[str, SensorSettings] | None = None, actuators: Mapping[str, ActuatorSettings] | None = None,
                 vehicle: Mapping[str, float] | None = None, seed: int = 1) -> None:
        """Makes the channels. vehicle: changes of the vehicle's actuators, by the names of its file."""
        self._declared = (dict(sensors or {}), dict(actuators or {}))
        self.vehicle, self._seed = dict(vehicle or {}), seed
        self.reset()

    def reset(self) -> None:
        """Restarts with the same random numbers."""
        sensors, actuators = self._declared
        self._sensors = {name: _SensorChannel(s, [self._seed, SIGNALS.index(name)]) for name, s in sensors.items()}
        self._actuators = {name: _Channel(s, [self._seed, 100 + COMMANDS.index(name)]) for name, s in actuators.items()}

    def measure(self, time: float, values: dict[str, float]) -> dict[str, float]:
        """Applies the sensors at a time [s] to the mapping in place."""
        for name, sensor in self._sensors.items():
            values[name] = sensor.measured(time, values[name])
        return values

    def command(self, inputs: tuple[float, float, float]) -> tuple[float, ...]:
        """Returns the distorted command, within the commands' ranges."""
        if not self._actuators:
            return inputs
        return tuple(
            max(0.0 if name == "brake" else -1.0, min(1.0, self._actuators[name].distorted(value))) if name in self._actuators else value
            for name, value in zip(COMMANDS, inputs))


_T = TypeVar("_T", bound=ActuatorSettings)


def load_realism(source: str | os.PathLike[str] | Mapping[str, Any]) -> Realism:
    """Reads settings from a file, by path or by its name in config/hil, or from its content. Raises InputError: names file and key."""
    data, where = documents.of_config("hil", source, "realism")
    data = documents.mapping(data, where, optional=("description", "seed", "sensors", "actuators", "vehicle"))
    seed = documents.integer(data.get("seed", 1), f"{where}: seed", 0)
    changes = documents.numbers(data.get("vehicle") or {}, f"{where}: vehicle", optional=[f.name for f in SECTIONS["actuators"]])
    return Realism(_channels(data.get("sensors"), f"{where}: sensors", SIGNALS, SensorSettings),
                   _channels(data.get("actuators"), f"{where}: actuators", COMMANDS, ActuatorSettings), changes, seed)


def _channels(data: Any, where: str, names: tuple[str, ...], kind: type[_T]) -> dict[str, _T]:
    channels: dict[str, _T] = {}
    allowed = tuple(f.name for f in fields(kind))
    for name, values in documents.mapping(data or {}, where, optional=(*names, *(_GROUPS if names == SIGNALS else ()))).items():
        inner = f"{where}: {name}"
        numbers = documents.numbers(values, inner, optional=allowed)
        with prefixing(inner):
            component = kind(**numbers)
        for one in _GROUPS.get(name, (name,)):
            channels[one] = component
    return channels
