"""A friction field that nobody saw, learned from driving over it: right where the vehicle drove, not known elsewhere."""

from __future__ import annotations

import numpy as np

from lfdm_lab.studies.felt_friction import LINK, PRIOR, VEHICLE, laps, learned
from lfdm_ros.ground.friction_estimator import FrictionEstimator


def test_hidden_fields_are_found_where_the_vehicle_drove() -> None:
    felt = FrictionEstimator(VEHICLE, LINK, PRIOR)
    fields = [learned(seed, 12.0, felt) for seed in (101, 102, 103, 104)]
    for one in fields:
        assert one.error < 0.35 * one.prior_error
        assert one.lost < 0.01  # far beside the way the prior is left
    z = np.concatenate([one.z for one in fields])
    assert len(z) > 200
    # Four drives, on each of which errors go together; docs/ground.md has the coverage of twenty.
    assert 0.8 < np.mean(np.abs(z) < 1.645) < 0.98


def test_ice_is_met_once() -> None:
    """In the first lap the vehicle slides out of its lane; in the second, which knows what was felt, it stays in it."""
    twice = laps()
    assert twice.first.outside > 0.5 and twice.second.outside == 0.0
    assert twice.second.sideslip < 0.6 * twice.first.sideslip
    there, before, after = twice.learned.friction_at([98.8, 60.0, 110.0], [12.0, 0.0, 80.0])
    assert there < 0.35 and min(before, after) > 0.9
