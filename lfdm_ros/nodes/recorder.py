"""The recorder node: writes the raw bytes of any topics to a rosbag2 bag, without decoding them."""

import os
import threading
from argparse import Namespace
from collections import deque
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from rclpy.duration import Duration
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from std_srvs.srv import Trigger

from lfdm_ros.bags import BagWriter
from lfdm_ros.bags.typestore import require_type
from lfdm_ros.errors import InputError, RunError, error_text, quote
from lfdm_ros.ros.component import ERROR, OK, WARN, Component, Diagnosis, while_active
from lfdm_ros.ros.endpoints import serves
from lfdm_ros.ros.parameters import Parameter, by_name, ros_parameter
from lfdm_ros.ros.runtime import Runtime, exit_status
from lfdm_ros.ros.topics import find_topic, is_selected

# Samples queued by the middleware for a slow recorder.
_DEPTH = 10_000
_LOOK_FOR_TOPICS = 0.25  # [s]
_LOOK_FOR_END = 1.0  # [s]


class BagThread:
    """A thread that writes to a bag, fed by a bounded queue that drops and counts messages when it is full."""

    def __init__(self, writer: BagWriter, capacity: int) -> None:
        """Starts the thread. writer: an open bag, which `close` closes; capacity: messages that may wait."""
        self._writer, self._capacity = writer, capacity
        self._queue: deque[tuple[str, str, int, bytes]] = deque()
        self._filled, self._closing = threading.Event(), False
        self.written = self.dropped = 0
        self.failure = ""
        # No daemon: the process does not end before the bag is closed, even if nobody asks for it.
        self._thread = threading.Thread(target=self._run, name="bag writer")
        self._thread.start()

    def put(self, topic: str, msgtype: str, stamp_ns: int, data: bytes) -> bool:
        """Queues a message; False: dropped."""
        if self.failure or len(self._queue) >= self._capacity:
            self.dropped += 1
            return False
        self._queue.append((topic, msgtype, stamp_ns, data))
        self._filled.set()
        return True

    def offer(self, topic: str, profiles: Sequence[Qos]) -> None:
        """Declares a topic to the bag, as `BagWriter.offer` does."""
        self._writer.offer(topic, profiles)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def close(self) -> None:
        """Writes the queue and closes the bag."""
        self._closing = True
        self._filled.set()
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            self._filled.wait(_LOOK_FOR_END)
            self._filled.clear()
            while self._queue:
                try:
                    self._writer.write_raw(*self._queue.popleft())
                    self.written += 1
                except Exception as error:  # whatever it is, it must reach the diagnostics
                    self.failure = error_text(error)
                    self.dropped += 1 + len(self._queue)
                    self._queue.clear()
            ended = self._closing or not threading.main_thread().is_alive()
        # Closed here, where no signal is handled: a caller that waits for this thread may be cut off.
        try:
            self._writer.close()
        except Exception as error:
            self.failure = self.failure or error_text(error)


def unused(path: str) -> str:
    """Returns the path, with {} in it replaced by the first number from 1 for which it does not exist."""
    numbered = (path.replace("{}", str(number)) for number in count(1))
    return next(one for one in numbered if not Path(one).exists()) if "{}" in path else path


class Recorder(Component):
    """A recorder of topics as they appear. A message's bag stamp is the time of its reception on the node's clock."""

    NAME = "recorder"
    PARAMETERS = (
        Parameter("bag", "", "folder of the bag to write; must not exist; {} in it: the first number from 1 that is free"),
        Parameter("storage", "mcap", "storage of the bag", choices=("mcap", "sqlite3")),
        Parameter("recording", "", "name of the recording; empty: the folder's name"),
        Parameter("topics", [], "topics to record; empty: all of the node's namespace"),
        Parameter("exclude", ["/rosout", "/parameter_events"], "topics to leave out when all are recorded; as well as raw "
                                                                 "images, /image_raw, which a camera publishes as JPEG too"),
        Parameter("waits", False, "record only between `~/start` and `~/stop`, each time into a new bag; `bag` then has {}"),
        Parameter("queue_size", 200_000, "messages that may wait for the disk; more are dropped and counted", 1, 10_000_000),
    )

    ENDPOINTS = (
        serves("~/start", Trigger, "record from now on, into the next bag"),
        serves("~/stop", Trigger, "close the bag; the message is its folder"),
    )

    takes_all = True

    def configure(self) -> None:
        if not self.value("bag"):
            raise InputError(f"parameter bag of node {self.get_name()} is empty; give the folder of the bag to write")
        if self.value("waits") and "{}" not in self.value("bag"):
            raise InputError(f"parameter bag of node {self.get_name()} is {quote(self.value('bag'))}; with waits each recording needs a "
                             "folder of its own: put {} in its name")
        self._selected = {self.resolve_topic_name(topic) for topic in self.value("topics") or []}
        self._excluded = {self.resolve_topic_name(topic) for topic in self.value("exclude") or []}
        self._bag: BagThread | None = None
        self._path, self._records, self.written, self.dropped = "", False, 0, 0
        self._recorded: dict[str, Subscription] = {}
        self._unknown: dict[str, str] = {}
        self._recorded_before = -1
        self.connect({"~/start": self._on_start, "~/stop": self._on_stop})
        if not self.value("waits"):
            self._open()

    def _open(self) -> None:
        """Opens the next bag. Raises InputError where it cannot be written."""
        self._path = unused(self.value("bag"))
        writer = BagWriter(self._path, storage=self.value("storage"), recording=self.value("recording") or None,
                           origin_ns=0 if self.value("use_sim_time") else None)
        writer.__enter__()
        self._bag = BagThread(writer, self.value("queue_size"))
        self._records = True

    def _close(self) -> str:
        """Closes the bag, if open; returns the reason if it is incomplete, else an empty text."""
        if not self._records:
            return ""
        bag, self._records = self.bag, False
        bag.close()
        self.written, self.dropped = self.written + bag.written, self.dropped + bag.dropped
        self.get_logger().info(f"{self._path}: {bag.written} messages, {bag.dropped} dropped")
        if bag.failure:
            self.fail(bag.failure)
        return bag.failure

    def activate(self) -> None:
        self._subscribe()
        self._timer = self.every(_LOOK_FOR_TOPICS, self._subscribe)

    def deactivate(self) -> None:
        self.destroy_timer(self._timer)
        self._unsubscribe()

    def cleanup(self) -> None:
        self._close()

    @property
    def bag(self) -> BagThread:
        """The state of the last bag: messages written, dropped, waiting."""
        assert self._bag is not None, "no bag has been opened"
        return self._bag

    def _on_start(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        def start() -> tuple[bool, str]:
            if self.state != "active" or self._records:
                raise InputError(f"records already, into {self._path}" if self._records else f"the recorder is {self.state}")
            self._open()
            self._subscribe()
            return True, os.path.abspath(self._path)

        return self.respond(response, start)

    def _on_stop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.message = "nothing is recorded"
        if self._records:
            self._unsubscribe()
            failure = self._close()
            response.success, response.message = not failure, failure or os.path.abspath(self._path)
        return response

    def summary(self) -> dict[str, Any]:
        return {"messages_recorded": self.written, "messages_dropped": self.dropped}

    def settled(self) -> bool:
        if self.state != "active" or not self._records:
            return True
        taken = self.bag.written + self.bag.waiting + self.bag.dropped
        same, self._recorded_before = taken == self._recorded_before, taken
        return same

    def _unsubscribe(self) -> None:
        for subscription in self._recorded.values():
            self.destroy_subscription(subscription)
        self._recorded.clear()

    def _subscribe(self) -> None:
        if not self._records:
            return
        for topic, types in self.get_topic_names_and_types():
            if topic in self._recorded or topic in self._unknown or not is_selected(
                    topic, self._selected, self._excluded, self.get_namespace()):
                continue
            try:
                published = find_topic(self, topic)
                if published is None:
                    continue
                if len(types) != 1:
                    raise InputError(f"has several types: {', '.join(types)}")
                require_type(types[0])  # here, where it costs this topic: in the bag's thread it would cost all
                self.bag.offer(topic, [_offered(publisher.qos_profile) for publisher in published.publishers])
                self._recorded[topic] = published.subscribe(self, self._callback(topic, types[0]), depth=_DEPTH, raw=True)
            except Exception as error:  # whatever is odd about one topic, such as a type support that does not load: the others go on
                self._unknown[topic] = error_text(error)
                self.get_logger().error(f"{topic} is not recorded: {error_text(error)}")

    def _callback(self, topic: str, msgtype: str) -> Any:
        put, now = self.bag.put, self.get_clock().now

        def record(data: bytes) -> None:
            put(topic, msgtype, now().nanoseconds, data)

        return record

    @while_active
    def diagnose(self) -> Diagnosis:
        if not self._records:
            return OK, "waits to be started", {"bag": self._path}
        bag = self.bag
        values = {"bag": self._path, "topics": len(self._recorded), "written": bag.written, "waiting": bag.waiting,
                  "dropped": bag.dropped, "topics_not_recorded": ", ".join(self._unknown)}
        lost = self.increase(f"dropped from {self._path}", bag.dropped)
        if bag.failure:
            return ERROR, bag.failure, values
        if lost:
            return ERROR, f"{lost} messages dropped, the disk does not keep up", values
        missing = self._selected - self._recorded.keys()
        if missing:
            return WARN, f"not published yet: {', '.join(sorted(missing))}", values
        if self._unknown:
            return WARN, f"not recorded: {', '.join(self._unknown)}", values
        return OK, "recording", values


def _offered(profile: QoSProfile) -> Qos:
    """Converts a publisher's quality of service to that of bags; both have the numbers of rmw."""
    def time(duration: Duration) -> QosTime:
        return QosTime(*divmod(duration.nanoseconds, 1_000_000_000))

    return Qos(QosHistory(int(profile.history)), profile.depth, QosReliability(int(profile.reliability)),
               QosDurability(int(profile.durability)), time(profile.deadline), time(profile.lifespan),
               QosLiveliness(int(profile.liveliness)), time(profile.liveliness_lease_duration), profile.avoid_ros_namespace_conventions)


def record_from_cli(args: Namespace) -> int:
    """Records until Ctrl-C, or for a duration, for `lfdm bag record` with args out, topics (or None), storage and duration [s] (or None);
    returns the exit status. Raises InputError: the bag cannot be made, the disk refused, or no message came; RunError: something else
    failed."""
    parameters = {"bag": args.out, "storage": args.storage, "topics": args.topics or []}
    table = by_name(Recorder.PARAMETERS)
    with Runtime() as runtime:
        node = Recorder(context=runtime.context,
                        parameter_overrides=[ros_parameter(table[name], value) for name, value in parameters.items()])
        runtime.add(node)
        node.bring_up("configure", "activate")
        reason = runtime.spin(timeout=args.duration, until=lambda: bool(node.bag.failure))
    if node.bag.failure:
        raise InputError(node.bag.failure)
    if runtime.failures:
        raise RunError(runtime.failures, {})
    if not node.bag.written:
        raise InputError(f"{args.out}: no message came on {', '.join(args.topics or ['any topic'])}, so the bag is empty; lfdm topic list "
                         "shows what is published")
    return exit_status(reason)
