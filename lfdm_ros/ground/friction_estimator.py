"""Friction estimation while driving: the likelihood of the road's friction in each short window of a drive, by the calibrated model.

In each window the model starts from what was measured and follows the inputs that acted, for each of some frictions in the middle of
the window and each of some draws of what is not known: the friction that each wheel meets around there, from the field's prior given that
in the middle; the vehicle's parameters, from their posterior; the errors of the sensors at the start. Their mean and covariance, with the
sensors' noise, make a Gaussian of what was measured then: the synthetic likelihood of Wood (2010). Where the tyres use little of
their grip all frictions foretell the same and the likelihood is flat: it says how little is known by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg

from lfdm_ros.errors import InputError, suggest
from lfdm_ros.ground.friction_field import FrictionLink
from lfdm_ros.ground.learning import FrictionLikelihood
from lfdm_ros.ground.prior import FieldPrior
from lfdm_ros.models.ground import FRICTION_SCALE
from lfdm_ros.simulation import BatchRollout, initial_state, with_ground
from lfdm_ros.vehicles import Vehicle

_GROUND, _FRICTION = "given_ground", "ground_friction"
LATENT = np.linspace(-4.5, 4.5, 37)  # values that are compared: beyond, the link is ice or dry but for 1 %
_INSTANTS = 5  # of a window at which the wheels' friction is drawn, linear between
_WHEELS = "omega"
_NEEDED = ("x", "y", "yaw", "vx", "vy", "yaw_rate")
_JITTER = 1e-9  # of the variance
LEAD = 0.4  # [s] before a window in which what is not measured settles
_PEDAL = 0.1  # up to which wheels that were not measured may be taken to roll freely


@dataclass(frozen=True)
class EstimatorSettings:
    """Settings of the estimator: windows of a drive, model and noise.

    window: length of one [s]; samples: of it that are compared; draws: of what is not known; step: of the model, at most [s];
    model: chassis; noise: standard deviation of each channel's sensor [SI], states of the model or the stem of the wheels'; error: growth
    of the model's own error by channel, standard deviation after one second [SI/s]; weight: power of each window's likelihood: what the
    model misses in one it misses in the next; prescribed: states that follow what was measured, vx where nobody knows what the motor does.

    Raises:
        InputError: out of range.
    """

    window: float = 0.2
    samples: int = 2
    draws: int = 64
    step: float = 2e-3
    model: str = "eight_dof"
    noise: Mapping[str, float] = field(default_factory=lambda: {"vx": 0.03, "vy": 0.03, "yaw_rate": 0.005, _WHEELS: 0.1})
    error: Mapping[str, float] = field(default_factory=lambda: {"vx": 0.6, "vy": 0.9, "yaw_rate": 0.3, _WHEELS: 1.5})

    weight: float = 0.35
    prescribed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 < self.weight <= 1.0:
            raise InputError(f"friction estimator: weight {self.weight:g} is not in (0, 1]")
        if not 0.02 <= self.window <= 5.0 or self.samples < 1 or self.draws < 8 or not 0.0 < self.step <= 0.02:
            raise InputError("friction estimator: window 0.02 to 5 s, at least 1 sample and 8 draws, step up to 0.02 s")
        if not self.noise or min(self.noise.values()) <= 0.0 or min(self.error.values(), default=0.0) < 0.0:
            raise InputError("friction estimator: noise needs a channel, and deviations above 0")


@dataclass(frozen=True)
class MeasuredDrive:
    """A drive as it was measured, at even times: times (K,) [s], inputs (K, 3) that acted, states by name (K,), NaN where not measured;
    x, y, yaw, vx, vy and yaw_rate among them."""

    times: np.ndarray
    inputs: np.ndarray
    states: Mapping[str, np.ndarray]


class FrictionEstimator:
    """Likelihoods of the friction in the windows of drives of one vehicle."""

    def __init__(self, vehicle: Vehicle, link: FrictionLink, prior: FieldPrior, settings: EstimatorSettings | None = None,
                 posterior: Mapping[str, np.ndarray] | None = None, seed: int = 1):
        """Compiles the model for windows of a drive.

        Args:
            link: between the latent friction and that of the road, over the one that the vehicle's friction_scale is of.
            prior: of the latent friction: how different it is under four wheels and along a window.
            posterior: draws (S,) of parameters by name; without: the vehicle's own, taken as known.

        Raises:
            InputError: a model that takes no friction of the ground, or a channel that it does not have.
        """
        self.settings = s = settings or EstimatorSettings()
        model = vehicle.model(f"{s.model}/{_GROUND}")
        names, states = [f.name for f in model.parameters], [f.name for f in model.states]
        if not any(name.startswith("friction") for name in names):
            raise InputError(f"friction estimator: the tyres of {s.model} hold on any road; choose a model whose tyres slip")
        self._noise, self._error = (_by_state(given, states, model.name) for given in (s.noise, s.error))
        self.vehicle, self._model, self._link, self._prior = vehicle, model, link, prior
        self._channels, self._states = tuple(self._noise), states
        self._wheels = [name for name in states if name.startswith(f"{_WHEELS}_")]
        self._corners = np.array([_corner(vehicle, wheel) for wheel in model.wheels])
        self._met = [i for i, f in enumerate(model.inputs) if f.stem == _FRICTION]
        # The same draws for all frictions and windows: a likelihood is not to jump by chance.
        random = np.random.default_rng(seed)
        posterior_draws = {name: np.asarray(values, float) for name, values in (posterior or {}).items()}
        chosen = random.integers(0, min(map(len, posterior_draws.values())), s.draws) if posterior_draws else np.zeros(s.draws, int)
        drawn = {name: values for name, values in posterior_draws.items() if name in names}
        # What a field's friction is multiplied by, as the ground `friction_field` has it.
        scale = FRICTION_SCALE.name
        self._scale = posterior_draws[scale][chosen] if scale in posterior_draws else np.full(s.draws, vehicle.parameters.get(scale, 1.0))
        self._parameters = tuple(drawn)
        self._theta = np.tile(np.array([values[chosen] for values in drawn.values()]).reshape(-1, s.draws).T, (len(LATENT), 1))
        self._around = random.standard_normal((s.draws, _INSTANTS * len(self._corners)))
        self._errors = random.standard_normal((s.draws, len(self._channels))) * list(self._noise.values())
        self._rollouts: dict[tuple[int, float], BatchRollout] = {}

    def estimate(self, drive: MeasuredDrive, since: float = -np.inf) -> FrictionLikelihood:
        """Estimates the friction of each whole window, from `since` [s] on, in which all channels of this vehicle's sensors were measured.

        Windows are counted from the drive's first row; before `since` those states settle that are not measured. Channels that were never
        measured are not compared. Without wheel speeds the wheels are taken to roll freely, and windows with more than a tenth of a pedal
        are left out, unless vx is prescribed.

        Raises:
            InputError: times that are not even, or further apart than a window; a state that is needed was never measured.
        """
        s, times = self.settings, np.asarray(drive.times, float)
        interval = float(np.median(np.diff(times))) if len(times) > 1 else s.window
        count = round(s.window / interval)
        if count < 1 or np.abs(np.diff(times) - interval).max(initial=0.0) > 1e-3 * interval:
            raise InputError(f"friction estimator: states must come evenly, at least one a window of {s.window:g} s")
        measured = {name: np.asarray(values, float) for name, values in drive.states.items() if np.isfinite(values).any()}
        for name in _NEEDED:
            if name not in measured:
                raise InputError(f"friction estimator: {name} was never measured; there are: {', '.join(sorted(measured))}")
        channels = [i for i, name in enumerate(self._channels) if name in measured and name not in s.prescribed]
        good = np.isfinite(drive.inputs).all(axis=1)
        for name in {*_NEEDED, *s.prescribed, *(self._channels[i] for i in channels)}:
            good &= np.isfinite(measured[name])
        if not measured.keys() >= set(self._wheels) and "vx" not in s.prescribed:
            good &= np.abs(drive.inputs[:, 1:]).max(axis=1) <= _PEDAL
        begins = [b for b in range(0, len(times) - count, count) if times[b] > since - 0.5 * interval and good[b:b + count + 1].all()]
        ends = np.unique(np.round(np.linspace(0, count, s.samples + 1)).astype(int))[1:]
        logs = [self._window(measured, drive.inputs, begin, count, interval, ends, channels) for begin in begins]
        middles = [self._passed(measured, begin + np.array([0, count])).mean(axis=(0, 1)) for begin in begins]
        return FrictionLikelihood(np.array(middles).reshape(-1, 2), LATENT, np.array(logs).reshape(-1, len(LATENT)))

    def _passed(self, measured: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Computes places of the wheels at some rows (rows, wheels, 2) [m]."""
        x, y, yaw = (np.interp(rows, np.arange(len(measured[name])), measured[name])[:, None] for name in ("x", "y", "yaw"))
        ahead, left = self._corners.T
        return np.stack([x + ahead * np.cos(yaw) - left * np.sin(yaw), y + ahead * np.sin(yaw) + left * np.cos(yaw)], axis=-1)

    def _frictions(self, measured: Mapping[str, np.ndarray], begin: int, count: int) -> np.ndarray:
        """Computes the friction of each wheel in a window, (M S, count + 1, wheels), given the latent friction in its middle."""
        instants = np.linspace(0.0, count, _INSTANTS)
        places = self._passed(measured, begin + instants)
        middle, flat = places[[0, -1]].mean(axis=(0, 1))[None], places.reshape(-1, 2)
        variance = self._prior.sigma_f**2
        to_middle = self._prior.covariance(flat, middle)[:, 0] / variance
        left = self._prior.covariance(flat, flat) - variance * np.outer(to_middle, to_middle)
        around = self._around @ linalg.cholesky(left + _JITTER * variance * np.eye(len(flat)), lower=True).T
        expected = self._prior.mean(*flat.T) + to_middle * (LATENT[:, None] - self._prior.mean(*middle.T))  # (M, P)
        met = self._link.friction(expected[:, None] + around) * self._scale[:, None]
        met = met.reshape(len(LATENT) * len(around), _INSTANTS, -1)
        place = np.arange(count + 1) * (_INSTANTS - 1) / count
        first = np.minimum(place.astype(int), _INSTANTS - 2)
        share = (place - first)[:, None]
        return (1.0 - share) * met[:, first] + share * met[:, first + 1]

    def _window(self, measured: Mapping[str, np.ndarray], driven: np.ndarray, begin: int, count: int, interval: float, ends: np.ndarray,
                channels: list[int]) -> np.ndarray:
        s, m = self.settings, len(LATENT)
        met = self._frictions(measured, begin, count)
        inputs = np.repeat(with_ground(self._model, driven[begin:begin + count + 1])[None], len(met), axis=0)
        inputs[:, :, self._met] = met
        followed = [np.broadcast_to(measured[name][begin:begin + count + 1, None], (*inputs.shape[:2], 1)) for name in s.prescribed]
        inputs = np.concatenate([inputs, *followed], axis=2) if followed else inputs
        rollout = self._rollouts.get((count, interval))
        if rollout is None:
            rollout = self._rollouts[count, interval] = BatchRollout(
                model=self._model, vehicle=self.vehicle, dt=s.step, times=interval * np.arange(count + 1), inputs=inputs,
                parameters=self._parameters, channels=self._channels, prescribed=s.prescribed)
        measured_states = self._measured_states(measured, begin)
        start = initial_state(self._model, self.vehicle, **measured_states)
        starts = np.repeat(self._starts(measured, driven, begin, interval, measured_states, start), s.draws, axis=0)
        for i in channels:
            # What was measured is the truth and an error. Wheels that roll freely go with the vehicle.
            name = self._channels[i]
            moved = initial_state(self._model, self.vehicle, **{**measured_states, name: measured_states[name] + 1.0}) - start
            starts -= np.tile(self._errors[:, i], m)[:, None] * moved
        runs = rollout.trajectories(self._theta, starts, inputs)[:, ends][:, :, channels]
        measured_ends = np.column_stack([measured[self._channels[i]][begin + ends] for i in channels])
        names = [self._channels[i] for i in channels]
        return self._log_likelihood(runs.reshape(m, s.draws, -1), measured_ends.ravel(), interval * ends, names)

    def _starts(self, measured: Mapping[str, np.ndarray], driven: np.ndarray, begin: int, interval: float,
                measured_states: Mapping[str, float], start: np.ndarray) -> np.ndarray:
        """Returns states (M, nx) at a row, for each friction: as `start` where a state is known, the rest, roll say, as of a vehicle that
        was measured so before."""
        starts = np.repeat(start[None], len(LATENT), axis=0)
        follow = [*self.settings.prescribed, *(name for name in self._channels
                                               if name in measured and name not in self.settings.prescribed)]
        gaps = np.flatnonzero(~np.isfinite(np.column_stack([driven, *(measured[name] for name in follow)])[:begin]).all(axis=1))
        first = max(begin - round(LEAD / interval), gaps[-1] + 1 if len(gaps) else 0)
        if begin - first < 2:
            return starts
        rows = slice(first, begin + 1)
        inputs = np.repeat(with_ground(self._model, driven[rows])[None], len(LATENT), axis=0)
        inputs[:, :, self._met] = self._scale.mean() * self._link.friction(LATENT)[:, None, None]
        prescribed = np.column_stack([measured[name][rows] for name in follow])
        table = np.concatenate([inputs, np.repeat(prescribed[None], len(LATENT), axis=0)], axis=2)
        lead = BatchRollout(model=self._model, vehicle=self.vehicle, dt=self.settings.step, times=interval * np.arange(begin - first + 1),
                            inputs=table, parameters=(), channels=self._states, prescribed=follow)
        begun = initial_state(self._model, self.vehicle, **self._measured_states(measured, first))
        led = lead.trajectories(np.zeros((len(LATENT), 0)), begun)[:, -1]
        others = [i for i, name in enumerate(self._states) if name not in measured_states]
        starts[:, others] = led[:, others]
        return starts

    def _measured_states(self, measured: Mapping[str, np.ndarray], row: int) -> dict[str, float]:
        return {name: float(values[row]) for name, values in measured.items() if name in self._states and np.isfinite(values[row])}

    def _log_likelihood(self, runs: np.ndarray, measured_ends: np.ndarray, after: np.ndarray, names: list[str]) -> np.ndarray:
        """Computes the log likelihood of runs (M, S, D), seen (D,), after: times of the samples since the start [s] -> (M,)."""
        noise, error = (np.array([given.get(name, 0.0) for name in names]) for given in (self._noise, self._error))
        # The model's own error grows as it goes: what it has missed before it misses later, too.
        noise_covariance = np.diag(np.tile(noise**2, len(after))) + np.kron(np.outer(after, after), np.diag(error**2))
        found = np.full(len(runs), -1e6)
        for i, run in enumerate(runs):
            if np.isfinite(run).all():
                mean = run.mean(axis=0)
                deviation = run - mean
                factor = linalg.cholesky(deviation.T @ deviation / (len(run) - 1) + noise_covariance, lower=True)
                whitened = linalg.solve_triangular(factor, measured_ends - mean, lower=True)
                # The covariance is known from some draws only: Student's t (Sellentin & Heavens 2016, eq 5).
                found[i] = -0.5 * len(run) * np.log1p(float(whitened @ whitened) / (len(run) - 1)) - float(np.log(factor.diagonal()).sum())
        return self.settings.weight * (found - found.max())


def _by_state(given: Mapping[str, float], states: Sequence[str], model: str) -> dict[str, float]:
    """Returns values by state; those of a stem are those of each wheel, and of none where the model has no wheels."""
    out: dict[str, float] = {}
    for name, value in given.items():
        of_wheels = [state for state in states if state.startswith(f"{name}_")] if name == _WHEELS else []
        if name not in states and name != _WHEELS:
            raise InputError(f"friction estimator: model '{model}' has no state '{name}'{suggest(name, states, 'choose from ')}")
        out |= dict.fromkeys(of_wheels, value) if name == _WHEELS else {name: value}
    return out


def _corner(vehicle: Vehicle, wheel: str) -> tuple[float, float]:
    """Returns the place of a wheel from the vehicle's centre, ahead and left [m]; one that stands for both of its axle on the middle
    line."""
    p, front = vehicle.parameters, wheel.startswith("f")
    side = {"l": 0.5, "r": -0.5}.get(wheel[1:], 0.0)
    return (p["cg_to_front_axle"] if front else -p["cg_to_rear_axle"],
            side * p[f"track_{'front' if front else 'rear'}"] if side else 0.0)
