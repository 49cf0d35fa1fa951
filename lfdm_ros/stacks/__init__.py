"""Nodes that run together: stack files, bring-up and shutdown in one process, in one process each, or by ros2 launch; layouts, policy."""

import lfdm_ros.ros  # noqa: F401  # checks the middleware before any module here imports rclpy
