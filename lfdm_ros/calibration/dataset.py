"""From recordings to arrays: what a stage is started from, driven by and compared with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lfdm_ros.bags import between_rows, read_series, recording_name, recording_sha256
from lfdm_ros.calibration.priors import Prior, parse_prior
from lfdm_ros.calibration.recipe import WHEEL_FIELDS, Inputs, Stage
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.vehicles import Vehicle

INPUT_FIELDS = ("steering", "throttle", "brake")
# An observation belongs to the grid point nearest to it; on a grid of the recording's own interval it may be this far off [s].
GRID_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Recording:
    """A bag and what identifies its content."""

    name: str
    path: Path
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """One window of one recording on an even time grid; SI units.

    times (K,) from the origin of the recording; inputs (K, 3) steering, throttle, brake, kept from each time to the next
    (`hold`) or linear in between, as the recording says; observed (K, C), NaN where nothing was measured; initial: the recorded
    states at the first time, without those that were not measured.
    """

    recording: Recording
    times: np.ndarray
    inputs: np.ndarray
    hold: bool
    observed: np.ndarray
    channels: tuple[str, ...]
    initial: Mapping[str, float]


def find_recordings(bags: Sequence[str | os.PathLike[str]]) -> dict[str, Recording]:
    """Opens bags and names their recordings.

    Raises:
        InputError: a bag cannot be read, or two hold a recording of the same name.
    """
    found: dict[str, Recording] = {}
    for path in map(Path, bags):
        name = recording_name(path)
        if name in found:
            raise InputError(f"{path}: recording '{name}' is also in {found[name].path}; give it once")
        found[name] = Recording(name, path, recording_sha256(path))
    return found


def pick_recording(recordings: Mapping[str, Recording], name: str, where: str) -> Recording:
    """The recording called `name`.

    Raises:
        InputError: none of the bags holds it; the message lists those there are.
    """
    if name not in recordings:
        raise InputError(f"{where}: needs recording '{name}', but the bags hold: {', '.join(sorted(recordings)) or 'none'}; add --bag")
    return recordings[name]


def load_stage(stage: Stage, recording: Recording, model: str, vehicle: Vehicle, step: float) -> Dataset:
    """Reads the window of a stage."""
    return load_window(recording, stage.start, stage.end, model=model, vehicle=vehicle, step=step,
                       channels={c.name: (c.topic, c.field) for c in stage.channels},
                       state_topic=stage.state_topic, inputs=stage.inputs)


def load_window(recording: Recording, start: float, end: float, *, model: str, vehicle: Vehicle, step: float,
                channels: Mapping[str, tuple[str, str]], state_topic: str, inputs: Inputs) -> Dataset:
    """Reads [start, end) s of a recording.

    The grid is the recording's own when that is even, else one of `step`, with every observation at the grid point nearest to it.

    Args:
        channels: name -> (topic, field).

    Raises:
        InputError: a topic or field is missing, the window is outside the recording, inputs do not cover it or are out of
            range, a channel has no finite sample.
    """
    where = f"{recording.path} ({recording.name})"
    fields: dict[str, list[str]] = {}
    for topic, field in channels.values():
        fields.setdefault(topic, []).append(field)
    recorded = {topic: read_series(recording.path, topic, wanted) for topic, wanted in fields.items()}
    series = {}
    for name, (topic, field) in channels.items():
        data = recorded[topic]
        values = data.values[:, fields[topic].index(field)]
        inside = (data.time >= start - GRID_TOLERANCE) & (data.time < end - GRID_TOLERANCE) & np.isfinite(values)
        if not inside.any():
            span = f"[{data.time.min():.3f}, {data.time.max():.3f}] s" if len(data.time) else "nothing"
            raise InputError(f"{where}: {topic}.{field} has no finite sample in window [{start:g}, {end:g}) s; it covers {span}")
        series[name] = data.time[inside], values[inside]
    state_time, initial = _initial_state(recording, state_topic, model, start, end)
    start = max(start, state_time)
    times = _grid([t for t, _ in series.values()], start, step, where)
    observed = np.full((len(times), len(channels)), np.nan)
    for column, (t, values) in enumerate(series.values()):
        rows = np.rint((t - times[0]) / (times[1] - times[0])).astype(int)
        keep = rows >= 0
        observed[rows[keep], column] = values[keep]
    hold = between_rows(recording.path) == "hold"
    return Dataset(recording, times, _inputs(recording, inputs, vehicle, times, hold), hold, observed, tuple(channels), initial)


def initial_priors(stage: Stage, dataset: Dataset, model: str, where: str) -> dict[str, Prior]:
    """Priors of the initial states that a stage estimates; one without a mean is centred on the recorded value.

    Raises:
        InputError: nothing was recorded to centre a prior on.
    """
    units = {f.name: f.unit for f in get_model(model).states}
    return {state: parse_prior(spec, units[state], f"{where}.initial_state.estimate.{state}", dataset.initial.get(state))
            for state, spec in stage.estimate}


def _initial_state(recording: Recording, topic: str, model: str, start: float, end: float) -> tuple[float, dict[str, float]]:
    names = [f.name for f in get_model(model).states]
    data = read_series(recording.path, topic, [WHEEL_FIELDS.get(name, name) for name in names])
    after = np.flatnonzero(data.time >= start - GRID_TOLERANCE)
    if not len(after) or data.time[after[0]] >= end:
        raise InputError(f"{recording.path} ({recording.name}): {topic} has no state in window [{start:g}, {end:g}) s to start from")
    row = after[0]
    return float(data.time[row]), {name: float(v) for name, v in zip(names, data.values[row]) if np.isfinite(v)}


def _grid(observations: Sequence[np.ndarray], start: float, step: float, where: str) -> np.ndarray:
    stamps = np.unique(np.rint(np.concatenate(observations) * 1e9).astype(np.int64)) * 1e-9
    stamps = stamps[stamps > start + GRID_TOLERANCE]
    if len(stamps) < 2:
        raise InputError(f"{where}: fewer than 3 samples in the window")
    interval = (stamps[-1] - start) / max(1, round((stamps[-1] - start) / np.median(np.diff(stamps))))
    offset = (stamps - start) / interval
    if np.abs(offset - np.rint(offset)).max() * interval > GRID_TOLERANCE:
        interval = step
    return start + interval * np.arange(int(np.rint((stamps[-1] - start) / interval)) + 1)


def _inputs(recording: Recording, inputs: Inputs, vehicle: Vehicle, times: np.ndarray, hold: bool) -> np.ndarray:
    steering = inputs.steering
    names = INPUT_FIELDS[1:] if steering else INPUT_FIELDS
    columns = list(_resampled(recording, inputs.topic, names, times, hold))
    if steering:
        scale = steering.scale / (vehicle.parameters[steering.per] if steering.per else 1.0)
        columns.insert(0, scale * _resampled(recording, steering.topic, [steering.field], times, hold)[0])
    for i, (name, column) in enumerate(zip(INPUT_FIELDS, columns)):
        lower = -1.0 if name == "steering" else 0.0
        if column.min() < lower - 1e-6 or column.max() > 1.0 + 1e-6:
            raise InputError(f"{recording.path} ({recording.name}): {name} reaches [{column.min():.4g}, {column.max():.4g}], "
                             f"outside [{lower:g}, 1]; correct the mapping or the steering scale")
        columns[i] = np.clip(column, lower, 1.0)
    return np.column_stack(columns)


def _resampled(recording: Recording, topic: str, fields: Sequence[str], times: np.ndarray, hold: bool) -> np.ndarray:
    """Fields (F, K) at `times`: the last value, or linear in between."""
    data = read_series(recording.path, topic, fields)
    interval = times[1] - times[0]
    rows = []
    for field, column in zip(fields, data.values.T):
        finite = np.isfinite(column)
        order = np.argsort(data.time[finite], kind="stable")
        time, values = data.time[finite][order], column[finite][order]
        if not len(time) or time[0] > times[0] + interval or time[-1] < times[-1] - max(interval, 0.1):
            span = f"[{time[0]:.3f}, {time[-1]:.3f}] s" if len(time) else "nothing finite"
            raise InputError(f"{recording.path} ({recording.name}): {topic}.{field} covers {span}, "
                             f"not the window [{times[0]:.3f}, {times[-1]:.3f}] s")
        last = np.maximum(np.searchsorted(time, times + GRID_TOLERANCE, side="right") - 1, 0)
        rows.append(values[last] if hold else np.interp(times, time, values))
    return np.array(rows)
