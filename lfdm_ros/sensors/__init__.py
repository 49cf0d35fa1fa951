"""Simulated sensors, and measurements of simulated and real ones, without ROS."""

from lfdm_ros.sensors.camera import Camera, CameraImage, CameraSettings
from lfdm_ros.sensors.lidar import LIDAR, Lidar, LidarSettings
from lfdm_ros.sensors.radar import RADAR, Radar, RadarScan, RadarSettings
from lfdm_ros.sensors.scan import Scan, ScanSchedule
from lfdm_ros.sensors.sensor import (
    SENSORS,
    Sensor,
    SensorMessage,
    SensorScene,
    SensorType,
    VehicleView,
    find_sensor,
    make_sensors,
    register_sensor,
)
from lfdm_ros.sensors.standard import Datum, specific_force

__all__ = ["LIDAR", "RADAR", "SENSORS", "Camera", "CameraImage", "CameraSettings", "Datum", "Lidar", "LidarSettings", "Radar",
           "RadarScan", "RadarSettings", "Scan", "ScanSchedule", "Sensor", "SensorMessage", "SensorScene", "SensorType", "VehicleView",
           "find_sensor", "make_sensors", "register_sensor", "specific_force"]
