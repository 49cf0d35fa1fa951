"""The calibrator node on the running graph; the calibration itself is a stand-in that writes the files of one."""

import functools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from std_srvs.srv import SetBool, Trigger

from lfdm_ros.action import Calibrate
from lfdm_ros.bags import BagWriter
from lfdm_ros.engine import calibrations
from lfdm_ros.engine.calibration_process import CalibrationProcess
from lfdm_ros.msg import CalibratorStatus, VehicleState
from lfdm_ros.nodes import calibrator
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
from lfdm_ros.ros import qos
from lfdm_ros.ros.parameters import ros_parameter
from lfdm_ros.srv import ApplyPosterior, RollBack
from lfdm_ros.vehicles import load_vehicle

# --draws: the value of the stiffness [N/rad]; --seed: the second stage lasts a minute; recipe "bad": fails.
SCRIPT = """
import json, os, sys, time
arguments = [a for a in sys.argv[2:] if a != "--progress-json"]
options = dict(zip(arguments[::2], arguments[1::2]))
value, out = float(options.get("--draws", 50000)), options["--out"]

def write(interrupted):
    row = {"mean": value, "sd": 500.0, "hdi_3%": value - 900, "hdi_97%": value + 900, "r_hat": 1.001, "ess_bulk": 900.0, "ess_tail": 800.0,
           "targets": {"cornering_stiffness_front": 1.0, "cornering_stiffness_rear": 1.2}, "unit": "N/rad"}
    stages = [{"name": "roll", "parameters": {"stiffness": row}, "passed_on": {
        "cornering_stiffness_front": value, "cornering_stiffness_rear": 1.2 * value}}]
    posterior = {"model": "eight_dof", "vehicle": "hmmwv", "version": "0", "seed": 5, "parameter_names": ["stiffness"], "units": ["N/rad"],
                 "means": [value], "standard_deviations": [500.0], "hdi_lower": [value - 900], "hdi_upper": [value + 900], "r_hat": [1.001],
                 "ess_bulk": [900.0], "ess_tail": [800.0], "thinned_draws": [[value], [value + 1]], "recordings": ["r"],
                 "recording_sha256": ["00"]}
    os.makedirs(out, exist_ok=True)
    json.dump({"version": "0", "model": "eight_dof", "vehicle": "hmmwv", "recipe": sys.argv[1], "seed": 5, "draws": 10, "chains": 2,
               "interrupted": interrupted, "recordings": [{"name": "r", "path": "r", "sha256": "00"}], "held": {}, "stages": stages,
               "coverage_90": {"vy": 0.9}}, open(out + "/summary.json", "w"))
    json.dump(posterior, open(out + "/posterior.json", "w"))

if sys.argv[1].endswith("bad"):
    print(f"lfdm calibrate: recipe {sys.argv[1]}: no such thing", file=sys.stderr)
    sys.exit(2)
try:
    for i in range(4):
        print(json.dumps({"stage": "roll", "stage_index": 0, "stage_count": 1, "temperature": i / 3, "progress": i / 3,
                          "time_left": 3.0 - i, "ess": 10.0 * i, "message": ""}), flush=True)
        time.sleep(60 if "--seed" in options and i == 1 else 0.05)
except KeyboardInterrupt:
    if options["--seed"] == "1":
        write(interrupted=True)
    sys.exit(130)
write(interrupted=False)
"""
NAME = "calibrator"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "calibrate.py"
    script.write_text(SCRIPT)
    monkeypatch.setattr(calibrations, "CalibrationProcess",
                        functools.partial(CalibrationProcess, command=[sys.executable, str(script)]))


class Calibration:
    """The node, a client of its action, and what it says."""

    def __init__(self, graph: Any, folder: Path, **parameters: Any) -> None:
        self.graph, self.folder = graph, folder
        self.node = graph.add(calibrator.Calibrator, **{"store": str(folder / "store"), "apply_speed_limit": -1.0, "priority": "normal",
                                                         **parameters})
        self.client = ActionClient(graph.node, Calibrate, "calibrate")
        graph.wait(self.client.server_is_ready)
        self.heard = graph.listen("calibrator/status", "lfdm_ros/msg/CalibratorStatus")
        self.feedback: list[Any] = []

    def send(self, **goal: Any) -> Any:
        request = Calibrate.Goal(**{"recipe": "good", "bags": ["b"], "out": str(self.folder / "out"), **goal})
        future = self.client.send_goal_async(request, feedback_callback=lambda message: self.feedback.append(message.feedback))
        self.graph.wait(future.done)
        return future.result()

    def result(self, handle: Any) -> Any:
        future = handle.get_result_async()
        self.graph.wait(future.done, "the result")
        return future.result()

    def calibrate(self, **goal: Any) -> Any:
        return self.result(self.send(**goal)).result

    def status(self, condition: Any = lambda status: True) -> Any:
        self.heard.clear()
        self.graph.wait(lambda: self.heard and condition(self.heard[-1]), "the status")
        return self.heard[-1]

    def apply(self, version: str = "") -> Any:
        return self.graph.call(ApplyPosterior, f"{NAME}/apply_posterior", version=version)

    def roll_back(self, version: int) -> Any:
        return self.graph.call(RollBack, f"{NAME}/rollback", version=version)


@pytest.fixture
def calibration(graph: Any, tmp_path: Path, stand_in: None) -> Any:
    calibration = Calibration(graph, tmp_path)
    yield calibration
    calibration.client.destroy()


# ---- the action --------------------------------------------------------------------------------------------------------------

def test_success_gives_feedback_and_a_stored_posterior(graph: Any, calibration: Calibration) -> None:
    handle = calibration.send()
    assert not calibration.send().accepted  # one at a time
    outcome = calibration.result(handle)
    assert outcome.status == GoalStatus.STATUS_SUCCEEDED and outcome.result.success
    assert [f.progress for f in calibration.feedback] == pytest.approx([0.0, 1 / 3, 2 / 3, 1.0])
    assert [f.ess for f in calibration.feedback] == pytest.approx([0.0, 10.0, 20.0, 30.0])
    assert outcome.result.version == outcome.result.posterior.posterior_version == 1
    assert list(outcome.result.posterior.thinned_draws) == [50000.0, 50001.0] and outcome.result.posterior.draws == 2
    status = calibration.status()
    assert status.state == CalibratorStatus.SUCCEEDED and (status.newest_version, status.version_in_force) == (1, 0)
    manifest = json.loads((calibration.folder / "store/versions/0001/manifest.json").read_text())
    assert {gate["name"]: gate["passed"] for gate in manifest["gates"]}["r_hat"]


def test_failure_says_why_and_paths_are_answered_whole(calibration: Calibration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not calibration.send(bags=[]).accepted
    outcome = calibration.result(calibration.send(recipe="bad"))
    assert outcome.status == GoalStatus.STATUS_ABORTED and not outcome.result.success
    assert outcome.result.message == "lfdm calibrate: recipe bad: no such thing"
    monkeypatch.chdir(tmp_path)
    assert calibration.calibrate(out="below/here").directory == str(tmp_path / "below" / "here")


@pytest.mark.parametrize("through", ["action", "service"])
def test_cancel_keeps_what_is_there_and_says_so(graph: Any, calibration: Calibration, through: str) -> None:
    handle = calibration.send(seed=1)
    graph.wait(lambda: len(calibration.feedback) == 2)
    if through == "action":
        handle.cancel_goal_async()
    else:
        assert graph.call(Trigger, f"{NAME}/cancel").success
    outcome = calibration.result(handle)
    assert outcome.status == (GoalStatus.STATUS_CANCELED if through == "action" else GoalStatus.STATUS_ABORTED)
    assert "finished: roll" in outcome.result.message and outcome.result.version == 1 and list(outcome.result.posterior.means) == [50000.0]
    refusal = calibration.apply()
    assert not refusal.success and "finished: interrupted; only roll finished" in refusal.message
    assert not graph.call(Trigger, f"{NAME}/cancel").success


def test_cancel_before_anything_was_finished(graph: Any, calibration: Calibration) -> None:
    calibration.calibrate()  # its files are in the folder, and are not what the next run did
    calibration.feedback.clear()
    handle = calibration.send(seed=2)
    graph.wait(lambda: len(calibration.feedback) == 2)
    handle.cancel_goal_async()
    outcome = calibration.result(handle)
    assert "before a stage was finished" in outcome.result.message and not outcome.result.posterior.parameter_names
    assert outcome.result.version == 0


def test_pause_resume_and_cancel_while_paused(graph: Any, calibration: Calibration) -> None:
    handle = calibration.send(seed=1)
    graph.wait(lambda: len(calibration.feedback) == 2)
    assert graph.call(SetBool, f"{NAME}/pause", data=True).success
    calibration.status(lambda status: status.state == CalibratorStatus.PAUSED)
    assert graph.call(SetBool, f"{NAME}/pause", data=False).success
    calibration.status(lambda status: status.state == CalibratorStatus.RUNNING)
    assert graph.call(SetBool, f"{NAME}/pause", data=True).success
    assert not calibration.send().accepted
    handle.cancel_goal_async()
    assert "finished: roll" in calibration.result(handle).result.message
    assert not calibration.send().accepted  # paused: nothing new begins
    graph.call(SetBool, f"{NAME}/pause", data=False)
    assert calibration.calibrate().success


# ---- what is in force ----------------------------------------------------------------------------------------------------------

def test_manual_apply_latched_rollback_and_restart(graph: Any, calibration: Calibration) -> None:
    heard = graph.listen("posterior", "lfdm_ros/msg/Posterior", qos.LATCHED)
    assert "holds no posterior yet" in calibration.apply().message
    for value in (50_000, 51_000, 52_000):
        calibration.calibrate(draws=value)
    graph.runtime.spin_some(0.2)
    assert not heard  # stored, not applied
    answer = calibration.apply("1")
    assert answer.success and answer.version == 1 and all(gate.passed and gate.reason for gate in answer.gates) and len(answer.gates) == 8
    assert calibration.apply().version == 3
    graph.wait(lambda: heard and heard[-1].posterior_version == 3)
    assert list(heard[-1].target_values) == pytest.approx([52_000.0, 62_400.0])
    assert not calibration.roll_back(3).success and "does not exist" in calibration.apply("7").message
    assert "is no number" in calibration.apply("newest").message
    assert calibration.roll_back(2).version == 2  # was never in force, but passes
    assert calibration.roll_back(1).version == 1
    # Somebody who comes later.
    late = graph.listen("posterior", "lfdm_ros/msg/Posterior", qos.LATCHED)
    graph.wait(lambda: late)
    assert late[0].posterior_version == 1
    # The node ends and another takes its place.
    calibration.node.release()
    graph.add(calibrator.Calibrator, store=str(calibration.folder / "store"))
    late = graph.listen("posterior", "lfdm_ros/msg/Posterior", qos.LATCHED)
    graph.wait(lambda: late and late[-1].posterior_version == 1)
    assert calibration.roll_back(0).message == "back to the vehicle file"
    graph.wait(lambda: late[-1].posterior_version == 0)
    journal = json.loads((calibration.folder / "store/journal.json").read_text())["entries"]
    assert [(entry["number"], entry["action"]) for entry in journal] == [
        (1, "applied"), (3, "applied"), (2, "rolled back"), (1, "rolled back"), (0, "rolled back")]


def test_gates_name_their_reasons_and_can_be_moved(graph: Any, calibration: Calibration) -> None:
    calibration.calibrate(draws=50_000)
    calibration.apply()
    message = calibration.calibrate(draws=60_000).message
    assert "stored as version 2; the gates would refuse it: change_sd" in message
    answer = calibration.apply("2")
    assert not answer.success and answer.version == 1 and "by 20 standard deviations" in answer.message
    assert [gate.name for gate in answer.gates if not gate.passed] == ["change_sd"]
    assert [gate.name for gate in calibration.status().gates if not gate.passed] == ["change_sd"]
    table = {p.name: p for p in calibrator.Calibrator.PARAMETERS}
    assert calibration.node.set_parameters([ros_parameter(table["gate_change_sd"], 21.0)])[0].successful
    assert calibration.apply("2").success


def test_off_stores_only(graph: Any, tmp_path: Path, stand_in: None) -> None:
    calibration = Calibration(graph, tmp_path, apply_policy="OFF")
    calibration.calibrate()
    assert "apply_policy is OFF" in calibration.apply().message
    status = calibration.status()
    assert (status.apply_policy, status.newest_version, status.version_in_force) == ("OFF", 1, 0)
    calibration.client.destroy()


def test_auto_waits_for_a_slow_vehicle(graph: Any, tmp_path: Path, stand_in: None) -> None:
    calibration = Calibration(graph, tmp_path, apply_policy="AUTO", apply_speed_limit=0.5)
    publisher = graph.node.create_publisher(VehicleState, "vehicle/state", 10)
    speed, said = 3.0, []
    graph.wait(publisher.get_subscription_count)
    timer = graph.node.create_timer(0.05, lambda: said.append(publisher.publish(VehicleState(vx=speed))))
    graph.wait(lambda: len(said) > 3)  # heard meanwhile, by the executor of both
    assert "version 1 waits: speed: the vehicle drives at 3.00 m/s" in calibration.calibrate().message
    assert "waits: speed" in calibration.status().waiting
    speed = 0.1
    status = calibration.status(lambda status: status.version_in_force == 1)
    assert status.waiting == ""
    # A change that is too large is not applied, however slow the vehicle.
    assert "not applied: change_sd" in calibration.calibrate(draws=60_000).message
    assert calibration.status().version_in_force == 1
    graph.node.destroy_timer(timer)
    calibration.client.destroy()


def test_the_simulator_drives_by_what_is_in_force(graph: Any, calibration: Calibration) -> None:
    calibration.calibrate(draws=50_000)
    calibration.apply()
    simulator = graph.add(VehicleSimulator, model="eight_dof", initial_speed=10.0)  # comes later than the posterior
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    graph.wait(lambda: status and status[-1].posterior_version == 1)
    assert simulator.simulated.parameters["cornering_stiffness_rear"] == 60_000.0
    assert status[-1].posterior_refused == ""
    calibration.roll_back(0)
    graph.wait(lambda: status[-1].posterior_version == 0)
    assert simulator.simulated.parameters["cornering_stiffness_rear"] == load_vehicle("hmmwv").parameters["cornering_stiffness_rear"]


def test_a_posterior_of_another_vehicle_is_refused(graph: Any, calibration: Calibration) -> None:
    calibration.calibrate()
    calibration.apply()
    graph.add(VehicleSimulator, vehicle="sedan", model="eight_dof")
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    heard = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    graph.wait(lambda: status and status[-1].posterior_refused)
    assert "of vehicle 'hmmwv', this is 'sedan'" in status[-1].posterior_refused and status[-1].posterior_version == 0
    graph.wait(lambda: (d := graph.diagnosis(heard, "vehicle_simulator")) and {p.key: p.value for p in d.values}.get("posterior_refused"))


# ---- the watched folder ----------------------------------------------------------------------------------------------------------

RECIPE = """
model: eight_dof
vehicle: hmmwv
stages:
  - name: only
    recording: "drive_*"
    window: [0, 1]
    parameters: {cornering_stiffness_front: {prior: uniform, lower: 20, upper: 90, unit: kN/rad}}
    channels: {yaw_rate: {noise: {prior: half_normal, sigma: 1, unit: rad/s}}}
"""


def test_watched_folder_calibrates_continues_and_remembers(
        graph: Any, tmp_path: Path, stand_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrator, "LOOK_EVERY", 0.1)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    watched = tmp_path / "watched"
    watched.mkdir()

    def record(name: str, value: float) -> None:
        with BagWriter(watched / name) as bag:
            bag.write("vehicle/state", "lfdm_ros/msg/VehicleState", 1, {"vx": value})

    record("drive_1", 1.0)
    # On a busy machine the lowest priority would take its time; test_calibration_process.py looks at that.
    parameters = {"priority": "normal", "watch_directory": str(watched), "recipe": str(tmp_path / "recipe.yaml"),
                  "continue_posterior": True}
    calibration = Calibration(graph, tmp_path, **parameters)
    calibration.status(lambda status: status.newest_version == 1 and status.state == CalibratorStatus.SUCCEEDED)  # stored before it ends
    record("drive_2", 2.0)
    calibration.status(lambda status: status.newest_version == 2)
    manifests = [json.loads(path.read_text()) for path in sorted((tmp_path / "store/versions").glob("*/manifest.json"))]
    assert [manifest["continued_from"] for manifest in manifests] == [0, 1]
    calibration.node.release()
    graph.add(calibrator.Calibrator, store=str(tmp_path / "store"), **parameters)
    record("drive_3", 3.0)
    calibration.status(lambda status: status.newest_version == 3 and status.state == CalibratorStatus.SUCCEEDED)
    taken = json.loads((tmp_path / "store/watch.json").read_text())["taken"]
    assert sorted(Path(entry["path"]).name for entry in taken.values()) == ["drive_1", "drive_2", "drive_3"]
    calibration.client.destroy()
