"""Reports without their pictures, which are half of a short calibration: for tests that look at something else.

The reports that test_summary.py and the predictions of test_calibrate.py write have theirs. As a plug-in (LFDM_PLUGINS) this file leaves
them out of the reports of another process.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class NoPictures(ModuleType):
    """Stands in for lfdm_ros.calibration.plots, without Matplotlib."""

    @staticmethod
    def to_image(figure: None) -> str:
        return '<img alt="" src="data:,">'

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: None


@contextmanager
def left_out() -> Iterator[None]:
    """What this process reports meanwhile has no pictures."""
    import pytest

    from lfdm_ros.calibration import report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "plots", NoPictures("plots"))
        yield


def leave_out(patch: Any) -> None:
    """Leaves pictures out of the reports of processes that begin meanwhile."""
    from lfdm_ros import plugins

    plugins.load({})  # this process has none of it
    patch.setenv(plugins.VARIABLE, __file__)


if __name__.startswith("lfdm_ros_plugin_"):
    sys.modules["lfdm_ros.calibration.plots"] = NoPictures("lfdm_ros.calibration.plots")
