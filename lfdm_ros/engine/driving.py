"""Timing and inputs of the controller: states, scans and tasks as they arrive, checked. Independent of ROS."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from lfdm_ros.bounds import STAMP, Refusals, refusal
from lfdm_ros.control.cycle import Cycle, Driver
from lfdm_ros.control.prediction import Measured
from lfdm_ros.engine.scan_buffer import ObstacleSource, SensingPilot
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sensors import RadarScan, Sensor
from lfdm_ros.sensors.state_gate import StampGate, StampOrder, clock_set_back
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path


class Drives(Driver, Protocol):
    """Interface of `lfdm_ros.control.Controller` beyond `Driver`."""

    def idle(self) -> None: ...
    def stop(self, now: float, reason: str) -> Cycle: ...
    def reset(self) -> None: ...


@dataclass(frozen=True, eq=False)
class Task:
    """Task: a path, a goal, or neither: stop and stand.

    name: for display; frame: of the coordinates, empty: that of the states; speed: highest [m/s], or one for each point of path.s;
    corridor, stop, hidden_speed: as Controller.follow.
    """

    name: str = "idle"
    frame: str = ""
    path: Path | None = None
    goal: Goal | None = None
    speed: float | np.ndarray = 0.0
    corridor: np.ndarray | None = None
    stop: bool = True
    hidden_speed: float = 0.0


@dataclass(frozen=True, eq=False)
class PilotDecision:
    """Command to send. time_ns: its time [ns]; cycle: its source; frame: of the states; new: from a new cycle; measured: from
    a new state."""

    time_ns: int
    cycle: Cycle
    frame: str
    new: bool
    measured: bool


class Pilot(SensingPilot[PilotDecision]):
    """Timing of the controller's cycles and validation of their inputs.

    Free running, a cycle is due when a state comes a period after the last cycle (half a state's period early is near enough), and
    `watch` runs one where no state came. In lockstep every state gets a decision, between cycles the present one; a state that a scan
    belongs to waits for it. Scans are evaluated after the command is out (`after`), so that they do not delay it.
    """

    def __init__(self, controller: Drives, tracker: ObstacleSource, *, period: float, lockstep: bool = False, lidar_rate: float = 0.0,
                 lidar_latency: float = 0.0, scan_timeout: float = 0.0, shared: Callable[[float, float, float, bool], None] | None = None,
                 radar: Sensor[RadarScan] | None = None, report: Callable[[str], None] = lambda text: None,
                 refused: Callable[[str], None] = lambda text: None) -> None:
        """Creates a pilot whose task is to stand.

        Args:
            period: of the cycles [s].
            lidar_rate: of scans [Hz]; 0: scans are optional.
            lidar_latency: from a scan's stamp to its arrival [s].
            scan_timeout: age of the newest scan [s] from which on the vehicle stops; 0: never. Counts from the first scan, or from the
                first state with a lidar_rate.
            shared: takes the commands that another node sends to the vehicle (`applied`): time [s], steering, pedal, reverse. In lockstep
                a state waits for the command of the one before. None: the controller's own commands are sent.
            radar: of the tracker's radar returns, for its pose, rate and latency.
            report, refused: callbacks for notices and for refusals (may be frequent), one line each.
        """
        super().__init__(tracker, Refusals(refused, ("state", "scan", "goal", "path", "posterior")), lockstep, lidar_rate, lidar_latency,
                         radar)
        self._shared, self._controller, self._report = shared, controller, report
        self._period_ns, self._scan_timeout_ns = round(1e9 * period), round(1e9 * scan_timeout)
        self.task = self._task_in_force = Task()
        self.blind = ""  # why the vehicle stops for lack of scans; empty: it does not
        self._applied = StampGate(self._gate.tolerance_ns)  # commands sent to the vehicle
        self._cycles = StampGate(self._gate.tolerance_ns)  # times of cycles
        self._forget(lambda stamp_ns: False)

    def _forget(self, keep: Callable[[int], bool]) -> None:
        self._sensors.forget(keep)
        self._gate.forget()
        self._barrier.forget()
        self._cycles.last_ns = self._applied.last_ns = None
        self._answered_ns: int | None = None  # stamp of the last state with a cycle
        self._decision: PilotDecision | None = None
        self._alone = False  # lockstep: the sender of commands has fallen silent
        self.blind = ""

    def reset(self, keep: Callable[[int], bool] = lambda stamp_ns: False) -> None:
        """Clears all but the task and the scans whose stamp `keep` accepts, after a jump of time or position."""
        self._forget(keep)
        self.resets += 1
        self._controller.reset()
        self._set(self._task_in_force)

    def begin(self, task: Task) -> None:
        """Sets the initial task. Raises InputError: it cannot be driven."""
        self._set(task)
        self._task_in_force = task

    def drive(self, kind: str, task: Task) -> bool:
        """Accepts a task, its frame checked now or with the first state; False: refused, the previous one stays. kind: "goal" or "path",
        for the refusal."""
        if (foreign := self._gate.foreign(task.frame)) is not None:
            self.refusals.refuse(kind, foreign)
            return False
        try:
            self._set(task)
        except InputError as error:
            self.refusals.refuse(kind, error)
            return False
        self._task_in_force = task
        if self.blind:
            self._controller.idle()
        return True

    def _set(self, task: Task) -> None:
        if task.path is not None:
            self._controller.follow(task.path, task.speed, task.corridor, task.stop, task.hidden_speed)
        elif task.goal is not None:
            self._controller.go_to(task.goal, float(task.speed))
        else:
            self._controller.idle()
        self.task = task

    def state(self, stamp_ns: int, frame: str, values: Mapping[str, float], now_ns: int) -> PilotDecision | None:
        """Takes a state; returns the decision to publish, None: nothing is due. stamp_ns: of the state. values: by state name of the
        models, SI; NaN: not measured. now_ns: on the node's clock; in lockstep not used."""
        if self._gate.repeats(stamp_ns):
            return self._decision if self._barrier.stamp_ns is None else None
        if (why := self._gate.validate(stamp_ns, frame, values, now_ns)) is not None:
            self.refusals.refuse("state", why)
            return self._cycle(stamp_ns, None) if self._lockstep and why.reason != STAMP else None
        usable = {name: value for name, value in values.items() if value == value}
        if (interruption := self._gate.interruption(stamp_ns, usable)) is not None:
            self._report(interruption.text)
            self.reset(interruption.keeps)
        step = stamp_ns - self._gate.last_ns if self._gate.last_ns is not None else 0
        if self._gate.admit(stamp_ns, frame, usable):
            self._check_frame_of_task()
        self.scans.history.add(stamp_ns, usable["x"], usable["y"], usable["yaw"], (usable["vx"], usable["vy"], usable["yaw_rate"]))
        if not self._lockstep:
            return self._answer(stamp_ns, usable, step, now_ns)
        return self._barrier.offer(stamp_ns, lambda: self._answer(stamp_ns, usable, step, stamp_ns))

    def _answer(self, stamp_ns: int, values: Mapping[str, float], step_ns: int, now_ns: int) -> PilotDecision | None:
        # By stamps: when the states are old, the time of the last cycle is ahead of them.
        if self._answered_ns is None or stamp_ns - self._answered_ns >= self._period_ns - step_ns // 2:
            self._answered_ns = stamp_ns
            return self._cycle(stamp_ns if self._lockstep else max(now_ns, stamp_ns), Measured(1e-9 * stamp_ns, dict(values)))
        if self._lockstep and self._decision is not None:
            self._decision = PilotDecision(stamp_ns, self._decision.cycle, self.frame, False, False)
            return self._decision
        return None

    def watch(self, now_ns: int) -> PilotDecision | None:
        """Runs a cycle without a state if none ran lately; to be called once a period, without effect in lockstep."""
        if self._lockstep or now_ns <= 0:  # simulated time has not begun
            return None
        last_ns = self._cycles.last_ns
        if last_ns is None:
            return self._cycle(now_ns, None)
        if self._cycles.order(now_ns) is StampOrder.SET_BACK:
            self._report(clock_set_back(last_ns, now_ns))
            self.reset()
            return None
        # After a cycle from a state the next state gets half a period of grace; after one without, a timer may be early by a quarter.
        patience = 1.5 if self._decision is not None and self._decision.measured else 0.75
        return self._cycle(now_ns, None) if now_ns - last_ns >= patience * self._period_ns else None

    def _cycle(self, now_ns: int, measured: Measured | None) -> PilotDecision:
        self._check_scans(now_ns)
        self._cycles.last_ns = now_ns
        cycle = self._controller.cycle(1e-9 * now_ns, measured)
        decision = PilotDecision(now_ns, cycle, self.frame, True, measured is not None)
        self._decision = replace(decision, new=False)  # for repeated requests
        return decision

    def stop(self, now_ns: int, reason: str) -> PilotDecision:
        """Returns a stop, the lowest fallback level, at once, after a failed cycle. In lockstep 0 is the time of the last state."""
        if self._lockstep and not now_ns and self._gate.last_ns is not None:
            now_ns = self._gate.last_ns
        self._barrier.forget()
        self._cycles.last_ns = now_ns
        decision = PilotDecision(now_ns, self._controller.stop(1e-9 * now_ns, reason), self.frame, True, False)
        self._decision = replace(decision, new=False)
        return decision

    def _check_frame_of_task(self) -> None:
        """Refuses a task that came before the first state, if it is in another frame."""
        if (foreign := self._gate.foreign(self._task_in_force.frame)) is not None:
            self.refusals.refuse("goal" if self._task_in_force.goal is not None else "path", foreign)
            self.begin(Task())

    def applied(self, stamp_ns: int, inputs: tuple[float, float, float]) -> PilotDecision | None:
        """Takes steering, throttle and brake as sent to the vehicle by any source; returns the decision for a state that waited for them.
        Refuses those out of range and ignores those not newer than the last."""
        if self._shared is None or self._applied.order(stamp_ns) in (StampOrder.REPEATED, StampOrder.LATE):
            return None
        if any(refusal(name, value) for name, value in zip(("stamp", "steering", "throttle", "brake"), (1e-9 * stamp_ns, *inputs))):
            self.refusals.refuse("applied", f"steering, throttle, brake {inputs} at {1e-9 * stamp_ns:.3f} s")
            return None
        self._applied.last_ns, self._alone = stamp_ns, False
        steering, throttle, brake = inputs
        self._shared(1e-9 * stamp_ns, steering, abs(throttle) - brake, throttle < 0.0)
        return self._barrier.release()

    def _is_early(self, stamp_ns: int) -> bool:
        """Checks that a state precedes a due scan, or the command for the previous state."""
        if self._shared is not None and not self._alone and self._decision is not None and (
                self._applied.last_ns is None or self._applied.last_ns < self._decision.time_ns):
            return True
        return bool(self._sensors.due(stamp_ns, self._gate.first_ns))

    def give_up_on_scan(self) -> PilotDecision | None:
        """Answers a state that has waited too long without its missing input, and stops waiting for that until it comes again."""
        stamp_ns = self._barrier.stamp_ns
        if stamp_ns is None:
            return None
        for text in self._sensors.give_up(stamp_ns, self._gate.first_ns):
            self._report(text)
        if self._is_early(stamp_ns):
            self._alone = True
            self._report("the commands sent to the vehicle are unknown; going on without them")
        return self._barrier.release()

    def after(self) -> None:
        """Evaluates the scans that have come and polls the controller; to be called when the command is out."""
        # A state that waits must not depend on which of the scans that it waits for came first.
        if not self.waits and (obstacles := self._sensors.look()) is not None:
            self._controller.update_obstacles(obstacles)
        if self._cycles.last_ns is not None:
            self._controller.poll(1e-9 * self._cycles.last_ns)

    @property
    def obstacles(self) -> Obstacles | None:
        """Latest obstacles; None: no scan was evaluated."""
        return self.scans.obstacles

    @property
    def scan_missing(self) -> str:
        """Message on the scan that did not come in time, in lockstep; empty: all came."""
        return self.scans.missing

    def _check_scans(self, now_ns: int) -> None:
        """Stops the vehicle when scans are missing, and resumes when they return."""
        since = self.scans.obstacles_ns
        if since is None and self.scans.expects:
            since = self._gate.first_ns
        late = 0 if since is None else now_ns - since
        if self._scan_timeout_ns and late > self._scan_timeout_ns:
            if not self.blind:
                self._report(f"no scan for {1e-9 * late:.2f} s: stopping")
                self._controller.idle()
            self.blind = f"no scan for {1e-9 * late:.2f} s"
        elif self.blind:
            self.blind = ""
            self._report("scans come again: going on")
            self._set(self._task_in_force)
