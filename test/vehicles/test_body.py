"""Outline, mounts and actuators of vehicle files: what is given, what is derived, what is refused, and where old names lead."""

from dataclasses import astuple
from pathlib import Path

import pytest
import yaml

from lfdm_ros.cli.drive import parse_changes
from lfdm_ros.cli.main import main
from lfdm_ros.control.settings import SETTINGS
from lfdm_ros.errors import InputError
from lfdm_ros.resources import find_config, share_directory
from lfdm_ros.vehicles import Actuators, Mount, load_vehicle, save_vehicle
from lfdm_ros.vehicles.body import MOVED, PARAMETERS, SECTIONS, moved

SHIPPED = sorted(path.stem for path in (share_directory() / "config" / "vehicles").glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_constants_for_controllers_of_others(name):
    vehicle = load_vehicle(name)
    of, p = vehicle.constants, vehicle.parameters
    assert of.vehicle == vehicle.name and of.wheelbase == of.front_axle + of.rear_axle == p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    assert of.outline == vehicle.footprint and of.actuators == vehicle.actuators and of.mass > 0.0 and 0.1 < of.full_lock < 1.2


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_vehicles_say_what_they_are_and_where_it_is_from(name, tmp_path):
    vehicle = load_vehicle(name)
    outline, p = vehicle.footprint, vehicle.parameters
    assert not vehicle.assumed
    assert all(vehicle.sources[key] for key in PARAMETERS if key in p)
    # The wheels are inside, and the whole is no longer than road vehicles are.
    wheelbase = p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    assert outline.front > p["cg_to_front_axle"] and outline.rear > p["cg_to_rear_axle"]
    assert 1.3 < (outline.front + outline.rear) / wheelbase < 2.0 and 2.0 * outline.half_width > p.get("track_front", 0.0)
    assert -outline.rear < vehicle.lidar.x < outline.front
    save_vehicle(vehicle, tmp_path / "again.yaml")
    again = load_vehicle(tmp_path / "again.yaml")
    assert (again.footprint, again.lidar, again.actuators) == (outline, vehicle.lidar, vehicle.actuators)


def small(tmp_path: Path, **sections: dict) -> Path:
    """The HMMWV's file with other sections around the equations."""
    document = yaml.safe_load(find_config("vehicles", "hmmwv").read_text())
    for section in SECTIONS:
        del document[section]
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump({**document, **sections}))
    return path


def test_a_file_without_a_body_loads_and_says_what_it_is_taken_for(tmp_path, capsys):
    vehicle = load_vehicle(small(tmp_path))
    assert astuple(vehicle.footprint) == pytest.approx((1.6 * 1.6889, 1.6 * 1.6889, 0.6 * 1.82))
    assert vehicle.lidar == Mount(1.6889, z=0.713) and vehicle.actuators == Actuators(steering_rate=0.8)
    assert "has no body in its file: taken as 5.4 x 2.18 m, overhangs of 0.3 wheelbases" in vehicle.assumed
    assert main(["vehicle", "show", str(tmp_path / "small.yaml")]) == 0
    assert "not in the file, so: overhangs of 0.3 wheelbases" in capsys.readouterr().out


def test_lengths_stay_with_the_axles():
    laden = load_vehicle("hmmwv", ["cg_to_front_axle=1.8", "cg_to_rear_axle = 1.5778"])
    assert astuple(laden.footprint) == pytest.approx((2.5111, 2.2889, 1.1)) and laden.lidar.x == pytest.approx(1.1111)


@pytest.mark.parametrize(("sections", "words"), [
    ({"body": {"front_overhang": {"value": 0.9, "unit": "m"}}}, "missing key 'rear_overhang', which a body needs"),
    ({"body": {"front_overhang": {"value": -0.1, "unit": "m"}, "rear_overhang": {"value": 1.0, "unit": "m"},
               "overall_width": {"value": 2.0, "unit": "m"}}}, r"front_overhang = -0.1 m is outside \[0, 20\]"),
    ({"actuators": {"steering_rate": {"value": 0.0, "unit": "1/s"}}}, "steering_rate = 0 1/s is outside"),
    ({"actuators": {"steering_lag": {"value": 0.1, "unit": "m"}}}, "steering_lag"),
    ({"chassis_": {}}, "unknown key 'chassis_'"),
])
def test_what_no_body_is_is_refused_with_file_and_key(sections, words, tmp_path):
    with pytest.raises(InputError, match=words) as info:
        load_vehicle(small(tmp_path, **sections))
    assert "small.yaml" in str(info.value) and "\n" not in str(info.value)


@pytest.mark.parametrize(("change", "words"), [
    ("sprung_mass", "write NAME=VALUE"), ("mass=3", "unknown parameter 'mass'"), ("sprung_mass=heavy", "must be a number in kg"),
    ("overall_width=1e9", "outside"), ("sprung_mass=[1, 2]", "must be a number in kg"),
])
def test_changes_that_no_vehicle_has_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        load_vehicle("hmmwv", [change])


def test_old_names_say_where_the_value_is_now():
    assert moved("front_overhang").startswith("it is of the vehicle now: body.front_overhang in its file (from the front axle")
    for name, now in MOVED.items():
        with pytest.raises(InputError, match=rf"--set {name}=1: it is of the vehicle now: \w+\.{now} .* lfdm drive --change {now}=VALUE"):
            parse_changes([f"{name}=1"], [SETTINGS])
