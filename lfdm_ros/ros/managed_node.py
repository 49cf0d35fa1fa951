"""A lifecycle node whose transitions call hooks; one that fails says why in one line, and leaves nothing behind."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import TransitionCallbackReturn

from lfdm_ros.errors import InputError
from lfdm_ros.ros.declared_node import DeclaredNode

# What is to be undone where a transition breaks off, by the transition.
_UNDONE = {"configure": ("cleanup",), "activate": ("deactivate", "cleanup"), "deactivate": ("cleanup",), "cleanup": ()}


class ManagedNode(DeclaredNode):
    """Who derives from it defines what it needs of `configure`, `activate`, `deactivate` and `cleanup`.

    A hook that raises InputError fails its transition with that message in the log.

    Attributes:
        state: label of the lifecycle state, kept here because callbacks for parameters run before rclpy can tell.
        failure: why the last transition failed.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self.state, self.failure = "unconfigured", ""

    # ---- hooks ---------------------------------------------------------------------------------------------------------

    def configure(self) -> None:
        """Reads the parameters and makes what the node needs."""

    def activate(self) -> None:
        """Starts the node's work."""

    def deactivate(self) -> None:
        """Stops the node's work; `activate` may follow."""

    def cleanup(self) -> None:
        """Releases what `configure` made; what is made by ENDPOINTS ends by itself."""

    # ---- transitions ---------------------------------------------------------------------------------------------------

    def bring_up(self, *steps: str) -> None:
        """Makes transitions, "configure" or "activate".

        Raises:
            InputError: one failed; says why.
        """
        for step in steps:
            result = self.trigger_configure() if step == "configure" else self.trigger_activate()
            if result != TransitionCallbackReturn.SUCCESS:
                raise InputError(f"node {self.get_name()}: {step} failed: {self.failure}")

    def on_configure(self, state: Any) -> TransitionCallbackReturn:
        self._unconfigured = self.all_entities()
        return self._transition("configure", "inactive", self.configure, lambda: super(ManagedNode, self).on_configure(state))

    def on_activate(self, state: Any) -> TransitionCallbackReturn:
        # rclpy's part opens the publishers: first, so that `activate` may publish.
        return self._transition("activate", "active", lambda: super(ManagedNode, self).on_activate(state), self.activate)

    def on_deactivate(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("deactivate", "inactive", self.deactivate, lambda: super(ManagedNode, self).on_deactivate(state))

    def on_cleanup(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("cleanup", "unconfigured", self.cleanup, self.end_made,
                                lambda: super(ManagedNode, self).on_cleanup(state))

    def refuse_transition(self) -> None:
        self.get_logger().warning(f"a transition was asked for that does not exist from state {self.state}")

    def on_shutdown(self, state: Any) -> TransitionCallbackReturn:
        return self._transition("shutdown", "finalized", self.release)

    def release(self) -> None:
        """Stops and cleans up from whatever state the node is in, each whatever became of the other; safe to call twice."""
        try:
            for name in {"active": ("deactivate", "cleanup", "end_made"), "inactive": ("cleanup", "end_made")}.get(self.state, ()):
                try:
                    getattr(self, name)()
                except Exception as error:
                    self.catch(name, error)
        finally:
            self.state = "finalized"

    def _transition(self, name: str, target: str, *work: Callable[[], Any]) -> TransitionCallbackReturn:
        try:
            for part in work:
                part()
        except InputError as error:
            self.failure = str(error)
            self.get_logger().error(f"{name} failed: {error}")
            if name == "configure":
                self._undo(name)
            return TransitionCallbackReturn.FAILURE
        except Exception as error:  # a bug; rclpy would swallow it without a word
            self.failure = repr(error)
            self.get_logger().fatal(f"{name} failed:\n{traceback.format_exc()}")
            self._undo(name)
            self.state = "unconfigured"  # where rclpy's error processing ends
            return TransitionCallbackReturn.ERROR
        self.state = target
        return TransitionCallbackReturn.SUCCESS

    def _undo(self, transition: str) -> None:
        """Takes back what has been made since `configure` began: what it makes the next time would be there twice."""
        for name in _UNDONE.get(transition, ()):
            try:
                getattr(self, name)()
            except Exception as error:  # no wonder: a part of what it ends was never made, or has ended
                self.get_logger().debug(f"{name} after the failure: {error!r}")
        self.end_made()
        for entity in self.all_entities():
            if not any(entity is one for one in self._unconfigured):
                self.destroy(entity)
