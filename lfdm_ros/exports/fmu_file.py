"""A vehicle as an FMU (FMI 2.0 or 3.0, co-simulation and, without discrete states, model exchange), or an SSP that holds one."""

import hashlib
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.errors import prefixing
from lfdm_ros.exports.c_files import c_name
from lfdm_ros.exports.library import PLATFORMS, library, linker
from lfdm_ros.exports.model_description import model_description
from lfdm_ros.exports.parameter_sets import Draw, parameter_set, system_structure
from lfdm_ros.exports.variables import Exported
from lfdm_ros.files import replacing
from lfdm_ros.vehicles import save_vehicle

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
