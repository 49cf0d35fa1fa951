"""Simulated sensors: what they see of a world from a pose. They know nothing of ROS."""

from lfdm_ros.sensors.lidar import Lidar, LidarSettings, Scan

__all__ = ["Lidar", "LidarSettings", "Scan"]
