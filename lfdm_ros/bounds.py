"""Ranges of the quantities of vehicles, sensors and tasks that come from outside, and the errors for values beyond them.

Messages, services, scenario files and parameters are checked against this one table. Ranges are wide, each with the reason of its ends:
they exclude impossible values, not unusual ones. Input within them must be processed in bounded time.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.models.declaration import INPUTS

# Least and most of a calibration: with more no machine comes to an end.
DRAWS, CHAINS, SEEDS = (10, 100_000), (1, 256), (0, 2**63 - 1)

# Reasons of refusals, by which /diagnostics counts them.
NOT_FINITE = "not_finite"
OUT_OF_RANGE = "out_of_range"
TOO_MANY = "too_many"  # elements
MALFORMED = "malformed"  # parts that do not fit together
FRAME = "frame"  # of coordinates
STAMP = "stamp"  # late, or ahead of the clock
UNUSABLE = "unusable"  # anything else, given in the text


@dataclass(frozen=True)
class Bound:
    """The closed range of a quantity, its unit, and why the range ends there."""

    lower: float
    upper: float
    unit: str
    why: str

    @property
    def range(self) -> tuple[float, float]:
        return self.lower, self.upper


_PLACE = Bound(-1e7, 1e7, "m", "no map is larger: northings of UTM end there, and a double still resolves 2 nm")
_SPEED = Bound(-200.0, 200.0, "m/s", "no vehicle with driven wheels that is modelled here is faster")
_ACCELERATION = Bound(-1000.0, 1000.0, "m/s^2", "100 g is a crash")
_RATE = Bound(-50.0, 50.0, "rad/s", "eight turns a second")
_TILT = Bound(-10.0, 10.0, "rad", "more than a turn and a half has rolled over")

BOUNDS: Mapping[str, Bound] = {
    # States, by the names of the models.
    "x": _PLACE, "y": _PLACE,
    "yaw": Bound(-1e4, 1e4, "rad", "1600 turns that were never wrapped"),
    "vx": _SPEED, "vy": _SPEED, "ax": _ACCELERATION, "ay": _ACCELERATION,
    "yaw_rate": _RATE, "roll_rate": _RATE, "pitch_rate": _RATE, "roll": _TILT, "pitch": _TILT,
    "omega": Bound(-5000.0, 5000.0, "rad/s", "a wheel of 0.04 m at 200 m/s"),  # of each wheel: omega_fl, omega_ml
    "road_wheel_angle": Bound(-math.pi, math.pi, "rad", "half a turn to either side"),
    "engine_speed": Bound(-1e4, 1e4, "rad/s", "95 000 rpm"),
    # A driver's commands.
    **{f.name: Bound(f.lower, f.upper, f.unit, f.description) for f in INPUTS},
    "steering_angle_velocity": Bound(-1000.0, 1000.0, "rad/s", "no wheel is steered by 160 turns a second"),
    "jerk": Bound(-1e5, 1e5, "m/s^3", "100 g within 10 ms is a crash"),
    # Tasks and scenarios.
    "speed": Bound(0.0, 200.0, "m/s", "as vx, forward"),
    "tolerance": Bound(0.0, 1e4, "m", "farther off than that is not at the goal"),
    "radius": Bound(0.0, 1e5, "m", "an obstacle as large as a country"),
    "obstacle_place": Bound(-2e7, 2e7, "m", "what is seen from the end of a map lies beyond it"),
    "obstacle_speed": Bound(-1e4, 1e4, "m/s", "faster is in orbit"),
    "duration": Bound(0.0, 1e6, "s", "11 days"),
    "length": Bound(0.0, 5e4, "m", "of a course or a path: an hour's drive"),
    "room": Bound(0.0, 1e5, "m", "wider is no corridor"),
    "density": Bound(0.0, 1.0, "1/m^2", "an obstacle on every square metre"),
    "times": Bound(0.0, 1000.0, "1", "nothing has room in such a field"),
    # Messages.
    "stamp": Bound(0.0, 2_147_000_000.0, "s", "a stamp counts seconds in 32 bits, and what is planned lies ahead of it"),
    "age": Bound(0.0, 3600.0, "s", "more than an hour is an error of a clock"),
    "quaternion": Bound(0.9, 1.1, "1", "the length of an orientation that is a rotation is 1"),
    "angle": Bound(-4.0 * math.pi, 4.0 * math.pi, "rad", "two turns: where a scan begins"),
    "angle_increment": Bound(1e-5, math.pi, "rad", "a beam every half turn to every 0.0006 deg"),
    "range_limit": Bound(0.0, math.inf, "m", "drivers that know no limit send the largest number there is"),
    # Ranges of a calibration request.
    "draws": Bound(0, DRAWS[1], "1", "more fill the memory"),
    "chains": Bound(0, CHAINS[1], "1", "more than there are cores anywhere"),
    "seed": Bound(0, 2**53, "1", "a double holds it exactly"),
    # Sizes.
    "beams": Bound(1, 40_000, "beams", "a full turn at 0.01 deg"),
    "image_bytes": Bound(1, 8_000_000, "bytes", "a JPEG of 4096 x 4096 pixels"),
    "points": Bound(0, 500_000, "points", "the longest path, 50 km, at 0.1 m"),
    "obstacles": Bound(0, 10_000, "obstacles", "a scan looks at each"),
    "wheels": Bound(0, 256, "wheels", "a road train of sixty axles"),
}


_SIZES = ("beams", "image_bytes", "points", "obstacles", "wheels")


def _entry(name: str) -> str:
    """Returns the key of a quantity in the table."""
    return "omega" if name.startswith("omega_") else name


class Refused(InputError):
    """Refused input; `reason` is one of the names above."""

    def __init__(self, text: str, reason: str = UNUSABLE) -> None:
        super().__init__(text)
        self.reason = reason


def refusal(name: str, value: float, label: str = "") -> Refused | None:
    """Returns the refusal of a value of the quantity `name`; None for a valid value.

    Args:
        label: replaces `name` in the message.
    """
    bound = BOUNDS[_entry(name)]
    if bound.lower <= value <= bound.upper:  # false for NaN
        return None
    if not math.isfinite(value):
        return Refused(f"{label or name} is {value}; give a finite number", NOT_FINITE)
    unit = f" {bound.unit}" if bound.unit != "1" else ""
    return Refused(f"{label or name} is {value:g}{unit}, outside [{bound.lower:g}, {bound.upper:g}]: {bound.why}",
                   TOO_MANY if name in _SIZES else OUT_OF_RANGE)


def require(name: str, value: float, label: str = "") -> float:
    """Returns a value of the quantity `name`; raises Refused outside of its range."""
    refused = refusal(name, value, label)
    if refused is not None:
        raise refused
    return value


def require_requested(draws: int, chains: int, seed: int) -> None:
    """Raises Refused for invalid requests of a calibration; 0: as the recipe says."""
    for name, value, (least, _) in (("draws", draws, DRAWS), ("chains", chains, CHAINS), ("seed", seed, SEEDS)):
        require(name, value)
        if 0 < value < least:
            raise Refused(f"{name} is {value}: at least {least} are needed, or 0: as the recipe says", OUT_OF_RANGE)


def require_all(values: Mapping[str, float], required: Iterable[str] = (), where: str = "") -> None:
    """Checks values by the names of their quantities; NaN: not measured, where it is not required. Names without a range must be finite.
    Raises Refused: the line begins with `where`."""
    for name in required:
        given = values.get(name)
        if given is None or given != given:
            raise Refused(f"{where}{name} is {'missing' if given is None else given}", NOT_FINITE)
    for name, value in values.items():
        if value != value:
            continue
        if _entry(name) in BOUNDS:
            refused = refusal(name, value, f"{where}{name}")
            if refused is not None:
                raise refused
        elif math.isinf(value):
            raise Refused(f"{where}{name} is {value}", NOT_FINITE)


def require_array(name: str, values: np.ndarray, label: str) -> None:
    """Checks all numbers of an array; Refused names the first row that is wrong as `label` and its number."""
    bound = BOUNDS[name]
    good = (values >= bound.lower) & (values <= bound.upper)
    wrong = np.flatnonzero(~good.all(axis=tuple(range(1, good.ndim))))
    if len(wrong):
        row = values[wrong[0]]
        if not np.isfinite(row).all():
            raise Refused(f"{label} {wrong[0]} is {row.tolist()}, not finite; give numbers", NOT_FINITE)
        raise Refused(f"{label} {wrong[0]} is {row.tolist()} {bound.unit}, outside [{bound.lower:g}, {bound.upper:g}]: {bound.why}",
                      OUT_OF_RANGE)


@dataclass
class Refusals:
    """Counts of a node's refused inputs by kind and by reason, and the last refusal in words.

    report: callback for each refusal, in one line.
    """

    report: Callable[[str], None] = lambda text: None
    kinds: tuple[str, ...] = ()
    counts: dict[str, int] = field(init=False)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    last: str = ""

    def __post_init__(self) -> None:
        self.counts = dict.fromkeys(self.kinds, 0)

    def refuse(self, kind: str, why: str | InputError, reason: str = UNUSABLE) -> None:
        """Counts a refusal.

        Args:
            kind: of the input: "state", "scan".
            why: in one line; an error brings its own reason.
        """
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.reasons[kind, getattr(why, "reason", reason)] += 1
        self.last = f"{kind} refused: {why}"
        self.report(self.last)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def diagnosis(self) -> dict[str, int | str]:
        """Returns values for /diagnostics: refused.KIND, refused.KIND.REASON, last_refusal; empty where no input is counted."""
        if not self.counts:
            return {}
        return {**{f"refused.{kind}": count for kind, count in self.counts.items()},
                **{f"refused.{kind}.{reason}": count for (kind, reason), count in sorted(self.reasons.items())}, "last_refusal": self.last}
