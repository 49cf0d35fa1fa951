"""Scenarios: driver-input manoeuvres with the pose and speed they start from (config/scenarios/*.yaml)."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from lfdm_ros import documents
from lfdm_ros.errors import InputError
from lfdm_ros.resources import find_config
from lfdm_ros.simulation.inputs import InputProfile


@dataclass(frozen=True)
class Pose:
    """Where and how fast the vehicle starts: x, y [m], yaw [rad], forward speed [m/s]."""

    x: float = 0.0
    y: float = 0.0
    yaw: float = 0.0
    speed: float = 0.0

    def __post_init__(self) -> None:
        for name in ("x", "y", "yaw", "speed"):
            if not np.isfinite(getattr(self, name)):
                raise InputError(f"{name} is {getattr(self, name)}; give a finite number")
        if self.speed < 0.0:
            raise InputError(f"speed is {self.speed:g} m/s; give 0 or more")


@dataclass(frozen=True)
class Scenario:
    """A manoeuvre: where it starts, the driver's inputs over time from there, and its length [s]."""

    name: str
    initial: Pose
    profile: InputProfile
    duration: float


def load_scenario(name: str | os.PathLike[str]) -> Scenario:
    """Reads a scenario by name or path. A file that is not YAML is a table of inputs; it starts at rest and ends with the last row.

    Raises:
        InputError: names file and key.
    """
    path = find_config("scenarios", name)
    if path.suffix not in (".yaml", ".yml"):
        profile = InputProfile.from_file(path)
        return Scenario(path.stem, Pose(), profile, float(profile.time[-1]))
    data = documents.mapping(documents.read_yaml(path)[0], f"{path}", ("inputs",), ("description", "initial", "duration"))
    initial = documents.mapping(data.get("initial") or {}, f"{path}: initial", optional=("x", "y", "yaw", "speed"))
    rows = data["inputs"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise InputError(f"{path}: inputs: give rows [time, steering, throttle, brake]")
    try:
        table = np.array(rows, float).reshape(-1, 4)
    except (TypeError, ValueError):
        raise InputError(f"{path}: inputs: not all cells are numbers") from None
    time, steering, throttle, brake = table.T
    profile = InputProfile(time, steering, throttle, brake, where=f"{path}: inputs")
    duration = documents.number(data.get("duration", float(profile.time[-1])), f"{path}: duration")
    if duration <= 0.0:
        raise InputError(f"{path}: duration is {duration:g} s; give more than 0")
    start = {key: documents.number(value, f"{path}: initial: {key}") for key, value in initial.items()}
    try:
        pose = Pose(**start)
    except InputError as error:
        raise InputError(f"{path}: initial: {error}") from None
    return Scenario(path.stem, pose, profile, duration)
