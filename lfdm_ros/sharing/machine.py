"""The state machine of shared control: authority by the presence of operator, autonomy and state. One table; the first row that fits
decides.

It keeps no history: the state follows from the present inputs, so that a source that returns is used again. Two inputs have a memory: a
source came before or not, and the latch of the emergency stop.
"""

import math
from dataclasses import dataclass
from enum import Enum

from lfdm_ros.bounds import STAMP, Refused
from lfdm_ros.sharing.sharing_settings import AUTONOMY, BLEND, MODES, OPERATOR


class Presence(Enum):
    """Presence of a source: nothing came yet; its last message counts; its last message is too old."""

    NEVER = "never"
    FRESH = "fresh"
    LOST = "lost"


class Authority(Enum):
    """Target of k, reached at its rate."""

    LAW = "by the threat"
    OPERATOR = "to 0"
    AUTONOMY = "to 1"
    HELD = "held"


class Action(Enum):
    """Kind of command that is sent."""

    SHARED = "shared command"
    WAIT = "roll, or stand"
    STOP = "controlled stop"
    EMERGENCY = "emergency stop"


@dataclass(frozen=True)
class MachineInputs:
    """Inputs of the state machine. overdue: the vehicle has moved for too long without any command; expired: a requested takeover has not
    been acknowledged in time."""

    mode: str
    operator: Presence
    autonomy: Presence
    vehicle: Presence
    latched: bool = False
    overdue: bool = False
    expired: bool = False


NEVER, FRESH, LOST = Presence
_ANY = frozenset(Presence)


@dataclass(frozen=True)
class Row:
    """A state, when it is, and what it does. alarm: it is a warning; why: said of it, in one line."""

    state: str
    share: Authority
    action: Action
    alarm: bool
    why: str
    modes: frozenset[str] = frozenset(MODES)
    operator: frozenset[Presence] = _ANY
    autonomy: frozenset[Presence] = _ANY
    vehicle: frozenset[Presence] = frozenset((FRESH,))
    latched: bool = False
    overdue: frozenset[bool] = frozenset((False, True))
    expired: frozenset[bool] = frozenset((False,))

    def fits(self, inputs: MachineInputs) -> bool:
        return (inputs.mode in self.modes and inputs.operator in self.operator and inputs.autonomy in self.autonomy
                and inputs.vehicle in self.vehicle and inputs.latched == self.latched and inputs.overdue in self.overdue
                and inputs.expired in self.expired)


def _of(*values: Presence) -> frozenset[Presence]:
    return frozenset(values)


_BOTH, _HIM, _IT = frozenset((BLEND,)), frozenset((OPERATOR,)), frozenset((AUTONOMY,))
_WAITS, _OVERDUE, _EITHER = frozenset((False,)), frozenset((True,)), frozenset((False, True))

TABLE: tuple[Row, ...] = (
    Row("emergency_stop", Authority.HELD, Action.EMERGENCY, True, "emergency stop: latched until it is reset", vehicle=_ANY, latched=True,
        expired=_EITHER),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no state of the vehicle yet", vehicle=_of(NEVER), expired=_EITHER),
    Row("state_lost", Authority.OPERATOR, Action.SHARED, True, "the vehicle's state is lost: the operator drives unjudged",
        modes=_HIM, operator=_of(FRESH), vehicle=_of(LOST)),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle's state is lost", vehicle=_of(LOST), expired=_EITHER),
    Row("minimum_risk", Authority.HELD, Action.STOP, True, "nobody has taken over in time: minimum-risk manoeuvre", expired=_OVERDUE),
    # Operator and autonomy together.
    Row("sharing", Authority.LAW, Action.SHARED, False, "", modes=_BOTH, operator=_of(FRESH), autonomy=_of(FRESH)),
    Row("operator_alone", Authority.OPERATOR, Action.SHARED, False, "no command of autonomy yet", modes=_BOTH, operator=_of(FRESH),
        autonomy=_of(NEVER)),
    Row("autonomy_lost", Authority.OPERATOR, Action.SHARED, True, "autonomy is lost: the operator drives", modes=_BOTH, operator=_of(FRESH),
        autonomy=_of(LOST)),
    Row("autonomy_alone", Authority.AUTONOMY, Action.SHARED, False, "no command of the operator yet", modes=_BOTH, operator=_of(NEVER),
        autonomy=_of(FRESH)),
    Row("operator_lost", Authority.AUTONOMY, Action.SHARED, True, "the operator is lost: autonomy drives", modes=_BOTH, operator=_of(LOST),
        autonomy=_of(FRESH)),
    Row("stopping", Authority.HELD, Action.STOP, True, "operator and autonomy are lost", modes=_BOTH, operator=_of(LOST),
        autonomy=_of(NEVER, LOST)),
    Row("stopping", Authority.HELD, Action.STOP, True, "autonomy is lost, and no operator came", modes=_BOTH, operator=_of(NEVER),
        autonomy=_of(LOST)),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no command of operator or autonomy yet", modes=_BOTH, operator=_of(NEVER),
        autonomy=_of(NEVER), overdue=_WAITS),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle moves, and nobody came to drive it", modes=_BOTH, operator=_of(NEVER),
        autonomy=_of(NEVER), overdue=_OVERDUE),
    # The operator alone: autonomy is not part of the mode, so it does not take over.
    Row("operator_alone", Authority.OPERATOR, Action.SHARED, False, "", modes=_HIM, operator=_of(FRESH)),
    Row("stopping", Authority.HELD, Action.STOP, True, "the operator is lost, in mode operator", modes=_HIM, operator=_of(LOST)),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no command of the operator yet", modes=_HIM, operator=_of(NEVER), overdue=_WAITS),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle moves, and no operator came", modes=_HIM, operator=_of(NEVER),
        overdue=_OVERDUE),
    # Autonomy alone: the operator need not be at the wheel.
    Row("autonomy_alone", Authority.AUTONOMY, Action.SHARED, False, "", modes=_IT, autonomy=_of(FRESH)),
    Row("stopping", Authority.HELD, Action.STOP, True, "autonomy is lost, in mode autonomy", modes=_IT, autonomy=_of(LOST)),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no command of autonomy yet", modes=_IT, autonomy=_of(NEVER), overdue=_WAITS),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle moves, and no autonomy came", modes=_IT, autonomy=_of(NEVER),
        overdue=_OVERDUE),
)


def row_of(inputs: MachineInputs) -> Row:
    """Returns the row that holds."""
    return next(row for row in TABLE if row.fits(inputs))


def markdown() -> str:
    """Returns the table for the documentation."""
    def listed(values: frozenset[Presence]) -> str:
        return "any" if values == _ANY else " or ".join(p.value for p in Presence if p in values)

    lines = ["| state | mode | operator | autonomy | vehicle's state | latched | overdue | expired | k | sent | alarm | why |",
             "|" + " --- |" * 12]
    for row in TABLE:
        modes = "any" if row.modes == frozenset(MODES) else " or ".join(m for m in MODES if m in row.modes)
        overdue, expired = ("any" if len(values) == 2 else "yes" if True in values else "no" for values in (row.overdue, row.expired))
        lines.append("| " + " | ".join((
            f"`{row.state}`", modes, listed(row.operator), listed(row.autonomy), listed(row.vehicle), "yes" if row.latched else "no",
            overdue, expired, row.share.value, row.action.value, "yes" if row.alarm else "no", row.why or "-")) + " |")
    return "\n".join(lines)


# ---- Sources -------------------------------------------------------------------------------------------------------------

GAP_MEMORY = 30.0  # [s] time constant with which the longest gap between messages is forgotten
GAP_FACTOR = 2.0  # silence up to this many recent longest gaps is no loss


@dataclass(frozen=True)
class SourceTimeouts:
    """Limits beyond which a source is lost [s]: the age of its last message by its stamp, and the time since that came, which is `timeout`
    for a regular source, more for an irregular one, and `max_silence` at most."""

    age: float
    timeout: float
    max_silence: float

    def silence(self, gap: float) -> float:
        """Returns the time since the last message from which on a source is lost whose longest recent gap is `gap` [s]."""
        return max(self.timeout, min(GAP_FACTOR * gap, self.max_silence))


@dataclass
class SourceMonitor:
    """Stamp and arrival of a source's last message [s], on one clock.

    gap: the longest time between two messages of late, without those after which the source was lost whatever its gaps.
    """

    name: str
    stamp: float = -math.inf
    received: float = -math.inf
    gap: float = 0.0

    def on_message(self, stamp: float, now: float, ahead: float, max_silence: float) -> None:
        """Takes a usable message; a gap before it that is longer than `max_silence` [s] does not count as the source's period. Raises
        Refused: it is not newer than the last one, or stamped further ahead of the clock than `ahead` [s]."""
        if stamp <= self.stamp:
            again = "again" if stamp == self.stamp else "out of order"
            raise Refused(f"{again}: stamped {stamp:.3f} s, the one before {self.stamp:.3f} s", STAMP)
        if stamp > now + ahead:
            raise Refused(f"stamped {stamp - now:.3f} s ahead of the clock", STAMP)
        gap = now - self.received
        if gap <= max_silence:
            self.gap = max(gap, self.gap * math.exp(-gap / GAP_MEMORY))
        self.stamp, self.received = stamp, now

    def presence(self, now: float, limits: SourceTimeouts) -> Presence:
        """Returns the presence of the source."""
        if math.isinf(self.received):
            return NEVER
        return LOST if self.why_lost(now, limits) else FRESH

    def age(self, now: float) -> float:
        """Returns the age of the last message by its stamp [s]; NaN: none came."""
        return now - self.stamp if math.isfinite(self.stamp) else math.nan

    def why_lost(self, now: float, limits: SourceTimeouts) -> str:
        """Returns in words why the source is lost, by its silence or its age; empty: it is not."""
        if math.isinf(self.received):
            return ""
        if now - self.received > limits.silence(self.gap) + 1e-9:
            return f"{self.name}: none for {now - self.received:.2f} s"
        return f"{self.name}: {self.age(now):.2f} s old" if now - self.stamp > limits.age + 1e-9 else ""


@dataclass
class Latch:
    """The latch of the emergency stop, which stays closed until it is opened."""

    why: str = ""

    @property
    def closed(self) -> bool:
        return self.why != ""

    def close(self, why: str) -> None:
        """Stops the vehicle; the first reason stays."""
        self.why = self.why or why or "requested"

    def open(self) -> bool:
        """Lets it drive again; False: it was not stopped."""
        was, self.why = self.closed, ""
        return was
