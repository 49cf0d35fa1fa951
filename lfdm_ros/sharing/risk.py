"""Risk: the probability that the vehicle fails within the next seconds, by what the operator does and by what the autonomy plans.

A plan is looked at anew in each cycle: where it fails, a stop along it counts in its place, for the operator from when autonomy has taken
over, as far as that harms less.

Monte Carlo over all that is not known: the vehicle's parameters by draws of the calibrated posterior, the friction of the road by what is
known of it, the state and the obstacles by their uncertainty, the operator by the noise of a hand. Both intentions are followed with the
same random numbers (common random numbers), and with the same ones in each decision: their difference is sharper than either, and does not
flicker. Collision, wheel lift and the corridor are checked inside the batch (`backends.hazard_kernel`), at each sample.
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
from lfdm_ros.control.routing.path import Path, outside
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
from lfdm_ros.vehicles import Vehicle

ALL, OWN = "all", "own"  # tyre models
FAILURES = ("collision", "lift", "spin", "leaving")
BLOCK = 32  # runs of which the operator's delay is alike: the most that a kernel has side by side
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
SIGMAS = 3.0  # obstacles are considered out to 3 standard deviations of their position
ROWS = 256  # of random numbers for obstacles
# Walkers halt in a share of the runs, spread evenly over these times [s]. Rows of their random numbers, for each of these times and for
# going on; the random number that takes a thing out of a run, and the least standard deviation of its place [m], for that to move it far.
HALTS_AFTER, HALTING_ROWS, ABSENT, MIN_SD = np.array([0.0, 0.8, 1.6]), 32, 1e6, 0.01
FARTHEST = 1e5  # [m] from the origin single precision resolves a centimetre
# Bounds on the accelerations of vehicles [m/s^2], which bound where an obstacle can matter.
MAX_LATERAL_ACCELERATION, MAX_BRAKING, MAX_LONGITUDINAL_ACCELERATION = 12.0, 12.0, 6.0
AHEAD, BEHIND = 10.0, 10.0  # [m] of the corridor beyond what is driven
BEYOND = 0.3  # [m] a vehicle already outside counts as leaving again after this much further excursion
# Autonomy that sees what its plan fails by has another plan, or brakes in so many seconds: share of hits up to which it may not know.
DUE, DOUBTFUL = 0.2, 0.5
IMPACT = 1.0  # [m/s] by which a hit has to be slower to be a better one
# States (nx, n) that runs start from, and what they meet, as the kernel takes both.
Scene = tuple[np.ndarray, tuple[np.ndarray, ...]]
EVERY, SAG = 0.5, 0.02  # [m] spacing of its points, and largest error of its straight pieces


@dataclass(frozen=True)
class RiskSettings(Declared):
    """Events, accuracy and uncertainties of the risk. Raises InputError: a value is out of its range; the message names it."""

    model: str = setting("eight_dof", "", "vehicle model that is followed, by its name in the registry")
    tyres: str = setting(ALL, "", "own: follow the vehicle's tyre model; all: share the runs among those that it has parameters for, since "
                                  "where it slides it is unknown which holds", choices=(ALL, OWN))
    horizon: float = setting(3.0, "s", "prediction horizon", 0.2, 10.0)
    rollouts: int = setting(1024, "1", "runs of each intention", 16, 100_000)
    first_rollouts: int = setting(256, "1", "runs after which it is enough if the answer is clear", 16, 100_000)
    clear: float = setting(0.02, "1", "an answer is clear if failures are rarer, or more certain than 1 less this, by their intervals",
                           0.0, 0.5, live=True)
    sample: float = setting(0.05, "s", "time between looks at what is met", 0.005, 0.5)
    step: float = setting(0.01, "s", "longest step of the model", 0.001, 0.05)
    single: bool = setting(True, "", "compute with numbers of 32 bits, twice as fast")
    backend: str = setting("cpu", "", "cpu, or gpu: NVIDIA's, which pays from some ten thousand runs on", choices=("cpu", "gpu"))
    seed: int = setting(1, "1", "of the random numbers, the same in each decision", 0, 2**31 - 1)
    intention: str = setting(FIRST_TO_CORRECT.name, "", "what the operator is taken to do: " + "; ".join(
        f"{kind.name}: {kind.description}" for kind in INTENTIONS.registered.values()) + "; without path and plan nothing counts after a "
        "correction", choices=lambda: tuple(INTENTIONS), former=FORMER_INTENTIONS)
    # 0.085 perception, 0.05 decision, 0.05 motor and the lag of the hands, 2 x 0.707 / 10 rad/s, of `teleop.OperatorSettings`. This is the
    # reaction of a driver that steers continuously, not the second of a surprised one.
    reaction: float = setting(REACTION, "s", "after which an operator of whom too little was learned corrects, from picture to hands; the "
                                             "link's delay, twice the age of the command, is added", 0.0, 10.0, live=True)
    # Of `SharingSettings`: 0.05 until the next look at the threat, 0.1 for k to rise, 0.35 for the steering to swing from side to side; and
    # 0.15 to spare, since the last moment is known by a model.
    takeover: float = setting(0.65, "s", "after which an operator is relieved: what autonomy needs until it has the vehicle", 0.0, 10.0,
                              live=True)
    stop_brake: float = setting(CommandLimits.stop_brake, "1", "largest brake of autonomy's stop, as the controller's", 0.01, 1.0,
                                live=True)
    preview: float = setting(0.8, "s", "preview of a driver that follows a plan or path", 0.1, 5.0, live=True)
    friction: float = setting(1.0, "1", "friction of the road, over the vehicle's", 0.05, 3.0, live=True)
    friction_sd: float = setting(0.1, "1", "standard deviation of it; 0: it is known", 0.0, 1.0)
    spin: float = setting(SPIN, "rad", "sideslip from which on the vehicle counts as spinning", 0.05, 1.5)
    # That published with the driver model, `teleop.body.REMNANT_RMS`, of the HMMWV's 0.65 rad; its corner is at 3 rad/s.
    remnant: float = setting(REMNANT, "1", "standard deviation of the operator's steering, share of full lock", 0.0, 1.0)
    remnant_time: float = setting(0.3, "s", "for how long it is much the same", 0.01, 60.0)
    position_sd: float = setting(0.05, "m", "standard deviation of the vehicle's place, along and across", 0.0, 10.0)
    heading_sd: float = setting(0.005, "rad", "standard deviation of its heading", 0.0, 1.0)
    speed_sd: float = setting(0.1, "m/s", "standard deviation of its speed", 0.0, 10.0)
    obstacle_sd: float = setting(0.05, "m", "standard deviation of an obstacle's place along each axis, where the tracker says none", 0.0,
                                 10.0)
    obstacle_speed_sd: float = setting(0.3, "m/s", "standard deviation of the velocity of what moves along each axis, as above", 0.0, 20.0)
    halting: float = setting(0.2, "1", "probability that what walks (up to 3 m/s) halts soon, for whatever reason", 0.0, 1.0)


RISK = Exposed(RiskSettings, "risk_")


@dataclass(frozen=True)
class Frequency:
    """Count of `count` runs in `runs`, and the probability that it estimates: `value` with its 95 % interval."""

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
    """Outcome of one intention: `collision`; `lift` of a wheel and `spin` before any; `leaving` of the corridor; `failure`: any of them, or
    a state that no model follows any more. failed, severe, hit_speed [m/s], 0 without a hit: (n,) by run; leaving alone is not severe;
    first: median time of the failures [s], NaN without."""

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
        """Returns in which runs (n,) this one does better in the same world: it does not fail, or not severely, and the other does, or it
        hits something more slowly."""
        slower = (self.hit_speed > 0.0) & (other.hit_speed > self.hit_speed + IMPACT)
        return np.asarray((other.failed & ~self.failed) | (other.severe & ~self.severe) | slower)

    @property
    def harm(self) -> float:
        """Mean speed of the hits over all runs [m/s]; a run that fails otherwise counts as one at IMPACT."""
        return float(np.where(self.failed & (self.hit_speed == 0.0), IMPACT, self.hit_speed).mean())

    def by_name(self) -> dict[str, Frequency]:
        return {name: getattr(self, name) for name in FAILURES}


@dataclass(frozen=True, eq=False)
class Risk:
    """Risk of operator and autonomy at one decision. operator, autonomy: None where there is no command, no plan.

    averted: what autonomy spares, in the same world; harmed: what the operator does; without autonomy the operator's failures are averted
    and nothing is harmed, without an operator neither. alike: both fail, and neither does better. seconds: of wall clock.
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
        """All of them by name."""
        found: dict[str, Frequency] = {}
        for who, outlook in ((OPERATOR, self.operator), (AUTONOMY, self.autonomy)):
            if outlook is not None:
                found |= {f"{who} {name}": p for name, p in outlook.by_name().items()}
        return found


class RiskRollouts:
    """Follows intentions of one vehicle; compiled on first use, allocated once. The same situation gives the same answer."""

    def __init__(self, vehicle: Vehicle, settings: RiskSettings | None = None) -> None:
        """Makes the rollouts of a vehicle. Raises InputError: no such model, the vehicle lacks parameters of it, it has other inputs than a
        driver's, or the settings ask for a GPU and none is there."""
        self.settings = s = settings or RiskSettings()
        self.model = vehicle.model(s.model)
        if len(self.model.inputs) != len(INPUTS):
            raise InputError(f"model '{self.model.name}' has more inputs than the driver's; risk is of models that meet a plane")
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
        # What is not known, once for all decisions.
        self._uniform = rng.random((2, n))
        self._start = rng.standard_normal((4, n))
        self._noise = rng.standard_normal((samples + 1, n))
        self._hand: np.ndarray = unsteady(self._noise, s).astype(self._dtype)
        self._normals: np.ndarray = np.ascontiguousarray(rng.standard_normal((ROWS, NORMALS, n)), dtype=self._dtype)
        # Of the operator. Delays are alike in each block of the kernel, and spread evenly over any number of blocks that follow each other
        # (golden ratio).
        self._operator_uniform = np.stack([(0.5 + GOLDEN * (np.arange(n) // max(lanes, BLOCK))) % 1.0, rng.random(n)])
        self._operator_normal = rng.standard_normal((len(TERMS) + 1, n))
        self._persons: np.ndarray = np.exp(GAIN_LOG_SD * np.clip(rng.standard_normal(n), -2.0, 2.0)).astype(self._dtype)
        self._ones: np.ndarray = np.ones((len(GAINS), n), self._dtype)
        self._next: np.ndarray = np.ones(n, np.int64)
        self._at_once: np.ndarray = np.ones(1, self._dtype)
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
        self._braked, self._peak = braking_model_of(vehicle, 1.0), peak_of(self.model, vehicle)
        outline = vehicle.footprint
        self._footprint = outline
        self._steering, self._predicted_operator = PreviewSteering(vehicle), PredictedOperator(vehicle)
        a = vehicle.actuators
        rates = [min(rate, FAR) for rate in (a.steering_rate, a.throttle_rate, a.brake_rate)]
        self._numbers = np.array([outline.front, outline.rear, outline.half_width, *rates, math.tan(s.spin), 1.0, s.sample,
                                  s.sample / self._substeps], self._dtype)

    # -- The answer ---------------------------------------------------------------------------------------------------------------

    def assess(self, situation: Situation) -> Risk:
        """Estimates the risk of the operator's command, and of the autonomy's plan, as far as there are any, from now on. Raises
        InputError: the state cannot be followed to when a command would act."""
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
        found = dict(zip(intentions, self._follow(list(intentions.values()), scene)))
        if situation.plan is not None:
            found = self._with_ways_out(found, intentions, x, acting, begin, situation, scene)
        operator, autonomy = found.get(OPERATOR), found.get(AUTONOMY)
        averted = harmed = alike = Frequency(0, self._first)
        if operator is not None and autonomy is not None:
            n, spared, lost = len(operator.failed), autonomy.spares(operator), operator.spares(autonomy)
            both = operator.failed & autonomy.failed & ~spared & ~lost
            averted, harmed, alike = (Frequency(int(which.sum()), n) for which in (spared, lost, both))
        elif operator is not None:
            averted = operator.failure
        return Risk(operator, autonomy, averted, harmed, alike, float(self.times[-1]), time.perf_counter() - began)

    def _with_ways_out(self, found: dict[str, Outlook], intentions: Mapping[str, Intention], x: np.ndarray, acting: tuple[float, float],
                       begin: float, situation: Situation, scene: Scene) -> dict[str, Outlook]:
        """Returns the outlooks where autonomy stops along its plan, at once or when it has relieved the operator, as far as that is
        better: it looks at its plan anew in each cycle, and goes on before what is uncertain only while there is a stop. An autonomy whose
        plan hits more often than not, and that does not brake, or that does not drive a stop that is due, does not see what that is for."""
        plan, command, s = situation.plan, situation.autonomy, self.settings
        assert plan is not None
        brakes = command is not None and command.brake > 0.0
        if (command is not None and command.reverse) or (found[AUTONOMY].collision.value > DOUBTFUL and not brakes):
            return found
        unclear = {name for name, outlook in found.items() if outlook.failure.interval[1] >= s.clear}
        ways: list[tuple[str, Intention]] = []
        if AUTONOMY in unclear:
            ways.append((AUTONOMY, self.planned(replace(situation, plan=self._stop(plan, x, begin, DUE)), self._origin(x), acting, begin)))
        if OPERATOR in unclear and INTENTIONS[s.intention].relieved:
            later = replace(situation, plan=self._stop(plan, x, begin, s.takeover))
            # Of one who corrects first, too: autonomy takes over where that is not enough.
            plans = (later,) if math.isfinite(intentions[OPERATOR].steady) else (situation, later)
            ways += [(OPERATOR, self.operator(of, x, acting, begin, TAKEOVER)) for of in plans]
        if ways:
            for (name, _), outlook in zip(ways, self._follow([way for _, way in ways], scene, len(found[AUTONOMY].failed))):
                if outlook.harm < found[name].harm:
                    found[name] = outlook
        return found

    def _stop(self, plan: Plan, x: np.ndarray, begin: float, after: float) -> Plan:
        """Returns the plan of a stop along the places of a plan, as hard as the tyres hold, from `after` [s] after `begin` [s] on."""
        px, py, yaw = (plan.states[:, plan.names.index(name)] for name in ("x", "y", "yaw"))
        along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(px), np.diff(py)))])
        t, v, full = self.times, max(float(x[self._place["vx"]]), 0.0), self._braked.full_brake
        circle = NOMINAL.circle * float(self._peak(*(x[self._place[name]] for name in ("x", "y", "yaw")))[0])
        hardest = min(braking(self._braked, 0.0, circle), self.settings.stop_brake * full)
        braked = np.clip(t - after, 0.0, v / hardest)
        s = np.interp(begin, plan.times, along) + v * np.minimum(t, after) + v * braked - 0.5 * hardest * braked**2
        beyond, (steering, course) = np.maximum(s - along[-1], 0.0), (np.interp(s, along, values) for values in (plan.inputs[:, 0], yaw))
        return Plan(PLANNED, begin + t, np.column_stack([
            np.interp(s, along, px) + beyond * np.cos(course), np.interp(s, along, py) + beyond * np.sin(course), course,
            v - hardest * braked]), np.column_stack([steering, np.zeros(len(t)), np.where(t >= after, hardest / full, 0.0)]))

    def _state(self, situation: Situation) -> tuple[np.ndarray, tuple[float, float], float]:
        """Returns the state (nx,), steering and pedal when a command that is sent now begins to act, and that time [s]."""
        prediction, begin = self._prediction, situation.time + situation.vehicle.actuators.delay
        prediction.clear()
        for command in situation.sent:
            prediction.sent(command.time, command.steering, command.pedal, command.reverse)
        x, road = prediction.at(situation.measured, begin)
        if not np.isfinite(x).all():
            raise InputError(f"the state cannot be followed from {situation.measured.time:.3f} to {begin:.3f} s")
        if self._by_place and self.settings.single and np.abs(self._where(x)).max() > FARTHEST:
            raise InputError(f"more than {1e-3 * FARTHEST:g} km from the origin single precision is too coarse for a ground by place; set "
                             "single to false, or count from nearer")
        return x, (road, prediction.command_at(begin)[1]), begin

    def _where(self, x: np.ndarray) -> np.ndarray:
        """Returns the vehicle's place (2,) [m] in a state (nx,)."""
        return np.array([x[self._place["x"]], x[self._place["y"]]])

    def _origin(self, x: np.ndarray) -> np.ndarray:
        """Returns the place (2,) [m] that runs from a state (nx,) are counted from."""
        return np.zeros(2) if self._by_place else self._where(x)

    # -- Intentions ---------------------------------------------------------------------------------------------------------------

    def operator(self, situation: Situation, x: np.ndarray, acting: tuple[float, float], begin: float,
                 kind: IntentionKind | None = None) -> Intention:
        """Predicts the operator from the state x (nx,) at `begin` [s] on, when steering and pedal are what is `acting`; kind: default
        that of the settings."""
        s, command = self.settings, situation.operator
        assert command is not None

        def hold() -> Intention:
            return Intention(*self._held(command), s.remnant, reverse=command.reverse)

        def answer(times: np.ndarray, delay: float) -> np.ndarray:
            assert situation.path is not None
            return self._predicted_operator.steering(situation.path, situation.past, situation.time, times, delay)

        view = OperatorView(situation, command, s, self.times, hold, lambda path: self._along(path, x, command),
                            lambda plan: self._planned(plan, self._origin(x), begin), answer,
                            lambda path: self._driven(path, x, situation, begin))
        intention = (kind or INTENTIONS[s.intention]).predict(view)
        intention.wanted[0] = acting
        if intention.drawn is not None:
            intention.drawn.steering[0] = acting[0]
        return intention

    def _held(self, command: StampedCommand) -> tuple[np.ndarray, np.ndarray]:
        """Returns steering and pedal (K, 2) of a command that is held, and an empty reference (K, 10)."""
        return np.tile([command.steering, command.pedal], (len(self.times), 1)), self._no_reference()

    def _no_reference(self) -> np.ndarray:
        return np.zeros((len(self.times), len(REFERENCE)))

    def _along(self, path: Path, x: np.ndarray, command: StampedCommand) -> tuple[np.ndarray, np.ndarray]:
        """Returns inputs along a path at the present speed, and the reference back to it by a preview."""
        px, py, v = (float(x[self._place[name]]) for name in ("x", "y", "vx"))
        station = float(path.project(np.array([px]), np.array([py]))[0][0])
        rx, ry, ryaw, curvature = path.at(station + v * self.times)
        wanted = np.column_stack([self._steering.following(curvature), np.full(len(self.times), command.pedal)])
        reference = self._no_reference()
        x0, y0 = self._origin(x)
        reference[:, :4] = np.column_stack([rx - x0, ry - y0, ryaw, np.full(len(self.times), v)])
        reference[:, 5], reference[:, 6] = self._steering.gains(np.full(len(self.times), v), self.settings.preview)
        return np.clip(wanted, -1.0, 1.0), reference

    def _driven(self, path: Path, x: np.ndarray, situation: Situation, begin: float) -> Intention:
        """Returns the operator that drives along a path as was learned (`operator_learning`): each run draws delay, gains and remnant."""
        s, command, law, posterior = self.settings, situation.operator, self._steering, situation.operator_posterior
        assert command is not None and posterior is not None
        delays, gains, sd, correlation = posterior.draw(self._operator_uniform, self._operator_normal)
        # A command acts so much later than it was given, and answers what was seen a delay before that.
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
        seen = law.terms(path, pose)[OPEN:]
        wanted, reference = self._along(path, x, command)
        px, py, v = (x[self._place[name]:][:1] for name in ("x", "y", "vx"))
        stations = path.project(px, py)[0] + v * self.times
        across, heading = law.gains(v)
        reference[:, 5:7] = across[0], heading[0]
        reference[:, 8], reference[:, 9] = path.at(stations)[3] * v, heading * LEAD
        ahead = law.curving(path, stations - v * late, v)
        # The runs have what is seen from now on; what was seen before is answered until then. The remnant begins where it is now.
        steering = matmul(ahead.T, gains[:OPEN])
        count = min(oldest, len(self.times))
        of_seen = np.maximum(answered - np.arange(count)[:, None], 1 - lags) + lags - 1
        seen[:, 0] = 0.0
        for gain, term in zip(gains[OPEN:], seen):
            steering[:count] += gain * np.convolve(np.concatenate([np.zeros(lags - 1), term]), self._lag[::-1], "valid")[of_seen]
        rest = command.steering - steering[0]
        share = np.exp(-s.sample / correlation)
        noise = sd * np.sqrt(1.0 - share * share)
        steering[0] = command.steering
        for k in range(1, len(self.times)):
            rest = share * rest + noise * self._noise[k]
            steering[k] += rest
        return Intention(wanted, reference, drawn=DrawnSteering(steering, gains[OPEN:], answered))

    def planned(self, situation: Situation, origin: np.ndarray, acting: tuple[float, float], begin: float) -> Intention:
        """Returns the autonomy's plan from `begin` [s] on, and the reference back to it, as of a controller that replans continuously; a
        command to back, which no plan has, is held."""
        plan, command = situation.plan, situation.autonomy
        assert plan is not None
        backs = command if command is not None and command.reverse else None
        wanted, reference = self._planned(plan, origin, begin) if backs is None else self._held(backs)
        wanted[0] = acting
        return Intention(wanted, reference, reverse=backs is not None)

    def _planned(self, plan: Plan, origin: np.ndarray, begin: float) -> tuple[np.ndarray, np.ndarray]:
        at = begin + self.times
        column = {name: i for i, name in enumerate(plan.names)}
        x, y, yaw, v = (np.interp(at, plan.times, plan.states[:, column[name]]) for name in ("x", "y", "yaw", "vx"))
        # Beyond its end a plan goes on as it ended.
        beyond = np.maximum(at - plan.times[-1], 0.0)
        x, y = x + beyond * v * np.cos(yaw), y + beyond * v * np.sin(yaw)
        pedal = plan.inputs[:, 1] - plan.inputs[:, 2]
        wanted = np.column_stack([np.interp(at, plan.times, plan.inputs[:, 0]), np.interp(at, plan.times, pedal)])
        reference = self._no_reference()
        reference[:, :4] = np.column_stack([x - origin[0], y - origin[1], yaw, v])
        reference[:, 5], reference[:, 6] = self._steering.gains(v, self.settings.preview)
        reference[:, 7] = 0.1
        return wanted, reference

    # -- The batch ----------------------------------------------------------------------------------------------------------------

    def follow(self, intentions: Sequence[Intention], x: np.ndarray, obstacles: Obstacles, begin: float, corridor: Corridor | None = None,
               walls: np.ndarray | None = None) -> list[Outlook]:
        """Follows intentions from the state x (nx,) at `begin` [s], as many runs of each as it takes until all answers are clear.

        Args:
            obstacles: at their own time.
            walls: (E, 4) starts and ends of edges [m].
        """
        return self._follow(intentions, self._scene(x, obstacles, begin, corridor, walls))

    def _scene(self, x: np.ndarray, obstacles: Obstacles, begin: float, corridor: Corridor | None, walls: np.ndarray | None) -> Scene:
        return self._starts(x), self._met(x, obstacles, begin, corridor, walls)

    def _follow(self, intentions: Sequence[Intention], scene: Scene, runs: int | None = None) -> list[Outlook]:
        """Follows intentions in a scene as `follow` does; runs: of each, in place of as many as it takes."""
        if not intentions:
            return []
        start, met = scene
        followed = [self._for_all(intention) for intention in intentions]
        results: np.ndarray = np.empty((len(intentions), len(RESULTS), self.rollouts), self._dtype)
        done = 0
        outlooks: list[Outlook] = []
        for end in (self._first, self.rollouts) if runs is None else (runs,):
            if end > done:
                self._run(followed, start, met, results, done, end)
                done = end
                outlooks = [_outlook(rows[:, :end].astype(float), intention.until) for rows, intention in zip(results, intentions)]
            if all(self._is_clear(f.failure) for f in outlooks):
                break
        return outlooks

    def _is_clear(self, probability: Frequency) -> bool:
        lower, upper = probability.interval
        return upper < self.settings.clear or lower > 1.0 - self.settings.clear

    def _for_all(self, intention: Intention) -> tuple[np.ndarray, ...]:
        """Returns of all runs steering and pedal (K, 2, n), gains (3, n) and delays (n,) of corrections, and the lag (H,), the reference
        (K, 10) and the numbers of all vehicles."""
        expected = (len(self.times), 2), (len(self.times), len(REFERENCE))
        if (intention.wanted.shape, intention.reference.shape) != expected:
            raise InputError(f"an intention has wanted {expected[0]} and reference {expected[1]}, not {intention.wanted.shape} and "
                             f"{intention.reference.shape}")
        wanted: np.ndarray = np.repeat(intention.wanted.astype(self._dtype)[:, :, None], self.rollouts, axis=2)
        if intention.remnant:
            shakes = (intention.remnant * (self.times < intention.steady - 1e-9)).astype(self._dtype)
            wanted[:, 0] += shakes[:, None] * self._hand
        if intention.answer is not None:
            wanted[:, 0] += intention.answer.astype(self._dtype)[:, None] * self._persons
        gains, delays, lag, drawn = self._ones, self._next, self._at_once, intention.drawn
        if drawn is not None:
            wanted[:, 0] = drawn.steering
            gains, delays = np.ascontiguousarray(drawn.gains, dtype=self._dtype), drawn.delays
            lag = self._lag.astype(self._dtype)
        numbers = self._numbers.copy()
        numbers[NUMBERS.index("direction")] = -1.0 if intention.reverse else 1.0
        return wanted, gains, delays, lag, np.ascontiguousarray(intention.reference, dtype=self._dtype), numbers

    def _run(self, followed: Sequence[tuple[np.ndarray, ...]], start: np.ndarray, met: tuple[np.ndarray, ...],
             results: np.ndarray, first: int, end: int) -> None:
        """Fills results (intentions, 10, n) of the runs first ... end - 1, all intentions at once: a thread that has to wait for a core
        waits once, and the other threads take the rest meanwhile."""
        blocks, kinds = (end - first) // self._lanes, len(self._fleets)
        pieces = max(min(blocks, self._fleets[0].kernel.pieces) // kinds, 1) * kinds  # as many of each fleet
        bounds = [first + self._lanes * (blocks * i // pieces) for i in range(pieces + 1)]
        circles, first_circle, normal_rows, edges, first_edge = met

        def piece(i: int) -> None:
            own, k = followed[i // pieces], i % pieces
            self._fleets[k % kinds].kernel.run(
                self._parameters[k % kinds], start, *own, circles, first_circle, normal_rows, self._normals, edges,
                first_edge, self._substeps, results[i // pieces], bounds[k], bounds[k + 1])

        in_parallel(piece, len(followed) * pieces)

    def _starts(self, x: np.ndarray) -> np.ndarray:
        """Returns states (nx, n) around x, drawn by its uncertainty, from the origin."""
        s, place, z = self.settings, self._place, self._start
        states = np.repeat(x[:, None], self.rollouts, axis=1)
        for name, at, noise in zip(("x", "y"), self._where(x) - self._origin(x), z):
            states[place[name]] = at + s.position_sd * noise
        states[place["yaw"]] += s.heading_sd * z[2]
        faster = 1.0 + s.speed_sd * z[3] / max(float(x[place["vx"]]), 1.0)
        for name, row in place.items():  # wheels roll as the vehicle does
            if name == "vx" or name.startswith("omega"):
                states[row] *= faster
        return np.ascontiguousarray(states, dtype=self._dtype)

    def _met(self, x: np.ndarray, obstacles: Obstacles, begin: float, corridor: Corridor | None,
             walls: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Returns the obstacles of each sample, as the kernel takes them: circles, their first rows and random numbers; edges, their first
        rows."""
        origin, here = self._origin(x), self._where(x)
        speeds = np.array([x[self._place["vx"]], x[self._place["vy"]] if "vy" in self._place else 0.0])
        yaw, t, samples = float(x[self._place["yaw"]]), self.times, len(self.times)
        turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
        reach = self._numbers[:2].astype(float).max() + float(self._numbers[2]) + SIGMAS * self.settings.position_sd
        # Where the vehicle can be: a box in its axes that grows.
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
            one = np.concatenate([np.arange(n), np.tile(np.flatnonzero(walks), len(HALTS_AFTER))])  # and those that halt
            going = obstacles.halting(walks, HALTS_AFTER, HALTING) if walks.any() else obstacles
            centres = going.centres - origin + going.shifts(elapsed)
            sd, speed_sd = obstacles.deviations.T if obstacles.deviations is not None else (np.full(n, s.obstacle_sd),
                                                                                         np.where(moving, s.obstacle_speed_sd, 0.0))
            sd, speed_sd = np.maximum(sd, np.where(walks, MIN_SD, 0.0))[one], speed_sd[one]
            drift = np.maximum(elapsed, 0.0)[:, None] * speed_sd
            # The measured radius: that to keep clear of is larger, which would bias a probability.
            radii = (obstacles.radii if obstacles.excess is None else np.maximum(obstacles.radii - obstacles.excess, 0.0))[one]
            table = np.stack([centres[..., 0], centres[..., 1], np.broadcast_to(radii, drift.shape),
                              np.broadcast_to(sd, drift.shape), drift], axis=-1)
            chosen = within(centres, radii + SIGMAS * (sd + drift))
            circles = table[chosen]
            # The same random numbers for the same thing from one decision to the next: by its place if it stands.
            names = np.where(moving, np.arange(n), (np.round(obstacles.centres[:, 0]) * 73 + np.round(obstacles.centres[:, 1]) * 179))
            names = np.abs(names).astype(np.int64) % ROWS
            # Circles of one body, which have one velocity, halt together.
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
        """Edges (E, 4) from the origin, of a vehicle that is here [m], and 1 for each that is a border of the corridor, else 0."""
        found = [np.empty((0, 4))] if walls is None else [np.asarray(walls, float) - np.tile(origin, 2)]
        count = len(found[0])
        if corridor is not None:
            path, rows = corridor.path, corridor.room
            station = float(path.project(here[:1], here[1:])[0][0])
            begin = max(station - BEHIND, float(rows[0, 0]))
            coasted = station + max(v, 0.0) * self.times[-1]
            end = min(coasted + 0.5 * MAX_LONGITUDINAL_ACCELERATION * self.times[-1]**2 + AHEAD, float(rows[-1, 0]))
            if end - begin > 0.1:
                s = np.union1d(np.linspace(begin, end, max(2, math.ceil((end - begin) / EVERY) + 1)),
                               rows[(rows[:, 0] > begin) & (rows[:, 0] < end), 0])
                x, y, yaw, _ = path.at(s)
                out = outside(rows, path, station, float(here[0]), float(here[1]), heading, self._footprint)
                for room, side, beyond in zip(corridor.room_at(s), (1.0, -1.0), out):
                    aside = side * (room + (beyond + BEYOND if beyond else 0.0))
                    points = np.column_stack([x - aside * np.sin(yaw), y + aside * np.cos(yaw)]) - origin
                    corners = points[straightened(points, SAG)]
                    found.append(np.column_stack([corners[:-1], corners[1:]]))
        segments = np.concatenate(found)
        return segments, (np.arange(len(segments)) >= count).astype(float)


def straightened(points: np.ndarray, sag: float) -> np.ndarray:
    """Returns which of the points (n, 2) of a line are needed to keep the others within `sag` [m] of it (Douglas & Peucker 1973): a mask
    (n,)."""
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
    """Returns the remnant of an operator's hand at each sample, over its standard deviation (K, ...), of normal random numbers (K, ...): a
    process of first order (AR(1)) that begins at 0, since the command now is known."""
    share = math.exp(-settings.sample / settings.remnant_time)
    hand = np.zeros_like(noise)
    for k in range(1, len(noise)):
        hand[k] = share * hand[k - 1] + math.sqrt(1.0 - share * share) * noise[k]
    return hand


def _outlook(results: np.ndarray, until: float) -> Outlook:
    """Returns the outlook of runs (10, n) until a time [s]."""
    row = dict(zip(RESULTS, results))
    n, end = results.shape[1], min(until, 0.5 * FAR)
    lost = row["finite"] < 0.5
    hit, left = row["hit_at"] <= end, row["left_at"] <= end
    lifted, spun = ((row[at] <= end) & (row[at] < row["hit_at"]) & ~lost for at in ("lifted_at", "spun_at"))
    severe = hit | lifted | spun | lost
    failed = severe | left
    first = np.minimum.reduce([row[at] for at in ("hit_at", "left_at", "lifted_at", "spun_at")])[failed & ~lost]
    collision, lift, spin, leaving, failure = (Frequency(int(what.sum()), n) for what in (hit, lifted, spun, left, failed))
    speed = np.where(hit, np.abs(row["hit_speed"]), 0.0)
    return Outlook(collision, lift, spin, leaving, failure, failed, severe, speed, float(np.median(first)) if len(first) else math.nan)
