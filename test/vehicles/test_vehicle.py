"""Vehicle files and vehicles: what they hold, what is refused with file and key, and which model a vehicle is."""

from dataclasses import astuple

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lfdm_ros.errors import InputError
from lfdm_ros.models.registry import get_model
from lfdm_ros.resources import find_config
from lfdm_ros.vehicles import Vehicle, load_vehicle, save_vehicle
from lfdm_ros.vehicles.schema import DECLARED, GROUPS, SECTIONS, TABLES, VECTORS, components, keys_of

SHIPPED = ("hmmwv", "hmmwv_shafts", "sedan", "sedan_rwd", "audi", "art", "dart", "genesis")


@pytest.fixture
def document():
    return yaml.safe_load(find_config("vehicles", "hmmwv").read_text())


@pytest.fixture
def shafts():
    return yaml.safe_load(find_config("vehicles", "hmmwv_shafts").read_text())


@pytest.fixture
def sedan():
    return yaml.safe_load(find_config("vehicles", "sedan").read_text())


def write(tmp_path, document):
    path = tmp_path / "car.yaml"
    path.write_text(yaml.dump(document))
    return path


def refused(path, words):
    with pytest.raises(InputError) as error:
        load_vehicle(path)
    for word in (str(path), *words):
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_a_base_gives_what_a_file_lacks(tmp_path):
    path = tmp_path / "laden.yaml"
    path.write_text("base: hmmwv\nchassis: {sprung_mass: {value: 3.0, unit: t}}\n"
                    "sensors: {rear: {type: camera, pitch: {value: 5, unit: deg}}}\n")
    plain, laden = load_vehicle("hmmwv"), load_vehicle(path)
    assert laden.name == "laden" and laden.default_tyre == plain.default_tyre
    assert laden.parameters == {**plain.parameters, "sprung_mass": 3000.0}
    assert laden.sensor_mounts["rear"].pitch == pytest.approx(0.08727, abs=1e-5)
    save_vehicle(laden, tmp_path / "saved.yaml")
    assert load_vehicle(tmp_path / "saved.yaml").sensor_mounts == laden.sensor_mounts
    for text, words in (("base: hmwv", ["hmwv"]), ("base: [1]", ["base"]), (f"base: {path}", ["base", "unknown key"])):
        (tmp_path / "car.yaml").write_text(text)
        with pytest.raises(InputError) as error:
            load_vehicle(tmp_path / "car.yaml")
        assert all(word in str(error.value) for word in words)


# -- The schema ---------------------------------------------------------------------------------------------------


def test_every_declared_parameter_stands_in_one_section():
    keys = [(section, key) for section, of_section in SECTIONS.items() for key in of_section]
    scalars = [name for at in keys if at not in TABLES for name in (components(at[1]) if at[1] in VECTORS else at[1:])]
    cells = [name for table in TABLES.values() for column in table.columns for name in table.parameters(column)]
    counts = [table.count for table in TABLES.values() if table.count]
    assert sorted(scalars + cells + counts) == sorted(DECLARED)


def test_groups_name_groups_and_tables_have_room():
    assert all(needed in GROUPS for group in GROUPS.values() for needed in group.needs)
    assert {key: table.points for (_, key), table in TABLES.items()} == {
        "motor_map": 6, "gears": 8, "engine_map": 24, "losses": 16, "converter_capacity": 8, "converter_torque": 8, "steering_map": 12,
        "spring_front": 24, "spring_rear": 24, "stop_front": 12, "stop_rear": 12}


def test_keys_of_parameters_name_a_table_once():
    assert keys_of(["motor_speed_0", "motor_torque_3", "gear_count", "gear_ratio_1", "cg_height"]) == ["motor_map", "gears", "cg_height"]
    assert keys_of(["tie_rod_inner_front_x", "tie_rod_inner_front_y"]) == ["tie_rod_inner_front"]


# -- Files --------------------------------------------------------------------------------------------------------


def test_hmmwv_is_table_2_of_paper_000():
    p = load_vehicle("hmmwv").parameters
    table = dict(sprung_mass=2097.85, unsprung_mass_front=2 * 127.866, unsprung_mass_rear=2 * 129.98, roll_inertia=1289,
                 yaw_inertia=4519, cg_to_front_axle=1.6889, cg_height=0.713, track_front=1.82,
                 tyre_vertical_stiffness_front=326332, wheel_radius=0.47, wheel_inertia=11)
    assert {name: p[name] for name in table} == pytest.approx(table)


def test_points_are_three_numbers(tmp_path):
    """Of the multibody's file: in inches there, in metres here, and the same again after it is written."""
    vehicle = load_vehicle("hmmwv_multibody")
    p = vehicle.parameters
    assert [p[name] for name in components("lower_ball_joint_rear")] == pytest.approx([0.0254 * v for v in (1.40, 30.965, -4.65)])
    assert p["damper_rebound_rear"] == pytest.approx(200.0 * 175.12677, rel=1e-6)
    assert (p["stop_compression_front_10"], p["stop_force_front_10"]) == pytest.approx((0.06, 125e3))
    save_vehicle(vehicle, tmp_path / "again.yaml")
    assert load_vehicle(tmp_path / "again.yaml").parameters == p
    document = yaml.safe_load((tmp_path / "again.yaml").read_text())
    document["suspension"]["tie_rod_outer_rear"]["value"] = [0.1, 0.8]
    with pytest.raises(InputError, match=r"suspension\.tie_rod_outer_rear: 2 numbers; give three, along x, y and z"):
        load_vehicle(write(tmp_path, document))
    del document["suspension"]["tie_rod_outer_rear"]
    with pytest.raises(InputError, match="missing key 'tie_rod_outer_rear', which a vehicle with double wishbones needs"):
        load_vehicle(write(tmp_path, document))


def test_units_are_converted(tmp_path, document):
    document["chassis"]["sprung_mass"] = {"value": 2.0, "unit": "tonne"}
    document["powertrain"]["motor_map"]["speed"] = {"value": [0, 6000], "unit": "rpm"}
    document["steering"]["max_road_wheel_angle"] = {"value": 30, "unit": "deg"}
    p = load_vehicle(write(tmp_path, document)).parameters
    assert p["sprung_mass"] == pytest.approx(2000)
    assert p["motor_speed_1"] == p["motor_speed_5"] == pytest.approx(628.3185307)
    assert p["max_road_wheel_angle"] == pytest.approx(0.5235987756)


def test_gears_are_counted_and_tables_padded_by_their_last_row():
    p = load_vehicle("hmmwv_shafts").parameters
    assert p["gear_count"] == 3
    assert [p[f"gear_ratio_{i}"] for i in range(8)] == [0.04, 0.08, 0.16, 0.16, 0.16, 0.16, 0.16, 0.16]
    assert p["upshift_speed_0"] == pytest.approx(261.799388) and p["engine_torque_23"] == p["engine_torque_19"] == -344.0
    assert p["engine_speed_0"] == pytest.approx(-10.471976)


def test_small_file_has_only_what_is_there(tmp_path, document):
    """Mass, cornering stiffness and a steering angle are enough for a single-track model, and for nothing else."""
    for section in ("suspension", "wheels", "powertrain", "brakes", "body", "sensors", "actuators", "default_tyre"):
        del document[section]
    keep = {"chassis": ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear", "yaw_inertia", "cg_to_front_axle", "cg_to_rear_axle"),
            "tyre": ("cornering_stiffness_front", "cornering_stiffness_rear")}
    for section, keys in keep.items():
        document[section] = {key: document[section][key] for key in keys}
    vehicle = load_vehicle(write(tmp_path, document))
    assert sorted(vehicle.parameters) == sorted([*keep["chassis"], *keep["tyre"], "max_road_wheel_angle"])
    assert astuple(vehicle.footprint) == pytest.approx((1.6 * 1.6889, 1.6 * 1.6889, 3.3778 / 3.0))  # from the wheelbase
    assert vehicle.parts("tyre") == vehicle.parts("powertrain") == ()
    assert vehicle.vector(vehicle.model("linear_single_track")).size == 9
    with pytest.raises(InputError, match="'hmmwv' cannot be a nonlinear_bicycle: lacks friction_front, friction_rear"):
        vehicle.model("nonlinear_bicycle")
    with pytest.raises(InputError, match=r"has no fiala tyre: lacks .*friction_max.*; it has: no tyre"):
        vehicle.model("eleven_dof")
    save_vehicle(vehicle, tmp_path / "again.yaml")
    assert load_vehicle(tmp_path / "again.yaml") == vehicle


@pytest.mark.parametrize("name", SHIPPED)
def test_round_trip(tmp_path, name):
    vehicle = load_vehicle(name).replace(cornering_stiffness_front=43210.5, source="posterior mean")
    save_vehicle(vehicle, tmp_path / "v.yaml")
    again = load_vehicle(tmp_path / "v.yaml")
    assert again == vehicle
    assert again.sources["cornering_stiffness_front"] == "posterior mean"


def test_round_trip_of_conventions(tmp_path):
    base = load_vehicle("sedan")
    vehicle = Vehicle("v", base.parameters, "", base.sources, "lfdm", "tmeasy_nr")
    save_vehicle(vehicle, tmp_path / "v.yaml")
    assert load_vehicle(tmp_path / "v.yaml") == vehicle


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_round_trip_of_any_numbers(tmp_path, data):
    """Whatever the values within their ranges: a saved file gives every one back to the last digit."""
    base = load_vehicle(data.draw(st.sampled_from(("hmmwv_shafts", "dart"))))
    plain = [name for name in base.parameters if name in keys_of([name])]  # no tables: their first column must not fall
    changes = {}
    for name in data.draw(st.lists(st.sampled_from(plain), min_size=1, max_size=5, unique=True)):
        f = DECLARED[name]
        changes[name] = data.draw(st.floats(max(f.lower, -1e9), min(f.upper, 1e9), exclude_min=f.strict, exclude_max=f.strict,
                                            allow_nan=False))
    vehicle = base.replace(source="drawn", **changes)
    save_vehicle(vehicle, tmp_path / "v.yaml")
    assert load_vehicle(tmp_path / "v.yaml") == vehicle


def test_immutable():
    vehicle = load_vehicle("hmmwv")
    with pytest.raises(TypeError):
        vehicle.parameters["sprung_mass"] = 1.0
    with pytest.raises(AttributeError):
        vehicle.name = "other"
    assert vehicle.replace(sprung_mass=1.0).parameters["sprung_mass"] == 1.0 != vehicle.parameters["sprung_mass"]


@pytest.mark.parametrize("break_it, words", [
    (lambda d: d["chassis"].update(sprungmass={"value": 1, "unit": "kg"}), ("chassis", "unknown key 'sprungmass'", "'sprung_mass'")),
    (lambda d: d["tyre"].update(roll_inertia={"value": 1, "unit": "kg"}), ("tyre", "'roll_inertia'", "belongs in section chassis")),
    (lambda d: d.update(engine={}), ("unknown key 'engine'",)),
    (lambda d: d["chassis"].pop("yaw_inertia"), ("chassis", "missing key 'yaw_inertia'")),
    (lambda d: d["chassis"].pop("track_rear"), ("chassis", "missing key 'track_rear'", "a body that rolls")),
    (lambda d: d.pop("wheels"), ("wheels: missing key 'wheel_inertia'", "wheels that turn")),
    (lambda d: d["brakes"].pop("brake_torque_rear"), ("brakes: missing key 'brake_torque_rear'", "wheels that turn")),
    (lambda d: d.pop("chassis"), ("missing key 'chassis'",)),
    (lambda d: d.update(chassis=None), ("missing key 'chassis'",)),
    (lambda d: d.update(wheels=None), ("wheels", "expected a mapping")),
    (lambda d: d.update(suspension=None), ("suspension", "expected a mapping")),
    (lambda d: d.pop("suspension"), ("suspension", "missing key 'roll_centre_drop_front'")),
    (lambda d: d["tyre"].pop("friction_min"), ("tyre", "missing key 'friction_min'", "a Fiala tyre")),
    (lambda d: d["tyre"].pop("cornering_stiffness_rear"), ("tyre", "missing key 'cornering_stiffness_rear'")),
    (lambda d: d["tyre"].pop("carcass_damping_lateral"), ("tyre", "missing key 'carcass_damping_lateral'", "with relaxation")),
    (lambda d: d["tyre"].pop("tmeasy_lateral_slope_double"), ("tyre", "missing key 'tmeasy_lateral_slope_double'", "TMeasy")),
    (lambda d: d["powertrain"].pop("driveline_ratio"), ("powertrain", "missing key 'driveline_ratio'", "a motor")),
    (lambda d: d["powertrain"].update(crank_inertia={"value": 1, "unit": "kg*m^2"}),
     ("powertrain", "missing key 'converter_capacity'", "torque converter")),
    (lambda d: d["chassis"]["cg_height"].update(unit="kg"), ("chassis.cg_height", "unit 'kg'", "'m'")),
    (lambda d: d["chassis"]["cg_height"].update(unit="furlongx"), ("chassis.cg_height", "furlongx")),
    (lambda d: d["chassis"]["sprung_mass"].update(value=-1), ("sprung_mass", "-1", "outside")),
    (lambda d: d["chassis"]["sprung_mass"].update(value=float("nan")), ("chassis.sprung_mass", "nan")),
    (lambda d: d["chassis"]["sprung_mass"].update(value="heavy"), ("sprung_mass", "heavy")),
    (lambda d: d["chassis"].update(sprung_mass=2000), ("sprung_mass", "value")),
    (lambda d: d["powertrain"]["motor_map"]["torque"].update(value=[1.0]), ("motor_map", "same length", "speed has 2, torque has 1")),
    (lambda d: d["powertrain"]["motor_map"]["speed"].update(value=[10.0, 0.0]), ("motor_map", "speed", "fall")),
    (lambda d: d["powertrain"]["motor_map"].update(speed={"value": [*range(7)], "unit": "rpm"}, torque={"value": [1] * 7, "unit": "N*m"}),
     ("motor_map", "7 rows; give 2 to 6")),
    (lambda d: d["powertrain"]["motor_map"].update(torqe=1), ("motor_map", "unknown key 'torqe'", "'torque'")),
    (lambda d: d["powertrain"]["motor_map"].pop("torque"), ("motor_map", "missing key 'torque'")),
    (lambda d: d.update(conventions="nature"), ("conventions", "physics, lfdm", "nature")),
    (lambda d: d.update(default_tyre="pacejka"), ("default_tyre", "fiala, tmeasy, tmeasy_nr", "pacejka")),
    (lambda d: [d.update(default_tyre="fiala"), [d["tyre"].pop(k) for k in [*d["tyre"]] if k in GROUPS["fiala"].keys["tyre"]]],
     ("default_tyre is fiala", "lacks", "friction_min")),
])
def test_bad_files_are_refused_with_file_and_key(tmp_path, document, break_it, words):
    break_it(document)
    refused(write(tmp_path, document), words)


@pytest.mark.parametrize("break_it, words", [
    (lambda p: [column.update(value=[1.0] * 9) for column in p["gears"].values()],
     ("powertrain.gears", "9 rows; give 1 to 8")),
    (lambda p: p["gears"]["ratio"].update(value=[0.1]), ("powertrain.gears", "same length")),
    (lambda p: p.pop("losses"), ("powertrain", "missing key 'losses'", "gearbox")),
    (lambda p: p.pop("converter_torque"), ("powertrain", "missing key 'converter_torque'", "torque converter")),
    (lambda p: p.update(motor_map={}, driveline_ratio={"value": 1, "unit": "1"}), ("powertrain", "motor_map and gears")),
    (lambda p: p["engine_map"]["speed"]["value"].reverse(), ("powertrain.engine_map", "speed must not fall")),
])
def test_bad_gearboxes_are_refused(tmp_path, shafts, break_it, words):
    break_it(shafts["powertrain"])
    refused(write(tmp_path, shafts), words)


@pytest.mark.parametrize("break_it, words", [
    (lambda t: t["size"].update(vehicle_type="tractor"), ("tyre.size", "passenger, truck", "tractor")),
    (lambda t: t["size"].update(load_index=300), ("tyre.size", "load index 300", "0 to 279")),
    (lambda t: t["size"].update(load_index=97.5), ("tyre.size.load_index", "whole number")),
    (lambda t: t["size"].pop("load_index"), ("tyre.size", "load_index or load_capacity")),
    (lambda t: t["size"].pop("rim_radius"), ("tyre.size", "aspect_ratio or rim_radius")),
    (lambda t: t["size"].pop("vehicle_type"), ("tyre.size", "missing key 'vehicle_type'")),
    (lambda t: t["size"].update(width={"value": 0.2, "unit": "m"}), ("tyre.size", "width and aspect_ratio")),
    (lambda t: t["size"]["rim_radius"].update(value=-0.2), ("tyre.size", "rim_radius must be above 0")),
    (lambda t: t["size"].update(pressure={"value": 2, "unit": "bar"}), ("tyre.size", "pressure and design_pressure")),
    (lambda t: t["size"]["rim_radius"].update(value=0.4), ("tyre.size", "section height", "above 0")),
    (lambda t: t["size"].update(widht=1), ("tyre.size", "unknown key 'widht'", "'width'")),
    (lambda t: t.update(tyre_nominal_load={"value": 1, "unit": "N"}), ("tyre.size", "tyre_nominal_load", "one of the two")),
])
def test_bad_sizes_are_refused(tmp_path, sedan, break_it, words):
    break_it(sedan["tyre"])
    refused(write(tmp_path, sedan), words)


def test_size_leaves_a_given_stiffness_alone(tmp_path, sedan):
    sedan["tyre"]["tyre_vertical_stiffness_rear"] = {"value": 200, "unit": "kN/m"}
    p = load_vehicle(write(tmp_path, sedan)).parameters
    assert p["tyre_vertical_stiffness_rear"] == 2e5 and p["tyre_vertical_stiffness_front"] == pytest.approx(456715.56, rel=1e-7)


def test_size_by_capacity_ratio_and_pressure(tmp_path, sedan):
    """730 kg, 0.098 m of section height: the same tyre said in other words, then driven at half its pressure."""
    plain = load_vehicle("sedan").parameters
    size = sedan["tyre"]["size"]
    del size["load_index"], size["rim_radius"]
    size["load_capacity"] = {"value": 730 * 9.81, "unit": "N"}
    size["width"] = {"value": 245, "unit": "mm"}
    size["aspect_ratio"] = {"value": 0.4, "unit": "1"}
    same = load_vehicle(write(tmp_path, sedan)).parameters
    assert {name: same[name] for name in plain} == pytest.approx(dict(plain), rel=1e-12)
    size.update(pressure={"value": 1.1, "unit": "bar"}, design_pressure={"value": 220, "unit": "kPa"})
    soft = load_vehicle(write(tmp_path, sedan)).parameters
    assert soft["tyre_nominal_load"] == pytest.approx(plain["tyre_nominal_load"] * 0.5743491775, rel=1e-9)
    for name in ("tyre_vertical_stiffness_front", "tmeasy_lateral_peak_slip_nominal"):
        assert soft[name] == pytest.approx(plain[name])


def test_a_list_is_no_vehicle(tmp_path):
    refused(write(tmp_path, [1, 2]), ("expected a mapping",))


def test_unknown_names_say_what_there_is():
    with pytest.raises(InputError, match="hmmwv"):
        load_vehicle("hummer")
    with pytest.raises(InputError, match="cornering_stiffness_front"):
        load_vehicle("hmmwv").replace(cornering_stifness_front=1.0)
    with pytest.raises(InputError, match="outside"):
        Vehicle("v", {"sprung_mass": 0.0})


# -- Which model a vehicle is -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, chassis, tyre, spec", [
    ("hmmwv", "eight_dof", None, "eight_dof"),
    ("hmmwv", "eighteen_dof", "tmeasy", "eighteen_dof/tmeasy"),
    ("hmmwv", "twenty_four_dof", "tmeasy_nr", "twenty_four_dof/tmeasy_nr"),
    ("hmmwv_shafts", "twenty_four_dof", None, "twenty_four_dof/tmeasy/automatic"),
    ("hmmwv_shafts", "eighteen_dof/gearbox", None, "eighteen_dof/tmeasy/gearbox"),
    ("hmmwv_shafts", "eighteen_dof/lfdm/fiala", None, "eighteen_dof/automatic/lfdm"),
    ("sedan", "eleven_dof", None, "eleven_dof/tmeasy_nr/gearbox"),
    ("audi", "eighteen_dof", None, "eighteen_dof/tmeasy/gearbox"),
    ("art", "eighteen_dof", None, "eighteen_dof/tmeasy/gearbox/steering_map"),
    ("art", "eighteen_dof/linear", "fiala", "eighteen_dof/gearbox"),
    ("dart", "eight_dof", None, "eight_dof/steering_map"),
    ("genesis", "nonlinear_bicycle", None, "nonlinear_bicycle"),
    ("dart", "linear_single_track", None, "linear_single_track"),
])
def test_spec(name, chassis, tyre, spec):
    vehicle = load_vehicle(name)
    assert vehicle.spec(chassis, tyre) == get_model(spec).name
    model = vehicle.model(chassis, tyre)
    assert model.name == vehicle.spec(chassis, tyre)
    assert list(vehicle.vector(model)) == [vehicle.parameters[f.name] for f in model.parameters]


def test_conventions_go_into_the_spec():
    base = load_vehicle("sedan")
    vehicle = Vehicle("v", base.parameters, conventions="lfdm")
    assert vehicle.spec("eighteen_dof") == get_model("eighteen_dof/fiala/gearbox/lfdm").name  # no default tyre: the first it has
    assert vehicle.spec("eighteen_dof/physics") == get_model("eighteen_dof/gearbox").name


@pytest.mark.parametrize("name, chassis, tyre, words", [
    ("dart", "eighteen_dof", "tmeasy", ("'dart' has no tmeasy tyre", "tyre_nominal_load", "more", "it has: fiala")),
    ("dart", "eighteen_dof/gearbox", None, ("'dart' has no gearbox powertrain", "gears", "it has: motor")),
    ("genesis", "eight_dof/steering_map", None, ("no steering_map steering: lacks steering_map", "it has: linear")),
    ("audi", "twenty_four_dof", None, ("'audi' cannot be a twenty_four_dof", "pitch_inertia", "suspension_stiffness_front")),
    ("hmmwv", "twelve_dof", None, ("no model", "twelve_dof", "eighteen_dof")),
    ("hmmwv", "eight_dof/turbine", None, ("turbine",)),
    ("hmmwv", "eight_dof", "pacejka", ("tyre must be one of fiala, tmeasy, tmeasy_nr", "pacejka")),
    ("hmmwv", "eight_dof/fiala", "tmeasy", ("already names a tyre", "'tmeasy'")),
    ("hmmwv", "linear_single_track", "tmeasy", ("linear_single_track", "its own tyre")),
])
def test_models_that_a_vehicle_is_not(name, chassis, tyre, words):
    with pytest.raises(InputError) as error:
        load_vehicle(name).model(chassis, tyre)
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_vector_says_what_is_missing():
    with pytest.raises(InputError, match="'audi' has no motor powertrain: lacks driveline_ratio, motor_map; it has: gearbox"):
        load_vehicle("audi").vector(get_model("eighteen_dof"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_vehicles_say_where_everything_comes_from(name):
    vehicle = load_vehicle(name)
    assert vehicle.name == name and vehicle.description
    assert not [parameter for parameter in vehicle.parameters if not vehicle.sources[parameter]]
    assert vehicle.parts("tyre") and vehicle.parts("powertrain") and vehicle.parts("steering")
    for chassis in ("linear_single_track", "nonlinear_bicycle", "eight_dof/fiala", "eleven_dof", "eighteen_dof"):
        assert vehicle.vector(vehicle.model(chassis)).size
