"""`lfdm simulate` and `lfdm models` as a user runs them."""

import json
import subprocess
import sys

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


@pytest.mark.parametrize("change, words", [
    (["--vehicle", "tank"], "tank"), (["--model", "x"], "eight_dof"), (["--inputs", "none.txt"], "none.txt"), (["--dt", "0.5"], "0.5"),
    (["--until", "-1"], "end time"), (["--output-step", "0.0015"], "multiple"), (["--out", "nowhere/x.csv"], "nowhere"),
])
def test_bad_use_exits_2_with_one_line(tmp_path, inputs, capsys, change, words):
    options = {"--vehicle": "hmmwv", "--inputs": str(inputs), "--out": str(tmp_path / "o.csv"), **dict([change])}
    assert main(["simulate", *(part for item in options.items() for part in item)]) == 2
    error = capsys.readouterr().err.strip()
    assert words in error and "\n" not in error
    assert not (tmp_path / "o.csv").exists()


def test_every_command_has_help_with_an_example():
    for name in COMMANDS:
        result = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", name, "--help"], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        assert "example" in result.stdout and f"lfdm {name}" in result.stdout, name


def test_models_json(capsys):
    assert main(["models", "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)
    assert model["name"] == "eight_dof" and len(model["states"]) == 14
    assert all(field["unit"] and field["description"] for kind in ("states", "inputs", "outputs", "parameters") for field in model[kind])
