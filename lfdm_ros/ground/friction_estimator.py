"""Friction estimation while driving: likelihood of the road's friction in short windows of a drive, from the calibrated model.

In each window the model starts from the measured state and follows the measured inputs, for a grid of frictions at the window's middle and
draws of the unknowns: friction at each wheel, from the field's prior given that at the middle; the vehicle's parameters, from their
posterior; sensor errors at the start. Mean and covariance of these runs, with the sensors' noise, give a Gaussian of the measurements: the
synthetic likelihood of Wood (2010). At low grip utilisation all frictions predict the same, and the likelihood is flat.
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
LATENT = np.linspace(-4.5, 4.5, 37)  # grid of latent friction; beyond, the link is within 1 % of ice or dry
_INSTANTS = 5  # instants of a window with drawn wheel friction, linear between
_WHEELS = "omega"
_NEEDED = ("x", "y", "yaw", "vx", "vy", "yaw_rate")
_JITTER = 1e-9  # of the variance
LEAD = 0.4  # [s] before a window for unmeasured states to settle
_PEDAL = 0.1  # maximum for the assumption of free rolling without wheel speeds


@dataclass(frozen=True)
class EstimatorSettings:
    """Settings of the estimator: windows of a drive, model and noise.

    window: length of one [s]; samples: compared instants of a window; draws: of the unknowns; step: of the model, at most [s]; model:
    chassis; noise: standard deviation of each channel's sensor [SI], by state of the model or stem of the wheels'; error: growth of the
    model error by channel, standard deviation after one second [SI/s]; weight: power of each window's likelihood, as model errors of
    successive windows are correlated; prescribed: states that follow the measurement, vx if the drive torque is unknown. Raises InputError:
    out of range.
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
    """Measurements of a drive at uniform times: times (K,) [s], inputs at the actuators (K, 3), states by name (K,), NaN if missing; x, y,
    yaw, vx, vy and yaw_rate among them."""

    times: np.ndarray
    inputs: np.ndarray
    states: Mapping[str, np.ndarray]


class FrictionEstimator:
    """Estimator of friction likelihoods in windows of the drives of one vehicle."""

    def __init__(self, vehicle: Vehicle, link: FrictionLink, prior: FieldPrior, settings: EstimatorSettings | None = None,
                 posterior: Mapping[str, np.ndarray] | None = None):
        """Compiles the model for windows of a drive.

        Args:
            link: from the latent friction to that of the road, relative to the road of the vehicle's friction_scale.
            prior: of the latent friction, for its variation among wheels and along a window.
            posterior: draws (S,) of parameters by name; None: the vehicle's parameters, taken as exact.

        Raises:
            InputError: a model without friction of the ground, or without a channel.
        """
        self.settings = s = settings or EstimatorSettings()
        model = vehicle.model(f"{s.model}/{_GROUND}")
        names, states = [f.name for f in model.parameters], [f.name for f in model.states]
        if not any(name.startswith("friction") for name in names):
            raise InputError(f"friction estimator: the tyres of {s.model} have no friction limit; choose a model whose tyres slip")
        self._noise, self._error = (_by_state(values, states, model.name) for values in (s.noise, s.error))
        self.vehicle, self._model, self._link, self._prior = vehicle, model, link, prior
        self._channels, self._states = tuple(self._noise), states
        self._wheels = [name for name in states if name.startswith(f"{_WHEELS}_")]
        self._corners = np.array([_corner(vehicle, wheel) for wheel in model.wheels])
        self._friction_inputs = [i for i, f in enumerate(model.inputs) if f.stem == _FRICTION]
        # Common random numbers for all frictions and windows keep the likelihood smooth.
        random = np.random.default_rng(1)
        posterior_draws = {name: np.asarray(values, float) for name, values in (posterior or {}).items()}
        chosen = random.integers(0, min(map(len, posterior_draws.values())), s.draws) if posterior_draws else np.zeros(s.draws, int)
        drawn = {name: values for name, values in posterior_draws.items() if name in names}
        # Factor of the field's friction, as in the ground `friction_field`.
        scale = FRICTION_SCALE.name
        self._scale = posterior_draws[scale][chosen] if scale in posterior_draws else np.full(s.draws, vehicle.parameters.get(scale, 1.0))
        self._parameters = tuple(drawn)
        self._theta = np.tile(np.array([values[chosen] for values in drawn.values()]).reshape(-1, s.draws).T, (len(LATENT), 1))
        self._around = random.standard_normal((s.draws, _INSTANTS * len(self._corners)))
        self._errors = random.standard_normal((s.draws, len(self._channels))) * list(self._noise.values())
        self._rollouts: dict[tuple[int, float], BatchRollout] = {}

    def estimate(self, drive: MeasuredDrive, since: float = -np.inf) -> FrictionLikelihood:
        """Estimates the friction of each whole window from `since` [s] on without missing measurements.

        Windows are counted from the drive's first row; rows before `since` let unmeasured states settle. Channels without any measurement
        are not compared. Without wheel speeds the wheels are assumed to roll freely, and windows with a pedal above 10 % are skipped,
        unless vx is prescribed. Raises InputError: times not uniform, or further apart than a window; a required state without
        measurements.
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
        middles = [self._wheel_positions(measured, begin + np.array([0, count])).mean(axis=(0, 1)) for begin in begins]
        return FrictionLikelihood(np.array(middles).reshape(-1, 2), LATENT, np.array(logs).reshape(-1, len(LATENT)))

    def _wheel_positions(self, measured: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
        """Computes positions of the wheels at some rows (rows, wheels, 2) [m]."""
        x, y, yaw = (np.interp(rows, np.arange(len(measured[name])), measured[name])[:, None] for name in ("x", "y", "yaw"))
        ahead, left = self._corners.T
        return np.stack([x + ahead * np.cos(yaw) - left * np.sin(yaw), y + ahead * np.sin(yaw) + left * np.cos(yaw)], axis=-1)

    def _frictions(self, measured: Mapping[str, np.ndarray], begin: int, count: int) -> np.ndarray:
        """Computes the friction of each wheel in a window, (M S, count + 1, wheels), given the latent friction at its middle."""
        positions = self._wheel_positions(measured, begin + np.linspace(0.0, count, _INSTANTS))
        middle, flat = positions[[0, -1]].mean(axis=(0, 1))[None], positions.reshape(-1, 2)
        variance = self._prior.sigma_f**2
        to_middle = self._prior.covariance(flat, middle)[:, 0] / variance
        left = self._prior.covariance(flat, flat) - variance * np.outer(to_middle, to_middle)
        around = self._around @ linalg.cholesky(left + _JITTER * variance * np.eye(len(flat)), lower=True).T
        expected = self._prior.mean(*flat.T) + to_middle * (LATENT[:, None] - self._prior.mean(*middle.T))  # (M, P)
        friction = self._link.friction(expected[:, None] + around) * self._scale[:, None]
        friction = friction.reshape(len(LATENT) * len(around), _INSTANTS, -1)
        place = np.arange(count + 1) * (_INSTANTS - 1) / count
        first = np.minimum(place.astype(int), _INSTANTS - 2)
        share = (place - first)[:, None]
        return (1.0 - share) * friction[:, first] + share * friction[:, first + 1]

    def _window(self, measured: Mapping[str, np.ndarray], driven: np.ndarray, begin: int, count: int, interval: float, ends: np.ndarray,
                channels: list[int]) -> np.ndarray:
        s, m = self.settings, len(LATENT)
        friction = self._frictions(measured, begin, count)
        inputs = np.repeat(with_ground(self._model, driven[begin:begin + count + 1])[None], len(friction), axis=0)
        inputs[:, :, self._friction_inputs] = friction
        prescribed = [np.broadcast_to(measured[name][begin:begin + count + 1, None], (*inputs.shape[:2], 1)) for name in s.prescribed]
        inputs = np.concatenate([inputs, *prescribed], axis=2) if prescribed else inputs
        rollout = self._rollouts.get((count, interval))
        if rollout is None:
            rollout = self._rollouts[count, interval] = BatchRollout(
                model=self._model, vehicle=self.vehicle, dt=s.step, times=interval * np.arange(count + 1), inputs=inputs,
                parameters=self._parameters, channels=self._channels, prescribed=s.prescribed)
        measured_states = self._measured_states(measured, begin)
        start = initial_state(self._model, self.vehicle, **measured_states)
        starts = np.repeat(self._starts(measured, driven, begin, interval, measured_states, start), s.draws, axis=0)
        for i in channels:
            # A measurement is the true value plus an error. Freely rolling wheels follow the vehicle.
            name = self._channels[i]
            change = initial_state(self._model, self.vehicle, **{**measured_states, name: measured_states[name] + 1.0}) - start
            starts -= np.tile(self._errors[:, i], m)[:, None] * change
        runs = rollout.trajectories(self._theta, starts, inputs)[:, ends][:, :, channels]
        measured_ends = np.column_stack([measured[self._channels[i]][begin + ends] for i in channels])
        names = [self._channels[i] for i in channels]
        return self._log_likelihood(runs.reshape(m, s.draws, -1), measured_ends.ravel(), interval * ends, names)

    def _starts(self, measured: Mapping[str, np.ndarray], driven: np.ndarray, begin: int, interval: float,
                measured_states: Mapping[str, float], start: np.ndarray) -> np.ndarray:
        """Computes states (M, nx) at a row, for each friction: measured ones from `start`, the rest, such as roll, from a lead-in that
        follows the measurements."""
        starts = np.repeat(start[None], len(LATENT), axis=0)
        follow = [*self.settings.prescribed, *(name for name in self._channels
                                               if name in measured and name not in self.settings.prescribed)]
        gaps = np.flatnonzero(~np.isfinite(np.column_stack([driven, *(measured[name] for name in follow)])[:begin]).all(axis=1))
        first = max(begin - round(LEAD / interval), gaps[-1] + 1 if len(gaps) else 0)
        if begin - first < 2:
            return starts
        rows = slice(first, begin + 1)
        inputs = np.repeat(with_ground(self._model, driven[rows])[None], len(LATENT), axis=0)
        inputs[:, :, self._friction_inputs] = self._scale.mean() * self._link.friction(LATENT)[:, None, None]
        prescribed = np.column_stack([measured[name][rows] for name in follow])
        table = np.concatenate([inputs, np.repeat(prescribed[None], len(LATENT), axis=0)], axis=2)
        lead = BatchRollout(model=self._model, vehicle=self.vehicle, dt=self.settings.step, times=interval * np.arange(begin - first + 1),
                            inputs=table, parameters=(), channels=self._states, prescribed=follow)
        lead_start = initial_state(self._model, self.vehicle, **self._measured_states(measured, first))
        lead_end = lead.trajectories(np.zeros((len(LATENT), 0)), lead_start)[:, -1]
        others = [i for i, name in enumerate(self._states) if name not in measured_states]
        starts[:, others] = lead_end[:, others]
        return starts

    def _measured_states(self, measured: Mapping[str, np.ndarray], row: int) -> dict[str, float]:
        return {name: float(values[row]) for name, values in measured.items() if name in self._states and np.isfinite(values[row])}

    def _log_likelihood(self, runs: np.ndarray, measured_ends: np.ndarray, after: np.ndarray, names: list[str]) -> np.ndarray:
        """Computes the log likelihood (M,) of runs (M, S, D) for measurements (D,); after: times of the samples since the start [s]."""
        noise, error = (np.array([sd.get(name, 0.0) for name in names]) for sd in (self._noise, self._error))
        # The model error grows with time and is fully correlated between samples.
        noise_covariance = np.diag(np.tile(noise**2, len(after))) + np.kron(np.outer(after, after), np.diag(error**2))
        logs = np.full(len(runs), -1e6)
        for i, run in enumerate(runs):
            if np.isfinite(run).all():
                mean = run.mean(axis=0)
                deviation = run - mean
                factor = linalg.cholesky(deviation.T @ deviation / (len(run) - 1) + noise_covariance, lower=True)
                whitened = linalg.solve_triangular(factor, measured_ends - mean, lower=True)
                # Student's t for a covariance estimated from draws (Sellentin & Heavens 2016, eq 5).
                logs[i] = -0.5 * len(run) * np.log1p(float(whitened @ whitened) / (len(run) - 1)) - float(np.log(factor.diagonal()).sum())
        return self.settings.weight * (logs - logs.max())


def _by_state(channels: Mapping[str, float], states: Sequence[str], model: str) -> dict[str, float]:
    """Returns values by state; the stem of the wheels is expanded to each wheel of the model."""
    out: dict[str, float] = {}
    for name, value in channels.items():
        of_wheels = [state for state in states if state.startswith(f"{name}_")] if name == _WHEELS else []
        if name not in states and name != _WHEELS:
            raise InputError(f"friction estimator: model '{model}' has no state '{name}'{suggest(name, states, 'choose from ')}")
        out |= dict.fromkeys(of_wheels, value) if name == _WHEELS else {name: value}
    return out


def _corner(vehicle: Vehicle, wheel: str) -> tuple[float, float]:
    """Returns the position of a wheel from the vehicle's centre of gravity, ahead and left [m]; an axle's single wheel is on the
    centreline."""
    p, front = vehicle.parameters, wheel.startswith("f")
    side = {"l": 0.5, "r": -0.5}.get(wheel[1:], 0.0)
    return (p["cg_to_front_axle"] if front else -p["cg_to_rear_axle"], side * p[f"track_{'front' if front else 'rear'}"] if side else 0.0)
