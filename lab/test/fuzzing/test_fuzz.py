"""`lfdm fuzz` with a few fixed seeds: only answers and refusals."""

import json
from random import Random
from types import SimpleNamespace

import pytest
import yaml

from lfdm_lab.cli.fuzz_page import CommandMonitor
from lfdm_lab.fuzzing import corrupt, damage_bag, damaged_json, damaged_yaml, good_bag, hostile_cdr, pages
from lfdm_lab.fuzzing.trees import mutated
from lfdm_lab.stacks import attack
from lfdm_ros.bags import bag_info
from lfdm_ros.bags.typestore import typestore
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError, RunError


@pytest.mark.parametrize("kind, seeds", [("bags", 24), ("files", 70), ("page", 2)])
def test_all_outcomes_are_answers_or_refusals(tmp_path, capsys, kind, seeds, without_pictures):
    status = main(["fuzz", kind, "--seeds", str(seeds), "--limit", "300", "--json", str(tmp_path / "counts.json")])
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert status == 0, counts["failures"]
    assert (counts["kind"], counts["cases"], counts["answer"] + counts["refused"]) == (kind, seeds, seeds)
    assert counts["answer"] and bool(counts["refused"]) == (kind != "page") and not counts["failures"]


def test_a_failure_is_exit_1_and_its_seed_repeats_it(tmp_path, capsys, monkeypatch):
    from lfdm_lab.cli import fuzz_cases

    def broken(path):
        raise KeyError(path)

    monkeypatch.setattr(fuzz_cases, "bag_info", broken)
    assert main(["fuzz", "bags", "--seed", "5", "--keep", str(tmp_path / "kept")]) == 1
    out = capsys.readouterr().out
    assert "seed 5: traceback" in out and "KeyError" in out and "lfdm fuzz bags --seed 5" in out
    assert (tmp_path / "kept" / "bag_5").is_dir()
    assert fuzz_cases.FILE_KINDS


@pytest.mark.parametrize("arguments, words", [
    (["bags", "--seeds", "0"], "--seeds 0"), (["files", "--of", "poem"], "poem"), (["graph", "--duration", "0"], "--duration 0"),
    (["bags", "--limit", "0"], "--limit 0"), (["bags", "--json", "/no/such/x.json"], "no folder")])
def test_bad_usage_is_one_line(capsys, arguments, words):
    assert main(["fuzz", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_fuzz_writes_damaged_copies(tmp_path, capsys):
    from lfdm_lab.fuzzing import good_bag

    good_bag(tmp_path / "good", seconds=0.4)
    assert main(["fuzz", "copies", str(tmp_path / "good"), "--seeds", "3", "--out", str(tmp_path / "bad")]) == 0
    assert sorted(path.name for path in (tmp_path / "bad").iterdir()) == ["1", "2", "3"]
    assert capsys.readouterr().out.count("\n") == 3
    assert main(["bag", "fuzz", str(tmp_path / "good"), "--out", str(tmp_path / "bad")]) == 2
    error = capsys.readouterr().err
    assert "bad: File exists" in error and "lfdm bag fuzz is lfdm fuzz copies now" in error


@pytest.mark.parametrize("others, expected", [([], InputError), (["controller: on_state: KeyError: 'x'"], RunError)])
def test_a_full_disk_is_a_refusal_and_another_failure_is_not(tmp_path, monkeypatch, others, expected):
    def run_stack(*_, **__):
        raise RunError([f"cannot write to {tmp_path}: File too large", *others], {})

    monkeypatch.setattr(attack, "run_stack", run_stack)
    monkeypatch.setattr(attack, "alone", lambda: None)
    monkeypatch.setattr(attack.resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(attack.signal, "signal", lambda *_: None)
    monkeypatch.setenv("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    with pytest.raises(expected, match="File too large"):
        attack.full_disk_run("simulator", tmp_path, {})


@pytest.mark.parametrize("failures, not_driven, fails", [
    (["vehicle_simulator: commands did not act"], "commands did not act", False), (["controller: on_state: KeyError: 'x'"], "", True),
    (["vehicle_simulator: commands did not act", "controller: KeyError: 'x'"], "commands did not act", True)])
def test_under_attack_only_driving_may_fail(tmp_path, monkeypatch, failures, not_driven, fails):
    def run_stack(*_, **__):
        raise RunError(failures, {"reason": "ran 4 s", "messages_recorded": 1, "messages_dropped": 0, "not_driven": not_driven})

    monkeypatch.setattr(attack, "run_stack", run_stack)
    monkeypatch.setattr(attack, "alone", lambda: None)
    monkeypatch.setattr(attack, "Attacker", lambda *_: SimpleNamespace(strike=None, close=lambda: None, sent=[]))
    if fails:
        with pytest.raises(RunError):
            attack.attacked_run("simulator", tmp_path, {}, 1, seconds=1.0)
    else:
        assert attack.attacked_run("simulator", tmp_path, {}, 1, seconds=1.0)["messages_recorded"] == 1


DOCUMENT = {"a": {"value": 1.0, "unit": "m"}, "b": [1, 2, {"c": "x"}], "d": True}


@pytest.mark.parametrize(("damage", "content", "least"), [
    (corrupt, bytes(range(256)) * 8, 190), (damaged_yaml, yaml.safe_dump(DOCUMENT), 150),
    (damaged_json, '{"a": {"value": 1.0}, "b": [1, 2]}', 120)])
def test_damage_differs_and_repeats_by_seed(damage, content, least):
    outcomes = [damage(content, Random(seed)) for seed in range(200)]
    assert outcomes == [damage(content, Random(seed)) for seed in range(200)]
    assert len({damaged for damaged, _ in outcomes}) > least
    if damage is corrupt:
        assert len({what.split(" ")[0] for _, what in outcomes}) >= 7
        assert corrupt(b"", Random(1))[0]


def test_a_document_is_changed_in_a_copy():
    before = yaml.safe_dump(DOCUMENT)
    assert sum(mutated(DOCUMENT, Random(seed))[0] != DOCUMENT for seed in range(50)) > 40
    assert yaml.safe_dump(DOCUMENT) == before


@pytest.mark.parametrize("msgtype", [
    "lfdm_ros/msg/VehicleState", "sensor_msgs/msg/LaserScan", "nav_msgs/msg/Path", "lfdm_ros/msg/Posterior", "nav_msgs/msg/Odometry"])
def test_hostile_messages_are_valid_unless_described_as_damaged(msgtype):
    for seed in range(11):  # the eleventh path has a hundred thousand poses
        cdr, what = hostile_cdr(msgtype, Random(seed), 10**18)
        if "; bytes " not in what:
            typestore().deserialize_cdr(cdr, msgtype)
        assert len(cdr) < 20_000_000


def test_hostile_pages_repeat_by_seed_and_give_their_refusals():
    intent = {"number": 1, "time": 0.0, "held": True, "steering": 0.0, "throttle": 0.0, "brake": 0.0, "picture": 0}
    for make, expected in ((lambda rng: pages.hostile_input(intent, rng), pages.refusals_of_input),
                           (pages.hostile_request, pages.refusals_of_request)):
        made = [make(Random(seed)) for seed in range(300)]
        assert made == [make(Random(seed)) for seed in range(300)]
        assert {expected(content) for content, _ in made} >= {(1, 1), (0, 1)}
    assert pages.refusals_of_input(json.dumps(intent).encode()) == (0, 1)
    assert pages.refusals_of_input(json.dumps({**intent, "steering": float("nan")}).encode()) == (1, 1)
    assert pages.refusals_of_request(b'{"ack": 3}') == (0, 0) and pages.refusals_of_request(b'{"ack": true}') == (1, 1)
    assert pages.is_readable(b"\xff", pages.BINARY) and not pages.is_readable(b"\xff", pages.TEXT)


def test_a_command_that_is_not_the_drivers_fails_the_case():
    monitor = CommandMonitor()
    for command in ((0.125, 0.25, 0.0), (0.0, 0.0, 0.4), (0.0, 0.0, 1.0)):
        monitor.check(command)
    assert monitor.count == 3 and not monitor.fault
    monitor.check((float("nan"), 0.25, 0.0))
    assert "nan" in monitor.fault


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_good_bag_is_complete_and_damaged_copies_repeat(tmp_path, storage):
    count = good_bag(tmp_path / "good", storage, seconds=0.4)
    info = bag_info(tmp_path / "good")
    assert (info["messages"], info["note"]) == (count, None)
    said = [damage_bag(tmp_path / "good", tmp_path / f"{turn}_{seed}", Random(seed)) for turn in "ab" for seed in range(8)]
    assert said[:8] == said[8:]
    assert bag_info(tmp_path / "good") == info
