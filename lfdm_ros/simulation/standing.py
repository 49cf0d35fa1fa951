"""Initial attitude of a vehicle that heaves and pitches on ground with heights: its wheels on the ground, its body along it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np

from lfdm_ros.backends import ARRAYS
from lfdm_ros.models import Model, functions_of, get_model
from lfdm_ros.models.ground import attitude
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.vehicles import Vehicle

_COMPRESSION = "tyre_compression_"
_CORRECTIONS, _DIFFERENCE = 3, 1e-3  # of the body's height [m]


def on_level(model: Model) -> Model:
    """Returns the same model on the plane."""
    return get_model("/".join(part for part in model.name.split("/") if part not in SLOTS["ground"]))


def standing(model: Model, vehicle: Vehicle, state: Mapping[str, float], radii: Mapping[str, float]) -> dict[str, float]:
    """Returns the states that put a vehicle which is at a place of the map onto the plane of its wheels there; none where the model has no
    heights, or follows the ground by itself.

    Args:
        state: as on level ground, by name.
        radii: height of the wheels' centres at rest [m], by wheel.
    """
    heaves = [name for name in state if name.startswith(_COMPRESSION)]
    if not (heaves or "z" in state):
        return {}
    functions, still = functions_of(model, ARRAYS), [f.default for f in model.inputs]
    q = functions.prepare(SimpleNamespace(**{f.name: vehicle.parameters[f.name] for f in model.parameters}))

    def vector(changes: Mapping[str, float]) -> list[float]:
        return [changes.get(f.name, state[f.name]) for f in model.states]

    met = functions.patches(vector({}), still, q)
    height, slope_x, slope_y = (float(np.mean([getattr(patch, name) for patch in met])) for name in ("height", "slope_x", "slope_y"))
    if not (height or slope_x or slope_y):
        return {}
    normal = 1.0 / np.sqrt(1.0 + slope_x * slope_x + slope_y * slope_y)
    roll, pitch = attitude(slope_x, slope_y, state["yaw"])
    found = {"pitch": state["pitch"] + pitch, "roll": state["roll"] + roll}
    if heaves:
        # Each tyre as at rest: its wheel's centre a loaded radius from the ground.
        for name, patch in zip(heaves, met):
            found[name] = float(-patch.height - radii[name.removeprefix(_COMPRESSION)] * (1.0 / normal - 1.0))
        return found

    # So high that the tyres together carry as much as on level ground, less what does not press on a slope.
    level = functions_of(on_level(model), ARRAYS)
    q_level = level.prepare(SimpleNamespace(**{f.name: vehicle.parameters[f.name] for f in on_level(model).parameters}))
    wanted, z = normal * float(np.sum(level.wheel_loads(vector({}), still, q_level))), height + state["z"] / normal
    for _ in range(_CORRECTIONS):
        here, higher = (float(np.sum(functions.wheel_loads(vector({**found, "z": at}), still, q))) for at in (z, z + _DIFFERENCE))
        z -= (here - wanted) * _DIFFERENCE / (higher - here)
    found["z"] = float(z)
    return found
