"""Requests of the cockpit's page to other nodes: a stop is asked for until it is confirmed, and a resume before it does not undo it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hurried import hurry
from rclpy.node import Node
from std_srvs.srv import Trigger

from lfdm_ros.bounds import Refused
from lfdm_ros.msg import SharedControlStatus
from lfdm_ros.nodes.cockpit import Cockpit
from lfdm_ros.ros import qos
from lfdm_ros.ros.runtime import Runtime


class Shared:
    """The services of shared control, in a graph with a cockpit."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime, self.node = runtime, Node("shared_control", context=runtime.context)
        runtime.executor.add_node(self.node)
        self.cockpit = Cockpit(context=runtime.context)
        runtime.add(self.cockpit)
        self.cockpit.bring_up("configure", "activate")
        self.cockpit.server.views.append(None)  # type: ignore[arg-type]  # a page, which looks at nothing
        self.stops = self.resets = 0
        self.stopped = False
        self.status = self.node.create_publisher(SharedControlStatus, "shared_control/status", qos.STATE)

    def offer(self) -> None:
        """Begins to offer its services."""
        def stop(request: Any, response: Any) -> Any:
            self.stops, self.stopped = self.stops + 1, True
            return response

        def reset(request: Any, response: Any) -> Any:
            self.resets, self.stopped = self.resets + 1, False
            return response

        self.node.create_service(Trigger, "shared_control/emergency_stop", stop)
        self.node.create_service(Trigger, "shared_control/reset_emergency_stop", reset)

    def spin(self, until: Any) -> None:
        for _ in range(2000):
            self.status.publish(SharedControlStatus(emergency_stop=self.stopped))
            self.runtime.spin_some(0.02)
            if until():
                return
        raise AssertionError("in vain")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shared]:
    monkeypatch.setattr("lfdm_ros.cockpit.server.CockpitServer.publish", lambda *arguments, **more: None)
    hurry(monkeypatch)
    with Runtime() as runtime:
        shared = Shared(runtime)
        yield shared
        shared.cockpit.server.views.clear()
        shared.node.destroy_node()


def test_a_stop_is_asked_for_until_it_is_confirmed(shared: Shared) -> None:
    request = shared.cockpit.on_request
    request("stop", True, "page 1")
    for _ in range(20):
        shared.runtime.spin_some(0.02)
    shared.offer()  # later than the stop
    shared.spin(lambda: shared.stopped)
    shared.stopped = False  # it has started again, and has forgotten
    shared.spin(lambda: shared.stopped)
    request("resume", True, "page 1")
    shared.spin(lambda: shared.resets == 1 and not shared.stopped)
    count = shared.stops
    for _ in range(30):
        shared.runtime.spin_some(0.02)
    assert shared.stops == count and not shared.cockpit.server.seat.stopped


def test_a_resume_that_waits_does_not_undo_a_stop(shared: Shared) -> None:
    shared.offer()
    request = shared.cockpit.on_request
    for name in ("stop", "resume", "stop"):
        request(name, True, "page 1")
    shared.spin(lambda: shared.stopped)
    assert shared.cockpit.server.seat.stopped and not shared.resets


def test_a_stop_is_never_refused(shared: Shared) -> None:
    request = shared.cockpit.on_request
    with pytest.raises(Refused, match="too many"):
        for _ in range(200):
            request("pause", True, "page 1")
    request("stop", True, "page 1")
    assert shared.cockpit.server.seat.stopped
    for name, value in (("fly", True), ("mode", "sideways"), ("pace", 1e9), ("latency", True), ("step", 0)):
        with pytest.raises(Refused):
            request(name, value, "page 1")
