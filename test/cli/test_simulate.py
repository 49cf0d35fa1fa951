"""`lfdm simulate` and `lfdm models` as a user runs them."""

import json
import re
import subprocess
import sys
import time

import numpy as np
import pytest

from lfdm_ros.cli.main import COMMANDS, main
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import load_vehicle

HEADER = ("time,x,y,vx,vy,ax,ay,roll,pitch,yaw,roll_rate,pitch_rate,yaw_rate,"
          "omega_fl,omega_fr,omega_rl,omega_rr,gear,engine_speed")


@pytest.fixture
def inputs(tmp_path):
    path = tmp_path / "inputs.txt"
    path.write_text("0 0 0.5 0\n5 0 0.5 0\n6 0.2 0 0\n")
    return path


def test_simulate_writes_the_contract(tmp_path, inputs):
    out = tmp_path / "run.csv"
    assert main(["simulate", "--vehicle", "hmmwv", "--model", "eight_dof", "--inputs", str(inputs), "--dt", "0.002",
                 "--until", "8", "--out", str(out)]) == 0
    assert out.read_text().splitlines()[0] == HEADER
    table = np.genfromtxt(out, delimiter=",", names=True)
    simulator = Simulator(load_vehicle("hmmwv"), dt=0.002)
    times, outputs = rollout(simulator, InputProfile.from_file(inputs), 8.0)
    np.testing.assert_allclose(table["time"], times, atol=1e-9)
    for name in HEADER.split(",")[1:]:
        np.testing.assert_allclose(table[name], outputs[:, simulator.output_index[name]], rtol=1e-10, atol=1e-10)
    assert table["vx"][-1] > 5 and table["yaw"][-1] > 0.1  # it drove, and to the left


def test_what_compiling_takes_is_told_apart_from_the_run(tmp_path, inputs, capsys, monkeypatch):
    """A first use compiles for seconds, which is no speed of the simulation."""
    spent = []

    def compiles(simulator, *rest):
        if not spent:
            spent.append(time.sleep(0.5))
        return rollout(simulator, *rest)

    monkeypatch.setattr("lfdm_ros.simulation.rollout", compiles)
    assert main(["simulate", "--vehicle", "hmmwv", "--inputs", str(inputs), "--out", str(tmp_path / "run.csv")]) == 0
    said = re.search(r"simulated in ([\d.]+) s .* x real time\), compiled or loaded in ([\d.]+) s before", capsys.readouterr().err)
    assert said and float(said[2]) >= 0.5
    plain = np.genfromtxt(tmp_path / "run.csv", delimiter=",", names=True)
    simulator = Simulator(load_vehicle("hmmwv"))
    assert plain["vx"].tolist() == pytest.approx(
        rollout(simulator, InputProfile.from_file(inputs), 6.0)[1][:, simulator.output_index["vx"]].tolist(), rel=1e-10)


@pytest.mark.parametrize("change, words", [
    (["--vehicle", "tank"], "tank"), (["--model", "x"], "eight_dof"), (["--inputs", "none.txt"], "none.txt"),
    (["--inputs", "/"], "simulate: /: Is a directory"), (["--dt", "0.5"], "0.5"),
    (["--until", "-1"], "end time"), (["--output-step", "0.0015"], "multiple"), (["--out", "nowhere/x.csv"], "nowhere"),
    (["--also", "smoke"], "smoke"),
    (["--dt", "1e-12"], "--dt"), (["--dt", "0"], "--dt"), (["--dt", "nan"], "--dt"), (["--dt", "inf"], "--dt"),
    (["--until", "1e18"], "--until"),
    (["--output-step", "1e-12"], "--output-step"), (["--output-step", "1e-320"], "--output-step"), (["--until", "nan"], "--until"),
    (["--initial-speed", "nan"], "speed"), (["--initial-speed", "1e300"], "speed"), (["--out", "/dev/full"], "No space left"),
    (["--out", "/"], "directory"),
])
def test_bad_use_exits_2_with_one_line(tmp_path, inputs, capsys, change, words):
    options = {"--vehicle": "hmmwv", "--inputs": str(inputs), "--out": str(tmp_path / "o.csv"), **dict([change])}
    assert main(["simulate", *(part for item in options.items() for part in item)]) == 2
    error = capsys.readouterr().err.strip()
    assert words in error and "\n" not in error
    assert not (tmp_path / "o.csv").exists()


def test_a_long_time_between_rows_takes_no_memory(monkeypatch):
    """A row after so many steps that they are several calls is the row of one call."""
    profile = InputProfile([0.0, 1.0], [0.0, 0.3], [0.5, 0.5], [0.0, 0.0])
    simulator = Simulator(load_vehicle("hmmwv"), dt=0.002)
    _, whole = rollout(simulator, profile, 1.0, 0.5)
    monkeypatch.setattr(sys.modules[rollout.__module__], "CHUNK", 70)
    simulator.reset()
    times, pieces = rollout(simulator, profile, 1.0, 0.5)
    assert len(times) == 3
    np.testing.assert_allclose(pieces, whole, rtol=1e-12, atol=1e-12)


def test_every_command_has_help_with_an_example(capsys):
    for name in COMMANDS:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        said = capsys.readouterr().out
        assert end.value.code == 0 and "example" in said and f"lfdm {name}" in said, name
    result = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", name, "--help"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, said)


def test_models_json(capsys):
    assert main(["models", "--json"]) == 0
    models = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert set(models) == {"linear_single_track", "nonlinear_bicycle", "driven_bicycle", "kinematic_bicycle", "eight_dof", "eleven_dof",
                           "eighteen_dof", "twenty_four_dof", "multibody_hmmwv"}
    assert len(models["eight_dof"]["states"]) == 14
    assert models["eighteen_dof"]["spec"] == "eighteen_dof/tmeasy/automatic"
    assert models["eighteen_dof"]["parts"]["tyre"] == ["fiala", "tmeasy", "tmeasy_nr", "bekker_wong", "bekker_wong_rigid",
                                                       "magic_formula", "magic_formula_relaxed"]
    assert models["nonlinear_bicycle"]["parts"] == {"ground": ["plane", "given_ground", "friction_field", "friction_map", "soil",
                                                              "given_soil", "soil_map", "height_map", "resistance_map"]}
    for model in models.values():
        fields = [field for kind in ("states", "inputs", "outputs", "parameters") for field in model[kind]]
        assert all(field["unit"] and field["description"] for field in fields)
        assert all(field["role"] in ("continuous", "held", "discrete") for field in model["states"])


def test_further_columns(tmp_path, inputs):
    out = tmp_path / "run.csv"
    assert main(["simulate", "--vehicle", "hmmwv", "--inputs", str(inputs), "--also", "lifted_wheels", "--also", "tyre_fz_rr",
                 "--out", str(out)]) == 0
    table = np.genfromtxt(out, delimiter=",", names=True)
    assert table["lifted_wheels"].max() == 0 and table["tyre_fz_rr"].min() > 1000


def test_a_step_too_long_for_the_tyre_is_said(tmp_path, inputs, capsys):
    command = ["simulate", "--vehicle", "hmmwv", "--tyre", "tmeasy", "--inputs", str(inputs), "--out", str(tmp_path / "o.csv"), "--dt"]
    assert main([*command, "0.005"]) == 0 and "at most 0.002 s" in capsys.readouterr().err
    assert main([*command, "0.001"]) == 0 and "warning" not in capsys.readouterr().err
