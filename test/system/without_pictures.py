"""A plug-in (LFDM_PLUGINS) that leaves pictures out of the reports of other processes, as pictures.left_out does in this one."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lfdm_ros import plugins

if TYPE_CHECKING:
    import pytest


def leave_out(patch: "pytest.MonkeyPatch") -> None:
    """Leaves pictures out of the reports of processes that begin meanwhile."""
    plugins.load({})  # this process has none of it
    patch.setenv(plugins.VARIABLE, __file__)


class NoPictures(ModuleType):
    """Stands in for lfdm_ros.calibration.plots, without Matplotlib."""

    @staticmethod
    def to_png(figure: None) -> str:
        return "data:,"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: None


if __name__.startswith("lfdm_ros_plugin_"):
    sys.modules["lfdm_ros.calibration.plots"] = NoPictures("lfdm_ros.calibration.plots")
