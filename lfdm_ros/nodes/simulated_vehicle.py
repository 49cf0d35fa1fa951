"""A simulated vehicle on the graph: its parts by a node's parameters, and its topics."""

from collections.abc import Collection, Sequence
from typing import Any

from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState, LaserScan

from lfdm_ros.bounds import BOUNDS
from lfdm_ros.engine.command_hold import CommandHold
from lfdm_ros.engine.simulated_sensor import SimulatedSensor
from lfdm_ros.errors import InputError
from lfdm_ros.ground.ground_file import GroundDescription
from lfdm_ros.ground.vehicle_on_ground import SOFT_TYRE, Edges, VehicleOnGround
from lfdm_ros.models import SLOTS, model_names
from lfdm_ros.msg import VehicleDescription, VehicleState
from lfdm_ros.plants.plant import AnySimulator
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.endpoints import Endpoint, When, publishes
from lfdm_ros.ros.grounds import GroundTopics, ground_endpoints
from lfdm_ros.ros.message_fields import filled
from lfdm_ros.ros.messages import LIDAR_FRAME, VehicleMessages, description_of, scan_message, set_stamp
from lfdm_ros.ros.parameters import SCENARIO_SEED, Parameter, seed_of
from lfdm_ros.ros.topics import interface_class
from lfdm_ros.sensors import LIDAR, Scan, SensorScene, make_sensors
from lfdm_ros.sensors.ground_rays import Surface
from lfdm_ros.simulation import Pose, Simulator, World, load_scenario
from lfdm_ros.simulation.scenario import Scenario
from lfdm_ros.vehicles import Vehicle

MODEL = Parameter("model", "eight_dof", "name of a vehicle model", choices=model_names)
TYRE = Parameter("tyre", "", "name of a tyre model; empty: the vehicle's own", choices=lambda: ("", *SLOTS["tyre"]))
PHYSICS_STEP = Parameter("physics_step", 0.001, "fixed step of the integrator", 1e-5, 0.1, unit="s")
START = (
    Parameter("initial_speed", 0.0, "initial forward speed", *BOUNDS["speed"].range, unit="m/s"),
    Parameter("scenario", "", "take the initial pose and speed, and the obstacles, from this scenario instead; empty: no"),
    SCENARIO_SEED)
SCANS = (*LIDAR.parameters, Parameter("lidar_seed", 1, "seed of noise and drop-out", 0, 2**31 - 1))
STOP_TIME = Parameter("stop_time", 0.0, "simulated time at which to end the run; 0: never", 0.0, 1e9, unit="s")
TIMEOUT = (
    Parameter("timeout_brake", 0.5, "brake pedal at the end of the ramp", 0.0, 1.0, unit="1"),
    Parameter("timeout_ramp", 1.0, "length of the brake ramp", 0.0, 100.0, unit="s"))


def scenario_of(node: Component) -> Scenario | None:
    """Returns the scenario that the node's parameters name, if any. Raises InputError as `load_scenario`."""
    name = node.value("scenario")
    return load_scenario(name, seed_of(node.value("scenario_seed"))) if name else None


def simulator_of(node: Component, vehicle: Vehicle, on_ground: VehicleOnGround) -> Simulator:
    """Makes our simulator by the node's parameters model, physics_step, tyre and by the ground; its compiled kernels are loaded, so that
    the first tick is as quick as the others. Raises InputError as Simulator does."""
    model = node.value("model")
    simulator = Simulator(vehicle, model, node.value("physics_step"), on_ground.tyre(model, node.value("tyre") or None))
    simulator.advance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1)
    simulator.outputs  # noqa: B018
    simulator.reset()
    return simulator


def gate_of(node: Component, period: float) -> CommandHold:
    """Makes the gate of commands by the node's parameters; nothing times out within a period [s]."""
    return CommandHold(timeout=max(node.value("command_timeout"), period), timeout_ramp=node.value("timeout_ramp"),
                       timeout_brake=node.value("timeout_brake"))


def steps_in_tick(node: Component, rate: str, physics_step: float) -> int:
    """Returns the number of physics steps [s] in a tick; rate: name of the parameter that is the ticks a second [Hz]. Raises InputError: a
    tick is no whole number of steps, or a step none of nanoseconds."""
    hertz = node.value(rate)
    steps = 1.0 / (physics_step * hertz)
    if round(steps) < 1 or abs(steps - round(steps)) > 1e-9 * steps:
        raise InputError(f"{rate} {hertz:g} Hz is not a whole number of physics steps of {physics_step:g} s; "
                         f"for example {1.0 / (physics_step * max(1, round(steps))):g} Hz is")
    if abs(physics_step * 1e9 - round(physics_step * 1e9)) > 1e-3:
        raise InputError(f"physics_step {physics_step!r} s is not a whole number of nanoseconds")
    return round(steps)


SCAN = "scan"  # name of the LIDAR among the sensors that are withheld or disturbed: its topic
OBSTACLES = When("a `scenario` with obstacles", lambda value: bool(value("scenario")) and bool(
    load_scenario(value("scenario"), seed_of(value("scenario_seed"))).world.obstacles))


def vehicle_endpoints(when: When, scans: When) -> tuple[Endpoint, ...]:
    """Returns the endpoints of `VehicleTopics`."""
    return (
        publishes("/clock", Clock, qos.CLOCK, "simulated time", when=when, sole=True),
        *ground_endpoints(when),
        publishes("vehicle/description", VehicleDescription, qos.LATCHED, "the vehicle's constants: wheelbase, full lock, outline",
                  when=when),
        publishes("odom", Odometry, qos.STATE, "pose and velocity, exact", when=when),
        publishes("imu", Imu, qos.STATE, "the IMU's measurement at its mount, exact", when=when),
        publishes("joint_states", JointState, qos.STATE, "turning and steered wheels", when=when),
        publishes("scan", LaserScan, qos.STATE, "the simulated LIDAR's", when=when & scans),
        publishes("vehicle/state", VehicleState, qos.STATE, "all states and outputs of the model, exact", when=when, sole=True))


class GroundWatch:
    """Monitor of a vehicle on its map: warns in the log and counts for /diagnostics."""

    def __init__(self, node: Component, simulator: AnySimulator, ground: GroundDescription | None, scenario: Scenario | None,
                 pose: Pose) -> None:
        """Warns of effects neglected by the map or the model. Raises InputError: the vehicle starts off the map."""
        self._node, self._edges = node, None if ground is None else Edges(simulator.vehicle, ground)
        self._pose = [simulator.output_index[name] for name in ("x", "y", "yaw")]
        if ground is None:
            return
        ground.require_start(pose.x, pose.y)
        left = ground.left_at(scenario.path if scenario else None)
        firm = f"{simulator.model.name} meets the soil as friction and resistance; tyre {SOFT_TYRE} knows it"
        for news in filter(None, (left, firm if ground.soils and "/soil_map" not in simulator.model.name else "")):
            node.get_logger().warning(news)

    def look(self, time_ns: int, outputs: Sequence[float]) -> None:
        """Checks the outputs of a time [ns]."""
        if self._edges is not None and self._edges.look(*(outputs[i] for i in self._pose)):
            self._node.get_logger().warning(f"off the map of the ground since {1e-9 * time_ns:.2f} s: its nearest point holds")

    @property
    def values(self) -> dict[str, int]:
        edges = self._edges
        return {} if edges is None else {"ground.states_off_the_map": edges.states, "ground.wheels_off_the_map": edges.wheels}


def scene_of(world: World, ground: GroundDescription | None, scenario: Scenario | None) -> SensorScene:
    """Returns the surroundings as sensors see them: obstacles, heights, friction or soil, and the edges of the scenario's lane as lines."""
    lines = scenario.lane_edges if scenario else ()
    if ground is None:
        return SensorScene(world, lines=lines)
    grid, soils = ground.field.grid, ground.soils
    return SensorScene(world, Surface.of(ground.heights), (grid.x, grid.y, grid.xs[-1], grid.ys[-1]), ground.field.friction_at,
                       None if soils is None else soils.number_at, lines)


class SensorTopics:
    """The sensors of a vehicle's file, each on the topics below sensors/NAME in the frame NAME; false without any. Without subscribers
    a topic gets no messages, and a sensor does not measure."""

    def __init__(self, node: Component, vehicle: Vehicle, surroundings: SensorScene, names: Sequence[str], tick_ns: int) -> None:
        """Makes sensors and publishers; `names`: of the model's outputs. Raises InputError as `make_sensors` and `SimulatedSensor` do."""
        self._names, self._sensors, self._constructor_arguments = tuple(names), [], (vehicle, surroundings)
        for name, (kind, sensor) in make_sensors(vehicle, surroundings).items():
            feed: SimulatedSensor[Any] = SimulatedSensor(sensor, tick_ns, f"sensors.{name}: rate")
            classes = [(message, interface_class(message.type)) for message in kind.messages]
            self._sensors.append((name, feed, [(message, of_class, node.make_publisher(
                f"sensors/{name}{message.suffix}", of_class, qos.reliable(message.depth))) for message, of_class in classes]))

    def __bool__(self) -> bool:
        return bool(self._sensors)

    def disturb(self, names: Collection[str]) -> None:
        """Degrades exactly these sensors, as a fault. Raises InputError: one cannot be disturbed."""
        sensors = make_sensors(*self._constructor_arguments, names)
        for name, feed, _ in self._sensors:
            feed.sensor = sensors[name][1]

    def reset(self, origin_ns: int) -> None:
        """Discards pending measurements; the world restarts at `origin_ns`."""
        for _, feed, _ in self._sensors:
            feed.reset(origin_ns)

    def publish(self, time_ns: int, outputs: Sequence[float], x: float, y: float, yaw: float, roll: float, pitch: float,
                withheld: Collection[str]) -> None:
        """Publishes the measurements that arrive at a tick, for the current pose [m, rad] and attitude [rad], except withheld ones."""
        by_name = dict(zip(self._names, outputs))
        for name, feed, outlets in self._sensors:
            def is_requested(outlets: list[Any] = outlets, withheld: bool = name in withheld) -> bool:
                return not withheld and any(publisher.get_subscription_count() for _, _, publisher in outlets)

            for stamp_ns, measurement in feed.arrivals(time_ns, x, y, yaw, roll, pitch, by_name, is_requested):
                for outlet, of_class, publisher in outlets:
                    if not publisher.get_subscription_count():
                        continue
                    message = filled(of_class, outlet.fields(measurement), name)
                    if hasattr(message, "header"):
                        message.header.frame_id = name + outlet.frame
                        set_stamp(message.header.stamp, stamp_ns)
                    publisher.publish(message)


class VehicleTopics:
    """Publishers of a simulated vehicle: /clock, odom, imu, joint_states, scan if it has a LIDAR, vehicle/state.

    Attributes:
        freezes_state: a fault on purpose: all but clock and scan keep their values, with new stamps.
        withheld: a fault on purpose: names of sensors that publish nothing; SCAN: of the LIDAR.
    """

    def __init__(self, node: Component, simulator: AnySimulator, vehicle: Vehicle, ground: GroundDescription | None = None,
                 sensors: SensorTopics | None = None) -> None:
        self._messages = VehicleMessages(simulator.model, vehicle.imu)
        self._pose, self._tilt = ([simulator.output_index[name] for name in names] for names in (("x", "y", "yaw"), ("roll", "pitch")))
        # The roll of models that do not pitch is against the ground that they stand on.
        pitches = any(field.name == "pitch" for field in simulator.model.states)
        self._slopes = None if ground is None or pitches else ground.heights
        self._clock, self._odometry, self._imu = (node.publisher(topic) for topic in ("/clock", "odom", "imu"))
        self._joints, self._state = node.publisher("joint_states"), node.publisher("vehicle/state")
        self._constants, self._description = vehicle.constants, node.publisher("vehicle/description")
        self._ground, self._sensors = GroundTopics(node, ground), sensors
        self._scan = node.publisher("scan")  # None: there is no LIDAR
        self.freezes_state, self.withheld = False, frozenset[str]()
        self._reported: Sequence[float] = ()

    def describe(self) -> None:
        """Publishes the vehicle's constants and its ground, once, when the node is active."""
        if self._description is not None:
            self._description.publish(description_of(self._constants))
        self._ground.publish()

    def publish(self, time_ns: int, outputs: Sequence[float], lidar: SimulatedSensor[Scan] | None) -> None:
        """Publishes the outputs at a time [ns], and the scans that have arrived."""
        messages = self._messages
        if not (self.freezes_state and self._reported):
            self._reported = outputs
        messages.fill(time_ns, self._reported)
        # Time first, so that messages stamped on receiving the state are not older than the state.
        self._clock.publish(messages.clock)
        self._odometry.publish(messages.odometry)
        self._imu.publish(messages.imu)
        self._joints.publish(messages.joints)
        if self._scan is None:
            lidar = None
        if lidar is not None or self._sensors:
            x, y, yaw = (outputs[i] for i in self._pose)
            roll, pitch = (outputs[i] for i in self._tilt)
            if self._slopes is not None:
                by_ground = self._slopes.attitude(x, y, yaw)
                roll, pitch = roll + by_ground[0], pitch + by_ground[1]
            if lidar is not None:
                for stamp_ns, scan in lidar.arrivals(time_ns, x, y, yaw, roll, pitch):
                    if SCAN not in self.withheld:
                        self._scan.publish(scan_message(scan, stamp_ns, LIDAR_FRAME, 1e-9 * lidar.period_ns))
            if self._sensors:
                self._sensors.publish(time_ns, outputs, x, y, yaw, roll, pitch, self.withheld)
        # Last, because in lockstep its answer starts the next tick.
        self._state.publish(messages.state)
