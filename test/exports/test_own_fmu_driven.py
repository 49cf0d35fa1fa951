"""`lfdm drive` on the FMU of its own vehicle: the run of the vehicle itself."""

import json

import pytest
from c_compiler import needs_cc

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.plants.plant import PlantFailed
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.vehicles import load_vehicle

PLANT = """
fmu: vehicle.fmu
step: 1 ms
start: {start.x: x, start.y: y, start.yaw: yaw, start.vx: vx}
"""


@needs_cc
def test_every_figure_is_that_of_the_vehicle_itself(tmp_path, capfd):
    assert main(["export", "fmu", "--vehicle", "hmmwv", "--model", "eighteen_dof", "--tyre", "tmeasy", "--out",
                 str(tmp_path / "vehicle.fmu")]) == 0
    plant = tmp_path / "vehicle.fmu"  # its names are ours: no plant file
    found = []
    for plant_of_run in (["--model", "eighteen_dof", "--tyre", "tmeasy"], ["--plant", str(plant)]):
        capfd.readouterr()
        assert main(["drive", "nato_lane_change", "--vehicle", "hmmwv", *plant_of_run, "--json"]) == 0
        found.append(json.loads(capfd.readouterr().out))
        del found[-1]["cycle_ms"]  # of the wall clock
    own, fmu = found
    assert own.pop("largest_error") == pytest.approx(fmu.pop("largest_error"), rel=1e-6)
    numbers = [key for key, value in own.items() if isinstance(value, float)]
    assert {key: own.pop(key) for key in numbers} == pytest.approx({key: fmu.pop(key) for key in numbers}, rel=1e-6)
    assert own == fmu


@needs_cc
def test_the_reason_of_a_refusal_comes_through(tmp_path):
    assert main(["export", "fmu", "--vehicle", "hmmwv", "--model", "driven_bicycle", "--out", str(tmp_path / "vehicle.fmu")]) == 0
    (tmp_path / "plant.yaml").write_text(PLANT + "inputs: {steering: steering, throttle: 3 * throttle, brake: brake}\n")
    plant = open_plant(str(tmp_path / "plant.yaml"), load_vehicle("hmmwv"))
    plant.reset(x=0.0, y=0.0, yaw=0.0, vx=5.0)
    with pytest.raises(PlantFailed, match=r"throttle = 3 is outside \[-1, 1\]"):
        plant.advance((0.0, 1.0, 0.0), (0.0, 1.0, 0.0), 10)


@needs_cc
def test_bounds_that_are_out_themselves_are_refused_as_in_vehicle_files(tmp_path):
    assert main(["export", "fmu", "--vehicle", "hmmwv", "--model", "driven_bicycle", "--out", str(tmp_path / "vehicle.fmu")]) == 0
    (tmp_path / "plant.yaml").write_text(PLANT + "parameters: {sprung_mass: 0 kg}\n")
    plant = open_plant(str(tmp_path / "plant.yaml"), load_vehicle("hmmwv"))
    with pytest.raises((InputError, PlantFailed), match="sprung_mass = 0 is outside"):
        plant.reset(x=0.0, y=0.0, yaw=0.0, vx=5.0)
