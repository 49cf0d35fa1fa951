"""The pilot: when a cycle runs and with what, on a controller that notes what it is asked. No ROS."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.prediction import Measured
from lfdm_ros.engine.driving import Pilot, Task
from lfdm_ros.engine.scan_buffer import PoseHistory
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.rear_view import tracker_of
from lfdm_ros.perception.tracker import ObstacleTracker, TrackerSettings
from lfdm_ros.sensors import Lidar, LidarSettings, Radar, RadarSettings, Scan, SensorScene, VehicleView
from lfdm_ros.simulation import Circle, Goal, World
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Mount

MS = 1_000_000  # ns
PATH = Path(np.array([[0.0, 0.0], [50.0, 0.0]]))
BOULDER = Lidar(World((Circle(20.0, 0.0, 1.0),)), LidarSettings(noise_sd=0.0))


class Notes:
    """A controller that writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def follow(self, path: Path, speed: Any, corridor: Any = None, stop: bool = True, hidden_speed: float = 0.0) -> None:
        if speed < 0.0:
            raise InputError("a speed is negative")
        self.asked.append(("follow", speed))

    def go_to(self, goal: Goal, speed: float) -> None:
        self.asked.append(("go_to", goal.x))

    def idle(self) -> None:
        self.asked.append(("idle",))

    def update_obstacles(self, obstacles: Obstacles) -> None:
        self.asked.append(("see", len(obstacles.radii)))

    def cycle(self, now: float, measured: Measured | None) -> Cycle:
        self.asked.append(("cycle", round(1e3 * now), None if measured is None else round(1e3 * measured.time)))
        return Cycle((0.0, 0.1, 0.0), CycleOutcome.SOLVED)

    def poll(self, now: float) -> None:
        pass

    def reset(self) -> None:
        self.asked.append(("reset",))

    def cycles(self) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.asked if entry[0] == "cycle"]


class Rig:
    """A pilot with notes of what it asked and said."""

    def __init__(self, tracker: Any = None, **options: Any) -> None:
        self.notes, self.said = Notes(), []  # type: tuple[Notes, list[str]]
        self.pilot = Pilot(
            self.notes, tracker or ObstacleTracker(), period=0.02, report=self.said.append, refused=self.said.append, **options)

    def state(self, ms: float, frame: str = "odom", now_ms: float | None = None, **values: float) -> Any:
        given = {"x": 0.01 * ms, "y": 0.0, "yaw": 0.0, "vx": 10.0, "vy": 0.0, "yaw_rate": 0.0, "ax": math.nan, **values}
        decision = self.pilot.state(round(ms * MS), frame, given, round((ms if now_ms is None else now_ms) * MS))
        self.pilot.after()
        return decision

    def scan(self, ms: float, ranges: np.ndarray | None = None) -> Any:
        s = BOULDER.scan(1e-3 * ms, 0.01 * ms, 0.0, 0.0)
        return self.pilot.scan(round(ms * MS), s if ranges is None else Scan(s.stamp, s.angle_min, s.angle_increment, 0.5, 100.0, ranges))


def test_a_cycle_is_due_a_period_after_the_last_and_half_a_state_early_is_near_enough() -> None:
    rig = Rig()
    for ms in (0, 10, 20, 29, 39, 50, 58, 70):
        rig.state(ms)
    assert rig.notes.cycles() == [(0, 0), (20, 20), (39, 39), (58, 58)]


def test_the_cycle_is_for_now_and_never_for_before_the_state() -> None:
    rig = Rig()
    rig.state(100, now_ms=130)
    rig.state(150, now_ms=140)
    assert rig.notes.cycles() == [(130, 100), (150, 150)]


def test_old_states_make_as_many_cycles_as_new_ones() -> None:
    rig = Rig()
    for ms in range(0, 100, 10):
        rig.state(ms, now_ms=ms + 200)
    assert rig.notes.cycles() == [(200 + ms, ms) for ms in (0, 20, 40, 60, 80)]


def test_the_watchdog_runs_cycles_where_no_state_comes() -> None:
    rig = Rig()
    assert rig.pilot.watch(0) is None  # simulated time has not begun
    assert rig.pilot.watch(80 * MS).cycle.outcome == CycleOutcome.SOLVED  # no state ever: the controller says what that means
    rig.state(100)
    assert rig.pilot.watch(120 * MS) is None  # a state may be just about to come
    decision = rig.pilot.watch(130 * MS)
    assert decision is not None and not decision.measured
    assert rig.pilot.watch(140 * MS) is None and rig.pilot.watch(149 * MS) is not None
    assert rig.notes.cycles() == [(80, None), (100, 100), (130, None), (149, None)]


@pytest.mark.parametrize("bad", [{"x": math.nan}, {"vx": math.inf}, {"yaw_rate": math.nan}, {"ax": -math.inf}])
def test_a_state_that_is_not_finite_is_refused_and_the_ladder_goes_on(bad: dict[str, float]) -> None:
    rig = Rig()
    rig.state(0)
    for ms in (20, 40, 60):
        assert rig.state(ms, **bad) is None
        assert rig.pilot.watch((ms + 10) * MS) is not None
    assert rig.pilot.refusals.counts["state"] == 3 and next(iter(bad)) in rig.said[-1]
    assert all(measured is None for _, measured in rig.notes.cycles()[1:]) and len(rig.notes.cycles()) == 4
    assert rig.state(80) is not None and rig.notes.cycles()[-1] == (80, 80)
    values = Rig()
    values.state(0)  # NaN of what is not required is only not measured
    assert values.pilot.refusals.total == 0


def test_states_out_of_order_and_of_another_frame_are_refused() -> None:
    rig = Rig()
    rig.state(1000)
    assert rig.state(990) is None and rig.state(1000) is None and rig.state(1020, frame="map") is None
    assert rig.pilot.refusals.counts["state"] == 3 and "'map'" in rig.pilot.refusals.last
    assert rig.pilot.resets == 0


@pytest.mark.parametrize("lockstep", [False, True])
def test_a_clock_that_goes_back_starts_everything_anew_with_the_same_task(lockstep: bool) -> None:
    rig = Rig(lockstep=lockstep)
    rig.pilot.drive("path", Task("way", "odom", path=PATH, speed=5.0))
    rig.scan(9990)
    rig.state(10_000)
    assert rig.pilot.obstacles is None  # where the vehicle was at 9.99 s is not known
    rig.scan(10_000)
    rig.state(10_020)
    assert rig.pilot.obstacles is not None
    del rig.notes.asked[:]
    assert rig.state(20, x=0.2) is not None
    assert rig.notes.asked == [("reset",), ("follow", 5.0), ("cycle", 20, 20)] and rig.pilot.resets == 1
    assert rig.pilot.obstacles is None and math.isnan(rig.pilot.scan_age(20 * MS)) and "clock went back" in rig.said[-1]
    rig.scan(20)  # scans of the new time are taken
    rig.state(40)
    assert rig.notes.asked[-1] == ("see", 1) or ("see", 1) in rig.notes.asked


def test_a_watchdog_sees_the_clock_go_back_too() -> None:
    rig = Rig()
    rig.state(10_000)
    assert rig.pilot.watch(9_990 * MS) is None and rig.pilot.resets == 0
    assert rig.pilot.watch(20 * MS) is None and rig.pilot.resets == 1


def test_a_vehicle_that_is_put_elsewhere_starts_anew() -> None:
    rig = Rig()
    rig.state(0)
    rig.state(100, x=1.0)
    assert rig.pilot.resets == 0
    rig.state(200, x=30.0)
    assert rig.pilot.resets == 1 and "was put at" in rig.said[-1]


def test_lockstep_answers_every_state_and_the_same_again() -> None:
    rig = Rig(lockstep=True)
    answers = [rig.state(ms) for ms in (0, 10, 10, 20, 30)]
    assert [a.time_ns for a in answers] == [0, 10 * MS, 10 * MS, 20 * MS, 30 * MS]
    assert [a.new for a in answers] == [True, False, False, True, False]
    assert rig.notes.cycles() == [(0, 0), (20, 20)]
    bad = rig.state(40, vx=math.nan)  # refused, but the simulator waits for an answer
    assert bad.time_ns == 40 * MS and not bad.measured and rig.pilot.refusals.counts["state"] == 1
    assert rig.pilot.watch(10**12) is None  # the wall clock decides nothing


def test_lockstep_waits_for_the_scan_that_is_due() -> None:
    rig = Rig(lockstep=True, lidar_rate=10.0, lidar_latency=0.015)
    assert rig.state(0) is not None  # the scan of 0 s arrives at 20 ms
    assert rig.state(10) is not None
    assert rig.state(20) is None and rig.state(20) is None and rig.pilot.waits
    answer = rig.scan(0)
    rig.pilot.after()
    assert answer.time_ns == 20 * MS and answer.new and rig.notes.asked[-2:] == [("cycle", 20, 20), ("see", 1)]
    assert rig.scan(0) is None  # published again
    assert [rig.state(ms) is not None for ms in (30, 110)] == [True, True]
    assert rig.state(120) is None
    answer = rig.pilot.give_up_on_scan()
    assert answer is not None and answer.time_ns == 120 * MS and "0.100 s has not come" in rig.pilot.scan_missing
    assert rig.state(220) is not None  # waits for none until one comes
    rig.scan(200)
    assert rig.pilot.scan_missing == "" and rig.state(230) is not None and rig.state(320) is None


def test_where_another_sends_the_commands_the_controller_hears_which() -> None:
    heard: list[tuple[Any, ...]] = []
    rig = Rig(lockstep=True, shared=lambda *command: heard.append(command))
    assert rig.state(0) is not None
    assert rig.state(10) is None and rig.pilot.waits  # what became of the answer to 0 s is not known yet
    assert rig.pilot.applied(0, (0.1, 0.0, 0.3)).time_ns == 10 * MS and heard == [(0.0, 0.1, -0.3, False)]
    rig.pilot.applied(10 * MS, (0.2, -0.5, 0.0))
    assert rig.state(20) is not None and heard[-1] == (0.01, 0.2, 0.5, True)
    assert rig.pilot.applied(20 * MS, (math.nan, 0.0, 0.0)) is None and rig.pilot.refusals.counts["applied"] == 1
    assert rig.state(30) is None and rig.pilot.give_up_on_scan().time_ns == 30 * MS and "unknown" in rig.said[-1]
    assert rig.state(40) is not None  # waits no more, until one comes
    rig.pilot.applied(40 * MS, (0.0, 0.0, 0.0))
    assert rig.state(50) is not None and rig.state(60) is None


def test_free_running_the_controller_hears_as_well() -> None:
    heard: list[tuple[Any, ...]] = []
    rig = Rig(shared=lambda *command: heard.append(command))
    rig.pilot.applied(5 * MS, (0.1, 0.2, 0.0))
    rig.pilot.applied(5 * MS, (0.3, 0.2, 0.0))  # again
    rig.pilot.applied(4 * MS, (0.4, 0.2, 0.0))  # overtaken
    assert heard == [(0.005, 0.1, 0.2, False)] and rig.state(10) is not None and rig.state(40) is not None
    assert Rig().pilot.applied(0, (0.0, 0.0, 0.0)) is None


def test_a_state_that_waited_gets_the_same_cycle_as_one_that_did_not() -> None:
    """States every 8 ms: a cycle is due half a state early, whichever of scan and state came first."""
    cycles = []
    for scan_first in (True, False):
        rig = Rig(lockstep=True, lidar_rate=62.5)
        for i in range(13):
            ms = 8 * i
            due = i % 2 == 0
            if due and scan_first:
                rig.scan(ms)
            answer = rig.state(ms)
            if due and not scan_first:
                assert answer is None
                answer = rig.scan(ms)
            assert answer is not None and answer.time_ns == ms * MS
        cycles.append(rig.notes.cycles())
    assert cycles[0] == cycles[1] and len(cycles[0]) == 7


def test_scans_are_looked_at_after_the_command_at_the_pose_of_their_stamp() -> None:
    rig = Rig()
    rig.state(0)
    rig.scan(5)  # between two states
    assert rig.pilot.obstacles is None
    rig.state(10)
    seen = rig.pilot.obstacles
    assert seen is not None and rig.pilot.scan_age(10 * MS) == pytest.approx(0.005)
    np.testing.assert_allclose(seen.centres[0], [20.0, 0.0], atol=0.1)
    assert seen.radii[0] == pytest.approx(1.0, abs=0.2)
    assert [entry[0] for entry in rig.notes.asked] == ["cycle", "see"]


def test_bad_scans_are_refused_and_an_empty_world_is_none() -> None:
    beams = BOULDER.settings.beams
    rig = Rig()
    rig.state(0)
    for ms, ranges, words in ((10, np.empty(0), "at least one beam"), (20, np.full(beams, np.nan), "all 541 beams were lost")):
        rig.scan(ms, ranges)
        rig.state(ms)
        assert words in rig.said[-1]
    assert rig.pilot.refusals.counts["scan"] == 2 and rig.pilot.obstacles is None
    rig.scan(30, np.full(beams, np.inf))
    rig.state(30)
    assert rig.pilot.refusals.total == 2 and rig.pilot.obstacles is not None and len(rig.pilot.obstacles.radii) == 0
    rig.scan(25)
    assert rig.pilot.refusals.counts["scan"] == 3 and "the one before" in rig.said[-1]


def test_a_vehicle_that_does_not_see_any_more_stops_and_goes_on_when_it_does() -> None:
    rig = Rig(scan_timeout=0.3)
    rig.pilot.drive("goal", Task("there", "odom", goal=Goal(80.0, 0.0), speed=8.0))
    for ms in (0, 400):
        rig.state(ms, x=0.0)
    assert rig.pilot.blind == ""  # no scan ever came: nobody said that there is a LIDAR
    rig.scan(400)
    for ms in (420, 700):
        rig.state(ms, x=0.0)
    assert rig.pilot.blind == ""
    rig.state(720, x=0.0)
    assert "no scan for 0.32 s" in rig.pilot.blind and rig.notes.asked[-2] == ("idle",)
    # A task that comes now waits for sight.
    rig.pilot.drive("path", Task("way", "odom", path=PATH, speed=5.0))
    assert rig.notes.asked[-2:] == [("follow", 5.0), ("idle",)]
    rig.scan(720)
    rig.state(740, x=0.0)
    rig.state(760, x=0.0)
    assert rig.pilot.blind == "" and ("follow", 5.0) in rig.notes.asked[-3:] and rig.pilot.task.name == "way"


def test_where_scans_are_due_the_vehicle_does_not_set_out_without() -> None:
    rig = Rig(scan_timeout=0.3, lidar_rate=10.0)
    for ms in (0, 300, 320):
        rig.state(ms, x=0.0)
    assert "no scan" in rig.pilot.blind


def test_tasks_of_another_frame_and_impossible_ones_are_refused_and_the_old_goes_on() -> None:
    rig = Rig()
    rig.state(0)
    assert rig.pilot.drive("goal", Task("there", "odom", goal=Goal(80.0, 0.0), speed=8.0))
    assert not rig.pilot.drive("path", Task("way", "map", path=PATH, speed=5.0))
    assert "frame 'map'" in rig.said[-1]
    assert not rig.pilot.drive("path", Task("way", "odom", path=PATH, speed=-1.0))
    assert "negative" in rig.said[-1]
    assert rig.pilot.task.name == "there" and rig.pilot.refusals.counts["path"] == 2
    assert rig.notes.asked[1:] == [("go_to", 80.0)]


def test_a_task_before_the_first_state_is_judged_when_that_comes() -> None:
    rig = Rig()
    assert rig.pilot.drive("goal", Task("there", "map", goal=Goal(80.0, 0.0), speed=8.0))
    rig.state(0)
    assert rig.pilot.task.name == "idle" and rig.pilot.refusals.counts["goal"] == 1
    assert [entry[0] for entry in rig.notes.asked] == ["go_to", "idle", "cycle"]


def test_poses_turn_the_short_way_and_end_with_the_history() -> None:
    history = PoseHistory()
    history.add(0, 0.0, 0.0, math.pi - 0.1)
    history.add(100, 1.0, 2.0, -math.pi + 0.1)
    assert history.at(50) == pytest.approx((0.5, 1.0, math.pi))
    assert history.at(100) == (1.0, 2.0, -math.pi + 0.1) and history.at(0) is not None
    assert history.at(101) is None and history.at(-1) is None


def test_a_radar_s_returns_come_with_the_motion_of_their_time_and_in_lockstep_a_state_waits_for_them() -> None:
    """An oncoming car moves with the first scan of both; a radar that stays out is given up on, an impossible measurement refused."""
    car = World((Circle(40.0, 2.0, 1.0, vx=-8.0, kind="car"),))
    radar, lidar = Radar(RadarSettings(), Mount(), SensorScene(car)), Lidar(car)
    rig = Rig(lockstep=True, lidar_rate=10.0, radar=radar)
    assert rig.state(0) is None and rig.pilot.scan(0, lidar.scan(0.0, 0.0, 0.0, 0.0)) is None
    view = VehicleView(0.0, 0.0, 0.0, 0.0, outputs={"vx": 10.0})
    assert rig.pilot.returns(0, radar.measure(view)) is not None
    rig.pilot.after()
    seen = rig.pilot.obstacles
    assert seen is not None and seen.moving.sum() == 1 and seen.velocities[seen.moving][0, 0] == pytest.approx(-8.0, abs=0.5)
    for ms in range(10, 50, 10):
        assert rig.state(ms) is not None
    assert rig.state(50) is None and rig.pilot.give_up_on_scan() is not None and rig.said[-1].startswith("the radar of 0.050 s")
    broken = replace(radar.measure(view), dopplers=np.full(1, np.nan))
    rig.pilot.returns(50 * MS, broken)
    rig.pilot.after()
    assert rig.pilot.refusals.counts["radar"] == 1


def test_a_second_lidar_s_scans_are_waited_for_too_and_without_them_the_first_drives_on() -> None:
    """What stands behind is seen; a second LIDAR that stays out is given up on, and said to be blind."""
    world = World((Circle(20.0, 0.0, 1.0), Circle(-20.0, 0.0, 1.0)))
    lidar, rear = Lidar(world), Lidar(world, LidarSettings(rate=20.0), mount=Mount(-2.0, yaw=math.pi))
    rig = Rig(tracker_of(TrackerSettings(), Mount(), rear=rear), lockstep=True, lidar_rate=10.0)
    assert rig.pilot.blind_behind(0) == "blind behind: no rear scan yet"
    assert rig.state(0) is None and rig.pilot.scan(0, lidar.scan(0.0, 0.0, 0.0, 0.0)) is None
    assert rig.pilot.rear_scan(0, rear.scan(0.0, 0.0, 0.0, 0.0)) is not None
    rig.pilot.after()
    assert rig.pilot.obstacles is not None and sorted(np.sign(rig.pilot.obstacles.centres[:, 0])) == [-1.0, 1.0]
    for ms in range(10, 50, 10):
        assert rig.state(ms) is not None
    assert rig.state(50) is None and rig.pilot.give_up_on_scan() is not None and rig.said[-1].startswith("the rear scan of 0.050 s")
    for ms in range(100, 5200, 100):
        rig.scan(ms)
        assert rig.state(ms) is not None and not rig.pilot.blind
    assert (rig.pilot.obstacles.centres[:, 0] > 0.0).all()
    assert rig.pilot.blind_behind(5100 * MS) == "blind behind: no rear scan for 5.10 s"
    rig.pilot.rear_scan(5100 * MS, rear.scan(5.1, 51.0, 0.0, 0.0))
    rig.pilot.after()
    assert rig.pilot.blind_behind(5100 * MS) == "" and Rig().pilot.blind_behind(0) == ""
