"""`lfdm soil`, and `lfdm simulate --soil`, as a user runs them."""

import json

import numpy as np
import pytest

from lfdm_ros.cli.main import main
from lfdm_ros.ground.soil_wheel import SoilWheel, WheelMotion, settle
from lfdm_ros.ground.soils import load_soil, soil_names


def test_the_list_has_every_soil_in_the_units_of_the_field(capsys):
    assert main(["soil"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == list(soil_names())
    sand = next(line.split() for line in lines if line.startswith("lete_sand"))
    assert sand[1:7] == ["5301", "102", "0.793", "1.3", "31.1", "12"]


def test_rows_are_those_of_the_wheel_and_say_what_becomes_of_it(capsys):
    assert main(["soil", "lete_sand", "snow_harrison", "--radius", "0.47", "--width", "0.318", "--rigid", "--load", "6310", "--json"]) == 0
    sand, snow = json.loads(capsys.readouterr().out)
    for row in sand["rows"]:
        at = settle(SoilWheel(0.47, 0.318), load_soil("lete_sand"), 6310.0, WheelMotion.of(row["slip"]))
        assert row["drawbar_pull"] == pytest.approx(at.forces.fx) and row["outcome"] == "supported"
    assert snow["rows"][-1] == {"slip": 0.8, "outcome": "no equilibrium", "sinkage": 0.47, "drawbar_pull": None, "moment": None}
    assert main(["soil", "snow_harrison", "--rigid", "--load", "6310"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["0.80", "-", "-", "-", "no", "equilibrium"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["soil", "mud"], "no soils file 'mud'"), (["soil", "dry_sand", "--vehicle", "sedan"], "has no tyre_width; give --width"),
    (["soil", "dry_sand", "--load", "nan"], "load nan N"), (["soil", "dry_sand", "--width", "-1"], "width = -1 must be above 0"),
    (["simulate", "--vehicle", "hmmwv", "--soil", "mud", "--inputs", "in.txt", "--out", "out.csv"], "no soils file 'mud'"),
    (["simulate", "--vehicle", "sedan", "--soil", "dry_sand", "--inputs", "in.txt", "--out", "out.csv"], "lacks tyre_width"),
])
def test_bad_use_is_one_line(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("0 0 0.5 0\n2 0 0.5 0\n")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_vehicle_on_soft_soil_is_slower(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("0 0 0.5 0\n4 0 0.5 0\n")
    speeds = {}
    for soil in ("lete_sand", "dry_sand"):
        assert main(["simulate", "--vehicle", "hmmwv_shafts", "--model", "eighteen_dof", "--soil", soil, "--inputs", "in.txt",
                     "--out", f"{soil}.csv"]) == 0
        speeds[soil] = np.genfromtxt(f"{soil}.csv", delimiter=",", names=True)["vx"][-1]
    assert "eighteen_dof/bekker_wong/soil" in capsys.readouterr().err
    assert 0.5 < speeds["dry_sand"] < 0.9 * speeds["lete_sand"]
