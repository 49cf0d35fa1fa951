"""Circles of one LIDAR scan: returns are grouped, and each group is covered by a circle or a chain of circles."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, setting
from lfdm_ros.sensors.scan import Scan

# A gap of this many or more lost beams (nan) separates two groups at any distance.
_LOST_BEAMS = 4
# Largest distance of adjacent returns that may belong to one surface [m]; lengths are those of a full-size vehicle.
_SUPPORT = 6.0
# Share of the sensor's range beyond which the range limit cuts off surfaces.
_NEAR_LIMIT = 0.95
# Smallest distance of points that count towards the length of a surface, to exclude noise [m].
_LENGTH_STEP = 0.3
# How far the centre of a circle lies behind a flat surface, as a share of half the covered length: the circle then stands out in front
# by 0.5 of that instead of 1.0, and what lies behind a surface is hidden anyway.
_BEHIND = 0.75
# Smallest angle of an accepted arc at its centre [rad]; an unobstructed circle shows more, even by four returns.
_LEAST_ARC = np.deg2rad(70.0)
_ARC_POINTS = 4


@dataclass(frozen=True)
class GroupingSettings(Declared):
    """Settings of the grouping of returns to circles. Raises InputError: a value is out of its range; the message names it."""

    ABOUT = "obstacle tracker: "

    noise_sd: float = setting(0.03, "m", "standard deviation of a range", 1e-4, 10.0)
    sigmas: float = setting(2.0, "1", "margin of the circles, in standard deviations of the range", 0.0, 10.0)
    gap_base: float = setting(0.3, "m", "distance of returns in one group: up to this plus gap_factor times the beam spacing there",
                              0.001, 10.0, power=1)
    gap_factor: float = setting(2.0, "1", "see gap_base", 1.0, 20.0)
    gap_line: float = setting(3.0, "m", "the same for three returns on a straight line, so that a wall at a grazing angle is one; below "
                                        "the width of gaps that the vehicle can pass", 0.0, 20.0, power=1)
    chain_radius: float = setting(0.75, "m", "radius of the circles that cover a long surface", 0.01, 10.0, power=1)
    body_radius: float = setting(4.0, "m", "radius of the largest surface that is tracked as a body", 0.01, 50.0, power=1)
    arc_radius_min: float = setting(0.1, "m", "smallest radius of a fitted arc", 0.001, 50.0, power=1)
    arc_radius_max: float = setting(4.0, "m", "largest radius of a fitted arc", 0.001, 50.0, power=1)
    scale: float = setting(1.0, "1", "size of the vehicle against a full-size one; see `fitted`", 1e-3, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arc_radius_max <= self.arc_radius_min:
            raise InputError(f"{self.ABOUT}arc_radius_max is {self.arc_radius_max:g} m; give more than arc_radius_min")


@dataclass(frozen=True, eq=False)
class Circles:
    """Circles (n,) of one scan in world axes [m].

    body: index of the circle that represents the body in tracking: itself if it is the only one of its group, -1 for a long surface; frame:
    only represents a body, not an obstacle; arc: fitted to an arc, so that it covers the occluded side too; partial: an end of the group is
    occluded, lost, or at the edge or limit of the view, so that its middle is not that of a body; weak: one or two returns; lone: a return
    without any other near it; extent: largest distance of the body's middle from the circle's [m]; excess: overhang of the circle beyond
    the returns to either side [m]; blur: its standard deviation by the beam spacing [m].
    """

    x: np.ndarray
    y: np.ndarray
    radius: np.ndarray
    body: np.ndarray
    frame: np.ndarray
    arc: np.ndarray
    partial: np.ndarray
    weak: np.ndarray
    lone: np.ndarray
    extent: np.ndarray
    excess: np.ndarray
    blur: np.ndarray

    def nearest(self, x: float, y: float, count: int) -> Circles:
        """Selects at most `count` circles that are nearest to a place [m]. A circle whose body is not among them has none."""
        if len(self.x) <= count:
            return self
        chosen = np.sort(np.argpartition(np.hypot(self.x - x, self.y - y) - self.radius, count)[:count])
        place = np.full(len(self.x) + 1, -1)  # the last entry: without body
        place[chosen] = np.arange(count)
        return Circles(**{**{entry.name: getattr(self, entry.name)[chosen] for entry in fields(self)}, "body": place[self.body[chosen]]})


_NUMBERS, _FLAGS = np.empty(0), np.empty(0, bool)
_NO_CIRCLES = Circles(_NUMBERS, _NUMBERS, _NUMBERS, np.empty(0, np.int64), _FLAGS, _FLAGS, _FLAGS, _FLAGS, _FLAGS, _NUMBERS, _NUMBERS,
                   _NUMBERS)


def circles_of(scan: Scan, x: float, y: float, yaw: float, settings: GroupingSettings) -> Circles:
    """Covers the returns of a valid scan from a sensor's pose [m, rad] by circles.

    Circles contain every return, the surface between neighbours of one group, and half a beam spacing beyond its ends: the mean overhang of
    a body beyond its last return.
    """
    ranges, increment = scan.ranges, abs(scan.angle_increment)
    hits = np.flatnonzero((ranges >= scan.range_min) & (ranges <= scan.range_max))  # false for nan and inf
    if not len(hits):
        return _NO_CIRCLES
    full = is_full_circle(scan)
    hits, joined, supported = _connect(ranges, hits, increment, full, settings)
    r, beams = ranges[hits], len(ranges)
    first = np.empty(len(hits), bool)
    first[0], first[1:] = True, ~joined[:-1]
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    ends = np.empty_like(starts)
    ends[:-1], ends[-1] = starts[1:] - 1, len(hits) - 1
    count = ends - starts + 1
    lone = (count == 1) & ~supported[starts]

    # An end is clear if the adjacent beam has a larger range, or no return.
    left, right = hits[starts] - 1, hits[ends] + 1
    inside = (left >= 0) & (right < beams) | full
    reach = _NEAR_LIMIT * scan.range_max
    partial = ~((ranges[left] > r[starts]) & (ranges[right % beams] > r[ends]) & inside & (np.maximum(r[starts], r[ends]) < reach))

    angle = yaw + scan.angle_min + scan.angle_increment * hits
    px, py = r * np.cos(angle), r * np.sin(angle)  # from the sensor, in the world's axes
    arc, ax, ay, a_radius = _arcs(px, py, starts, ends, count, group, settings)

    # The rest: polylines through the returns, longer by half a beam at both ends.
    whole, rest = np.flatnonzero(arc), np.flatnonzero(~arc)
    of, cx, cy, radius, body = whole, ax[whole], ay[whole], a_radius[whole], np.arange(len(whole))
    beyond = np.zeros(len(whole))
    frames = 0
    if len(rest):
        link_x, link_y, link_radius, links, link_half = _chains(px, py, r, angle, starts, count, rest, 0.5 * scan.angle_increment, settings)
        first_link = np.cumsum(links) - links
        span = np.stack([link_x, link_y])
        low, high = np.minimum.reduceat(span, first_link, axis=1), np.maximum.reduceat(span, first_link, axis=1)
        middle, half = 0.5 * (low + high), 0.5 * np.hypot(*(high - low)) + settings.chain_radius
        framed = np.flatnonzero((links > 1) & (half <= settings.body_radius))
        frames = len(framed)
        stands_for = np.where(links == 1, len(whole) + first_link, -1)
        stands_for[framed] = len(whole) + len(link_x) + np.arange(frames)
        of = np.concatenate([whole, np.repeat(rest, links), rest[framed]])
        cx, cy = np.concatenate([cx, link_x, middle[0, framed]]), np.concatenate([cy, link_y, middle[1, framed]])
        radius = np.concatenate([radius, link_radius, half[framed]])
        # On a surface of several circles the neighbours cover the gaps of smaller ones.
        alone = np.repeat(links == 1, links)
        beyond = np.concatenate([beyond, np.where(alone, link_radius - link_half, 0.0), np.zeros(frames)])
        body = np.concatenate([body, np.repeat(stands_for, links), stands_for[framed]])
    is_arc = arc[of]
    is_frame = np.zeros(len(of), bool)
    is_frame[len(of) - frames:] = True
    pad = settings.sigmas * settings.noise_sd
    # The position of an end between two beams is uniformly distributed over their spacing.
    blur = np.where(is_arc, 0.0, increment * np.hypot(cx, cy) / np.sqrt(12.0))
    return Circles(x + cx, y + cy, radius + pad, body, is_frame, is_arc, partial[of], count[of] < 3, lone[of],
                   np.where(is_arc, 2.0 * settings.noise_sd, radius), beyond + pad, blur)


def is_full_circle(scan: Scan) -> bool:
    """Checks that the last beam is adjacent to the first."""
    increment = abs(scan.angle_increment)
    return len(scan.ranges) * increment > 2.0 * np.pi - 0.5 * increment


def _connect(ranges: np.ndarray, hits: np.ndarray, increment: float, full: bool,
             settings: GroupingSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Marks the returns that are in one group with the next (n,), and those with a near return at an adjacent beam (n,).

    The beams with returns, `hits`, are returned rotated so that no group extends from the last to the first.
    """
    following = np.roll(hits, -1)
    step = following - hits
    step[-1] += len(ranges)
    r, r_next = ranges[hits], ranges[following]
    spread = increment * step
    near = np.minimum(r, r_next)
    distance = np.sqrt((r - r_next) ** 2 + 4.0 * r * r_next * np.sin(0.5 * spread) ** 2)
    adjacent = step == 1
    if not full:
        adjacent[-1] = False
    joined = distance < settings.gap_base + settings.gap_factor * near * spread
    if not adjacent.all():
        # Lost beams between two returns are no evidence; a beam without return is a gap.
        open_before = np.cumsum(np.isposinf(ranges))
        opened = open_before[following] - open_before[hits]
        opened[-1] += open_before[-1]
        joined &= (opened == 0) & (step <= _LOST_BEAMS)
        if not full:
            joined[-1] = False
    support = adjacent & (distance < settings.scale * _SUPPORT)
    supported = support | np.roll(support, 1)

    # On a straight line u = 1 / r is a sine of the bearing: u(-1) - 2 cos(increment) u(0) + u(1) = 0.
    u = 1.0 / r
    before, after = np.roll(u, 1), np.roll(u, -1)
    bend = np.abs(before - 2.0 * np.cos(increment) * u + after)
    straight = bend < 3.0 * settings.noise_sd * np.sqrt(before ** 4 + 4.0 * u ** 4 + after ** 4)
    straight &= adjacent & np.roll(adjacent, 1)
    joined |= (straight | np.roll(straight, -1)) & adjacent & (distance < settings.gap_line)

    if joined[-1]:
        gaps = np.flatnonzero(~joined)
        turn = gaps[0] + 1 if len(gaps) else 0
        hits, joined, supported = np.roll(hits, -turn), np.roll(joined, -turn), np.roll(supported, -turn)
    return hits, joined, supported


def _arcs(px: np.ndarray, py: np.ndarray, starts: np.ndarray, ends: np.ndarray, count: np.ndarray, group: np.ndarray,
          settings: GroupingSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns the groups (g,) that are arcs of a circle that bulges towards the sensor, its centre and a radius that covers all points.

    Taubin's fit by Newton's method, all groups at once (G. Taubin, PAMI 13 (1991) 1115; N. Chernov, "Circular and Linear Regression",
    CRC Press 2010, section 5.9). Its symbols.
    """
    sigma = settings.noise_sd
    points = np.stack([px, py])
    mean = np.add.reduceat(points, starts, axis=1) / count
    dx, dy = points - mean[:, group]
    xx, yy = dx * dx, dy * dy
    z = xx + yy
    moments = np.add.reduceat(np.stack([xx, yy, dx * dy, dx * z, dy * z, z * z]), starts, axis=1) / count
    m_xx, m_yy, m_xy, m_xz, m_yz, m_zz = moments
    m_z = m_xx + m_yy
    fit = (count >= _ARC_POINTS) & (m_z > sigma * sigma)  # without extent there is no radius
    covariance = m_xx * m_yy - m_xy * m_xy
    variance = m_zz - m_z * m_z
    a3, a2 = 4.0 * m_z, -3.0 * m_z * m_z - m_zz
    a1 = variance * m_z + 4.0 * covariance * m_z - m_xz * m_xz - m_yz * m_yz
    a0 = m_xz * (m_xz * m_yy - m_yz * m_xy) + m_yz * (m_yz * m_xx - m_xz * m_xy) - variance * covariance
    root = np.zeros(len(count))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(4):
            value = a0 + root * (a1 + root * (a2 + root * a3))
            root = root - value / (a1 + root * (2.0 * a2 + 3.0 * root * a3))
        determinant = 2.0 * (root * root - root * m_z + covariance)
        a = (m_xz * (m_yy - root) - m_yz * m_xy) / determinant
        b = (m_yz * (m_xx - root) - m_xz * m_xy) / determinant
        radius = np.sqrt(a * a + b * b + m_z)
        # nan compares as false.
        fit &= (radius >= settings.arc_radius_min) & (radius <= settings.arc_radius_max)
    if not fit.any():
        return fit, mean[0], mean[1], radius
    radius, a, b = np.where(fit, radius, 1.0), np.where(fit, a, 0.0), np.where(fit, b, 0.0)
    ex, ey = dx - a[group], dy - b[group]
    from_centre = np.sqrt(ex * ex + ey * ey)
    error = from_centre - radius[group]
    square = np.add.reduceat(error * error, starts) / count
    farthest = np.maximum.reduceat(from_centre, starts)
    spread = np.abs(np.arctan2(ex[starts] * ey[ends] - ey[starts] * ex[ends], ex[starts] * ex[ends] + ey[starts] * ey[ends]))
    fit &= (square < (3.0 * sigma) ** 2) & (spread > _LEAST_ARC)
    fit &= radius * (1.0 - np.cos(0.5 * spread)) > 4.0 * sigma  # the noise of a flat surface has a radius, too
    fit &= a * mean[0] + b * mean[1] > 0.0  # the centre lies behind the points, from the sensor
    return fit, mean[0] + a, mean[1] + b, np.maximum(radius, farthest)


def _chains(px: np.ndarray, py: np.ndarray, r: np.ndarray, angle: np.ndarray, starts: np.ndarray, count: np.ndarray, chosen: np.ndarray,
            half_beam: float, settings: GroupingSettings) -> tuple[np.ndarray, ...]:
    """Returns circles along the polylines of the chosen groups: centre x, y and radius (k,), and their number in each group."""
    # Points in the order of the scan with the two ends added, at the range of the first and last return.
    size = count[chosen] + 2
    begin = np.cumsum(size) - size
    owner = np.repeat(np.arange(len(chosen)), size)
    total = len(owner)
    place = np.arange(total)
    last = begin + size - 1
    source = np.clip(place - begin[owner] - 1, 0, count[chosen][owner] - 1) + starts[chosen][owner]
    x, y = px[source], py[source]
    for end, turn in ((begin, -half_beam), (last, half_beam)):
        x[end], y[end] = r[source[end]] * np.cos(angle[source[end]] + turn), r[source[end]] * np.sin(angle[source[end]] + turn)

    # Length along the polyline, over points that are farther apart than noise.
    raw = np.zeros(total)
    raw[1:] = np.cumsum(np.hypot(x[1:] - x[:-1], y[1:] - y[:-1]))
    cell = ((raw - raw[begin][owner]) / max(settings.scale * _LENGTH_STEP, 3.0 * settings.noise_sd)).astype(np.int64)
    keep = np.zeros(total, bool)
    keep[1:] = cell[1:] != cell[:-1]
    keep[begin] = keep[last] = True
    corners = np.flatnonzero(keep)
    corner_x, corner_y = x[corners], y[corners]
    gap = np.hypot(corner_x[1:] - corner_x[:-1], corner_y[1:] - corner_y[:-1])
    gap[owner[corners][1:] != owner[corners][:-1]] = 1.0  # any length: groups follow one another on one axis
    corner_s = np.zeros(len(corners))
    corner_s[1:] = np.cumsum(gap)
    s = np.interp(place, corners, corner_s)

    # A flat piece of length 2 h is covered by a circle of radius h sqrt(1 + _BEHIND^2).
    start, length = s[begin], s[last] - s[begin]
    links = np.maximum(np.ceil(length / (2.0 * settings.chain_radius / np.sqrt(1.0 + _BEHIND ** 2))), 1.0).astype(np.int64)
    first_link = np.cumsum(links) - links
    of = np.repeat(np.arange(len(chosen)), links)
    number = np.arange(len(of)) - first_link[of]
    piece = length[of] / links[of]
    s_a = start[of] + number * piece
    s_b = s_a + piece
    x_a, y_a = np.interp(s_a, corner_s, corner_x), np.interp(s_a, corner_s, corner_y)
    x_b, y_b = np.interp(s_b, corner_s, corner_x), np.interp(s_b, corner_s, corner_y)
    mx, my = 0.5 * (x_a + x_b), 0.5 * (y_a + y_b)
    half = 0.5 * np.hypot(x_b - x_a, y_b - y_a)
    scale = np.where(half > 1e-6, 0.5 / np.maximum(half, 1e-6), 0.0)
    nx, ny = (y_a - y_b) * scale, (x_b - x_a) * scale  # the side away from the sensor
    away = np.where(nx * mx + ny * my >= 0.0, 1.0, -1.0)
    nx, ny = nx * away, ny * away

    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.nan_to_num((s - start[owner]) / length[owner])
    link = first_link[owner] + np.minimum((part * links[owner]).astype(np.int64), links[owner] - 1)
    # Where points bulge towards the sensor, limit the setback of the centre so that the radius need not grow.
    bulge = np.full(len(of), settings.noise_sd)
    np.maximum.at(bulge, link, (mx[link] - x) * nx[link] + (my[link] - y) * ny[link])
    behind = np.clip((half * half - bulge * bulge) / (2.0 * bulge), 0.0, _BEHIND * half)
    cx, cy = mx + behind * nx, my + behind * ny
    square = half * half + behind * behind
    np.maximum.at(square, link, (x - cx[link]) ** 2 + (y - cy[link]) ** 2)
    return cx, cy, np.sqrt(square), links, half
