"""What docs/extending.md promises, from a folder outside the package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def outside(tmp_path):
    """A folder with a copy of an example and nothing else; returns run(example, *arguments of lfdm)."""
    def run(example: str, *arguments: object, code: str = "from lfdm_ros.cli.main import main; raise SystemExit(main())"):
        shutil.copy(ROOT / "examples" / example, tmp_path)
        environment = {**os.environ, "LFDM_PLUGINS": str(tmp_path / example), "PYTHONPATH": str(ROOT)}
        return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], cwd=tmp_path, env=environment, capture_output=True,
                              text=True, check=False)
    return run


def with_dugoff(path: Path) -> Path:
    document = yaml.safe_load((ROOT / "config" / "vehicles" / "hmmwv.yaml").read_text())
    document["tyre"]["dugoff_friction_reduction"] = {"value": 0.015, "unit": "s/m", "source": "an example"}
    document["default_tyre"] = "dugoff"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_tyre_in_one_file(outside, tmp_path):
    """By name in a vehicle file, in `lfdm models` and `lfdm simulate`; it steers as the Fiala tyre does while it is not used up."""
    vehicle = with_dugoff(tmp_path / "mine.yaml")
    (tmp_path / "inputs.txt").write_text("0 0 0.3 0\n2 0 0.3 0\n2.5 0.05 0.3 0\n6 0.05 0.3 0\n")
    listed = outside("dugoff_tyre.py", "models", "eight_dof/dugoff", "--json")
    assert listed.returncode == 0, listed.stderr
    assert "dugoff" in json.loads(listed.stdout)[0]["parts"]["tyre"]
    rows = {}
    for tyre in ("dugoff", "fiala"):
        done = outside("dugoff_tyre.py", "simulate", "--vehicle", vehicle, "--model", "eight_dof", "--tyre", tyre, "--inputs",
                       "inputs.txt", "--out", f"{tyre}.csv")
        assert done.returncode == 0, done.stderr
        rows[tyre] = np.genfromtxt(tmp_path / f"{tyre}.csv", delimiter=",", names=True)
    assert rows["dugoff"]["yaw_rate"][-1] == pytest.approx(rows["fiala"]["yaw_rate"][-1], rel=0.1)
    assert abs(rows["dugoff"]["yaw_rate"][-1] - rows["fiala"]["yaw_rate"][-1]) > 1e-5


def test_a_tyre_from_outside_in_batches_derivatives_and_the_controller(outside, tmp_path):
    vehicle = with_dugoff(tmp_path / "mine.yaml")
    done = outside("dugoff_tyre.py", vehicle, code="""
import sys
import numpy as np
from lfdm_ros.control import Controller, Settings
from lfdm_ros.simulation import BatchRollout, forward_sensitivity, initial_state
from lfdm_ros.vehicles import load_vehicle, save_vehicle
vehicle = load_vehicle(sys.argv[1])
save_vehicle(vehicle, "again.yaml")
assert load_vehicle("again.yaml") == vehicle
times = np.linspace(0.0, 2.0, 21)
common = dict(model="eight_dof", vehicle=vehicle, dt=0.001, times=times, inputs=np.tile([0.1, 0.2, 0.0], (21, 1)), channels=["yaw_rate"])
x0 = initial_state("eight_dof", vehicle, vx=15.0)
name, h = "dugoff_friction_reduction", 1e-5
value = vehicle.parameters[name]
runs = BatchRollout(parameters=[name], **common).trajectories([[value - h], [value], [value + h]], x0)
slope = forward_sensitivity(parameters=[name], x0=x0, method="exact", **common).sensitivities[-1, 0, 0]
print(slope, (runs[2, -1, 0] - runs[0, -1, 0]) / (2.0 * h))
assert slope != 0.0 and abs(slope - (runs[2, -1, 0] - runs[0, -1, 0]) / (2.0 * h)) < 1e-4 * abs(slope)
controller = Controller(vehicle, Settings(model="eight_dof", time_budget=0.0))
print(controller.cycle(0.0).outcome)
""")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text, words", [
    ("raise ValueError('no')", "LFDM_PLUGINS"),
    ("from lfdm_ros.models import SLOTS, register_part\nregister_part('wheel', SLOTS['tyre']['fiala'])", "slot 'wheel'"),
    ("from dataclasses import replace\nfrom lfdm_ros.models import SLOTS, register_part\n"
     "register_part('tyre', replace(SLOTS['tyre']['fiala'], description='another'))", "registered already"),
    ("from lfdm_ros.models import Field, Part, register_part\n"
     "register_part('tyre', Part('mine', '', (Field('wheel_radius', 'mm', 'radius'),), None))", "wheel_radius")])
def test_a_plug_in_that_fails_is_one_line(tmp_path, text, words):
    (tmp_path / "bad.py").write_text(text)
    done = subprocess.run([sys.executable, "-c", "from lfdm_ros.cli.main import main; raise SystemExit(main())", "models", "eight_dof"],
                          env={**os.environ, "LFDM_PLUGINS": str(tmp_path / "bad.py"), "PYTHONPATH": str(ROOT)}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and words in done.stderr and "bad.py" in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
