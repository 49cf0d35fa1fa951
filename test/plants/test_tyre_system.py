"""The loop of a vehicle FMU with Chrono's names and four tyre FMUs of ours: it stands, turns and drives as mechanics and our 24-DOF say."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from chassis_fmu import PLANT, write_chassis
from foreign_vehicle import needs_cc

from lfdm_ros.backends.model_functions import ARRAYS
from lfdm_ros.cli.main import main
from lfdm_ros.models import SLOTS, Record, Wheel
from lfdm_ros.models.equations import Patch
from lfdm_ros.plants.checks import check_plant
from lfdm_ros.plants.fmu import read_ssp
from lfdm_ros.plants.plant import PlantSimulator
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

pytestmark = needs_cc
HMMWV = load_vehicle("hmmwv")
P = HMMWV.parameters
G, BASE = 9.80665, P["cg_to_front_axle"] + P["cg_to_rear_axle"]
MASS = P["sprung_mass"] + 2.0 * (127.866 + 129.98)


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Gives a folder with the system on tyres of a model; the plant file is the example's."""
    made = {}

    def of(tyre: str) -> Path:
        if tyre not in made:
            folder = made[tyre] = tmp_path_factory.mktemp(tyre)
            chassis = write_chassis(folder / "chassis.fmu")
            shutil.copy(PLANT, folder / "plant.yaml")
            words = ["--vehicle", "hmmwv", "--tyre", tyre, "--chassis", str(chassis), "--out", str(folder / "car.ssp")]
            assert main(["export", "tyre", *words]) == 0
        return made[tyre]

    return of


@pytest.fixture(scope="module")
def car(folder_of):
    """Gives the plant on tyres of a model."""
    return lambda tyre: open_plant(str(folder_of(tyre) / "plant.yaml"), HMMWV)


def value(plant: PlantSimulator, name: str) -> float:
    return float(plant.outputs[plant.output_index[name]])


def held_at(plant: PlantSimulator, speed: float, steering: float, seconds: float) -> None:
    """Drives with a throttle that keeps a speed."""
    for _ in range(round(seconds / 0.05)):
        throttle = float(np.clip(0.06 + 0.4 * (speed - value(plant, "vx")), 0.0, 1.0))
        plant.advance((steering, throttle, 0.0), (steering, throttle, 0.0), 50)


@pytest.mark.parametrize("tyre", ["tmeasy", "tmeasy_nr", "fiala"])
def test_a_standing_car_carries_its_weight(car, tyre):
    plant = car(tyre)
    plant.reset(x=3.0, y=-2.0, yaw=0.5)
    plant.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 5000)
    loads = {wheel: value(plant, f"tyre_fz_{wheel}") for wheel in ("fl", "fr", "rl", "rr")}
    assert sum(loads.values()) == pytest.approx(MASS * G, rel=1e-6)
    assert loads["fl"] == pytest.approx(loads["fr"], rel=1e-6)
    front = P["sprung_mass"] * P["cg_to_rear_axle"] / BASE + 2.0 * 127.866  # the lever
    assert loads["fl"] + loads["fr"] == pytest.approx(front * G, rel=1e-5)
    assert [value(plant, name) for name in ("x", "y", "yaw")] == pytest.approx([3.0, -2.0, 0.5], abs=1e-4)
    assert abs(value(plant, "vx")) < 1e-4


def cornering_stiffness(tyre: str, front: bool) -> float:
    """Returns the slope of a tyre's lateral force over the slip angle [N/rad] at its load at rest, by its equations on numbers."""
    part = SLOTS["tyre"][tyre]
    equations, load = part.build(ARRAYS), 0.25 * P["sprung_mass"] * G + (127.866 if front else 129.98) * G
    radius, forces = P["wheel_radius"] - load / P["tyre_vertical_stiffness_front"], []
    for slip in (-1e-4, 1e-4):
        wheel = Wheel(front, 12.0, 12.0 * slip, 1.0, 0.0, 12.0 / radius, load, radius, Record(), Patch(friction=P["friction_scale"]))
        forces.append(equations.forces(equations.prepare(Record(**P)), wheel).fy)
    return -(forces[1] - forces[0]) / 2e-4


@pytest.mark.parametrize("tyre", ["fiala", "tmeasy_nr"])
@pytest.mark.parametrize("speed", [5.0, 14.0])
def test_on_a_circle_the_yaw_rate_is_that_of_the_single_track(car, tyre, speed):
    """r = v delta / (L + m v^2 / L (b / C_f - a / C_r)), with stiffnesses of the axles that the FMUs have not said."""
    plant = car(tyre)
    plant.reset()
    held_at(plant, speed, 0.0, 1.0 + speed / 2.0)
    held_at(plant, speed, 0.03, 4.0)
    front, rear = (2.0 * cornering_stiffness(tyre, end) for end in (True, False))
    understeer = MASS / BASE * (P["cg_to_rear_axle"] / front - P["cg_to_front_axle"] / rear)
    v, delta = value(plant, "vx"), 0.03 * P["max_road_wheel_angle"]
    assert v == pytest.approx(speed, rel=0.05)
    expected = v * math.tan(delta) / (BASE + understeer * v * v)
    assert value(plant, "yaw_rate") == pytest.approx(expected, rel=0.03)
    if tyre == "fiala" and speed > 10.0:  # which understeers: without that the bound would not hold
        assert abs(v * delta / BASE / expected - 1.0) > 0.1


@pytest.mark.parametrize("tyre", ["tmeasy", "fiala"])
def test_it_drives_as_a_24_dof_of_the_same_numbers(car, tyre):
    plant, own = car(tyre), Simulator(HMMWV, f"twenty_four_dof/{tyre}")
    plant.reset()
    own.reset()
    for command, seconds in (((0.0, 0.4, 0.0), 3.0), ((0.1, 0.1, 0.0), 2.0), ((0.0, 0.0, 0.3), 1.0)):
        for simulator in (plant, own):
            simulator.advance(command, command, round(seconds / simulator.dt))
        speeds, rates = ([float(s.outputs[s.output_index[name]]) for s in (plant, own)] for name in ("vx", "yaw_rate"))
        assert speeds[0] == pytest.approx(speeds[1], rel=4e-3)
        assert rates[0] == pytest.approx(rates[1], rel=0.04, abs=0.01)


def test_loads_are_those_of_the_instant_at_which_they_act(car, folder_of):
    """Tyres declare that loads follow the wheel at once: a vehicle that coasts straight on is not driven by loads behind its wheels."""
    plant = car("tmeasy")
    assert read_ssp(folder_of("tmeasy") / "car.ssp").passes == 2
    plant.reset()
    plant.advance((0.0, 0.5, 0.0), (0.0, 0.5, 0.0), 4000)
    plant.advance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1000)  # until it no longer pitches
    before = value(plant, "vx")
    plant.advance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1000)
    turning = 4.0 * P["wheel_inertia"] / 0.45**2
    assert before - value(plant, "vx") == pytest.approx(P["rolling_resistance_coefficient"] * MASS * G / (MASS + turning), rel=0.02)


def test_the_check_of_a_plant_finds_nothing_wrong(car):
    plant = car("tmeasy")
    findings = check_plant(plant)
    assert all(finding.ok for finding in findings), findings
    assert "begins at rest only" in findings[0].text
