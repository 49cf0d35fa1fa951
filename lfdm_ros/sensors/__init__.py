"""Simulated sensors, and what they and real ones send. They know nothing of ROS."""

from lfdm_ros.sensors.gnss import Datum
from lfdm_ros.sensors.lidar import LIDAR, Lidar, LidarSettings
from lfdm_ros.sensors.scan import Scan
from lfdm_ros.sensors.schedule import ScanSchedule

__all__ = ["LIDAR", "Datum", "Lidar", "LidarSettings", "Scan", "ScanSchedule"]
