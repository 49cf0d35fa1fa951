"""Export of a vehicle as an FMU (FMI 2.0 or 3.0, co-simulation and, without discrete states, model exchange), or an SSP with one."""

import hashlib
import io
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.portable import dependencies
from lfdm_ros.errors import InputError, prefixing
from lfdm_ros.exports.c_files import c_name
from lfdm_ros.exports.library import PLATFORMS, library, linker
from lfdm_ros.exports.variables import INPUT, LOCAL, OUTPUT, PARAMETER, TUNABLE, Exported, ExportedVariable
from lfdm_ros.files import replacing
from lfdm_ros.models.declaration import WHEELS
from lfdm_ros.units import unit_powers
from lfdm_ros.vehicles.yaml_file import vehicle_text

_NO_CHARACTER = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # of XML 1.0
_BASE = {"kg": {"kg": 1}, "m": {"m": 1}, "s": {"s": 1}, "rad": {"rad": 1}, "N": {"kg": 1, "m": 1, "s": -2}}
_SHOWN = {"rad": ("deg", 180.0 / math.pi), "rad/s": ("deg/s", 180.0 / math.pi), "m/s": ("km/h", 3.6)}
_LINEAR = ("linear_inputs", "inputs are set for the end of the next step, and linear over it; otherwise they are constant")


def model_description(export: Exported, version: int, identifier: str, token: str) -> bytes:
    """Writes modelDescription.xml.

    Args:
        version: 2 or 3.
        identifier: name of the libraries.
        token: GUID or instantiation token of the libraries.
    """
    root = ElementTree.Element("fmiModelDescription", {
        "fmiVersion": f"{version}.0", "modelName": f"{export.vehicle.name} {export.model.name}",
        "guid" if version == 2 else "instantiationToken": token, "description": export.vehicle.description or export.model.description,
        "version": __version__, "generationTool": f"lfdm_ros {__version__}", "variableNamingConvention": "structured",
        **({"numberOfEventIndicators": "0"} if version == 2 else {})})
    state, derivative = ("FMUstate", "providesDirectionalDerivative") if version == 2 else ("FMUState", "providesDirectionalDerivatives")
    capabilities = {"modelIdentifier": identifier, f"canGetAndSet{state}": "true", f"canSerialize{state}": "true", derivative: "true"}
    if version == 2:
        capabilities["canNotUseMemoryManagementFunctions"] = "true"
    else:
        capabilities["providesAdjointDerivatives"] = "true"
    if export.exchange:
        name = "completedIntegratorStepNotNeeded" if version == 2 else "needsCompletedIntegratorStep"
        ElementTree.SubElement(root, "ModelExchange", capabilities | {name: "true" if version == 2 else "false"})
    more = {"canInterpolateInputs": "true"} if version == 2 else {}
    ElementTree.SubElement(root, "CoSimulation", capabilities | {"canHandleVariableCommunicationStepSize": "true"} | more)
    _units(ElementTree.SubElement(root, "UnitDefinitions"), (*(v.field.unit for v in export.variables), "s"))
    ElementTree.SubElement(ElementTree.SubElement(root, "LogCategories"), "Category", name="logStatusError")
    ElementTree.SubElement(root, "DefaultExperiment", startTime="0", stopTime="10", stepSize=repr(export.step))
    variables = ElementTree.SubElement(root, "ModelVariables")
    numbers = {v.reference: i for i, v in enumerate(export.variables, 1)}
    for v in export.variables:
        _variable(variables, v, export, version, numbers)
    linear = {"name": _LINEAR[0], "valueReference": str(export.first["linear"]), "description": _LINEAR[1], "causality": "parameter",
              "variability": "fixed", "initial": "exact"}
    if version == 2:
        ElementTree.SubElement(ElementTree.SubElement(variables, "ScalarVariable", linear), "Boolean", start="false")
    else:
        ElementTree.SubElement(variables, "Boolean", linear | {"start": "false"})
        ElementTree.SubElement(variables, "Float64", name="time", valueReference=str(export.first["time"]), causality="independent",
                               variability="continuous", unit="s")
    _structure(ElementTree.SubElement(root, "ModelStructure"), export, version, numbers)
    return written(root)


def written(root: ElementTree.Element) -> bytes:
    """Serialises a document as indented UTF-8."""
    for element in root.iter():
        for key, text in element.attrib.items():
            element.set(key, _NO_CHARACTER.sub("", text))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def unit_name(unit: str) -> str:
    """Returns a unit in Modelica's notation: kg.m2, N.m/rad."""
    powers = _powers(unit)
    above, below = ([f"{name}{'' if abs(p) == 1 else f'{abs(p):g}'}" for name, p in powers if side * p > 0] for side in (1, -1))
    under = below[0] if len(below) == 1 else f"({'.'.join(below)})"
    return ".".join(above or ["1"]) + (f"/{under}" if below else "")


def _powers(unit: str) -> list[tuple[str, float]]:
    total: Counter[str] = Counter()
    for name, power in unit_powers(unit):
        total[name] += power  # type: ignore[assignment]
    return [(name, power) for name, power in total.items() if power]


def _units(parent: ElementTree.Element, units: Iterable[str]) -> None:
    for unit in dict.fromkeys(units):
        element = ElementTree.SubElement(parent, "Unit", name=unit_name(unit))
        exponents: Counter[str] = Counter()
        for name, power in _powers(unit):
            for base, of_base in _BASE.get(name, {"": 0.5}).items():
                exponents[base] += power * of_base  # type: ignore[assignment]
        if all(float(power).is_integer() for power in exponents.values()):
            ElementTree.SubElement(element, "BaseUnit", {base: f"{power:g}" for base, power in exponents.items() if power})
        if unit in _SHOWN:
            name, factor = _SHOWN[unit]
            ElementTree.SubElement(element, "DisplayUnit", name=name, factor=repr(factor))


def _variable(parent: ElementTree.Element, v: ExportedVariable, export: Exported, version: int, numbers: dict[int, int]) -> None:
    tunable = v.kind == TUNABLE
    about = {"name": v.name, "valueReference": str(v.reference), "causality": "parameter" if tunable else v.kind,
             "variability": {TUNABLE: "tunable", PARAMETER: "fixed"}.get(v.kind, "continuous")}
    if v.field.description:
        about["description"] = v.field.description
    if v.kind in (TUNABLE, PARAMETER):
        about["initial"] = "exact"
    elif v.kind in (OUTPUT, LOCAL):
        about["initial"] = "calculated"
    number = {"unit": unit_name(v.field.unit)}
    if v.field.unit in _SHOWN:
        number["displayUnit"] = _SHOWN[v.field.unit][0]
    if v.kind in (INPUT, TUNABLE, PARAMETER):
        number |= {key: repr(bound) for key, bound in zip(("min", "max"), v.bounds) if math.isfinite(bound)}
    if v.nominal != 1.0:
        number["nominal"] = repr(v.nominal)
    if v.of_state is not None and export.exchange:
        number["derivative"] = str(numbers[v.of_state] if version == 2 else v.of_state)
    if v.start is not None:
        number["start"] = repr(v.start)
    if version == 2:
        ElementTree.SubElement(ElementTree.SubElement(parent, "ScalarVariable", about), "Real", number)
    else:
        if about["variability"] == "continuous":
            del about["variability"]  # the default of a Float64
        ElementTree.SubElement(parent, "Float64", about | number)


def terminals(export: Exported) -> bytes:
    """Writes terminalsAndIcons.xml of FMI 3.0, which groups inputs and outputs: driver and wheels, or of a tyre alone wheel and road."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, _ in ports_of(export):
        stem, _, wheel = name.rpartition("_")
        if wheel in WHEELS:
            groups.setdefault(f"wheel_{wheel}", []).append((name, stem))
        elif name in ("steering", "throttle", "brake"):
            groups.setdefault("driver", []).append((name, name))
        elif name.startswith("wheel_"):
            groups.setdefault("wheel", []).append((name, name.removeprefix("wheel_")))
        elif name.startswith(("terrain_", "query_point")):
            groups.setdefault("road", []).append((name, name))
    root = ElementTree.Element("fmiTerminalsAndIcons", fmiVersion="3.0")
    parent = ElementTree.SubElement(root, "Terminals")
    for group, members in groups.items():
        terminal = ElementTree.SubElement(parent, "Terminal", name=group, matchingRule="bus")
        for name, member in members:
            ElementTree.SubElement(terminal, "TerminalMemberVariable", variableName=name, memberName=member, variableKind="signal")
    return written(root)


def _structure(parent: ElementTree.Element, export: Exported, version: int, numbers: dict[int, int]) -> None:
    """Writes the dependencies of unknowns: outputs on inputs, and in model exchange on states."""
    first = export.first
    slopes, outputs = dependencies(export.model)
    continuous = export.places("continuous") if export.exchange else []
    knowns = [first["x"] + i for i in continuous] + [first["u"] + i for i in range(len(export.model.inputs))]
    columns = continuous + [len(export.model.states) + i for i in range(len(export.model.inputs))]

    def listed(row: np.ndarray) -> str:
        references = sorted(reference for reference, column in zip(knowns, columns) if row[column])
        return " ".join(str(numbers[r]) if version == 2 else str(r) for r in references)

    unknowns = {"output": [(v.reference, outputs[v.reference - first["y"]]) for v in export.variables if v.kind == OUTPUT],
                "derivative": [(first["dx"] + i, slopes[i]) for i in continuous]}
    at_start = [r for r, _ in unknowns["output"]] + [r for i in continuous for r in (first["x"] + i, first["dx"] + i)]
    if version == 3:
        for kind, name in (("output", "Output"), ("derivative", "ContinuousStateDerivative")):
            for reference, row in unknowns[kind]:
                ElementTree.SubElement(parent, name, valueReference=str(reference), dependencies=listed(row))
        for reference in sorted(at_start):
            ElementTree.SubElement(parent, "InitialUnknown", valueReference=str(reference))
        return
    for kind, name in (("output", "Outputs"), ("derivative", "Derivatives")):
        if unknowns[kind]:
            _numbered(parent, name, [(numbers[reference], listed(row)) for reference, row in unknowns[kind]])
    _numbered(parent, "InitialUnknowns", sorted((numbers[reference], None) for reference in at_start))


def _numbered(parent: ElementTree.Element, name: str, rows: Sequence[tuple[int, str | None]]) -> None:
    group = ElementTree.SubElement(parent, name)
    for index, depends in rows:
        ElementTree.SubElement(group, "Unknown", {"index": str(index)} | ({} if depends is None else {"dependencies": depends}))


_SSC, _SSV, _SSD = (f"http://ssp-standard.org/SSP1/{name}" for name in (
    "SystemStructureCommon", "SystemStructureParameterValues", "SystemStructureDescription"))


class Draw(NamedTuple):
    """A posterior draw: values of the vehicle's parameters by name, SI."""

    name: str
    values: Mapping[str, float]


def posterior_draws(vehicle_file: Path, exports: Sequence[Exported], count: int, part: bool = False) -> list[list[Draw]]:
    """Selects evenly spaced draws of the posterior in the folder of a vehicle file; returns them for each export with its parameters.

    Args:
        part: the exports are parts of the vehicle: the posterior may have parameters that they lack.

    Raises:
        InputError: the file is no calibration's, or the posterior has fewer draws, parameters that the model lacks, or none of a part's.
    """
    from lfdm_ros.calibration.source import posterior_parameters

    model, where = exports[0].model.name, f"--draws {count}"
    values = posterior_parameters(vehicle_file, exports[0].vehicle.parameters if part else exports[0].tunable, model, where)
    available = min((len(column) for column in values.values()), default=0)
    if not 0 < count <= available:
        raise InputError(f"{where}: the posterior of {vehicle_file.parent} has {available}; give 1 to {available}")
    if not any(export.tunable & values.keys() for export in exports):
        raise InputError(f"{where}: {model} has none of the parameters that were calibrated: {', '.join(values)}")
    chosen = np.unique(np.linspace(0, available - 1, count).astype(int))
    return [[Draw(f"draw_{k:03d}", {name: float(column[i]) for name, column in values.items() if name in export.tunable})
             for k, i in enumerate(chosen, 1)] for export in exports]


def parameter_set(draw: Draw) -> bytes:
    """Writes a draw as an SSV file."""
    for prefix, name in (("ssc", _SSC), ("ssv", _SSV)):
        ElementTree.register_namespace(prefix, name)
    root = ElementTree.Element(f"{{{_SSV}}}ParameterSet", version="1.0", name=draw.name)
    parameters = ElementTree.SubElement(root, f"{{{_SSV}}}Parameters")
    for name, value in draw.values.items():
        parameter = ElementTree.SubElement(parameters, f"{{{_SSV}}}Parameter", name=name)
        ElementTree.SubElement(parameter, f"{{{_SSV}}}Real", value=repr(value))  # in the FMU's unit, SI
    return written(root)


class SystemPart(NamedTuple):
    """An FMU of a system: name, path in the archive, connectors (name, input or output), and its bound parameter set."""

    name: str
    source: str
    ports: Sequence[tuple[str, str]]
    bound: str = ""


class SystemLink(NamedTuple):
    """A connection from an output to an input; the element "" is the system."""

    start: str
    source: str
    end: str
    target: str


def system_structure(name: str, ports: Sequence[tuple[str, str]], parts: Sequence[SystemPart], links: Sequence[SystemLink]) -> bytes:
    """Writes SystemStructure.ssd: components, the system's connectors `ports`, and connections without unit conversion, as all are SI."""
    for prefix, name in (("ssc", _SSC), ("ssd", _SSD), ("ssv", _SSV)):
        ElementTree.register_namespace(prefix, name)

    def element(parent: ElementTree.Element, tag: str, /, **attributes: str) -> ElementTree.Element:
        return ElementTree.SubElement(parent, f"{{{_SSD}}}{tag}", attributes)

    root = ElementTree.Element(f"{{{_SSD}}}SystemStructureDescription", version="1.0", name=name)
    system = element(root, "System", name="system")

    def connectors(parent: ElementTree.Element, ports: Sequence[tuple[str, str]]) -> None:
        group = element(parent, "Connectors")
        for name, kind in ports:
            ElementTree.SubElement(element(group, "Connector", name=name, kind=kind), f"{{{_SSC}}}Real")

    connectors(system, ports)
    elements = element(system, "Elements")
    for part in parts:
        component = element(elements, "Component", name=part.name, type="application/x-fmu-sharedlibrary", source=part.source)
        connectors(component, part.ports)
        if part.bound:
            element(element(component, "ParameterBindings"), "ParameterBinding", type="application/x-ssp-parameter-set", source=part.bound)
    connections = element(system, "Connections")
    for link in links:
        ends = {"startElement": link.start, "startConnector": link.source, "endElement": link.end, "endConnector": link.target}
        element(connections, "Connection", **{key: value for key, value in ends.items() if value}, suppressUnitConversion="true")
    return written(root)


def ports_of(export: Exported) -> list[tuple[str, str]]:
    """Returns the inputs and outputs of an export with their kind."""
    return [(v.name, v.kind) for v in export.variables if v.kind in (INPUT, OUTPUT)]


def outward(part: str, ports: Iterable[tuple[str, str]]) -> list[SystemLink]:
    """Returns the connections of a component with the system's connectors of the same names."""
    return [SystemLink("", name, part, name) if kind == INPUT else SystemLink(part, name, "", name) for name, kind in ports]


_DATE = (1980, 1, 1, 0, 0, 0)  # constant, for reproducible files


def write_fmu(export: Exported, out: Path, version: int, platforms: Sequence[str], draws: Sequence[Draw] = (), summary: Path | None = None,
              progress: Callable[[str], None] = lambda _line: None) -> None:
    """Writes an FMU or, if `out` ends in .ssp, an SSP with the FMU and a parameter set for each draw.

    Args:
        version: of FMI, 2 or 3.
        platforms: names of `PLATFORMS`.
        draws: parameter sets of the posterior.
        summary: summary.json of the vehicle's calibration.
        progress: callback with a line for each step.

    Raises:
        InputError: the model cannot be exported, a platform has no linker, or the file cannot be written.
    """
    sets = {f"draws/{draw.name}.ssv": parameter_set(draw) for draw in draws}
    data = fmu_bytes(export, version, platforms, {**sets, **({"summary.json": summary.read_bytes()} if summary else {})}, progress)
    if out.suffix == ".ssp":
        fmu, ports = f"resources/{c_name(export.vehicle, export.model)}.fmu", ports_of(export)
        bound = {f"resources/{name}": content for name, content in sets.items()}
        part = SystemPart("vehicle", fmu, ports, next(iter(bound), ""))
        structure = system_structure(export.vehicle.name, ports, [part], outward(part.name, ports))
        data = archive_bytes({"SystemStructure.ssd": structure, fmu: data, **bound})
    write_bytes(out, data)


def fmu_bytes(export: Exported, version: int, platforms: Sequence[str], resources: Mapping[str, bytes],
              progress: Callable[[str], None] = lambda _line: None) -> bytes:
    """Makes an FMU, as `write_fmu`; `resources`: further files by name."""
    for platform in platforms:
        linker(platform)  # reports a missing linker before the work
    identifier, token = c_name(export.vehicle, export.model), token_of(export, version)
    content = {"modelDescription.xml": model_description(export, version, identifier, token)}
    content |= {f"resources/{name}": data for name, data in {"vehicle.yaml": vehicle_text(export.vehicle).encode(), **resources}.items()}
    if version == 3:
        content["terminalsAndIcons/terminalsAndIcons.xml"] = terminals(export)
    for platform in platforms:
        progress(f"building for {platform}")
        target = PLATFORMS[platform]
        place = f"binaries/{target.fmi2 if version == 2 else target.fmi3}/{identifier}{target.ending}"
        content[place] = library(export, platform, f"fmi{version}.c", token)
    return archive_bytes(content)


def write_bytes(out: Path, data: bytes) -> None:
    """Writes a whole file. Raises InputError: it cannot be written."""
    with prefixing(f"{out}: cannot be written", OSError), replacing(out) as partial:
        partial.write_bytes(data)


def token_of(export: Exported, version: int) -> str:
    """Returns a token from a hash of all that the library depends on."""
    digest = hashlib.sha256(repr([casadi_model(export.model).digest, export.variables, tuple(export.rest), version]).encode()).hexdigest()
    return f"{{{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}}}"


def archive_bytes(content: Mapping[str, bytes]) -> bytes:
    """Makes a zip file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in content.items():
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return out.getvalue()
