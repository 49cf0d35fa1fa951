"""Vehicle at rest: equilibrium by Newton's method, and attitude on ground with heights."""

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace

import numpy as np

from lfdm_ros.backends import ARRAYS, casadi_model
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model, functions_of, get_model
from lfdm_ros.models.ground import attitude
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.vehicles import Vehicle

_COMPRESSION = "tyre_compression_"
_CORRECTIONS, _HEIGHT_STEP = 3, 1e-3  # number, and difference [m], for the body's height


def on_level(model: Model) -> Model:
    """Returns the model on a plane."""
    return get_model("/".join(part for part in model.name.split("/") if part not in SLOTS["ground"]))


def standing(model: Model, vehicle: Vehicle, state: Mapping[str, float], radii: Mapping[str, float]) -> dict[str, float]:
    """Returns the states that place a vehicle at rest on the mean plane of its wheels' ground; none if the model has no heights, or
    follows the ground by itself.

    Args:
        state: by name, at its position, as on level ground.
        radii: height of the wheels' centres at rest [m], by wheel.
    """
    heaves = [name for name in state if name.startswith(_COMPRESSION)]
    if not (heaves or "z" in state):
        return {}
    functions, still = functions_of(model, ARRAYS), [f.default for f in model.inputs]
    q = functions.prepare(SimpleNamespace(**{f.name: vehicle.parameters[f.name] for f in model.parameters}))

    def vector(changes: Mapping[str, float]) -> list[float]:
        return [changes.get(f.name, state[f.name]) for f in model.states]

    patches = functions.patches(vector({}), still, q)
    height, slope_x, slope_y = (float(np.mean([getattr(patch, name) for patch in patches])) for name in ("height", "slope_x", "slope_y"))
    if not (height or slope_x or slope_y):
        return {}
    normal = 1.0 / np.sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
    roll, pitch = attitude(slope_x, slope_y, state["yaw"])
    placed = {"pitch": state["pitch"] + pitch, "roll": state["roll"] + roll}
    if heaves:
        # Tyre deflection as at rest: the wheel's centre is a loaded radius from the ground.
        for name, patch in zip(heaves, patches):
            placed[name] = float(-patch.height - radii[name.removeprefix(_COMPRESSION)] * (1.0 / normal - 1.0))
        return placed

    # Body height at which the tyres carry the normal component of the load on level ground.
    level = functions_of(on_level(model), ARRAYS)
    q_level = level.prepare(SimpleNamespace(**{f.name: vehicle.parameters[f.name] for f in on_level(model).parameters}))
    target, z = normal * float(np.sum(level.wheel_loads(vector({}), still, q_level))), height + state["z"] / normal
    for _ in range(_CORRECTIONS):
        here, higher = (float(np.sum(functions.wheel_loads(vector({**placed, "z": at}), still, q))) for at in (z, z + _HEIGHT_STEP))
        z -= (here - target) * _HEIGHT_STEP / (higher - here)
    placed["z"] = float(z)
    return placed


_ITERATIONS = 60
_MAX_CHANGE = 0.05  # of a coordinate in one iteration [rad, m]: springs with stops are strongly nonlinear
_MAX_ACCELERATION = 1e-9  # at rest [m/s^2, rad/s^2]
_DIFFERENCE = 1e-6
_LOWER = 0.95


def equilibrium(model: Model, vehicle: Vehicle) -> dict[str, float]:
    """Returns the states of `model.resting` without accelerations, and the held states; empty for a model without resting states.

    Standstill straight ahead on level ground (the inputs' defaults); the equilibrium is stable. Raises InputError: the vehicle's springs
    and geometry have no stable equilibrium.
    """
    if not model.resting:
        return {}
    level = on_level(model) if "height_map" in (f.name for f in model.parameters) else model
    rest = _solve(level, tuple(vehicle.vector(level)), vehicle.parameters.get("cg_height", 0.0))
    if rest is None:
        raise InputError(f"vehicle '{vehicle.name}' finds no rest as {model.name}: its springs do not carry it within the reach of its "
                         "suspension; look at the points, free lengths and stops by `lfdm vehicle check`")
    return rest


@cache
def _solve(model: Model, parameters: tuple[float, ...], height: float) -> dict[str, float] | None:
    names = [field.name for field in model.states]
    places, rates = ([names.index(pair[k]) for pair in model.resting] for k in (0, 1))
    rhs, u = casadi_model(model).rhs, np.array([field.default for field in model.inputs])
    start = np.zeros(len(names))
    if "z" in names:
        start[names.index("z")] = _LOWER * height  # low enough for all wheels to carry load
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
        if np.abs(now).max() < _MAX_ACCELERATION:
            if np.linalg.eigvals(slope).real.max() >= 0.0:
                return None  # unstable
            rest = dict(zip(places, values)) | {i: slopes(values)[i] for i in held}
            return {names[i]: float(value) for i, value in rest.items()}
        change = np.linalg.lstsq(slope, now, rcond=1e-12)[0]
        values = values - change * min(1.0, _MAX_CHANGE / np.abs(change).max())
    return None
