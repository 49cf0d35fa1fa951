"""A vehicle FMU without tyres, built from test/plants/chassis.c, with the variables of Project Chrono's FMU_WheeledVehiclePtrain."""

import functools
import subprocess
import tempfile
import zipfile
from pathlib import Path

from foreign_vehicle import CC, folder_of

SOURCE = Path(__file__).parent / "plants" / "chassis.c"
PLANT = Path(__file__).parents[1] / "examples" / "chrono_car.yaml"
_POSE = [*(("pos", axis, "m") for axis in "xyz"), *(("rot", f"e{i}", "1") for i in range(4))]
_UNITS = {"m": 'm="1"', "1": "", "m/s": 'm="1" s="-1"', "rad/s": 'rad="1" s="-1"', "N": 'kg="1" m="1" s="-2"', "Nm": 'kg="1" m="2" s="-2"',
          "rad": 'rad="1"', "s": 's="1"'}


def variables() -> list[tuple[str, str, str]]:
    """(name, causality, unit) by reference, as the enumeration of the source has them."""
    found = [(name, "input", "1") for name in ("steering", "throttle", "braking", "clutch")]
    wheels = ("FL", "FR", "RL", "RR")
    found += [(f"wheel_{wheel}.{name}.{axis}", "input", unit) for wheel in wheels
              for name, unit in (("point", "m"), ("force", "N"), ("moment", "Nm")) for axis in "xyz"]
    found += [(f"ref_frame.{name}.{part}", "output", unit) for name, part, unit in _POSE]
    found += [(f"ref_frame.{name}_dt.{part}", "output", "m/s" if unit == "m" else unit) for name, part, unit in _POSE]
    moving = [*_POSE, *(("lin_vel", axis, "m/s") for axis in "xyz"), *(("ang_vel", axis, "rad/s") for axis in "xyz")]
    found += [(f"wheel_{wheel}.{name}.{part}", "output", unit) for wheel in wheels for name, part, unit in moving]
    return [*found, *((f"init_loc.{axis}", "parameter", "m") for axis in "xyz"), ("init_yaw", "parameter", "rad"),
            ("step_size", "parameter", "s")]


@functools.cache
def _library() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "chassis.so"
        subprocess.run([str(CC), "-shared", "-fPIC", "-O2", "-ffp-contract=off", str(SOURCE), "-lm", "-o", str(out)], check=True)
        return out.read_bytes()


def write_chassis(path: Path, without: str = "") -> Path:
    """Writes the FMU; `without`: leaves out the variable of this name."""
    units = "".join(f'<Unit name="{name}"><BaseUnit {base}/></Unit>' for name, base in _UNITS.items())
    lines, outputs = [], []
    for reference, (name, causality, unit) in enumerate(variables()):
        if name == without:
            continue
        start = {"input": ' start="0"', "parameter": f' start="{0.001 if name == "step_size" else 0}"'}.get(causality, "")
        variability = ' variability="fixed"' if causality == "parameter" else ""
        lines.append(f'<ScalarVariable name="{name}" valueReference="{reference}" causality="{causality}"{variability}>'
                     f'<Real unit="{unit}"{start}/></ScalarVariable>')
        outputs += [f'<Unknown index="{len(lines)}"/>'] if causality == "output" else []
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("modelDescription.xml", (
            '<?xml version="1.0"?><fmiModelDescription fmiVersion="2.0" modelName="chassis" guid="{chassis}">'
            '<CoSimulation modelIdentifier="chassis" canHandleVariableCommunicationStepSize="true" canInterpolateInputs="true"/>'
            f'<UnitDefinitions>{units}</UnitDefinitions><DefaultExperiment stepSize="0.001"/><ModelVariables>{"".join(lines)}'
            f'</ModelVariables><ModelStructure><Outputs>{"".join(outputs)}</Outputs></ModelStructure></fmiModelDescription>'))
        archive.writestr(f"binaries/{folder_of(2)}/chassis.so", _library())
    return path
