"""A real slippery floor, felt by a car whose tyres are known from an ordinary one. The recipe's calibration is left out here: its tyres are
those of the car's file within their deviations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lfdm_lab.studies.slippery_floor import INTERVAL, LEARNED, ORDINARY, PREDICTED, SLIPPERY, drive_of, errors_of, feel, gentle
from lfdm_ros.bags import import_recording
from lfdm_ros.ground import FieldTable
from lfdm_ros.resources import find_config
from lfdm_ros.vehicles import load_vehicle

TRIM, LAG = {ORDINARY: 0.02, SLIPPERY: 0.018}, {ORDINARY: 0.077, SLIPPERY: 0.109}  # [1], [s] as direct fits find them
DART = load_vehicle("dart")


@pytest.fixture(scope="module")
def bags(reference_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, source = tmp_path_factory.mktemp("dart"), reference_data / "dart_rc_vicon_real"
    if not source.is_dir():
        pytest.skip(f"no recordings of DART at {source}")
    for name in (ORDINARY, SLIPPERY):
        import_recording(source / f"{name}.csv", find_config("recordings", "dart"), folder / name)
    return {name: folder / name for name in (ORDINARY, SLIPPERY)}


def test_the_slippery_floor_is_felt_to_hold_less_and_is_predicted_better_for_it(bags: dict[str, Path]) -> None:
    drive, other = (drive_of(bags[SLIPPERY], TRIM[SLIPPERY], LAG[SLIPPERY], spans[SLIPPERY]) for spans in (LEARNED, PREDICTED))
    felt = feel(DART, {}, gentle(drive))
    # A fit to the same half has half of the ordinary floor's friction; what is felt across is what the motor leaves of it.
    assert 0.3 < felt.friction.low < felt.friction.median < felt.friction.high < 0.6
    table = FieldTable(felt.field)
    before, after = (errors_of(vehicle, other, 0.2) for vehicle in (DART, DART.replace(friction_field=table.number)))
    assert (after < 0.97 * before).all()


def test_the_ordinary_floor_is_one_among_what_it_may_be(bags: dict[str, Path]) -> None:
    """Driven slowly: that it is none of ice is all that is known."""
    felt = feel(DART, {}, drive_of(bags[ORDINARY], TRIM[ORDINARY], LAG[ORDINARY], LEARNED[ORDINARY]))
    assert 0.3 < felt.friction.low < 1.0 < felt.friction.high and felt.friction.high - felt.friction.low > 0.3


def test_steering_acts_late_and_off_by_the_trim(bags: dict[str, Path]) -> None:
    at_once, late = (drive_of(bags[SLIPPERY], 0.0, lag, LEARNED[SLIPPERY]) for lag in (0.0, 0.2))
    steering = at_once.inputs[:, 0]
    expected = np.zeros(len(steering))
    expected[0] = late.inputs[0, 0]
    fine = np.interp(np.arange(0.0, at_once.times[-1], 0.005), at_once.times, steering)
    y = expected[0]
    for k, u in enumerate(fine):
        y += (1.0 - np.exp(-0.005 / 0.2)) * (u - y)
        if k % round(INTERVAL / 0.005) == 0:
            expected[k // round(INTERVAL / 0.005)] = y
    np.testing.assert_allclose(late.inputs[20:-2, 0], expected[20:-2], atol=0.03)
