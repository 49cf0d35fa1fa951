"""Topics for Lichtblick, taken by a client of the protocol that is not the library's own."""

import asyncio
import json
import re
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool, String
from tornado.websocket import websocket_connect

from lfdm_ros.bags.typestore import typestore
from lfdm_ros.errors import InputError
from lfdm_ros.ros import qos
from lfdm_ros.ros.messages import set_stamp
from lfdm_ros.ros.topics import PublishedTopic
from lfdm_ros.stacks import live_view
from lfdm_ros.stacks.inspection import Inspector
from lfdm_ros.stacks.live_view import LiveView

pytest.importorskip("foxglove", reason="the extra 'foxglove' is not installed")

PATIENCE = 60.0  # [s]


def look(port: int, wanted: int, only: str = "/") -> dict[str, Any]:
    """Subscribes to all that is advertised, or to one topic; returns, by topic, its channel and (time [ns], bytes) of its messages, once as
    many topics as are wanted have some."""
    found: dict[str, Any] = {}

    async def run() -> None:
        client = await websocket_connect(f"ws://127.0.0.1:{port}", subprotocols=["foxglove.sdk.v1"])
        topics: dict[int, str] = {}
        while sum(bool(seen["messages"]) for seen in found.values()) < wanted:
            message = await asyncio.wait_for(client.read_message(), PATIENCE)
            if isinstance(message, str) and (news := json.loads(message))["op"] == "serverInfo":
                assert news["capabilities"] == ["time"]  # no clientPublish, no services, no parameters
            elif isinstance(message, str) and news["op"] == "advertise":
                for channel in (one for one in news["channels"] if one["topic"].startswith(only)):
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
    with Inspector(PATIENCE) as viewer:
        end = time.monotonic() + PATIENCE
        while not (viewer.node.count_publishers("/clock") and viewer.node.count_publishers("/said/once")):
            assert time.monotonic() < end
            time.sleep(0.01)
        said: list[str] = []
        view = LiveView(viewer.node, ["/said/once", "/clock", "/changes"], "127.0.0.1", 0, said.append)

        def serve(until: Any) -> None:
            """Serves, and publishes the time, until a condition holds."""
            end = time.monotonic() + PATIENCE
            message = Clock()
            set_stamp(message.clock, 5_000_000_000)
            while not until():
                assert time.monotonic() < end
                clock.publish(message)
                graph.runtime.spin_some(0.02)
                viewer.spin_some(20)
                view.update()

        yield graph.node, view, serve, said
        view.close()


def viewed(served: Any, wanted: int, only: str = "/", meanwhile: Any = lambda: None) -> dict[str, Any]:
    """What a viewer gets (`look`) while the graph is served."""
    _, view, serve, _ = served
    results: list[dict[str, Any]] = []
    viewer = threading.Thread(target=lambda: results.append(look(view.port, wanted, only)))
    viewer.start()

    def ended() -> bool:
        meanwhile()
        return not viewer.is_alive()

    serve(ended)
    return results[0]


def test_every_viewer_gets_what_is_said_once_and_what_goes_on(served: Any) -> None:
    node, view, *_ = served
    view.update()
    assert node.count_subscribers("/said/once") == 0  # nobody looks at it
    for _ in range(2):  # the second comes when all is subscribed already, or just let go of
        seen = viewed(served, 2)
        stamp, data = seen["/said/once"]["messages"][0]
        assert typestore().deserialize_cdr(data, "std_msgs/msg/String").data == "latched" and stamp == 5_000_000_000
        channel = seen["/clock"]["channel"]
        assert (channel["encoding"], channel["schemaName"], channel["schemaEncoding"]) == ("cdr", "rosgraph_msgs/msg/Clock", "ros2msg")
        assert "MSG: builtin_interfaces/Time" in channel["schema"]


def test_the_command_serves_until_ctrl_c(graph: Any) -> None:
    text = graph.node.create_publisher(String, "said/once", qos.LATCHED)
    text.publish(String(data="latched"))
    process = subprocess.Popen([sys.executable, "-m", "lfdm_ros.cli", "topic", "serve", "--port", "0", "/said/once"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = re.match(r"ws://127\.0\.0\.1:(\d+), read-only", process.stdout.readline())
        assert address is not None
        seen = look(int(address[1]), 1)
        assert seen.keys() == {"/said/once"}
        assert typestore().deserialize_cdr(seen["/said/once"]["messages"][0][1], "std_msgs/msg/String").data == "latched"
        taken = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", "topic", "serve", "--port", address[1]], capture_output=True,
                               text=True, timeout=PATIENCE)
        assert taken.returncode == 2 and f"cannot listen on 127.0.0.1:{address[1]}" in taken.stderr and taken.stderr.count("\n") == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130 and process.communicate()[1] == "lfdm topic: interrupted\n"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind, profile", [(String, qos.SENSOR), (String, qos.LATCHED), (Bool, 10)])
def test_a_publisher_that_comes_back_with_another_quality_or_type_is_shown_as_it_is_now(served: Any, kind: Any, profile: Any) -> None:
    _, view, serve, _ = served
    for now, quality in ((String, 10), (kind, profile)):
        with Inspector() as host:  # a participant of its own, as of another process
            publisher = host.node.create_publisher(now, "changes", quality)
            name = f"std_msgs/msg/{now.__name__}"
            serve(lambda name=name: "/changes" in view.offers and view.offers["/changes"].type_name == name)
            seen = viewed(served, 1, "/changes", lambda publisher=publisher, now=now: publisher.publish(now()))
        assert seen["/changes"]["channel"]["schemaName"] == name


def test_what_is_odd_about_a_topic_is_named_once(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, serve, said = served
    monkeypatch.setattr(Node, "get_topic_names_and_types", lambda node: [("/changes", ["nobody/msg/Knows"])])
    monkeypatch.setattr(live_view, "find_topic", lambda node, topic: PublishedTopic(topic, "nobody/msg/Knows", ()))
    count = iter(range(50))
    serve(lambda: next(count) == 40)
    assert [line.split(":")[0] for line in said] == ["/changes is not shown"], said


def test_a_port_that_is_taken_and_a_library_that_is_missing_are_one_line(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    node, view, *_ = served
    with pytest.raises(InputError, match=f"127.0.0.1:{view.port}: .*choose another --port"):
        LiveView(node, [], "127.0.0.1", view.port, lambda line: None)
    monkeypatch.setitem(sys.modules, "foxglove", None)
    with pytest.raises(InputError, match=r"pip install 'lfdm_ros\[foxglove\]'"):
        LiveView(node, [], "127.0.0.1", 0, lambda line: None)
