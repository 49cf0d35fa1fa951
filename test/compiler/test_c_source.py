"""LLVM text as C: the same numbers as LLVM's machine code, for every instruction that a builder writes."""

import ctypes
from pathlib import Path

import c_compiler
import numpy as np
import pytest
from c_compiler import needs_cc

from lfdm_ros.backends import batch_kernel, sensitivity_kernel
from lfdm_ros.backends.tick_kernel import advance_text
from lfdm_ros.backends.trajectory_kernels import batch_text, sensitivity_text
from lfdm_ros.compiler import elementary
from lfdm_ros.compiler.builder import Builder
from lfdm_ros.compiler.c_source import c_number, c_source
from lfdm_ros.compiler.functions import DIRECTIONS
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL, TRIPLE, MachineCode, compile_text
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
MODEL = VEHICLE.model("driven_bicycle")


def in_c(text: str, folder: Path, *flags: str) -> ctypes.CDLL:
    """The functions of a module, compiled from C without a warning."""
    folder.joinpath("module.c").write_text(c_source(text, linkage="").text)
    return c_compiler.library(folder / "module.so", "-O1", *flags, folder / "module.c")


def address(a: np.ndarray) -> int:
    return a.ctypes.data


def everything(real: str, width: int) -> tuple[str, int]:
    """A module that takes `width` numbers a, b to all that elementary functions and conversions make of them."""
    code = Builder({"a": "ptr", "b": "ptr", "out": "ptr", "n": "i64", "given": "ptr"}, real)
    t, c = code.vector(real, width), code.vector("i1", width)
    a, b = (code.load(f"%{name}", 0, t) for name in "ab")
    results = [elementary.angle_function(code, name, a, width) for name in ("sin", "cos", "tan")]
    results += [function(code, a, width) for function in (elementary.tanh, elementary.exponential, elementary.logarithm)]
    results += [elementary.angle_of(code, a, b, width), code.library_call("hypot", [a, b], width), code.call("ceil", [a], width)]
    less = code.new(f"fcmp ole {t} {a}, {b}")
    other = code.new(f"fcmp une {t} {a}, {b}")
    for truth in (code.new(f"and {c} {less}, {other}"), code.new(f"or {c} {less}, {other}"), code.new(f"xor {c} {less}, {other}")):
        results.append(code.new(f"uitofp {c} {truth} to {t}"))
    results.append(code.new(f"select {c} {less}, {t} {a}, {t} {code.number(float('inf'), width)}"))
    small = "float" if real == "double" else "double"
    results.append(code.cast(code.cast(a, t, code.vector(small, width)), code.vector(small, width), t))
    if width > 1:
        lanes = [code.new(f"extractelement {t} {a}, i32 {i}") for i in reversed(range(width))]
        results += [code.vector_of(lanes, real)]
        mask = ", ".join(f"i32 {(3 * i) % (2 * width)}" for i in range(width))
        results.append(code.new(f"shufflevector {t} {a}, {t} {b}, <{width} x i32> <{mask}>"))
        some = code.new(f"icmp ne i{width} {code.new(f'bitcast {c} {less} to i{width}')}, 0")
        first = code.new(f"extractelement {c} {less}, i32 0")
        mixed = code.vector_of([first, some] * (width // 2), "i1")
        results.append(code.new(f"select {c} {mixed}, {t} {a}, {t} {b}"))
    for i, result in enumerate(results):
        code.store(result, "%out", i, t)
    total = code.variables("i64", 2)
    code.store("0", total, 0, "i64")
    with code.loop("0", "%n") as i, code.when(code.new(f"icmp sgt i64 {i}, 2")):
        code.store(code.integer("add", code.load(total, 0, "i64"), code.integer("mul", i, 3)), total, 0, "i64")
    with code.when(code.new("icmp ne ptr %given, null")):
        code.store(code.integer("sub", code.load(total, 0, "i64"), code.load("%given", "%n", "i64")), total, 0, "i64")
    code.result = code.load(total, 0, "i64")
    return code.text("everything", TRIPLE), len(results)


@needs_cc
@pytest.mark.parametrize("real, width", [("double", 1), ("double", 4), ("double", 8), ("float", 1), ("float", 8)])
def test_every_instruction(tmp_path, real, width):
    text, count = everything(real, width)
    kind = {"double": np.float64, "float": np.float32}[real]
    values = np.array([0.3, -1.7, 0.0, 12.5, -700.0, 1e-3, 2.0, -0.0], kind)
    a, b = values[:width].copy(), values[::-1][:width].copy()
    given = np.arange(10, dtype=np.int64)
    loaded = MachineCode(compile_text(text)).function("everything", [POINTER] * 3 + [INTEGER, POINTER], INTEGER)
    translated = in_c(text, tmp_path, *(c_compiler.VECTORS if width > 1 else ())).everything
    translated.argtypes, translated.restype = loaded.argtypes, INTEGER
    for n, last in ((8, None), (8, address(given)), (1, None)):
        expected, found = np.zeros((2, count, width), kind)
        assert loaded(address(a), address(b), address(expected), n, last) == translated(address(a), address(b), address(found), n, last)
        np.testing.assert_allclose(found, expected, rtol=1e-12 if real == "double" else 1e-5, atol=1e-15 if real == "double" else 1e-7)


@needs_cc
def test_a_vector_that_a_branch_and_what_follows_use(tmp_path):
    code = Builder({"a": "ptr", "n": "i64"})
    both = code.vector_of([code.load("%a", i, "double") for i in range(2)], "double")
    with code.when(code.new("icmp sgt i64 %n, 0")):
        code.store(code.arithmetic("fadd", both, both, "<2 x double>"), "%a", 1, "<2 x double>")
    code.store(code.arithmetic("fmul", both, both, "<2 x double>"), "%a", 0, "<2 x double>")
    call = in_c(code.text("both", TRIPLE), tmp_path, *c_compiler.VECTORS).both
    for n, expected in ((0, [4.0, 9.0, 0.0, 0.0]), (1, [4.0, 9.0, 4.0, 6.0])):
        a = np.array([2.0, 3.0, 0.0, 0.0])
        call(POINTER(address(a)), INTEGER(n))
        assert a.tolist() == expected


@needs_cc
@pytest.mark.parametrize("lanes, real", [(1, "double"), (8, "double"), (8, "float")])
def test_a_batch(tmp_path, lanes, real):
    """The kernel of calibrations, against LLVM's."""
    count, samples = 16, 6
    call = in_c(batch_text(MODEL, real, False, lanes), tmp_path, *c_compiler.VECTORS).batch
    call.argtypes = [POINTER] * 7 + [INTEGER] * 6 + [REAL] * 2
    p = VEHICLE.vector(MODEL)[:, None] * np.linspace(0.9, 1.1, count)
    x0 = np.repeat(initial_state(MODEL, VEHICLE, vx=12.0)[:, None], count, 1)
    inputs, rows = np.column_stack([np.linspace(0, 0.2, samples), np.full(samples, 0.3), np.zeros(samples)]), np.arange(len(x0))
    observed = np.zeros((samples, len(rows)))
    observed[1::2] = np.nan
    expected, found = np.zeros((2, len(rows), count))
    ours, theirs = np.zeros((2, samples, len(rows), count))
    batch_kernel(MODEL, real, lanes=8).run(p, x0, inputs, False, 10, 1e-3, rows, observed, expected, ours, 0, count)
    call(*(address(a) for a in (p, x0, inputs, rows, observed, found, theirs)), count, samples, 10, len(rows), 0, count, 1e-3, 0.1)
    tolerance = 1e-12 if real == "double" else 1e-4
    np.testing.assert_allclose(theirs, ours, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@needs_cc
def test_derivatives_of_a_trajectory(tmp_path):
    """The kernel of gradients, against LLVM's: to a parameter, an initial speed, and the inputs."""
    names, states = [f.name for f in MODEL.parameters], [f.name for f in MODEL.states]
    columns, rows = [names.index("cornering_stiffness_front")], [states.index("vx")]
    call = in_c(sensitivity_text(MODEL, columns, rows, "half_implicit", (), True), tmp_path, *c_compiler.VECTORS).trajectories
    kernel = sensitivity_kernel(MODEL, (names[columns[0]],), ("vx",), of_inputs=True)
    nx, samples, width = len(states), 5, DIRECTIONS
    random = np.random.default_rng(2)
    s0, dp, du = np.zeros((nx, width)), random.normal(size=(1, width)) * 1e4, random.normal(size=(samples, 3, width))
    s0[rows] = random.normal(size=(1, width))
    x0, p = initial_state(MODEL, VEHICLE, vx=12.0), VEHICLE.vector(MODEL)
    inputs = np.column_stack([np.linspace(0, 0.2, samples), np.full(samples, 0.3), np.zeros(samples)])
    expected = kernel.run(x0, s0, p, dp, inputs, 10, 1e-3, False, du)
    chosen, x, s = np.arange(nx), np.zeros((samples, nx)), np.zeros((samples, nx, width))
    call.argtypes = [POINTER] * 5 + [INTEGER] * 2 + [REAL] * 2 + [POINTER] * 4 + [INTEGER] * 2
    call(*(address(a) for a in (x0, s0, p, dp, inputs)), samples, 10, 1e-3, 0.1, *(address(a) for a in (x, s, du, chosen)), nx, width)
    for a, b in zip((x, s), expected):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12 * np.abs(b).max())


def test_an_unknown_instruction_is_named():
    vehicle = VEHICLE.replace(height_map=1.0)
    with pytest.raises(NotImplementedError, match="@lfdm_tables"):
        c_source(advance_text(vehicle.model("eight_dof/height_map")))
    with pytest.raises(NotImplementedError, match="frem"):
        c_source("define double @f(double %a) nounwind {\nentry:\n%t1 = frem double %a, 2.0\nret double %t1\n}\n")


def test_numbers_are_read_back_as_they_are():
    for value in (0.1, -1e-300, 1.5 * 2.0 ** 52, 0.0):
        assert float(c_number(value).strip("()")) == value
    assert c_number(float("inf")) == "number64(UINT64_C(0x7ff0000000000000))"
