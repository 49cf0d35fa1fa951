"""The wheels in vectors and the jumps change how a step is computed, not what it is: every model against CasADi's own evaluation."""

import casadi as ca
import numpy as np
import pytest

from lfdm_ros.backends import advance_kernel, batch_kernel, casadi_model, compiled_jacobian, run_batch, sensitivity_kernel
from lfdm_ros.backends.steps import HALF_IMPLICIT, packed_step_of
from lfdm_ros.compiler.graph import PACK, VALUE, graph_of
from lfdm_ros.compiler.jumps import jumps
from lfdm_ros.compiler.packing import packed
from lfdm_ros.models import get_model
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLES = {"fiala": load_vehicle("hmmwv_shafts"), "tmeasy": load_vehicle("hmmwv_shafts"), "tmeasy_nr": load_vehicle("sedan")}
MODELS = [(VEHICLES[tyre].model(f"{chassis}/{conventions}", tyre).name, VEHICLES[tyre])
          for chassis in ("eight_dof", "eleven_dof", "eighteen_dof", "twenty_four_dof") for tyre in VEHICLES
          for conventions in ("physics", "lfdm")
          if conventions == "physics" or (chassis, tyre) in (("eighteen_dof", "tmeasy"), ("twenty_four_dof", "tmeasy_nr"))]
MODEL = pytest.mark.parametrize(("spec", "vehicle"), MODELS, ids=[spec for spec, _ in MODELS])
H = 1e-3


def situations(spec: str, vehicle: object) -> tuple[np.ndarray, np.ndarray]:
    """16 states (nx, 16) and inputs (3, 16): at rest, walking pace, cruise, spinning and locked wheels, wheels lifted."""
    names, random = [f.name for f in get_model(spec).states], np.random.default_rng(7)
    states, inputs = [], []
    for k in range(16):
        vx = (0.0, 0.3, 1.2, 8.0, 15.0, 25.0, 3.0, 12.0)[k % 8]
        x = initial_state(get_model(spec), vehicle, vx=vx)  # type: ignore[arg-type]
        if k:
            for i, name in enumerate(names):
                if name.startswith("omega"):
                    x[i] = x[i] * (1.0, 0.0, 2.5, 0.98)[k % 4] + 0.02 * random.normal()
                elif "deflection" in name or "compression" in name:
                    x[i] = 0.004 * random.normal()
                elif name in ("vy", "yaw_rate", "roll_rate", "vz"):
                    x[i] = 0.02 * vx * random.normal()
        if "ay" in names:
            x[names.index("ay")] = (0.5, -14.0)[k % 5 == 4]
        if "engine_speed" in names:
            x[names.index("engine_speed")], x[names.index("gear")] = (0.0, 80.0, 250.0)[k % 3], 1.0 + k % 3
        states.append(x)
        inputs.append([0.3 * random.normal(), (0.0, 1.0, 0.4)[k % 3], (0.0, 0.0, 0.0, 1.0)[k % 4]])
    return np.array(states).T.copy(), np.clip(np.array(inputs), -1.0, 1.0).T.copy()


def close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool((np.abs(found - expected) <= 1e-10 * np.maximum(1.0, np.abs(expected))).all())


@MODEL
def test_one_step_of_every_kernel_is_casadis(spec: str, vehicle) -> None:
    model, step = get_model(spec), casadi_model(get_model(spec)).step
    states, inputs = situations(spec, vehicle)
    p = vehicle.vector(model)
    expected = np.array([np.array(step(x, u, p, H)).ravel() for x, u in zip(states.T, inputs.T)])
    x, u = np.empty(len(states)), np.empty(3)
    advance = advance_kernel(get_model(spec))(x, p, u, u)
    plain = sensitivity_kernel(get_model(spec))
    for k in range(16):
        x[:], u[:] = states[:, k], inputs[:, k]
        assert advance(1, H)
        assert close(x, expected[k])
        run, _ = plain.run(states[:, k], np.zeros((len(x), 8)), p, np.zeros((0, 8)), np.repeat(u[None], 2, axis=0), 1, H, True)
        assert close(run[1], expected[k])
    # All situations in the lanes of one vector, so that each jump has lanes on both sides.
    own = np.repeat(inputs[None], 2, axis=0)
    _, kept = run_batch(batch_kernel(get_model(spec), separate_inputs=True), np.repeat(p[:, None], 16, axis=1), states, own, True, 1, H,
                        np.arange(len(states)), np.full((2, len(states)), np.nan), True)
    assert kept is not None
    assert close(kept[:, 1], expected)


@MODEL
def test_a_batch_is_its_vehicles(spec: str, vehicle) -> None:
    """20 steps with varied parameters: to 1e-10 what each vehicle does alone."""
    model, random = get_model(spec), np.random.default_rng(1)
    p = vehicle.vector(model)[:, None] * random.uniform(0.99, 1.01, (1, 5))
    start = np.column_stack([initial_state(get_model(spec), vehicle, vx=v) for v in (0.0, 0.5, 5.0, 15.0, 25.0)])
    inputs = np.array([[0.0, 0.5, 0.0], [0.2, 0.5, 0.0], [0.1, 0.0, 0.6]])
    observed = np.full((3, len(start)), np.nan)
    _, kept = run_batch(batch_kernel(model), p, start, inputs, False, 10, H, np.arange(len(start)), observed, True)
    assert kept is not None
    for n in range(5):
        x, u0, u1 = start[:, n].copy(), np.empty(3), np.empty(3)
        advance = advance_kernel(get_model(spec))(x, p[:, n].copy(), u0, u1)
        for k in range(2):
            u0[:], u1[:] = inputs[k], inputs[k + 1]
            advance(10, H)
            assert close(kept[n, k + 1], x)


@pytest.mark.parametrize(("spec", "vehicle"), [(s, v) for s, v in MODELS if "lfdm" not in s], ids=[s for s, _ in MODELS if "lfdm" not in s])
def test_jacobians(spec: str, vehicle) -> None:
    """df/dx, df/du, df/dp of step and rhs: CasADi's; and central differences, away from kinks."""
    model, functions = get_model(spec), casadi_model(get_model(spec))
    states, _ = situations(spec, vehicle)
    x, u, p = initial_state(get_model(spec), vehicle, vx=14.0), np.array([0.05, 0.3, 0.0]), vehicle.vector(model)
    x += 1e-3 * (np.abs(states[:, 3]) > 0) * np.array([f.role == "continuous" for f in model.states])
    names = [f.name for f in model.states]
    if "engine_speed" in names:
        x[names.index("engine_speed")] = 231.7
    for function, extra in (("step", [np.array([H])]), ("rhs", [])):
        value, jacobian = compiled_jacobian(get_model(spec), function, ("x", "u", "p"))(x, u, p, *extra)
        f = getattr(functions, function)
        assert close(value, np.array(f(x, u, p, *extra)).ravel())
        expected = np.hstack([np.array(m) for m in getattr(functions, f"{function}_jacobian")(x, u, p, *extra)])
        jacobian = jacobian[:, :expected.shape[1]]
        scale = np.abs(expected) + 1e-6 * np.abs(expected).max(axis=1, keepdims=True) + 1e-12
        assert (np.abs(jacobian - expected) <= 1e-8 * scale).all()
        point, sizes = np.concatenate([x, u, p]), (len(x), len(x) + len(u))
        errors = []
        for relative in (1e-5, 1e-6):
            widths = relative * np.maximum(np.abs(point), 1e-2)
            high, low = (np.array(f(*np.split(point[:, None] + s * np.diag(widths), sizes), *extra)) for s in (1.0, -1.0))
            errors.append(np.abs((high - low) / (2.0 * widths) - expected) * widths / (relative * (np.abs(value)[:, None] + 1.0)))
        # What is left is the rounding of the differences, and tables' corners where a varied point meets another.
        assert np.quantile(np.minimum(*errors), 0.97) < 1e-7


@MODEL
def test_the_wheels_are_vectors(spec: str, vehicle) -> None:
    step = packed_step_of(get_model(spec), HALF_IMPLICIT)
    assert step.wheels == (2 if spec.startswith("eleven") else 4)
    needed = step.graph.reachable(step.graph.outputs[0])
    vectors = [step.graph.nodes[i].operation for i in needed if step.graph.nodes[i].kind == PACK]
    roots = [i for i in needed if step.graph.nodes[i].operation == "sqrt" and step.graph.nodes[i].kind == VALUE]
    assert "sqrt" in vectors
    assert not roots


def test_wheels_that_wait_for_each_other_stay_apart() -> None:
    """y1 = sin(x1), y2 = sin(x2 + y1): one after the other; z = cos(x) of both: at once."""
    x = ca.SX.sym("x", 2)
    first = ca.sin(x[0])
    graph = graph_of(ca.Function("f", [x], [ca.vertcat(first, ca.sin(x[1] + first), ca.cos(x[0]), ca.cos(x[1]))]))
    result = packed(graph, [graph.outputs[0][:2], graph.outputs[0][2:]], [True] * len(graph.nodes))
    kinds = [(result.nodes[i].operation, result.nodes[i].kind) for i in result.reachable(result.outputs[0])]
    assert kinds.count(("sin", VALUE)) == 2
    assert kinds.count(("cos", PACK)) == 1
    assert ("cos", VALUE) not in kinds


def test_a_jump_takes_what_one_side_needs_alone() -> None:
    """Two choices on one condition share a sine, which nothing else needs, and a tanh, which is a result as well."""
    x = ca.SX.sym("x", 2)
    shared, result = ca.sin(x[0]), ca.tanh(x[1])
    condition = x[0] < x[1]
    first, second = (ca.if_else(condition, shared * factor * result, x[1]) for factor in (2.0, 3.0))
    graph = graph_of(ca.Function("f", [x], [ca.vertcat(first, second, result)]))
    needed = graph.reachable(graph.outputs[0])
    users: dict[int, set[int]] = {i: {u for u in needed if i in graph.nodes[u].arguments} for i in needed}
    for end in graph.outputs[0]:
        users.pop(end)
    (jump,) = jumps(graph, needed, users)
    inside = [graph.nodes[i].operation for i in jump.regions[0]]
    assert len(jump.choices) == 2
    assert inside.count("sin") == 1
    assert "tanh" not in inside
    assert not jump.regions[1]


def test_advancing_says_whether_all_is_finite() -> None:
    spec, vehicle = MODELS[0]
    x, u = initial_state(get_model(spec), vehicle, vx=5.0), np.zeros(3)
    advance = advance_kernel(get_model(spec))(x, vehicle.vector(get_model(spec)), u, u)
    assert advance(3, H)
    x[1] = np.nan  # y: nothing else depends on it
    assert not advance(1, H)
