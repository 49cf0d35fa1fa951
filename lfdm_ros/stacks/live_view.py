"""Topics of a running graph for Lichtblick or Foxglove, live and read-only, over their WebSocket protocol (foxglove-sdk, an extra)."""

import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy

from lfdm_ros.bags.typestore import require_type, typestore
from lfdm_ros.errors import InputError, error_text
from lfdm_ros.ros import qos
from lfdm_ros.ros.topics import PublishedTopic, find_topic, is_selected

_DEPTH = 10  # queued messages of a topic
_LOOK_FOR_TOPICS = 0.5  # [s]


@dataclass
class _Offer:
    """An offered topic: message type, channel, subscription while viewed, and its profile."""

    type_name: str
    channel: Any
    subscription: Any = None
    profile: tuple[Any, ...] = ()


class LiveView:
    """Read-only server of published topics; a topic is subscribed only while viewed. offers: offered topics by name."""

    def __init__(self, node: Node, topics: Collection[str], host: str, port: int, report: Callable[[str], None]) -> None:
        """Starts the server, with the topics that are there, on a port, 0: any that is free. node: subscribes, in simulated time while
        there is a /clock; topics: full names, empty: all except hidden ones and raw images; report: takes a line on each topic that cannot
        be shown. Raises InputError: foxglove-sdk is not installed, or it cannot listen there."""
        try:
            import foxglove
        except ImportError:
            raise InputError("foxglove-sdk is not installed; pip install 'lfdm_ros[foxglove]'") from None
        self._sdk, self._node, self._topics, self._report = foxglove, node, topics, report
        self._simulated, self._looked_at = False, -_LOOK_FOR_TOPICS
        self._context = foxglove.Context()
        self.offers: dict[str, _Offer] = {}
        self._reported: set[str] = set()
        self._chosen: deque[str] = deque()  # newly chosen topics, filled by the server's threads
        chosen = self._chosen

        class Listener(foxglove.websocket.ServerListener):
            def on_subscribe(self, client: Any, channel: Any) -> None:
                chosen.append(channel.topic)

        # Before there are viewers: foxglove-sdk 0.30 may refuse one that chooses a channel as soon as it is added.
        self._look_for_topics(set())
        try:
            self._server = foxglove.start_server(name="lfdm", host=host, port=port, context=self._context, server_listener=Listener(),
                                                 capabilities=[foxglove.Capability.Time])
        except Exception as error:  # the library's own class
            raise InputError(f"cannot listen on {host}:{port}: {error}; choose another --port or --host") from None

    @property
    def port(self) -> int:
        return int(self._server.port)

    def update(self) -> None:
        """Offers new topics, subscribes to viewed ones and unsubscribes from others; to be called often."""
        chosen = {self._chosen.popleft() for _ in range(len(self._chosen))}
        if chosen or time.monotonic() - self._looked_at >= _LOOK_FOR_TOPICS:
            self._look_for_topics(chosen)
        if (now := self._now()) > 0:  # 0 before a simulation starts
            self._server.broadcast_time(now)

    def close(self) -> None:
        """Ends the server, disconnecting its viewers."""
        self._server.stop()

    def _look_for_topics(self, chosen: Collection[str]) -> None:
        self._looked_at = time.monotonic()
        simulated = self._node.count_publishers("/clock") > 0
        if simulated != self._simulated:
            self._node.set_parameters([Parameter("use_sim_time", value=simulated)])
            self._simulated = simulated
        for topic, _ in self._node.get_topic_names_and_types():
            if not is_selected(topic, self._topics, ()):
                continue
            try:
                self._follow(topic, topic in chosen)
            except Exception as error:  # a faulty topic must not affect the others
                line = f"{topic} is not shown: {error_text(error)}"
                if line not in self._reported:
                    self._reported.add(line)
                    self._report(line)

    def _follow(self, topic: str, chosen: bool) -> None:
        """Offers a topic with its present type and, while viewed, subscribes with the present QoS of its publishers."""
        published, offer = find_topic(self._node, topic), self.offers.get(topic)
        if published is not None and (offer is None or offer.type_name != published.type_name):
            offer = self._offer(published)
        if offer is None:
            return
        profile = _profile(published) if published is not None and offer.channel.has_sinks() else ()
        # Also anew for another viewer of a latched topic, which sends its message only to new subscriptions.
        if offer.subscription is not None and (profile != offer.profile or (chosen and DurabilityPolicy.TRANSIENT_LOCAL in profile)):
            self._unsubscribe(offer)
        if profile and offer.subscription is None:
            assert published is not None
            channel = offer.channel
            offer.subscription = published.subscribe(
                self._node, lambda data: channel.log(data, log_time=self._now()), depth=_DEPTH, raw=True)
            offer.profile = profile

    def _offer(self, published: PublishedTopic) -> _Offer:
        """Offers a topic, replacing an earlier offer of its name."""
        require_type(published.type_name)
        text, _ = typestore().generate_msgdef(published.type_name, ros_version=2)
        if (before := self.offers.get(published.name)) is not None:
            self._unsubscribe(before)
            before.channel.close()
        schema = self._sdk.Schema(name=published.type_name, encoding="ros2msg", data=text.encode())
        channel = self._sdk.Channel(published.name, message_encoding="cdr", context=self._context, schema=schema)
        offer = self.offers[published.name] = _Offer(published.type_name, channel)
        return offer

    def _unsubscribe(self, offer: _Offer) -> None:
        if offer.subscription is not None:
            self._node.destroy_subscription(offer.subscription)
            offer.subscription = None

    def _now(self) -> int:
        return int(self._node.get_clock().now().nanoseconds)


def _profile(published: PublishedTopic) -> tuple[Any, ...]:
    """Returns the properties that decide whether a subscription fits the publishers."""
    profile = qos.matching(published.publishers, _DEPTH)
    return profile.reliability, profile.durability
