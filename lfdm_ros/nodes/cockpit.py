"""The cockpit node: shows the vehicle in the browser, where one person at a time can drive it."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from grid_map_msgs.msg import GridMap
from radar_msgs.msg import RadarScan
from rcl_interfaces.srv import SetParameters
from rclpy.action import ActionClient
from rclpy.node import NodeNameNonExistentError
from rclpy.parameter import Parameter as RosParameter
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CompressedImage, LaserScan
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

from lfdm_ros import msg
from lfdm_ros.action import Calibrate
from lfdm_ros.bounds import OUT_OF_RANGE, UNUSABLE, Refused
from lfdm_ros.cockpit import page_messages
from lfdm_ros.cockpit.seat import SEAT, Seat
from lfdm_ros.cockpit.server import CockpitServer
from lfdm_ros.cockpit.wire import FLEET, GHOST, GROUND, pack, pack_json
from lfdm_ros.engine.background import LOWEST, NORMAL, Share
from lfdm_ros.engine.drive_calibration import DriveCalibration
from lfdm_ros.errors import InputError
from lfdm_ros.models import model_names
from lfdm_ros.nodes import stack_settings
from lfdm_ros.nodes.manual_control import COMMAND, RATE, ManualControl
from lfdm_ros.nodes.other_vehicles import OtherVehicles
from lfdm_ros.perception.transform_tree import TransformTree
from lfdm_ros.resources import config_names
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Diagnosis, while_active
from lfdm_ros.ros.endpoints import CALLS, calls, given, starts, subscribes
from lfdm_ros.ros.guarding import CallbackGuard
from lfdm_ros.ros.parameters import CAMERA, CAMERA_TOPIC, Parameter
from lfdm_ros.sharing.components import COMPONENTS
from lfdm_ros.sharing.laws import LAWS
from lfdm_ros.sharing.sharing_settings import MODES
from lfdm_ros.srv import ApplyPosterior, Reset, RollBack, Step
from lfdm_ros.teleop.hands_on import Command

Caller = Callable[..., None]  # of a service by its name, with a request, and the function that takes its answer


class CalibrationCard:
    """Calibration of the newest drive, one at a time. Methods are called from the node's thread; long work runs in a separate thread."""

    def __init__(self, calibrator: ActionClient, call: Caller, publish: Callable[[dict[str, Any]], None],
                 answer: Callable[[str, str], None]) -> None:
        """Takes what reaches the calibrator (`call`: as `Cockpit._call`) and the pages: `publish` takes the card's content, `answer` the
        name of a failed request and the reason."""
        self._calibrator, self._call, self._publish, self._answer = calibrator, call, publish, answer
        self._drive: DriveCalibration | None = None
        self._card: dict[str, Any] = {}
        self._busy = False  # a child of the drive is at work, or the calibrator
        self._version = 0  # [1] of the drive's posterior in the calibrator's store

    def take(self, drive: DriveCalibration) -> None:
        """Surveys a recorded drive; does nothing during a calibration or without a calibrator."""
        if self._busy or not self._calibrator.server_is_ready():
            return
        self._drive, self._version, self._card = drive, 0, {"bag": drive.bag}
        self._work("surveying", drive.survey, lambda survey: self._show("surveyed", survey=survey))

    def act(self, name: str) -> None:
        """Acts on a request of a page."""
        if name == "calibrate":
            self._calibrate()
        elif name == "cancel":
            self._call("calibrator/cancel", Trigger.Request())
        elif name == "apply":
            self._call("calibrator/apply_posterior", ApplyPosterior.Request(version=str(self._version or "")))
        elif name == "rollback":
            self._call("calibrator/rollback", RollBack.Request(version=max(0, self._version - 1)))

    def _calibrate(self) -> None:
        drive = self._drive
        if drive is None or self._busy or "survey" not in self._card:
            self._answer("calibrate", "the calibrator is busy" if self._busy else "record a drive first")
            return
        if not self._calibrator.server_is_ready():
            self._answer("calibrate", "no calibrator is here")
            return
        self._busy = True
        self._show("calibrating")
        goal = Calibrate.Goal(recipe=drive.recipe, bags=[drive.bag], out=drive.result)

        def ended(result: Calibrate.Result) -> None:
            self._busy = False
            if not result.success:
                self._show("failed", text=result.message)
                return
            self._version = result.version
            self._show("comparing", text=result.message, learned=drive.learned(), version=result.version)
            self._work("comparing", drive.compare, lambda comparison: self._show("done", comparison=comparison))

        def accepted(handle: Any) -> None:
            if handle.accepted:
                handle.get_result_async().add_done_callback(lambda future: ended(future.result().result))
            else:
                self._busy = False
                self._show("failed", text="the calibrator refused: it is paused or busy")

        self._calibrator.send_goal_async(goal).add_done_callback(lambda future: accepted(future.result()))

    def _work(self, stage: str, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Works in a thread, on which its children hang; shows the stage meanwhile, and an error."""
        self._busy = True
        self._show(stage)

        def run() -> None:
            try:
                result = work()
            except (InputError, OSError) as error:
                self._busy = False
                self._show("failed", text=str(error))
                return
            self._busy = False
            done(result)

        threading.Thread(target=run, name=stage, daemon=True).start()

    def _show(self, stage: str, **content: Any) -> None:
        self._card = {**self._card, "text": "", "stage": stage, **content}
        self._publish(self._card)


_RADAR = "sensors/{}"
_WARNING_LASTS = 2.5  # [s] that a warning of /diagnostics counts for: it comes once a second
_FLEET_LOOK, _FLEET_PERIOD = 1.0, 0.05  # [s] between two looks for other vehicles, and between two of their pictures
_MAX_REQUESTS = 100  # that wait
_INSIST = 0.2  # [s] between two requests of the emergency stop
_LASTING = ("world", "route")  # texts that a page keeps: the same again is not sent
_MAX_STEPS = 1000  # ticks
_MAX_SENSORS = 100
_PACES = (0.05, 10.0)  # simulated seconds a second
MAX_LATENCY = 2.0  # [s] there and back, that a page may ask of the link

_TAKEOVER = {"take_over": "shared_control/acknowledge_takeover", "hand_back": "shared_control/hand_back"}
_CARD = ("calibrate", "cancel", "apply", "rollback")  # requests of its card of a calibration
# Names of the package that a page may choose, not paths.
_CHOICES: dict[str, Callable[[Any], bool]] = {
    "scenario": lambda value: value in config_names("scenarios"), "ground": lambda value: value in ("", *config_names("grounds")),
    "threats": lambda value: isinstance(value, list) and all(name in tuple(COMPONENTS) for name in value),
    **{name: lambda value: type(value) is int and -1 <= value < 2**31 for name in ("scenario_seed", "ground_seed")}}
# Live settings of a request, by its node; of both directions of a link.
_LIVE = {**dict.fromkeys(("freeze_state", "withheld_sensors", "disturbed_sensors", "imposed_friction"), "vehicle_simulator"),
         "law": "shared_control", "mode": "shared_control"}
_OF_LINK = ("jitter", "drop")


def _number(least: float, most: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and least <= value <= most


# Requests of the page, with the values that they take.
_REQUESTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("stop", "resume", "reset", *_TAKEOVER, *_CARD), lambda value: value is True),
    **dict.fromkeys(("pause", "record", "freeze_state"), lambda value: isinstance(value, bool)),
    "mode": lambda value: value in MODES, "law": lambda value: value in tuple(LAWS),
    "step": lambda value: type(value) is int and 0 < value <= _MAX_STEPS,
    "latency": _number(0.0, MAX_LATENCY), "jitter": _number(0.0, MAX_LATENCY), "drop": _number(0.0, 1.0),
    "imposed_friction": _number(0.0, 1.0), "pace": _number(*_PACES),
    **{name: lambda value: isinstance(value, list) and len(value) <= _MAX_SENSORS and all(
        isinstance(sensor, str) for sensor in value) for name in ("withheld_sensors", "disturbed_sensors")},
    "restart": lambda value: isinstance(value, dict) and bool(value) and all(
        name in _CHOICES and _CHOICES[name](given) for name, given in value.items())}


class Cockpit(ManualControl):
    """Shows topics of its namespace to pages, and publishes the driver's commands (`lfdm_ros.cockpit.seat`)."""

    NAME = "cockpit"
    PARAMETERS = (
        RATE,
        Parameter("address", "127.0.0.1", "address to listen on; one that other machines reach needs a certificate, or `insecure`"),
        Parameter("port", 0, "port to listen on; 0: a free one", 0, 65535),
        Parameter("certificate", "", "file of a certificate in PEM, for https"),
        Parameter("key", "", "file of its key in PEM; empty: in the same file"),
        Parameter("hosts", [], "names by which browsers may call this machine, besides its addresses"),
        Parameter("insecure", False, "http on an address that other machines reach: they can read the token"),
        Parameter("vehicle", "", "vehicle that a drive calibrates, a name in config/vehicles or a file; empty: the simulator's"),
        Parameter("calibrated_model", "eight_dof", "model that a drive calibrates", choices=tuple(model_names())),
        Parameter("priority", LOWEST, "of the processes that look at a drive: lowest, SCHED_IDLE and nice 19; normal, as other programs",
                  choices=(LOWEST, NORMAL)),
        Parameter("behind_link", False, "show `teleop/state`, `teleop/scan` and `teleop/image`, as they come over a link, and "
                                         "`vehicle/state` as a ghost"),
        CAMERA,
        Parameter("radar", "radar_front", "name of the radar in the vehicle's file whose returns the page shows"),
        *SEAT.parameters,
    )
    ENDPOINTS = (
        COMMAND,
        subscribes("vehicle/state", msg.VehicleState, qos.NEWEST, "motion of the vehicle"),
        subscribes("vehicle/description", msg.VehicleDescription, qos.LATCHED, "its dimensions"),
        subscribes("scan", LaserScan, qos.SENSOR, "the LIDAR's points", when=given("behind_link", False)),
        subscribes(CAMERA_TOPIC, CompressedImage, qos.SENSOR, "the camera's picture", when=given("behind_link", False), named_by="camera"),
        subscribes(_RADAR, RadarScan, qos.SENSOR, "a radar's returns", when=given("behind_link", False), named_by="radar"),
        subscribes("teleop/image", CompressedImage, qos.SENSOR, "the picture as it comes over a link", when=given("behind_link")),
        subscribes("teleop/state", msg.VehicleState, qos.NEWEST, "motion as it comes over a link", when=given("behind_link")),
        subscribes("teleop/scan", LaserScan, qos.SENSOR, "points as they come over a link", when=given("behind_link")),
        subscribes("teleop/link", msg.LinkStatus, qos.NEWEST, "delay of the link"),
        subscribes("tf_static", TFMessage, qos.LATCHED, "place of the LIDAR"),
        subscribes("world", MarkerArray, qos.LATCHED, "the scenario's obstacles"),
        subscribes("ground/map", GridMap, qos.LATCHED, "the ground: heights and friction"),
        subscribes("ground/known", GridMap, qos.LATCHED, "friction as it is learned"),
        subscribes("autonomy/plan", msg.Plan, qos.NEWEST, "autonomy's plan"),
        subscribes("autonomy/markers", MarkerArray, qos.STATUS, "tracked obstacles, route and goal"),
        subscribes("autonomy/status", msg.MpcStatus, qos.NEWEST, "outcome and times of the controller"),
        subscribes("shared_control/status", msg.SharedControlStatus, qos.NEWEST, "the driver in control, and the reason"),
        subscribes("simulator/status", msg.SimulatorStatus, qos.STATUS, "pace, collisions"),
        subscribes("calibrator/status", msg.CalibratorStatus, qos.STATUS, "progress, gates, the version in force"),
        subscribes("/diagnostics", DiagnosticArray, qos.STATUS, "warnings"),
        calls("shared_control/emergency_stop", Trigger, "the page's stop"),
        calls("shared_control/reset_emergency_stop", Trigger, "its end"),
        calls("shared_control/acknowledge_takeover", Trigger, "the operator takes over"),
        calls("shared_control/hand_back", Trigger, "its end"),
        calls("recorder/start", Trigger, "a recording"),
        calls("recorder/stop", Trigger, "its end"),
        starts("calibrate", Calibrate, "a calibration from the drive that was recorded"),
        calls("calibrator/cancel", Trigger, "its end"),
        calls("calibrator/apply_posterior", ApplyPosterior, "its result in force"),
        calls("calibrator/rollback", RollBack, "the version before"),
        calls("vehicle_simulator/pause", SetBool, "simulated time"),
        calls("vehicle_simulator/step", Step, "some ticks while it is paused"),
        calls("vehicle_simulator/reset", Reset, "the vehicle back at the start"),
        *stack_settings.ENDPOINTS,
    )

    def configure(self) -> None:
        self._publishing, self._sent = threading.Lock(), -math.inf
        self._requests: deque[tuple[str, Any]] = deque(maxlen=_MAX_REQUESTS)
        self._sent_at: dict[str, float] = {}
        self._stops, self._stop_confirmed, self._ask_for_stop = 0, False, 0.0
        self._warnings: dict[str, tuple[float, int, str]] = {}
        self._frames = TransformTree()
        self.refusals.counts.setdefault("page", 0)
        self.server = CockpitServer(
            Seat(SEAT.record(self.value)), self.on_request, on_refusal=lambda error: self.refusals.refuse("page", error),
            **{name: self.value(name) for name in ("address", "port", "certificate", "key", "insecure", "hosts")})
        self.server.start()
        self._taken_at = dict.fromkeys(page_messages.PERIODS, -math.inf)
        kinds = {endpoint.name: endpoint.kind for endpoint in self.ENDPOINTS}
        behind = self.value("behind_link")
        named = {"vehicle/state": "teleop/state", "scan": "teleop/scan"} if behind else {}
        named |= {page_messages.CAMERA: "teleop/image" if behind else CAMERA_TOPIC, page_messages.RADAR_SCAN: _RADAR}
        for topic in page_messages.PERIODS:
            if behind and topic == page_messages.RADAR_SCAN:  # a link carries no radar
                continue
            name = named.get(topic, topic)
            self.subscription(name, partial(self._on_message, topic, kinds[name]), raw=True)
        if behind:
            self.subscription("vehicle/state", lambda message: self.server.publish(GHOST, page_messages.ghost(message)))
        self.subscription("tf_static", lambda message: self._frames.hear(message, self.refusals))
        self.subscription("/diagnostics", self._on_diagnostics)
        self._callers = {endpoint.name: self.client(endpoint.name) for endpoint in self.ENDPOINTS if endpoint.direction == CALLS}
        self._card = CalibrationCard(self.action_client("calibrate"), self._call, lambda card: self._text("calibration", card, keep=True),
                                     lambda service, text: self._text("answer", {"service": service, "text": text}))
        self._simulated, self._vehicle = False, self.value("vehicle")
        self._settings = stack_settings.StackSettings(self.get_namespace(), self._callers, self._publish_settings, self._topics_of)
        self.subscription("/rosout", self._settings.on_log)
        self._last_reports: dict[str, str] = {}
        self._records = False
        self._text("choices", {"scenario": config_names("scenarios"), "ground": ["", *config_names("grounds")], "law": list(LAWS),
                               "threats": list(COMPONENTS)}, keep=True)
        super().configure()
        # Inputs are published from the server's thread, milliseconds before the executor's next turn.
        self.server.on_input = CallbackGuard(self.catch).around(self._publish_command)
        self.every(0.5, self._send_warnings)
        self._fleet = OtherVehicles(self)
        if not behind:  # a remote driver sees by the vehicle's own sensors
            self.every(_FLEET_LOOK, self._look_for_vehicles)
            self.every(_FLEET_PERIOD, self._send_vehicles)
        print(f"cockpit: open {self.server.url}", flush=True)  # not by the log, which the graph receives: the address holds the token

    def cleanup(self) -> None:
        self.server.stop()

    def parameter_changed(self, name: str, value: Any) -> None:
        if name in SEAT.by_field:
            self.server.seat.settings = replace(self.server.seat.settings, **{name: value})

    def publish(self) -> None:
        while self._requests:
            self._act(*self._requests.popleft())
        self._insist_on_stop()
        if (reason := self._settings.advance()) is not None:
            self._text("answer", {"service": "restart", "text": reason})
        if time.monotonic() - self._sent > 0.5 / self.value("rate"):  # else an input has just sent one
            self._publish_command()

    def _publish_command(self) -> None:
        with self._publishing:
            self._sent = time.monotonic()
            super().publish()

    def request(self, now: float) -> Command | None:
        return self.server.command(now)

    @while_active
    def diagnose(self) -> Diagnosis:
        seat = self.server.seat
        values = {"pages": len(self.server.views), "driver": seat.name(seat.driver), "stopped": seat.stopped}
        if seat.stopped:
            return WARN, "stopped by a page", values
        return OK, seat.reason or f"{values['driver']} drives", values

    def _on_message(self, topic: str, kind: type, data: bytes) -> None:
        """Sends a message to the pages; decodes only due messages, as states and statuses arrive at 100 Hz."""
        period, now = page_messages.PERIODS[topic], time.monotonic()
        if period and (not self.server.views or now - self._taken_at[topic] < period):
            return
        self._taken_at[topic] = now
        message = deserialize_message(data, kind)
        number = self.server.next_number() if topic == "vehicle/state" else 0
        try:
            for packed, content in page_messages.packed(topic, message, self._frames, number):
                self.server.publish(packed, content, keep=not period)
        except InputError as error:
            self.refusals.refuse(topic, error)
        if topic == "simulator/status":
            self._simulated, self._vehicle = True, self._vehicle or message.vehicle
        if topic == "shared_control/status":
            self._stop_confirmed = message.emergency_stop
        if topic in page_messages.TEXTS:
            word, text = page_messages.TEXTS[topic]
            if now - self._sent_at.get(word, -math.inf) >= (page_messages.TEXT_PERIOD if period else 0.0):
                self._sent_at[word] = now
                self._text(word, text(message), keep=True)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        now = time.monotonic()
        for name, (level, text) in page_messages.warnings(message).items():
            if f"/{name}".startswith(f"{self.get_namespace().rstrip('/')}/"):
                self._warnings[name] = now, level, text

    def _send_warnings(self) -> None:
        oldest = time.monotonic() - _WARNING_LASTS
        self._warnings = {name: warning for name, warning in self._warnings.items() if warning[0] > oldest}
        count = [(level, name, text) for name, (_, level, text) in self._warnings.items() if level]
        self._text("warnings", {"warnings": sorted(count, reverse=True)})

    def _look_for_vehicles(self) -> None:
        before = self._fleet.names
        self._fleet.look()
        if self._fleet.names != before:
            self._text("fleet", {"names": self._fleet.names}, keep=True)
            self.server.publish(FLEET, pack(FLEET, 0.0, []))  # the numbers of the last picture are those of other names

    def _send_vehicles(self) -> None:
        if self._fleet.names and self.server.views:
            self.server.publish(FLEET, pack(FLEET, 0.0, np.array(self._fleet.rows()).ravel()))

    def _text(self, kind: str, data: dict[str, Any], *, keep: bool = False) -> None:
        text = pack_json(kind, data)
        if kind in _LASTING:
            if self._last_reports.get(kind) == text:
                return
            self._last_reports[kind] = text
        self.server.publish(kind, text, keep=keep)

    def _insist_on_stop(self) -> None:
        """Repeats the emergency stop until shared control confirms it, as that may start later or restart."""
        now = time.monotonic()
        if self.server.seat.stopped and not self._stop_confirmed and now >= self._ask_for_stop:
            self._ask_for_stop = now + _INSIST
            if (client := self._callers["shared_control/emergency_stop"]).service_is_ready():
                client.call_async(Trigger.Request())

    def on_request(self, name: str, value: Any, page: str) -> None:
        if name not in _REQUESTS:
            raise Refused(f"request {name[:30]!r} is unknown", UNUSABLE)
        if not _REQUESTS[name](value):
            raise Refused(f"request {name}: a wrong value", OUT_OF_RANGE)
        if name == "stop":
            # Never refused, and not undone by a resume that waits: that has the number of an earlier stop.
            self.server.stop_seat()
            self._stops, self._stop_confirmed, self._ask_for_stop = self._stops + 1, False, 0.0
            return
        if len(self._requests) == _MAX_REQUESTS:
            raise Refused("too many requests", UNUSABLE)
        if name == "resume":
            self.server.resume(page)
        self._requests.append((name, self._stops if name == "resume" else value))

    def _act(self, name: str, value: Any) -> None:
        if name == "resume":
            if value == self._stops:
                self._call("shared_control/reset_emergency_stop", Trigger.Request(), quiet=True)
        elif name == "reset":
            self.server.disarm()
            self._call("vehicle_simulator/reset", Reset.Request())
        elif name == "record":
            self._call("recorder/start" if value else "recorder/stop", Trigger.Request(), partial(self._publish_recording, value))
        elif name in _TAKEOVER:
            self._call(_TAKEOVER[name], Trigger.Request())
        elif name in _CARD:
            self._card.act(name)
        elif name == "pause":
            self._call("vehicle_simulator/pause", SetBool.Request(data=value))
        elif name == "step":
            self._call("vehicle_simulator/step", Step.Request(ticks=value))
        elif name == "pace":
            self._set("vehicle_simulator", {"speed_factor": float(value)})
        elif name == "latency":
            self._set("teleop_link", {"up_delay": 0.5 * value, "down_delay": 0.5 * value})
        elif name in _OF_LINK:
            self._set("teleop_link", {f"up_{name}": float(value), f"down_{name}": float(value)})
        elif name == "restart":
            self._begin_restart(value)
        else:
            self._set(_LIVE[name], {name: float(value) if type(value) is int else value})

    def _begin_restart(self, values: Mapping[str, Any]) -> None:
        try:
            if self._records:  # the time of a bag does not go back
                raise InputError("end the recording first")
            self._settings.restart(values)
        except InputError as error:
            self._text("answer", {"service": "restart", "text": str(error)})
        else:
            self.server.disarm()

    def _topics_of(self, node: str) -> list[str]:
        """Returns the topics in the own namespace that a node there publishes, without the namespace."""
        namespace = self.get_namespace()
        with suppress(NodeNameNonExistentError):
            found = self.get_publisher_names_and_types_by_node(node, namespace)
            return [name.removeprefix(f"{namespace.rstrip('/')}/") for name, _ in found]
        return []

    def _publish_settings(self) -> None:
        if self._settings.restarting == "vehicle_simulator prepares":  # what is no more is not said by anybody
            self.server.publish(GROUND, pack(GROUND, 0.0, []), keep=True)
            self._text("world", {"discs": [], "lines": []}, keep=True)
        self._text("settings", {"nodes": self._settings.values, "restarting": self._settings.restarting}, keep=True)

    def _set(self, node: str, values: Mapping[str, Any]) -> None:
        parameters = [RosParameter(name, value=value).to_parameter_msg() for name, value in values.items()]
        self._call(f"{node}/set_parameters", SetParameters.Request(parameters=parameters))

    def _call(self, service: str, request: Any, then: Callable[[str], None] = lambda message: None, *, quiet: bool = False) -> None:
        """Calls a service, if available; on success `then` gets the message, a failure is shown on the page. quiet: the service may be
        missing."""
        client = self._callers[service]
        if not client.service_is_ready():
            if not quiet:
                self._text("answer", {"service": service, "text": "nobody offers this here"})
            return
        client.call_async(request).add_done_callback(lambda future: self._answer(service, future.result(), then))

    def _answer(self, service: str, response: Any, then: Callable[[str], None]) -> None:
        results = getattr(response, "results", [response])
        failed = [getattr(result, "message", "") or getattr(result, "reason", "") for result in results
                  if not getattr(result, "success", getattr(result, "successful", True))]
        self._text("answer", {"service": service, "text": "; ".join(failed)})
        if service.endswith("/set_parameters"):
            self._settings.look()
        if not failed:
            then(getattr(response, "message", ""))
        elif service == "recorder/stop":  # whatever it was, nothing is recorded now
            self._publish_recording(False, "")

    def _publish_recording(self, records: bool, bag: str) -> None:
        self._records = records
        self._text("recording", {"records": records, "bag": bag}, keep=True)
        if bag and not records and self._vehicle:
            self._card.take(DriveCalibration(bag, self._vehicle, self.value("calibrated_model"), self._simulated,
                                             Share(priority=self.value("priority"))))
