"""Vehicle files: what they hold, and what is refused with file and key."""

import pytest
import yaml

from lfdm_ros.errors import InputError
from lfdm_ros.resources import find_config
from lfdm_ros.vehicles import Vehicle, load_vehicle, save_vehicle
from lfdm_ros.vehicles.schema import DECLARED, SECTIONS, TABLE_POINTS, TABLES


@pytest.fixture
def document():
    return yaml.safe_load(find_config("vehicles", "hmmwv").read_text())


def write(tmp_path, document):
    path = tmp_path / "car.yaml"
    path.write_text(yaml.dump(document))
    return path


def test_every_declared_parameter_stands_in_one_section():
    listed = [name for names in SECTIONS.values() for name in names]
    listed += [f"{stem}_{i}" for columns in TABLES.values() for stem in columns.values() for i in range(TABLE_POINTS)]
    assert sorted(listed) == sorted(DECLARED)


def test_hmmwv_is_table_2_of_paper_000():
    p = load_vehicle("hmmwv").parameters
    table = dict(sprung_mass=2097.85, unsprung_mass_front=2 * 127.866, unsprung_mass_rear=2 * 129.98, roll_inertia=1289,
                 yaw_inertia=4519, cg_to_front_axle=1.6889, cg_height=0.713, track_front=1.82,
                 tyre_vertical_stiffness_front=326332, wheel_radius=0.47, wheel_inertia=11)
    assert {name: p[name] for name in table} == pytest.approx(table)


def test_units_are_converted(tmp_path, document):
    document["chassis"]["sprung_mass"] = {"value": 2.0, "unit": "tonne"}
    document["powertrain"]["motor_map"]["speed"] = {"value": [0, 6000], "unit": "rpm"}
    document["steering"]["max_road_wheel_angle"] = {"value": 30, "unit": "deg"}
    p = load_vehicle(write(tmp_path, document)).parameters
    assert p["sprung_mass"] == pytest.approx(2000)
    assert p["motor_speed_1"] == p["motor_speed_5"] == pytest.approx(628.3185307)
    assert p["max_road_wheel_angle"] == pytest.approx(0.5235987756)


def test_round_trip(tmp_path):
    vehicle = load_vehicle("hmmwv").replace(cornering_stiffness_front=43210.5, source="posterior mean")
    save_vehicle(vehicle, tmp_path / "v.yaml")
    again = load_vehicle(tmp_path / "v.yaml")
    assert dict(again.parameters) == dict(vehicle.parameters)
    assert again.sources["cornering_stiffness_front"] == "posterior mean" and again.sources["sprung_mass"] == "000 Table 2"


def test_immutable():
    vehicle = load_vehicle("hmmwv")
    with pytest.raises(TypeError):
        vehicle.parameters["sprung_mass"] = 1.0
    with pytest.raises(AttributeError):
        vehicle.name = "other"
    assert vehicle.replace(sprung_mass=1.0).parameters["sprung_mass"] == 1.0 != vehicle.parameters["sprung_mass"]


@pytest.mark.parametrize("break_it, words", [
    (lambda d: d["chassis"].update(sprungmass={"value": 1, "unit": "kg"}), ("chassis", "unknown key 'sprungmass'")),
    (lambda d: d.update(engine={}), ("unknown key 'engine'",)),
    (lambda d: d["chassis"].pop("yaw_inertia"), ("chassis", "missing key 'yaw_inertia'")),
    (lambda d: d.pop("tyre"), ("missing key 'tyre'",)),
    (lambda d: d["chassis"]["cg_height"].update(unit="kg"), ("chassis.cg_height", "unit 'kg'", "'m'")),
    (lambda d: d["chassis"]["cg_height"].update(unit="furlongx"), ("chassis.cg_height", "furlongx")),
    (lambda d: d["chassis"]["sprung_mass"].update(value=-1), ("sprung_mass", "-1", "outside")),
    (lambda d: d["chassis"]["sprung_mass"].update(value=float("nan")), ("chassis.sprung_mass", "nan")),
    (lambda d: d["chassis"]["sprung_mass"].update(value="heavy"), ("sprung_mass", "heavy")),
    (lambda d: d["chassis"].update(sprung_mass=2000), ("sprung_mass", "value")),
    (lambda d: d["powertrain"]["motor_map"]["torque"].update(value=[1.0]), ("motor_map", "same length")),
    (lambda d: d["powertrain"]["motor_map"]["speed"].update(value=[10.0, 0.0]), ("motor_map", "speed", "fall")),
])
def test_bad_files_are_refused_with_file_and_key(tmp_path, document, break_it, words):
    break_it(document)
    path = write(tmp_path, document)
    with pytest.raises(InputError) as error:
        load_vehicle(path)
    for word in (str(path), *words):
        assert word in str(error.value)
    assert "\n" not in str(error.value)


def test_not_yaml(tmp_path):
    path = tmp_path / "v.yaml"
    path.write_text("a: [1\n b: {")
    with pytest.raises(InputError, match="YAML"):
        load_vehicle(path)


def test_unknown_names_say_what_there_is():
    with pytest.raises(InputError, match="hmmwv"):
        load_vehicle("hummer")
    with pytest.raises(InputError, match="cornering_stiffness_front"):
        load_vehicle("hmmwv").replace(cornering_stifness_front=1.0)
    with pytest.raises(InputError, match="outside"):
        Vehicle("v", {"sprung_mass": 0.0})
