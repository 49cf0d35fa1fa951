"""Obstacles from scans: circles, tracked from scan to scan with their velocities."""

from lfdm_ros.perception.obstacles import NOTHING, Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker, TrackerSettings

__all__ = ["NOTHING", "ObstacleTracker", "Obstacles", "TrackerSettings"]
