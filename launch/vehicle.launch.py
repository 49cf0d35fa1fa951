"""Starts config/stacks/vehicle.yaml (or stack:=FILE), each node in a process of its own."""

from lfdm_ros.stacks.launching import stack_launch_description


def generate_launch_description():
    return stack_launch_description("vehicle")
