"""Vehicle files: YAML with a value, a unit and a source for every parameter."""

import os
import textwrap
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from lfdm_ros import documents
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.files import write_text
from lfdm_ros.models.registry import SLOTS
from lfdm_ros.resources import find_config
from lfdm_ros.vehicles import schema
from lfdm_ros.vehicles.tir_file import read_tir
from lfdm_ros.vehicles.tyre_size import SHAPES, TyreSize, load_of_index
from lfdm_ros.vehicles.vehicle import Vehicle, check, choose

_SIZE_KEYS = ("vehicle_type", "load_index", "load_capacity", "width", "aspect_ratio", "rim_radius", "pressure", "design_pressure")
_PLACE = {"x": "m", "y": "m", "z": "m", "yaw": "rad", "pitch": "rad"}  # of a sensor
_TYRE_SOURCES = ("size", "tir")  # tyre keys from which values are derived


def load_vehicle(source: str | os.PathLike[str], changes: Sequence[str] = ()) -> Vehicle:
    """Reads a vehicle by name (config/vehicles) or from a YAML file; every value is converted to SI and checked.

    Args:
        changes: parameters that override the file, NAME=VALUE in SI.

    Raises:
        InputError: no such vehicle, an unknown or missing key, a wrong unit, a value out of range; the message names file and key.
    """
    path = find_config("vehicles", source)
    document = _read_with_base(path)
    required = dict.fromkeys(section for group in schema.GROUPS.values() if group.required for section in group.keys)
    documents.mapping(document, str(path), tuple(required), document)
    parameters: dict[str, float] = {}
    sources: dict[str, str] = {}
    document, sensors = _take_sensors(document, str(path))
    sections = {section: _section(document, section, str(path)) for section in schema.SECTIONS}
    for section, entries in sections.items():
        where = f"{path}: {section}"
        for key, node in entries.items():
            if (section, key) in schema.TABLES:
                _read_table(node, schema.TABLES[section, key], f"{where}.{key}", parameters, sources)
            elif key in schema.VECTORS:
                _read_vector(node, key, where, parameters, sources)
            elif key not in _TYRE_SOURCES:
                value, sources[key] = documents.quantity(node, schema.DECLARED[key].unit, f"{where}.{key}")
                parameters[key] = check(key, value, where)
    if "tir" in sections["tyre"]:
        _read_tir(sections["tyre"], path, parameters, sources)
    if "size" in sections["tyre"]:
        _read_size(sections["tyre"], parameters, sources, f"{path}: tyre.size")
    conventions = choose("conventions", document.get("conventions", "physics"), SLOTS["conventions"], str(path))
    tyre = choose("default_tyre", document["default_tyre"], SLOTS["tyre"], str(path)) if "default_tyre" in document else ""
    name, description = str(document.get("name", path.stem)), str(document.get("description", ""))
    with prefixing(path):
        vehicle = Vehicle(name, parameters, description, sources, conventions, tyre, sensors)
    return vehicle.replace(source="changed for this run", **dict(_change(text, vehicle) for text in changes)) if changes else vehicle


def _read_with_base(path: Path) -> dict[str, Any]:
    """Reads a file; missing keys, except name and description, come from its `base`, a vehicle by name or file, searched first in the same
    folder."""
    keys = ("name", "description", "conventions", "default_tyre", *schema.SECTIONS)
    document: dict[str, Any] = documents.read_yaml(path)[0]
    documents.mapping(document, str(path), optional=("base", *keys))
    if "base" not in document:
        return document
    name = documents.text(document.pop("base"), f"{path}: base")
    beside = path.parent / name
    with prefixing(f"{path}: base"):
        source = beside if beside.is_file() else find_config("vehicles", name)
    base = documents.read_yaml(source)[0]
    documents.mapping(base, f"{path}: base: {source}", optional=keys)
    inherited = {key: node for key, node in base.items() if key not in ("name", "description")}
    return {**inherited, **document, **{section: {**inherited[section], **document[section]} for section in schema.SECTIONS
                                        if isinstance(inherited.get(section), dict) and isinstance(document.get(section), dict)}}


def _take_sensors(document: dict[str, Any], path: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns the document without the entries of `sensors` that have a type, and those entries with poses in SI."""
    section, sensors = document.get("sensors"), {}
    if not isinstance(section, dict):
        return document, {}
    for name in [key for key, node in section.items() if isinstance(node, dict) and "type" in node]:
        where, node = f"{path}: sensors.{name}", section[name]
        if not (isinstance(name, str) and name.isidentifier()) or name in (*schema.SECTIONS["sensors"], "lidar", "imu", "base_link"):
            raise InputError(f"{where}: invalid sensor name; use letters, digits and _, other than lidar, imu and base_link")
        places = {key: documents.quantity(node[key], unit, f"{where}.{key}")[0] for key, unit in _PLACE.items() if key in node}
        seed = {"seed": documents.integer(node["seed"], f"{where}.seed", 0)} if "seed" in node else {}
        sensors[name] = {**node, **places, **seed}
    return {**document, "sensors": {key: node for key, node in section.items() if key not in sensors}}, sensors


def _change(text: str, vehicle: Vehicle) -> tuple[str, float]:
    """Parses one of `changes`."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError(f"change {quote(text)} of vehicle '{vehicle.name}': write NAME=VALUE, in SI units")
    return name, check(name, documents.parse_yaml(value, f"change {quote(text)}"), f"change of vehicle '{vehicle.name}'")


def save_vehicle(vehicle: Vehicle, path: str | os.PathLike[str], note: str = "") -> None:
    """Writes the vehicle as `vehicle_text`."""
    write_text(Path(path), vehicle_text(vehicle, note))


def vehicle_text(vehicle: Vehicle, note: str = "") -> str:
    """Returns the vehicle as YAML, in SI, such that `load_vehicle` restores it to the last digit; `note`: leading comment."""
    def entry(names: list[str], value: Any) -> dict[str, Any]:
        out = {"value": value, "unit": schema.DECLARED[names[0]].unit}
        return {**out, "source": vehicle.sources[names[0]]} if vehicle.sources.get(names[0]) else out

    document: dict[str, Any] = {"name": vehicle.name, "description": vehicle.description, "conventions": vehicle.conventions}
    if vehicle.default_tyre:
        document["default_tyre"] = vehicle.default_tyre
    for section, keys in schema.SECTIONS.items():
        entries: dict[str, Any] = {}
        for key in keys:
            if key in schema.VECTORS:
                if schema.components(key)[0] in vehicle.parameters:
                    entries[key] = entry(schema.components(key), [vehicle.parameters[name] for name in schema.components(key)])
                continue
            if (section, key) not in schema.TABLES:
                if key in vehicle.parameters:
                    entries[key] = entry([key], vehicle.parameters[key])
                continue
            table = schema.TABLES[section, key]
            names = {column: table.parameters(column) for column in table.columns}
            if all(name in vehicle.parameters for column in names.values() for name in column):
                rows = len(table.rows(vehicle.parameters))
                entries[key] = {column: entry(points, [vehicle.parameters[n] for n in points[:rows]]) for column, points in names.items()}
        if entries:
            document[section] = entries
    for name, sensor in vehicle.sensors.items():
        places = {key: {"value": sensor[key], "unit": unit} for key, unit in _PLACE.items() if key in sensor}
        document.setdefault("sensors", {})[name] = {**sensor, **places}
    # Flat entries are written on one line.
    text = yaml.dump(document, sort_keys=False, width=200, allow_unicode=True, default_flow_style=None)
    return "".join(f"# {line}\n" for line in textwrap.wrap(note, 138)) + text


def _section(document: Mapping[str, Any], section: str, path: str) -> dict[str, Any]:
    """Returns a section's entries after checking for unknown keys and incomplete groups."""
    entries: dict[str, Any] = document.get(section, {})
    where = f"{path}: {section}"
    elsewhere = {key: f"; it belongs in section {other}" for other, keys in schema.SECTIONS.items() for key in keys}
    documents.mapping(entries, where, (), (*schema.SECTIONS[section], *(_TYRE_SOURCES if section == "tyre" else ())), elsewhere)
    present = {key for name in schema.SECTIONS if isinstance(document.get(name), dict) for key in document[name]}
    begun = [group for group in schema.GROUPS.values()
             if group.required or any(key in present or group.instead.get(key) in present for keys in group.keys.values() for key in keys)]
    for group in begun:
        for needed in (group, *(schema.GROUPS[name] for name in group.needs)):
            for key in needed.keys.get(section, ()):
                if key not in present and needed.instead.get(key) not in present:
                    raise InputError(f"{where}: missing key '{key}', which {group.title} needs")
    if section == "powertrain" and "motor_map" in present and "gears" in present:
        raise InputError(f"{where}: motor_map and gears are two powertrains; give one")
    return entries


def _read_table(node: Any, table: schema.TableKey, where: str, parameters: dict[str, float], sources: dict[str, str]) -> None:
    columns = ", ".join(table.columns)
    entries = documents.mapping(node, where, table.columns)
    read = {column: documents.quantities(entries[column], schema.DECLARED[f"{stem}_0"].unit, f"{where}.{column}")
            for column, stem in table.columns.items()}
    lengths = {column: len(values) for column, (values, _) in read.items()}
    rows = max(lengths.values())
    if min(lengths.values()) != rows:
        counts = ", ".join(f"{column} has {count}" for column, count in lengths.items())
        raise InputError(f"{where}: columns {columns} must be lists of the same length; {counts}")
    if not table.least <= rows <= table.points:
        raise InputError(f"{where}: {rows} rows; give {table.least} to {table.points}")
    first = next(iter(read.values()))[0]
    if table.rising and any(after < before for before, after in pairwise(first)):
        raise InputError(f"{where}: {next(iter(table.columns))} must not fall from row to row")
    for column in table.columns:
        values, source = read[column]
        for i, name in enumerate(table.parameters(column)):
            parameters[name] = check(name, values[min(i, rows - 1)], f"{where}.{column}")
            sources[name] = source
    if table.count:
        parameters[table.count] = check(table.count, float(rows), where)
        sources[table.count] = next(iter(read.values()))[1]


def _read_vector(node: Any, key: str, where: str, parameters: dict[str, float], sources: dict[str, str]) -> None:
    values, source = documents.quantities(node, schema.DECLARED[schema.components(key)[0]].unit, f"{where}.{key}")
    if len(values) != 3:
        raise InputError(f"{where}.{key}: {len(values)} numbers; give three, along x, y and z")
    for name, value in zip(schema.components(key), values):
        parameters[name], sources[name] = check(name, value, where), source


def _read_tir(tyre: Mapping[str, Any], path: Path, parameters: dict[str, float], sources: dict[str, str]) -> None:
    """Adds the coefficients of a .tir file, its path relative to the vehicle's; keys in the vehicle file take precedence."""
    file = path.parent / documents.text(tyre["tir"], f"{path}: tyre.tir")
    for name, value in read_tir(file).items():
        if name not in tyre:
            parameters[name], sources[name] = value, file.name


def _read_size(tyre: Mapping[str, Any], parameters: dict[str, float], sources: dict[str, str], where: str) -> None:
    """Adds the force table derived from the tyre's size; a vertical stiffness in the file takes precedence."""
    twice = [name for name in schema.FROM_SIZE if name in tyre]
    if twice:
        raise InputError(f"{where}: {twice[0]} follows from the size; give one of the two")
    node = tyre["size"]
    documents.mapping(node, where, _SIZE_KEYS[:1], (*_SIZE_KEYS[1:], "source"))

    def read(key: str, unit: str) -> float:
        value = documents.quantity(node[key], unit, f"{where}.{key}")[0]
        if not value > 0.0:
            raise InputError(f"{where}: {key} must be above 0")
        return value

    for one, other in (("load_index", "load_capacity"), ("aspect_ratio", "rim_radius")):
        if (one in node) == (other in node):
            raise InputError(f"{where}: give {one} or {other}")
    for one, other in (("width", "aspect_ratio"), ("pressure", "design_pressure")):
        if (one in node) != (other in node):
            raise InputError(f"{where}: {one} and {other} stand together")
    kind = choose("vehicle_type", node["vehicle_type"], SHAPES, where)
    try:
        capacity = (load_of_index(documents.integer(node["load_index"], f"{where}.load_index", 0)) if "load_index" in node
                    else read("load_capacity", "N"))
        section_height = (read("width", "m") * read("aspect_ratio", "1") if "aspect_ratio" in node
                          else parameters["wheel_radius"] - read("rim_radius", "m"))
        ratio = read("pressure", "Pa") / read("design_pressure", "Pa") if "pressure" in node else 1.0
        derived = TyreSize(kind, capacity, section_height, ratio).parameters()
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None
    note = "; ".join(filter(None, ("from the size of the tyre", str(node.get("source", "")))))
    for name, value in derived.items():
        if name not in schema.VERTICAL_STIFFNESS or name not in tyre:
            parameters[name] = check(name, value, where)
            sources[name] = note
