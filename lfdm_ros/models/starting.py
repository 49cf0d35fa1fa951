"""Start of a run: wheels that roll freely, a body that moves along the ground."""

from collections.abc import Mapping
from typing import Any

from lfdm_ros.models.chassis import centre_height, static_loads
from lfdm_ros.models.declaration import Model
from lfdm_ros.models.equations import Operations, Scalar


def rolling(model: Model, p: Any, state: Mapping[str, Scalar], m: Operations) -> dict[str, Scalar]:
    """Returns the states that follow from a body's motion: the spins of wheels that roll freely, and its velocity upwards. p: record of the
    parameters; state: the others by name, SI."""
    found: dict[str, Scalar] = {}
    for field in model.states:
        if field.wheel and field.stem == "omega":
            # Wheels are named by their axle and side; axles between the first and the last are as the last.
            axle = "front" if field.wheel.startswith("f") else "rear"
            half = {"l": 0.5, "r": -0.5}.get(field.wheel[1:], 0.0)
            offset = half * getattr(p, f"track_{axle}") if half else 0.0
            found[field.name] = (state["vx"] - state.get("yaw_rate", 0.0) * offset) / loaded_radius(p, axle)
    if model.resting and "vz" in state:
        # A body that stands nose down moves along the ground all the same.
        found["vz"] = state["vx"] * (m.sin(state["pitch"]) / m.cos(state["pitch"])) / m.cos(state["roll"])
    return found


def loaded_radius(p: Any, axle: str) -> Any:
    """Returns the height of the centres of an axle's wheels at rest [m]; p is a record of the parameters."""
    return centre_height(p, static_loads(p)[0 if axle == "front" else 1], getattr(p, f"tyre_vertical_stiffness_{axle}"))
