"""The fault matrix: effect of each fault on each signal in a lane change of examples/can_device.py over CAN.

Frames have the packing, counters and checksums of a bus, in lockstep in one thread: reproducible.
"""

import importlib.util
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from lfdm_ros.engine.command_hold import CommandHold
from lfdm_ros.engine.plant import ActuatedPlant
from lfdm_ros.errors import InputError
from lfdm_ros.hil.can_bus import CanLink
from lfdm_ros.hil.can_messages import require_can
from lfdm_ros.hil.faults import ALL, KINDS, Fault, Injector
from lfdm_ros.hil.link import COMMANDS, SIGNALS, VEHICLE, LinkSettings
from lfdm_ros.hil.realism import Realism
from lfdm_ros.hil.rig import LOCKSTEP, Listeners, Pace, Rig
from lfdm_ros.resources import share_directory
from lfdm_ros.simulation import Pose, Simulator
from lfdm_ros.simulation.actuator import Actuator
from lfdm_ros.vehicles import load_vehicle

SPEED, SECONDS, RATE = 12.0, 15.0, 100.0  # [m/s], [s], [Hz]
BEGIN, END = 4.0, 6.0  # [s] of a fault: during the lane change
ROOM = 0.35  # [m] on either side of the vehicle in the narrowest lane of the course
# Sizes of faults, in the signal's unit: wrong, but physically plausible.
SIZES = {"x": 1.0, "y": 1.0, "yaw": 0.1, "vx": 2.0, "vy": 0.5, "yaw_rate": 0.2, "ax": 2.0, "ay": 2.0, **dict.fromkeys(SIGNALS[-4:], 5.0),
         "steering": 0.1, "throttle": 0.3, "brake": 0.3}


def reference_device() -> ModuleType:
    """Imports examples/can_device.py of this installation. Raises InputError: it or one of its packages is missing."""
    require_can()
    path = share_directory() / "examples" / "can_device.py"
    spec = importlib.util.spec_from_file_location("lfdm_can_device", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path} is missing; reinstall lfdm_ros")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class DirectBus:
    """A bus with one device that answers at once: `receive` returns the answer to a frame, or None."""

    def __init__(self, receive: Callable[[Any], Any]) -> None:
        self._receive = receive
        self._answers: deque[Any] = deque()

    def send(self, frame: Any) -> None:
        answer = self._receive(frame)
        if answer is not None:
            self._answers.append(answer)

    def recv(self, timeout: float | None = None) -> Any:
        """Returns the frames of the device, in order; None without any."""
        return self._answers.popleft() if self._answers else None

    def shutdown(self) -> None:
        """Does nothing."""


def lane_change_rig(link: Any, pace: Pace, listeners: Listeners, faults: Injector | None = None, realism: Realism | None = None,
                    speed: float = SPEED) -> Rig:
    """Makes a rig with the vehicle at the start of the lane change, at a speed [m/s]."""
    realism, faults = realism or Realism(), faults or Injector()
    vehicle = load_vehicle("hmmwv", [f"{name}={value!r}" for name, value in realism.vehicle.items()])
    simulator = Simulator(vehicle, model="eight_dof", dt=1e-3)
    plant = ActuatedPlant(simulator, round(1.0 / RATE / simulator.dt), Actuator.of(vehicle.actuators), faults.actuators)
    plant.reset(Pose(speed=speed), 0.0)
    gate = CommandHold(timeout=0.2, timeout_ramp=1.0, timeout_brake=0.5)
    return Rig(plant, link, gate, pace, listeners, realism=realism, faults=faults)


@dataclass(frozen=True)
class FaultOutcome:
    """Outcome of one fault.

    deviation: maximum lateral distance from the lane change [m]; slowest: minimum speed [m/s]; untrusted: messages refused or found
    implausible by the device; refused: messages refused by the link; rejected: commands rejected by the gate; unanswered: ticks without an
    answer; braked: the gate braked without commands.
    """

    kind: str
    signal: str
    text: str
    deviation: float
    slowest: float
    untrusted: int
    refused: int
    rejected: int
    unanswered: int
    braked: bool

    @property
    def noticed(self) -> str:
        """Components that detected the fault."""
        detectors = [name for name, value in (("device", self.untrusted), ("link", self.refused), ("gate", self.rejected),
                                          ("time-out", self.braked)) if value]
        return ", ".join(detectors) or ("wait limit" if self.unanswered else "nobody")

    @property
    def result(self) -> str:
        """Reaction of the vehicle."""
        lane = "kept the lane" if self.deviation <= ROOM else "left the lane"
        return f"{lane}, braked" if self.slowest < 0.7 * SPEED else lane


def drive(faults: Sequence[Fault] = (), device: ModuleType | None = None, seed: int = 1) -> FaultOutcome:
    """Drives one lane change with these faults; the outcome has the name of the first."""
    device = device or reference_device()
    controller = device.Controller(SPEED)
    deviations, speeds, timeouts = [0.0], [SPEED], [False]
    troubles: list[str] = []

    def look(time_ns: int, outputs: Sequence[float]) -> None:
        deviations.append(abs(outputs[y] - device.lane(outputs[x])))
        speeds.append(outputs[vx])
        timeouts.append(rig.timed_out)

    rig = lane_change_rig(CanLink(VEHICLE, LinkSettings(period=1.0 / RATE), DirectBus(controller.hear)),
                          Pace(LOCKSTEP, stop_time=SECONDS), Listeners(state=look, failed=troubles.append), Injector(faults, seed))
    index = rig.output_index
    x, y, vx = index["x"], index["y"], index["vx"]
    rig.run()
    if troubles:
        raise RuntimeError(troubles[0])
    first = faults[0] if faults else None
    return FaultOutcome(
        first.kind if first else "none", first.signal if first else "", str(first or "no fault"), max(deviations), min(speeds),
        controller.rejected + controller.unusable, sum(rig.link.wire.refused.values()), rig.gate.rejections, rig.unanswered, any(timeouts))


def faults_of_matrix() -> Iterable[Fault]:
    """Yields each kind on each of its signals, for two seconds of the lane change."""
    for kind in KINDS.values():
        for signal in kind.only or (*SIGNALS, *COMMANDS):
            value = SIZES[signal] if kind.value == "signal" else 0.0
            yield Fault(kind.name, signal, BEGIN, END, value)


def matrix(faults: Iterable[Fault] | None = None) -> list[FaultOutcome]:
    """Drives without a fault, then once with each."""
    device = reference_device()
    return [drive((), device), *(drive((fault,), device) for fault in (faults_of_matrix() if faults is None else faults))]


def rows(outcomes: Sequence[FaultOutcome]) -> tuple[list[str], list[list[str]]]:
    """Returns headings and rows of a table: signals with the same outcome share a row."""
    heads = ["fault", "of", "noticed by", "what the vehicle did", "largest deviation [m]", "slowest [m/s]"]
    groups: dict[tuple[str, str, str], list[FaultOutcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.kind, outcome.noticed, outcome.result), []).append(outcome)

    def span(values: list[float], digits: int) -> str:
        low, high = min(values), max(values)
        return f"{low:.{digits}f}" if math.isclose(low, high, abs_tol=0.5 * 10.0**-digits) else f"{low:.{digits}f} to {high:.{digits}f}"

    return heads, [[kind, ", ".join(o.signal for o in group) or ALL, noticed, result, span([o.deviation for o in group], 2),
                    span([o.slowest for o in group], 1)] for (kind, noticed, result), group in groups.items()]
