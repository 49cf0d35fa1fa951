"""Topics for Lichtblick, taken by a client of the protocol that is not the library's own."""

import asyncio
import json
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from std_msgs.msg import String
from tornado.websocket import websocket_connect

from lfdm_ros.bags.typestore import typestore
from lfdm_ros.errors import InputError
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import set_stamp
from lfdm_ros.stacks.live_view import LiveView

pytest.importorskip("foxglove", reason="the extra 'foxglove' is not installed")

PATIENCE = 60.0  # [s]


def look(port: int, wanted: int) -> dict[str, Any]:
    """Subscribes to all that is advertised; returns, by topic, its channel and (time [ns], bytes) of its messages, once as many topics as
    are wanted have some."""
    found: dict[str, Any] = {}

    async def run() -> None:
        client = await websocket_connect(f"ws://127.0.0.1:{port}", subprotocols=["foxglove.sdk.v1"])
        topics: dict[int, str] = {}
        while sum(bool(seen["messages"]) for seen in found.values()) < wanted:
            message = await asyncio.wait_for(client.read_message(), PATIENCE)
            if isinstance(message, str) and (news := json.loads(message))["op"] == "serverInfo":
                assert news["capabilities"] == ["time"]  # no clientPublish, no services, no parameters
            elif isinstance(message, str) and news["op"] == "advertise":
                for channel in news["channels"]:
                    topics[channel["id"]] = channel["topic"]
                    found[channel["topic"]] = {"channel": channel, "messages": []}
                    await client.write_message(json.dumps({"op": "subscribe", "subscriptions": [
                        {"id": channel["id"], "channelId": channel["id"]}]}))
            elif isinstance(message, bytes) and message[0] == 1:
                number, stamp = struct.unpack_from("<IQ", message, 1)
                found[topics[number]]["messages"].append((stamp, message[13:]))
        client.close()

    asyncio.run(run())
    return found


@pytest.fixture
def served(graph: Any) -> Iterator[Any]:
    """Says a text once, on a latched topic, and simulated time; serves both."""
    text = graph.node.create_publisher(String, "said/once", qos.LATCHED)
    text.publish(String(data="latched"))
    clock = graph.node.create_publisher(Clock, "/clock", 10)
    node = Node("viewer", context=graph.runtime.context)
    graph.runtime.executor.add_node(node)
    graph.wait(lambda: node.count_publishers("/clock") and node.count_publishers("/said/once"))
    said: list[str] = []
    view = LiveView(node, ["/said/once", "/clock", "/torn", "/strange"], "127.0.0.1", 0, said.append)
    yield graph, view, clock, said
    view.close()
    graph.runtime.executor.remove_node(node)
    node.destroy_node()


def test_every_viewer_gets_what_is_said_once_and_what_goes_on(served: Any) -> None:
    graph, view, clock, _ = served
    for _ in range(2):  # the second comes when all is subscribed already, or just let go of
        results: list[dict[str, Any]] = []
        viewer = threading.Thread(target=lambda into=results: into.append(look(view.port, 2)))
        viewer.start()
        end = time.monotonic() + PATIENCE
        while viewer.is_alive() and time.monotonic() < end:
            message = Clock()
            set_stamp(message.clock, 5_000_000_000)
            clock.publish(message)
            graph.runtime.spin_some(0.02)
            view.update()
        viewer.join()
        (seen,) = results
        stamp, data = seen["/said/once"]["messages"][0]
        assert typestore().deserialize_cdr(data, "std_msgs/msg/String").data == "latched" and stamp == 5_000_000_000
        channel = seen["/clock"]["channel"]
        assert (channel["encoding"], channel["schemaName"], channel["schemaEncoding"]) == ("cdr", "rosgraph_msgs/msg/Clock", "ros2msg")
        assert "MSG: builtin_interfaces/Time" in channel["schema"]


def test_one_that_is_not_looked_at_costs_nothing(served: Any) -> None:
    graph, view, *_ = served
    view.update()
    assert graph.node.count_subscribers("/said/once") == 0


def test_a_topic_of_two_types_or_of_an_unknown_one_is_named_once_and_left_out(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, view, _, said = served
    monkeypatch.setattr(Node, "get_topic_names_and_types", lambda node: [
        ("/torn", ["std_msgs/msg/String", "rosgraph_msgs/msg/Clock"]), ("/strange", ["nobody/msg/Knows"])])
    for _ in range(3):
        view.update()
    assert [line.split(":")[0] for line in said] == ["/torn is not shown", "/strange is not shown"], said


def test_a_port_that_is_taken_and_a_library_that_is_missing_are_one_line(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, view, *_ = served
    with pytest.raises(InputError, match=f"127.0.0.1:{view.port}: .*choose another --port"):
        LiveView(graph.node, [], "127.0.0.1", view.port, lambda line: None)
    monkeypatch.setitem(sys.modules, "foxglove", None)
    with pytest.raises(InputError, match=r"pip install 'lfdm_ros\[foxglove\]'"):
        LiveView(graph.node, [], "127.0.0.1", 0, lambda line: None)
