"""The ends of a bridge to hardware on the ROS side: our vehicle, driven by a device, or the link of our controller to a vehicle."""

import struct
import threading
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rosgraph_msgs.msg import Clock

from lfdm_ros.engine.command_hold import Inputs
from lfdm_ros.engine.plant import ActuatedPlant
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.engine.simulated_sensor import SimulatedSensor
from lfdm_ros.errors import InputError
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.hil.faults import Fault, Injector
from lfdm_ros.hil.link import COMMANDS, CONTROLLER, LINK, SIGNALS, VEHICLE, WHEEL_SPEEDS, Link, Packet, Wire, make_link
from lfdm_ros.hil.mirror import Mirror
from lfdm_ros.hil.real_time import RealTimeRequest
from lfdm_ros.hil.realism import Realism
from lfdm_ros.hil.rig import LOCKSTEP, REAL_TIME, Listeners, Pace, Rig
from lfdm_ros.models import WHEELS
from lfdm_ros.msg import DriverCommand, HilFaults, VehicleState
from lfdm_ros.nodes import simulated_vehicle as simulated
from lfdm_ros.nodes.simulated_vehicle import OBSTACLES, GroundWatch, VehicleTopics
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.endpoints import given, publishes, subscribes, unless
from lfdm_ros.ros.grounds import ground_of
from lfdm_ros.ros.messages import BODY_FRAME, ODOM_FRAME, nanoseconds, set_stamp, unmeasured
from lfdm_ros.ros.parameters import vehicle_of
from lfdm_ros.sensors import LIDAR, Lidar, Scan
from lfdm_ros.sensors.ground_rays import Surface
from lfdm_ros.simulation import Pose, World
from lfdm_ros.simulation.actuator import Actuator

ROS = "ros"
_REPEAT = 0.5  # [s] until a first state is published again that nobody has answered
_ROOM = 1000  # commands that may wait
_SCALARS = tuple(name for name in SIGNALS if name not in WHEEL_SPEEDS)

_OURS, _THEIRS = given("role", VEHICLE), given("role", CONTROLLER)
_ON_ROS = _OURS & given("link", ROS)
ENDPOINTS = (
    *simulated.vehicle_endpoints(_OURS, scans=OBSTACLES),
    publishes("measured/state", VehicleState, qos.STATE, "the state as the device gets it", when=_ON_ROS),
    subscribes("control/command", DriverCommand, qos.NEWEST, "the device's", when=_ON_ROS & given("mode", REAL_TIME)),
    subscribes("control/command", DriverCommand, qos.COMMAND, "the device's", when=_ON_ROS & given("mode", LOCKSTEP)),
    publishes("control/command", DriverCommand, qos.COMMAND, "the device's, as it came by the link", when=_OURS & unless("link", ROS)),
    publishes("/clock", Clock, qos.CLOCK, "time of the link", when=_THEIRS & given("own_clock", False), sole=True),
    publishes("vehicle/state", VehicleState, qos.STATE, "the state as the vehicle or bench measures it", when=_THEIRS, sole=True),
    subscribes("control/command", DriverCommand, qos.COMMAND, "for the vehicle or bench", when=_THEIRS),
    publishes("hil/faults", HilFaults, qos.LATCHED, "which faults are active"),
)


def fill_signals(message: VehicleState, packet: Packet) -> None:
    """Puts signals into a state; the rest stays as it is."""
    set_stamp(message.header.stamp, packet.stamp_ns)
    for name in _SCALARS:
        setattr(message, name, packet.values[name])
    speeds = [packet.values[name] for name in WHEEL_SPEEDS]
    message.wheel_speeds[:] = speeds
    message.speed_by_wheel = array("d", speeds)


def signals_message() -> VehicleState:
    """Creates a state with only its frames and wheel names."""
    message = unmeasured()
    message.header.frame_id, message.child_frame_id, message.wheel_names = ODOM_FRAME, BODY_FRAME, list(WHEELS)
    return message


class RosLink:
    """The vehicle's end of a link on ROS. Its messages have no checksum: a bit error is in a value."""

    def __init__(self, publish: Callable[[VehicleState], None]) -> None:
        self.wire = Wire()
        self._publish, self._message = publish, signals_message()
        self._commands: deque[Packet] = deque(maxlen=_ROOM)
        self._come = threading.Condition()
        self._signals, self._inputs = struct.Struct(f"{len(SIGNALS)}d"), struct.Struct(f"{len(COMMANDS)}d")

    def open(self) -> None:
        self._commands.clear()

    def close(self) -> None:
        with self._come:
            self._come.notify_all()

    def send(self, packet: Packet) -> bool:
        data = bytearray(self._signals.pack(*(packet.values[name] for name in SIGNALS)))
        self.wire.sent += 1
        if self.wire.outwards(SIGNALS, data):
            fill_signals(self._message, Packet(packet.stamp_ns, dict(zip(SIGNALS, self._signals.unpack(data)))))
            self._publish(self._message)
        return True

    def on_command(self, command: DriverCommand) -> None:
        """Takes a command, in any thread."""
        data = bytearray(self._inputs.pack(command.steering, command.throttle, command.brake))
        if not self.wire.inwards(COMMANDS, data):
            return
        self.wire.received += 1
        with self._come:
            self._commands.append(Packet(nanoseconds(command.header.stamp), dict(zip(COMMANDS, self._inputs.unpack(data)))))
            self._come.notify_all()

    def receive(self, timeout: float) -> Packet | None:
        with self._come:
            if not self._commands and timeout > 0.0:
                self._come.wait(timeout)
            return self._commands.popleft() if self._commands else None


class _End:
    """One end of the bridge: `core`, with its gate, link, timing and faults, and its publishers."""

    core: Rig | Mirror

    @property
    def values(self) -> dict[str, int]:
        return {}

    @property
    def not_driven(self) -> str:
        """Reason that the device did not drive our vehicle; empty: it did."""
        return ""

    def __init__(self, node: Component) -> None:
        self._node = node
        self._faults_publisher = node.publisher("hil/faults")

    def start(self) -> None:
        """Starts the loop, once the node is active."""
        self.core.start()

    def _publish_faults(self, time_ns: int, active: tuple[Fault, ...]) -> None:
        message = HilFaults(active=[str(fault) for fault in active])
        set_stamp(message.header.stamp, time_ns)
        self._faults_publisher.publish(message)
        self._node.get_logger().warning(f"faults at {1e-9 * time_ns:.3f} s: {', '.join(message.active) or 'none any more'}")


class VehicleEnd(_End):
    """A simulated vehicle that a device drives: the rig and its topics."""

    core: Rig

    def __init__(self, node: Component, realism: Realism, faults: Injector, request: RealTimeRequest, ended: Callable[[str], None]) -> None:
        super().__init__(node)
        value, ground, period = node.value, ground_of(node), 1.0 / node.value("rate")
        self._on_ground = VehicleOnGround(vehicle_of(node, *(f"{name}={change!r}" for name, change in realism.vehicle.items())), ground)
        vehicle = self._on_ground.vehicle
        simulator = simulated.simulator_of(node, vehicle, self._on_ground)
        scenario = simulated.scenario_of(node)
        pose = scenario.initial if scenario else Pose(speed=value("initial_speed"))
        world = scenario.world if scenario else World()
        steps = simulated.steps_in_tick(node, "rate", simulator.dt)
        plant = ActuatedPlant(simulator, steps, Actuator.of(vehicle.actuators), faults.actuators)
        plant.reset(pose, 0.0)
        every = max(1, round(value("rate") / value("publish_rate")))

        self._monitor = RunMonitor(world, vehicle.footprint, simulator.output_index)
        self._topics = VehicleTopics(node, simulator, vehicle, ground)
        self._on_the_map = GroundWatch(node, simulator, ground, scenario, pose)
        surface = Surface.of(None if ground is None else ground.heights)
        self._make_lidar = lambda world: SimulatedSensor(
            Lidar(world, LIDAR.record(value).on(vehicle), value("lidar_seed"), vehicle.lidar, surface), plant.period_ns * every)
        self._lidar: SimulatedSensor[Scan] | None = self._make_lidar(world) if world.obstacles else None

        if value("link") == ROS:
            ros_link = RosLink(node.publisher("measured/state").publish)
            node.subscription("control/command", ros_link.on_command)
            link: Link = ros_link
        else:
            link = make_link(value("link"), VEHICLE, LINK.record(value, period=period, timeout=value("command_timeout")))
        self._command = node.publisher("control/command")  # None: the device says it itself
        self.core = Rig(
            plant, link, simulated.gate_of(node, period),
            Pace(value("mode"), value("policy"), value("wait_limit"), value("on_silence"), _REPEAT if value("link") == ROS else 0.0,
                 value("stop_time"), every, request),
            Listeners(self._publish_state, self._publish_command, self._publish_faults, ended, node.give_up),
            realism=realism, faults=faults)

    @property
    def values(self) -> dict[str, int]:
        return self._on_the_map.values

    @property
    def not_driven(self) -> str:
        return self.core.gate.not_driven(self.core.time)

    def start(self) -> None:
        self._topics.describe()
        super().start()

    def summary(self) -> dict[str, Any]:
        """Returns the run's results by name, for a runner in the same process."""
        core = self.core
        return {"simulated_seconds": core.time, "ticks": core.timing.ticks, "overruns": core.timing.misses,
                "commands_accepted": core.gate.accepted, "commands_rejected": dict(core.gate.rejected), "unanswered": core.unanswered,
                "messages_refused": dict(core.link.wire.refused), "not_driven": self.not_driven,
                "response_times": core.timing.responses.values.tolist(), "lateness": core.timing.lateness.values.tolist(),
                **asdict(self._monitor.verdict)}

    def show(self, world: World) -> None:
        """Sets the world of the LIDAR from the next scan on. Raises InputError: it has no LIDAR."""
        if self._lidar is None:
            raise InputError("there is no LIDAR; give a scenario with obstacles")
        self._lidar = self._make_lidar(world)

    def _publish_state(self, time_ns: int, outputs: Sequence[float]) -> None:
        self._topics.publish(time_ns, outputs, self._lidar)
        self._on_the_map.look(time_ns, outputs)
        for news in self._monitor.update(1e-9 * time_ns, outputs):
            self._node.get_logger().warning(news)

    def _publish_command(self, time_ns: int, inputs: Inputs) -> None:
        if self._command is not None:
            message = DriverCommand(steering=inputs[0], throttle=inputs[1], brake=inputs[2])
            set_stamp(message.header.stamp, time_ns)  # of the state that it answers
            self._command.publish(message)


class ControllerEnd(_End):
    """A vehicle or bench at the other end: its signals are published as the state, and commands on ROS are sent to it."""

    core: Mirror

    def __init__(self, node: Component, faults: Injector, request: RealTimeRequest) -> None:
        super().__init__(node)
        period = 1.0 / node.value("rate")
        if node.value("link") == ROS:
            raise InputError("role controller needs a link to the vehicle: can, udp, or one from outside; on ROS it needs no bridge")
        link = make_link(node.value("link"), CONTROLLER, LINK.record(node.value, period=period, timeout=node.value("command_timeout")))
        self._message = signals_message()
        self._uses_ros_clock = node.value("own_clock")
        self._clock, self._state_publisher = node.publisher("/clock"), node.publisher("vehicle/state")
        self.core = Mirror(link, simulated.gate_of(node, period), period, self._publish_state, on_faults=self._publish_faults,
                           failed=node.give_up, faults=faults, request=request)
        self._stamps: tuple[int, int] = (0, 0)  # of the newest state: on ROS, and by the link
        node.subscription("control/command", self._on_command)

    def summary(self) -> dict[str, Any]:
        """Returns the run's results by name, for a runner in the same process."""
        wire, gate = self.core.link.wire, self.core.gate
        return {"packets_received": wire.received, "packets_sent": wire.sent, "commands_accepted": gate.accepted,
                "commands_rejected": dict(gate.rejected), "messages_refused": dict(wire.refused)}

    def _publish_state(self, time_ns: int, values: Mapping[str, float]) -> None:
        published_ns = self._node.get_clock().now().nanoseconds if self._uses_ros_clock else time_ns
        self._stamps = (published_ns, time_ns)
        if self._clock is not None:
            clock = Clock()
            set_stamp(clock.clock, published_ns)
            self._clock.publish(clock)
        fill_signals(self._message, Packet(published_ns, values))
        self._state_publisher.publish(self._message)

    def _on_command(self, command: DriverCommand) -> None:
        if self._node.state != "active":
            return
        published_ns, time_ns = self._stamps
        stamp_ns = nanoseconds(command.header.stamp)
        if self._uses_ros_clock:  # from the clock of ROS to that of the link
            stamp_ns = max(time_ns + stamp_ns - published_ns, 0) if stamp_ns else 0
        if not self.core.command((command.steering, command.throttle, command.brake), stamp_ns):
            self._node.get_logger().warning(f"command refused, {self.core.gate.last_rejection}", throttle_duration_sec=1.0)
