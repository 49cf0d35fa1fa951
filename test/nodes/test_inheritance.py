"""A node inherits at most three deep: component, task, node."""

import importlib
import pkgutil

import lfdm_ros.nodes
from lfdm_ros.ros.component import Component

DEEPEST = 3


def depth(kind: type) -> int:
    """Returns the length of the longest chain of classes of ours that ends with this one."""
    return kind.__module__.startswith("lfdm_ros.") + max(map(depth, kind.__bases__), default=0)


def descendants(kind: type) -> set[type]:
    return {kind}.union(*map(descendants, kind.__subclasses__()))


def test_no_node_inherits_deeper() -> None:
    for module in pkgutil.iter_modules(lfdm_ros.nodes.__path__, "lfdm_ros.nodes."):
        importlib.import_module(module.name)
    depths = {kind.__name__: depth(kind) for kind in descendants(Component) if kind.__module__.startswith("lfdm_ros.")}
    assert depths["Component"] == 1 and depths["MpcController"] == DEEPEST and max(depths.values()) == DEEPEST, depths
