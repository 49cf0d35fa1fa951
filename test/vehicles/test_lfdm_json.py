"""Import of LFDM's JSON: every number of its files arrives, and files that are wrong are refused with file and key."""

import json
import math

import pytest

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.vehicles import import_lfdm, load_vehicle, save_vehicle

RPM = math.pi / 30

# What the keys of a force table mean, spelled out: they are easily mixed up.
TABLE = {
    "dfx0Pn": "tmeasy_longitudinal_slope_nominal", "dfx0P2n": "tmeasy_longitudinal_slope_double",
    "fxmPn": "tmeasy_longitudinal_peak_force_nominal", "fxmP2n": "tmeasy_longitudinal_peak_force_double",
    "sxmPn": "tmeasy_longitudinal_peak_slip_nominal", "sxmP2n": "tmeasy_longitudinal_peak_slip_double",
    "fxsPn": "tmeasy_longitudinal_sliding_force_nominal", "fxsP2n": "tmeasy_longitudinal_sliding_force_double",
    "sxsPn": "tmeasy_longitudinal_sliding_slip_nominal", "sxsP2n": "tmeasy_longitudinal_sliding_slip_double",
    "dfy0Pn": "tmeasy_lateral_slope_nominal", "dfy0P2n": "tmeasy_lateral_slope_double",
    "fymPn": "tmeasy_lateral_peak_force_nominal", "fymP2n": "tmeasy_lateral_peak_force_double",
    "symPn": "tmeasy_lateral_peak_slip_nominal", "symP2n": "tmeasy_lateral_peak_slip_double",
    "fysPn": "tmeasy_lateral_sliding_force_nominal", "fysP2n": "tmeasy_lateral_sliding_force_double",
    "sysPn": "tmeasy_lateral_sliding_slip_nominal", "sysP2n": "tmeasy_lateral_sliding_slip_double",
    "pn": "tyre_nominal_load", "pnmax": "tyre_maximum_load", "cx": "carcass_stiffness_longitudinal",
    "cy": "carcass_stiffness_lateral", "dx": "carcass_damping_longitudinal", "dy": "carcass_damping_lateral",
}
SCALARS = {
    "m": "sprung_mass", "a": "cg_to_front_axle", "b": "cg_to_rear_axle", "h": "cg_height", "jz": "yaw_inertia", "jx": "roll_inertia",
    "jy": "pitch_inertia", "jxz": "roll_yaw_inertia", "cf": "track_front", "cr": "track_rear", "hrcf": "roll_centre_drop_front",
    "hrcr": "roll_centre_drop_rear", "krof": "roll_stiffness_front", "kror": "roll_stiffness_rear", "brof": "roll_damping_front",
    "bror": "roll_damping_rear", "maxSteer": "max_road_wheel_angle",
}
WHEEL = {"jw": "wheel_inertia", "r0": "wheel_radius", "rr": "rolling_resistance_coefficient",
         "rdyncoPn": "rolling_radius_weight_nominal", "rdyncoP2n": "rolling_radius_weight_double"}
CASES = [("11dof/HMMWV", "vehicle", "tmeasy"), ("11dof/Sedan", "vehicle", "tmeasyNr"), ("18dof/HMMWV", "vehicle", "tmeasy"),
         ("18dof/HMMWV", "vehicle", "tmeasyNr"), ("18dof/Sedan", "vehicle", "tmeasy"), ("18dof/Sedan", "vehicle_RWD", "tmeasyNr"),
         ("24dof/HMMWV", "vehicle", "tmeasy"), ("24dof/Sedan", "vehicle", "tmeasyNr"), ("24dof/Sedan", "vehicle_RWD", "tmeasy")]

# A vehicle with what the library's HMMWV and Sedan do not have: a steering map, no drive type, a throttle that scales the map.
SMALL = {"a": 0.27, "b": 0.2, "m": 5.76, "h": 0.082, "jz": 0.35, "muf": 0.6, "mur": 0.59, "nonLinearSteer": True,
         "steerMap": [[-1, -0.4], [0, 0.01], [1, 0.38]], "maxSteer": 0.44, "upshiftRPM": 10000, "downshiftRPM": -10000,
         "gearRatios": [0.17], "torqueMap": [[-100, 0.16], [1600, 0.08]], "lossesMap": [[-100, -0.005], [1600, -0.012]],
         "tcBool": False, "maxBrakeTorque": 4, "throttleMod": True}
TYRE = {"highLevelParams": True, "jw": 4.5, "rr": 0.015, "r0": 0.3266, "mu": 0.9, "rdyncoPn": 0.375, "rdyncoP2n": 0.75,
        "width": 0.245, "rimRadius": 0.2286, "loadIndex": 97, "vehicleType": "Passenger"}


@pytest.fixture
def folder(reference_data):
    return reference_data / "lfdm_chrono_hmmwv_xy" / "json"


def write(tmp_path, vehicle=SMALL, tyre=TYRE, suspension=None):
    paths = []
    for name, node in (("car.json", vehicle), ("tyre.json", tyre), ("springs.json", suspension)):
        if node is not None:
            paths.append(tmp_path / name)
            paths[-1].write_text(node if isinstance(node, str) else json.dumps(node))
    return paths


def refused(paths, *words):
    with pytest.raises(InputError) as error:
        import_lfdm(*paths)
    for word in words:
        assert str(word) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("place, vehicle, tyre", CASES)
def test_every_number_of_the_files_arrives(folder, place, vehicle, tyre):
    files = [folder / place / f"{name}.json" for name in (vehicle, tyre)]
    v, t = (json.loads(path.read_text()) for path in files)
    imported, notes = import_lfdm(*files)
    p = imported.parameters
    assert notes == [] and imported.name == place.split("/")[1] and imported.conventions == "lfdm"
    expected = {name: v[key] for key, name in SCALARS.items() if key in v} | {name: t[key] for key, name in WHEEL.items()}
    if "cx" in t:
        expected |= {name: t[key] for key, name in TABLE.items()}
        expected |= dict(tyre_vertical_stiffness_front=t["kt"], tyre_vertical_stiffness_rear=t["kt"], friction_scale=1.0)
    else:
        expected |= dict(friction_scale=t["mu"], coulomb_speed=t["vCoulomb"], coulomb_blend_begin=t["frblendBegin"],
                         coulomb_blend_end=t["frblendEnd"])
    expected |= dict(unsprung_mass_front=2 * v["muf"], unsprung_mass_rear=2 * v["mur"], unsprung_load_share=0.5,
                     brake_torque_front=v["maxBrakeTorque"], brake_torque_rear=v["maxBrakeTorque"], gear_count=len(v["gearRatios"]),
                     throttle_modulation=0.0, differential_bias=2.0, front_drive_share=0.5 if v.get("4wd", True) else 0.0)
    # Tables, to the end of the padding.
    shifts = v.get("shiftMap") or [[v["downshiftRPM"], v["upshiftRPM"]]] * len(v["gearRatios"])
    columns = {("gear_ratio", 8): v["gearRatios"], ("downshift_speed", 8): [down * RPM for down, _ in shifts],
               ("upshift_speed", 8): [up * RPM for _, up in shifts],
               ("engine_speed", 24): [speed * RPM for speed, _ in v["torqueMap"]], ("engine_torque", 24): [y for _, y in v["torqueMap"]],
               ("loss_speed", 16): [speed * RPM for speed, _ in v["lossesMap"]], ("loss_torque", 16): [y for _, y in v["lossesMap"]]}
    if v["tcBool"]:
        expected["crank_inertia"] = v["crankInertia"]
        columns |= {("converter_speed_ratio", 8): [x for x, _ in v["capacityFactorMap"]],
                    ("converter_capacity", 8): [y for _, y in v["capacityFactorMap"]],
                    ("converter_torque_speed_ratio", 8): [x for x, _ in v["torqueRatioMap"]],
                    ("converter_torque_ratio", 8): [y for _, y in v["torqueRatioMap"]]}
    for (stem, points), values in columns.items():
        expected |= {f"{stem}_{i}": values[min(i, len(values) - 1)] for i in range(points)}
    assert {name: p[name] for name in expected} == expected  # exactly: runs are compared with the library's to 1e-5
    assert ("crank_inertia" in p) == v["tcBool"] and ("roll_inertia" in p) == ("jx" in v)
    assert imported.default_tyre == ("tmeasy" if "cx" in t else "tmeasy_nr")


def test_size_becomes_a_table(folder):
    """Load index 97 is 730 kg; test_tyre_size works out the rest by hand."""
    p = import_lfdm(folder / "18dof/Sedan/vehicle.json", folder / "18dof/Sedan/tmeasyNr.json")[0].parameters
    assert p["tyre_nominal_load"] == 0.5 * (730 * 9.81)
    assert p["tyre_vertical_stiffness_front"] == pytest.approx(730 * 9.81 / (0.16 * 0.098), rel=1e-14)
    assert p["tmeasy_lateral_peak_force_double"] == 0.91367 * 2.0 * (0.5 * (730 * 9.81))
    assert p["tmeasy_lateral_peak_slip_double"] == 0.18504


@pytest.mark.parametrize("place, vehicle, tyre", CASES)
def test_import_save_load_is_the_identity(folder, tmp_path, place, vehicle, tyre):
    imported, _ = import_lfdm(folder / place / f"{vehicle}.json", folder / place / f"{tyre}.json",
                              folder / place / "suspension.json" if place.startswith("24") else None, name="v")
    save_vehicle(imported, tmp_path / "v.yaml")
    assert load_vehicle(tmp_path / "v.yaml") == imported
    assert all(imported.sources[name] for name in imported.parameters)


@pytest.mark.parametrize("place, tyre, springs, specs", [
    ("11dof/HMMWV", "tmeasy", False, ["eleven_dof/tmeasy/automatic/lfdm"]),
    ("18dof/HMMWV", "tmeasy", False, ["eleven_dof/tmeasy/automatic/lfdm", "eighteen_dof/tmeasy/automatic/lfdm"]),
    ("18dof/Sedan", "tmeasyNr", False, ["eleven_dof/tmeasy_nr/gearbox/lfdm", "eighteen_dof/tmeasy_nr/gearbox/lfdm"]),
    ("24dof/HMMWV", "tmeasy", True, ["eleven_dof/tmeasy/automatic/lfdm", "twenty_four_dof/tmeasy/automatic/lfdm"]),
    ("24dof/HMMWV", "tmeasy", False, ["eleven_dof/tmeasy/automatic/lfdm"]),
])
def test_models_of_an_imported_vehicle(folder, place, tyre, springs, specs):
    files = [folder / place / f"{name}.json" for name in ("vehicle", tyre, *(["suspension"] if springs else []))]
    vehicle, _ = import_lfdm(*files)
    found = []
    for chassis in ("eleven_dof", "eighteen_dof", "twenty_four_dof"):
        try:
            found.append(vehicle.model(chassis).name)
        except InputError:
            continue
    assert found == specs


def test_springs_are_the_same_at_all_wheels(folder):
    p = import_lfdm(*(folder / "24dof/HMMWV" / f"{name}.json" for name in ("vehicle", "tmeasy", "suspension")))[0].parameters
    assert p["suspension_stiffness_front"] == p["suspension_stiffness_rear"] == 150000.0
    assert p["suspension_damping_front"] == p["suspension_damping_rear"] == 19015.5692


def test_steering_map_and_defaults(tmp_path):
    vehicle, _ = import_lfdm(*write(tmp_path))
    p = vehicle.parameters
    assert [p[f"steering_angle_{i}"] for i in (0, 1, 2, 11)] == [-0.4, 0.01, 0.38, 0.38]
    assert p["max_road_wheel_angle"] == 0.44 and "steering_map" in vehicle.parts("steering")
    assert p["throttle_modulation"] == 1.0 and p["downshift_speed_0"] == -10000 * RPM
    assert p["front_drive_share"] == 0.5 and "default" in vehicle.sources["front_drive_share"]
    assert (p["coulomb_speed"], p["coulomb_blend_begin"], p["coulomb_blend_end"]) == (1.0, 1.0, 3.0)


def test_map_of_a_vehicle_that_steers_linearly_is_not_used(tmp_path):
    vehicle, _ = import_lfdm(*write(tmp_path, SMALL | {"nonLinearSteer": False}))
    assert vehicle.parts("steering") == ("linear",)


@pytest.mark.parametrize("drive, share", [({"4wd": True, "rearWheels": False}, 0.5), ({"4wd": False, "rearWheels": True}, 0.0),
                                          ({"4wd": False, "rearWheels": False}, 1.0)])
def test_drive(tmp_path, drive, share):
    assert import_lfdm(*write(tmp_path, SMALL | drive))[0].parameters["front_drive_share"] == share


def test_table_without_relaxation(folder, tmp_path):
    """A force table without carcass is for TMeasyNr, which then has the library's own friction coefficient."""
    table = json.loads((folder / "18dof/HMMWV/tmeasy.json").read_text())
    tyre = {key: value for key, value in table.items() if key not in ("cx", "cy", "dx", "dy")}
    for node in (tyre, tyre | {"highLevelParams": False}):
        vehicle, _ = import_lfdm(*write(tmp_path, tyre=node))
        assert vehicle.default_tyre == "tmeasy_nr" and vehicle.parts("tyre") == ("tmeasy_nr",)
        assert vehicle.parameters["friction_scale"] == 0.8 and vehicle.parameters["tmeasy_lateral_slope_nominal"] == table["dfy0Pn"]


def test_capacity_and_pressures(tmp_path):
    tyre = {key: value for key, value in TYRE.items() if key != "loadIndex"} | {
        "maximumBearingCapacity": 7000.0, "inflationPressureDesign": 2.0e5, "inflationPressureUse": 1.0e5, "vehicleType": "Truck"}
    p = import_lfdm(*write(tmp_path, tyre=tyre))[0].parameters
    assert p["tyre_nominal_load"] == pytest.approx(3500.0 * 0.5 ** 0.8, rel=1e-12)
    assert p["tmeasy_lateral_peak_slip_nominal"] == 0.33167


def test_unknown_keys_are_told(tmp_path):
    _, notes = import_lfdm(*write(tmp_path, SMALL | {"comment": "x", "c0": 0, "step": 1}, TYRE | {"colour": "black"}))
    assert len(notes) == 2 and "car.json: ignored the unknown key 'comment'" in notes[0] and "'colour'" in notes[1]


@pytest.mark.parametrize("change, words", [
    ({"jz": None}, ("jz", "finite number", "None")), ({"m": float("nan")}, ("m", "finite number", "nan")),
    ({"m": float("inf")}, ("m", "finite number")), ({"m": "heavy"}, ("m", "finite number", "heavy")), ({"m": True}, ("m", "finite number")),
    ({"m": -1.0}, ("m", "sprung_mass = -1", "outside")), ({"muf": -1.0}, ("muf", "unsprung_mass_front", "outside")),
    ({"tcBool": 1}, ("tcBool", "true or false")), ({"jx": 1.0}, ("missing key 'cf'",)), ({"krof": 1.0}, ("missing key 'jxz'",)),
    ({"gearRatios": []}, ("gearRatios", "list")), ({"gearRatios": [0.1, "x"]}, ("gearRatios", "'x'")),
    ({"gearRatios": [0.1] * 9}, ("9 rows", "1 to 8")), ({"gearRatios": [-0.1]}, ("gear_ratio_0", "outside")),
    ({"torqueMap": [[0, 1], [1]]}, ("torqueMap, row 2", "2 numbers", "[1]")), ({"torqueMap": [[0, 1], 5]}, ("torqueMap, row 2",)),
    ({"torqueMap": {"0": 1}}, ("torqueMap", "list of rows")), ({"torqueMap": [[0, 1]]}, ("torqueMap", "1 rows", "2 to 24")),
    ({"torqueMap": [[0, 1], [float("nan"), 2]]}, ("torqueMap, row 2", "nan")),
    ({"torqueMap": [[5, 1], [0, 2]]}, ("torqueMap", "must not fall")),
    ({"lossesMap": [[i, 0] for i in range(17)]}, ("lossesMap", "17 rows", "2 to 16")),
    ({"steerMap": [[i / 6 - 1, 0] for i in range(13)]}, ("steerMap", "13 rows", "2 to 12")),
    ({"tcBool": True}, ("missing key 'crankInertia'",)), ({"4wd": False}, ("missing key 'rearWheels'",)),
    ({"throttleMOD": True, "throttleMod": ...}, ("unknown key 'throttleMOD'", "'throttleMod'")),
    ({"maxBrakeTorque": ...}, ("missing key 'maxBrakeTorque'",)),
    ({"upshiftRPM": ...}, ("missing key 'shiftMap'",)),
    ({"upshiftRPM": ..., "shiftMap": [[1, 2]], "gearRatios": [0.1, 0.2]}, ("shiftMap has 1 rows for 2 gears",)),
])
def test_wrong_vehicle_files(tmp_path, change, words):
    """`...` takes a key out."""
    vehicle = {key: value for key, value in (SMALL | change).items() if value is not ...}
    refused(write(tmp_path, vehicle), tmp_path / "car.json", *words)


@pytest.mark.parametrize("change, words", [
    ({"vehicleType": "Tractor"}, ("vehicleType", "Truck, Passenger", "Tractor")), ({"vehicleType": ...}, ("missing key 'vehicleType'",)),
    ({"loadIndex": 300}, ("load index 300",)), ({"loadIndex": 97.5}, ("loadIndex", "whole number")),
    ({"loadIndex": ...}, ("missing key 'maximumBearingCapacity'",)), ({"rimRadius": 0.4}, ("section height",)),
    ({"mu": ...}, ("missing key 'mu'",)), ({"r0": float("nan")}, ("r0", "nan")),
    ({"highLevelParams": "yes"}, ("highLevelParams", "true or false")), ({"highLevelParams": False}, ("missing key 'pn'",)),
])
def test_wrong_tyre_files(tmp_path, change, words):
    tyre = {key: value for key, value in (TYRE | change).items() if value is not ...}
    refused(write(tmp_path, tyre=tyre), tmp_path / "tyre.json", *words)


def test_carcass_must_be_whole(folder, tmp_path):
    table = json.loads((folder / "18dof/HMMWV/tmeasy.json").read_text())
    del table["dy"]
    refused(write(tmp_path, tyre=table), tmp_path / "tyre.json", "missing key 'dy'")


@pytest.mark.parametrize("vehicle, tyre, suspension, words", [
    (TYRE, TYRE, None, ("car.json: this is a tyre file", "a vehicle file is expected")),
    (SMALL, SMALL, None, ("tyre.json: this is a vehicle file", "a tyre file is expected")),
    (SMALL, TYRE, TYRE, ("springs.json: this is a tyre file", "a suspension file is expected")),
    (SMALL, TYRE, {"ks": 1.0}, ("springs.json", "missing key 'bs'")),
    (SMALL, TYRE, {"ks": -1.0, "bs": 1.0}, ("springs.json", "suspension_stiffness_front", "outside")),
    ("{", TYRE, None, ("car.json: not readable JSON",)), ("[1]", TYRE, None, ("car.json: expected an object",)),
    ('{"m": 1, "m": 2}', TYRE, None, ("car.json", "'m'", "twice")), (SMALL, "", None, ("tyre.json: not readable JSON",)),
])
def test_wrong_files(tmp_path, vehicle, tyre, suspension, words):
    refused(write(tmp_path, vehicle, tyre, suspension), *words)


def test_missing_file(tmp_path):
    refused((tmp_path / "none.json", tmp_path / "none.json"), "none.json: no such file, which should be JSON")


# -- And back -------------------------------------------------------------------------------------------------------------------


def returned(vehicle, folder):
    """A vehicle through the library's files, by the command."""
    save_vehicle(vehicle, folder / "car.yaml")
    assert main(["vehicle", "lfdm", str(folder / "car.yaml"), "--out", str(folder / "json")]) == 0
    paths = [folder / "json" / f"{name}.json" for name in ("vehicle", "tmeasy", "tmeasyNr", "suspension")]
    return import_lfdm(*(path for path in paths if path.exists()))


@pytest.mark.parametrize("place, vehicle, tyre", [case for case in CASES if case[2] == "tmeasy"])
def test_what_came_from_the_library_goes_back_to_it(folder, tmp_path, capsys, place, vehicle, tyre):
    """Every parameter, and without a note."""
    paths = [folder / place / f"{name}.json" for name in (vehicle, tyre, "suspension")]
    imported, _ = import_lfdm(*(path for path in paths if path.exists()))
    again, notes = returned(imported, tmp_path)
    assert notes == [] and "note" not in capsys.readouterr().err
    assert again.parameters.keys() == imported.parameters.keys()
    assert dict(again.parameters) == pytest.approx(dict(imported.parameters), rel=1e-12)
    assert again.default_tyre == imported.default_tyre


def test_a_steering_map_and_one_driven_axle_go_back(tmp_path, capsys):
    """A tyre by size becomes the table that it stands for; its friction has no place in it."""
    imported, _ = import_lfdm(*write(tmp_path, {**SMALL, "4wd": False, "rearWheels": True, "crankInertia": 0.1}))
    again, _ = returned(imported, tmp_path)
    told = capsys.readouterr().err
    assert "friction_scale: 0.8 is built into the library, 0.9 has no place in its files" in told
    kept = {name: value for name, value in imported.parameters.items() if name != "friction_scale"}
    assert {name: again.parameters[name] for name in kept} == pytest.approx(kept, rel=1e-12)


def test_what_the_library_cannot_be_given_is_said(tmp_path, capsys):
    vehicle = load_vehicle("sedan").replace(brake_torque_front=3000.0, brake_torque_rear=2000.0, front_drive_share=0.3)
    save_vehicle(vehicle, tmp_path / "car.yaml")
    assert main(["vehicle", "lfdm", str(tmp_path / "car.yaml"), "--out", str(tmp_path / "json")]) == 0
    told = capsys.readouterr().err
    assert "brake_torque: the library has one for both axles; 3000 and 2000 became their mean" in told
    assert "front_drive_share: 0.3 became 0.5" in told
    assert main(["vehicle", "lfdm", "genesis", "--out", str(tmp_path / "other")]) == 2
    assert "vehicle 'genesis' is none of LFDM's: it lacks" in capsys.readouterr().err and not (tmp_path / "other").exists()
