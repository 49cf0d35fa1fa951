"""A foreign FMU in place of our models on the running graph: driven, recorded and calibrated; a crash of it is one line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from chassis_fmu import PLANT as CHRONO_CAR
from chassis_fmu import write_chassis
from foreign_vehicle import needs_cc, write_plant

from lfdm_ros.bags import read_series
from lfdm_ros.cli.main import main
from lfdm_ros.nodes.state_sensor import StateSensor
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.srv import Reset
from lfdm_ros.stacks.compose import run_stack
from lfdm_ros.vehicles import load_vehicle

pytestmark = needs_cc
# In our units: what the FMU has by its modelDescription.xml, of an axle, in kN/deg; of one tyre in N/rad.
HIDDEN = {"cornering_stiffness_front": 1.5e3 * 180.0 / np.pi / 2.0, "cornering_stiffness_rear": 1.9e3 * 180.0 / np.pi / 2.0,
          "friction": 0.9, "yaw_inertia": 2600.0}
STACK = """
description: a foreign vehicle plays a scenario in lockstep; what is measured has noise
nodes:
  - executable: vehicle_simulator
    parameters: {actuators: false, stepping: lockstep, speed_factor: 0.0}
  - executable: state_sensor
    parameters: {noise_vx: 0.1, noise_vy: 0.05, noise_yaw_rate: 0.02}
  - executable: input_player
    parameters: {on_finish: shutdown}
"""
RECIPE = """
model: driven_bicycle
vehicle: ours.yaml
step: {value: 10, unit: ms}
seed: 1
draws: 400
chains: 2
sampler: least_squares
stages:
  - name: lateral
    segments: [{name: drive, recording: drive, window: [0, 8]}]
    split: {length: {value: 4, unit: s}, take: all}
    prescribed: {vx: {topic: vehicle/state}}
    initial_state: {topic: vehicle/state}
    inputs: {topic: control/command}
    errors: inflated
    parameters:
      cornering_stiffness_front: {prior: log_normal, median: 54770, log_sd: 0.4, unit: N/rad}
      cornering_stiffness_rear: {prior: log_normal, median: 47220, log_sd: 0.4, unit: N/rad}
      friction: {prior: log_normal, median: 0.95, log_sd: 0.2, unit: "1", targets: {friction_max: 1, friction_min: 1}}
      yaw_inertia: {prior: log_normal, median: 2800, log_sd: 0.2, unit: kg*m^2}
    channels:
      yaw_rate: {topic: measured/state, noise: {prior: log_normal, median: 0.02, log_sd: 1.0, unit: rad/s}}
      vy: {topic: measured/state, noise: {prior: log_normal, median: 0.05, log_sd: 1.0, unit: m/s}}
"""


def test_a_foreign_vehicle_is_driven_recorded_and_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hidden tyres, friction and inertia lie in the posterior, though the priors are another car's."""
    monkeypatch.chdir(tmp_path)
    plant = write_plant(tmp_path)
    (tmp_path / "stack.yaml").write_text(STACK)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    assert main(["vehicle", "new", "--mass", "1600", "--wheelbase", "2.7", "--front-share", "0.537", "--out", "ours.yaml"]) == 0
    summary = run_stack(str(tmp_path / "stack.yaml"), record=tmp_path / "drive", quiet=True, overrides={
        "scenario": "ramp_steer", "vehicle_simulator.plant": str(plant), "vehicle_simulator.vehicle": str(tmp_path / "ours.yaml")})
    assert summary["ticks"] == 800 and not summary["collisions"]
    clean, noisy = (read_series(tmp_path / "drive", topic, ["vx", "vy", "yaw_rate", "ay", "road_wheel_angle"])
                    for topic in ("vehicle/state", "measured/state"))
    assert np.isfinite(clean.values).all() and np.abs(clean.values[:, 3]).max() > 5.0
    assert np.std(noisy.values[:, 2] - clean.values[:, 2]) == pytest.approx(0.02, rel=0.1)
    assert main(["calibrate", "recipe.yaml", "--bag", "drive", "--out", "result"]) == 0
    learned = json.loads((tmp_path / "result" / "summary.json").read_text())["stages"][0]["parameters"]
    for name, hidden in HIDDEN.items():
        row = learned[name]
        assert abs(row["mean"] - hidden) < 3.0 * row["sd"] < 0.12 * hidden, (name, hidden, row)


def test_controller_and_shared_control_drive_it_in_lockstep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["vehicle", "new", "--mass", "1600", "--wheelbase", "2.7", "--front-share", "0.537", "--out", "ours.yaml"]) == 0
    summary = run_stack("shared_control", speed=0.0, duration=2.0, quiet=True, overrides={
        "scenario": "obstacle_field_40", "stepping": "lockstep", "vehicle_simulator.plant": str(write_plant(tmp_path, 3)),
        "vehicle": str(tmp_path / "ours.yaml"), "recorder.bag": "shared", "calibrator.watch_directory": ""})
    assert summary["ticks"] == 200 and summary["reason"] == "simulated 2 s"
    bag = tmp_path / "shared"
    states = read_series(bag, "vehicle/state", ["x", "vx", "roll"])
    assert states.values[-1, 0] > 10.0 and np.isnan(states.values[:, 2]).all()
    assert len(read_series(bag, "scan", ["range_max"]).time) > 10 and len(read_series(bag, "/clock", ["clock.nanosec"]).time) > 190


def test_a_vehicle_fmu_on_four_tyre_fmus_drives_on_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph's vehicle is the system itself, driven by what was recorded."""
    monkeypatch.chdir(tmp_path)
    chassis = write_chassis(tmp_path / "chassis.fmu")
    shutil.copy(CHRONO_CAR, tmp_path / "plant.yaml")
    assert main(["export", "tyre", "--vehicle", "hmmwv", "--tyre", "tmeasy", "--chassis", str(chassis), "--out", "car.ssp"]) == 0
    (tmp_path / "stack.yaml").write_text(STACK)
    plant = str(tmp_path / "plant.yaml")
    summary = run_stack(str(tmp_path / "stack.yaml"), record=tmp_path / "drive", quiet=True, overrides={
        "scenario": "straight_acceleration", "vehicle_simulator.plant": plant, "vehicle_simulator.vehicle": "hmmwv"})
    assert summary["ticks"] == 900 and not summary["collisions"]
    states = read_series(tmp_path / "drive", "vehicle/state", ["x", "vx", "tyre_force_z[0]"])
    alone = open_plant(plant, load_vehicle("hmmwv"))
    alone.reset()
    for k in range(900):
        u = [(0.0, float(np.interp(t, (0.0, 1.0, 3.0, 9.0), (0.0, 0.0, 0.8, 0.8))), 0.0) for t in (0.01 * k, 0.01 * (k + 1))]
        alone.advance(*u, 10)
    x, vx, load = states.values[-1]
    assert vx == pytest.approx(float(alone.outputs[alone.output_index["vx"]]), rel=2e-3) and vx > 25.0 and x > 80.0
    assert 4000.0 < load < 6398.0  # less than at rest: it gains speed


def test_a_crash_is_one_line_and_the_graph_lives(graph, tmp_path: Path) -> None:
    # The check of the mapping takes some 380 steps more.
    plant = write_plant(tmp_path, 2, "CRASH_AFTER=20000")
    simulator = graph.add(VehicleSimulator, plant=str(plant), initial_speed=10.0, speed_factor=0.0, command_timeout=1e6)
    sensor = graph.add(StateSensor, noise_vx=0.1)
    heard = graph.listen("measured/state", "lfdm_ros/msg/VehicleState")
    health = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")

    def summary() -> str:
        found = graph.diagnosis(health, "vehicle_simulator")
        return "" if found is None else found.message

    graph.wait(lambda: "crashed" in summary(), "the crash")
    assert "foreign.fmu crashed while it was stepped at " in summary() and "Segmentation fault" in summary() and "\n" not in summary()
    assert heard and simulator.state == "active" and sensor.state == "active"
    before = len(heard)
    assert graph.call(Reset, "vehicle_simulator/reset", speed=10.0).success
    graph.wait(lambda: len(heard) > before + 5, "states after the reset")


def test_what_does_not_go_with_a_plant_is_refused(graph, tmp_path: Path) -> None:
    plant = write_plant(tmp_path)
    node = graph.add(VehicleSimulator, active=False, plant=str(plant), ground="hills")
    with pytest.raises(Exception, match="has a ground of its own"):
        node.bring_up("configure")
