"""ROS 2 adapters: one lifecycle node a module, and what composes them. The only room that imports rclpy and messages."""

from lfdm_ros.environment import check_rmw
from lfdm_ros.errors import InputError

# rcl ends the process (status 102) where RMW_IMPLEMENTATION names a middleware that is not there; say it before it does.
_middleware = check_rmw()
if _middleware.status == "fail":
    raise InputError(f"{_middleware.detail}; fix: {_middleware.fix}")
