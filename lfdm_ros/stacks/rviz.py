"""RViz configuration of a stack: a display for each topic that it can draw, the frames, and the goal tool."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import yaml
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from lfdm_ros.ros.endpoints import PUBLISHES, SUBSCRIBES
from lfdm_ros.ros.messages import BODY_FRAME
from lfdm_ros.stacks.stack import Connection

_DEFAULT = "rviz_default_plugins/"
_COLOURS = ("25; 180; 60", "220; 120; 30", "60; 120; 230", "200; 60; 160")
_QUEUE = 10  # messages queued for their transforms

Settings = dict[str, Any]


def _scan(colour: str) -> Settings:
    return {"Color": colour, "Color Transformer": "FlatColor", "Style": "Points", "Size (Pixels)": 4, "Decay Time": 0.0, "Alpha": 1.0}


def _path(colour: str) -> Settings:
    return {"Color": colour, "Line Style": "Billboards", "Line Width": 0.2, "Alpha": 1.0, "Pose Style": "None"}


def _odometry(colour: str) -> Settings:
    return {"Color": colour, "Shape": "Arrow", "Keep": 100, "Position Tolerance": 0.5, "Angle Tolerance": 0.1,
            "Covariance": {"Value": False}}


def _pose(colour: str) -> Settings:
    return {"Color": colour, "Shape": "Arrow", "Shaft Length": 3.0, "Head Length": 1.0}


# RViz's display class and its settings for a colour, by message type.
_DISPLAYS: dict[str, tuple[str, Callable[[str], Settings]]] = {
    "sensor_msgs/msg/LaserScan": ("LaserScan", _scan),
    "nav_msgs/msg/Path": ("Path", _path),
    "nav_msgs/msg/Odometry": ("Odometry", _odometry),
    "geometry_msgs/msg/PoseStamped": ("Pose", _pose),
    "nav_msgs/msg/OccupancyGrid": ("Map", lambda colour: {"Alpha": 0.4, "Color Scheme": "costmap", "Draw Behind": True}),
    "visualization_msgs/msg/MarkerArray": ("MarkerArray", lambda colour: {"Namespaces": {}}),
}


def configuration(graph: list[Connection], frame: str, transforms: bool) -> str:
    """Returns the configuration; "" where there is nothing to draw.

    Args:
        graph: endpoints of the nodes of one vehicle.
        frame: fixed frame.
        transforms: the nodes publish transforms between frames.
    """
    published = {c.name: c for c in graph if c.direction == PUBLISHES}
    displays = [_display(c, colour) for c, colour in zip((c for c in published.values() if c.type_name in _DISPLAYS), cycle(_COLOURS))]
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
            "Class": "",
            "Displays": [ground, *frames, *model, *displays],
            "Enabled": True,
            "Global Options": {"Fixed Frame": frame, "Background Color": "48; 48; 48", "Frame Rate": 30},
            "Name": "root",
            "Tools": _tools(graph),
            "Transformation": {"Current": {"Class": f"{_DEFAULT}TF"}},
            "Value": True,
            "Views": {"Current": {
                "Class": f"{_DEFAULT}TopDownOrtho", "Name": "Current View", "Scale": 12.0, "Angle": 0.0, "X": 0.0, "Y": 0.0,
                "Target Frame": BODY_FRAME if transforms else "<Fixed Frame>", "Value": "TopDownOrtho (rviz_default_plugins)"}}},
    }, sort_keys=False)


def _display(connection: Connection, colour: str) -> Settings:
    kind, settings = _DISPLAYS[connection.type_name]
    topic = {**_topic(connection.name, connection.endpoint.qos), "Filter size": _QUEUE}
    return {"Class": _DEFAULT + kind, "Name": connection.name, "Enabled": True, "Value": True, "Topic": topic, **settings(colour)}


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
