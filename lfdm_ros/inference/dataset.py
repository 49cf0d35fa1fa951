"""Recordings as arrays: initial states, inputs and measurements of a stage."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import numpy as np

from lfdm_ros.bags import Series, bags_in, existing_fields, not_driven, open_bag, read_series
from lfdm_ros.bags.grounds import find_ground
from lfdm_ros.bags.reader import HOLD, content_sha256, name_of
from lfdm_ros.errors import InputError
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.inference.plan import INPUT_FIELDS, NO_TOPIC, Inputs, Recipe, Segment, Split, Stage, field_of
from lfdm_ros.inference.priors import Prior, parse_prior
from lfdm_ros.models import get_model
from lfdm_ros.vehicles import Vehicle

GRID_TOLERANCE = 1e-4  # [s] on a grid of the recording's interval; an observation belongs to the nearest point
_MAX_STEPS = 10_000_000  # of a window: 28 h at 100 Hz
STRETCH = 20  # samples per estimate of a topic's rate
CLOCK_TOLERANCE = 0.05  # [s]: stamps that decrease by more are a clock jump, by less messages out of order
POSE_SPAN, MIN_POSES = 0.25, 5  # [s] before and after a start, and number of poses for estimated velocities
MOTION = ("vx", "vy", "vz", "yaw_rate", "roll", "pitch", "roll_rate", "pitch_rate")  # states not assumed 0 silently
LOWEST = {"steering": -1.0, "throttle": 0.0, "brake": 0.0}
FEW_SPIKES = 0.02  # of the samples; a larger share out of range is no spikes
HISTORY = 1.0  # [s] of inputs before a window, for delays and lags


@dataclass(frozen=True)
class Recording:
    """A bag and the hash of its content. between_rows: HOLD or LINEAR, course of the inputs between two messages; note: one line on the
    recovery of the bag and doubtful values; empty: it is intact."""

    name: str
    path: Path
    sha256: str
    between_rows: str = HOLD
    note: str = ""


@dataclass(frozen=True)
class Dataset:
    """One window of one recording on an even time grid; SI units.

    times (K,) from the origin of the recording; inputs (K, 3) steering, throttle, brake, held from each time to the next (`hold`) or linear
    in between, as recorded; history (L, 3): the inputs at the grid's points before the first, for delays; observed (K, C), NaN without a
    measurement; initial: the measured states at the first time; derived: those of them estimated from the pose; unknown: continuous states
    that start at 0 for lack of data; prescribed (K, P): the states `following` the recording; sourced: channels of the topic of the initial
    state, which has their offsets too. `name` distinguishes the windows of a stage.
    """

    recording: Recording
    times: np.ndarray
    inputs: np.ndarray
    hold: bool
    observed: np.ndarray
    channels: tuple[str, ...]
    initial: Mapping[str, float]
    name: str = ""
    history: np.ndarray = field(default_factory=lambda: np.empty((0, len(INPUT_FIELDS))))
    following: tuple[str, ...] = ()
    sourced: tuple[str, ...] = ()
    derived: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    prescribed: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    on_ground: VehicleOnGround | None = None  # the ground of the recording, kept alive by this; None: a level road

    @property
    def interval(self) -> float:
        """Between samples [s]."""
        return float(self.times[-1] - self.times[0]) / (len(self.times) - 1)

    @property
    def table(self) -> np.ndarray:
        """Inputs and prescribed states (K, 3 + P), as `BatchRollout` takes them."""
        return np.column_stack([self.inputs, self.prescribed]) if self.following else self.inputs


def find_recordings(bags: Sequence[str | os.PathLike[str]]) -> list[Recording]:
    """Opens bags, or all of a folder of bags; several recordings may have one name, such as a repeated manoeuvre. Raises InputError: a bag
    cannot be read, is of a simulated vehicle that did not follow its commands, or duplicates another."""
    found: dict[str, Recording] = {}
    for path in (path for given in bags for path in bags_in(Path(given))):
        with open_bag(path) as bag:
            if why := not_driven(bag):
                raise InputError(f"{path}: cannot be used: {why}; drive it again in lockstep, or with a larger command_timeout")
            name, content = name_of(bag), content_sha256(bag)
            if content in found:
                raise InputError(f"{path}: holds the same as {found[content].path}; give it once")
            found[content] = Recording(name, path, content, bag.between_rows, f"{path} ({name}): {bag.note}" if bag.note else "")
    return list(found.values())


@dataclass(frozen=True)
class Window:
    """Interval [start, end) s of a recording that a data set is cut from; `index` counts the pieces of a split."""

    recording: Recording
    start: float
    end: float
    index: int
    name: str


def windows_of(segment: Segment, recordings: Sequence[Recording], where: str, held_out: bool = False) -> list[Window]:
    """Returns the windows of a segment, or with `held_out` those that its split leaves out. Raises InputError: no recording belongs to the
    segment, or one that it names is missing."""
    names = sorted({recording.name for recording in recordings})
    for name in segment.recordings:
        if not any(fnmatchcase(one, name) for one in names):
            raise InputError(f"{where}: needs recording '{name}', but the bags hold: {', '.join(names) or 'none'}; add --bag")
    chosen = [recording for recording in recordings if segment.selects(recording.name)]
    windows = []
    for recording in chosen:
        prefix = segment.name or (recording.name if len(chosen) > 1 else "")
        prefix = f"{segment.name}_{recording.name}" if segment.name and len(chosen) > 1 else prefix
        end = min(segment.end, _end(recording, segment)) if not math.isfinite(segment.end) or segment.split else segment.end
        if segment.split is not None:
            windows += [replace(piece, name=f"{prefix}_{piece.index}".strip("_"))
                        for piece in pieces_of(recording, segment.start, end, segment.split, held_out)]
        elif not held_out:
            windows.append(Window(recording, segment.start, end, 0, prefix))
    return windows


def pieces_of(recording: Recording, start: float, end: float, split: Split, held_out: bool) -> list[Window]:
    """Returns the pieces that a split takes, or leaves out, of [start, end) s; a shorter last one is dropped. Raises InputError: the
    interval is too short for one."""
    count = int((end - start) / split.length + 1e-6)
    if count < 1:
        raise InputError(f"{recording.path} ({recording.name}): [{start:g}, {end:g}) s is shorter than one piece of {split.length:g} s")
    return [Window(recording, start + i * split.length, start + (i + 1) * split.length, i, str(i))
            for i in range(count) if split.takes(i) != held_out]


def load_segment(segment: Segment, window: Window, model: str, vehicle: Vehicle, step: float) -> Dataset:
    """Reads one window of a segment; raises InputError as `load_window`."""
    return load_window(window.recording, window.start, window.end, model=model, vehicle=vehicle, step=step,
                       channels={c.name: (c.topic, c.field) for c in segment.channels}, state_topic=segment.state_topic,
                       inputs=segment.inputs, prescribed=segment.prescribed, name=window.name)


def load_window(recording: Recording, start: float, end: float, *, model: str, vehicle: Vehicle, step: float,
                channels: Mapping[str, tuple[str, str]], state_topic: str, inputs: Inputs,
                prescribed: Sequence[tuple[str, str, str]] = (), name: str = "") -> Dataset:
    """Reads [start, end) s of a recording.

    The grid is that of the recording if it is even, else an even one with the interval of the samples and every observation at the nearest
    point. `channels`: name -> (topic, field); `prescribed`: state, topic and field of those that follow the recording; an initial value is
    taken from there. Raises InputError: a topic or field is missing, the window is outside the recording, inputs do not cover it or are out
    of range, a channel has no finite sample.
    """
    where = f"{recording.path} ({recording.name})"
    fields: dict[str, list[str]] = {}
    for topic, field_ in channels.values():
        fields.setdefault(topic, []).append(field_)
    recorded = {topic: _series(recording, topic, tuple(field_names)) for topic, field_names in fields.items()}
    series = {}
    for channel, (topic, field_) in channels.items():
        data = recorded[topic]
        values = data.values[:, fields[topic].index(field_)]
        inside = (data.time >= start - GRID_TOLERANCE) & (data.time < end - GRID_TOLERANCE) & np.isfinite(values)
        if not inside.any():
            span = f"[{data.time.min():.3f}, {data.time.max():.3f}] s" if len(data.time) else "nothing"
            raise InputError(f"{where}: {topic}.{field_} has no finite sample in window [{start:g}, {end:g}) s; it covers {span}")
        # A recorded yaw may jump by a turn, a vehicle's does not.
        series[channel] = data.time[inside], np.unwrap(values[inside]) if channel == "yaw" else values[inside]
    state_time, initial = _initial_state(recording, state_topic, model, start, end)
    start = max(start, state_time)
    derived = {state: value for state, value in _from_pose(recording, state_topic, model, start).items() if state not in initial}
    initial.update(derived)
    times = _grid([t for t, _ in series.values()], start, step, where)
    observed = np.full((len(times), len(channels)), np.nan)
    for column, (t, values) in enumerate(series.values()):
        rows = np.rint((t - times[0]) / (times[1] - times[0])).astype(int)
        keep = rows >= 0
        observed[rows[keep], column] = values[keep]
    hold = recording.between_rows == HOLD
    followed = np.column_stack([_resampled(recording, topic, [field_], times, False)[0] for _, topic, field_ in prescribed]) \
        if prescribed else np.empty((0, 0))
    initial.update({state: float(value) for (state, _, _), value in zip(prescribed, followed[0] if prescribed else ())})
    derived = {state: value for state, value in derived.items() if state not in {name for name, _, _ in prescribed}}
    unknown = tuple(f.name for f in get_model(model).states if f.stem in MOTION and f.role == "continuous" and f.name not in initial)
    interval = float(times[1] - times[0])
    before = times[0] - interval * np.arange(round(HISTORY / interval), 0, -1)
    all_inputs = _inputs(recording, inputs, vehicle, np.concatenate([before, times]), len(before), hold)
    return Dataset(recording, times, all_inputs[len(before):], hold, observed, tuple(channels), initial, name, all_inputs[:len(before)],
                   tuple(state for state, _, _ in prescribed),
                   tuple(channel for channel, (topic, _) in channels.items() if topic.strip("/") == state_topic.strip("/")),
                   tuple(derived), unknown, followed)


RECORDED = "recorded"  # the ground noted in each recording


def on_ground(data: Dataset, ground: str, vehicle: Vehicle) -> Dataset:
    """Returns a data set with its ground: a name, a file, a bag, or RECORDED; empty: a level road. Raises InputError: no such ground, or
    none in the recording."""
    if not ground:
        return data
    return replace(data, on_ground=VehicleOnGround(vehicle, find_ground(data.recording.path if ground == RECORDED else ground)))


def _series(recording: Recording, topic: str, fields: tuple[str, ...]) -> Series:
    """Reads the fields of a topic in the order of time. If the recorded clock was set back, the longest part recorded once.

    Cached, since the windows of a stage share series and reading a bag is slow.
    """
    data = _as_recorded(recording, topic, fields)
    doubtful = _doubtful(data.time)
    if not doubtful.any():
        return data
    ends = [0, *(np.flatnonzero(np.diff(doubtful)) + 1).tolist(), len(data.time)]
    first, last = max((part for part in pairwise(ends) if not doubtful[part[0]]), key=lambda part: part[1] - part[0], default=(0, 0))
    return Series(data.time[first:last], data.values[first:last], data.stamp0)


@lru_cache(maxsize=64)
def _as_recorded(recording: Recording, topic: str, fields: tuple[str, ...]) -> Series:
    return read_series(recording.path, topic, fields)


def _doubtful(time: np.ndarray) -> np.ndarray:
    """Marks samples (n,) whose time may be recorded twice: a clock that was set back.

    Stamps then decrease or, in a bag sorted by stamps, are too dense for a while.
    """
    doubtful = np.zeros(len(time), bool)
    steps = np.diff(time)
    for back in np.flatnonzero(steps < -CLOCK_TOLERANCE):
        doubtful |= (time >= time[back + 1]) & (time <= time[back])
    usual = float(np.median(steps)) if len(steps) > 2 * STRETCH else 0.0
    # Only topics with a fixed rate; dense commands of irregular rate are no sign of it.
    if usual > 0.0 and (np.abs(steps - usual) < 0.5 * usual).mean() > 0.6:
        thick = np.convolve(np.maximum(steps, 0.0), np.full(STRETCH, 1.0 / STRETCH), "valid") < 0.7 * usual
        for first in np.flatnonzero(thick):
            doubtful[first:first + STRETCH + 1] = True
    return doubtful


def clock_jumps(recording: Recording, topic: str, fields: tuple[str, ...]) -> str:
    """Describes the clock of a topic that was set back; empty where it was not."""
    time = _as_recorded(recording, topic, fields).time
    doubtful = _doubtful(time)
    if not doubtful.any():
        return ""
    used = _series(recording, topic, fields).time
    remainder = f"only [{used[0]:.3f}, {used[-1]:.3f}] s was used" if len(used) else "nothing of it can be used"
    return (f"{recording.path} ({recording.name}): the clock of {topic} was set back: [{time[doubtful].min():.3f}, "
            f"{time[doubtful].max():.3f}] s is there twice; {remainder}")


def initial_priors(segment: Segment, dataset: Dataset, model: str, where: str) -> dict[str, Prior]:
    """Priors of the initial states that a segment estimates; one without a mean is centred on the recorded value. Raises InputError: no
    recorded value to centre a prior on."""
    units = {f.name: f.unit for f in get_model(model).states}
    return {state: parse_prior(spec, units[state], f"{where}.initial_state.estimate.{state}", dataset.initial.get(state)).as_unknown()
            for state, spec in segment.estimate}


def _end(recording: Recording, segment: Segment) -> float:
    # Time of the last measured sample of the segment's channels plus one interval: windows are half open.
    topics = {channel.topic: channel.field for channel in segment.channels}
    ends = []
    for topic, field_ in topics.items():
        time = _series(recording, topic, (field_,)).time
        if len(time) > 1:
            ends.append(float(time.max() + np.median(np.diff(time))))
    if not ends:
        raise InputError(f"{recording.path} ({recording.name}): {', '.join(topics)} holds fewer than 2 samples")
    return max(ends)


@lru_cache(maxsize=64)
def recorded_states(recording: Recording, topic: str, model: str) -> Mapping[str, str]:
    """Returns the states of a model that a topic's message has a field for, and those fields. Raises InputError: no such topic."""
    fields = {f.name: field_of(f.name) for f in get_model(model).states}
    present = existing_fields(recording.path, topic, list(fields.values()))
    return MappingProxyType({name: field_ for (name, field_), has in zip(fields.items(), present) if has})


def _initial_state(recording: Recording, topic: str, model: str, start: float, end: float) -> tuple[float, dict[str, float]]:
    fields = recorded_states(recording, topic, model)
    data = _series(recording, topic, tuple(fields.values()))
    after = np.flatnonzero(data.time >= start - GRID_TOLERANCE)
    if not len(after) or data.time[after[0]] >= end:
        raise InputError(f"{recording.path} ({recording.name}): {topic} has no state in window [{start:g}, {end:g}) s to start from")
    row = after[0]
    return float(data.time[row]), {name: float(v) for name, v in zip(fields, data.values[row]) if np.isfinite(v)}


def _from_pose(recording: Recording, topic: str, model: str, start: float) -> dict[str, float]:
    """Estimates the velocities at a time from nearby poses: straight lines through heading and position, rotated into the vehicle's
    axes."""
    fields = {state: field_ for state, field_ in recorded_states(recording, topic, model).items() if state in ("x", "y", "yaw")}
    if "yaw" not in fields:
        return {}
    data = _series(recording, topic, tuple(fields.values()))
    near = np.abs(data.time - start) <= POSE_SPAN
    out: dict[str, float] = {}
    rates: dict[str, float] = {}
    for column, state in enumerate(fields):
        values = data.values[near, column]
        finite = np.isfinite(values)
        time = data.time[near][finite] - start
        if finite.sum() >= MIN_POSES and np.ptp(time) > 0.5 * POSE_SPAN:
            values = np.unwrap(values[finite]) if state == "yaw" else values[finite]
            rates[state], out[state] = np.polyfit(time, values, 1).tolist()
    if "yaw" not in rates:
        return {}
    found = {"yaw_rate": rates["yaw"]}
    if {"x", "y"} <= set(rates):
        c, s = np.cos(out["yaw"]), np.sin(out["yaw"])
        found |= {"vx": rates["x"] * c + rates["y"] * s, "vy": rates["y"] * c - rates["x"] * s}
    return {state: float(value) for state, value in found.items()}


def start_notes(datasets: Iterable[tuple[Dataset, Iterable[str]]]) -> list[str]:
    """Describes runs that begin with states that were not recorded, and the states that are estimated: a line for each recording."""
    notes: dict[str, None] = {}
    for data, estimated in datasets:
        where = f"{data.recording.path} ({data.recording.name})"
        left = [state for state in data.unknown if state not in set(estimated)]
        found = [state for state in data.derived if state not in set(estimated)]
        if found:
            notes[f"{where}: not recorded at the start, and taken from how the recorded pose changes: {', '.join(found)}"] = None
        if left:
            notes[f"{where}: not recorded at the start, and taken as 0: {', '.join(left)}; what follows pays for it for a while; estimate "
                  "what matters (initial_state.estimate)"] = None
    return list(notes)


def _grid(observations: Sequence[np.ndarray], start: float, step: float, where: str) -> np.ndarray:
    stamps = np.unique(np.rint(np.concatenate(observations) * 1e9).astype(np.int64)) * 1e-9
    stamps = stamps[stamps > start + GRID_TOLERANCE]
    if len(stamps) < 2:
        raise InputError(f"{where}: fewer than 3 samples in the window")
    interval = (stamps[-1] - start) / max(1, round((stamps[-1] - start) / np.median(np.diff(stamps))))
    offset = (stamps - start) / interval
    if np.abs(offset - np.rint(offset)).max() * interval > GRID_TOLERANCE:
        interval = step
    count = (stamps[-1] - start) / interval
    if count > _MAX_STEPS:
        raise InputError(f"{where}: {stamps[-1] - start:g} s in steps of {interval:g} s are {count:.2g}; does a clock jump?")
    return start + interval * np.arange(int(np.rint(count)) + 1)


def check_inputs(recording: Recording, inputs: Inputs, vehicle: Vehicle, start: float = -math.inf, end: float = math.inf) -> None:
    """Checks all inputs in [start, end] s before they are cut into pieces. Raises InputError: some are out of range, with their number, the
    time of the first, and the fix."""
    where = f"{recording.path} ({recording.name})"
    sources = {name: (inputs.topic, name, 1.0) for name in INPUT_FIELDS if inputs.topic != NO_TOPIC}
    if steering := inputs.steering:
        sources["steering"] = (steering.topic, steering.field, steering.scale / (vehicle.parameters[steering.per] if steering.per else 1.0))
    for name, (topic, field_, scale) in sources.items():
        data = _series(recording, topic, (field_,))
        values = scale * data.values[:, 0]
        used = (data.time >= start - HISTORY) & (data.time <= end) & np.isfinite(values)
        outside = np.flatnonzero(used & ((values < LOWEST[name] - 1e-6) | (values > 1.0 + 1e-6)))
        if outside.size:
            worst = outside[np.argmax(np.abs(values[outside]))]
            per = name == "steering" and steering is not None and steering.per is not None
            unit = f" of the full lock ({1.0 / scale:.4g} rad)" if per else ""
            few = outside.size < FEW_SPIKES * used.sum()
            remedy = ("spikes: leave them out in the mapping with a range: [LEAST, MOST] at their column, and import again" if few else
                      "so many are no spikes: correct unit or ratio in the mapping" + (", or the vehicle's full lock" if per else ""))
            raise InputError(f"{where}: {topic}.{field_} is outside [{LOWEST[name]:g}, 1]{unit} in {outside.size} of {used.sum()} samples, "
                             f"the first {values[outside[0]]:.4g} at {data.time[outside[0]]:.3f} s, the largest {values[worst]:.4g} at "
                             f"{data.time[worst]:.3f} s; {remedy}")


def _inputs(recording: Recording, inputs: Inputs, vehicle: Vehicle, times: np.ndarray, before: int, hold: bool) -> np.ndarray:
    """Resamples inputs (K, 3) at `times`; the first `before` of them may precede the recording and then have its first value."""
    steering = inputs.steering
    names = INPUT_FIELDS[1:] if steering else INPUT_FIELDS
    columns = list(_resampled(recording, inputs.topic, names, times, hold, before)) if inputs.topic != NO_TOPIC \
        else [np.zeros(len(times)) for _ in names]
    if steering:
        scale = steering.scale / (vehicle.parameters[steering.per] if steering.per else 1.0)
        columns.insert(0, scale * _resampled(recording, steering.topic, [steering.field], times, hold, before)[0])
    for name, column in zip(INPUT_FIELDS, columns):
        if column.min() < LOWEST[name] - 1e-6 or column.max() > 1.0 + 1e-6:
            check_inputs(recording, inputs, vehicle)
            raise InputError(f"{recording.path} ({recording.name}): {name} reaches [{column.min():.4g}, {column.max():.4g}], "
                             f"outside [{LOWEST[name]:g}, 1]; correct the mapping or the steering scale")
    return np.column_stack([np.clip(column, LOWEST[name], 1.0) for name, column in zip(INPUT_FIELDS, columns)])


def _resampled(recording: Recording, topic: str, fields: Sequence[str], times: np.ndarray, hold: bool, before: int = 0) -> np.ndarray:
    """Resamples fields (F, K) at `times`: the last value, or linear in between; they must cover all but the first `before`."""
    data = _series(recording, topic, tuple(fields))
    interval = times[-1] - times[-2]
    rows = []
    for field_, column in zip(fields, data.values.T):
        finite = np.isfinite(column)
        order = np.argsort(data.time[finite], kind="stable")
        time, values = data.time[finite][order], column[finite][order]
        if not len(time) or time[0] > times[before] + interval or time[-1] < times[-1] - max(interval, 0.1):
            span = f"[{time[0]:.3f}, {time[-1]:.3f}] s" if len(time) else "nothing finite"
            raise InputError(f"{recording.path} ({recording.name}): {topic}.{field_} covers {span}, "
                             f"not the window [{times[before]:.3f}, {times[-1]:.3f}] s")
        last = np.maximum(np.searchsorted(time, times + GRID_TOLERANCE, side="right") - 1, 0)
        rows.append(values[last] if hold else np.interp(times, time, values))
    return np.array(rows)


@dataclass(frozen=True)
class StageData:
    """Fitted and held-out data sets of a stage, each with its segment."""

    fitted: tuple[tuple[Segment, Dataset], ...]
    held_out: tuple[tuple[Segment, Dataset], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def recordings(self) -> dict[str, Recording]:
        return {data.recording.sha256: data.recording for _, data in (*self.fitted, *self.held_out)}

    def part(self, hashes: frozenset[str]) -> StageData:
        """Selects the fitted data sets of recordings whose hash is among `hashes`."""
        return StageData(tuple(pair for pair in self.fitted if pair[1].recording.sha256 in hashes))


def load_stage(stage: Stage, recordings: Sequence[Recording], recipe: Recipe, vehicle: Vehicle) -> StageData:
    """Reads the windows of a stage. Raises InputError: a recording is missing or lacks data of the stage."""
    where = f"{recipe.path}: stages ({stage.name})"
    loaded: dict[bool, list[tuple[Segment, Dataset]]] = {False: [], True: []}
    notes: dict[str, None] = {}
    names: set[str] = set()
    for segment in stage.segments:
        for held_out in (False, True):
            for window in windows_of(segment, recordings, where, held_out):
                data = on_ground(load_segment(segment, window, recipe.model, vehicle, recipe.step), recipe.ground, vehicle)
                while data.name in names:  # two recordings of one name, in a continued calibration
                    data = replace(data, name=f"{data.name}_2")
                names.add(data.name)
                loaded[held_out].append((segment, data))
                notes[window.recording.note] = None
                read = {channel.topic: channel.field for channel in segment.channels} | {segment.inputs.topic: "steering"}
                read.pop(NO_TOPIC, None)
                for topic, field_ in read.items():
                    notes[clock_jumps(window.recording, topic, (field_,))] = None
    if len({data.recording.sha256 for _, data in loaded[False]}) == 1 and len(loaded[False]) == 1 and not loaded[True]:
        loaded[False] = [(segment, replace(data, name="")) for segment, data in loaded[False]]
    starts = start_notes((data, [state for state, _ in segment.estimate]) for segment, data in (*loaded[False], *loaded[True]))
    return StageData(tuple(loaded[False]), tuple(loaded[True]), (*(note for note in notes if note), *starts))
