"""Loops over the stages of a program as machine code, against whole arrays."""

import numpy as np
import pytest

from lfdm_ros.compiler.machine_code import INTEGER, POINTER
from lfdm_ros.compiler.native import addresses, native
from lfdm_ros.solvers import StageDimensions, StageQp, stage_loops

SOURCES, MODULE = ("lfdm_ros.solvers.stage_loops",), "lfdm_ros.solvers.stage_native"
STAGES, STATES, CONTROLS, ROWS = 7, 5, 2, 6


def arrays(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.normal(size=shape) * (rng.random(shape) < 0.7) for shape in shapes]


def test_squares_to_second_order() -> None:
    rng, n, m, residuals = np.random.default_rng(0), STATES, CONTROLS, 4
    value, jacobian = arrays(rng, (STAGES + 1, n + residuals + ROWS), (STAGES + 1, n + residuals + ROWS, n + m))
    weights = rng.random((STAGES + 1, residuals))
    q, s, r, slope, slope_u = (np.full(shape, np.nan) for shape in (
        (STAGES + 1, n, n), (STAGES, m, n), (STAGES, m, m), (STAGES + 1, n), (STAGES, m)))
    costs = native(MODULE, (POINTER, POINTER, INTEGER, *[POINTER] * 6, *[INTEGER] * 6), INTEGER, SOURCES, "costs")
    costs(*addresses(value, jacobian, n, weights, q, s, r, slope, slope_u, STAGES, n, m, value.shape[1], n + m, residuals))
    slopes, errors = jacobian[:, n:n + residuals], value[:, n:n + residuals]
    hessian = np.einsum("kr,kri,krj->kij", weights, slopes, slopes)
    gradient = np.einsum("kr,kri,kr->ki", weights, slopes, errors)
    for got, expected in ((q, hessian[:, :n, :n]), (s, hessian[:-1, n:, :n]), (r, hessian[:-1, n:, n:]), (slope, gradient[:, :n]),
                          (slope_u, gradient[:-1, n:])):
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-13)
    again = [np.empty_like(a) for a in (q, s, r, slope, slope_u)]
    stage_loops.costs(value, jacobian, n, weights, *again)
    for got, expected in zip((q, s, r, slope, slope_u), again):
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-13)


def program(rng: np.random.Generator) -> tuple[StageQp, np.ndarray, np.ndarray]:
    qp = StageQp(StageDimensions(STAGES, STATES, CONTROLS, (1, 3), ROWS))
    for name in ("A", "B", "b", "C", "lower_x", "upper_x", "lower_u", "upper_u", "row_lower", "row_upper"):
        array = getattr(qp, name)
        array[:] = rng.normal(size=array.shape)
    qp.penalty[:] = rng.random(qp.penalty.shape)
    return qp, rng.normal(size=(STAGES + 1, STATES)), rng.normal(size=(STAGES, CONTROLS))


@pytest.mark.parametrize("seed", range(8))
def test_the_largest_violation(seed: int) -> None:
    qp, dx, du = program(np.random.default_rng(seed))
    qp.lower_x[:, 0], qp.upper_u[2] = -np.inf, np.inf
    gaps = dx[1:] - np.einsum("kij,kj->ki", qp.A, dx[:-1]) - np.einsum("kij,kj->ki", qp.B, du) - qp.b
    bounded = dx[1:, [1, 3]]
    parts = (np.abs(gaps), qp.lower_u - du, du - qp.upper_u, qp.lower_x[1:] - bounded, bounded - qp.upper_x[1:])
    expected = max(part.max() for part in parts)
    assert qp.residual(dx, du) == pytest.approx(expected, abs=1e-13)
    assert qp.residual(np.asfortranarray(dx), du) == qp.residual(dx, du)  # whatever the order in memory
    for array, place in ((qp.lower_u, (0, 0)), (qp.upper_x, (3, 1)), (du, (1, 1)), (dx, (0, 2)), (qp.b, (2, 2))):
        kept, array[place] = array[place], np.nan
        assert qp.residual(dx, du) == np.inf
        array[place] = kept


def test_rows_after_a_step() -> None:
    qp, dx, _ = program(np.random.default_rng(1))
    kinds, paid, nearest = np.array([0, 0, 1, 2, 2, 2]), np.empty(3), np.empty(3)
    qp.row_upper[:, 0], qp.row_lower[:, 2:] = np.inf, -np.inf
    call = native(MODULE, (*[POINTER] * 7, *[INTEGER] * 4, POINTER), INTEGER, SOURCES, "reached")
    call(*addresses(qp.C, qp.row_lower, qp.row_upper, qp.penalty, kinds, paid, nearest, STAGES, STATES, ROWS, 3, dx))
    moved = np.einsum("kgj,kj->kg", qp.C[1:], dx[1:])
    worst = np.maximum(qp.row_lower[1:] - moved, moved - qp.row_upper[1:])
    costs = (qp.penalty[1:] * np.maximum(worst, 0.0)).sum(axis=0)
    for kind in range(3):
        assert paid[kind] == pytest.approx(costs[kinds == kind].sum(), abs=1e-13)
        assert nearest[kind] == pytest.approx(worst[:, kinds == kind].max(), abs=1e-13)
