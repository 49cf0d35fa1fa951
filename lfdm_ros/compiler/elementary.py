"""Sine, cosine, tangent, its inverse, hyperbolic tangent, exponential and logarithm in a few operations each: calls of libm would end
vectorisation.

Each writes its instructions into a `Builder` and returns the register of the result; `width` is the number of lanes.
"""

from collections.abc import Sequence
from math import factorial, inf, log, nan, pi, sqrt
from struct import pack

from lfdm_ros.compiler.builder import FLAGS, ORDERED, Builder

# ln 2 in two parts, the first short enough that its product with a small integer is exact, also in single precision.
_LN2_HIGH = 0.693359375
_LN2_LOW = -2.12194440054690583e-4  # not from log(2.0), whose rounding error matters for large multiples

# Coefficients by powers of x^2, in double and in single precision: there fewer reach the last bit.
_TERMS = {"double": 11, "float": 7}
# Number format: integer type, bits of the mantissa, bias of the exponent, terms of e^r below.
_LAYOUT = {"double": ("i64", 52, 1023, 14), "float": ("i32", 23, 127, 8)}
# Smallest and largest argument of the exponential with a normal 2^n.
_EXPONENTS = {"double": (-708.0, 709.4), "float": (-87.0, 88.3)}
# Smallest normal number, and terms of the logarithm's series.
_LOGARITHM = {"double": (2.0 ** -1022, 11), "float": (2.0 ** -126, 5)}
# (atan z / z - 1) / z^2 by powers of z^2 up to tan(pi / 8)^2, interpolated at Chebyshev's points: atan z to 5e-18 and 3e-9 of itself.
_ATAN = {"double": (-0.3333333333333333, 0.1999999999999552, -0.14285714284666526, 0.11111111015254975, -0.09090904578067568,
                    0.07692183189517367, -0.06664511428947303, 0.058581487526600855, -0.05085448899918921, 0.03923163408550222,
                    -0.01917685746960811),
         "float": (-0.33333331761153845, 0.1999954048027557, -0.1426395548110606, 0.10743730227506852, -0.0645192402125638)}
# pi / 4 in two parts, the first short enough that three and four times it are exact.
_EIGHTH = {"double": (0.7853981633974483, 3.061616997868383e-17), "float": (0.785398006439209, 1.5695823932524066e-07)}
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
        """Evaluates a polynomial by Estrin's rule, lowest power first: pairs, pairs of pairs ..., with shorter dependency chains than
        Horner's."""
        terms, power = [self.constant(c) for c in coefficients], z
        while len(terms) > 1:
            pairs = list(zip(terms[::2], terms[1::2]))
            rest = terms[-1:] if len(terms) % 2 else []
            terms = [self.op("fadd", self.op("fmul", power, high, FLAGS), low, FLAGS) for low, high in pairs] + rest
            if len(terms) > 1:
                power = self.op("fmul", power, power, FLAGS)
        return terms[0]


def angle_function(builder: Builder, function: str, x: str, width: int) -> str:
    """Computes sin, cos or tan of x [rad]."""
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


class _Bits(_Arithmetic):
    """The same with the bits of the numbers, in the order written."""

    def __init__(self, builder: Builder, width: int):
        super().__init__(builder, width, ORDERED)
        self.bits, self.mantissa, self.bias, self.terms = _LAYOUT[builder.real]
        self.integers = builder.vector(self.bits, width)

    def integer(self, name: str, a: str, value: int) -> str:
        number = str(value) if self.width == 1 else "<" + ", ".join([f"{self.bits} {value}"] * self.width) + ">"
        return self.builder.new(f"{name} {self.integers} {a}, {number}")

    def as_integer(self, x: str) -> str:
        return self.builder.new(f"bitcast {self.type} {x} to {self.integers}")

    def as_number(self, i: str) -> str:
        return self.builder.new(f"bitcast {self.integers} {i} to {self.type}")

    def chosen(self, condition: str, a: str, b: str) -> str:
        return self.builder.new(f"select {self.builder.vector('i1', self.width)} {condition}, {self.type} {a}, {self.type} {b}")

    def compared(self, how: str, a: str, b: str) -> str:
        return self.builder.new(f"fcmp {how} {self.type} {a}, {b}")

    def exponential(self, y: str) -> tuple[str, str]:
        """Computes 2^n and e^r - 1, where y = n ln 2 + r, |r| <= ln(2) / 2."""
        constant, op = self.constant, self.op
        # Adding 1.5 2^mantissa rounds to an integer and leaves it in the lowest bits.
        shift = constant(1.5 * 2.0 ** self.mantissa)
        shifted = op("fadd", op("fmul", y, constant(1.0 / log(2.0))), shift)
        n = op("fsub", shifted, shift)
        r = op("fsub", y, op("fmul", n, constant(_LN2_HIGH)))
        r = op("fsub", r, op("fmul", n, constant(_LN2_LOW)))
        power = self.as_number(self.integer("shl", self.integer("add", self.as_integer(shifted), self.bias), self.mantissa))
        return power, op("fmul", r, self.polynomial([1.0 / factorial(k + 1) for k in range(self.terms)], r))


def tanh(builder: Builder, x: str, width: int) -> str:
    """Returns the hyperbolic tangent of x.

    With m = expm1(-2 |x|): tanh |x| = -m / (m + 2), without cancellation at small x. m = 2^n (e^r - 1) + 2^n - 1.
    """
    a = _Bits(builder, width)
    constant, op = a.constant, a.op
    smallest = constant(-40.0 if builder.real == "double" else -20.0)
    y = op("fmul", constant(-2.0), builder.call("fabs", [x], width))
    power, series = a.exponential(a.chosen(a.compared("olt", y, smallest), smallest, y))
    m = op("fadd", op("fmul", power, series), op("fsub", power, constant(1.0)))
    return builder.call("copysign", [op("fdiv", m, op("fadd", m, constant(2.0))), x], width)


def angle_of(builder: Builder, y: str, x: str, width: int) -> str:
    """Returns the angle of (x, y), -pi to pi, as atan2(y, x); NaN where both are infinite.

    The ratio of the smaller to the larger is t = tan of an angle up to pi / 4, where t > tan(pi / 8) is replaced by (t - 1) / (t + 1) =
    tan(angle - pi / 4): one division. The angle is then a multiple m of pi / 4, with the sum of its parts last, plus or minus an arc
    tangent.
    """
    a = _Bits(builder, width)
    constant, op = a.constant, a.op
    zero, one = constant(0.0), constant(1.0)
    across, along = builder.call("fabs", [y], width), builder.call("fabs", [x], width)
    steep, behind = a.compared("ogt", across, along), a.compared("olt", builder.call("copysign", [one, x], width), zero)
    smaller, larger = a.chosen(steep, along, across), a.chosen(steep, across, along)
    beyond = a.compared("ogt", smaller, op("fmul", larger, constant(sqrt(2.0) - 1.0)))
    over = a.chosen(beyond, op("fsub", smaller, larger), smaller)
    under = a.chosen(beyond, op("fadd", smaller, larger), a.chosen(a.compared("oeq", larger, zero), one, larger))
    z = op("fdiv", over, under)
    w = op("fmul", z, z)
    arc = op("fadd", z, op("fmul", op("fmul", z, w), a.polynomial(_ATAN[builder.real], w)))
    m = a.chosen(beyond, one, zero)
    m = a.chosen(steep, op("fsub", constant(2.0), m), m)
    m = a.chosen(behind, op("fsub", constant(4.0), m), m)
    turned = builder.new(f"xor {builder.vector('i1', width)} {steep}, {behind}")
    high, low = _EIGHTH[builder.real]
    rest = op("fadd", op("fmul", m, constant(low)), a.chosen(turned, builder.new(f"fneg {a.type} {arc}"), arc))
    return builder.call("copysign", [op("fadd", op("fmul", m, constant(high)), rest), y], width)


def exponential(builder: Builder, x: str, width: int) -> str:
    """Computes e^x; 0 and infinity where it leaves the normal numbers."""
    a = _Bits(builder, width)
    lower, upper = (a.constant(bound) for bound in _EXPONENTS[builder.real])
    below, above = a.compared("olt", x, lower), a.compared("ogt", x, upper)
    power, series = a.exponential(a.chosen(below, lower, a.chosen(above, upper, x)))
    value = a.op("fadd", a.op("fmul", power, series), power)
    return a.chosen(below, a.constant(0.0), a.chosen(above, a.constant(inf), value))


def logarithm(builder: Builder, x: str, width: int) -> str:
    """Returns the natural logarithm of x; minus infinity below the smallest normal number, NaN below 0.

    x = 2^n m with m in [sqrt(1/2), sqrt(2)): log x = n ln 2 + 2 atanh((m - 1) / (m + 1)).
    """
    a = _Bits(builder, width)
    constant, op = a.constant, a.op
    smallest, terms = _LOGARITHM[builder.real]
    half = sqrt(0.5)
    lowest = int.from_bytes(pack(">d", half), "big") if builder.real == "double" else int.from_bytes(pack(">f", half), "big")
    x_bits = a.as_integer(x)
    # n + bias + 1, which is positive, in the bits of the exponent; and from there into the lowest bits of 1.5 2^mantissa.
    biased = a.integer("lshr", a.integer("add", x_bits, ((a.bias + 1) << a.mantissa) - lowest), a.mantissa)
    shift = 1.5 * 2.0 ** a.mantissa
    shift_bits = int.from_bytes(pack(">d", shift), "big") if builder.real == "double" else int.from_bytes(pack(">f", shift), "big")
    n = op("fsub", a.as_number(a.integer("add", biased, shift_bits)), constant(shift + a.bias + 1))
    scaled = a.integer("shl", a.integer("sub", biased, a.bias + 1), a.mantissa)
    m = a.as_number(builder.new(f"sub {a.integers} {x_bits}, {scaled}"))
    s = op("fdiv", op("fsub", m, constant(1.0)), op("fadd", m, constant(1.0)))
    series = op("fmul", s, a.polynomial([2.0 / (2 * k + 1) for k in range(terms)], op("fmul", s, s)))
    value = op("fadd", op("fmul", n, constant(_LN2_HIGH)), op("fadd", series, op("fmul", n, constant(_LN2_LOW))))
    none = a.chosen(a.compared("olt", x, constant(0.0)), constant(nan), constant(-inf))
    value = a.chosen(a.compared("olt", x, constant(smallest)), none, value)
    # Infinity and NaN are unchanged.
    return a.chosen(a.compared("olt", x, constant(inf)), value, x)
