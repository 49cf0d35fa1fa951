"""Export of a vehicle as one C file and one header that need libm only."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lfdm_ros import __version__
from lfdm_ros.backends.portable import batch_function, portable_functions
from lfdm_ros.compiler.builder import Builder, module_text
from lfdm_ros.compiler.c_source import c_number, c_source
from lfdm_ros.errors import InputError, prefixing, quote
from lfdm_ros.exports.variables import START
from lfdm_ros.files import replacing
from lfdm_ros.models import Field, Model
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import Vehicle

LANES = 8  # vehicles in a vector of a batch
VECTORS = "LFDM_VECTORS"  # macro that enables vectors
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_STEPPING = ("prepare", "advance")


@dataclass(frozen=True)
class CFiles:
    """Paths of a source file and of its header, and the prefix of all names in them."""

    name: str
    source: Path
    header: Path


def c_name(vehicle: Vehicle, model: Model) -> str:
    """Returns the default name of an export, such as hmmwv_eight_dof."""
    name = re.sub(r"\W", "_", f"{vehicle.name}_{model.name.split('/')[0]}", flags=re.ASCII)
    return name if _NAME.fullmatch(name) else f"v_{name}"


def _comment(text: str) -> str:
    """Returns a text in one line, safe within a C comment."""
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").split())


def write_c(vehicle: Vehicle, model: Model, folder: Path, name: str = "") -> CFiles:
    """Writes NAME.c and NAME.h. name: prefix of files and functions; default `c_name`. Raises InputError: the model reads arrays; the name
    is no C identifier; the folder cannot be written."""
    name = name or c_name(vehicle, model)
    if not _NAME.fullmatch(name):
        raise InputError(f"--name {quote(name)}: give a name of C: letters, digits and _, beginning with a letter")
    files = CFiles(name, folder / f"{name}.c", folder / f"{name}.h")
    with prefixing(f"{folder}: the export cannot be written", OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(files.source) as source, replacing(files.header) as header:
            for file in (source, header):
                file.touch()  # reports an unwritable folder before the work
            for file, text in zip((source, header), c_texts(vehicle, model, name)):
                file.write_text(text, encoding="utf-8")
    return files


def c_texts(vehicle: Vehicle, model: Model, name: str) -> tuple[str, str]:
    """Returns source and header. Raises InputError: the model reads arrays."""
    scalar, packed = (portable_functions(model, vehicle.parameters, packing) for packing in (False, True))
    both = {key: code for key, code in scalar.items() if key not in (*_STEPPING, "size")}
    numbers = max(int(str(functions["size"].result)) for functions in (scalar, packed))
    common = c_source(module_text("", both))

    def chosen(functions: dict[str, Builder]) -> str:
        source = c_source(module_text("", functions))
        return "\n".join([*(line for line in source.before if line not in common.before), source.functions])

    steps = {key: scalar[key] for key in _STEPPING}
    vectors = {key: packed[key] for key in _STEPPING} | {"batch": batch_function(model, LANES)}
    title = f"{model.name} of the vehicle {_comment(vehicle.name)}, written by lfdm_ros {__version__}"
    source = "\n".join([
        f"/* {title}. Link with -lm. {VECTORS} chooses code in vectors, for gcc and clang. */",
        f'#include "{name}.h"', "#include <stddef.h>", "#include <stdint.h>", *common.before, common.functions,
        f"#ifdef {VECTORS}", chosen(vectors), "#else", chosen(steps), "#endif",
        _table(f"{name}_parameters", model.parameters, vehicle.vector(model)),
        _table(f"{name}_rest", model.states, initial_state(model, vehicle)), _CALLS.replace("NAME", name)])
    return source, _header(vehicle, model, name, numbers, title)


def _table(name: str, fields: Sequence[Field], values: np.ndarray) -> str:
    lines = [f"  {c_number(float(value))},  /* {field.name} [{field.unit}] */" for field, value in zip(fields, values)]
    return "\n".join([f"const double {name}[{len(fields)}] = {{", *lines, "};"])


_CALLS = f"""
void NAME_start(const double *p, const double *place, double *x) {{ start(p, place, NAME_rest, x); }}

void NAME_prepare(const double *p, double *q) {{ prepare(p, q); }}

int NAME_advance(double *x, const double *q, const double *u0, const double *u1, int n, double h) {{
  return n < 1 || advance(x, q, u0, u1, n, h, 1.0 / n) != 0;
}}

int NAME_batch(double *x, const double *p, const double *u0, const double *u1, int vehicles, int n, double h) {{
  int fine = 1, first = 0;
  if (n < 1) return 1;
#ifdef {VECTORS}
  first = vehicles - vehicles % {LANES};
  if (first > 0) fine = batch(x, p, u0, u1, vehicles, first, n, h, 1.0 / n) != 0;
#endif
  for (int k = first; k < vehicles; ++k) {{
    double xk[NAME_x_count], pk[NAME_p_count], q[NAME_q_count], a[NAME_u_count], b[NAME_u_count];
    for (int i = 0; i < NAME_x_count; ++i) xk[i] = x[(size_t)i * (size_t)vehicles + (size_t)k];
    for (int i = 0; i < NAME_p_count; ++i) pk[i] = p[(size_t)i * (size_t)vehicles + (size_t)k];
    for (int i = 0; i < NAME_u_count; ++i) a[i] = u0[(size_t)i * (size_t)vehicles + (size_t)k];
    for (int i = 0; i < NAME_u_count; ++i) b[i] = u1[(size_t)i * (size_t)vehicles + (size_t)k];
    prepare(pk, q);
    if (!advance(xk, q, a, b, n, h, 1.0 / n)) fine = 0;
    for (int i = 0; i < NAME_x_count; ++i) x[(size_t)i * (size_t)vehicles + (size_t)k] = xk[i];
  }}
  return fine;
}}

void NAME_evaluate(const double *x, const double *u, const double *p, double h, double *dx, double *y) {{ evaluate(x, u, p, &h, dx, y); }}

void NAME_forward(const double *x, const double *u, const double *p, double h, const double *sx, const double *su, const double *sp,
                  double *dx, double *y) {{ forward(x, u, p, &h, sx, su, sp, dx, y); }}

void NAME_reverse(const double *x, const double *u, const double *p, double h, const double *sdx, const double *sy, double *gx, double *gu,
                  double *gp) {{ reverse(x, u, p, &h, sdx, sy, gx, gu, gp); }}
"""


def _header(vehicle: Vehicle, model: Model, name: str, numbers: int, title: str) -> str:
    def places(kind: str, fields: Sequence[Field], computed: frozenset[str] | None = None) -> str:
        lines = [f"  {name}_{kind}_{field.name} = {i},  /* [{field.unit}] {_comment(field.description)}"
                 f"{'' if computed is None or field.name in computed else '; 0, the model has none'} */" for i, field in enumerate(fields)]
        return "\n".join(["enum {", *lines, f"  {name}_{kind}_count = {len(fields)}", "};", ""])

    guard = f"{name.upper()}_H"
    return f"""/* {title}: {_comment(model.description)}.
   SI units; axes of ISO 8855: x forward, y to the left, z up; steering is positive to the left. Steps of at most {model.largest_step:g} s.
   All functions are reentrant and allocate no memory. */
#ifndef {guard}
#define {guard}
#ifdef __cplusplus
extern "C" {{
#endif

/* Indices in the arrays of states, inputs, outputs, parameters and start. */
{places("x", model.states)}
{places("u", model.inputs)}
{places("y", model.outputs, model.computed_outputs)}
{places("p", model.parameters)}
{places("place", START)}
/* Size of the array written by {name}_prepare. */
enum {{ {name}_q_count = {numbers} }};

/* Parameters of {_comment(vehicle.name)}, and its state at rest. */
extern const double {name}_parameters[{name}_p_count];
extern const double {name}_rest[{name}_x_count];

/* State x of a freely rolling vehicle at a place, its springs as in {name}_rest. */
void {name}_start(const double *p, const double *place, double *x);

/* Constants q from the parameters p; call again when these change. */
void {name}_prepare(const double *p, double *q);

/* n steps of h [s] that change x in place, the inputs linear from u0 to u1, which may be the same array. Returns 0 if x is not finite,
   else 1. */
int {name}_advance(double *x, const double *q, const double *u0, const double *u1, int n, double h);

/* The same for several vehicles: element i of vehicle k is [i * vehicles + k] of each array. Returns 0 if any x is not finite, else 1. */
int {name}_batch(double *x, const double *p, const double *u0, const double *u1, int vehicles, int n, double h);

/* Slopes dx and outputs y, with h = 0 for an instant. The slope of a state held from step to step is its change. */
void {name}_evaluate(const double *x, const double *u, const double *p, double h, double *dx, double *y);

/* Derivative of dx and y in the direction (sx, su, sp), exact. */
void {name}_forward(const double *x, const double *u, const double *p, double h, const double *sx, const double *su, const double *sp,
                    double *dx, double *y);

/* Gradient (gx, gu, gp) of the sum of sdx * dx and sy * y, exact. */
void {name}_reverse(const double *x, const double *u, const double *p, double h, const double *sdx, const double *sy,
                    double *gx, double *gu, double *gp);

#ifdef __cplusplus
}}
#endif
#endif
"""
