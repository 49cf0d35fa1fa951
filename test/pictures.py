"""Reports without their pictures, which are half of a short calibration: for tests that look at something else.

The reports that test_summary.py, the predictions of test_calibrate.py and what runs in other processes write have theirs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def left_out() -> Iterator[None]:
    """What this process reports meanwhile has no pictures."""
    from lfdm_ros.calibration import plots

    drawing = [name for name, function in vars(plots).items() if getattr(function, "__annotations__", {}).get("return") is plots.Figure]
    assert drawing
    with pytest.MonkeyPatch.context() as patch:
        for name in drawing:
            patch.setattr(plots, name, lambda *args: None)
        patch.setattr(plots, "to_png", lambda figure: "data:,")
        yield
