"""The nodes: one lifecycle node a module, and what several of them share."""

import lfdm_ros.ros  # noqa: F401  # looks at the middleware, before any module here imports rclpy
