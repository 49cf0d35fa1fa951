"""Nodes that run together: the stack file, their way up and down in one process, one each or under ros2 launch, and attacks on them."""

import lfdm_ros.ros  # noqa: F401  # looks at the middleware, before any module here imports rclpy
