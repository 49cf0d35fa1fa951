"""Takeover requests from autonomy to the operator (lead time, acknowledgement, handing back), and autonomy's offer to drive on.

Autonomy, or a monitor that predicts its failure, requests with a reason and a lead time. The operator acknowledges by a service or by
hands: a command that differs from that at the request. Without acknowledgement in time the vehicle stops: the minimum-risk manoeuvre of
SAE J3016 (2021), 3.17. After taking over the operator drives alone until handing back.

Without a visible path the operator holds the vehicle with the brake; no threat changes that. Autonomy that has a path offers to
drive on; releasing the brake accepts, steering or pressing a pedal ends it.
"""

import math
from dataclasses import dataclass
from enum import Enum

from lfdm_ros.errors import InputError
from lfdm_ros.sharing.situation import StampedCommand

HANDS = 0.1  # change of steering, throttle or brake that counts as operator action
RELEASED = 0.02  # largest value of a released pedal
GAP = 1.0  # [s] largest pause of autonomy, as between two paths, within one offer
MAX_LEAD_TIME = 300.0  # [s]
CAN_DRIVE_ON = "autonomy can drive on: take the foot off the brake, and it drives, or backs where it has to"
DRIVES_ON = "autonomy drives on: hands or a foot on a pedal end it"


class TakeoverState(Enum):
    """States of a takeover."""

    NONE = "none"
    REQUESTED = "requested"
    EXPIRED = "expired"  # no takeover in time
    TAKEN = "taken"
    OFFERED = "offered"  # autonomy has a path from standstill
    GIVEN = "given"  # the operator has accepted the offer: autonomy drives


OFFERS = frozenset(state.value for state in (TakeoverState.OFFERED, TakeoverState.GIVEN))


@dataclass(frozen=True)
class TakeoverStatus:
    """State of a takeover, its reason, and the remaining time to acknowledge it [s]; NaN: not requested."""

    state: TakeoverState = TakeoverState.NONE
    reason: str = ""
    time_left: float = math.nan

    @property
    def text(self) -> str:
        """Returns one line for the operator; empty: no request or offer."""
        if self.state is TakeoverState.REQUESTED:
            return f"take over within {self.time_left:.1f} s: {self.reason}"
        return self.reason if self.state.value in OFFERS else ""


class Takeover:
    """Takeover request in force. Without a clock: each call passes the time."""

    def __init__(self) -> None:
        self.end()

    def end(self) -> None:
        """Ends a request or a takeover."""
        self._state, self._reason, self._since, self._lead = TakeoverState.NONE, "", -math.inf, math.nan
        self._before: StampedCommand | None = None

    @property
    def taken(self) -> bool:
        """True from the acknowledgement until handing back."""
        return self._state is TakeoverState.TAKEN

    @property
    def pending(self) -> bool:
        """True while a request is not acknowledged, in time or expired."""
        return self._state in (TakeoverState.REQUESTED, TakeoverState.EXPIRED)

    def request(self, now: float, reason: str, lead_time: float, command: StampedCommand | None) -> None:
        """Requests a takeover by the operator; of two requests the earlier end counts.

        Args:
            reason: in one line; lead_time: until the vehicle stops [s]; command: the operator's at present, None: there is none.

        Raises:
            InputError: no reason, a lead time outside 0 to 300 s, or the operator drives already.
        """
        if not reason.strip():
            raise InputError("takeover: the reason is empty; give one line that says why")
        if not 0.0 < lead_time <= MAX_LEAD_TIME:
            raise InputError(f"takeover: lead_time is {lead_time:g} s; give more than 0, at most {MAX_LEAD_TIME:g}")
        if self.taken:
            raise InputError("takeover: the operator has taken over already")
        if self._state is TakeoverState.NONE:
            self._since, self._lead, self._before = now, lead_time, command
        else:
            self._lead = min(self._lead, now + lead_time - self._since)
        self._state, self._reason = TakeoverState.REQUESTED if self._lead > now - self._since else TakeoverState.EXPIRED, reason.strip()

    def acknowledge(self) -> bool:
        """Gives the vehicle to the operator; False: nothing is requested."""
        pending = self.pending
        if pending:
            self._state = TakeoverState.TAKEN
        return pending

    def update(self, now: float, command: StampedCommand | None) -> TakeoverStatus:
        """Returns the status at `now` [s], by the operator's command, None: there is none."""
        self._since = min(self._since, now)  # the clock went back
        if self.pending:
            if command is not None and self._before is None:
                self._before = command
            if command is not None and _hands(command, self._before):
                self.acknowledge()
            elif now - self._since >= self._lead:
                self._state = TakeoverState.EXPIRED
        left = max(self._since + self._lead - now, 0.0) if self._state is TakeoverState.REQUESTED else math.nan
        return TakeoverStatus(self._state, self._reason, left)


class Offer:
    """Autonomy's offer to drive on from standstill. Without a clock: each call passes the time."""

    def __init__(self) -> None:
        self.end()

    def end(self) -> None:
        """Ends an offer, or autonomy's driving after it."""
        self.given = False  # from its acceptance until the operator's hands or feet move
        self._withdraw()

    def _withdraw(self) -> None:
        self._since, self._drove = math.inf, -math.inf
        self._offered = self._braked = False
        self._before: StampedCommand | None = None  # when the offer was accepted

    def update(self, now: float, after: float, stands: bool, drives: bool, command: StampedCommand | None) -> TakeoverStatus:
        """Returns the status at `now` [s].

        Args:
            after: standstill until the offer [s]; 0: never.
            stands: the vehicle stands, with all sources in time; drives: autonomy's command has throttle.
            command: the operator's, None: there is none.
        """
        if self.given:
            if after > 0.0 and command is not None and not _hands(command, self._before):
                return TakeoverStatus(TakeoverState.GIVEN, DRIVES_ON)
            self.end()
        if not (after > 0.0 and stands and command is not None):
            self._withdraw()
            return TakeoverStatus()
        self._since = min(self._since, now)
        self._drove = now if drives else min(self._drove, now)
        if now - self._drove > GAP:
            self._offered = self._braked = False
            return TakeoverStatus()
        self._offered = self._offered or now - self._since >= after
        if not self._offered:
            return TakeoverStatus()
        # Only a brake that was pressed before can accept by its release.
        self._braked = command.brake > HANDS or (self._braked and abs(command.throttle) <= RELEASED)
        if self._braked and max(abs(command.throttle), command.brake) <= RELEASED:
            self.given = True
            self._withdraw()
            self._before = command
            return TakeoverStatus(TakeoverState.GIVEN, DRIVES_ON)
        return TakeoverStatus(TakeoverState.OFFERED, CAN_DRIVE_ON)


def _hands(command: StampedCommand, before: StampedCommand | None) -> bool:
    """Checks that a command differs from the previous one by an operator action; False without a previous one."""
    return before is not None and max(abs(command.steering - before.steering), abs(command.throttle - before.throttle),
                                      abs(command.brake - before.brake)) > HANDS
