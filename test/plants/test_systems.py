"""Systems of connected FMUs (SSP): against the same FMUs stepped by FMPy; our own exports; what is refused."""

import math
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from foreign_vehicle import CC, folder_of, needs_cc, write_fmu

from lfdm_ros.cli.main import main
from lfdm_ros.errors import InputError
from lfdm_ros.plants.fmu import read_ssp
from lfdm_ros.plants.plant import PlantFailed
from lfdm_ros.plants.plant_file import open_plant
from lfdm_ros.vehicles import load_vehicle

pytestmark = needs_cc
HMMWV = load_vehicle("hmmwv")
LAG = """<?xml version="1.0"?><fmiModelDescription fmiVersion="2.0" modelName="Lag" guid="{lag}">
<CoSimulation modelIdentifier="lag" canHandleVariableCommunicationStepSize="true"/>
<UnitDefinitions><Unit name="rad"><BaseUnit rad="1"/></Unit><Unit name="m/s"><BaseUnit m="1" s="-1"/></Unit>
<Unit name="s"><BaseUnit s="1"/></Unit></UnitDefinitions><ModelVariables>
<ScalarVariable name="command" valueReference="0" causality="input"><Real start="0"/></ScalarVariable>
<ScalarVariable name="speed" valueReference="1" causality="input"><Real unit="m/s" start="0"/></ScalarVariable>
<ScalarVariable name="angle" valueReference="2" causality="output"><Real unit="rad"/></ScalarVariable>
<ScalarVariable name="largest" valueReference="3" causality="parameter" variability="fixed"><Real unit="rad" start="9"/></ScalarVariable>
<ScalarVariable name="lag" valueReference="4" causality="parameter" variability="fixed"><Real unit="s" start="0.1"/></ScalarVariable>
</ModelVariables><ModelStructure><Outputs><Unknown index="3"/></Outputs></ModelStructure></fmiModelDescription>"""
HEAD = ('<ssd:SystemStructureDescription xmlns:ssd="http://ssp-standard.org/SSP1/SystemStructureDescription" '
        'xmlns:ssv="http://ssp-standard.org/SSP1/SystemStructureParameterValues" '
        'xmlns:ssc="http://ssp-standard.org/SSP1/SystemStructureCommon" version="1.0" name="car">')
# The motor turns the hand wheel the other way (the vehicle's axes are SAE's), and has from the chassis how fast it goes.
STRUCTURE = HEAD + """<ssd:System name="system">
<ssd:Connectors><ssd:Connector name="wheel" kind="input"/><ssd:Connector name="yaw_velocity" kind="output"/></ssd:Connectors>
<ssd:Elements>
<ssd:Component name="motor" type="application/x-fmu-sharedlibrary" source="resources/lag.fmu"><ssd:ParameterBindings>
  <ssd:ParameterBinding source="resources/motor.ssv"/></ssd:ParameterBindings></ssd:Component>
<ssd:Component name="car" type="application/x-fmu-sharedlibrary" source="resources/foreign.fmu"/>
</ssd:Elements>
<ssd:Connections>
<ssd:Connection startConnector="wheel" endElement="motor" endConnector="command"/>
<ssd:Connection startElement="motor" startConnector="angle" endElement="car" endConnector="HandWheel.Angle">
  <ssd:LinearTransformation factor="-1"/></ssd:Connection>
<ssd:Connection startElement="car" startConnector="Chassis.Vx" endElement="motor" endConnector="speed"/>
<ssd:Connection startElement="car" startConnector="Chassis.YawVel" endConnector="yaw_velocity"/>
</ssd:Connections></ssd:System></ssd:SystemStructureDescription>"""
SSV = """<ssv:ParameterSet xmlns:ssv="http://ssp-standard.org/SSP1/SystemStructureParameterValues" version="1.0" name="motor">
<ssv:Parameters><ssv:Parameter name="lag"><ssv:Real value="50" unit="ms"/></ssv:Parameter></ssv:Parameters></ssv:ParameterSet>"""
PLANT = """
fmu: car.ssp
step: 1 ms
inputs: {wheel: steering, "car.Pedals[1]": "where(throttle > 0, throttle, 0)", "car.Pedals[2]": brake}
outputs:
  x: car.Chassis.X
  y: {value: -south}
  yaw: {value: -psi}
  vx: car.Chassis.Vx
  vy: {value: -drift}
  yaw_rate: {value: -r}
variables:
  drift: {variable: car.Chassis.Vy}
  south: {variable: car.Chassis.Y}
  psi: {variable: car.Chassis.Yaw}
  r: {variable: yaw_velocity}
start: {car.v0: vx}
"""


@pytest.fixture(scope="module")
def lag_library(tmp_path_factory) -> bytes:
    out = tmp_path_factory.mktemp("lag") / "lag.so"
    source = Path(__file__).with_name("lag.c")
    subprocess.run([str(CC), "-shared", "-fPIC", "-O2", "-ffp-contract=off", str(source), "-o", str(out)], check=True)
    return out.read_bytes()


def write_system(folder: Path, lag: bytes, structure: str = STRUCTURE, fmi: int = 2, *defined: str) -> Path:
    """Writes FMUs, system and plant file; returns the file."""
    with zipfile.ZipFile(folder / "lag.fmu", "w") as archive:
        archive.writestr("modelDescription.xml", LAG)
        archive.writestr(f"binaries/{folder_of(2)}/lag.so", lag)
    write_fmu(folder / "foreign.fmu", fmi, *defined)
    with zipfile.ZipFile(folder / "car.ssp", "w") as archive:
        archive.writestr("SystemStructure.ssd", structure)
        archive.writestr("resources/motor.ssv", SSV)
        for name in ("lag", "foreign"):
            archive.write(folder / f"{name}.fmu", f"resources/{name}.fmu")
    (folder / "plant.yaml").write_text(PLANT)
    return folder / "plant.yaml"


@pytest.mark.parametrize("fmi", [2, 3])
def test_connected_as_a_master_of_fmpy_steps_them(tmp_path, lag_library, fmi):
    """What one shows at the end of a step the other gets in the next, in its unit; a parameter of the archive in milliseconds."""
    fmpy = pytest.importorskip("fmpy")
    from fmpy.fmi2 import FMU2Slave
    from fmpy.fmi3 import FMU3Slave

    plant = open_plant(str(write_system(tmp_path, lag_library, fmi=fmi)), HMMWV)
    plant.reset(x=0.0, y=0.0, yaw=0.0, vx=12.0)
    slaves = {}
    for name in ("lag", "foreign"):
        read = fmpy.read_model_description(str(tmp_path / f"{name}.fmu"), validate=False)
        kind = FMU2Slave if read.fmiVersion == "2.0" else FMU3Slave
        slave = kind(guid=read.guid, unzipDirectory=fmpy.extract(str(tmp_path / f"{name}.fmu")), modelIdentifier=name, instanceName=name)
        references = {v.name: v.valueReference for v in read.modelVariables}
        two = kind is FMU2Slave
        slaves[name] = (
            slave, lambda key, value, s=slave, r=references, two=two: (s.setReal if two else s.setFloat64)([r[key]], [value]),
            lambda key, s=slave, r=references, two=two: (s.getReal if two else s.getFloat64)([r[key]])[0])
        slave.instantiate()
        if two:
            slave.setupExperiment(startTime=0.0)
    (motor, put_motor, of_motor), (car, put_car, of_car) = slaves["lag"], slaves["foreign"]
    put_motor("lag", 0.05)
    put_car("v0", 12.0 * 3.6)
    for slave in (motor, car):
        slave.enterInitializationMode()
        slave.exitInitializationMode()
    for k in range(400):
        put_motor("command", 0.3 * math.sin(0.01 * k))
        put_car("Pedals[1]", 20.0)
        put_motor("speed", of_car("Chassis.Vx") / 3.6)
        put_car("HandWheel.Angle", -math.degrees(of_motor("angle")))
        for slave in (motor, car):
            slave.doStep(currentCommunicationPoint=0.001 * k, communicationStepSize=0.001)
        u = (0.3 * math.sin(0.01 * k), 0.2, 0.0)
        plant.advance(u, u, 1)
        found = dict(zip(plant.output_names, plant.outputs))
        assert found["yaw_rate"] == pytest.approx(-math.radians(of_car("Chassis.YawVel")), rel=1e-9, abs=1e-12)
    assert abs(found["yaw_rate"]) > 0.05 and found["x"] == pytest.approx(of_car("Chassis.X"), rel=1e-12)


def test_a_vehicle_of_our_own_comes_back_as_a_system(tmp_path):
    """The SSP of `lfdm export fmu` is a plant without a plant file: connectors have our names."""
    from lfdm_ros.exports.fmu_file import Draw
    from lfdm_ros.exports.fmu_file import write_fmu as export_fmu
    from lfdm_ros.exports.library import own_platform
    from lfdm_ros.exports.variables import exported

    export = exported(HMMWV, "eight_dof")
    draws = [Draw("draw_001", {"sprung_mass": 3000.0})]
    export_fmu(export, tmp_path / "car.ssp", 2, [own_platform()], draws)
    export_fmu(export, tmp_path / "car.fmu", 2, [own_platform()], [])
    speeds = {}
    for name in ("car.ssp", "car.fmu"):
        plant = open_plant(str(tmp_path / name), HMMWV)
        plant.reset(x=1.0, y=2.0, yaw=0.5, vx=10.0)
        for _ in range(100):
            plant.advance((0.1, 0.8, 0.0), (0.1, 0.8, 0.0), 10)
        speeds[name] = plant.outputs[plant.output_names.index("vx")]
        assert np.isfinite(plant.outputs[plant.output_names.index("y")])
    assert speeds["car.ssp"] < speeds["car.fmu"] - 0.2  # the draw that the archive binds is heavier


def test_lfdm_fmu_info_lists_its_parts(tmp_path, lag_library, capsys):
    write_system(tmp_path, lag_library)
    assert main(["fmu", "info", str(tmp_path / "car.ssp")]) == 0
    told = capsys.readouterr().out
    assert "motor: Lag, FMI 2.0" in told and "car: Foreign" in told and "motor.angle to car.HandWheel.Angle" in told
    assert main(["fmu", "check", str(tmp_path / "plant.yaml")]) in (0, 1)
    assert "yaw" in capsys.readouterr().out


def test_a_crash_names_the_part(tmp_path, lag_library):
    plant = open_plant(str(write_system(tmp_path, lag_library, STRUCTURE, 2, "CRASH_AFTER=5")), HMMWV)
    plant.reset(x=0.0, y=0.0, yaw=0.0, vx=12.0)
    with pytest.raises(PlantFailed, match=r"car\.ssp crashed while it was stepped"):
        for _ in range(20):
            plant.advance((0.0, 0.2, 0.0), (0.0, 0.2, 0.0), 1)
    plant.reset(x=0.0, y=0.0, yaw=0.0, vx=12.0)


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("resources/lag.fmu", "resources/none.fmu", r"no 'resources/none.fmu' in it"),
    ("resources/lag.fmu", "resources/lag.zip", r"component 'motor' is 'resources/lag.zip'; only FMUs are read"),
    ('name="motor" type', 'name="car" type', r"component 'car' stands twice"),
    ('startConnector="angle"', 'startConnector="angel"', r"connection motor\.angel to car\.HandWheel\.Angle: .*no variable 'motor\.angel'"),
    ('startElement="motor" startConnector="angle"', 'startElement="motor" startConnector="command"', r"from input to input"),
    ('endConnector="speed"', 'endConnector="command"', r"inputs: command of car\.ssp is connected within it"),
    ('factor="-1"', 'factor="minus"', r"'minus' is no number"),
    ("<ssd:Elements>", "<ssd:Elements><ssd:System name='inner'/>", r"a system within a system"),
    ("ssd:SystemStructureDescription ", "ssd:Other ", r"no System in it|not readable XML"),
])
def test_what_is_not_a_system_is_refused_in_one_line(tmp_path, lag_library, old, new, reason):
    assert old in STRUCTURE
    plant = write_system(tmp_path, lag_library, STRUCTURE.replace(old, new, 1))
    with pytest.raises(InputError, match=reason) as caught:
        open_plant(str(plant), HMMWV)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("text", "reason"), [
    ('value="50" unit="ms"', r"motor\.lag"), ('value="fifty"', r"'fifty' is no number"), ('value="50" unit="kg"', "does not fit"),
    ])
def test_parameters_of_an_archive_are_checked(tmp_path, lag_library, text, reason):
    path = write_system(tmp_path, lag_library).with_name("car.ssp")
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["resources/motor.ssv"] = SSV.replace('value="50" unit="ms"', text).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    if text == 'value="50" unit="ms"':
        (variable, value), = read_ssp(path).values
        assert (f"{variable.part}.{variable.name}", value) == ("motor.lag", pytest.approx(0.05))
        return
    with pytest.raises(InputError, match=reason):
        read_ssp(path)
