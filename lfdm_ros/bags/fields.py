"""Paths into messages ("wheel_speeds[0]", "speed_by_wheel[ml]", "angular_velocity.z"): their leaves and units.

An array X_by_KIND has the order of the names in the array KIND_names beside it; X_by_KIND[NAME] is the element of that name, NaN in
messages without it.
"""

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from rosbags.interfaces import Nodetype

from lfdm_ros.bags.typestore import NUMERIC
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.resources import share_directory

_ARRAYS = (Nodetype.ARRAY, Nodetype.SEQUENCE)
# Units of standard messages (REP-103 and the comments in their definitions) by message type and leading part of the path.
_STANDARD_UNITS: dict[str, dict[str, str]] = {
    "geometry_msgs/msg/AccelStamped": {"accel.linear": "m/s^2", "accel.angular": "rad/s^2"},
    "geometry_msgs/msg/PoseStamped": {"pose.position": "m", "pose.orientation": "1"},
    "geometry_msgs/msg/TwistStamped": {"twist.linear": "m/s", "twist.angular": "rad/s"},
    "nav_msgs/msg/Odometry": {
        "pose.pose.position": "m", "pose.pose.orientation": "1", "twist.twist.linear": "m/s", "twist.twist.angular": "rad/s"},
    "sensor_msgs/msg/Imu": {"angular_velocity": "rad/s", "linear_acceleration": "m/s^2", "orientation": "1"},
    "sensor_msgs/msg/JointState": {"position": "rad", "velocity": "rad/s", "effort": "N*m"},
    "sensor_msgs/msg/NavSatFix": {"latitude": "deg", "longitude": "deg", "altitude": "m"},
}


@dataclass(frozen=True)
class NamedElement:
    """A step into the array `array` of a message, to the place that `name` has in its array `names`."""

    array: str
    names: str
    name: str

    def of(self, message: Any) -> Any:
        """Returns the element; NaN where the message has none of that name."""
        try:
            return getattr(message, self.array)[getattr(message, self.names).index(self.name)]
        except (ValueError, IndexError):
            return math.nan


Step = str | int | NamedElement


@dataclass(frozen=True)
class MessageField:
    """One leaf of a message type: its path as written; steps to it, attribute names, array indices and named places in arrays; primitive
    type, such as float64 or string; and unit as declared, or None."""

    path: str
    steps: tuple[Step, ...]
    base: str
    unit: str | None

    def reader(self) -> Callable[[Any], Any]:
        """Returns a function from a message to the value of the leaf."""
        if len(self.steps) == 1 and isinstance(self.steps[0], str):
            return attrgetter(self.steps[0])
        return lambda message: functools.reduce(follow, self.steps, message)


def follow(message: Any, step: Step) -> Any:
    """Returns the value at which a step from a message or an array ends."""
    if isinstance(step, NamedElement):
        return step.of(message)
    return message[step] if isinstance(step, int) else getattr(message, step)


def find_field(store: Any, msgtype: str, path: str, where: str) -> MessageField:
    """Follows `path` through the definition of `msgtype`. `store`: rosbags typestore with the type; `where`: context of the error message.
    Raises InputError: no such field, an index outside a fixed array, a name in an array of unnamed elements, or a path that does not end at
    a single value."""
    if not re.fullmatch(r"[A-Za-z]\w*(\[\w+\])?(\.[A-Za-z]\w*(\[\w+\])?)*", path):
        raise InputError(f"{where}: '{path}' is not a field; write for example vx, wheel_speeds[0], speed_by_wheel[fl] or "
                         "angular_velocity.z")
    steps: list[Step] = []
    owner, leaf = msgtype, ""
    description: Any = (Nodetype.NAME, msgtype)
    for bracket, part in re.findall(r"(\[?)(\w+)", path):
        kind, detail = description
        if bracket and not part.isdigit() and kind in _ARRAYS:
            if detail[0] != (Nodetype.BASE, ("float64", 0)) or (names := _names_of(store, owner, leaf)) is None:
                raise InputError(f"{where}: {path}: the elements of {leaf} of {owner} have no names; give an index such as [0]")
            steps[-1] = NamedElement(leaf, names, part)
            description = detail[0]
            continue
        if part.isdigit() and kind in _ARRAYS:
            if kind == Nodetype.ARRAY and int(part) >= detail[1]:
                raise InputError(f"{where}: {path}: {leaf} of {owner} has {detail[1]} elements, counted from 0")
            steps.append(int(part))
            description = detail[0]
            continue
        if bracket or kind != Nodetype.NAME:
            raise InputError(f"{where}: {path}: '{leaf}' of {owner} has no '{part}'; it is {_describe(description)}")
        fields = dict(store.fielddefs[detail][1])
        if part not in fields:
            raise InputError(f"{where}: {detail} has no field '{part}'{suggest(part, fields, 'it has ')}")
        owner, leaf, description = detail, part, fields[part]
        steps.append(part)
    if description[0] != Nodetype.BASE:
        raise InputError(f"{where}: '{path}' of {msgtype} is {_describe(description)}, not a single value")
    return MessageField(path, tuple(steps), description[1][0], _unit(msgtype, path, owner, leaf))


def _names_of(store: Any, msgtype: str, array: str) -> str | None:
    """Returns the name of the array in a message type that names the elements of another array; None without one."""
    _, by, kind = array.rpartition("_by_")
    names = f"{kind}_names"
    found = dict(store.fielddefs[msgtype][1]).get(names)
    return names if by and found and found[0] in _ARRAYS and found[1][0] == (Nodetype.BASE, ("string", 0)) else None


def require_numeric(field: MessageField, where: str) -> None:
    """Raises InputError when the field cannot be read as a number."""
    if field.base not in NUMERIC:
        raise InputError(f"{where}: field '{field.path}' is a {field.base}, not a number")


def _describe(description: Any) -> str:
    kind, detail = description
    if kind in _ARRAYS:
        return "an array; give an index such as [0]"
    return f"a {detail[0]}" if kind == Nodetype.BASE else f"a {detail}; name one of its fields"


def _unit(msgtype: str, path: str, owner: str, leaf: str) -> str | None:
    if owner.startswith("lfdm_ros/msg/"):
        return _commented_units(owner.rsplit("/", 1)[1]).get(leaf)
    for prefix, unit in _STANDARD_UNITS.get(msgtype, {}).items():
        if path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")):
            return unit
    return None


@functools.cache
def _commented_units(name: str) -> dict[str, str]:
    """Units of a message of this package, from comments of the form `float64 vx  # [m/s] ...`."""
    text = (share_directory() / "msg" / f"{name}.msg").read_text(encoding="utf-8")
    return {match[1]: match[2] for match in re.finditer(r"^\s*[\w/\[\]<=]+\s+(\w+)\s*#\s*\[([^\]]+)\]", text, re.MULTILINE)
            if not match[2].startswith("see ")}
