"""HPIPM, an interior-point solver for optimal control, by the library in CasADi's wheel.

Unlike CasADi's interface, with sparse matrices of the whole problem and without soft rows, the library has stages, and soft rows at
negligible cost (Frison & Diehl 2020, HPIPM: a high-performance quadratic programming framework, section 2.1).
"""

import ctypes
import math
import re
import time
from functools import cache
from pathlib import Path

import casadi
import numpy as np

from lfdm_ros.errors import InputError
from lfdm_ros.solvers.stage_qp import StageQp, StageSolution

_SPEED = 1  # mode of the library; the slower ones give no better solutions
_STATUS = ("solved", "iteration limit", "step too short", "not a number", "equalities contradict each other")
_INSIDE = 1e-3  # minimum initial slack and multiplier of a bound
_ACCEPTABLE = 1e-3  # stationarity and complementarity if the solver stops early; callers check the residual of the constraints
_WARM = 15  # iterations of a warm start; without convergence by then a cold start is better
_MIN_ITERATIONS = 3  # for any remaining time
_FIRST_PACE = 1e-4  # [s] per iteration, initial estimate


class SolverMissing(InputError):
    """Library of the solver missing or incompatible."""


# The library does not check its arguments, so its headers must declare the expected ones.
_DECLARED = {
    "d_ocp_qp_set_all_rowmaj": "A B b Q S R q r idxbx lbx ubx idxbu lbu ubu C D lg ug Zl Zu zl zu idxs idxs_rev ls us qp",
    "d_ocp_qp_sol_get_all_rowmaj": "qp_sol u x ls us pi lam_lb lam_ub lam_lg lam_ug lam_ls lam_us",
    "d_ocp_qp_dim_set_all": "nx nu nbx nbu ng ns dim",
    "d_ocp_qp_ipm_solve": "qp qp_sol arg ws",
}


def _check_declarations(folder: Path) -> None:
    """Raises AttributeError for a function with other arguments."""
    text = "".join((folder / f"hpipm_d_ocp_qp{part}.h").read_text() for part in ("", "_dim", "_sol", "_ipm"))
    for name, expected in _DECLARED.items():
        declared = re.search(rf"\b{name}\(([^)]*)\)", text)
        names = " ".join(re.findall(r"(\w+)\s*(?:,|$)", declared.group(1))) if declared else "nothing"
        if names != expected:
            raise AttributeError(f"its {name} takes {names}")


@cache
def _library(folder: Path) -> ctypes.CDLL:
    try:
        _check_declarations(folder / "include")
        # blasfeo first, as the wheel's folder is not in the search path.
        ctypes.CDLL(str(folder / "libblasfeo.so"), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(str(folder / "libhpipm.so"))
        for name in ("dim", "", "sol", "ipm_arg", "ipm_ws"):
            for size in ("strsize", "memsize"):
                getattr(library, "_".join(filter(None, ("d_ocp_qp", name, size)))).restype = ctypes.c_size_t
        _ = library.d_ocp_qp_set_all_rowmaj, library.d_ocp_qp_sol_get_all_rowmaj, library.d_ocp_qp_ipm_solve
    except (OSError, AttributeError) as error:
        raise SolverMissing(f"HPIPM cannot be used: {error}; choose the solver piqp, or install a CasADi wheel that has it") from None
    return library


class Hpipm:
    """Solver of a `StageQp`, for repeated calls in preallocated memory."""

    name = "hpipm"

    def __init__(self, program: StageQp, iterations: int = 30, tolerance: float = 1e-6):
        """Raises SolverMissing."""
        self._program, self._library = program, _library(Path(casadi.__file__).parent)
        d = program.dimensions
        stages, count = d.stages, d.stages + 1
        # The initial state is fixed, hence no variable.
        states = [0] + [d.states] * stages
        controls = [d.controls] * stages + [0]
        bounds = [0] + [len(d.bounded)] * stages
        rows = [0] + [d.rows] * stages
        self._soft = [i for i in range(d.rows) if i not in d.hard]
        slacks = [0] + [len(self._soft)] * stages
        self._memory: list[object] = []  # referenced by the library

        def ints(values: list[int]) -> ctypes.Array:
            array = (ctypes.c_int * max(len(values), 1))(*values)
            self._memory.append(array)
            return array

        library = self._library
        self._dim = self._make("dim", ctypes.c_int(stages))
        library.d_ocp_qp_dim_set_all(ints(states), ints(controls), ints(bounds), ints(controls), ints(rows), ints(slacks), self._dim)
        self._qp = self._make("", self._dim)
        self._sol = self._make("sol", self._dim)
        self._arg = self._make("ipm_arg", self._dim)
        library.d_ocp_qp_ipm_arg_set_default(_SPEED, self._arg)
        self._max_iterations, self._pace = iterations, _FIRST_PACE
        self._limit(iterations)  # the size of the workspace: a later limit must not exceed it
        for name in ("stat", "eq", "ineq", "comp"):
            self._set(f"tol_{name}", ctypes.c_double(tolerance))
        for name in ("lam0_min", "t0_min"):
            self._set(name, ctypes.c_double(_INSIDE))
        # Cold start, or warm start from the last iterate, off the boundary, with the central path ending short of the tolerance: half the
        # iterations. (With a cold start that end can be too early.)
        self._starts = {warm: (ctypes.byref(ctypes.c_int(start)), ctypes.byref(ctypes.c_double(tau)))
                        for warm, start, tau in ((False, 0, 1e-16), (True, 3, 0.2 * tolerance))}
        self._ws = self._make("ipm_ws", self._dim, self._arg)

        # Copies of the bounds, and their masks: the library multiplies masked bounds by 0, so they must be finite.
        n, m, g, v = d.states, d.controls, d.rows, len(d.bounded)
        self._copies = {name: np.zeros_like(getattr(program, name))
                        for name in ("lower_x", "upper_x", "lower_u", "upper_u", "row_lower", "row_upper")}
        self._masks = {name: np.ones_like(copy) for name, copy in self._copies.items()}
        self._patterns: dict[str, bytes] = {}
        zeros = np.zeros((count, max(g, 1)))
        no_d = np.zeros((count, g, m))
        self._memory += [zeros, no_d]
        bounded, inputs = ints(list(d.bounded)), ints(list(range(m)))
        # The slack of each bound and row of a stage: -1 for the bounds of controls and states, and for hard rows. With slacks shared by
        # rows the library fails to converge on simple problems.
        slack_of = [self._soft.index(i) if i in self._soft else -1 for i in range(g)]
        softened = [ints([-1] * (m * (k < stages) + v * (k > 0)) + slack_of * (k > 0)) for k in range(count)]

        def doubles(array: np.ndarray) -> ctypes.Array:
            pointers = (ctypes.POINTER(ctypes.c_double) * count)(
                *[ctypes.cast(array[min(k, len(array) - 1)].ctypes.data, ctypes.POINTER(ctypes.c_double)) for k in range(count)])
            self._memory += [array, pointers]
            return pointers

        def indices(arrays: list[ctypes.Array]) -> ctypes.Array:
            pointers = (ctypes.POINTER(ctypes.c_int) * count)(*[ctypes.cast(a, ctypes.POINTER(ctypes.c_int)) for a in arrays])
            self._memory.append(pointers)
            return pointers

        p, c = program, self._copies
        # Of soft rows only; without copies if all are soft.
        self._penalty, self._curvature = (a[:, self._soft].copy() if d.hard else a for a in (p.penalty, p.curvature))
        self._arguments = (
            doubles(p.A), doubles(p.B), doubles(p.b), doubles(p.Q), doubles(p.S), doubles(p.R), doubles(p.q), doubles(p.r),
            indices([bounded] * count), doubles(c["lower_x"]), doubles(c["upper_x"]),
            indices([inputs] * count), doubles(c["lower_u"]), doubles(c["upper_u"]),
            doubles(p.C), doubles(no_d), doubles(c["row_lower"]), doubles(c["row_upper"]),
            doubles(self._curvature), doubles(self._curvature), doubles(self._penalty), doubles(self._penalty),
            None, indices(softened), doubles(zeros), doubles(zeros), self._qp)
        self._du, self._dx = np.zeros((stages + 1, m)), np.zeros((count, n))
        scratch = [np.zeros((count, 2 * (m + v + g) + 1)) for _ in range(2)] + [np.zeros((count, n))] + [
            np.zeros((count, m + v + g + 1)) for _ in range(6)]
        self._results = (self._sol, doubles(self._du), doubles(self._dx), *[doubles(s) for s in scratch])

    def _make(self, name: str, *arguments: object) -> ctypes.Array:
        """Creates one of the library's structures, with its memory."""
        stem = "_".join(filter(None, ("d_ocp_qp", name)))
        record = ctypes.create_string_buffer(getattr(self._library, f"{stem}_strsize")())
        size = getattr(self._library, f"{stem}_memsize")(*arguments)
        memory = ctypes.create_string_buffer(size + 64)
        address = (ctypes.addressof(memory) + 63) // 64 * 64
        self._memory += [record, memory]

        def create() -> None:
            ctypes.memset(address, 0, size)
            getattr(self._library, f"{stem}_create")(*arguments, record, ctypes.c_void_p(address))

        create()
        if name == "ipm_ws":
            self._renew = create
        return record

    def _set(self, field: str, value: object) -> None:
        self._memory.append(value)
        self._library.d_ocp_qp_ipm_arg_set(field.encode(), ctypes.byref(value), self._arg)  # type: ignore[arg-type]

    def _limit(self, iterations: int) -> None:
        self._library.d_ocp_qp_ipm_arg_set(b"iter_max", ctypes.byref(ctypes.c_int(iterations)), self._arg)

    def _mask(self) -> None:
        """Masks infinite bounds; their pattern changes rarely."""
        for name, copy in self._copies.items():
            bounds = getattr(self._program, name)
            finite = ~np.isinf(bounds)  # NaN stays a bound, and an error
            np.copyto(copy, bounds)
            copy[~finite] = 0.0
            pattern = finite.tobytes()
            if self._patterns.get(name) == pattern:
                continue
            self._patterns[name] = pattern
            field = {"lower_x": "lbx", "upper_x": "ubx", "lower_u": "lbu", "upper_u": "ubu", "row_lower": "lg", "row_upper": "ug"}[name]
            self._masks[name][...] = finite
            first = 0 if name.endswith("_u") else 1
            for k in range(first, len(bounds)):
                self._library.d_ocp_qp_set(f"{field}_mask".encode(), k, ctypes.c_void_p(self._masks[name][k].ctypes.data), self._qp)

    def reset(self) -> None:
        self._warm = False

    def solve(self, until: float = math.inf) -> StageSolution:
        """Solves as `StageSolver.solve`, with a warm start; without convergence again with a cold start."""
        self._mask()
        if self._program.dimensions.hard:
            self._penalty[:], self._curvature[:] = self._program.penalty[:, self._soft], self._program.curvature[:, self._soft]
        self._library.d_ocp_qp_set_all_rowmaj(*self._arguments)
        status, iterations = self._run(until)
        if self._warm and (status == 1 or (status != 0 and not self._residuals() < _ACCEPTABLE)):
            self._warm = False
            if time.perf_counter() < until:
                status, more = self._run(until)
                iterations += more
        self._library.d_ocp_qp_sol_get_all_rowmaj(*self._results)
        dx, du = self._dx, self._du[:-1]
        dx[0] = 0.0
        residual = 0.0 if status == 0 else self._residuals()
        good = status == 0 or (status in (1, 2) and residual < _ACCEPTABLE)
        finite = bool(np.isfinite(dx).all() and np.isfinite(du).all())
        solved = good and finite
        if not finite:
            self._limit(self._max_iterations)
            self._renew()  # clears NaN from its memory
        self._warm = solved
        text = _STATUS[status] if 0 <= status < len(_STATUS) else f"status {status}"
        return StageSolution(dx, du, solved, f"{text}, stationarity {residual:.1e}" if residual else text, iterations)

    _warm = False

    def _residuals(self) -> float:
        """Returns the maximum residual of stationarity and complementarity at the last iterate."""
        values = [ctypes.c_double(), ctypes.c_double()]
        for name, value in zip((b"max_res_stat", b"max_res_comp"), values):
            self._library.d_ocp_qp_ipm_get(name, self._ws, ctypes.byref(value))
        return max(value.value for value in values)

    def _run(self, until: float) -> tuple[int, int]:
        """Runs the solver; returns status and iterations, limited by the time until the deadline at the measured pace."""
        library, began = self._library, time.perf_counter()
        limit = _WARM if self._warm else self._max_iterations
        if until < math.inf:
            limit = max(min(limit, int((until - began) / self._pace)), _MIN_ITERATIONS)
        start, tau = self._starts[self._warm]
        self._limit(limit)
        library.d_ocp_qp_ipm_arg_set_warm_start(start, self._arg)
        library.d_ocp_qp_ipm_arg_set_tau_min(tau, self._arg)
        library.d_ocp_qp_ipm_solve(self._qp, self._sol, self._arg, self._ws)
        status, iterations = ctypes.c_int(), ctypes.c_int()
        library.d_ocp_qp_ipm_get(b"status", self._ws, ctypes.byref(status))
        library.d_ocp_qp_ipm_get(b"iter", self._ws, ctypes.byref(iterations))
        self._pace += 0.3 * ((time.perf_counter() - began) / max(iterations.value, 1) - self._pace)
        return status.value, iterations.value
