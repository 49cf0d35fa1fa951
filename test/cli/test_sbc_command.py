"""`lfdm sbc`: a study of recordings that it makes itself; what is refused, and how."""

import json
from pathlib import Path

import pytest

from lfdm_ros.cli.main import main

RECIPE = """
model: eight_dof
vehicle: hmmwv
step: {value: 5, unit: ms}
stages:
  - name: rolling
    recording: coast_down
    window: [0.5, 2.0]
    parameters: {rolling_resistance: {prior: uniform, lower: 0.005, upper: 0.03, unit: m}}
    channels: {vx: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 0.5, unit: m/s}}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "rolling.yaml"
    path.write_text(RECIPE)
    return str(path)


def test_a_study_drives_its_own_recordings_and_writes_what_it_found(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "checked"
    assert main(["sbc", recipe, "--seeds", "25", "--draws", "20", "--out", str(out)]) == 0
    table = capsys.readouterr()
    assert "rolling: passes, 25 replications" in table.out and "rolling: 25 of 25 replications" in table.err
    results = json.loads((out / "results.json").read_text())
    assert (results["sampler"], results["likelihood"], results["seed"]) == ("smc", "gaussian", 1)
    assert set(results["stages"]["rolling"]["unknowns"]) == {"rolling_resistance", "sigma.vx"}
    assert (out / "sbc_rolling.png").read_bytes().startswith(b"\x89PNG") and b"<svg" in (out / "sbc_rolling.svg").read_bytes()
    # Again: the recording and the replications that are there are taken.
    evaluations = results["stages"]["rolling"]["evaluations"]
    assert main(["sbc", recipe, "--seeds", "26", "--draws", "20", "--out", str(out)]) == 0
    assert "rolling: 25 of 26 replications" in capsys.readouterr().err
    assert json.loads((out / "results.json").read_text())["stages"]["rolling"]["evaluations"] > evaluations


@pytest.mark.parametrize(("arguments", "message"), [
    (["--stage", "lateral"], "no stage 'lateral'; choose from: rolling"),
    (["--seeds", "5"], "--seeds 5: at least 20 are needed"),
    (["--sampler", "gibbs"], "sampler 'gibbs' is unknown"),
    (["--sampler", "least_squares", "--likelihood", "published"], "runs with sampler smc only"),
])
def test_mistakes_are_told(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture, arguments: list[str], message: str) -> None:
    assert main(["sbc", recipe, "--out", str(tmp_path / "out"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_recording_that_is_no_scenario_must_be_given(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(RECIPE.replace("coast_down", "monday"))
    assert main(["sbc", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "recording 'monday': give it with --bag" in capsys.readouterr().err
    path.write_text(RECIPE.replace("coast_down", "slalom"))
    assert main(["sbc", str(path), "--out", str(tmp_path / "out")]) == 2
    assert "recording 'slalom': give it with --bag; that scenario is a task without inputs" in capsys.readouterr().err


def test_a_directory_is_needed(capsys: pytest.CaptureFixture) -> None:
    assert main(["sbc"]) == 2
    assert "sbc needs a directory for its results; add --out DIR" in capsys.readouterr().err
