"""Parts of nodes that drive by states, scans and tasks: parameters, subscriptions, goals and paths by topic, the node around a pilot."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from grid_map_msgs.msg import GridMap
from nav_msgs.msg import Odometry
from nav_msgs.msg import Path as PathMessage
from radar_msgs.msg import RadarScan
from sensor_msgs.msg import LaserScan
from tf2_msgs.msg import TFMessage

from lfdm_ros.engine.driving import Drives, Pilot, PilotDecision, Task
from lfdm_ros.engine.stepping import FREE_RUNNING, LOCKSTEP
from lfdm_ros.errors import InputError
from lfdm_ros.ground import HeightMap
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.msg import Posterior, VehicleState
from lfdm_ros.perception.rear_view import MIN_NOISE, tracker_of
from lfdm_ros.perception.tracker import TRACKER, TrackerSettings
from lfdm_ros.perception.transform_tree import TransformTree
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component, refusing, while_active
from lfdm_ros.ros.endpoints import Endpoint, given, subscribes, unless
from lfdm_ros.ros.grid_map import read_friction
from lfdm_ros.ros.grounds import FRICTION_MAP
from lfdm_ros.ros.messages import ODOM_FRAME, nanoseconds
from lfdm_ros.ros.parameters import SCENARIO_SEED, Parameter, seed_of
from lfdm_ros.ros.plan_messages import goal_task, measured_values, path_task, scan_of
from lfdm_ros.sensors import Lidar, Radar, find_sensor
from lfdm_ros.simulation import Goal, load_scenario
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle


class FrameTree(TransformTree):
    """Transforms, and the conversion of tasks between frames."""

    def task(self, task: Task, frame: str) -> Task:
        """Returns the task in a frame, if its place in the task's own is known; else as it is, to be refused for its frame. Raises Refused:
        a place out of range."""
        if not task.frame or task.frame == frame or not self.knows(task.frame, frame):
            return task
        moved: dict[str, Any] = {}
        if task.goal is not None:
            (x, y), = self.points(np.array([[task.goal.x, task.goal.y]]), task.frame, frame)
            moved["goal"] = replace(task.goal, x=float(x), y=float(y))
        if task.path is not None:
            moved["path"] = Path(self.points(np.column_stack([task.path.x, task.path.y]), task.frame, frame))
        return replace(task, frame=frame, **moved)


# Callbacks that owe the vehicle a command.
_OF_STATES = ("on_state",)
_CYCLES = (*_OF_STATES, "on_scan", "on_rear_scan", "on_radar", "on_applied", "watch", "watch_scan")
LOOK_FOR_SCAN = 0.1  # [s]
_FARTHEST = 1000.0  # [m] returns beyond do not count, whatever the sight
# RViz's tool "2D Goal Pose" says goal_pose, nav2's planner plan.
_GOALS, _PATHS, _FRAMES = ("goal", "goal_pose"), ("reference_path", "plan"), ("tf", "tf_static")

LIDAR_LATENCY = Parameter("lidar_latency", 0.0, "from a scan's stamp to its arrival, in lockstep", 0.0, 2.0, unit="s")
MARKER_RATE = Parameter("marker_rate", 5.0, "markers a second of the wall clock", 0.1, 50.0, unit="Hz")
SCAN_PATIENCE = Parameter("scan_patience", 2.0, "in lockstep, wall-clock time to wait for a scan that is due", 0.1, 600.0, unit="s")

RADAR = Parameter("radar", "", "topic of a radar_msgs/RadarScan with the speed of obstacles, as sensors/NAME of a radar in the "
                               "vehicle's file, which has its place, and the rate by which a state waits for returns in lockstep; empty: "
                               "none")
RADAR_TOPIC = "sensors/radar"
SUBSCRIBES_RADAR = subscribes(RADAR_TOPIC, RadarScan, qos.SENSOR, "how fast obstacles move", in_lockstep=qos.STATE, named_by="radar",
                              when=unless("radar", ""))


def radar_of(vehicle: Vehicle, topic: str) -> Radar | None:
    """Returns the radar of a vehicle's file by its topic; None for an empty one. Raises InputError: the vehicle has no such radar."""
    return find_sensor(vehicle, topic.rpartition("/")[2], Radar, "parameter radar") if topic else None


LIDAR_NOISE = Parameter("lidar_noise", -1.0, "standard deviation of a range; below 0: that of the vehicle's file, or else "
                        f"{TrackerSettings().noise_sd:g} m", -1.0, 10.0, unit="m")
REAR_LIDAR = Parameter("rear_lidar", "", "topic of a sensor_msgs/LaserScan of a second LIDAR, which sees what comes from behind, as "
                                         "sensors/NAME of a lidar in the vehicle's file, which has its place and noise, and the rate by "
                                         "which a state waits for scans in lockstep; empty: none")
REAR_TOPIC = "sensors/lidar_rear"
SUBSCRIBES_REAR = subscribes(REAR_TOPIC, LaserScan, qos.SENSOR, "obstacles behind", in_lockstep=qos.STATE, named_by="rear_lidar",
                             when=unless("rear_lidar", ""))


def tracker_settings(node: Component, vehicle: Vehicle, **others: Any) -> TrackerSettings:
    """Returns the tracker's settings by the parameters of a node and its vehicle; `others` instead of parameters."""
    settings, noise = TRACKER.record(node.value, **others).on(vehicle), node.value("lidar_noise")
    return settings if noise < 0.0 else replace(settings, noise_sd=max(noise, MIN_NOISE))


def rear_lidar_of(vehicle: Vehicle, topic: str) -> Lidar | None:
    """Returns the second LIDAR of a vehicle's file by its topic, as `radar_of`."""
    return find_sensor(vehicle, topic.rpartition("/")[2], Lidar, "parameter rear_lidar") if topic else None


def driving_parameters(state_topic: str) -> tuple[Parameter, ...]:
    """Returns the parameters of stepping, states and tasks of a driving node; state_topic: default topic of the states."""
    return (
        Parameter("stepping", FREE_RUNNING, "free_running: a cycle a period; lockstep: an answer to every state, stamped as that state, "
                                            "and no time budget, so that a run repeats to the bit", choices=(FREE_RUNNING, LOCKSTEP)),
        Parameter("state_topic", state_topic, "topic of the lfdm_ros/VehicleState used for driving"),
        Parameter("odometry", False, "drive from nav_msgs/Odometry on the topic odom instead"),
        Parameter("task", "none", "the first task: none, or the path or goal of the scenario", choices=("none", "scenario")),
        Parameter("scenario", "", "name of a scenario in config/scenarios, or a path; with task scenario"),
        SCENARIO_SEED,
        Parameter("speed", 13.4, "highest speed to a goal and along a path that come by topic; for those that come after a change",
                  0.1, 100.0, live=True, unit="m/s"),
        Parameter("goal_tolerance", 0.0, f"distance to a goal that came by topic at which it is reached; 0: {Goal.tolerance:g} m, less "
                                         "for a vehicle shorter than 4 m; as speed", 0.0, 100.0, live=True, unit="m"),
        Parameter("stop_at_end", True, "stop at the end of a goal or path from a topic; as speed", live=True),
        Parameter("on_finish", "idle", "when the task is done; idle: go on answering; shutdown: end the run, in lockstep without an answer",
                  choices=("idle", "shutdown")))


def scan_parameters(timeout: float) -> tuple[Parameter, ...]:
    """Returns the parameters of scans of a driving node; timeout: default age of the newest scan at which it stops [s]."""
    return (
        Parameter("lidar_rate", 0.0, "scans a second: in lockstep a state waits for the scan that is due, and without scans the "
                                     "vehicle does not set out; 0: take them as they come", 0.0, 1000.0, unit="Hz"),
        LIDAR_LATENCY,
        LIDAR_NOISE,
        Parameter("scan_timeout", timeout, "age of the newest scan from which on the vehicle stops, where scans have come or are due; "
                                           "0: never", 0.0, 60.0, unit="s"),
        SCAN_PATIENCE)


def driving_endpoints(state_topic: str, scan_topic: str) -> tuple[Endpoint, ...]:
    """Returns the topics of states, scans and tasks, for a node with `driving_parameters`."""
    return (
        subscribes(state_topic, VehicleState, qos.NEWEST, "the state to drive from", in_lockstep=qos.STATE, named_by="state_topic",
              when=given("odometry", False)),
        subscribes("odom", Odometry, qos.NEWEST, "the state to drive from", in_lockstep=qos.STATE, when=given("odometry")),
        subscribes(scan_topic, LaserScan, qos.SENSOR, "obstacles", in_lockstep=qos.STATE), *task_endpoints())


def task_endpoints() -> tuple[Endpoint, ...]:
    """Returns the topics of goals and paths, and of their frames."""
    return (*(subscribes(topic, PoseStamped, qos.TASK, "where to drive") for topic in _GOALS),
            *(subscribes(topic, PathMessage, qos.TASK, "along what to drive") for topic in _PATHS),
            subscribes("tf", TFMessage, qos.TRANSFORMS, "frames that goals and paths may be in"),
            subscribes("tf_static", TFMessage, qos.LATCHED, "frames that goals and paths may be in"))


class TaskTopics:
    """Goals and paths by topic, transformed from any known frame to that of the pilot's states; its node has `task_endpoints`."""

    def __init__(self, node: Component, pilot: Any, task_of_goal: Callable[[PoseStamped], Task], task_of_path: Callable[[bytes], Task],
                 accepted: Callable[[], None] = lambda: None) -> None:
        """Subscribes to them, for a `Pilot` or a `SharedPilot`. task_of_goal, task_of_path: make a task of a message, of a path serialized,
        or raise InputError; accepted: called with each accepted task."""
        self._node, self._pilot, self._accepted = node, pilot, accepted
        self._task_of_goal, self._task_of_path = task_of_goal, task_of_path
        self.frames = FrameTree()
        for topic in _GOALS:
            node.subscription(topic, self.on_goal)
        for topic in _PATHS:
            node.subscription(topic, self.on_path, raw=True)
        for topic in _FRAMES:  # in the inactive state too: a static transform is published once
            node.subscription(topic, self.on_frames)

    def on_goal(self, message: PoseStamped) -> None:
        """Drives to a goal."""
        self._drive("goal", lambda: self._task_of_goal(message))

    def on_path(self, data: bytes) -> None:
        """Drives along a path, a serialized message."""
        self._drive("path", lambda: self._task_of_path(data))

    def on_frames(self, message: TFMessage) -> None:
        """Takes transforms of frames that goals and paths may be in."""
        self.frames.hear(message, self._node.refusals)

    def _drive(self, kind: str, make: Callable[[], Task]) -> None:
        if self._node.state != "active":
            return
        try:
            task = self.frames.task(make(), self._pilot.frame or ODOM_FRAME)
        except InputError as error:
            self._node.refusals.refuse(kind, error)
            return
        if self._pilot.drive(kind, task):
            self._accepted()
            self._node.get_logger().info(task.name)


def cycle_figures(times: Sequence[float]) -> dict[str, float]:
    """Returns median, 99 % and largest of the last 1000 cycle times [s], in milliseconds, for /diagnostics."""
    if not times:
        return {}
    recent = 1e3 * np.array(list(times)[-1000:])
    median, p99, largest = np.quantile(recent, (0.5, 0.99, 1.0)).tolist()
    return {"cycle_ms_median": median, "cycle_ms_p99": p99, "cycle_ms_max": largest}


class Calibratable(Component):
    """A node that goes by the posterior in force and by the friction of the ground as it is learned.

    Subclasses have `pilot` and `_on_ground`, define `_go_by`, and call `_take_calibrations` in `configure`.
    """

    pilot: Any
    _on_ground: VehicleOnGround
    GOES_BY, SAMPLES = "drives by", False  # word of the log; samples of the friction count too

    def _take_calibrations(self) -> None:
        self._posterior, self._maps = Posterior(), 0
        self.connect({"posterior": self._on_posterior, FRICTION_MAP: self._on_friction_map})

    def _go_by(self, posterior: Posterior) -> None:
        """Sets the vehicle by a posterior, on the ground as known now. Raises InputError."""
        raise NotImplementedError

    # Both are latched and sent once: they are taken in the inactive state too.

    @refusing("posterior")
    def _on_posterior(self, message: Posterior) -> None:
        self._go_by(message)
        self._posterior = message
        self.get_logger().info(f"{self.GOES_BY} {self._on_ground.vehicle.name}, posterior {message.posterior_version}")

    @refusing("ground")
    def _on_friction_map(self, message: GridMap) -> None:
        self._on_ground.set_friction(read_friction(message, self.pilot.frame or ODOM_FRAME), self.SAMPLES)
        self._go_by(self._posterior)
        self._maps += 1


class PilotedComponent(Component):
    """A node around a `Pilot`: its inputs go there, decisions go to `publish_decision`, which ends with `Pilot.after`.

    Subclasses set `_lockstep` and `pilot`, which `_pilot_of` makes, have `driving_endpoints`, call `_subscribe` in `configure`, and ask
    `_answers` of each decision.
    """

    pilot: Pilot
    _lockstep: bool
    finished = False
    STATE_TOPIC, SCAN_TOPIC = "vehicle/state", "scan"

    def publish_decision(self, decision: PilotDecision | None, begin: float) -> None:
        """Publishes a decision, the command first. decision: None: nothing is due; begin: arrival of its input, by time.perf_counter."""
        raise NotImplementedError

    def first_task(self) -> Task:
        """Returns the task of the scenario, if any. Raises InputError: the scenario has no task."""
        if self.value("task") == "none":
            return Task()
        name = self.value("scenario")
        if not name:
            raise InputError(f"node {self.get_name()}: task is scenario; set scenario too")
        scenario = load_scenario(name, seed_of(self.value("scenario_seed")))
        speed = self.value("speed") if scenario.speed is None else scenario.speed
        if scenario.path is None and scenario.goal is None:
            raise InputError(f"scenario {scenario.name} has neither path nor goal; choose another or set task to none")
        path = None if scenario.path is None else Path(scenario.path, where=f"scenario {scenario.name}: path")
        return Task(f"scenario {scenario.name}", path=path, goal=scenario.goal, speed=speed, corridor=scenario.corridor, stop=False,
                    hidden_speed=scenario.hidden_speed)

    def _subscribe(self, vehicle: Vehicle, period: float) -> None:
        """Subscribes to states, scans, tasks of a vehicle and their frames; period: of the cycles [s]."""
        self.connect({"odom": self._on_state, self.STATE_TOPIC: self._on_state, self.SCAN_TOPIC: self._on_scan})
        self.tasks = TaskTopics(self, self.pilot, lambda message: goal_task(
            message, self.value("speed"), self.value("goal_tolerance") or Goal.tolerance * vehicle.footprint.scale,
            self.value("stop_at_end")), lambda data: path_task(
            data, self.value("speed"), self.value("stop_at_end")), lambda: setattr(self, "finished", False))
        # The watchdog goes by the clock of the states' stamps, the rest by the wall clock.
        self.every(period, self._watch, self.get_clock())
        if self._lockstep:
            self.every(LOOK_FOR_SCAN, self._watch_scan)

    def activate(self) -> None:
        self.finished = False
        self._waits_since = math.inf
        self._outcomes: Counter[str] = Counter()
        self._last: PilotDecision | None = None
        self._resets = self.pilot.resets

    def deactivate(self) -> None:
        self.pilot.reset()  # inputs known now will be old then

    def _pilot_of(self, driver: Drives, vehicle: Vehicle, task: Task, period: float, sight: float, heights: HeightMap | None = None,
                  rear: Lidar | None = None, **others: Any) -> Pilot:
        """Makes the pilot that asks a driver each period [s] and tracks obstacles as far as it sees [m], on ground with heights; rear: the
        second LIDAR; `others`: as `Pilot` takes them."""
        settings = tracker_settings(self, vehicle, horizon=max(self.value("tracker_horizon"), min(sight, _FARTHEST)))
        pilot = Pilot(
            driver, tracker_of(settings, vehicle.lidar, heights, rear), period=period, lockstep=self._lockstep,
            lidar_rate=self.value("lidar_rate"), lidar_latency=self.value("lidar_latency"), scan_timeout=self.value("scan_timeout"),
            report=self.warn, refused=self.warn_of_refusal, **others)
        self.refusals = pilot.refusals
        pilot.begin(task)
        return pilot

    def _answers(self, decision: PilotDecision | None) -> bool:
        """Notes whether the task is done; returns whether a decision is to be sent."""
        pilot = self.pilot
        if pilot.resets != self._resets:  # the task begins anew
            self._resets, self.finished = pilot.resets, False
        if decision is None:
            return False
        shuts_down = self.value("on_finish") == "shutdown"
        if decision.cycle.done and not self.finished:
            self.finished = True
            self.get_logger().info(f"{pilot.task.name} done at {1e-9 * decision.time_ns:.3f} s")
            if shuts_down:
                self.stop_requested(f"{pilot.task.name} done")
        return not (self.finished and self._lockstep and shuts_down)  # else the simulator stands at exactly this state

    def after_error(self, where: str, arguments: tuple[Any, ...]) -> None:
        """Answers a cycle that failed by a stop, in lockstep with the stamp of its state."""
        if self.state != "active" or where not in _CYCLES:
            return
        now = self.now_ns()
        if self._lockstep:
            now = nanoseconds(arguments[0].header.stamp) if where in _OF_STATES else 0
        self.publish_decision(self.pilot.stop(now, f"internal error in {where}"), time.perf_counter())

    @while_active
    def _on_state(self, message: VehicleState | Odometry) -> None:
        begin = time.perf_counter()
        self.publish_decision(self.pilot.state(
            nanoseconds(message.header.stamp), message.header.frame_id, measured_values(message), self.now_ns()), begin)
        # A state that waits may be published again meanwhile.
        self._waits_since = min(self._waits_since, time.monotonic()) if self.pilot.waits else math.inf

    @while_active
    def _on_scan(self, message: LaserScan) -> None:
        begin = time.perf_counter()
        self._answer_waiting(self.pilot.scan(nanoseconds(message.header.stamp), scan_of(message)), begin)

    def _answer_waiting(self, decision: PilotDecision | None, begin: float) -> None:
        """Publishes the decision for a state that waited, if an input has released it."""
        if decision is not None:
            self._waits_since = math.inf
            self.publish_decision(decision, begin)

    @while_active
    def _watch(self) -> None:
        decision = self.pilot.watch(self.now_ns())
        if decision is not None:
            self.publish_decision(decision, time.perf_counter())

    @while_active
    def _watch_scan(self) -> None:
        if self.pilot.waits and time.monotonic() - self._waits_since > self.value("scan_patience"):
            self._waits_since = math.inf
            self.publish_decision(self.pilot.give_up_on_scan(), time.perf_counter())
