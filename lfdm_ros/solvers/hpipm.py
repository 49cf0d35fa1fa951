"""HPIPM, the interior-point solver for optimal control, through the library that CasADi's wheel brings.

CasADi's own interface takes sparse matrices of the whole problem and knows no soft rows; the library takes stages as they are, and
its soft rows cost next to nothing (Frison & Diehl 2020, HPIPM: a high-performance quadratic programming framework, section 2.1).
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

_SPEED = 1  # of the library's modes; the slower ones found nothing better
_STATUS = ("solved", "iteration limit", "step too short", "not a number", "equalities contradict each other")
_INSIDE = 1e-3  # least slack and multiplier of a bound to begin with
# Of stationarity and complementarity, where the solver could not go on; whoever asks checks the residual of the rest.
_ACCEPTABLE = 1e-3
# Iterations from the last solution: where those do not get there, more do not either, but so many from nothing mostly do.
_WARM = 15
_LEAST = 3  # iterations that are made however little time is left
_FIRST_PACE = 1e-4  # [s] an iteration, before one was measured


class SolverMissing(InputError):
    """The solver's library is not there or does not have what is asked of it."""


# The library checks nothing that it is given, so the header beside it must declare what is called here.
_DECLARED = {
    "d_ocp_qp_set_all_rowmaj": "A B b Q S R q r idxbx lbx ubx idxbu lbu ubu C D lg ug Zl Zu zl zu idxs idxs_rev ls us qp",
    "d_ocp_qp_sol_get_all_rowmaj": "qp_sol u x ls us pi lam_lb lam_ub lam_lg lam_ug lam_ls lam_us",
    "d_ocp_qp_dim_set_all": "nx nu nbx nbu ng ns dim",
    "d_ocp_qp_ipm_solve": "qp qp_sol arg ws",
}


def _check_declarations(folder: Path) -> None:
    """Raises AttributeError for a function that is declared otherwise."""
    text = "".join((folder / f"hpipm_d_ocp_qp{part}.h").read_text() for part in ("", "_dim", "_sol", "_ipm"))
    for name, expected in _DECLARED.items():
        found = re.search(rf"\b{name}\(([^)]*)\)", text)
        names = " ".join(re.findall(r"(\w+)\s*(?:,|$)", found.group(1))) if found else "nothing"
        if names != expected:
            raise AttributeError(f"its {name} takes {names}")


@cache
def _library(folder: Path) -> ctypes.CDLL:
    try:
        _check_declarations(folder / "include")
        # blasfeo first: the wheel's search path is not that of this process.
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
    """Solves a `StageQp` again and again in memory that is set up once."""

    name = "hpipm"

    def __init__(self, program: StageQp, iterations: int = 30, tolerance: float = 1e-6):
        """Raises SolverMissing."""
        self._program, self._library = program, _library(Path(casadi.__file__).parent)
        d = program.dimensions
        stages, count = d.stages, d.stages + 1
        # The first state is known: its stage has none.
        states = [0] + [d.states] * stages
        controls = [d.controls] * stages + [0]
        bounds = [0] + [len(d.bounded)] * stages
        rows = [0] + [d.rows] * stages
        self._soft = [i for i in range(d.rows) if i not in d.hard]
        slacks = [0] + [len(self._soft)] * stages
        self._kept: list[object] = []  # memory that the library points into

        def ints(values: list[int]) -> ctypes.Array:
            array = (ctypes.c_int * max(len(values), 1))(*values)
            self._kept.append(array)
            return array

        library = self._library
        self._dim = self._make("dim", ctypes.c_int(stages))
        library.d_ocp_qp_dim_set_all(ints(states), ints(controls), ints(bounds), ints(controls), ints(rows), ints(slacks), self._dim)
        self._qp = self._make("", self._dim)
        self._sol = self._make("sol", self._dim)
        self._arg = self._make("ipm_arg", self._dim)
        library.d_ocp_qp_ipm_arg_set_default(_SPEED, self._arg)
        self._most, self._pace = iterations, _FIRST_PACE
        self._allow(iterations)  # the workspace has room for so many: never ask for more
        for name in ("stat", "eq", "ineq", "comp"):
            self._set(f"tol_{name}", ctypes.c_double(tolerance))
        for name in ("lam0_min", "t0_min"):
            self._set(name, ctypes.c_double(_INSIDE))
        # From nothing; or from the last iterate, a little off the boundary, staying on the central path short of the tolerance: half the
        # iterations. (From nothing, that end of the path can be too soon.)
        self._starts = {warm: (ctypes.byref(ctypes.c_int(start)), ctypes.byref(ctypes.c_double(tau)))
                        for warm, start, tau in ((False, 0, 1e-16), (True, 3, 0.2 * tolerance))}
        self._ws = self._make("ipm_ws", self._dim, self._arg)

        # Bounds and their masks in arrays of their own: the library multiplies masked bounds by 0, so they must be finite.
        n, m, g, v = d.states, d.controls, d.rows, len(d.bounded)
        self._copies = {name: np.zeros_like(getattr(program, name))
                        for name in ("lower_x", "upper_x", "lower_u", "upper_u", "row_lower", "row_upper")}
        self._masks = {name: np.ones_like(copy) for name, copy in self._copies.items()}
        self._shown: dict[str, bytes] = {}
        zeros = np.zeros((count, max(g, 1)))
        no_d = np.zeros((count, g, m))
        self._kept += [zeros, no_d]
        bounded, inputs = ints(list(d.bounded)), ints(list(range(m)))
        # The slack of each bound and row of a stage: -1 for the bounds of controls and states, and for hard rows. Rows must not share one:
        # where they do, the library does not converge on innocent problems.
        slack_of = [self._soft.index(i) if i in self._soft else -1 for i in range(g)]
        softened = [ints([-1] * (m * (k < stages) + v * (k > 0)) + slack_of * (k > 0)) for k in range(count)]

        def doubles(array: np.ndarray) -> ctypes.Array:
            pointers = (ctypes.POINTER(ctypes.c_double) * count)(
                *[ctypes.cast(array[min(k, len(array) - 1)].ctypes.data, ctypes.POINTER(ctypes.c_double)) for k in range(count)])
            self._kept += [array, pointers]
            return pointers

        def indices(arrays: list[ctypes.Array]) -> ctypes.Array:
            pointers = (ctypes.POINTER(ctypes.c_int) * count)(*[ctypes.cast(a, ctypes.POINTER(ctypes.c_int)) for a in arrays])
            self._kept.append(pointers)
            return pointers

        p, c = program, self._copies
        # Of soft rows alone, in place where all are.
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
        """Makes one of the library's records, with its memory."""
        stem = "_".join(filter(None, ("d_ocp_qp", name)))
        record = ctypes.create_string_buffer(getattr(self._library, f"{stem}_strsize")())
        size = getattr(self._library, f"{stem}_memsize")(*arguments)
        memory = ctypes.create_string_buffer(size + 64)
        address = (ctypes.addressof(memory) + 63) // 64 * 64
        self._kept += [record, memory]

        def create() -> None:
            ctypes.memset(address, 0, size)
            getattr(self._library, f"{stem}_create")(*arguments, record, ctypes.c_void_p(address))

        create()
        if name == "ipm_ws":
            self._renew = create
        return record

    def _set(self, field: str, value: object) -> None:
        self._kept.append(value)
        self._library.d_ocp_qp_ipm_arg_set(field.encode(), ctypes.byref(value), self._arg)  # type: ignore[arg-type]

    def _allow(self, iterations: int) -> None:
        self._library.d_ocp_qp_ipm_arg_set(b"iter_max", ctypes.byref(ctypes.c_int(iterations)), self._arg)

    def _mask(self) -> None:
        """Switches off infinite bounds; a change of their pattern is rare."""
        for name, copy in self._copies.items():
            given = getattr(self._program, name)
            finite = ~np.isinf(given)  # what is not a number must not pass for no bound
            np.copyto(copy, given)
            copy[~finite] = 0.0
            pattern = finite.tobytes()
            if self._shown.get(name) == pattern:
                continue
            self._shown[name] = pattern
            field = {"lower_x": "lbx", "upper_x": "ubx", "lower_u": "lbu", "upper_u": "ubu", "row_lower": "lg", "row_upper": "ug"}[name]
            self._masks[name][...] = finite
            first = 0 if name.endswith("_u") else 1
            for k in range(first, len(given)):
                self._library.d_ocp_qp_set(f"{field}_mask".encode(), k, ctypes.c_void_p(self._masks[name][k].ctypes.data), self._qp)

    def reset(self) -> None:
        """Forgets the last solution: the next one starts cold."""
        self._warm = False

    def solve(self, until: float = math.inf) -> StageSolution:
        """Solves as `StageSolver.solve`, from the last solution; if that leads nowhere, once more from nothing."""
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
        short = 0.0 if status == 0 else self._residuals()
        good = status == 0 or (status in (1, 2) and short < _ACCEPTABLE)
        finite = bool(np.isfinite(dx).all() and np.isfinite(du).all())
        solved = good and finite
        if not finite:
            self._allow(self._most)
            self._renew()  # numbers that are none would stay in its memory for ever
        self._warm = solved
        said = _STATUS[status] if 0 <= status < len(_STATUS) else f"status {status}"
        return StageSolution(dx, du, solved, f"{said}, stationarity {short:.1e}" if short else said, iterations)

    _warm = False

    def _residuals(self) -> float:
        """Returns the largest of stationarity and complementarity at the last iterate."""
        values = [ctypes.c_double(), ctypes.c_double()]
        for name, value in zip((b"max_res_stat", b"max_res_comp"), values):
            self._library.d_ocp_qp_ipm_get(name, self._ws, ctypes.byref(value))
        return max(value.value for value in values)

    def _run(self, until: float) -> tuple[int, int]:
        """Status and iterations, as many as there is time for at the pace of the last ones."""
        library, began = self._library, time.perf_counter()
        most = _WARM if self._warm else self._most
        if until < math.inf:
            most = max(min(most, int((until - began) / self._pace)), _LEAST)
        start, tau = self._starts[self._warm]
        self._allow(most)
        library.d_ocp_qp_ipm_arg_set_warm_start(start, self._arg)
        library.d_ocp_qp_ipm_arg_set_tau_min(tau, self._arg)
        library.d_ocp_qp_ipm_solve(self._qp, self._sol, self._arg, self._ws)
        status, iterations = ctypes.c_int(), ctypes.c_int()
        library.d_ocp_qp_ipm_get(b"status", self._ws, ctypes.byref(status))
        library.d_ocp_qp_ipm_get(b"iter", self._ws, ctypes.byref(iterations))
        self._pace += 0.3 * ((time.perf_counter() - began) / max(iterations.value, 1) - self._pace)
        return status.value, iterations.value
