"""Whatever a message says, a node answers or refuses it by name, in bounded work: extreme numbers into each entry; warnings fail, too."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nav_msgs.msg import Odometry

from lfdm_ros.bounds import BOUNDS
from lfdm_ros.control.controller import Controller
from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.routing.lattice_planner import LatticePlanner
from lfdm_ros.control.routing.routes import Route
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.driving import Pilot, Task
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker
from lfdm_ros.ros.plan_messages import PlanMessages, values_of_odometry
from lfdm_ros.sensors import Scan
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path, speed_profile
from lfdm_ros.vehicles import load_vehicle

pytestmark = pytest.mark.filterwarnings("error")

S = 1_000_000_000  # ns
REASONS = {"not_finite", "out_of_range", "too_many", "malformed", "frame", "stamp", "unusable"}
FLT_MAX = float(np.finfo(np.float32).max)
NAMES = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay", "roll", "roll_rate", "omega_fl", "omega_fr", "omega_rl", "omega_rr")

limits = st.sampled_from([limit for bound in BOUNDS.values() for limit in bound.range])
extremes = st.one_of(limits, st.floats(), st.sampled_from([1e-300, 1e154, 1e300, -1e300, FLT_MAX, math.nan, math.inf, -math.inf]))
usual = st.floats(-20.0, 20.0)
numbers = st.one_of(usual, usual, extremes)
stamps = st.one_of(st.integers(0, 3 * S), st.integers(0, 3 * S), st.integers(-2**31 * S, 2**31 * S))
clocks = st.one_of(st.none(), st.integers(0, 2**31 * S))
frames = st.sampled_from(["odom", "odom", "odom", "map", ""])


@st.composite
def states(draw: Any) -> tuple[Any, ...]:
    values = dict.fromkeys(NAMES, 1.0) | draw(st.dictionaries(st.sampled_from(NAMES), numbers, max_size=4))
    stamp, clock = draw(stamps), draw(clocks)
    return "state", stamp, draw(frames), values, stamp if clock is None else clock


@st.composite
def scans(draw: Any) -> tuple[Any, ...]:
    beams = draw(st.sampled_from([0, 1, 2, 7, 181, 541, 5000, 50_000]))
    kind = draw(st.sampled_from(["one", "many", "random"]))
    if kind == "random":
        ranges = np.random.default_rng(draw(st.integers(0, 99))).uniform(0.0, 300.0, beams)
    else:
        ranges = np.resize(np.array(draw(st.lists(numbers, min_size=1, max_size=1 if kind == "one" else 20))), beams)
    increment = draw(st.one_of(st.just(2.0 * math.pi / max(beams, 1)), st.just(-0.01), numbers))
    stamp = draw(stamps)
    return "scan", stamp, Scan(1e-9 * stamp, draw(st.one_of(st.just(-math.pi), numbers)), increment, draw(st.one_of(st.just(0.5), numbers)),
                               draw(st.one_of(st.just(100.0), st.just(FLT_MAX), numbers)), ranges)


goals = st.tuples(st.just("goal"), frames, numbers, numbers, st.one_of(st.just(3.0), numbers), st.one_of(st.just(5.0), numbers),
                  st.booleans())
paths = st.tuples(st.just("path"), frames, st.lists(st.tuples(numbers, numbers), max_size=6), st.one_of(st.just(5.0), numbers))
others = st.tuples(st.sampled_from(["watch", "give up"]), stamps)
messages = st.lists(st.one_of(states(), states(), scans(), goals, paths, others), min_size=1, max_size=12)


class Stand:
    """A controller that answers at once, so that many messages can be tried; it checks nothing."""

    def cycle(self, now: float, measured: Any) -> Cycle:
        return Cycle((0.0, 0.0, 0.5), CycleOutcome.STOPPED)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: None


def hear(pilot: Pilot, message: tuple[Any, ...]) -> Any:
    """As the node does: what a message makes of it, or a refusal."""
    kind, *rest = message
    if kind == "state":
        return pilot.state(*rest)
    if kind == "scan":
        return pilot.scan(*rest)
    if kind == "watch":
        return pilot.watch(*rest)
    if kind == "give up":
        return pilot.give_up_on_scan()
    frame, *given_as = rest
    try:
        if kind == "goal":
            x, y, tolerance, speed, stop = given_as
            task = Task("goal", frame, goal=Goal(x, y, tolerance, stop), speed=speed, stop=stop)
        else:
            points, speed = given_as
            task = Task("path", frame, path=Path(np.array(points).reshape(-1, 2)), speed=speed)
    except InputError as error:
        pilot.refusals.refuse(kind, error)
    else:
        pilot.drive(kind, task)
    return None


def hear_all(pilot: Pilot, tracker: ObstacleTracker, heard: list[tuple[Any, ...]]) -> int:
    """Returns how many were answered."""
    fill, answers = PlanMessages({}), 0
    for message in heard:
        decision = hear(pilot, message)
        if decision is not None:
            answers += 1
            steering, throttle, brake = decision.cycle.command
            assert -1.0 <= steering <= 1.0 and 0.0 <= throttle <= 1.0 and 0.0 <= brake <= 1.0
            fill.fill_command(decision)
            fill.fill_status(decision, pilot, 0.0, 0)
            if decision.cycle.plan is not None:
                fill.fill_plan(decision.time_ns, decision.frame, decision.cycle.plan)
                fill.fill_horizon(decision, decision.cycle.plan)
        pilot.after()
    seen = tracker.obstacles()
    assert np.isfinite(seen.centres).all() and np.isfinite(seen.radii).all() and np.isfinite(seen.velocities).all()
    assert tracker.tracked <= 256 and len(seen.radii) <= 64
    assert pilot.scans.waiting <= 4
    assert {reason for _, reason in pilot.refusals.reasons} <= REASONS
    assert sum(pilot.refusals.reasons.values()) == pilot.refusals.total
    return answers


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(messages, st.booleans())
def test_every_message_ends_in_an_answer_or_a_named_refusal(heard: list[tuple[Any, ...]], lockstep: bool) -> None:
    tracker = ObstacleTracker()
    pilot = Pilot(Stand(), tracker, period=0.02, lockstep=lockstep, lidar_rate=10.0 if lockstep else 0.0, scan_timeout=0.5)
    hear_all(pilot, tracker, heard)


@pytest.fixture(scope="module")
def controller() -> Controller:
    return Controller(load_vehicle("hmmwv"), Settings(time_budget=0.0))


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(messages)
def test_so_it_does_with_the_controller_that_drives(controller: Controller, heard: list[tuple[Any, ...]]) -> None:
    controller.reset()
    controller.idle()
    tracker = ObstacleTracker()
    drive: list[tuple[Any, ...]] = [("goal", "odom", 80.0, 3.0, 3.0, 8.0, True)]
    for k, message in enumerate(heard):
        stamp = k * S // 50
        good = {"x": 0.1 * k, "y": 0.0, "yaw": 0.0, "vx": 5.0, "vy": 0.0, "yaw_rate": 0.0}
        drive += [("state", stamp, "odom", good, stamp), message]
    assert hear_all(Pilot(controller, tracker, period=0.02, scan_timeout=0.5), tracker, drive) > 0


@pytest.mark.parametrize("value", [1e300, -1e300, 1e9])
def test_a_state_that_no_vehicle_has_is_refused_and_said(value: float) -> None:
    for name in NAMES:
        said: list[str] = []
        pilot = Pilot(Stand(), ObstacleTracker(), period=0.02, refused=said.append)
        assert pilot.state(S, "odom", dict.fromkeys(NAMES, 0.0) | {name: value}, S) is None
        assert pilot.refusals.diagnosis()["refused.state.out_of_range"] == 1 and f"{name} is " in said[0]


def test_one_message_from_far_ahead_does_not_take_the_time_with_it() -> None:
    pilot = Pilot(Stand(), ObstacleTracker(), period=0.02)
    values = dict.fromkeys(NAMES, 0.0)
    scan = Scan(1.0, -1.0, 0.01, 0.5, 100.0, np.full(201, np.inf))
    assert pilot.state(S, "odom", values, S) is not None
    assert pilot.state(1000 * S, "odom", values, S) is None and pilot.scan(1000 * S, scan) is None
    assert pilot.state(S + S // 50, "odom", values, S + S // 50) is not None and pilot.resets == 0
    pilot.scan(S, scan)
    pilot.after()
    assert pilot.obstacles is not None
    assert pilot.refusals.reasons == {("state", "stamp"): 1, ("scan", "stamp"): 1}
    early = Pilot(Stand(), ObstacleTracker(), period=0.02)  # nobody knows what time it is before the first state
    early.scan(1000 * S, scan)
    early.scan(S, scan)
    early.state(S, "odom", values, S)
    early.after()
    assert early.obstacles is not None


@settings(max_examples=200, deadline=None, derandomize=True)
@given(numbers, numbers, st.tuples(numbers, numbers, numbers, numbers))
def test_odometry_gives_values_that_can_be_judged(x: float, vx: float, orientation: tuple[float, ...]) -> None:
    odometry = Odometry()
    odometry.pose.pose.position.x, odometry.twist.twist.linear.x = x, vx
    q = odometry.pose.pose.orientation
    q.x, q.y, q.z, q.w = orientation
    pilot = Pilot(Stand(), ObstacleTracker(), period=0.02)
    decision = pilot.state(S, "odom", values_of_odometry(odometry), S)
    assert (decision is None) == (pilot.refusals.total == 1)
    if decision is not None:
        assert 0.9 <= math.hypot(*orientation) <= 1.1


@pytest.mark.parametrize("scale, usable", [(1.0, True), (1.05, True), (3.0, False), (1e-3, False), (1e200, False)])
def test_the_length_of_an_orientation_does_not_turn_it(scale: float, usable: bool) -> None:
    odometry = Odometry()
    q = odometry.pose.pose.orientation
    q.z, q.w = scale * math.sin(0.6), scale * math.cos(0.6)
    values = values_of_odometry(odometry)
    pilot = Pilot(Stand(), ObstacleTracker(), period=0.02)
    assert (pilot.state(S, "odom", values, S) is not None) == usable
    if usable:
        assert values["yaw"] == pytest.approx(1.2)
    else:
        assert "quaternion is" in pilot.refusals.last


@pytest.fixture(scope="module")
def guide() -> LatticePlanner:
    return LatticePlanner()


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.tuples(numbers, numbers, numbers, numbers, numbers, numbers), st.tuples(st.one_of(st.just(1.1), numbers), st.one_of(
    st.just(0.4), numbers)), st.lists(st.tuples(numbers, numbers, numbers, numbers, numbers), max_size=5))
def test_guidance_finds_a_route_or_refuses(guide: LatticePlanner, place: tuple[float, ...], room: tuple[float, float],
                                           circles: list[tuple[float, ...]]) -> None:
    table = np.array(circles, float).reshape(-1, 5)
    route: Route | None = None
    try:
        for _ in range(2):
            route = guide.route(*place, Obstacles(table[:, :2], table[:, 2], table[:, 3:], 1.0), *room, route)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert route is not None and np.isfinite(route.path.x).all() and np.isfinite(route.path.curvature).all()
    assert len(route.path.s) <= 2000


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(numbers, numbers), max_size=30), numbers, st.booleans())
def test_a_path_is_one_or_refused_with_its_speed(points: list[tuple[float, float]], speed: float, smooth: bool) -> None:
    try:
        path = Path(np.array(points).reshape(-1, 2), smooth)
        speeds = speed_profile(path, speed, 4.0, 3.0, 3.5)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert len(path.s) <= 2.0 * BOUNDS["length"].upper + 2 and np.isfinite(speeds).all()
    assert np.isfinite(path.x).all() and np.isfinite(path.yaw).all() and np.isfinite(path.curvature).all()
