"""Vehicle models: the equations, each written once, and a registry by name that others may add to."""

from lfdm_ros.models.declaration import AXLES, WHEELS, Chassis, Field, Model, Part, per_wheel
from lfdm_ros.models.equations import Contact, Dynamics, Operations, Patch, Record, TyreForce, Wheel, functions_of
from lfdm_ros.models.registry import (
    SLOTS,
    all_parameters,
    chassis_slots,
    get_model,
    model_names,
    register_chassis,
    register_model,
    register_part,
    usual_spec,
)

__all__ = ["AXLES", "SLOTS", "WHEELS", "Chassis", "Contact", "Dynamics", "Field", "Model", "Operations", "Part", "Patch", "Record",
           "TyreForce", "Wheel", "all_parameters", "chassis_slots", "functions_of", "get_model", "model_names", "per_wheel",
           "register_chassis", "register_model", "register_part", "usual_spec"]
