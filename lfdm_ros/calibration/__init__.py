"""Bayesian calibration: recordings and priors in, posterior, vehicle file and report out.

`load_recipe` and `calibrate` do the job of `lfdm calibrate`, `predict` that of `lfdm predict`; `load_posterior_summary` reads what a
posterior publishes. PyMC and ArviZ are imported when a calibration is run, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lfdm_ros.calibration.progress import Progress
    from lfdm_ros.calibration.recipe import load_recipe
    from lfdm_ros.calibration.results import load_posterior_summary
    from lfdm_ros.calibration.run import calibrate
    from lfdm_ros.calibration.validation import predict
    from lfdm_ros.inference.plan import Recipe

_HOME = {"Recipe": "..inference.plan", "load_recipe": ".recipe", "calibrate": ".run", "Progress": ".progress", "predict": ".validation",
         "load_posterior_summary": ".results"}
__all__ = ["Progress", "Recipe", "calibrate", "load_posterior_summary", "load_recipe", "predict"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_HOME[name], __name__), name)
