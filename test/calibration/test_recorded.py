"""Recordings that are written of a simulated drive."""

from pathlib import Path

import numpy as np
import pytest

from lfdm_ros.bags import read_series
from lfdm_ros.calibration.recorded import write_drive
from lfdm_ros.inference.dataset import find_recordings
from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import load_vehicle


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
