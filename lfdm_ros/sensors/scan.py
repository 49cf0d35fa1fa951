"""LIDAR scans: checks, reduction to the useful part, and the schedule of scans."""

from dataclasses import dataclass

import numpy as np

from lfdm_ros.bounds import MALFORMED, NOT_FINITE, OUT_OF_RANGE, Refused, require

MIN_RETURN = 1e-3  # [m] of a valid return; some drivers send 0 without one
MAX_BEAMS = 4096  # beams 0.4 m apart at 250 m; more are merged


@dataclass(frozen=True, eq=False)
class Scan:
    """One scan of the LIDAR, in the form of sensor_msgs/LaserScan.

    stamp [s]; beam i points at angle_min + i angle_increment [rad] from the sensor's x axis, + left. ranges (n,) [m]: inf, or above
    range_max, without a return; nan, or below range_min, for an invalid beam. range_min, range_max [m].
    """

    stamp: float
    angle_min: float
    angle_increment: float
    range_min: float
    range_max: float
    ranges: np.ndarray


def check_scan(scan: Scan) -> None:
    """Checks the geometry of a scan; ranges may have any value. Raises Refused: no beams or more than 40 000, a stamp, angle or limit that
    is not finite or out of range, more than one turn."""
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
    """Limits a valid scan to a `horizon` [m], so that its processing does not grow with the sensor's range.

    Ranges beyond the horizon or range_max become inf, invalid ones nan. Above 4096 beams, neighbours are merged to one at their mean angle
    with their nearest return.
    """
    limit, minimum = min(scan.range_max, horizon), max(scan.range_min, MIN_RETURN)
    ranges = np.where(scan.ranges > limit, np.inf, np.where(scan.ranges >= minimum, scan.ranges, np.nan))  # nan compares as false
    together = -(-len(ranges) // MAX_BEAMS)
    first = scan.angle_min
    if together > 1:
        padded = np.full(together * -(-len(ranges) // together), np.nan)
        padded[:len(ranges)] = ranges
        ranges = np.fmin.reduce(padded.reshape(-1, together), axis=1)
        first += 0.5 * (together - 1) * scan.angle_increment
    return Scan(scan.stamp, first, together * scan.angle_increment, min(minimum, 0.5 * limit), limit, ranges)


class ScanSchedule:
    """Schedule of scans at multiples of a period, which arrive after a latency."""

    def __init__(self, rate: float, latency: float) -> None:
        """Sets rate of scans [Hz], 0: optional scans, and latency from a scan's stamp to its arrival [s]."""
        self._period_ns, self._latency_ns = (round(1e9 / rate) if rate > 0.0 else 0), round(1e9 * latency)

    def __bool__(self) -> bool:
        return self._period_ns > 0

    def last_ns(self, now_ns: int) -> int:
        """Returns the stamp of the newest scan due by now; requires a rate."""
        return (now_ns - self._latency_ns) // self._period_ns * self._period_ns

    def due(self, now_ns: int, first_ns: int | None, newest_ns: int | None) -> bool:
        """Checks for an overdue scan; first_ns, newest_ns: stamps of the first state and of the newest scan, None: none."""
        if not self or first_ns is None:
            return False
        last = self.last_ns(now_ns)
        return last >= first_ns and (newest_ns is None or newest_ns < last)
