"""FMUs of a foreign vehicle as plants: other names, units and signs; crashes, hangs, and archives that are damaged or hostile."""

import json
import os
import random
import re
import signal
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from foreign_vehicle import PLANT, VARIABLES, description, folder_of, library, needs_cc, write_fmu, write_plant

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.plants.checks import check_plant
from lfdm_ros.plants.fmu import read_fmu
from lfdm_ros.plants.plant import PlantFailed
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.vehicles import load_vehicle

pytestmark = needs_cc
HMMWV = load_vehicle("hmmwv")


def refusal(call, *arguments, **keywords):
    """The line with which a call refuses."""
    with pytest.raises((InputError, PlantFailed)) as caught:
        call(*arguments, **keywords)
    line = str(caught.value)
    assert line and "\n" not in line and len(line) <= 1500
    return line


@pytest.mark.parametrize("fmi", (2, 3))
def test_a_foreign_vehicle_moves_in_our_axes_and_units(tmp_path, fmi):
    plant = open_plant(str(write_plant(tmp_path, fmi)), HMMWV)
    found = check_plant(plant)
    assert all(finding.ok for finding in found), found
    assert len(found) == 10
    plant.reset(x=4.0, y=-3.0, yaw=3.0, vx=12.0)
    states = [dict(zip(plant.output_names, plant.outputs))]
    for _ in range(300):
        plant.advance((0.3, 0.1, 0.0), (0.3, 0.1, 0.0), 10)
        states.append(dict(zip(plant.output_names, plant.outputs)))
    first, last = states[0], states[-1]
    assert (first["x"], first["y"], first["yaw"]) == pytest.approx((4.0, -3.0, 3.0)) and first["vx"] == pytest.approx(12.0)
    assert last["yaw"] > np.pi  # over the turn, which the FMU wraps
    turned = np.diff([state["yaw"] for state in states])
    assert turned == pytest.approx([0.01 * state["yaw_rate"] for state in states[1:]], abs=3e-4)
    assert last["ay"] == pytest.approx(last["vx"] * last["yaw_rate"], rel=0.02)
    assert np.isnan(last["roll"])


def test_the_plant_file_of_the_documentation_fits_it(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "howto" / "plants.md").read_text(encoding="utf-8")
    (tmp_path / "plant.yaml").write_text(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)[0])
    write_fmu(tmp_path / "vehicle.fmu")
    found = check_plant(open_plant(str(tmp_path / "plant.yaml"), HMMWV))
    assert len(found) == 8 and all(finding.ok for finding in found), found


def test_the_same_commands_are_the_same_motion_and_both_versions_agree(tmp_path):
    def outputs(fmi):
        plant = open_plant(str(write_plant(tmp_path, fmi)), HMMWV)
        rows = []
        for _ in range(2):
            plant.reset(x=1.0, y=2.0, yaw=0.5, vx=15.0)
            for k in range(50):
                plant.advance((0.004 * k, 0.2, 0.0), (0.004 * (k + 1), 0.2, 0.0), 10)
            rows.append(plant.outputs.copy())
        np.testing.assert_array_equal(*rows)
        return rows[0]

    np.testing.assert_array_equal(outputs(2), outputs(3))


def test_inputs_are_linear_within_a_tick(tmp_path):
    """By their derivatives where the FMU takes them, all in one step of it; else by the middle of each of its steps."""
    ends = []
    for slopes in (False, True):
        path = write_plant(tmp_path)
        if slopes:
            xml = description(2).replace("canHandle", 'canInterpolateInputs="true" canHandle')
            write_fmu(tmp_path / "foreign.fmu", 2, "SLOPES", xml=xml)
        plant = open_plant(str(path), HMMWV)
        plant.reset(vx=15.0)
        plant.advance((0.0, 0.2, 0.0), (0.2, 0.4, 0.0), 100)
        plant.advance((0.2, 0.4, 0.0), (0.2, 0.4, 0.0), 100)
        ends.append(plant.outputs[[plant.output_index[name] for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate", "road_wheel_angle")]])
    np.testing.assert_allclose(*ends, rtol=1e-3, atol=1e-5)
    assert ends[1][6] == pytest.approx(0.12)


@pytest.mark.parametrize("fmi", (2, 3))
def test_the_importer_agrees_with_fmpy(tmp_path, fmi):
    """FMPy (another importer) finds no fault in the FMU and steps it to the same bits."""
    fmpy = pytest.importorskip("fmpy", reason="the oracle FMPy is not installed: pip install fmpy")
    from fmpy.validation import validate_fmu

    path = write_plant(tmp_path, fmi)
    assert validate_fmu(str(tmp_path / "foreign.fmu")) == []
    angle = -np.degrees(0.1 * 0.6 * 16.0)
    inputs = np.array([(0.0, angle, 20.0, 0.0)], [(name, float) for name in ("time", "HandWheel.Angle", "Pedals[1]", "Pedals[2]")])
    theirs = fmpy.simulate_fmu(str(tmp_path / "foreign.fmu"), stop_time=2.0, step_size=1e-3, output_interval=1e-3, input=inputs,
                               start_values={"v0": 54.0}, output=["Chassis.Vx", "Chassis.YawVel", "Chassis.X"])
    plant = open_plant(str(path), HMMWV)
    plant.reset(vx=15.0)
    plant.advance((0.1, 0.2, 0.0), (0.1, 0.2, 0.0), 2000)
    ours = dict(zip(plant.output_names, plant.outputs))
    assert [ours["vx"], ours["yaw_rate"]] == pytest.approx([theirs["Chassis.Vx"][-1] / 3.6, -np.radians(theirs["Chassis.YawVel"][-1])],
                                                           rel=1e-12)


def test_parameters_of_the_plant_are_hidden_truth(tmp_path):
    light = open_plant(str(write_plant(tmp_path, more="parameters: {mass: 800 kg, mu: 0.8}\n")), HMMWV)
    assert light.parameters["mass"] == pytest.approx(0.8) and light.parameters["lf"] == 1250.0
    gains = []
    for plant in (light, open_plant(str(write_plant(tmp_path)), HMMWV)):
        plant.reset(vx=10.0)
        plant.advance((0.0, 0.3, 0.0), (0.0, 0.3, 0.0), 100)
        plant.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 100)
        gains.append(plant.speed)
    assert gains[0] > gains[1]  # its road is more slippery


WRONG = {
    "vx: Chassis.Vx": ("vx: {variable: Chassis.Vx, unit: deg}", "outputs.vx: unit 'deg' does not fit Chassis.Vx", "km/h"),
    "yaw_rate: -r": ("yaw_rate: -psi", "outputs.yaw_rate: a pure number where 1 / time (rad/s)", ""),
    "x: east": ("x: Chassis.Xx", "outputs.x: no variable or constant 'Chassis.Xx' (did you mean 'Chassis.X'", ""),
    "vy: -v": ("vz: -v", "no output 'vz'", "plant.yaml: outputs"),
    "y: -south - ahead * sin(psi), ": ("", "outputs lack y", ""),
    "HandWheel.Angle: -s": ("HandWheel.Angel: -s", "has no variable 'HandWheel.Angel' (did you mean 'HandWheel.Angle'?)", ""),
    "steering * lock": ("steer * lock", "inputs.HandWheel.Angle: no variable or constant 'steer' (did you mean 'steering'?)", ""),
    '"Pedals[2]": brake': ('"Chassis.Vx": brake', "is of causality output", "inputs.Chassis.Vx"),
    "v0: vx": ("v0: x", "start.v0: length where length / time (km/h)", ""),
    "step: 1 ms": ("step: 1 m", "step is '1 m'", "time"),
    "timeout: 20.0 s": ("timeout: -1", "timeout is -1; give more than 0", ""),
    "where(throttle > 0, throttle, 0)": ("unwrap(throttle)", "unwrap is of whole recordings", "inputs.Pedals[1]"),
    "fmu: foreign.fmu": ("fmu: foreing.fmu", "foreing.fmu: No such file", "plant.yaml: fmu: "),
    "ax: Ax,": ("ax: min(Ax, Ay),", "has no value; within braces an expression with a comma needs quotes", "outputs"),
    "ax: Ax, ": ("ax: {value: min(Ax, Ay)}, ", "has no value; within braces an expression with a comma needs quotes", "outputs.ax"),
    "constants:": ("constant:", "unknown key 'constant' (did you mean 'constants'?)", ""),
    "brake\n": ("__import__('os')\n", "no function", "inputs.Pedals[2]"),
}


@pytest.mark.parametrize("written", WRONG)
def test_a_wrong_mapping_is_one_line_with_file_and_key(tmp_path, written):
    path = write_plant(tmp_path)
    text = path.read_text()
    assert written in text
    path.write_text(text.replace(written, WRONG[written][0]))
    line = refusal(open_plant, str(path), HMMWV)
    assert str(tmp_path) in line and WRONG[written][1] in line and WRONG[written][2] in line, line


@pytest.mark.parametrize("step", ("8 ms", "15 ms", "50 ms"))
def test_the_check_is_content_at_any_step(tmp_path, step):
    path = write_plant(tmp_path)
    path.write_text(path.read_text().replace("step: 1 ms", f"step: {step}"))
    assert f"step: {step}" in path.read_text()
    found = check_plant(open_plant(str(path), HMMWV))
    assert all(finding.ok for finding in found)
    assert "the controller's period of 0.02 s is no whole number of chunks" in found[0].text


def test_an_answer_that_nobody_waited_for_is_not_that_of_the_next_request(tmp_path):
    plant = open_plant(str(write_plant(tmp_path)), HMMWV)
    plant.reset(x=0.0, y=0.0, yaw=0.0, vx=20.0)
    heard = threading.Event()

    def interrupt():
        while not heard.wait(0.5):  # more than once: what is raised in a finaliser is lost
            signal.raise_signal(signal.SIGINT)

    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever tests before have left
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=interrupt, daemon=True).start()
            for _ in range(10_000):
                plant.advance((0.1, 0.5, 0.0), (0.1, 0.5, 0.0), 5000)
    finally:
        heard.set()
        signal.signal(signal.SIGINT, former)
    plant.reset(x=0.0, y=0.0, yaw=0.0, vx=5.0)
    assert dict(zip(plant.output_names, plant.outputs))["vx"] == pytest.approx(5.0)


def test_no_code_of_the_present_folder_is_run(tmp_path, monkeypatch):
    path = write_plant(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    plant = open_plant(str(path), HMMWV)
    plant.reset(x=0.0, y=0.0, yaw=0.0, vx=5.0)


@pytest.mark.parametrize(("written", "instead", "seen"), (
    ("yaw: -psi", "yaw: psi", "the path bends to the left and yaw to the right"),
    ("vy: -v", "vy: v", "vy has the wrong sign"),
    ("-steering", "steering", "it should be positive"),
    ('"Pedals[2]": brake', '"Pedals[2]": 0', "it should lose at least 1 m/s^2 more"),
    ("x: east", "x: south", "another frame"),
    ("yaw_rate: -r", "yaw_rate: {variable: Chassis.YawVel, unit: rad/s}", "-57.3 times"),
))
def test_the_check_names_what_no_dimension_shows(tmp_path, written, instead, seen, capsys):
    path = write_plant(tmp_path)
    path.write_text(path.read_text().replace(written, instead))
    assert main(["fmu", "check", str(path), "--json"]) == 1
    wrong = [finding["text"] for finding in json.loads(capsys.readouterr().out)["findings"] if not finding["ok"]]
    assert any(seen in text for text in wrong), wrong


def test_info_lists_the_variables_with_their_units(tmp_path, capsys):
    path = write_fmu(tmp_path / "foreign.fmu", 3)
    assert main(["fmu", "info", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["fmi"], told["kinds"], told["platforms"]) == ("3.0", ["co-simulation"], [folder_of(3)])
    assert [(v["name"], v["causality"], v["unit"], v["start"]) for v in told["variables"]] == [
        *VARIABLES, ("time", "independent", "", "")]
    assert main(["fmu", "info", str(path)]) == 0
    text = capsys.readouterr().out
    assert "output: 8" in text and "Chassis.Vx [km/h]" in text


# ---- failures on the way -----------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("fmi", "macro", "said"), (
    (2, "CRASH_AFTER=30", "foreign.fmu crashed while it was stepped at 0.02 s: Segmentation fault"),
    (3, "HANG_AFTER=30", "foreign.fmu hangs: no answer in 3 s while it was stepped at 0.02 s"),
    (2, "NAN_AFTER=30", ": no finite number at 0.04 s"), (3, "NAN_AFTER=30", ": no finite number at 0.04 s")))
def test_crash_hang_and_nan_are_one_line_and_a_reset_goes_on(tmp_path, fmi, macro, said):
    plant = open_plant(str(write_plant(tmp_path, fmi, macro, timeout=3.0)), HMMWV)
    plant.reset(vx=10.0)
    plant.advance((0.0, 0.2, 0.0), (0.0, 0.2, 0.0), 20)
    line = refusal(plant.advance, (0.1, 0.2, 0.0), (0.1, 0.2, 0.0), 20)
    assert said in line, line
    if "NAN" not in macro:
        assert "reset it" in refusal(plant.advance, (0.1, 0.2, 0.0), (0.1, 0.2, 0.0), 1)
    plant.reset(vx=10.0)
    plant.advance((0.0, 0.2, 0.0), (0.0, 0.2, 0.0), 20)
    assert plant.speed > 10.0


def test_processes_and_folders_of_a_plant_end_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "unpacked"))
    (tmp_path / "unpacked").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", None)
    before = children()
    plant = open_plant(str(write_plant(tmp_path)), HMMWV)
    plant.reset(vx=10.0)
    mine = children() - before
    assert mine
    assert list((tmp_path / "unpacked").iterdir())
    del plant
    end = time.monotonic() + 30.0
    while (mine & children() or list((tmp_path / "unpacked").iterdir())) and time.monotonic() < end:
        time.sleep(0.05)
    assert not mine & children() and not list((tmp_path / "unpacked").iterdir())


def children():
    """Processes of FMUs of this one."""
    parent, found = os.getpid(), set()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit():
                with open(f"/proc/{entry}/stat") as stat, open(f"/proc/{entry}/cmdline") as line:
                    if int(stat.read().rpartition(")")[2].split()[1]) == parent and "fmu_child" in line.read():
                        found.add(int(entry))
        except OSError:  # it has just ended
            continue
    return found


# ---- damaged and hostile archives --------------------------------------------------------------------------------------

def use(path, fmi):
    """What anybody does with an FMU: reads it, maps it, starts it and drives."""
    plant = path.with_name("plant.yaml")
    plant.write_text(PLANT.format(timeout=10.0))
    opened = open_plant(str(plant), HMMWV)
    opened.reset(vx=10.0)
    opened.advance((0.0, 0.2, 0.0), (0.0, 0.2, 0.0), 20)


BOMB = '<!DOCTYPE f [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;">]><fmiModelDescription fmiVersion="2.0" '
HOSTILE = {
    "outside": (dict(more={"../../outside.txt": b"x"}), "a path outside of the archive"),
    "absolute": (dict(more={"/tmp/outside.txt": b"x"}), "a path outside of the archive"),
    "backslash": (dict(more={"resources\\..\\..\\outside.txt": b"x"}), "a path outside of the archive"),
    "bomb": (dict(xml=BOMB + 'guid="&b;"/>'), "a document type"),
    "deep": (dict(xml="<a>" * 1000 + "</a>" * 1000), "more than 100 levels"),
    "no description": (dict(xml=None), "no modelDescription.xml"),
    "version": (dict(replace=('fmiVersion="2.0"', 'fmiVersion="1.0"')), "FMI 1.0"),
    "guid": (dict(replace=('guid="{foreign}"', 'guid="{other}"')), "a wrong GUID or token"),
    "exchange": (dict(replace=("CoSimulation", "ModelExchange")), "no co-simulation, only model exchange"),
    "identifier": (dict(replace=('modelIdentifier="foreign"', 'modelIdentifier="../foreign"')), "is no name of C"),
    "other library": (dict(replace=('modelIdentifier="foreign"', 'modelIdentifier="another"')), "no binaries/"),
    "reference": (dict(replace=('valueReference="3"', 'valueReference="99"')), "fmi2GetReal at 0 s: error"),
    "negative": (dict(replace=('valueReference="3"', 'valueReference="-1"')), "no number of 32 bits"),
    "word": (dict(replace=('valueReference="3"', 'valueReference="three"')), "invalid literal"),
    "twice": (dict(replace=("Chassis.Vy", "Chassis.Vx")), "stands twice"),
    "factor": (dict(replace=('factor="0.01"', 'factor="nan"')), "no finite factor"),
    "text": (dict(replace=("<Real unit=\"km/h\"/>", "<String/>")), "only scalar numbers"),
    "platform": (dict(platform="win64"), "it has win64"),
    "no library": (dict(binary=b""), "cannot be loaded"),
    "no ELF": (dict(binary=b"MZ" * 1000), "cannot be loaded"),
}


def write_hostile(path, xml="", replace=None, more=None, platform=None, binary=None):
    text = description(2) if xml == "" else xml
    if replace:
        assert replace[0] in text
        text = text.replace(*replace)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if text is not None:
            archive.writestr("modelDescription.xml", text)
        archive.writestr(f"binaries/{platform or folder_of(2)}/foreign.so", library(2) if binary is None else binary)
        for name, data in (more or {}).items():
            archive.writestr(name, data)


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_fmu_is_one_line(tmp_path, case):
    given, said = HOSTILE[case]
    path = tmp_path / "foreign.fmu"
    write_hostile(path, **given)
    line = refusal(use, path, 2)
    assert said in line and "foreign.fmu" in line, line
    assert not (tmp_path.parent / "outside.txt").exists() and not os.path.exists("/tmp/outside.txt")


def test_a_link_and_a_file_that_unpacks_to_too_much_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "foreign.fmu"
    write_fmu(path)
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("resources/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "a link" in refusal(read_fmu, path)
    write_fmu(path, more_resources=b"")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("resources/zeros", bytes(3_000_000))
    monkeypatch.setattr("lfdm_ros.plants.fmu.MAX_UNPACKED", 1_000_000)
    assert "unpacks to more than" in refusal(use, path, 2)


@pytest.mark.parametrize("fmi", (2, 3))
def test_fifty_damaged_fmus_are_one_line_each_or_drive(tmp_path, fmi):
    """Bytes of the archive, of the description and of the library are changed at random; a description that is still right drives."""
    draw, whole = random.Random(fmi), write_fmu(tmp_path / "whole.fmu", fmi).read_bytes()
    path, refused = tmp_path / "foreign.fmu", 0
    for i in range(25):
        kind = i % 3
        if kind == 0:
            path.write_bytes(damaged(whole, draw))
        else:
            xml = damaged(description(fmi).encode(), draw) if kind == 1 else description(fmi).encode()
            binary = damaged(library(fmi), draw) if kind == 2 else library(fmi)
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("modelDescription.xml", xml)
                archive.writestr(f"binaries/{folder_of(fmi)}/foreign.so", binary)
        try:
            use(path, fmi)
        except (InputError, PlantFailed) as error:
            refused += 1
            assert str(error) and "\n" not in str(error) and len(str(error)) <= 1500
    assert refused >= 12


def damaged(data, draw):
    """Some bytes changed, or the end cut off."""
    if draw.random() < 0.2:
        return data[:draw.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(draw.choice((1, 10, 200))):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)
