"""Stack files (config/stacks/*.yaml): the one list of nodes that `lfdm up` and the launch files both run.

    parameters: {scenario: ramp_steer}      # given to every node that declares them
    processes: true                         # optional: `lfdm up` runs each node in a process of its own, as --processes
    nodes:
      - executable: vehicle_simulator       # a module of lfdm_ros.nodes, or the NAME of a node from outside
        name: vehicle_simulator             # optional: the executable's name
        namespace: ""                       # optional
        parameters: {stepping: lockstep}    # optional; checked against the node's own table
        remappings: {odom: odometry}        # optional
        autostart: true                     # optional: configured and activated with the stack
        respawn: 0                          # optional: number of restarts of its process if it dies; not where all share one
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lfdm_ros import documents, plugins
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.parameters import renaming
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.endpoints import OF_COMPONENTS, PUBLISHES, SUBSCRIBES, Endpoint, in_force
from lfdm_ros.ros.parameters import Parameter, Value, by_name
from lfdm_ros.ros.runtime import node_in
from lfdm_ros.ros.topics import is_selected
from lfdm_ros.vehicles.body import moved

EXECUTABLES = ("vehicle_simulator", "state_sensor", "input_player", "recorder", "calibrator", "mpc_controller", "shared_control",
               "operator_model", "teleop_link", "joystick", "keyboard", "dashboard", "vehicle_frames", "command_adapter", "hil_bridge",
               "ground_learner", "cockpit")
RECORDER = "recorder"
CLOCK = "/clock"
_STACK_KEYS = ("description", "parameters", "processes", "nodes")
_ANSWER_TIMEOUT = 30.0  # [s] of the wall clock
_MAX_RESPAWNS = 1000
# Parameters that name a folder of a single node, such as a bag's.
_FOLDERS = {"calibrator": ("watch_directory", "out_directory", "store"), "recorder": ("bag",)}
_NODE_KEYS = ("executable", "name", "namespace", "parameters", "remappings", "autostart", "respawn")

_outside: dict[str, type[Component]] = {}


def register_node(node: type[Component]) -> None:
    """Registers a node by its NAME for stack files, `lfdm up` and launch files. Raises InputError: no `Component`, a NAME that is taken
    or invalid, or a parameter whose default is invalid."""
    if not (isinstance(node, type) and issubclass(node, Component) and isinstance(getattr(node, "NAME", None), str)):
        raise InputError(f"{node!r} is no node; derive it from lfdm_ros.ros.component.Component, with NAME and PARAMETERS")
    if not node.NAME.isidentifier():
        raise InputError(f"'{node.NAME}' of {node.__name__} is no name; use letters, digits and _, beginning with a letter")
    if node.NAME in EXECUTABLES or _outside.get(node.NAME, node) is not node:
        raise InputError(f"node '{node.NAME}' is registered already; choose another NAME")
    for parameter in node.PARAMETERS:
        parameter.convert(parameter.default, f"node {node.NAME}: default of {parameter.name}")
    _outside[node.NAME] = node


def executables() -> tuple[str, ...]:
    """Returns the names of all nodes: of this package, and of entry points of other packages."""
    plugins.load({"lfdm_ros.nodes": register_node})
    return (*EXECUTABLES, *_outside)


def node_class(executable: str) -> type[Component]:
    """Returns the class of a node by its name: a registered one, or that of a module of lfdm_ros.nodes."""
    if executable not in EXECUTABLES and executable in executables():
        return _outside[executable]
    return node_in(importlib.import_module(f"lfdm_ros.nodes.{executable}"))


@dataclass(frozen=True)
class NodeEntry:
    """One node of a stack. `parameters`: only those that differ from the node's defaults."""

    executable: str
    name: str
    namespace: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    remappings: Mapping[str, str] = field(default_factory=dict)
    autostart: bool = True
    respawn: int = 0

    @property
    def program(self) -> tuple[str, ...]:
        """Module that runs it in a separate process, and its arguments."""
        built_in = self.executable in EXECUTABLES
        return (f"lfdm_ros.nodes.{self.executable}",) if built_in else ("lfdm_ros.stacks.any_node", self.executable)

    @property
    def full_name(self) -> str:
        """The node's name in the graph."""
        return _absolute(self.name, self.namespace)

    def topic(self, name: str) -> str:
        """Returns the name in the graph of a topic that the node's code calls `name`."""
        renamed = {self._resolved(source): target for source, target in self.remappings.items()}
        resolved = self._resolved(name)
        return self._resolved(renamed.get(resolved, resolved))

    def _resolved(self, name: str) -> str:
        return f"{self.full_name}/{name[2:]}" if name.startswith("~/") else _absolute(name, self.namespace)

    @property
    def table(self) -> dict[str, Parameter]:
        """The declared parameters of the node, by name."""
        return by_name(node_class(self.executable).PARAMETERS)

    @property
    def endpoints(self) -> list[Endpoint]:
        """The declared endpoints of the node with its parameters. Raises InputError where a file that these name cannot be read."""
        return in_force(node_class(self.executable).ENDPOINTS, self.value)

    def takes(self, parameter: str) -> bool:
        """Checks that the node has a parameter of this present or former name."""
        return parameter in self.table or parameter in node_class(self.executable).RENAMED

    def with_parameter(self, name: str, value: Any, where: str) -> NodeEntry:
        """Returns the entry with one parameter set. Raises InputError: no such parameter, or the value does not fit; `where` leads the
        message."""
        if now := node_class(self.executable).RENAMED.get(name):
            print(f"warning: {where}: {renaming(name, now)}", file=sys.stderr)
            name = now
        if name not in self.table:
            raise InputError(f"{where}: node {self.name} ({self.executable}) has no parameter '{name}'"
                             + (f"; {hint}" if (hint := self.hint(name)) else suggest(name, self.table, "it has ")))
        return replace(self, parameters={**self.parameters, name: self.table[name].convert(value, where)})

    def hint(self, name: str) -> str:
        """Returns the message on a removed parameter; empty for others."""
        kind = node_class(self.executable)
        now = kind.MOVED.get(name)
        return moved(now) if now else kind.REMOVED.get(name, "")

    def value(self, name: str) -> Value:
        return self.parameters.get(name, self.table[name].default)


@dataclass(frozen=True)
class Stack:
    """A validated stack file; nodes in the order of their start. processes: each in a separate process."""

    where: str
    nodes: tuple[NodeEntry, ...]
    processes: bool = False

    def with_override(self, assignment: str, value: Any, where: str) -> Stack:
        """Returns the stack with NODE.PARAMETER, or PARAMETER in every node that declares it, set to a value. NODE: its name, or its name
        with namespace. Raises InputError: no such node or parameter, or the value does not fit."""
        node, dot, parameter = assignment.rpartition(".")
        if dot:
            if all(node not in (entry.name, entry.full_name) for entry in self.nodes):
                raise InputError(f"{where}: {self.where} has no node '{node}'{suggest(node, [e.name for e in self.nodes], 'it has ')}")
            return self._with_set(parameter, value, where, lambda entry: node in (entry.name, entry.full_name))
        if not self.declares(parameter):
            raise InputError(f"{where}: no node of {self.where} has a parameter '{parameter}'{self.alternatives(parameter)}")
        return self._with_set(parameter, value, where, lambda entry: entry.takes(parameter))

    def _with_set(self, parameter: str, value: Any, where: str, chosen: Callable[[NodeEntry], bool]) -> Stack:
        """Returns the stack with a parameter set in the chosen nodes."""
        return replace(self, nodes=tuple(
            entry.with_parameter(parameter, value, where) if chosen(entry) else entry for entry in self.nodes))

    @property
    def sole_topics(self) -> dict[str, list[str]]:
        """The topics that admit one publisher, and the nodes of the stack that publish them."""
        publishers: dict[str, list[str]] = {}
        for entry in self.nodes:
            soles = (endpoint for endpoint in node_class(entry.executable).ENDPOINTS if endpoint.sole)
            for endpoint in in_force(soles, entry.value):
                publishers.setdefault(entry.topic(endpoint.name_for(entry.value)), []).append(entry.full_name)
        return publishers

    def with_default(self, parameter: str, value: Value) -> Stack:
        """Returns the stack with a parameter set in every node that declares it and does not set it itself."""
        return self._with_set(parameter, value, parameter, lambda entry: parameter in entry.table and parameter not in entry.parameters)

    def ending_with_scenario(self) -> Stack:
        """Returns the stack in which a node that drives a scenario ends the run with it, unless the stack sets on_finish."""
        return self._with_set("on_finish", "shutdown", "on_finish", lambda entry: (
            {"on_finish", "scenario"} <= entry.table.keys() and "on_finish" not in entry.parameters
            and ("task" not in entry.table or entry.value("task") == "scenario")))

    def declares(self, parameter: str) -> bool:
        return any(entry.takes(parameter) for entry in self.nodes)

    def alternatives(self, parameter: str) -> str:
        """Returns the end of a message about an unknown parameter."""
        hint = next((f"; {hint}" for hint in (entry.hint(parameter) for entry in self.nodes) if hint), "")
        return hint or suggest(parameter, (name for entry in self.nodes for name in entry.table))

    def with_recorder(self, bag: str | os.PathLike[str], *, sim_time: bool) -> Stack:
        """Returns the stack with a recorder of all topics into a bag, first in the list to miss nothing: its own recorder if it has one."""
        # Absolute, since the recorder may run in another working directory.
        whole = {"bag": os.path.abspath(bag)}
        for entry in self.nodes:
            if entry.executable == "recorder" and not entry.parameters.get("topics"):
                recorder = replace(entry, parameters={**entry.parameters, **whole})
                return replace(self, nodes=(recorder, *(node for node in self.nodes if node is not entry)))
        taken = {entry.name for entry in self.nodes}
        name = next(n for n in ("recorder", "stack_recorder", "stack_recorder_2") if n not in taken)
        return replace(self, nodes=(NodeEntry("recorder", name, parameters={**whole, "use_sim_time": sim_time}), *self.nodes))

    def with_own_folders(self, namespace: str) -> Stack:
        """Returns the stack with the folders of its nodes moved to subfolders named as the namespace."""
        def with_folder(entry: NodeEntry) -> NodeEntry:
            given = {name: str(entry.parameters[name]) for name in _FOLDERS.get(entry.executable, ()) if entry.parameters.get(name)}
            return replace(entry, parameters={**entry.parameters, **{
                name: os.path.join(*((os.path.dirname(path), namespace.strip("/"), os.path.basename(path)) if name == "bag" else
                                     (path, namespace.strip("/")))) for name, path in given.items()}})

        return replace(self, nodes=tuple(with_folder(entry) for entry in self.nodes))

    def in_namespace(self, namespace: str) -> Stack:
        """Returns the stack with a namespace before relative names. Includes the clock of a simulated vehicle: one per vehicle."""
        clock = {CLOCK: _absolute(CLOCK[1:], namespace)} if namespace.strip("/") and self.declares("stop_time") else {}
        return replace(self, nodes=tuple(
            replace(entry, namespace=_absolute(entry.namespace, namespace),
                    remappings=entry.remappings if entry.namespace.startswith("/") else {**clock, **entry.remappings})
            for entry in self.nodes))


@dataclass(frozen=True)
class Connection:
    """An endpoint of a node with its name in the graph."""

    node: NodeEntry
    endpoint: Endpoint
    name: str

    @property
    def direction(self) -> str:
        return self.endpoint.direction

    @property
    def type_name(self) -> str:
        return self.endpoint.type_name


def connections(stack: Stack) -> list[Connection]:
    """Returns the connections of all configured nodes of a stack. Raises InputError: a vehicle or scenario that determines endpoints cannot
    be read."""
    found = [Connection(entry, endpoint, entry.topic(endpoint.name_for(entry.value))) for entry in stack.nodes
             for endpoint in (*entry.endpoints, *in_force(OF_COMPONENTS, entry.value))]
    return found + [recorded for entry in stack.nodes if entry.executable == RECORDER for recorded in _recorded(entry, found)]


def _recorded(recorder: NodeEntry, found: list[Connection]) -> list[Connection]:
    """Returns the subscriptions of a recorder: its `topics`, or those that nodes of the stack publish in its namespace."""
    topics, exclude = ({recorder.topic(name) for name in recorder.value(key) or []} for key in ("topics", "exclude"))  # type: ignore[union-attr]
    namespace = recorder.full_name.rpartition("/")[0] or "/"
    published = {c.name: c.endpoint.kind for c in found if c.direction == PUBLISHES}
    selected = topics or {name for name in published if is_selected(name, topics, exclude, namespace)}
    return [Connection(recorder, Endpoint(SUBSCRIBES, name, published.get(name), "recorded"), name) for name in sorted(selected)]


def undeclared(stack: Stack) -> list[str]:
    """Returns the registered nodes that declare no endpoints."""
    return [entry.full_name for entry in stack.nodes if not node_class(entry.executable).ENDPOINTS and entry.executable != RECORDER]


def load_stack(source: str | os.PathLike[str] | Mapping[str, Any]) -> Stack:
    """Reads a stack by name or path, or from a mapping. Raises InputError: names file and key."""
    data, where = documents.of_config("stacks", source, "stack")
    data = documents.mapping(data, where, optional=_STACK_KEYS)
    entries = [_entry(node, here) for here, node in documents.entries(data.get("nodes"), f"{where}: nodes", "nodes", 1)]
    names = [f"{entry.namespace}/{entry.name}" for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: two nodes are named '{name}'; give them names of their own")
    stack = Stack(where, tuple(entries), documents.flag(data.get("processes", False), f"{where}: processes"))
    for topic, publishers in stack.sole_topics.items():
        if len(publishers) > 1:
            raise InputError(f"{where}: {' and '.join(publishers)} both publish {topic}; rename it for one, with remappings")
    for name, value in _by_name(data.get("parameters") or {}, f"{where}: parameters").items():
        # Values in a node's entry take precedence.
        if not stack.declares(name):
            raise InputError(f"{where}: parameters: no node has a parameter '{name}'{stack.alternatives(name)}")
        stack = stack._with_set(name, value, f"{where}: parameters: {name}", lambda entry, name=name: (  # type: ignore[misc]
            name not in entry.parameters and entry.takes(name)))
    return stack


def prepare_stack(stack: str | os.PathLike[str] | Mapping[str, Any] | Stack, *, speed: Any = None, duration: float | None = None,
                  record: str | os.PathLike[str] | None = None, overrides: Mapping[str, Any] | None = None,
                  namespaces: Sequence[str] = (), option: str = "--{}") -> tuple[Stack, float | None]:
    """Applies options of the command line to a stack file.

    Args:
        namespaces: of the copies of the stack; bags of several are named BAG_NAMESPACE, and files of nodes are in a folder NAMESPACE
            below the one that the stack names. None: the root.
        option: form of an option in messages.

    Returns:
        the stack, and the wall time [s] after which to end it; None if the stack itself ends.

    Raises:
        InputError: names what does not fit.
    """
    stack = stack if isinstance(stack, Stack) else load_stack(stack)
    of_copies = {name: value for name, value in (overrides or {}).items() if name.startswith("/")}  # by their names in the graph
    for name, value in (overrides or {}).items():
        if name not in of_copies:
            stack = stack.with_override(name, value, f"{option.format('set')} {name}")
    if speed is not None:
        stack = stack.with_override("speed_factor", speed, option.format("speed"))
    if duration is not None and not duration > 0.0:
        raise InputError(f"{option.format('duration')} {duration}: give more than 0 seconds")
    simulated = stack.declares("stop_time")
    if duration is not None and simulated:
        stack = stack.with_override("stop_time", float(duration), option.format("duration"))
        # Simulated time must not stop without a driver if a duration is to end the run.
        stack = stack.with_default("answer_timeout", _ANSWER_TIMEOUT)
    for name in namespaces:
        if not re.fullmatch(r"/?[A-Za-z]\w*(/[A-Za-z]\w*)*", name) or namespaces.count(name) > 1:
            raise InputError(f"{option.format('namespace')} {quote(name)}: give each once, letters, digits and _, beginning with a letter")
    copies = []
    for name in namespaces or ("",):
        one = stack.with_own_folders(name) if len(namespaces) > 1 else stack
        if record is not None:
            bag = Path(record)
            one = one.with_recorder(bag.with_name(f"{bag.name}_{name.strip('/').replace('/', '_')}") if len(namespaces) > 1 else bag,
                               sim_time=simulated)
        copies.append(one.in_namespace(name) if name else one)
    stack = replace(stack, nodes=tuple(entry for copy in copies for entry in copy.nodes))
    for name, value in of_copies.items():
        stack = stack.with_override(name, value, f"{option.format('set')} {name}")
    return stack, None if simulated else duration


def parse_override(text: str) -> tuple[str, Any]:
    """Parses NODE.PARAMETER=VALUE of --set; the value is YAML. Raises InputError: not of that form."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InputError(f"--set {quote(text)}: write NODE.PARAMETER=VALUE")
    return name.strip(), documents.parse_yaml(value, f"--set {name.strip()}") if value.strip() else ""


def _absolute(name: str, namespace: str) -> str:
    """Returns a name in the graph: absolute names as they are, others below the namespace."""
    return name if name.startswith("/") else "/" + "/".join(part for part in (*namespace.split("/"), *name.split("/")) if part)


def _entry(data: Any, where: str) -> NodeEntry:
    data = documents.mapping(data, where, optional=_NODE_KEYS)
    executable = data.get("executable")
    if executable not in executables():
        raise InputError(f"{where}: executable {quote(executable)} is unknown{suggest(executable, executables(), 'known are ')}")
    name, namespace = data.get("name") or executable, data.get("namespace") or ""
    for key, value in (("name", name), ("namespace", namespace)):
        if not isinstance(value, str):
            raise InputError(f"{where}: {key}: {quote(value)} is not a text")
    autostart = documents.flag(data.get("autostart", True), f"{where}: autostart")
    respawn = documents.integer(data.get("respawn", 0), f"{where}: respawn", 0, _MAX_RESPAWNS)
    remappings = _by_name(data.get("remappings") or {}, f"{where}: remappings")
    if not all(isinstance(value, str) for value in remappings.values()):
        raise InputError(f"{where}: remappings: give FROM: TO, both names")
    entry = NodeEntry(executable, name, namespace, remappings=remappings, autostart=autostart, respawn=respawn)
    for parameter, value in _by_name(data.get("parameters") or {}, f"{where}: parameters").items():
        entry = entry.with_parameter(parameter, value, f"{where}: parameters: {parameter}")
    return entry


def _by_name(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InputError(f"{where}: expected a mapping of names, found {quote(value)}")
    return value
