"""The simulator node on the running graph: lifecycle, time, services, refused commands."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from std_srvs.srv import SetBool

from lfdm_ros.bags import bag_info, format_info
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import find_recordings
from lfdm_ros.msg import DriverCommand, VehicleState
from lfdm_ros.nodes.input_player import InputPlayer
from lfdm_ros.nodes.recorder import Recorder
from lfdm_ros.nodes.vehicle_simulator import VehicleSimulator
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import Component
from lfdm_ros.ros.endpoints import publishes, subscribes
from lfdm_ros.ros.messages import nanoseconds, set_stamp
from lfdm_ros.srv import Reset, Step

NAME = "vehicle_simulator"
TICK = 10_000_000


def command(stamp_ns: int = 0, steering: float = 0.0, throttle: float = 0.0, brake: float = 0.0) -> DriverCommand:
    message = DriverCommand(steering=steering, throttle=throttle, brake=brake)
    set_stamp(message.header.stamp, stamp_ns)
    return message


def stamps(messages: list[Any]) -> list[int]:
    return [nanoseconds(m.clock if hasattr(m, "clock") else m.header.stamp) for m in messages]


def values(diagnosis: Any) -> dict[str, str]:
    return {pair.key: pair.value for pair in diagnosis.values}


def test_a_camera_publishes_to_those_who_listen(graph: Any) -> None:
    infos = graph.listen("sensors/front/camera_info", "sensor_msgs/msg/CameraInfo")
    images = graph.listen("sensors/front/image_raw", "sensor_msgs/msg/Image")
    graph.add(VehicleSimulator, vehicle="hmmwv_camera", scenario="yard", timeout_brake=0.0)
    graph.wait(lambda: len(images) >= 3 and len(infos) >= 3)
    for message in (*images, *infos):
        assert message.header.frame_id == "front_optical" and nanoseconds(message.header.stamp) % 50_000_000 == 0
    assert len(images[0].data) == images[0].height * images[0].step == 360 * 3 * 640
    pixels = np.frombuffer(images[0].data, np.uint8).reshape(360, 640, 3).astype(int)
    assert (pixels[..., 0] > pixels[..., 2] + 40).sum() > 100  # obstacles of no kind are orange


def test_lifecycle_through_its_services(graph: Any) -> None:
    graph.add(VehicleSimulator, active=False)
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")

    def change(transition: int) -> bool:
        return bool(graph.call(ChangeState, f"{NAME}/change_state", transition=Transition(id=transition)).success)

    def state() -> int:
        return int(graph.call(GetState, f"{NAME}/get_state").current_state.id)

    assert state() == State.PRIMARY_STATE_UNCONFIGURED
    assert change(Transition.TRANSITION_CONFIGURE) and state() == State.PRIMARY_STATE_INACTIVE
    assert not change(Transition.TRANSITION_CONFIGURE)  # does not exist from here; refused, and the node lives on
    assert states == []  # inactive nodes are silent
    assert change(Transition.TRANSITION_ACTIVATE) and state() == State.PRIMARY_STATE_ACTIVE
    graph.wait(lambda: len(states) > 10)
    assert change(Transition.TRANSITION_DEACTIVATE)
    graph.runtime.spin_some(0.1)
    count = len(states)
    graph.runtime.spin_some(0.2)
    assert len(states) == count
    assert change(Transition.TRANSITION_ACTIVATE)
    graph.wait(lambda: len(states) > count)
    assert stamps(states) == sorted(set(stamps(states)))  # time went on where it stood
    assert change(Transition.TRANSITION_DEACTIVATE) and change(Transition.TRANSITION_CLEANUP)
    assert change(Transition.TRANSITION_CONFIGURE) and change(Transition.TRANSITION_ACTIVATE)
    count = len(states)
    graph.wait(lambda: len(states) > count)
    assert change(Transition.TRANSITION_ACTIVE_SHUTDOWN) and state() == State.PRIMARY_STATE_FINALIZED


def test_clock_and_topics_agree_and_speed_is_live(graph: Any) -> None:
    clock = graph.listen("/clock", "rosgraph_msgs/msg/Clock")
    heard = {topic: graph.listen(topic, msgtype) for topic, msgtype in (
        ("vehicle/state", "lfdm_ros/msg/VehicleState"), ("odom", "nav_msgs/msg/Odometry"),
        ("imu", "sensor_msgs/msg/Imu"), ("joint_states", "sensor_msgs/msg/JointState"))}
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    graph.add(VehicleSimulator, initial_speed=8.0, speed_factor=2.0)
    graph.wait(lambda: len(clock) > 50)
    ticks = stamps(clock)
    assert ticks == [ticks[0] + i * TICK for i in range(len(ticks))]
    for topic, messages in heard.items():
        assert set(stamps(messages)) <= {*ticks, ticks[-1] + TICK}, topic
    assert heard["vehicle/state"][0].vx == pytest.approx(8.0, abs=0.1)
    assert heard["imu"][0].linear_acceleration.z == pytest.approx(9.80665, abs=0.01)
    graph.wait(lambda: status and status[-1].speed_factor_reached == pytest.approx(2.0, rel=0.25), "twice real time")
    assert status[-1].speed_factor_asked == 2.0

    def set_parameter(name: str, value: Any) -> Any:
        message = Parameter(name, value=value).to_parameter_msg()
        return graph.call(SetParameters, f"{NAME}/set_parameters", parameters=[message]).results[0]

    assert set_parameter("speed_factor", 7.0).successful
    graph.wait(lambda: status[-1].speed_factor_asked == 7.0)
    refused = set_parameter("physics_step", 0.002)
    assert not refused.successful and "cannot change" in refused.reason
    assert not set_parameter("speed_factor", -1.0).successful


def test_pause_step_reset(graph: Any) -> None:
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    graph.add(VehicleSimulator, initial_speed=5.0)
    graph.wait(lambda: len(states) > 5)
    assert not graph.call(Step, f"{NAME}/step", ticks=1).success  # not paused
    assert graph.call(SetBool, f"{NAME}/pause", data=True).success
    graph.runtime.spin_some(0.1)
    before = stamps(states)[-1]
    result = graph.call(Step, f"{NAME}/step", ticks=25)
    assert result.success and nanoseconds(result.time) == before + 25 * TICK
    graph.wait(lambda: stamps(states)[-1] == before + 25 * TICK)
    graph.runtime.spin_some(0.1)
    assert stamps(states)[-1] == before + 25 * TICK  # still paused
    assert not graph.call(Step, f"{NAME}/step", ticks=0).success
    refused = graph.call(Reset, f"{NAME}/reset", x=math.nan)
    assert not refused.success and "x is nan" in refused.message
    refused = graph.call(Reset, f"{NAME}/reset", speed=1e300)
    assert not refused.success and "speed is 1e+300 m/s, outside [0, 200]" in refused.message
    assert graph.call(Reset, f"{NAME}/reset", x=3.0, y=4.0, yaw=0.5, speed=2.0).success
    graph.wait(lambda: stamps(states)[-1] == before + 26 * TICK)
    assert (states[-1].x, states[-1].y, states[-1].yaw, states[-1].vx) == (3.0, 4.0, 0.5, 2.0)
    assert graph.call(SetBool, f"{NAME}/pause", data=False).success
    graph.wait(lambda: stamps(states)[-1] > before + 30 * TICK)
    assert stamps(states) == sorted(set(stamps(states)))


def test_bad_commands_are_refused_and_named_and_silence_brakes(graph: Any) -> None:
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    graph.add(VehicleSimulator, initial_speed=15.0, speed_factor=5.0, command_timeout=0.3, timeout_brake=0.8, timeout_ramp=0.5)
    publisher = graph.node.create_publisher(DriverCommand, "control/command", 100)
    graph.wait(lambda: states and stamps(states)[-1] > 2 * 10**9)
    for number, bad in enumerate((command(throttle=math.nan), command(steering=1.5), command(brake=-0.1), command(stamp_ns=10**9),
                                  command(stamp_ns=1_700_000_000 * 10**9)), 1):
        publisher.publish(bad)
        graph.wait(lambda number=number: status and status[-1].commands_rejected == number)
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, NAME)) and values(d)["commands_rejected.from_the_future"] == "1")
    counts = values(graph.diagnosis(diagnostics, NAME))
    assert [counts[f"commands_rejected.{r}"] for r in ("not_finite", "out_of_range", "stale", "from_the_future")] == ["1", "2", "1", "1"]
    assert graph.diagnosis(diagnostics, NAME).level == DiagnosticStatus.WARN
    assert "braking" in graph.diagnosis(diagnostics, NAME).message
    assert status[-1].command_timed_out
    graph.wait(lambda: abs(states[-1].vx) < 0.01)  # it stopped

    # A good command ends it.
    def drive() -> bool:
        publisher.publish(command(stamp_ns=stamps(states)[-1], throttle=0.8))
        return bool(states[-1].vx > 1.0)

    graph.wait(drive, "the vehicle to drive on")
    graph.wait(lambda: drive() and not status[-1].command_timed_out)


def test_running_freely_the_newest_command_counts_not_a_queue_of_old_ones(graph: Any) -> None:
    """A machine that is behind would drive by commands from long ago."""
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    node = graph.add(VehicleSimulator, initial_speed=15.0)
    publisher = graph.node.create_publisher(DriverCommand, "control/command", 1000)
    graph.wait(lambda: states and publisher.get_subscription_count())
    for _ in range(200):  # nobody takes them meanwhile
        publisher.publish(command(stamp_ns=stamps(states)[-1], throttle=0.2))
    graph.wait(lambda: node.summary()["commands_accepted"])
    graph.runtime.spin_some(0.2)
    assert node.summary()["commands_accepted"] < 20 and not sum(node.summary()["commands_rejected"].values())


def test_lockstep_waits_says_so_and_ignores_late_answers(graph: Any) -> None:
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    graph.add(VehicleSimulator, stepping="lockstep", speed_factor=0.0, initial_speed=5.0)
    publisher = graph.node.create_publisher(DriverCommand, "control/command", 100)
    graph.wait(lambda: len(states) >= 3)  # published again and again for a driver that joins late
    assert set(stamps(states)) == {0}
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, NAME)) and "waiting" in d.message)
    publisher.publish(command(stamp_ns=0, throttle=0.5))
    graph.wait(lambda: stamps(states)[-1] == TICK)
    for _ in range(stamps(states).count(0)):  # one answer for each time that the state was published is none too many
        publisher.publish(command(stamp_ns=0, throttle=0.5))
    publisher.publish(command(stamp_ns=5 * TICK, throttle=0.5))
    graph.wait(lambda: (d := graph.diagnosis(diagnostics, NAME)) and values(d)["commands_rejected.wrong_stamp"] == "1")
    assert values(graph.diagnosis(diagnostics, NAME))["commands_rejected.answered_already"] == "1"
    assert stamps(states)[-1] == TICK
    # Paused, two ticks granted: each still waits for its command.
    assert graph.call(SetBool, f"{NAME}/pause", data=True).success
    assert graph.call(Step, f"{NAME}/step", ticks=2).success
    for tick in (1, 2, 3):
        publisher.publish(command(stamp_ns=tick * TICK))
        graph.runtime.spin_some(0.1)
    assert stamps(states)[-1] == 3 * TICK
    assert graph.call(SetBool, f"{NAME}/pause", data=False).success
    graph.wait(lambda: stamps(states)[-1] == 4 * TICK)  # the command that waited


@pytest.mark.usefixtures("unhurried")
def test_lockstep_without_a_driver_says_each_second_for_what_it_waits(graph: Any) -> None:
    log = graph.listen("/rosout", "rcl_interfaces/msg/Log")
    graph.add(VehicleSimulator, stepping="lockstep", speed_factor=0.0)

    def said() -> list[Any]:
        return [line for line in log if line.name == NAME and line.msg.startswith("waiting for the command that answers the state of 0 s")]

    graph.wait(lambda: len(said()) >= 3)
    assert all("/control/command is published by nobody" in line.msg for line in said())
    stamps_ = [line.stamp.sec + 1e-9 * line.stamp.nanosec for line in said()]
    assert stamps_[2] - stamps_[0] >= 1.0
    graph.node.create_publisher(DriverCommand, "control/command", 1)
    graph.wait(lambda: "published by tester" in said()[-1].msg)


class Sleeper(Component):
    """Drives straight on by the newest state, of which it thinks for a while."""

    NAME = "sleeper"
    PARAMETERS = ()
    ENDPOINTS = (subscribes("vehicle/state", VehicleState, qos.NEWEST, "what is answered"),
                 publishes("control/command", DriverCommand, qos.COMMAND, "throttle"))

    def configure(self) -> None:
        self._publisher = self.publisher("control/command")
        self.subscription("vehicle/state", self._on_state)

    def _on_state(self, state: VehicleState) -> None:
        time.sleep(0.1)
        self._publisher.publish(DriverCommand(header=state.header, throttle=0.5))


def test_time_slows_down_for_a_driver_that_thinks_and_says_so(graph: Any) -> None:
    """A tenth of a second is ten simulated seconds at a hundred times real time."""
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    graph.add(Sleeper)
    node = graph.add(VehicleSimulator, speed_factor=100.0)
    graph.wait(lambda: node.summary()["simulated_seconds"] > 5.0)
    graph.wait(lambda: status and status[-1].slowed_by == "the controller's answers")
    found = node.summary()
    assert not sum(found["commands_rejected"].values()) and not found["not_driven"] and found["held_back"] > 0.0
    assert status[-1].held_back > 0.0 and status[-1].speed_factor_reached < 50.0 and not status[-1].not_driven


def test_a_run_in_which_commands_did_not_act_has_failed_and_its_last_status_says_so(graph: Any, tmp_path: Path) -> None:
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    recorder = graph.add(Recorder, bag=str(tmp_path / "bag"), recording="coast_down")
    node = graph.add(VehicleSimulator, initial_speed=10.0, speed_factor=2.0)
    publisher = graph.node.create_publisher(DriverCommand, "control/command", 100)

    def drive_late() -> bool:
        if states:
            publisher.publish(command(stamp_ns=1, throttle=0.5))
        return bool(node.summary()["simulated_seconds"] > 4.0)

    graph.wait(drive_late)
    node.trigger_deactivate()
    failed = node.summary()["not_driven"]
    assert failed.startswith("commands did not act for ") and "stale" in failed
    assert node.errors == [f"{NAME}: {failed}"]
    graph.wait(lambda: status and status[-1].not_driven == failed)
    graph.runtime.spin_some(0.2)
    recorder.release()
    info = bag_info(tmp_path / "bag", digest=False)
    assert info["not_driven"] == failed and failed in format_info(info)
    with pytest.raises(InputError, match=r"cannot be used: commands did not act for .*; drive it again in lockstep"):
        find_recordings([tmp_path / "bag"])


def test_reset_begins_the_scenario_anew_and_diagnostics_are_in_simulated_time(graph: Any, tmp_path: Path) -> None:
    scenario = tmp_path / "turn.yaml"
    scenario.write_text("initial: {x: 5.0, y: -2.0, yaw: 0.5, speed: 12.0}\nduration: 60.0\n"
                        "inputs: [[0, 0.0, 0.1, 0], [60, 0.6, 0.1, 0]]\n"
                        "obstacles: [{circle: {x: 12.0, y: 0.7, radius: 0.5}, velocity: [0.0, 3.0]}]\n")
    states = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState")
    commands = graph.listen("control/command", "lfdm_ros/msg/DriverCommand")
    diagnostics = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
    status = graph.listen("simulator/status", "lfdm_ros/msg/SimulatorStatus")
    player = graph.add(InputPlayer, scenario=str(scenario))
    graph.add(VehicleSimulator, scenario=str(scenario), speed_factor=5.0)

    def steering(pose: tuple[float, ...], after_ns: int) -> list[float]:
        """What was commanded for the states at a pose."""
        there = {nanoseconds(s.header.stamp) for s in states if (s.x, s.y, s.yaw, s.vx) == pose and nanoseconds(s.header.stamp) > after_ns}
        return [c.steering for c in commands if nanoseconds(c.header.stamp) in there]

    for request, pose in (({}, (5.0, -2.0, 0.5, 12.0)), ({"x": 100.0, "speed": 3.0}, (100.0, 0.0, 0.0, 3.0)), ({}, (5.0, -2.0, 0.5, 12.0))):
        graph.wait(lambda: commands and commands[-1].steering > 0.005)
        before = stamps(states)[-1]
        assert graph.call(Reset, f"{NAME}/reset", **request).success
        graph.wait(lambda pose=pose, before=before: steering(pose, before))
        assert steering(pose, before) == [0.0]
    # Others, too, begin anew with the run: this one is in the way in its first second only.
    graph.wait(lambda: status and stamps(status)[-1] > before and status[-1].collisions)
    assert 0.1 < status[-1].first_collision_time - 1e-9 * before < 0.9
    graph.wait(lambda: graph.diagnosis(diagnostics, player.get_name()) and graph.diagnosis(diagnostics, NAME))
    graph.wait(lambda: nanoseconds(diagnostics[-1].header.stamp) > 0)
    told = max(stamps(diagnostics))
    graph.wait(lambda: stamps(states)[-1] >= told)


def test_faults_on_purpose_begin_and_end_while_it_runs_and_are_named(graph: Any) -> None:
    simulator = graph.add(VehicleSimulator, lidar=True, initial_speed=15.0, command_timeout=1000.0, speed_factor=1.0)
    states, scans = graph.listen("vehicle/state", "lfdm_ros/msg/VehicleState"), graph.listen("scan", "sensor_msgs/msg/LaserScan")
    health = graph.listen("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")

    def inject(name: str, value: Any) -> None:
        assert graph.call(SetParameters, f"{NAME}/set_parameters", parameters=[Parameter(name, value=value).to_parameter_msg()]
                          ).results[0].successful

    def wait_for(what: list[Any], count: int = 5) -> list[Any]:
        at = len(what)
        graph.wait(lambda: len(what) >= at + count)
        return what[at:]

    wait_for(scans)
    inject("freeze_state", True)
    inject("withheld_sensors", ["scan"])
    count = len(scans)
    frozen = wait_for(states, 30)[5:]
    assert len({(state.x, state.vx) for state in frozen}) == 1 and len(set(stamps(frozen))) == len(frozen)
    assert len(scans) <= count + 1  # one that was on its way
    graph.wait(lambda: health and "ON PURPOSE: the state is frozen, nothing from scan;" in graph.diagnosis(health, NAME).message)
    assert graph.diagnosis(health, NAME).level == DiagnosticStatus.WARN
    inject("freeze_state", False)
    inject("withheld_sensors", [])
    assert min(np.isfinite(scan.ranges).sum() for scan in wait_for(scans)) == 0  # nothing stands there, so no beam is lost
    inject("disturbed_sensors", ["scan"])
    assert np.isnan(wait_for(scans)[-1].ranges).mean() > 0.2
    inject("disturbed_sensors", [])
    assert not np.isnan(wait_for(scans)[-1].ranges).any()
    assert wait_for(states)[-1].x > frozen[-1].x + 1.0  # it has driven on meanwhile
    publisher = graph.node.create_publisher(DriverCommand, "control/command", qos.COMMAND)

    def deceleration() -> float:
        graph.wait(lambda: (publisher.publish(command(states[-1].header.stamp.sec * 10**9 + states[-1].header.stamp.nanosec, brake=1.0)),
                            states[-1].ax < -1.0)[1])
        return -min(state.ax for state in wait_for(states, 20))

    inject("imposed_friction", 0.15)
    on_ice = deceleration()
    assert "friction_field" in simulator.simulated.parameters and on_ice < 0.2 * 9.81
    inject("imposed_friction", 0.0)
    assert "friction_field" not in simulator.simulated.parameters and deceleration() > 2.0 * on_ice
    assert not simulator.errors
