"""Takeover: requested with a time, acknowledged by hands or a service, the minimum-risk manoeuvre, and handing back."""

import math

import numpy as np
import pytest

from lfdm_ros.control import Plan
from lfdm_ros.errors import InputError
from lfdm_ros.sharing.arbiter import AuthorityArbiter
from lfdm_ros.sharing.machine import Action
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import StampedCommand
from lfdm_ros.sharing.takeover import HANDS, Takeover, TakeoverState
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
DT = 0.02


def command(time=0.0, steering=0.0, throttle=0.0, brake=0.0):
    return StampedCommand(time, steering, throttle, brake)


# -- The request --------------------------------------------------------------------------------------------------


def test_a_request_counts_down_and_expires():
    takeover = Takeover()
    assert takeover.update(0.0, None).state is TakeoverState.NONE and math.isnan(takeover.update(0.0, None).time_left)
    takeover.request(10.0, " the map ends ", 4.0, command())
    status = takeover.update(11.5, command(11.5))
    assert status.state is TakeoverState.REQUESTED and status.time_left == pytest.approx(2.5) and status.reason == "the map ends"
    assert status.text == "take over within 2.5 s: the map ends"
    assert takeover.update(14.0, command(14.0)).state is TakeoverState.EXPIRED
    assert takeover.update(14.1, command(14.1)).text == ""


@pytest.mark.parametrize("change", [{"steering": 1.5 * HANDS}, {"steering": -1.5 * HANDS}, {"throttle": 1.5 * HANDS},
                                    {"brake": 1.5 * HANDS}])
@pytest.mark.parametrize("late", [False, True])
def test_hands_acknowledge_also_after_the_time(change, late):
    takeover = Takeover()
    takeover.request(0.0, "fog", 2.0, command(steering=0.02))
    assert takeover.update(1.0, command(1.0, 0.02 + 0.5 * HANDS)).state is TakeoverState.REQUESTED  # a hand that rests
    if late:
        assert takeover.update(3.0, None).state is TakeoverState.EXPIRED
    assert takeover.update(3.1, command(3.1, **{"steering": 0.02, **change})).state is TakeoverState.TAKEN
    assert takeover.taken and not takeover.acknowledge()
    with pytest.raises(InputError, match="already"):
        takeover.request(4.0, "fog", 2.0, None)


def test_a_command_that_comes_after_the_request_is_the_one_that_hands_change():
    takeover = Takeover()
    takeover.request(0.0, "fog", 5.0, None)
    assert takeover.update(1.0, command(1.0, 0.8)).state is TakeoverState.REQUESTED
    assert takeover.update(2.0, command(2.0, 0.8)).state is TakeoverState.REQUESTED
    assert takeover.update(3.0, command(3.0, 0.6)).state is TakeoverState.TAKEN


def test_the_earlier_end_counts_and_a_clock_that_goes_back_begins_anew():
    takeover = Takeover()
    takeover.request(0.0, "fog", 5.0, None)
    takeover.request(1.0, "ice", 10.0, None)
    assert takeover.update(1.0, None).time_left == pytest.approx(4.0) and takeover.update(1.0, None).reason == "ice"
    takeover.request(2.0, "rain", 1.0, None)
    assert takeover.update(2.5, None).time_left == pytest.approx(0.5)
    assert takeover.update(-100.0, None).time_left == pytest.approx(3.0)


@pytest.mark.parametrize("reason, lead", [("", 1.0), ("  ", 1.0), ("fog", 0.0), ("fog", -1.0), ("fog", math.nan), ("fog", 1e9)])
def test_a_request_without_reason_or_time_is_refused(reason, lead):
    takeover = Takeover()
    with pytest.raises(InputError, match="takeover"):
        takeover.request(0.0, reason, lead, None)
    assert takeover.update(0.0, None).state is TakeoverState.NONE


# -- In shared control ------------------------------------------------------------------------------------------------


class Drive:
    """Operator and autonomy each 20 ms, and a vehicle at 10 m/s."""

    speed = 10.0

    def __init__(self, **changes):
        self.arbiter, self.now = AuthorityArbiter(HMMWV, SharingSettings(**changes)), 100.0
        self.operator, self.autonomy, self.plans = (0.0, 0.0, 0.0), (0.1, 0.2, 0.0), False
        self.run(0.5)

    def run(self, seconds):
        for _ in range(round(seconds / DT)):
            self.now = now = round(self.now + DT, 6)
            v = self.speed
            self.arbiter.on_state(now, {"x": v * now, "y": 0.0, "yaw": 0.0, "vx": v, "vy": 0.0, "yaw_rate": 0.0}, now)
            if self.operator:
                self.arbiter.on_operator_command(now, self.operator, now)
            if self.autonomy:
                self.arbiter.on_autonomy_command(now, self.autonomy, now)
            if self.plans:
                times = now + np.linspace(0.0, 3.0, 31)
                states = np.column_stack([10.0 * times, 0.0 * times, 0.0 * times, 0.0 * times + 10.0])
                self.arbiter.on_plan(now, Plan(("x", "y", "yaw", "vx"), times, states, np.zeros((31, 3))), now)
            self.decision = self.arbiter.decide(now)
        return self.decision


@pytest.mark.parametrize("mode", ["autonomy", "blend"])
def test_nobody_takes_over_and_the_vehicle_stops(mode):
    drive = Drive(mode=mode)
    drive.arbiter.request_takeover("the map ends", 2.0)
    asked = drive.run(1.0)
    assert asked.takeover.state is TakeoverState.REQUESTED and asked.reason.startswith("take over within 1.0 s: the map ends")
    assert asked.row.action is Action.SHARED and asked.mode == mode
    stopped = drive.run(1.5)
    assert stopped.row.state == "minimum_risk" and stopped.row.alarm and stopped.command.brake > 0.3
    assert "the map ends" in stopped.reason and stopped.takeover.state is TakeoverState.EXPIRED
    # Late, but there: the operator drives.
    drive.operator = (0.0, 0.5, 0.0)
    taken = drive.run(1.0)
    assert taken.row.state == "operator_alone" and taken.mode == "operator" and taken.k == 0.0 and taken.command.throttle > 0.3


def test_the_operator_takes_over_and_hands_back():
    drive = Drive(mode="autonomy")
    with pytest.raises(InputError, match="no takeover"):
        drive.arbiter.hand_back()
    assert not drive.arbiter.acknowledge_takeover()
    drive.arbiter.request_takeover("roadworks", 5.0)
    drive.run(0.5)
    assert drive.arbiter.acknowledge_takeover()
    drive.operator = (-0.2, 0.0, 0.0)
    taken = drive.run(1.0)
    assert taken.row.state == "operator_alone" and taken.takeover.state is TakeoverState.TAKEN and taken.command.steering < -0.1
    drive.autonomy = None
    drive.run(1.0)
    with pytest.raises(InputError, match="the operator keeps the vehicle"):
        drive.arbiter.hand_back()
    drive.autonomy = (0.1, 0.2, 0.0)
    drive.run(0.5)
    drive.arbiter.hand_back()
    back = drive.run(1.0)
    assert back.row.state == "autonomy_alone" and back.mode == "autonomy" and back.k == 1.0
    assert back.takeover.state is TakeoverState.NONE


def test_an_autonomy_without_a_plan_does_not_get_the_vehicle_back():
    drive = Drive(mode="autonomy")
    drive.plans = True
    drive.run(0.2)
    drive.arbiter.request_takeover("roadworks", 5.0)
    drive.arbiter.acknowledge_takeover()
    drive.plans = False
    drive.run(2.0)
    with pytest.raises(InputError, match="plan is"):
        drive.arbiter.hand_back()


def test_a_request_is_withdrawn_and_none_is_made_of_an_operator_who_drives():
    drive = Drive(mode="autonomy")
    assert not drive.arbiter.withdraw_takeover()
    drive.arbiter.request_takeover("roadworks", 1.0)
    drive.run(2.0)
    assert drive.decision.row.state == "minimum_risk" and drive.arbiter.withdraw_takeover()
    assert drive.run(0.5).row.state == "autonomy_alone"
    with pytest.raises(InputError, match="drives already"):
        Drive(mode="operator").arbiter.request_takeover("roadworks", 1.0)


def test_the_emergency_stop_comes_first_and_a_reset_ends_a_request():
    drive = Drive(mode="autonomy")
    drive.arbiter.request_takeover("roadworks", 0.5)
    drive.run(1.0)
    drive.arbiter.stop("button")
    assert drive.run(0.1).row.state == "emergency_stop"
    drive.arbiter.release()
    assert drive.run(0.1).row.state == "minimum_risk"
    drive.arbiter.reset()
    assert drive.run(0.5).row.state == "autonomy_alone"


class Standing(Drive):
    """The operator stands on the brake where autonomy would drive."""

    def __init__(self, **changes):
        super().__init__(**changes)
        self.speed, self.operator, self.autonomy = 0.0, (0.0, 0.0, 0.6), (0.1, 0.3, 0.0)

    @classmethod
    def given(cls):
        """After the operator has accepted the offer."""
        drive = cls(mode="blend", offer_after=2.0)
        drive.run(3.0)
        drive.operator = (0.0, 0.0, 0.0)
        assert drive.run(0.5).takeover.state is TakeoverState.GIVEN
        return drive


@pytest.mark.parametrize("hands", [(0.0, 0.0, 0.2), (0.0, 0.2, 0.0), (-0.2, 0.0, 0.0)])
def test_autonomy_offers_to_drive_on_and_a_foot_off_the_brake_accepts(hands):
    drive = Standing(mode="blend", offer_after=2.0)
    assert drive.run(1.5).takeover.state is TakeoverState.NONE
    offered = drive.run(1.0)
    assert offered.takeover.state is TakeoverState.OFFERED
    assert offered.reason.startswith("autonomy can drive on: take the foot off the brake")
    assert offered.mode == "blend" and offered.k == 0.0 and offered.command.brake > 0.3
    drive.operator = (0.0, 0.0, 0.05)
    assert drive.run(0.5).takeover.state is TakeoverState.OFFERED  # still on it
    drive.operator = (0.0, 0.0, 0.0)
    given = drive.run(1.0)
    assert given.takeover.state is TakeoverState.GIVEN and given.mode == "autonomy" and given.row.state == "autonomy_alone"
    assert given.k == 1.0 and given.command.throttle == pytest.approx(0.3)
    drive.speed, drive.operator = 5.0, (0.05, 0.0, 0.05)
    assert drive.run(1.0).takeover.state is TakeoverState.GIVEN  # resting hands and feet
    drive.operator = hands
    ended = drive.run(1.0)
    assert ended.takeover.state is TakeoverState.NONE and ended.mode == "blend" and ended.k == 0.0
    assert ended.command.inputs == pytest.approx(hands, abs=0.01)


def test_a_foot_that_was_off_the_brake_has_not_accepted():
    drive = Standing(mode="blend", offer_after=2.0)
    drive.operator = (0.0, 0.0, 0.0)
    assert drive.run(5.0).takeover.state is TakeoverState.OFFERED and drive.decision.command.throttle == 0.0
    drive.operator = (0.0, 0.0, 0.4)
    drive.run(0.2)
    drive.operator = (0.0, 0.0, 0.0)
    assert drive.run(0.2).takeover.state is TakeoverState.GIVEN


@pytest.mark.parametrize("change", [
    {"settings": {"offer_after": 0.0}}, {"settings": {"mode": "operator"}}, {"autonomy": (0.1, 0.0, 0.4)}, {"speed": 1.0}, {"stop": True}])
def test_nothing_is_offered_by_an_autonomy_that_brakes_or_is_not_there_to_share(change):
    drive = Standing(**{"mode": "blend", "offer_after": 2.0, **change.get("settings", {})})
    drive.autonomy, drive.speed = change.get("autonomy", drive.autonomy), change.get("speed", 0.0)
    if "stop" in change:
        drive.arbiter.stop("a test")
    drive.run(5.0)
    assert drive.decision.takeover.state is TakeoverState.NONE
    drive.operator = (0.0, 0.0, 0.0)
    assert drive.run(1.0).takeover.state is TakeoverState.NONE


@pytest.mark.parametrize("end", ["operator", "autonomy", "mode", "stop"])
def test_what_was_given_ends_with_either_driver_and_with_the_mode(end):
    drive = Standing.given()
    match end:
        case "operator":
            drive.operator = None
        case "autonomy":
            drive.autonomy = None
        case "mode":
            drive.arbiter.tune(mode="blend")
        case "stop":
            drive.arbiter.stop("a test")
    assert drive.run(2.0).takeover.state is TakeoverState.NONE
    states = {"operator": "operator_lost", "autonomy": "autonomy_lost", "mode": "sharing", "stop": "emergency_stop"}
    assert drive.decision.row.state == states[end]


def test_a_throttle_that_is_let_go_of_accepts_nothing():
    drive = Standing(mode="blend", offer_after=2.0)
    drive.run(3.0)
    drive.operator = (0.0, 0.5, 0.0)
    drive.run(0.5)
    drive.operator = (0.0, 0.0, 0.0)
    assert drive.run(1.0).takeover.state is TakeoverState.OFFERED


def test_autonomy_that_was_given_the_vehicle_drives_until_a_request_is_answered():
    drive = Standing.given()
    drive.speed = 8.0
    drive.arbiter.request_takeover("the map ends", 5.0)
    asked = drive.run(1.0)
    assert asked.takeover.state is TakeoverState.REQUESTED and asked.mode == "autonomy" and asked.k == 1.0
    drive.operator = (0.0, 0.4, 0.0)
    assert drive.run(1.0).row.state == "operator_alone"
    drive.arbiter.tune(mode="blend")
    assert drive.run(0.5).mode == "blend"


def test_offers_that_are_switched_off_end():
    drive = Standing.given()
    drive.arbiter.tune(offer_after=0.0)
    assert drive.run(0.5).takeover.state is TakeoverState.NONE
