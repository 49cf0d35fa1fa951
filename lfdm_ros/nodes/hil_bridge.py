"""The bridge to hardware: our vehicle for a controller at the other end of a link, or our controller for a vehicle or a bench there."""

from array import array
from collections import Counter
from typing import Any

from builtin_interfaces.msg import Time

from lfdm_ros.errors import InputError
from lfdm_ros.hil.e2e import INVALID, VALID, format_address
from lfdm_ros.hil.faults import Fault, Injector, load_faults
from lfdm_ros.hil.link import CONTROLLER, LINK, LINKS, VEHICLE
from lfdm_ros.hil.mirror import Mirror
from lfdm_ros.hil.real_time import EDGES, POLICIES, SKIP, RealTimeRequest, parse_cores, tidy
from lfdm_ros.hil.realism import Realism, load_realism
from lfdm_ros.hil.rig import END, GO_ON, LOCKSTEP, REAL_TIME, SILENT, UP, WAITING, Rig
from lfdm_ros.msg import HilStatus
from lfdm_ros.nodes.hil_ends import ENDPOINTS, ROS, ControllerEnd, VehicleEnd
from lfdm_ros.nodes.simulated_vehicle import MODEL, PHYSICS_STEP, SCANS, START, STOP_TIME, TIMEOUT, TYRE
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import ERROR, OK, WARN, Component, Diagnosis, while_active
from lfdm_ros.ros.endpoints import publishes, serves
from lfdm_ros.ros.grounds import GROUND, GROUND_SEED
from lfdm_ros.ros.messages import set_stamp, stamp_of
from lfdm_ros.ros.parameters import VEHICLE as VEHICLE_NAME
from lfdm_ros.ros.parameters import VEHICLE_CHANGES, Parameter
from lfdm_ros.simulation import World
from lfdm_ros.srv import InjectFault

_STATUS_PERIOD = 0.5  # [s] of the wall clock


class HilBridge(Component):
    """Hardware in the loop, docs/howto/hil.md."""

    NAME = "hil_bridge"
    PARAMETERS = (
        Parameter("role", VEHICLE, "vehicle: the device drives our vehicle; controller: a vehicle or a bench is driven by our nodes",
                  choices=(VEHICLE, CONTROLLER)),
        Parameter("link", "can", "to the other end; ros: measured/state and control/command", choices=lambda: (ROS, *LINKS)),
        Parameter("mode", REAL_TIME, "real_time: by the steady clock; lockstep: a tick when the device has answered the one before",
                  choices=(REAL_TIME, LOCKSTEP)),
        Parameter("rate", 100.0, "of the loop; a whole number of physics steps", 1.0, 10_000.0, unit="Hz"),
        Parameter("publish_rate", 100.0, "states published a simulated second, at most those of the loop", 0.1, 10_000.0, unit="Hz"),
        Parameter("policy", SKIP, "real time, after a missed deadline. " + "; ".join(f"{name}: {text}" for name, text in POLICIES.items()),
                  choices=tuple(POLICIES)),
        Parameter("wait_limit", 1.0, "lockstep: wall-clock time that the device's answer may take", 0.001, 3600.0, unit="s"),
        Parameter("on_silence", GO_ON, "lockstep, after that. go_on: with the command before, until command_timeout; stop: the run ends as "
                                       "failed", choices=(GO_ON, END)),
        Parameter("priority", 0, "of the loop's thread under SCHED_FIFO, where that is permitted; 0: none", 0, 99),
        Parameter("lock_memory", False, "keep the process in memory, where that is permitted"),
        Parameter("cores", [], "that the loop's thread runs on; empty: any"),
        Parameter("realism", "", "sensors and actuators: file, or the name of one in config/hil; empty: ideal"),
        Parameter("faults", "", "schedule of faults: file, or the name of one in config/hil; empty: none"),
        *LINK.parameters,
        VEHICLE_NAME, VEHICLE_CHANGES, GROUND, GROUND_SEED,
        MODEL, TYRE, PHYSICS_STEP, *START, *SCANS, STOP_TIME,
        Parameter("command_timeout", 0.2, "largest age of a command in use: simulated time since the state that it answers; then throttle "
                                          "0 and the brake ramp. CAN: at most half a round of cycle", 0.001, 1e6, unit="s"),
        *TIMEOUT,
        Parameter("own_clock", False, "role controller: states have the time of their arrival on this node's clock; false: the time of the "
                                      "link, which is published on /clock"),
    )
    ENDPOINTS = (
        *ENDPOINTS,
        publishes("hil/status", HilStatus, qos.STATUS, "the link, and histograms of the loop's timing"),
        serves("~/inject_fault", InjectFault, "a fault from now on, or the end of all"),
    )

    def configure(self) -> None:
        realism = load_realism(self.value("realism")) if self.value("realism") else Realism()
        schedule, seed = load_faults(self.value("faults")) if self.value("faults") else ((), 1)
        request = RealTimeRequest(self.value("priority"), self.value("lock_memory"), parse_cores(self.value("cores")))
        faults = Injector(schedule, seed)
        if self.value("role") == VEHICLE:
            self._end: VehicleEnd | ControllerEnd = VehicleEnd(self, realism, faults, request, self._ended)
        else:
            if self.value("realism") or self.value("mode") == LOCKSTEP:
                raise InputError(f"node {self.get_name()}: realism and lockstep are of the role vehicle; give them to the other end")
            self._end = ControllerEnd(self, faults, request)
        self._status_publisher = self.publisher("hil/status")
        self.service("~/inject_fault", self._on_fault)
        self.every(_STATUS_PERIOD, self._look)
        self.get_logger().info(f"{self.value('role')}, {self.value('link')}, {self.value('mode')}, {self.value('rate'):g} Hz")

    def activate(self) -> None:
        self._refused: Counter[str] = Counter()
        self._reported = False
        self._link_before: tuple[Any, ...] = ()
        self._end.start()

    def deactivate(self) -> None:
        self._end.core.stop()
        if why := self._end.not_driven:
            self.fail(why)

    def summary(self) -> dict[str, Any]:
        return self._end.summary()

    @property
    def core(self) -> Rig | Mirror:
        """The rig or mirror that runs the loop, once the node is configured."""
        return self._end.core

    def show(self, world: World) -> None:
        """Sets the world of the LIDAR from the next scan on, in role vehicle. Raises InputError: it has no LIDAR."""
        if not isinstance(self._end, VehicleEnd):
            raise InputError("role controller: there is no world of ours to change")
        self._end.show(world)

    def _ended(self, reason: str) -> None:
        """Ends a completed run after its last status."""
        self._publish_status()
        self.stop_requested(reason)

    def stamp(self) -> Time:
        return stamp_of(self._end.core.time_ns if self.state in ("inactive", "active") else 0)

    def _on_fault(self, request: InjectFault.Request, response: InjectFault.Response) -> InjectFault.Response:
        faults, now = self._end.core.faults, 1e-9 * self._end.core.time_ns

        def inject() -> tuple[bool, str]:
            if request.fault == "clear":
                return True, f"{faults.clear(request.signal)} faults ended"
            end = now + request.duration if request.duration > 0.0 else float("inf")
            fault = Fault(request.fault, request.signal or "all", now, end, request.value, request.share)
            faults.add(fault)
            return True, f"{fault} from {now:.3f} s on"

        return self.respond(response, inject)

    @while_active
    def _look(self) -> None:
        tidy()
        core = self._end.core
        if core.granted and not self._reported:
            self._reported = True
            denied = [text for text in core.granted if text.startswith("no ")]
            (self.get_logger().warning if denied else self.get_logger().info)(f"loop: {'; '.join(core.granted)}")
        self._log_link()
        self._publish_status()

    @property
    def _link_state(self) -> str:
        core = self._end.core
        return INVALID if core.link.wire.trouble else core.link_state

    def _log_link(self) -> None:
        """Logs changes of the E2E state and of the accepted sender."""
        e2e = self._end.core.link.wire.e2e
        if e2e is None or self._link_before == (now := (e2e.state, e2e.sender, e2e.initialisations)):
            return
        self._link_before, logger, where = now, self.get_logger(), f"link {self.value('link')}"
        if e2e.state == INVALID:
            logger.error(f"{where} is {INVALID}: {e2e.trouble}")
        elif e2e.state == VALID:
            logger.info(f"{where} is {VALID}" + (f", the sender is at {format_address(e2e.sender)}" if e2e.sender else ""))
        elif e2e.initialisations:
            logger.warning(f"{where} is silent; the next sender takes its place")

    def _publish_status(self) -> None:
        core = self._end.core
        timing, wire = core.timing, core.link.wire
        refused = dict(sorted(wire.refused.items()))
        message = HilStatus(
            role=self.value("role"), mode=self.value("mode"), link=self.value("link"), link_state=self._link_state,
            real_time="; ".join(core.granted), policy=self.value("policy"), period=timing.period, ticks=timing.ticks, misses=timing.misses,
            skipped=timing.skipped, worst_lateness=timing.lateness.largest, edges=array("d", EDGES.tobytes()),
            sent=wire.sent, received=wire.received, unanswered=core.unanswered if isinstance(core, Rig) else 0,
            refused_names=list(refused), refused_counts=array("Q", refused.values()), commands_rejected=core.gate.rejections,
            command_timed_out=core.timed_out, faults=[str(fault) for fault in core.faults.active])
        for name in ("periods", "lateness", "work", "responses"):
            setattr(message, name, array("Q", getattr(timing, name).counts.tolist()))
        set_stamp(message.header.stamp, core.time_ns)
        self._status_publisher.publish(message)

    @while_active
    def diagnose(self) -> Diagnosis:
        core = self._end.core
        timing, link, gate = core.timing, core.link, core.gate
        values: dict[str, Any] = {
            "time": 1e-9 * core.time_ns, "link": self.value("link"), "link_state": self._link_state, "ticks": timing.ticks,
            "misses": timing.misses, "skipped": timing.skipped, "worst_lateness_us": 1e6 * timing.lateness.largest,
            **{f"{name}_us_{label}": 1e6 * getattr(timing, name).quantile(share) for name in ("lateness", "work", "responses")
               for label, share in (("p50", 0.5), ("p99", 0.99))},
            "real_time": "; ".join(core.granted), "sent": link.wire.sent, "received": link.wire.received,
            **{f"refused.{why}": count for why, count in sorted(link.wire.refused.items())},
            **{f"commands_rejected.{why}": count for why, count in gate.rejected.items()}, "last_rejection": gate.last_rejection,
            "faults": ", ".join(str(fault) for fault in core.faults.active), **self._end.values}
        if (e2e := link.wire.e2e) is not None:
            values |= {"e2e_state": e2e.state, "sender": format_address(e2e.sender), "e2e_initialisations": e2e.initialisations,
                       "command_age_ms": 1e3 * e2e.age, "command_age_ms_max": 1e3 * e2e.max_age}
        missed, rejected = self.increase("misses", timing.misses), self.increase("rejections", gate.rejections)
        refused, self._refused = link.wire.refused - self._refused, Counter(link.wire.refused)
        if core.trouble:
            return ERROR, core.trouble, values
        if core.link_state == WAITING:
            return WARN, f"nothing came on link {self.value('link')} yet", values
        if link.wire.trouble:
            return ERROR, f"link {self.value('link')} is {INVALID}: {link.wire.trouble}", values
        if core.link_state == SILENT:
            return ERROR, f"link {self.value('link')} is silent: the vehicle is to brake", values
        if missed:
            return WARN, f"{missed} deadlines missed in the last second", values
        if refused or rejected:
            text = f"{rejected} commands refused, the last one {gate.last_rejection}"
            if refused:
                text = f"{refused.total()} messages of the link refused in the last second, most as {refused.most_common(1)[0][0]}"
            self.get_logger().warning(text, throttle_duration_sec=5.0)
            return WARN, text, values
        return OK, f"link {self.value('link')} is {UP}", values
