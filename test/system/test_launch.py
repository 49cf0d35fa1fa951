"""The launch files, with launch_ros where it is installed."""

from __future__ import annotations

import runpy

import pytest

from lfdm_ros.nodes.stack import load_stack
from lfdm_ros.resources import share_directory

FILES = sorted((share_directory() / "launch").glob("*.launch.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_launch_file_has_its_stack(path) -> None:
    assert load_stack(path.name.removesuffix(".launch.py")).nodes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_launch_file_describes_the_nodes_of_its_stack(path) -> None:
    pytest.importorskip("launch_ros", reason="launch_ros is not installed (it has no wheels)")
    from launch_ros.actions import LifecycleNode

    from launch import LaunchContext

    description = runpy.run_path(str(path))["generate_launch_description"]()
    context = LaunchContext()
    found = []
    for entity in description.entities:
        for action in entity.visit(context) or []:
            if isinstance(action, LifecycleNode):
                found.append(action.node_executable)
    assert found == [entry.executable for entry in load_stack(path.name.removesuffix(".launch.py")).nodes]
