"""The compiled equations for callers of their own: from `@numba.njit` code, and as an object file with a header for C."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.backends.model_functions import compiled_model_function
from lfdm_ros.backends.tick_kernel import advance_code, advance_text
from lfdm_ros.compiler.machine_code import TRIPLE, compile_text
from lfdm_ros.compiler.reading import COUNT, LAST, SYMBOLS, WIDTH
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model

FUNCTIONS = ("step", "rhs", "advance")


@cache
def numba_function(model: Model, function: str) -> Callable[..., Any]:
    """Returns one of a model's functions for `@numba.njit` code; its arrays are contiguous float64, the last is written. Holds no lock.

    step(x (nx,), u (nu,), p (np,), h, after (nx,)): one half-implicit step of h [s];
    rhs(x, u, p, slope (nx,)): dx/dt, see `lfdm_ros.models.Model`;
    advance(x, q, u0 (nu,), u1 (nu,), n, h) -> bool: n >= 1 steps that change x in place, the inputs linear from u0 to u1; whether all of x
        is finite. q is what `constants(model, p)` returns. Many times as fast as `step`, which prepares the parameters each time.

    A caller cannot be cached on disk by numba: the functions are addresses in this process.

    Raises:
        InputError: there is no such function.
    """
    from numba import njit

    if function == "advance":
        call = advance_code(model).advance

        @njit
        def advance(x, q, u0, u1, n, h):
            return call(x.ctypes, q.ctypes, u0.ctypes, u1.ctypes, n, h, 1.0 / n) != 0

        return advance
    if function == "step":
        one_step = compiled_model_function(model, "step").address_call

        @njit
        def step(x, u, p, h, after):
            length = np.full(1, h)
            one_step(x.ctypes, u.ctypes, p.ctypes, length.ctypes, after.ctypes)

        return step
    if function == "rhs":
        derivative = compiled_model_function(model, "rhs").address_call

        @njit
        def rhs(x, u, p, slope):
            derivative(x.ctypes, u.ctypes, p.ctypes, slope.ctypes)

        return rhs
    raise InputError(f"a model has no function '{function}' to call; choose one of: {', '.join(FUNCTIONS)}")


def constants(model: Model, p: np.ndarray) -> np.ndarray:
    """Computes the numbers that `advance` needs of the parameters (np,), once for as long as they stay. Raises ValueError: p has another
    size."""
    values = np.ascontiguousarray(p, dtype=float)
    if values.shape != (len(model.parameters),):
        raise ValueError(f"{model.name} has {len(model.parameters)} parameters, got an array of shape {values.shape}")
    return advance_code(model).constants(values)


@dataclass(frozen=True)
class ObjectFiles:
    """Paths that `write_object` wrote: the object file and its header."""

    object: Path
    header: Path


def write_object(model: Model, folder: Path) -> ObjectFiles:
    """Writes the model's `advance` as a position-independent object for this processor, and a header that documents it. Raises InputError:
    the folder cannot be written."""
    stem = "lfdm_" + "".join(c if c.isalnum() else "_" for c in model.name)
    text = advance_text(model, prefix=f"{stem}_")
    files = ObjectFiles(folder / f"{stem}.o", folder / f"{stem}.h")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.object.write_bytes(compile_text(text, linked=True))
        files.header.write_text(_header(model, stem, LAST in text), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: the object cannot be written: {error.strerror}") from None
    return files


def _header(model: Model, stem: str, reading: bool) -> str:
    """Writes the header; `reading`: the code reads arrays by number."""
    def places(kind: str, fields: tuple[Any, ...]) -> str:
        lines = [f"  {stem}_{kind}_{field.name} = {i},  /* [{field.unit}] {field.description} */" for i, field in enumerate(fields)]
        return "\n".join(["enum {", *lines, f"  {stem}_{kind}_count = {len(fields)}", "};", ""])

    guard = f"{stem.upper()}_H"
    arrays = f"""
/* What the ground reads by the number in its parameter, to be defined by the caller: addresses of the arrays, their lengths less
   {WIDTH}, and how many there are. Array 0 is read where a number is none of them. */
extern const double *const {SYMBOLS["double"]}[];
extern const int64_t {LAST}[];
extern const int64_t {COUNT};
""" if reading else ""
    return f"""/* {model.name}: {model.description}. For {TRIPLE}; link with -lm. */
#ifndef {guard}
#define {guard}
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

/* Places of states, inputs and parameters in their arrays, SI. */
{places("x", model.states)}
{places("u", model.inputs)}
{places("p", model.parameters)}
/* Numbers that {stem}_prepare writes. */
int64_t {stem}_size(void);
/* What depends on the parameters p alone, once for as long as they stay. */
void {stem}_prepare(const double *p, double *q);
/* n >= 1 steps of h seconds that change x in place, the inputs linear from u0 to u1; rise = 1.0 / n.
   Returns whether all of x is finite. */
int64_t {stem}_advance(double *x, const double *q, const double *u0, const double *u1, int64_t n, double h, double rise);
{arrays}
#ifdef __cplusplus
}}
#endif
#endif
"""
