"""Systems of several connected FMUs: SSP archives (System Structure and Parameterization 1.0 and 2.0), one level deep.

A variable is COMPONENT.NAME, of a single component NAME, too; a connector of the system itself has its own name where it is connected to
one component.
"""

from __future__ import annotations

import math
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from xml.etree.ElementTree import Element

from lfdm_ros import documents
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.plants.fmu import MAX_DESCRIPTION, MAX_UNPACKED, Fmu, FmuLink, Scale, Variable, content, opened, read_fmu

STRUCTURE = "SystemStructure.ssd"
_FMU = "application/x-fmu-sharedlibrary"


@dataclass(frozen=True)
class FmuSystem:
    """Connected FMUs, as `Fmu` describes one. `values`: parameters that the archive binds, in the FMUs' units."""

    path: Path
    parts: Mapping[str, Fmu]
    links: tuple[FmuLink, ...]
    values: tuple[tuple[Variable, float], ...]
    variables: Mapping[str, Variable]
    step: float = math.nan
    folder: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False, compare=False)  # in which the FMUs lie

    def variable(self, name: str, where: str) -> Variable:
        """Returns a scalar by name, as `Fmu.variable`."""
        if name not in self.variables:
            raise InputError(f"{where}: {self.path.name} has no variable {quote(name)}{suggest(name, self.variables, 'it has: ')}")
        found = self.variables[name]
        return replace(self.parts[found.part].variable(found.name, where), part=found.part)

    def scale(self, variable: Variable, unit: str | None, where: str) -> Scale:
        """Returns the scale of a variable's values, as `Fmu.scale`."""
        return self.parts[variable.part].scale(variable, unit, where)


def read_ssp(path: str | Path) -> FmuSystem:
    """Reads a system; no code of its FMUs runs.

    Raises:
        InputError: no archive, a damaged or hostile one, or what is not read here: systems in systems, components that are no FMUs, several
            parameter files by reference outside of it. One line with the file and what is wrong.
    """
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
        known = {f"{part}.{v.name}": replace(v, part=part) for part, fmu in parts.items() for v in fmu.variables.values()}
        made = FmuSystem(path, parts, (), (), known, folder=folder)
        links, own = _connections(system, made, where)
        if len(parts) == 1:
            own = {variable.name: variable for variable in known.values()} | own
        made = replace(made, links=tuple(links), variables=known | own)
        values = tuple(_bound(system, archive, made, where))
    steps = [fmu.step for fmu in parts.values() if fmu.step > 0.0]
    return replace(made, values=values, step=min(steps) if len(steps) == len(parts) else math.nan)


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


def _connections(system: Element, made: FmuSystem, where: str) -> tuple[list[FmuLink], dict[str, Variable]]:
    """Reads connections: between components, and those of the system's own connectors by their names."""
    links: list[FmuLink] = []
    own: dict[str, Variable] = {}
    for found in system.findall("Connections/Connection"):
        ends = [(found.get(f"{end}Element"), _attribute(found, f"{end}Connector", where)) for end in ("start", "end")]
        place = f"{where}: connection {' to '.join('.'.join(filter(None, end)) for end in ends)}"
        variables = [made.variable(f"{element}.{connector}", place) if element else None for element, connector in ends]
        source, target = variables
        if source is None or target is None:
            inside = source or target
            if inside is None:
                raise InputError(f"{place}: connects the system with itself")
            name = ends[0 if source is None else 1][1]
            # Of a connector that goes to several components, each is meant by COMPONENT.NAME.
            if name in own:
                own.pop(name)
            else:
                own[name] = inside
            continue
        if source.causality != "output" or target.causality != "input":
            raise InputError(f"{place}: from {source.causality} to {target.causality}; it must go from an output to an input")
        factor, offset = 1.0, 0.0
        if found.get("suppressUnitConversion") not in ("true", "1"):
            a, b = made.scale(source, None, place), made.scale(target, None, place)
            if a[2] is not None and b[2] is not None:
                if a[2] != b[2]:
                    raise InputError(f"{place}: {quote(source.unit)} to {quote(target.unit)}, which is of another kind")
                factor, offset = a[0] / b[0], (a[1] - b[1]) / b[0]
        change = found.find("LinearTransformation")
        if change is not None:
            more, shift = (documents.number(_number(change.get(key, default), place), place) for key, default in (
                ("factor", "1"), ("offset", "0")))
            factor, offset = factor * more, factor * shift + offset
        if any(link.target == target for link in links):
            raise InputError(f"{place}: its end has two connections")
        links.append(FmuLink(source, target, factor, offset))
    return links, own


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {quote(text)} is no number") from None


def _bound(system: Element, archive: zipfile.ZipFile, made: FmuSystem, where: str) -> Iterator[tuple[Variable, float]]:
    """Yields the parameters that the archive sets, of the system's bindings before those of the components."""
    owners = [("", system), *((_attribute(c, "name", where), c) for c in system.findall("Elements/Component"))]
    for part, owner in owners:
        for binding in owner.findall("ParameterBindings/ParameterBinding"):
            source = binding.get("source")
            inline = binding.find("ParameterValues/ParameterSet")
            if source is None and inline is None:
                continue
            values = inline if source is None else documents.parse_xml(
                _entry(archive, source, MAX_DESCRIPTION, made.path), f"{made.path}: {source}")
            prefix = binding.get("prefix", "") or (f"{part}." if part else "")
            for parameter in values.findall("Parameters/Parameter") if values is not None else []:
                name = prefix + _attribute(parameter, "name", where)
                place = f"{made.path}: {source or STRUCTURE}: {name}"
                value = next(iter(parameter), None)
                if value is None or value.tag not in ("Real", "Integer", "Boolean", "Enumeration", "Float64", "Int32"):
                    raise InputError(f"{place}: only numbers are read")
                variable, text = made.variable(name, place), _attribute(value, "value", place)
                number = float(text in ("true", "1")) if value.tag == "Boolean" else _number(text, place)
                if value.get("unit"):
                    factor, offset, _ = made.scale(variable, value.get("unit"), place)
                    own = made.scale(variable, None, place)
                    number = (factor * number + offset - own[1]) / own[0]
                yield variable, number
