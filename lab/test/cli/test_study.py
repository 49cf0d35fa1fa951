"""`lfdm study`: short studies, and refusals."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from lfdm_lab.cli import study_control
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


@pytest.mark.parametrize(("arguments", "message"), [
    (["priors"], "study priors needs recordings; add --bag BAG"),
    (["bags", "--seeds", "30"], "--seeds: study bags has no such option"),
    (["priors", "--final-steps", "3"], "--final-steps: study priors has no such option"),
    (["sbc", "--chains", "2"], "--chains: study sbc has no such option"),
    (["bags", "--chains", "0"], "--chains 0: at least 1 are needed"),
])
def test_options_of_another_study_are_refused(recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture, arguments: list[str],
                                              message: str) -> None:
    assert main(["study", arguments[0], recipe, *arguments[1:], "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# -- Of the controller ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def short_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The studies drive two short fields instead of the shipped ones, in this process."""
    from lfdm_lab.studies import driving as studies

    path = tmp_path / "obstacle_field_short.yaml"
    path.write_text("course: {kind: obstacle_field, seed: 1, speed: 15.0, length: 75.0, width: 20.0, density: 0.002}\n")
    monkeypatch.setattr(studies, "fields", lambda seeds, slow, speeds, controllers, settings, vehicle: [
        studies.Trial(str(path), seed, settings=settings, vehicle=vehicle) for seed in range(1, seeds + 1)])
    monkeypatch.setattr(studies, "suite", lambda *_: [])
    monkeypatch.setattr("lfdm_ros.scheduling.available_cores", lambda: 1)


def test_a_study_of_the_controller_writes_table_results_and_plots(short_fields: None, tmp_path: Path,
                                                                  capsys: pytest.CaptureFixture) -> None:
    command = ["study", "mpc", "--controllers", "mpc", "--seeds", "2", "--set", "obstacle_margin=0.5", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    table = capsys.readouterr()
    assert "| mpc        | 2    | 0          | 0           | 100 %" in table.out and "failures: none" in table.out
    assert "2 of 2 runs" in table.err
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert results["settings"] == {"time_budget": 0.0, "obstacle_margin": 0.5} and not results["interrupted"]
    assert [run["seed"] for run in results["runs"]] == [1, 2] and results["summary"][0]["goals"] == 1.0
    assert (tmp_path / "out" / "table.md").read_text() == table.out
    assert (tmp_path / "out" / "distributions.png").read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--json"]) == 0  # nothing is driven again, so even the times are the same
    assert json.loads(capsys.readouterr().out)["runs"] == results["runs"]


def test_the_study_of_density_counts_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture) -> None:
    from lfdm_lab.studies import driving as studies

    path = tmp_path / "obstacle_field_40.yaml"
    path.write_text("course: {kind: obstacle_field, seed: 1, speed: 8.0, length: 70.0, width: 20.0, density: 0.002}\n")
    driven = studies.dense_fields
    monkeypatch.setattr(studies, "dense_fields", lambda *arguments: [replace(trial, scenario=str(path)) for trial in driven(*arguments)])
    monkeypatch.setattr("lfdm_ros.scheduling.available_cores", lambda: 1)
    command = ["study", "density", "--speeds", "40", "--densities", "1", "2", "--controllers", "kinematic", "--seeds", "2",
               "--slow-seeds", "2", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    table = capsys.readouterr()
    assert "collisions: none" in table.out and "4 of 4 runs" in table.err
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert (results["study"], results["seeds"]) == ("density", 2)
    assert [{key: row[key] for key in ("density", "speed_mph", "controller", "runs", "goals", "stopped", "collisions")}
            for row in results["rows"]] == [{"density": density, "speed_mph": 40, "controller": "kinematic", "runs": 2, "goals": 2,
                                             "stopped": 0, "collisions": 0} for density in (1.0, 2.0)]
    assert (tmp_path / "out" / "density.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(studies, "work", None)  # nothing is driven again
    assert main(command) == 0


@pytest.mark.parametrize(("arguments", "message"), [
    (["density", "--controllers", "ipopt"], "no controller 'ipopt'; choose from: mpc, kinematic"),
    (["density", "--densities", "0"], "--densities 0: give more than 0"),
    (["density", "--step", "1"], "--step: study density has no such option"),
    (["mpc", "--densities", "2"], "--densities: study mpc has no such option"),
    (["mpc", "hmmwv"], "RECIPE: study mpc has no such option"),
    (["mpc", "--speeds", "50"], "--speeds 50: there are fields for 20, 40, 60 mph"),
    (["mpc", "--controllers", "pid"], "no controller 'pid'; choose from: mpc, kinematic"),
    (["mpc", "--step", "0.5"], "--step: study mpc has no such option"),
    (["delay", "--speeds", "20"], "--speeds: study delay has no such option"),
    (["delay", "--seeds", "0"], "--seeds 0: at least 1 are needed"),
    (["lane_change", "--step", "nan"], "--step nan: at least 0.1 are needed"),
    (["delay", "--set", "colour=red"], "--set colour=red: no setting 'colour'; choose one of: "),
    (["delay", "--set", "compensate=maybe"], "--set compensate=maybe: expected true or false"),
    (["delay", "--set", "load_margin=2"], "setting load_margin is 2"),
    (["sbc", "--speeds", "20"], "--speeds: study sbc has no such option"),
    (["priors", "--vehicle", "hmmwv"], "--vehicle: study priors has no such option"),
    (["priors"], "study priors needs a directory for its results; add --out DIR"),
])
def test_mistakes_in_a_study_of_the_controller_are_named(capsys: pytest.CaptureFixture, arguments: list[str], message: str) -> None:
    assert main(["study", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_remaining_time_is_reported_from_the_first_run_on(capsys: pytest.CaptureFixture) -> None:
    for done, left in ((400, math.nan), (1, 22_000.0), (2, 21_900.0), (9, 5_400.0), (1791, 90.0), (1800, 0.0)):
        study_control.print_progress(done, 1800, left)
    assert capsys.readouterr().err.splitlines() == [
        "400 of 1800 runs, taken from earlier runs", "1 of 1800 runs, 6 h 7 min left", "9 of 1800 runs, 90 min left",
        "1791 of 1800 runs, 90 s left", "1800 of 1800 runs"]


def test_the_former_name_of_sbc_still_works(capsys: pytest.CaptureFixture) -> None:
    assert main(["study", "sbc"]) == 2
    assert capsys.readouterr().err == ("warning: lfdm study sbc is lfdm sbc now; the next release takes the new name only\n"
                                       "lfdm study: sbc needs a directory for its results; add --out DIR\n")
