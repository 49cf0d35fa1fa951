"""Obstacles from LIDAR scans: circles tracked over scans, with their velocities."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from scipy.optimize import linear_sum_assignment

from lfdm_ros.bounds import NOT_FINITE, Refused, require_all
from lfdm_ros.numerics import arc
from lfdm_ros.parameters import Exposed, setting
from lfdm_ros.perception.grouping import Circles, GroupingSettings, circles_of, is_full_circle
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.outline import outline_heading
from lfdm_ros.perception.pose_jumps import find_jump
from lfdm_ros.sensors.radar import RadarScan, sensor_motion
from lfdm_ros.sensors.scan import Scan, check_scan, within
from lfdm_ros.vehicles import Mount, Vehicle


@dataclass(frozen=True)
class TrackerSettings(GroupingSettings):
    """Settings of the tracker; see GroupingSettings for the rest."""

    max_obstacles: int = setting(256, "1", "largest number of reported obstacles", 1, 10_000)
    max_tracks: int = setting(256, "1", "largest number of tracked obstacles", 1, 10_000)
    speed_sd: float = setting(10.0, "m/s", "standard deviation of the speed of a new track", 0.001, 200.0)
    turn_rate_sd: float = setting(0.4, "rad/s", "standard deviation of a vehicle's turn rate, and of its change in a second; 0: all "
                                                "drive straight on", 0.0, 5.0)
    acceleration_sd: float = setting(1.0, "m/s", "standard deviation of the change of speed in a second", 0.0, 100.0)
    moving_speed: float = setting(0.8, "m/s", "speed above which an obstacle counts as moving", 0.001, 50.0)
    moving_scans: int = setting(3, "1", "consecutive scans above that speed before an obstacle counts as moving", 1, 1000)
    weak_scans: int = setting(5, "1", "the same for obstacles of one or two returns", 1, 1000)
    still_scans: int = setting(5, "1", "consecutive scans below half of that speed before it is static again", 1, 1000)
    standing_drift: float = setting(0.02, "m", "drift of static obstacles in a second due to the error of the poses: about that of GNSS "
                                               "and inertial navigation", 0.0, 10.0)
    gate: float = setting(3.0, "m", "largest distance of an obstacle from its predicted position", 0.001, 100.0, power=1)
    horizon: float = setting(250.0, "m", "largest range of returns that are used", 0.1, 10_000.0)
    static_memory: float = setting(4.0, "s", "time for which undetected static obstacles are kept", 0.0, 1e4)
    moving_memory: float = setting(1.0, "s", "time for which undetected moving obstacles are kept", 0.0, 1e4)
    hidden_memory: float = setting(5.0, "s", "the same while they are occluded", 0.0, 1e4)
    doubtful_memory: float = setting(0.5, "s", "time for which undetected obstacles are kept that are unconfirmed, or move after few "
                                                "detections", 0.0, 1e4)
    radar_range_sd: float = setting(0.1, "m", "standard deviation of a radar's range", 1e-4, 10.0)
    radar_azimuth_sd: float = setting(0.0052, "rad", "standard deviation of a radar's azimuth", 1e-5, 0.5)
    radar_doppler_sd: float = setting(0.1, "m/s", "standard deviation of a radar's radial velocity", 1e-4, 10.0)
    passed: float = setting(30.0, "m", "distance behind the vehicle at which obstacles are dropped", 0.0, 1e4)
    free_scans: int = setting(3, "1", "consecutive scans with free beams through an obstacle before it is dropped", 1, 1000)

    def on(self, vehicle: Vehicle) -> TrackerSettings:
        """Returns the settings for the LIDAR of a vehicle: where they have their default, its file gives the noise and its size the
        lengths."""
        return self.fitted(vehicle.footprint.scale, noise_sd=vehicle.parameters.get("lidar_noise"))


# The range noise is a property of the sensor.
TRACKER = Exposed(TrackerSettings, "tracker_", without=("noise_sd", "scale"))


class _T(IntEnum):
    """Rows of the table of tracks; one column a track."""

    X = 0  # filtered position and velocity of the middle [m, m/s]
    Y = 1
    VX = 2
    VY = 3
    TURN = 4  # rate of turn of the velocity to the left [rad/s], of vehicles
    CX = 5  # the circle to keep clear of [m]
    CY = 6
    RADIUS = 7
    ANCHOR_X = 8  # position of the first detection, or of coming to rest [m]
    ANCHOR_Y = 9
    REACH = 10  # largest detected extent [m]
    LAST_DETECTED = 11  # stamp of the last detection [s]
    SIGHTINGS = 12
    FREE = 13  # consecutive scans with free beams through it
    STREAK = 14  # consecutive scans that contradict its classification, static or moving
    MOVING = 15
    BODY = 16  # represents a tracked body: its only circle or its frame
    FRAME = 17  # as in Circles
    ARC = 18
    DOUBTFUL = 19  # a lone return, detected once
    THING = 20  # number of its body; 0: of a long surface
    EXCESS = 21  # as in Circles [m]
    VARIANCE = 22  # of the circle's middle along each axis, while it stands [m2]
    BEARING = 23  # of that middle from the sensor's axis, at the last informative detection [rad]
    DISSENT = 24  # consecutive radar scans with a contradicting radial velocity
    LAST_VX = 25  # last velocity in motion [m/s], and stamp of coming to rest [s]
    LAST_VY = 26
    RESTED = 27
    CAME = 28  # last stamp at which an end of it was at a previously free place [s]
    HEADING = 29  # last heading of its outline, or across it [rad], and its stamp [s]
    HEADED = 30
    P = 31  # first of the 25 of the covariance of X, Y, VX, VY and TURN


_STATES = 5
_ROWS = _T.P + _STATES**2
_OF_STATE = np.eye(_STATES)[..., None]  # measurements (5, 1) of one state

# Rows that circles have from their body: variances of vx, vy and turn last.
_OF_BODY = [_T.VX, _T.VY, _T.MOVING, _T.THING, _T.TURN, *(_T.P + k * (_STATES + 1) for k in (2, 3, 4))]
# Speed above which the outline's heading gives the turn rate [m/s], its largest standard deviation, and its noise between scans [rad]; turn
# rate above which the ends do not measure the motion along an axis [rad/s].
_DRIVES, _HEADING_SD, _JITTER, _TURNING = 3.0, 0.1, 0.01, 0.15
# Significance of a turn rate in standard deviations; share of it that persists over two seconds, average of recorded traffic.
_TURN_SIGMAS, _GOES_ON_TURNING = 2.5, 0.5
_NO_PLACES = np.empty((0, 2))
_SMALL = 0.3  # [m] half extent below which the detected middle does not depend on the view
_PARTED = 1.5  # ratio of an earlier radius to the complete one above which the earlier one covered two bodies
# A small static obstacle is suspected of moving from a speed [m/s], its significance in standard deviations and a distance [m] on, up to a
# size [m], after a number of detections; it soon counts as moving, or as standing.
_SUSPECT_SPEED, _SUSPECT_SIGMAS, _SUSPECT_DISTANCE, _SUSPECT_REACH, _SUSPECT_SIGHTINGS = 0.6, 2.5, 0.2, 0.7, 3.0
_SUSPECT_FASTEST = 6.0  # [m/s] largest plausible speed of a small obstacle; parts of surfaces may appear faster
_JUMPS_APART, _STANDING = 1.0, 64  # [s] between two jumps of the pose, and number of nearest obstacles used to detect one
_COMING = 0.6  # [s] after the advance of an end for which a larger obstacle is suspected of moving
_GOES_ON = 3.0  # [s] after coming to rest within which a small obstacle may resume its motion
_NEW_SIGHTINGS = 4.0
_MAX_OCCLUDED_SPEED_SD = 3.0  # [m/s] largest deviation of the velocity of an occluded obstacle that is tracked on
_APART, _PART_SPEED_SD = 0.5, 1.0  # [m] from a moving obstacle within which a new one is part of it; deviation of its velocity [m/s]
_SAME_TIME, _MAX_RETURNS = 0.2, 512  # [s] and number of the nearest returns of a radar that count
_NEW = 0.5  # of the beam spacing: beams nearer to previous ones add no information on the ends


_Sensor = tuple[float, float, float]  # pose [m, rad]
# Interval of compared scans [s]; radius around an end within which all earlier beams must have been free [m]; deviation of an unmeasured
# transverse speed [m/s].
_COMPARED, _FREE, _ASIDE_SD = 0.5, 0.4, 1.0
# Minimum advance of an end [m], and in spacings of its returns; largest position error and change of size of the same body [m].
_CAME, _SPACINGS, _SAME_PLACE, _SAME_SIZE = 0.2, 1.5, 1.5, 0.6


@dataclass(frozen=True, eq=False)
class _Look:
    """A scan, the sensor's pose and the circles; positions of its returns (m, 2) [m] and their bodies (m,), -1 for none; smallest and
    largest x, y of each body's returns (n, 2) [m]."""

    scan: Scan
    sensor: _Sensor
    circles: Circles
    returns: np.ndarray
    bodies: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, scan: Scan, sensor: _Sensor, circles: Circles) -> _Look:
        x, y, yaw = sensor
        beams = np.flatnonzero((scan.ranges >= scan.range_min) & (scan.ranges <= scan.range_max))
        angles = yaw + scan.angle_min + scan.angle_increment * beams
        returns = np.column_stack([x + scan.ranges[beams] * np.cos(angles), y + scan.ranges[beams] * np.sin(angles)])
        parts = np.flatnonzero((circles.body >= 0) & ~circles.frame)
        low, high = np.full((len(circles.x), 2), np.inf), np.full((len(circles.x), 2), -np.inf)
        bodies = np.full(len(returns), -1)
        if len(parts) and len(returns):
            depth = np.hypot(returns[:, :1] - circles.x[parts], returns[:, 1:] - circles.y[parts]) - circles.radius[parts]
            inside = np.flatnonzero(depth.min(axis=1) <= 0.0)
            bodies[inside] = circles.body[parts[depth[inside].argmin(axis=1)]]
            np.minimum.at(low, bodies[inside], returns[inside])
            np.maximum.at(high, bodies[inside], returns[inside])
        return cls(scan, sensor, circles, returns, bodies, low, high)

    def heading(self, body: int) -> tuple[float, float]:
        """Returns the heading [rad] of a body's outline, or across it, and its standard deviation; inf if there is none."""
        return outline_heading(self.returns[self.bodies == body])


class ObstacleTracker:
    """Tracker of obstacles in scans.

    A group of returns of limited size is tracked by a Kalman filter of constant speed and turn rate (coordinated turn; Bar-Shalom, Li &
    Kirubarajan 2001, "Estimation with applications to tracking and navigation", section 11.7). It is static until its velocity differs from
    zero in several scans by more than its uncertainty, and it has also moved farther than its detected size, or its leading edge is at a
    place that was free half a second before: the visible part of a static body moves over the body as the vehicle passes, but not beyond. A
    larger surface is static, as last detected. A lone return, such as a distant cone, is reported after two detections: this suppresses
    single false returns at the cost of one scan period.

    The position of a small (post, cone) or round static obstacle is the weighted mean of all detections. A single detection does not
    resolve the ends between two beams; one with beams elsewhere adds information, one with beams at the same places only replaces a worse
    one. A contradicting detection begins a new mean.

    Occluded obstacles are kept for a time, unless another one is detected at their place or beams pass through it. Lost beams (nan), and
    returns from below the minimum range, are no evidence; a beam that ended beyond the maximum range is free within it.

    The work of an update is bounded for any ranges: by the horizon, by 4096 used beams, and by the nearest circles.

    A scan counts as instantaneous, at its stamp.
    """

    def __init__(self, settings: TrackerSettings | None = None, mount: Mount | None = None):
        """Begins without obstacles. mount: pose of the sensor on the vehicle, by default the position point."""
        self.settings, self.mount = settings or TrackerSettings(), mount or Mount()
        self.reset()

    def reset(self) -> None:
        """Clears all tracks."""
        self._tracks = np.empty((_ROWS, 0))
        self._sector: tuple[float, float] | None = None
        self._radar: tuple[RadarScan, tuple[float, float, float, float, float]] | None = None
        self._looks: deque[_Look] = deque()  # over the interval of comparison
        self._jumped = -math.inf  # stamp of the pose's last jump [s]
        self._obstacles = Obstacles(_frozen(_NO_PLACES), _frozen(np.empty(0)), _frozen(_NO_PLACES), -np.inf)

    def obstacles(self) -> Obstacles:
        """Returns the obstacles after the last scan; the arrays are read-only."""
        return self._obstacles

    @property
    def tracked(self) -> int:
        """Number of tracks, including unconfirmed ones."""
        return self._tracks.shape[1]

    def update(self, scan: Scan, x: float, y: float, yaw: float) -> None:
        """Takes a scan and the pose of the position point [m, rad] at its stamp.

        A scan with the stamp of the last one changes nothing; an earlier stamp means that the clock was set back, and restarts tracking.
        Raises InputError: an invalid scan (`check_scan`), or a pose that is not finite or out of range; nothing is changed then.
        """
        check_scan(scan)
        _check_pose(x, y, yaw)
        if scan.stamp == self._obstacles.time:
            return
        back = scan.stamp < self._obstacles.time
        self._jumped = -math.inf if back else self._jumped
        old = self._tracks[:, :0] if back else self._tracks
        elapsed = scan.stamp - self._obstacles.time if old.shape[1] else 0.0
        st, mount = self.settings, self.mount
        cos, sin = np.cos(yaw), np.sin(yaw)
        sensor = (x + cos * mount.x - sin * mount.y, y + sin * mount.x + cos * mount.y, yaw + mount.yaw)

        scan = within(scan, st.horizon)
        circles = circles_of(scan, *sensor, st).nearest(x, y, 2 * st.max_tracks)
        tracks = _predict(old, elapsed, st)
        # A motion that continues over scans is no jump: all visible traffic may drive in one direction.
        jump = find_jump(*_standing(tracks, circles, sensor)) if scan.stamp - self._jumped > _JUMPS_APART else None
        if jump is not None:
            self._jumped = scan.stamp
            for x_row in (_T.X, _T.CX, _T.ANCHOR_X):
                tracks[x_row:x_row + 2] = jump.moved(tracks[x_row:x_row + 2])
            for x_row in (_T.VX, _T.LAST_VX):
                tracks[x_row:x_row + 2] = jump.turned(tracks[x_row:x_row + 2])
            self._looks.clear()
        track, found = _associate(tracks, circles, st)
        bearing = np.arctan2(circles.y - sensor[1], circles.x - sensor[0]) - sensor[2]
        while self._looks and (back or scan.stamp - self._looks[0].scan.stamp > _COMPARED + 1e-6):
            self._looks.popleft()
        now = _Look.of(scan, sensor, circles)
        _correct(tracks, track, now, found, bearing[found], self._looks or [now], st)
        self._looks.append(now)
        # The circles of a frame move as it does.
        of_body = np.zeros((len(_OF_BODY), len(circles.x) + 1))  # the last column: without body
        of_body[5:7] = st.speed_sd ** 2
        of_body[:, found] = tracks[_OF_BODY][:, track]
        of_body[:2] *= of_body[2]
        tracks = tracks[:, _retained(tracks, track, circles, scan, sensor, (x, y, cos, sin), st)]
        new = np.ones(len(circles.x), bool)
        new[found] = False
        begun = _begin(circles, of_body, np.flatnonzero(new), bearing[new], tracks[_T.THING].max(initial=0.0) + 1.0, scan.stamp, st)
        _inherit(begun, tracks)
        tracks = np.concatenate([tracks, begun], axis=1)

        distance = np.hypot(tracks[_T.CX] - x, tracks[_T.CY] - y) - tracks[_T.RADIUS]
        order = np.argsort(distance, kind="stable")[:st.max_tracks]
        self._tracks = tracks[:, order]
        # A radar may already have measured the velocity of a new track.
        self._take_radar(np.flatnonzero(self._tracks[_T.SIGHTINGS] == 1.0), scan.stamp)
        span = scan.angle_increment * (len(scan.ranges) - 1)
        self._sector = None if is_full_circle(scan) else (mount.yaw + scan.angle_min + 0.5 * span, 0.5 * abs(span))
        self._give_out(scan.stamp)

    def add_radar(self, scan: RadarScan, mount: Mount, pose: tuple[float, float, float], velocity: tuple[float, float, float]) -> None:
        """Takes the returns of a radar, which measure the radial velocities of LIDAR tracks directly.

        The time of the obstacles stays that of the last LIDAR scan, so both may arrive in any order; returns with a stamp more than 0.2 s
        from it are ignored. Returns alone do not begin a track.

        Args:
            mount: pose of the radar.
            pose: x, y [m], yaw [rad] of the position point at its stamp; velocity: vx, vy [m/s] in the vehicle's axes, yaw rate [rad/s].

        Raises:
            InputError: returns, pose or velocity are not finite; nothing is changed then.
        """
        _check_pose(*pose)
        columns = (scan.ranges, scan.azimuths, scan.dopplers)
        if len({len(column) for column in columns}) > 1 or not np.isfinite([scan.stamp, *velocity]).all() or not all(
                np.isfinite(column).all() for column in columns):
            raise Refused("radar: stamp, velocity, range, azimuth and doppler_velocity must be finite, and as many of each", NOT_FINITE)
        near = np.argsort(scan.ranges, kind="stable")[:_MAX_RETURNS]
        self._radar = RadarScan(scan.stamp, *(column[near] for column in (*columns, scan.amplitudes))), sensor_motion(mount, pose, velocity)
        self._take_radar(np.arange(self.tracked), self._obstacles.time)
        self._give_out(self._obstacles.time)

    def _take_radar(self, which: np.ndarray, stamp: float) -> None:
        """Corrects the tracks `which` (k,), of a stamp [s], by the radar's last returns."""
        if self._radar is None or not len(self._radar[0].ranges) or not len(which) or abs(self._radar[0].stamp - stamp) > _SAME_TIME:
            return
        tracks = self._tracks
        _take_returns(tracks, which, *self._radar, self._radar[0].stamp - stamp, self.settings)
        # The circles of a frame move as it does.
        bodies = np.flatnonzero((tracks[_T.BODY] > 0.0) & (tracks[_T.MOVING] > 0.0))
        rows, parts = np.nonzero((tracks[_T.THING, bodies][:, None] == tracks[_T.THING]) & (tracks[_T.BODY] == 0.0))
        for row in _OF_BODY:
            tracks[row, parts] = tracks[row, bodies[rows]]

    def _give_out(self, stamp: float) -> None:
        tracks = self._tracks
        chosen = np.flatnonzero(tracks[_T.DOUBTFUL] + tracks[_T.FRAME] == 0.0)[:self.settings.max_obstacles]
        shown, suspected = tracks[:, chosen], _suspected(tracks, stamp)[chosen]
        velocities = np.where(shown[_T.MOVING] > 0.0, shown[_T.VX:_T.VY + 1], 0.0).T
        # The filter gives the deviations of position and velocity of a moving obstacle; a circle of a frame has its body's.
        still, moves = [shown[_T.VARIANCE], np.zeros(shown.shape[1])], [_mean_variance(shown), _mean_variance(shown, 2)]
        turns = np.where(np.abs(shown[_T.TURN]) > _TURN_SIGMAS * np.sqrt(_covariance(shown)[4, 4]), _GOES_ON_TURNING * shown[_T.TURN], 0.0)
        deviations = np.sqrt(np.where(shown[_T.MOVING] > 0.0, np.maximum(moves, 0.0), still)).T
        self._obstacles = Obstacles(_frozen(shown[_T.CX:_T.CY + 1].T), _frozen(shown[_T.RADIUS]), _frozen(velocities), stamp,
                                    _frozen(deviations), _frozen(shown[_T.EXCESS]), _frozen(suspected), _frozen(_new(shown)),
                                    self._sector, turns=_frozen(turns) if turns.any() else None)


def _frozen(array: np.ndarray) -> np.ndarray:
    array = np.array(array, order="C")
    array.setflags(write=False)
    return array


def _check_pose(x: float, y: float, yaw: float) -> None:
    if not np.isfinite(x + y + yaw):
        raise Refused(f"scan: the pose ({x}, {y}, {yaw}) is not finite; give x, y and yaw of the vehicle at the scan's stamp", NOT_FINITE)
    require_all({"x": x, "y": y, "yaw": yaw}, where="scan: the pose's ")


def _suspected(t: np.ndarray, stamp: float) -> np.ndarray:
    """Returns the velocities (n, 2) [m/s] of static tracks t (_ROWS, n) that are suspected of moving at a stamp [s]: small ones in apparent
    or resumed motion, and those with an advanced end; 0 for all others."""
    displacement = np.hypot(t[_T.X] - t[_T.ANCHOR_X], t[_T.Y] - t[_T.ANCHOR_Y])
    least = np.maximum(_SUSPECT_SPEED, _SUSPECT_SIGMAS * np.sqrt(np.maximum(_mean_variance(t, 2), 0.0)))
    small = (t[_T.MOVING] == 0.0) & (t[_T.BODY] > 0.0) & (t[_T.REACH] < _SUSPECT_REACH)
    speed = np.hypot(t[_T.VX], t[_T.VY])
    may = small & (t[_T.SIGHTINGS] >= _SUSPECT_SIGHTINGS) & (displacement > _SUSPECT_DISTANCE)
    may &= (speed > least) & (speed < _SUSPECT_FASTEST)
    goes_on = small & (t[_T.RESTED] > stamp - _GOES_ON)
    velocities = np.where(may, t[_T.VX:_T.VY + 1], np.where(goes_on, t[_T.LAST_VX:_T.LAST_VY + 1], 0.0))
    for body in np.flatnonzero((t[_T.MOVING] == 0.0) & (t[_T.BODY] > 0.0) & (t[_T.CAME] > stamp - _COMING)):
        velocities[:, t[_T.THING] == t[_T.THING, body]] = t[_T.VX:_T.VY + 1, [body]]
    return velocities.T


def _new(t: np.ndarray) -> np.ndarray:
    """Marks small static tracks of t (_ROWS, n) with few detections (n,), whose motion cannot be determined yet."""
    return np.asarray((t[_T.MOVING] == 0.0) & (t[_T.BODY] > 0.0) & (t[_T.REACH] < _SUSPECT_REACH) & (t[_T.SIGHTINGS] <= _NEW_SIGHTINGS))


# -- Steps of an update -----------------------------------------------------------------------------------------------------


def _predict(old: np.ndarray, elapsed: float, st: TrackerSettings) -> np.ndarray:
    """Returns the tracks (_ROWS, n) a time [s] later; a copy. The circles of static ones stay."""
    tracks = old.copy()
    moving = tracks[_T.MOVING]
    angle, velocity = elapsed * tracks[_T.TURN], tracks[_T.VX:_T.VY + 1]
    (ahead, aside), c, s = arc(np.full_like(angle, elapsed), angle), np.cos(angle), np.sin(angle)
    displacement = ahead * velocity + aside * _to_the_left(velocity)
    tracks[:2] += displacement  # also of a static track: by the velocity that its filter tests
    tracks[_T.CX:_T.CY + 1] += moving * displacement
    velocity[:] = c * velocity + s * _to_the_left(velocity)
    # Velocity and turn rate as random walks.
    p, q = _covariance(tracks), st.acceleration_sd ** 2 * elapsed
    by_turn = elapsed * _to_the_left(velocity)[:, None]
    for side in (p, p.swapaxes(0, 1)):
        side[:2] += ahead * side[2:4] + aside * _to_the_left(side[2:4]) + 0.5 * elapsed * by_turn * side[4]
        side[2:4] = c * side[2:4] + s * _to_the_left(side[2:4]) + by_turn * side[4]
    p[4, 4] += np.where(p[4, 4] > 0.0, st.turn_rate_sd ** 2 * elapsed, 0.0)
    for i in (0, 1):
        p[i, i] += q * elapsed ** 2 / 3.0
        p[i, i + 2] += 0.5 * q * elapsed
        p[i + 2, i] += 0.5 * q * elapsed
        p[i + 2, i + 2] += q
    tracks[_T.VARIANCE] += st.standing_drift ** 2 * elapsed
    return tracks


def _to_the_left(vectors: np.ndarray) -> np.ndarray:
    """Turns vectors (2, ...) by a right angle to the left."""
    return np.stack([-vectors[1], vectors[0]])


def _covariance(t: np.ndarray) -> np.ndarray:
    """Returns the covariances (5, 5, n) of tracks, as a view."""
    return t[_T.P:].reshape(_STATES, _STATES, -1)


def _isotropic(position: np.ndarray, st: TrackerSettings) -> np.ndarray:
    """Returns rows (25, n) of the covariance of new tracks, from the variance of their position along each axis (n,) [m2]."""
    speed = np.full_like(position, st.speed_sd ** 2)
    return np.einsum("ij,jn->ijn", np.eye(_STATES), np.array([position, position, speed, speed, 0.0 * speed])).reshape(_STATES**2, -1)


def _mean_variance(t: np.ndarray, first: int = 0) -> np.ndarray:
    """Returns the variance (n,) of the position, of the velocity with `first` 2, the mean of both axes."""
    p = _covariance(t)
    return 0.5 * (p[first, first] + p[first + 1, first + 1])


def _moves(t: np.ndarray) -> np.ndarray:
    """Marks the tracks t (_ROWS, n) whose velocity differs from zero by more than three standard deviations (n,)."""
    p, (vx, vy) = _covariance(t), t[_T.VX:_T.VY + 1]
    xx, yy, xy = p[2, 2], p[3, 3], p[2, 3]
    return np.asarray(vx * vx * yy - 2.0 * vx * vy * xy + vy * vy * xx > 9.0 * (xx * yy - xy * xy))


def _measure(t: np.ndarray, h: np.ndarray, innovation: np.ndarray, variance: np.ndarray) -> None:
    """Corrects tracks (_ROWS, k) in place by a scalar measurement each, h (5, k), or (5, 1) for all, times the state, of a variance (k,): a
    Kalman update."""
    p = _covariance(t)
    ph = (p * h).sum(axis=1)
    gain = ph / ((h * ph).sum(axis=0) + variance)
    t[:_STATES] += gain * innovation
    p -= gain[:, None] * ph


def _standing(tracks: np.ndarray, circles: Circles, sensor: _Sensor) -> tuple[np.ndarray, np.ndarray]:
    """Returns the positions (2, n), (2, m) [m] of the nearest static tracks, and of the bodies detected completely now."""
    still = np.flatnonzero((tracks[_T.MOVING] == 0.0) & (tracks[_T.BODY] > 0.0) & (tracks[_T.SIGHTINGS] > 2.0))
    whole = np.flatnonzero((circles.body == np.arange(len(circles.x))) & ~circles.partial)
    before, now = (places[:, np.argsort(np.hypot(places[0] - sensor[0], places[1] - sensor[1]))[:_STANDING]]
                   for places in (tracks[_T.CX:_T.CY + 1, still], np.array([circles.x[whole], circles.y[whole]])))
    return before, now


def _associate(tracks: np.ndarray, circles: Circles, st: TrackerSettings) -> tuple[np.ndarray, np.ndarray]:
    """Returns pairs of indices into tracks and circles (k,), one to one, of least total distance within the gates."""
    candidates = np.flatnonzero(tracks[_T.BODY])
    bodies = np.flatnonzero(circles.body == np.arange(len(circles.x)))
    if not len(candidates) or not len(bodies):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    chosen = tracks[:, candidates]
    dx = chosen[_T.X][:, None] - circles.x[bodies]
    dy = chosen[_T.Y][:, None] - circles.y[bodies]
    square = dx * dx + dy * dy
    # The detected middle may jump within the body between views.
    gate = 9.0 * (_mean_variance(chosen)[:, None] + _position_variance(circles, bodies, st)) + 0.25 * chosen[_T.REACH][:, None] ** 2
    gate = np.minimum(gate, st.gate ** 2)
    # Missing pairs cost as much as the largest gate: an additional pair must not shift the tracks of a whole row of obstacles by one.
    allowed = square < gate
    cost = np.where(allowed, np.sqrt(square), st.gate)
    rows, columns = linear_sum_assignment(cost)
    good = allowed[rows, columns]
    return candidates[rows[good]], bodies[columns[good]]


def _take_returns(tracks: np.ndarray, which: np.ndarray, scan: RadarScan, motion: tuple[float, float, float, float, float], elapsed: float,
                  st: TrackerSettings) -> None:
    """Corrects the velocities of the tracks `which` (k,) in place by a radar's returns.

    A return belongs to the track whose circle it is nearest to. With u its direction, v the velocity of the track and w the radar's, the
    measurement is Doppler + w u = v u, of the radar's variance, what the velocity may have changed by meanwhile, and the error of u times
    the relative velocity across it.

    Args:
        motion: of the radar, as `sensor_motion`; elapsed: from the tracks' time to the returns' [s].
    """
    x, y, yaw, wx, wy = motion
    drift = tracks[_T.MOVING] * elapsed
    dx, dy = tracks[_T.CX] + drift * tracks[_T.VX] - x, tracks[_T.CY] + drift * tracks[_T.VY] - y
    distance = np.hypot(dx, dy)
    turn = np.remainder(yaw + scan.azimuths - np.arctan2(dy, dx)[:, None] + np.pi, 2.0 * np.pi) - np.pi
    apart = np.hypot((scan.ranges - distance[:, None]) / (tracks[_T.RADIUS] + 3.0 * st.radar_range_sd)[:, None],
                     distance[:, None] * turn / (tracks[_T.RADIUS] + 3.0 * st.radar_azimuth_sd * distance)[:, None])
    own = (np.argmin(apart, axis=0) == np.arange(len(distance))[:, None]) & (apart < 1.0)

    hit = which[own[which].any(axis=1) & (tracks[_T.BODY, which] > 0.0)]
    t = tracks[:, hit]
    ux, uy = np.cos(yaw + scan.azimuths), np.sin(yaw + scan.azimuths)
    rates = scan.dopplers + wx * ux + wy * uy
    # Of several returns use the best fit, so that a stray one does not set a static obstacle in motion.
    error = np.where(own[hit], rates - t[_T.VX][:, None] * ux - t[_T.VY][:, None] * uy, np.inf)
    chosen = np.argmin(np.abs(error), axis=1)
    ux, uy, rate, error = ux[chosen], uy[chosen], rates[chosen], error[np.arange(len(hit)), chosen]
    h = np.array([0.0 * ux, 0.0 * ux, ux, uy, 0.0 * ux])
    across = (t[_T.VX] - wx) * uy - (t[_T.VY] - wy) * ux
    variance = st.radar_doppler_sd ** 2 + st.acceleration_sd ** 2 * abs(elapsed) + (st.radar_azimuth_sd * across) ** 2
    fits = error ** 2 < 9.0 * ((h[:, None] * _covariance(t) * h).sum(axis=(0, 1)) + variance)
    t[_T.DISSENT] = np.where(fits, 0.0, t[_T.DISSENT] + 1.0)
    # A second contradiction in a row: the velocity was wrong, due to a stray return or a change of the body.
    anew = t[_T.DISSENT] > 1.0
    t[_T.P:, anew] = _isotropic(_mean_variance(t[:, anew]), st)
    used = fits | anew
    corrected = t[:, used]
    _measure(corrected, h[:, used], error[used], variance[used])
    starts = (np.abs(rate) > st.moving_speed) & (rate ** 2 > 9.0 * variance)
    corrected[_T.MOVING] = np.maximum(corrected[_T.MOVING], starts[used])
    corrected[_T.DOUBTFUL], corrected[_T.DISSENT] = 0.0, 0.0
    t[:, used] = corrected
    tracks[:, hit] = t


def _position_variance(circles: Circles, which: np.ndarray, st: TrackerSettings) -> np.ndarray:
    """Returns the variance of the middle [m2]: larger for partial detections, whose middle depends on the view."""
    extent = circles.extent[which]
    return np.where(circles.partial[which], extent * extent + 0.25 * st.scale**2, 0.0625 * extent * extent + 4e-4)


def _look_variance(circles: Circles, which: np.ndarray, st: TrackerSettings) -> np.ndarray:
    """Returns the variance of a circle's middle along each axis by one detection [m2]: from range noise and beam spacing."""
    return np.where(circles.arc[which], (2.0 * st.noise_sd) ** 2, st.noise_sd ** 2 + circles.blur[which] ** 2)


def _correct(tracks: np.ndarray, track: np.ndarray, now: _Look, found: np.ndarray, bearing: np.ndarray, looks: Sequence[_Look],
             st: TrackerSettings) -> None:
    """Updates the tracks `track` in place by the circles `found`, at a bearing [rad] each, all (k,); looks: earlier ones, oldest first."""
    if not len(track):
        return
    scan, sensor, circles = now.scan, now.sensor, now.circles
    t = tracks[:, track]
    arc, partial = circles.arc[found], circles.partial[found]
    x, y, radius = circles.x[found], circles.y[found], circles.radius[found]
    # A partial detection of a circle known completely locates that circle, not its own middle.
    contained = np.hypot(x - t[_T.CX], y - t[_T.CY]) + radius < t[_T.RADIUS] + 0.3 * st.scale
    inner = (t[_T.ARC] > 0.0) & ~arc & ~circles.frame[found] & contained
    x, y, radius, excess = (np.where(inner, t[row], now) for row, now in (
        (_T.CX, x), (_T.CY, y), (_T.RADIUS, radius), (_T.EXCESS, circles.excess[found])))

    # Any part of a moving body may be visible: as it becomes occluded, the remaining part appears to slow down.
    less = np.where(partial & (t[_T.MOVING] > 0.0), np.maximum(t[_T.REACH] - radius, 0.0), 0.0)
    variance = _position_variance(circles, found, st) + less * less
    pxx, ex, ey = _mean_variance(t), x - t[_T.X], y - t[_T.Y]
    for axis, measured in ((0, x), (1, y)):
        _measure(t, _OF_STATE[axis], measured - t[axis], variance)

    turned = _take_headings(t, found, now, scan.stamp)
    came, partly = _take_advance(t, found, now, looks, st, turned)
    _take_look(t, (x, y, radius, excess), _look_variance(circles, found, st), bearing, inner,
               ~partial & ~circles.frame[found] & (arc | (radius - excess < st.scale * _SMALL)), arc, abs(scan.angle_increment))
    t[_T.ARC], t[_T.FRAME] = arc | inner, circles.frame[found]
    # Now separated from a neighbour it was merged with: measure its motion by its own size from now on.
    parted = arc & ~partial & (t[_T.REACH] > _PARTED * radius)
    t[_T.ANCHOR_X], t[_T.ANCHOR_Y] = np.where(parted, x, t[_T.ANCHOR_X]), np.where(parted, y, t[_T.ANCHOR_Y])
    t[_T.REACH] = np.where(parted, radius, np.maximum(t[_T.REACH], radius))
    t[_T.LAST_DETECTED] = scan.stamp
    t[_T.SIGHTINGS] += 1.0
    t[_T.FREE] = 0.0
    t[_T.DOUBTFUL] = 0.0

    moving = t[_T.MOVING] > 0.0
    speed = np.hypot(t[_T.VX], t[_T.VY])
    travelled = np.hypot(t[_T.X] - t[_T.ANCHOR_X], t[_T.Y] - t[_T.ANCHOR_Y])
    starts = ~moving & (speed > st.moving_speed) & _moves(t) & (travelled > _SUSPECT_DISTANCE)
    # A part with an occluded or lost end may slide along the body.
    slow = np.flatnonzero(starts & (partial | (travelled <= np.where(arc, 0.5, 1.5) * t[_T.REACH] + 6.0 * st.noise_sd)))
    starts[slow[partly[slow]]] &= came[slow[partly[slow]]]
    slow = slow[starts[slow]]
    first = slow[~partly[slow]]
    starts[first] = _comes(now, found[first], (scan.stamp - looks[0].scan.stamp) * t[_T.VX:_T.VY + 1, first], looks[0],
                           np.zeros((2, len(first))))
    stops = moving & (speed < 0.5 * st.moving_speed)
    # The step must fit the velocity, unlike that to a new body beside an occluded one.
    starts &= ex * ex + ey * ey < 6.0 * (pxx + variance)
    # A moving body leaves its place. If it is still occupied, the track has changed bodies, or slides along a surface.
    tested = np.flatnonzero(starts)
    if len(tested):
        there, *_ = _evidence(t[_T.ANCHOR_X, tested], t[_T.ANCHOR_Y, tested], 0.6 * t[_T.REACH, tested], scan, sensor,
                             (x[tested], y[tested], radius[tested]))
        stayed = tested[there]
        starts[stayed] = False
        t[_T.ANCHOR_X, stayed], t[_T.ANCHOR_Y, stayed] = x[stayed], y[stayed]
    t[_T.CAME, slow[starts[slow]]] = scan.stamp
    comes = ~moving & (t[_T.CAME] > scan.stamp - _COMING)
    t[_T.STREAK] = np.where(starts | stops, t[_T.STREAK] + 1.0, np.where(comes, t[_T.STREAK], 0.0))
    # Alternating detections of small bodies, of one or two returns, may look like motion.
    needed = np.where(circles.weak[found], st.weak_scans, st.moving_scans)
    changes = t[_T.STREAK] >= np.where(moving, st.still_scans, needed)
    t[_T.MOVING] = moving ^ changes
    t[_T.STREAK][changes] = 0.0
    at_rest = changes & moving
    drives = moving & (speed > st.moving_speed)
    t[_T.LAST_VX:_T.LAST_VY + 1] = np.where(drives, t[_T.VX:_T.VY + 1], t[_T.LAST_VX:_T.LAST_VY + 1])
    t[_T.RESTED] = np.where(at_rest, scan.stamp, t[_T.RESTED])
    _begin_turns(t, st)
    t[_T.ANCHOR_X], t[_T.ANCHOR_Y] = np.where(at_rest, x, t[_T.ANCHOR_X]), np.where(at_rest, y, t[_T.ANCHOR_Y])
    tracks[:, track] = t


def _drives(t: np.ndarray) -> np.ndarray:
    """Marks the tracks t (_ROWS, k) with confirmed driving motion (k,)."""
    return np.asarray((t[_T.MOVING] > 0.0) & (np.hypot(t[_T.VX], t[_T.VY]) > _DRIVES))


def _begin_turns(t: np.ndarray, st: TrackerSettings) -> None:
    """Starts the turn rate of tracks t (_ROWS, k) that begin to drive, in place; slow or static ones do not turn."""
    p, drives = _covariance(t), _drives(t)
    p[4, 4, drives & (p[4, 4] == 0.0)] = st.turn_rate_sd**2
    _end_turns(t, ~drives)


def _end_turns(t: np.ndarray, chosen: np.ndarray) -> None:
    """Sets the turn rate of the chosen tracks t (_ROWS, k), a mask (k,), to 0, in place."""
    p = _covariance(t)
    t[_T.TURN, chosen], p[4, :, chosen], p[:, 4, chosen] = 0.0, 0.0, 0.0


def _take_headings(t: np.ndarray, found: np.ndarray, now: _Look, stamp: float) -> np.ndarray:
    """Updates the turn rates of driving tracks t (_ROWS, k) by the rotation of their outlines `found` (k,) since the last detection, in
    place. Returns a mask (k,) of those that turn."""
    turned = np.zeros(len(found), bool)
    for k in np.flatnonzero(_drives(t)):
        heading, sd = now.heading(int(found[k]))
        if sd > _HEADING_SD:
            continue
        elapsed = stamp - t[_T.HEADED, k]
        if 0.0 < elapsed < _COMPARED:
            one, rate = t[:, [k]], math.remainder(heading - t[_T.HEADING, k], 0.5 * math.pi) / elapsed
            _measure(one, _OF_STATE[_T.TURN], rate - one[_T.TURN], np.array([2.0 * (sd * sd + _JITTER**2) / elapsed**2]))
            t[:, [k]] = one
        t[_T.HEADING, k], t[_T.HEADED, k] = heading, stamp
        turned[k] = abs(t[_T.TURN, k]) > _TURNING
    return turned


def _take_advance(t: np.ndarray, found: np.ndarray, now: _Look, looks: Sequence[_Look], st: TrackerSettings,
                  turned: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Updates tracks t (_ROWS, k) in place by the advance of both ends, along each axis, of the bodies `found` (k,) since the oldest look.
    Returns masks (k,) of those with an end at a place that was free then, and of partial detections then or now.

    If both ends of a complete detection have advanced in the same direction, the smaller advance counts, since the view may have changed:
    the visible part determines the middle, but hardly this advance. Otherwise an end counts if it is at a place that was free then.
    """
    before, elapsed = looks[0], now.scan.stamp - looks[0].scan.stamp
    old = np.flatnonzero((before.circles.body == np.arange(len(before.circles.x))) & np.isfinite(before.low[:, 0]))
    came, partly = np.zeros((2, len(found)), bool)
    if elapsed < 0.5 * _COMPARED or not len(old):
        return came, partly
    which = np.flatnonzero(np.isfinite(now.low[found, 0]))
    low, high, then_low, then_high = now.low[found[which]], now.high[found[which]], before.low[old], before.high[old]
    apart = (0.5 * (low + high) - elapsed * t[_T.VX:_T.VY + 1, which].T)[:, None] - 0.5 * (then_low + then_high)
    distance = np.hypot(apart[..., 0], apart[..., 1])
    # Part of an earlier merged detection, or more of it.
    overlaps = ((low[:, None] < then_high) & (high[:, None] > then_low)).all(axis=2) & (t[_T.MOVING, which] == 0.0)[:, None]
    distance = np.where(overlaps, np.minimum(distance, 0.99 * _SAME_PLACE), distance)
    near = np.flatnonzero(distance.min(axis=1) < _SAME_PLACE)
    which, same = which[near], distance[near].argmin(axis=1)
    found, of_low, of_high = found[which], low[near] - then_low[same], high[near] - then_high[same]
    whole = ~now.circles.partial[found] & ~before.circles.partial[old[same]]
    alike = whole & (np.abs(of_high - of_low) < _SAME_SIZE).all(axis=1)
    # Overlapping comparisons are correlated: scale the variance by their number.
    variance = len(looks) * 2.0 * (now.circles.blur[found] ** 2 + st.noise_sd ** 2) / elapsed ** 2
    together = whole[:, None] & (of_low * of_high > 0.0)
    carried = elapsed * t[_T.MOVING, which] * t[_T.VX:_T.VY + 1, which]
    comes = np.zeros((2, 2, len(found)), bool)  # by axis and end, lower and upper
    for axis, end in np.ndindex(2, 2):
        ways = np.zeros((2, len(found)))
        ways[axis] = np.minimum(of_low[:, axis], 0.0) if end == 0 else np.maximum(of_high[:, axis], 0.0)
        tested = np.flatnonzero(~together[:, axis] & (np.abs(ways[axis]) > _CAME))
        comes[axis, end, tested] = _comes(now, found[tested], ways[:, tested], before, carried[:, tested])
    taken, came[which], partly[which] = t[:, which], comes.any(axis=(0, 1)), ~whole
    for axis in (0, 1):
        lower, upper, (down, up) = of_low[:, axis], of_high[:, axis], comes[axis]
        advance = np.where(together[:, axis], np.where(np.abs(lower) < np.abs(upper), lower, upper), down * lower + up * upper)
        used = (alike | down | up) & ~(down & up)
        # An advance along the other axis implies little motion along this one, unless an end shows it.
        aside = ~used & comes[1 - axis].any(axis=0)
        # A velocity before the first advance is due to changing views: discard it.
        p = _covariance(taken)
        anew = aside & (taken[_T.MOVING] == 0.0)
        taken[_T.VX + axis, anew] = 0.0
        p[2 + axis, :, anew], p[:, 2 + axis, anew] = 0.0, 0.0
        p[2 + axis, 2 + axis, anew] = _ASIDE_SD ** 2
        doubt = variance + np.where(aside, _ASIDE_SD ** 2, 0.0)
        used = (used | aside & ~anew) & ~turned[which]
        corrected = taken[:, used]
        _measure(corrected, _OF_STATE[2 + axis], advance[used] / elapsed - corrected[_T.VX + axis], doubt[used])
        taken[:, used] = corrected
    t[:, which] = taken
    return came, partly


def _comes(now: _Look, found: np.ndarray, ways: np.ndarray, before: _Look, carried: np.ndarray) -> np.ndarray:
    """Marks the bodies `found` (k,) whose leading ends, after an advance `ways` (2, k) [m], are at previously free places, while their
    origins were not free: no static body can be there, nor one moved by `carried` (2, k) [m] if its origin was free. The advance must
    exceed the spacing of the returns at that end, within which a static body may end."""
    if not len(found) or not len(now.returns):
        return np.zeros(len(found), bool)
    length = np.hypot(*ways)
    of = now.bodies[:, None] == found
    first = np.where(of, now.returns @ (ways / np.maximum(length, 1e-9)), -np.inf).argmax(axis=0)
    x, y = now.returns[first].T
    apart = np.where(of, np.hypot(now.returns[:, :1] - x, now.returns[:, 1:] - y), np.inf)
    apart[first, np.arange(len(found))] = np.inf
    here, past, explained = (_evidence(x - dx, y - dy, np.full(len(found), _FREE), before.scan, before.sensor)[1]
                             for dx, dy in (np.zeros_like(ways), ways, carried))
    return here & ~past & explained & (length > _CAME) & (length > _SPACINGS * apart.min(axis=0))


def _take_look(t: np.ndarray, look: tuple[np.ndarray, ...], variance: np.ndarray, bearing: np.ndarray, redundant: np.ndarray,
               whole: np.ndarray, arc: np.ndarray, spacing: float) -> None:
    """Updates the circles of tracks t (_ROWS, k) by one detection, in place.

    Args:
        look: x, y, radius and excess, (k,) each [m]; variance: of x and y [m2]; bearing: of the detection [rad].
        redundant: the detection adds no information.
        whole: complete detection, whose middle is that of the body; else the circle covers the present detection.
        arc: fitted as round by many beams, so that its variance is their noise, not the beam spacing.
        spacing: angle between two beams [rad].
    """
    before, p = t[[_T.CX, _T.CY, _T.RADIUS, _T.EXCESS]], t[_T.VARIANCE]
    moved = np.abs(np.remainder(bearing - t[_T.BEARING] + np.pi, 2.0 * np.pi) - np.pi) / spacing
    news = np.where(arc, 1.0, np.where(moved < _NEW, 0.0, np.minimum(moved, 1.0)))
    fits = (look[0] - before[0]) ** 2 + (look[1] - before[1]) ** 2 < 9.0 * (p + variance)
    mean = whole & fits & (t[_T.MOVING] == 0.0) & (t[_T.FRAME] == 0.0) & ((t[_T.ARC] > 0.0) == arc)
    information = np.where(mean, 1.0 / p + news / variance, 0.0)
    alone = ~redundant & (information <= 1.0 / variance)  # more informative than all earlier ones
    gain = np.where(redundant, 0.0, np.where(alone, 1.0, news / variance / np.maximum(information, 1e-12)))
    t[[_T.CX, _T.CY, _T.RADIUS, _T.EXCESS]] = before + gain * (np.array(look) - before)
    t[_T.VARIANCE] = np.where(redundant, p, np.where(alone, variance, 1.0 / np.maximum(information, 1e-12)))
    t[_T.BEARING] = np.where(gain > 0.0, bearing, t[_T.BEARING])


def _retained(tracks: np.ndarray, matched: np.ndarray, circles: Circles, scan: Scan, sensor: tuple[float, float, float],
          vehicle: tuple[float, float, float, float], st: TrackerSettings) -> np.ndarray:
    """Marks the tracks (n,) to retain; counts in place the scans with free beams through undetected ones."""
    n = tracks.shape[1]
    keep = np.ones(n, bool)
    unseen = np.ones(n, bool)
    unseen[matched] = False
    lost = np.flatnonzero(unseen)
    if not len(lost):
        return keep
    t = tracks[:, lost]
    moving = t[_T.MOVING] > 0.0
    hit, through, hidden = _evidence(t[_T.CX], t[_T.CY], t[_T.RADIUS], scan, sensor)
    t[_T.FREE] = np.where(through, t[_T.FREE] + 1.0, np.where(hit, 0.0, t[_T.FREE]))
    t[_T.STREAK] = 0.0
    still, link, frame = ~moving, t[_T.BODY] == 0.0, t[_T.FRAME] > 0.0
    # The filter of a static track restarts at its next detection, as its motion meanwhile is unknown.
    t[_T.X], t[_T.Y] = np.where(still, t[_T.CX], t[_T.X]), np.where(still, t[_T.CY], t[_T.Y])
    t[_T.VX:_T.TURN + 1, still] = 0.0
    t[_T.P:, still] = _isotropic((0.5 * t[_T.RADIUS, still]) ** 2 + 4e-4, st)
    _end_turns(t, moving)
    tracks[:, lost] = t

    # A static track with another detection at its place is dropped. The circles of a surface are replaced by the detected
    # ones; nothing remains behind a moving body.
    square = (t[_T.CX][:, None] - circles.x) ** 2 + (t[_T.CY][:, None] - circles.y) ** 2
    again = tracks[_T.THING, matched][tracks[_T.MOVING, matched] > 0.0]
    covered = ((square < circles.radius ** 2) & ~circles.frame).any(axis=1)
    replaced = link & np.isin(t[_T.THING], again) | ~frame & (still | link) & (hit | covered)
    # Only tracks with a confirmed and accurate velocity are kept long; circles of a frame follow it.
    follows = ~link & (_mean_variance(t, 2) < _MAX_OCCLUDED_SPEED_SD**2)
    follows |= link & np.isin(t[_T.THING], t[_T.THING, follows])
    memory = np.where(moving, np.where(hidden & follows, st.hidden_memory, st.moving_memory), st.static_memory)
    # A part of a moving body, detected apart from it a few times, has its motion from there.
    few = ~link & moving & (t[_T.SIGHTINGS] <= _NEW_SIGHTINGS)
    memory = np.where((t[_T.DOUBTFUL] > 0.0) | frame & still | few, st.doubtful_memory, memory)
    x, y, cos, sin = vehicle
    behind = (t[_T.CX] - x) * cos + (t[_T.CY] - y) * sin < -st.passed
    forgotten = scan.stamp - t[_T.LAST_DETECTED] > memory + 1e-9
    keep[lost] = ~(replaced | behind | forgotten | (t[_T.FREE] >= st.free_scans) & ~frame)
    return keep


def _evidence(x: np.ndarray, y: np.ndarray, radius: np.ndarray, scan: Scan, sensor: tuple[float, float, float],
              inner: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Marks the circles x, y, radius (n,) in which beams end, those that all central beams pass through, and those before which all beams
    end: each (n,).

    Beams that end in the circles `inner`, x, y and radius (n,) too, do not count as ending.
    """
    n, beams = len(x), len(scan.ranges)
    dx, dy = x - sensor[0], y - sensor[1]
    distance = np.maximum(np.hypot(dx, dy), 1e-6)
    turn = np.copysign(2.0 * np.pi, scan.angle_increment)
    bearing = np.arctan2(dy, dx) - sensor[2] - scan.angle_min
    half = np.arcsin(np.minimum(0.9 * radius / distance, 1.0))
    angles = bearing[:, None] + half[:, None] * np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    # Beam indices count from angle_min in the direction of the scan; half an increment before it rounds to the first.
    angles = np.mod(angles + 0.5 * scan.angle_increment, turn) - 0.5 * scan.angle_increment
    index = np.rint(angles / scan.angle_increment).astype(np.int64)
    inside = (index >= 0) & (index < beams)
    if is_full_circle(scan):
        index, inside = index % beams, np.ones((n, 5), bool)
    index = np.where(inside, index, 0)
    r = scan.ranges[index]
    off = index * scan.angle_increment - bearing[:, None]
    aside = distance[:, None] * np.sin(off)
    chord = radius[:, None] ** 2 - aside ** 2
    along, half_chord = distance[:, None] * np.cos(off), np.sqrt(np.maximum(chord, 0.0))
    valid = inside & (chord > 0.0) & (r >= scan.range_min) & (np.isposinf(r) | (r <= scan.range_max))
    far = np.minimum(along + half_chord, scan.range_max)  # no evidence beyond the range of the sensor
    hit = valid & (r >= along - half_chord - 0.1) & (r <= along + half_chord + 0.1)
    passes = valid & (np.abs(aside) < 0.5 * radius[:, None]) & (r > far + 0.1) & (along < scan.range_max)
    # A central beam that ended before, or in the circle, does not contradict it.
    stopped = valid & (r <= far + 0.1)
    if inner is not None:
        direction = sensor[2] + scan.angle_min + scan.angle_increment * index
        with np.errstate(invalid="ignore"):  # inf times 0
            aside = np.hypot(sensor[0] + r * np.cos(direction) - inner[0][:, None], sensor[1] + r * np.sin(direction) - inner[1][:, None])
        hit &= aside > inner[2][:, None] + 0.1
    before = valid & (r < along - half_chord - 0.1)
    return hit.any(axis=1), passes.any(axis=1) & ~stopped.any(axis=1), before.any(axis=1) & (before | ~valid).all(axis=1)


def _begin(circles: Circles, of_body: np.ndarray, new: np.ndarray, bearing: np.ndarray, number: float, stamp: float,
           st: TrackerSettings) -> np.ndarray:
    """Makes tracks (_ROWS, k) of the circles `new` (k,), at a bearing (k,) [rad], with the data of their bodies; new bodies are numbered
    from `number`."""
    t = np.zeros((_ROWS, len(new)))
    t[_T.X] = t[_T.CX] = t[_T.ANCHOR_X] = circles.x[new]
    t[_T.Y] = t[_T.CY] = t[_T.ANCHOR_Y] = circles.y[new]
    t[_T.RADIUS] = t[_T.REACH] = circles.radius[new]
    t[_T.EXCESS] = circles.excess[new]
    t[_T.P:] = _isotropic(_position_variance(circles, new, st), st)
    t[_T.LAST_DETECTED], t[_T.SIGHTINGS], t[_T.RESTED], t[_T.CAME], t[_T.HEADED] = stamp, 1.0, -np.inf, -np.inf, -np.inf
    t[_T.VARIANCE], t[_T.BEARING] = _look_variance(circles, new, st), bearing
    body = circles.body[new]
    t[_T.BODY], t[_T.FRAME], t[_T.ARC], t[_T.DOUBTFUL] = body == new, circles.frame[new], circles.arc[new], circles.lone[new]
    things = new[body == new]
    of_body[3, things] = number + np.arange(len(things))
    t[_OF_BODY] = of_body[:, body]
    return t


def _inherit(begun: np.ndarray, tracks: np.ndarray) -> None:
    """Gives the velocity of a moving track to new ones (_ROWS, k) beside it, in place: sparse beams separate the rear and side of a car.

    The next detections correct it if the new body is static.
    """
    movers = tracks[:, (tracks[_T.MOVING] > 0.0) & (tracks[_T.BODY] > 0.0)]
    if not begun.shape[1] or not movers.shape[1]:
        return
    apart = np.hypot(begun[_T.CX][:, None] - movers[_T.X], begun[_T.CY][:, None] - movers[_T.Y])
    apart -= begun[_T.RADIUS][:, None] + movers[_T.REACH]
    nearest = apart.argmin(axis=1)
    part = (apart.min(axis=1) < _APART) & (begun[_T.MOVING] == 0.0) & (begun[_T.THING] > 0.0)
    mover = movers[:, nearest[part]]
    begun[_T.VX:_T.VY + 1, part], begun[_T.MOVING, part] = mover[_T.VX:_T.VY + 1], 1.0
    begun[_T.LAST_VX:_T.LAST_VY + 1, part] = mover[_T.VX:_T.VY + 1]
    p = _covariance(begun)
    for axis in (2, 3):
        p[axis, axis, part] = _mean_variance(mover, 2) + _PART_SPEED_SD**2
