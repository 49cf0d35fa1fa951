"""Vehicle files: YAML with a value, a unit and a source for every parameter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import yaml

from lfdm_ros.errors import InputError
from lfdm_ros.resources import find_config
from lfdm_ros.units import to_si
from lfdm_ros.vehicles.schema import DECLARED, SECTIONS, TABLE_POINTS, TABLES
from lfdm_ros.vehicles.vehicle import Vehicle, check


def load_vehicle(name: str | os.PathLike[str]) -> Vehicle:
    """Loads a vehicle by name (config/vehicles) or from a YAML file; every value is converted to SI and checked.

    Raises:
        InputError: no such vehicle, or a key that is unknown or missing, a unit that does not fit, a value out of range; the
            message names file and key.
    """
    path = find_config("vehicles", name)
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not readable YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a mapping with name, description and sections {', '.join(SECTIONS)}")
    _only(document, {"name", "description", *SECTIONS}, str(path))
    parameters: dict[str, float] = {}
    sources: dict[str, str] = {}
    for section, names in SECTIONS.items():
        where = f"{path}: {section}"
        entries = document.get(section)
        if not isinstance(entries, dict):
            raise InputError(f"{where}: section missing")
        tables = {key: columns for (place, key), columns in TABLES.items() if place == section}
        _only(entries, {*names, *tables}, where)
        for key in names:
            value, sources[key] = _quantity(entries, key, DECLARED[key].unit, where)
            parameters[key] = check(key, value, where)
        for key, columns in tables.items():
            _read_table(entries, key, columns, where, parameters, sources)
    return Vehicle(str(document.get("name", path.stem)), parameters, str(document.get("description", "")), sources)


def dump(vehicle: Vehicle) -> str:
    """The vehicle as the text of a vehicle file, in SI."""
    def entry(names: list[str], value: Any) -> dict[str, Any]:
        out = {"value": value, "unit": DECLARED[names[0]].unit}
        return {**out, "source": vehicle.sources[names[0]]} if vehicle.sources.get(names[0]) else out

    document: dict[str, Any] = {"name": vehicle.name, "description": vehicle.description}
    for section, names in SECTIONS.items():
        document[section] = {key: entry([key], vehicle.parameters[key]) for key in names}
        for (place, key), columns in TABLES.items():
            if place == section:
                stems = {column: [f"{stem}_{i}" for i in range(TABLE_POINTS)] for column, stem in columns.items()}
                document[section][key] = {column: entry(points, [vehicle.parameters[n] for n in points])
                                          for column, points in stems.items()}
    return str(yaml.dump(document, sort_keys=False, width=140, allow_unicode=True))


def _only(mapping: Mapping[str, Any], allowed: set[str], where: str) -> None:
    for key in mapping:
        if key not in allowed:
            raise InputError(f"{where}: unknown key '{key}'; allowed: {', '.join(sorted(allowed))}")


def _quantity(entries: Mapping[str, Any], key: str, unit: str, where: str) -> tuple[Any, str]:
    entry = entries.get(key)
    if entry is None:
        raise InputError(f"{where}.{key}: missing; write {key}: {{value: ..., unit: {unit}}}")
    if not isinstance(entry, dict) or "value" not in entry or "unit" not in entry:
        raise InputError(f"{where}.{key}: write {{value: ..., unit: {unit}, source: ...}}, not {entry!r}")
    _only(entry, {"value", "unit", "source"}, f"{where}.{key}")
    values = entry["value"] if isinstance(entry["value"], list) else [entry["value"]]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(f"{where}.{key}: {value!r} is not a number")
    converted = [to_si(float(value), entry["unit"], unit, f"{where}.{key}") for value in values]
    return (converted if isinstance(entry["value"], list) else converted[0]), str(entry.get("source", ""))


def _read_table(entries: Mapping[str, Any], key: str, columns: Mapping[str, str], where: str,
                parameters: dict[str, float], sources: dict[str, str]) -> None:
    table = entries.get(key)
    where = f"{where}.{key}"
    if not isinstance(table, dict):
        raise InputError(f"{where}: missing; write the columns {', '.join(columns)}")
    _only(table, set(columns), where)
    read = {column: _quantity(table, column, DECLARED[f"{stem}_0"].unit, where) for column, stem in columns.items()}
    lengths = {len(values) if isinstance(values, list) else 0 for values, _ in read.values()}
    if len(lengths) != 1 or not 2 <= min(lengths) <= TABLE_POINTS:
        raise InputError(f"{where}: columns {', '.join(columns)} must be lists of the same length, 2 to {TABLE_POINTS}")
    first = next(iter(read.values()))[0]
    if any(b < a for a, b in pairwise(first)):
        raise InputError(f"{where}: {next(iter(columns))} must not fall")
    for column, stem in columns.items():
        values, source = read[column]
        for i in range(TABLE_POINTS):
            name = f"{stem}_{i}"
            parameters[name] = check(name, values[min(i, len(values) - 1)], f"{where}.{column}")
            sources[name] = source
