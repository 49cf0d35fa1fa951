"""Shared control whole: each row of the table walked in simulated time, faults, hostile input, continuity, modes."""

import math
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lfdm_ros.control import Path, Plan
from lfdm_ros.errors import InputError
from lfdm_ros.perception import Obstacles
from lfdm_ros.sharing.arbiter import AuthorityArbiter
from lfdm_ros.sharing.machine import FRESH, LOST, NEVER, TABLE, Action, Authority
from lfdm_ros.sharing.sharing_settings import MODES, SharingSettings
from lfdm_ros.sharing.threat import Assessment
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
DT = 0.01
NOTHING = Obstacles(np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2)), -math.inf)


@dataclass
class Threatened:
    """A threat that a test sets."""

    threat: float = 0.0
    autonomy: float = math.nan
    name: str = "test"

    def assess(self, situation):
        self.situation = situation
        return Assessment(self.threat, autonomy=self.autonomy)

    def reset(self):
        pass


class Drive:
    """Sources that come each 10 ms while they are on, a vehicle that rolls on straight at `vx`, and what was decided."""

    def __init__(self, threat=0.0, vx=10.0, start=100.0, **changes):
        self.threat = Threatened(threat)
        self.arbiter = AuthorityArbiter(HMMWV, SharingSettings(**changes), (self.threat,))
        self.now, self.x, self.vx, self.age = start, 0.0, vx, 0.0
        self.on = {"operator": True, "autonomy": True, "state": True}
        self.operator, self.autonomy = (0.1, 0.15, 0.0), (-0.1, 0.0, 0.1)
        self.decisions = []

    def run(self, seconds):
        for _ in range(round(seconds / DT)):
            self.now = round(self.now + DT, 6)
            self.x += self.vx * DT
            s = self.arbiter
            if self.on["state"]:
                s.on_state(self.now, {"x": self.x, "y": 0.0, "yaw": 0.0, "vx": self.vx, "vy": 0.0, "yaw_rate": 0.0}, self.now)
            if self.on["operator"]:
                s.on_operator_command(self.now - self.age, self.operator, self.now)
            if self.on["autonomy"]:
                s.on_autonomy_command(self.now, self.autonomy, self.now)
            self.decisions.append(s.decide(self.now))
        return self.decisions[-1]

    def off(self, *names):
        self.on |= dict.fromkeys(names, False)
        return self

    def back(self, *names):
        self.on |= dict.fromkeys(names, True)
        return self

    def steps(self):
        """The largest change of steering and of the pedal from one command to the next."""
        u = np.array([(d.command.steering, d.command.pedal) for d in self.decisions])
        return np.abs(np.diff(u, axis=0)).max(axis=0)


# ---- The table ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.state}-{'-'.join(sorted(row.modes))}-{row.why[:30]}")
def test_each_row_is_walked(row):
    """To each combination that the row names, by sources that come and go; there it does what the row says."""
    walked = 0
    for mode, operator, autonomy, vehicle, overdue in product(sorted(row.modes), *(sorted(p, key=str) for p in (
            row.operator, row.autonomy, row.vehicle)), sorted(row.overdue)):
        if overdue and (vehicle is not FRESH or not (operator is NEVER or mode == "autonomy") or not (
                autonomy is NEVER or mode == "operator")):
            continue  # who has been driven is not overdue by its own doing; the row does not ask for it
        drive = Drive(mode=mode)
        there = {"operator": operator, "autonomy": autonomy, "state": vehicle}
        drive.off(*(name for name, presence in there.items() if presence is NEVER))
        if vehicle is NEVER:
            drive.run(0.3)
        drive.run(2.5 if overdue else 0.5)
        drive.off(*(name for name, presence in there.items() if presence is LOST))
        if row.latched:
            drive.arbiter.stop("test")
        if False not in row.expired:
            if mode == "operator":
                continue  # an operator who drives is not asked to
            drive.arbiter.request_takeover("test", 0.1)
        decision = drive.run(0.7)
        if (row.state, row.why) != (decision.row.state, decision.row.why):
            assert row is TABLE[3] and mode == "operator" and operator is FRESH, (mode, operator, autonomy, vehicle, overdue)
            continue  # the row before it holds
        walked += 1
        assert decision.reason.startswith(row.why.split(":")[0]) or not row.why
        assert decision.latched is row.latched
        command = decision.command
        if row.action is Action.EMERGENCY:
            assert command.brake == 1.0 and command.throttle == 0.0
        elif row.action is Action.STOP:
            assert command.brake == 0.5 and command.throttle == 0.0
        elif row.action is Action.WAIT:
            assert command.throttle == 0.0 and command.brake == (0.0 if vehicle is FRESH else 0.5)
        elif row.share is Authority.OPERATOR:
            assert decision.k == 0.0 and command.inputs == drive.operator
        elif row.share is Authority.AUTONOMY:
            assert decision.k == 1.0 and command.inputs == drive.autonomy
    assert walked


@pytest.mark.parametrize("lost, state, target", [("operator", "operator_lost", 1.0), ("autonomy", "autonomy_lost", 0.0)])
def test_who_is_lost_gives_way_by_a_ramp_within_200_ms(lost, state, target):
    drive = Drive(0.5)
    before = drive.run(1.0)
    assert before.row.state == "sharing" and before.k == pytest.approx(0.5) and not before.row.alarm
    drive.off(lost)
    after = drive.run(0.2)
    assert after.row.state == state and after.row.alarm and lost in after.reason
    assert drive.run(1.0).k == target
    ks = np.diff([d.k for d in drive.decisions])
    assert ks.max() <= SharingSettings().k_up * DT + 1e-9 and ks.min() >= -SharingSettings().k_down * DT - 1e-9
    assert drive.back(lost).run(1.5).row.state == "sharing" and drive.decisions[-1].k == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("source", ["operator", "autonomy", "state"])
def test_who_comes_irregularly_is_lost_once_not_each_time_and_is_lost_all_the_same(source):
    drive = Drive()
    drive.run(1.0)
    for _ in range(20):  # silent for 0.2 s each time
        drive.off(source).run(0.19)
        drive.back(source).run(0.05)
    states = [d.row.state for d in drive.decisions]
    assert sum(now != before for before, now in pairwise(states)) == 2 and states[-1] == "sharing"
    assert drive.off(source).run(0.52).row.state == {"operator": "operator_lost", "autonomy": "autonomy_lost", "state": "stopping"}[source]


def test_both_lost_stop_and_either_ends_it():
    drive = Drive()
    drive.run(0.5)
    stopped = drive.off("operator", "autonomy").run(0.5)
    assert stopped.row.state == "stopping" and stopped.command.brake == 0.5
    assert drive.back("operator").run(0.5).command.inputs == drive.operator


def test_autonomy_waits_for_the_operator_where_it_is_to_and_not_a_second_time():
    drive = Drive(vx=0.0, wait_for_operator=True).off("operator")
    waiting = drive.run(0.5)
    assert waiting.row.state == "waiting" and waiting.command.inputs == (0.0, 0.0, 0.5)
    assert drive.back("operator").run(0.5).row.state == "sharing"
    assert drive.off("operator").run(0.5).row.state == "operator_lost"
    assert Drive(mode="autonomy", wait_for_operator=True).off("operator").run(0.5).row.state == "autonomy_alone"


def test_an_emergency_stop_stays_until_it_is_reset():
    drive = Drive()
    drive.run(0.3)
    drive.arbiter.stop("button")
    assert drive.run(0.3).command.brake == 1.0 and "button" in drive.decisions[-1].reason
    drive.off("operator").run(0.3)
    assert drive.back("operator").run(1.0).row.state == "emergency_stop"
    drive.arbiter.reset()  # nor does a clock that went back open it
    assert drive.run(0.2).row.state == "emergency_stop"
    assert drive.arbiter.release() and not drive.arbiter.release()
    assert drive.run(0.5).row.state == "sharing"


# ---- Clocks (of sources that fail: studies/faults.py) -------------------------------------------------------------------------


def test_a_clock_that_goes_back_begins_anew():
    drive = Drive()
    drive.run(0.5)
    before = drive.decisions[-1].command
    drive.now = 3.0
    assert drive.run(DT).row.state == "sharing" and drive.arbiter.refusals.total == 0 and drive.decisions[-1].ages["operator"] == 0.0
    assert drive.decisions[-1].command.inputs == before.inputs != (0.0, 0.0, 0.0)  # the command goes on from where it was


def test_a_clock_that_jumps_ahead_stops_and_goes_on():
    drive = Drive()
    drive.run(0.5)
    drive.now += 30.0
    drive.decisions.append(drive.arbiter.decide(drive.now))
    assert drive.decisions[-1].row.state == "stopping"
    assert drive.run(0.1).row.state == "sharing" and drive.steps()[0] <= HMMWV.actuators.steering_rate * 0.1 + 1e-9


# ---- Continuity ----------------------------------------------------------------------------------------------------------------


def test_no_switch_of_mode_state_or_source_makes_the_command_jump():
    """Everything that can be switched is, with commands that could not be further apart."""
    drive = Drive(0.0, vx=3.0)
    drive.operator, drive.autonomy = (1.0, 1.0, 0.0), (-1.0, 0.0, 0.5)
    s = drive.arbiter
    for act in (lambda: s.tune(mode="autonomy"), lambda: s.tune(mode="operator"), lambda: s.tune(mode="blend"),
                lambda: setattr(drive.threat, "threat", 1.0), lambda: drive.off("operator"),
                lambda: drive.off("autonomy"), lambda: drive.back("autonomy"), lambda: drive.back("operator"),
                lambda: drive.off("autonomy"), lambda: drive.back("autonomy"), lambda: drive.off("state"), lambda: drive.back("state"),
                lambda: s.tune(mode="operator"), lambda: drive.off("operator"),
                lambda: drive.back("operator"), lambda: s.tune(mode="blend"), lambda: setattr(drive.threat, "threat", 0.0)):
        act()
        drive.run(0.57)  # longer than any silence that is no loss
    steering, pedal = drive.steps()
    assert steering <= HMMWV.actuators.steering_rate * DT + 1e-9 and pedal <= s.settings.brake_rate * DT + 1e-9
    s.stop("button")
    drive.run(0.3)
    assert drive.steps()[1] <= s.settings.emergency_rate * DT + 1e-9
    assert {d.row.state for d in drive.decisions} >= {"sharing", "operator_lost", "autonomy_lost", "stopping", "autonomy_alone",
                                                      "operator_alone", "emergency_stop"}


# ---- Hostile input -----------------------------------------------------------------------------------------------------------


HOSTILE = st.one_of(st.floats(), st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 0.0, 1.0, -1.0]), st.floats(-1.0, 1.0))
TIMES = st.one_of(st.floats(-0.3, 0.3), st.sampled_from([math.nan, math.inf, -1e9, 1e9]))
WHAT = ["operator", "autonomy", "state", "plan", "see", "stop", "release", "mode", "decide", "decide"]
EVENTS = st.lists(st.tuples(st.sampled_from(WHAT), TIMES, st.lists(HOSTILE, min_size=6, max_size=6)), max_size=40)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(EVENTS)
def test_whatever_comes_the_command_is_one(events):
    arbiter, now, before = ARBITER, 100.0, None
    arbiter.release()
    arbiter.reset()
    for what, time, values in events:
        at = now + time
        if what in ("operator", "autonomy"):
            getattr(arbiter, f"on_{what}_command")(at, tuple(values[:3]), now)
        elif what == "state":
            arbiter.on_state(at, dict(zip(("x", "y", "yaw", "vx", "vy", "yaw_rate"), values)), now)
        elif what == "plan":
            table = np.tile(np.array(values), (3, 1))
            arbiter.on_plan(at, Plan(("x", "y", "yaw", "vx", "vy", "yaw_rate"), at + np.array([0.0, 0.1, 0.2]), table, table[:, :3]), now)
        elif what == "see":
            arbiter.update_obstacles(Obstacles(np.array([values[:2]]), np.array(values[2:3]), np.array([values[3:5]]), at))
        elif what == "mode":
            arbiter.tune(mode=MODES[len([v for v in values if v == v]) % len(MODES)])
        elif what in ("stop", "release"):
            getattr(arbiter, what)()
        else:
            now += abs(time) if math.isfinite(time) and abs(time) < 1.0 else 0.02
            decision = arbiter.decide(now)
            command = decision.command  # `StampedCommand` refuses what is not finite or out of range
            assert command.time == now and (command.throttle == 0.0 or command.brake == 0.0) and 0.0 <= decision.k <= 1.0
            if before is not None:
                dt = min(now - before.time, 0.1)
                assert abs(command.steering - before.steering) <= HMMWV.actuators.steering_rate * dt + 1e-9
            before = command


ARBITER = AuthorityArbiter(HMMWV, SharingSettings(), (Threatened(0.6),))


# ---- Sharing -----------------------------------------------------------------------------------------------------------------


def test_k_follows_the_threat_at_its_rates():
    drive = Drive(0.0, engage=0.2, full=0.8, hysteresis=0.0)
    assert drive.run(0.5).k == 0.0
    drive.threat.threat = 0.5
    k = [drive.run(DT).k for _ in range(40)]
    assert max(np.diff(k)) <= SharingSettings().k_up * DT + 1e-9 and k[-1] == pytest.approx(0.5)
    assert drive.decisions[-1].command.steering == pytest.approx(0.5 * 0.1 - 0.5 * 0.1, abs=1e-9)
    drive.threat.autonomy = 1.0  # autonomy's way is worse
    assert drive.run(2.0).k == 0.0


def holds_and_releases(drive, full, partly):
    """Drives without a threat: k stays 1 for `full` [s] and 0.85 for `partly` [s] more."""
    drive.threat.threat = 0.0
    assert drive.run(full - 0.1).k == 1.0
    if partly:
        assert drive.run(0.2).k == 0.85 and drive.run(partly - 0.2).k == 0.85
    assert drive.run(0.2).k == 0.0


@pytest.mark.parametrize(("age", "full", "partly"), [(0.0, 0.3, 2.0), (0.05, 0.5, 2.0), (0.2, 1.1, 5.0)])
def test_autonomy_keeps_the_larger_share_until_the_operator_can_have_answered(age, full, partly):
    """For the time of the setting and two round trips of the link, and 0.85 for 2 s, or 5 s over a slow one; a share below one half
    follows the threat down at once."""
    drive = Drive(0.4, engage=0.2, full=0.8, hysteresis=0.0, k_down=1000.0, hold=0.3)
    drive.age = age
    assert drive.run(0.5).k == pytest.approx(1.0 / 3.0)
    drive.threat.threat = 0.0
    assert drive.run(0.2).k == 0.0
    drive.threat.threat = 0.9
    assert drive.run(0.5).k == 1.0
    holds_and_releases(drive, full, partly)


@pytest.mark.parametrize(("age", "calm", "full", "partly"), [
    (0.2, 1.0, 1.1, (5.0, 10.0, 20.0, 20.0)), (0.2, 4.0, 1.1, (5.0, 5.0)), (0.0, 1.0, 0.3, (2.0, 4.0, 8.0, 8.0))])
def test_k_holds_longer_each_time_that_a_threat_comes_back(age, calm, full, partly):
    drive = Drive(0.9, engage=0.2, full=0.8, hysteresis=0.0, k_down=1000.0, hold=0.3)
    drive.age = age
    for hold in partly:
        drive.threat.threat = 0.9
        assert drive.run(0.5).k == 1.0
        holds_and_releases(drive, full, hold)
        drive.run(calm)


@pytest.mark.parametrize(("age", "full", "partly"), [(0.0, 0.3, 6.0), (0.2, 1.1, 20.0)])
def test_k_holds_longer_while_the_pedals_differ(age, full, partly):
    """An operator who holds the throttle open while autonomy brakes would return to the threat; the hold ends after 6 s, over a slow link
    after 20 s, or when the pedals agree."""
    drive = Drive(0.9, engage=0.2, full=0.8, hysteresis=0.0, k_down=1000.0, hold=0.3)
    drive.age, drive.operator = age, (0.1, 1.0, 0.0)
    assert drive.run(0.5).k == 1.0
    holds_and_releases(drive, full, partly)
    drive.run(4.0)
    drive.threat.threat = 0.9
    assert drive.run(0.5).k == 1.0
    drive.threat.threat = 0.0
    drive.run(8.0)
    assert drive.decisions[-1].k == (0.85 if partly > 8.0 else 0.0)
    drive.operator = (0.1, 0.0, 0.1)
    assert drive.run(0.1).k == 0.0


@pytest.mark.parametrize(("age", "share"), [(0.0, 1.0), (0.075, 0.5), (0.2, 0.0)])
def test_the_brake_of_the_operator_passes_once_the_threat_is_over(age, share):
    """Within the additional hold autonomy does not drive against the operator's brake, but over a slow link, where the picture is old.
    Under the threat it may, and the operator's throttle never counts for more than its share."""
    drive = Drive(0.9, engage=0.2, full=0.8, hysteresis=0.0, k_down=1000.0, hold=0.3)
    drive.age, drive.operator, drive.autonomy = age, (0.0, 0.0, 0.4), (0.0, 0.4, 0.0)
    assert drive.run(1.0).command.pedal == pytest.approx(0.4)
    drive.threat.threat = 0.0
    decision = drive.run(2.0)
    assert decision.k == 0.85
    assert decision.command.pedal == pytest.approx(-0.15 * 0.4 + 0.85 * ((1.0 - share) * 0.4 - share * 0.4))
    assert ("the operator's brake acts" in decision.reason) is (share > 0.0)
    for operator, autonomy in ((0.8, 0.4), (0.0, 0.4), (-0.05, -0.4)):  # throttle, neither, and the gentler brake count by their share
        drive.operator, drive.autonomy = ((0.0, max(pedal, 0.0), max(-pedal, 0.0)) for pedal in (operator, autonomy))
        assert drive.run(0.5).command.pedal == pytest.approx(0.15 * operator + 0.85 * autonomy)
    drive.autonomy = (0.0, 0.4, 0.0)
    drive.operator = (0.0, 0.0, 0.4)
    drive.threat.threat = math.nan
    assert drive.run(1.0).command.pedal == pytest.approx(-0.15 * 0.4 + 0.85 * 0.4)


@pytest.mark.parametrize("acknowledged", [False, True])
def test_the_brake_of_the_operator_does_not_ease_off_when_the_vehicle_is_handed_back(acknowledged):
    """At the end of the additional hold, and when the operator takes over within it, k falls in 0.3 s."""
    drive = Drive(0.9, hold=0.3)
    drive.operator, drive.autonomy = (0.0, 0.0, 0.3), (0.0, 0.2, 0.0)
    drive.run(1.0)
    drive.threat.threat = 0.0
    assert drive.run(1.0).command.pedal == pytest.approx(-0.3)
    if acknowledged:
        drive.arbiter.request_takeover("test", 5.0)
        drive.run(0.1)
        drive.arbiter.acknowledge_takeover()
    since = len(drive.decisions)
    assert drive.run(9.0).k == 0.0
    assert max(decision.command.pedal for decision in drive.decisions[since:]) <= -0.3 + 1e-9


@pytest.mark.parametrize(("lane", "apart"), [(None, True), (2.0, False), (8.0, True)])
def test_what_stands_beside_the_lane_is_passed_on_one_side_only(lane, apart):
    """A command in a bend, held for 3 s, goes round the cones beside the lane; it leaves the lane, but nobody chooses a side."""
    drive = Drive(0.3)
    path = Path(np.array([[-10.0, 0.0], [100.0, 0.0]]))
    drive.arbiter.follow(path, None if lane is None else np.array([[0.0, lane, lane], [110.0, lane, lane]]))
    t = np.arange(0.0, 4.0, 0.1)
    inputs = np.tile([0.0, 0.1, 0.0], (len(t), 1))
    states = np.column_stack([10.0 * t, np.zeros(len(t)), np.zeros(len(t)), np.full(len(t), 10.0)])
    drive.arbiter.on_plan(drive.now, Plan(("x", "y", "yaw", "vx"), drive.now + t, states, inputs), drive.now)
    drive.arbiter.update_obstacles(Obstacles(np.array([[18.0, 3.0]]), np.array([0.15]), np.zeros((1, 2)), drive.now))
    drive.operator = (0.3, 0.1, 0.0)
    assert drive.run(0.1).opposite is apart


def test_autonomy_keeps_its_side_within_the_additional_hold():
    """The operator steers to the left of a post that stays 15 m ahead, autonomy's plan to the right."""
    drive, t = Drive(0.9, hold=0.3), np.arange(0.0, 4.0, 0.1)
    drive.operator = (0.3, 0.1, 0.0)

    def run(seconds):
        for _ in range(round(10 * seconds)):
            states = np.column_stack([drive.x + 10.0 * t, -0.4 * t**2, np.zeros(len(t)), np.full(len(t), 10.0)])
            inputs = np.tile([-0.1, 0.0, 0.1], (len(t), 1))
            drive.arbiter.on_plan(drive.now, Plan(("x", "y", "yaw", "vx"), drive.now + t, states, inputs), drive.now)
            drive.arbiter.update_obstacles(Obstacles(np.array([[drive.x + 15.0, 0.0]]), np.array([0.15]), np.zeros((1, 2)), drive.now))
            drive.run(0.1)
        return drive.decisions[-1]

    decision = run(0.5)
    assert decision.opposite and decision.k == 1.0
    drive.threat.threat = 0.0
    assert run(2.2).k == 1.0
    assert run(1.0).k == 0.0


@pytest.mark.parametrize(("aside", "centre", "speed", "vx", "counts"), [
    (0.0, (-12.0, 0.0), 14.0, 10.0, False),  # follows a vehicle that keeps its lane
    (1.0, (-12.0, 1.0), 14.0, 10.0, True),  # cannot stop any more behind a vehicle that leaves it
    (1.0, (-40.0, 1.0), 14.0, 10.0, False),
    (0.0, (-12.0, 3.5), 14.0, 10.0, True),  # overtakes
    (0.0, (30.0, 0.0), 5.0, 10.0, True),
    (0.0, (-12.0, 0.0), 0.0, 10.0, True),
    (0.0, (-12.0, 0.0), 14.0, 0.0, False),
    (0.0, (-12.0, 0.0), 14.0, -1.0, True)])  # the vehicle reverses
def test_traffic_that_follows_and_has_to_keep_clear_is_no_threat(aside, centre, speed, vx, counts):
    drive = Drive(0.3, vx=vx)
    place = centre[0], centre[1] - aside
    drive.arbiter.follow(Path(np.array([[-100.0, -aside], [100.0, -aside]])), np.array([[0.0, 6.0, 6.0], [200.0, 6.0, 6.0]]))
    drive.arbiter.update_obstacles(Obstacles(np.array([place]), np.array([0.9]), np.array([[speed, 0.0]]), drive.now))
    drive.run(0.1)
    assert len(drive.threat.situation.obstacles.radii) == counts


def test_a_threat_that_nobody_can_tell_changes_nothing():
    drive = Drive(0.5)
    k = drive.run(1.0).k
    drive.threat.threat = math.nan
    assert drive.run(0.5).k == k and math.isnan(drive.decisions[-1].threat.operator)


def test_equal_calls_give_equal_commands_to_the_bit():
    def run():
        drive = Drive(0.4)
        drive.run(0.5)
        drive.off("operator").run(0.3)
        drive.threat.threat = 0.9
        drive.back("operator").run(0.5)
        return [(d.command.inputs, d.k, d.row.state) for d in drive.decisions]

    assert run() == run()


@pytest.mark.parametrize("changes", [{"period": 0.1}, {"mode": "both"}, {"nothing": 1}, {"engage": 0.9}])
def test_what_cannot_be_set_is_refused_and_nothing_changes(changes):
    drive = Drive()
    before = drive.arbiter.settings
    with pytest.raises(InputError):
        drive.arbiter.tune(**changes)
    assert drive.arbiter.settings is before
