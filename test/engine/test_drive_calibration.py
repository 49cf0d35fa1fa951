"""A calibration from one drive, as the cockpit offers it: a vehicle of known tyres drives, and the card's numbers are right."""

import numpy as np
import pytest

from lfdm_ros.calibration.recorded import write_drive
from lfdm_ros.cli.main import main
from lfdm_ros.engine import drive_calibration
from lfdm_ros.engine.background import NORMAL, Share
from lfdm_ros.engine.drive_calibration import DriveCalibration
from lfdm_ros.errors import InputError
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import load_vehicle

MODEL, SPEED = "linear_single_track", 12.0
TRUE = {"cornering_stiffness_front": 1.3, "cornering_stiffness_rear": 0.85}  # of the file's


@pytest.fixture(scope="module")
def drive(tmp_path_factory):
    """A drive of 42 s by a vehicle with other tyres than its file says, and its stiffnesses."""
    file = load_vehicle("hmmwv")
    truth = file.replace(**{name: factor * file.parameters[name] for name, factor in TRUE.items()})
    times = 0.01 * np.arange(4201)
    speed = SPEED + 2.0 * np.sin(0.3 * times)
    angle = 0.03 * np.sin(2.0 * np.pi * 0.2 * times) + 0.02 * np.sin(2.0 * np.pi * 0.7 * times)
    inputs = np.column_stack([angle / truth.parameters["max_road_wheel_angle"], 0 * times, 0 * times, speed])
    channels = ["x", "y", "yaw", "vx", "vy", "yaw_rate"]
    rollout = BatchRollout(model=MODEL, vehicle=truth, dt=0.01, times=times, inputs=inputs, parameters=[], channels=channels,
                           prescribed=["vx"])
    states = dict(zip(channels, rollout.trajectories(np.empty((1, 0)), initial_state(MODEL, truth, vx=SPEED))[0].T))
    states["vx"] = speed
    states["road_wheel_angle"] = angle
    bag = write_drive(tmp_path_factory.mktemp("drive") / "drive", "drive", times,
                      {**states, **{f"omega_{axle}": speed / 0.4 for axle in ("fl", "fr", "rl", "rr")}}, inputs[:, :3], [],
                      noise={}, linear=True)
    return DriveCalibration(str(bag), "hmmwv", MODEL, True, Share(priority=NORMAL)), truth.parameters


@pytest.mark.usefixtures("without_pictures")
def test_from_the_bag_to_before_and_after(drive, monkeypatch):
    calibration, truth = drive
    survey = calibration.survey()
    assert set(TRUE) <= set(survey["expected"]) and survey["expected"]["cornering_stiffness_rear"] < 0.5
    assert any("model linear_single_track" in line for line in survey["reasons"])
    assert main(["calibrate", calibration.recipe, "--bag", calibration.bag, "--out", calibration.result]) == 0
    learned = {row["name"]: row for row in calibration.learned()}
    assert set(learned) == set(TRUE)
    for name, row in learned.items():
        lower, mean, upper = row["posterior"]
        assert row["prior"][0] < lower < mean < upper < row["prior"][2] and row["unit"] == "N/rad"
        assert abs(mean - truth[name]) < 0.02 * truth[name]
    # The survey was by a child; this process has what another one would import anew.
    monkeypatch.setattr(drive_calibration, "output_of", lambda words, share: main([*words[len(drive_calibration.LFDM):]]))
    comparison = calibration.compare()
    before, after = comparison["errors"]["yaw_rate"]
    assert after < 0.2 * before
    curves = comparison["channels"]["yaw_rate"]
    columns = zip(*(curves[key] for key in ("measured", "before", "after", "lower", "upper")))
    known = np.array([column for column in columns if None not in column], float)
    assert len(known) > 100 and None in curves["measured"] and None not in curves["time"]
    errors = np.abs(known[:, 1:3] - known[:, :1]).mean(axis=0)
    assert errors[1] < 0.2 * errors[0]
    assert ((known[:, 3] <= known[:, 0]) & (known[:, 0] <= known[:, 4])).mean() > 0.8


def test_a_bag_that_is_none(tmp_path):
    with pytest.raises(InputError, match="nothing"):
        DriveCalibration(str(tmp_path / "nothing"), "hmmwv", MODEL, share=Share(priority=NORMAL)).survey()
