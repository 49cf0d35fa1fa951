"""Run-time settings of the nodes of the stack: live ones, and those that require a restart of their nodes."""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Log
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.parameter import Parameter, parameter_value_to_python

from lfdm_ros.errors import InputError
from lfdm_ros.ros import qos
from lfdm_ros.ros.endpoints import calls, subscribes

_TIMEOUT = 180.0  # [s] of a transition: the first use of a model compiles it
_LOOK = 2.0  # [s] between two looks at the settings
_LOG_WAIT = 1.0  # [s] for the reason of a failure
_PLACE = ("scenario", "scenario_seed", "ground", "ground_seed")
# Settings by node. The first four are restarted where it takes that, in this order, which is that of the stacks: the vehicle comes last.
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "ground_learner": ("ground", "ground_seed"),
    "shared_control": (*_PLACE, "law", "threats"),
    "mpc_controller": _PLACE,
    "vehicle_simulator": (*_PLACE, "freeze_state", "withheld_sensors", "disturbed_sensors", "imposed_friction"),
    "teleop_link": ("up_jitter", "up_drop")}
RESTARTED = tuple(SETTINGS)[:4]

ENDPOINTS = (
    *(calls(f"{node}/get_parameters", GetParameters, "its settings") for node in SETTINGS),
    *(calls(f"{node}/set_parameters", SetParameters, "changes of them") for node in SETTINGS),
    *(calls(f"{node}/change_state", ChangeState, "its restart with other settings") for node in RESTARTED),
    subscribes("/rosout", Log, qos.LOG, "the reason that a node does not start"))

Waits = Generator[None, None, Any]


class StackSettings:
    """Current settings of the nodes in one namespace; `advance` updates them and continues a restart.

    Attributes:
        values: {node: {setting: value}} of the responding nodes; `sensors`: names of those that can be withheld.
        restarting: state of the restart in one line, or empty.
    """

    def __init__(self, namespace: str, clients: Mapping[str, Any], changed: Callable[[], None], topics_of: Callable[[str], Iterable[str]],
                 ) -> None:
        """Creates unknown settings; clients: of ENDPOINTS, by name; changed: called when an attribute has changed; topics_of: gives the
        topics that a node publishes, below the namespace."""
        self.values: dict[str, dict[str, Any]] = {}
        self.restarting = ""
        self._namespace, self._clients, self._changed, self._topics_of = namespace.strip("/"), clients, changed, topics_of
        self._restart: Waits | None = None
        self._errors: dict[str, str] = {}
        self._looked = 0.0

    def on_log(self, line: Log) -> None:
        if line.level >= Log.ERROR:
            self._errors[line.name.replace(".", "/")] = line.msg

    def look(self) -> None:
        """Requests the settings of all nodes; calls `changed` if they differ."""
        self._looked = time.monotonic()
        for node, names in SETTINGS.items():
            if (client := self._clients[f"{node}/get_parameters"]).service_is_ready():
                client.call_async(GetParameters.Request(names=names)).add_done_callback(
                    lambda future, node=node: self._take(node, future.result().values))
            elif self.values.pop(node, None):
                self._changed()

    def _take(self, node: str, answer: Iterable[Any]) -> None:
        values = [parameter_value_to_python(value) for value in answer]
        if len(values) != len(SETTINGS[node]):
            return
        found = dict(zip(SETTINGS[node], values))
        if "withheld_sensors" in found:
            topics = set(self._topics_of(node))
            found["sensors"] = sorted({"scan"} & topics | {topic.split("/")[1] for topic in topics if topic.startswith("sensors/")})
        if self.values.get(node) != found:
            self.values[node] = found
            self._changed()

    def restart(self, values: Mapping[str, Any]) -> None:
        """Restarts the nodes that have some of these settings with them; if that fails, once more as they were. Raises InputError: no node
        has them, or a restart is going on."""
        nodes = [node for node in RESTARTED if values.keys() & self.values.get(node, {}).keys()]
        if not nodes or self._restart is not None:
            raise InputError("a restart is going on" if nodes else f"no node here has {', '.join(values)}")
        self._restart = self._restarted(nodes, values)

    def advance(self) -> str | None:
        """Continues a restart; returns the reason of its failure, "" on completion, else None."""
        if self._restart is None:
            if time.monotonic() - self._looked > _LOOK:
                self.look()
            return None
        result = None
        try:
            next(self._restart)
        except StopIteration:
            result = ""
        except InputError as error:
            result = str(error)
        if result is not None:
            self._restart = None
            self._report("")
            self.look()
        return result

    def _restarted(self, nodes: list[str], values: Mapping[str, Any]) -> Waits:
        before = {name: value for node in nodes for name, value in self.values[node].items() if name in values}
        try:
            yield from self._start_again(nodes, values)
        except InputError as error:
            yield from self._start_again(nodes, before)
            raise InputError(f"{error}; all is as it was") from None

    def _start_again(self, nodes: list[str], values: Mapping[str, Any]) -> Waits:
        """Stops the nodes, the vehicle first, and starts them in the order of a stack. Raises InputError: one fails."""
        for node in reversed(nodes):
            for transition in (Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP):
                yield from self._change(node, transition)  # not possible where a restart has failed before: then it is down already
        for node in nodes:
            changed = [Parameter(name, value=value).to_parameter_msg() for name, value in values.items() if name in SETTINGS[node]]
            answer = yield from self._call(f"{node}/set_parameters", SetParameters.Request(parameters=changed))
            if refused := [result.reason for result in answer.results if not result.successful]:
                raise InputError(f"{node}: {refused[0]}")
        for transition, doing in ((Transition.TRANSITION_CONFIGURE, "prepares"), (Transition.TRANSITION_ACTIVATE, "starts")):
            for node in nodes:
                self._report(f"{node} {doing}")
                if not (yield from self._change(node, transition)):
                    raise InputError(f"{node}: {(yield from self._reason(node))}")

    def _change(self, node: str, transition: int) -> Waits:
        self._errors.pop(self._name(node), None)
        return (yield from self._call(f"{node}/change_state", ChangeState.Request(transition=Transition(id=transition)))).success

    def _reason(self, node: str) -> Waits:
        end = time.monotonic() + _LOG_WAIT
        while self._name(node) not in self._errors and time.monotonic() < end:
            yield
        return self._errors.get(self._name(node), "does not start, see its log")

    def _call(self, service: str, request: Any) -> Waits:
        call, end = self._clients[service].call_async(request), time.monotonic() + _TIMEOUT
        while not call.done():
            if time.monotonic() > end:
                raise InputError(f"{service} does not answer")
            yield
        return call.result()

    def _name(self, node: str) -> str:
        return f"{self._namespace}/{node}".lstrip("/")

    def _report(self, text: str) -> None:
        if text != self.restarting:
            self.restarting = text
            self._changed()
