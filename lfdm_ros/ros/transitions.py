"""Transitions of a lifecycle node that call its hooks; one that fails says why in one line, and leaves nothing behind."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import TransitionCallbackReturn

from lfdm_ros.errors import InputError

# Hooks that undo a transition that breaks off, by its name.
_UNDONE_BY = {"configure": ("cleanup",), "activate": ("deactivate", "cleanup"), "deactivate": ("cleanup",), "cleanup": ()}
# Hooks that end a node, by the state that it is in.
_RELEASED_BY = {"active": ("deactivate", "cleanup", "end_made"), "inactive": ("cleanup", "end_made")}


class Transitions:
    """Transitions of a `Component`, with the `state` and `failure` that they set."""

    def __init__(self, node: Any) -> None:
        self._node = node
        self._unconfigured: list[Any] = []

    def begin(self) -> None:
        """Notes the entities of the node before `configure`: all later ones go if a transition breaks off."""
        self._unconfigured = self._node.all_entities()

    def make(self, name: str, target: str, *work: Callable[[], Any]) -> TransitionCallbackReturn:
        """Does the work of a transition; then the node is in the state `target`, or as before the transition."""
        node = self._node
        try:
            for part in work:
                part()
        except InputError as error:
            node.failure = str(error)
            node.get_logger().error(f"{name} failed: {error}")
            if name == "configure":
                self._undo(name)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # a bug; rclpy would swallow it without a word
            node.failure = repr(error)
            node.get_logger().fatal(f"{name} failed:\n{traceback.format_exc()}")
            self._undo(name)
            node.state = "unconfigured"  # where rclpy's error processing ends
            return TransitionCallbackReturn.ERROR
        node.state = target
        return TransitionCallbackReturn.SUCCESS

    def release(self) -> None:
        """Stops and cleans up from any state, each step whatever became of the other; safe to call twice."""
        node = self._node
        try:
            for name in _RELEASED_BY.get(node.state, ()):
                try:
                    getattr(node, name)()
                except Exception as error:
                    node.catch(name, error)
        finally:
            node.state = "finalized"

    def _undo(self, transition: str) -> None:
        """Destroys all entities made since `configure` began: the next one would make them a second time."""
        node = self._node
        for name in _UNDONE_BY.get(transition, ()):
            try:
                getattr(node, name)()
            except Exception as error:  # no wonder: a part of what it ends was never made, or has ended
                node.get_logger().debug(f"{name} after the failure: {error!r}")
        node.end_made()
        for entity in node.all_entities():
            if not any(entity is one for one in self._unconfigured):
                node.destroy(entity)
