"""State machine of shared control: authority by the presence of operator, autonomy and state. One table; the first matching row decides.

It is memoryless: the state follows from the present inputs, so that a returning source is used again. Two inputs have memory: reception of
a first message per source, and the latch of the emergency stop.
"""

import math
from dataclasses import dataclass
from enum import Enum

from lfdm_ros.bounds import STAMP, Refused
from lfdm_ros.sharing.sharing_settings import AUTONOMY, BLEND, MODES, OPERATOR


class Presence(Enum):
    """Presence of a source: no message yet; last message in time; last message too old."""

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
    """Kind of the command sent to the vehicle."""

    SHARED = "shared command"
    WAIT = "roll, or stand"
    STOP = "controlled stop"
    EMERGENCY = "emergency stop"


@dataclass(frozen=True)
class MachineInputs:
    """Inputs of the state machine. overdue: the vehicle has moved for too long without any command; expired: a takeover request has timed
    out."""

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
    """Row of the table: a state, its conditions and its effect. alarm: it is a warning; why: one line for the operator."""

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


_BLEND, _OP, _AUTO = frozenset((BLEND,)), frozenset((OPERATOR,)), frozenset((AUTONOMY,))
_FALSE, _TRUE, _ANY_BOOL = frozenset((False,)), frozenset((True,)), frozenset((False, True))

TABLE: tuple[Row, ...] = (
    Row("emergency_stop", Authority.HELD, Action.EMERGENCY, True, "emergency stop: latched until it is reset", vehicle=_ANY, latched=True,
        expired=_ANY_BOOL),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no state of the vehicle yet", vehicle=_of(NEVER), expired=_ANY_BOOL),
    Row("state_lost", Authority.OPERATOR, Action.SHARED, True, "the vehicle's state is lost: the operator drives alone",
        modes=_OP, operator=_of(FRESH), vehicle=_of(LOST)),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle's state is lost", vehicle=_of(LOST), expired=_ANY_BOOL),
    Row("minimum_risk", Authority.HELD, Action.STOP, True, "nobody has taken over in time: minimum-risk manoeuvre", expired=_TRUE),
    # Operator and autonomy together.
    Row("sharing", Authority.LAW, Action.SHARED, False, "", modes=_BLEND, operator=_of(FRESH), autonomy=_of(FRESH)),
    Row("operator_alone", Authority.OPERATOR, Action.SHARED, False, "no command of autonomy yet", modes=_BLEND, operator=_of(FRESH),
        autonomy=_of(NEVER)),
    Row("autonomy_lost", Authority.OPERATOR, Action.SHARED, True, "autonomy is lost: the operator drives", modes=_BLEND,
        operator=_of(FRESH), autonomy=_of(LOST)),
    Row("autonomy_alone", Authority.AUTONOMY, Action.SHARED, False, "no command of the operator yet", modes=_BLEND, operator=_of(NEVER),
        autonomy=_of(FRESH)),
    Row("operator_lost", Authority.AUTONOMY, Action.SHARED, True, "the operator is lost: autonomy drives", modes=_BLEND, operator=_of(LOST),
        autonomy=_of(FRESH)),
    Row("stopping", Authority.HELD, Action.STOP, True, "operator and autonomy are lost", modes=_BLEND, operator=_of(LOST),
        autonomy=_of(NEVER, LOST)),
    Row("stopping", Authority.HELD, Action.STOP, True, "autonomy is lost, and no operator came", modes=_BLEND, operator=_of(NEVER),
        autonomy=_of(LOST)),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no command of operator or autonomy yet", modes=_BLEND, operator=_of(NEVER),
        autonomy=_of(NEVER), overdue=_FALSE),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle moves, and nobody came to drive it", modes=_BLEND, operator=_of(NEVER),
        autonomy=_of(NEVER), overdue=_TRUE),
    # The operator alone: autonomy is not part of the mode, so it does not take over.
    Row("operator_alone", Authority.OPERATOR, Action.SHARED, False, "", modes=_OP, operator=_of(FRESH)),
    Row("stopping", Authority.HELD, Action.STOP, True, "the operator is lost, in mode operator", modes=_OP, operator=_of(LOST)),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no command of the operator yet", modes=_OP, operator=_of(NEVER), overdue=_FALSE),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle moves, and no operator came", modes=_OP, operator=_of(NEVER),
        overdue=_TRUE),
    # Autonomy alone: the operator need not be at the wheel.
    Row("autonomy_alone", Authority.AUTONOMY, Action.SHARED, False, "", modes=_AUTO, autonomy=_of(FRESH)),
    Row("stopping", Authority.HELD, Action.STOP, True, "autonomy is lost, in mode autonomy", modes=_AUTO, autonomy=_of(LOST)),
    Row("waiting", Authority.HELD, Action.WAIT, False, "no command of autonomy yet", modes=_AUTO, autonomy=_of(NEVER), overdue=_FALSE),
    Row("stopping", Authority.HELD, Action.STOP, True, "the vehicle moves, and no autonomy came", modes=_AUTO, autonomy=_of(NEVER),
        overdue=_TRUE),
)


def row_of(inputs: MachineInputs) -> Row:
    """Returns the first row that matches the inputs."""
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
GAP_FACTOR = 2.0  # a source is lost after this many times its longest recent gap


@dataclass(frozen=True)
class SourceTimeouts:
    """Limits beyond which a source is lost [s]: age of its last message by its stamp, and time since its reception: `timeout` for a regular
    source, more for an irregular one, `max_silence` at most."""

    age: float
    timeout: float
    max_silence: float

    def silence(self, gap: float) -> float:
        """Returns the timeout [s] of a source whose longest recent gap is `gap` [s]."""
        return max(self.timeout, min(GAP_FACTOR * gap, self.max_silence))


@dataclass
class SourceMonitor:
    """Stamp and arrival of a source's last message [s], on one clock.

    gap: longest recent time between two messages, except those beyond `max_silence`.
    """

    name: str
    stamp: float = -math.inf
    received: float = -math.inf
    gap: float = 0.0

    def on_message(self, stamp: float, now: float, ahead: float, max_silence: float) -> None:
        """Takes a valid message; a gap before it longer than `max_silence` [s] does not count as the source's period. Raises Refused: it is
        not newer than the last one, or stamped more than `ahead` [s] ahead of the clock."""
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
        """Returns the reason why the source is lost, its silence or its age; empty: it is not."""
        if math.isinf(self.received):
            return ""
        if now - self.received > limits.silence(self.gap) + 1e-9:
            return f"{self.name}: none for {now - self.received:.2f} s"
        return f"{self.name}: {self.age(now):.2f} s old" if now - self.stamp > limits.age + 1e-9 else ""


@dataclass
class Latch:
    """Latch of the emergency stop; stays closed until it is opened."""

    why: str = ""

    @property
    def closed(self) -> bool:
        return self.why != ""

    def close(self, why: str) -> None:
        """Closes the latch; the first reason stays."""
        self.why = self.why or why or "requested"

    def open(self) -> bool:
        """Opens the latch; False: it was not closed."""
        was, self.why = self.closed, ""
        return was
