"""Obstacles from scans: circles, tracked from scan to scan with their velocities."""

from lfdm_ros.perception.obstacles import NO_OBSTACLES, Obstacles
from lfdm_ros.perception.tracker import ObstacleTracker, TrackerSettings

__all__ = ["NO_OBSTACLES", "ObstacleTracker", "Obstacles", "TrackerSettings"]
