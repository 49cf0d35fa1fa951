"""Counterpart of the rig: the controller is the device under test, with signals of a vehicle or bench over a link."""

import threading
import time
from collections.abc import Callable, Mapping

from lfdm_ros.engine.command_hold import CommandHold, Inputs
from lfdm_ros.hil.faults import Fault, Injector
from lfdm_ros.hil.link import COMMANDS, Link, Packet
from lfdm_ros.hil.real_time import RealTimeRequest, Timing, granted
from lfdm_ros.hil.rig import SILENT, UP, WAITING

_POLL_TIMEOUT = 0.05  # [s]
_NO_STAMP = -1


class Mirror:
    """Receiver of signals in a separate thread, and sender of commands."""

    def __init__(self, link: Link, gate: CommandHold, period: float, signals: Callable[[int, Mapping[str, float]], None], *,
                 on_faults: Callable[[int, tuple[Fault, ...]], None] = lambda time_ns, active: None,
                 failed: Callable[[str], None] = lambda why: None, faults: Injector | None = None,
                 request: RealTimeRequest | None = None) -> None:
        """Makes the mirror. period: expected between two packets [s]. signals: called with time [ns] and signals of each packet; on_faults:
        called with a time [ns] and the faults active from then."""
        self.link, self.gate, self.faults = link, gate, faults or Injector()
        link.wire.outwards = link.wire.inwards = self.faults.tamper
        self._signals, self._on_faults, self._failed, self._request = signals, on_faults, failed, request or RealTimeRequest()
        self.timing = Timing(period)
        self.granted: list[str] = []
        self.time_ns, self.link_state, self.trouble = 0, WAITING, ""
        self._answered: tuple[int, Inputs] = (-1, (0.0, 0.0, 0.0))  # stamp answered by the newest command, and the command
        self._received_at: dict[int, float] = {}  # arrival of the newest packet, by its stamp
        self._running = False
        self._thread: threading.Thread | None = None
        self._sending = threading.Lock()  # `command` and braking by the loop

    @property
    def time(self) -> float:
        """Time of the newest signals [s]."""
        return 1e-9 * self.time_ns

    @property
    def timed_out(self) -> bool:
        """True while the link brakes without commands."""
        return self.link_state != WAITING and self.gate.timed_out(self.time)

    def start(self) -> None:
        """Opens the link and starts receiving. Raises InputError: it cannot be opened."""
        self.link.open()
        self._running = True
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._running = False
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None
        self.link.close()

    def command(self, inputs: Inputs, stamp_ns: int) -> bool:
        """Sends a command in answer to the signals of a time [ns], 0: none; returns False if the gate refuses it."""
        if not self.gate.offer(inputs, stamp_ns, self.time_ns):
            return False
        if (arrival := self._received_at.pop(stamp_ns, None)) is not None:
            self.timing.responses.add(time.monotonic() - arrival)
        self._answered = stamp_ns, inputs
        self._send(inputs, stamp_ns)
        return True

    def _send(self, inputs: Inputs, stamp_ns: int) -> None:
        with self._sending:
            if self._running:
                self.link.send(Packet(stamp_ns, self.faults.values(dict(zip(COMMANDS, inputs)))))

    def _run(self) -> None:
        try:
            with granted(self._request) as self.granted:
                self._listen()
        except Exception as error:  # a bug, or a lost bus
            self.trouble = f"the link ended at {self.time:.3f} s: {error!r}"
            self._failed(self.trouble)
            raise

    def _listen(self) -> None:
        received_at = time.monotonic()
        while self._running:
            packet = self.link.receive(_POLL_TIMEOUT)
            now = time.monotonic()
            if packet is None:
                if self.link_state == UP and now - received_at > self.gate.timeout:
                    self.link_state = SILENT
                if self.link_state == SILENT:  # brakes a vehicle that still receives
                    self._send((0.0, 0.0, self.gate.timeout_brake), _NO_STAMP)
                continue
            received_at = now
            if self.link_state == WAITING:
                self.gate.restart(1e-9 * packet.stamp_ns)
            answered, inputs = self._answered
            if self.link_state == UP and packet.stamp_ns == self.time_ns == answered:  # repeated packet: sends the same answer
                self._send(inputs, answered)
                continue
            self.link_state = UP
            self.timing.begin_at_once()
            self.time_ns = packet.stamp_ns
            if self.faults.at(self.time):
                self._on_faults(self.time_ns, self.faults.active)
            self._received_at = {packet.stamp_ns: now}
            self._signals(packet.stamp_ns, self.faults.values(packet.values))
            if self.gate.timed_out(self.time):
                self._send(self.gate.inputs(self.time), packet.stamp_ns)
            self.timing.end()
