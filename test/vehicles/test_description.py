"""The URDF of every vehicle: a tree whose sizes and places are those of the vehicle's file."""

import math
from xml.etree import ElementTree

import pytest

from lfdm_ros.resources import share_directory
from lfdm_ros.vehicles import load_vehicle
from lfdm_ros.vehicles.description import BASE, robot_description

SHIPPED = sorted(path.stem for path in (share_directory() / "config" / "vehicles").glob("*.yaml"))


def numbers(element: ElementTree.Element, key: str) -> list[float]:
    values = [float(part) for part in element.attrib[key].split()]
    assert all(map(math.isfinite, values))
    return values


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_a_tree_of_links_with_the_vehicles_sizes(name: str) -> None:
    vehicle = load_vehicle(name)
    p, outline = vehicle.parameters, vehicle.footprint
    robot = ElementTree.fromstring(robot_description(vehicle).encode())
    links = [link.attrib["name"] for link in robot.findall("link")]
    joints = {joint.attrib["name"]: joint for joint in robot.findall("joint")}
    parents = {joint.find("child").attrib["link"]: joint.find("parent").attrib["link"] for joint in joints.values()}
    assert len(set(links)) == len(links) == len(parents) + 1 and set(links) == parents.keys() | {BASE}
    for link in links:
        for _ in links:
            link = parents.get(link, link)
        assert link == BASE  # each hangs on the base in the end
    materials = {material.attrib["name"] for material in robot.findall("material")}
    assert {element.attrib["name"] for element in robot.iterfind("link/visual/material")} <= materials

    length, width, height = numbers(robot.find("link[@name='base_link']/visual/geometry/box"), "size")
    assert (length, width) == pytest.approx((outline.front + outline.rear, 2.0 * outline.half_width)) and height > 0.0
    (middle, _, _) = numbers(robot.find("link[@name='base_link']/visual/origin"), "xyz")
    assert middle + 0.5 * length == pytest.approx(outline.front)
    x, y, z = numbers(joints["wheel_rl"].find("origin"), "xyz")
    radius = numbers(robot.find("link[@name='wheel_rl_link']/visual/geometry/cylinder"), "radius")[0]
    assert (x, z) == pytest.approx((-p["cg_to_rear_axle"], radius)) and y > 0.0  # it stands on the ground, on the left
    assert numbers(joints["steering_fr"].find("origin"), "xyz")[1] == pytest.approx(-0.5 * p.get("track_front", 2 * abs(
        numbers(joints["steering_fr"].find("origin"), "xyz")[1])))
    limit = joints["steering_fl"].find("limit")
    assert numbers(limit, "upper")[0] == pytest.approx(p["max_road_wheel_angle"]) == -numbers(limit, "lower")[0]
    lidar = joints["lidar_mount"].find("origin")
    assert numbers(lidar, "xyz")[:2] == pytest.approx([vehicle.lidar.x, vehicle.lidar.y])
    assert numbers(lidar, "rpy") == pytest.approx([0.0, 0.0, vehicle.lidar.yaw])


def test_mounts_are_where_the_file_says() -> None:
    vehicle = load_vehicle("hmmwv").replace(lidar_z=1.9, lidar_yaw=0.2, imu_x=-1.0, imu_y=0.3, imu_z=0.8)
    robot = ElementTree.fromstring(robot_description(vehicle).encode())
    assert numbers(robot.find("joint[@name='imu_mount']/origin"), "xyz") == pytest.approx([0.6889, 0.3, 0.8])
    assert numbers(robot.find("joint[@name='lidar_mount']/origin"), "xyz") == pytest.approx([1.0, 0.0, 1.9])
    assert numbers(robot.find("joint[@name='lidar_mount']/origin"), "rpy") == pytest.approx([0.0, 0.0, 0.2])
    assert load_vehicle("hmmwv").imu.x == 0.0 and load_vehicle("hmmwv").imu.z == pytest.approx(0.713)
