"""The map of a gearless motor equivalent to a vehicle's engine and gearbox, for predictions without gears."""

from functools import lru_cache

import numpy as np

from lfdm_ros.models.gearbox import AUTOMATIC, CONVERTER_PARAMETERS, CONVERTER_POINTS, ENGINE_POINTS, GEARS, LOSS_POINTS
from lfdm_ros.models.motor import MAP_POINTS
from lfdm_ros.vehicles.vehicle import Vehicle

_SPEEDS = 300  # wheel speeds at which the pull is looked at
_SOURCE = "derived: full throttle through the gears, as a vehicle that speeds up shifts them"


def with_motor_map(vehicle: Vehicle) -> Vehicle:
    """Returns the vehicle with a motor map added to its engine and gearbox; unchanged if it has one, or has no gearbox.

    The map's motor turns with the wheels (driveline_ratio 1). Its torque is that of the wheels at full throttle: the engine's less its
    losses, multiplied by the converter, if any, at their equilibrium speed, over the ratio of the gear of the upshift speeds; fitted by a
    piecewise linear map (least squares). A throttle scales it; the engine's drag is not in it.
    """
    if "motor_torque_0" in vehicle.parameters or not {"gearbox", "automatic"} & set(vehicle.parts("powertrain")):
        return vehicle
    stems = tuple(f.name for f in AUTOMATIC.parameters if f.name in vehicle.parameters)
    speeds, torques = _map(stems, tuple(vehicle.parameters[name] for name in stems))
    return vehicle.replace(source=_SOURCE, driveline_ratio=1.0, **{f"motor_speed_{i}": w for i, w in enumerate(speeds)},
                           **{f"motor_torque_{i}": t for i, t in enumerate(torques)})


@lru_cache  # a controller takes over vehicle after vehicle, with the same engine
def _map(names: tuple[str, ...], values: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Computes speeds [rad/s] and torques [N m] of the map, from the parameters of a gearbox."""
    from scipy.optimize import brentq  # slow to import, and needed by few vehicles

    p = dict(zip(names, values))

    def column(stem: str, points: int) -> np.ndarray:
        return np.array([p[f"{stem}_{i}"] for i in range(points)])

    count = int(p["gear_count"])
    ratios, up = column("gear_ratio", GEARS)[:count], column("upshift_speed", GEARS)[:count]
    engine, losses = ((column(f"{stem}_speed", n), column(f"{stem}_torque", n))
                      for stem, n in (("engine", ENGINE_POINTS), ("loss", LOSS_POINTS)))
    capacity = multiplier = None
    if all(f.name in p for f in CONVERTER_PARAMETERS):
        capacity = column("converter_speed_ratio", CONVERTER_POINTS), column("converter_capacity", CONVERTER_POINTS)
        multiplier = column("converter_torque_speed_ratio", CONVERTER_POINTS), column("converter_torque_ratio", CONVERTER_POINTS)

    def net(speed: float) -> float:
        return float(np.interp(speed, *engine) + np.interp(speed, *losses))

    def output(turbine: float) -> float:
        """Computes the torque [N m] at the gearbox's input that turns with `turbine` [rad/s]."""
        if capacity is None or multiplier is None:
            return net(turbine)

        def pumped(pump: float) -> float:
            return float((pump / np.interp(turbine / pump, *capacity)) ** 2)

        low, high = max(turbine, 1.0), engine[0][-1]
        if low >= high or net(low) <= pumped(low):
            return net(turbine)  # the converter does not slip
        if net(high) > pumped(high):
            pump = high
        else:
            pump = brentq(lambda w: net(w) - pumped(w), low, high)
        return float(np.interp(turbine / pump, *multiplier)) * pumped(pump)

    wheel = np.linspace(0.0, ratios[-1] * engine[0][-1], _SPEEDS)
    pull = np.empty(_SPEEDS)
    gear = 0
    for i, speed in enumerate(wheel):
        while gear < count - 1 and speed / ratios[gear] > up[gear]:
            gear += 1
        pull[i] = output(speed / ratios[gear]) / ratios[gear]
    # Points closer together where the gears change soon after each other.
    first = min(max(wheel[1], ratios[0] * up[0]), 0.5 * wheel[-1])
    knots = np.concatenate([[0.0], np.geomspace(first, wheel[-1], MAP_POINTS - 1)])
    hats = np.column_stack([np.interp(wheel, knots, row) for row in np.eye(MAP_POINTS)])
    torques = np.maximum(np.linalg.lstsq(hats, pull, rcond=None)[0], 0.0)
    return knots.tolist(), torques.tolist()
