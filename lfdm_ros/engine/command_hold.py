"""Validation and hold of a driver's commands, with braking when they stop coming. Independent of ROS."""

from collections.abc import Callable
from dataclasses import dataclass, field

from lfdm_ros.bounds import NOT_FINITE, OUT_OF_RANGE, refusal

# Further reasons of refusals; the keys of `CommandHold.rejected` and the names in /diagnostics.
STALE = "stale"
FROM_THE_FUTURE = "from_the_future"
ANSWERED_ALREADY = "answered_already"
WRONG_STAMP = "wrong_stamp"
REASONS = (NOT_FINITE, OUT_OF_RANGE, STALE, FROM_THE_FUTURE, ANSWERED_ALREADY, WRONG_STAMP)

# A vehicle without commands for longer than this [s] and this share of its time was not driven.
_UNCOMMANDED, _UNCOMMANDED_SHARE = 1.0, 0.02

Inputs = tuple[float, float, float]  # steering [-1, 1], throttle [-1, 1], brake [0, 1]


@dataclass
class CommandHold:
    """Validator of commands; holds the last valid one.

    Free running, a command counts from its arrival and is held until the next (zero order). When none came for `timeout`
    of simulated time, throttle goes to 0 and the brake rises to `timeout_brake` over `timeout_ramp`; steering stays. The
    same happens when none ever came. The next good command ends it. With `timeout_from_stamp` the time-out counts
    from a command's stamp: the acting one is never older than that.

    In lockstep the one good command for a tick carries the stamp of the state just published.
    """

    timeout: float  # [s] of simulated time, at least one publishing period
    timeout_ramp: float  # [s]
    timeout_brake: float  # brake pedal at the end of the ramp, [0, 1]
    rejected: dict[str, int] = field(default_factory=lambda: dict.fromkeys(REASONS, 0))  # number of refused commands by reason
    last_rejection: str = ""  # in words
    accepted: int = 0  # number of accepted commands
    uncommanded: float = 0.0  # time [s] of braking for lack of commands although there was a driver; see `tick`
    timeout_from_stamp: bool = False
    _inputs: Inputs = (0.0, 0.0, 0.0)
    _accepted_at: float = 0.0

    def restart(self, now: float) -> None:
        """Clears the last command; the time-out counts from `now` [s]."""
        self._inputs = (0.0, 0.0, 0.0)
        self._accepted_at = now

    def offer(self, inputs: Inputs, stamp_ns: int, now_ns: int) -> bool:
        """Accepts a command or refuses it, free running. inputs: steering, throttle, brake. stamp_ns: simulated time of issue; 0: not
        stamped, taken as fresh. now_ns: simulated time."""
        if not self._usable(inputs):
            return False
        age = 1e-9 * (now_ns - stamp_ns)
        if stamp_ns and age > self.timeout:
            return self._refuse(STALE, f"stamped {age:.3f} s ago, the limit is {self.timeout:g} s")
        if stamp_ns and -age > self.timeout:
            return self._refuse(FROM_THE_FUTURE, f"stamped {-age:.3f} s ahead of /clock; does its sender use_sim_time?")
        self._take(inputs, 1e-9 * (min(stamp_ns, now_ns) if stamp_ns and self.timeout_from_stamp else now_ns))
        return True

    def offer_answer(self, inputs: Inputs, stamp_ns: int, now_ns: int, answered: bool) -> bool:
        """Accepts the answer to the state stamped `now_ns`, unless that was answered already, or refuses it; lockstep."""
        if stamp_ns < now_ns or (stamp_ns == now_ns and answered):
            return self._refuse(ANSWERED_ALREADY, f"late or twice: answers the state at {1e-9 * stamp_ns:.3f} s, "
                                                  f"it is {1e-9 * now_ns:.3f} s")
        if stamp_ns > now_ns:
            return self._refuse(WRONG_STAMP, f"stamped {1e-9 * stamp_ns:.3f} s, no state has that stamp yet; "
                                             "in lockstep a command carries the stamp of the state that it answers")
        if not self._usable(inputs):
            return False
        self._take(inputs, 1e-9 * now_ns)
        return True

    def timed_out(self, now: float) -> bool:
        """Returns whether no good command came for longer than the time-out, at simulated time `now` [s]."""
        return now - self._accepted_at > self.timeout + 1e-9

    def inputs(self, now: float) -> Inputs:
        """Returns the vehicle's inputs at simulated time `now` [s]."""
        if not self.timed_out(now):
            return self._inputs
        steering, _, brake = self._inputs
        share = min(1.0, (now - self._accepted_at - self.timeout) / self.timeout_ramp) if self.timeout_ramp > 0 else 1.0
        # A brake that is already further down stays there.
        return steering, 0.0, brake + share * max(0.0, self.timeout_brake - brake)

    @property
    def rejections(self) -> int:
        return sum(self.rejected.values())

    def tick(self, now: float, period: float, has_driver: Callable[[], bool]) -> None:
        """Counts a period [s] as uncommanded if commands have timed out, once any came and while there is a driver; free running."""
        if (self.accepted or self.rejections) and self.timed_out(now) and has_driver():
            self.uncommanded += period

    def not_driven(self, simulated: float) -> str:
        """Returns why the vehicle did not follow its commands for a relevant part of the simulated time [s]; empty: it did."""
        if self.uncommanded <= max(_UNCOMMANDED, _UNCOMMANDED_SHARE * simulated):
            return ""
        refused = f" ({self.last_rejection})" if self.last_rejection else ""
        return (f"commands did not act for {self.uncommanded:.1f} of {simulated:.1f} s: {self.accepted} came in time, "
                f"{self.rejections} were refused{refused}")

    def _usable(self, inputs: Inputs) -> bool:
        for name, value in zip(("steering", "throttle", "brake"), inputs):
            refused = refusal(name, value)
            if refused is not None:
                return self._refuse(refused.reason, str(refused))
        return True

    def _take(self, inputs: Inputs, now: float) -> None:
        self._inputs, self._accepted_at = inputs, now
        self.accepted += 1

    def _refuse(self, reason: str, detail: str) -> bool:
        self.rejected[reason] += 1
        self.last_rejection = f"{reason}: {detail}"
        return False
