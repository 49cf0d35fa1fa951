"""Predictions of what was not fitted, by a model that is wrong on purpose: how sure they are, beside what, and in which files."""

import csv
import json
from dataclasses import replace

import numpy as np
import pictures
import pytest
from small_problem import SINGLE_TRACK, record, weave

from lfdm_ros.calibration import calibrate, load_recipe, predict
from lfdm_ros.calibration.baselines import fit_kinematic, kinematic
from lfdm_ros.calibration.out_of_sample import FOLDS, cross_validate
from lfdm_ros.calibration.pieces import outlying, piece_of, worst
from lfdm_ros.calibration.predictive import Predictive, Ranks, compare
from lfdm_ros.calibration.stage import StageModel, stage_model
from lfdm_ros.calibration.summary import runs_away
from lfdm_ros.calibration.validation import beyond_at_speed
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import Dataset, Recording, StageData, find_recordings, load_stage
from lfdm_ros.inference.model import BatchedDensity
from lfdm_ros.samplers import least_squares
from lfdm_ros.samplers.sampler import Problem
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import load_vehicle, save_vehicle


@pytest.fixture(scope="module")
def drives(tmp_path_factory):
    """A vehicle whose tyres slide, driven gently and hard by turns, and again otherwise: bags by name."""
    folder = tmp_path_factory.mktemp("drives")
    return {name: record(folder / name, 14.0, weave(amplitudes, seed), seed, name, rate=50) for name, amplitudes, seed in (
        ("drive", 4 * [0.04, 0.1, 0.16], 1), ("other", 4 * [0.04, 0.1, 0.16], 2), ("hard", 4 * [0.16], 3))}


@pytest.fixture(scope="module", params=["even", "all"])
def wrong(request, drives, tmp_path_factory):
    """A model with linear tyres, calibrated on it from a vehicle in a file: with every other piece held out, and with none."""
    folder = tmp_path_factory.mktemp(request.param)
    save_vehicle(load_vehicle("hmmwv").replace(cornering_stiffness_front=30e3), folder / "mine.yaml")
    text = SINGLE_TRACK.replace("TAKE", request.param).replace("vehicle: hmmwv", f"vehicle: {folder / 'mine.yaml'}")
    (folder / "wrong.yaml").write_text(text)
    with pictures.left_out():
        return folder / "out", calibrate(load_recipe(folder / "wrong.yaml"), [drives["drive"]], folder / "out")


@pytest.fixture(scope="module")
def predicted(wrong, drives, tmp_path_factory):
    """The other drive and the hard one, as the wrong model foresees them: directory and summary by name."""
    folder = tmp_path_factory.mktemp("predicted")
    with pictures.left_out():
        return {name: (folder / name, predict(drives[name], folder / name, posterior=wrong[0])) for name in ("other", "hard")}


def test_nine_tenths_of_new_pieces_lie_in_the_intervals_of_a_wrong_model(wrong, predicted):
    _, summary = wrong
    off = {"coverage_90": [], "coverage_90_without_model_error": []}
    for channel in ("yaw_rate", "vy"):
        assert 0.85 <= predicted["other"][1]["coverage_90"][channel] <= 0.95
        assert summary["out_of_sample"][channel]["coverage_90_widened"] == pytest.approx(0.92, abs=0.05)
        for key, row in off.items():
            row += [abs(one[key][channel] - 0.9) for _, one in predicted.values()]
    # What the likelihood called noise is neither that of gentle driving nor that of hard driving.
    assert np.mean(off["coverage_90"]) < 0.75 * np.mean(off["coverage_90_without_model_error"])


def test_report_and_summary_judge_by_what_was_not_fitted(wrong):
    directory, summary = wrong
    held_out = "take: even" in (directory.parent / "wrong.yaml").read_text()
    for channel, row in summary["out_of_sample"].items():
        assert (row["source"], row["pieces"]) == (("held_out", 12) if held_out else ("cross_validation", 24)), channel
        text = summary["stages"][0]["out_of_sample"][channel]["text"]
        assert text in (directory / "report.html").read_text()
        if held_out:
            assert row["coverage_90"] == pytest.approx(summary["held_out"]["coverage_90"][channel], abs=0.02)
            assert row["rmse"] == pytest.approx(summary["held_out"]["rmse"][channel]["response"])


def test_what_is_left_out_is_foreseen_as_if_it_had_not_been_fitted(drives, tmp_path):
    """One Newton step from the optimum of all ten pieces, against a search of its own without them."""
    (tmp_path / "all.yaml").write_text(SINGLE_TRACK.replace("TAKE", "all").replace("[0, null]", "[0, 20]"))
    recipe = load_recipe(tmp_path / "all.yaml")
    stage, vehicle = recipe.stages[0], recipe.start_vehicle
    data = load_stage(stage, find_recordings([drives["drive"]]), recipe, vehicle)

    def best(own: StageData) -> tuple[StageModel, np.ndarray]:
        asked = stage_model(stage, own, recipe, vehicle)
        density = BatchedDensity(asked.likelihood, asked.unknowns, asked.errors)
        return asked, least_squares.mode(Problem(asked.likelihood, density, asked.unknowns, asked.errors, asked.start, stage.objective))

    asked, q = best(data)
    noise = [(float(np.sqrt((error[0] ** 2).mean())), 0.0) for error in asked.likelihood.errors(q[None])]
    found = cross_validate(asked.likelihood, list(asked.unknowns.values()), q, noise)
    change, missed = np.empty(10), np.empty(10)
    for fold in range(FOLDS):
        _, without = best(StageData(tuple(pair for i, pair in enumerate(data.fitted) if i % FOLDS != fold)))
        for number in range(fold, 10, FOLDS):
            error, before = (data.fitted[number][1].observed[:, 0] - asked.likelihood.responses(x[None])[number][0, :, 0]
                             for x in (without, q))
            change[number], missed[number] = (np.abs(other - error).max() for other in (before, found["yaw_rate"][number].error))
    assert change.max() > 2e-3  # it does matter
    assert missed.max() < 0.2 * change.max()


def test_files_by_piece_say_what_the_summary_says(predicted):
    directory, summary = predicted["other"]
    with (directory / "pieces.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(summary["pieces"]) == 24
    assert {row["use"] for row in rows} == {"new"}
    for channel in ("yaw_rate", "vy"):
        each = np.array([float(row[f"rmse_{channel}"]) for row in rows])
        assert np.sqrt((each**2).mean()) == pytest.approx(summary["rmse"][channel]["response"], rel=1e-4)
        assert np.mean([float(row[f"coverage_90_{channel}"]) for row in rows]) == pytest.approx(summary["coverage_90"][channel], abs=1e-5)
    assert 13.0 < float(rows[0]["mean_speed"]) < 16.0
    with (directory / "trajectories.csv").open() as file:
        points = list(csv.DictReader(file))
    errors = np.array([float(row["yaw_rate_measured"]) - float(row["yaw_rate"]) for row in points])
    assert np.sqrt((errors**2).mean()) == pytest.approx(summary["rmse"]["yaw_rate"]["response"], rel=1e-4)
    inside = [float(row["yaw_rate_5%"]) <= float(row["yaw_rate_measured"]) <= float(row["yaw_rate_95%"]) for row in points]
    assert np.mean(inside) == pytest.approx(summary["coverage_90"]["yaw_rate"], abs=0.02)


def test_what_lies_beyond_the_fitted_range_is_told(drives, tmp_path):
    """Fitted where the driver is gentle: the first 4 s."""
    (tmp_path / "gentle.yaml").write_text(SINGLE_TRACK.replace("TAKE", "all").replace("[0, null]", "[0, 4]"))
    with pictures.left_out():
        summary = calibrate(load_recipe(tmp_path / "gentle.yaml"), [drives["drive"]], tmp_path / "gentle")
        reach = summary["stages"][0]["range"]
        assert reach["lateral_acceleration"][1] < 3.0 and 13.0 < reach["speed"][0] < reach["speed"][1] < 17.0
        found = predict(drives["hard"], tmp_path / "p", posterior=tmp_path / "gentle")
    (told,) = [text for text in found["warnings"] if "lateral acceleration above what was fitted (" in text]
    assert f"fitted up to {reach['lateral_acceleration'][1]:.3g} m/s^2" in told
    assert any("speed above what was fitted" in text for text in found["warnings"])


def test_bends_tighter_than_those_fitted_at_their_speed_are_named():
    """Fast bends and slow straights were fitted: slow bends are new, though neither their speed nor their acceleration is."""
    fitted = {"speed": (0.0, 20.0), "lateral_acceleration": (0.0, 6.0),
              "by_speed": [[0.0, 10.0, 1.0], [10.0, 15.0, 1.0], [15.0, 20.0, 6.0]]}
    new, old = np.tile([5.0, -4.0], (5, 1)), np.tile([18.0, 5.0], (95, 1))
    said, = beyond_at_speed(np.concatenate([old, new]), fitted)
    assert said.startswith("5% of the samples") and "(4 at 5 m/s, fitted up to 1 m/s^2 there)" in said
    assert beyond_at_speed(old, fitted) == [] == beyond_at_speed(np.concatenate([old, new]), {**fitted, "by_speed": []})
    straight = [[low, high, 1e-18] for low, high, _ in fitted["by_speed"]]
    said, = beyond_at_speed(np.concatenate([old, new]), {**fitted, "by_speed": straight})
    assert "fitted up to 0 m/s^2 there" in said


# -- The kinematic bicycle ---------------------------------------------------------------------------------------------------------------


def turn(lag: float = 0.0) -> Dataset:
    """A turn at 5 m/s, as a kinematic bicycle drives it; steering through a lag."""
    vehicle, times = load_vehicle("hmmwv"), 0.01 * np.arange(400)
    steering = 0.1 * np.sin(times)[:, None]
    inputs = np.column_stack([steering, np.zeros((400, 2))])
    data = Dataset(Recording("a", None, ""), times, inputs, False, np.zeros((400, 5)), ("x", "y", "yaw", "vy", "yaw_rate"),
                   {"vx": 5.0, "x": 1.0, "y": 2.0, "yaw": 0.3}, history=np.tile(inputs[0], (100, 1)), following=("vx",),
                   prescribed=np.full((400, 1), 5.0))
    return replace(data, observed=kinematic(data, vehicle, "kinematic_bicycle", {"steering.lag": lag} if lag else {}))


def test_kinematic_baseline_is_the_kinematic_model():
    data, vehicle = turn(), load_vehicle("hmmwv")
    rollout = BatchRollout(model="kinematic_bicycle", vehicle=vehicle, dt=0.001, times=data.times, inputs=data.table, parameters=[],
                           channels=data.channels, prescribed=["vx"])
    own = rollout.trajectories(np.empty((1, 0)), initial_state("kinematic_bicycle", vehicle, **data.initial))[0]
    np.testing.assert_allclose(data.observed[1:], own[1:], atol=1e-3)


def test_kinematic_baseline_has_a_lag_of_its_own():
    found = fit_kinematic([turn(0.12)], load_vehicle("hmmwv"), "kinematic_bicycle")
    assert found["steering.lag"] == pytest.approx(0.12, abs=0.005)
    assert found["steering.scale"] == pytest.approx(1.0, abs=0.01)
    path = replace(turn(0.12), channels=("x", "y", "yaw", "vy", "roll"))  # of which no yaw rate was recorded
    path = replace(path, initial={**path.initial, "yaw": 0.3 + 0.02})
    found = fit_kinematic([path], load_vehicle("hmmwv"), "kinematic_bicycle")
    assert found["steering.lag"] == pytest.approx(0.12, abs=0.01)
    assert found["heading.misalignment"] == pytest.approx(0.02, abs=0.001)
    assert fit_kinematic([replace(path, channels=("a", "b", "yaw", "vy", "roll"))], load_vehicle("hmmwv"), "kinematic_bicycle") is None


# -- Draws that run away -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("worst", [40.0, np.inf])
def test_a_draw_that_runs_away_is_named(worst):
    """One of 100 draws is off by 40, or diverges: the headline does not move, and the draw is named with what is odd about it."""
    rows, observed = 50, np.zeros((50, 1))
    squares = np.full((100, 1), rows * 0.04)
    squares[17] = rows * worst**2
    drawn = np.column_stack([np.arange(100) // 50, np.arange(100) % 50])
    one = Predictive(np.arange(50.0), observed, observed + 0.2, observed, Ranks(observed), None, observed, squares, np.isfinite(squares),
                     drawn, np.zeros((0, 50, 1)), np.zeros((2, 0, 50, 1)), np.arange(0))
    compared = compare([(("yaw_rate",), one)])
    assert compared["yaw_rate"].response == pytest.approx(0.2)
    assert compared["yaw_rate"].median == pytest.approx(0.2)
    assert compared["yaw_rate"].runs_away == np.isfinite(worst)
    stiffness = np.random.default_rng(0).normal(5e4, 1e3, (2, 50))
    stiffness[0, 17] = 8e3
    (text,) = runs_away(compared, {"stiffness": stiffness, "sigma.yaw_rate": np.ones((2, 50))}) or [""]
    assert ("draw 17 of chain 0 has 40, with stiffness 8000" in text) == np.isfinite(worst)


@pytest.mark.parametrize("wrong", ["even"], indirect=True)
def test_a_vehicle_from_a_file_is_shown_as_it_was_and_driven_alike(wrong, drives, tmp_path, capsys):
    """The vehicle as it was is kept with the result; the same file, driven like the result, has the same errors."""
    directory, _ = wrong
    with pictures.left_out():
        shown = predict(drives["drive"], tmp_path / "shown", posterior=directory)
        assert main(["predict", "--vehicle", str(directory.parent / "mine.yaml"), "--like", str(directory), "--bag", str(drives["drive"]),
                     "--out", str(tmp_path / "alike")]) == 0
    alike = json.loads((tmp_path / "alike" / "summary.json").read_text())
    assert shown["pieces"] == alike["pieces"] and len(alike["pieces"]) == 12
    for channel in ("yaw_rate", "vy"):
        row, other = shown["rmse"][channel], alike["rmse"][channel]
        assert (other["response"], other["kinematic"]) == pytest.approx((row["before"], row["kinematic"]), rel=1e-9)
        assert row["response"] < row["before"]
    assert "12 pieces of 2 s in [2, 48) s, those that the calibration held out" in capsys.readouterr().out
    assert main(["predict", "--posterior", str(directory), "--like", str(directory), "--bag", str(drives["drive"]), "--out",
                 str(tmp_path / "x")]) == 2
    assert "give --vehicle NAME or FILE with it" in capsys.readouterr().err


def test_a_prediction_has_the_very_pieces_that_were_held_out(drives, tmp_path):
    """Wherever the recipe's windows begin: two of them here, whose pieces are not those of one cut from the start of the recording."""
    segments = "segments: [{name: one, window: [1.3, 12]}, {name: two, window: [15.5, 26]}]"
    (tmp_path / "cut.yaml").write_text(SINGLE_TRACK.replace("TAKE", "even").replace("window: [0, null]", segments))
    with pictures.left_out():
        summary = calibrate(load_recipe(tmp_path / "cut.yaml"), [drives["drive"]], tmp_path / "cut")
        found = predict(drives["drive"], tmp_path / "p", posterior=tmp_path / "cut")
        part = predict(drives["drive"], tmp_path / "part", posterior=tmp_path / "cut", window=(10.0, 20.0))
    (stage,) = summary["stages"]
    held_out, fitted = ([(row["start"], row["end"]) for row in rows] for rows in (stage["held_out"]["data"], stage["data"]))
    np.testing.assert_allclose(found["pieces"], held_out)
    assert not any(a < d and c < b for a, b in held_out for c, d in fitted), "nothing that was fitted is among them"
    alike = {name.rpartition(".")[2]: row for name, row in stage["held_out"]["rmse"].items()}
    for channel, row in found["rmse"].items():
        assert row["response"] == pytest.approx(alike[channel]["response"], rel=1e-6), channel
    assert all(piece in found["pieces"] for piece in part["pieces"]) and 0 < len(part["pieces"]) < len(found["pieces"])
    with pytest.raises(InputError, match="holds no piece that was held out, and some that were fitted"):
        predict(drives["drive"], tmp_path / "none", posterior=tmp_path / "cut", window=(1.3, 3.4))
    for row in stage["data"]:
        del row["sha256"]
    (tmp_path / "cut" / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(InputError, match="does not say which of its pieces were"):
        predict(drives["drive"], tmp_path / "old", posterior=tmp_path / "cut")


def test_a_piece_in_which_the_model_spins_is_judged_and_named(drives):
    """Whether its errors are large or it has no response at all; coverage counts it as outside."""
    recording = find_recordings([drives["drive"]])[0]
    pieces, predictives = [], []
    rng = np.random.default_rng(2)
    for number in range(8):
        times = 5.0 * number + 0.1 * np.arange(50)
        response = np.zeros((50, 1))
        if number == 3:
            response[20:] = np.nan
        if number == 6:
            response[:, 0] = np.linspace(0.0, 9.0, 50)
        observed = rng.normal(0.0, 0.1, (50, 1))
        pieces.append(Dataset(recording, times, np.zeros((50, 3)), False, observed, ("yaw_rate",), {}, name=str(number)))
        ranks = Ranks(observed)
        ranks.add(response + rng.normal(0.0, 0.1, (200, 50, 1)))
        predictives.append(Predictive(times, observed, response, response, ranks, None, np.zeros((50, 1)), np.full((1, 1), 0.01 * 50),
                                      np.ones((1, 1), bool), np.zeros((1, 2), int), response[None], response[None, None],
                                      np.zeros(1, int)))
    (line,) = outlying([("yaw_rate",)] * 8, pieces, predictives)
    assert line.startswith("yaw_rate: 2 of 8 pieces err more than") and "3 at [15.0, 19.9] s (inf), 6 at [30.0, 34.9] s (5.2" in line
    assert float(line.rpartition("others ")[2]) == pytest.approx(0.1, rel=0.2)
    motion = np.zeros((50, 2))
    rows = [piece_of(data, one, motion, [0]) for data, one in zip(pieces, predictives)]
    assert worst(rows, 2) == [3, 6]
    assert rows[3].coverage["yaw_rate"] < 0.45 and rows[0].coverage["yaw_rate"] > 0.8
    found = compare([(("yaw_rate",), one) for one in predictives])["yaw_rate"]
    assert found.response == np.inf and found.coverage < 0.8
