"""A node of your own that takes any topic by its name: its newest messages go to the log, so many a second.

    export LFDM_PLUGINS=examples/topic_echo.py
    lfdm up mine.yaml

mine.yaml is a stack file that names it:

    nodes:
      - {executable: vehicle_simulator, parameters: {scenario: ramp_steer}}
      - {executable: input_player, parameters: {scenario: ramp_steer}}
      - {executable: topic_echo, parameters: {topic: odom, rate: 2.0}}
"""

from lfdm_ros.errors import InputError
from lfdm_ros.ros.component import ERROR, OK, WARN, Component
from lfdm_ros.ros.message_fields import as_yaml
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.ros.topics import find_topic
from lfdm_ros.stacks.stack import register_node


class TopicEcho(Component):
    """Logs the messages of one topic, whatever their type."""

    NAME = "topic_echo"
    PARAMETERS = (
        Parameter("topic", "vehicle/state", "name of the topic"),
        Parameter("rate", 1.0, "messages a second at most", 0.01, 1000.0, unit="Hz"),
    )

    def configure(self):
        self._topic, self._echoed, self._failure = None, 0, ""
        self.every(0.1, self._look)

    def cleanup(self):
        if self._topic is not None:
            self.destroy_subscription(self._subscription)

    def _look(self):
        """Subscribes once somebody publishes the topic."""
        if self._topic is not None:
            return
        try:
            topic = find_topic(self, self.value("topic"))
            if topic is not None:
                self._subscription = topic.subscribe(self, self._on_message, rate=self.value("rate"))
                self._topic, self._failure = topic, ""
        except InputError as error:  # its type is not installed, or it has several
            self._failure = str(error)

    def _on_message(self, message):
        if self.state == "active":
            self._echoed += 1
            self.get_logger().info(as_yaml(message, longest=4))

    def diagnose(self):
        if self._failure:
            return ERROR, self._failure, {}
        if self._topic is None:
            return WARN, f"nobody publishes {self.value('topic')}", {}
        return OK, self._topic.type_name, {"echoed": self._echoed}

    def summary(self):
        return {"echoed_type": self._topic.type_name if self._topic else "", "echoed": self._echoed}


register_node(TopicEcho)
