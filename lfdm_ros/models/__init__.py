"""Vehicle models: the equations, each written once, and a registry by name that others may add to."""

from lfdm_ros.models.chassis import Contact
from lfdm_ros.models.declaration import WHEELS, Field, Model, Part
from lfdm_ros.models.registry import (
    SLOTS,
    Chassis,
    all_parameters,
    chassis_slots,
    get_model,
    model_names,
    register_chassis,
    register_model,
    register_part,
    usual_spec,
)

__all__ = ["SLOTS", "WHEELS", "Chassis", "Contact", "Field", "Model", "Part", "all_parameters", "chassis_slots", "get_model", "model_names",
           "register_chassis", "register_model", "register_part", "usual_spec"]
