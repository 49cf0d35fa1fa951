from types import SimpleNamespace
from typing import Any

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ros.topics import RateLimiter, find_topic


@pytest.mark.parametrize("rate, stamps_ms, admitted", [
    (10.0, (0, 99, 100, 150, 199, 200, 450), (0, 100, 200, 450)),
    (10.0, (500, 510, 400, 410, 500), (500, 400, 500)), (1000.0, (1, 2, 3), (1, 2, 3))])
def test_one_message_a_period_is_admitted(rate: float, stamps_ms: tuple[int, ...], admitted: tuple[int, ...]) -> None:
    limiter = RateLimiter(rate)
    assert tuple(ms for ms in stamps_ms if limiter.admit(1_000_000 * ms)) == admitted


def test_publishers_that_disagree_on_the_type_are_an_error() -> None:
    def node(*types: str) -> Any:
        return SimpleNamespace(resolve_topic_name=lambda name: f"/{name}",
                               get_publishers_info_by_topic=lambda name: [SimpleNamespace(topic_type=kind) for kind in types])

    assert find_topic(node(), "x") is None
    topic = find_topic(node("std_msgs/msg/String", "std_msgs/msg/String"), "x")
    assert topic is not None and (topic.name, topic.type_name, len(topic.publishers)) == ("/x", "std_msgs/msg/String", 2)
    with pytest.raises(InputError, match="/x has several types: std_msgs/msg/Empty, std_msgs/msg/String"):
        find_topic(node("std_msgs/msg/String", "std_msgs/msg/Empty"), "x")
