"""The study of what smaller models learn: recordings that a study makes, and a model that learns itself without rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lfdm_lab.studies import reduction
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


def test_a_model_that_is_the_truth_learns_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """8-DOF on recordings of 8-DOF: the unknowns come out as they were, and little is left of the error on what was not recorded."""
    monkeypatch.setattr(reduction, "TRUTH", "eight_dof/fiala")
    run = reduction.work("reduction_8dof")
    p = load_vehicle(reduction.VEHICLE).parameters
    truths = {name: p[name] for name in ("cornering_stiffness_front", "cornering_stiffness_rear", "yaw_inertia", "rolling_resistance",
                                         "max_road_wheel_angle")}
    truths["roll_stiffness"] = p["roll_stiffness_front"] + p["roll_stiffness_rear"]
    for name, truth in truths.items():
        assert run["learned"][name]["mean"] == pytest.approx(truth, abs=3.5 * run["learned"][name]["sd"], rel=2e-3), name
    for manoeuvre in run["unseen"].values():
        for channel, row in manoeuvre["channels"].items():
            # The recordings do not say how the roll stiffness is shared between the axles.
            assert row["error"] < (0.1 if channel == "loads" else 0.05) * row["size"] + 1e-9, channel
        assert manoeuvre["end"] < 0.5
    text = reduction.table([run])
    assert "lane_change" in text and "| yaw_inertia [kg*m^2] |" in text
