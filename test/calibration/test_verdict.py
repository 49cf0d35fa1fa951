"""The model or the baseline: a report recommends what errs less on the pieces that were not fitted, in its first line."""

import html
import json

import pictures
import pytest
from small_problem import SINGLE_TRACK, record, weave

from lfdm_ros.calibration import calibrate, load_recipe, predict
from lfdm_ros.cli.main import main
from lfdm_ros.vehicles import load_vehicle

RECIPE = SINGLE_TRACK.partition("      vy:")[0].replace("log_normal, median: 50, log_sd: 0.4", "uniform, lower: 20, upper: 90")


def calibrated(folder, model, amplitudes, speed, take="even"):
    """What a single track learns of a drive of a model: folder of the result, and the bag."""
    bag = record(folder / "drive", speed, weave(amplitudes, 1), 1, "drive", rate=50, model=model)
    (folder / "recipe.yaml").write_text(RECIPE.replace("TAKE", take))
    return folder / "out", bag


@pytest.fixture(scope="module", params=["kinematic_bicycle", "eight_dof"])
def result(request, tmp_path_factory):
    """A vehicle that does not slip, and one that does: the model that drove, folder, bag, and what the calibration says."""
    folder = tmp_path_factory.mktemp(request.param)
    speed, amplitudes = (6.0, 10 * [0.3]) if request.param == "kinematic_bicycle" else (20.0, 10 * [0.08])
    out, bag = calibrated(folder, request.param, amplitudes, speed)
    with pictures.left_out():
        summary = calibrate(load_recipe(folder / "recipe.yaml"), [bag], out)
    return request.param, out, bag, summary


def test_what_errs_less_is_recommended_in_the_first_line(result):
    driven, out, _, summary = result
    found = summary["baseline"]
    recommended = "kinematic_bicycle" if driven == "kinematic_bicycle" else "model"
    assert (found["recommended"], found["decided_by"], found["pieces"]) == (recommended, "position", 10)
    for name in ("position", "yaw", "yaw_rate"):
        row = found["compared"][name]
        assert row["difference"] == pytest.approx(row["model"] - row["kinematic"])
        assert 0.0 < row["standard_error"] < abs(row["difference"])
        assert (row["difference"] > 0.0) == (driven == "kinematic_bicycle")
    (stage,) = summary["stages"]
    assert len(stage["kinematic_fits"]) == 2 and "heading.misalignment" in stage["kinematic_fits"][1]  # to the yaw rate, and to the way
    first = (out / "report.html").read_text().partition("</h1>")[2].lstrip()
    assert first.startswith(f"<p class={'note' if recommended == 'model' else 'warn'}><b>{html.escape(found['text'])}</b></p>")
    assert found["text"].startswith("Recommended: " + ("linear_single_track, which is better in position than a kinematic bicycle ("
                                    if recommended == "model" else "a kinematic bicycle (steering.lag"))
    comment = [line for line in (out / "vehicle.yaml").read_text().splitlines() if line.startswith("# ")]
    assert " ".join(line[2:] for line in comment) == found["text"]
    assert load_vehicle(out / "vehicle.yaml").parameters["cornering_stiffness_front"] > 0.0


def test_prediction_says_the_same_of_the_pieces_that_were_held_out(result, tmp_path, capsys):
    _, out, bag, summary = result
    with pictures.left_out():
        assert main(["predict", "--posterior", str(out), "--bag", str(bag), "--out", str(tmp_path / "p")]) == 0
    found = json.loads((tmp_path / "p" / "summary.json").read_text())["baseline"]
    assert found["recommended"] == summary["baseline"]["recommended"]
    for name in ("position", "yaw"):  # which stand on vehicle/state
        row = summary["baseline"]["compared"][name]
        assert found["compared"][name]["model"] == pytest.approx(row["model"], rel=1e-3), name
        assert found["compared"][name]["kinematic"] == pytest.approx(row["kinematic"], rel=1e-3), name
    assert capsys.readouterr().out.splitlines()[-2] == found["text"]
    assert html.escape(found["text"]) in (tmp_path / "p" / "report.html").read_text().partition("</h1>")[2].splitlines()[1]


def test_without_pieces_that_were_held_out_nothing_is_compared(tmp_path, capsys):
    out, bag = calibrated(tmp_path, "kinematic_bicycle", 2 * [0.3], 6.0, take="all")
    with pictures.left_out():
        assert main(["calibrate", str(tmp_path / "recipe.yaml"), "--bag", str(bag), "--out", str(out)]) == 0
        found = json.loads((out / "summary.json").read_text())["baseline"]
        assert found["recommended"] is None
        assert found["text"].startswith("Nothing could be compared with a kinematic bicycle: no pieces were held out")
        assert capsys.readouterr().out.splitlines()[-2] == found["text"]
        shown = predict(bag, tmp_path / "p", posterior=out)["baseline"]
    assert shown["recommended"] is None and "its pieces were fitted" in shown["text"]
