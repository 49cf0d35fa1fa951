"""Export of four tyre FMUs connected to an external vehicle FMU: a system (SSP) with Project Chrono's names of the wheels.

A vehicle FMU without tyres (chrono_vehicle, FMU_WheeledVehicle, FMU_WheeledVehiclePtrain) outputs pose and motion of its wheels FL, FR, RL
and RR, with their loads as inputs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from lfdm_ros.errors import InputError
from lfdm_ros.exports import fmu_file
from lfdm_ros.exports.fmu_file import Draw, SystemLink, SystemPart, fmu_bytes, outward, ports_of
from lfdm_ros.exports.variables import INPUT, OUTPUT, Exported
from lfdm_ros.plants.fmu import Fmu, read_fmu

CHASSIS = "chassis"  # component of the vehicle FMU
_OF_WHEEL, _OF_TYRE = {INPUT: "wheel_state.", OUTPUT: "wheel_load."}, "tyre_"


def connections(fmu: Fmu, tyres: Mapping[str, Exported]) -> list[SystemLink]:
    """Returns the connections between a vehicle FMU and its tyres by wheel (fl, fr, rl, rr). Raises InputError: it lacks a variable."""
    links = []
    for wheel, export in tyres.items():
        for name, kind in ports_of(export):
            if not name.startswith(_OF_WHEEL[kind]):
                continue
            other = f"wheel_{wheel.upper()}.{name.removeprefix(_OF_WHEEL[kind])}"
            expected = OUTPUT if kind == INPUT else INPUT
            if other not in fmu.variables or fmu.variables[other].causality != expected:
                raise InputError(f"--chassis {fmu.path}: no {expected} {other}; wheels are named as those of Chrono's FMU_WheeledVehicle")
            ends = (CHASSIS, other, _OF_TYRE + wheel, name)
            links.append(SystemLink(*ends if kind == INPUT else (*ends[2:], *ends[:2])))
    return links


def write_tyre_system(chassis: Path, tyres: Mapping[str, Exported], out: Path, version: int, platforms: Sequence[str],
                      draws: Mapping[str, Sequence[Draw]]) -> None:
    """Writes an SSP of a vehicle FMU and four tyres; the system's connectors are the unconnected ones of the vehicle FMU.

    Args:
        tyres: by wheel, fl, fr, rl and rr.
        version: of FMI, of the tyres, 2 or 3.
        platforms: of the tyres, names of `PLATFORMS`.
        draws: parameter sets of the posterior by wheel; the first is bound.

    Raises:
        InputError: as `connections` and `fmu_bytes`; the file cannot be written.
    """
    fmu = read_fmu(chassis)
    links = connections(fmu, tyres)
    connected = {name for link in links for name in (link.source, link.target)}
    ports = [(v.name, v.causality) for v in fmu.variables.values()
             if v.causality in (INPUT, OUTPUT) and v.type == "Float64" and not v.array and v.name not in connected]
    inner_ports = [(v.name, v.causality) for v in fmu.variables.values() if v.name in connected]
    content = {f"resources/{CHASSIS}.fmu": chassis.read_bytes()}
    parts = [SystemPart(CHASSIS, f"resources/{CHASSIS}.fmu", [*ports, *inner_ports])]
    sources: dict[str, str] = {}
    for wheel, export in tyres.items():
        # Equal tyres, usually left and right, share one FMU.
        token = fmu_file.token_of(export, version)
        if token not in sources:
            sources[token] = f"resources/{_OF_TYRE}{wheel}.fmu"
            content[sources[token]] = fmu_bytes(export, version, platforms, {})
        sets = {f"resources/draws/{draw.name}_{wheel}.ssv": fmu_file.parameter_set(draw) for draw in draws[wheel] if draw.values}
        content |= sets
        parts.append(SystemPart(_OF_TYRE + wheel, sources[token], ports_of(export), next(iter(sets), "")))
    structure = fmu_file.system_structure(fmu.name or chassis.stem, ports, parts, [*links, *outward(CHASSIS, ports)])
    fmu_file.write_bytes(out, fmu_file.archive_bytes({"SystemStructure.ssd": structure, **content}))
