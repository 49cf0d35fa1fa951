"""Nodes of this process that say how they are, and look for something, ten times a second instead of once: tests wait for it."""

from typing import Any

import pytest
from rclpy.clock import ClockType

from lfdm_ros.ros.component import Component

SOON = 0.1  # [s]


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortens the periods of timers on the wall clock of nodes that are made from now on; simulated time stays as it is."""
    make = Component.create_timer

    def create_timer(node: Component, seconds: float, *arguments: Any, clock: Any = None, **options: Any) -> Any:
        by_wall_clock = clock is not None and clock.clock_type == ClockType.STEADY_TIME
        return make(node, min(seconds, SOON) if by_wall_clock else seconds, *arguments, clock=clock, **options)

    monkeypatch.setattr(Component, "create_timer", create_timer)
