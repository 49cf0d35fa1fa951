"""Laps over ice that only the simulator knows, on the running graph."""

from __future__ import annotations

import os
from pathlib import Path

import domains
import pytest

from lfdm_lab.stacks.learning_laps import laps


@pytest.mark.usefixtures("compiled")
def test_the_second_lap_is_slower_onto_the_ice_and_stays_in_the_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole graph in lockstep: nobody but the simulator was told of the ice."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domains.other()))
    first, second = laps(2, bag=tmp_path / "laps", speed=0.0, overrides={
        "stepping": "lockstep", "ground_learner.priority": "normal", "scan_patience": 60.0})
    assert second.entry < first.entry - 0.1 and second.sideslip.max() < first.sideslip.max()
    assert second.out.max() <= min(first.out.max(), 0.1)
    assert second.known is not None and second.known.median.friction_at(98.8, 12.0) < 0.4
    assert os.listdir(tmp_path / "laps")
