"""A vehicle as an FMU (FMI 2.0 or 3.0, co-simulation and, without discrete states, model exchange), or an SSP that holds one."""

import hashlib
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.exports.c_files import c_name
from lfdm_ros.exports.library import PLATFORMS, library, linker
from lfdm_ros.exports.model_description import model_description, written
from lfdm_ros.exports.variables import INPUT, OUTPUT, TUNABLE, Exported
from lfdm_ros.files import replacing
from lfdm_ros.vehicles import save_vehicle

_SSC, _SSV, _SSD = (f"http://ssp-standard.org/SSP1/{name}" for name in (
    "SystemStructureCommon", "SystemStructureParameterValues", "SystemStructureDescription"))


class Draw(NamedTuple):
    """A draw of a posterior: values of the vehicle's parameters by name, SI."""

    name: str
    values: Mapping[str, float]


def posterior_draws(vehicle_file: Path, export: Exported, count: int) -> list[Draw]:
    """Takes draws evenly out of the posterior that a vehicle file lies beside.

    Raises:
        InputError: the file is no calibration's, or the posterior has fewer draws or parameters that the model lacks.
    """
    from lfdm_ros.calibration.source import posterior_parameters

    tunable = {v.name for v in export.variables if v.kind == TUNABLE}
    values = posterior_parameters(vehicle_file, tunable, export.model.name, f"--draws {count}")
    most = min((len(column) for column in values.values()), default=0)
    if not 0 < count <= most:
        raise InputError(f"--draws {count}: the posterior of {vehicle_file.parent} has {most}; give 1 to {most}")
    chosen = np.unique(np.linspace(0, most - 1, count).astype(int))
    return [Draw(f"draw_{k:03d}", {name: float(column[i]) for name, column in values.items()}) for k, i in enumerate(chosen, 1)]


def parameter_set(draw: Draw) -> bytes:
    """Writes a draw as an SSV file."""
    for prefix, name in (("ssc", _SSC), ("ssv", _SSV)):
        ElementTree.register_namespace(prefix, name)
    root = ElementTree.Element(f"{{{_SSV}}}ParameterSet", version="1.0", name=draw.name)
    parameters = ElementTree.SubElement(root, f"{{{_SSV}}}Parameters")
    for name, value in draw.values.items():
        parameter = ElementTree.SubElement(parameters, f"{{{_SSV}}}Parameter", name=name)
        ElementTree.SubElement(parameter, f"{{{_SSV}}}Real", value=repr(value))  # in the unit that the FMU gives, SI
    return written(root)


def system_structure(export: Exported, fmu: str, draws: Sequence[str]) -> bytes:
    """Writes SystemStructure.ssd: the FMU as a component with its inputs and outputs; the first of `draws` (paths in the archive) is bound
    to it, the others lie beside."""
    for prefix, name in (("ssc", _SSC), ("ssd", _SSD), ("ssv", _SSV)):
        ElementTree.register_namespace(prefix, name)

    def element(parent: ElementTree.Element, tag: str, /, **attributes: str) -> ElementTree.Element:
        return ElementTree.SubElement(parent, f"{{{_SSD}}}{tag}", attributes)

    root = ElementTree.Element(f"{{{_SSD}}}SystemStructureDescription", version="1.0", name=export.vehicle.name)
    system = element(root, "System", name="system")
    ports = [(v.name, v.kind) for v in export.variables if v.kind in (INPUT, OUTPUT)]

    def connectors(parent: ElementTree.Element) -> None:
        group = element(parent, "Connectors")
        for name, kind in ports:
            ElementTree.SubElement(element(group, "Connector", name=name, kind=kind), f"{{{_SSC}}}Real")

    connectors(system)
    part = element(element(system, "Elements"), "Component", name="vehicle", type="application/x-fmu-sharedlibrary", source=fmu)
    connectors(part)
    if draws:
        element(element(part, "ParameterBindings"), "ParameterBinding", type="application/x-ssp-parameter-set", source=draws[0])
    connections = element(system, "Connections")
    for name, kind in ports:
        ends = {"startConnector": name, "endElement": "vehicle", "endConnector": name} if kind == INPUT else \
            {"startElement": "vehicle", "startConnector": name, "endConnector": name}
        element(connections, "Connection", **ends)
    return written(root)


_DATE = (1980, 1, 1, 0, 0, 0)  # the same file whenever it is written


def write_fmu(export: Exported, out: Path, version: int, platforms: Sequence[str], draws: Sequence[Draw] = (), summary: Path | None = None,
              progress: Callable[[str], None] = lambda _line: None) -> None:
    """Writes an FMU, or where `out` ends in .ssp an SSP with the FMU and a parameter set for each draw.

    Args:
        version: of FMI, 2 or 3.
        platforms: names of `PLATFORMS`.
        draws: parameter sets of the posterior.
        summary: summary.json of the calibration that the vehicle comes from.
        progress: takes a line on each step of the work.

    Raises:
        InputError: the model cannot be exported, a platform has no linker, or the file cannot be written.
    """
    for platform in platforms:
        linker(platform)  # what is missing is said before the work
    identifier = c_name(export.vehicle, export.model)
    sets = {f"draws/{draw.name}.ssv": parameter_set(draw) for draw in draws}
    resources = {"vehicle.yaml": _vehicle_file(export), **sets, **({"summary.json": summary.read_bytes()} if summary else {})}
    token = _token(export, version)
    content = {"modelDescription.xml": model_description(export, version, identifier, token)}
    content |= {f"resources/{name}": data for name, data in resources.items()}
    for platform in platforms:
        progress(f"building for {platform}")
        target = PLATFORMS[platform]
        place = f"binaries/{target.fmi2 if version == 2 else target.fmi3}/{identifier}{target.ending}"
        content[place] = library(export, platform, f"fmi{version}.c", token)
    with prefixing(f"{out}: cannot be written", OSError), replacing(out) as partial:
        if out.suffix == ".ssp":
            fmu, bound = f"resources/{identifier}.fmu", {f"resources/{name}": data for name, data in sets.items()}
            with tempfile.TemporaryDirectory(prefix="lfdm_export_") as folder:
                inner = Path(folder) / "inner.fmu"
                _archive(inner, content)
                _archive(partial, {"SystemStructure.ssd": system_structure(export, fmu, list(bound)), fmu: inner.read_bytes(), **bound})
        else:
            _archive(partial, content)


def _token(export: Exported, version: int) -> str:
    """Returns a token that changes with all that the library depends on."""
    digest = hashlib.sha256(repr([casadi_model(export.model).digest, export.variables, tuple(export.rest), version]).encode()).hexdigest()
    return f"{{{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}}}"


def _vehicle_file(export: Exported) -> bytes:
    with tempfile.TemporaryDirectory(prefix="lfdm_export_") as folder:
        path = Path(folder) / "vehicle.yaml"
        save_vehicle(export.vehicle, path)
        return path.read_bytes()


def _archive(path: Path, content: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
