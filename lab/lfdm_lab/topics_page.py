"""The page docs/reference/topics.md, from the declarations: python -m lfdm_lab.topics_page > docs/reference/topics.md"""

from collections.abc import Iterable

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from lfdm_ros.ros import qos
from lfdm_ros.ros.endpoints import ACTS, CALLS, OF_COMPONENTS, PUBLISHES, SERVES, STARTS, SUBSCRIBES, Endpoint
from lfdm_ros.stacks.stack import EXECUTABLES, node_class

_HEAD = """# Topics, services and actions

Written by `python -m lfdm_lab.topics_page` from `ENDPOINTS` of each node, which also create them; a test compares both.
Layouts for RViz, Lichtblick and PlotJuggler and the security policy of a stack come from the same: [interop](../howto/interop.md#layouts).

Names are relative to the node's namespace, those with `/` to the graph, those with `~/` to the node; `remappings` of a stack change them.
"""
_TITLES = {SUBSCRIBES: "subscribes", PUBLISHES: "publishes", SERVES: "service", ACTS: "action", CALLS: "calls", STARTS: "starts"}


def markdown() -> str:
    """Returns the page: the profiles, the endpoints of every node, and a table for each node that ships with the package."""
    parts = [_HEAD, "## Quality of service", "", "Endpoints without a profile below have rclpy's default.", "", *_profiles(), "",
             "## Every node", "", *_table(OF_COMPONENTS), ""]
    for name in EXECUTABLES:
        endpoints = node_class(name).ENDPOINTS
        parts += [f"## {name}", "", *(_table(endpoints) if endpoints else ["Subscribes to its namespace, or to `topics`."]), ""]
    return "\n".join(parts)


def _profiles() -> list[str]:
    rows = [f"| {name} | {'reliable' if profile.reliability == ReliabilityPolicy.RELIABLE else 'best effort'} | "
            f"{'transient local' if profile.durability == DurabilityPolicy.TRANSIENT_LOCAL else 'volatile'} | {profile.depth} |"
            for name, profile in vars(qos).items() if isinstance(profile, QoSProfile)]
    return ["| profile | reliability | durability | depth |", "| --- | --- | --- | --- |", *rows]


def _table(endpoints: Iterable[Endpoint]) -> list[str]:
    ordered = sorted(endpoints, key=lambda e: list(_TITLES).index(e.direction))
    return ["| | name | type | profile | what |", "| --- | --- | --- | --- | --- |", *map(_row, ordered)]


def _row(e: Endpoint) -> str:
    profile = qos.name_of(e.qos) + (f"; in lockstep {qos.name_of(e.in_lockstep)}" if e.in_lockstep else "")
    name = f"`{e.name.format(e.named_by.upper())}`" + (f", or as `{e.named_by}` says" if e.named_by and "{}" not in e.name else "")
    package, _, kind = e.type_name.split("/")
    return f"| {_TITLES[e.direction]} | {name} | {package}/{kind} | {profile} | {e.text}{f'. With {e.when.text}' if e.when.text else ''} |"


if __name__ == "__main__":
    print(markdown(), end="")
