"""A vehicle as validated, immutable parameters; YAML in and out."""

from lfdm_ros.vehicles.vehicle import Vehicle
from lfdm_ros.vehicles.yaml_file import load_vehicle, save_vehicle

__all__ = ["Vehicle", "load_vehicle", "save_vehicle"]
