"""When shared control is asked: free running, in lockstep whatever the order of messages, and when somebody does not answer."""

import math
from itertools import permutations

import numpy as np
import pytest

from lfdm_ros.control import Plan
from lfdm_ros.control.plan import NO_PLAN
from lfdm_ros.engine.driving import Task
from lfdm_ros.engine.shared_driving import SharedPilot
from lfdm_ros.perception import ObstacleTracker, TrackerSettings
from lfdm_ros.perception.rear_view import tracker_of
from lfdm_ros.sensors import Lidar, LidarSettings, Radar, RadarSettings, SensorScene, VehicleView
from lfdm_ros.sharing.arbiter import AuthorityArbiter
from lfdm_ros.simulation import Circle, World
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Mount, load_vehicle

HMMWV = load_vehicle("hmmwv")
MS = 1_000_000
ARBITER = AuthorityArbiter(HMMWV)


class Rig:
    def __init__(self, lockstep=True, mode="blend", tracker=None, **settings):
        ARBITER.reset()
        ARBITER.refusals.counts = dict.fromkeys(ARBITER.refusals.counts, 0)
        ARBITER.tune(mode=mode)
        self.said = []
        self.pilot = SharedPilot(ARBITER, tracker or ObstacleTracker(), period=0.02, lockstep=lockstep, report=self.said.append, **settings)

    def state(self, ms, now=None, **values):
        there = {"x": 0.01 * ms, "y": 0.0, "yaw": 0.0, "vx": 10.0, "vy": 0.0, "yaw_rate": 0.0} | values
        return self.pilot.state(ms * MS, "odom", there, (ms if now is None else now) * MS)

    def operator(self, ms, steering=0.1, **others):
        return self.pilot.operator(ms * MS, (steering, 0.0, 0.0), ms * MS, **others)

    def autonomy(self, ms, steering=-0.1):
        return self.pilot.autonomy(ms * MS, (steering, 0.0, 0.0), ms * MS)

    def tick(self, ms):
        """A state and the answers of both; what the second answer decides."""
        self.state(ms)
        self.operator(ms)
        return self.autonomy(ms)

    def plan(self, ms, frame="odom"):
        states = np.column_stack([10.0 * np.arange(3), np.zeros((3, 2)), np.full(3, 10.0)])
        return self.pilot.plan(ms * MS, frame, Plan(("x", "y", "yaw", "vx"), np.arange(3.0), states, np.zeros((3, 3))))


def test_free_running_each_state_has_a_command_and_silence_has_one_too():
    rig = Rig(lockstep=False)
    assert rig.pilot.watch(5 * MS) is None
    assert rig.state(10).row.state == "waiting"
    assert rig.operator(12) is None and rig.autonomy(12) is None
    assert rig.state(20).row.state == "sharing" and rig.pilot.watch(40 * MS) is None
    assert rig.pilot.watch(51 * MS).time == pytest.approx(0.051)
    assert rig.pilot.watch(400 * MS).row.state == "stopping"


def test_free_running_a_change_of_the_operators_command_does_not_wait_for_the_next_state():
    rig = Rig(lockstep=False, mode="operator")
    rig.state(10)
    rig.operator(12)
    before = rig.state(20)
    assert rig.operator(22) is None  # as before
    decided = rig.operator(24, steering=0.5)
    assert decided.time == pytest.approx(0.024) and decided.command.inputs[0] > before.command.inputs[0]
    assert rig.operator(26, steering=-0.5) is None  # one between two states: a flood costs no more
    assert rig.state(30).operator.inputs[0] == -0.5 and rig.operator(32, steering=0.5) is not None
    assert rig.operator(34, steering=math.nan) is None and rig.pilot.refusals.counts["operator"] == 1
    assert rig.pilot.watch(45 * MS) is None and rig.pilot.watch(63 * MS) is not None


def test_lockstep_gives_the_same_whatever_the_order():
    def answers(rig, ms):
        return {"state": lambda: rig.state(ms), "operator": lambda: rig.operator(ms, 0.1 + 0.001 * ms),
                "autonomy": lambda: rig.autonomy(ms), "plan": lambda: rig.plan(ms)}

    outcomes = set()
    for order in permutations(("state", "operator", "autonomy", "plan")):
        rig, given = Rig(plan_period=0.01), []
        for ms in range(10, 80, 10):
            decided = [d for name in order if (d := answers(rig, ms)[name]()) is not None]
            assert len(decided) == 1 and decided[0].time == pytest.approx(1e-3 * ms), (order, ms)
            given.append((decided[0].command.inputs, decided[0].k, decided[0].ages["plan"], decided[0].row.state))
        outcomes.add(tuple(map(str, given)))
    assert len(outcomes) == 1


def test_a_first_plan_that_is_late_counts_as_one_that_is_not():
    """Before the next state, or after all else has answered that one."""
    ages = []
    for late in (False, True):
        rig = Rig(plan_period=0.01)
        rig.tick(10)
        if not late:
            rig.plan(10)
        decision = rig.tick(20)
        if late:
            assert decision is None
            decision = rig.plan(10)
        ages.append(decision.ages["plan"])
    assert ages == [pytest.approx(0.01)] * 2


def test_an_autonomy_without_a_plan_says_so_and_is_not_waited_for():
    rig = Rig(plan_period=0.01)
    for ms in (10, 20, 30):
        decision = rig.tick(ms)
        assert decision.row.state == "sharing" and math.isnan(decision.ages["plan"])
        rig.pilot.plan(ms * MS, "odom", NO_PLAN)
    assert rig.pilot.missing == {} and rig.pilot.refusals.counts["plan"] == 0


def test_a_state_waits_for_those_who_take_part():
    assert Rig().pilot.awaited(10 * MS) == ["operator", "autonomy"]
    assert Rig(mode="operator").pilot.awaited(10 * MS) == ["operator"] and Rig(mode="autonomy").pilot.awaited(10 * MS) == ["autonomy"]
    rig = Rig()
    assert rig.state(10) is None and rig.pilot.waits and rig.operator(10) is None
    assert rig.state(10) is None  # again, and still waiting
    decided = rig.autonomy(10)
    assert decided.command.time == pytest.approx(0.01) and not rig.pilot.waits
    assert rig.state(10) is decided  # again: the same answer


def test_who_does_not_answer_is_given_up_until_he_speaks_again():
    rig = Rig()
    rig.state(10)
    rig.operator(10)
    assert rig.pilot.give_up().row.state == "operator_alone" and "autonomy" in rig.said[-1] and "autonomy" in rig.pilot.missing
    assert rig.state(20) is None and rig.operator(20).row.state == "operator_alone"
    rig.autonomy(30)
    assert rig.pilot.missing == {} and rig.operator(30) is None and rig.state(30).row.state == "sharing"
    assert rig.state(40) is None and rig.pilot.awaited(40 * MS) == ["operator", "autonomy"]


def test_an_answer_from_far_ahead_is_none():
    rig = Rig(plan_period=0.01)
    rig.tick(10)
    rig.operator(2_000_000)
    rig.plan(3_000_000)
    assert rig.pilot.refusals.counts["operator"] == 1
    assert rig.state(20) is None and rig.pilot.awaited(20 * MS) == ["operator", "autonomy", "plan"]
    assert rig.operator(20) is None and rig.autonomy(20) is None and rig.plan(20).row.state == "sharing"
    assert rig.tick(30).ages["plan"] == pytest.approx(0.01)


def test_an_operator_behind_a_link_has_an_age():
    rig = Rig()
    rig.state(2000)
    rig.operator(2000, age=0.5)
    assert rig.autonomy(2000).ages["operator"] == pytest.approx(0.5)


def test_plans_are_of_the_cycle_before_and_of_the_states_frame():
    rig = Rig(plan_period=0.02)
    for ms in (10, 20, 30):
        decision = rig.tick(ms)
        if ms == 10:
            rig.plan(10)
    assert decision.ages["plan"] == pytest.approx(0.02)
    rig.state(40)  # the plan of 30 ms is due
    rig.operator(40)
    assert rig.autonomy(40) is None and rig.plan(30).ages["plan"] == pytest.approx(0.01)
    rig.plan(50, frame="map")
    assert rig.pilot.refusals.counts["plan"] == 1


def test_scans_are_waited_for_and_looked_at_after_the_command():
    world = World((Circle(20.0, 0.0, 0.5),))
    lidar, rig = Lidar(world, LidarSettings(), 1, HMMWV.lidar), Rig(lidar_rate=10.0)
    for ms in (0, 100):
        assert rig.tick(ms) is None and rig.pilot.awaited(ms * MS) == ["scan"]
        assert rig.pilot.scan(ms * MS, lidar.scan(1e-3 * ms, 0.01 * ms, 0.0, 0.0)) is not None
        rig.pilot.after()
    assert len(rig.pilot.scans.obstacles.radii) == 1 and rig.pilot.scan_age(150 * MS) == pytest.approx(0.05)


def test_a_radar_s_returns_are_waited_for_too_and_tell_at_once_how_fast_things_move():
    car = World((Circle(40.0, 2.0, 1.0, vx=-8.0, kind="car"),))
    radar, lidar = Radar(RadarSettings(), Mount(), SensorScene(car)), Lidar(car)
    rig = Rig(lidar_rate=10.0, radar=radar)
    assert rig.tick(0) is None and rig.pilot.awaited(0) == ["scan", "radar"]
    assert rig.pilot.scan(0, lidar.scan(0.0, 0.0, 0.0, 0.0)) is None
    assert rig.pilot.returns(0, radar.measure(VehicleView(0.0, 0.0, 0.0, 0.0, outputs={"vx": 10.0}))) is not None
    rig.pilot.after()
    seen = rig.pilot.scans.obstacles
    assert seen.velocities[seen.moving][0, 0] == pytest.approx(-8.0, abs=0.5)
    rig.tick(100)
    assert rig.pilot.scan(100 * MS, lidar.scan(0.1, 1.0, 0.0, 0.0)) is None and rig.pilot.give_up() is not None
    assert rig.pilot.late == [rig.said[-1]] and rig.said[-1].startswith("the radar of 0.100 s")
    assert rig.tick(200) is None and rig.pilot.awaited(200 * MS) == ["scan"]  # no more, until it comes again
    rig.pilot.returns(200 * MS, radar.measure(VehicleView(0.2, 2.0, 0.0, 0.0, outputs={"vx": 10.0})))
    assert rig.pilot.late == []


def test_the_order_of_scans_and_answers_decides_nothing():
    """A second LIDAR of 20 Hz beside one of 5 Hz; a car comes from behind, a boulder stands ahead."""
    world, outcomes = World((Circle(-30.0, 3.5, 1.0, vx=20.0, kind="car"), Circle(60.0, 0.0, 1.0))), set()
    for order in permutations(("state", "operator", "scan", "rear scan")):
        lidar, rear = Lidar(world), Lidar(world, LidarSettings(rate=20.0), mount=Mount(-2.0, yaw=np.pi))
        rig, given = Rig(mode="operator", tracker=tracker_of(TrackerSettings(), Mount(), rear=rear), lidar_rate=5.0), []
        for ms in range(0, 1500, 50):
            at, decided = (1e-3 * ms, 0.01 * ms, 0.0, 0.0), []
            for name in order:
                decision = (rig.state(ms) if name == "state" else rig.operator(ms) if name == "operator"
                            else rig.pilot.rear_scan(ms * MS, rear.scan(*at)) if name == "rear scan"
                            else rig.pilot.scan(ms * MS, lidar.scan(*at)) if ms % 200 == 0 else None)
                decided += [decision] if decision is not None else []
                rig.pilot.after()
            assert len(decided) == 1, (order, ms)
            given.append((decided[0].ages["scan"], decided[0].threat.relative))
        seen = rig.pilot.scans.obstacles
        assert seen.moving.any() and rig.pilot.blind_behind(rig.pilot.decided_ns) == ""
        outcomes.add((str(given), seen.centres.tobytes(), seen.velocities.tobytes()))
    assert len(outcomes) == 1
    rig.state(1500)
    assert rig.pilot.awaited(1500 * MS) == ["operator", "rear scan"]


def test_the_order_of_scan_returns_and_answers_decides_nothing():
    """A radar of 20 Hz beside a LIDAR of 5 Hz, evaluated after every message as the node does."""
    car = World((Circle(40.0, 2.0, 1.0, vx=-8.0, kind="car"),))
    outcomes = set()
    for order in permutations(("state", "operator", "scan", "returns")):
        radar, lidar = Radar(RadarSettings(), Mount(), SensorScene(car)), Lidar(car)
        rig, given = Rig(mode="operator", lidar_rate=5.0, radar=radar), []
        for ms in range(0, 500, 50):
            view = VehicleView(1e-3 * ms, 0.01 * ms, 0.0, 0.0, outputs={"vx": 10.0})
            decided = []
            for name in order:
                decision = (rig.state(ms) if name == "state" else rig.operator(ms) if name == "operator"
                            else rig.pilot.returns(ms * MS, radar.measure(view)) if name == "returns"
                            else rig.pilot.scan(ms * MS, lidar.scan(1e-3 * ms, 0.01 * ms, 0.0, 0.0)) if ms % 200 == 0 else None)
                decided += [decision] if decision is not None else []
                rig.pilot.after()
            assert len(decided) == 1, (order, ms)
            given.append((decided[0].ages["scan"], decided[0].threat.relative))
        outcomes.add((str(given), rig.pilot.scans.obstacles.velocities.tobytes()))
    assert len(outcomes) == 1


def test_a_clock_or_a_vehicle_that_jumps_begins_anew():
    rig = Rig(lockstep=False)
    rig.state(5000)
    rig.operator(5000)
    rig.state(1000)
    assert "clock went back" in rig.said[-1] and rig.pilot.resets == 1
    rig.state(1010, x=500.0)
    assert "was put at" in rig.said[-1] and rig.pilot.resets == 2
    assert rig.pilot.watch(400 * MS) is None and rig.pilot.resets == 3


@pytest.mark.parametrize("lockstep", [False, True])
def test_a_state_that_is_refused_is_counted_and_in_lockstep_answered(lockstep):
    rig = Rig(lockstep, mode="operator")
    rig.operator(10)
    assert (rig.state(10, vx=float("nan")) is not None) is lockstep and rig.pilot.refusals.counts["state"] == 1
    assert rig.pilot.state(20 * MS, "odom", {"x": 0.0}, 20 * MS) is None or lockstep


def test_a_command_that_a_link_held_back_is_as_old_as_it_was_asked_for_and_none_is_none():
    rig = Rig(mode="operator")

    def answered(ms, age):
        rig.state(ms)
        return rig.operator(ms, age=age)

    assert answered(10, math.nan).row.state == "waiting"
    assert answered(20, 0.01).ages["operator"] == pytest.approx(0.01)
    # The link gives the same again and again: it is lost, and nothing was refused.
    said = [answered(20 + 10 * k, 0.01 + 0.01 * k) for k in range(1, 20)]
    assert said[2].row.state == "operator_alone" and said[2].ages["operator"] == pytest.approx(0.04)
    assert said[-1].row.state == "stopping" and rig.pilot.refusals.counts["operator"] == 0
    for k, age in enumerate((math.inf, -1.0, 1e300)):
        answered(300 + 10 * k, age)
    assert rig.pilot.refusals.counts["operator"] == 3


def test_a_path_counts_in_the_frame_of_the_states_only():
    def path(frame):
        return Task("path", frame, path=Path(np.column_stack([np.linspace(0.0, 50.0, 20), np.zeros(20)])),
                    corridor=np.array([[0.0, 2.0, 2.0], [50.0, 2.0, 2.0]]))

    rig = Rig(lockstep=False)
    assert rig.pilot.drive("path", path("map"))  # nobody knows yet where the states are
    assert ARBITER.path is not None and ARBITER.corridor is not None
    rig.state(10)
    assert ARBITER.path is None and ARBITER.corridor is None and "'map'" in ARBITER.refusals.last
    assert not rig.pilot.drive("path", path("map")) and ARBITER.refusals.counts["path"] == 2
    assert rig.pilot.drive("path", path("odom")) and ARBITER.path is not None
    rig.pilot.reset()
    assert ARBITER.path is not None  # the task stays
    assert rig.pilot.drive("goal", Task("goal", "odom")) and ARBITER.path is None
