"""Files for tools that show a stack, one set for each namespace of its vehicles: RViz, Lichtblick (Foxglove's format), PlotJuggler."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import yaml
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from lfdm_ros.ros.endpoints import PUBLISHES, SUBSCRIBES
from lfdm_ros.ros.messages import BODY_FRAME, MAP_FRAME, ODOM_FRAME
from lfdm_ros.stacks.stack import Connection, Stack, connections

_DEFAULT = "rviz_default_plugins/"
_RVIZ_COLOURS = ("25; 180; 60", "220; 120; 30", "60; 120; 230", "200; 60; 160")
_QUEUE = 10  # messages queued for their transforms

Settings = dict[str, Any]


# RViz's display class and its settings, by message type; a display with a "Color" gets one of its own.
_DISPLAYS: dict[str, tuple[str, Settings]] = {
    "sensor_msgs/msg/LaserScan": ("LaserScan", {"Color": "", "Color Transformer": "FlatColor", "Style": "Points", "Size (Pixels)": 4,
                                                "Decay Time": 0.0, "Alpha": 1.0}),
    "nav_msgs/msg/Path": ("Path", {"Color": "", "Line Style": "Billboards", "Line Width": 0.2, "Alpha": 1.0, "Pose Style": "None"}),
    "nav_msgs/msg/Odometry": ("Odometry", {"Color": "", "Shape": "Arrow", "Keep": 100, "Position Tolerance": 0.5, "Angle Tolerance": 0.1,
                                           "Covariance": {"Value": False}}),
    "geometry_msgs/msg/PoseStamped": ("Pose", {"Color": "", "Shape": "Arrow", "Shaft Length": 3.0, "Head Length": 1.0}),
    "nav_msgs/msg/OccupancyGrid": ("Map", {"Alpha": 0.4, "Color Scheme": "costmap", "Draw Behind": True}),
    "visualization_msgs/msg/MarkerArray": ("MarkerArray", {"Namespaces": {}}),
}


def rviz_configuration(graph: list[Connection], frame: str, transforms: bool) -> str:
    """Returns the configuration of RViz; "" where there is nothing to draw. graph: endpoints of the nodes of one vehicle. frame: fixed
    frame. transforms: the nodes publish transforms between frames."""
    published = {c.name: c for c in graph if c.direction == PUBLISHES}
    displays = [_display(c, colour) for c, colour in zip((c for c in published.values() if c.type_name in _DISPLAYS), cycle(_RVIZ_COLOURS))]
    if not displays:
        return ""
    model = [{"Class": f"{_DEFAULT}RobotModel", "Name": "RobotModel", "Enabled": True, "Value": True, "Description Source": "Topic",
              "Description Topic": _topic(name, c.endpoint.qos), "Visual Enabled": True, "Collision Enabled": False, "Alpha": 1.0}
             for name, c in published.items() if c.endpoint.name == "robot_description"]
    frames = [{"Class": f"{_DEFAULT}TF", "Name": "TF", "Enabled": True, "Value": True, "Show Names": True, "Show Arrows": False,
               "Show Axes": True, "Marker Scale": 2.0, "Frame Timeout": 15.0}] if transforms else []
    ground = {"Class": f"{_DEFAULT}Grid", "Name": "Grid", "Enabled": True, "Value": True, "Cell Size": 10.0, "Plane Cell Count": 40,
              "Reference Frame": "<Fixed Frame>"}
    return yaml.safe_dump({
        "Panels": [{"Class": f"rviz_common/{name}", "Name": name} for name in ("Displays", "Tool Properties", "Views", "Time")],
        "Visualization Manager": {
            "Class": "", "Displays": [ground, *frames, *model, *displays], "Enabled": True,
            "Global Options": {"Fixed Frame": frame, "Background Color": "48; 48; 48", "Frame Rate": 30},
            "Name": "root", "Tools": _tools(graph), "Transformation": {"Current": {"Class": f"{_DEFAULT}TF"}}, "Value": True,
            "Views": {"Current": {
                "Class": f"{_DEFAULT}TopDownOrtho", "Name": "Current View", "Scale": 12.0, "Angle": 0.0, "X": 0.0, "Y": 0.0,
                "Target Frame": BODY_FRAME if transforms else "<Fixed Frame>", "Value": "TopDownOrtho (rviz_default_plugins)"}}},
    }, sort_keys=False)


def _display(connection: Connection, colour: str) -> Settings:
    kind, settings = _DISPLAYS[connection.type_name]
    topic = {**_topic(connection.name, connection.endpoint.qos), "Filter size": _QUEUE}
    own = {key: colour if key == "Color" else deepcopy(value) for key, value in settings.items()}  # shared ones would be YAML anchors
    return {"Class": _DEFAULT + kind, "Name": connection.name, "Enabled": True, "Value": True, "Topic": topic, **own}


def _topic(name: str, profile: QoSProfile | None) -> Settings:
    """Returns a topic with the QoS of its publisher."""
    latched = profile is not None and profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
    reliable = profile is not None and profile.reliability == ReliabilityPolicy.RELIABLE
    return {"Value": name, "Depth": 5, "History Policy": "Keep Last", "Durability Policy": "Transient Local" if latched else "Volatile",
            "Reliability Policy": "Reliable" if reliable else "Best Effort"}


def _tools(graph: list[Connection]) -> list[Settings]:
    goals = dict.fromkeys(c.name for c in graph if c.direction == SUBSCRIBES and c.endpoint.name == "goal_pose")
    tools = [{"Class": _DEFAULT + name} for name in ("Interact", "MoveCamera", "Select", "FocusCamera", "Measure")]
    return [*tools, *({"Class": f"{_DEFAULT}SetGoal", "Topic": {
        "Value": goal, "Depth": 5, "History Policy": "Keep Last", "Durability Policy": "Volatile", "Reliability Policy": "Reliable"}}
        for goal in goals)]


_TRANSFORMS = "tf2_msgs/msg/TFMessage"
_OURS = "lfdm_ros/msg/"

# Types that the scene of Lichtblick draws.
_DRAWN = ("sensor_msgs/msg/LaserScan", "nav_msgs/msg/Path", "nav_msgs/msg/Odometry", "geometry_msgs/msg/PoseStamped",
          "nav_msgs/msg/OccupancyGrid", "visualization_msgs/msg/MarkerArray")
_STREAMER = "ROS2 Topic Subscriber"
_COLOURS = ("#1f77b4", "#d62728", "#1ac938", "#ff7f0e", "#f14cc1", "#9467bd", "#17becf", "#bcbd22")


def layouts(stack: Stack, name: str) -> dict[str, str]:
    """Returns file contents by file name, which begins with `name`; without files of tools for which the stack has nothing. Raises
    InputError: as `connections`."""
    files: dict[str, str] = {}
    namespaces = list(dict.fromkeys(entry.full_name.rpartition("/")[0] for entry in stack.nodes))
    for namespace in namespaces:
        part = replace(stack, nodes=tuple(entry for entry in stack.nodes if entry.full_name.rpartition("/")[0] == namespace))
        base = f"{name}{namespace.replace('/', '_')}"
        files |= {f"{base}{suffix}": content for suffix, content in _vehicle_files(part, connections(part)).items() if content}
    return files


def _vehicle_files(stack: Stack, graph: list[Connection]) -> dict[str, str]:
    """Returns file contents by the end of the file name."""
    transforms = any(c.type_name == _TRANSFORMS and c.direction == PUBLISHES for c in graph)
    localised = any(entry.executable == "vehicle_frames" and entry.value("map_is_odom") for entry in stack.nodes)
    frame = MAP_FRAME if localised else ODOM_FRAME
    return {".rviz": rviz_configuration(graph, frame, transforms), "_lichtblick.json": lichtblick_layout(graph, frame, transforms),
            "_plotjuggler.xml": plotjuggler_layout(graph)}


@dataclass(frozen=True)
class Plot:
    """Curves on one axis: (message type, field) each, for every topic of that type."""

    title: str
    curves: tuple[tuple[str, str], ...]


def _plot(title: str, kind: str, *fields: str) -> Plot:
    return Plot(title, tuple((_OURS + kind, field) for field in fields))


# Pages of plots by subject.
PAGES: dict[str, tuple[Plot, ...]] = {
    "driving": (
        _plot("speed [m/s]", "VehicleState", "vx"),
        _plot("yaw rate [rad/s]", "VehicleState", "yaw_rate"),
        _plot("lateral acceleration [m/s²]", "VehicleState", "ay"),
        _plot("steering [1]", "DriverCommand", "steering"),
        _plot("throttle and brake [1]", "DriverCommand", "throttle", "brake")),
    "autonomy": (
        _plot("times of a cycle [s]", "MpcStatus", "cycle_time", "solve_time", "state_age"),
        _plot("distance to go [m]", "MpcStatus", "distance_to_go"),
        _plot("outcome of a cycle", "MpcStatus", "outcome")),
    "sharing": (
        _plot("k and threat [1]", "SharedControlStatus", "k", "k_wanted", "threat"),
        _plot("risk: probabilities [1]", "SharedControlStatus", *(f"probabilities[{i}]" for i in range(4))),
        _plot("ages [s]", "SharedControlStatus", "operator_age", "autonomy_age", "plan_age", "scan_age"),
        _plot("latency of the link, up and down [s]", "LinkStatus", "latency[0]", "latency[1]")),
    "bench": (
        _plot("largest lateness of the loop [s]", "HilStatus", "worst_lateness"),
        _plot("misses and what went unanswered", "HilStatus", "misses", "unanswered"),
        _plot("simulated seconds a second", "SimulatorStatus", "speed_factor_reached"),
        _plot("overruns", "SimulatorStatus", "overruns")),
    "calibration": (
        _plot("progress [1]", "CalibratorStatus", "progress"),
        _plot("effective sample size", "CalibratorStatus", "ess")),
}
# Text fields, shown as state transitions.
STATES = tuple((_OURS + kind, field) for kind, field in (
    ("MpcStatus", "outcome_name"), ("SharedControlStatus", "state"), ("HilStatus", "link_state")))


def pages(graph: list[Connection]) -> Iterator[tuple[str, list[tuple[str, list[tuple[str, str]]]]]]:
    """Yields (page, [(plot, [(topic, field)])]) for the topics that the nodes publish."""
    for page, plots in PAGES.items():
        drawn = [(plot.title, curves) for plot in plots if (curves := topic_fields(graph, plot.curves))]
        if drawn:
            yield page, drawn


def topic_fields(graph: list[Connection], curves: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Returns (topic, field) for each published topic of the types of `curves`."""
    topics = dict.fromkeys((c.type_name, c.name) for c in graph if c.direction == PUBLISHES)
    return [(name, field) for kind, name in topics for plotted, field in curves if kind == plotted]


def lichtblick_layout(graph: list[Connection], frame: str, transforms: bool) -> str:
    """Returns the layout for Lichtblick; arguments as those of `rviz_configuration`."""
    panels: dict[str, Any] = {}

    def panel(kind: str, name: str, **settings: Any) -> str:
        panels[f"{kind}!{name}"] = settings
        return f"{kind}!{name}"

    tabs = [{"title": page, "layout": _split("column", [
        panel("Plot", f"{page}{i}", title=title, paths=[_curve(*curve) for curve in curves], showLegend=True, isSynced=True,
              xAxisVal="timestamp") for i, (title, curves) in enumerate(plots)])} for page, plots in pages(graph)]
    states = topic_fields(graph, STATES)
    if states:
        tabs.append({"title": "states", "layout": panel(
            "StateTransitions", "states", paths=[_curve(*state) for state in states], isSynced=True)})
    tabs.append({"title": "health", "layout": _split("column", [
        panel("DiagnosticSummary", "health", topicToRender="/diagnostics", minLevel=0, pinnedIds=[], hardwareIdFilter="", sortByLevel=True),
        panel("RosOut", "log", topicToRender="/rosout", minLogLevel=2, searchTerms=[])])})
    plots = panel("Tab", "plots", activeTabIdx=0, tabs=tabs)
    scene = _scene(graph, frame, transforms)
    return json.dumps({
        "configById": panels, "globalVariables": {}, "userNodes": {}, "playbackConfig": {"speed": 1},
        "layout": _split("row", [panel("3D", "scene", **scene), plots]) if scene else plots}, indent=2) + "\n"


def _scene(graph: list[Connection], frame: str, transforms: bool) -> dict[str, Any]:
    """Returns the settings of the 3D panel; empty where there is nothing to draw."""
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


def _curve(topic: str, field: str) -> dict[str, Any]:
    return {"value": f"{topic}.{field}", "label": f"{topic[1:]} {field}", "enabled": True, "timestampMethod": "receiveTime"}


def _split(direction: str, parts: list[Any]) -> Any:
    """Returns parts of equal size as nested halves, the form of layouts."""
    if len(parts) == 1:
        return parts[0]
    return {"direction": direction, "first": parts[0], "second": _split(direction, parts[1:]), "splitPercentage": 100.0 / len(parts)}


def plotjuggler_layout(graph: list[Connection]) -> str:
    """Returns the layout for PlotJuggler; "" where there is nothing to plot."""
    shown = list(pages(graph))
    if not shown:
        return ""
    root = Element("root")
    tabs = SubElement(root, "tabbed_widget", {"parent": "main_window", "name": "Main Window"})
    for page, plots in shown:
        container = SubElement(SubElement(tabs, "Tab", tab_name=page, containers="1"), "Container")
        sizes = ";".join([f"{1.0 / len(plots):.6f}"] * len(plots))
        parts = SubElement(container, "DockSplitter", orientation="-", count=str(len(plots)), sizes=sizes)
        for title, curves in plots:
            area = SubElement(parts, "DockArea", name=title)
            plot = SubElement(area, "plot", mode="TimeSeries", style="Lines", flip_x="false", flip_y="false")
            SubElement(plot, "limitY")
            for (topic, field), colour in zip(curves, cycle(_COLOURS)):
                SubElement(plot, "curve", name=f"{topic}/{field}", color=colour)
    SubElement(tabs, "currentTabIndex", index="0")
    SubElement(root, "use_relative_time_offset", enabled="1")
    plugin = SubElement(SubElement(root, "Plugins"), "plugin", ID=_STREAMER)
    topics = dict.fromkeys(topic for _, plots in shown for _, curves in plots for topic, _ in curves)
    SubElement(plugin, "selected_topics", value=";".join(topics))
    SubElement(root, "previouslyLoaded_Datafiles")
    SubElement(root, "previouslyLoaded_Streamer", name=_STREAMER)
    indent(root)
    return "<?xml version='1.0' encoding='UTF-8'?>\n" + tostring(root, encoding="unicode") + "\n"
