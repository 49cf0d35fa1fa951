"""Draws of a calibration as files of other tools: parameter sets (SSV) and a system of vehicle and sets (SSD), SSP 1.0."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.exports.model_description import written
from lfdm_ros.exports.variables import INPUT, OUTPUT, TUNABLE, Exported

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
