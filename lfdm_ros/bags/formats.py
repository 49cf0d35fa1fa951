"""Reads MATLAB, Parquet, MDF and CAN logs into columns, each by its usual library."""

import importlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.bags.expressions import SourceTable
from lfdm_ros.bags.mapping import MappedSource
from lfdm_ros.bags.mapping_keys import FORMATS
from lfdm_ros.errors import InputError, suggest

_MODULES = {"h5py": "h5py", "pyarrow": "pyarrow.parquet", "asammdf": "asammdf", "python-can": "can", "cantools": "cantools"}
_HDF5 = b"\x89HDF\r\n\x1a\n"
_NESTED = 8  # maximum nesting of structures


def read_mat(source: MappedSource, path: Path) -> SourceTable:
    """Reads MATLAB files of versions 5 to 7.3. Raises InputError: not such a file, or the mapped variables differ in length."""
    from scipy.io import loadmat

    try:
        with path.open("rb") as file:
            newest = _HDF5 in file.read(1024)  # version 7.3: HDF5, behind a header of MATLAB
        vectors = _read_hdf5(path) if newest else dict(_mat_vectors(loadmat(path, simplify_cells=True)))
    except (OSError, InputError):
        raise
    except Exception as error:  # a broken file may raise any exception
        raise _unreadable(path, "MATLAB file", error) from None
    taken = [column.column for column in source.columns if column.column in vectors]
    lengths = {len(vectors[name]) for name in taken or vectors}
    if len(lengths) != 1:
        listed = ", ".join(f"{name} ({len(vectors[name])})" for name in taken or vectors) or "none"
        raise InputError(f"{path}: the variables of a source must be numeric vectors of one length; there are {listed}; give those of "
                         "another length a source of their own")
    rows = lengths.pop()
    return SourceTable(str(path), {name: values for name, values in vectors.items() if len(values) == rows}, rows, None)


def _mat_vectors(content: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """Returns numeric vectors by name, those in structures by STRUCT.FIELD."""
    for name, value in content.items():
        if name.startswith("__"):
            continue
        if isinstance(value, Mapping) and depth < _NESTED:
            yield from _mat_vectors(value, f"{prefix}{name}.", depth + 1)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub" and value.size > 1 and value.size == max(value.shape):
            yield f"{prefix}{name}", np.asarray(value, dtype=float).ravel()


def _read_hdf5(path: Path) -> dict[str, np.ndarray]:
    h5py = _library("h5py", "mat", path, "a MATLAB 7.3 file")
    vectors: dict[str, np.ndarray] = {}

    def visit(name: str, item: Any) -> None:
        hidden = name.startswith("#")  # where MATLAB stores the targets of references
        if not hidden and isinstance(item, h5py.Dataset) and item.dtype.kind in "fiub" and 1 < item.size == max(item.shape):
            vectors[name.replace("/", ".")] = np.asarray(item[()], dtype=float).ravel()

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return vectors


def read_parquet(source: MappedSource, path: Path) -> SourceTable:
    """Reads the mapped columns of Parquet. Raises InputError: not such a file, or a mapped column is not numeric."""
    parquet = _library("pyarrow", "parquet", path)
    try:
        table = parquet.read_table(path)
        while any(str(field.type).startswith("struct") for field in table.schema):
            table = table.flatten()
    except FileNotFoundError:
        raise
    except Exception as error:  # as above
        raise _unreadable(path, "Parquet file", error) from None
    taken = {column.column for column in source.columns}
    columns = {name: _arrow_numbers(table.column(name), f"{path}: column '{name}'") if name in taken else np.empty(0)
               for name in table.column_names}
    return SourceTable(str(path), columns, table.num_rows, None)


def _arrow_numbers(column: Any, where: str) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[kind.unit]
        return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=float) * scale
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)):
        raise InputError(f"{where} is of type {kind}, not numbers")
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


def read_mdf(source: MappedSource, path: Path) -> SourceTable:
    """Reads one channel group of an ASAM MDF file, version 3 or 4. Raises InputError: not such a file, or not exactly one group has the
    channels."""
    asammdf = _library("asammdf", "mdf", path)
    if not path.is_file():
        raise FileNotFoundError(path)
    try:
        file = asammdf.MDF(path)
    except Exception as error:  # as above
        raise _unreadable(path, "MDF file", error) from None
    with file:
        places = {name: list(found) for name, found in file.channels_db.items()}  # [(group, channel), ...]
        group = _mdf_group(source, file, places, str(path))
        taken = [column.column for column in source.columns if any(g == group for g, _ in places.get(column.column, ()))]
        columns, time = {}, np.asarray(file.get_master(group), dtype=float)
        for name in taken:
            samples = file.get(name, group=group).samples
            if samples.dtype.kind not in "fiub":  # numeric codes of texts
                samples = file.get(name, group=group, raw=True).samples
            if samples.dtype.kind not in "fiub" or samples.ndim != 1:
                raise InputError(f"{path}: channel '{name}' holds no numbers")
            columns[name] = np.asarray(samples, dtype=float)
        others = {name: np.empty(0) for name, found in places.items() if name not in columns and any(g == group for g, _ in found)}
    return SourceTable(f"{path}, group {group}", {**columns, **others}, len(time), None, time)


def _mdf_group(source: MappedSource, file: Any, places: Mapping[str, list[tuple[int, int]]], path: str) -> int:
    called = {i: str(group.channel_group.acq_name or "") if hasattr(group.channel_group, "acq_name") else "" for i, group in
              enumerate(file.groups)}
    if source.group is not None:
        found = [i for i, name in called.items() if source.group in (i, name)]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"{i} {name}".strip() for i, name in called.items())
        raise InputError(f"{source.where}.group: {path} has {'more than one' if found else 'no'} group {source.group!r}; it has {listed}")
    needed = [column.column for column in source.columns if not column.optional]
    for name in needed:
        if name not in places:
            raise InputError(f"{source.where}: {path} has no channel '{name}'{suggest(name, places)}")
    fitting = set.intersection(*({g for g, _ in places[name]} for name in needed)) if needed else set()
    if len(fitting) == 1:
        return fitting.pop()
    if not fitting:
        where = ", ".join(f"{name} in {' and '.join(str(g) for g, _ in places[name])}" for name in needed)
        raise InputError(f"{source.where}: no channel group of {path} has all of its columns ({where}); make a source of each group, and "
                         "read the others' columns as source.column")
    raise InputError(f"{source.where}: groups {', '.join(map(str, sorted(fitting)))} of {path} have these channels; choose one with group:")


def read_can(source: MappedSource, path: Path, mapping: Path) -> SourceTable:
    """Reads the frames of one message in a log of CAN frames, by a DBC file. Raises InputError: log or DBC cannot be read, the DBC has no
    such message, or none was received."""
    can, cantools = _library("python-can", "can", path), _library("cantools", "can", path)
    if not path.is_file():
        raise FileNotFoundError(path)
    assert source.dbc is not None
    dbc = next((folder / source.dbc for folder in (path.parent, mapping.parent) if (folder / source.dbc).is_file()), None)
    if dbc is None:
        raise InputError(f"{source.where}.dbc: no file {source.dbc} beside {path} or {mapping}")
    try:
        message = cantools.database.load_file(dbc, strict=False).get_message_by_name(source.message)
    except KeyError:
        available = [m.name for m in cantools.database.load_file(dbc, strict=False).messages]
        raise InputError(f"{source.where}.message: {dbc} has no message '{source.message}'"
                         f"{suggest(source.message, available, 'it has ')}") from None
    except Exception as error:  # as above
        raise _unreadable(dbc, "DBC file", error) from None
    signals = [signal.name for signal in message.signals]
    times: list[float] = []
    rows: list[list[float]] = []
    try:
        with can.LogReader(path) as log:
            for frame in log:
                if frame.arbitration_id != message.frame_id or frame.is_extended_id != message.is_extended_frame or frame.is_error_frame:
                    continue
                values = message.decode(frame.data, decode_choices=False, allow_truncated=True)
                times.append(frame.timestamp)
                rows.append([float(values.get(name, math.nan)) for name in signals])  # multiplexed messages lack some
    except Exception as error:  # as above
        raise _unreadable(path, "log of CAN frames", error) from None
    if not rows:
        raise InputError(f"{path} holds no frame of the message {source.message} (0x{message.frame_id:X})")
    return SourceTable(f"{path}, message {source.message}", dict(zip(signals, np.array(rows).T)), len(rows), None, np.array(times))


def _library(package: str, form: str, path: Path, subject: str = "") -> Any:
    try:
        return importlib.import_module(_MODULES[package])
    except ImportError:
        packages = " ".join(FORMATS[form].packages)
        raise InputError(f"{path}: {subject or f'a source of format {form}'} needs {package}: pip install {packages}, or "
                         '"lfdm-ros[formats]"') from None


def _unreadable(path: Path, kind: str, error: Exception) -> InputError:
    return InputError(f"{path} is no readable {kind}: {error}")
