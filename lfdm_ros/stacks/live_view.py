"""Topics of a running graph for Lichtblick or Foxglove, live and read-only, over their WebSocket protocol (foxglove-sdk, an extra)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from rclpy.node import Node
from rclpy.parameter import Parameter

from lfdm_ros.bags.typestore import require_type, typestore
from lfdm_ros.errors import InputError
from lfdm_ros.nodes.recorder import is_wanted
from lfdm_ros.ros.topics import find_topic

_DEPTH = 10  # messages of a topic that wait while this process is busy


class LiveView:
    """A server of topics as they appear; a topic is subscribed while somebody looks at it. It takes nothing from the viewers."""

    def __init__(self, node: Node, topics: Collection[str], host: str, port: int, report: Callable[[str], None]) -> None:
        """
        Starts the server.

        Args:
            node: that subscribes; its time is simulated time while there is a /clock.
            topics: by their full names; none: all.
            port: 0: any that is free.
            report: called with a line on each topic that cannot be shown.

        Raises:
            InputError: foxglove-sdk is not installed, or the port is taken.
        """
        try:
            import foxglove
        except ImportError:
            raise InputError("foxglove-sdk is not installed; pip install 'lfdm_ros[foxglove]'") from None
        self._sdk, self._node, self._topics, self._report = foxglove, node, topics, report
        self._simulated = False
        self._context = foxglove.Context()
        self._channels: dict[str, Any] = {}
        self._subscriptions: dict[str, Any] = {}
        self._viewed: deque[str] = deque()  # topics that a viewer has just chosen: filled by the server's threads
        viewed = self._viewed

        class Listener(foxglove.websocket.ServerListener):
            def on_subscribe(self, client: Any, channel: Any) -> None:
                viewed.append(channel.topic)

        try:
            self._server = foxglove.start_server(name="lfdm", host=host, port=port, context=self._context, server_listener=Listener(),
                                                 capabilities=[foxglove.Capability.Time])
        except Exception as error:  # of the library's own kind
            raise InputError(f"{host}:{port}: {error}; choose another --port") from None

    @property
    def port(self) -> int:
        """The port that viewers connect to."""
        return int(self._server.port)

    def update(self) -> None:
        """Offers topics that have appeared, subscribes to those that are looked at, and lets go of the others; to be called often."""
        simulated = self._node.count_publishers("/clock") > 0
        if simulated != self._simulated:
            self._node.set_parameters([Parameter("use_sim_time", value=simulated)])
            self._simulated = simulated
        for topic, types in self._node.get_topic_names_and_types():
            if topic not in self._channels and is_wanted(topic, self._topics, ()):
                self._channels[topic] = self._channel(topic, types)
        # Subscribed anew for each viewer: a topic that is latched gives its message only to a new subscription.
        anew = {self._viewed.popleft() for _ in range(len(self._viewed))}
        for topic, channel in list(self._channels.items()):
            looked_at = channel is not None and channel.has_sinks()
            if topic in self._subscriptions and (topic in anew or not looked_at):
                self._node.destroy_subscription(self._subscriptions.pop(topic))
            if looked_at and topic not in self._subscriptions:
                self._subscribe(topic, channel)
        self._server.broadcast_time(self._now())

    def close(self) -> None:
        """Ends the server; its viewers are disconnected."""
        self._server.stop()

    def _subscribe(self, topic: str, channel: Any) -> None:
        try:
            published = find_topic(self._node, topic)
            if published is not None:
                self._subscriptions[topic] = published.subscribe(self._node, self._sender(channel), depth=_DEPTH, raw=True)
        except InputError as error:
            self._report(f"{topic} is not shown: {error}")
            self._channels[topic] = None

    def _channel(self, topic: str, types: Sequence[str]) -> Any:
        """Returns a channel; None: the type of its messages is not known here, or there are several."""
        try:
            if len(types) > 1:
                raise InputError(f"has several types: {', '.join(types)}")
            require_type(types[0])
        except InputError as error:
            self._report(f"{topic} is not shown: {error}")
            return None
        [type_name] = types
        text, _ = typestore().generate_msgdef(type_name, ros_version=2)
        return self._sdk.Channel(topic, message_encoding="cdr", context=self._context,
                                 schema=self._sdk.Schema(name=type_name, encoding="ros2msg", data=text.encode()))

    def _sender(self, channel: Any) -> Callable[[bytes], None]:
        return lambda data: channel.log(data, log_time=self._now())

    def _now(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)
