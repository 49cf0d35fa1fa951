"""Calibration of the risk: figures of known probabilities, and episodes."""

from dataclasses import replace

import numpy as np
import pytest

from lfdm_lab.studies import driven_episodes, pictures, risk_validation
from lfdm_ros.sharing.risk import RiskSettings

QUICK = RiskSettings(intention="held", rollouts=64, first_rollouts=64, clear=0.0, remnant=risk_validation.REMNANT, horizon=1.5)


def predicted_and_true(predicted, true, seed=1, count=4000):
    """Results of episodes with failure probability `true` and prediction `predicted`, both functions of a uniform number."""
    rng = np.random.default_rng(seed)
    u = rng.random(count)
    p, happened = predicted(u), rng.random(count) < true(u)
    return [{"world": "known", "first": 1, "episodes": [
        {"predicted": {"failure": float(a)}, "happened": {"failure": int(b)}, "surprised": 0} for a, b in zip(p, happened)]}]


def test_a_correct_probability_is_calibrated():
    known = risk_validation.summarise(predicted_and_true(lambda u: u**2, lambda u: u**2))["known"]
    assert known["slope"] == pytest.approx(1.0, abs=4.0 * known["slope_se"]) and known["slope_se"] < 0.03
    # Brier skill of a correct probability: variance of the prediction over that of the outcome.
    p = np.linspace(0.0, 1.0, 100_001) ** 2
    assert known["brier_skill"] == pytest.approx(p.var() / (p.mean() * (1.0 - p.mean())), abs=0.03)
    assert known["expected_calibration_error"] < 0.03 and risk_validation.is_calibrated(known)
    assert sum(row["episodes"] for row in known["rows"]) == known["episodes"] == 4000
    assert all(row["lower"] <= row["observed"] <= row["upper"] for row in known["rows"])


@pytest.mark.parametrize(("predicted", "true"), [
    (lambda u: 0.5 * u, lambda u: u),  # says half
    (lambda u: u, lambda u: 0.5 + 0.3 * (u - 0.5)),  # too sure
    (lambda u: 0.5 + 0.3 * (u - 0.5), lambda u: u),  # not sure enough
    (lambda u: 1.0 - u, lambda u: u),  # the wrong way round
    (lambda u: np.minimum(u + 0.1, 1.0), lambda u: u)])  # always too much
def test_a_wrong_probability_is_not_calibrated(predicted, true):
    assert not risk_validation.is_calibrated(risk_validation.summarise(predicted_and_true(predicted, true))["known"])


def test_measures_are_ranked_by_their_predictions():
    rng = np.random.default_rng(4)
    p = rng.random(2000)
    y = (rng.random(2000) < p).astype(int)
    threats = {"right": p**3, "wrong": 1.0 - p, "blind": np.zeros(2000), "silent": np.full(2000, np.nan)}
    episodes = [{"seed": i, "predicted": {"failure": p[i], "collision": 0.0}, "happened": {"failure": y[i], "collision": 0}, "surprised": 0,
                 "threats": {name: None if np.isnan(v[i]) else v[i] for name, v in threats.items()}} for i in range(2000)]
    rows = risk_validation.measures([{"world": "known", "first": 0, "episodes": episodes}])
    found = {row["measure"]: row for row in rows if row["what"] == "failure"}
    # Of a correct uniform probability: area 5/6, skill 1/3; the same for any increasing function of it.
    assert found["risk"]["auc"] == pytest.approx(5.0 / 6.0, abs=4.0 * found["risk"]["auc_se"]) and 0.005 < found["risk"]["auc_se"] < 0.015
    assert found["right"]["auc"] == found["risk"]["auc"] == pytest.approx(1.0 - found["wrong"]["auc"])
    assert found["risk"]["own_skill"] == pytest.approx(1.0 / 3.0, abs=0.05) == found["right"]["skill"]
    assert found["wrong"]["skill"] == pytest.approx(0.0, abs=0.01) and found["blind"]["auc"] == 0.5 and found["silent"]["defined"] == 0.0
    heads, shown = risk_validation.measures_table(rows)
    assert len(shown) == 10 and len(heads) == len(shown[0]) and shown[0][0] == "failure" and shown[4][1] == "wrong"
    assert np.isnan(risk_validation.roc_area(p, np.zeros(2000))[0])


def test_an_episode_repeats_and_depends_on_its_seed_and_world_alone():
    first = risk_validation.work(risk_validation.Episodes("known", 3, 2, QUICK))
    for episode in first["episodes"]:
        assert set(episode["threats"]) >= {"clearance", "load_transfer", "sideslip"} and episode["threats"]["demand"] is None
        assert set(episode["predicted"]) == set(episode["happened"]) == {"collision", "lift", "spin", "leaving", "failure"}
        assert episode["happened"]["failure"] == int(any(v for k, v in episode["happened"].items() if k != "failure"))
        assert max(v for k, v in episode["predicted"].items() if k != "failure") <= episode["predicted"]["failure"] <= 1.0

    def without_time(result):
        return [{k: v for k, v in e.items() if k != "seconds"} for e in result["episodes"]]

    again = risk_validation.work(risk_validation.Episodes("known", 4, 1, QUICK))
    assert without_time(again) == without_time(first)[1:]
    # A difference that the risk does not know of does not change the prediction.
    slippery = risk_validation.work(risk_validation.Episodes("slippery", 3, 2, QUICK))
    assert [e["predicted"] for e in slippery["episodes"]] == [e["predicted"] for e in first["episodes"]]
    known = risk_validation.work(risk_validation.Episodes("slippery_known", 3, 2, QUICK))
    assert [e["predicted"] for e in known["episodes"]] != [e["predicted"] for e in first["episodes"]]


def test_a_driving_operator_is_learned_before_the_assessment():
    """The operator of a seed, on the seed's lane; the same in each run."""
    world = risk_validation.WORLDS["slow"]
    short = replace(world, driving=replace(world.driving, learned=20.0))
    first, again = (risk_validation.episode(short, 3, QUICK) for _ in range(2))
    assert {**first, "seconds": 0.0} == {**again, "seconds": 0.0}
    assert first["surprised"] is None and set(first["predicted"]) == set(first["happened"])
    nominal, draws = risk_validation.situation_of(3)[0], risk_validation.situation_of(3)[1].draws
    situation = driven_episodes.drive_until_assessment(short.driving, 3, nominal, nominal, "eight_dof", "fiala", draws, QUICK).situation
    # The operator's delay is within 20 % of the world's, in steps of 0.05 s; the command is current.
    assert 0.6 < situation.operator_posterior.delay[0] < 1.05 and situation.operator.time == pytest.approx(situation.time, abs=0.011)
    assert abs(situation.corridor.path.project(*np.array([[situation.value("x")], [situation.value("y")]]))[1][0]) < 8.0
    away = np.hypot(*(situation.obstacles.centres - [situation.value("x"), situation.value("y")]).T)
    assert (away > 5.0).all()


def test_episodes_are_split_into_items_with_distinct_keys():
    items = risk_validation.episodes(60, QUICK)
    counts = {name: sum(item.count for item in items if item.world == name) for name in risk_validation.WORLDS}
    assert counts == {name: 60 if name == "known" else 15 for name in risk_validation.WORLDS}
    seeds = [item.first + k for item in items if item.world == "known" for k in range(item.count)]
    assert seeds == list(range(1, 61))
    keys = {risk_validation.key(item) for item in items}
    assert len(keys) == len(items) and risk_validation.key(items[0]) in keys
    assert risk_validation.key(replace(items[0], settings=replace(QUICK, horizon=2.0))) not in keys


def test_diagram():
    worlds = risk_validation.summarise(predicted_and_true(lambda u: u, lambda u: u, count=200))
    figure = pictures.draw_reliability(worlds)
    assert figure is not None and "known" in figure.axes[0].get_title()
    assert pictures.draw_reliability({}) is None
    heads, rows = risk_validation.table(worlds)
    assert len(heads) == len(rows[0]) and "as assumed" in rows[0][0]
