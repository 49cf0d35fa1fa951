"""How steering and yaw rate go together in a recording: what was put into it is found, with noise, gaps and clocks that differ."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from lfdm_ros.bags import import_recording
from lfdm_ros.calibration.survey import survey
from lfdm_ros.inference.dataset import find_recordings
from lfdm_ros.vehicles import typical_vehicle

GAIN, WHEELBASE = 0.88, 2.7


@pytest.fixture
def surveyed(tmp_path):
    """Returns surveyed(late, ...): what is found in a log of 120 s, whose steering is stamped `late` s, in a file of its own."""

    def run(late=0.0, noise=0.0, sign=1.0, frequencies=(0.05, 0.13, 0.31, 0.52, 0.9), gap=False):
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
        if gap:
            rows = rows[(times < 50.0) | (times > 58.0)]
        np.savetxt(tmp_path / "log.csv", rows, delimiter=",", header="t,vx,yaw_rate")
        np.savetxt(tmp_path / "steering.csv", np.column_stack([steering_times + late, np.rad2deg(16.0 * angles)]), delimiter=",",
                   header="t,hand_wheel")
        sources = {"log": {"file": "{recording}.csv", "time": {"column": "t"}, "columns": {"t": "s", "vx": "m/s", "yaw_rate": "rad/s"}},
                   "steering": {"file": "steering.csv", "time": {"column": "t"}, "columns": {"t": "s", "hand_wheel": "deg"}}}
        fields = {"vx": "vx", "yaw_rate": "yaw_rate", "road_wheel_angle": "steering.hand_wheel / 16"}
        (tmp_path / "mapping.yaml").write_text(yaml.safe_dump({"sources": sources, "topics": {
            "vehicle/state": {"type": "lfdm_ros/msg/VehicleState", "from": "log", "fields": fields}}}))
        import_recording(tmp_path / "log.csv", tmp_path / "mapping.yaml", tmp_path / "bag")
        return survey(find_recordings([tmp_path / "bag"])[0], typical_vehicle("car", 1500.0, WHEELBASE))

    return run


@pytest.mark.parametrize("late", [-0.9, -0.2, 0.0, 0.4, 0.9, 1.6])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_clocks_that_differ_are_found(surveyed, late, noise):
    found = surveyed(late, noise, gap=True)
    assert found.behind == pytest.approx(-late, abs=0.03)
    assert found.gain == pytest.approx(GAIN, rel=0.02 if noise == 0.0 else 0.06)


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.6, 1.0])
def test_noise_of_the_steering_does_not_draw_the_gain_to_nothing(surveyed, noise):
    """A regression on the noisy angle would give GAIN / (1 + noise^2)."""
    assert surveyed(noise=noise).gain == pytest.approx(GAIN, rel=0.1)


def test_a_sign_is_no_delay(surveyed):
    found = surveyed(sign=-1.0)
    assert (found.behind, found.gain) == pytest.approx((0.0, -GAIN), abs=0.03)


def test_in_a_slalom_the_nearest_of_shifts_that_agree_is_told(surveyed):
    assert surveyed(0.3, 0.1, frequencies=(0.5,)).behind == pytest.approx(-0.3, abs=0.05)
