"""The compiled equations for `@numba.njit` code."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lfdm_ros.backends.model_functions import compiled_model_function
from lfdm_ros.backends.tick_kernel import advance_code
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
