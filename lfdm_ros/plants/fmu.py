"""Reading and unpacking of FMU archives (FMI 2.0 and 3.0, co-simulation), which are not trusted.

Also of systems of connected FMUs: SSP archives (System Structure and Parameterization 1.0 and 2.0), one level deep.
"""

from __future__ import annotations

import math
import platform
import re
import stat
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import mul
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from xml.etree.ElementTree import Element

from lfdm_ros import documents
from lfdm_ros.errors import InputError, prefixing, quote, reason, suggest
from lfdm_ros.units import unit_scale

DESCRIPTION = "modelDescription.xml"
MAX_DESCRIPTION, MAX_UNPACKED, MAX_FILES = 100_000_000, 2_000_000_000, 50_000  # bytes, bytes, files
CAUSALITIES = ("input", "output", "parameter", "structuralParameter", "calculatedParameter", "local", "independent")
# Supported types by their FMI 3.0 names; those of FMI 2.0 are mapped to them.
NUMERIC = ("Float64", "Float32", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64", "Boolean")
_TYPES_2 = {"Real": "Float64", "Integer": "Int32", "Enumeration": "Int32", "Boolean": "Boolean", "String": "String"}
_BASE = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")
# Folder and suffix of this machine's binaries, in FMI 2.0 and in FMI 3.0.
_SYSTEMS = {"linux": ("linux", "linux", ".so"), "darwin": ("darwin", "darwin", ".dylib"), "win32": ("win", "windows", ".dll")}
_MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}

Scale = tuple[float, float, Any]  # SI = factor * value + offset; pint's dimension, None: not declared


@dataclass(frozen=True)
class Variable:
    """A variable: `reference` is FMI's value reference, `type` as in FMI 3.0, `start` as written; `array`: it has dimensions; `part`: its
    component in a system."""

    name: str
    reference: int
    type: str
    causality: str
    variability: str
    unit: str
    start: str
    description: str
    array: bool = False
    part: str = ""


@dataclass(frozen=True)
class FmuLink:
    """Connection of an output to an input of another FMU: target = factor * source + offset, in the units of both."""

    source: Variable
    target: Variable
    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Fmu:
    """Description of an FMU.

    Attributes:
        version: "2.0" or "3.0"; kinds: "co-simulation", "model exchange", "scheduled execution".
        identifier: of the co-simulation, the stem of its library; empty: none. token: GUID or instantiation token.
        step: of its default experiment [s], nan: not given.
        input_derivatives: supports linear inputs within a step; variable_step: supports steps of any length.
        units: by name, from declared base units, else from the name; dimension None: unknown.
        platforms: folders with binaries.
        feedthrough: some outputs depend on inputs of the same instant.
    """

    path: Path
    version: str
    name: str
    kinds: tuple[str, ...]
    identifier: str
    token: str
    step: float
    input_derivatives: bool
    variable_step: bool
    variables: Mapping[str, Variable]
    units: Mapping[str, Scale]
    platforms: tuple[str, ...]
    feedthrough: bool = False
    # Connections between parts, passes over them at an instant, and parameters set by the archive: those of an `FmuSystem`.
    links: ClassVar[tuple[FmuLink, ...]] = ()
    passes: ClassVar[int] = 0
    values: ClassVar[tuple[tuple[Variable, float], ...]] = ()

    @property
    def parts(self) -> Mapping[str, Fmu]:
        """FMUs by name; several in `FmuSystem`."""
        return {"": self}

    def variable(self, name: str, where: str) -> Variable:
        """Returns a scalar by name. Raises InputError, after `where`: it does not exist, or is no number."""
        if name not in self.variables:
            raise InputError(f"{where}: {self.path.name} has no variable {quote(name)}{suggest(name, self.variables, 'it has: ')}")
        variable = self.variables[name]
        if variable.type not in NUMERIC or variable.array:
            raise InputError(f"{where}: {quote(name)} of {self.path.name} is {'an array' if variable.array else f'a {variable.type}'}; "
                             "only scalar numbers can be used")
        return variable

    def scale(self, variable: Variable, unit: str | None, where: str) -> Scale:
        """Returns the scale of a variable's values, from `unit` or else from the FMU's unit; without either, values have no dimension.
        Raises InputError, after `where`: the unit is unknown, or of another dimension than the FMU's."""
        declared: Scale = self.units.get(variable.unit, (1.0, 0.0, None))
        if unit is None:
            if variable.unit and declared[2] is None:
                raise InputError(f"{where}: {self.path.name} gives {variable.name} in {quote(variable.unit)}, which is not known; write "
                                 "its unit: {variable: ..., unit: ...}")
            return declared
        with prefixing(where, ValueError):
            scale = unit_scale(unit)
        if declared[2] is not None and declared[2] != scale[2]:
            raise InputError(f"{where}: unit {quote(unit)} does not fit {variable.name}, which {self.path.name} gives in "
                             f"{quote(variable.unit)}")
        return scale

    def library(self) -> str:
        """Returns the path of this machine's library within the archive. Raises InputError: none."""
        if not self.identifier:
            raise InputError(f"{self.path}: no co-simulation, only {', '.join(self.kinds) or 'nothing'}; export it for co-simulation")
        folder, suffix = platform_of(self.version)
        if folder not in self.platforms:
            raise InputError(f"{self.path}: no binary for {folder}; it has {', '.join(self.platforms) or 'none'}")
        return f"binaries/{folder}/{self.identifier}{suffix}"

    def unpack(self, folder: Path) -> Path:
        """Unpacks this machine's binaries and the resources; returns the path of the library. Raises InputError: no such library, a path
        outside of the folder, a link, or more than MAX_UNPACKED bytes."""
        library, remaining = self.library(), MAX_UNPACKED
        prefixes = (str(PurePosixPath(library).parent) + "/", "resources/")
        with opened(self.path) as archive:
            for entry in archive.infolist():
                if not entry.filename.startswith(prefixes) or entry.is_dir():
                    continue
                target = folder / entry.filename
                remaining -= len(data := content(archive, entry, remaining, self.path))
                with prefixing(f"{self.path}: {quote(entry.filename)} cannot be unpacked", OSError):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)
        (folder / "resources").mkdir(exist_ok=True)
        if not (folder / library).is_file():
            raise InputError(f"{self.path}: no {library}, which its description names")
        return folder / library


def platform_of(version: str) -> tuple[str, str]:
    """Returns the folder of this machine's binaries for an FMI version, and the suffix of libraries."""
    short, long, suffix = _SYSTEMS.get(sys.platform, (sys.platform, sys.platform, ".so"))
    machine = _MACHINES.get(platform.machine(), platform.machine())
    return (f"{short}64" if version == "2.0" and machine == "x86_64" else f"{machine}-{long}"), suffix


def read_fmu(path: str | Path) -> Fmu:
    """Reads the description of an FMU without running its code. Raises InputError: no archive, or a damaged or hostile one; no readable
    description; FMI 1.0. One line with the file and what is wrong."""
    path = Path(path)
    with opened(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        if DESCRIPTION not in entries:
            raise InputError(f"{path}: no {DESCRIPTION} in it, so it is no FMU")
        root = documents.parse_xml(content(archive, entries[DESCRIPTION], MAX_DESCRIPTION, path), f"{path}: {DESCRIPTION}")
    parts = (PurePosixPath(name).parts for name in entries if not name.endswith("/"))
    platforms = tuple(sorted({part[1] for part in parts if len(part) > 2 and part[0] == "binaries"}))
    try:
        return _described(root, path, platforms)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        fault = f"attribute {error} is missing" if isinstance(error, KeyError) else quote(str(error))[1:-1]
        raise InputError(f"{path}: {DESCRIPTION}: {fault}") from None


def opened(path: Path, kind: str = "an FMU") -> zipfile.ZipFile:
    """Opens an archive and checks its names. Raises InputError: no archive, or a hostile one."""
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise InputError(f"{path}: {reason(error)}") from None
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not readable as {kind}, which is a zip file: {quote(str(error))[1:-1]}") from None
    entries = archive.infolist()
    problem = f"more than {MAX_FILES} files" if len(entries) > MAX_FILES else next(filter(None, map(_problem, entries)), None)
    if problem:
        archive.close()
        raise InputError(f"{path}: {problem}; nothing was unpacked")
    return archive


def _problem(entry: zipfile.ZipInfo) -> str | None:
    name = entry.orig_filename
    if name.startswith("/") or "\\" in name or "\0" in name or ":" in name.split("/")[0] or ".." in name.split("/"):
        return f"it holds {quote(name)}, a path outside of the archive"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return f"it holds {quote(name)}, a link"
    return f"{quote(name)} is encrypted" if entry.flag_bits & 1 else None


def content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, largest: int, path: Path) -> bytes:
    """Reads an entry of at most `largest` bytes. Raises InputError: damaged, or longer."""
    try:
        with archive.open(entry) as file:
            data = file.read(largest + 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, ValueError, RuntimeError) as error:
        raise InputError(f"{path}: {quote(entry.filename)} is damaged: {quote(str(error))[1:-1]}") from None
    except Exception as error:  # errors of lzma, bz2
        raise InputError(f"{path}: {quote(entry.filename)} is damaged: {type(error).__name__}") from None
    if len(data) > largest:
        raise InputError(f"{path}: {quote(entry.filename)} unpacks to more than {largest} bytes")
    return data


def _described(root: Element, path: Path, platforms: tuple[str, ...]) -> Fmu:
    version = root.get("fmiVersion", "")
    if root.tag != "fmiModelDescription" or not (version == "2.0" or version.startswith("3.")):
        found = f"FMI {quote(version)[1:-1]}" if root.tag == "fmiModelDescription" else f"a document {quote(root.tag)}"
        raise InputError(f"{path}: {DESCRIPTION}: {found}; this reads FMI 2.0 and 3.0")
    version = "2.0" if version == "2.0" else "3.0"
    kinds = {"CoSimulation": "co-simulation", "ModelExchange": "model exchange", "ScheduledExecution": "scheduled execution"}
    parts = {tag: root.find(tag) for tag in (*kinds, "DefaultExperiment")}
    stepping = parts["CoSimulation"]
    identifier = "" if stepping is None else stepping.attrib["modelIdentifier"]
    if stepping is not None and not re.fullmatch(r"[A-Za-z_]\w*", identifier, re.ASCII):
        raise InputError(f"{path}: {DESCRIPTION}: modelIdentifier {quote(identifier)} is no name of C")
    experiment = parts["DefaultExperiment"]
    step = math.nan if experiment is None else float(experiment.get("stepSize", "nan"))
    variables = _variables_2(root) if version == "2.0" else _variables_3(root)
    by_name = {variable.name: variable for variable in variables}
    if len(by_name) < len(variables):
        raise InputError(f"{path}: {DESCRIPTION}: a name of a variable stands twice")
    options: Mapping[str, str] = {} if stepping is None else stepping.attrib
    return Fmu(
        path=path, version=version, name=root.get("modelName", ""),
        kinds=tuple(text for tag, text in kinds.items() if parts[tag] is not None),
        identifier=identifier, token=root.attrib["guid" if version == "2.0" else "instantiationToken"], step=step,
        input_derivatives=version == "2.0" and options.get("canInterpolateInputs") in ("true", "1"),
        variable_step=options.get("canHandleVariableCommunicationStepSize") in ("true", "1"),
        variables=by_name, units=_units(root, by_name), platforms=platforms, feedthrough=_feedthrough(root, variables, version))


def _feedthrough(root: Element, variables: Sequence[Variable], version: str) -> bool:
    """Checks for declared dependencies of outputs on inputs: by index in FMI 2.0, by reference in 3.0."""
    inputs = {str(i if version == "2.0" else v.reference) for i, v in enumerate(variables, 1) if v.causality == "input"}
    outputs = root.findall("ModelStructure/Outputs/Unknown" if version == "2.0" else "ModelStructure/Output")
    return any(not inputs.isdisjoint(node.get("dependencies", "").split()) for node in outputs)


def _variables_2(root: Element) -> list[Variable]:
    declared = {node.attrib["name"]: child.get("unit", "") for node in root.findall("TypeDefinitions/SimpleType") for child in node}
    variables = []
    for node in root.findall("ModelVariables/ScalarVariable"):
        value = next((child for child in node if child.tag in _TYPES_2), None)
        if value is None:
            raise ValueError(f"variable {quote(node.attrib['name'])} has no type")
        variables.append(_variable(node, value, _TYPES_2[value.tag], declared))
    return variables


def _variables_3(root: Element) -> list[Variable]:
    declared = {node.attrib["name"]: node.get("unit", "") for node in root.findall("TypeDefinitions/*") if "name" in node.attrib}
    kinds = {"Enumeration": "Int64"}
    return [_variable(node, node, kinds.get(node.tag, node.tag), declared) for node in root.findall("ModelVariables/*")
            if node.tag != "Alias"]


def _variable(node: Element, value: Element, kind: str, declared: Mapping[str, str]) -> Variable:
    reference = int(node.attrib["valueReference"])
    if not 0 <= reference < 2**32:
        raise ValueError(f"value reference {quote(reference)} of {quote(node.attrib['name'])} is no number of 32 bits")
    return Variable(
        name=node.attrib["name"], reference=reference, type=kind, causality=node.get("causality", "local"),
        variability=node.get("variability", "continuous" if kind.startswith("Float") else "discrete"),
        unit=value.get("unit") or declared.get(value.get("declaredType", ""), ""), start=value.get("start", ""),
        description=node.get("description", ""), array=node.find("Dimension") is not None)


def _units(root: Element, variables: Mapping[str, Variable]) -> dict[str, Scale]:
    units: dict[str, Scale] = {}
    for node in root.findall("UnitDefinitions/Unit"):
        base = node.find("BaseUnit")
        if base is not None:
            powers = [(unit, int(base.get(unit, "0"))) for unit in _BASE]
            if any(abs(power) > 20 for _, power in powers):
                raise ValueError(f"unit {quote(node.attrib['name'])} has a power beyond 20")
            dimension = reduce(mul, (unit_scale(unit)[2] ** power for unit, power in powers if power), unit_scale("1")[2])
            scale = float(base.get("factor", "1")), float(base.get("offset", "0")), dimension
            if not (math.isfinite(scale[0]) and scale[0] and math.isfinite(scale[1])):
                raise ValueError(f"unit {quote(node.attrib['name'])} has no finite factor other than 0")
            units[node.attrib["name"]] = scale
    for name in {variable.unit for variable in variables.values()} - units.keys() - {""}:
        try:
            # Modelica's notation, such as kg.m2 or m/s2.
            units[name] = unit_scale(re.sub(r"(?<=[A-Za-z])(-?\d)", r"^\1", name).replace(".", "*"))
        except ValueError:
            units[name] = (1.0, 0.0, None)
    return units


STRUCTURE = "SystemStructure.ssd"
_FMU = "application/x-fmu-sharedlibrary"


@dataclass(frozen=True)
class FmuSystem:
    """Connected FMUs, with the interface of `Fmu`. `values`: parameters bound by the archive, in the FMUs' units.

    Variables are named COMPONENT.NAME, of a single component also NAME; a connector of the system to one component has its own name.
    """

    path: Path
    parts: Mapping[str, Fmu]
    links: tuple[FmuLink, ...]
    values: tuple[tuple[Variable, float], ...]
    variables: Mapping[str, Variable]
    step: float = math.nan
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False, compare=False)  # of the unpacked FMUs

    @property
    def passes(self) -> int:
        """Number of passes over the connections at an instant: one more for each FMU with feedthrough in the longest chain."""
        following: dict[str, set[str]] = {name: set() for name in self.parts}
        for link in self.links:
            following[link.source.part].add(link.target.part)

        def chain(part: str, before: frozenset[str]) -> int:
            if not self.parts[part].feedthrough or part in before:
                return 0
            return 1 + max((chain(other, before | {part}) for other in following[part]), default=0)

        return 1 + max(chain(part, frozenset()) for part in self.parts)

    def variable(self, name: str, where: str) -> Variable:
        """Returns a scalar by name, as `Fmu.variable`."""
        if name not in self.variables:
            raise InputError(f"{where}: {self.path.name} has no variable {quote(name)}{suggest(name, self.variables, 'it has: ')}")
        variable = self.variables[name]
        return replace(self.parts[variable.part].variable(variable.name, where), part=variable.part)

    def scale(self, variable: Variable, unit: str | None, where: str) -> Scale:
        """Returns the scale of a variable's values, as `Fmu.scale`."""
        return self.parts[variable.part].scale(variable, unit, where)


def read_ssp(path: str | Path) -> FmuSystem:
    """Reads a system without running code of its FMUs. Raises InputError: no archive, a damaged or hostile one, or an unsupported part:
    nested systems, components that are no FMUs, parameter files outside of the archive. One line with the file and the fault."""
    path = Path(path)
    folder = tempfile.TemporaryDirectory(prefix="lfdm_ssp_")
    with opened(path, "an SSP") as archive:
        root = documents.parse_xml(_entry(archive, STRUCTURE, MAX_DESCRIPTION, path), f"{path}: {STRUCTURE}")
        where = f"{path}: {STRUCTURE}"
        system = root.find("System")
        if root.tag != "SystemStructureDescription" or system is None:
            raise InputError(f"{where}: no System in it")
        if system.find("Elements/System") is not None:
            raise InputError(f"{where}: a system within a system; only FMUs side by side are read")
        parts: dict[str, Fmu] = {}
        for component in system.findall("Elements/Component"):
            name, source = _attribute(component, "name", where), _attribute(component, "source", where)
            if component.get("type", _FMU) != _FMU or not source.endswith(".fmu"):
                raise InputError(f"{where}: component {quote(name)} is {quote(source)}; only FMUs are read")
            if not name or name in parts:
                raise InputError(f"{where}: component {quote(name)} stands twice, or has no name")
            file = Path(folder.name, str(len(parts)), PurePosixPath(source).name)
            file.parent.mkdir()
            file.write_bytes(_entry(archive, source, MAX_UNPACKED, path))
            try:
                parts[name] = read_fmu(file)
            except InputError as error:
                raise InputError(str(error).replace(str(file), f"{path}: {source}")) from None
        if not parts:
            raise InputError(f"{where}: no FMU in it")
        variables = {f"{part}.{v.name}": replace(v, part=part) for part, fmu in parts.items() for v in fmu.variables.values()}
        combined = FmuSystem(path, parts, (), (), variables, folder=folder)
        links, connectors = _connections(system, combined, where)
        if len(parts) == 1:
            connectors = {variable.name: variable for variable in variables.values()} | connectors
        combined = replace(combined, links=tuple(links), variables=variables | connectors)
        values = tuple(_bound(system, archive, combined, where))
    steps = [fmu.step for fmu in parts.values() if fmu.step > 0.0]
    return replace(combined, values=values, step=min(steps) if len(steps) == len(parts) else math.nan)


def _entry(archive: zipfile.ZipFile, name: str, largest: int, path: Path) -> bytes:
    try:
        return content(archive, archive.getinfo(str(PurePosixPath(name))), largest, path)
    except KeyError:
        raise InputError(f"{path}: no {quote(name)} in it") from None


def _attribute(element: Element, name: str, where: str) -> str:
    value = element.get(name)
    if value is None:
        raise InputError(f"{where}: a {element.tag} without {name}")
    return value


def _connections(system: Element, fmus: FmuSystem, where: str) -> tuple[list[FmuLink], dict[str, Variable]]:
    """Reads connections between components, and the components' variables of the system's connectors by name."""
    links: list[FmuLink] = []
    connectors: dict[str, Variable] = {}
    for node in system.findall("Connections/Connection"):
        ends = [(node.get(f"{end}Element"), _attribute(node, f"{end}Connector", where)) for end in ("start", "end")]
        place = f"{where}: connection {' to '.join('.'.join(filter(None, end)) for end in ends)}"
        variables = [fmus.variable(f"{element}.{connector}", place) if element else None for element, connector in ends]
        source, target = variables
        if source is None or target is None:
            inside = source or target
            if inside is None:
                raise InputError(f"{place}: connects the system with itself")
            name = ends[0 if source is None else 1][1]
            # A connector with several components is ambiguous: only COMPONENT.NAME remains.
            if name in connectors:
                connectors.pop(name)
            else:
                connectors[name] = inside
            continue
        if source.causality != "output" or target.causality != "input":
            raise InputError(f"{place}: from {source.causality} to {target.causality}; it must go from an output to an input")
        factor, offset = 1.0, 0.0
        if node.get("suppressUnitConversion") not in ("true", "1"):
            a, b = fmus.scale(source, None, place), fmus.scale(target, None, place)
            if a[2] is not None and b[2] is not None:
                if a[2] != b[2]:
                    raise InputError(f"{place}: {quote(source.unit)} to {quote(target.unit)}, which is of another kind")
                factor, offset = a[0] / b[0], (a[1] - b[1]) / b[0]
        change = node.find("LinearTransformation")
        if change is not None:
            more, shift = (documents.number(_number(change.get(key, default), place), place) for key, default in (
                ("factor", "1"), ("offset", "0")))
            factor, offset = factor * more, factor * shift + offset
        if any(link.target == target for link in links):
            raise InputError(f"{place}: its end has two connections")
        links.append(FmuLink(source, target, factor, offset))
    return links, connectors


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {quote(text)} is no number") from None


def _bound(system: Element, archive: zipfile.ZipFile, fmus: FmuSystem, where: str) -> Iterator[tuple[Variable, float]]:
    """Yields the parameters set by the archive, the system's bindings before those of the components."""
    owners = [("", system), *((_attribute(c, "name", where), c) for c in system.findall("Elements/Component"))]
    for part, owner in owners:
        for binding in owner.findall("ParameterBindings/ParameterBinding"):
            source = binding.get("source")
            inline = binding.find("ParameterValues/ParameterSet")
            if source is None and inline is None:
                continue
            values = inline if source is None else documents.parse_xml(
                _entry(archive, source, MAX_DESCRIPTION, fmus.path), f"{fmus.path}: {source}")
            prefix = binding.get("prefix", "") or (f"{part}." if part else "")
            for parameter in values.findall("Parameters/Parameter") if values is not None else []:
                name = prefix + _attribute(parameter, "name", where)
                place = f"{fmus.path}: {source or STRUCTURE}: {name}"
                value = next(iter(parameter), None)
                if value is None or value.tag not in ("Real", "Integer", "Boolean", "Enumeration", "Float64", "Int32"):
                    raise InputError(f"{place}: only numbers are read")
                variable, text = fmus.variable(name, place), _attribute(value, "value", place)
                number = float(text in ("true", "1")) if value.tag == "Boolean" else _number(text, place)
                if value.get("unit"):
                    factor, offset, _ = fmus.scale(variable, value.get("unit"), place)
                    declared = fmus.scale(variable, None, place)
                    number = (factor * number + offset - declared[1]) / declared[0]
                yield variable, number
