"""Windows of recordings as arrays: grid, missing samples, held inputs, measured steering, and what cannot be read."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lfdm_ros.bags import BagWriter
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import Dataset, clock_jumps, find_recordings, load_window, recorded_states, start_notes, windows_of
from lfdm_ros.inference.plan import Channel, Inputs, Segment, Split, SteeringSource, field_of
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
STATE = "vehicle/state"
STEERING = SteeringSource(STATE, "wheel_speeds[0]", 0.0, None)


def write(path: Path, times: np.ndarray, states: dict[str, np.ndarray], commands: np.ndarray,
          command_times: np.ndarray | None = None) -> Path:
    """A bag of vehicle/state with some fields (the others NaN) and control/command (n, 3: steering, throttle, brake)."""
    def header(t: float) -> dict:
        stamp = round(t * 1e9)
        return {"stamp": {"sec": stamp // 10**9, "nanosec": stamp % 10**9}, "frame_id": ""}

    names = ("x", "y", "yaw", "roll", "pitch", "vx", "vy", "ax", "ay", "roll_rate", "pitch_rate", "yaw_rate", "road_wheel_angle",
             "engine_speed")
    wheels = {key: np.full(4, np.nan) for key in ("wheel_speeds", "tyre_force_x", "tyre_force_y", "tyre_force_z")}
    with BagWriter(path, storage="mcap") as bag:
        for k, t in enumerate(times):
            values = {name: float(states[name][k]) if name in states else np.nan for name in names}
            bag.write(STATE, "lfdm_ros/msg/VehicleState", round(t * 1e9),
                      {"header": header(t), "child_frame_id": "", **values, **wheels, "gear": 0})
        for u, t in zip(commands, times if command_times is None else command_times):
            bag.write("control/command", "lfdm_ros/msg/DriverCommand", round(t * 1e9),
                      {"header": header(t), "steering": u[0], "throttle": u[1], "brake": u[2]})
    return path


def load(path: Path, start: float = 0.0, end: float = 10.0, channels: tuple[str, ...] = ("vx",), inputs: Inputs | None = None) -> Dataset:
    """The window on a recording of step 5 ms."""
    recording = find_recordings([path])[0]
    return load_window(recording, start, end, model="eight_dof", vehicle=VEHICLE, step=0.005, state_topic=STATE, inputs=inputs or Inputs(),
                       channels={name: (STATE, name) for name in channels})


def segment(*recordings: str, start: float = 0.0, end: float = 1.0, split: Split | None = None) -> Segment:
    """Windows of recordings, nothing else."""
    return Segment("", recordings, start, end, split, STATE, (), (), Inputs(), ())


def test_window_has_its_start_but_not_its_end(tmp_path):
    t = 0.01 * np.arange(200)
    data = load(write(tmp_path / "a", t, {"vx": 5 + t, "vy": -t}, np.zeros((200, 3))), 0.5, 1.0, ("vy", "vx"))
    np.testing.assert_allclose(data.times, 0.5 + 0.01 * np.arange(50))
    np.testing.assert_allclose(data.observed[:, 1], 5 + data.times)
    np.testing.assert_allclose(data.observed[:, 0], -data.times)
    assert data.initial == {"vx": pytest.approx(5.5), "vy": pytest.approx(-0.5)}
    assert data.channels == ("vy", "vx")


def test_velocities_that_were_not_recorded_are_what_the_pose_does(tmp_path):
    """A turn at 8 m/s with a sideslip of 0.05 rad and 0.4 rad/s, of which a tracker saw the pose, and a drive of which nobody did."""
    t = 0.02 * np.arange(150)
    yaw, rng = 3.0 + 0.4 * t, np.random.default_rng(0)
    course = yaw + 0.05
    x, y = np.cumsum(8.0 * np.cos(course)) * 0.02, np.cumsum(8.0 * np.sin(course)) * 0.02
    noisy = {name: values + rng.normal(0.0, 0.002, 150) for name, values in (("x", x), ("y", y), ("yaw", np.angle(np.exp(1j * yaw))))}
    seen = load(write(tmp_path / "seen", t, noisy, np.zeros((150, 3))), 1.0, 2.0, ("x", "yaw"))
    assert set(seen.derived) == {"vx", "vy", "yaw_rate"} and seen.unknown == ("roll", "roll_rate")
    assert seen.initial["yaw_rate"] == pytest.approx(0.4, abs=0.01)
    assert seen.initial["vx"] == pytest.approx(8.0 * np.cos(0.05), abs=0.05)
    assert seen.initial["vy"] == pytest.approx(8.0 * np.sin(0.05), abs=0.15)
    blind = load(write(tmp_path / "blind", t, {"vx": 8.0 + 0.0 * t}, np.zeros((150, 3))), 1.0, 2.0)
    assert not blind.derived and blind.unknown == ("roll", "vy", "roll_rate", "yaw_rate")
    told = start_notes([(seen, ()), (blind, ("vy",)), (blind, ("vy",))])
    assert len(told) == 3
    assert "from how the recorded pose changes: " in told[0] and told[1].startswith(f"{tmp_path / 'seen'}")
    assert "taken as 0: roll, roll_rate, yaw_rate; what follows pays" in told[2]


def test_wheels_are_found_by_their_names(tmp_path):
    """A model with other wheels than a car's starts from theirs; a car's, from the view of four; what no message names is not known."""
    with BagWriter(tmp_path / "a") as bag:
        for k in range(3):
            bag.write(STATE, "lfdm_ros/msg/VehicleState", k * 10**7, {
                "header": {"stamp": {"sec": 0, "nanosec": k * 10**7}}, "vx": 9.0, "wheel_speeds": [1.0, 2.0, 3.0, 4.0],
                "wheel_names": ["rear", "front"], "speed_by_wheel": [20.0, np.nan]})
    recording = find_recordings([tmp_path / "a"])[0]
    axles, car = recorded_states(recording, STATE, "eleven_dof"), recorded_states(recording, STATE, "eight_dof")
    assert axles["omega_rear"] == "speed_by_wheel[rear]" and car["omega_rr"] == "wheel_speeds[3]"

    def load_spin(wheel: str) -> Dataset:
        return load_window(recording, 0.0, 1.0, model="eleven_dof", vehicle=VEHICLE, step=0.005, state_topic=STATE,
                           inputs=Inputs("none", STEERING), channels={"spin": (STATE, field_of(f"omega_{wheel}"))})

    start = load_spin("rear")
    assert start.initial["omega_rear"] == 20.0 and "omega_front" not in start.initial and start.observed[0, 0] == 20.0
    with pytest.raises(InputError, match=r"speed_by_wheel\[ml\] has no finite sample"):
        load_spin("ml")


def test_what_was_not_measured_stays_out(tmp_path):
    t = 0.01 * np.arange(100)
    vy = np.where(np.arange(100) % 3 == 0, t, np.nan)
    data = load(write(tmp_path / "a", t, {"vx": t, "vy": vy}, np.zeros((100, 3))), channels=("vx", "vy"))
    np.testing.assert_array_equal(np.isfinite(data.observed[:, 1]), np.arange(100) % 3 == 0)
    np.testing.assert_allclose(data.observed[::3, 1], t[::3])


def test_a_recording_with_jitter_gets_the_grid_of_the_step(tmp_path):
    rng = np.random.default_rng(0)
    t = 0.02 * np.arange(100) + np.r_[0.0, rng.uniform(-0.004, 0.004, 99)]
    data = load(write(tmp_path / "a", t, {"vx": t}, np.zeros((100, 3))))
    assert np.diff(data.times) == pytest.approx(0.005)
    rows = np.flatnonzero(np.isfinite(data.observed[:, 0]))
    assert len(rows) == 100
    assert np.abs(data.observed[rows, 0] - data.times[rows]).max() <= 0.0025 + 1e-9


def test_commands_are_held_as_a_topic_holds_them(tmp_path):
    t = 0.01 * np.arange(100)
    commands = np.column_stack([0.1 * np.arange(10), np.zeros((10, 2))])
    data = load(write(tmp_path / "a", t, {"vx": t}, commands, command_times=0.1 * np.arange(10)))
    assert data.hold
    np.testing.assert_allclose(data.inputs[:, 0], 0.1 * np.floor(data.times / 0.1 + 1e-6))


def test_steering_can_come_from_a_measured_angle(tmp_path):
    t = 0.01 * np.arange(100)
    path = write(tmp_path / "a", t, {"vx": t, "road_wheel_angle": 0.3 * t}, np.column_stack([np.zeros(100), t / 2, 0 * t]))
    data = load(path, inputs=Inputs(steering=SteeringSource(STATE, "road_wheel_angle", 1.0, "max_road_wheel_angle")))
    np.testing.assert_allclose(data.inputs[:, 0], 0.3 * data.times / VEHICLE.parameters["max_road_wheel_angle"])
    np.testing.assert_allclose(data.inputs[:, 1], data.times / 2)


def test_what_cannot_be_read_is_named(tmp_path):
    t = 0.01 * np.arange(100)
    path = write(tmp_path / "a", t, {"vx": t}, np.zeros((100, 3)))
    with pytest.raises(InputError, match=r"vehicle/state\.vy has no finite sample"):
        load(path, channels=("vy",))
    with pytest.raises(InputError, match=r"no finite sample in window \[5, 6\) s; it covers \[0.000, 0.990\] s"):
        load(path, 5.0, 6.0)
    short = write(tmp_path / "short", t, {"vx": t}, np.zeros((50, 3)), command_times=t[:50])
    with pytest.raises(InputError, match=r"control/command\.steering covers \[0.000, 0.490\] s"):
        load(short)
    wild = write(tmp_path / "wild", t, {"vx": t}, np.column_stack([0 * t, 3 * t, 0 * t]))
    with pytest.raises(InputError, match=r"throttle is outside \[0, 1\] in 66 of 100 samples, the first 1\.02 at 0\.340 s"):
        load(wild)


def test_recordings_by_name(tmp_path):
    t = 0.01 * np.arange(10)
    path = write(tmp_path / "a", t, {"vx": t}, np.zeros((10, 3)))
    recordings = find_recordings([path])
    assert len(recordings[0].sha256) == 64
    with pytest.raises(InputError, match="needs recording 'b', but the bags hold: a"):
        windows_of(segment("b"), recordings, "recipe.yaml")
    with pytest.raises(InputError, match="holds the same as"):
        find_recordings([path, path])


def test_pieces_of_a_split_are_fitted_or_held_out(tmp_path):
    t = 0.01 * np.arange(1050)
    laps = [write(tmp_path / name, t, {"vx": t + i}, np.zeros((1050, 3))) for i, name in enumerate(("lap_1", "lap_2"))]
    recordings = find_recordings(laps)
    lap = segment("lap_*", start=0.5, end=np.inf, split=Split(2.0, "even"))
    lap = replace(lap, channels=(Channel("vx", STATE, "vx", None, "vx"),))
    fitted, held_out = (windows_of(lap, recordings, "recipe.yaml", held) for held in (False, True))
    assert [(w.recording.name, w.start, w.index) for w in fitted[2:4]] == [("lap_1", 8.5, 4), ("lap_2", 0.5, 0)]
    assert [w.start for w in held_out if w.recording.name == "lap_2"] == [2.5, 6.5]  # [8.5, 10.5) is whole, and even
    assert [w.start for w in fitted if w.recording.name == "lap_2"] == [0.5, 4.5, 8.5]
    assert len({w.name for w in (*fitted, *held_out)}) == 10
    with pytest.raises(InputError, match="shorter than one piece of 20 s"):
        windows_of(replace(lap, split=Split(20.0)), recordings, "recipe.yaml")


def test_inputs_before_the_window_are_kept_for_delays(tmp_path):
    t = 0.01 * np.arange(300)
    data = load(write(tmp_path / "a", t, {"vx": t}, np.column_stack([0.1 * t, 0 * t, 0 * t])), 1.5, 2.5)
    assert len(data.history) == 100
    np.testing.assert_allclose(data.history[:, 0], 0.1 * (0.5 + 0.01 * np.arange(100)), atol=1e-12)
    early = load(write(tmp_path / "b", t, {"vx": t}, np.column_stack([0.5 + 0.1 * t, 0 * t, 0 * t])), 0.0, 1.0)
    np.testing.assert_array_equal(early.history[:, 0], 0.5)  # nothing was recorded there


def test_states_can_follow_the_recording_and_inputs_be_absent(tmp_path):
    t = 0.01 * np.arange(100)
    path = write(tmp_path / "a", t, {"vx": 5 + t, "vy": 0 * t, "road_wheel_angle": 0.1 * t}, np.zeros((1, 3)), np.array([0.0]))
    recording = find_recordings([path])[0]
    data = load_window(recording, 0.2, 0.8, model="linear_single_track", vehicle=VEHICLE, step=0.01, channels={"vy": (STATE, "vy")},
                       state_topic=STATE, inputs=Inputs("none", SteeringSource(STATE, "road_wheel_angle", 1.0, "max_road_wheel_angle")),
                       prescribed=[("vx", STATE, "vx")])
    np.testing.assert_allclose(data.prescribed[:, 0], 5.2 + 0.01 * np.arange(60))
    np.testing.assert_allclose(data.table[:, 0], 0.1 * data.times / VEHICLE.parameters["max_road_wheel_angle"], atol=1e-12)
    assert data.table.shape == (60, 4)
    assert data.sourced == ("vy",)


def test_a_clock_that_jumps_back_is_told_and_its_longest_part_used(tmp_path):
    # 0.4 s are there twice; a bag in the order of its stamps has both tellings mixed.
    t = np.concatenate([0.01 * np.arange(150), 1.105 + 0.01 * np.arange(300)])
    path = write(tmp_path / "a", t, {"vx": np.arange(450.0)}, np.zeros((450, 3)))
    data = load(path, 2.0, 4.0)
    assert data.observed[0, 0] == pytest.approx(150 + 90, abs=1)
    said = clock_jumps(find_recordings([path])[0], STATE, ("vx",))
    assert re.search(r"the clock of vehicle/state was set back: \[1\.0\d*, 1\.[56]\d*\] s is there twice", said)
    assert re.search(r"only \[1\.[56]\d*, 4\.095\] s was used", said)
    with pytest.raises(InputError, match="has no finite sample in window"):
        load(path, 1.2, 1.4)
    even = write(tmp_path / "b", 0.01 * np.arange(50), {"vx": np.arange(50.0)}, np.zeros((50, 3)))
    assert clock_jumps(find_recordings([even])[0], STATE, ("vx",)) == ""
