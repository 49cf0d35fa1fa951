"""A vehicle as links and joints: its URDF for RViz, robot_state_publisher and Gazebo."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree import ElementTree

from lfdm_ros.models import WHEELS
from lfdm_ros.vehicles.vehicle import Vehicle

BASE, LIDAR, IMU = "base_link", "lidar", "imu"
FIXED, STEERED, TURNING = "fixed", "revolute", "continuous"
_FRONT = ("fl", "fr")
# Default sizes in wheelbases.
_RADIUS, _HEIGHT, _TRACK, _SENSOR = 0.13, 0.5, 0.55, 0.03
_CLEARANCE = 0.5  # ground clearance of the body in wheel radii
_WIDTH = 0.5  # tyre width in wheel radii
_COLOURS = {"body": "0.35 0.45 0.35 1", "tyre": "0.1 0.1 0.1 1", "sensor": "0.8 0.5 0.1 1"}


def wheel_joint(wheel: str) -> str:
    """Returns the name of a wheel's spin joint."""
    return f"wheel_{wheel}"


# The steering joints of the front wheels, both with the models' steering angle.
STEERING_JOINTS = tuple(f"steering_{wheel}" for wheel in _FRONT)


@dataclass(frozen=True)
class Joint:
    """Pose of a link in its parent: position [m], yaw, then pitch, then roll [rad]; axis of rotation; `limit`: largest angle [rad]."""

    name: str
    kind: str
    parent: str
    child: str
    x: float
    y: float
    z: float
    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    axis: tuple[float, float, float] = (0.0, 0.0, 0.0)
    limit: float = 0.0


def joints_of(vehicle: Vehicle) -> tuple[Joint, ...]:
    """Returns the joints of a vehicle with four wheels; links are relative to `BASE`, on the ground below the position point. A sensor
    whose type ends in `camera` has a frame NAME_optical as well: z ahead, x to the right, y down (REP 103)."""
    p = vehicle.parameters
    radius, half = _radius(p), {"f": 0.5 * _track(p, "front"), "r": 0.5 * _track(p, "rear")}
    joints = [Joint(f"{name}_mount", FIXED, BASE, name, mount.x, mount.y, mount.z, mount.yaw, mount.pitch)
              for name, mount in ((LIDAR, vehicle.lidar), (IMU, vehicle.imu), *vehicle.sensor_mounts.items())]
    joints += [Joint(f"{name}_optics", FIXED, name, f"{name}_optical", 0.0, 0.0, 0.0, -0.5 * math.pi, 0.0, -0.5 * math.pi)
               for name, sensor in vehicle.sensors.items() if sensor["type"].endswith("camera")]
    for wheel in WHEELS:
        x = p["cg_to_front_axle"] if wheel in _FRONT else -p["cg_to_rear_axle"]
        parent, place = BASE, (x, half[wheel[0]] if wheel[1] == "l" else -half[wheel[0]], radius)
        if wheel in _FRONT:
            joints.append(Joint(f"steering_{wheel}", STEERED, parent, f"knuckle_{wheel}", *place, axis=(0.0, 0.0, 1.0),
                                limit=p.get("max_road_wheel_angle", 0.5 * math.pi)))
            parent, place = f"knuckle_{wheel}", (0.0, 0.0, 0.0)
        joints.append(Joint(wheel_joint(wheel), TURNING, parent, f"{wheel_joint(wheel)}_link", *place, axis=(0.0, 1.0, 0.0)))
    return tuple(joints)


def robot_description(vehicle: Vehicle) -> str:
    """Returns the URDF. Missing dimensions are those of typical cars of the same wheelbase."""
    p, outline, radius = vehicle.parameters, vehicle.footprint, _radius(vehicle.parameters)
    robot = ElementTree.Element("robot", name=vehicle.name)
    for name, rgba in _COLOURS.items():
        ElementTree.SubElement(ElementTree.SubElement(robot, "material", name=name), "color", rgba=rgba)
    bottom = _CLEARANCE * radius
    top = max(2.0 * p.get("cg_height", 0.5 * _HEIGHT * _wheelbase(p)), 2.0 * radius)
    length, middle = outline.front + outline.rear, 0.5 * (outline.front - outline.rear)
    _link(robot, BASE, "body", "box", {"size": _text(length, 2.0 * outline.half_width, top - bottom)},
          xyz=_text(middle, 0.0, 0.5 * (top + bottom)))
    for joint in joints_of(vehicle):
        if joint.kind == TURNING:
            _link(robot, joint.child, "tyre", "cylinder", {"radius": _text(radius), "length": _text(_WIDTH * radius)},
                  rpy=_text(0.5 * math.pi, 0.0, 0.0))
        elif joint.kind == FIXED:
            _link(robot, joint.child, "sensor", "box", {"size": _text(*[_SENSOR * _wheelbase(p)] * 3)})
        else:
            ElementTree.SubElement(robot, "link", name=joint.child)
        element = ElementTree.SubElement(robot, "joint", name=joint.name, type=joint.kind)
        ElementTree.SubElement(element, "parent", link=joint.parent)
        ElementTree.SubElement(element, "child", link=joint.child)
        ElementTree.SubElement(element, "origin", xyz=_text(joint.x, joint.y, joint.z), rpy=_text(joint.roll, joint.pitch, joint.yaw))
        if joint.kind != FIXED:
            ElementTree.SubElement(element, "axis", xyz=_text(*joint.axis))
        if joint.kind == STEERED:
            rate = joint.limit * vehicle.actuators.steering_rate
            ElementTree.SubElement(element, "limit", lower=_text(-joint.limit), upper=_text(joint.limit), effort="0", velocity=_text(rate))
    ElementTree.indent(robot)
    return '<?xml version="1.0"?>\n' + ElementTree.tostring(robot, encoding="unicode") + "\n"


def _link(robot: ElementTree.Element, name: str, material: str, shape: str, size: dict[str, str], **origin: str) -> None:
    link = ElementTree.SubElement(robot, "link", name=name)
    parts = [ElementTree.SubElement(link, "visual")]
    if shape != "box" or material == "body":
        parts.append(ElementTree.SubElement(link, "collision"))
    for part in parts:
        ElementTree.SubElement(part, "origin", xyz=origin.get("xyz", "0 0 0"), rpy=origin.get("rpy", "0 0 0"))
        ElementTree.SubElement(ElementTree.SubElement(part, "geometry"), shape, size)
    ElementTree.SubElement(parts[0], "material", name=material)


def _text(*values: float) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def _wheelbase(p: Mapping[str, float]) -> float:
    return p["cg_to_front_axle"] + p["cg_to_rear_axle"]


def _radius(p: Mapping[str, float]) -> float:
    return p.get("wheel_radius", _RADIUS * _wheelbase(p))


def _track(p: Mapping[str, float], axle: str) -> float:
    return p.get(f"track_{axle}") or _TRACK * _wheelbase(p)
