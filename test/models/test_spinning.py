"""One measure of a spin: what the rollouts count is what a drive is judged by."""

import math

import numpy as np

from lfdm_ros.models.spinning import SLOW, SPIN, sideslip


def test_rollouts_and_judges_agree_on_a_spin() -> None:
    """The rollouts' way to ask, without an angle: |vy| >= tan(spin) max(|vx|, SLOW)."""
    rng = np.random.default_rng(1)
    for vx, vy in rng.uniform(-20.0, 20.0, (500, 2)).tolist():
        assert (sideslip(vx, vy) >= SPIN) == (abs(vy) >= math.tan(SPIN) * max(abs(vx), SLOW))
    assert sideslip(0.1, 0.5) < SPIN < sideslip(0.1, 2.0) and sideslip(-8.0, 0.0) == 0.0  # creeps, slides, backs
