"""Draws of a posterior as SSV, an SSP of vehicle and draws; what is no calibration is refused."""

import re
import zipfile
from xml.etree import ElementTree

import pytest
from c_compiler import needs_cc

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.exports.fmu_file import Draw, parameter_set, posterior_draws, write_fmu
from lfdm_ros.exports.library import own_platform
from lfdm_ros.exports.variables import exported
from lfdm_ros.vehicles import load_vehicle, save_vehicle

SSD = "{http://ssp-standard.org/SSP1/SystemStructureDescription}"
SSV = "{http://ssp-standard.org/SSP1/SystemStructureParameterValues}"


def test_a_draw_is_a_set_of_parameters():
    root = ElementTree.fromstring(parameter_set(Draw("draw_001", {"sprung_mass": 2100.5})))
    (parameter,) = root.iter(f"{SSV}Parameter")
    assert parameter.get("name") == "sprung_mass"
    assert parameter[0].attrib == {"value": "2100.5"}


@needs_cc
def test_an_ssp_holds_the_vehicle_and_its_draws(tmp_path):
    export = exported(load_vehicle("hmmwv"), "linear_single_track")
    name = export.model.parameters[0].name
    draws = [Draw(f"draw_00{k}", {name: export.vehicle.parameters[name] * (1.0 + 0.01 * k)}) for k in (1, 2)]
    write_fmu(export, tmp_path / "a.ssp", 2, [own_platform()], draws)
    with zipfile.ZipFile(tmp_path / "a.ssp") as archive:
        names = archive.namelist()
        root = ElementTree.fromstring(archive.read("SystemStructure.ssd"))
    component = next(root.iter(f"{SSD}Component"))
    assert component.get("source") in names
    assert next(root.iter(f"{SSD}ParameterBinding")).get("source") == "resources/draws/draw_001.ssv"
    assert {"resources/draws/draw_001.ssv", "resources/draws/draw_002.ssv"} <= set(names)
    ends = {(c.get("startConnector"), c.get("endConnector")) for c in root.iter(f"{SSD}Connection")}
    assert {("steering", "steering"), ("yaw_rate", "yaw_rate")} <= ends
    write_fmu(export, tmp_path / "b.ssp", 2, [own_platform()])
    with zipfile.ZipFile(tmp_path / "b.ssp") as archive:
        assert b"ParameterBinding" not in archive.read("SystemStructure.ssd")


def test_a_vehicle_that_is_no_calibration_has_no_draws(tmp_path):
    save_vehicle(load_vehicle("hmmwv"), tmp_path / "vehicle.yaml")
    with pytest.raises(InputError, match=r"--draws 5: .*is not the result of a calibration"):
        posterior_draws(tmp_path / "vehicle.yaml", [exported(load_vehicle("hmmwv"), "eleven_dof")], 5)


@pytest.mark.parametrize(("words", "reason"), [
    (["--out", "a.zip"], "ends in .fmu or .ssp"), (["--platform", "vms", "--out", "a.fmu"], "no such platform"),
    (["--model", "nineteen_dof", "--out", "a.fmu"], "eighteen_dof"), (["--step", "1", "--out", "a.fmu"], "step 1 s"),
    (["--out", "nowhere/a.fmu"], "no folder")])
def test_bad_arguments_are_one_line(words, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", "fmu", "--vehicle", "hmmwv", *words]) != 0
    said = capsys.readouterr().err
    assert re.search(re.escape(reason), said)
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())
