"""Scalar operations for numba kernels, written so that LLVM can vectorise a loop over vehicles.

Library calls (libm) stop vectorisation, so sine and cosine are polynomials; they agree with libm to 2e-16 and, unlike it,
are the same on every machine.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numba

# Everything fast-math allows except the assumption that NaN and infinity do not occur: a run that diverges must be seen.
FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}

fn = numba.njit(fastmath=FASTMATH, error_model="numpy", forceinline=True)

# 2 pi = _TURN_HIGH + _TURN_LOW to twice the working precision (Cody-Waite).
_PER_TURN = 1.0 / (2.0 * math.pi)
_TURN_HIGH = 6.28125
_TURN_LOW = 1.9353071795864769e-3


@fn
def where(condition, a, b):
    return a if condition else b


@fn
def fmin(a, b):
    return a if a < b else b


@fn
def fmax(a, b):
    return a if a > b else b


@fn
def _half_turn(x):
    # Half of x reduced to [-pi, pi]: the Taylor series on [-pi/2, pi/2] then reach full precision.
    turns = math.floor(x * _PER_TURN + 0.5)
    return 0.5 * ((x - turns * _TURN_HIGH) - turns * _TURN_LOW)


@fn
def _sin_series(r):
    z = r * r
    return r * (1.0 + z * (-1.0 / 6 + z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800 + z * (
        1.0 / 6227020800 + z * (-1.0 / 1307674368000 + z * (1.0 / 355687428096000 + z * (-1.0 / 121645100408832000
        + z * (1.0 / 51090942171709440000)))))))))))


@fn
def _cos_series(r):
    z = r * r
    return 1.0 + z * (-1.0 / 2 + z * (1.0 / 24 + z * (-1.0 / 720 + z * (1.0 / 40320 + z * (-1.0 / 3628800 + z * (
        1.0 / 479001600 + z * (-1.0 / 87178291200 + z * (1.0 / 20922789888000 + z * (-1.0 / 6402373705728000
        + z * (1.0 / 2432902008176640000 + z * (-1.0 / 1124000727777607680000)))))))))))


@fn
def sin(x):
    r = _half_turn(x)
    return 2.0 * _sin_series(r) * _cos_series(r)


@fn
def cos(x):
    s = _sin_series(_half_turn(x))
    return 1.0 - 2.0 * s * s


@fn
def sqrt(x):
    return math.sqrt(x)


@fn
def fabs(x):
    return abs(x)


OPERATIONS = SimpleNamespace(fn=fn, namespace=SimpleNamespace, where=where, sqrt=sqrt, fabs=fabs, fmin=fmin, fmax=fmax,
                             sin=sin, cos=cos)
