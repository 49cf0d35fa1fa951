"""A vehicle for a browser: WebAssembly made of its C, a loader in JavaScript, and a page to drive it on."""

import json
import math
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from lfdm_ros.errors import prefixing
from lfdm_ros.exports.c_files import write_c
from lfdm_ros.exports.library import build, zig
from lfdm_ros.files import replacing, write_text
from lfdm_ros.models import Model
from lfdm_ros.vehicles import Vehicle

NAME = "vehicle"
_FUNCTIONS = ("start", "prepare", "advance", "batch", "evaluate", "parameters")
# Linked without a library: what of libm is no instruction is called in JavaScript's Math.
_COMPILE = ("cc", "-target", "wasm32-wasi", "-std=c99", "-O2", "-ffp-contract=off", "-c")
_LINK = ("--no-entry", "--allow-undefined", "--gc-sections", "--strip-all", "--export=__heap_base")


@dataclass(frozen=True)
class WasmFiles:
    """Paths of the WebAssembly, of its loader and of the page."""

    module: Path
    loader: Path
    page: Path


def write_wasm(vehicle: Vehicle, model: Model, folder: Path) -> WasmFiles:
    """Writes vehicle.wasm, vehicle.js and index.html.

    Raises:
        InputError: the extra `export` is missing; the model reads arrays; the folder cannot be written.
    """
    tool = zig("WebAssembly")
    made = WasmFiles(folder / f"{NAME}.wasm", folder / f"{NAME}.js", folder / "index.html")
    with tempfile.TemporaryDirectory(prefix="lfdm_export_") as name:
        code = write_c(vehicle, model, Path(name), NAME)
        header = code.header.read_text(encoding="utf-8")
        linked = code.source.with_suffix(".wasm")
        compiled, exports = code.source.with_suffix(".o"), [f"--export={NAME}_{function}" for function in _FUNCTIONS]
        build([*tool, *_COMPILE, code.source, "-o", compiled], "WebAssembly")
        build([*tool, "wasm-ld", compiled, "-o", linked, *_LINK, *exports], "WebAssembly")
        loader = _web(made.loader.name).replace("const ABOUT = {};", f"const ABOUT = {_about(vehicle, model, header)};")
        with prefixing(f"{folder}: the export cannot be written", OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(made.module) as partial:
                partial.write_bytes(linked.read_bytes())
            write_text(made.loader, loader)
            write_text(made.page, _web(made.page.name))
    return made


def _web(name: str) -> str:
    return files("lfdm_ros.exports").joinpath("web").joinpath(name).read_text(encoding="utf-8")


def _about(vehicle: Vehicle, model: Model, header: str) -> str:
    """Returns what the loader knows of the vehicle, as JSON: names in their order, with units, and the body from above [m]."""
    constants = vehicle.constants
    body = {"front": constants.outline.front, "rear": constants.outline.rear, "half_width": constants.outline.half_width,
            "front_axle": constants.front_axle, "rear_axle": constants.rear_axle, "track_front": constants.track_front,
            "track_rear": constants.track_rear, "wheel_radius": constants.wheel_radius}
    about = {"vehicle": vehicle.name, "model": model.name, "room": int(header.split("_q_count = ")[1].split(" ")[0]),
             "body": {key: None if math.isnan(value) else value for key, value in body.items()}}
    for kind in ("states", "inputs", "outputs", "parameters"):
        about[kind] = {field.name: field.unit for field in getattr(model, kind)}
    return json.dumps(about)
