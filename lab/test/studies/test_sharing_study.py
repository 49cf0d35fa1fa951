"""The study of sharing: its runs, their repeatability, and its tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lfdm_lab.studies import movers, pictures
from lfdm_lab.studies import sharing as study
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.reports import markdown_table

ODD = ("cycle_us", "risk_ms_p50")  # of wall clock


@pytest.fixture
def short(monkeypatch):
    """Scenarios of 1.5 s."""
    whole = study.load_scenario
    monkeypatch.setattr(study, "load_scenario", lambda *arguments: replace(whole(*arguments), duration=1.5))


def test_every_control_drives_the_same_seeds():
    items = study.drives([1, 2])
    assert len(items) == 2 * 3 * (4 + 4 + 1) and len({study.key(item) for item in items}) == len(items)
    for control, latencies in (("operator", 4), ("shared", 4), ("autonomy", 1)):
        assert len({item.latency for item in items if item.control == control}) == latencies
    more = study.ablation([1], (0.5,), ["lane_change"])
    assert {(item.threats, item.mode) for item in more} == {(("sideslip",), "blend"), (("demand",), "blend"), (("clearance",), "blend"),
                                                             (("load_transfer",), "blend"), (study.RISK_THREATS, "blend")}
    assert [item.control for item in study.blind([1], 0.8, ["obstacle_field"])] == ["autonomy", "shared"]


@pytest.mark.parametrize(("arguments", "words"), [
    ({"scenarios": ["moon"]}, "moon"), ({"controls": ["nobody"]}, "nobody"), ({"latencies": [3.0]}, "latency")])
def test_unknown_scenarios_controls_and_latencies_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        study.drives([1], **arguments)


def test_the_first_seed_is_chosen(capsys, monkeypatch):
    monkeypatch.setattr("lfdm_ros.scheduling.available_cores", lambda: 1)
    main(["study", "sharing", "--scenarios", "lane_change", "--controls", "operator", "--latencies", "0", "--seeds", "2", "--seed", "8",
          "--json"])
    assert [run["seed"] for run in json.loads(capsys.readouterr().out)["runs"]] == [8, 9]


def test_a_run_repeats_to_the_bit(short):
    for item in (study.SharingRun("slippery_curve", "shared", 0.2, 3), study.SharingRun("obstacle_field", "operator", 0.2, 3)):
        first, again = study.work(item), study.work(item)
        assert {k: v for k, v in first.items() if k not in ODD} == {k: v for k, v in again.items() if k not in ODD}
        assert first["control"] == item.control and 0.0 <= first["mean_k"] <= 1.0 and first["seconds"] >= 1.4
        assert (first["risk_ms_p50"] is None) == (item.control == "operator")


def test_among_things_that_move(monkeypatch):
    """The scene of a seed is that of the study of movers; on a blocked road no arrival is required."""
    crossing = study.ALL_SETTINGS["crossing"]
    speeds = [s.speed for s in (crossing.load(3), movers.scenario_of("crossing", 3), crossing.load(4))]
    assert speeds[0] == speeds[1] != speeds[2]
    whole = movers.scenario_of
    monkeypatch.setattr(movers, "scenario_of", lambda *arguments: replace(whole(*arguments), duration=1.0))
    found = study.work(study.SharingRun("slippery_wall", "operator", 0.2, 3))
    assert found["scenario"] == "slippery_wall" and found["seconds"] >= 0.9 and found["k_crossings"] == 0
    assert found["failure"] == ""


def test_a_barely_learned_operator_keeps_driving():
    """In a lane change without latency, too short for learning: small k, and no failure, whether the operator alone passes it or not."""
    for seed, passes, k in ((4, True, 0.3), (1, False, 0.6)):
        alone, found = (study.work(study.SharingRun("lane_change", control, 0.0, seed)) for control in ("operator", "shared"))
        assert found["mean_k"] < k and not found["failure"] and bool(alone["failure"]) is not passes


def test_an_operator_without_latency_compensates_a_blind_autonomy():
    """Alone it has a collision in this field; with the operator it does not get control."""
    found = study.work(study.SharingRun("obstacle_field", "shared", 0.0, 1, blind=True))
    assert not found["failure"] and found["mean_k"] < 0.2


def test_a_blind_autonomy_ignores_a_sector(monkeypatch):
    seen = []
    monkeypatch.setattr(study.Controller, "update_obstacles", lambda driver, obstacles: seen.append(obstacles))
    driver = study.Blinded.__new__(study.Blinded)
    driver.pose = (10.0, 0.0, np.pi / 2)  # looks along y
    bearings = np.radians([-60.0, -5.0, 10.0, 25.0, 60.0, 180.0])
    places = np.column_stack([10.0 - 20.0 * np.sin(bearings), 20.0 * np.cos(bearings)])
    driver.update_obstacles(Obstacles(places, np.ones(6), np.zeros((6, 2)), 0.0))
    assert len(seen[0].radii) == 3
    np.testing.assert_allclose(seen[0].centres, places[[0, 4, 5]])


def result(control, latency, failure="", **more):
    return {"scenario": "lane_change", "control": control, "latency_s": latency, "threats": list(study.RISK_THREATS), "changes": [],
            "mode": "blend", "blind": False,
            "seed": 1, "failure": failure, "collision": failure, "lifted": 0.0, "largest_error": 0.5, "reached": None if failure else 12.0,
            "mean_speed": 14.0, "k_crossings": 2, "k_crossings_of_one_threat": 2, "mean_k": 0.3, "steering_effort": 0.1, **more}


def test_crossings_are_counted_within_a_threat():
    k = {0.0: 0.0, 1.0: 1.0, 3.0: 0.0, 6.0: 1.0, 7.0: 0.0, 7.5: 1.0, 8.0: 0.4}
    assert study.crossings_of_one_threat(list(k), list(k.values())) == 4
    assert study.crossings_of_one_threat(list(k)[:5], list(k.values())[:5]) == 2
    assert study.crossings_of_one_threat([0.0, 0.3, 1.0, 3.0], [1.0, 0.0, 1.0, 0.0]) == 2  # it falls first for no threat
    assert study.crossings_of_one_threat([], []) == 0 == study.crossings_of_one_threat([0.0, 1.0], [1.0, 1.0])


def test_table_and_verdict():
    runs = [*[result("operator", 0.5, "hit cone", seed=seed) for seed in (1, 2, 3, 4)], result("operator", 0.5, seed=5),
            result("autonomy", 0.0), *[result("shared", 0.5, seed=seed) for seed in (1, 2, 3)], result("shared", 0.5, seed=5, mean_k=0.05),
            result("shared", 0.5, "hit cone", seed=4)]
    rows = study.summarise(runs)
    assert [(r["control"], r["episodes"], r["failures"], r["collisions"]) for r in rows] == [
        ("operator", 5, 4, 4), ("autonomy", 1, 0, 0), ("shared", 5, 1, 1)]
    assert rows[2]["mean_k"] == pytest.approx(0.25) and rows[2]["k_where_fine"] == pytest.approx(0.05)  # of seed 5
    assert study.is_beneficial(rows)
    worse = study.summarise([result("shared", 0.5, "hit cone") for _ in range(5)])
    assert not study.is_beneficial([r for r in rows if r["control"] != "shared"] + worse)
    # Seed 4 ends worse than the better of both, as the autonomy alone arrives; a run that only stops is late.
    assert rows[2]["worse"] == [] and study.summarise([*runs, result("autonomy", 0.0, seed=4)])[2]["worse"] == [4]
    late = study.summarise([result("operator", 0.5, "hit cone"), result("shared", 0.5, "does not arrive")])
    assert late[1]["worse"] == [] and late[1]["stands"] == 1 and late[1]["k_crossings"] == [2.0, 2]
    text = markdown_table(study.table(rows))
    assert "4 (28% to 99%)" in text and "| shared" in text
    figure = pictures.draw_sharing(rows)
    assert figure is not None and len(figure.axes) == 2
    assert pictures.draw_sharing([]) is None


def test_components_are_compared_on_the_same_seeds():
    runs = [result("operator", 0.5, "hit cone", seed=1),
            *[result("shared", 0.5, failed, seed=seed) for seed, failed in enumerate(("", "", "x"))],
            *[result("shared", 0.5, failed, seed=seed, threats=["clearance"]) for seed, failed in enumerate(("x", "x", ""))],
            result("shared", 0.5, seed=7, threats=["demand"]), result("shared", 0.5, seed=1, blind=True), result("shared", 0.2, seed=1)]
    rows = study.summarise(runs)
    assert [study.variant(row) for row in rows] == ["", "risk", "clearance", "demand", "", "risk"]
    assert rows[2]["against_risk"] == [2, 1, 1.0] and rows[3]["against_risk"] is None and rows[0]["against_risk"] is None
    heads, shown = study.ablation_table(rows)
    assert [row[2] for row in shown] == ["risk", "demand", "clearance"] and shown[2][-1] == "2 : 1 (p = 1)" and len(heads) == len(shown[0])
    assert study.ablation_table(study.summarise(runs[:4]))[1] == []
    assert study.is_beneficial(rows)  # by risk alone
