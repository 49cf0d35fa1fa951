"""The terminal display of a driving person: motion of the vehicle, commands, authority with its reason, refused messages."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from lfdm_ros.teleop.hands_on import Command

STALE = 1.0  # [s] maximum age of a displayed state
LONGEST = 3  # maximum number of notices
_BAR = 20  # characters on either side of the middle
# The driver in each state of shared control except blending.
_DRIVERS = {
    "waiting": "nobody yet", "operator_alone": "you", "autonomy_lost": "you", "state_lost": "you", "autonomy_alone": "autonomy",
    "operator_lost": "autonomy", "stopping": "nobody, stopping", "minimum_risk": "nobody, minimum-risk manoeuvre",
    "emergency_stop": "nobody, emergency stop"}


@dataclass(frozen=True)
class VehicleMotion:
    """Position [m], heading [rad] and forward speed [m/s] of the vehicle; silence: age of these values [s]."""

    x: float
    y: float
    yaw: float
    speed: float
    silence: float


@dataclass(frozen=True)
class Sharing:
    """Status of shared control: mode, state, reason, share of autonomy, threat [1]."""

    mode: str
    state: str
    reason: str
    k: float
    threat: float

    @property
    def driver(self) -> str:
        if self.state in _DRIVERS:
            return _DRIVERS[self.state]
        return "you" if self.k < 0.01 else "autonomy" if self.k > 0.99 else f"you {1.0 - self.k:.0%}, autonomy {self.k:.0%}"


@dataclass(frozen=True)
class Reading:
    """Contents of the display; None, empty: unknown.

    command: steering, throttle and brake of the person. driver: without shared control. pace: real-time factor, NaN without simulated time;
    slowed_by: reason that it is below the request. nearest: distance [m] and direction [rad, + left] of the nearest obstacle ahead.
    notices: warnings, one line each, the worst first.
    """

    motion: VehicleMotion | None = None
    command: Command | None = None
    sharing: Sharing | None = None
    driver: str = ""
    pace: float = math.nan
    slowed_by: str = ""
    nearest: tuple[float, float] | None = None
    notices: tuple[str, ...] = ()


def lines(reading: Reading) -> list[str]:
    return [*_motion(reading), _command_lines(reading.command), *_authority(reading), *_notices(reading.notices)]


def _motion(reading: Reading) -> Iterable[str]:
    motion = reading.motion
    if motion is None:
        yield "speed     -            no state of a vehicle yet"
    elif motion.silence > STALE:
        yield f"speed     -            no state for {motion.silence:.0f} s"
    else:
        because = f" ({reading.slowed_by})" if reading.slowed_by else ""
        pace = f"   time at {reading.pace:.2f} x{because}" if abs(reading.pace - 1.0) > 0.05 else ""
        yield (f"speed     {motion.speed:5.1f} m/s  {3.6 * motion.speed:4.0f} km/h   at {motion.x:.1f}, {motion.y:.1f} m, heading "
               f"{math.degrees(math.remainder(motion.yaw, math.tau)):.0f} deg{pace}")
    if reading.nearest is not None:
        distance, angle = reading.nearest
        yield f"ahead     {distance:5.1f} m to the nearest obstacle, {_side(math.degrees(angle), 'deg', 0)}"


def _command_lines(command: Command | None) -> str:
    if command is None:
        return "you ask   nothing"
    steering, throttle, brake = command
    needle = round(_BAR - _BAR * steering)  # + left
    bar = "".join("|" if i == needle else ":" if i == _BAR else "." for i in range(2 * _BAR + 1))
    return f"you ask   steering {_side(steering, '', 2):10s} {bar}  throttle {round(throttle, 2) + 0.0:.2f}  brake {brake:.2f}"


def _side(value: float, unit: str, digits: int) -> str:
    """Formats a value that is positive to the left."""
    shown = f"{abs(value):.{digits}f}"
    return " ".join(filter(None, (shown, unit, "" if float(shown) == 0.0 else "left" if value > 0.0 else "right")))


def _authority(reading: Reading) -> Iterable[str]:
    sharing = reading.sharing
    if sharing is None:
        yield f"drives    {reading.driver or '-'}"
    else:
        yield f"drives    {sharing.driver}   mode {sharing.mode}, k {sharing.k:.2f}, threat {sharing.threat:.2f}"
        yield f"          {sharing.state}: {sharing.reason}"


def _notices(notices: tuple[str, ...]) -> Iterable[str]:
    yield from (f"! {notice}" for notice in notices[:LONGEST])
    if len(notices) > LONGEST:
        yield f"! and {len(notices) - LONGEST} more"
