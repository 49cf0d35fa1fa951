"""Arrays that machine code reads by number: CasADi's evaluation, one value, SIMD lanes, derivatives, and what no array has."""

import gc

import casadi as ca
import numpy as np
import pytest
from lanes import evaluate

from lfdm_ros.compiler import compiled, compiled_with_jacobian
from lfdm_ros.compiler.graph import graph_of
from lfdm_ros.compiler.tables import LookupTable, row, rows

FIRST, SECOND = np.random.default_rng(2).standard_normal((2, 90))
SECOND = SECOND[:7]


@pytest.fixture(scope="module")
def tables() -> tuple[LookupTable, LookupTable]:
    return LookupTable(FIRST), LookupTable(SECOND)


def blend() -> ca.Function:
    """Of a table's number and a place: a smooth function of the place, from four numbers of the table."""
    x = ca.SX.sym("x", 2)
    cell = ca.floor(x[1])
    t, near = x[1] - cell, row(x[0], cell)
    return ca.Function("blend", [x], [near[0] * (1 - t) ** 3 + near[1] * t + near[2] * ca.sin(t) + near[3] * t * t])


def expected(number: float, place: float, arrays: dict[float, np.ndarray]) -> float:
    if number not in arrays:
        return np.nan
    cell, values = np.floor(place), arrays[number]
    a, b, c, d = values[int(np.clip(cell, 0, len(values) - 4)):][:4]
    t = place - cell
    return a * (1 - t) ** 3 + b * t + c * np.sin(t) + d * t * t


@pytest.mark.parametrize(("real", "lanes"), [("double", 1), ("double", 2), ("double", 4), ("double", 8), ("double", 16), ("float", 8),
                                             ("float", 32)])
def test_what_is_read_in_every_lane(tables, real, lanes):
    """Numbers differ from lane to lane, places reach beyond both ends."""
    arrays = {float(table.number): values for table, values in zip(tables, (FIRST, SECOND))}
    rng = np.random.default_rng(lanes)
    points = np.stack([rng.choice(list(arrays), 192), rng.uniform(-4.0, 95.0, 192)])
    wanted = np.array([expected(*point, arrays) for point in points.T])
    function = blend()
    np.testing.assert_allclose(np.array(function(points)).ravel(), wanted, rtol=1e-12, atol=1e-13)  # CasADi's own

    found = evaluate(function, points, real, lanes)
    tolerance = 1e-12 if real == "double" else 3e-4  # of t, whose last places are lost beside 90
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def test_no_other_memory_is_read(tables):
    """A number that none has, no number, a place far away: NaN, or the first or last row."""
    function = compiled(blend())
    for number in (-1.0, 1e6, 1e300, np.nan, np.inf):
        assert np.isnan(function([number, 3.0])[0]).all(), number
        assert np.isnan(np.array(blend()([number, 3.0]))).all(), number
    number = float(tables[0].number)
    for index, first in ((-1e18, 0), (1e18, 86), (np.inf, 86), (2.0, 2)):
        np.testing.assert_array_equal(rows(number, index), FIRST[first:first + 4])
    x = ca.SX.sym("x", 2)
    reading = compiled(ca.Function("reading", [x], [ca.vertcat(*row(x[0], x[1]))]))
    np.testing.assert_array_equal(reading([number, 1e9])[0], FIRST[86:])
    np.testing.assert_array_equal(reading([number, 85.0])[0], FIRST[85:89])


def test_a_table_that_is_gone_reads_as_nan():
    table = LookupTable(np.arange(8.0))
    number = float(table.number)
    function = compiled(blend())
    assert np.isfinite(function([number, 2.5])[0]).all()
    del table
    gc.collect()
    assert np.isnan(function([number, 2.5])[0]).all()
    assert float(LookupTable(np.arange(8.0)).number) != number  # it is not taken again at once
    with pytest.raises(ValueError, match="at least 4 numbers"):
        LookupTable(np.arange(3.0))


def test_derivatives_are_those_of_the_weights(tables):
    """Compiled, by CasADi forwards, backwards and twice, against central differences within a cell."""
    function, x = blend(), ca.SX.sym("x", 2)
    (value,) = function.call([x])
    by_casadi = ca.Function("slopes", [x], [ca.jacobian(value, x), ca.gradient(value, x).T, ca.jtimes(value, x, ca.DM([0, 1]))])
    twice, exact = ca.Function("twice", [x], [ca.hessian(value, x)[0]]), compiled_with_jacobian(function, (0,))
    compiled_twice = compiled(twice)
    for number, place in ((tables[0].number, 17.3), (tables[1].number, 2.6)):
        at = np.array([float(number), place])
        width = 1e-5
        ends = [float(function([number, place + sign * width])) for sign in (-1, 0, 1)]
        slope, curve = (ends[2] - ends[0]) / (2 * width), (ends[2] - 2 * ends[1] + ends[0]) / width**2
        forwards, backwards, along = (np.array(found).ravel() for found in by_casadi(at))
        _, jacobian = exact(at)
        for found in (forwards, backwards, jacobian[0, :2]):
            np.testing.assert_allclose(found, [0.0, slope], rtol=1e-7, atol=1e-8)
        assert along[0] == pytest.approx(slope, rel=1e-7)
        np.testing.assert_allclose(np.array(twice(at)), [[0.0, 0.0], [0.0, curve]], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(compiled_twice(at)[0], np.array(twice(at)), rtol=1e-12, atol=1e-13)


def test_a_call_of_another_function_has_no_code():
    x = ca.SX.sym("x")
    other = ca.Function("other", [x], [ca.sin(x)])
    (called,) = other.call([x], False, True)
    with pytest.raises(NotImplementedError, match="no code for a call of other"):
        graph_of(ca.Function("f", [x], [called]))
