"""A layout of a stack for Lichtblick, and for Foxglove, whose format it is: the scene, logs and diagnostics, and plots on pages."""

from __future__ import annotations

import json
from typing import Any

from lfdm_ros.ros.endpoints import PUBLISHES, SUBSCRIBES
from lfdm_ros.ros.messages import BODY_FRAME
from lfdm_ros.stacks.graph import Connection
from lfdm_ros.stacks.plots import STATES, of_topics, pages

# Types that the scene draws.
_DRAWN = ("sensor_msgs/msg/LaserScan", "nav_msgs/msg/Path", "nav_msgs/msg/Odometry", "geometry_msgs/msg/PoseStamped",
          "nav_msgs/msg/OccupancyGrid", "visualization_msgs/msg/MarkerArray")


def layout(graph: list[Connection], frame: str, transforms: bool) -> str:
    """The file's content; arguments as those of `rviz.configuration`."""
    panels: dict[str, Any] = {}

    def panel(kind: str, name: str, **settings: Any) -> str:
        panels[f"{kind}!{name}"] = settings
        return f"{kind}!{name}"

    tabs = [{"title": page, "layout": _split("column", [
        panel("Plot", f"{page}{i}", title=title, paths=[_path(*curve) for curve in curves], showLegend=True, isSynced=True,
              xAxisVal="timestamp") for i, (title, curves) in enumerate(plots)])} for page, plots in pages(graph)]
    states = of_topics(graph, STATES)
    if states:
        tabs.append({"title": "states", "layout": panel(
            "StateTransitions", "states", paths=[_path(*state) for state in states], isSynced=True)})
    tabs.append({"title": "health", "layout": _split("column", [
        panel("DiagnosticSummary", "health", topicToRender="/diagnostics", minLevel=0, pinnedIds=[], hardwareIdFilter="", sortByLevel=True),
        panel("RosOut", "log", topicToRender="/rosout", minLogLevel=2, searchTerms=[])])})
    plots = panel("Tab", "plots", activeTabIdx=0, tabs=tabs)
    scene = _scene(graph, frame, transforms)
    return json.dumps({
        "configById": panels, "globalVariables": {}, "userNodes": {}, "playbackConfig": {"speed": 1},
        "layout": _split("row", [panel("3D", "scene", **scene), plots]) if scene else plots}, indent=2) + "\n"


def _scene(graph: list[Connection], frame: str, transforms: bool) -> dict[str, Any]:
    """The panel 3D's settings; empty where there is nothing to draw."""
    published = {c.name: c for c in graph if c.direction == PUBLISHES}
    drawn = [c.name for c in published.values() if c.type_name in _DRAWN]
    if not drawn:
        return {}
    layers: dict[str, Any] = {"grid": {"layerId": "foxglove.Grid", "instanceId": "grid", "label": "Grid", "visible": True,
                                       "frameLocked": True, "size": 400, "divisions": 40, "order": 1}}
    for name, c in published.items():
        if c.endpoint.name == "robot_description":
            layers["vehicle"] = {"layerId": "foxglove.Urdf", "instanceId": "vehicle", "label": "vehicle", "visible": True, "order": 2,
                                 "sourceType": "topic", "topic": name}
    goals = [c.name for c in graph if c.direction == SUBSCRIBES and c.endpoint.name == "goal_pose"]
    return {
        "followTf": BODY_FRAME if transforms else frame, "followMode": "follow-position",
        "cameraState": {"perspective": False, "distance": 60, "phi": 0, "thetaOffset": 90, "target": [0, 0, 0], "targetOffset": [0, 0, 0],
                        "targetOrientation": [0, 0, 0, 1], "fovy": 45, "near": 0.5, "far": 5000},
        "topics": {name: {"visible": True} for name in drawn}, "layers": layers, "transforms": {}, "scene": {},
        **({"publish": {"type": "pose", "poseTopic": goals[0]}} if goals else {})}


def _path(topic: str, field: str) -> dict[str, Any]:
    return {"value": f"{topic}.{field}", "label": f"{topic[1:]} {field}", "enabled": True, "timestampMethod": "receiveTime"}


def _split(direction: str, parts: list[Any]) -> Any:
    """Parts of equal size, in the nested halves that layouts are made of."""
    if len(parts) == 1:
        return parts[0]
    return {"direction": direction, "first": parts[0], "second": _split(direction, parts[1:]), "splitPercentage": 100.0 / len(parts)}
