"""Shared libraries of a vehicle for several platforms from LLVM objects and C sources, with this machine's linker or zig."""

import importlib.util
import json
import math
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.portable import portable_texts
from lfdm_ros.compiler.machine_code import LEVELS, TRIPLE, CodeTarget, object_code
from lfdm_ros.errors import InputError, prefixing, quote, suggest
from lfdm_ros.exports.c_files import write_c
from lfdm_ros.exports.variables import PARAMETER, TUNABLE, Exported
from lfdm_ros.files import replacing, write_text
from lfdm_ros.models import Model
from lfdm_ros.vehicles import Vehicle

_X86 = {"v3": ("x86-64-v3", LEVELS["x86-64-v3"]), "base": ("x86-64", "")}
_ARM = {"base": ("generic", "")}


@dataclass(frozen=True)
class Platform:
    """A platform: LLVM triple, zig target, library suffix, FMU folders of FMI 2 and 3, and (processor, features) by level."""

    triple: str
    zig: str
    ending: str
    fmi2: str
    fmi3: str
    levels: Mapping[str, tuple[str, str]]


PLATFORMS = {
    "linux64": Platform("x86_64-unknown-linux-gnu", "x86_64-linux-gnu.2.17", ".so", "linux64", "x86_64-linux", _X86),
    "win64": Platform("x86_64-w64-windows-gnu", "x86_64-windows-gnu", ".dll", "win64", "x86_64-windows", _X86),
    "aarch64-linux": Platform("aarch64-unknown-linux-gnu", "aarch64-linux-gnu.2.17", ".so", "aarch64-linux", "aarch64-linux", _ARM),
    "macos-x86_64": Platform("x86_64-apple-macosx11.0", "x86_64-macos", ".dylib", "darwin64", "x86_64-darwin", _X86),
    "macos-arm64": Platform("arm64-apple-macosx11.0", "aarch64-macos", ".dylib", "aarch64-darwin", "aarch64-darwin", _ARM),
}


def platforms_named(text: str) -> list[str]:
    """Returns the platforms of a list such as "linux64,win64"; "macos" are both processors. Raises InputError: an unknown one."""
    platforms: list[str] = []
    for name in text.split(","):
        matching = [name] if name in PLATFORMS else [p for p in PLATFORMS if p.startswith(f"{name}-")] if name == "macos" else []
        if not matching:
            raise InputError(f"--platform {quote(name)}: no such platform{suggest(name, [*PLATFORMS, 'macos'], 'choose of: ')}")
        platforms += [p for p in matching if p not in platforms]
    return platforms


def own_platform() -> str:
    """Returns the platform of this machine. Raises InputError: an unsupported one."""
    machine, system = TRIPLE.split("-", 1)
    for name, platform in PLATFORMS.items():
        if platform.triple.split("-")[0] in (machine, machine.replace("aarch64", "arm64")) and any(
                kind in system and kind in platform.triple for kind in ("linux", "windows", "macosx")):
            return name
    raise InputError(f"this machine ({TRIPLE}) is none of the platforms {', '.join(PLATFORMS)}; name one by --platform")


def library(export: Exported, platform: str, source: str, token: str) -> bytes:
    """Builds a shared library. source: C file of `exports/c` with the interface; token: instantiation token that the interface checks.
    Raises InputError: the model reads arrays; no linker for the platform; the linker fails."""
    target = PLATFORMS[platform]
    with tempfile.TemporaryDirectory(prefix="lfdm_export_") as name:
        folder = Path(name)
        objects: list[Path] = []
        texts = portable_texts(export.model, export.vehicle.parameters)
        for level, (cpu, features) in target.levels.items():
            key = f"portable {casadi_model(export.model).digest} {level} {sorted(export.vehicle.parameters.items())}"
            for function, text in texts.items():
                objects.append(folder / f"{level}_{function}.o")
                objects[-1].write_bytes(object_code(f"{key} {function}", partial(text, target.triple, f"{level}_"),
                                                    CodeTarget(target.triple, cpu, features), linked=True))
        for entry in files("lfdm_ros.exports").joinpath("c").iterdir():
            (folder / entry.name).write_bytes(entry.read_bytes())
        (folder / "model.h").write_text(_header(export, list(target.levels), token), encoding="ascii")
        out = folder / f"library{target.ending}"
        options = ["-shared", "-O2", "-fvisibility=hidden", "-ffp-contract=off", "-s"]
        if target.ending == ".so":
            options += ["-lm", "-fPIC", "-Wl,-Bsymbolic"]
        build([*linker(platform), "-o", out, folder / source, *objects, *options], f"--platform {platform}: linking")
        return out.read_bytes()


def linker(platform: str) -> list[str]:
    """Returns the link command for a platform. Raises InputError: none available."""
    compiler = platform == own_platform() and (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"))
    if compiler:
        return [compiler]
    here = " here without a C compiler (apt install gcc)" if platform == own_platform() else ""
    return [*zig(f"--platform {platform}: linking{here}"), "cc", "-target", PLATFORMS[platform].zig]


def _header(export: Exported, levels: Sequence[str], token: str) -> str:
    """Writes model.h."""
    model, places, first = export.model, export.places, export.first
    count = first["linear"]
    start, names, nominal = [0.0] * count, [""] * count, [1.0] * len(model.states)
    lower, upper = ["-INFINITY"] * count, ["INFINITY"] * count
    for v in export.variables:
        names[v.reference] = v.name
        if v.start is not None:
            start[v.reference] = v.start
        if v.kind in (PARAMETER, TUNABLE, "input"):
            lower[v.reference], upper[v.reference] = (_number(bound) for bound in v.bounds)
        if first["x"] <= v.reference < first["dx"]:
            nominal[v.reference - first["x"]] = v.nominal
    states = [f.name for f in model.states]
    resting, rates = ([states.index(pair[k]) for pair in model.resting] for k in (0, 1))
    held_states, continuous = places("held"), places("continuous")
    declarations = "\n".join(f"{result} {level}_{name}({arguments});"
                             for level in levels for name, (result, arguments) in _FUNCTIONS.items())
    members = "\n".join(f"  {result} (*{name})({arguments});" for name, (result, arguments) in _FUNCTIONS.items())
    tables = "\n".join(f"  static const Functions {level} = {{{', '.join(f'{level}_{name}' for name in _FUNCTIONS)}}};" for level in levels)
    chosen = "return here() ? &v3 : &base;" if len(levels) > 1 else f"return &{levels[0]};"
    return f"""/* Written by lfdm_ros: {model.name}. */
#include <math.h>
#include <stdint.h>
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define NX {len(model.states)}
#define NU {len(model.inputs)}
#define NY {len(model.outputs)}
#define NP {len(model.parameters)}
#define NPLACE {first["step"] - first["place"]}
#define NC {len(continuous)}
#define NH {len(held_states)}
#define NREST {len(resting)}
#define NN {max(len(held_states), len(resting), 1)}
#define MODEL_EXCHANGE {int(export.exchange)}
#define TOKEN "{token}"
static const int CONTINUOUS[] = {{{_listed(continuous)}}}, HELD[] = {{{_listed(held_states)}}}, RESTING[] = {{{_listed(resting)}}};
static const int RATES[] = {{{_listed(rates)}}};
static const double REST[NX] = {{{_listed(export.rest)}}};
static const double NOMINAL[NX] = {{{_listed(nominal)}}};
static const double START[{count}] = {{{_listed(start)}}};
static const double LOWER[{count}] = {{{', '.join(lower)}}};
static const double UPPER[{count}] = {{{', '.join(upper)}}};
static const char *const NAMES[{count}] = {{{', '.join(f'"{name}"' for name in names)}}};
{declarations}

typedef struct {{
{members}
}} Functions;
{_PROCESSOR if len(levels) > 1 else ""}
static const Functions *functions(void) {{
{tables}
  {chosen}
}}
"""


_IN, _OUT = "const double *", "double *"
_FUNCTIONS = {
    "size": ("int64_t", "void"), "prepare": ("void", f"{_IN}, {_OUT}"),
    "advance": ("int64_t", f"{_OUT}, {_IN}, {_IN}, {_IN}, int64_t, double, double"),
    "evaluate": ("void", ", ".join([_IN] * 4 + [_OUT] * 2)), "forward": ("void", ", ".join([_IN] * 7 + [_OUT] * 2)),
    "start": ("void", ", ".join([_IN] * 3 + [_OUT]))}
# Checks that processor and system support x86-64-v3: AVX2, FMA, BMI2, and saved YMM registers.
_PROCESSOR = """
#include <cpuid.h>
static int here(void) {
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1) || !(c >> 12 & 1)) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 5 & 1) && (b >> 8 & 1);
}
"""


def _number(value: float) -> str:
    return {float("inf"): "INFINITY", float("-inf"): "-INFINITY"}.get(value) or float.hex(float(value))


def _listed(values: Sequence[float]) -> str:
    return ", ".join(str(v) if isinstance(v, int) else _number(v) for v in values) or "0"


def zig(purpose: str) -> list[str]:
    """Returns the command of zig. Raises InputError, which begins with the purpose: zig is missing."""
    if importlib.util.find_spec("ziglang") is None:
        raise InputError(f"{purpose} needs the package ziglang, a compiler (the extra 'export'): pip install ziglang")
    return [sys.executable, "-m", "ziglang"]


def build(command: Sequence[object], purpose: str) -> None:
    """Runs a compiler or linker. Raises InputError: it fails; with its first error line."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        message = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip() or f"status {done.returncode}")
        raise InputError(f"{purpose}: {command[0]} fails: {message}")


NAME = "vehicle"
_CALLED = ("start", "prepare", "advance", "batch", "evaluate", "parameters")
# Linked without libm: the loader supplies its functions from JavaScript's Math.
_COMPILE = ("cc", "-target", "wasm32-wasi", "-std=c99", "-O2", "-ffp-contract=off", "-c")
_LINK = ("--no-entry", "--allow-undefined", "--gc-sections", "--strip-all", "--export=__heap_base")


@dataclass(frozen=True)
class WasmFiles:
    """Paths of the WebAssembly module, its loader and the page."""

    module: Path
    loader: Path
    page: Path


def write_wasm(vehicle: Vehicle, model: Model, folder: Path) -> WasmFiles:
    """Writes vehicle.wasm, vehicle.js and index.html. Raises InputError: the extra `export` is missing; the model reads arrays; the folder
    cannot be written."""
    tool = zig("WebAssembly")
    files = WasmFiles(folder / f"{NAME}.wasm", folder / f"{NAME}.js", folder / "index.html")
    with tempfile.TemporaryDirectory(prefix="lfdm_export_") as name:
        code = write_c(vehicle, model, Path(name), NAME)
        header = code.header.read_text(encoding="utf-8")
        linked = code.source.with_suffix(".wasm")
        compiled, exports = code.source.with_suffix(".o"), [f"--export={NAME}_{function}" for function in _CALLED]
        build([*tool, *_COMPILE, code.source, "-o", compiled], "WebAssembly")
        build([*tool, "wasm-ld", compiled, "-o", linked, *_LINK, *exports], "WebAssembly")
        loader = _web(files.loader.name).replace("const ABOUT = {};", f"const ABOUT = {_about(vehicle, model, header)};")
        with prefixing(f"{folder}: the export cannot be written", OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(files.module) as partial:
                partial.write_bytes(linked.read_bytes())
            write_text(files.loader, loader)
            write_text(files.page, _web(files.page.name))
    return files


def _web(name: str) -> str:
    return files("lfdm_ros.exports").joinpath("web").joinpath(name).read_text(encoding="utf-8")


def _about(vehicle: Vehicle, model: Model, header: str) -> str:
    """Returns the loader's description of the vehicle as JSON: names in order, with units, and the body's outline [m]."""
    constants = vehicle.constants
    body = {**asdict(constants.outline), **{name: getattr(constants, name) for name in (
        "front_axle", "rear_axle", "track_front", "track_rear", "wheel_radius")}}
    about = {"vehicle": vehicle.name, "model": model.name, "room": int(header.split("_q_count = ")[1].split(" ")[0]),
             "body": {key: None if math.isnan(value) else value for key, value in body.items()}}
    for kind in ("states", "inputs", "outputs", "parameters"):
        about[kind] = {field.name: field.unit for field in getattr(model, kind)}
    return json.dumps(about)
