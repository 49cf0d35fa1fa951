"""Risk: the probability that the vehicle fails within the next seconds, for the operator's command and for the autonomy's plan.

A plan is replaced in each cycle: where it fails, a stop along it is evaluated instead (for the operator, after autonomy has taken over),
and counts if it does less harm.

Monte Carlo over the uncertainties: vehicle parameters as draws of the calibrated posterior, road friction, state and obstacles with their
standard deviations, and the operator's remnant. Both intentions use the same random numbers (common random numbers), and the same ones in
each decision: their difference has a smaller variance than either, and does not flicker. Collision, wheel lift and the corridor are
checked inside the batch (`backends.hazard_kernel`), at each sample.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lfdm_ros.backends import casadi_model, in_parallel
from lfdm_ros.backends.hazard_kernel import CIRCLE, EDGE, FAR, GAINS, NORMALS, NUMBERS, REFERENCE, RESULTS
from lfdm_ros.control.command_limits import CommandLimits
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import REQUIRED, Prediction
from lfdm_ros.control.safety.braking import braking
from lfdm_ros.control.safety.lane_brake import HALTING, HALTING_SPEED
from lfdm_ros.control.safety.stops import NOMINAL, PLANNED, braking_model_of, peak_of
from lfdm_ros.errors import InputError
from lfdm_ros.models.declaration import INPUTS
from lfdm_ros.models.spinning import SPIN
from lfdm_ros.numerics import binomial_interval, matmul
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.fleet import Fleet, tyre_models
from lfdm_ros.sharing.intentions import (
    AUTONOMY,
    FIRST_TO_CORRECT,
    FORMER_INTENTIONS,
    GAIN_LOG_SD,
    INTENTIONS,
    OPERATOR,
    TAKEOVER,
    DrawnSteering,
    Intention,
    IntentionKind,
    OperatorView,
    PredictedOperator,
)
from lfdm_ros.sharing.operator_learning import LEAD, OPEN, REACTION, REMNANT, TERMS, PreviewSteering, hand_lag
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand
from lfdm_ros.simulation.path import Path, outside
from lfdm_ros.vehicles import Vehicle

ALL, OWN = "all", "own"  # tyre models
FAILURES = ("collision", "lift", "spin", "leaving")
BLOCK = 32  # runs that share one operator delay: the largest number of lanes of a kernel
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
SIGMAS = 3.0  # obstacles are considered out to 3 standard deviations of their position
ROWS = 256  # rows of random numbers for obstacles
# Pedestrians halt in a share of the runs, spread evenly over these times [s]. Rows of their random numbers, for each of these times and
# for walking on; the random number that removes a circle from a run, and the minimum position deviation [m] that makes it do so.
HALTS_AFTER, HALTING_ROWS, ABSENT, MIN_SD = np.array([0.0, 0.8, 1.6]), 32, 1e6, 0.01
MAX_SINGLE_DISTANCE = 1e5  # [m] from the origin up to which single precision resolves a centimetre
# Bounds on the accelerations of vehicles [m/s^2], which bound where an obstacle can matter.
MAX_LATERAL_ACCELERATION, MAX_BRAKING, MAX_LONGITUDINAL_ACCELERATION = 12.0, 12.0, 6.0
AHEAD, BEHIND = 10.0, 10.0  # [m] of the corridor beyond the distance driven within the horizon
BEYOND = 0.3  # [m] a vehicle already outside counts as leaving again after this much further excursion
# Autonomy whose plan fails replans or brakes within REPLAN_TIME [s]. A plan that collides in a larger share of the runs than MAX_COLLISIONS
# without braking has not detected the obstacle.
REPLAN_TIME, MAX_COLLISIONS = 0.2, 0.5
IMPACT = 1.0  # [m/s] minimum reduction of the impact speed that counts as better
# Initial states (nx, n) of the runs, and obstacles and edges, in the kernel's layout.
Scene = tuple[np.ndarray, tuple[np.ndarray, ...]]
BORDER_SPACING, BORDER_SAG = 0.5, 0.02  # [m] of border points, and largest error of the straight pieces


@dataclass(frozen=True)
class RiskSettings(Declared):
    """Events, accuracy and uncertainties of the risk. Raises InputError: a value is out of its range; the message names it."""

    model: str = setting("eight_dof", "", "vehicle model of the rollouts, by its name in the registry")
    tyres: str = setting(ALL, "", "own: use the vehicle's tyre model; all: divide the runs among all tyre models it has parameters for, "
                                  "since the right one in a slide is unknown", choices=(ALL, OWN))
    horizon: float = setting(3.0, "s", "prediction horizon", 0.2, 10.0)
    rollouts: int = setting(1024, "1", "rollouts of each intention", 16, 100_000)
    first_rollouts: int = setting(256, "1", "rollouts after which a clear result is accepted", 16, 100_000)
    clear: float = setting(0.02, "1", "a result is clear if the interval of the failure probability lies below this, or above 1 less this",
                           0.0, 0.5, live=True)
    sample: float = setting(0.05, "s", "time between collision checks", 0.005, 0.5)
    step: float = setting(0.01, "s", "largest integration step of the model", 0.001, 0.05)
    single: bool = setting(True, "", "compute in single precision, twice as fast")
    backend: str = setting("cpu", "", "cpu, or gpu: NVIDIA, worthwhile from some ten thousand rollouts on", choices=("cpu", "gpu"))
    seed: int = setting(1, "1", "seed of the random numbers, the same in each decision", 0, 2**31 - 1)
    intention: str = setting(FIRST_TO_CORRECT.name, "", "prediction of the operator: " + "; ".join(
        f"{kind.name}: {kind.description}" for kind in INTENTIONS.registered.values()) + "; without path and plan the prediction ends at "
        "the correction", choices=lambda: tuple(INTENTIONS), former=FORMER_INTENTIONS)
    # 0.085 perception, 0.05 decision, 0.05 motor and the lag of the hands, 2 x 0.707 / 10 rad/s, of `teleop.OperatorSettings`. This is the
    # reaction of a driver that steers continuously; a surprised one takes about a second.
    reaction: float = setting(REACTION, "s", "reaction time, from picture to hands, of an operator without a posterior yet; the link's "
                                             "delay, twice the age of the command, is added", 0.0, 10.0, live=True)
    # Of `SharingSettings`: 0.05 until the next assessment of the threat, 0.1 for k to rise, 0.35 for the steering to swing from side to
    # side; and a margin of 0.15 for model error.
    takeover: float = setting(0.65, "s", "time that autonomy needs to take over from the operator", 0.0, 10.0,
                              live=True)
    stop_brake: float = setting(CommandLimits.stop_brake, "1", "largest brake of autonomy's stop, as the controller's", 0.01, 1.0,
                                live=True)
    preview: float = setting(0.8, "s", "preview time of a driver that follows a plan or path", 0.1, 5.0, live=True)
    friction: float = setting(1.0, "1", "mean friction of the road, relative to the vehicle's", 0.05, 3.0, live=True)
    friction_sd: float = setting(0.1, "1", "standard deviation of the friction; 0: it is known", 0.0, 1.0)
    spin: float = setting(SPIN, "rad", "sideslip from which on the vehicle counts as spinning", 0.05, 1.5)
    # Published with the driver model (`teleop.body.REMNANT_RMS`), over the HMMWV's 0.65 rad; corner frequency 3 rad/s.
    remnant: float = setting(REMNANT, "1", "standard deviation of the operator's steering, share of full lock", 0.0, 1.0)
    remnant_time: float = setting(0.3, "s", "correlation time of the remnant", 0.01, 60.0)
    position_sd: float = setting(0.05, "m", "standard deviation of the vehicle's position, along and across", 0.0, 10.0)
    heading_sd: float = setting(0.005, "rad", "standard deviation of the vehicle's heading", 0.0, 1.0)
    speed_sd: float = setting(0.1, "m/s", "standard deviation of the vehicle's speed", 0.0, 10.0)
    obstacle_sd: float = setting(0.05, "m", "standard deviation of an obstacle's position per axis, where the tracker gives none", 0.0,
                                 10.0)
    obstacle_speed_sd: float = setting(0.3, "m/s", "standard deviation of a moving obstacle's velocity per axis, as above", 0.0, 20.0)
    halting: float = setting(0.2, "1", "probability that a pedestrian (an obstacle of up to 3 m/s) halts soon", 0.0, 1.0)


RISK = Exposed(RiskSettings, "risk_")


@dataclass(frozen=True)
class Frequency:
    """Event count in a number of runs, and the probability it estimates: `value` with its 95 % interval."""

    count: int
    runs: int

    @property
    def value(self) -> float:
        return self.count / self.runs

    @property
    def interval(self) -> tuple[float, float]:
        """Lower and upper end."""
        return binomial_interval(self.count, self.runs)


@dataclass(frozen=True, eq=False)
class Outlook:
    """Outcome of one intention: `collision`; `lift` of a wheel and `spin` before a collision; `leaving` of the corridor; `failure`: any of
    them, or a diverged state. failed, severe, hit_speed [m/s], 0 without a collision: (n,) by run; leaving alone is not severe; first:
    median time of the failures [s], NaN without."""

    collision: Frequency
    lift: Frequency
    spin: Frequency
    leaving: Frequency
    failure: Frequency
    failed: np.ndarray
    severe: np.ndarray
    hit_speed: np.ndarray
    first: float

    def spares(self, other: Outlook) -> np.ndarray:
        """Returns the runs (n,) in which this intention does better with the same random numbers: it avoids the other's failure or severe
        failure, or collides more slowly."""
        slower = (self.hit_speed > 0.0) & (other.hit_speed > self.hit_speed + IMPACT)
        return np.asarray((other.failed & ~self.failed) | (other.severe & ~self.severe) | slower)

    @property
    def harm(self) -> float:
        """Mean collision speed over all runs [m/s]; a run that fails otherwise counts as a collision at IMPACT."""
        return float(np.where(self.failed & (self.hit_speed == 0.0), IMPACT, self.hit_speed).mean())

    def by_name(self) -> dict[str, Frequency]:
        return {name: getattr(self, name) for name in FAILURES}


@dataclass(frozen=True, eq=False)
class Risk:
    """Risk of operator and autonomy at one decision. operator, autonomy: None where there is no command, no plan.

    averted: runs in which autonomy does better; harmed: in which the operator does; without autonomy all failures of the operator count as
    averted and none as harmed, without an operator both are 0. alike: both fail, neither does better. seconds: wall-clock time.
    """

    operator: Outlook | None
    autonomy: Outlook | None
    averted: Frequency
    harmed: Frequency
    alike: Frequency
    horizon: float
    seconds: float

    @property
    def probabilities(self) -> dict[str, Frequency]:
        """Probabilities of both drivers by name."""
        probabilities: dict[str, Frequency] = {}
        for driver, outlook in ((OPERATOR, self.operator), (AUTONOMY, self.autonomy)):
            if outlook is not None:
                probabilities |= {f"{driver} {name}": p for name, p in outlook.by_name().items()}
        return probabilities


class RiskRollouts:
    """Rollouts of a vehicle's intentions; compiled on first use, allocated once. Equal situations give equal results."""

    def __init__(self, vehicle: Vehicle, settings: RiskSettings | None = None) -> None:
        """Makes the rollouts of a vehicle. Raises InputError: no such model, the vehicle lacks parameters of it, it has other inputs than a
        driver's, or the settings select a GPU and there is none."""
        self.settings = s = settings or RiskSettings()
        self.model = vehicle.model(s.model)
        if len(self.model.inputs) != len(INPUTS):
            raise InputError(f"model '{self.model.name}' has more inputs than the driver's; choose a model without road inputs")
        models = tyre_models(vehicle, s.model) if s.tyres == ALL else [self.model]
        self._fleets = [Fleet.of(model, s.single, s.backend) for model in models]
        kernel = self._fleets[0].kernel
        lanes = self._lanes = kernel.lanes
        self._dtype: Any = kernel.dtype
        self.rollouts = -(-s.rollouts // lanes) * lanes
        self._first = min(-(-s.first_rollouts // lanes) * lanes, self.rollouts)
        samples = max(1, round(s.horizon / s.sample))
        self.times = s.sample * np.arange(samples + 1)
        self._substeps = max(1, math.ceil(s.sample / s.step - 1e-9))
        rng, n = np.random.default_rng(s.seed), self.rollouts
        # Random numbers, drawn once for all decisions.
        self._uniform = rng.random((2, n))
        self._start = rng.standard_normal((4, n))
        self._noise = rng.standard_normal((samples + 1, n))
        self._remnant: np.ndarray = unsteady(self._noise, s).astype(self._dtype)
        self._normals: np.ndarray = np.ascontiguousarray(rng.standard_normal((ROWS, NORMALS, n)), dtype=self._dtype)
        # Of the operator. Delays are equal within a block of the kernel, and evenly spread over any number of consecutive blocks (golden
        # ratio).
        self._operator_uniform = np.stack([(0.5 + GOLDEN * (np.arange(n) // max(lanes, BLOCK))) % 1.0, rng.random(n)])
        self._operator_normal = rng.standard_normal((len(TERMS) + 1, n))
        self._gain_factors: np.ndarray = np.exp(GAIN_LOG_SD * np.clip(rng.standard_normal(n), -2.0, 2.0)).astype(self._dtype)
        self._ones: np.ndarray = np.ones((len(GAINS), n), self._dtype)
        self._one_sample: np.ndarray = np.ones(n, np.int64)
        self._no_lag: np.ndarray = np.ones(1, self._dtype)
        share = rng.random((HALTING_ROWS, n)) * len(HALTS_AFTER) / max(s.halting, 1e-9)
        halts = np.minimum(share.astype(np.int64), len(HALTS_AFTER))  # which, or none
        walkers = np.tile(self._normals[:HALTING_ROWS], (len(HALTS_AFTER) + 1, 1, 1))
        present = np.concatenate([halts == i for i in (len(HALTS_AFTER), *range(len(HALTS_AFTER)))])
        walkers[:, 0][~present] = ABSENT
        self._normals = np.concatenate([self._normals, walkers])
        self._lag = hand_lag(s.sample)
        self._place = {f.name: i for i, f in enumerate(self.model.states)}
        # Runs are counted from where the vehicle is, so that single precision resolves millimetres; on a ground that differs from place to
        # place from where its map is.
        self._by_place = casadi_model(self.model).by_place
        self._vehicle: Vehicle | None = None
        self._draws: Draws | None = None
        self.set_vehicle(vehicle)

    def set_vehicle(self, vehicle: Vehicle, draws: Draws | None = None) -> None:
        """Sets the parameters of the vehicle, and draws of some of them. Raises InputError: the vehicle lacks parameters; nothing is
        changed then."""
        if vehicle is self._vehicle and draws is self._draws:
            return
        s = self.settings
        parameters = [fleet.parameters(vehicle, draws, self._uniform, (s.friction, s.friction_sd)) for fleet in self._fleets]
        prediction = Prediction(s.model, vehicle, vehicle.actuators.delay, vehicle.actuators.steering_lag)
        self._parameters, self._prediction = parameters, prediction
        self._vehicle, self._draws = vehicle, draws
        self._braking_model, self._peak = braking_model_of(vehicle, 1.0), peak_of(self.model, vehicle)
        outline = vehicle.footprint
        self._footprint = outline
        self._steering, self._predicted_operator = PreviewSteering(vehicle), PredictedOperator(vehicle)
        a = vehicle.actuators
        rates = [min(rate, FAR) for rate in (a.steering_rate, a.throttle_rate, a.brake_rate)]
        self._numbers = np.array([outline.front, outline.rear, outline.half_width, *rates, math.tan(s.spin), 1.0, s.sample,
                                  s.sample / self._substeps], self._dtype)

    # -- The answer ---------------------------------------------------------------------------------------------------------------

    def assess(self, situation: Situation) -> Risk:
        """Estimates the risk of the operator's command and of the autonomy's plan from now on, where there are any. Raises InputError: the
        state cannot be predicted until a command would act."""
        began = time.perf_counter()
        self.set_vehicle(situation.vehicle, situation.draws)
        x, acting, begin = self._state(situation)
        origin = self._origin(x)
        intentions = {}
        if situation.operator is not None:
            intentions[OPERATOR] = self.operator(situation, x, acting, begin)
        if situation.plan is not None:
            intentions[AUTONOMY] = self.planned(situation, origin, acting, begin)
        scene = self._scene(x, situation.obstacles, begin, situation.corridor, situation.walls)
        outlooks = dict(zip(intentions, self._follow(list(intentions.values()), scene)))
        if situation.plan is not None:
            outlooks = self._with_stops(outlooks, intentions, x, acting, begin, situation, scene)
        operator, autonomy = outlooks.get(OPERATOR), outlooks.get(AUTONOMY)
        averted = harmed = alike = Frequency(0, self._first)
        if operator is not None and autonomy is not None:
            n, spared, lost = len(operator.failed), autonomy.spares(operator), operator.spares(autonomy)
            both = operator.failed & autonomy.failed & ~spared & ~lost
            averted, harmed, alike = (Frequency(int(which.sum()), n) for which in (spared, lost, both))
        elif operator is not None:
            averted = operator.failure
        return Risk(operator, autonomy, averted, harmed, alike, float(self.times[-1]), time.perf_counter() - began)

    def _with_stops(self, outlooks: dict[str, Outlook], intentions: Mapping[str, Intention], x: np.ndarray, acting: tuple[float, float],
                    begin: float, situation: Situation, scene: Scene) -> dict[str, Outlook]:
        """Returns the outlooks with a stop of autonomy along its plan, at once or after taking over, where that does less harm: autonomy
        replans in each cycle and drives towards uncertain obstacles only while it can stop. Unchanged if autonomy reverses, or if its plan
        collides in most runs and it does not brake: it has not detected the obstacle."""
        plan, command, s = situation.plan, situation.autonomy, self.settings
        assert plan is not None
        brakes = command is not None and command.brake > 0.0
        if (command is not None and command.reverse) or (outlooks[AUTONOMY].collision.value > MAX_COLLISIONS and not brakes):
            return outlooks
        unclear = {name for name, outlook in outlooks.items() if outlook.failure.interval[1] >= s.clear}
        stops: list[tuple[str, Intention]] = []
        if AUTONOMY in unclear:
            stopping = replace(situation, plan=self._stop(plan, x, begin, REPLAN_TIME))
            stops.append((AUTONOMY, self.planned(stopping, self._origin(x), acting, begin)))
        if OPERATOR in unclear and INTENTIONS[s.intention].relieved:
            later = replace(situation, plan=self._stop(plan, x, begin, s.takeover))
            # Where the operator corrects first, autonomy may still have to take over.
            plans = (later,) if math.isfinite(intentions[OPERATOR].steady) else (situation, later)
            stops += [(OPERATOR, self.operator(of, x, acting, begin, TAKEOVER)) for of in plans]
        for (name, _), outlook in zip(stops, self._follow([stop for _, stop in stops], scene, len(outlooks[AUTONOMY].failed))):
            if outlook.harm < outlooks[name].harm:
                outlooks[name] = outlook
        return outlooks

    def _stop(self, plan: Plan, x: np.ndarray, begin: float, after: float) -> Plan:
        """Returns the plan of a stop on the path of a plan, braking at the friction limit from `after` [s] after `begin` [s] on."""
        px, py, yaw = (plan.states[:, plan.names.index(name)] for name in ("x", "y", "yaw"))
        along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(px), np.diff(py)))])
        t, v, full = self.times, max(float(x[self._place["vx"]]), 0.0), self._braking_model.full_brake
        circle = NOMINAL.circle * float(self._peak(*(x[self._place[name]] for name in ("x", "y", "yaw")))[0])
        deceleration = min(braking(self._braking_model, 0.0, circle), self.settings.stop_brake * full)
        braked = np.clip(t - after, 0.0, v / deceleration)
        s = np.interp(begin, plan.times, along) + v * np.minimum(t, after) + v * braked - 0.5 * deceleration * braked**2
        beyond, (steering, course) = np.maximum(s - along[-1], 0.0), (np.interp(s, along, values) for values in (plan.inputs[:, 0], yaw))
        return Plan(PLANNED, begin + t, np.column_stack([
            np.interp(s, along, px) + beyond * np.cos(course), np.interp(s, along, py) + beyond * np.sin(course), course,
            v - deceleration * braked]), np.column_stack([steering, np.zeros(len(t)), np.where(t >= after, deceleration / full, 0.0)]))

    def _state(self, situation: Situation) -> tuple[np.ndarray, tuple[float, float], float]:
        """Returns state (nx,), steering and pedal at the time when a command sent now begins to act, and that time [s]."""
        prediction, begin = self._prediction, situation.time + situation.vehicle.actuators.delay
        prediction.clear()
        for command in situation.sent:
            prediction.sent(command.time, command.steering, command.pedal, command.reverse)
        x, road = prediction.at(situation.measured, begin)
        if not np.isfinite(x).all():
            raise InputError(f"the state cannot be predicted from {situation.measured.time:.3f} to {begin:.3f} s")
        if self._by_place and self.settings.single and np.abs(self._where(x)).max() > MAX_SINGLE_DISTANCE:
            raise InputError(f"more than {1e-3 * MAX_SINGLE_DISTANCE:g} km from the origin single precision is too coarse for a "
                             "ground that varies with position; set single to false, or move the origin of the map")
        return x, (road, prediction.command_at(begin)[1]), begin

    def _where(self, x: np.ndarray) -> np.ndarray:
        """Returns the vehicle's position (2,) [m] in a state (nx,)."""
        return np.array([x[self._place["x"]], x[self._place["y"]]])

    def _origin(self, x: np.ndarray) -> np.ndarray:
        """Returns the origin (2,) [m] of the coordinates of runs from a state (nx,)."""
        return np.zeros(2) if self._by_place else self._where(x)

    # -- Intentions ---------------------------------------------------------------------------------------------------------------

    def operator(self, situation: Situation, x: np.ndarray, acting: tuple[float, float], begin: float,
                 kind: IntentionKind | None = None) -> Intention:
        """Predicts the operator from the state x (nx,) at `begin` [s], with steering and pedal `acting` then; kind: default from the
        settings."""
        s, command = self.settings, situation.operator
        assert command is not None

        def hold() -> Intention:
            return Intention(*self._constant_inputs(command), s.remnant, reverse=command.reverse)

        def answer(times: np.ndarray, delay: float) -> np.ndarray:
            assert situation.path is not None
            return self._predicted_operator.steering(situation.path, situation.past, situation.time, times, delay)

        view = OperatorView(situation, command, s, self.times, hold, lambda path: self._path_inputs(path, x, command),
                            lambda plan: self._plan_inputs(plan, self._origin(x), begin), answer,
                            lambda path: self._learned_intention(path, x, situation, begin))
        intention = (kind or INTENTIONS[s.intention]).predict(view)
        intention.inputs[0] = acting
        if intention.drawn is not None:
            intention.drawn.steering[0] = acting[0]
        return intention

    def _constant_inputs(self, command: StampedCommand) -> tuple[np.ndarray, np.ndarray]:
        """Returns steering and pedal (K, 2) of a constant command, and an empty reference (K, 10)."""
        return np.tile([command.steering, command.pedal], (len(self.times), 1)), self._no_reference()

    def _no_reference(self) -> np.ndarray:
        return np.zeros((len(self.times), len(REFERENCE)))

    def _path_inputs(self, path: Path, x: np.ndarray, command: StampedCommand) -> tuple[np.ndarray, np.ndarray]:
        """Returns inputs along a path at the present speed, and the reference back to it by a preview."""
        px, py, v = (float(x[self._place[name]]) for name in ("x", "y", "vx"))
        station = float(path.project(np.array([px]), np.array([py]))[0][0])
        rx, ry, ryaw, curvature = path.at(station + v * self.times)
        inputs = np.column_stack([self._steering.following(curvature), np.full(len(self.times), command.pedal)])
        reference = self._no_reference()
        x0, y0 = self._origin(x)
        reference[:, :4] = np.column_stack([rx - x0, ry - y0, ryaw, np.full(len(self.times), v)])
        reference[:, 5], reference[:, 6] = self._steering.gains(np.full(len(self.times), v), self.settings.preview)
        return np.clip(inputs, -1.0, 1.0), reference

    def _learned_intention(self, path: Path, x: np.ndarray, situation: Situation, begin: float) -> Intention:
        """Returns the intention of the learned operator on a path (`operator_learning`): each run draws delay, gains and remnant."""
        s, command, law, posterior = self.settings, situation.operator, self._steering, situation.operator_posterior
        assert command is not None and posterior is not None
        delays, gains, sd, correlation = posterior.draw(self._operator_uniform, self._operator_normal)
        # A command acts `late` after it was issued, and answers the motion of a delay before that.
        late = begin - command.time
        answered: np.ndarray = np.maximum(np.rint((delays + late) / s.sample), 1.0).astype(np.int64)
        lags = len(self._lag)
        oldest = int(answered.max()) + lags - 1
        back = begin - s.sample * np.arange(oldest + 1)
        states = [*situation.past, situation.measured] if not situation.past or situation.past[-1] is not situation.measured \
            else situation.past
        at = np.array([*(state.time for state in states), max(begin, states[-1].time + 1e-6)])
        pose = {}
        for name in REQUIRED:
            values = np.array([*(state.values[name] for state in states), x[self._place[name]]])
            pose[name] = np.interp(back, at, np.unwrap(values) if name == "yaw" else values)
        terms = law.terms(path, pose)[OPEN:]
        inputs, reference = self._path_inputs(path, x, command)
        px, py, v = (x[self._place[name]:][:1] for name in ("x", "y", "vx"))
        stations = path.project(px, py)[0] + v * self.times
        across, heading = law.gains(v)
        reference[:, 5:7] = across[0], heading[0]
        reference[:, 8], reference[:, 9] = path.at(stations)[3] * v, heading * LEAD
        ahead = law.curving(path, stations - v * late, v)
        # The runs answer motion from now on; earlier motion is answered here. The remnant starts at its present value.
        steering = matmul(ahead.T, gains[:OPEN])
        count = min(oldest, len(self.times))
        latest = np.maximum(answered - np.arange(count)[:, None], 1 - lags) + lags - 1
        terms[:, 0] = 0.0
        for gain, term in zip(gains[OPEN:], terms):
            steering[:count] += gain * np.convolve(np.concatenate([np.zeros(lags - 1), term]), self._lag[::-1], "valid")[latest]
        rest = command.steering - steering[0]
        share = np.exp(-s.sample / correlation)
        noise = sd * np.sqrt(1.0 - share * share)
        steering[0] = command.steering
        for k in range(1, len(self.times)):
            rest = share * rest + noise * self._noise[k]
            steering[k] += rest
        return Intention(inputs, reference, drawn=DrawnSteering(steering, gains[OPEN:], answered))

    def planned(self, situation: Situation, origin: np.ndarray, acting: tuple[float, float], begin: float) -> Intention:
        """Returns the autonomy's plan from `begin` [s] on, and the reference back to it, as of a controller that replans continuously; a
        reversing command, which no plan contains, is held."""
        plan, command = situation.plan, situation.autonomy
        assert plan is not None
        backs = command if command is not None and command.reverse else None
        inputs, reference = self._plan_inputs(plan, origin, begin) if backs is None else self._constant_inputs(backs)
        inputs[0] = acting
        return Intention(inputs, reference, reverse=backs is not None)

    def _plan_inputs(self, plan: Plan, origin: np.ndarray, begin: float) -> tuple[np.ndarray, np.ndarray]:
        at = begin + self.times
        column = {name: i for i, name in enumerate(plan.names)}
        x, y, yaw, v = (np.interp(at, plan.times, plan.states[:, column[name]]) for name in ("x", "y", "yaw", "vx"))
        # A plan is extrapolated at its final heading and speed.
        beyond = np.maximum(at - plan.times[-1], 0.0)
        x, y = x + beyond * v * np.cos(yaw), y + beyond * v * np.sin(yaw)
        pedal = plan.inputs[:, 1] - plan.inputs[:, 2]
        inputs = np.column_stack([np.interp(at, plan.times, plan.inputs[:, 0]), np.interp(at, plan.times, pedal)])
        reference = self._no_reference()
        reference[:, :4] = np.column_stack([x - origin[0], y - origin[1], yaw, v])
        reference[:, 5], reference[:, 6] = self._steering.gains(v, self.settings.preview)
        reference[:, 7] = 0.1
        return inputs, reference

    # -- The batch ----------------------------------------------------------------------------------------------------------------

    def follow(self, intentions: Sequence[Intention], x: np.ndarray, obstacles: Obstacles, begin: float, corridor: Corridor | None = None,
               walls: np.ndarray | None = None) -> list[Outlook]:
        """Rolls intentions out from the state x (nx,) at `begin` [s], with as many runs of each as a clear result needs.

        Args:
            obstacles: at their own time.
            walls: (E, 4) starts and ends of edges [m].
        """
        return self._follow(intentions, self._scene(x, obstacles, begin, corridor, walls))

    def _scene(self, x: np.ndarray, obstacles: Obstacles, begin: float, corridor: Corridor | None, walls: np.ndarray | None) -> Scene:
        return self._initial_states(x), self._surroundings(x, obstacles, begin, corridor, walls)

    def _follow(self, intentions: Sequence[Intention], scene: Scene, runs: int | None = None) -> list[Outlook]:
        """Rolls intentions out in a scene as `follow` does; runs: fixed number of each."""
        if not intentions:
            return []
        start, surroundings = scene
        run_inputs = [self._run_inputs(intention) for intention in intentions]
        results: np.ndarray = np.empty((len(intentions), len(RESULTS), self.rollouts), self._dtype)
        done = 0
        outlooks: list[Outlook] = []
        for end in (self._first, self.rollouts) if runs is None else (runs,):
            if end > done:
                self._run(run_inputs, start, surroundings, results, done, end)
                done = end
                outlooks = [_outlook(rows[:, :end].astype(float), intention.until) for rows, intention in zip(results, intentions)]
            if all(self._is_clear(f.failure) for f in outlooks):
                break
        return outlooks

    def _is_clear(self, probability: Frequency) -> bool:
        lower, upper = probability.interval
        return upper < self.settings.clear or lower > 1.0 - self.settings.clear

    def _run_inputs(self, intention: Intention) -> tuple[np.ndarray, ...]:
        """Returns inputs of all runs: steering and pedal (K, 2, n), gains (3, n) and delays (n,) of corrections, lag (H,), reference
        (K, 10) and vehicle data."""
        expected = (len(self.times), 2), (len(self.times), len(REFERENCE))
        if (intention.inputs.shape, intention.reference.shape) != expected:
            raise InputError(f"an intention has inputs {expected[0]} and reference {expected[1]}, not {intention.inputs.shape} and "
                             f"{intention.reference.shape}")
        inputs: np.ndarray = np.repeat(intention.inputs.astype(self._dtype)[:, :, None], self.rollouts, axis=2)
        if intention.remnant:
            remnant_sd = (intention.remnant * (self.times < intention.steady - 1e-9)).astype(self._dtype)
            inputs[:, 0] += remnant_sd[:, None] * self._remnant
        if intention.answer is not None:
            inputs[:, 0] += intention.answer.astype(self._dtype)[:, None] * self._gain_factors
        gains, delays, lag, drawn = self._ones, self._one_sample, self._no_lag, intention.drawn
        if drawn is not None:
            inputs[:, 0] = drawn.steering
            gains, delays = np.ascontiguousarray(drawn.gains, dtype=self._dtype), drawn.delays
            lag = self._lag.astype(self._dtype)
        numbers = self._numbers.copy()
        numbers[NUMBERS.index("direction")] = -1.0 if intention.reverse else 1.0
        return inputs, gains, delays, lag, np.ascontiguousarray(intention.reference, dtype=self._dtype), numbers

    def _run(self, run_inputs: Sequence[tuple[np.ndarray, ...]], start: np.ndarray, surroundings: tuple[np.ndarray, ...],
             results: np.ndarray, first: int, end: int) -> None:
        """Fills results (intentions, 10, n) of the runs first ... end - 1, all intentions in one parallel call: a thread that waits for a
        core waits once, while the others process the remaining pieces."""
        blocks, kinds = (end - first) // self._lanes, len(self._fleets)
        pieces = max(min(blocks, self._fleets[0].kernel.pieces) // kinds, 1) * kinds  # as many of each fleet
        bounds = [first + self._lanes * (blocks * i // pieces) for i in range(pieces + 1)]
        circles, first_circle, normal_rows, edges, first_edge = surroundings

        def piece(i: int) -> None:
            own, k = run_inputs[i // pieces], i % pieces
            self._fleets[k % kinds].kernel.run(
                self._parameters[k % kinds], start, *own, circles, first_circle, normal_rows, self._normals, edges,
                first_edge, self._substeps, results[i // pieces], bounds[k], bounds[k + 1])

        in_parallel(piece, len(run_inputs) * pieces)

    def _initial_states(self, x: np.ndarray) -> np.ndarray:
        """Returns states (nx, n) drawn around x with its uncertainty, relative to the origin."""
        s, place, z = self.settings, self._place, self._start
        states = np.repeat(x[:, None], self.rollouts, axis=1)
        for name, at, noise in zip(("x", "y"), self._where(x) - self._origin(x), z):
            states[place[name]] = at + s.position_sd * noise
        states[place["yaw"]] += s.heading_sd * z[2]
        faster = 1.0 + s.speed_sd * z[3] / max(float(x[place["vx"]]), 1.0)
        for name, row in place.items():  # wheels roll without slip
            if name == "vx" or name.startswith("omega"):
                states[row] *= faster
        return np.ascontiguousarray(states, dtype=self._dtype)

    def _surroundings(self, x: np.ndarray, obstacles: Obstacles, begin: float, corridor: Corridor | None,
             walls: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Returns the obstacles of each sample in the kernel's layout: circles, their first rows and random numbers; edges, their first
        rows."""
        origin, here = self._origin(x), self._where(x)
        speeds = np.array([x[self._place["vx"]], x[self._place["vy"]] if "vy" in self._place else 0.0])
        yaw, t, samples = float(x[self._place["yaw"]]), self.times, len(self.times)
        turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
        reach = self._numbers[:2].astype(float).max() + float(self._numbers[2]) + SIGMAS * self.settings.position_sd
        # Reachable area: a growing box in the vehicle's axes.
        sideways = 0.5 * MAX_LATERAL_ACCELERATION * t * t + abs(speeds[1]) * t + reach
        ahead = speeds[0] * t + 0.5 * MAX_LONGITUDINAL_ACCELERATION * t * t + reach
        behind = np.minimum(0.0, speeds[0] * t - 0.5 * MAX_BRAKING * t * t) - reach

        def within(centres: np.ndarray, radii: np.ndarray) -> np.ndarray:
            """Returns which circles (K, n, 2), (K, n) the box of each sample may touch (K, n)."""
            local = matmul(centres - (here - origin), turn)
            aside, along = np.abs(local[..., 1]), local[..., 0]
            return np.asarray((aside <= sideways[:, None] + radii) & (along <= ahead[:, None] + radii) & (along >= behind[:, None] - radii))

        n = len(obstacles.radii)
        circles, chosen = np.zeros((0, len(CIRCLE))), np.zeros((samples, n), bool)
        if n:
            s, moving = self.settings, obstacles.moving
            elapsed = begin - obstacles.time + t
            walks = moving & (np.hypot(*obstacles.velocities.T) <= HALTING_SPEED) & (s.halting > 0.0)
            one = np.concatenate([np.arange(n), np.tile(np.flatnonzero(walks), len(HALTS_AFTER))])  # copies that halt
            going = obstacles.halting(walks, HALTS_AFTER, HALTING) if walks.any() else obstacles
            centres = going.centres - origin + going.shifts(elapsed)
            sd, speed_sd = obstacles.deviations.T if obstacles.deviations is not None else (np.full(n, s.obstacle_sd),
                                                                                         np.where(moving, s.obstacle_speed_sd, 0.0))
            sd, speed_sd = np.maximum(sd, np.where(walks, MIN_SD, 0.0))[one], speed_sd[one]
            drift = np.maximum(elapsed, 0.0)[:, None] * speed_sd
            # Use the measured radius: the padded one for planning would bias the probability.
            radii = (obstacles.radii if obstacles.excess is None else np.maximum(obstacles.radii - obstacles.excess, 0.0))[one]
            table = np.stack([centres[..., 0], centres[..., 1], np.broadcast_to(radii, drift.shape),
                              np.broadcast_to(sd, drift.shape), drift], axis=-1)
            chosen = within(centres, radii + SIGMAS * (sd + drift))
            circles = table[chosen]
            # Keep the random numbers of an obstacle between decisions: a stationary one is identified by its position.
            names = np.where(moving, np.arange(n), (np.round(obstacles.centres[:, 0]) * 73 + np.round(obstacles.centres[:, 1]) * 179))
            names = np.abs(names).astype(np.int64) % ROWS
            # Circles of one body share a velocity and halt together.
            walkers = np.unique(obstacles.velocities[walks], axis=0, return_inverse=True)[1].ravel() % HALTING_ROWS
            names[walks] = ROWS + walkers
            halting = (ROWS + HALTING_ROWS * np.arange(1, len(HALTS_AFTER) + 1)[:, None] + walkers).ravel()
            rows = np.broadcast_to(np.concatenate([names, halting]), chosen.shape)[chosen]
        else:
            rows = np.zeros(0, np.int64)
        segments, border = self._segments(origin, here, yaw, float(x[self._place["vx"]]), corridor, walls)
        middle, half = 0.5 * (segments[:, :2] + segments[:, 2:]), 0.5 * (segments[:, 2:] - segments[:, :2])
        length = np.hypot(*half.T)
        normal = np.column_stack([-half[:, 1], half[:, 0]]) / np.maximum(length, 1e-9)[:, None]
        near = within(np.broadcast_to(middle, (samples, *middle.shape)), np.broadcast_to(length, (samples, len(length))))
        edges = np.broadcast_to(np.column_stack([middle, half, normal, border]), (samples, len(length), len(EDGE)))[near]

        def firsts(used: np.ndarray) -> np.ndarray:
            return np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int64)

        return (np.ascontiguousarray(circles, dtype=self._dtype), firsts(chosen), np.ascontiguousarray(rows, dtype=np.int64),
                np.ascontiguousarray(edges, dtype=self._dtype), firsts(near))

    def _segments(self, origin: np.ndarray, here: np.ndarray, heading: float, v: float, corridor: Corridor | None,
                  walls: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns edges (E, 4) relative to the origin, around position `here` [m], and 1 for borders of the corridor, else 0."""
        edges = [np.empty((0, 4))] if walls is None else [np.asarray(walls, float) - np.tile(origin, 2)]
        count = len(edges[0])
        if corridor is not None:
            path, rows = corridor.path, corridor.room
            station = float(path.project(here[:1], here[1:])[0][0])
            begin = max(station - BEHIND, float(rows[0, 0]))
            coasted = station + max(v, 0.0) * self.times[-1]
            end = min(coasted + 0.5 * MAX_LONGITUDINAL_ACCELERATION * self.times[-1]**2 + AHEAD, float(rows[-1, 0]))
            if end - begin > 0.1:
                s = np.union1d(np.linspace(begin, end, max(2, math.ceil((end - begin) / BORDER_SPACING) + 1)),
                               rows[(rows[:, 0] > begin) & (rows[:, 0] < end), 0])
                x, y, yaw, _ = path.at(s)
                out = outside(rows, path, station, float(here[0]), float(here[1]), heading, self._footprint)
                for room, side, beyond in zip(corridor.room_at(s), (1.0, -1.0), out):
                    aside = side * (room + (beyond + BEYOND if beyond else 0.0))
                    points = np.column_stack([x - aside * np.sin(yaw), y + aside * np.cos(yaw)]) - origin
                    corners = points[straightened(points, BORDER_SAG)]
                    edges.append(np.column_stack([corners[:-1], corners[1:]]))
        segments = np.concatenate(edges)
        return segments, (np.arange(len(segments)) >= count).astype(float)


def straightened(points: np.ndarray, sag: float) -> np.ndarray:
    """Simplifies a polyline (n, 2) to within `sag` [m] (Douglas & Peucker 1973): returns the mask (n,) of its remaining points."""
    needed = np.zeros(len(points), bool)
    needed[[0, -1]] = True
    waiting = [(0, len(points) - 1)]
    while waiting:
        a, b = waiting.pop()
        if b - a < 2:
            continue
        along = points[b] - points[a]
        beside = points[a + 1:b] - points[a]
        length = math.hypot(*along)
        off = np.abs(along[0] * beside[:, 1] - along[1] * beside[:, 0]) / length if length > 1e-9 else np.hypot(*beside.T)
        k = int(off.argmax())
        if off[k] > sag:
            needed[a + 1 + k] = True
            waiting += [(a, a + 1 + k), (a + 1 + k, b)]
    return needed


def unsteady(noise: np.ndarray, settings: RiskSettings) -> np.ndarray:
    """Returns the operator's remnant at each sample, over its standard deviation (K, ...), from normal random numbers (K, ...): an AR(1)
    process that begins at 0, since the present command is known."""
    share = math.exp(-settings.sample / settings.remnant_time)
    hand = np.zeros_like(noise)
    for k in range(1, len(noise)):
        hand[k] = share * hand[k - 1] + math.sqrt(1.0 - share * share) * noise[k]
    return hand


def _outlook(results: np.ndarray, until: float) -> Outlook:
    """Returns the outlook of the results (10, n) of runs up to a time [s]."""
    row = dict(zip(RESULTS, results))
    n, end = results.shape[1], min(until, 0.5 * FAR)
    lost = row["finite"] < 0.5
    hit, left = row["hit_at"] <= end, row["left_at"] <= end
    lifted, spun = ((row[at] <= end) & (row[at] < row["hit_at"]) & ~lost for at in ("lifted_at", "spun_at"))
    severe = hit | lifted | spun | lost
    failed = severe | left
    first = np.minimum.reduce([row[at] for at in ("hit_at", "left_at", "lifted_at", "spun_at")])[failed & ~lost]
    collision, lift, spin, leaving, failure = (Frequency(int(event.sum()), n) for event in (hit, lifted, spun, left, failed))
    speed = np.where(hit, np.abs(row["hit_speed"]), 0.0)
    return Outlook(collision, lift, spin, leaving, failure, failed, severe, speed, float(np.median(first)) if len(first) else math.nan)
