"""What a sceptic holds a prediction against: a kinematic bicycle on the same inputs at the same speed, with a steering lag of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import integrate, optimize

from lfdm_ros.backends import ARRAYS
from lfdm_ros.calibration.pieces import PLACE
from lfdm_ros.inference.dataset import Dataset
from lfdm_ros.inference.measurement import InputPath, OutputPath
from lfdm_ros.inference.plan import MISALIGNMENT
from lfdm_ros.models import get_model
from lfdm_ros.models.declaration import Part
from lfdm_ros.models.equations import Record
from lfdm_ros.models.steering import LINEAR, MAP
from lfdm_ros.vehicles import Vehicle

CHANNELS = ("x", "y", "yaw", "vy", "yaw_rate")  # that it says something of
# Of the steering, in the order of the search: start and bounds.
FITTED = {"steering.lag": (0.05, 1e-3, 0.5), "steering.scale": (1.0, 0.5, 2.0), "steering.offset": (0.0, -0.3, 0.3)}
MOST = 20_000  # samples that it is fitted to


def can_steer(model: str, vehicle: Vehicle) -> bool:
    """Whether the angle of the front wheels is a function of the steering input."""
    return _steering_part(model).parameters[0].name in vehicle.parameters


def kinematic(data: Dataset, vehicle: Vehicle, model: str, nuisances: Mapping[str, float],
              speed: np.ndarray | None = None) -> np.ndarray | None:
    """What a kinematic bicycle makes of a data set (K, C), as sensors with these nuisances would say it; NaN where it says nothing.

    Yaw rate = vx tan(delta) / wheelbase and vy = yaw rate times the distance of the rear axle; heading and way are integrated by
    trapezoids. vx is `speed` (K,), else what is prescribed, else what was measured. None where none of them is there.
    """
    if speed is None:
        speed = _speed(data)
    if speed is None:
        return None
    names, values = tuple(nuisances), np.array([list(nuisances.values())])
    p, recorded = vehicle.parameters, data.initial
    part = _steering_part(model)
    built = part.build(ARRAYS)
    steering = InputPath(data, names).inputs(values)[0][:, 0]
    angle = built.angle(steering, built.prepare(Record(**{f.name: p[f.name] for f in part.parameters})))
    rear = p["cg_to_rear_axle"]
    yaw_rate = speed * np.tan(angle) / (p["cg_to_front_axle"] + rear)
    sensor = nuisances.get(MISALIGNMENT, 0.0)
    yaw = recorded.get("yaw", 0.0) - sensor + integrate.cumulative_trapezoid(yaw_rate, data.times, initial=0.0)
    vy, c, s = rear * yaw_rate, np.cos(yaw), np.sin(yaw)
    way = {"x": speed * c - vy * s, "y": speed * s + vy * c}
    own = {"vx": speed, "vy": vy, "yaw_rate": yaw_rate, "yaw": yaw,
           **{name: recorded.get(name, 0.0) + integrate.cumulative_trapezoid(rate, data.times, initial=0.0) for name, rate in way.items()}}
    sensors = OutputPath(data.channels, names)
    responses = np.stack([own.get(name, np.full(len(speed), np.nan)) for name in sensors.channels], axis=1)
    measured = sensors.measured(responses[:, :, None], values)[:, :, 0]
    said = np.isin(data.channels, CHANNELS)
    out: np.ndarray = np.where(said, measured, np.nan)
    return out


def fit_kinematic(datasets: Sequence[Dataset], vehicle: Vehicle, model: str,
                  to: Sequence[tuple[str, ...]] = (("yaw_rate",), PLACE)) -> dict[str, float] | None:
    """The lag, scale and offset of the steering with which a kinematic bicycle turns as was measured, by least squares on the yaw rate;
    where there is none, on the place, with the misalignment of the heading too. None where neither, or no speed, was measured.

    Args:
        to: channels that it is fitted to, the first of them that were measured.
    """
    usable = [data for data in datasets if _speed(data) is not None]
    told = set.intersection(*(set(data.channels) for data in usable)) if usable else set()
    compared = next((names for names in to if set(names) <= told), ())
    if not compared or not can_steer(model, vehicle):
        return None
    usable = usable[::max(1, sum(len(data.times) for data in usable) // MOST)]
    fitted = FITTED if compared == ("yaw_rate",) else {**FITTED, MISALIGNMENT: (0.0, -0.2, 0.2)}
    start, lower, upper = np.array(list(fitted.values())).T

    def errors(x: np.ndarray) -> np.ndarray:
        out = []
        for data in usable:
            columns = [data.channels.index(name) for name in compared]
            responses = kinematic(data, vehicle, model, dict(zip(fitted, x.tolist())))
            if responses is not None:
                difference = (data.observed - responses)[:, columns]
                out.append(difference[np.isfinite(difference)])
        return np.concatenate(out)

    found = optimize.least_squares(errors, start, bounds=(lower, upper), x_scale=[0.05, 0.1, 0.01, 0.01][:len(fitted)], max_nfev=40)
    return dict(zip(fitted, map(float, found.x)))


def _steering_part(model: str) -> Part:
    names = {field.name for field in get_model(model).parameters}
    return MAP if MAP.parameters[0].name in names else LINEAR


def _speed(data: Dataset) -> np.ndarray | None:
    if "vx" in data.following:
        prescribed: np.ndarray = data.prescribed[:, data.following.index("vx")]
        return prescribed
    if "vx" not in data.channels:
        return None
    values = data.observed[:, data.channels.index("vx")]
    known = np.isfinite(values)
    return np.interp(data.times, data.times[known], values[known]) if known.sum() > 1 else None
