"""The solvers of programs with stages: against an active-set solver on the whole program, and what they do with programs that go wrong."""

from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from lfdm_ros.solvers import Hpipm, Piqp, SolverMissing, StageDimensions, StageQp

SOLVERS = {"hpipm": Hpipm, "piqp": Piqp}
SMALL = StageDimensions(stages=5, states=3, controls=2, bounded=(0, 2), rows=3)


def fill(program, seed, tightness=1.0):
    """A convex program at random: coupled, with bounds and rows some of which are at work."""
    rng = np.random.default_rng(seed)
    d = program.dimensions
    n, m = d.states, d.controls
    program.A[:] = np.eye(n) + 0.3 * rng.normal(size=program.A.shape)
    program.B[:], program.b[:] = rng.normal(size=program.B.shape), 0.3 * rng.normal(size=program.b.shape)
    for k in range(d.stages + 1):
        root = rng.normal(size=(n + m + 1, n + m))
        whole = root.T @ root + 0.1 * np.eye(n + m)
        program.Q[k] = whole[m:, m:]
        if k < d.stages:
            program.R[k], program.S[k] = whole[:m, :m], whole[:m, m:]
    program.q[:], program.r[:] = 3.0 * rng.normal(size=program.q.shape), 3.0 * rng.normal(size=program.r.shape)
    program.C[:] = rng.normal(size=program.C.shape)
    width = tightness * rng.uniform(0.1, 1.0, program.row_lower.shape)
    program.row_lower[:], program.row_upper[:] = -width, width
    program.row_lower[:, 0], program.row_upper[:, 1] = -np.inf, np.inf
    program.penalty[:] = rng.uniform(0.5, 30.0, program.penalty.shape)
    program.curvature[:] = 0.1 * program.penalty
    program.lower_u[:], program.upper_u[:] = -0.5, rng.uniform(0.2, 0.8, program.upper_u.shape)
    # Wide enough for the states to be kept by the controls at all.
    program.lower_x[:], program.upper_x[:] = -8.0, 8.0
    return program


def cost(program, dx, du):
    """The program's objective at a point of its dynamics, with the least slacks."""
    p = program
    total = 0.0
    for k in range(p.dimensions.stages + 1):
        total += 0.5 * dx[k] @ p.Q[k] @ dx[k] + p.q[k] @ dx[k]
        if k < p.dimensions.stages:
            total += 0.5 * du[k] @ p.R[k] @ du[k] + du[k] @ p.S[k] @ dx[k] + p.r[k] @ du[k]
        if k:
            rows = p.C[k] @ dx[k]
            for slack in (np.maximum(p.row_lower[k] - rows, 0.0), np.maximum(rows - p.row_upper[k], 0.0)):
                total += p.penalty[k] @ slack + 0.5 * p.curvature[k] @ slack**2
    return total


def whole(program):
    """dx, du by CasADi's active-set solver on controls and slacks; the states are eliminated."""
    p, d = program, program.dimensions
    du = ca.SX.sym("du", d.controls, d.stages)
    below, above = (ca.SX.sym(name, d.rows, d.stages) for name in ("below", "above"))
    x, xs, total, g, lower, upper = ca.SX.zeros(d.states), [], 0, [], [], []
    for k in range(d.stages):
        u = du[:, k]
        total += 0.5 * ca.bilin(p.R[k], u, u) + ca.bilin(p.S[k], u, x) + ca.dot(p.r[k], u)
        total += 0.5 * ca.bilin(p.Q[k], x, x) + ca.dot(p.q[k], x)
        x = p.A[k] @ x + p.B[k] @ u + p.b[k]
        xs.append(x)
        rows = p.C[k + 1] @ x
        low, high = below[:, k], above[:, k]
        total += ca.dot(p.penalty[k + 1], low + high) + 0.5 * ca.dot(p.curvature[k + 1], low * low + high * high)
        g += [rows + low, rows - high, x[list(d.bounded)]]
        lower += [*p.row_lower[k + 1], *[-np.inf] * d.rows, *p.lower_x[k + 1]]
        upper += [*[np.inf] * d.rows, *p.row_upper[k + 1], *p.upper_x[k + 1]]
    total += 0.5 * ca.bilin(p.Q[-1], x, x) + ca.dot(p.q[-1], x)
    unknowns = ca.veccat(du, below, above)
    slacks = 2 * d.rows * d.stages
    solver = ca.qpsol("whole", "qpoases", {"x": unknowns, "f": total, "g": ca.vertcat(*g)}, {"printLevel": "none"})
    found = solver(lbg=lower, ubg=upper, lbx=[*p.lower_u.ravel(), *[0.0] * slacks], ubx=[*p.upper_u.ravel(), *[np.inf] * slacks])["x"]
    states = ca.Function("states", [unknowns], [ca.horzcat(*xs)])(found).full().T
    return np.vstack([np.zeros(d.states), states]), found[:d.controls * d.stages].full().reshape(d.stages, d.controls)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("seed", range(6))
def test_solution_is_that_of_an_active_set_solver(name, seed):
    program = fill(StageQp(SMALL), seed, tightness=(1.0, 0.05)[seed % 2])
    solution = SOLVERS[name](program).solve()
    dx, du = whole(program)
    assert solution.solved, solution.status
    assert program.residual(solution.dx, solution.du) < 1e-6
    assert solution.dx == pytest.approx(dx, abs=2e-5) and solution.du == pytest.approx(du, abs=2e-5)
    assert cost(program, solution.dx, solution.du) == pytest.approx(cost(program, dx, du), rel=1e-6, abs=1e-6)
    # Bounds are at work, and rows are broken: else this says little.
    assert (np.abs(du - program.lower_u) < 1e-6).any() or (np.abs(du - program.upper_u) < 1e-6).any()


@pytest.mark.parametrize("name", SOLVERS)
def test_rows_that_can_be_kept_are_kept_and_others_broken_least(name):
    """One state that integrates one control: it is drawn to 1; a row holds it at 0.5 as long as the penalty is worth it."""
    program = StageQp(StageDimensions(stages=1, states=1, controls=1, bounded=(), rows=1))
    program.A[:] = program.B[:] = program.C[:] = 1.0
    program.R[:], program.Q[:], program.q[1] = 1e-6, 1.0, -1.0
    program.row_upper[1] = 0.5
    for penalty, expected in ((0.6, 0.5), (0.3, 0.7), (0.1, 0.9)):
        program.penalty[:] = penalty
        solution = SOLVERS[name](program).solve()
        assert solution.solved and solution.dx[1, 0] == pytest.approx(expected, abs=1e-4)
    # A hard row is kept whatever the penalty, beside soft ones.
    hard = StageQp(StageDimensions(stages=1, states=1, controls=1, bounded=(), rows=2, hard=(1,)))
    hard.A[:] = hard.B[:] = hard.C[:] = 1.0
    hard.R[:], hard.Q[:], hard.q[1] = 1e-6, 1.0, -1.0
    hard.row_upper[1], hard.penalty[1] = (0.2, 0.5), 0.1
    solution = SOLVERS[name](hard).solve()
    assert solution.solved and solution.dx[1, 0] == pytest.approx(0.5, abs=1e-4)
    # Rows that contradict each other have a solution all the same.
    program.row_lower[1], program.row_upper[1], program.penalty[:] = 2.0, -2.0, 50.0
    assert SOLVERS[name](program).solve().solved


@pytest.mark.parametrize("name", SOLVERS)
def test_bounds_may_come_and_go(name):
    program = StageQp(SMALL)
    solver = SOLVERS[name](program)
    for seed in range(4):
        fill(program, seed)
        if seed % 2:
            program.row_lower[2:, 2], program.row_upper[3, 0] = -np.inf, np.inf
            program.lower_u[1] = -np.inf
            program.upper_x[:, 1] = np.inf
        solution = solver.solve()
        dx, du = whole(program)
        assert solution.solved and solution.dx == pytest.approx(dx, abs=5e-5) and solution.du == pytest.approx(du, abs=5e-5)


@pytest.mark.parametrize("name", SOLVERS)
def test_what_stands_at_the_first_state_has_no_effect(name):
    program = fill(StageQp(SMALL), 3)
    before = SOLVERS[name](program).solve()
    dx, du = before.dx.copy(), before.du.copy()
    program.C[0], program.Q[0], program.q[0], program.row_lower[0], program.lower_x[0], program.penalty[0] = 7.0, 5.0, -3.0, 9.0, 9.0, 1e6
    after = SOLVERS[name](program).solve()
    assert after.dx == pytest.approx(dx, abs=1e-6) and after.du == pytest.approx(du, abs=1e-6)


@pytest.mark.parametrize("name", SOLVERS)
def test_after_a_reset_the_same_bits_as_at_first(name):
    program = fill(StageQp(SMALL), 1)
    first = SOLVERS[name](program).solve()
    dx, du = first.dx.copy(), first.du.copy()
    used = SOLVERS[name](program)
    for seed in (2, 4):
        fill(program, seed)
        used.solve()
    fill(program, 1)
    used.reset()
    again = used.solve()
    assert np.array_equal(again.dx, dx) and np.array_equal(again.du, du) and again.iterations == first.iterations


@pytest.mark.parametrize("name", SOLVERS)
def test_without_time_few_iterations_are_made_and_nothing_stays_of_them(name):
    program = StageQp(StageDimensions(8, 4, 2, (1,), 3))
    fill(program, 1)
    solver = SOLVERS[name](program)
    short = solver.solve(until=0.0)
    assert short.iterations <= 3 and not short.solved
    whole = solver.solve()
    assert whole.solved and whole.iterations > 3


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("where", ["A", "b", "Q", "q", "C", "upper_u"])
def test_not_a_number_is_no_solution_and_leaves_nothing_behind(name, where):
    program = fill(StageQp(SMALL), 1)
    expected = SOLVERS[name](program).solve()
    dx, du = expected.dx.copy(), expected.du.copy()
    solver = SOLVERS[name](program)
    getattr(program, where)[2] = np.nan
    broken = solver.solve()
    assert not (broken.solved and program.residual(broken.dx, broken.du) < 1e-3)
    fill(program, 1)
    solver.reset()
    again = solver.solve()
    assert again.solved and np.array_equal(again.dx, dx) and np.array_equal(again.du, du)


@pytest.mark.parametrize("name", SOLVERS)
def test_bounds_that_contradict_each_other_are_no_solution(name):
    program = fill(StageQp(SMALL), 1)
    program.B[:], program.b[:] = 0.0, 0.0
    program.lower_x[3:, 0] = 5.0  # the controls move nothing
    solution = SOLVERS[name](program).solve()
    assert not (solution.solved and program.residual(solution.dx, solution.du) < 1e-3)


def test_residual_finds_each_kind_of_violation():
    program = fill(StageQp(SMALL), 1)
    dx, du = whole(program)
    assert program.residual(dx, du) < 1e-9
    off = dx.copy()
    off[2, 1] += 0.01
    assert 0.005 < program.residual(off, du) < 0.1
    program.upper_u[1, 0] = du[1, 0] - 0.2
    assert program.residual(dx, du) == pytest.approx(0.2)
    program.upper_u[1, 0] = 9.0
    program.lower_x[3, 1] = dx[3, 2] + 0.3
    assert program.residual(dx, du) == pytest.approx(0.3)
    for bad in (np.nan, np.inf):
        off[2, 1] = bad
        assert program.residual(off, du) == np.inf
        broken = du.copy()
        broken[0, 0] = bad
        assert program.residual(dx, broken) == np.inf


def test_a_library_that_declares_other_arguments_is_not_called(monkeypatch, tmp_path):
    (tmp_path / "include").mkdir()
    for header in (Path(ca.__file__).parent / "include").glob("hpipm_d_ocp_qp*.h"):
        text = header.read_text().replace("d_ocp_qp_set_all_rowmaj(double **A, ", "d_ocp_qp_set_all_rowmaj(")
        (tmp_path / "include" / header.name).write_text(text)
    monkeypatch.setattr(ca, "__file__", str(tmp_path / "casadi.py"))
    with pytest.raises(SolverMissing, match=r"its d_ocp_qp_set_all_rowmaj takes B b .* choose the solver piqp"):
        Hpipm(StageQp(StageDimensions(2, 2, 1, (), 1)))
