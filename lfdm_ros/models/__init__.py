"""Vehicle models: the equations, each written once, and a registry by name."""

from lfdm_ros.models.declaration import WHEELS, Field, Model
from lfdm_ros.models.registry import get_model, model_names

__all__ = ["WHEELS", "Field", "Model", "get_model", "model_names"]
