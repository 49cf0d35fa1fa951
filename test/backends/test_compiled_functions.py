"""Machine code of CasADi functions against CasADi's own evaluation."""

import ctypes

import casadi as ca
import numpy as np
import pytest
from lanes import evaluate

from lfdm_ros.backends import casadi_model, compiled_jacobian
from lfdm_ros.compiler import compiled, machine_code
from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.graph import TANGENT, graph_of
from lfdm_ros.compiler.tangents import Tangents
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import load_vehicle

POINTS = np.random.default_rng(3).uniform(-2.0, 2.0, (2, 64))
UNARY = {name: getattr(ca, name) for name in (
    "sin", "cos", "tan", "tanh", "sinh", "cosh", "atan", "exp", "expm1", "fabs", "sign", "floor", "ceil")}
UNARY |= {
    "negative": lambda x: -x, "square": lambda x: x * x, "twice": lambda x: 2.0 * x, "inverse": lambda x: 1.0 / x,
    "root": lambda x: ca.sqrt(1.0 + x * x), "log": lambda x: ca.log(3.0 + x), "log1p": lambda x: ca.log1p(2.0 + x),
    "asin": lambda x: ca.asin(0.4 * x), "acos": lambda x: ca.acos(0.4 * x), "power": lambda x: (3.0 + x) ** 2.3,
}
BINARY = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y, "divide": lambda x, y: x / y,
    "minimum": ca.fmin, "maximum": ca.fmax, "angle": ca.atan2, "hypot": ca.hypot, "copysign": ca.copysign,
    "power": lambda x, y: (3.0 + x) ** y,
    "choice": lambda x, y: ca.if_else(x < y, x * y, y), "one_sided": lambda x, y: ca.if_else(x <= y, x * x, 0),
    "logic": lambda x, y: ca.if_else(ca.logic_and(x > 0, ca.logic_not(ca.logic_or(y > 1, x > 1))), x, x * y),
    "truth_as_number": lambda x, y: (x < y) * x + (x != y) + (x == y),
    "number_as_truth": lambda x, y: ca.if_else(ca.floor(x), y, x),
}


def function_of(operation: object, arguments: int) -> ca.Function:
    x = ca.SX.sym("x", arguments)
    return ca.Function("f", [x], [operation(*ca.vertsplit(x))])  # type: ignore[operator]


def slopes_of(function: ca.Function, points: np.ndarray) -> np.ndarray:
    """The compiled derivatives at points (arguments, n), two directions each (n, 2)."""
    graph = graph_of(function)
    code = Code(graph, {"x": "ptr", "s": "ptr"}, directions=2)
    seeds = {node: graph.input(1, i, TANGENT) for i, node in enumerate(graph.inputs[0])}
    for i, (node, seed) in enumerate(seeds.items()):
        code.bind(node, code.load("%x", i, code.value))
        code.bind(seed, code.unit(i, 2))
    tangent = Tangents(graph, seeds).of(graph.outputs[0][0])
    if tangent is not None:
        code.emit(graph.reachable([tangent]))
    code.store(code.number(0.0, 2) if tangent is None else code.get(tangent), "%s", 0, code.tangent)
    machine = machine_code.MachineCode(machine_code.compile_text(code.text("f", machine_code.TRIPLE)))
    call, slopes = machine.function("f", [ctypes.c_void_p] * 2), np.empty((points.shape[1], 2))
    for point, row in zip(np.ascontiguousarray(points.T), slopes):
        call(point.ctypes.data, row.ctypes.data)
    return slopes


@pytest.mark.parametrize(("operation", "arguments"), [(f, 1) for f in UNARY.values()] + [(f, 2) for f in BINARY.values()],
                         ids=[*UNARY, *(f"{name}_2" for name in BINARY)])
def test_operations_and_their_derivatives(operation: object, arguments: int) -> None:
    function, points = function_of(operation, arguments), POINTS[:arguments]
    expected = np.array(function(points)).ravel()
    assert evaluate(function, points) == pytest.approx(expected, rel=1e-14, abs=1e-15)
    assert evaluate(function, points, lanes=8) == pytest.approx(expected, rel=1e-14, abs=1e-15)
    assert evaluate(function, points, real="float", lanes=16) == pytest.approx(expected, rel=1e-5, abs=1e-5)

    jacobian = function.jacobian()
    for point, slopes in zip(points.T, slopes_of(function, points)):
        assert slopes[:arguments] == pytest.approx(np.array(jacobian(point, 0)).ravel(), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("name", ["fabs", "minimum", "maximum"])
def test_the_derivative_at_a_kink_is_the_mean_of_both_sides(name: str) -> None:
    operation = {"fabs": lambda x, y: ca.fabs(x - y), "minimum": ca.fmin, "maximum": ca.fmax}[name]
    slopes = slopes_of(function_of(operation, 2), np.full((2, 1), 0.7))[0]
    assert list(slopes) == ([0.0, 0.0] if name == "fabs" else [0.5, 0.5])


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf, 0.0, 1e-9, 25.0, -400.0])
def test_tanh_at_the_ends(x: float) -> None:
    """A run that diverged must stay visible: NaN is not swallowed by the range reduction."""
    value = evaluate(function_of(ca.tanh, 1), np.full((1, 8), x), lanes=8)
    assert value == pytest.approx(np.full(8, np.tanh(x)), rel=1e-15, nan_ok=True)


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-9, 1.0, -700.0, 709.0, 710.0, -800.0, 1e-300, 0.5 ** 0.5, 1e300])
@pytest.mark.parametrize("name", ["exp", "log"])
def test_exponential_and_logarithm_at_the_ends(name: str, x: float) -> None:
    """Zero, infinity and what is no number, as the library has them; so is a negative logarithm."""
    value = evaluate(function_of(getattr(ca, name), 1), np.full((1, 8), x), lanes=8)
    with np.errstate(all="ignore"):
        assert value == pytest.approx(np.full(8, getattr(np, name)(x)), rel=1e-14, abs=1e-300, nan_ok=True)


@pytest.mark.parametrize(("real", "lanes", "error"), [("double", 8, 4e-16), ("float", 16, 3e-7)])
def test_exponential_and_logarithm_to_the_last_bits(real: str, lanes: int, error: float) -> None:
    x = np.random.default_rng(5).uniform(-30.0, 30.0, (1, 1024))
    if real == "float":
        x = x.astype(np.float32).astype(float)
    exponential = evaluate(function_of(ca.exp, 1), x, real, lanes)
    np.testing.assert_allclose(exponential, np.exp(x[0]), rtol=error)
    y = np.exp(x)
    if real == "float":
        y = y.astype(np.float32).astype(float)
    np.testing.assert_allclose(evaluate(function_of(ca.log, 1), y, real, lanes), np.log(y[0]), rtol=2.0 * error, atol=error)


@pytest.mark.parametrize(("real", "lanes"), [("double", 1), ("double", 8), ("float", 16)])
def test_angles_within_two_units_of_the_last_place(real: str, lanes: int) -> None:
    """All octants, steep and flat, against the processor's 80 bits."""
    rng, number = np.random.default_rng(7), np.float32 if real == "float" else np.float64
    points = rng.uniform(-1.0, 1.0, (2, 16_384)) * 10.0 ** rng.uniform(-6.0, 6.0, (2, 16_384))
    points[:, :4096] = rng.uniform(-1.0, 1.0, (2, 4096))
    points = points.astype(number).astype(float)
    y, x = points.astype(np.longdouble)
    for function, given, exact in ((ca.atan2, points, np.arctan2(y, x)), (ca.atan, points[:1], np.arctan(y))):
        found = evaluate(function_of(function, len(given)), given, real, lanes)
        units = np.abs(found - exact) / np.spacing(np.abs(exact.astype(number)))
        assert units.max() < 2.0


@pytest.mark.parametrize(("y", "x"), [(0.0, 0.0), (-0.0, 1.0), (0.0, -1.0), (-0.0, -2.0), (1.0, 0.0), (-3.0, -0.0), (np.inf, 1.0),
                                      (1.0, np.inf),
                                      (1.0, -np.inf), (np.nan, 1.0), (1.0, np.nan), (5e-324, 1.0), (1.0, 1.0), (-1e300, 1e300)])
def test_angles_at_the_ends(y: float, x: float) -> None:
    value = evaluate(function_of(ca.atan2, 2), np.tile([[y], [x]], 8), lanes=8)
    np.testing.assert_allclose(value, np.full(8, np.arctan2(y, x)), rtol=1e-15, equal_nan=True)
    assert np.signbit(value[0]) == np.signbit(np.arctan2(y, x)) or np.isnan(value[0])


def test_matrices_are_in_c_order_and_structural_zeros_are_zero() -> None:
    a, b = ca.SX.sym("a", 2, 3), ca.SX.sym("b", 3)
    f = compiled(ca.Function("f", [a, b], [ca.mtimes(a, b), a, ca.diag(b)]))
    matrix, vector = np.arange(6.0).reshape(2, 3), np.array([1.0, -2.0, 0.5])
    product, copy, diagonal = f(matrix, vector)
    assert product == pytest.approx(matrix @ vector)
    assert np.array_equal(copy, matrix)
    assert np.array_equal(diagonal, np.diag(vector))


def test_a_bound_call_follows_its_arrays() -> None:
    x = ca.SX.sym("x", 2)
    point = np.array([1.0, 2.0])
    bound = compiled(ca.Function("f", [x], [x * x])).bind(point)
    for scale in (1.0, 3.0):
        point[:] = scale, 2.0 * scale
        bound.evaluate()
        assert bound.results[0] == pytest.approx([scale ** 2, 4.0 * scale ** 2])


def test_wrong_arguments_are_refused() -> None:
    x = ca.SX.sym("x", 2)
    f = compiled(ca.Function("f", [x], [x]))
    with pytest.raises(ValueError, match=r"argument 0 has shape \(3,\), expected \(2,\)"):
        f(np.zeros(3))
    with pytest.raises(ValueError, match="1 arguments, got 2"):
        f(np.zeros(2), np.zeros(2))
    with pytest.raises(NotImplementedError, match="no code for CasADi operation"):
        compiled(ca.Function("g", [x], [ca.erf(x)]))
    sparse = ca.SX.sym("s", ca.Sparsity.diag(2))
    with pytest.raises(ValueError, match="densify"):
        compiled(ca.Function("h", [sparse], [sparse]))


# -- Models -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["rhs", "step"])
def test_jacobians_of_a_model_against_casadi(function: str) -> None:
    model, vehicle = get_model("eight_dof"), load_vehicle("hmmwv")
    x = initial_state("eight_dof", vehicle, vx=12.0, vy=0.3, yaw_rate=0.2, roll=0.01, ax=0.5, ay=2.0)
    arguments = [x, np.array([0.1, 0.5, 0.02]), vehicle.vector(model)] + ([np.array([1e-3])] if function == "step" else [])
    functions = casadi_model(get_model("eight_dof"))
    expected = np.hstack([np.array(m) for m in getattr(functions, f"{function}_jacobian")(*arguments)])
    for by in (("x", "u"), ("x", "u", "p"), ("u",)):
        value, jacobian = compiled_jacobian(get_model("eight_dof"), function, by)(*arguments)
        assert value == pytest.approx(np.array(getattr(functions, function)(*arguments)).ravel(), rel=1e-13, abs=1e-12)
        first, last = {"x": 0, "u": len(x)}[by[0]], {"u": len(x) + 3, "p": expected.shape[1]}[by[-1]]
        columns = last - first
        assert jacobian.shape[1] % 8 == 0
        assert jacobian[:, :columns] == pytest.approx(expected[:, first:last], rel=1e-10, abs=1e-12 * np.abs(expected).max())
        assert not jacobian[:, columns:].any()


def test_a_jacobian_by_some_parameters() -> None:
    model, vehicle = get_model("eight_dof"), load_vehicle("hmmwv")
    names = ("yaw_inertia", "cornering_stiffness_rear")
    arguments = initial_state("eight_dof", vehicle, vx=12.0, vy=0.3), np.array([0.1, 0.5, 0.02]), vehicle.vector(model)
    jacobian = compiled_jacobian(get_model("eight_dof"), "rhs", names)(*arguments)[1]
    expected = np.array(casadi_model(get_model("eight_dof")).rhs_jacobian(*arguments)[2])
    columns = [[f.name for f in model.parameters].index(n) for n in names]
    assert jacobian[:, :2] == pytest.approx(expected[:, columns], rel=1e-10, abs=1e-15)
    with pytest.raises(InputError, match="no parameter 'yaw'"):
        compiled_jacobian(get_model("eight_dof"), "rhs", ("yaw",))


# -- The cache --------------------------------------------------------------------------------------------------------------------


def test_the_cache_is_used_and_a_damaged_file_is_not(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LFDM_CACHE_DIR", str(tmp_path))
    compiles = []
    compile_text = machine_code.compile_text
    monkeypatch.setattr(machine_code, "compile_text", lambda *a: compiles.append(1) or compile_text(*a))
    x = ca.SX.sym("x", 2)
    function = ca.Function("f", [x], [ca.sin(x) * 3.0])

    def value() -> np.ndarray:
        return compiled(function)(np.array([0.1, 0.2]))[0]

    first = value()
    assert np.array_equal(value(), first)
    assert len(compiles) == 1
    (path,) = tmp_path.rglob("*.o")
    for damaged in (path.read_bytes()[:-40], b"", path.read_bytes()[:-1] + b"\x00\x01"):
        path.write_bytes(damaged)
        assert np.array_equal(value(), first)
    assert len(compiles) == 4
    assert not list(tmp_path.rglob("*.tmp"))
