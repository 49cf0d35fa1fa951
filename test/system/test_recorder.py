"""What the recorder keeps besides the messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rosbags.interfaces import QosDurability, QosReliability
from std_msgs.msg import String

from lfdm_ros.bags import open_bag
from lfdm_ros.nodes import qos
from lfdm_ros.nodes.recorder import Recorder


def test_a_latched_topic_is_recorded_as_one(graph: Any, tmp_path: Path) -> None:
    latched = graph.node.create_publisher(String, "/latched", qos.LATCHED)
    sensor = graph.node.create_publisher(String, "/sensor", qos.SENSOR)
    latched.publish(String(data="early"))
    recorder = graph.add(Recorder, bag=str(tmp_path / "bag"), topics=["/latched", "/sensor"])
    graph.wait(lambda: sensor.get_subscription_count(), "the recorder's subscription")
    sensor.publish(String(data="x"))
    graph.wait(lambda: recorder.bag.written == 2, "both messages")
    recorder.release()
    with open_bag(tmp_path / "bag") as bag:
        offered = {c.topic: c.ext.offered_qos_profiles for c in bag.connections}
    assert [(p.durability, p.reliability) for p in offered["/latched"]] == [(QosDurability.TRANSIENT_LOCAL, QosReliability.RELIABLE)]
    assert [(p.durability, p.reliability) for p in offered["/sensor"]] == [(QosDurability.VOLATILE, QosReliability.BEST_EFFORT)]
    assert offered["/latched"][0].lifespan == (9223372036, 854775807)
