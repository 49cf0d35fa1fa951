"""What the nodes of a stack have in the graph: their declarations, by the stack's parameters, namespaces and remappings."""

from __future__ import annotations

from dataclasses import dataclass

from lfdm_ros.nodes.recorder import is_wanted
from lfdm_ros.ros.endpoints import OF_COMPONENTS, PUBLISHES, SUBSCRIBES, Endpoint, in_force
from lfdm_ros.stacks.stack import NodeEntry, Stack, node_class

RECORDER = "recorder"


@dataclass(frozen=True)
class Connection:
    """An endpoint of a node, by its name in the graph."""

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
    """Those of all nodes of a stack, once they are configured.

    Raises:
        InputError: a vehicle or scenario that the stack names, by which nodes have what they have, cannot be read.
    """
    found = [Connection(entry, endpoint, entry.topic(endpoint.name_for(entry.value))) for entry in stack.nodes
             for endpoint in (*entry.endpoints, *in_force(OF_COMPONENTS, entry.value))]
    return found + [heard for entry in stack.nodes if entry.executable == RECORDER for heard in _recorded(entry, found)]


def _recorded(recorder: NodeEntry, found: list[Connection]) -> list[Connection]:
    """What a recorder subscribes to: what it is told to, or what nodes of the stack publish in its namespace."""
    topics, exclude = ({recorder.topic(name) for name in recorder.value(key) or []} for key in ("topics", "exclude"))  # type: ignore[union-attr]
    namespace = recorder.full_name.rpartition("/")[0] or "/"
    published = {c.name: c.endpoint.kind for c in found if c.direction == PUBLISHES}
    wanted = topics or {name for name in published if is_wanted(name, topics, exclude, namespace)}
    return [Connection(recorder, Endpoint(SUBSCRIBES, name, published.get(name), "recorded"), name) for name in sorted(wanted)]


def undeclared(stack: Stack) -> list[str]:
    """The nodes from outside that do not say what they have."""
    return [entry.full_name for entry in stack.nodes if not node_class(entry.executable).ENDPOINTS and entry.executable != RECORDER]
