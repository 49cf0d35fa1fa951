"""Loop of the simulator: time, input and pace of each tick. Independent of ROS; the node provides a publisher."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lfdm_ros.engine.command_hold import CommandHold, Inputs
from lfdm_ros.engine.pacing import AnswerWindow, Pacer, SpeedMeter, slowed_by
from lfdm_ros.engine.plant import ActuatedPlant
from lfdm_ros.errors import InputError
from lfdm_ros.plants.plant import AnySimulator
from lfdm_ros.simulation import Pose, SimulationDiverged, Simulator
from lfdm_ros.simulation.actuator import Actuator
from lfdm_ros.vehicles import Vehicle

FREE_RUNNING = "free_running"
LOCKSTEP = "lockstep"

# In lockstep an unanswered state is published again after this wall time [s], for a driver that joined late.
REPUBLISH_AFTER = 0.5
_FOREVER = 3600.0
_LOOK_FOR_DRIVER = 0.1  # [s] of the wall clock, while time stands still for an answer
# Ticks that may wait to be done, and the wall time [s] for which a request waits for its own.
MOST_TICKS = 1_000_000
STEP_PATIENCE = 1.0
_REMEMBERED = 256  # states with timed answers

# (simulated time [ns], outputs in the order of Simulator.output_names)
Publish = Callable[[int, Sequence[float]], None]


@dataclass(frozen=True)
class Status:
    """A snapshot of the loop; see SimulatorStatus.msg."""

    time_ns: int
    ticks: int
    paused: bool
    waiting: bool
    diverged: str
    overruns: int
    speed_factor_asked: float
    speed_factor_reached: float
    slowed_by: str
    held_back: float  # [s] of the wall clock for which ticks waited for the driver's answers; free running
    timed_out: bool
    waited: float  # [s] of the wall clock that a state has been without its answer; lockstep


class Stepper:
    """Loop of a simulator, ours or a plant of others, tick by tick in a thread of its own.

    A tick is one publishing period: one call of Simulator.advance, then one call of `publish`. Time is counted in whole
    ticks, so stamps are exact. The condition `_wake` guards everything; `publish` is called without it, but never together with `forget`
    of a reset, and never after it with a state from before: the lock `_telling` is around both, taken before `_wake`.
    """

    def __init__(self, simulator: AnySimulator, steps_per_tick: int, stepping: str, gate: CommandHold, publish: Publish, *,
                 speed_factor: float = 1.0, stop_time: float = 0.0, ended: Callable[[str], None] = lambda reason: None,
                 actuator: Actuator | None = None, answer_timeout: float = 0.0, has_driver: Callable[[], bool] = lambda: True,
                 deserted: Callable[[float], None] = lambda waited: None, failed: Callable[[str], None] = lambda why: None) -> None:
        """Creates a loop at rest, at time 0.

        Args:
            simulator, actuator: as `ActuatedPlant`; steps_per_tick: physics steps in a publishing period.
            stepping: FREE_RUNNING or LOCKSTEP; gate: validates the commands.
            publish: called in the loop's thread with each new state, the initial one included.
            speed_factor: simulated seconds per wall second, 0: as fast as possible.
            stop_time: simulated time [s] after which the loop stands still and calls `ended`; 0: never.
            answer_timeout: lockstep: wall time [s] without a command for a state after which `deserted` is called, once, with the time
                waited; 0: never.
            has_driver: returns whether any driver is known that could send commands; free running.
            failed: called with the reason when the stop time will not come by itself, or the loop has ended with an exception.
        """
        self._plant = ActuatedPlant(simulator, steps_per_tick, actuator)
        self._period_ns, self._lockstep = self._plant.period_ns, stepping == LOCKSTEP
        self._gate, self._publish = gate, publish
        self._stop_ns = round(stop_time * 1e9) if stop_time > 0.0 else 0
        self._ended, self._answer_timeout, self._deserted, self._failed = ended, answer_timeout, deserted, failed
        now = time.monotonic()
        self._pacer = Pacer(1e-9 * self._period_ns, speed_factor, now)
        self._meter = SpeedMeter(0.0, now)
        self._has_driver = has_driver
        self._window = AnswerWindow(gate.timeout, has_driver)
        self._wake, self._telling = threading.Condition(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._running = self._paused = False
        self.time_ns = self._ticks = self._resets = 0
        self._budget = 0  # ticks still to do although paused
        self._answered = False  # lockstep: the command for this tick has come
        self._fresh = True  # the state is not published yet
        self._diverged = ""
        self._published_at = now
        self._waiting_since = now  # when the state that waits for its answer was first published
        # Stamps of the last states, and the wall time at which they were published.
        self._published: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        # Stamps of states that lockstep has published again, once for each time: as many answers to them are one too many.
        self._repeated: deque[int] = deque(maxlen=_REMEMBERED)
        # Wall seconds from publishing a state to the first command with its stamp.
        self.response_times: deque[float] = deque(maxlen=100_000)
        gate.restart(0.0)

    def start(self) -> None:
        """Starts the loop, from its present state and time."""
        self._running = True
        self._waiting_since = time.monotonic()
        self._resume(self._waiting_since)
        self._thread = threading.Thread(target=self._run, name="stepper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the loop and waits for it; state and time stay."""
        with self._wake:
            self._running = False
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None

    def command(self, inputs: Inputs, stamp_ns: int) -> bool:
        """Offers a driver's command to the gate; False: refused. A state that lockstep has published twice may be answered twice."""
        with self._wake:
            if not self._lockstep:
                self._window.answer(self.time, 1e-9 * stamp_ns if stamp_ns else self.time)
                if self._pacer.blocked:
                    self._wake.notify_all()
                accepted = self._gate.offer(inputs, stamp_ns, self.time_ns)
                if accepted:
                    self._note_response(stamp_ns)
                return accepted
            if stamp_ns in self._repeated and (self._answered or stamp_ns < self.time_ns):
                self._repeated.remove(stamp_ns)
                return True
            if not self._gate.offer_answer(inputs, stamp_ns, self.time_ns, self._answered):
                return False
            self.response_times.append(time.monotonic() - self._published_at)
            self._answered = True
            self._wake.notify_all()
            return True

    def _note_response(self, stamp_ns: int) -> None:
        """Records the response time of a command, which may answer an older state than the last, but none twice."""
        while self._published and self._published[0][0] <= stamp_ns:
            stamp, published_at = self._published.popleft()
            if stamp == stamp_ns:
                self.response_times.append(time.monotonic() - published_at)

    def _resume(self, now: float) -> None:
        """Resumes the pace after time stood still until a wall time [s]."""
        self._pacer.resume(now)
        self._window.restart(self.time)

    def pause(self, paused: bool) -> None:
        with self._wake:
            self._paused = paused
            self._budget = 0
            self._waiting_since = time.monotonic()
            self._resume(self._waiting_since)
            self._wake.notify_all()

    def step(self, ticks: int) -> str:
        """Advances a paused simulator by `ticks`, as fast as possible; returns a remark.

        Free running, it returns once the ticks are done, or after a second of the wall clock while they go on, so that the caller's thread
        serves others. In lockstep each tick waits for its command, which may come through that thread: this grants the ticks and returns.
        Pausing again takes back the ones not done.

        Raises:
            InputError: not active, diverged, not paused, no ticks, or more than MOST_TICKS to be done.
        """
        with self._wake:
            if not self._running:
                raise InputError("the simulator is not active")
            if self._diverged:
                raise InputError(self._diverged)
            if not self._paused:
                raise InputError("the simulator is not paused; pause it first")
            if ticks < 1:
                raise InputError(f"ticks is {ticks}; give 1 or more")
            if self._budget + ticks > MOST_TICKS:
                raise InputError(f"ticks is {ticks}; give at most {MOST_TICKS - self._budget}, which are "
                                 f"{1e-9 * self._period_ns * (MOST_TICKS - self._budget):g} s, or let the simulator run on")
            self._budget += ticks
            self._wake.notify_all()
            if self._lockstep:
                return f"{ticks} ticks granted, each advances when its command comes"
            self._wake.wait_for(lambda: self._budget == 0 or not self._running, STEP_PATIENCE)
            if self._diverged:
                raise InputError(self._diverged)
            return f"{ticks} ticks granted, {self._budget} of them are still to be done" if self._budget else f"{ticks} ticks done"

    def reset(self, pose: Pose, forget: Callable[[int], None] = lambda time_ns: None) -> None:
        """Puts the vehicle at a pose. Takes one tick of time, so that every state has a stamp of its own and time goes forward. forget:
        called with the time [ns] of the first state of the new run, before that is published."""
        with self._telling, self._wake:
            self._resets += 1
            self._plant.reset(pose, 1e-9 * (self.time_ns + self._period_ns))
            self.time_ns += self._period_ns
            forget(self.time_ns)
            self._ticks = self._budget = 0
            self._diverged = ""
            self._gate.restart(self.time)
            self._answered = False
            self._fresh = True
            self._resume(time.monotonic())
            self._wake.notify_all()

    def swap(self, simulator: Simulator) -> None:
        """Replaces the simulator by another of the same model and step, from the state reached: between two ticks, never within one.

        The caller makes and loads the new one, so that the swap itself takes no time; a reset then takes its vehicle.
        """
        with self._wake:
            self._plant.swap(simulator)

    def set_speed_factor(self, factor: float) -> None:
        with self._wake:
            self._pacer.set_factor(factor, time.monotonic())
            self._wake.notify_all()

    @property
    def vehicle(self) -> Vehicle:
        """The vehicle simulated now: by its file, or by the posterior in force."""
        return self._plant.simulator.vehicle

    @property
    def lateness(self) -> list[float]:
        """Wall times [s] by which the last ticks came after their deadlines; empty at full speed."""
        return list(self._pacer.lateness)

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return 1e-9 * self.time_ns

    def status(self) -> Status:
        with self._wake:
            now, requested, paused = time.monotonic(), self._pacer.factor, self._paused or not self._running
            blocked_time = self._pacer.blocked_time(now)
            reached, blocked_share = self._meter.read(self.time, blocked_time, now)
            return Status(
                time_ns=self.time_ns, ticks=self._ticks, paused=paused,
                waiting=self._lockstep and not self._answered, diverged=self._diverged, overruns=self._pacer.overruns,
                speed_factor_asked=requested, speed_factor_reached=reached, held_back=blocked_time,
                slowed_by="" if paused else slowed_by(requested, reached, 1.0 if self._lockstep else blocked_share),
                timed_out=not self._lockstep and self._gate.timed_out(self.time), waited=self._waited())

    def _waited(self) -> float:
        """Returns the wall time [s] that the last state has been without its answer, in lockstep; 0 while time is to stand still."""
        ended = self._stop_ns and self.time_ns >= self._stop_ns
        if not self._lockstep or self._answered or ended or not self._running or (self._paused and self._budget == 0):
            return 0.0
        return time.monotonic() - self._waiting_since

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # a bug; without this the node would fall silent and look healthy
            with self._wake:
                self._diverged = f"the loop ended, restart the node: {error!r}"
                self._wake.notify_all()
            self._failed(self._diverged)
            raise

    def _loop(self) -> None:
        while True:
            with self._wake:
                while self._running and not self._fresh and (wait := self._wait()) > 0.0:
                    self._wake.wait(wait)
                if not self._running:
                    self._wake.notify_all()
                    return
                unanswered = self._lockstep and not self._answered
                waited = self._waited()
                if self._answer_timeout and waited > self._answer_timeout:
                    self._answer_timeout = 0.0  # reported once
                    self._deserted(waited)
                if not self._fresh and not unanswered and not self._advance():
                    if self._stop_ns:
                        self._failed(self._diverged)
                    continue
                if self._fresh or not unanswered:
                    self._waiting_since = time.monotonic()
                else:
                    self._repeated.append(self.time_ns)
                self._fresh = False
                stamp, outputs, resets = self.time_ns, self._plant.simulator.outputs.tolist(), self._resets
                self._published_at = time.monotonic()
                self._published.append((stamp, self._published_at))
            with self._telling:
                if resets != self._resets:  # a state of the run before
                    continue
                self._publish(stamp, outputs)
            # Yields the interpreter to other threads. At full speed this one never waits, and the executor, which brings the
            # commands, would get its turn only every switch interval (5 ms): a hundred ticks too late at 20 x real time.
            time.sleep(0.0)
            if self._stop_ns and stamp >= self._stop_ns:
                self._ended(f"simulated {1e-9 * stamp:g} s")

    def _wait(self) -> float:
        """Returns the wall time [s] to wait before there is something to do; 0 or less: now."""
        if self._diverged or (self._paused and self._budget == 0) or (self._stop_ns and self.time_ns >= self._stop_ns):
            return _FOREVER
        now = time.monotonic()
        if self._lockstep and not self._answered:
            return self._published_at + REPUBLISH_AFTER - now
        if self._budget:
            return 0.0
        # In real time, or slower, a late command is late by the wall clock too.
        slows = not self._lockstep and not 0.0 < self._pacer.factor <= 1.0
        return min(self._pacer.delay(now, self._window.pace(self.time, now) if slows else math.inf), _LOOK_FOR_DRIVER)

    def _advance(self) -> bool:
        """Advances by one tick; False: the simulation diverged."""
        inputs = self._gate.inputs(self.time)
        if not self._lockstep:
            self._gate.tick(self.time, 1e-9 * self._period_ns, self._has_driver)
        if not self._budget:
            self._pacer.tick(time.monotonic())
        try:
            self._plant.drive(self.time, inputs)
        except SimulationDiverged as error:
            # Time stands still until a reset; the node says so in its diagnostics.
            self._diverged = f"the simulation diverged at {self.time:.3f} s, reset it: {error}"
            self._budget = 0
            self._wake.notify_all()
            return False
        self.time_ns += self._period_ns
        self._ticks += 1
        self._answered = False
        if self._budget:
            self._budget -= 1
            if not self._budget:
                self._wake.notify_all()
        return True
