"""Arbiter of shared control: takes stamped inputs of all sources, and returns a command with its reasons on request.

Without clock or random numbers: equal calls give bit-identical commands.
"""

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lfdm_ros.bounds import MALFORMED, NOT_FINITE, STAMP, Refusals, Refused, require_all
from lfdm_ros.control.limits import LimitTable
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import REQUIRED, Measured
from lfdm_ros.control.routing.traffic import follows
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.sharing.blend import SideChoice, aligned, blended, braked_with, opposite
from lfdm_ros.sharing.forecast import Forecast, column
from lfdm_ros.sharing.gate import SLOW, OutputGate
from lfdm_ros.sharing.machine import (
    FRESH,
    NEVER,
    Action,
    Authority,
    Latch,
    MachineInputs,
    Presence,
    Row,
    SourceMonitor,
    SourceTimeouts,
    row_of,
)
from lfdm_ros.sharing.operator_learning import OperatorLearner, OperatorPosterior
from lfdm_ros.sharing.sharing_settings import AUTONOMY, BLEND, HOLD_SHARE, OPERATOR, SHARING, SharingSettings
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand, still_acting
from lfdm_ros.sharing.takeover import Offer, Takeover, TakeoverState, TakeoverStatus
from lfdm_ros.sharing.threat import Threat, ThreatComponent, assess
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle

MAX_SENT = 1000  # stored commands: cover the oldest state and the longest delay together
AHEAD = 0.1  # [s] a message may be stamped ahead of the clock
HORIZON = 3.0  # [s] of the operator's intention
PAST, PAST_STEP = 3.0, 0.02  # [s] span and spacing of the stored states: sources in time answer none that is older
RELAPSE = 3.0  # [s] within which a returning threat counts as the same
LINK_HOLD, LINK_PEDAL_HOLD = 5.0, 20.0  # [s] additional hold of k over a slow link, and there while pedals differ
PEDAL_HOLDS = 3.0  # `extra_hold` while pedals differ, without delay
MAX_HOLDS = 4.0  # largest factor of it: doubles each time that a threat returns
SLOW_LINK = 0.05, 0.1  # [s] ages of the operator's command between which it grows from `extra_hold`, and the brake's weight falls
LINK_TIMES = 4.0  # ages of the operator's command: two round trips of the link
SAME_PEDAL = 0.3  # [1] largest difference of throttle less brake of pedals that do not differ
SAME_OPERATOR = 10.0  # [s] of silence after which it may be another operator
MAX_STOP_PLAN_AGE = 5.0  # [s] of a plan whose steering a stop follows
STANDING = 0.3  # [m/s] below which a waiting vehicle is held by the brake
MOVING = 0.5  # [m/s] above which a constant position is a frozen state
STATE = "state"
SOURCES = (OPERATOR, AUTONOMY, "plan", STATE, "obstacles", "posterior", "path", "goal")
UNKNOWN_THREAT = Threat(math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class SharedDecision:
    """A decision at `time` [s], with its reasons.

    command: sent to the vehicle; row: of the state machine; reason: one line. k: share of autonomy, k_wanted: its target before the rate
    limit. operator, autonomy: their commands. limits: those of the gate that changed the command. ages [s] of operator, autonomy, state,
    plan and scan, NaN: none received. latched: emergency stop in force. takeover: the request to the operator.
    """

    time: float
    command: StampedCommand
    row: Row
    mode: str
    reason: str
    k: float
    k_wanted: float
    threat: Threat
    operator: StampedCommand | None
    autonomy: StampedCommand | None
    opposite: bool
    limits: tuple[str, ...]
    ages: Mapping[str, float]
    latched: bool
    takeover: TakeoverStatus


class AuthorityArbiter:
    """Arbiter of authority over one vehicle. See `docs/concepts/sharing.md`."""

    def __init__(self, vehicle: Vehicle, settings: SharingSettings | None = None, components: Sequence[ThreatComponent] = (),
                 table: LimitTable | None = None, refused: Callable[[str], None] = lambda text: None) -> None:
        """Compiles the prediction model, or loads it from the cache.

        Args:
            components: of the threat; without any the operator drives.
            table: steering limits against wheel lift, for the command gate.
            refused: callback for rejected input (one line each; may be frequent).

        Raises:
            InputError: the vehicle lacks parameters.
        """
        self.settings = settings or SharingSettings()
        self.components, self.vehicle = tuple(components), vehicle
        self.refusals = Refusals(refused, SOURCES)
        self._law = self.settings.law_of()
        self._forecast = Forecast(vehicle, self.settings.forecast_model)
        self._gate = OutputGate(vehicle, self.settings, table)
        self._learner = OperatorLearner(vehicle)
        for component in self.components:
            if callable(prepare := getattr(component, "prepare", None)):
                prepare(vehicle)
        self.draws: Draws | None = None
        self.path: Path | None = None
        self.corridor: Corridor | None = None
        self._hidden_speed = 0.0
        self._latch, self._takeover, self._takeover_status = Latch(), Takeover(), TakeoverStatus()
        self._offer = Offer()
        self.reset()

    def reset(self, moved: bool = True) -> None:
        """Clears everything but vehicle, settings, path and the latch of the emergency stop, after a jump of time or position.

        Args:
            moved: vehicle, position or operator have changed; else the command in force stays, so that it does not jump.
        """
        self._sources = {name: SourceMonitor(name) for name in (OPERATOR, AUTONOMY, STATE)}
        self._requested: dict[str, StampedCommand | None] = {OPERATOR: None, AUTONOMY: None}
        self._plan: Plan | None = None
        self._plan_stamp = -math.inf
        self._measured: Measured | None = None
        self._past: deque[Measured] = deque(maxlen=round(PAST / PAST_STEP))
        self._obstacles: Obstacles = NO_OBSTACLES
        self._sent: deque[StampedCommand] = deque(maxlen=MAX_SENT)
        self._k = self._k_target = self._law_k = 0.0
        self._brake_weight, self._operator_brakes = 0.0, False  # weight of an operator's brake harder than autonomy's; whether it acts
        self._threat, self._assessed = UNKNOWN_THREAT, -math.inf
        self._threats: deque[tuple[float, float]] = deque()  # times and threats within the hold of k
        self._last_high = -math.inf  # time at which the law's k was last above 1/2
        self._holds, self._released = 1.0, -math.inf  # factor of the additional hold; time at which k last fell below 1/2
        self._choice = SideChoice()
        self._opposite = False
        self._first_state, self._now = math.inf, -math.inf
        if moved:
            self._gate.reset()
            self._learner.reset()
            self._takeover.end()
            self._offer.end()
        else:
            self._gate.restart()
            self._learner.restart()
        for component in self.components:
            component.reset()

    # -- Changes while driving -----------------------------------------------------------------------------------------

    def tune(self, **changes: Any) -> None:
        """Changes settings that are live, from the next decision on. Raises InputError for others, or a value out of range."""
        self.settings = SHARING.tuned(self.settings, changes)
        if "mode" in changes:
            self._takeover.end()  # a new mode overrides it
            self._offer.end()
        self._law, self._gate.settings = self.settings.law_of(), self.settings

    def set_vehicle(self, vehicle: Vehicle, draws: Draws | None = None) -> None:
        """Sets the parameters of the vehicle, and the posterior draws behind them. Raises InputError if some are missing; then nothing has
        changed."""
        before = self.vehicle
        try:
            self._gate.set_vehicle(vehicle)
            self._forecast.set_vehicle(vehicle)
        except InputError:
            self._gate.set_vehicle(before)
            self._forecast.set_vehicle(before)
            raise
        self._learner.set_vehicle(vehicle)
        self.vehicle, self.draws = vehicle, draws

    def follow(self, path: Path | None, corridor: np.ndarray | None = None, hidden_speed: float = 0.0) -> None:
        """Sets the path, and its corridor: rows (k, 3) of s, room to the left and to the right [m]; None: there is none. hidden_speed: of
        traffic that obstacles beside the path may hide [m/s]."""
        self.path, self._hidden_speed = path, hidden_speed
        self.corridor = None if path is None or corridor is None else Corridor(path, np.asarray(corridor, float))

    def stop(self, why: str = "") -> None:
        """Latches the emergency stop until `release`."""
        self._latch.close(why)

    def release(self) -> bool:
        """Ends the emergency stop; False: there was none."""
        return self._latch.open()

    def request_takeover(self, reason: str, lead_time: float) -> None:
        """Requests a takeover by the operator within `lead_time` [s]. Raises InputError: see `Takeover.request`, or the mode is
        operator."""
        if self.mode == OPERATOR and not self._takeover.taken:
            raise InputError("takeover: the operator drives already, in mode operator")
        self._takeover.request(self._now, reason, lead_time, self._requested[OPERATOR])

    def withdraw_takeover(self) -> bool:
        """Withdraws a takeover request that has not been acknowledged; False: there is none."""
        pending = self._takeover.pending
        if pending:
            self._takeover.end()
        return pending

    def acknowledge_takeover(self) -> bool:
        """Gives the operator sole control until `hand_back`; False: nothing was requested."""
        return self._takeover.acknowledge()

    def hand_back(self) -> None:
        """Ends the operator's sole control after a takeover. Raises InputError: there was no takeover, or autonomy sends no command, or its
        plan is too old."""
        if not self._takeover.taken:
            raise InputError("hand back: no takeover is in force")
        if self._sources[AUTONOMY].presence(self._now, self._limits(AUTONOMY)) is not FRESH:
            raise InputError("hand back: autonomy sends no command; the operator keeps the vehicle")
        if self._plan is not None and self._valid_plan(self._now) is None:
            raise InputError(f"hand back: autonomy's plan is {self._now - self._plan_stamp:.1f} s old; the operator keeps the vehicle")
        self._takeover.end()

    @property
    def mode(self) -> str:
        """The mode in force: operator after a takeover, autonomy after the operator has accepted its offer, else that of the settings."""
        return OPERATOR if self._takeover.taken else AUTONOMY if self._offer.given else self.settings.mode

    # -- Inputs ------------------------------------------------------------------------------------------------------------

    def on_operator_command(self, stamp: float, inputs: tuple[float, float, float], now: float) -> bool:
        """Takes the operator's steering, throttle and brake, stamped `stamp` [s]; False: refused, and counted."""
        return self._on_command(OPERATOR, stamp, inputs, now)

    def on_autonomy_command(self, stamp: float, inputs: tuple[float, float, float], now: float) -> bool:
        """Takes autonomy's command as `on_operator_command` does."""
        return self._on_command(AUTONOMY, stamp, inputs, now)

    def _on_command(self, name: str, stamp: float, inputs: tuple[float, float, float], now: float) -> bool:
        self._begin(now)
        try:
            command = StampedCommand(stamp, *inputs)
            self._sources[name].on_message(stamp, now, AHEAD, self.settings.max_silence)
        except InputError as error:
            self.refusals.refuse(name, error)
            return False
        self._requested[name] = command
        return True

    def on_plan(self, stamp: float, plan: Plan, now: float) -> bool:
        """Takes autonomy's plan, decided at `stamp` [s], its times on the same clock; False: refused, and counted."""
        self._begin(now)
        n = len(plan.times)
        try:
            if not {"x", "y", "yaw", "vx"} <= set(plan.names) or n < 2 or plan.states.shape != (n, len(plan.names)) \
                    or plan.inputs.shape != (n, 3):
                raise Refused(f"{n} rows, states {plan.states.shape} of {', '.join(plan.names)}, inputs {plan.inputs.shape}", MALFORMED)
            if not (np.isfinite(plan.times).all() and np.isfinite(plan.states).all() and np.isfinite(plan.inputs).all()):
                raise Refused("a time, state or input is not finite", NOT_FINITE)
            if not (np.diff(plan.times) > 0.0).all():
                raise Refused("the times do not increase", MALFORMED)
            if not self._plan_stamp < stamp <= now + AHEAD:
                raise Refused(f"stamped {stamp:.3f} s, the one before {self._plan_stamp:.3f} s, the clock is {now:.3f} s", STAMP)
        except Refused as error:
            self.refusals.refuse("plan", error)
            return False
        self._plan, self._plan_stamp = plan, stamp
        return True

    def on_state(self, stamp: float, values: Mapping[str, float], now: float) -> bool:
        """Takes the vehicle's state at `stamp` [s], by state name of the models; False: refused, and counted."""
        self._begin(now)
        try:
            require_all(values, REQUIRED)
            last = self._measured
            if last is not None and stamp > last.time and self._frozen(last.values, values):
                raise Refused(f"frozen: at ({values['x']:.2f}, {values['y']:.2f}) m as before, at {values['vx']:.1f} m/s")
            self._sources[STATE].on_message(stamp, now, AHEAD, self.settings.max_silence)
        except Refused as error:
            self.refusals.refuse("state", error)
            return False
        self._measured = measured = Measured(stamp, {name: value for name, value in values.items() if value == value})
        if not self._past or stamp >= self._past[-1].time + PAST_STEP - 1e-6:
            self._past.append(measured)
        self._first_state = min(self._first_state, now)
        self._gate.set_motion(values["vx"], values["vy"], values["yaw_rate"], (values["x"], values["y"], values["yaw"]))
        return True

    @staticmethod
    def _frozen(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
        moving = math.hypot(after["vx"], after["vy"]) > MOVING
        return moving and all(before[name] == after[name] for name in ("x", "y", "vx"))

    def update_obstacles(self, obstacles: Obstacles) -> bool:
        """Takes the present obstacles; False: refused, and counted."""
        o, n = obstacles, len(obstacles.radii)
        if o.centres.shape != (n, 2) or o.velocities.shape != (n, 2) or o.radii.shape != (n,):
            self.refusals.refuse("obstacles", "centres, radii and velocities differ in length", MALFORMED)
            return False
        if n and not (math.isfinite(o.time) and all(np.isfinite(part).all() for part in (o.centres, o.radii, o.velocities))
                      and (o.radii >= 0.0).all()):
            self.refusals.refuse("obstacles", "a time, position, radius or velocity is not finite, or a radius is negative", NOT_FINITE)
            return False
        self._obstacles = obstacles
        return True

    def _begin(self, now: float) -> None:
        if now < self._now - 1e-9:
            self.reset(moved=False)  # the clock went back

    @property
    def operator_posterior(self) -> OperatorPosterior | None:
        """Posterior of the operator's steering; None: not enough samples yet."""
        return self._learner.posterior

    # -- Output ------------------------------------------------------------------------------------------------------------

    def decide(self, now: float) -> SharedDecision:
        """Returns the decision for `now` [s]."""
        self._begin(now)
        dt = min(max(now - self._now, 0.0), 1.0) if math.isfinite(self._now) else 0.0
        self._now, s = now, self.settings
        operator = self._requested[OPERATOR] if self._sources[OPERATOR].presence(now, self._limits(OPERATOR)) is FRESH else None
        self._takeover_status = self._takeover.update(now, operator)
        state = self._takeover_status.state
        if state is TakeoverState.NONE:
            self._takeover_status = self._update_offer(now, operator)
        elif state is TakeoverState.REQUESTED and self._offer.given:
            self._update_offer(now, operator)  # autonomy drives on until the request is answered
        else:
            self._offer.end()
        inputs = self._machine_inputs(now)
        row = row_of(inputs)
        situation = self._situation(now, inputs)
        if situation is not None and now >= self._assessed + s.period - 1e-6:
            self._assess(now, situation, together=row.share is Authority.LAW)
        before = self._k
        self._share(row, dt)
        self._note_relapse(now, before)
        gated = self._gate.admit(self._command(now, row, situation), now, emergency=row.action is Action.EMERGENCY)
        self._sent.append(gated.command)
        ages = {name: source.age(now) for name, source in self._sources.items()}
        ages["plan"] = now - self._plan_stamp if self._plan is not None else math.nan
        ages["scan"] = now - self._obstacles.time if math.isfinite(self._obstacles.time) else math.nan
        return SharedDecision(
            now, gated.command, row, self.mode, self._reason(now, row), self._k, self._k_target, self._threat, self._requested[OPERATOR],
            self._requested[AUTONOMY], self._opposite and row.share is Authority.LAW, gated.limits, ages, self._latch.closed,
            self._takeover_status)

    def _update_offer(self, now: float, operator: StampedCommand | None) -> TakeoverStatus:
        """Returns the status of autonomy's offer to drive on, by the operator's command."""
        s, autonomy = self.settings, self._requested[AUTONOMY]
        share = s.mode == BLEND and not self._latch.closed and all(
            self._sources[name].presence(now, self._limits(name)) is FRESH for name in (AUTONOMY, STATE))
        if not share:
            self._offer.end()
        stands = share and self._measured is not None and abs(self._measured.values["vx"]) < STANDING
        return self._offer.update(now, s.offer_after, stands, autonomy is not None and autonomy.throttle != 0.0, operator)

    def brake(self, now: float) -> StampedCommand:
        """Returns a command that stops at `now` [s], without using any state; the fallback of callers that have none."""
        return self._gate.admit(None, now).command

    def _machine_inputs(self, now: float) -> MachineInputs:
        s = self.settings
        operator, autonomy, vehicle = (source.presence(now, self._limits(name)) for name, source in self._sources.items())
        if s.wait_for_operator and operator is NEVER and self.mode != AUTONOMY:
            autonomy = NEVER  # autonomy waits for the operator
        moving = self._measured is not None and abs(self._measured.values["vx"]) > SLOW
        overdue = moving and now - self._first_state > s.uncommanded_stop_timeout
        expired = self._takeover_status.state is TakeoverState.EXPIRED
        return MachineInputs(self.mode, operator, autonomy, vehicle, self._latch.closed, overdue, expired)

    def _limits(self, source: str) -> SourceTimeouts:
        s = self.settings
        age, timeout = {OPERATOR: (s.operator_age, s.operator_timeout), AUTONOMY: (s.autonomy_age, s.autonomy_timeout),
                        STATE: (s.state_age, s.state_timeout)}[source]
        return SourceTimeouts(age, timeout, s.max_silence)

    def _situation(self, now: float, inputs: MachineInputs) -> Situation | None:
        """Returns the situation without outdated inputs; None if the vehicle's state is outdated."""
        if inputs.vehicle is not FRESH or self._measured is None:
            return None

        def fresh(name: str, presence: Presence) -> StampedCommand | None:
            return self._requested[name] if presence is FRESH else None

        sent = still_acting(tuple(self._sent), self._measured.time, self.vehicle.actuators.delay)
        # The operator's command after clipping by the gate, which removes the rest of the threat.
        operator = fresh(OPERATOR, inputs.operator)
        return Situation(now, self.vehicle, self._measured, sent, operator and self._gate.clip(operator), fresh(AUTONOMY, inputs.autonomy),
                         self._valid_plan(now), self._obstacles, self.path, self.corridor, self.draws, past=tuple(self._past),
                         hidden_speed=self._hidden_speed)

    def _valid_plan(self, now: float) -> Plan | None:
        return self._plan if now - self._plan_stamp <= self.settings.plan_age + 1e-9 else None

    def _assess(self, now: float, situation: Situation, together: bool) -> None:
        """Assesses the threat, of all but traffic that follows and has to keep clear, and the sides on which obstacles are passed."""
        s = self.settings
        self._learn(now)
        situation = dataclasses.replace(situation, operator_posterior=self._learner.posterior)
        if self.corridor is not None and len(situation.obstacles.radii):
            obstacles, path = situation.obstacles, self.corridor.path
            behind = follows(obstacles, *path.project(*obstacles.centres.T), path, situation.measured, self.vehicle.footprint)
            situation = dataclasses.replace(situation, obstacles=obstacles.where(~behind))
        if situation.operator is not None:
            constant = self._forecast.roll_out(situation, situation.operator, HORIZON)
            if len(constant.times) > 1:
                situation = dataclasses.replace(situation, intention=constant)
        self._assessed = now
        self._threat = assess(self.components, situation, s.rule)
        threat = self._threat.relative
        if threat == threat:
            threat = self._hold(now, threat)
        else:
            self._brake_weight = 0.0
        self._opposite = bool(
            s.sides and situation.intention is not None and situation.plan is not None
            and opposite(situation.intention, situation.plan, now, s.sides_horizon, _passable_obstacles(situation), s.sides_near).any())
        self._choice.update(now, self._opposite and together, threat, self._k, s)

    def _hold(self, now: float, threat: float) -> float:
        """Sets the law's k, and returns the threat that sets it: where autonomy has the larger share, the maximum within the hold time.
        Then autonomy keeps its share, up to HOLD_SHARE, and its side for longer."""
        s, age = self.settings, max(self._sources[OPERATOR].age(now), 0.0)
        age = age if age < SAME_OPERATOR else 0.0
        since = now - s.hold - LINK_TIMES * age
        self._threats.append((now, threat))
        while self._threats[0][0] < since - 1e-6:
            self._threats.popleft()
        if self._k > 0.5:
            threat = max(value for _, value in self._threats)
        before, self._law_k = self._law_k, self._law.k(threat, self._law_k)
        if self._law_k > 0.5:
            self._last_high = now

        def longer(hold: float, slow: float) -> float:
            return float(np.interp(age, SLOW_LINK, (hold, max(slow, hold))))

        # Autonomy has removed the threat, and an operator who goes on as before returns to it: over a slow link most of all.
        hold = self._holds * longer(s.extra_hold, LINK_HOLD)
        if self._pedals_differ():
            hold = max(hold, longer(PEDAL_HOLDS * s.extra_hold, LINK_PEDAL_HOLD))
        holds = self._k > 0.5 and now - self._last_high < hold
        # Until k has fallen, so that the brake does not ease off at the end; over a slow link an operator brakes for an old picture.
        brakes = self._law_k <= 0.5 and (holds or (self._brake_weight > 0.0 and self._k > self._law_k))
        self._brake_weight = float(np.interp(age, SLOW_LINK, (1.0, 0.0))) if brakes else 0.0
        if holds:
            self._law_k = max(self._law_k, min(before, HOLD_SHARE))
            threat = max(threat, s.choose_operator)
        return threat

    def _pedals_differ(self) -> bool:
        """Checks whether throttle, negative in reverse, less brake differs by more than SAME_PEDAL: handing back would be a jolt."""
        operator, autonomy = self._requested[OPERATOR], self._requested[AUTONOMY]
        if operator is None or autonomy is None:
            return False
        return abs(operator.throttle - operator.brake - autonomy.throttle + autonomy.brake) > SAME_PEDAL

    def _note_relapse(self, now: float, before: float) -> None:
        """Doubles the additional hold of k if k exceeds 1/2 again soon after it fell: the same threat is back. before: k of
        the previous decision."""
        if self._k > 0.5 >= before:
            self._holds = min(2.0 * self._holds, MAX_HOLDS) if now - self._released < RELAPSE else 1.0
        elif before > 0.5 >= self._k:
            self._released = now

    def _learn(self, now: float) -> None:
        """Updates the operator's posterior with the newest state and command, if there is a path to refer them to."""
        age, command = self._sources[OPERATOR].age(now), self._requested[OPERATOR]
        if age > SAME_OPERATOR:
            self._learner.reset()
        if self.path is None or self._measured is None or command is None:
            return
        self._learner.on_state(self._measured, self.path)
        if not command.reverse:
            self._learner.on_command(command.time, command.steering)

    def _share(self, row: Row, dt: float) -> None:
        """Moves k towards the target of the row."""
        if row.share is Authority.LAW:
            if self._choice.k is not None:
                self._k = self._k_target = self._choice.k
                return
            self._k_target = self._law_k
        elif row.share is not Authority.HELD:
            self._k_target = 0.0 if row.share is Authority.OPERATOR else 1.0
        else:
            self._k_target = self._k
        # An absent driver has no share.
        if self._requested[AUTONOMY] is None:
            self._k = 0.0
        elif self._requested[OPERATOR] is None:
            self._k = 1.0
        self._k = self.settings.rate.limited(self._k, self._k_target, dt)

    def _command(self, now: float, row: Row, situation: Situation | None) -> StampedCommand:
        """Returns the command before the gate."""
        s, applied = self.settings, self._gate.applied
        self._operator_brakes = False
        if row.action is Action.WAIT:
            standing = self._measured is None or abs(self._measured.values["vx"]) < STANDING
            return StampedCommand(now, 0.0, 0.0, s.stop_brake if standing else 0.0)
        if row.action is not Action.SHARED:
            brake = s.emergency_brake if row.action is Action.EMERGENCY else s.stop_brake
            return StampedCommand(now, self._stop_steering(now, applied, situation), 0.0, brake)
        operator, autonomy = self._requested[OPERATOR], self._requested[AUTONOMY]
        if autonomy is not None:
            autonomy = aligned(autonomy, self._valid_plan(now), now, self.vehicle.actuators.delay)
        only = operator or autonomy
        assert only is not None  # rows with a shared command need one of them
        if operator is None or autonomy is None:
            return dataclasses.replace(only, time=now)
        if row.share in (Authority.LAW, Authority.OPERATOR) and self._brake_weight > 0.0:
            autonomy, alone = braked_with(operator, autonomy, self._brake_weight), autonomy
            self._operator_brakes = autonomy is not alone
        return blended(operator, autonomy, self._k, now)

    def _stop_steering(self, now: float, applied: StampedCommand, situation: Situation | None) -> float:
        """Returns the steering of the last plan at the vehicle's position; without a recent plan the present steering."""
        plan = self._plan
        if plan is None or situation is None or now - self._plan_stamp > MAX_STOP_PLAN_AGE:
            return applied.steering
        away = np.hypot(column(plan, "x") - situation.value("x"), column(plan, "y") - situation.value("y"))
        return min(max(float(plan.inputs[int(np.argmin(away)), 0]), -1.0), 1.0)

    def _reason(self, now: float, row: Row) -> str:
        brakes = "the operator's brake acts" if self._operator_brakes else ""
        return "; ".join(filter(None, (self._takeover_status.text, brakes, self._reason_of(now, row))))

    def _reason_of(self, now: float, row: Row) -> str:
        if row.action is Action.EMERGENCY:
            return f"emergency stop ({self._latch.why}): latched until it is reset"
        if row.alarm:
            lost = (source.why_lost(now, self._limits(name)) for name, source in self._sources.items())
            requested = self._takeover_status.reason if self._takeover_status.state is TakeoverState.EXPIRED else ""
            return "; ".join((row.why, *filter(None, (requested, *lost))))
        if row.share is not Authority.LAW:
            return row.why or f"mode {self.mode}"
        if self._choice.k is not None:
            return f"opposite sides of an obstacle: {'autonomy' if self._choice.k else 'operator'} drives; " + "; ".join(
                self._threat.reasons[:1])
        return "; ".join(self._threat.reasons[:1]) or "no component of the threat"


def _passable_obstacles(situation: Situation) -> Obstacles:
    """Returns the obstacles that may be passed on either side: all, or those within the corridor. Going round an obstacle beside the lane
    leaves the lane, which the threat assesses; in a bend, a constant command passes every cone beside it on the wrong side."""
    obstacles, corridor = situation.obstacles, situation.corridor
    return obstacles if corridor is None or not len(obstacles.radii) else obstacles.where(corridor.holds(obstacles.centres))
