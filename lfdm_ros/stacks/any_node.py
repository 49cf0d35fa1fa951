"""Runs any node by its name, also of other packages, in a separate process: `ros2 run lfdm_ros any_node NAME --ros-args ...`."""

import sys

from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.ros.runtime import run_node
from lfdm_ros.stacks.stack import executables, node_class


def main() -> int:
    try:
        name = sys.argv[1] if len(sys.argv) > 1 else ""
        if name not in executables():
            raise InputError(f"no node {quote(name)}{suggest(name, executables(), 'choose one of: ')}")
        return run_node(node_class(name))
    except InputError as error:
        print(f"any_node: {error}", file=sys.stderr)
        return 2
