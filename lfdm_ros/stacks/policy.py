"""The SROS2 policy of a stack: the topics, services and actions that each node may use, and nothing else (schema 0.2.0)."""

from collections.abc import Iterable
from xml.etree import ElementTree

from lfdm_ros.ros.endpoints import ACTS, CALLS, OF_NODES, PUBLISHES, SERVES, STARTS, SUBSCRIBES
from lfdm_ros.stacks.bring_up import MANAGER
from lfdm_ros.stacks.remote import SIMULATOR_STATUS
from lfdm_ros.stacks.stack import NodeEntry, Stack, connections

VERSION = "0.2.0"
_ROOT = "/"  # default enclave, of the process started by hand
# Elements of a profile: direction of the endpoints, list, one of it, attribute.
_RULES = ((PUBLISHES, "topics", "topic", "publish"), (SUBSCRIBES, "topics", "topic", "subscribe"), (SERVES, "services", "service", "reply"),
          (CALLS, "services", "service", "request"), (ACTS, "actions", "action", "execute"), (STARTS, "actions", "action", "call"))


def policy(stack: Stack, *, processes: bool) -> str:
    """Returns the policy as XML. processes: each node has a process and an enclave of its own, and the managing process the enclave `/`;
    else all are in one process, whose enclave `/` has a profile for each. Raises InputError: as `connections`."""
    root = ElementTree.Element("policy", version=VERSION)
    enclaves = ElementTree.SubElement(root, "enclaves")
    allowed = _allowed(stack)
    root_profiles = _enclave(enclaves, _ROOT)
    if processes:
        _profile(root_profiles, f"/{MANAGER}", _manager_rules(stack.nodes))
    for name, rules in allowed.items():
        _profile(_enclave(enclaves, name) if processes else root_profiles, name, rules)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _allowed(stack: Stack) -> dict[str, set[tuple[str, str]]]:
    """Returns (direction, name) of the endpoints of each node, by the node's full name."""
    allowed: dict[str, set[tuple[str, str]]] = {entry.full_name: set() for entry in stack.nodes}
    for connection in connections(stack):
        allowed[connection.node.full_name].add((connection.direction, connection.name))
    return allowed


def _manager_rules(nodes: Iterable[NodeEntry]) -> set[tuple[str, str]]:
    """Returns the permissions of the process that brings the nodes up and watches them: bring_up.py."""
    manager = NodeEntry(MANAGER, MANAGER)
    return {*((endpoint.direction, manager.topic(endpoint.name)) for endpoint in OF_NODES), (SUBSCRIBES, "/rosout"),
            *((SUBSCRIBES, entry.topic(SIMULATOR_STATUS)) for entry in nodes if entry.executable == "vehicle_simulator"),
            *((CALLS, f"{entry.full_name}/{name}") for entry in nodes if entry.autostart for name in ("change_state", "get_state"))}


def _enclave(enclaves: ElementTree.Element, path: str) -> ElementTree.Element:
    """Adds an enclave; returns its list of profiles."""
    return ElementTree.SubElement(ElementTree.SubElement(enclaves, "enclave", path=path), "profiles")


def _profile(profiles: ElementTree.Element, full_name: str, rules: set[tuple[str, str]]) -> None:
    namespace, _, name = full_name.rpartition("/")
    profile = ElementTree.SubElement(profiles, "profile", ns=namespace or "/", node=name)
    for direction, of, one, attribute in _RULES:
        names = sorted(name for which, name in rules if which == direction)
        if names:
            listed = ElementTree.SubElement(profile, of, {attribute: "ALLOW"})
            for name in names:
                ElementTree.SubElement(listed, one).text = name
