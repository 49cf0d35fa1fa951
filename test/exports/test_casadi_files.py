"""Functions of CasADi in files: the simulator's step and slopes, and an optimal control problem of do-mpc on them."""

import importlib.util
import json
import sys
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from lfdm_ros.exports.casadi_files import write_casadi
from lfdm_ros.exports.variables import exported
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

EXAMPLE = Path(__file__).parents[2] / "examples" / "do_mpc_lane_change.py"


def test_files_step_as_the_simulator_and_name_their_numbers(tmp_path):
    write_casadi(exported(load_vehicle("hmmwv"), "eleven_dof"), tmp_path)
    about = json.loads((tmp_path / "vehicle.json").read_text())
    step, rhs, dae = (ca.Function.load(str(tmp_path / f"{name}.casadi")) for name in ("step", "rhs", "dae"))
    simulator = Simulator(load_vehicle("hmmwv"), "eleven_dof")
    simulator.reset(vx=10.0)
    x, u, p = simulator.state.copy(), np.array([0.1, 0.3, 0.0]), np.array([row["value"] for row in about["parameters"]])
    assert [row["name"] for row in about["states"]] == [f.name for f in simulator.model.states]
    for _ in range(200):
        simulator.advance(u, u, 1)
        x = np.array(step(x, u, p, about["step"])).ravel()
    np.testing.assert_allclose(x, simulator.state, rtol=1e-9, atol=1e-9)
    roles = np.array([row["role"] for row in about["states"]])
    ode, alg = (np.array(part).ravel() for part in dae(x[roles == "continuous"], x[roles == "held"], u, p))
    slopes = np.array(rhs(x, u, p)).ravel()
    np.testing.assert_array_equal(ode, slopes[roles == "continuous"])
    np.testing.assert_array_equal(alg, slopes[roles == "held"])


def test_a_vehicle_with_gears_has_no_dae(tmp_path):
    made = write_casadi(exported(load_vehicle("sedan"), "eight_dof"), tmp_path)
    assert [path.name for path in made] == ["step.casadi", "rhs.casadi", "outputs.casadi", "vehicle.json"]


def test_do_mpc_changes_the_lane(tmp_path):
    pytest.importorskip("do_mpc")
    write_casadi(exported(load_vehicle("hmmwv"), "driven_bicycle"), tmp_path)
    spec = importlib.util.spec_from_file_location("do_mpc_lane_change", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = example
    spec.loader.exec_module(example)
    beyond, left = example.main(tmp_path, 3.0)
    assert beyond < 0.5
    assert left < 0.2
