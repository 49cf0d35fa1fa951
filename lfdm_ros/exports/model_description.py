"""modelDescription.xml of FMI 2.0 and 3.0, of one list of variables (FMI 2.0.4 chapter 2.2, FMI 3.0.1 chapter 2.4)."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.backends.portable import dependencies
from lfdm_ros.exports.variables import INPUT, LOCAL, OUTPUT, PARAMETER, TUNABLE, Exported, ExportedVariable
from lfdm_ros.units import unit_powers

_NO_CHARACTER = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # of XML 1.0
_BASE = {"kg": {"kg": 1}, "m": {"m": 1}, "s": {"s": 1}, "rad": {"rad": 1}, "N": {"kg": 1, "m": 1, "s": -2}}
_SHOWN = {"rad": ("deg", 180.0 / math.pi), "rad/s": ("deg/s", 180.0 / math.pi), "m/s": ("km/h", 3.6)}
_LINEAR = ("linear_inputs", "inputs that are set belong to the end of the next step, linear from those of its start; else they are held")


def model_description(export: Exported, version: int, identifier: str, token: str) -> bytes:
    """Writes the file.

    Args:
        version: 2 or 3.
        identifier: name of the libraries.
        token: GUID, or instantiation token, that the libraries have too.
    """
    root = ElementTree.Element("fmiModelDescription", {
        "fmiVersion": f"{version}.0", "modelName": f"{export.vehicle.name} {export.model.name}",
        "guid" if version == 2 else "instantiationToken": token, "description": export.vehicle.description or export.model.description,
        "version": __version__, "generationTool": f"lfdm_ros {__version__}", "variableNamingConvention": "structured",
        **({"numberOfEventIndicators": "0"} if version == 2 else {})})
    state, derivative = ("FMUstate", "providesDirectionalDerivative") if version == 2 else ("FMUState", "providesDirectionalDerivatives")
    able = {"modelIdentifier": identifier, f"canGetAndSet{state}": "true", f"canSerialize{state}": "true", derivative: "true"}
    if version == 2:
        able["canNotUseMemoryManagementFunctions"] = "true"
    else:
        able["providesAdjointDerivatives"] = "true"
    if export.exchange:
        name = "completedIntegratorStepNotNeeded" if version == 2 else "needsCompletedIntegratorStep"
        ElementTree.SubElement(root, "ModelExchange", able | {name: "true" if version == 2 else "false"})
    more = {"canInterpolateInputs": "true"} if version == 2 else {}
    ElementTree.SubElement(root, "CoSimulation", able | {"canHandleVariableCommunicationStepSize": "true"} | more)
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
    """Writes a document as UTF-8, indented."""
    for element in root.iter():
        for key, text in element.attrib.items():
            element.set(key, _NO_CHARACTER.sub("", text))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def unit_name(unit: str) -> str:
    """Returns a unit as Modelica writes it: kg.m2, N.m/rad."""
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


def _structure(parent: ElementTree.Element, export: Exported, version: int, numbers: dict[int, int]) -> None:
    """Writes which unknown depends on which known: outputs on inputs, and in model exchange on states."""
    first = export.first
    slopes, outputs = dependencies(export.model)
    continuous = export.places("continuous") if export.exchange else []
    knowns = [first["x"] + i for i in continuous] + [first["u"] + i for i in range(len(export.model.inputs))]
    columns = continuous + [len(export.model.states) + i for i in range(len(export.model.inputs))]

    def listed(row: np.ndarray) -> str:
        found = [known for known, column in zip(knowns, columns) if row[column]]
        return " ".join(str(numbers[r]) if version == 2 else str(r) for r in sorted(found))

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
