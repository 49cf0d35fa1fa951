"""One turn of a LIDAR: its checks, its useful part, and the schedule of scans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lfdm_ros.bounds import MALFORMED, NOT_FINITE, OUT_OF_RANGE, Refused, require

# A return nearer than this [m] is of the sensor itself; some drivers send 0 for no return.
NEAREST = 1e-3
# Of more beams, neighbours are taken together: at 250 m these are 0.4 m apart.
MAX_BEAMS = 4096


@dataclass(frozen=True, eq=False)
class Scan:
    """One turn of the LIDAR, in the form of sensor_msgs/LaserScan.

    stamp [s]; beam i points at angle_min + i angle_increment [rad] from the sensor's x axis, + left. ranges (n,) [m]: inf, or anything
    beyond range_max, where nothing was in range; nan, or anything below range_min, where the beam says nothing. range_min, range_max [m].
    """

    stamp: float
    angle_min: float
    angle_increment: float
    range_min: float
    range_max: float
    ranges: np.ndarray


def check_scan(scan: Scan) -> None:
    """Checks that a sensor can have sent the scan; ranges themselves may be anything.

    Raises:
        Refused: no beams or more than 40 000, a stamp, angle or limit that is not finite or not possible, more than one turn.
    """
    for name in ("stamp", "angle_min", "angle_increment", "range_min", "range_max"):
        if not np.isfinite(getattr(scan, name)):
            raise Refused(f"scan: {name} is {getattr(scan, name)}; give a finite number", NOT_FINITE)
    ranges, increment = scan.ranges, abs(scan.angle_increment)
    if not isinstance(ranges, np.ndarray) or ranges.ndim != 1 or not len(ranges) or ranges.dtype.kind != "f":
        raise Refused("scan: ranges must be an array of floats with at least one beam", MALFORMED)
    require("beams", len(ranges), "scan: ranges")
    require("stamp", scan.stamp, "scan: stamp")
    require("angle", scan.angle_min, "scan: angle_min")
    if increment == 0.0:
        raise Refused("scan: angle_increment is 0; give the angle from one beam to the next", OUT_OF_RANGE)
    require("angle_increment", increment, "scan: angle_increment")
    if (len(ranges) - 1) * increment > 2.0 * np.pi + 0.5 * increment:
        raise Refused(f"scan: {len(ranges)} beams of angle_increment {scan.angle_increment:g} are more than one turn", MALFORMED)
    if not 0.0 <= scan.range_min < scan.range_max:
        raise Refused(f"scan: range_min {scan.range_min:g} and range_max {scan.range_max:g} must be 0 <= range_min < range_max", MALFORMED)


def within(scan: Scan, horizon: float) -> Scan:
    """Limits a valid scan to the surroundings up to `horizon` [m], so that the work on it does not grow with the sensor's range.

    A beam that ended farther, or beyond range_max, saw nothing there: inf. One that says nothing is nan. With more than 4096
    beams, neighbours become one in their middle, with the nearest return of them.
    """
    limit, least = min(scan.range_max, horizon), max(scan.range_min, NEAREST)
    ranges = np.where(scan.ranges > limit, np.inf, np.where(scan.ranges >= least, scan.ranges, np.nan))  # nan compares as false
    together = -(-len(ranges) // MAX_BEAMS)
    first = scan.angle_min
    if together > 1:
        padded = np.full(together * -(-len(ranges) // together), np.nan)
        padded[:len(ranges)] = ranges
        ranges = np.fmin.reduce(padded.reshape(-1, together), axis=1)
        first += 0.5 * (together - 1) * scan.angle_increment
    return Scan(scan.stamp, first, together * scan.angle_increment, min(least, 0.5 * limit), limit, ranges)


class ScanSchedule:
    """Scans at whole multiples of a period, which arrive a latency later."""

    def __init__(self, rate: float, latency: float) -> None:
        """Sets the schedule up.

        Args:
            rate: of scans [Hz]; 0: scans are optional.
            latency: from a scan's stamp to its arrival [s].
        """
        self._period_ns, self._latency_ns = (round(1e9 / rate) if rate > 0.0 else 0), round(1e9 * latency)

    def __bool__(self) -> bool:
        return self._period_ns > 0

    def last_ns(self, now_ns: int) -> int:
        """Returns the stamp of the newest scan that has arrived by now, if it is punctual. There must be a rate."""
        return (now_ns - self._latency_ns) // self._period_ns * self._period_ns

    def due(self, now_ns: int, first_ns: int | None, newest_ns: int | None) -> bool:
        """Checks for a scan that should have arrived and has not.

        Args:
            first_ns, newest_ns: stamps of the first state and of the newest scan; None: there is none.
        """
        if not self or first_ns is None:
            return False
        last = self.last_ns(now_ns)
        return last >= first_ns and (newest_ns is None or newest_ns < last)
