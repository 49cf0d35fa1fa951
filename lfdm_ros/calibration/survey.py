"""Contents of a bag that a calibration can use: channels, driving, and the relation of steering and motion."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.bags import existing_fields, read_series
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import Recording
from lfdm_ros.inference.plan import DEFAULT_INPUTS, DEFAULT_STATE
from lfdm_ros.vehicles import Vehicle

FIELDS = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "roll", "roll_rate", "road_wheel_angle")
MIN_SPEED = 2.0  # [m/s] for a wheelbase of 2.7 m; slip angles are unreliable below it
WHEELBASE = 2.7  # [m] of these figures; speeds scale with the root of the wheelbase, at the same lateral acceleration
MAX_SHIFT = 2.0  # [s] range of the search for the delay of the yaw rate, both signs
DRIFT = 6.0  # [s] window of the moving mean that is removed, so that long bends do not mask the delay
ALIAS = 0.02  # required gain in correlation of a larger shift: in a slalom, shifts by half a period correlate nearly as well
APART = 0.15  # [s] between a sample of the steering and its instrument: longer than the noise is correlated
GENTLE = 0.3  # share of the largest expected response, below which driving is gentle; at least MIN_GENTLE
MIN_GENTLE = 0.5  # [m/s^2]
CORRELATED = 50.0  # samples per independent sample, since vehicle errors are slow
MAX_PLACE_ERROR = 0.3  # [m] above which an estimated position is rejected
FEW = 0.5  # share of the samples in which a field must be measured
_MIN_DURATION = 5.0  # [s] of a stretch


@dataclass(frozen=True)
class RecordingSurvey:
    """Properties of a recording.

    Attributes:
        measured: measured fields of the state that vary, with their standard deviation; scatter: that of neighbouring samples.
        commanded: True if a steering command varies. interval: of the state's samples [s].
        stretches: (start, end) s in which the vehicle moves, longest first. speeds: 5 and 95 % [m/s] of them. lateral: 99 % of |v r|
            [m/s^2]. behind: delay of the yaw rate behind the steering [s], negative: ahead. gain: yaw rate over v delta / L, of gentle
            driving, without the bias of noise in the steering. arm: where vy was measured, ahead of the rear axle [m]. beyond: times at
            which the steering lies beyond the full lock [s]. NaN: unknown.
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
    beyond: tuple[float, ...]

    @property
    def moving(self) -> float:
        """Duration of driving [s]."""
        return sum(end - start for start, end in self.stretches)


def survey(recording: Recording, vehicle: Vehicle) -> RecordingSurvey:
    """Surveys `vehicle/state` and `control/command` of a recording. Raises InputError: it has no state, speed or steering, or hardly
    moves."""
    where = f"{recording.path} ({recording.name})"
    try:
        present = existing_fields(recording.path, DEFAULT_STATE, FIELDS)
    except InputError as error:
        raise InputError(f"{error}; a recipe is proposed from {DEFAULT_STATE}: import the recording with a mapping that fills it "
                         "(docs/tutorials/own_vehicle.md)") from None
    names = [name for name, has in zip(FIELDS, present) if has]
    series = read_series(recording.path, DEFAULT_STATE, names)
    order = np.argsort(series.time, kind="stable")
    time, columns = series.time[order], dict(zip(names, series.values[order].T))
    measured = {name: spread for name, values in columns.items()
                if np.isfinite(values).mean() >= FEW and (spread := float(np.nanstd(values))) > 1e-9}
    if "vx" not in measured:
        raise InputError(f"{where}: {DEFAULT_STATE} has no vx that moves: the vehicle stood, or of an imported log the mapping must "
                         "fill it, if need be from the wheels or savgol_derivative of the position")
    wheelbase = vehicle.parameters["cg_to_front_axle"] + vehicle.parameters["cg_to_rear_axle"]
    min_speed = MIN_SPEED * float(np.sqrt(wheelbase / WHEELBASE))
    vx = np.interp(time, time[np.isfinite(columns["vx"])], columns["vx"][np.isfinite(columns["vx"])])
    stretches = _stretches(time, vx > min_speed)
    if not stretches:
        raise InputError(f"{where}: vx never stays above {min_speed:.2g} m/s for {_MIN_DURATION:g} s; nothing can be learned of tyres")
    moving = np.any([(time >= start) & (time <= end) for start, end in stretches], axis=0)
    steering, commanded = _steering(recording, columns, measured, time, vehicle)
    beyond = np.flatnonzero(np.abs(steering) > 1.0001 * vehicle.parameters["max_road_wheel_angle"])
    steering = np.where(np.isin(np.arange(len(time)), beyond), np.nan, steering)
    yaw_rate = columns["yaw_rate"] if "yaw_rate" in measured else (
        np.gradient(np.unwrap(columns["yaw"]), time) if "yaw" in measured else np.full(len(time), np.nan))
    good = moving & np.isfinite(yaw_rate) & np.isfinite(steering)
    speeds = np.quantile(vx[moving], [0.05, 0.95])
    lateral = float(np.quantile(np.abs(vx * yaw_rate)[good], 0.99)) if good.any() else np.nan
    behind = gain = arm = np.nan
    if good.sum() > 50:
        step = max(float(np.median(np.diff(time))), 0.01)
        expected, actual, grid_vx = _on_grid(time, step, good, vx * steering / wheelbase, yaw_rate, vx)
        behind = _behind(expected, actual, step)
        if np.isfinite(behind):
            gain = _gain(_shifted(expected, behind / step), actual, grid_vx, max(round(APART / step), 1))
        arm = _arm(vx[good], columns["vy"][good], yaw_rate[good]) if "vy" in measured else np.nan
    # White noise of standard deviation s has second differences of s sqrt(6).
    scatter = {name: float(np.nanstd(np.diff(columns[name], 2))) / np.sqrt(6.0) for name in measured}
    return RecordingSurvey(recording, measured, scatter, commanded, float(np.median(np.diff(time))), tuple(stretches),
                  (float(speeds[0]), float(speeds[1])), lateral, behind, gain, arm, tuple(time[beyond].tolist()))


def _stretches(time: np.ndarray, moving: np.ndarray) -> list[tuple[float, float]]:
    """Finds the intervals in which the vehicle moves for longer than _MIN_DURATION, longest first."""
    ends = np.flatnonzero(np.diff(np.concatenate([[False], moving, [False]]).astype(int)))
    found = [(float(time[a]), float(time[min(b, len(time) - 1)])) for a, b in zip(ends[::2], ends[1::2])]
    return sorted((one for one in found if one[1] - one[0] >= _MIN_DURATION), key=lambda one: one[0] - one[1])


def _steering(recording: Recording, columns: dict[str, np.ndarray], measured: dict[str, float], time: np.ndarray,
              vehicle: Vehicle) -> tuple[np.ndarray, bool]:
    """Returns the angle of the road wheels (n,) rad, measured or else by the command; and whether there is a command."""
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


def _on_grid(time: np.ndarray, step: float, good: np.ndarray, *columns: np.ndarray) -> list[np.ndarray]:
    """Resamples columns every `step`; NaN where no good sample is near."""
    grid = np.arange(time[0], time[-1], step)
    measured_times = time[good]
    place = np.clip(np.searchsorted(measured_times, grid), 1, len(measured_times) - 1)
    near = np.minimum(np.abs(grid - measured_times[place - 1]), np.abs(grid - measured_times[place])) <= 2.0 * step
    return [np.where(near, np.interp(grid, measured_times, column[good]), np.nan) for column in columns]


def _shifted(values: np.ndarray, places: float) -> np.ndarray:
    """Shifts values (n,) by `places` samples, a fraction too; NaN before the first."""
    return np.asarray(np.interp(np.arange(len(values)) - places, np.arange(len(values)), values, np.nan, np.nan))


def _without_drift(values: np.ndarray, places: int) -> np.ndarray:
    finite, ones = np.isfinite(values), np.ones(places)
    count = np.convolve(finite, ones, "same")
    return values - np.convolve(np.where(finite, values, 0.0), ones, "same") / np.maximum(count, 1.0)


def _behind(expected: np.ndarray, actual: np.ndarray, step: float) -> float:
    """Estimates the delay [s] of `actual` behind `expected`: at their largest correlation of either sign; the least where several are as
    large."""
    reach, drift = round(MAX_SHIFT / step), round(DRIFT / step)
    if len(expected) <= drift:
        return float("nan")
    a, b = _without_drift(expected, drift), _without_drift(actual, drift)
    agreement = np.zeros(2 * reach + 1)
    for shift in range(-reach, reach + 1):
        early, late = (a[:len(a) - shift], b[shift:]) if shift >= 0 else (a[-shift:], b[:shift])
        both = np.isfinite(early) & np.isfinite(late)
        if both.sum() > 50 and np.std(early[both]) > 0.0 and np.std(late[both]) > 0.0:
            agreement[shift + reach] = abs(np.corrcoef(early[both], late[both])[0, 1])
    if not agreement.any():
        return float("nan")
    peaks = [i for i in range(1, 2 * reach) if agreement[i] >= max(agreement[i - 1], agreement[i + 1])]
    best = min((i for i in peaks if agreement[i] >= agreement.max() - ALIAS), key=lambda i: abs(i - reach), default=int(agreement.argmax()))
    if not 0 < best < 2 * reach:
        return step * (best - reach)
    below, top, above = agreement[best - 1:best + 2]  # the vertex of the parabola through the three
    bend = below - 2.0 * top + above
    return float(step * (best - reach + (0.5 * (below - above) / bend if bend < 0.0 else 0.0)))


def _gain(expected: np.ndarray, actual: np.ndarray, vx: np.ndarray, apart: int) -> float:
    """Estimates the slope of `actual` over `expected` in gentle driving.

    Noise in `expected` biases a regression towards 0, and so does selecting samples by `actual`. The mean of values some time before and
    after has independent noise: it selects the samples and is the instrument (Wald 1940; Durbin 1954).
    """
    instrument = 0.5 * (_shifted(expected, apart) + _shifted(expected, -apart))
    sideways = np.abs(vx * instrument)
    usable = np.isfinite(sideways) & np.isfinite(expected) & np.isfinite(actual)
    if not usable.any():
        return float("nan")
    usable &= sideways < max(GENTLE * float(np.quantile(sideways[usable], 0.99)), MIN_GENTLE)
    if usable.sum() <= 50:
        return float("nan")
    z, a, b = instrument[usable], expected[usable], actual[usable]
    z = z - z.mean()
    return float(z @ b / (z @ a)) if z @ a > 0.0 else float("nan")


def _arm(vx: np.ndarray, vy: np.ndarray, yaw_rate: np.ndarray) -> float:
    """Estimates the distance of the velocity's sensor from the rear axle: in gentle driving vy = arm r - c v^2 r, c the rear axle's
    compliance."""
    finite = np.isfinite(vy)
    if finite.sum() < 50:
        return float("nan")
    parts = np.column_stack([yaw_rate[finite], vx[finite] ** 2 * yaw_rate[finite], np.ones(finite.sum()), vx[finite]])
    found, squares, rank, _ = np.linalg.lstsq(parts, vy[finite], rcond=None)
    if rank < parts.shape[1]:
        return float("nan")
    error = np.sqrt(CORRELATED * squares[0] / len(parts) * np.linalg.inv(parts.T @ parts)[0, 0])
    return float(found[0]) if error < MAX_PLACE_ERROR else float("nan")
