"""The whole job on a small problem: files, reproducibility, interruption, prediction, and the commands."""

import contextlib
import io
import json
import re
import shutil
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pictures
import pytest
from chassis_fmu import write_chassis
from foreign_vehicle import needs_cc
from small_problem import RECIPE

from lfdm_ros.bags import read_series
from lfdm_ros.calibration import calibrate, load_posterior_summary, load_recipe, predict
from lfdm_ros.calibration.results import check_finished
from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.exports.fmu_file import posterior_draws
from lfdm_ros.exports.variables import exported, exported_tyre
from lfdm_ros.inference.dataset import find_recordings, load_stage
from lfdm_ros.libraries import arviz
from lfdm_ros.plants.fmu import read_ssp
from lfdm_ros.vehicles import load_vehicle

az = arviz()


@pytest.fixture(scope="module")
def result(bags, tmp_path_factory):
    """A calibration of the small problem: directory and summary."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.yaml").write_text(RECIPE)
    with pictures.left_out():
        summary = calibrate(load_recipe(folder / "small.yaml"), list(bags.values()), folder / "out", draws=200, chains=2)
    return folder / "out", summary


def test_finds_the_parameters_that_drove(result, truth, bags):
    _, summary = result
    rows = {name: row for stage in summary["stages"] for name, row in stage["parameters"].items()}
    for name, value in truth.items():
        assert abs(rows[name]["mean"] - value) < 4.0 * rows[name]["sd"], name
        assert rows[name]["sd"] < 0.1 * value, name
    assert rows["sigma/vy"]["mean"] == pytest.approx(0.02, rel=0.2)
    recorded = read_series(bags["turn"], "vehicle/state", ["vx"])
    speed = np.interp(0.5, recorded.time, recorded.values[:, 0])
    assert abs(rows["initial/vx"]["mean"] - speed) < 4.0 * rows["initial/vx"]["sd"]


def test_draws_are_exported_as_parameter_sets(result):
    directory, summary = result
    export = exported(load_vehicle(directory / "vehicle.yaml"), "eight_dof")
    draws = posterior_draws(directory / "vehicle.yaml", [export], 100)[0]
    assert len(draws) == 100
    rows = {name: row for stage in summary["stages"] for name, row in stage["parameters"].items() if "targets" in row}
    for name, row in rows.items():
        for target, factor in row["targets"].items():
            found = np.array([draw.values[target] for draw in draws]) / factor
            assert abs(found.mean() - row["mean"]) < 0.5 * row["sd"], name
            assert found.std() == pytest.approx(row["sd"], rel=0.3), name
    with pytest.raises(InputError, match=r"give 1 to 400"):
        posterior_draws(directory / "vehicle.yaml", [export], 401)


@needs_cc
def test_tyres_of_a_system_have_draws_of_their_own_parameters(result, tmp_path):
    directory, _ = result
    chassis, out = write_chassis(tmp_path / "chassis.fmu"), tmp_path / "car.ssp"
    words = ["--vehicle", str(directory / "vehicle.yaml"), "--tyre", "fiala", "--chassis", str(chassis), "--draws", "3", "--out", str(out)]
    assert main(["export", "tyre", *words]) == 0
    tyres = [exported_tyre(load_vehicle(directory / "vehicle.yaml"), wheel, "fiala") for wheel in ("fl", "rl")]
    draws = posterior_draws(directory / "vehicle.yaml", tyres, 3, part=True)
    learned = {f"{name}_stiffness_{axle}" for name in ("longitudinal", "cornering") for axle in ("front", "rear")}
    assert [set(of_tyre[0].values) for of_tyre in draws] == [learned, learned]  # and not rolling_resistance, which was given
    bound = {f"{variable.part}.{variable.name}": value for variable, value in read_ssp(out).values}
    for wheel in ("fl", "fr", "rl", "rr"):
        for name, value in draws[wheel[0] == "r"][0].values.items():
            assert bound.pop(f"tyre_{wheel}.{name}") == value
    assert not bound
    with zipfile.ZipFile(out) as archive:
        assert sum(name.endswith(".ssv") for name in archive.namelist()) == 3 * 4
    with pytest.raises(InputError, match="has none of the parameters that were calibrated"):
        posterior_draws(directory / "vehicle.yaml", [exported_tyre(load_vehicle("hmmwv"), "fl", "tmeasy")], 3, part=True)


def test_summary_has_what_the_contract_names(result, bags):
    directory, _ = result
    summary = json.loads((directory / "summary.json").read_text(), parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    assert (summary["model"], summary["vehicle"], summary["seed"]) == ("eight_dof", "hmmwv", 3)
    assert [r["path"] for r in summary["recordings"]] == [str(bags["speed_up"]), str(bags["turn"])]
    assert all(re.fullmatch("[0-9a-f]{64}", r["sha256"]) for r in summary["recordings"])
    for stage in summary["stages"]:
        assert stage["sampler"] == "smc" and {"name", "seconds"} <= set(stage)
        for row in stage["parameters"].values():
            assert {"sd", "mcse_mean", "ess_bulk", "ess_tail"} <= set(row)
            assert row["hdi_3%"] < row["mean"] < row["hdi_97%"] and row["r_hat"] < 1.05
    assert "a note for the reader" in (directory / "report.html").read_text()
    assert set(summary["rmse"]) == {"vx", "omega_fl", "vy", "yaw_rate"}
    assert all(row["posterior"] < row["prior"] for row in summary["rmse"].values())
    assert all(0.8 < covered <= 1.0 for covered in summary["coverage_90"].values())
    # vx is measured with 0.05 m/s of noise, vy with 0.02 m/s.
    assert summary["rmse"]["vx"]["posterior"] == pytest.approx(0.05, rel=0.15)
    assert summary["rmse"]["vy"]["posterior"] == pytest.approx(0.02, rel=0.15)


def test_arviz_opens_the_posterior(result):
    directory, summary = result
    data = az.from_netcdf(str(directory / "posterior.nc"))
    assert set(data.groups()) == {"posterior", "prior", "prior_predictive", "posterior_predictive", "observed_data", "log_likelihood",
                                  "sample_stats"}
    assert data.posterior["longitudinal_stiffness"].shape == (2, 200)
    assert data.posterior["lateral.sigma.vy"].shape == (2, 200)
    row = summary["stages"][1]["parameters"]["cornering_stiffness_rear"]
    table = az.summary(data, var_names=["cornering_stiffness_rear"], hdi_prob=0.94, round_to="none")
    assert float(table["mean"].iloc[0]) == pytest.approx(row["mean"])
    assert float(table["r_hat"].iloc[0]) == pytest.approx(row["r_hat"])
    assert data.posterior_predictive["lateral.vy"].dims == ("chain", "draw", "lateral.time")
    assert data.observed_data["lateral.vy"].sizes == {"lateral.time": 200}
    assert data.posterior.attrs["seed"] == 3
    assert "longitudinal_stiffness" in data.posterior.attrs["recipe"]
    assert json.loads(data.posterior.attrs["recordings"]) == {r["sha256"]: r["name"] for r in summary["recordings"]}


def test_vehicle_has_the_means_and_what_was_held(result):
    directory, summary = result
    vehicle = load_vehicle(directory / "vehicle.yaml")
    mean = summary["stages"][0]["parameters"]["longitudinal_stiffness"]["mean"]
    assert vehicle.parameters["longitudinal_stiffness_front"] == pytest.approx(mean)
    assert vehicle.parameters["longitudinal_stiffness_rear"] == pytest.approx(mean)
    assert vehicle.parameters["rolling_resistance"] == pytest.approx(0.0131)
    assert "stage longitudinal" in vehicle.sources["longitudinal_stiffness_front"]
    assert summary["stages"][0]["passed_on"]["longitudinal_stiffness_rear"] == pytest.approx(mean)


def test_posterior_summary_for_the_message(result):
    directory, summary = result
    message = load_posterior_summary(directory, thinned=50)
    assert message["parameter_names"] == ["longitudinal_stiffness", "cornering_stiffness_front", "cornering_stiffness_rear"]
    assert message["units"] == ["N", "N/rad", "N/rad"]
    assert message["thinned_draws"].shape == (50, 3)
    assert message["draws"] == 400
    assert message["means"][0] == summary["stages"][0]["parameters"]["longitudinal_stiffness"]["mean"]
    assert message["thinned_draws"][:, 0].mean() == pytest.approx(message["means"][0], abs=message["standard_deviations"][0])
    assert message["recordings"] == ["speed_up", "turn"]
    assert message["seed"] == 3


@pytest.fixture(scope="module")
def small(bags, tmp_path_factory):
    """The small problem with 30 draws of 2 chains by the command: posterior, lines of progress."""
    folder, told = tmp_path_factory.mktemp("short"), io.StringIO()
    (folder / "small.yaml").write_text(RECIPE)
    with pictures.left_out(), contextlib.redirect_stdout(told):
        assert main(["calibrate", str(folder / "small.yaml"), "--out", str(folder / "out"), "--draws", "30", "--chains", "2",
                     "--progress-json", *(part for bag in bags.values() for part in ("--bag", str(bag)))]) == 0
    return az.from_netcdf(str(folder / "out" / "posterior.nc")), [json.loads(line) for line in told.getvalue().splitlines()]


def assert_same_draws(one, other):
    for group in ("posterior", "prior", "posterior_predictive"):
        for name, values in one[group].data_vars.items():
            assert np.array_equal(values, other[group][name]), (group, name)


def stop_in(stage, temperature):
    """Progress that interrupts a stage once the data count that much."""
    def stop(state):
        if state.stage == stage and state.temperature > temperature:
            raise KeyboardInterrupt

    return stop


@pytest.fixture(scope="module")
def stopped(bags, tmp_path_factory):
    """The same, stopped in its second stage: recipe, directory."""
    folder = tmp_path_factory.mktemp("stopped")
    (folder / "small.yaml").write_text(RECIPE)
    recipe = load_recipe(folder / "small.yaml")
    with pictures.left_out(), pytest.raises(KeyboardInterrupt):
        calibrate(recipe, list(bags.values()), folder / "out", draws=30, chains=2, progress=stop_in("lateral", 0.001))
    return recipe, folder / "out"


def test_interruption_keeps_what_is_done(stopped):
    recipe, out = stopped
    summary = json.loads((out / "summary.json").read_text())
    assert summary["interrupted"] is True
    assert [stage["temperature"] == 1.0 for stage in summary["stages"]] == [True, False]
    assert summary["warnings"][0] == "interrupted: without stage lateral"
    assert "lateral: stopped when the data counted" in summary["warnings"][1]
    vehicle = load_vehicle(out / "vehicle.yaml").parameters
    assert vehicle["longitudinal_stiffness_front"] == pytest.approx(summary["stages"][0]["parameters"]["longitudinal_stiffness"]["mean"])
    assert vehicle["cornering_stiffness_front"] == recipe.start_vehicle.parameters["cornering_stiffness_front"]
    assert "cornering_stiffness_front" in az.from_netcdf(str(out / "posterior.nc")).posterior
    assert load_posterior_summary(out)["parameter_names"] == ["longitudinal_stiffness"]
    assert summary["consistency"] == {}
    assert check_finished(out).endswith("only longitudinal is finished, and the same `lfdm calibrate` command goes on")
    page = (out / "report.html").read_text()
    assert "Interrupted." in page
    assert "<h3>Stage lateral</h3><ul class=lights><li><span class=bad>no</span> stopped when the data counted" in page


@pytest.mark.usefixtures("without_pictures")
def test_a_first_stage_that_was_stopped_is_kept_too(recipe_file, bags, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        calibrate(load_recipe(recipe_file), list(bags.values()), tmp_path / "out", draws=30, chains=2,
                  progress=stop_in("longitudinal", 0.001))
    assert load_posterior_summary(tmp_path / "out")["parameter_names"] == []
    with pytest.raises(InputError, match="was stopped before a stage was finished"):
        check_finished(tmp_path / "out")
    assert 0.0 < json.loads((tmp_path / "out" / "summary.json").read_text())["stages"][0]["temperature"] < 1.0


def test_a_child_of_a_program_in_the_background_can_be_stopped(recipe_file, bags, tmp_path, monkeypatch):
    """A shell has its background ignore SIGINT, and children inherit that."""
    pictures.leave_out(monkeypatch)
    command = [sys.executable, "-m", "lfdm_ros.cli", "calibrate", str(recipe_file), "--out", str(tmp_path / "out"), "--draws", "500",
               "--progress-json", *(part for bag in bags.values() for part in ("--bag", str(bag)))]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert child.stdout is not None
    next(line for line in child.stdout if json.loads(line)["temperature"] > 0.0)
    child.send_signal(signal.SIGINT)
    child.stdout.read()
    assert child.wait() == 130


@pytest.mark.usefixtures("without_pictures")
def test_an_interrupted_calibration_goes_on_where_it_was_with_the_same_seed_only(stopped, bags, tmp_path, small):
    recipe, whole, told = stopped[0], small[0], []
    for out in ("same", "other"):
        shutil.copytree(stopped[1], tmp_path / out)

    def stop(state):
        told.append((state.stage, state.message))
        stop_in("lateral", -1.0)(state)

    with pytest.raises(KeyboardInterrupt):
        calibrate(recipe, list(bags.values()), tmp_path / "other", draws=30, chains=2, seed=9, progress=stop)
    assert told and "taken from the run that was stopped" not in dict(told).values()
    other = az.from_netcdf(str(tmp_path / "other" / "posterior.nc")).posterior["longitudinal_stiffness"]
    assert not np.array_equal(whole.posterior["longitudinal_stiffness"], other)
    calibrate(recipe, list(bags.values()), tmp_path / "same", draws=30, chains=2,
              progress=lambda state: told.append((state.stage, state.message)))
    assert ("longitudinal", "taken from the run that was stopped") in told
    assert_same_draws(whole, az.from_netcdf(str(tmp_path / "same" / "posterior.nc")))
    assert not (tmp_path / "same" / ".stages").exists()


@pytest.mark.usefixtures("without_pictures")
def test_all_is_told_to_the_end_and_what_was_sampled_is_never_lost(recipe_file, bags, tmp_path):
    recipe, told = load_recipe(recipe_file), []

    def stop(state):
        if state.stage == "lateral" and state.message.startswith("predicting"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(recipe, list(bags.values()), tmp_path / "out", draws=30, chains=2, sampler="least_squares", progress=stop)
    calibrate(recipe, list(bags.values()), tmp_path / "out", draws=30, chains=2, sampler="least_squares", progress=told.append)
    lateral = [(state.progress, state.message) for state in told if state.stage == "lateral"]
    assert lateral[-3:] == [(0.99, "writing posterior.nc"), (0.99, "writing report.html"), (1.0, "taken from the run that was stopped")]
    assert (0.99, "predicting from the prior, 0 of 1") in lateral
    assert (0.99, "what turn alone says") in lateral


def test_a_calibration_that_is_at_work_says_so_at_once(recipe_file, bags, tmp_path, capsys):
    """Of one that was killed there are stages that were kept, and no summary: nothing else is read."""
    (tmp_path / "out" / ".stages").mkdir(parents=True)
    (tmp_path / "out" / ".stages" / "longitudinal.npz").touch()
    for command in (["predict", "--posterior"], ["calibrate", str(recipe_file), "--out", str(tmp_path / "new"), "--continue"]):
        assert main([*command, str(tmp_path / "out"), "--bag", "nowhere", *(["--out", str(tmp_path)] if len(command) == 2 else [])]) == 2
        assert "(stages that are kept: longitudinal); the same `lfdm calibrate` command goes on" in capsys.readouterr().err


def test_interruption_before_anything_is_known_leaves_nothing(recipe_file, bags, tmp_path):
    def stop(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(load_recipe(recipe_file), list(bags.values()), tmp_path / "out", draws=50, chains=2, progress=stop)
    assert not list((tmp_path / "out").iterdir())


def test_command_reports_progress_as_json(small):
    _, lines = small
    keys = {"stage", "stage_index", "stage_count", "temperature", "progress", "time_left", "message", "ess"}
    assert all(set(line) == keys for line in lines)
    assert [line["stage"] for line in lines if line["progress"] == 1.0] == ["longitudinal", "lateral"]
    assert (lines[-1]["stage_index"], lines[-1]["stage_count"]) == (1, 2)


@pytest.mark.parametrize(("arguments", "message"), [
    (["--draws", "3"], "--draws 3: at least 10"),
    (["--out", "{tmp}/small.yaml"], "cannot write to"),
    ([], "needs recording 'turn', but the bags hold: speed_up; add --bag"),
])
def test_command_refuses_bad_input(recipe_file, bags, tmp_path, capsys, arguments, message):
    given = ["calibrate", str(recipe_file), "--bag", str(bags["speed_up"]), "--out", str(tmp_path / "out")]
    assert main([*given, *(a.format(tmp=tmp_path) for a in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_prediction_with_a_posterior(result, bags, tmp_path):
    summary = predict(bags["turn"], tmp_path / "prediction", posterior=result[0], window=(0.5, 2.5))
    assert set(summary["rmse"]) == {"vx", "vy", "yaw_rate", "omega_fl"}
    assert summary["rmse"]["vy"]["posterior"] == pytest.approx(0.02, rel=0.2)
    assert 0.8 < summary["coverage_90"]["vy"] <= 1.0
    assert summary["noise_from"] == {"vx": "longitudinal", "omega_fl": "longitudinal", "vy": "lateral", "yaw_rate": "lateral"}
    stored = json.loads((tmp_path / "prediction" / "summary.json").read_text())
    assert stored["rmse"]["vy"] == summary["rmse"]["vy"]
    assert (tmp_path / "prediction" / "report.html").read_text().count("data:image/png") == 2


@pytest.mark.usefixtures("without_pictures")
def test_prediction_with_a_vehicle_that_is_wrong_is_worse(result, bags, tmp_path, capsys):
    assert main(["predict", "--vehicle", str(result[0] / "vehicle.yaml"), "--bag", str(bags["turn"]), "--window", "0.5:2.5", "--out",
                 str(tmp_path / "good")]) == 0
    assert "yaw_rate" in capsys.readouterr().out
    good = json.loads((tmp_path / "good" / "summary.json").read_text())
    soft = load_vehicle(result[0] / "vehicle.yaml").replace(cornering_stiffness_front=20e3)
    bad = predict(bags["turn"], tmp_path / "bad", vehicle=soft, window=(0.5, 2.5))
    assert bad["rmse"]["yaw_rate"]["posterior"] > 3 * good["rmse"]["yaw_rate"]["posterior"]
    assert good["coverage_90"]["vy"] is None  # a vehicle says nothing about noise


def test_prediction_refuses_bad_input(result, bags, tmp_path):
    with pytest.raises(InputError, match="holds nothing in window"):
        predict(bags["turn"], tmp_path / "out", posterior=result[0], window=(50.0, 60.0))
    with pytest.raises(InputError, match=r"holds no summary\.json"):
        predict(bags["turn"], tmp_path / "out", posterior=tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["predict", "--vehicle", "hmmwv", "--bag", str(bags["turn"]), "--window", "3:1", "--out", str(tmp_path / "out")])
    assert caught.value.code == 2


@pytest.mark.usefixtures("without_pictures")
def test_warnings_say_what_is_wrong(recipe_file, bags, tmp_path):
    # The noise cannot be as small as its prior says, rolling resistance does nothing in two seconds of a turn.
    text = recipe_file.read_text()
    first, lateral = text.index("  - name: longitudinal"), text.index("  - name: lateral")
    text = text[:first] + text[lateral:].replace("cornering_stiffness_rear: {prior: uniform, lower: 20, upper: 90, unit: kN/rad}",
                                                 "rolling_resistance: {prior: uniform, lower: 13.0, upper: 13.2, unit: mm}")
    recipe_file.write_text(text.replace("vy: {topic: measured/state, noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}",
                                        "vy: {topic: measured/state, noise: {prior: uniform, lower: 1, upper: 10, unit: mm/s}}"))
    summary = calibrate(load_recipe(recipe_file), [bags["turn"]], tmp_path / "out", draws=200, chains=2)
    text = "\n".join(summary["warnings"])
    assert "rolling_resistance is not identified" in text
    assert "the posterior of sigma/vy lies at a bound of its prior" in text


def test_values_that_may_be_wrong_are_told(recipe_file, bags, tmp_path, capsys):
    """A bag with a byte that does not fit its chunk's checksum is used, and who uses it is told."""
    bag = tmp_path / "turn"
    shutil.copytree(bags["turn"], bag)
    file = next(bag.glob("*.mcap"))
    content = bytearray(file.read_bytes())
    chunk = content.index(b"\x06", 8 + 9 + int.from_bytes(content[9:17], "little"))
    content[chunk + 33] ^= 1
    file.write_bytes(content)
    told = "do not fit their checksum, values there may be wrong"
    recording, = find_recordings([bag])
    assert told in recording.note and recording.note.startswith(f"{bag} (turn): damaged, ")
    recipe = load_recipe(recipe_file)
    assert load_stage(recipe.stages[1], [recording], recipe, recipe.start_vehicle).notes == (recording.note,)
    capsys.readouterr()
    assert main(["predict", "--vehicle", "hmmwv", "--bag", str(bag), "--window", "0.5:2.5", "--out", str(tmp_path / "p")]) == 0
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and errors.startswith(f"warning: {bag}: damaged, ") and told in errors
    assert told in json.loads((tmp_path / "p" / "summary.json").read_text())["warnings"][0]
    assert main(["calibrate", str(recipe_file), "--bag", str(bag), "--check"]) == 2  # speed_up is missing
    assert capsys.readouterr().err.startswith(errors)
