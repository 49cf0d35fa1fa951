"""Inputs of the controller and of shared control from messages, and messages of their decisions.

Messages of a cycle are created once and reused.
"""

import math
import struct
from array import array
from collections.abc import Mapping, Sequence

import numpy as np
from ackermann_msgs.msg import AckermannDriveStamped
from geometry_msgs.msg import PoseStamped, Quaternion
from nav_msgs.msg import Odometry
from nav_msgs.msg import Path as PathMessage
from radar_msgs.msg import RadarScan as RadarScanMessage
from sensor_msgs.msg import LaserScan

from lfdm_ros.bounds import FRAME, MALFORMED, TOO_MANY, Refused, require
from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import REQUIRED
from lfdm_ros.engine.driving import Pilot, PilotDecision, Task
from lfdm_ros.engine.shared_driving import SharedPilot
from lfdm_ros.msg import DriverCommand, MpcStatus, Posterior, SharedControlStatus, VehicleState
from lfdm_ros.msg import Plan as PlanMessage
from lfdm_ros.perception.transform_tree import yaw_of
from lfdm_ros.ros.messages import BODY_FRAME, nanoseconds, set_stamp, speeds_of
from lfdm_ros.sensors import RadarScan, Scan
from lfdm_ros.sharing.arbiter import SharedDecision
from lfdm_ros.sharing.situation import Draws, StampedCommand
from lfdm_ros.simulation import Goal
from lfdm_ros.simulation.path import Path
from lfdm_ros.vehicles import Vehicle

# A nav_msgs/Path is read directly from its bytes: six Python objects per pose would take seconds for 10 km in steps of 0.1 m.
_POSE = 7 * 8  # bytes: position x, y, z, orientation x, y, z, w
_START = 4  # origin of the offsets, behind the encapsulation's header


def read_path(data: bytes) -> tuple[str, np.ndarray]:
    """Reads frame and x, y (n, 2) [m] of a serialised nav_msgs/Path, as plain CDR of either byte order. Raises Refused: another encoding,
    cut off, too many poses, or a pose in another frame than the path's; an empty frame of a pose is none."""
    if len(data) < _START or data[0] != 0 or data[1] not in (0, 1):
        raise Refused("not plain CDR", MALFORMED)
    order = "<" if data[1] else ">"
    try:
        frame, at = _text(data, _START + 8, order)
        at += -at % 4
        (count,) = struct.unpack_from(order + "I", data, at)
        require("points", count, "number of poses")
        points = np.empty((count, 2))
        at = _pose(data, at + 4, order, frame, points, 0) if count else at
        # The others are aligned to 8 bytes; usually all frames have the same length.
        done = 1 + _alike(data, at, order, frame, points[1:]) if count > 1 else count
        for k in range(done, count):
            at = _pose(data, at, order, frame, points, k)
    except (struct.error, UnicodeDecodeError) as error:
        raise Refused(f"not a path: {error}", MALFORMED) from None
    return frame, points


def _text(data: bytes, at: int, order: str) -> tuple[str, int]:
    """Reads a string; returns it, and where it ends."""
    (size,) = struct.unpack_from(order + "I", data, at)
    end = at + 4 + size
    if end > len(data):
        raise struct.error("it is cut off")
    return data[at + 4:end].rstrip(b"\0").decode(), end


def _pose(data: bytes, at: int, order: str, frame: str, points: np.ndarray, k: int) -> int:
    """Reads one pose; returns the offset of its end."""
    child_frame, at = _text(data, at + 8, order)
    _check(child_frame, frame)
    at += -(at - _START) % 8
    points[k] = struct.unpack_from(order + "2d", data, at)
    return at + _POSE


def _check(named: str, frame: str) -> None:
    if named not in ("", frame):
        raise Refused(f"a pose is in frame '{named}', the path in '{frame}'", FRAME)


def _alike(data: bytes, at: int, order: str, frame: str, points: np.ndarray) -> int:
    """Reads all poses at once if they share a frame; returns the number read: all or none."""
    child_frame, end = _text(data, at + 8, order)
    head = end - at + -(end - _START) % 8
    stride = head + _POSE
    if len(data) - at < len(points) * stride:
        return 0
    rows = np.frombuffer(data, np.uint8, len(points) * stride, at).reshape(-1, stride)
    if not (rows[:, 8:end - at] == rows[0, 8:end - at]).all():
        return 0
    _check(child_frame, frame)
    points[:] = rows[:, head:head + 16].copy().view(order + "f8")
    return len(points)


_AHEAD = 0.5  # [s] of the plan, the speed of an AckermannDrive
_MEASURED = (*REQUIRED, "ax", "ay", "roll", "roll_rate")
OUTCOMES = {outcome: getattr(MpcStatus, outcome.name) for outcome in CycleOutcome}


def values_of_state(state: VehicleState) -> dict[str, float]:
    """Returns the values of a state by the names of the models' states; NaN: not measured."""
    return {**{name: getattr(state, name) for name in _MEASURED}, **speeds_of(state)}


def values_of_odometry(odometry: Odometry) -> dict[str, float]:
    """Returns values as `values_of_state`, and the quaternion's norm; yaw is unmeasured if that is 0 (not filled in)."""
    q, position, twist = odometry.pose.pose.orientation, odometry.pose.pose.position, odometry.twist.twist
    length = math.hypot(q.x, q.y, q.z, q.w)
    return {"x": position.x, "y": position.y, "yaw": yaw_of(q) if length else math.nan, "vx": twist.linear.x, "vy": twist.linear.y,
            "yaw_rate": twist.angular.z, "quaternion": length or math.nan}


def measured_values(message: VehicleState | Odometry) -> dict[str, float]:
    """Returns values as `values_of_state` or `values_of_odometry`, by the type of the message."""
    return values_of_odometry(message) if isinstance(message, Odometry) else values_of_state(message)


def scan_of(message: LaserScan) -> Scan:
    """Returns the scan of a message, unchecked."""
    return Scan(1e-9 * nanoseconds(message.header.stamp), message.angle_min, message.angle_increment, message.range_min, message.range_max,
                np.array(message.ranges, float))


def radar_scan_of(message: RadarScanMessage) -> RadarScan:
    """Returns the returns of a message, unchecked."""
    columns = [np.array([getattr(one, name) for one in message.returns], float)
               for name in ("range", "azimuth", "doppler_velocity", "amplitude")]
    return RadarScan(1e-9 * nanoseconds(message.header.stamp), *columns)


def goal_task(message: PoseStamped, speed: float, tolerance: float, stop: bool) -> Task:
    """Makes the task of going to a pose; its heading is free. Raises InputError: not finite, or out of range."""
    position = message.pose.position
    goal = Goal(position.x, position.y, tolerance, stop)
    return Task(f"goal ({goal.x:.1f}, {goal.y:.1f})", message.header.frame_id, goal=goal, speed=speed, stop=stop)


def path_task(data: bytes, speed: float, stop: bool) -> Task:
    """Makes the task of following a path, a serialised nav_msgs/Path; repeated points are left out. A path without poses ends the current
    task. Raises InputError: not finite, out of range, too many poses, in another frame than it says itself, fewer than two distinct
    points."""
    frame, points = read_path(data)
    if not len(points):
        return Task("idle")
    path = Path(points)
    return Task(f"path of {path.length:.0f} m", frame, path=path, speed=speed, stop=stop)


class PlanMessages:
    """The messages of a cycle: `command`, `ackermann`, `status`, `plan`, `horizon`, each filled by the function of its name."""

    def __init__(self, units: Mapping[str, str]) -> None:
        """Makes the messages; units: of the states by name, 1 where there is none."""
        self._units = units
        self._names: Sequence[str] = ()
        self.command, self.status, self.plan, self.horizon = DriverCommand(), MpcStatus(), PlanMessage(), PathMessage()
        self.ackermann = AckermannDriveStamped()

    def fill_command(self, decision: PilotDecision) -> DriverCommand:
        command = self.command
        set_stamp(command.header.stamp, decision.time_ns)
        command.steering, command.throttle, command.brake = (float(value) for value in decision.cycle.command)
        return command

    def fill_ackermann(self, decision: PilotDecision, lock: float) -> AckermannDriveStamped:
        """Fills the command of a vehicle with a speed controller: the plan's speed at a short preview, or 0 without a plan. lock: angle of
        the front wheels at steering 1 [rad]."""
        message, cycle, now = self.ackermann, decision.cycle, 1e-9 * decision.time_ns
        set_stamp(message.header.stamp, decision.time_ns)
        message.header.frame_id = BODY_FRAME
        drive, plan = message.drive, cycle.plan
        drive.steering_angle = lock * float(cycle.command[0])
        drive.speed = drive.acceleration = 0.0
        if plan is not None and cycle.outcome.planned:
            speeds = plan.states[:, list(plan.names).index("vx")]
            begin, end = np.interp((now, now + _AHEAD), plan.times, speeds).tolist()
            drive.speed, drive.acceleration = end, abs(end - begin) / _AHEAD
        return message

    def fill_status(self, decision: PilotDecision, pilot: Pilot, cycle_time: float, posterior_version: int) -> MpcStatus:
        """Fills the status of a cycle; cycle_time: from the arrival of the state to the command [s]."""
        cycle = decision.cycle
        status = self.fill_cycle(decision.time_ns, decision.frame, cycle, cycle_time)
        status.reason, status.task = reason(cycle, pilot), pilot.task.name
        status.speed_limit, status.progress, status.distance_to_go = _progress(pilot.task, cycle.remaining)
        status.scan_age = pilot.scan_age(decision.time_ns)
        status.posterior_version, status.inputs_refused = posterior_version, pilot.refusals.total
        return status

    def fill_cycle(self, time_ns: int, frame: str, cycle: Cycle, cycle_time: float) -> MpcStatus:
        """Fills the cycle's part of the status; cycle_time: as `fill_status`."""
        status = self.status
        set_stamp(status.header.stamp, time_ns)
        status.header.frame_id = frame
        status.outcome, status.outcome_name = OUTCOMES[cycle.outcome], cycle.outcome.name.lower()
        status.cold_start, status.done, status.blocked = cycle.cold_start, cycle.done, cycle.blocked
        status.solver, status.cycle_time, status.solve_time = cycle.solver, cycle_time, float(cycle.seconds)
        status.iterations, status.residual, status.cost = cycle.iterations, float(cycle.residual), float(cycle.cost)
        status.cost_names = list(cycle.cost_terms)
        status.cost_terms = array("d", cycle.cost_terms.values())
        status.active_constraints, status.violated_constraints = list(cycle.active), list(cycle.violated)
        status.state_age, status.delay, status.obstacles = float(cycle.age), float(cycle.delay), cycle.obstacles
        return status

    def fill_plan(self, time_ns: int, frame: str, plan: Plan) -> PlanMessage:
        """Fills a plan; time_ns: of its decision [ns]."""
        message = self.plan
        if self._names is not plan.names:
            self._names = plan.names
            message.names = list(plan.names)
            message.units = [self._units.get(name, "1") for name in plan.names]
        set_stamp(message.header.stamp, time_ns)
        message.header.frame_id = frame
        # An array of doubles is not checked number by number, as a list is.
        message.times = array("d", (plan.times - 1e-9 * time_ns).tobytes())
        message.states = array("d", np.ascontiguousarray(plan.states, float).tobytes())
        message.inputs = array("d", np.ascontiguousarray(plan.inputs, float).tobytes())
        return message

    def fill_horizon(self, decision: PilotDecision, plan: Plan) -> PathMessage:
        """Fills the poses of the plan, each with its own stamp."""
        message = self.horizon
        set_stamp(message.header.stamp, decision.time_ns)
        message.header.frame_id = decision.frame
        columns = [list(plan.names).index(name) for name in ("x", "y", "yaw")]
        while len(message.poses) < len(plan.times):
            message.poses.append(PoseStamped())
        del message.poses[len(plan.times):]
        times = np.rint(1e9 * plan.times).astype(np.int64)
        for pose, time_ns, (x, y, yaw) in zip(message.poses, times.tolist(), plan.states[:, columns].tolist()):
            set_stamp(pose.header.stamp, time_ns)
            pose.header.frame_id = decision.frame
            pose.pose.position.x, pose.pose.position.y = x, y
            pose.pose.orientation = heading(yaw)
        return message


def _progress(task: Task, remaining: float) -> tuple[float, float, float]:
    """Returns the speed limit in force [m/s], progress along the path and distance to go [m]; NaN: there is none."""
    if not math.isfinite(remaining):  # no task or plan yet
        remaining = math.nan
    if task.path is None:
        return float(task.speed) if task.goal is not None else math.nan, math.nan, remaining
    progress = task.path.length - remaining
    return float(np.interp(progress, task.path.s, np.broadcast_to(task.speed, task.path.s.shape))), progress, remaining


def heading(yaw: float) -> Quaternion:
    return Quaternion(z=math.sin(0.5 * yaw), w=math.cos(0.5 * yaw))


def reason(cycle: Cycle, pilot: Pilot) -> str:
    """Returns the reason of a cycle's outcome; a vehicle without valid perception stops regardless of the solver's result."""
    return "; ".join(part for part in (pilot.blind, cycle.reason) if part)


MAX_ROWS, MAX_NAMES = 2000, 64  # of a plan


def plan_of(message: PlanMessage) -> Plan:
    """Returns the plan of a message, with times relative to the stamp. Raises Refused: too large, or inconsistent sizes."""
    rows, names = len(message.times), tuple(message.names)
    if rows > MAX_ROWS or len(names) > MAX_NAMES:
        raise Refused(f"{rows} rows of {len(names)} states; at most {MAX_ROWS} of {MAX_NAMES} are read", TOO_MANY)
    if len(message.states) != rows * len(names) or len(message.inputs) != 3 * rows or len(set(names)) != len(names):
        raise Refused(f"{rows} times, {len(message.states)} numbers of {len(names)} states, {len(message.inputs)} of 3 inputs", MALFORMED)
    states, inputs = np.array(message.states).reshape(rows, len(names)), np.array(message.inputs).reshape(rows, 3)
    return Plan(names, np.array(message.times), states, inputs)


def draws_of(message: Posterior, vehicle: Vehicle) -> Draws | None:
    """Returns the draws of a posterior that are parameters of the vehicle; None: it has none, or their number does not fit."""
    names = tuple(message.parameter_names)
    if not message.draws or len(message.thinned_draws) != message.draws * len(names):
        return None
    table = np.array(message.thinned_draws).reshape(message.draws, len(names))
    usable = [i for i, name in enumerate(names) if name in vehicle.parameters and np.isfinite(table[:, i]).all()]
    return Draws(tuple(names[i] for i in usable), table[:, usable], message.posterior_version) if usable else None


def fill_command(message: DriverCommand, command: StampedCommand, time_ns: int) -> DriverCommand:
    """Fills the message of a command, as sent at a time [ns]."""
    set_stamp(message.header.stamp, time_ns)
    message.steering, message.throttle, message.brake = (float(value) for value in command.inputs)
    return message


def sharing_text(decision: SharedDecision) -> str:
    """Returns the displayed text of a decision: state, k, threat and its probabilities."""
    d = decision
    risks = (f"{p.name} {p.value:.3f}" for a in d.threat.assessments.values() for p in a.probabilities)
    return "\n".join([f"{d.mode}: {d.row.state}", f"k {d.k:.2f} (target {d.k_wanted:.2f}), threat {d.threat.relative:.2f}", *risks])


def fill_status(message: SharedControlStatus, decision: SharedDecision, pilot: SharedPilot, time_ns: int,
                posterior_version: int) -> SharedControlStatus:
    """Fills the status of a decision at a time [ns], with its reasons."""
    d, threat = decision, decision.threat
    set_stamp(message.header.stamp, time_ns)
    message.mode, message.state, message.reason = d.mode, d.row.state, d.reason
    message.threat, message.k, message.k_wanted = float(threat.relative), float(d.k), float(d.k_wanted)
    message.reasons = list(threat.reasons)
    assessments = threat.assessments
    message.component_names = list(assessments)
    message.component_threats = array("d", [float(a.threat) for a in assessments.values()])
    probabilities = [p for a in assessments.values() for p in a.probabilities]
    message.probability_names = [p.name for p in probabilities]
    message.probabilities = array("d", [p.value for p in probabilities])
    message.probabilities_lower = array("d", [p.lower for p in probabilities])
    message.probabilities_upper = array("d", [p.upper for p in probabilities])
    message.rollouts = max((a.rollouts for a in assessments.values()), default=0)
    message.horizon = max((a.horizon for a in assessments.values() if a.horizon == a.horizon), default=math.nan)
    message.risk_time = float(sum(a.seconds for a in assessments.values()))
    for name in ("operator", "autonomy", "plan", "state", "scan"):
        setattr(message, f"{name}_age", float(d.ages[name]))
    message.posterior_version = posterior_version
    message.opposite_sides, message.emergency_stop = d.opposite, d.latched
    message.takeover, message.takeover_reason = d.takeover.state.value, d.takeover.reason
    message.takeover_time_left = d.takeover.time_left
    message.active_limits = list(d.limits)
    message.inputs_refused = pilot.refusals.total
    for field, command in ((message.operator_command, d.operator), (message.autonomy_command, d.autonomy), (message.applied, d.command)):
        if command is not None:
            fill_command(field, command, max(round(1e9 * command.time), 0))
    return message
