"""What a calibration says of its own errors, of stages and recordings that contradict each other, and its page."""

import re

import numpy as np
import pictures
import pytest
from small_problem import NOISE, RECIPE

from lfdm_ros.calibration import calibrate, load_recipe
from lfdm_ros.calibration.discrepancy import alone_warnings, apart, error_warnings, fit_warnings, whiteness
from lfdm_ros.calibration.summary import correlated_pairs, far_out


def correlated(rho: float, count: int, seed: int = 2) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = rng.normal(size=count)
    for k in range(1, count):
        out[k] = rho * out[k - 1] + np.sqrt(1 - rho**2) * out[k]
    return out


def test_white_noise_is_called_white():
    called = [whiteness([correlated(0.0, 300, seed), correlated(0.0, 200, seed + 1000)]).white for seed in range(40)]
    assert sum(called) >= 38
    assert whiteness([correlated(0.0, 2000)]).widening == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("rho", [0.4, 0.8])
def test_autoregression_is_found_and_explains_itself(rho):
    errors = [correlated(rho, 4000, 1), correlated(rho, 4000, 2)]
    plain = whiteness(errors)
    assert plain.lag_one == pytest.approx(rho, abs=0.04)
    assert not plain.white
    assert plain.widening == pytest.approx(np.sqrt((1 + rho) / (1 - rho)), rel=0.15)
    assert whiteness(errors, rho).white


def test_gaps_and_constants():
    errors = correlated(0.0, 100)
    errors[10:40] = np.nan
    assert whiteness([errors]).count == 70
    assert np.isnan(whiteness([np.zeros(50)]).lag_one)


def test_warning_of_errors_that_are_not_white_says_by_how_much():
    row = {"assumed": "white", "white": False, "lag_1": 0.7, "sigma": 0.1, "widening": 2.4, "needed": "ar1", "rho": None}
    (text,) = error_warnings({"vx": row})
    assert "up to 2.4 times too narrow; errors: ar1 in the recipe's stage takes that into account" in text
    assert not list(error_warnings({"vx": {**row, "white": True}}))


def test_a_channel_that_the_fit_has_made_worse_is_named():
    rmse = {"yaw_rate": {"response": 0.054, "prior_response": 0.039}, "roll": {"response": 0.001, "prior_response": 0.006}}
    (warning,) = fit_warnings(rmse)
    assert warning.startswith("yaw_rate errs more than before on what was fitted itself, 0.054 against 0.039")


def test_recordings_that_contradict_each_other_are_named():
    rows = {"a": {"estimate": 17.1, "sd": 0.1}, "b": {"estimate": 13.1, "sd": 0.1}, "c": {"estimate": 13.2, "sd": 5.0}}
    assert apart(rows) == ("a", "b", pytest.approx(4.0 / np.hypot(0.1, 0.1)))
    (text,) = alone_warnings({"rolling_resistance": rows}, {"rolling_resistance": "mm"})
    assert text.startswith("rolling_resistance: a alone says 17.1 ± 0.1, b alone says 13.1 ± 0.1 mm: 28 standard deviations apart")
    assert not list(alone_warnings({"rolling_resistance": {"b": rows["b"], "c": rows["c"]}}, {}))


def test_a_right_model_has_white_errors_and_consistent_stages(quick):
    _, result = quick
    for stage in result["stages"]:
        for label, row in stage["errors"].items():
            assert row["assumed"] == row["needed"] == "white", label
            assert row["effective_samples"] == row["samples"] == 200
            assert 0.35 < row["coverage_50"] < 0.65
            assert f"errors of {label} look like white noise" in row["text"]
    assert set(result["consistency"]) == {"longitudinal/vx", "longitudinal/omega_fl", "lateral/vy", "lateral/yaw_rate"}
    assert all(row["together"] == pytest.approx(row["own"], rel=0.02) for row in result["consistency"].values())
    assert not [text for text in result["warnings"] if "contradict" in text or "apart" in text or "not white" in text]


LATE = """
      yaw_rate: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}
    nuisance:
      steering.offset: {prior: normal, mean: 0.05, sd: 0.01, unit: "1"}
      yaw_rate.offset: {prior: normal, mean: 0, sd: 0.05, unit: rad/s}
      steering.lag: {prior: half_normal, sigma: 0.0001, unit: s}"""


@pytest.fixture(scope="module")
def late(bags, tmp_path_factory):
    """A drive straight on, in which the two offsets say the same, with a lag and a trim that are not what their priors say:
    directory, summary."""
    folder = tmp_path_factory.mktemp("late")
    text = RECIPE[:RECIPE.index("  - name: longitudinal")] + RECIPE[RECIPE.index("  - name: lateral"):]
    old = LATE.splitlines()[1]
    assert old in text
    (folder / "late.yaml").write_text(text.replace("\n" + old, LATE))
    with pictures.left_out():
        return folder / "out", calibrate(load_recipe(folder / "late.yaml"), [bags["turn"]], folder / "out", sampler="least_squares")


def test_a_nuisance_far_from_its_prior_puts_what_was_learned_in_doubt(late):
    directory, summary = late
    stage = summary["stages"][0]
    far = far_out(stage)
    assert far and set(far) <= {"steering/offset", "steering/lag"}
    row = stage["parameters"]["steering/offset"]
    assert row["prior_deviations"] == pytest.approx((stage["objective"]["optimum_at"]["steering.offset"] - 0.05) / 0.01)
    for name, distance in far.items():
        side = "above" if distance > 0 else "below"
        assert any(f"{name} lies {abs(distance):.1f} standard deviations {side}" in text for text in summary["warnings"])
    page = (directory / "report.html").read_text()
    learned = page[page.index("What was learned"):page.index("How sure this is")]
    assert "in doubt: " in learned and "well known" not in learned


def test_nuisances_that_say_the_same_are_told():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 500))
    pairs = correlated_pairs({"steering.offset": a, "yaw_rate.offset": -a + 0.1 * rng.normal(size=a.shape),
                              "steering.lag": rng.normal(size=a.shape), "held": np.ones_like(a)})
    assert [(one, other) for one, other, _ in pairs] == [("steering.offset", "yaw_rate.offset")]
    assert pairs[0][2] == pytest.approx(-0.995, abs=0.002)


def test_a_right_model_is_right_on_what_was_left_out(quick):
    """Of one recording each, fifths are left out in turn; nothing is missed but noise, and nothing is added to it."""
    _, result = quick
    assert set(result["out_of_sample"]) == {"vx", "omega_fl", "vy", "yaw_rate"}
    for stage in result["stages"]:
        for label, row in stage["out_of_sample"].items():
            assert (row["source"], row["pieces"], row["samples"]) == ("cross_validation", 5, 200), label
            assert 0.84 < row["coverage_90"] < 0.96, label
            assert row["rmse"] == pytest.approx(stage["rmse"][label]["response"], rel=0.1), label
            assert row["model_error"]["noise"] == pytest.approx(NOISE[label], rel=0.15), label


def test_score_before_agrees_with_what_came_out(quick):
    _, result = quick
    known = result["stages"][1]["identifiability"]
    for name in ("cornering_stiffness_front", "cornering_stiffness_rear"):
        came_out = result["stages"][1]["parameters"][name]["sd_over_prior_sd"]
        assert known["at_posterior"]["expected"][name] == pytest.approx(came_out, rel=0.25)
        assert known["expected"][name] == pytest.approx(came_out, rel=2.0)
    # A turn tells both stiffnesses, but hardly the initial speed: less than its prior with the noise that the priors expect.
    assert known["unknowns"] == 3
    assert 2 == known["informed_directions"] <= known["at_posterior"]["informed_directions"]
    assert known["untold"] == []
    assert {name for group in known["at_posterior"]["untold"] for name in group["members"]} <= {"initial.vx"}


SECTIONS = ("What was learned", "How sure this is", "What could not be learned, and what to drive next", "Does the model fit?",
            "Are the errors noise?", "Do stages and recordings agree with each other?", "Evidence: stage longitudinal",
            "Pairs of parameters", "Where this comes from")
DAMPING = """
      roll_damping_front: {prior: uniform, lower: 100, upper: 15000, unit: N*m*s/rad}
      roll_damping_rear: {prior: uniform, lower: 100, upper: 15000, unit: N*m*s/rad}"""


@pytest.fixture(scope="module")
def small(bags, tmp_path_factory):
    """The small problem with a pair that cannot be told apart, by least squares: directory and summary."""
    folder = tmp_path_factory.mktemp("report")
    rear = "cornering_stiffness_rear: {prior: uniform, lower: 20, upper: 90, unit: kN/rad}"
    (folder / "small.yaml").write_text(RECIPE.replace(rear, rear + DAMPING))
    summary = calibrate(load_recipe(folder / "small.yaml"), list(bags.values()), folder / "out", draws=100, chains=2,
                        sampler="least_squares")
    return folder / "out", summary


def test_sections_in_the_order_that_a_reader_asks(small):
    page = (small[0] / "report.html").read_text()
    places = [page.index(section) for section in SECTIONS]
    assert places == sorted(places)
    assert "Log evidence" not in page  # the sampler gives none
    assert [stage["log_evidence"] for stage in small[1]["stages"]] == [None, None]


def test_stands_alone_and_is_small(small):
    page = (small[0] / "report.html").read_text()
    assert len(page) < 2_000_000
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert "<script" not in page
    assert page.count("data:image/png;base64,") >= 12


def test_says_in_words_what_was_learned_and_what_not(small):
    directory, summary = small
    page = (directory / "report.html").read_text()
    row = summary["stages"][0]["parameters"]["longitudinal_stiffness"]
    assert re.search(r"longitudinal stiffness \(longitudinal_stiffness\)</td><td>\d+ ± \d+</td><td>N</td><td>\d+ times narrower</td>", page)
    assert row["sd_over_prior_sd"] < 0.1
    assert "well known" in page
    assert "that a bell curve around the optimum describes the uncertainty" in page
    told = [group for group in summary["stages"][1]["identifiability"]["untold"] if "roll_damping_front" in group["members"]]
    assert told
    assert told[0]["text"] in page.replace("&#x27;", "'")
    assert any("roll damping" in text for text in summary["warnings"])


def test_says_where_it_comes_from(small):
    directory, summary = small
    page = (directory / "report.html").read_text()
    for recording in summary["recordings"]:
        assert recording["sha256"] in page
    assert "median: 50, log_sd: 0.4" in page  # the recipe's text
    assert "Seed 3" in page
