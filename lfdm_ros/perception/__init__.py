"""Obstacles from scans: circles, tracked from scan to scan with their velocities."""

from lfdm_ros.perception.obstacles import NOTHING, Obstacles, ObstacleTracker, TrackerSettings

__all__ = ["NOTHING", "ObstacleTracker", "Obstacles", "TrackerSettings"]
