"""Named soils, and what a wrong file says."""

import math

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground.soils import load_soil, soil_names
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.vehicles import load_vehicle

SAND = """
name: mine
frictional_modulus: {value: 1528, unit: kN/m^(n+2), source: a test}
cohesive_modulus: {value: 0.99, unit: kN/m^(n+1)}
sinkage_exponent: {value: 1.1, unit: "1"}
cohesion: {value: 1.04, unit: kPa}
friction_angle: {value: 28, unit: deg}
shear_modulus_x: {value: 25, unit: mm}
"""


def written(path, text):
    path.write_text(text)
    return path


def test_units_and_what_is_left_out(tmp_path):
    soil, shipped = load_soil(written(tmp_path / "mine.yaml", SAND)), load_soil("dry_sand")
    assert soil.frictional_modulus == pytest.approx(1.528e6) and soil.cohesive_modulus == pytest.approx(990.0)
    assert soil.friction_angle == pytest.approx(math.radians(28.0)) and soil.shear_modulus_y == soil.shear_modulus_x == 0.025
    assert soil.modulus(0.318) == pytest.approx(1.528e6 + 990.0 / 0.318)
    assert {name: soil.parameters[name] for name in soil.parameters} == shipped.parameters
    assert soil.sources["frictional_modulus"] == "a test" and shipped.sources["frictional_modulus"]


def test_every_soil_that_ships_is_one_of_the_ground():
    """Each with a source for each value."""
    soils = [load_soil(name) for name in soil_names()]
    assert len(soils) >= 20
    vehicle = load_vehicle("hmmwv")
    for name, soil in zip(soil_names(), soils):
        assert soil.name == name and soil.description
        assert all(soil.sources[key] for key in soil.sources)
        on = vehicle.replace(**soil.parameters)
        assert on.parameters["soil_cohesion"] == soil.cohesion
        assert set(soil.parameters) == {field.name for field in SLOTS["ground"]["soil"].parameters}


@pytest.mark.parametrize(("old", "new", "message"), [
    ("value: 1.04", "value: -1", r"mine.yaml: cohesion = -1000 N/m\^2 is outside \[0, 1e\+06\]"),
    ("value: 28", "value: 90", r"mine.yaml: friction_angle = 1.5708 rad is outside \[0, 1.2\]"),
    ("value: 1.1", "value: .nan", "mine.yaml: sinkage_exponent: expected a finite number, found nan"),
    ("cohesion:", "cohesoin:", "mine.yaml: unknown key 'cohesoin' .did you mean 'cohesion'"),
    ("unit: kN/m^(n+2)", "unit: kPa", r"mine.yaml: frictional_modulus: unit 'kPa' does not fit, write one as kN/m\^\(n\+2\)"),
    ("unit: kN/m^(n+2)", "unit: kg/m^(n+2)", "mine.yaml: frictional_modulus: unit 'kg/m.2' does not fit"),
    ("cohesion: {value: 1.04, unit: kPa}", "", "mine.yaml: missing key 'cohesion'"),
    ("value: 1528", "value: 0", None),
    ("value: 25, unit: mm", "value: 0, unit: mm", r"mine.yaml: shear_modulus_x = 0 m is outside \[0.0001, 1\]"),
    ("cohesion: {value: 1.04, unit: kPa}", "cohesion: 1040", "mine.yaml: cohesion: write {value: ..., unit: N/m.2, source: ...}, not 1040"),
])
def test_a_wrong_file_is_one_line_with_file_and_key(tmp_path, old, new, message):
    path = written(tmp_path / "mine.yaml", SAND.replace(old, new))
    if message is None:  # the width of the wheel may carry it
        assert load_soil(path).modulus(0.3) > 0.0
        path = written(path, path.read_text().replace("value: 0.99", "value: 0"))
        message = "soil 'mine': frictional_modulus and cohesive_modulus are both 0"
    with pytest.raises(InputError, match=message):
        load_soil(path)


def test_a_name_that_is_none_lists_those_there_are():
    with pytest.raises(InputError, match=r"no soils file 'mud'; give a path to a YAML file or one of: .*lete_sand"):
        load_soil("mud")
