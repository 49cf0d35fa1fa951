"""Sine, cosine, tangent and hyperbolic tangent in a few operations each: calls of libm would end vectorisation.

Each writes its instructions into a `Builder` and returns the register of the result; `width` is the number of lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial, log, pi

from lfdm_ros.compiler.builder import FLAGS, ORDERED, Builder

# ln 2 in two parts, the first short enough that its product with a small integer is exact, also in single precision.
_LN2_HIGH = 0.693359375
_LN2_LOW = log(2.0) - _LN2_HIGH  # exact: both are close

# Coefficients by powers of x^2, in double and in single precision: there fewer reach the last bit.
_TERMS = {"double": 11, "float": 7}
_SIN = [(-1) ** k / factorial(2 * k + 1) for k in range(11)]
_COS = [(-1) ** k / factorial(2 * k) for k in range(11)]


class _Arithmetic:
    """Operations on registers of one type."""

    def __init__(self, builder: Builder, width: int, flags: str):
        self.builder, self.width, self.flags, self.type = builder, width, flags, builder.vector(builder.real, width)

    def constant(self, value: float) -> str:
        return self.builder.number(value, self.width)

    def op(self, name: str, a: str, b: str, flags: str = "") -> str:
        return self.builder.new(f"{name} {flags or self.flags} {self.type} {a}, {b}")

    def polynomial(self, coefficients: Sequence[float], z: str) -> str:
        """Estrin's rule, lowest power first: pairs, pairs of pairs ..., whose operations wait less for each other than Horner's."""
        terms, power = [self.constant(c) for c in coefficients], z
        while len(terms) > 1:
            pairs = list(zip(terms[::2], terms[1::2]))
            rest = terms[-1:] if len(terms) % 2 else []
            terms = [self.op("fadd", self.op("fmul", power, high, FLAGS), low, FLAGS) for low, high in pairs] + rest
            if len(terms) > 1:
                power = self.op("fmul", power, power, FLAGS)
        return terms[0]


def angle_function(builder: Builder, function: str, x: str, width: int) -> str:
    """sin, cos or tan of x [rad]."""
    a = _Arithmetic(builder, width, FLAGS)
    constant, op = a.constant, a.op
    # Half of x reduced to [-pi, pi]; 2 pi = 6.28125 + 1.935...e-3 to twice the working precision (Cody-Waite).
    turns = builder.call("floor", [op("fadd", op("fmul", x, constant(1.0 / (2.0 * pi))), constant(0.5))], width)
    reduced = op("fsub", x, op("fmul", turns, constant(6.28125), ORDERED), ORDERED)
    reduced = op("fsub", reduced, op("fmul", turns, constant(1.9353071795864769e-3), ORDERED), ORDERED)
    r = op("fmul", constant(0.5), reduced)
    z = op("fmul", r, r)
    terms = _TERMS[builder.real]
    s = op("fmul", r, a.polynomial(_SIN[:terms], z))
    cosine = op("fsub", constant(1.0), op("fmul", op("fmul", constant(2.0), s), s))
    if function == "cos":
        return cosine
    sine = op("fmul", op("fmul", constant(2.0), s), a.polynomial(_COS[:terms], z))
    return sine if function == "sin" else op("fdiv", sine, cosine)


def tanh(builder: Builder, x: str, width: int) -> str:
    """The hyperbolic tangent of x.

    With m = expm1(-2 |x|): tanh |x| = -m / (m + 2), without cancellation at small x. m = 2^n (e^r - 1) + 2^n - 1, where
    -2 |x| = n ln 2 + r, |r| <= ln(2) / 2.
    """
    a = _Arithmetic(builder, width, ORDERED)
    constant, op, t = a.constant, a.op, a.type
    bits, mantissa, bias, smallest, terms = ("i64", 52, 1023, -40.0, 14) if builder.real == "double" else ("i32", 23, 127, -20.0, 8)
    i = builder.vector(bits, width)

    def integer(name: str, a: str, value: int) -> str:
        number = str(value) if width == 1 else "<" + ", ".join([f"{bits} {value}"] * width) + ">"
        return builder.new(f"{name} {i} {a}, {number}")

    y = op("fmul", constant(-2.0), builder.call("fabs", [x], width))
    below = builder.new(f"fcmp olt {t} {y}, {constant(smallest)}")
    y = builder.new(f"select {builder.vector('i1', width)} {below}, {t} {constant(smallest)}, {t} {y}")
    # Adding 1.5 2^mantissa rounds to an integer and leaves it in the lowest bits.
    shift = constant(1.5 * 2.0 ** mantissa)
    shifted = op("fadd", op("fmul", y, constant(1.0 / log(2.0))), shift)
    n = op("fsub", shifted, shift)
    r = op("fsub", y, op("fmul", n, constant(_LN2_HIGH)))
    r = op("fsub", r, op("fmul", n, constant(_LN2_LOW)))
    exponent = integer("add", builder.new(f"bitcast {t} {shifted} to {i}"), bias)
    power = builder.new(f"bitcast {i} {integer('shl', exponent, mantissa)} to {t}")
    series = op("fmul", r, a.polynomial([1.0 / factorial(k + 1) for k in range(terms)], r))
    m = op("fadd", op("fmul", power, series), op("fsub", power, constant(1.0)))
    return builder.call("copysign", [op("fdiv", m, op("fadd", m, constant(2.0))), x], width)
