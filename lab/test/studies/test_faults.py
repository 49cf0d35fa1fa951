"""Reactions of shared control to each fault of each source, in simulated time.

The vehicle drives straight on at 10 m/s; messages of operator, autonomy and state arrive every 10 ms; one source has a fault for a second.
The commands of operator and autonomy are far apart, so that a switch between them would be a visible step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from lfdm_ros.sharing.arbiter import AuthorityArbiter, SharedDecision
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import Situation
from lfdm_ros.sharing.threat import Assessment
from lfdm_ros.vehicles import load_vehicle

STEP, SPEED = 0.01, 10.0  # [s], [m/s]
SETTLED, FAILS = 1.0, 1.0  # [s] before a source fails, and for how long
WITHIN = 0.2  # [s] in which a fault must be reported
SOURCES = ("operator", "autonomy", "state")
OPERATOR, AUTONOMY = (0.15, 0.3, 0.0), (-0.15, 0.0, 0.2)  # steering, throttle, brake

# Stamp of the message due at `now` for a fault since `since` [s]; None: no message.
Stamp = Callable[[float, float], float | None]
FAULTS: dict[str, tuple[str, Stamp]] = {
    "killed": ("no message", lambda now, since: None),
    "frozen": ("the last message repeated", lambda now, since: since),
    "nan": ("a value is no number", lambda now, since: now),
    "late": ("2 s old", lambda now, since: now - 2.0),
    "backwards": ("newest first", lambda now, since: 2.0 * since - now),
    "ahead": ("its clock is 5 s ahead", lambda now, since: now + 5.0),
    "swapped": ("every other one in exchanged order", lambda now, since: now + (STEP if round((now - since) / STEP) % 2 else -STEP)),
}
TOLERATED = ("swapped",)  # every second message is good


@dataclass
class Threatened:
    """A threat of 0.5, so that both have a share."""

    name: str = "constant"

    def assess(self, situation: Situation) -> Assessment:
        return Assessment(0.5)

    def reset(self) -> None:
        """Nothing is kept."""


@dataclass(frozen=True)
class Reaction:
    """The reaction to a fault. noticed: time to the change of the sharing state [s], NaN: none; state, reason: after that; refused: number
    of messages; back: time from the end of the fault to shared control [s]; step: largest change of steering between two commands, relative
    to the actuator's. A command that is not finite or out of range cannot be created (`StampedCommand`)."""

    source: str
    fault: str
    noticed: float
    state: str
    reason: str
    refused: int
    back: float
    step: float

    @property
    def good(self) -> bool:
        """Reported in time unless tolerated, without a step beyond the actuator's, and recovered after the fault."""
        in_time = math.isnan(self.noticed) if self.fault in TOLERATED else self.noticed <= WITHIN + 1e-9
        return in_time and self.step <= 1.0 + 1e-6 and self.back <= WITHIN


def fail(source: str, fault: str, settings: SharingSettings | None = None) -> Reaction:
    """Simulates a fault of a source."""
    vehicle = load_vehicle("hmmwv")
    arbiter = AuthorityArbiter(vehicle, settings or SharingSettings(), (Threatened(),))
    decisions: list[SharedDecision] = []
    begin, end = round(SETTLED / STEP), round((SETTLED + FAILS) / STEP)
    since = 100.0 + begin * STEP
    for k in range(1, round((SETTLED + FAILS + 1.0) / STEP) + 1):
        now = 100.0 + k * STEP
        for name in SOURCES:
            failing = name == source and begin < k <= end
            stamp = FAULTS[fault][1](now, since) if failing else now
            if stamp is not None:
                _hear(arbiter, name, stamp, now, wrong=failing and fault == "nan", standing=failing and fault == "frozen")
        decisions.append(arbiter.decide(now))
    during = decisions[begin:end]
    told = next((i for i, d in enumerate(during) if d.row.state != "sharing"), None)
    back = next((i for i, d in enumerate(decisions[end:]) if d.row.state == "sharing"), None)
    last = during[-1] if told is None else during[told]
    steps = np.abs(np.diff([d.command.steering for d in decisions[begin - 1:]]))
    return Reaction(source, fault, math.nan if told is None else (told + 1) * STEP, last.row.state, last.reason,
                   arbiter.refusals.counts[source], math.inf if back is None else (back + 1) * STEP,
                   float(steps.max() / (vehicle.actuators.steering_rate * STEP)))


def _hear(arbiter: AuthorityArbiter, name: str, stamp: float, now: float, *, wrong: bool, standing: bool) -> None:
    if name == "state":
        x = SPEED * (SETTLED if standing else now - 100.0)
        arbiter.on_state(stamp, {"x": x, "y": 0.0, "yaw": 0.0, "vx": math.nan if wrong else SPEED, "vy": 0.0, "yaw_rate": 0.0}, now)
        return
    hear, (steering, throttle, brake) = ((arbiter.on_operator_command, OPERATOR) if name == "operator" else
                                         (arbiter.on_autonomy_command, AUTONOMY))
    hear(stamp, (math.nan if wrong else steering, throttle, brake), now)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported_in_time_without_a_jump_and_ends_with_its_cause(source, fault):
    outcome = fail(source, fault)
    assert outcome.good, outcome
    lost = {"operator": "operator_lost", "autonomy": "autonomy_lost", "state": "stopping"}[source]
    assert outcome.state == ("sharing" if fault in TOLERATED else lost)
    assert (outcome.refused == 0) == (fault == "killed") and (source in outcome.reason or fault in TOLERATED)


def test_a_late_report_fails():
    outcome = fail("operator", "killed", SharingSettings(operator_timeout=0.5))
    assert not outcome.good and outcome.noticed == pytest.approx(0.51)
