"""The map of a gearless motor equivalent to a vehicle's engine and gearbox, for predictions without gears."""

from functools import lru_cache

import numpy as np

from lfdm_ros.models.gearbox import AUTOMATIC, CONVERTER_PARAMETERS, CONVERTER_POINTS, ENGINE_POINTS, GEARS, LOSS_POINTS
from lfdm_ros.models.motor import MAP_POINTS
from lfdm_ros.vehicles.vehicle import Vehicle

_SPEEDS = 300  # wheel speeds at which the torque is sampled
_SOURCE = "derived: full throttle through the gears at their upshift speeds"


def with_motor_map(vehicle: Vehicle) -> Vehicle:
    """Returns the vehicle with a motor map added to its engine and gearbox; unchanged if it has one, or has no gearbox.

    The motor rotates with the wheels (driveline_ratio 1). Its torque is the wheel torque at full throttle: engine less losses, multiplied
    by the converter, if any, at the equilibrium speed, divided by the ratio of the gear selected by the upshift speeds; a least-squares
    piecewise linear fit. The throttle scales it; engine drag is not included.
    """
    if "motor_torque_0" in vehicle.parameters or not {"gearbox", "automatic"} & set(vehicle.parts("powertrain")):
        return vehicle
    stems = tuple(f.name for f in AUTOMATIC.parameters if f.name in vehicle.parameters)
    speeds, torques = _map(stems, tuple(vehicle.parameters[name] for name in stems))
    return vehicle.replace(source=_SOURCE, driveline_ratio=1.0, **{f"motor_speed_{i}": w for i, w in enumerate(speeds)},
                           **{f"motor_torque_{i}": t for i, t in enumerate(torques)})


@lru_cache  # recalibrated vehicles share an engine
def _map(names: tuple[str, ...], values: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Computes speeds [rad/s] and torques [N m] of the map, from the parameters of a gearbox."""
    from scipy.optimize import brentq  # slow to import, rarely needed

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
        """Computes the gearbox input torque [N m] at input speed `turbine` [rad/s]."""
        if capacity is None or multiplier is None:
            return net(turbine)

        def pump_torque(pump: float) -> float:
            return float((pump / np.interp(turbine / pump, *capacity)) ** 2)

        low, high = max(turbine, 1.0), engine[0][-1]
        if low >= high or net(low) <= pump_torque(low):
            return net(turbine)  # the converter does not slip
        if net(high) > pump_torque(high):
            pump = high
        else:
            pump = brentq(lambda w: net(w) - pump_torque(w), low, high)
        return float(np.interp(turbine / pump, *multiplier)) * pump_torque(pump)

    wheel = np.linspace(0.0, ratios[-1] * engine[0][-1], _SPEEDS)
    torque = np.empty(_SPEEDS)
    gear = 0
    for i, speed in enumerate(wheel):
        while gear < count - 1 and speed / ratios[gear] > up[gear]:
            gear += 1
        torque[i] = output(speed / ratios[gear]) / ratios[gear]
    # Denser at low speed, where gears are close together.
    first = min(max(wheel[1], ratios[0] * up[0]), 0.5 * wheel[-1])
    knots = np.concatenate([[0.0], np.geomspace(first, wheel[-1], MAP_POINTS - 1)])
    hats = np.column_stack([np.interp(wheel, knots, row) for row in np.eye(MAP_POINTS)])
    torques = np.maximum(np.linalg.lstsq(hats, torque, rcond=None)[0], 0.0)
    return knots.tolist(), torques.tolist()
