"""Damage is the same for the same seed, and is damage."""

from random import Random

import pytest
import yaml

from lfdm_lab.fuzzing import corrupt, damage_bag, damaged_json, damaged_yaml, good_bag, hostile_cdr
from lfdm_lab.fuzzing.trees import mutated
from lfdm_ros.bags import bag_info
from lfdm_ros.bags.typestore import typestore

DOCUMENT = {"a": {"value": 1.0, "unit": "m"}, "b": [1, 2, {"c": "x"}], "d": True}


def test_bytes_differ_and_repeat_by_seed():
    content = bytes(range(256)) * 8
    outcomes = [corrupt(content, Random(seed)) for seed in range(200)]
    assert outcomes == [corrupt(content, Random(seed)) for seed in range(200)]
    assert sum(damaged != content for damaged, _ in outcomes) > 190  # zeros over zeros change nothing
    assert len({what.split(" ")[0] for _, what in outcomes}) >= 7
    assert corrupt(b"", Random(1))[0]


@pytest.mark.parametrize("damage", [damaged_yaml, damaged_json])
def test_documents_repeat_by_seed(damage):
    text = yaml.safe_dump(DOCUMENT) if damage is damaged_yaml else '{"a": {"value": 1.0}, "b": [1, 2]}'
    outcomes = [damage(text, Random(seed)) for seed in range(100)]
    assert outcomes == [damage(text, Random(seed)) for seed in range(100)]
    assert len({content for content, _ in outcomes}) > 60


def test_a_document_is_changed_in_a_copy():
    before = yaml.safe_dump(DOCUMENT)
    assert sum(mutated(DOCUMENT, Random(seed))[0] != DOCUMENT for seed in range(50)) > 40
    assert yaml.safe_dump(DOCUMENT) == before


@pytest.mark.parametrize("msgtype", [
    "lfdm_ros/msg/VehicleState", "sensor_msgs/msg/LaserScan", "nav_msgs/msg/Path", "lfdm_ros/msg/Posterior", "nav_msgs/msg/Odometry"])
def test_hostile_messages_are_messages_or_say_that_their_bytes_are_damaged(msgtype):
    for seed in range(30):
        cdr, what = hostile_cdr(msgtype, Random(seed), 10**18)
        if "; bytes " not in what:
            typestore().deserialize_cdr(cdr, msgtype)
        assert len(cdr) < 20_000_000


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_good_bag_is_whole_and_damaged_copies_repeat(tmp_path, storage):
    count = good_bag(tmp_path / "good", storage, seconds=0.4)
    info = bag_info(tmp_path / "good")
    assert (info["messages"], info["note"]) == (count, None)
    said = [damage_bag(tmp_path / "good", tmp_path / f"{turn}_{seed}", Random(seed)) for turn in "ab" for seed in range(8)]
    assert said[:8] == said[8:]
    assert bag_info(tmp_path / "good") == info
