"""Vehicle models: the equations, each written once, and a registry by name."""

from lfdm_ros.models.declaration import WHEELS, Field, Model
from lfdm_ros.models.registry import SLOTS, all_parameters, chassis_slots, get_model, model_names, usual_spec

__all__ = ["SLOTS", "WHEELS", "Field", "Model", "all_parameters", "chassis_slots", "get_model", "model_names",
           "usual_spec"]
