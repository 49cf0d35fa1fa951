"""A closed-loop drive without a graph, recorded with the topics of a run on the graph."""

import math
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from lfdm_ros.bags import BagWriter
from lfdm_ros.control.cycle import Cycle
from lfdm_ros.engine.closed_loop import Run
from lfdm_ros.msg import DriverCommand
from lfdm_ros.ros.markers import ROUTE, Picture
from lfdm_ros.ros.messages import LIDAR_FRAME, ODOM_FRAME, VehicleMessages, description_of, joint_transform, scan_message, set_stamp
from lfdm_ros.ros.plan_messages import PlanMessages
from lfdm_ros.sensors import Scan
from lfdm_ros.simulation import Scenario
from lfdm_ros.vehicles import Vehicle
from lfdm_ros.vehicles.description import FIXED, joints_of


class DriveBag:
    """Collects the cycles of a drive; `write` makes a bag for `lfdm cockpit --bag`."""

    def __init__(self, path: str | Path, scenario: Scenario, vehicle: Vehicle) -> None:
        """Raises InputError: the path exists."""
        self._writer = BagWriter(path, recording=scenario.name)
        self._scenario, self._vehicle = scenario, vehicle
        self._cycles: list[tuple[Cycle, Scan | None]] = []
        self._scanned = math.nan  # stamp of the last scan [s]

    def note(self, time: float, cycle: Cycle, scan: Scan | None) -> None:
        """Records a cycle and its scan; for `drive`."""
        self._cycles.append((cycle, scan))

    def write(self, run: Run) -> None:
        """Writes the bag. Raises InputError: the disk refuses."""
        messages, plans, world, shown = VehicleMessages(run.model), PlanMessages({}), self._scenario.world, b""
        period = float(run.times[1]) if len(run.times) > 1 else 1.0
        begin_ns = round(1e9 * period * round(self._scenario.observation_time / period))  # of the run, by the controller's clock
        with self._writer:
            self._write(0, "vehicle/description", description_of(self._vehicle.constants))
            self._write(0, "tf_static", TFMessage(transforms=[
                joint_transform(joint) for joint in joints_of(self._vehicle) if joint.kind == FIXED]))
            self._write(0, "autonomy/markers", self._task())
            for time, outputs, cycle in zip_longest(run.times.tolist(), run.outputs.tolist(), self._cycles):
                time_ns = round(1e9 * time)
                places = b"".join(np.ascontiguousarray(part).tobytes() for part in (*world.circles_at(time), *world.polygons_at(time)))
                if places != shown:
                    picture, shown = Picture(ODOM_FRAME, time_ns), places
                    picture.world(world, time)
                    self._write(time_ns, "world", picture.array)
                messages.fill(time_ns, outputs)
                self._write(time_ns, "vehicle/state", messages.state)
                if cycle is not None:
                    self._write_cycle(time_ns, begin_ns, plans, *cycle)

    def _write_cycle(self, time_ns: int, begin_ns: int, plans: PlanMessages, cycle: Cycle, scan: Scan | None) -> None:
        if scan is not None:
            self._scanned = scan.stamp - 1e-9 * begin_ns
            self._write(time_ns, "scan", scan_message(scan, round(1e9 * scan.stamp) - begin_ns, LIDAR_FRAME, 0.0))
        if cycle.plan is not None:
            plan = plans.fill_plan(begin_ns + time_ns, ODOM_FRAME, cycle.plan)
            set_stamp(plan.header.stamp, time_ns)
            self._write(time_ns, "autonomy/plan", plan)
        command = DriverCommand(**{name: float(value) for name, value in zip(("steering", "throttle", "brake"), cycle.command)})
        set_stamp(command.header.stamp, time_ns)
        self._write(time_ns, "control/command", command)
        status = plans.fill_cycle(time_ns, ODOM_FRAME, cycle, float(cycle.seconds))
        status.reason, status.task, status.distance_to_go = cycle.reason, f"scenario {self._scenario.name}", float(cycle.remaining)
        status.scan_age = 1e-9 * time_ns - self._scanned
        self._write(time_ns, "autonomy/status", status)

    def _task(self) -> MarkerArray:
        picture, scenario = Picture(ODOM_FRAME, 0), self._scenario
        if scenario.path is not None:
            picture.line("route", scenario.path[:, 0], scenario.path[:, 1], 0.1, ROUTE)
        picture.corridor(scenario.lane_edges)
        if scenario.goal is not None:
            picture.goal(scenario.goal)
        return picture.array

    def _write(self, time_ns: int, topic: str, message: Any) -> None:
        kind = type(message)
        self._writer.write_raw(f"/{topic}", f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}", time_ns, serialize_message(message))
