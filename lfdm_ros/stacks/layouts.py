"""Files for tools that look at a stack, one set for each namespace that its vehicles are in."""

from __future__ import annotations

from dataclasses import replace

from lfdm_ros.ros.endpoints import PUBLISHES
from lfdm_ros.ros.messages import MAP_FRAME, ODOM_FRAME
from lfdm_ros.stacks import lichtblick, plotjuggler, rviz
from lfdm_ros.stacks.graph import Connection, connections
from lfdm_ros.stacks.stack import Stack

_TRANSFORMS = "tf2_msgs/msg/TFMessage"


def layouts(stack: Stack, name: str) -> dict[str, str]:
    """Content by the file's name, which begins with `name`; without files of tools for which the stack has nothing.

    Raises:
        InputError: as `connections`.
    """
    files: dict[str, str] = {}
    namespaces = list(dict.fromkeys(entry.full_name.rpartition("/")[0] for entry in stack.nodes))
    for namespace in namespaces:
        own = replace(stack, nodes=tuple(entry for entry in stack.nodes if entry.full_name.rpartition("/")[0] == namespace))
        base = f"{name}{namespace.replace('/', '_')}"
        files |= {f"{base}{suffix}": content for suffix, content in _of_vehicle(own, connections(own)).items() if content}
    return files


def _of_vehicle(stack: Stack, graph: list[Connection]) -> dict[str, str]:
    """Content by what is appended to the files' names."""
    transforms = any(c.type_name == _TRANSFORMS and c.direction == PUBLISHES for c in graph)
    localised = any(entry.executable == "vehicle_frames" and entry.value("map_is_odom") for entry in stack.nodes)
    frame = MAP_FRAME if localised else ODOM_FRAME
    return {".rviz": rviz.configuration(graph, frame, transforms), "_lichtblick.json": lichtblick.layout(graph, frame, transforms),
            "_plotjuggler.xml": plotjuggler.layout(graph)}
