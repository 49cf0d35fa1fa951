"""How steering and yaw rate go together in a recording: what was put into it is found, with noise, gaps and clocks that differ."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from lfdm_ros.bags import import_recording, read_series
from lfdm_ros.calibration.recorded import write_drive
from lfdm_ros.calibration.survey import survey
from lfdm_ros.errors import InputError
from lfdm_ros.inference.dataset import check_inputs, find_recordings
from lfdm_ros.inference.plan import NO_TOPIC, Inputs, SteeringSource
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import load_vehicle, typical_vehicle

GAIN, WHEELBASE = 0.88, 2.7
CAR = typical_vehicle("car", 1500.0, WHEELBASE)


@pytest.fixture
def surveyed(tmp_path):
    """Returns surveyed(late, ...): what is found in a log of 120 s, whose steering is stamped `late` s, in a file of its own."""

    def run(late=0.0, noise=0.0, sign=1.0, frequencies=(0.05, 0.13, 0.31, 0.52, 0.9), gap=False, spikes=(), angle_is="wheel", **wheel):
        rng = np.random.default_rng(7)
        phases = rng.uniform(0.0, 6.0, len(frequencies))

        def angle(at):
            return sum(0.02 / (1.0 + f) * np.sin(2.0 * np.pi * f * at + phase) for f, phase in zip(frequencies, phases))

        times = 10.0 + 0.02 * np.arange(6000) + rng.uniform(0.0, 0.01, 6000)
        vx = 12.0 + 3.0 * np.sin(0.15 * times)
        yaw_rate = sign * GAIN * vx * angle(times) / WHEELBASE
        rows = np.column_stack([times, vx, yaw_rate + rng.normal(0.0, noise * np.std(yaw_rate), 6000)])
        steering_times = 10.0 + 0.025 * np.arange(4800)
        angles = angle(steering_times) + rng.normal(0.0, noise * np.std(angle(steering_times)), 4800)
        angles[list(spikes)] += 3.0
        if gap:
            rows = rows[(times < 50.0) | (times > 58.0)]
        np.savetxt(tmp_path / "log.csv", rows, delimiter=",", header="t,vx,yaw_rate")
        np.savetxt(tmp_path / "steering.csv", np.column_stack([steering_times + late, np.rad2deg(16.0 * angles)]), delimiter=",",
                   header="t,hand_wheel")
        sources = {"log": {"file": "{recording}.csv", "time": {"column": "t"}, "columns": {"t": "s", "vx": "m/s", "yaw_rate": "rad/s"}},
                   "steering": {"file": "steering.csv", "time": {"column": "t"}, "columns": {
                       "t": "s", "hand_wheel": {"unit": "deg"} | wheel}}}
        fields = {"vx": "vx", "yaw_rate": "yaw_rate", "road_wheel_angle": angle_is.replace("wheel", "steering.hand_wheel / 16")}
        shutil.rmtree(tmp_path / "bag", ignore_errors=True)
        (tmp_path / "mapping.yaml").write_text(yaml.safe_dump({"sources": sources, "topics": {
            "vehicle/state": {"type": "lfdm_ros/msg/VehicleState", "from": "log", "fields": fields}}}))
        import_recording(tmp_path / "log.csv", tmp_path / "mapping.yaml", tmp_path / "bag")
        return survey(find_recordings([tmp_path / "bag"])[0], CAR)

    return run


@pytest.mark.parametrize(("late", "noise"), [(-0.9, 0.4), (-0.2, 0.0), (0.0, 0.4), (0.9, 0.0), (1.6, 0.4)])
def test_clocks_that_differ_are_found(surveyed, late, noise):
    found = surveyed(late, noise, gap=True)
    assert found.behind == pytest.approx(-late, abs=0.03)
    assert found.gain == pytest.approx(GAIN, rel=0.02 if noise == 0.0 else 0.06)


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_noise_of_the_steering_does_not_draw_the_gain_to_nothing(surveyed, noise):
    """A regression on the noisy angle would give GAIN / (1 + noise^2)."""
    assert surveyed(noise=noise).gain == pytest.approx(GAIN, rel=0.1)


def test_a_sign_is_no_delay(surveyed):
    found = surveyed(sign=-1.0)
    assert (found.behind, found.gain) == pytest.approx((0.0, -GAIN), abs=0.03)


def test_in_a_slalom_the_nearest_of_shifts_that_agree_is_told(surveyed):
    assert surveyed(0.3, 0.1, frequencies=(0.5,)).behind == pytest.approx(-0.3, abs=0.05)


def test_spikes_of_the_steering_are_told_with_number_time_and_remedy(surveyed):
    """As told, they are gone; a survey is not misled by them either."""
    by_angle = Inputs(NO_TOPIC, SteeringSource("vehicle/state", "road_wheel_angle", 1.0, "max_road_wheel_angle"))
    found = surveyed(spikes=(1000, 2000, 3000))
    assert found.gain == pytest.approx(GAIN, rel=0.02)
    assert 3 <= len(found.beyond) <= 12 and found.beyond[0] == pytest.approx(35.0, abs=0.05)
    with pytest.raises(InputError, match=rf"bag \(log\): vehicle/state\.road_wheel_angle is outside \[-1, 1\] of the full lock .* in "
                       rf"{len(found.beyond)} of 6000 samples, the first .* at {found.beyond[0]:.3f} s, .*range: \[LEAST"):
        check_inputs(found.recording, by_angle, CAR)
    check_inputs(found.recording, by_angle, CAR, 40.0, 55.0)
    mended = surveyed(spikes=(1000, 2000, 3000), range=[-400, 400])
    assert mended.beyond == ()
    check_inputs(mended.recording, by_angle, CAR)
    with pytest.raises(InputError, match="so many are no spikes: correct unit or ratio"):
        check_inputs(surveyed(angle_is="16 * wheel * 16").recording, by_angle, CAR)


def test_a_drive_is_read_as_it_was_driven_with_noise_where_it_was_asked_for(tmp_path: Path) -> None:
    """Also between samples: inputs that were taken for held ones would be 5 ms late."""
    simulator = Simulator(load_vehicle("hmmwv"), model="eight_dof")
    simulator.reset(vx=12.0)
    profile = InputProfile([0, 5], [0.0, 0.1], [0.1, 0.1], [0.0, 0.0])
    times, outputs = rollout(simulator, profile, 5.0)
    driven = dict(zip(simulator.output_names, outputs.T))
    bag = write_drive(tmp_path / "bag", "bend", times, driven, profile.sample(times), simulator.model.wheels, ["measured/state"],
                      {"vx": 0.1, "yaw_rate": 0.01}, seed=3, linear=True)
    clean = read_series(bag, "vehicle/state", ["vx", "yaw_rate", "roll", "wheel_speeds[2]"])
    noisy = read_series(bag, "measured/state", ["vx", "yaw_rate", "roll"])
    commands = read_series(bag, "control/command", ["steering", "throttle", "brake"])
    np.testing.assert_allclose(clean.time, times, atol=1e-9)
    np.testing.assert_array_equal(clean.values, np.column_stack([driven[name] for name in ("vx", "yaw_rate", "roll", "omega_rl")]))
    np.testing.assert_allclose(commands.values, profile.sample(times), atol=1e-12)
    errors = noisy.values - clean.values[:, :3]
    assert errors.std(axis=0)[:2] == pytest.approx([0.1, 0.01], rel=0.1) and not errors[:, 2].any()
    assert find_recordings([bag])[0].between_rows == "linear"
