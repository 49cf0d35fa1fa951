"""What data tell and what they do not, in words; what a recording can teach before anything is sampled."""

import numpy as np
import pytest

from lfdm_ros.calibration import load_recipe
from lfdm_ros.calibration.scoring import score_recordings, typical_noise
from lfdm_ros.calibration.stage import stage_model
from lfdm_ros.cli.main import main
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.inference.identifiability import Knowledge, expected, fisher, from_draws, in_words
from lfdm_ros.inference.priors import Prior, parse_prior

UNIFORM = Prior("uniform", (("lower", 0.0), ("upper", 10.0)), "N")
LOGARITHMIC = Prior("log_normal", (("median", 5.0), ("log_sd", 0.5)), "N")
SPLIT = """
      roll_damping_front: {prior: uniform, lower: 100, upper: 15000, unit: N*m*s/rad}
      roll_damping_rear: {prior: uniform, lower: 100, upper: 15000, unit: N*m*s/rad}"""


def informed(priors: dict[str, Prior], rows: list[list[float]], q: list[float]) -> Knowledge:
    """What measurements of unit noise know whose derivatives by the unknowns, in units of the priors, are `rows`."""
    root = np.array(rows)
    return expected(priors, [root.T @ root], np.array(q))


def test_a_sum_of_two_is_named():
    (group,) = informed({"roll_damping_front": UNIFORM, "roll_damping_rear": UNIFORM, "mass": UNIFORM}, [[30, 30, 0], [0, 0, 20]],
                        [4, 4, 3]).unidentified()
    assert group.members == ("roll_damping_front", "roll_damping_rear")
    assert group.correlation == pytest.approx(-1.0, abs=0.01)
    assert group.width == pytest.approx(1.0)
    assert f"{group.words}: {group.remedy}" == "front and rear roll damping enter only as a sum (r = -1.00): calibrate the sum"


def test_a_sum_of_three_is_named_although_no_pair_is_strongly_correlated():
    knowledge = informed({"a": UNIFORM, "b": UNIFORM, "c": UNIFORM, "d": UNIFORM}, [[30, 30, 30, 0], [0, 0, 0, 9]], [4, 4, 4, 3])
    assert knowledge.informed == 2
    correlation = knowledge.covariance / np.sqrt(np.outer(np.diag(knowledge.covariance), np.diag(knowledge.covariance)))
    assert np.abs(correlation[np.triu_indices(4, 1)]).max() < 0.6
    (group,) = knowledge.unidentified()
    assert (group.members, group.dimension, group.kind) == (("a", "b", "c"), 2, "sum")
    assert group.words == "a, b and c enter only as a sum (r = -1.00)"


@pytest.mark.parametrize(("rows", "kind"), [([[30, -30]], "ratio"), ([[30, 30]], "sum"), ([[30, -15]], "combination")])
def test_two_unknowns_in_logarithms(rows, kind):
    # Of equal size, equal relative changes are equal changes: a product cannot be told from a sum, nor a ratio from a difference.
    (group,) = informed({"a": LOGARITHMIC, "b": LOGARITHMIC}, rows, [5, 5]).unidentified()
    assert group.kind == ("difference" if kind == "ratio" else kind)
    if kind == "ratio":
        (group,) = informed({"a": LOGARITHMIC, "b": Prior("log_normal", LOGARITHMIC.numbers, "m")}, rows, [5, 5]).unidentified()
        assert group.kind == kind


def test_one_that_nothing_is_said_of():
    (group,) = informed({"a": UNIFORM, "b": UNIFORM}, [[0.1, 0], [0, 9]], [5, 5]).unidentified()
    assert (group.members, group.kind, group.remedy) == (("a",), "alone", "hold it fixed")


def test_draws_show_the_same_ridge():
    rng = np.random.default_rng(1)
    a = rng.uniform(0, 6, (4, 500))
    knowledge = from_draws({"a": UNIFORM, "b": UNIFORM}, {"a": a, "b": 6 - a + rng.normal(0, 0.02, a.shape)})
    width, direction = knowledge.widest()
    assert width == pytest.approx(np.sqrt(2) * a.std(ddof=1) / UNIFORM.spread(), rel=0.01)
    assert direction["a"] == pytest.approx(-direction["b"], rel=0.02)


def test_a_log_normal_prior_is_compared_in_its_own_scale():
    """A value far below the middle has a smaller standard deviation for that alone: nothing was told of its factor."""
    prior = parse_prior({"prior": "log_normal", "median": 100.0, "log_sd": 0.4, "unit": "1"}, "1", "a").as_unknown()
    rng = np.random.default_rng(5)
    for centre, share in ((100.0, 1.0), (30.0, 1.0), (30.0, 0.25), (300.0, 0.25)):
        draws = {"a": centre * np.exp(share * 0.4 * rng.standard_normal((4, 20_000)))}
        assert from_draws({"a": prior}, draws).widths["a"] == pytest.approx(share, rel=0.02)
    assert prior.change(30.0) == pytest.approx(12.0)
    uniform = parse_prior({"prior": "uniform", "lower": 0.0, "upper": 12.0, "unit": "1"}, "1", "a").as_unknown()
    assert uniform.change(3.0) == pytest.approx(np.sqrt(12.0)) and uniform.relative(np.sqrt(12.0)) == pytest.approx(1.0)


def test_words():
    assert in_words(["cornering_stiffness_front"]) == "front cornering stiffness"
    assert in_words(["steering.offset", "initial.3.vx", "mass"]) == "steering offset, initial 3 vx and mass"


def test_information_is_the_curvature_of_the_likelihood(recipe_file, bags):
    recipe = load_recipe(recipe_file)
    stage = recipe.stages[1]
    vehicle = recipe.start_vehicle
    asked = stage_model(stage, load_stage(stage, find_recordings(list(bags.values())), recipe, vehicle), recipe, vehicle)
    priors, noise = list(asked.unknowns.values()), typical_noise(asked.errors, [group.label for group in asked.likelihood.groups])
    information = fisher(asked.likelihood, priors, asked.start, noise)
    spread = np.array([prior.change(q) for prior, q in zip(priors, asked.start)])
    for i in range(len(priors)):  # central differences of the errors
        step = np.zeros(len(priors))
        step[i] = 1e-4 * spread[i]
        ahead, behind = asked.likelihood.errors(asked.start + step), asked.likelihood.errors(asked.start - step)
        slopes = [(a[0] - b[0]) / 2e-4 / sigma for a, b, (sigma, _) in zip(ahead, behind, noise)]
        assert information[i, i] == pytest.approx(sum(float(s @ s) for s in slopes), rel=1e-3)


def lateral(small: str, text: str, recording: str = "turn") -> str:
    """The small recipe's lateral stage with further unknowns and roll measured, on some recording."""
    rear = "cornering_stiffness_rear: {prior: uniform, lower: 20, upper: 90, unit: kN/rad}"
    measured = "vy: {topic: measured/state, noise"
    recipe = small.replace(rear, rear + text).replace("recording: turn", f"recording: {recording}")
    return recipe.replace(measured, "roll: {topic: vehicle/state, noise: {prior: log_normal, median: 0.003, log_sd: 0.5, unit: rad}}\n"
                          "      roll_rate: {topic: vehicle/state, noise: {prior: log_normal, median: 0.003, log_sd: 0.5, unit: rad/s}}\n"
                          "      " + measured)


def test_roll_damping_front_and_rear_as_in_section_4_2_of_the_paper(recipe_file, bags, tmp_path, capsys):
    path = tmp_path / "split.yaml"
    path.write_text(lateral(recipe_file.read_text(), SPLIT))
    figure = tmp_path / "check.svg"
    given = [part for bag in bags.values() for part in ("--bag", str(bag))]
    assert main(["calibrate", str(path), *given, "--check", "--figure", str(figure)]) == 0
    assert figure.read_bytes().startswith(b"<?xml")
    told = capsys.readouterr().out
    assert "front and rear roll damping enter only as a sum (r = -" in told
    assert "calibrate the sum" in told
    assert "longitudinal: the recordings tell 1 of 1 directions" in told
    score = score_recordings(load_recipe(path), list(bags.values()))["lateral"]
    (group,) = score["untold"]
    assert group["correlation"] < -0.95
    assert group["members"] == ["roll_damping_front", "roll_damping_rear"]
    assert score["informed_directions"] == score["unknowns"] - 2  # nor does a turn tell the initial speed


def test_a_straight_recording_teaches_nothing_of_cornering_and_a_turn_is_named(recipe_file, bags, tmp_path):
    path = tmp_path / "straight.yaml"
    text = lateral(recipe_file.read_text(), "", "speed_up").replace("window: [0.5, 2.5]", "window: [0.5, 2.0]")
    for channel in ("vy", "yaw_rate"):
        text = text.replace(f" {channel}: {{topic: measured", f" {channel}: {{topic: vehicle")
    path.write_text(text)
    score = score_recordings(load_recipe(path), list(bags.values()))["lateral"]
    assert "error" not in score, score
    assert score["expected"]["cornering_stiffness_front"] > 0.9
    named = {name: group for group in score["untold"] for name in group["members"]}
    group = named["cornering_stiffness_front"]
    assert group["drive"] in ("ramp_steer", "sine_steer", "double_lane_change")
    before, after = group["narrows"].get("cornering_stiffness_front") or next(iter(group["narrows"].values()))
    assert before > 0.9 > 0.3 > after


def test_a_stage_that_cannot_be_scored_says_so(recipe_file, bags, monkeypatch, capsys):
    from lfdm_ros.calibration import scoring

    monkeypatch.setattr(scoring, "fisher", lambda *_: None)
    score = scoring.score_recordings(load_recipe(recipe_file), list(bags.values()))["lateral"]
    assert "no draw of the priors can be simulated" in score["error"]
    assert "could not be scored" in score["text"][0]
    assert main(["calibrate", str(recipe_file), *(part for bag in bags.values() for part in ("--bag", str(bag))), "--check"]) == 1
    assert "lateral: could not be scored" in capsys.readouterr().out


def test_without_out_the_command_says_what_is_missing(recipe_file, bags, capsys):
    assert main(["calibrate", str(recipe_file), "--bag", str(bags["turn"])]) == 2
    assert "--out DIR is missing" in capsys.readouterr().err


def test_check_counts_what_inflated_errors_count(recipe_file, bags):
    """Widths are those of errors that stay, not of as many independent ones as there are samples."""
    widths, counted = {}, {}
    for errors in ("white", "inflated"):
        score = score_recordings(load_recipe(recipe_file, errors=errors), list(bags.values()))["lateral"]
        assert "error" not in score, score
        widths[errors], counted[errors] = score["expected"]["cornering_stiffness_front"], " count as " in score["text"][0]
    assert counted == {"white": False, "inflated": True}
    assert widths["inflated"] > 1.02 * widths["white"]
