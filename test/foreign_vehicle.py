"""A foreign vehicle as an FMU for linux64, built here from test/plants/foreign.c, and a plant file for it."""

import functools
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pytest

SOURCE = Path(__file__).parent / "plants" / "foreign.c"
CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None or sys.platform != "linux", reason="builds a foreign FMU: needs Linux and a C compiler (cc)")
# (name, causality, unit, start) by reference.
VARIABLES = (
    ("HandWheel.Angle", "input", "deg", "0"), ("Pedals[1]", "input", "%", "0"), ("Pedals[2]", "input", "%", "0"),
    ("Chassis.Vx", "output", "km/h", ""), ("Chassis.Vy", "output", "km/h", ""), ("Chassis.Yaw", "output", "deg", ""),
    ("Chassis.YawVel", "output", "deg/s", ""), ("Chassis.X", "output", "m", ""), ("Chassis.Y", "output", "m", ""),
    ("Ax", "output", "g0", ""), ("Ay", "output", "g0", ""), ("v0", "parameter", "km/h", "0"), ("mass", "parameter", "t", "1.6"),
    ("Izz", "parameter", "kg.m2", "2600"), ("lf", "parameter", "mm", "1250"), ("lr", "parameter", "mm", "1450"),
    ("grip_front", "parameter", "kN/deg", "1.5"), ("grip_rear", "parameter", "kN/deg", "1.9"), ("mu", "parameter", "1", "0.9"))
# Of the units that are not left to their names.
_BASES = {"deg": 'rad="1" factor="0.017453292519943295"', "%": 'factor="0.01"', "km/h": 'm="1" s="-1" factor="0.2777777777777778"',
          "deg/s": 'rad="1" s="-1" factor="0.017453292519943295"', "m": 'm="1"', "g0": 'm="1" s="-2" factor="9.80665"'}
PLANT = """
fmu: foreign.fmu
step: 1 ms
timeout: {timeout} s
variables:
  v: {{variable: Chassis.Vy}}
  psi: {{variable: Chassis.Yaw}}
  r: {{variable: Chassis.YawVel}}
  east: {{variable: Chassis.X}}
  south: {{variable: Chassis.Y, unit: m}}
  hand: {{variable: HandWheel.Angle}}
constants: {{lock: 0.6 rad, ratio: "16", ahead: 14.8 mm}}  # of its centre of mass our sprung mass's is so much ahead
inputs:
  HandWheel.Angle: -steering * lock * ratio
  "Pedals[1]": where(throttle > 0, throttle, 0)
  "Pedals[2]": brake
outputs: {{x: east + ahead * cos(psi), y: -south - ahead * sin(psi), yaw: -psi, vx: Chassis.Vx, vy: -v - ahead * r, yaw_rate: -r,
  ax: Ax, ay: -Ay, road_wheel_angle: -hand / ratio}}
start: {{v0: vx}}
"""


def description(fmi: int) -> str:
    """The modelDescription.xml of the foreign vehicle."""
    units = "".join(f"<Unit name={quoteattr(unit)}>" + (f"<BaseUnit {_BASES[unit]}/>" if unit in _BASES else "") + "</Unit>"
                    for unit in dict.fromkeys(unit for _, _, unit, _ in VARIABLES))
    lines = []
    for reference, (name, causality, unit, start) in enumerate(VARIABLES):
        variability = "fixed" if causality == "parameter" else "continuous"
        common = f'name={quoteattr(name)} valueReference="{reference}" causality="{causality}" variability="{variability}"'
        value = f"unit={quoteattr(unit)}" + (f' start="{start}"' if start else "")
        lines.append(f"<ScalarVariable {common}><Real {value}/></ScalarVariable>" if fmi == 2 else f"<Float64 {common} {value}/>")
    outputs = [reference for reference, (_, causality, _, _) in enumerate(VARIABLES) if causality == "output"]
    if fmi == 2:
        unknowns = "".join(f'<Unknown index="{reference + 1}"/>' for reference in outputs)
        structure = f"<Outputs>{unknowns}</Outputs><InitialUnknowns>{unknowns}</InitialUnknowns>"
    else:
        lines.append('<Float64 name="time" valueReference="1000" causality="independent" variability="continuous"/>')
        structure = "".join(f'<{kind} valueReference="{reference}"/>' for kind in ("Output", "InitialUnknown") for reference in outputs)
    token = "guid" if fmi == 2 else "instantiationToken"
    return (f'<?xml version="1.0" encoding="UTF-8"?><fmiModelDescription fmiVersion="{fmi}.0" modelName="Foreign" {token}="{{foreign}}">'
            f'<CoSimulation modelIdentifier="foreign" canHandleVariableCommunicationStepSize="true"/>'
            f"<UnitDefinitions>{units}</UnitDefinitions><ModelVariables>{''.join(lines)}</ModelVariables>"
            f"<ModelStructure>{structure}</ModelStructure></fmiModelDescription>")


@functools.cache
def library(fmi: int, *defined: str) -> bytes:
    """The compiled library."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "foreign.so"
        macros = [f"-DFMI={fmi}", *(f"-D{text}" for text in defined)]
        subprocess.run([str(CC), "-shared", "-fPIC", "-O2", "-s", *macros, str(SOURCE), "-lm", "-o", str(out)], check=True)
        return out.read_bytes()


def folder_of(fmi: int) -> str:
    """Of the binaries of this machine."""
    machine = platform.machine()
    return "linux64" if fmi == 2 and machine == "x86_64" else f"{machine}-linux"


def write_fmu(path: Path, fmi: int = 2, *defined: str, xml: str = "", **more: bytes) -> Path:
    """Writes the FMU; `defined`: macros of its source; more: further files by name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("modelDescription.xml", xml or description(fmi))
        archive.writestr(f"binaries/{folder_of(fmi)}/foreign.so", library(fmi, *defined))
        for name, data in more.items():
            archive.writestr(name, data)
    return path


def write_plant(folder: Path, fmi: int = 2, *defined: str, timeout: float = 20.0, more: str = "") -> Path:
    """Writes FMU and plant file into a folder; returns the file."""
    write_fmu(folder / "foreign.fmu", fmi, *defined)
    path = folder / "plant.yaml"
    path.write_text(PLANT.format(timeout=timeout) + more)
    return path
