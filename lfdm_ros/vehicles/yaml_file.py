"""Vehicle files: YAML with a value, a unit and a source for every parameter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from lfdm_ros import documents
from lfdm_ros.errors import InputError
from lfdm_ros.resources import find_config
from lfdm_ros.vehicles.schema import DECLARED, SECTIONS, TABLE_POINTS, TABLES
from lfdm_ros.vehicles.vehicle import Vehicle, check


def load_vehicle(name: str | os.PathLike[str]) -> Vehicle:
    """Loads a vehicle by name (config/vehicles) or from a YAML file; every value is converted to SI and checked.

    Raises:
        InputError: no such vehicle, or a key that is unknown or missing, a unit that does not fit, a value out of range; the
            message names file and key.
    """
    path = find_config("vehicles", name)
    document = documents.mapping(documents.read_yaml(path)[0], str(path), SECTIONS, ("name", "description"))
    parameters: dict[str, float] = {}
    sources: dict[str, str] = {}
    for section, names in SECTIONS.items():
        where = f"{path}: {section}"
        tables = {key: columns for (place, key), columns in TABLES.items() if place == section}
        entries = documents.mapping(document[section], where, (*names, *tables))
        for key in names:
            value, sources[key] = documents.quantity(entries[key], DECLARED[key].unit, f"{where}.{key}")
            parameters[key] = check(key, value, where)
        for key, columns in tables.items():
            _read_table(entries, key, columns, where, parameters, sources)
    return Vehicle(str(document.get("name", path.stem)), parameters, str(document.get("description", "")), sources)


def save_vehicle(vehicle: Vehicle, path: str | os.PathLike[str]) -> None:
    """Writes the vehicle as YAML, in SI, that `load_vehicle` reads back."""
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
    Path(path).write_text(yaml.dump(document, sort_keys=False, width=140, allow_unicode=True), encoding="utf-8")


def _read_table(entries: Mapping[str, Any], key: str, columns: Mapping[str, str], where: str,
                parameters: dict[str, float], sources: dict[str, str]) -> None:
    where = f"{where}.{key}"
    table = documents.mapping(entries[key], where, columns)
    read = {column: documents.quantities(table[column], DECLARED[f"{stem}_0"].unit, f"{where}.{column}")
            for column, stem in columns.items()}
    lengths = {len(values) for values, _ in read.values()}
    if len(lengths) != 1 or not 2 <= min(lengths) <= TABLE_POINTS:
        raise InputError(f"{where}: columns {', '.join(columns)} must be lists of the same length, 2 to {TABLE_POINTS}")
    first = next(iter(read.values()))[0]
    if any(after < before for before, after in pairwise(first)):
        raise InputError(f"{where}: {next(iter(columns))} must not fall")
    for column, stem in columns.items():
        values, source = read[column]
        for i in range(TABLE_POINTS):
            name = f"{stem}_{i}"
            parameters[name] = check(name, values[min(i, len(values) - 1)], f"{where}.{column}")
            sources[name] = source
