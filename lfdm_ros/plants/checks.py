"""A short drive that detects wrong signs, units, axes and reference points in a plant's mapping, beyond its check of dimensions."""

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.plants.plant import PlantSimulator, WrongStart, steps_of_chunk
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.simulation import SimulationDiverged
from lfdm_ros.vehicles import Vehicle

_SPEED, _YAW = 10.0, 0.5  # at the start [m/s, rad]; an oblique heading reveals swapped axes
_TICK = 0.02  # [s] default period of the controller
_FROM_REST = 6.0  # [s] of throttle if the plant starts at rest
_TOLERANCE = 0.05  # of ratios
_ANGLE, _DRIFT = math.radians(3.0), 0.03  # [rad, m/s]
# Ratios of common mistakes, and their names.
_RATIOS = {3.6: "km/h for m/s", 1.0 / 3.6: "m/s for km/h", 180.0 / math.pi: "deg for rad", math.pi / 180.0: "rad for deg",
           1000.0: "mm for m", 9.80665: "m/s^2 for g", 1.0 / 9.80665: "g for m/s^2", -1.0: "the sign"}


@dataclass(frozen=True)
class Finding:
    """Result of a check, in one line."""

    ok: bool
    text: str


def check_plant(plant: PlantSimulator) -> list[Finding]:
    """Drives a plant for some seconds: throttle, steering to the left, brake; compares its outputs with its motion. Raises InputError: it
    cannot start, or fails during the drive."""
    findings = []
    try:
        steps_of_chunk(plant.dt, _TICK)
    except InputError as error:
        findings.append(Finding(True, f"stepped by {plant.dt:g} s, which lfdm drive does not take as it is: {error}"))
    try:
        plant.reset(x=3.0, y=-2.0, yaw=_YAW, vx=_SPEED)
        seconds = 2.0
    except InputError as first:
        plant.reset(x=3.0, y=-2.0, yaw=_YAW)
        seconds = _FROM_REST
        findings.append(Finding(not isinstance(first, WrongStart), f"begins at rest only: {first}"))
    try:
        ahead, turn = _drive(plant, (0.0, 0.4, 0.0), seconds), _drive(plant, (0.1, 0.2, 0.0), 2.0)
        rolling, braked = _drive(plant, (0.0, 0.0, 0.0), 0.5), _drive(plant, (0.0, 0.0, 0.5), 1.0)
    except SimulationDiverged as error:
        raise InputError(str(error)) from None
    index, tick = plant.output_index, _tick(plant)
    place, (vx, vy, yaw, yaw_rate) = [index["x"], index["y"]], (index[name] for name in ("vx", "vy", "yaw", "yaw_rate"))

    gain = ahead[-1, vx] - ahead[0, vx]
    findings.append(_finding(gain > 0.1, f"throttle 0.4: {gain:+.2f} m/s in {seconds:g} s", ", it should gain speed"))
    if ahead[-1, vx] < 1.0:
        return [*findings, Finding(False, f"it comes to no speed: {ahead[-1, vx]:.2f} m/s; the rest was not checked")]
    braking, coasting = ((rows[-1, vx] - rows[0, vx]) / (tick * (len(rows) - 1)) for rows in (braked, rolling))
    findings.append(_finding(braking < coasting - 1.0, f"brake 0.5: {braking:+.2f} m/s^2, {coasting:+.2f} without",
                         ", it should lose at least 1 m/s^2 more"))

    driven = np.concatenate([ahead, turn[1:]])
    distance = np.hypot(*np.diff(driven[:, place], axis=0).T).sum()
    findings.append(_comparison("speed", _integral(np.hypot(driven[:, vx], driven[:, vy]), tick), distance, "m", "the distance driven"))

    steps = np.diff(ahead[:, place], axis=0)
    courses = np.arctan2(steps[:, 1], steps[:, 0])[np.hypot(*steps.T) > 1e-6]
    off = math.remainder(float(courses[-1] - ahead[-1, yaw]), math.tau) if len(courses) else math.nan
    findings.append(_finding(abs(off) < _ANGLE, f"straight on it moves {math.degrees(off):+.1f} deg from its heading",
                         ": x, y or yaw are in another frame (axes swapped, a sign, or yaw from another axis)"))

    rate = float(turn[len(turn) // 2:, yaw_rate].mean())
    findings.append(_finding(rate > 1e-3, f"steering 0.1 to the left: yaw rate {rate:+.3f} rad/s",
                         ", it should be positive: the sign of the steering or of yaw_rate"))
    turned = float(turn[-1, yaw] - turn[0, yaw])
    findings.append(_comparison("yaw rate", _integral(turn[:, yaw_rate], tick), turned, "rad", "the change of yaw"))
    steps = np.diff(turn[:, place], axis=0)
    bent = float(np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))[[0, -1]] @ (-1.0, 1.0))
    findings.append(_finding(bent * turned > 0.0, f"the path bends to the {_side(bent)} and yaw to the {_side(turned)}",
                         ": y or yaw has the wrong sign"))

    half = round(0.5 / tick)
    heading = 0.5 * (turn[1:, yaw] + turn[:-1, yaw])
    across = (-steps[:, 0] * np.sin(heading) + steps[:, 1] * np.cos(heading))[-half:].mean() / tick
    drift = float(turn[-half:, vy].mean())
    findings.append(_finding(abs(across - drift) < _DRIFT, f"in the turn vy is {drift:+.3f} m/s and it moves {across:+.3f} m/s across",
                         ": vy has the wrong sign or unit, or is of another point than x, y"))
    for name, expected in (("ax", np.gradient(ahead[:, vx], tick)), ("ay", turn[:, vx] * turn[:, yaw_rate])):
        rows = ahead if name == "ax" else turn
        if name in plant.model.computed_outputs and abs(float(expected[-half:].mean())) > 0.1:
            reported, moves = float(rows[-half:, index[name]].mean()), float(expected[-half:].mean())
            findings.append(_comparison(name, reported, moves, "m/s^2", "the motion", 0.3))
    return findings


def warnings_of(source: str, vehicle: Vehicle) -> list[str]:
    """Returns the failed checks of a plant (`source` as for `open_plant`), one line each. Raises InputError, as `check_plant`."""
    plant = open_plant(source, vehicle)
    return [f"{source}: {finding.text}" for finding in check_plant(plant) if not finding.ok]


def _drive(plant: PlantSimulator, command: tuple[float, float, float], seconds: float) -> np.ndarray:
    """Drives with a constant command; returns the outputs (n, ny) of each tick, the present ones first."""
    rows = [plant.outputs.copy()]
    for _ in range(round(seconds / _tick(plant))):
        plant.advance(command, command, round(_tick(plant) / plant.dt))
        rows.append(plant.outputs.copy())
    return np.array(rows)


def _tick(plant: PlantSimulator) -> float:
    """Returns the time between two rows [s]: _TICK rounded to whole steps."""
    return max(1, round(_TICK / plant.dt)) * plant.dt


def _integral(values: np.ndarray, tick: float) -> float:
    return float(tick * (values.sum() - 0.5 * (values[0] + values[-1])))


def _side(angle: float) -> str:
    return "left" if angle > 0.0 else "right"


def _finding(ok: bool, text: str, otherwise: str) -> Finding:
    return Finding(bool(ok), text if ok else text + otherwise)


def _comparison(name: str, reported: float, reference: float, unit: str, of: str, tolerance: float = _TOLERANCE) -> Finding:
    """Compares an output, or its integral, with the motion."""
    ratio = reported / reference if abs(reference) > 1e-9 else math.inf
    text = f"{name} says {reported:.4g} {unit}, {of} {reference:.4g} {unit}"
    if abs(ratio - 1.0) < tolerance:
        return Finding(True, text)
    near = next((confusion for value, confusion in _RATIOS.items() if abs(ratio / value - 1.0) < tolerance), "")
    return Finding(False, f"{text}: {ratio:.3g} times, {near + '?' if near else 'so units, signs or places do not agree'}")
