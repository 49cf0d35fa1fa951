"""The recipe `soil` identifies the soil of a drive on exact wheels, and reports unidentified parameters."""

from pathlib import Path

import numpy as np
import pictures
import pytest
from exact_wheels import MEASURED, NOISE, drive, truths

from lfdm_ros.bags import read_series
from lfdm_ros.calibration import calibrate, load_recipe
from lfdm_ros.calibration.recorded import write_drive
from lfdm_ros.calibration.scoring import score_recordings
from lfdm_ros.ground.soils import load_soil
from lfdm_ros.simulation import InputProfile, Simulator, rollout

SAND = load_soil("lete_sand")
PULL, COAST = "straight_acceleration", "coast_down"


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A full pull and a coast down on exact wheels, with noise."""
    folder = tmp_path_factory.mktemp("exact")
    vehicle = load_recipe("soil").start_vehicle
    return [drive(vehicle, SAND, name, folder / name, seconds=seconds, chassis="eighteen_dof", step=5e-3)
            for name, seconds in ((PULL, 4.0), (COAST, 1.0))]


def test_a_drive_on_exact_wheels_stays_beside_that_of_the_model(exact: list[Path]) -> None:
    """Signals of both to their noise; wheels slip by up to three quarters on the way."""
    recipe = load_recipe("soil")
    simulator = Simulator(recipe.start_vehicle, recipe.model, dt=5e-3)
    for bag, speed in zip(exact, (1.0, 20.0)):
        driven = read_series(bag, "vehicle/state", ["vx", "wheel_speeds[0]", "wheel_speeds[2]"])
        commands = read_series(bag, "control/command", ["steering", "throttle", "brake"])
        simulator.reset(vx=speed)
        columns = [simulator.output_index[name] for name in ("vx", "omega_fl", "omega_rl", "tyre_fz_fl", "tyre_fz_rl")]
        outputs = []
        for command in commands.values:
            outputs.append(simulator.outputs[columns].copy())
            simulator.advance(command, command, 2)
        found, loads = np.split(np.array(outputs), [3], axis=1)
        assert np.abs(found - driven.values).max(axis=0) == pytest.approx(0.0, abs=0.1)
        assert not np.array_equal(found, driven.values)
        if bag.name == PULL:
            assert np.ptp(1.0 - driven.values[:, 0] / (0.455 * driven.values[:, 1])) > 0.6
            assert (loads > 0.0).all() and np.ptp(loads[:, 1]) > 500.0


def test_the_soil_is_found(exact: list[Path], tmp_path: Path) -> None:
    recipe = load_recipe("soil", errors="white")
    with pictures.left_out():
        summary = calibrate(recipe, exact, tmp_path / "out", sampler="least_squares", draws=200, chains=2)
    width, depth = recipe.start_vehicle.parameters["tyre_width"], 0.015
    rows, true = summary["stages"][0]["parameters"], truths(SAND, width)
    for name, value in true.items():
        assert abs(rows[name]["mean"] - value) < 4.0 * rows[name]["sd"], (name, rows[name]["mean"], value)
        assert rows[name]["sd_over_prior_sd"] < 0.5, name
    # Strength and shear are identified to one or two percent, the pressure at the depth of the wheels (15 mm).
    assert rows["soil_friction_angle"]["mean"] == pytest.approx(true["soil_friction_angle"], rel=0.01)
    assert rows["soil_shear_modulus"]["mean"] == pytest.approx(true["soil_shear_modulus"], rel=0.05)
    pressure = rows["soil_frictional_modulus"]["mean"] * depth ** rows["soil_sinkage_exponent"]["mean"]
    assert pressure == pytest.approx(SAND.modulus(width) * depth ** SAND.sinkage_exponent, rel=0.1)


def test_unidentified_parameters_of_a_gentle_drive_are_reported(tmp_path: Path) -> None:
    """At small slip only the ratio of strength and shear modulus is identified, at one depth only the pressure: both pairs are named, with
    the manoeuvre to add."""
    recipe = load_recipe("soil")
    path = tmp_path / "pull_alone.yaml"
    path.write_text("\n".join(line for line in recipe.text.splitlines() if "name: coast" not in line))
    simulator = Simulator(recipe.start_vehicle, recipe.model, dt=recipe.step)
    simulator.reset(vx=0.5)
    profile = InputProfile([0.0, 1.0, 3.0, 9.0], [0.0] * 4, [0.0, 0.0, 0.12, 0.12], [0.0] * 4)
    times, outputs = rollout(simulator, profile, 4.5, 0.01)
    columns = {name: outputs[:, column] for name, column in simulator.output_index.items()}
    gentle = write_drive(tmp_path / PULL, PULL, times, columns, profile.sample(times), simulator.model.wheels, [MEASURED], NOISE)
    score = score_recordings(load_recipe(path), [gentle])["soil"]
    pairs = {frozenset(group["members"]): group for group in score["untold"]}
    assert set(pairs) == {frozenset({"soil_friction_angle", "soil_shear_modulus"}),
                          frozenset({"soil_frictional_modulus", "soil_sinkage_exponent"})}
    for group in pairs.values():
        assert "enter only in one combination" in group["text"] and "drive straight_acceleration" in group["text"]


def test_the_recipe_has_the_soil_of_its_file() -> None:
    p = load_recipe("soil").start_vehicle.parameters
    whole = {"soil_cohesive_modulus": 0.0, "soil_frictional_modulus": SAND.modulus(p["tyre_width"])}
    for name, value in {**SAND.parameters, **whole}.items():
        assert p[name] == pytest.approx(value, rel=1e-4), name
