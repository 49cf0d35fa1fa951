"""Buffer of arriving scans, checked and evaluated at the vehicle's pose of their time. Independent of ROS."""

import bisect
import math
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from lfdm_ros.bounds import NOT_FINITE, STAMP, Refusals, refusal
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.rear_view import TwoLidars
from lfdm_ros.sensors import RadarScan, Scan, ScanSchedule, Sensor
from lfdm_ros.sensors.state_gate import MAX_AHEAD_NS, LockstepBarrier, StampGate, StampOrder, StateGate
from lfdm_ros.vehicles import Mount

_POSES = 1000  # kept; 10 s at 100 Hz
_WAITING_SCANS = 4  # older ones give way: obstacles come from the newest
REAR_PATIENCE = 1.0  # [s] without a scan of the second LIDAR

Triple = tuple[float, float, float]


class ObstacleSource(Protocol):
    """Interface of `lfdm_ros.perception.ObstacleTracker`."""

    def update(self, scan: Scan, x: float, y: float, yaw: float) -> None: ...
    def add_radar(self, scan: RadarScan, mount: Mount, pose: Triple, velocity: Triple) -> None: ...
    def obstacles(self) -> Obstacles: ...
    def reset(self) -> None: ...


class PoseHistory:
    """Poses of the vehicle by time, linear between them, and its velocities."""

    def __init__(self) -> None:
        self._poses: deque[tuple[int, Triple, Triple]] = deque(maxlen=_POSES)

    def add(self, time_ns: int, x: float, y: float, yaw: float, velocity: Triple = (0.0, 0.0, 0.0)) -> None:
        """Adds a pose [m, rad], and vx, vy [m/s] and yaw rate [rad/s]; times must grow."""
        self._poses.append((time_ns, (x, y, yaw), velocity))

    def clear(self) -> None:
        self._poses.clear()

    @property
    def last_ns(self) -> int | None:
        return self._poses[-1][0] if self._poses else None

    def at(self, time_ns: int) -> Triple | None:
        """Returns x, y [m], yaw [rad] at a time; None outside the history."""
        poses = self._poses
        if not poses or not poses[0][0] <= time_ns <= poses[-1][0]:
            return None
        i = bisect.bisect_left(poses, time_ns, key=lambda pose: pose[0])
        after, (x, y, yaw), _ = poses[i]
        if after == time_ns:
            return x, y, yaw
        before, (x0, y0, yaw0), _ = poses[i - 1]
        share = (time_ns - before) / (after - before)
        return x0 + share * (x - x0), y0 + share * (y - y0), yaw0 + share * math.remainder(yaw - yaw0, 2.0 * math.pi)

    def velocity_at(self, time_ns: int) -> Triple:
        """Returns vx, vy [m/s] and yaw rate [rad/s] of the first pose that is not before a time within the history."""
        return self._poses[bisect.bisect_left(self._poses, time_ns, key=lambda pose: pose[0])][2]


class ScanBuffer:
    """Scans of a LIDAR or returns of a radar that were not evaluated yet, and the obstacles seen last.

    kind: "scan", "rear scan" or "radar"; history: poses of the vehicle; missing: message on the scan that did not come in time, empty:
    all came.
    """

    def __init__(self, tracker: ObstacleSource, refusals: Refusals, *, lidar_rate: float = 0.0, lidar_latency: float = 0.0,
                 tolerance_ns: int = 0, radar: Mount | None = None, history: PoseHistory | None = None,
                 kind: str = "scan") -> None:
        """Creates an empty buffer.

        Args:
            lidar_rate: scans a second [Hz]; 0: it is not known whether scans come.
            lidar_latency: from a scan's stamp to its arrival [s].
            tolerance_ns: as `StampGate`.
            radar: place of the radar that the scans come from; None: from a LIDAR.
            history: shared with another buffer; None: one of its own.
            kind: of a LIDAR's scans.
        """
        self._tracker, self._refusals, self._radar, self.kind = tracker, refusals, radar, kind if radar is None else "radar"
        self._gate = StampGate(tolerance_ns)
        self._schedule = ScanSchedule(lidar_rate, lidar_latency)
        self.missing = ""
        self.history = history or PoseHistory()
        self._scans: deque[tuple[int, Any]] = deque(maxlen=_WAITING_SCANS)
        self.forget(lambda stamp_ns: False)

    def forget(self, keep: Callable[[int], bool]) -> None:
        """Discards all but the scans whose stamp `keep` accepts."""
        self.history.clear()
        self._scans = deque((item for item in self._scans if keep(item[0])), maxlen=_WAITING_SCANS)
        self._gate.last_ns = self._scans[-1][0] if self._scans else None
        self.obstacles_ns: int | None = None  # stamp of the scan that the obstacles are from
        self._tracker.reset()

    @property
    def obstacles(self) -> Obstacles | None:
        """Obstacles as seen last; None: no scan was evaluated."""
        return None if self.obstacles_ns is None else self._tracker.obstacles()

    @property
    def waiting(self) -> int:
        return len(self._scans)

    @property
    def expects(self) -> bool:
        """True if scans come, or are announced by a rate."""
        return bool(self._schedule) or self._gate.last_ns is not None

    def offer(self, stamp_ns: int, scan: Scan | RadarScan) -> bool:
        """Takes a scan; False: refused, or known."""
        order = self._gate.order(stamp_ns)
        if order is StampOrder.REPEATED:
            return False  # published again, with its state
        if order is StampOrder.LATE:
            self._refusals.refuse(self.kind, self._gate.too_late(stamp_ns))
            return False
        if (wrong := refusal("stamp", 1e-9 * stamp_ns)) is not None:
            self._refusals.refuse(self.kind, str(wrong), STAMP)
            return False
        last = self.history.last_ns
        if last is not None and stamp_ns > last + MAX_AHEAD_NS:
            self._refusals.refuse(self.kind, f"stamped {1e-9 * (stamp_ns - last):.3f} s ahead of the last state", STAMP)
            return False
        self._gate.last_ns = stamp_ns
        self.missing = ""
        self._scans.append((stamp_ns, scan))
        return True

    def due(self, now_ns: int, first_ns: int | None) -> bool:
        """Returns whether a scan that should be here is not; first_ns: stamp of the first state."""
        return not self.missing and self._schedule.due(now_ns, first_ns, self._gate.last_ns)

    def give_up(self, now_ns: int) -> str:
        """Stops waiting for scans until one comes; returns a message on the missing one."""
        self.missing = f"the {self.kind} of {1e-9 * self._schedule.last_ns(now_ns):.3f} s has not come; going on without"
        return self.missing

    def look(self) -> bool:
        """Evaluates the scans that have come; returns whether any was usable. With all beams at infinity a scan sees no obstacle."""
        last = self.history.last_ns
        changed = False
        while last is not None and (place := next((i for i, (stamp, _) in enumerate(self._scans) if stamp <= last), None)) is not None:
            stamp_ns, scan = self._scans[place]
            del self._scans[place]
            pose = self.history.at(stamp_ns)
            if pose is None:
                self._refusals.refuse(self.kind, f"stamped {1e-9 * stamp_ns:.3f} s, where the vehicle was then is not known", STAMP)
                continue
            if len(scan.ranges) and np.isnan(scan.ranges).all():
                self._refusals.refuse(self.kind, f"all {len(scan.ranges)} beams were lost", NOT_FINITE)
                continue
            try:
                if self._radar is None:
                    self._tracker.update(scan, *pose)
                else:
                    self._tracker.add_radar(scan, self._radar, pose, self.history.velocity_at(stamp_ns))
            except InputError as error:
                self._refusals.refuse(self.kind, error)
                continue
            self.obstacles_ns, changed = stamp_ns, True
        return changed

    def age(self, now_ns: int) -> float:
        """Returns the age of the scan that the obstacles are from [s]; NaN: none."""
        return math.nan if self.obstacles_ns is None else 1e-9 * (now_ns - self.obstacles_ns)


class ScanBuffers:
    """The buffers of one tracker: `lidar`, `radar`, and `rear` of a second LIDAR, None where there is none."""

    def __init__(self, tracker: ObstacleSource, refusals: Refusals, *, lidar_rate: float, lidar_latency: float, tolerance_ns: int,
                 radar: Sensor[RadarScan] | None) -> None:
        """Creates empty buffers; as `ScanBuffer`. radar: of it place, rate and latency count."""
        self.lidar = ScanBuffer(tracker, refusals, lidar_rate=lidar_rate, lidar_latency=lidar_latency, tolerance_ns=tolerance_ns)
        history = self.lidar.history
        self.radar = None if radar is None else ScanBuffer(
            tracker, refusals, lidar_rate=radar.rate, lidar_latency=radar.latency, tolerance_ns=tolerance_ns, radar=radar.mount,
            history=history)
        self.rear = None if not isinstance(tracker, TwoLidars) else ScanBuffer(
            tracker.rear, refusals, lidar_rate=tracker.sensor.rate, lidar_latency=tracker.sensor.latency, tolerance_ns=tolerance_ns,
            history=history, kind="rear scan")
        self._all = [buffer for buffer in (self.lidar, self.rear, self.radar) if buffer is not None]

    def forget(self, keep: Callable[[int], bool]) -> None:
        """Discards all but the scans and returns whose stamp `keep` accepts."""
        for buffer in self._all:
            buffer.forget(keep)

    def due(self, now_ns: int, first_ns: int | None) -> list[str]:
        """Returns the kinds that should be here and are not; first_ns: stamp of the first state."""
        return [buffer.kind for buffer in self._all if buffer.due(now_ns, first_ns)]

    def give_up(self, now_ns: int, first_ns: int | None) -> list[str]:
        """Stops waiting for those that are due until they come; returns a message on each."""
        return [buffer.give_up(now_ns) for buffer in self._all if buffer.due(now_ns, first_ns)]

    @property
    def missing(self) -> list[str]:
        """Messages on those that did not come in time."""
        return [buffer.missing for buffer in self._all if buffer.missing]

    def blind_behind(self, now_ns: int) -> str:
        """Returns a message where there is a second LIDAR and no scan of it for a second; empty: it sees."""
        if self.rear is None or (age := self.rear.age(now_ns)) <= REAR_PATIENCE:
            return ""
        return "blind behind: no rear scan " + ("yet" if math.isnan(age) else f"for {age:.2f} s")

    def look(self) -> Obstacles | None:
        """Evaluates all that has come; returns the obstacles, None: nothing new was usable."""
        looked = [buffer.look() for buffer in self._all]
        return self.lidar.obstacles if any(looked) else None


Decision = TypeVar("Decision")


class SensingPilot(Generic[Decision]):
    """The states' gate, the barrier at which a state waits in lockstep, and the sensors of a pilot; `_is_early` holds a state back."""

    _is_early: Callable[[int], Any]

    def __init__(self, tracker: ObstacleSource, refusals: Refusals, lockstep: bool, lidar_rate: float, lidar_latency: float,
                 radar: Sensor[RadarScan] | None) -> None:
        self._lockstep, self.refusals, self.resets = lockstep, refusals, 0
        self._gate = StateGate(lockstep)
        self._barrier: LockstepBarrier[Decision | None] = LockstepBarrier(self._is_early)
        self._sensors = ScanBuffers(tracker, refusals, lidar_rate=lidar_rate, lidar_latency=lidar_latency,
                                    tolerance_ns=self._gate.tolerance_ns, radar=radar)
        self.scans = self._sensors.lidar

    @property
    def frame(self) -> str:
        """Frame of the states; empty before the first."""
        return self._gate.frame

    @property
    def waits(self) -> bool:
        """True while a state waits for its answers or scans."""
        return self._barrier.stamp_ns is not None

    def scan(self, stamp_ns: int, scan: Scan) -> Decision | None:
        """Takes a scan; returns the decision for a state that waited for it."""
        return self._offer(self.scans, stamp_ns, scan)

    def returns(self, stamp_ns: int, scan: RadarScan) -> Decision | None:
        """Takes the radar's returns, of a pilot with a radar; as `scan`."""
        return self._offer(self._sensors.radar, stamp_ns, scan)

    def rear_scan(self, stamp_ns: int, scan: Scan) -> Decision | None:
        """Takes a scan of the second LIDAR, of a pilot with one; as `scan`."""
        return self._offer(self._sensors.rear, stamp_ns, scan)

    def _offer(self, buffer: ScanBuffer | None, stamp_ns: int, scan: Scan | RadarScan) -> Decision | None:
        return self._barrier.release() if buffer is not None and buffer.offer(stamp_ns, scan) else None

    def blind_behind(self, now_ns: int) -> str:
        """Returns a message where there is a second LIDAR whose scans stay out; empty: it sees, or there is none."""
        return self._sensors.blind_behind(now_ns)

    def scan_age(self, now_ns: int) -> float:
        """Returns the age of the scan that the obstacles are from [s]; NaN: none."""
        return self.scans.age(now_ns)
