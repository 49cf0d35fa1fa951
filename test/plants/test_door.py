"""The door for plants: our own simulator through it is the same to the bit; examples in Python and over UDP; refusals."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from drivers import Blind
from foreign_vehicle import needs_cc, write_plant
from ports import free_port

from lfdm_ros.cli.main import main
from lfdm_ros.engine.closed_loop import PlantSettings, drive
from lfdm_ros.engine.command_hold import CommandHold
from lfdm_ros.engine.plant import ActuatedPlant
from lfdm_ros.engine.stepping import FREE_RUNNING, Stepper
from lfdm_ros.errors import InputError
from lfdm_ros.plants.checks import check_plant
from lfdm_ros.plants.plant import PlantFailed, PlantSimulator, PlantType, register_plant
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.simulation import Pose, Simulator, load_scenario
from lfdm_ros.vehicles import load_vehicle

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_plant.py"
HMMWV = load_vehicle("hmmwv")
register_plant(PlantType("our_own", "the native simulator, as a plant", lambda settings, where: Simulator(HMMWV, "eight_dof", 1e-3)))


def test_our_simulator_is_a_plant_and_drives_the_same_to_the_bit():
    scenario = replace(load_scenario("slalom"), duration=2.0)
    runs = [drive(HMMWV, scenario, Blind(0.1, 0.3), settings) for settings in (
        PlantSettings("eight_dof", None), PlantSettings(plant="our_own"))]
    for name in ("times", "outputs", "commands"):
        assert getattr(runs[0], name).tobytes() == getattr(runs[1], name).tobytes()
    assert (runs[0].length, runs[0].least_load, runs[0].sideslip) == (runs[1].length, runs[1].least_load, runs[1].sideslip)
    plant = PlantSimulator(Simulator(HMMWV), HMMWV, "ours")
    assert all(finding.ok for finding in check_plant(plant)), check_plant(plant)
    assert plant.parameters["sprung_mass"] == HMMWV.parameters["sprung_mass"]
    with pytest.raises(InputError, match="it is a plant of others"):
        plant.model.build(None)


def test_a_plant_is_not_swapped():
    plant = ActuatedPlant(PlantSimulator(Simulator(HMMWV), HMMWV, "theirs"), 10)
    plant.reset(Pose(speed=5.0), 0.0)
    with pytest.raises(InputError, match="theirs is a plant of others"):
        plant.swap(Simulator(HMMWV))


class Broken:
    dt, output_names, parameters = 0.001, ("x", "y", "yaw", "vx", "vy", "yaw_rate"), {}
    outputs = np.zeros(6)


@pytest.mark.parametrize(("changed", "said"), (
    ({"output_names": ("x", "y", "yaw", "vx", "vy", "yawrate")}, "no output 'yawrate' (did you mean 'yaw_rate'?)"),
    ({"output_names": ("x", "y", "yaw", "vx")}, "outputs lack vy, yaw_rate"),
    ({"dt": 0.0}, "is not a whole number of nanoseconds"), ({"dt": 1e-3 / 3}, "is not a whole number of nanoseconds")))
def test_a_plant_that_does_not_fit_is_one_line(changed, said):
    with pytest.raises(InputError, match=re.escape(said)):
        PlantSimulator(type("Changed", (Broken,), changed)(), HMMWV, "mine")


def test_what_a_plant_raises_or_gives_amiss_is_one_line_with_its_place():
    def fails(*_, **__):
        raise ZeroDivisionError("of theirs")

    def at_rest(self, **_):
        self.outputs = np.zeros(6)

    good = {"reset": at_rest, "advance": lambda self, *_: None}
    for changed, said in (({"advance": fails}, r"mine: advance raised ZeroDivisionError at 0 s: of theirs \(.*test_door.py, line \d+\)"),
                          ({"advance": lambda self, *_: setattr(self, "outputs", np.zeros(4))}, r"outputs has shape \(4,\)"),
                          ({"advance": lambda self, *_: setattr(self, "outputs", "none")}, "mine: outputs raised ValueError")):
        plant = PlantSimulator(type("Amiss", (Broken,), good | changed)(), HMMWV, "mine")
        plant.reset()
        with pytest.raises(PlantFailed, match=said):
            plant.advance(np.zeros(3), np.zeros(3), 1)
    with pytest.raises(InputError, match="mine: reset raised ZeroDivisionError"):
        PlantSimulator(type("Amiss", (Broken,), good | {"reset": fails})(), HMMWV, "mine").reset()


def test_unknown_plants_are_one_line(tmp_path):
    for source, said in (("our_owm", "did you mean 'our_own'"), (str(tmp_path / "none.yaml"), "none.yaml: no such file"),
                         (str(tmp_path / "none.fmu"), "No such file")):
        with pytest.raises(InputError, match=said):
            open_plant(source, HMMWV)
    (tmp_path / "plant.yaml").write_text("type: fnu\n")
    with pytest.raises(InputError, match=r"type: plant 'fnu' is unknown \(did you mean 'fmu'"):
        open_plant(str(tmp_path / "plant.yaml"), HMMWV)
    with pytest.raises(InputError, match="is no plant; register a PlantType"):
        register_plant(Broken())


def run_example(folder, *arguments):
    shutil.copy(EXAMPLE, folder)
    environment = {**os.environ, "LFDM_PLUGINS": str(folder / EXAMPLE.name), "PYTHONPATH": str(EXAMPLE.parents[1])}
    return subprocess.run([sys.executable, "-m", "lfdm_ros.starting", "lfdm_ros.cli.main", *arguments], cwd=folder, env=environment,
                          capture_output=True, text=True, check=False)


def test_a_vehicle_in_python_and_the_same_over_udp_drive_alike(tmp_path):
    port = free_port()
    (tmp_path / "plant.yaml").write_text(f"{{type: udp_vehicle, port: {port}}}\n")
    (tmp_path / "short.yaml").write_text("initial: {speed: 8}\nspeed: 8\nduration: 10\npath: [[0, 0], [15, 0], [25, 2], [35, 2]]\n")
    silent = run_example(tmp_path, "fmu", "check", "plant.yaml")
    assert silent.returncode == 2 and silent.stderr.count("\n") == 1 and "does not answer" in silent.stderr
    server = subprocess.Popen([sys.executable, str(EXAMPLE), str(port)], env={**os.environ, "PYTHONPATH": str(EXAMPLE.parents[1])})
    try:
        runs = []
        for plant in ("kinematic", "plant.yaml"):
            done = run_example(tmp_path, "drive", "short.yaml", "--plant", plant, "--json")
            assert done.returncode == 0, done.stdout + done.stderr
            runs.append({key: value for key, value in json.loads(done.stdout).items() if key != "cycle_ms"})
        assert runs[0] == runs[1] and runs[0]["least_load"] is None and runs[0]["lateral_acceleration"] is None
    finally:
        server.kill()
        server.wait()


@needs_cc
def test_a_crash_in_the_loop_is_said_and_a_reset_goes_on(tmp_path):
    plant = open_plant(str(write_plant(tmp_path, 2, "CRASH_AFTER=50")), HMMWV)
    plant.reset(vx=10.0)
    published, failures = [], []
    gate = CommandHold(timeout=1e6, timeout_ramp=1.0, timeout_brake=0.5)
    stepper = Stepper(plant, 10, FREE_RUNNING, gate, lambda stamp, outputs: published.append(stamp), speed_factor=0.0, stop_time=1.0,
                      failed=failures.append)
    stepper.pause(True)
    stepper.start()
    try:
        with pytest.raises(InputError, match=r"the simulation diverged at 0\.040 s, reset it: foreign\.fmu crashed .* Segmentation fault"):
            stepper.step(10)
            stepper.step(10)
        assert stepper.status().diverged and published[-1] == 40_000_000
        stepper.reset(Pose(speed=10.0))
        assert "3 ticks" in stepper.step(3) and not stepper.status().diverged
    finally:
        stepper.stop()


@needs_cc
def test_lfdm_drive_says_why_a_plant_failed_and_warns_of_signs(tmp_path, capsys):
    path = write_plant(tmp_path, 3, "NAN_AFTER=9000")
    path.write_text(path.read_text().replace("ay: -Ay", "ay: Ay"))
    assert main(["drive", "curve", "--plant", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["diverged"] is True
    lines = err.splitlines()
    assert any("lfdm drive: plant.yaml: " in line and "no finite number at" in line for line in lines), lines
    assert any(line.startswith("warning:") and "ay says" in line and "times, the sign?" in line for line in lines), lines
    assert main(["drive", "curve", "--plant", str(path), "--model", "eight_dof"]) == 2
    assert "--plant with --model: a plant has its own" in capsys.readouterr().err
