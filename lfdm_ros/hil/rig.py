"""The rig: the simulated vehicle in the loop with a device at the other end of a link, in real time or in lockstep.

In real time, ticks have deadlines on the steady clock. Each tick first sends the signals of its state, then reads the received commands and
steps the physics to the next tick: a command acts from the tick after its arrival. In lockstep a tick ends with the device's answer. Until
the first answer the rig free-wheels: it repeats the first state at the loop's pace with simulated time stopped, so the start-up time of a
device does not change the run. Faults begin after it.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lfdm_ros.engine.command_hold import CommandHold, Inputs
from lfdm_ros.engine.plant import ActuatedPlant
from lfdm_ros.hil.e2e import INIT, INVALID
from lfdm_ros.hil.faults import Fault, Injector
from lfdm_ros.hil.link import COMMANDS, SIGNALS, Link, Packet
from lfdm_ros.hil.real_time import SKIP, STOP, RealTimeRequest, Timing, granted
from lfdm_ros.hil.realism import Realism
from lfdm_ros.simulation import SimulationDiverged

REAL_TIME, LOCKSTEP = "real_time", "lockstep"
# Reaction to a missing answer within the wait limit, in lockstep.
GO_ON, END = "go_on", "stop"

# The state of a link.
WAITING, UP, SILENT = "waiting", "up", "silent"

_POLL_INTERVAL = 0.2  # [s] between checks for the end of the loop
_MARGIN = 5e-4  # [s] before a deadline without receiving
_MAX_EVENTS = 10_000  # waiting for the publisher
_MAX_TIMED = 64  # last packets whose answers are timed


@dataclass(frozen=True)
class Pace:
    """Pace of a rig. After an unanswered tick of lockstep an answer may take the loop's period, until the next answer comes."""

    mode: str = REAL_TIME  # or LOCKSTEP
    policy: str = SKIP  # after a missed deadline, one of POLICIES
    wait_limit: float = 1.0  # lockstep: maximum wall time [s] of an answer
    on_silence: str = GO_ON  # beyond it, with the last command until the gate's time-out; END: the run ends as failed
    free_wheel: float = 0.0  # lockstep: wall time [s] between two repetitions of the first state; 0: the loop's period
    stop_time: float = 0.0  # simulated time [s] at which the run ends; 0: never
    publish_every: int = 1  # ticks between two published states
    request: RealTimeRequest = field(default_factory=RealTimeRequest)


@dataclass
class Listeners:
    """Callbacks of a rig, called in real time from a separate thread, in lockstep from the loop's thread while the device computes.

    state: simulated time [ns] and the model's outputs; command: time [ns] of the answered state, 0: none, and the admitted steering,
    throttle and brake; faults: time [ns] and the faults active from then; ended: the stop time is reached; failed: reason of an earlier
    end.
    """

    state: Callable[[int, Sequence[float]], None] = lambda time_ns, outputs: None
    command: Callable[[int, Inputs], None] = lambda time_ns, inputs: None
    faults: Callable[[int, tuple[Fault, ...]], None] = lambda time_ns, active: None
    ended: Callable[[str], None] = lambda reason: None
    failed: Callable[[str], None] = lambda why: None


class Rig:
    """Loop of a plant and a link in a separate thread."""

    def __init__(self, plant: ActuatedPlant, link: Link, gate: CommandHold, pace: Pace | None = None, listeners: Listeners | None = None, *,
                 realism: Realism | None = None, faults: Injector | None = None) -> None:
        """Makes the rig. plant: with the injector's `actuators` as its `between` for actuator faults. link: not yet open."""
        self.pace, self._listeners = pace or Pace(), listeners or Listeners()
        self._plant, self.link, self.gate = plant, link, gate
        self._realism, self.faults = realism or Realism(), faults or Injector()
        link.wire.outwards = link.wire.inwards = self.faults.tamper
        self._period_ns = plant.period_ns
        outputs, index = plant.simulator.model.computed_outputs, plant.simulator.output_index
        self._places = [(name, index[name] if name in outputs and name in index else -1) for name in SIGNALS]
        self.timing = Timing(1e-9 * self._period_ns, self.pace.policy)
        self.granted: list[str] = []
        self.time_ns = self.unanswered = 0
        self.link_state, self.trouble = WAITING, ""  # the latter: reason of a failed run
        self._stop_ns = round(1e9 * self.pace.stop_time)
        self._clock_ns = 0  # error of the local clock, positive ahead
        self._free_wheel_ns = -1  # stamp of the state repeated while free-wheeling
        self._sent: deque[tuple[int, float]] = deque(maxlen=_MAX_TIMED)  # stamp on the wire, and time of sending
        self._outputs: list[float] = []
        self._changed = False  # active faults differ from the last tick's
        self._running = False
        self._thread: threading.Thread | None = None
        self._publisher: threading.Thread | None = None
        self._events: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._wake = threading.Event()
        gate.timeout_from_stamp = True  # includes the time on the wire
        gate.restart(0.0)

    def start(self) -> None:
        """Opens the link and starts the loop from the present state and time. Raises InputError: the link cannot be opened."""
        self.link.open()
        self._running = True
        self.trouble = ""
        self._thread = threading.Thread(target=self._run, name="rig", daemon=True)
        self._thread.start()
        if self.pace.mode == REAL_TIME:
            self._publisher = threading.Thread(target=self._publish_all, name="rig publisher", daemon=True)
            self._publisher.start()

    def run(self) -> None:
        """Runs until the loop ends by itself, then closes the link. Raises InputError as `start`."""
        self.start()
        assert self._thread is not None
        self._thread.join()
        self.stop()

    @property
    def output_index(self) -> dict[str, int]:
        return self._plant.simulator.output_index

    def stop(self) -> None:
        """Stops the loop, waits for it and closes the link."""
        self._running = False
        for thread in (self._thread, self._publisher):
            self._wake.set()
            if thread is not None and thread is not threading.current_thread():
                thread.join()
        self._thread = self._publisher = None
        self.link.close()

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return 1e-9 * self.time_ns

    @property
    def timed_out(self) -> bool:
        """True while the vehicle brakes without commands."""
        return self.gate.timed_out(self.time)

    def _run(self) -> None:
        try:
            with granted(self.pace.request if self.pace.mode == REAL_TIME else RealTimeRequest()) as self.granted:
                (self._lockstep if self.pace.mode == LOCKSTEP else self._real_time)()
        except SimulationDiverged as error:
            self._fail(f"the simulation diverged at {self.time:.3f} s: {error}")
        except Exception as error:  # a bug, or a lost bus; reports it to the listeners
            self._fail(f"the loop ended at {self.time:.3f} s: {error!r}")
            raise
        finally:
            self._running = False
            self._wake.set()

    def _fail(self, why: str) -> None:
        self.trouble = why
        self._listeners.failed(why)

    def _real_time(self) -> None:
        timing, link, margin = self.timing, self.link, min(_MARGIN, 0.25 * self.timing.period)
        timing.restart()
        while self._running:
            timing.wait()
            if not timing.begin():
                self._fail(f"the tick of {self.time:.3f} s missed its deadline by more than a period, and the policy is {STOP}")
                return
            self._send(self._packet())
            self._report()
            if self._over():
                return
            while time.monotonic() < timing.deadline and (packet := link.receive(0.0)) is not None:
                self._on_packet(packet)
            if self.link_state == UP and self.timed_out:
                self.link_state = SILENT
            self._advance()
            timing.end()
            # Commands received now act at the next tick; reading them at once times the device.
            while (remaining := timing.deadline - time.monotonic() - margin) > margin and (packet := link.receive(remaining)) is not None:
                self._on_packet(packet)

    def _lockstep(self) -> None:
        timing, limit = self.timing, self.pace.wait_limit
        while self._running:
            timing.begin_at_once()
            packet = self._packet()
            # The listeners run while the device computes.
            requested = self.link_state != WAITING and not self._at_end() and self._send(packet)
            self._report()
            if self._over():
                return
            if self.link_state == WAITING:
                if not self._free_wheel(packet):
                    return
                self.link_state = UP
            elif requested:
                if self._answered(limit):
                    self.link_state, limit = UP, self.pace.wait_limit
                elif not self._silence(limit):
                    return
                else:
                    limit = min(self.pace.wait_limit, timing.period)
            self._advance()
            timing.end()

    def _free_wheel(self, packet: Packet) -> bool:
        """Sends the first state until it is answered; returns False if the loop ends before."""
        pause, self._free_wheel_ns = self.pace.free_wheel or self.timing.period, packet.stamp_ns
        while self._running:
            if not self._send(packet):
                time.sleep(pause)
            elif self._answered(pause):
                return True
        return False

    def _silence(self, limit: float) -> bool:
        """Handles an unanswered tick; returns False if it ends the run."""
        self.unanswered += 1
        self.link_state = SILENT
        if self.pace.on_silence == END:
            self._fail(f"no answer to the state of {self.time:.3f} s in {limit:g} s")
        return self.pace.on_silence != END

    def _answered(self, limit: float) -> bool:
        """Waits for the device's answer to this tick, at most a time [s]; returns False without one."""
        end = time.monotonic() + limit
        while self._running and (remaining := end - (now := time.monotonic())) > 0.0:
            timeout = min(remaining, _POLL_INTERVAL)
            packet = self.link.receive(timeout)
            if packet is not None:
                if self._on_packet(packet):
                    return True
            elif time.monotonic() - now < 0.5 * timeout:  # a device in this thread: no answer will follow
                return False
        return False

    def _packet(self) -> Packet:
        """Returns the packet of the state, with sensor errors and active faults."""
        now, faults = self.time, self.faults
        self._changed = (self.link_state != WAITING or self.pace.mode == REAL_TIME) and faults.at(now)
        clock_ns = round(1e9 * faults.clock)
        # Without stamps, the alive counters jump with the clock.
        self.link.wire.step = 1 + (clock_ns - self._clock_ns) // self._period_ns
        self._clock_ns = clock_ns
        self._outputs = self._plant.simulator.outputs.tolist()
        measured = self._realism.measure(now, {name: self._outputs[i] if i >= 0 else math.nan for name, i in self._places})
        return Packet(max(self.time_ns + clock_ns, 0), faults.values(measured))

    def _send(self, packet: Packet) -> bool:
        """Sends a packet; returns True if the device has to answer it."""
        self._sent.append((packet.stamp_ns, time.monotonic()))
        return self.link.send(packet)

    def _report(self) -> None:
        """Reports the true state, and changed faults, to the listeners."""
        if self._changed:
            self._notify(self._listeners.faults, self.time_ns, self.faults.active)
        if self.time_ns // self._period_ns % self.pace.publish_every == 0 or self._at_end():
            self._notify(self._listeners.state, self.time_ns, self._outputs)

    def _notify(self, listener: Callable[..., None], *event: Any) -> None:
        if self.pace.mode == LOCKSTEP:
            listener(*event)
        elif len(self._events) < _MAX_EVENTS:
            self._events.append((listener, event))
            self._wake.set()

    def _publish_all(self) -> None:
        while self._running or self._events:
            self._wake.wait(0.5)
            self._wake.clear()
            while self._events:
                listener, event = self._events.popleft()
                listener(*event)

    def _at_end(self) -> bool:
        return 0 < self._stop_ns <= self.time_ns

    def _over(self) -> bool:
        """Checks that the stop time is reached, and reports it."""
        if not self._at_end():
            return False
        self._running = False
        self._listeners.ended(f"simulated {self.time:g} s")
        return True

    def _on_packet(self, packet: Packet) -> bool:
        """Passes a command to the gate; returns True if it is admitted."""
        if packet.stamp_ns == self._free_wheel_ns != self.time_ns:
            return False  # further answer to the repeated first state: not an error of the device
        now = time.monotonic()
        while self._sent and self._sent[0][0] <= packet.stamp_ns:
            stamp, at = self._sent.popleft()
            if stamp == packet.stamp_ns:
                self.timing.responses.add(now - at)
        values = self.faults.values(packet.values)
        inputs = (values[COMMANDS[0]], values[COMMANDS[1]], values[COMMANDS[2]])
        stamp_ns = packet.stamp_ns - self._clock_ns if packet.stamp_ns else 0  # without faults of the local clock
        if self.pace.mode == LOCKSTEP:
            good = self.gate.offer_answer(inputs, stamp_ns, self.time_ns, False)
        else:
            good = self.gate.offer(inputs, stamp_ns, self.time_ns)
            self.link_state = UP if good else self.link_state
        if good:
            self._notify(self._listeners.command, stamp_ns, inputs)
        return good

    def _is_blocked(self) -> bool:
        """Checks that a device sends, but none of its messages is used, without an active fault."""
        e2e = self.link.wire.e2e
        return e2e is not None and e2e.state in (INIT, INVALID) and self.timed_out and not self.faults.active

    def _advance(self) -> None:
        if self.pace.mode == REAL_TIME and self._is_blocked():
            self.gate.uncommanded += self.timing.period
        self._plant.drive(self.time, self._realism.command(self.gate.inputs(self.time)))  # type: ignore[arg-type]
        self.time_ns += self._period_ns

