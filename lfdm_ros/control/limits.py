"""Largest steering by speed at which no wheel lifts, computed offline with a vehicle's largest model (paper 001 section 2.1).

At each speed the vehicle makes a family of manoeuvres from straight coasting, all at the actuator's steering rate: a step of amplitude d,
and reversals, from +d to -d after a dwell, as in a lane change or NHTSA's fishhook; each with several brake levels. The limit is the
largest d up to which, in all of them, no wheel's load falls to the margin and the rear axle does not slide away. The speed is that at
the start.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros.backends import ARRAYS, casadi_model
from lfdm_ros.cache_key import package_digest
from lfdm_ros.compiler.code_cache import cached, fingerprint
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model, functions_of
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import Vehicle

# Models with a load of each wheel, the largest first; a smaller one is used if the vehicle lacks parameters.
CHASSIS = ("twenty_four_dof", "eighteen_dof", "eight_dof")
# Cause of the steering limit. none: full steering is safe; slower: the limit of a lower speed.
NONE, WHEEL_LOAD, SIDESLIP, SLOWER = ("none", "wheel_load", "sideslip", "slower")

SPEEDS = tuple(float(v) for v in np.linspace(2.0, 36.0, 16))
STEP, SAMPLE = 1e-3, 0.01  # [s] integration step, and sampling of the criteria
BRAKE_RISE = 0.2  # [s]
COARSE, FINE = 64, 16  # parts of the amplitude range, and of the part that contains the limit
STANDING = 1.0  # [m/s] below this speed slip angles are those at it


@dataclass(frozen=True)
class Manoeuvres:
    """Test manoeuvres of the vehicle, and their criteria.

    Args:
        speeds: at the start [m/s], rising.
        load_margin: smallest wheel load, share of the static one; 0 is lift-off.
        steering_rate: of the actuator, share of full steering a second, 0.04 to 100 [1/s].
        sideslip: largest slip angle of the rear axle [rad]; a sliding vehicle is out of control without wheel lift.
        brakes: brake levels, 0 to 1.
        dwells: time for which reversals hold the first side [s]; empty: only steps.
        settling: time for which the last angle is held [s]. At high speed many vehicles are unstable, more so when braking unloads the
            rear axle: the longer without countersteering, the lower the limit. One second assumes an attentive driver.

    Raises:
        InputError: a value out of range.
    """

    speeds: tuple[float, ...] = SPEEDS
    load_margin: float = 0.1
    steering_rate: float = 1.0
    sideslip: float = 0.3
    brakes: tuple[float, ...] = (0.0, 0.3)
    dwells: tuple[float, ...] = (0.0, 0.4)
    settling: float = 1.0

    def __post_init__(self) -> None:
        for name in ("speeds", "brakes", "dwells"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        v = np.array(self.speeds)
        for good, message in (
            (len(v) > 1 and np.isfinite(v).all() and v[0] > 0.0 and (np.diff(v) > 0.0).all(), "give 2 or more rising speeds above 0 m/s"),
            (0.0 <= self.load_margin < 1.0, f"load_margin {self.load_margin} must be in [0, 1)"),
            (0.04 <= self.steering_rate <= 100.0, f"steering_rate {self.steering_rate} 1/s must be in [0.04, 100]"),
            (0.0 < self.sideslip < np.pi / 2, f"sideslip {self.sideslip} rad must be in (0, pi/2)"),
            (len(self.brakes) > 0 and all(0.0 <= b <= 1.0 for b in self.brakes), "brakes must be one or more levels in [0, 1]"),
            (all(0.0 <= d <= 5.0 for d in self.dwells), "dwells must be in [0, 5] s"),
            (0.0 < self.settling <= 10.0, f"settling {self.settling} s must be in (0, 10]"),
        ):
            if not good:
                raise InputError(f"lift limits: {message}")

    def runs(self, amplitudes: np.ndarray, sides: Sequence[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns sample times (K,) [s], the driver's inputs (A, M, K, 3) of M manoeuvres at A amplitudes, and the ends of these (A, M)
        [s]."""
        rate, d = self.steering_rate, amplitudes[:, None]
        turned = max((3.0 * amplitudes[-1] / rate + dwell for dwell in self.dwells), default=amplitudes[-1] / rate)
        times = SAMPLE * np.arange(int(np.ceil((turned + self.settling) / SAMPLE)) + 1)
        first = np.minimum(rate * times, d)
        # Steering of each form, and when its last angle is reached.
        forms = [(first, d / rate)]
        forms += [(first - np.clip(rate * (times - d / rate - dwell), 0.0, 2.0 * d), 3.0 * d / rate + dwell) for dwell in self.dwells]
        runs = [(side * steering, end + self.settling, level) for side in sides for steering, end in forms for level in self.brakes]
        table = np.zeros((len(amplitudes), len(runs), len(times), 3))
        ends = np.empty((len(amplitudes), len(runs)))
        for m, (steering, end, level) in enumerate(runs):
            table[:, m, :, 0], table[:, m, :, 2] = steering, level * np.minimum(times / BRAKE_RISE, 1.0)
            ends[:, m] = end[:, 0]
        return times, table, ends


@dataclass(frozen=True, eq=False)
class LimitTable:
    """Largest steering by speed; see `lift_limits`."""

    speeds: np.ndarray  # (n,) [m/s], rising
    steering: np.ndarray  # (n,) share of the full steering input, to either side, never rising
    road_wheel_angle: np.ndarray  # (n,) [rad] of the front wheels at that steering
    lateral_acceleration: np.ndarray  # (n,) [m/s^2] largest in the manoeuvres at that steering
    cause: tuple[str, ...]  # n of CAUSES
    vehicle: str
    model: str  # full specification
    tyre: str
    load_margin: float
    steering_rate: float  # [1/s]
    key: str  # hash of parameters, model, manoeuvres and sources

    @cached_property
    def _knots(self) -> tuple[np.ndarray, np.ndarray]:
        # A vehicle at a given lateral acceleration needs steering linear in 1/v^2. Above the last speed the limit falls as 1/v^2.
        # In an interval where full steering ends, the limit is that of the upper end.
        steering = self.steering.copy()
        free = np.flatnonzero(np.array(self.cause) == NONE)
        if len(free) and free[-1] + 1 < len(steering):
            i = free[-1]
            steering[i] = min(steering[i], steering[i + 1] * (self.speeds[i + 1] / self.speeds[i]) ** 2)
        return np.concatenate([[0.0], self.speeds[::-1] ** -2]), np.concatenate([[0.0], steering[::-1]])

    def at(self, speed: ArrayLike) -> np.ndarray:
        """Returns the largest steering (share of the full input, either side) at speeds [m/s], of the speeds' shape.

        Conservative at its beginning: already less than full at the last speed of full steering.
        """
        largest: np.ndarray = np.interp(np.maximum(speed, self.speeds[0]) ** -2.0, *self._knots)
        return largest


def lift_limits(vehicle: Vehicle, model: str = CHASSIS[0], tyre: str | None = None, *, manoeuvres: Manoeuvres | None = None) -> LimitTable:
    """Returns the limits of a vehicle, from the cache directory or computed (seconds) and stored there.

    Args:
        model: a chassis, or a full specification; if the vehicle lacks its parameters, the next smaller chassis. The table names it.
        tyre: name of a tyre model; default the vehicle's.

    Raises:
        InputError: the model has no wheel loads, the vehicle fits no such model, or the margin is lost without steering.
    """
    manoeuvres = manoeuvres or Manoeuvres()
    chosen = largest_model(vehicle, model, tyre)
    key = _key(vehicle, chosen, manoeuvres)
    columns = json.loads(cached(f"limits-{key}.json", lambda: json.dumps(_Study(vehicle, chosen, manoeuvres).columns()).encode()))
    return LimitTable(
        speeds=np.array(manoeuvres.speeds), steering=np.array(columns["steering"]), road_wheel_angle=np.array(columns["road_wheel_angle"]),
        lateral_acceleration=np.array(columns["lateral_acceleration"]), cause=tuple(columns["cause"]), vehicle=vehicle.name,
        model=chosen.name,
        tyre=next((part for part in chosen.name.split("/") if part in SLOTS["tyre"]), next(iter(SLOTS["tyre"]))),
        load_margin=manoeuvres.load_margin, steering_rate=manoeuvres.steering_rate, key=key)


def largest_model(vehicle: Vehicle, model: str = CHASSIS[0], tyre: str | None = None) -> Model:
    """Returns the largest model with a load of each wheel that a vehicle has the parameters of, at most `model`; errors as
    `lift_limits`."""
    base, *parts = model.split("/")
    if base not in CHASSIS:
        raise InputError(f"lift limits: model '{base}' has no load of each wheel; choose one of {', '.join(CHASSIS)}")
    missing: InputError | None = None
    for chassis in CHASSIS[CHASSIS.index(base):]:
        try:
            return vehicle.model("/".join([chassis, *parts]), tyre)
        except InputError as error:
            missing = missing or error
    assert missing is not None
    raise missing


# -- The study ----------------------------------------------------------------------------------------------------------------


class _Study:
    """All manoeuvres of one vehicle on one model."""

    def __init__(self, vehicle: Vehicle, model: Model, manoeuvres: Manoeuvres):
        self._vehicle, self._model, self._manoeuvres = vehicle, model, manoeuvres
        self._channels = [f.name for f in model.states]
        self._equations = functions_of(model, ARRAYS)
        with np.errstate(all="ignore"):
            self._q = self._equations.prepare(SimpleNamespace(**{f.name: vehicle.parameters[f.name] for f in model.parameters}))
        shares = np.linspace(0.0, 1.0, COARSE + 1)
        left, right = self._angle(shares), self._angle(-shares)
        self._sides = (1.0,) if np.allclose(left, -right, rtol=1e-12, atol=1e-12) else (1.0, -1.0)

    def columns(self) -> dict[str, list[Any]]:
        limits, accelerations, causes = [], [], []
        limit, cause = 1.0, NONE
        for speed in self._manoeuvres.speeds:
            # Upwards in speed, each range ending at the last limit: the limit cannot rise.
            amplitudes = np.linspace(0.0, limit, COARSE + 1)
            within, why, acceleration = self._evaluate(speed, amplitudes)
            i = _first_false(within)
            if i < len(amplitudes):
                cause = why[i]
                amplitudes = np.linspace(amplitudes[i - 1], amplitudes[i], FINE + 1)
                within, why, acceleration = self._evaluate(speed, amplitudes)
                i = _first_false(within)
            elif cause != NONE:
                cause = SLOWER
            limit = float(amplitudes[i - 1])
            limits.append(limit)
            accelerations.append(float(acceleration[i - 1]))
            causes.append(cause)
        angles = np.minimum(np.abs(self._angle(np.array(limits))), np.abs(self._angle(-np.array(limits))))
        return dict(steering=limits, road_wheel_angle=angles.tolist(), lateral_acceleration=accelerations, cause=causes)

    def _evaluate(self, speed: float, amplitudes: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Returns by amplitude: all criteria met, the violated criterion, and the largest lateral acceleration [m/s^2].
        Raises InputError: they are violated without steering."""
        manoeuvres, vehicle, model = self._manoeuvres, self._vehicle, self._model
        times, table, ends = manoeuvres.runs(amplitudes, self._sides)
        shape = table.shape[:2]
        inputs = table.reshape(-1, *table.shape[2:])
        batch = BatchRollout(model=model, vehicle=vehicle, dt=STEP, times=times, inputs=inputs, parameters=(),
                             channels=self._channels)
        runs = batch.trajectories(np.zeros((len(inputs), 0)), initial_state(model, vehicle, vx=speed))
        with np.errstate(all="ignore"):  # both branches of a choice are computed, and a run may diverge
            states = dict(zip(self._channels, runs.transpose(2, 1, 0)))  # each (K, N)
            wheels = self._equations.wheel_loads(tuple(states.values()), tuple(inputs.transpose(2, 1, 0)), self._q)
            loads = np.minimum.reduce([load / load[0] for load in wheels])
            across = np.abs(states["vy"] - vehicle.parameters["cg_to_rear_axle"] * states["yaw_rate"])
            slips = np.arctan2(across, np.maximum(states["vx"], STANDING))
        over = times[:, None] > ends.ravel() + 1e-9
        load = np.where(over, np.inf, loads).min(axis=0)
        slip, acceleration = (np.where(over, 0.0, series).max(axis=0) for series in (slips, np.abs(states["ay"])))
        # NaN violates the criteria.
        loaded, stable = ((good.reshape(shape).all(axis=1)) for good in (load > manoeuvres.load_margin, slip < manoeuvres.sideslip))
        if amplitudes[0] == 0.0 and not (loaded[0] and stable[0]):
            raise InputError(f"lift limits: at {speed:g} m/s braking with {max(manoeuvres.brakes):g} in a straight line leaves a wheel "
                             f"less than {manoeuvres.load_margin:g} of its load, or the vehicle unstable; lower load_margin or brakes")
        return loaded & stable, [SIDESLIP if ok else WHEEL_LOAD for ok in loaded], acceleration.reshape(shape).max(axis=1)

    def _angle(self, steering: np.ndarray) -> np.ndarray:
        state = tuple(initial_state(self._model, self._vehicle, vx=self._manoeuvres.speeds[0]))
        with np.errstate(all="ignore"):
            angle: np.ndarray = self._equations.drive(state, (steering, 0.0, 0.0), self._q)[2]
            return angle


def _first_false(within: np.ndarray) -> int:
    return len(within) if within.all() else int(np.argmin(within))


# -- The cache ----------------------------------------------------------------------------------------------------------------

# Beside models, back ends and compiler.
CACHE_DEPENDENCIES = ("control/limits", "simulation", "vehicles", "bounds", "units", "documents", "numerics")


def _key(vehicle: Vehicle, model: Model, manoeuvres: Manoeuvres) -> str:
    digest = hashlib.sha256("|".join([casadi_model(model).digest, json.dumps(asdict(manoeuvres)), fingerprint(),
                                      package_digest(CACHE_DEPENDENCIES)]).encode())
    digest.update(vehicle.vector(model).tobytes())
    return digest.hexdigest()[:32]
