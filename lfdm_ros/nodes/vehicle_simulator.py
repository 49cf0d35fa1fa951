"""The vehicle simulator node: a vehicle model in closed loop with ROS, in real time, faster, or in lockstep with its driver."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from builtin_interfaces.msg import Time
from std_srvs.srv import SetBool
from visualization_msgs.msg import MarkerArray

from lfdm_ros.bounds import BOUNDS
from lfdm_ros.engine.run_monitor import RunMonitor, RunVerdict
from lfdm_ros.engine.simulated_sensor import SimulatedSensor
from lfdm_ros.engine.stepping import FREE_RUNNING, LOCKSTEP, Status, Stepper
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.ground import FrictionField, FrictionLink
from lfdm_ros.ground.ground_file import GroundDescription
from lfdm_ros.ground.maps import FieldTable
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.msg import DriverCommand, Posterior, SimulatorStatus
from lfdm_ros.nodes import simulated_vehicle as simulated
from lfdm_ros.nodes.simulated_vehicle import OBSTACLES, SCAN
from lfdm_ros.plants.checks import check_plant
from lfdm_ros.plants.plant import AnySimulator, PlantSimulator
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Component, Diagnosis, while_active
from lfdm_ros.ros.endpoints import ALWAYS, When, given, publishes, serves, subscribes
from lfdm_ros.ros.grounds import GROUND, GROUND_SEED, ground_of
from lfdm_ros.ros.markers import Picture
from lfdm_ros.ros.messages import ODOM_FRAME, nanoseconds, set_stamp, stamp_of
from lfdm_ros.ros.parameters import VEHICLE, VEHICLE_CHANGES, Parameter, vehicle_of
from lfdm_ros.ros.posteriors import calibrated
from lfdm_ros.sensors import LIDAR, Lidar, Scan
from lfdm_ros.sensors.ground_rays import Surface
from lfdm_ros.sensors.standard import LIDAR_TYPE
from lfdm_ros.simulation import Pose, SimulationDiverged, World
from lfdm_ros.simulation.actuator import Actuator
from lfdm_ros.srv import Reset, Step
from lfdm_ros.vehicles import Vehicle
from lfdm_ros.vehicles.body import MOVED

_REPORT_WAITING = 1.0  # [s] of the wall clock, in lockstep
# Faults on purpose, and how each reads.
FAULTS = {"freeze_state": "the state is frozen", "withheld_sensors": "nothing from {}", "disturbed_sensors": "{} disturbed",
          "imposed_friction": "friction {:g} everywhere"}
_ICE = FrictionLink(0.001, 1.5)
_OWN_MODEL = When("no `plant`", lambda value: not value("plant"))


class VehicleSimulator(Component):
    """A simulated vehicle with /clock, driven by commands."""

    NAME = "vehicle_simulator"
    PARAMETERS = (
        VEHICLE, VEHICLE_CHANGES, GROUND, GROUND_SEED,
        simulated.MODEL,
        Parameter("plant", "", "drive a vehicle that others simulate, instead of `model`, `tyre` and `physics_step`: a plant file, an "
                               "FMU, or a registered plant (docs/howto/plants.md); empty: no"),
        simulated.TYRE, simulated.PHYSICS_STEP,
        Parameter("publish_rate", 100.0, "states published per simulated second; a whole number of physics steps apart",
                  0.1, 10_000.0, unit="Hz"),
        Parameter("stepping", FREE_RUNNING, "free_running: by the wall clock; lockstep: a tick when its command has come",
                  choices=(FREE_RUNNING, LOCKSTEP)),
        Parameter("speed_factor", 1.0, "simulated seconds per wall second; 0: as fast as possible", 0.0, 1e6, live=True, unit="1"),
        Parameter("initial_x", 0.0, "initial position", *BOUNDS["x"].range, unit="m"),
        Parameter("initial_y", 0.0, "initial position", *BOUNDS["y"].range, unit="m"),
        Parameter("initial_yaw", 0.0, "initial heading, positive to the left", *BOUNDS["yaw"].range, unit="rad"),
        *simulated.START,
        Parameter("answer_timeout", 0.0, "wall-clock time without a command for a state after which a lockstep run ends as failed; 0: "
                                         "never", 0.0, 1e6, unit="s"),
        Parameter("command_timeout", 0.5, "simulated time without a good command until throttle 0 and the brake ramp; "
                                          "a command stamped longer ago is stale", 0.001, 1e6, unit="s"),
        *simulated.TIMEOUT,
        Parameter("take_posterior", True, "drive by the posterior on the topic posterior, if it is of this vehicle and model"),
        Parameter("actuators", True, "commands act through the vehicle's actuators; false: at once and in full, as what was measured at "
                                     "the vehicle does"),
        Parameter("lidar", False, "publish scans although the scenario has no obstacles"),
        *simulated.SCANS,
        Parameter("freeze_state", False, "a fault on purpose: states, odometry and IMU keep their values, with new stamps", live=True),
        Parameter("withheld_sensors", [], "a fault on purpose: sensors that publish nothing, by their names in the vehicle's file; scan: "
                                          "the LIDAR", live=True),
        Parameter("disturbed_sensors", [], "a fault on purpose: sensors that measure poorly, likewise: noise, lost beams, false alarms",
                  live=True),
        Parameter("imposed_friction", 0.0, "a fault on purpose: friction everywhere, over that of the vehicle's own road; 0: as the ground "
                                           "says", 0.0, 1.0, live=True, unit="1"),
        simulated.STOP_TIME,
    )
    MOVED = MOVED | {"throttle_rate": "throttle_rate", "brake_rate": "brake_rate"}
    ENDPOINTS = (
        *simulated.vehicle_endpoints(
            ALWAYS, scans=When(f"`lidar`, or {OBSTACLES.text}", lambda value: value("lidar") or OBSTACLES.holds(value))),
        publishes("world", MarkerArray, qos.LATCHED, "the scenario's obstacles, for RViz", when=OBSTACLES),
        publishes("simulator/status", SimulatorStatus, qos.STATUS, "pace, overruns, collisions, lifted wheels"),
        subscribes("control/command", DriverCommand, qos.NEWEST, "the vehicle's commands", in_lockstep=qos.COMMAND),
        subscribes("posterior", Posterior, qos.LATCHED, "parameters to drive by", when=given("take_posterior") & _OWN_MODEL),
        serves("~/pause", SetBool, "stop simulated time, or let it go on"),
        serves("~/step", Step, "some ticks while it is paused"),
        serves("~/reset", Reset, "put the vehicle somewhere"),
    )

    def configure(self) -> None:
        plain, ground = vehicle_of(self), ground_of(self)
        self._on_ground = VehicleOnGround(plain, ground)
        vehicle = self._on_ground.vehicle
        simulator: AnySimulator = (self._open_plant(vehicle) if self.value("plant")
                                   else simulated.simulator_of(self, vehicle, self._on_ground))
        if simulator.dt > simulator.model.largest_step:
            self.get_logger().warning(f"{simulator.model.name} needs a physics_step of at most {simulator.model.largest_step:g} s")
        manoeuvre = simulated.scenario_of(self)
        if manoeuvre:
            pose, self._world = manoeuvre.initial, manoeuvre.world
        else:
            pose, self._world = Pose(*(self.value(f"initial_{name}") for name in ("x", "y", "yaw", "speed"))), World()
        steps, self._physics_step = simulated.steps_in_tick(self, "publish_rate", simulator.dt), simulator.dt
        tick_ns = round(simulator.dt * 1e9) * steps
        simulator.reset(x=pose.x, y=pose.y, yaw=pose.yaw, vx=pose.speed)
        self._start, self._origin_ns = pose, 0

        self._vehicle, self._model_name = vehicle, simulator.model.name
        # By posteriors, wherever it drives; a plant of others by none.
        self._learned = "" if self.value("plant") else plain.spec(self.value("model"), self.value("tyre") or None)
        self._posterior_version, self._posterior_refused, self._driven = 0, "", vehicle
        self._faults: dict[str, str] = {}
        self._on_the_map = simulated.GroundWatch(self, simulator, ground, manoeuvre, pose)
        self._lidar = self._make_lidar(vehicle, ground, tick_ns)
        self._monitor = RunMonitor(self._world, vehicle.footprint, simulator.output_index)
        self._gate = simulated.gate_of(self, 1.0 / self.value("publish_rate"))
        self._stepper = Stepper(
            simulator, steps, self.value("stepping"), self._gate, self._publish, speed_factor=self.value("speed_factor"),
            stop_time=self.value("stop_time"), ended=self._end, has_driver=lambda: self._command.get_publisher_count() > 0,
            actuator=Actuator.of(vehicle.actuators) if self.value("actuators") else None,
            answer_timeout=self.value("answer_timeout"), deserted=lambda waited: self.give_up(
                f"no command for the state of {self._stepper.time:g} s in {waited:.1f} s; {self._drivers()}"), failed=self.give_up)

        surroundings = simulated.scene_of(self._world, ground, manoeuvre)
        self._sensors = simulated.SensorTopics(self, vehicle, surroundings, list(simulator.output_index), tick_ns)
        self._topics = simulated.VehicleTopics(self, simulator, vehicle, ground, self._sensors)
        self._ice: FieldTable | None = None
        for name in FAULTS:
            self._set_fault(name, self.value(name))
        self._status_publisher, self._world_publisher = self.publisher("simulator/status"), self.publisher("world")
        self._command = self.subscription("control/command", self._on_command)
        self.connect({"posterior": self._on_posterior, "~/pause": self._on_pause, "~/step": self._on_step, "~/reset": self._on_reset})
        self.every(0.5, self._publish_status)
        self.every(_REPORT_WAITING, self._report_waiting)
        self.get_logger().info(
            f"{vehicle.name}, {self._model_name}, {self.value('stepping')}, step {1e3 * simulator.dt:g} ms, "
            f"{self.value('publish_rate'):g} Hz")

    def _open_plant(self, vehicle: Vehicle) -> PlantSimulator:
        """Opens an external plant, simulates it for some seconds and warns of errors in its mapping. Raises InputError: it cannot be
        opened, or a parameter is of our own simulation alone."""
        if given := [name for name in ("ground", "imposed_friction") if self.value(name)]:
            raise InputError(f"{given[0]}: the plant {self.value('plant')} has a ground of its own; leave it out")
        plant = open_plant(self.value("plant"), vehicle)
        for finding in check_plant(plant):
            (self.get_logger().debug if finding.ok else self.get_logger().warning)(f"{plant.name}: {finding.text}")
        return plant

    def _make_lidar(self, vehicle: Vehicle, ground: GroundDescription | None, tick_ns: int) -> SimulatedSensor[Scan] | None:
        if not self._world.obstacles and not self.value("lidar"):
            return None
        surface = Surface.of(None if ground is None else ground.heights)

        def scanner(disturbed: bool) -> Lidar:
            settings = LIDAR.record(self.value).on(vehicle)
            return Lidar(self._world, LIDAR_TYPE.disturbed(settings) if disturbed else settings, self.value("lidar_seed"), vehicle.lidar,
                         surface)

        self._scanner = scanner
        return SimulatedSensor(scanner(disturbed=False), tick_ns)

    def activate(self) -> None:
        self._topics.describe()
        self._stepper.start()

    def deactivate(self) -> None:
        self._stepper.stop()
        self._publish_status()  # the last word of a bag
        if self._not_driven:
            self.fail(self._not_driven)

    def parameter_changed(self, name: str, value: Any) -> None:
        if name == "speed_factor":
            self._stepper.set_speed_factor(value)
        elif name in FAULTS:
            self._set_fault(name, value)

    def _set_fault(self, name: str, value: Any) -> None:
        """Begins or ends a fault on purpose, by its parameter. Raises InputError: it cannot be."""
        if name == "imposed_friction" and value and self.value("plant"):
            raise InputError(f"{name}: the plant {self.value('plant')} has a ground of its own")
        if name.endswith("_sensors"):
            names = [*([SCAN] if self._lidar is not None else []), *self._vehicle.sensors]
            for sensor in value:
                if sensor not in names:
                    raise InputError(f"{name}: no sensor {quote(sensor)} here{suggest(sensor, names, 'there are: ')}")
        if name == "imposed_friction":
            before, self._ice = self._ice, FieldTable(FrictionField.uniform(value, _ICE)) if value else None
            if self._ice is not before:  # which lives as long as its vehicle
                self._drive(self._driven)
        elif name == "freeze_state":
            self._topics.freezes_state = bool(value)
        elif name == "withheld_sensors":
            self._topics.withheld = frozenset(value)
        else:
            self._sensors.disturb(value)
            if self._lidar is not None:
                self._lidar.sensor = self._scanner(disturbed=SCAN in value)
        shown = ", ".join(value) if isinstance(value, list) else value
        self._faults[name] = FAULTS[name].format(shown) if value else ""

    def _drive(self, vehicle: Vehicle) -> None:
        """Continues with a vehicle of the same model, on the imposed friction, if any. Raises InputError, SimulationDiverged: as
        `Simulator`; the vehicle is unchanged."""
        there = vehicle if self._ice is None else vehicle.replace(source="imposed_friction", friction_field=self._ice.number)
        self._stepper.swap(simulated.simulator_of(self, there, self._on_ground))
        self._driven = vehicle

    @property
    def _not_driven(self) -> str:
        return self._gate.not_driven(self._stepper.time)

    @property
    def simulated(self) -> Vehicle:
        return self._stepper.vehicle

    def summary(self) -> dict[str, Any]:
        status = self._stepper.status()
        return {"simulated_seconds": 1e-9 * status.time_ns, "ticks": status.ticks, "overruns": status.overruns,
                "speed_factor_asked": status.speed_factor_asked, "held_back": status.held_back, "not_driven": self._not_driven,
                "commands_accepted": self._gate.accepted, "commands_rejected": dict(self._gate.rejected),
                "response_times": list(self._stepper.response_times), "lateness": self._stepper.lateness, **asdict(self._monitor.verdict)}

    def _publish(self, time_ns: int, outputs: Sequence[float]) -> None:
        """Publishes the outputs of a tick, in the stepper's thread."""
        self._topics.publish(time_ns, outputs, self._lidar)
        self._on_the_map.look(time_ns, outputs)
        for news in self._monitor.update(1e-9 * time_ns, outputs):
            self.get_logger().warning(news)

    def _on_command(self, command: DriverCommand) -> None:
        if not self._stepper.command((command.steering, command.throttle, command.brake), nanoseconds(command.header.stamp)):
            self.get_logger().warning(f"command refused, {self._gate.last_rejection}", throttle_duration_sec=1.0)

    def _on_posterior(self, posterior: Posterior) -> None:
        try:
            self._drive(calibrated(self._vehicle, self._learned, posterior))
        except (InputError, SimulationDiverged) as error:  # the vehicle goes on as it was
            self._posterior_refused = str(error)
            self.get_logger().error(f"not taken over: {error}")
        else:
            self._posterior_version, self._posterior_refused = posterior.posterior_version, ""
            self.get_logger().info(f"drives by posterior {posterior.posterior_version}: " + ", ".join(
                f"{name} {value:.5g} {unit}" for name, value, unit in zip(
                    posterior.target_names, posterior.target_values, posterior.target_units)) if posterior.posterior_version
                else f"drives by the file of {self._vehicle.name}")

    def _on_pause(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        self._stepper.pause(request.data)
        response.success, response.message = True, "paused" if request.data else "running"
        return response

    def _on_step(self, request: Step.Request, response: Step.Response) -> Step.Response:
        self.respond(response, lambda: (True, self._stepper.step(request.ticks)))
        set_stamp(response.time, self._stepper.time_ns)
        return response

    def _on_reset(self, request: Reset.Request, response: Reset.Response) -> Reset.Response:
        def reset() -> tuple[bool, str]:
            requested = Pose(request.x, request.y, request.yaw, request.speed)
            self._stepper.reset(self._start if requested == Pose() else requested, self._forget)
            return True, f"reset; simulated time is {self._stepper.time:g} s"

        return self.respond(response, reset)

    def _forget(self, time_ns: int) -> None:
        """Begins another run at a time [ns], from another place."""
        self._origin_ns = time_ns
        self._monitor.reset(1e-9 * time_ns)
        self._sensors.reset(time_ns)
        if self._lidar is not None:
            self._lidar.reset(time_ns)

    def _end(self, reason: str) -> None:
        self._publish_status()  # before a recorder ends
        self.stop_requested(reason)

    def _report_waiting(self) -> None:
        if waits := self._waits(self._stepper.status()):
            self.get_logger().warning(waits)

    def _waits(self, status: Status) -> str:
        """Returns a line on the command that lockstep has missed for a while, and on its publishers; else empty."""
        if self.state != "active" or status.waited < _REPORT_WAITING:
            return ""
        return f"waiting for the command that answers the state of {1e-9 * status.time_ns:g} s, {status.waited:.0f} s; {self._drivers()}"

    def _drivers(self) -> str:
        publishers = self.get_publishers_info_by_topic(self._command.topic_name)
        return f"{self._command.topic_name} is published by " + (", ".join(sorted(p.node_name for p in publishers)) or "nobody")

    def stamp(self) -> Time:
        return stamp_of(self._stepper.time_ns if self.state in ("inactive", "active") else 0)

    def _publish_status(self) -> None:
        status = self._stepper.status()
        message = SimulatorStatus(
            model=self._model_name, vehicle=self._vehicle.name, stepping=self.value("stepping"), paused=status.paused,
            speed_factor_asked=status.speed_factor_asked, speed_factor_reached=status.speed_factor_reached,
            slowed_by=status.slowed_by, held_back=status.held_back, physics_step=self._physics_step, ticks=status.ticks,
            overruns=status.overruns, commands_rejected=self._gate.rejections, posterior_version=self._posterior_version,
            posterior_refused=self._posterior_refused, command_timed_out=status.timed_out, not_driven=self._not_driven,
            **asdict(self._monitor.verdict))
        message.header.frame_id = ODOM_FRAME
        set_stamp(message.header.stamp, status.time_ns)
        self._status_publisher.publish(message)
        if self._world_publisher is not None:
            picture = Picture(ODOM_FRAME, status.time_ns)
            picture.world(self._world, 1e-9 * (status.time_ns - self._origin_ns))
            self._world_publisher.publish(picture.array)

    @while_active
    def diagnose(self) -> Diagnosis:
        status, gate = self._stepper.status(), self._gate
        level, summary = _health(status, gate.accepted, self._monitor.verdict)
        if faults := ", ".join(filter(None, self._faults.values())):
            level, summary = (WARN if level == OK else level), f"ON PURPOSE: {faults}; {summary}"
        if level == OK and (waits := self._waits(status)):
            level, summary = WARN, waits
        values = {
            "time": status.time_ns * 1e-9, "ticks": status.ticks, "overruns": status.overruns,
            "speed_factor_asked": status.speed_factor_asked, "commands_accepted": gate.accepted,
            **{f"commands_rejected.{reason}": count for reason, count in gate.rejected.items()},
            "last_rejection": gate.last_rejection, "posterior_version": self._posterior_version,
            "posterior_refused": self._posterior_refused, **self._on_the_map.values, **asdict(self._monitor.verdict)}
        if new := self.increase("rejections", gate.rejections):
            text = f"{new} commands refused, the last one {gate.last_rejection}"
            level, summary = (WARN, text) if level == OK else (level, f"{summary}; {text}")
        elif self._posterior_refused and level == OK:
            level, summary = WARN, f"posterior not taken over: {self._posterior_refused}"
        return level, summary, values


def _health(status: Status, accepted: int, verdict: RunVerdict) -> tuple[bytes, str]:
    """Returns level and one line, the worst first."""
    if status.diverged:
        return ERROR, status.diverged
    if status.timed_out:
        return WARN, "no commands any more, braking" if accepted else "no command yet, braking"
    if verdict.collisions:
        count_text = "collision" if verdict.collisions == 1 else f"{verdict.collisions} collisions, the first"
        return WARN, f"{count_text} with {verdict.first_collision} at {verdict.first_collision_time:.2f} s"
    if status.paused:
        return OK, "paused"
    if status.waiting:
        return OK, "waiting for the command that answers the last state"
    return OK, "running"
