"""The parts of a ROS 2 node: lifecycle component, executor, parameters, quality of service, messages to values and back.

This room and the two above it, `nodes` and `stacks`, are the only ones that import rclpy and messages.
"""

from lfdm_ros.environment import check_rmw
from lfdm_ros.errors import InputError

# rcl ends the process (status 102) where RMW_IMPLEMENTATION names a middleware that is not there: refused before that.
_middleware = check_rmw()
if _middleware.status == "fail":
    raise InputError(f"{_middleware.detail}; fix: {_middleware.fix}")
