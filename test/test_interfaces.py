"""The interfaces: every field tells its unit, every type survives serialisation and resembles what the design lists."""

import math
import re
from pathlib import Path

import pytest
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from lfdm_ros.bags.typestore import require_type, typestore
from lfdm_ros.resources import share_directory
from lfdm_ros.units import to_si

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted([*ROOT.glob("msg/*.msg"), *ROOT.glob("srv/*.srv"), *ROOT.glob("action/*.action")])
OF_OTHERS = sorted(ROOT.glob("interfaces/*/msg/*.msg"))
NUMBERS = r"(?:float|u?int)\d+(?:\[\d*\])?"
FIELD = re.compile(r"^(?P<type>[A-Za-z][\w/]*(?:\[\d*\])?)\s+(?P<name>[a-z]\w*)\s*(?:#\s*(?P<comment>.*))?$")


def fields(path: Path) -> list[re.Match]:
    """The field declarations of a file; constants and comments are left out, a line that is none of them fails."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#") or line == "---" or re.match(r"^\w+ [A-Z_]+=", line):
            continue
        match = FIELD.match(line)
        assert match, f"{path.name}: cannot read '{line}'"
        found.append(match)
    return found


def message_classes() -> list:
    import lfdm_ros.action
    import lfdm_ros.msg
    import lfdm_ros.srv

    classes = [getattr(lfdm_ros.msg, path.stem) for path in FILES if path.suffix == ".msg"]
    for path in FILES:
        if path.suffix == ".srv":
            service = getattr(lfdm_ros.srv, path.stem)
            classes += [service.Request, service.Response]
        elif path.suffix == ".action":
            action = getattr(lfdm_ros.action, path.stem)
            classes += [action.Goal, action.Result, action.Feedback]
    return classes


@pytest.mark.parametrize("path", FILES + OF_OTHERS, ids=lambda path: path.stem)
def test_every_field_has_a_comment_and_every_number_a_unit(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# "), f"{path.name} does not say what it is"
    for field in fields(path):
        where = f"{path.name}: {field['name']}"
        assert field["comment"], f"{where} has no comment"
        if re.fullmatch(NUMBERS, field["type"]):
            unit = re.match(r"\[([^\]]+)\] \S", field["comment"])
            assert unit, f"{where} has no [unit]"
            if unit[1] != "see units":
                to_si(1.0, unit[1], unit[1], where)  # raises for a unit that pint does not know


@pytest.mark.parametrize("path", FILES + OF_OTHERS, ids=lambda path: path.stem)
def test_units_are_si(path: Path) -> None:
    for field in fields(path):
        unit = re.match(r"\[([^\]]+)\]", field["comment"] or "")
        if unit and unit[1] != "see units":
            assert set(re.findall(r"[A-Za-z]+", unit[1])) <= {"m", "kg", "s", "rad", "N", "dB"}, f"{path.name}: {field['name']}"


def test_serialisation_keeps_every_type() -> None:
    pytest.importorskip("rclpy")
    from rclpy.serialization import deserialize_message, serialize_message

    for cls in message_classes():
        filled = cls()
        for name, kind in cls.get_fields_and_field_types().items():
            if kind in ("double", "float"):
                setattr(filled, name, 0.1)
            elif kind.startswith(("uint", "int")):
                setattr(filled, name, 3)
            elif kind == "string":
                setattr(filled, name, "text")
            elif kind == "sequence<double>":
                setattr(filled, name, [1.5, -2.5])
            elif kind == "sequence<string>":
                setattr(filled, name, ["a", "b"])
        assert deserialize_message(serialize_message(filled), cls) == filled
        assert filled != cls()


def test_not_measured_travels_as_nan() -> None:
    pytest.importorskip("rclpy")
    from rclpy.serialization import deserialize_message, serialize_message

    from lfdm_ros.msg import VehicleState

    received = deserialize_message(serialize_message(VehicleState(vy=math.nan, tyre_force_z=[math.nan] * 4)), VehicleState)
    assert math.isnan(received.vy) and all(math.isnan(force) for force in received.tyre_force_z)


def test_wheel_arrays_hold_four() -> None:
    pytest.importorskip("rclpy")
    from lfdm_ros.msg import VehicleState

    kinds = VehicleState.get_fields_and_field_types()
    assert {kinds[name] for name in ("wheel_speeds", "tyre_force_x", "tyre_force_y", "tyre_force_z")} == {"double[4]"}


def test_definitions_are_installed_with_the_package() -> None:
    """bags/ registers the definitions from there, with no ROS."""
    assert sorted(path.name for path in (share_directory() / "msg").glob("*.msg")) == [
        path.name for path in FILES if path.suffix == ".msg"]


@pytest.mark.parametrize("path", OF_OTHERS, ids=lambda path: path.stem)
def test_interfaces_of_other_packages_are_those_of_a_ros_installation(path: Path) -> None:
    """Names and types of fields in their order: the hash by which DDS compares types."""
    name = f"{path.parent.parent.name}/msg/{path.stem}"
    require_type(name)
    installed = get_typestore(Stores.ROS2_JAZZY)
    installed.register({known: fields for known, fields in RELEASED.items() if known not in installed.types})
    assert typestore().hash_rihs01(name) == installed.hash_rihs01(name)


# ackermann_msgs, grid_map_msgs and radar_msgs as released, which rosbags does not know.
RELEASED = {
    **get_types_from_msg("float32 steering_angle\nfloat32 steering_angle_velocity\nfloat32 speed\nfloat32 acceleration\nfloat32 jerk",
                         "ackermann_msgs/msg/AckermannDrive"),
    **get_types_from_msg("std_msgs/Header header\nackermann_msgs/AckermannDrive drive", "ackermann_msgs/msg/AckermannDriveStamped"),
    **get_types_from_msg("float64 resolution\nfloat64 length_x\nfloat64 length_y\ngeometry_msgs/Pose pose",
                         "grid_map_msgs/msg/GridMapInfo"),
    **get_types_from_msg("std_msgs/Header header\nGridMapInfo info\nstring[] layers\nstring[] basic_layers\n"
                         "std_msgs/Float32MultiArray[] data\nuint16 outer_start_index\nuint16 inner_start_index",
                         "grid_map_msgs/msg/GridMap"),
    **get_types_from_msg("float32 range\nfloat32 azimuth\nfloat32 elevation\nfloat32 doppler_velocity\nfloat32 amplitude",
                         "radar_msgs/msg/RadarReturn"),
    **get_types_from_msg("std_msgs/Header header\nradar_msgs/RadarReturn[] returns", "radar_msgs/msg/RadarScan")}
