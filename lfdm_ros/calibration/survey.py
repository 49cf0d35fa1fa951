"""What a bag holds that a calibration can use: what was measured, how it was driven, how steering and vehicle go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.bags import known_fields, read_series
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import Recording
from lfdm_ros.inference.plan import DEFAULT_INPUTS, DEFAULT_STATE
from lfdm_ros.vehicles import Vehicle

FIELDS = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "roll", "roll_rate", "road_wheel_angle")
SLOWEST = 2.0  # [m/s] of a vehicle of 2.7 m: below, slip angles are large for other reasons
WHEELBASE = 2.7  # [m] for which these figures are written; others go with the root of theirs, at the same lateral acceleration
LATEST = 1.0  # [s] that the yaw rate may be behind the steering
CORRELATED = 50.0  # samples that tell as much as one independent one, errors of vehicles being slow
UNSURE = 0.3  # [m] of a place that is then not known
FEW = 0.5  # share of the samples in which a field must be measured


@dataclass(frozen=True)
class Survey:
    """A recording, as far as it is of use.

    Attributes:
        measured: fields of the state that were measured and move, with their standard deviation; scatter: that of neighbouring samples.
        commanded: whether a steering command moves. interval: of the state's samples [s].
        stretches: (start, end) s in which the vehicle moves, longest first. speeds: 5 and 95 % [m/s] of them. lateral: 99 % of |v r|
            [m/s^2]. behind: by how much the yaw rate is behind what the steering asks for [s]. gain: yaw rate over v delta / L, of gentle
            driving. arm: where vy was measured, ahead of the rear axle [m]. NaN: not known.
    """

    recording: Recording
    measured: dict[str, float]
    scatter: dict[str, float]
    commanded: bool
    interval: float
    stretches: tuple[tuple[float, float], ...]
    speeds: tuple[float, float]
    lateral: float
    behind: float
    gain: float
    arm: float

    @property
    def moving(self) -> float:
        """For how long [s]."""
        return sum(end - start for start, end in self.stretches)


def survey(recording: Recording, vehicle: Vehicle) -> Survey:
    """Looks at `vehicle/state` and `control/command` of a recording.

    Raises:
        InputError: there is no state, no speed or no steering in it, or it hardly moves.
    """
    where = f"{recording.path} ({recording.name})"
    try:
        known = known_fields(recording.path, DEFAULT_STATE, FIELDS)
    except InputError as error:
        raise InputError(f"{error}; a recipe is proposed from {DEFAULT_STATE}: import the recording with a mapping that fills it "
                         "(docs/own_vehicle.md)") from None
    names = [name for name, has in zip(FIELDS, known) if has]
    series = read_series(recording.path, DEFAULT_STATE, names)
    order = np.argsort(series.time, kind="stable")
    time, columns = series.time[order], dict(zip(names, series.values[order].T))
    measured = {name: spread for name, values in columns.items()
                if np.isfinite(values).mean() >= FEW and (spread := float(np.nanstd(values))) > 1e-9}
    if "vx" not in measured:
        raise InputError(f"{where}: {DEFAULT_STATE} has no vx that moves; fill it in the mapping, if need be from the wheels or "
                         "savgol_derivative of the position")
    wheelbase = vehicle.parameters["cg_to_front_axle"] + vehicle.parameters["cg_to_rear_axle"]
    slowest = SLOWEST * float(np.sqrt(wheelbase / WHEELBASE))
    vx = np.interp(time, time[np.isfinite(columns["vx"])], columns["vx"][np.isfinite(columns["vx"])])
    stretches = _stretches(time, vx > slowest)
    if not stretches:
        raise InputError(f"{where}: vx never stays above {slowest:.2g} m/s for {_LEAST:g} s; nothing can be learned of tyres")
    moving = np.zeros(len(time), bool)
    for start, end in stretches:
        moving |= (time >= start) & (time <= end)
    steering, commanded = _steering(recording, columns, measured, time, vehicle)
    yaw_rate = columns["yaw_rate"] if "yaw_rate" in measured else (
        np.gradient(np.unwrap(columns["yaw"]), time) if "yaw" in measured else np.full(len(time), np.nan))
    good = moving & np.isfinite(yaw_rate) & np.isfinite(steering)
    speeds = np.quantile(vx[moving], [0.05, 0.95])
    lateral = float(np.quantile(np.abs(vx * yaw_rate)[good], 0.99)) if good.any() else np.nan
    behind, gain, arm = np.nan, np.nan, np.nan
    if good.sum() > 50:
        behind = _behind(time, np.where(good, vx * steering / wheelbase, np.nan), np.where(good, yaw_rate, np.nan))
        gentle = good & (np.abs(vx * yaw_rate) < max(0.3 * lateral, 0.5))
        asked = vx * np.interp(time - behind, time[np.isfinite(steering)], steering[np.isfinite(steering)]) / wheelbase
        if gentle.sum() > 50 and np.std(asked[gentle]) > 0.0:
            gain = float(np.polyfit(asked[gentle], yaw_rate[gentle], 1)[0])
        arm = _arm(vx[good], columns["vy"][good], yaw_rate[good]) if "vy" in measured else np.nan
    # White noise of standard deviation s has second differences of s sqrt(6).
    scatter = {name: float(np.nanstd(np.diff(columns[name], 2))) / np.sqrt(6.0) for name in measured}
    return Survey(recording, measured, scatter, commanded, float(np.median(np.diff(time))), tuple(stretches),
                  (float(speeds[0]), float(speeds[1])), lateral, behind, gain, arm)


_LEAST = 5.0  # [s] of a stretch


def _stretches(time: np.ndarray, moving: np.ndarray) -> list[tuple[float, float]]:
    """Where it moves for longer than _LEAST, longest first."""
    ends = np.flatnonzero(np.diff(np.concatenate([[False], moving, [False]]).astype(int)))
    found = [(float(time[a]), float(time[min(b, len(time) - 1)])) for a, b in zip(ends[::2], ends[1::2])]
    return sorted((one for one in found if one[1] - one[0] >= _LEAST), key=lambda one: one[0] - one[1])


def _steering(recording: Recording, columns: dict[str, np.ndarray], measured: dict[str, float], time: np.ndarray,
              vehicle: Vehicle) -> tuple[np.ndarray, bool]:
    """Angle of the road wheels (n,) rad, measured or else by the command; and whether there is a command."""
    commanded: Any = None
    try:
        series = read_series(recording.path, DEFAULT_INPUTS, ["steering"])
        finite = np.isfinite(series.values[:, 0])
        if finite.sum() > 1 and np.ptp(series.values[finite, 0]) > 0.0:
            commanded = np.interp(time, series.time[finite], series.values[finite, 0])
    except InputError:
        pass
    if "road_wheel_angle" in measured:
        return columns["road_wheel_angle"], commanded is not None
    if commanded is None:
        raise InputError(f"{recording.path} ({recording.name}): neither {DEFAULT_STATE} has a road_wheel_angle nor {DEFAULT_INPUTS} a "
                         "steering that moves; a mapping must fill one of them")
    return commanded * vehicle.parameters["max_road_wheel_angle"], True


def _behind(time: np.ndarray, asked: np.ndarray, got: np.ndarray) -> float:
    """By how many seconds `got` follows `asked`: where their correlation is largest."""
    step = max(float(np.median(np.diff(time))), 1e-3)
    grid = np.arange(time[0], time[-1], step)
    a, b = (np.nan_to_num(np.interp(grid, time[np.isfinite(own)], own[np.isfinite(own)])) for own in (asked, got))
    shifts = range(round(LATEST / step) + 1)
    agreement = [np.corrcoef(a[:len(a) - shift], b[shift:])[0, 1] for shift in shifts if len(a) - shift > 10]
    return step * int(np.nanargmax(agreement))


def _arm(vx: np.ndarray, vy: np.ndarray, yaw_rate: np.ndarray) -> float:
    """Distance of the velocity's sensor from the rear axle: in gentle driving vy = arm r - c v^2 r, c the rear axle's softness."""
    finite = np.isfinite(vy)
    if finite.sum() < 50:
        return float("nan")
    parts = np.column_stack([yaw_rate[finite], vx[finite] ** 2 * yaw_rate[finite], np.ones(finite.sum()), vx[finite]])
    found, squares, rank, _ = np.linalg.lstsq(parts, vy[finite], rcond=None)
    if rank < parts.shape[1]:
        return float("nan")
    error = np.sqrt(CORRELATED * squares[0] / len(parts) * np.linalg.inv(parts.T @ parts)[0, 0])
    return float(found[0]) if error < UNSURE else float("nan")
