"""Products in one order against those of BLAS, which are as exact but not the same everywhere."""

import numpy as np

from lfdm_ros.products import dot, product, solution

RANDOM = np.random.default_rng(1)


def test_products_are_those_of_matrices():
    for a, b in (((3, 4), (4, 5)), ((7, 3, 4), (7, 4, 5)), ((40, 8, 6), (6, 8)), ((2, 1), (1, 2))):
        left, right = RANDOM.standard_normal(a), RANDOM.standard_normal(b)
        np.testing.assert_allclose(product(left, right), left @ right, rtol=0.0, atol=1e-14)
    left, right = RANDOM.standard_normal((5, 4, 3)), RANDOM.standard_normal((5, 1, 3))
    np.testing.assert_allclose(dot(left, right), (left @ right.swapaxes(1, 2))[..., 0], rtol=0.0, atol=1e-14)


def test_sums_are_in_the_order_of_the_columns():
    left, right = np.array([[1e16, 1.0, -1e16]]), np.ones((3, 1))
    assert product(left, right)[0, 0] == 0.0
    assert product(left[:, [0, 2, 1]], right)[0, 0] == 1.0


def test_the_solution_solves():
    root = RANDOM.standard_normal((9, 9))
    matrix, right = root @ root.T + np.eye(9), RANDOM.standard_normal((9, 4))
    kept = matrix.copy(), right.copy()
    np.testing.assert_allclose(matrix @ solution(matrix, right), right, rtol=0.0, atol=1e-11)
    assert np.array_equal(matrix, kept[0]) and np.array_equal(right, kept[1])
