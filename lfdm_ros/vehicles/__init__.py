"""A vehicle as validated, immutable parameters; YAML in and out, the JSON of the C++ library LFDM in."""

from lfdm_ros.vehicles.body import Actuators, Description, Footprint, Mount
from lfdm_ros.vehicles.lfdm_json import import_lfdm
from lfdm_ros.vehicles.motor_map import with_motor_map
from lfdm_ros.vehicles.typical import CLASSES, typical_vehicle
from lfdm_ros.vehicles.vehicle import Vehicle
from lfdm_ros.vehicles.yaml_file import load_vehicle, save_vehicle

__all__ = ["CLASSES", "Actuators", "Description", "Footprint", "Mount", "Vehicle", "import_lfdm", "load_vehicle", "save_vehicle",
           "typical_vehicle", "with_motor_map"]
