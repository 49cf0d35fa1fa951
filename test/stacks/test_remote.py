"""The heartbeat of a node in another process, on a clock of the test's own."""

from typing import Any

import pytest

from lfdm_ros.stacks import remote
from lfdm_ros.stacks.stack import NodeEntry


class Service:
    """A client of a node that answers each request after a delay [s]."""

    def __init__(self, delay: float) -> None:
        self.now, self.delay, self.asked = 100.0, delay, list[float]()

    def create_client(self, *_: Any) -> "Service":
        return self

    def call_async(self, _: Any) -> Any:
        service, at = self, self.now
        self.asked.append(at)

        class Request:
            def done(self) -> bool:
                return service.now >= at + service.delay

        return Request()

    def remove_pending_request(self, _: Any) -> None:
        pass


@pytest.mark.parametrize("delay, longest, requests", [(0.0, 0.3, 310), (1.0, 2.0, 130), (5.0, 8.5, 60), (1e9, 60.0, 9)])
def test_a_late_answer_counts_and_a_slow_node_gets_fewer_requests(
        monkeypatch: pytest.MonkeyPatch, delay: float, longest: float, requests: int) -> None:
    service = Service(delay)
    monkeypatch.setattr(remote.time, "monotonic", lambda: service.now)
    node = remote.RemoteNode(NodeEntry("mpc_controller", "mpc_controller"), service, lambda: "", {})  # type: ignore[arg-type]
    silences = []
    for _ in range(600):
        silences.append(node.heartbeat())
        service.now += 0.1
    assert max(silences) <= longest and len(service.asked) <= requests
    if delay > 60.0:
        assert max(silences) > 59.0
        node.reset_heartbeat()  # it was started anew
        service.delay = 0.0
        for _ in range(10):
            node.heartbeat()
            service.now += 0.1
        assert node.heartbeat() < 0.3
