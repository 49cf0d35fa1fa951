"""The radar and the second LIDAR of a node, by their topics."""

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.nodes.piloted import radar_of, rear_lidar_of
from lfdm_ros.resources import find_config
from lfdm_ros.ros.message_fields import filled
from lfdm_ros.ros.plan_messages import radar_scan_of
from lfdm_ros.ros.topics import interface_class
from lfdm_ros.sensors import SensorScene, VehicleView, make_sensors
from lfdm_ros.simulation import Circle, World
from lfdm_ros.vehicles import load_vehicle


def test_radar_by_its_topic_and_its_message_is_its_scan(tmp_path):
    text = find_config("vehicles", "hmmwv").read_text(encoding="utf-8")
    radar = 'sensors:\n  front: {type: radar, x: {value: 0.8, unit: m}, rate: 10.0}\n  other: {type: gnss}'
    (tmp_path / "hmmwv.yaml").write_text(text.replace("\nsensors:", "\n" + radar), encoding="utf-8")
    vehicle = load_vehicle(tmp_path / "hmmwv.yaml")
    radar = radar_of(vehicle, "/car/sensors/front")
    assert radar is not None and radar.rate == 10.0 and radar.mount == vehicle.sensor_mounts["front"] and radar_of(vehicle, "") is None
    with pytest.raises(InputError, match=r"parameter radar: vehicle 'hmmwv' has no radar 'other'"):
        radar_of(vehicle, "sensors/other")
    kind, sensor = make_sensors(vehicle, SensorScene(World((Circle(20.0, 2.0, 1.0),))))["front"]
    scan = sensor.measure(VehicleView(0.0, 0.0, 0.0, 0.0))
    read = radar_scan_of(filled(interface_class(kind.messages[0].type), kind.messages[0].fields(scan)))
    assert read.dopplers == pytest.approx(scan.dopplers, abs=1e-5) and read.ranges == pytest.approx(scan.ranges, abs=1e-4)
    cloud = filled(interface_class(kind.messages[1].type), kind.messages[1].fields(scan))
    assert len(cloud.data) == 20 * len(scan.ranges) and [field.offset for field in cloud.fields] == [0, 4, 8, 12, 16]


def test_second_lidar_by_its_topic():
    vehicle = load_vehicle("hmmwv_rear_lidar")
    rear = rear_lidar_of(vehicle, "sensors/lidar_rear")
    assert rear is not None and rear.rate == 10.0 and rear.mount == vehicle.sensor_mounts["lidar_rear"]
    assert rear.mount.x == pytest.approx(-vehicle.footprint.rear, abs=0.1) and rear_lidar_of(vehicle, "") is None
    with pytest.raises(InputError, match=r"parameter rear_lidar: vehicle 'hmmwv' has no lidar 'lidar_rear'"):
        rear_lidar_of(load_vehicle("hmmwv"), "sensors/lidar_rear")
