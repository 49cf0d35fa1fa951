"""Timing and inputs of shared control: states, commands, plans and scans as they arrive, checked. Independent of ROS."""

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from lfdm_ros.bounds import FRAME, Refused, require
from lfdm_ros.control.plan import Plan
from lfdm_ros.engine.driving import Task
from lfdm_ros.engine.scan_buffer import ObstacleSource, SensingPilot
from lfdm_ros.sensors import RadarScan, Sensor
from lfdm_ros.sensors.state_gate import Interruption, StampGate, StampOrder, clock_set_back
from lfdm_ros.sharing.arbiter import AuthorityArbiter, SharedDecision
from lfdm_ros.sharing.sharing_settings import AUTONOMY, OPERATOR

PLAN = "plan"
NEAR = 2.0  # [m] a vehicle that is nearer than this when the clock goes back has not moved
PATIENCE = 1.5  # periods without a state after which a command goes out anyhow
_PLANS = 4
_NEWS = 0.02  # change of the operator's steering or pedals [1] that does not wait for the next state
_AHEAD_NS = 1_000_000_000  # largest lead of an answer over its state


class SharedPilot(SensingPilot[SharedDecision]):
    """Timing of an `AuthorityArbiter` and supply of its inputs, of which unusable ones are refused by name.

    Free running, a command goes out with each state, between two states at once when the operator's changes, and by `watch` where no state
    came. In lockstep a state waits for its answers: the command of each source that takes part in the mode, stamped as the state,
    autonomy's plan, scans and radar's returns where they are due; then one decision, stamped as the state. A source that is given up on is
    not waited for until it answers again. So the order of messages has no effect.
    """

    def __init__(self, arbiter: AuthorityArbiter, tracker: ObstacleSource, *, period: float, lockstep: bool = False,
                 plan_period: float = 0.0, lidar_rate: float = 0.0, lidar_latency: float = 0.0, radar: Sensor[RadarScan] | None = None,
                 report: Callable[[str], None] = lambda text: None) -> None:
        """Creates a pilot without a task.

        Args:
            period: between two commands where no state comes [s].
            plan_period: in lockstep, between two plans of autonomy [s], the first one stamped as its first command, a plan of no rows where
                it has none; 0: plans are not waited for.
            lidar_rate, lidar_latency, radar: as `ScanBuffers`.
            report: takes notices, each in one line.
        """
        super().__init__(tracker, arbiter.refusals, lockstep, lidar_rate, lidar_latency, radar)
        self.arbiter, self._report, self._decisions = arbiter, report, StampGate()
        self._period_ns, self._plan_period_ns = round(1e9 * period), round(1e9 * plan_period)
        self._task = ("path", Task())  # its kind; its frame is compared with that of the first state
        self.missing: dict[str, str] = {}  # lockstep: message on each source that did not answer in time
        self._forget(lambda stamp_ns: False)

    def _forget(self, keep: Callable[[int], bool]) -> None:
        self._sensors.forget(keep)
        self._gate.forget()
        self._barrier.forget()
        self._plans: deque[tuple[int, Plan]] = deque(maxlen=_PLANS)  # that the arbiter has not got yet
        self._first_autonomy_ns: int | None = None  # stamp of its first command
        self._answered: dict[str, int] = {}  # stamp of the newest message of each source
        self._issued_ns: dict[str, int] = {}  # time of issue of its newest command
        self._decided: SharedDecision | None = None
        self._hurried = False  # a decision for the operator's news has been made since the last state
        self._decisions.last_ns = None

    def reset(self, keep: Callable[[int], bool] = lambda stamp_ns: False, moved: bool = True) -> None:
        """Discards states, scans and answers after a jump of time or place. An emergency stop stays; unless the vehicle has `moved`, the
        command in force, too."""
        self._forget(keep)
        self.resets += 1
        self.arbiter.reset(moved)

    def drive(self, kind: str, task: Task) -> bool:
        """Accepts the path to drive and its corridor, from the next decision on; a task without a path: there is none. False: refused, and
        the one before counts. kind: "goal" or "path", for the refusal."""
        if (foreign := self._gate.foreign(task.frame)) is not None:
            self.refusals.refuse(kind, foreign)
            return False
        self._task = (kind, task)
        self.arbiter.follow(task.path, task.corridor, task.hidden_speed)
        return True

    def state(self, stamp_ns: int, frame: str, values: Mapping[str, float], now_ns: int) -> SharedDecision | None:
        """Takes a state; returns the decision to send, None: it waits, or was refused."""
        if self._gate.repeats(stamp_ns):
            return self._decided if self._barrier.stamp_ns is None else None
        now_ns = stamp_ns if self._lockstep else now_ns
        try:
            require("stamp", 1e-9 * stamp_ns)
            if self.frame and frame != self.frame:
                raise Refused(f"in frame '{frame}', the ones before in '{self.frame}'", FRAME)
        except Refused as error:
            self.refusals.refuse("state", error)
            return None
        if self._gate.last is not None and self._gate.order(stamp_ns) is StampOrder.SET_BACK:
            last = self._gate.last[1]
            away = math.hypot(values.get("x", math.nan) - last["x"], values.get("y", math.nan) - last["y"])
            self._restart(self._gate.interruption(stamp_ns, values), moved=not away < NEAR)
        if not self.arbiter.on_state(1e-9 * stamp_ns, values, 1e-9 * now_ns):
            return self._decide_or_wait(now_ns) if self._lockstep else None
        usable = {name: value for name, value in values.items() if value == value}
        if self._restart(self._gate.interruption(stamp_ns, usable)):
            self.arbiter.on_state(1e-9 * stamp_ns, values, 1e-9 * now_ns)
        if self._gate.admit(stamp_ns, frame, usable) and (foreign := self._gate.foreign(self._task[1].frame)) is not None:
            self.refusals.refuse(self._task[0], foreign)
            self.drive("path", Task())
        self.scans.history.add(stamp_ns, usable["x"], usable["y"], usable["yaw"], (usable["vx"], usable["vy"], usable["yaw_rate"]))
        # A message stamped far ahead is no answer to this state.
        self._answered = {name: when for name, when in self._answered.items() if when <= stamp_ns + _AHEAD_NS}
        if self._first_autonomy_ns is not None and self._first_autonomy_ns > stamp_ns + _AHEAD_NS:
            self._first_autonomy_ns = None
        self._hurried = False
        return self._decide_or_wait(now_ns)

    def _restart(self, interruption: Interruption | None, moved: bool = True) -> bool:
        """Resets after an interruption of the drive; returns False where there is none."""
        if interruption is None:
            return False
        self._report(interruption.text)
        self.reset(interruption.keeps, moved)
        return True

    def _decide_or_wait(self, now_ns: int) -> SharedDecision | None:
        """Decides, or in lockstep defers the state."""
        return self._barrier.offer(now_ns, lambda: self._decide(now_ns)) if self._lockstep else self._decide(now_ns)

    def awaited(self, stamp_ns: int) -> list[str]:
        """Returns the missing answers to the state of this stamp [ns] by name, in lockstep."""
        mode = self.arbiter.settings.mode
        due = {OPERATOR: stamp_ns} if mode != AUTONOMY else {}
        if mode != OPERATOR:
            due[AUTONOMY] = stamp_ns
            # Of a cycle before: a plan goes out after its command. The first one is waited for too: else it would count from the state
            # on that it happens to overtake.
            last, period = self._answered.get(PLAN, self._first_autonomy_ns), self._plan_period_ns
            if period and last is not None and stamp_ns > last:
                due[PLAN] = last + (stamp_ns - 1 - last) // period * period
        late = [name for name, when in due.items() if self._answered.get(name, -1) < when and name not in self.missing]
        return late + self._sensors.due(stamp_ns, self._gate.first_ns)

    _is_early = awaited

    def _decide(self, now_ns: int) -> SharedDecision:
        self._barrier.forget()
        for stamp_ns, plan in (plans := list(self._plans)):
            if not self._lockstep or stamp_ns < now_ns:
                self.arbiter.on_plan(1e-9 * stamp_ns, plan, 1e-9 * now_ns)
        self._plans.clear()
        self._plans.extend(item for item in plans if self._lockstep and now_ns <= item[0] <= now_ns + _AHEAD_NS)
        decision = self.arbiter.decide(1e-9 * now_ns)
        self._decided, self._decisions.last_ns = decision, now_ns
        return decision

    @property
    def late(self) -> list[str]:
        """Messages on sources, scans and returns that did not come in time."""
        return [*self.missing.values(), *self._sensors.missing]

    @property
    def state_ns(self) -> int:
        """Stamp of the last state [ns]; 0: there was none."""
        return self._gate.last_ns or 0

    @property
    def place(self) -> tuple[float, float] | None:
        """Position x, y of the vehicle at the last state [m]; None: there was none."""
        return (self._gate.last[1]["x"], self._gate.last[1]["y"]) if self._gate.last is not None else None

    @property
    def decided_ns(self) -> int:
        """Time of the last decision [ns]; 0: there was none."""
        return self._decisions.last_ns or 0

    def give_up(self) -> SharedDecision | None:
        """Answers the waiting state without the missing answers, and waits for none of those until they come again."""
        stamp_ns = self._barrier.stamp_ns
        if stamp_ns is None:
            return None
        for text in self._sensors.give_up(stamp_ns, self._gate.first_ns):
            self._report(text)
        for name in self.awaited(stamp_ns):
            self.missing[name] = f"{name} has not answered the state of {1e-9 * stamp_ns:.3f} s; going on without"
            self._report(self.missing[name])
        return self._barrier.release()

    def watch(self, now_ns: int) -> SharedDecision | None:
        """Decides where no command went out lately; to be called once a period, without effect in lockstep."""
        last_ns = self._decisions.last_ns
        if self._lockstep or now_ns <= 0 or last_ns is None:
            return None
        if self._decisions.order(now_ns) is StampOrder.SET_BACK:
            self._report(clock_set_back(last_ns, now_ns))
            self.reset(moved=False)
            return None
        return self._decide(now_ns) if now_ns - last_ns >= PATIENCE * self._period_ns else None

    def now(self, now_ns: int) -> SharedDecision:
        """Decides at once, for an emergency stop or a callback that has failed; 0: at the time of the last state."""
        return self._decide(now_ns or self.state_ns)

    def operator(self, stamp_ns: int, inputs: tuple[float, float, float], now_ns: int, age: float = 0.0) -> SharedDecision | None:
        """Takes the operator's command; returns the decision for a state that waited for it, free running that for a changed command. age:
        [s] by which it is older than its stamp, which in lockstep is that of the state; NaN: an answer, but no command yet."""
        return self._source(OPERATOR, stamp_ns, inputs, now_ns, age)

    def autonomy(self, stamp_ns: int, inputs: tuple[float, float, float], now_ns: int) -> SharedDecision | None:
        """Takes autonomy's command, as `operator`."""
        self._first_autonomy_ns = stamp_ns if self._first_autonomy_ns is None else self._first_autonomy_ns
        return self._source(AUTONOMY, stamp_ns, inputs, now_ns)

    def _source(self, name: str, stamp_ns: int, inputs: tuple[float, float, float], now_ns: int, age: float = 0.0) -> SharedDecision | None:
        hear = self.arbiter.on_operator_command if name == OPERATOR else self.arbiter.on_autonomy_command
        if self._lockstep and stamp_ns <= self._answered.get(name, -1):
            return None  # a repeated answer
        try:
            issued_ns = -1 if math.isnan(age) else stamp_ns - round(1e9 * require("age", age))
        except Refused as error:
            self.refusals.refuse(name, error)
        else:
            if not age or issued_ns > self._issued_ns.get(name, -1):  # a link's repetition is not new
                self._issued_ns[name] = issued_ns
                heard = hear(1e-9 * issued_ns, inputs, 1e-9 * self._clock(stamp_ns, now_ns))
                if heard and name == OPERATOR and self._is_news(inputs, now_ns):
                    self._spoke(name, stamp_ns)
                    self._hurried = True
                    return self._decide(now_ns)
        return self._spoke(name, stamp_ns)

    def _is_news(self, inputs: tuple[float, float, float], now_ns: int) -> bool:
        """Checks, free running, for a change since the last decision; the first one after a state alone, as each costs a decision."""
        before = self._decided.operator if self._decided is not None else None
        if self._lockstep or self._hurried or before is None or now_ns < self.decided_ns:
            return False
        return max(abs(new - old) for new, old in zip(inputs, before.inputs)) > _NEWS

    def plan(self, stamp_ns: int, frame: str, plan: Plan) -> SharedDecision | None:
        """Takes autonomy's plan, its times from the stamp on; as `operator`. It counts from the next decision on, in lockstep from the next
        state's: it may come before or after the command that it belongs to. Without rows: there is none."""
        if self._lockstep and stamp_ns <= self._answered.get(PLAN, -1):
            return None
        if self.frame and frame != self.frame:  # an empty frame too
            self.refusals.refuse(PLAN, f"in frame '{frame}', the states are in '{self.frame}'", FRAME)
        elif len(plan.times):
            self._plans.append((stamp_ns, replace(plan, times=plan.times + 1e-9 * stamp_ns)))
        return self._spoke(PLAN, stamp_ns)

    def _spoke(self, name: str, stamp_ns: int) -> SharedDecision | None:
        """Notes an answer, usable or not, of a source that is then waited for again; returns the decision of a waiting state."""
        self._answered[name] = stamp_ns
        self.missing.pop(name, None)
        return self._barrier.release()

    def _clock(self, stamp_ns: int, now_ns: int) -> int:
        """Returns the time at which a message came [ns]: in lockstep with its state."""
        if not self._lockstep:
            return now_ns
        newest = max(self.decided_ns, self._barrier.stamp_ns or 0, self.state_ns)
        return max(newest, min(stamp_ns, newest + self._period_ns))

    def after(self) -> None:
        """Evaluates the scans and returns that have come; to be called when the command is out."""
        # A state that waits must not depend on which of its answers came first.
        if not self.waits and (obstacles := self._sensors.look()) is not None:
            self.arbiter.update_obstacles(obstacles)
