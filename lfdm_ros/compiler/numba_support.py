"""Calls by address, which numba lacks. Imported by the modules that `native` translates, which is seldom."""

import math

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload


@overload(math.remainder)
def _remainder(a, b):
    libm = types.ExternalFunction("remainder", types.float64(types.float64, types.float64))
    return lambda a, b: libm(a, b)


@intrinsic
def call_advance(context, address, x, q, u0, u1, n, h):
    """Calls advance(x, q, u0, u1, n, h, 1 / n) at an address, see `lfdm_ros.backends.tick_kernel`; arrays by their addresses."""
    pointer = types.voidptr
    signature = types.int64(types.int64, pointer, pointer, pointer, pointer, types.int64, types.float64)

    def generate(_, builder, __, values):
        address, *arrays, n, h = values
        rise = builder.fdiv(ir.Constant(ir.DoubleType(), 1.0), builder.sitofp(n, ir.DoubleType()))
        passed = [*arrays, n, h, rise]
        kind = ir.FunctionType(ir.IntType(64), [value.type for value in passed])
        return builder.call(builder.inttoptr(address, kind.as_pointer()), passed)

    return signature, generate
