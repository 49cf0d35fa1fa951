"""A ground on the running graph: the vehicle slips where the map says so, and the map is there for whoever comes late."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pictures
import pytest
from rclpy.parameter import Parameter as RosParameter

from lfdm_ros.calibration import predict
from lfdm_ros.ground.grid_map import read_grid_map
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.nodes.hil_bridge import HilBridge
from lfdm_ros.nodes.input_player import InputPlayer
from lfdm_ros.nodes.mpc_controller import MpcController
from lfdm_ros.nodes.recorder import Recorder
from lfdm_ros.nodes.shared_control import SharedControl
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import nanoseconds
from lfdm_ros.vehicles import load_vehicle


def test_the_map_is_told_and_driven_on(graph: Any) -> None:
    ground = load_ground("ice_in_the_bend")
    graph.add(VehicleSimulator, ground="ice_in_the_bend", initial_x=98.8, initial_y=12.0, initial_speed=10.0)
    maps = graph.listen("ground/map", "grid_map_msgs/msg/GridMap", qos.LATCHED)
    pictures = graph.listen("ground/friction", "nav_msgs/msg/OccupancyGrid", qos.LATCHED)
    graph.wait(lambda: maps and pictures, "the map")
    grid, layers = read_grid_map(maps[0])
    assert grid == ground.field.grid and maps[0].header.frame_id == "odom"
    np.testing.assert_allclose(layers["friction_mean"], ground.field.link.friction(ground.field.latent), rtol=1e-6)
    assert not layers["friction_latent_sd"].any()
    picture = np.array(pictures[0].data).reshape(grid.shape)
    assert picture.max() == 100 and picture[0, 0] == 0
    row, column = round((12.0 - grid.y) / grid.spacing), round((98.8 - grid.x) / grid.spacing)
    assert picture[row, column] == 100


@pytest.mark.parametrize(("ground", "slowest", "fastest"), [("ice_in_the_bend", 8.5, 9.8), ("", 3.0, 7.5)])
def test_brakes_hold_less_on_ice(graph: Any, ground: str, slowest: float, fastest: float) -> None:
    """Speed left of 10 m/s after half a second in which nobody drives: the gate brakes in full from 10 ms on. On ice of .225 (0.2 of a road
    of 1.125) no more than 1.1 m/s are lost."""
    graph.add(VehicleSimulator, ground=ground, initial_x=98.8, initial_y=12.0, initial_speed=10.0, command_timeout=0.01,
              timeout_brake=1.0, timeout_ramp=0.0, actuators=False)
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    graph.wait(lambda: len(states) > 50, "half a second")
    after = next(state for state in states if nanoseconds(state.header.stamp) >= 500_000_000)
    assert slowest < after.vx < fastest


@pytest.mark.parametrize("kind", (HilBridge, MpcController, SharedControl))
def test_every_node_with_a_vehicle_takes_one(graph: Any, kind: Any) -> None:
    node = graph.add(kind, ground="ice_patches", ground_seed=7)
    if kind is HilBridge:
        assert node.diagnose()[2]["ground.states_off_the_map"] == 0
        maps = graph.listen("ground/map", "grid_map_msgs/msg/GridMap", qos.LATCHED)
        graph.wait(lambda: maps, "the map")
        np.testing.assert_allclose(read_grid_map(maps[0])[1]["friction_latent_mean"], load_ground("ice_patches", 7).field.latent, atol=1e-5)


def test_a_recorded_drive_is_replayed_on_its_ground(graph: Any, tmp_path: Path) -> None:
    """Simulator, input player and recorder; the commands in the bag, simulated again on the ground that it holds, give its states."""
    settings = {"bag": str(tmp_path / "bag"), "topics": ["/vehicle/state", "/control/command", "/ground/document"], "use_sim_time": True}
    recorder = Recorder(context=graph.runtime.context, parameter_overrides=[RosParameter(name, value=v) for name, v in settings.items()])
    graph.runtime.add(recorder)
    recorder.bring_up("configure", "activate")
    graph.add(VehicleSimulator, ground="ice_patches", ground_seed=7, scenario="sine_steer", stepping="lockstep", take_posterior=False,
              actuators=False, stop_time=4.0)
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    documents = graph.listen("ground/document", "std_msgs/msg/String", qos.LATCHED)
    graph.wait(lambda: recorder.bag.written > 1 and documents, "the first state in the bag")
    np.testing.assert_array_equal(load_ground(json.loads(documents[0].data)).field.latent, load_ground("ice_patches", 7).field.latent)
    graph.add(InputPlayer, scenario="sine_steer")
    graph.wait(lambda: states and nanoseconds(states[-1].header.stamp) >= 3_500_000_000, "the drive")
    recorder.release()
    with pictures.left_out():
        errors = [predict(tmp_path / "bag", tmp_path / f"out{k}", vehicle="hmmwv", window=(0.05, 3.4), ground=ground)["rmse"]
                  for k, ground in enumerate(("recorded", "ice_patches", ""))]
    same, other_seed, road = ({name: row["posterior"] for name, row in one.items()} for one in errors)
    # What is left is the steps of 5 ms that a prediction takes.
    assert same["yaw_rate"] < 6e-4 and 4.0 * same["yaw_rate"] < min(road["yaw_rate"], other_seed["yaw_rate"])


def test_the_ground_is_drawn_and_wheels_off_it_are_counted(graph: Any, tmp_path: Path) -> None:
    """Two triangles a cell, at the heights of its nodes, paler where it is slippery; the vehicle coasts from 4 m before the edge."""
    (tmp_path / "mixed.yaml").write_text("area: {x: [-10, 10], y: [-10, 10], spacing: 2}\nfriction: 1\n"
                                         "patches: [{friction: 0.2, circle: {x: 5, y: 5, radius: 3}}]\nheights: {rise_x: 0.1}\n")
    node = graph.add(VehicleSimulator, ground=str(tmp_path / "mixed.yaml"), initial_x=6.0, initial_speed=10.0, command_timeout=10.0)
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    pictures = graph.listen("ground/markers", "visualization_msgs/msg/MarkerArray", qos.LATCHED)
    graph.wait(lambda: pictures, "the picture")
    surface = pictures[0].markers[1]
    assert len(surface.points) == len(surface.colors) == 2 * 3 * 10 * 10
    assert all(abs(point.z - 0.1 * point.x) < 1e-9 for point in surface.points)
    pale = [colour.r for point, colour in zip(surface.points, surface.colors) if (point.x, point.y) == (4.0, 4.0)]
    assert min(pale) > 0.8 > 0.4 > surface.colors[0].r
    corners = np.array([[point.x, point.y] for point in surface.points]).reshape(-1, 3, 2)
    (ax, ay), (bx, by) = ((corners[:, k] - corners[:, 0]).T for k in (1, 2))
    areas = 0.5 * (ax * by - ay * bx)
    np.testing.assert_allclose(areas, 2.0)  # all face up, none twice
    graph.wait(lambda: states and states[-1].x > 13.0, "the edge")
    values = node.diagnose()[2]
    assert values["ground.states_off_the_map"] > 40 and values["ground.wheels_off_the_map"] > 120


def test_the_lidar_sees_the_ground_ahead(graph: Any, tmp_path: Path) -> None:
    """From level ground towards a hill: the beam ahead ends where that is as high as the sensor; sideways it meets nothing."""
    (tmp_path / "hill.yaml").write_text("area: {x: [-30, 90], y: [-60, 60], spacing: 1}\nfriction: 1\n"
                                        "heights: {bumps: [{x: 50, y: 0, radius: 30, height: 6}]}\n")
    graph.add(VehicleSimulator, ground=str(tmp_path / "hill.yaml"), lidar=True, lidar_noise=0.0, model="twenty_four_dof")
    scans = graph.listen("scan", "sensor_msgs/msg/LaserScan", qos.STATE)
    graph.wait(lambda: scans, "a scan")
    ranges, mount = np.array(scans[0].ranges), load_vehicle("hmmwv").lidar
    # The height is half a wave of a cosine, of the distance from the top over the radius.
    expected = 50.0 - 30.0 * np.arccos(2.0 * mount.z / 6.0 - 1.0) / np.pi - mount.x
    assert ranges[len(ranges) // 2] == pytest.approx(expected, abs=0.3)
    assert np.isinf(ranges[round((-0.5 * np.pi - scans[0].angle_min) / scans[0].angle_increment)])
