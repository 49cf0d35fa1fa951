"""What a scan says of the world: circles, remembered from scan to scan, and how they move."""

from lfdm_ros.perception.obstacles import NOTHING, Obstacles, ObstacleTracker, TrackerSettings

__all__ = ["NOTHING", "ObstacleTracker", "Obstacles", "TrackerSettings"]
