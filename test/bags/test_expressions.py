"""The language of mapping files."""

import numpy as np
import pytest

from lfdm_ros.bags import expressions
from lfdm_ros.bags.expressions import from_unit, in_unit

TIME = np.linspace(0.0, 2.0, 201)
COLUMNS = {
    "v": from_unit(36.0 * np.ones_like(TIME), "km/h"),
    "psi": from_unit(np.linspace(-180.0, 180.0, len(TIME)), "deg"),
    "n": from_unit(60.0, "rpm"),
    "x": from_unit(TIME**2, "m"),
    "gap": from_unit(np.where(TIME < 1.0, np.nan, 3.0), "m"),
    "gps.x": from_unit(TIME, "km"),
    "radius": from_unit(0.5, "m"),
}


def value(text, unit):
    return in_unit(expressions.evaluate(expressions.parse(text), TIME, COLUMNS.__getitem__), unit)


@pytest.mark.parametrize(("text", "unit", "expected"), [
    ("v", "m/s", 10.0),
    ("-v * 2 + v / 2 - 1", "m/s", -16.0),
    ("n * radius", "m/s", np.pi),
    ("v / radius", "rpm", 20.0 * 30.0 / np.pi),
    ("cos(psi)", "1", np.cos(np.linspace(-np.pi, np.pi, 201))),
    ("arctan2(v, v) + pi", "rad", 1.25 * np.pi),
    ("sqrt(x ** 2)", "m", TIME**2),
    ("where(abs(psi) < pi / 2 and not psi < 0, v, nan)", "m/s",
     np.where((np.linspace(-180, 180, 201) < 90 - 1e-9) & (np.linspace(-180, 180, 201) > -1e-9), 10.0, np.nan)),
    ("either(gap, x)", "m", np.where(TIME < 1.0, TIME**2, 3.0)),
    ("gps.x - x", "m", 1000.0 * TIME - TIME**2),
    ("unwrap(2 * psi)", "rad", np.linspace(-2 * np.pi, 2 * np.pi, 201)),
    ("v / 0", "m/s", np.inf),
    ("3", "kg", 3.0),
])
def test_values_in_units(text, unit, expected):
    np.testing.assert_allclose(value(text, unit), expected, rtol=1e-12, atol=1e-9)


def test_derivatives():
    np.testing.assert_allclose(value("gradient(x)", "m/s")[1:-1], 2.0 * TIME[1:-1], atol=1e-9)
    np.testing.assert_allclose(value("savgol_derivative(x, 0.2)", "m/s"), 2.0 * TIME, atol=1e-9)  # a parabola is its own fit


@pytest.mark.parametrize(("text", "message"), [
    ("v + x", "length / time and length cannot be added or compared"),
    ("where(psi < 0, v, x)", "cannot be added or compared"),
    ("v < x", "cannot be added or compared"),
    ("sin(x)", "the argument of an angle function is length"),
    ("x", r"length where length / time \(m/s\) is expected"),
    ("v ** 2", r"length\^2 / time\^2 where"),
    ("savgol_derivative(x, 10)", "needs 3 samples or more in the window"),
    ("savgol_derivative(x, v)", "takes a number of seconds"),
])
def test_dimensions_that_do_not_fit(text, message):
    with pytest.raises(ValueError, match=message):
        value(text, "m/s")


@pytest.mark.parametrize(("text", "message"), [
    ("__import__('os').system('true')", "no function"),
    ("().__class__", "a dot is only allowed as source.column"),
    ("a.b.c", "a dot is only allowed as source.column"),
    ("eval(v)", "no function 'eval'"),
    ("[v for v in x]", "ListComp is not allowed"),
    ("(lambda: v)()", "no function"),
    ("v[0]", "Subscript is not allowed"),
    ("'text'", "'text' is not a number"),
    ("True", "True is not a number"),
    ("v; x", "is not an expression"),
    ("v +", "is not an expression"),
    ("sin(v, x)", "sin takes 1 argument"),
    ("0 < v < 1", "compare two values"),
    ("v @ x", "MatMult is not allowed"),
    ("v if x else 1", "IfExp is not allowed"),
    ("(" * 300 + "v" + ")" * 300, "is not an expression"),
    ("(" * 5000 + "v" + ")" * 5000, "more than 1000 characters"),
    ("+".join(["v"] * 60), "more than 50 levels"), ("-" * 60 + "v", "50 levels"),
    ("9" * 400, "is not a number"), ("1e999", "is not a number"), ("v ** 9 ** 9 ** 9", "exponent"), ("v ** 1e300", "exponent"),
    ("v" + ".a" * 400 + "()", "50 levels"),
])
def test_nothing_else_is_in_the_language(text, message):
    with pytest.raises(ValueError, match=message):
        expressions.parse(text)


def test_names():
    assert expressions.names(expressions.parse("where(v > nan, gps.x, sin(psi) * pi)")) == {"v", "gps.x", "psi"}
