"""The sections of a vehicle file and the declarations (unit, range, description) of what stands in them."""

from __future__ import annotations

from lfdm_ros.models import Field, get_model, model_names
from lfdm_ros.models.powertrain import MAP_POINTS

# Every parameter of every model, by name. A parameter that two models share is declared once and means the same in both.
DECLARED: dict[str, Field] = {field.name: field for name in model_names() for field in get_model(name).parameters}

SECTIONS: dict[str, tuple[str, ...]] = {
    "chassis": ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "unsprung_load_share", "roll_inertia", "yaw_inertia",
                "roll_yaw_inertia", "cg_to_front_axle", "cg_to_rear_axle", "cg_height", "track_front", "track_rear"),
    "suspension": ("roll_centre_drop_front", "roll_centre_drop_rear", "roll_stiffness_front", "roll_stiffness_rear",
                   "roll_damping_front", "roll_damping_rear"),
    "wheels": ("wheel_inertia", "wheel_radius"),
    "tyre": ("tyre_vertical_stiffness_front", "tyre_vertical_stiffness_rear", "rolling_resistance",
             "longitudinal_stiffness_front", "longitudinal_stiffness_rear", "cornering_stiffness_front",
             "cornering_stiffness_rear", "friction_max", "friction_min", "friction_scale"),
    "powertrain": ("driveline_ratio",),
    "brakes": ("brake_torque_front", "brake_torque_rear"),
    "steering": ("max_road_wheel_angle",),
}

# Tables of the file: section, key -> (column -> parameter stem). Column 0 must rise; the table is padded by its last row.
TABLES: dict[tuple[str, str], dict[str, str]] = {
    ("powertrain", "motor_map"): {"speed": "motor_speed", "torque": "motor_torque"},
}
TABLE_POINTS = MAP_POINTS
