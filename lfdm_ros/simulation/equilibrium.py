"""Equilibrium of a vehicle at rest: found by Newton's method, not simulated."""

from __future__ import annotations

from functools import cache

import numpy as np

from lfdm_ros.backends import casadi_model
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model
from lfdm_ros.simulation.standing import on_level
from lfdm_ros.vehicles import Vehicle

_ITERATIONS = 60
_LARGEST = 0.05  # change of a coordinate in one iteration [rad, m]: springs with stops are anything but linear
_AT_REST = 1e-9  # largest acceleration [m/s^2, rad/s^2]
_DIFFERENCE = 1e-6
_LOWER = 0.95


def equilibrium(model: Model, vehicle: Vehicle) -> dict[str, float]:
    """Returns the states of `model.resting` with which nothing accelerates, and what is held then; none for a model that has none.

    Straight ahead on level ground (the inputs' defaults), at standstill; where it is pushed, it comes back.

    Raises:
        InputError: the vehicle's springs and geometry hold it nowhere.
    """
    if not model.resting:
        return {}
    level = on_level(model) if "height_map" in (f.name for f in model.parameters) else model
    found = _found(level, tuple(vehicle.vector(level)), vehicle.parameters.get("cg_height", 0.0))
    if found is None:
        raise InputError(f"vehicle '{vehicle.name}' finds no rest as {model.name}: its springs do not carry it within the reach of its "
                         "suspension; look at the points, free lengths and stops by `lfdm vehicle check`")
    return found


@cache
def _found(model: Model, parameters: tuple[float, ...], height: float) -> dict[str, float] | None:
    names = [field.name for field in model.states]
    places, rates = ([names.index(pair[k]) for pair in model.resting] for k in (0, 1))
    rhs, u = casadi_model(model).rhs, np.array([field.default for field in model.inputs])
    start = np.zeros(len(names))
    if "z" in names:
        start[names.index("z")] = _LOWER * height  # so low that all wheels carry

    held = [i for i, field in enumerate(model.states) if field.role == "held"]

    def slopes(values: np.ndarray) -> np.ndarray:
        state = start.copy()
        state[places] = values
        return np.array(rhs(state, u, parameters)).ravel()

    def accelerations(values: np.ndarray) -> np.ndarray:
        return slopes(values)[rates]

    values = start[places]
    for _ in range(_ITERATIONS):
        now = accelerations(values)
        if not np.isfinite(now).all():
            return None
        steps = _DIFFERENCE * np.eye(len(values))
        slope = np.column_stack([(accelerations(values + d) - accelerations(values - d)) / (2.0 * _DIFFERENCE) for d in steps])
        if not np.isfinite(slope).all():
            return None
        if np.abs(now).max() < _AT_REST:
            if np.linalg.eigvals(slope).real.max() >= 0.0:
                return None  # it would tip over
            found = dict(zip(places, values)) | {i: slopes(values)[i] for i in held}
            return {names[i]: float(value) for i, value in found.items()}
        change = np.linalg.lstsq(slope, now, rcond=1e-12)[0]
        values = values - change * min(1.0, _LARGEST / np.abs(change).max())
    return None
