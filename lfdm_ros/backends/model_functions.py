"""A model's step and right-hand side, and their exact Jacobians, as machine code."""

from __future__ import annotations

from functools import cache

import casadi as ca

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.compiler import CompiledFunction, compiled, compiled_with_tangents
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model


@cache
def compiled_model_function(model: Model, function: str) -> CompiledFunction:
    """Returns one of a model's functions, step or rhs, in the order of arguments of `CasadiModel`."""
    return compiled(getattr(casadi_model(model), function))


@cache
def compiled_jacobian(model: Model, function: str = "rhs", by: tuple[str, ...] = ("x", "u")) -> CompiledFunction:
    """Compiles value and exact Jacobian of one of a model's functions: f(x, u, p[, h]) -> (value (n,), jacobian (n, columns)).

    Args:
        function: rhs or step.
        by: arguments (x, u, p), each all of its elements, or names of parameters.

    Raises:
        InputError: no such parameter.
    """
    source: ca.Function = getattr(casadi_model(model), function)
    arguments = [source.name_in(i) for i in range(source.n_in())]
    parameters = [field.name for field in model.parameters]
    places: list[tuple[int, int]] = []  # argument and element of each column
    for name in by:
        if name in arguments:
            i = arguments.index(name)
            places += [(i, element) for element in range(source.nnz_in(i))]
        elif name in parameters:
            places.append((arguments.index("p"), parameters.index(name)))
        else:
            raise InputError(f"model '{model.name}' has no parameter '{name}'; `lfdm models` lists them")
    key = f"jacobian {casadi_model(model).digest} {function} {places}"
    return compiled_with_tangents(source, places, key, f"{model.name} {function} by {', '.join(by)}")
