"""Vehicles of CommonRoad: its parameter files (Althoff and Wuersching, "CommonRoad: Vehicle Models", 2020, tables 6 and 7)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lfdm_ros import documents
from lfdm_ros.errors import InputError
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.vehicles.typical import typical_vehicle
from lfdm_ros.vehicles.vehicle import Vehicle

_REQUIRED = ("m", "a", "b", "I_z")
# Keys equivalent to a parameter of this package, both in SI.
_SAME = {"cg_to_front_axle": "a", "cg_to_rear_axle": "b", "yaw_inertia": "I_z", "sprung_mass": "m_s", "unsprung_mass_front": "m_uf",
         "unsprung_mass_rear": "m_ur", "roll_inertia": "I_Phi_s", "pitch_inertia": "I_y_s", "roll_yaw_inertia": "I_xz_s",
         "suspension_stiffness_front": "K_sf", "suspension_damping_front": "K_sdf", "suspension_stiffness_rear": "K_sr",
         "suspension_damping_rear": "K_sdr", "track_front": "T_f", "track_rear": "T_r", "cg_height": "h_s", "wheel_radius": "R_w",
         "wheel_inertia": "I_y_w", "tyre_vertical_stiffness_front": "K_zt", "tyre_vertical_stiffness_rear": "K_zt", "overall_width": "w"}


def import_commonroad(vehicle: str | os.PathLike[str], tyre: str | os.PathLike[str] | None = None, *, name: str = "") -> Vehicle:
    """Reads a CommonRoad vehicle; missing values are typical of a passenger car, as noted in their source.

    Args:
        vehicle: parameters_vehicleN.yaml.
        tyre: parameters_tire.yaml; only slopes at zero slip and peak friction are used, scaled by static loads.
        name: name of the vehicle; by default the stem of its file.

    Raises:
        InputError: a file that cannot be read or lacks m, a, b or I_z (of a tyre p_ky1, p_dy1, p_kx1); a value that is not a number or out
        of range; the message names file and key.
    """
    path = Path(vehicle)
    p = _numbers(path, _REQUIRED)
    given = {ours: p[theirs] for ours, theirs in _SAME.items() if theirs in p}
    if "m_s" not in p:
        given |= {"sprung_mass": p["m"], "unsprung_mass_front": 1e-3 * p["m"], "unsprung_mass_rear": 1e-3 * p["m"]}
        given["sprung_mass"] -= given["unsprung_mass_front"] + given["unsprung_mass_rear"]
    if "l" in p:
        over = 0.5 * (p["l"] - p["a"] - p["b"])
        given |= {"front_overhang": over, "rear_overhang": over}
    for axle, end in (("front", "f"), ("rear", "r")):
        if {f"T_{end}", f"K_s{end}", f"K_sd{end}"} <= set(p):
            arm = 0.5 * p[f"T_{end}"] ** 2
            given[f"roll_stiffness_{axle}"] = arm * p[f"K_s{end}"] + p.get(f"K_ts{end}", 0.0)
            given[f"roll_damping_{axle}"] = arm * p[f"K_sd{end}"]
        if {"h_s", f"h_ra{end}"} <= set(p):
            given[f"roll_centre_drop_{axle}"] = p["h_s"] - p[f"h_ra{end}"]
    if "steering.max" in p:
        given["max_road_wheel_angle"] = p["steering.max"]
        if "steering.v_max" in p:
            given["steering_rate"] = p["steering.v_max"] / p["steering.max"]
    if tyre is not None:
        t = _numbers(Path(tyre), ("tire.p_ky1", "tire.p_dy1", "tire.p_kx1"))
        load = 0.5 * p["m"] * GRAVITY / (p["a"] + p["b"])
        for axle, arm in (("front", p["b"]), ("rear", p["a"])):
            given |= {f"cornering_stiffness_{axle}": -t["tire.p_ky1"] * load * arm, f"friction_{axle}": t["tire.p_dy1"],
                      f"longitudinal_stiffness_{axle}": t["tire.p_kx1"] * load * arm}
        given["friction_max"] = t["tire.p_dy1"]
    found = typical_vehicle(name or path.stem, p["m"], p["a"] + p["b"], given=given, front_share=p["b"] / (p["a"] + p["b"]))
    sources = {key: f"CommonRoad, {path.name}" if key in given else source for key, source in found.sources.items()}
    return Vehicle(found.name, found.parameters, f"imported from CommonRoad: {path.name}", sources, default_tyre=found.default_tyre)


def _numbers(path: Path, required: tuple[str, ...]) -> dict[str, float]:
    """Returns the numbers of a file by key, those of a section as SECTION.KEY."""
    document, _ = documents.read_yaml(path)
    if not isinstance(document, Mapping):
        raise InputError(f"{path}: expected keys with numbers, as CommonRoad's parameter files have")
    flat: dict[str, Any] = {}
    for key, value in document.items():
        flat |= {f"{key}.{inner}": number for inner, number in value.items()} if isinstance(value, Mapping) else {str(key): value}
    found = {key: documents.number(value, f"{path}: {key}") for key, value in flat.items() if isinstance(value, int | float)}
    missing = [key for key in required if key not in found]
    if missing:
        raise InputError(f"{path}: lacks {', '.join(missing)}; a parameter file of CommonRoad has {', '.join(required)}")
    return found
