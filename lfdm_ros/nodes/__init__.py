"""The nodes: one lifecycle node per module, and shared parts."""

import lfdm_ros.ros  # noqa: F401  # looks at the middleware, before any module here imports rclpy
