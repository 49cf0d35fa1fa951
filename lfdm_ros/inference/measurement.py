"""Errors of measurement between the vehicle and its recording: delayed, lagging, scaled or offset inputs, misaligned and offset sensors.

An input acts as u(t) = scale * lag(recorded(t - delay)) + offset, kept inside the driver's range; the lag is of first order and exact for
inputs linear between the grid's points. A channel is measured as model + offset. Velocities and heading are measured along the axes of a
sensor rotated by `heading.misalignment` to the left of the vehicle: vx' = vx cos + vy sin, vy' = vy cos - vx sin, yaw' = yaw +
misalignment. The misalignment is subtracted from an initial heading measured by such a sensor, which rotates the trajectory.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from lfdm_ros.inference.dataset import Dataset
from lfdm_ros.inference.gaussian import autoregress
from lfdm_ros.inference.plan import INPUT_FIELDS, MISALIGNMENT

MIN_LAG = 1e-6  # [s]; smaller lags are ignored
_RANGES = [(-1.0 if name == "steering" else 0.0, 1.0) for name in INPUT_FIELDS]
_LATE = {"delay", "lag"}  # nuisances of an input that depend on its history


class InputPath:
    """The inputs of one data set as a function of their nuisances."""

    def __init__(self, data: Dataset, names: Sequence[str]):
        """Takes `names`: the nuisances, in the order of their values; those of outputs are ignored."""
        self.columns = [i for i, name in enumerate(names) if name.partition(".")[0] in INPUT_FIELDS]
        self._kinds = {(INPUT_FIELDS.index(names[i].partition(".")[0]), names[i].partition(".")[2]): i for i in self.columns}
        self._recorded = np.concatenate([data.history, data.inputs])
        self._before, self._interval = len(data.history), data.interval
        self._prescribed = data.prescribed if data.following else np.empty((len(data.times), 0))
        self.shifts_time = any(kind in _LATE for _, kind in self._kinds)

    def inputs(self, values: np.ndarray) -> np.ndarray:
        """Computes inputs and prescribed states (N, K, 3 + P), a view of (K, 3 + P, N) as the kernel has it for values (N, M)."""
        table = np.empty((len(self._prescribed), len(INPUT_FIELDS) + self._prescribed.shape[1], len(values)))
        for j in range(len(INPUT_FIELDS)):
            np.clip(self._column(j, values, False)[0], *_RANGES[j], out=table[:, j])
        table[:, len(INPUT_FIELDS):] = self._prescribed[:, :, None]
        return np.moveaxis(table, 2, 0)

    def slopes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Computes inputs and prescribed states (K, 3 + P), and the derivatives of the inputs (K, 3, M) for values (M,)."""
        derivatives = np.zeros((len(self._prescribed), len(INPUT_FIELDS), len(values)))
        for j in range(len(INPUT_FIELDS)):
            signal, tangents = self._column(j, values[None], True)
            inside = (signal > _RANGES[j][0]) & (signal < _RANGES[j][1])
            for i, column in tangents.items():
                derivatives[:, j, i] = (column * inside)[:, 0]
        return self.inputs(values[None])[0], derivatives

    def _column(self, j: int, values: np.ndarray, differentiate: bool) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        # One input (K, N) before clipping, and its derivatives by its nuisances.
        used = {kind: i for (column, kind), i in self._kinds.items() if column == j}
        raw = self._recorded[:, j]
        if not used:
            return raw[self._before:, None], {}
        tangents: dict[int, np.ndarray] = {}
        if not _LATE & used.keys():
            signal = np.broadcast_to(raw[self._before:, None], (len(raw) - self._before, len(values)))
        else:
            signal, tangents = self._shifted(raw, used, values, differentiate)
        if "scale" in used:
            scale = values[:, used["scale"]]
            tangents = {i: scale * column for i, column in tangents.items()}
            if differentiate:
                tangents[used["scale"]] = signal
            signal = scale * signal
        if "offset" in used:
            if differentiate:
                tangents[used["offset"]] = np.ones_like(signal)
            signal = signal + values[:, used["offset"]]
        return signal, tangents

    def _shifted(self, raw: np.ndarray, used: Mapping[str, int], values: np.ndarray,
                 differentiate: bool) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        # One input (K, N) after its delay and lag, which depend on its history; and its derivatives by them.
        tangents: dict[int, np.ndarray] = {}
        signal = np.broadcast_to(raw[:, None], (len(raw), len(values)))
        if "delay" in used:
            # The same shift for all points of a particle, in whole and a part of an interval.
            whole, part = np.divmod(values[:, used["delay"]] / self._interval, 1.0)
            later = np.arange(len(raw))[:, None] - whole.astype(int)
            now, before = (raw[np.clip(place, 0, len(raw) - 1)] for place in (later, later - 1))
            signal = now + part * (before - now)
            if differentiate:
                tangents[used["delay"]] = (before - now) / self._interval
        if "lag" in used:
            lag = np.maximum(values[:, used["lag"]], MIN_LAG)
            if differentiate:
                # Central difference with a step that balances rounding and truncation.
                step = 1e-5 * np.maximum(lag, self._interval)
                longer, shorter = lag + step, np.maximum(lag - step, MIN_LAG)
                tangents = {i: self._lagged(column, lag) for i, column in tangents.items()}
                tangents[used["lag"]] = (self._lagged(signal, longer) - self._lagged(signal, shorter)) / (longer - shorter)
            signal = self._lagged(signal, lag)
        return signal[self._before:], {i: column[self._before:] for i, column in tangents.items()}

    def _lagged(self, signal: np.ndarray, lag: np.ndarray) -> np.ndarray:
        # The response of 1 / (1 + lag s) to an input linear between the points (L, N), from equilibrium.
        ratio = lag / self._interval
        decay = np.exp(-1.0 / ratio)
        out = (ratio * (1.0 - decay) - decay) * signal[:-1] + (1.0 - ratio * (1.0 - decay)) * signal[1:]
        whole = np.empty(signal.shape)
        whole[0], whole[1:] = signal[0], out
        autoregress(whole.T, decay)
        return whole


class OutputPath:
    """Measurements of the sensors, given responses of the model."""

    def __init__(self, channels: Sequence[str], names: Sequence[str]):
        """Takes `channels`: the measured ones; `names`: the nuisances, in the order of their values; those of inputs are ignored."""
        self._offsets = [(channels.index(name.partition(".")[0]), i) for i, name in enumerate(names)
                         if name.partition(".")[0] in channels and name.endswith(".offset")]
        turned = MISALIGNMENT in names and any(name in channels for name in ("vx", "vy"))
        self._angle = names.index(MISALIGNMENT) if turned else None
        if MISALIGNMENT in names and "yaw" in channels:
            self._offsets.append((channels.index("yaw"), names.index(MISALIGNMENT)))
        self.channels = tuple(dict.fromkeys([*channels, *(("vx", "vy") if turned else ())]))  # outputs required of the model
        self._measured = len(channels)
        self.trivial = not self._offsets and not turned

    def measured(self, responses: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Computes the measurements (K, C, N) from responses (K, C', N) of the `channels` and values (N, M)."""
        out = responses[:, :self._measured]
        if self.trivial:
            return out
        out = out.copy()
        if self._angle is not None:
            for place, turned, _ in self._turned(responses, values[:, self._angle]):
                if place < self._measured:
                    out[:, place] = turned
        for place, i in self._offsets:
            out[:, place] += values[:, i]
        return out

    def slopes(self, responses: np.ndarray, derivatives: np.ndarray, values: np.ndarray, nuisances: slice) -> np.ndarray:
        """Computes the derivatives of the measurements, (K, C, Q).

        responses (K, C') and their derivatives (K, C', Q), values (M,) of the nuisances, whose columns of Q are `nuisances`.
        """
        out = derivatives[:, :self._measured].copy()
        if self._angle is not None:
            angle = values[self._angle]
            both = [self.channels.index(name) for name in ("vx", "vy")]
            # Linear in the velocities: the derivatives turn as they do.
            for (place, _, by_angle), turned in zip(self._turned(responses[..., None], np.array([angle])),
                                                    _rotated(derivatives[:, both[0]], derivatives[:, both[1]], angle)):
                if place < self._measured:
                    out[:, place] = turned
                    out[:, place, nuisances.start + self._angle] += by_angle[:, 0]
        for place, i in self._offsets:
            out[:, place, nuisances.start + i] += 1.0
        return out

    def _turned(self, responses: np.ndarray, angle: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        # Place, value and derivative by the angle of vx and vy.
        places = [self.channels.index(name) for name in ("vx", "vy")]
        vx, vy = (responses[:, place] for place in places)
        forward, left = _rotated(vx, vy, angle)
        return [(places[0], forward, left), (places[1], left, -forward)]


def _rotated(vx: np.ndarray, vy: np.ndarray, angle: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    c, s = np.cos(angle), np.sin(angle)
    return vx * c + vy * s, vy * c - vx * s
