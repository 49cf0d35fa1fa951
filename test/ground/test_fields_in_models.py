"""The ground `friction_field` inside the compiled step: values against SciPy, derivatives, batches, precision, the controller."""

from itertools import pairwise

import casadi as ca
import numpy as np
import pytest
from differences import by_state
from scipy import ndimage

from lfdm_ros.backends import casadi_model, compiled_jacobian
from lfdm_ros.control.ocp import terms
from lfdm_ros.control.ocp.terms import VEHICLE_PARAMETERS, ProblemLayout
from lfdm_ros.control.plan import CONTROLS
from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldPosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, Grid
from lfdm_ros.models import get_model
from lfdm_ros.simulation import BatchRollout, SensitivityRollout, Simulator, initial_state
from lfdm_ros.solvers import StageNames, compiled_stage, stage_function
from lfdm_ros.vehicles import load_vehicle

GRID = Grid(-8.0, -12.0, 0.5, 90, 60)
PRIOR = FieldPrior(alpha_x=2.0, alpha_y=1.5, sigma_f=1.6)
LATENT = FieldPosterior(PRIOR, GRID).draw(24, np.random.default_rng(4))
FIELDS = [FrictionField(GRID, latent, FrictionLink(0.15, 0.9)) for latent in LATENT]
TABLES = [FieldTable(field, tyre_friction=0.8) for field in FIELDS]
PLAIN = load_vehicle("hmmwv").replace(friction_scale=1.1, friction_front=0.7, friction_rear=0.8)
VEHICLE = PLAIN.replace(friction_field=TABLES[0].number)
CHASSIS = ("eight_dof/fiala", "eighteen_dof/tmeasy", "eleven_dof/fiala", "twenty_four_dof/fiala", "driven_bicycle", "nonlinear_bicycle")
START = {"vx": 14.0, "x": 1.0, "y": -1.0, "yaw": 0.2}


def by_scipy(field: FrictionField, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Friction over the tyre's, by SciPy's spline of the latent value; beyond the map that of its edge."""
    rows, columns = ((np.clip(v, 0.0, n - 1.0)) for v, n in (((y - GRID.y) / 0.5, GRID.ny), ((x - GRID.x) / 0.5, GRID.nx)))
    latent = ndimage.map_coordinates(field.latent, [rows, columns], order=3, mode="mirror")
    return (field.link.ice + (field.link.dry - field.link.ice) / (1.0 + np.exp(-latent))) / 0.8


def wheel_places(model, state: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    p, x = PLAIN.parameters, dict(zip((f.name for f in model.states), state))
    a, b = p["cg_to_front_axle"], -p["cg_to_rear_axle"]
    places = {"fl": (a, 0.5 * p["track_front"]), "fr": (a, -0.5 * p["track_front"]), "rl": (b, 0.5 * p["track_rear"]),
              "rr": (b, -0.5 * p["track_rear"]), "front": (a, 0.0), "rear": (b, 0.0)}
    c, s = np.cos(x["yaw"]), np.sin(x["yaw"])
    px, py = np.array([places[wheel] for wheel in model.wheels]).T
    return list(model.wheels), x["x"] + px * c - py * s, x["y"] + px * s + py * c


@pytest.mark.parametrize("chassis", CHASSIS)
def test_wheels_have_the_friction_of_their_places(chassis):
    """A run on the field against one whose friction is looked up outside, by SciPy, and given to each wheel before each step."""
    inside = Simulator(VEHICLE, f"{chassis}/friction_field", dt=2e-3)
    given = Simulator(PLAIN, f"{chassis}/given_ground", dt=2e-3)
    for simulator in (inside, given):
        simulator.reset(**START)
    scale = 1.0 if chassis == "nonlinear_bicycle" else 1.1
    frictions = []
    for k in range(400):
        u = [0.25 * np.sin(0.02 * k), 0.5, 0.0]
        wheels, x, y = wheel_places(given.model, given.state)
        found = scale * by_scipy(FIELDS[0], x, y)
        frictions.append(found)
        given.meet(**{f"ground_friction_{wheel}": value for wheel, value in zip(wheels, found)})
        inside.advance(u, u, 1)
        given.advance(u, u, 1)
    np.testing.assert_allclose(inside.state, given.state, rtol=1e-8, atol=1e-9)
    assert np.ptp(np.array(frictions), axis=0).min() > 0.3  # it met patches


def test_a_uniform_field_is_the_plane():
    table = FieldTable(FrictionField.uniform(0.4))
    ends = []
    for vehicle, ground in ((PLAIN.replace(friction_scale=0.44), ""), (PLAIN.replace(friction_field=table.number), "/friction_field")):
        simulator = Simulator(vehicle, f"eight_dof/fiala{ground}")
        simulator.reset(vx=12.0, x=500.0)  # far off the map, too
        simulator.advance([0.3, 0.2, 0.0], [0.3, 0.2, 0.0], 500)
        ends.append(simulator.state.copy())
    np.testing.assert_allclose(*ends, rtol=1e-12)


@pytest.mark.parametrize("chassis", ["eight_dof/fiala", "driven_bicycle", "nonlinear_bicycle"])
def test_derivatives_are_exact(chassis):
    """Of the right-hand side: compiled, CasADi's, and central differences, which the place comes into by the field alone."""
    model = VEHICLE.model(f"{chassis}/friction_field")
    x, u, p = initial_state(model, VEHICLE, **START, vy=0.5, yaw_rate=0.4), np.array([0.3, 0.2, 0.0]), VEHICLE.vector(model)
    value, jacobian = compiled_jacobian(model, "rhs", ("x", "friction_field"))(x, u, p)
    functions, n = casadi_model(model), len(x)
    np.testing.assert_allclose(value, np.array(functions.rhs(x, u, p)).ravel(), rtol=1e-11, atol=1e-11)
    exact = np.array(functions.rhs_jacobian(x, u, p)[0])
    np.testing.assert_allclose(jacobian[:, :n], exact, rtol=1e-9, atol=1e-9)
    assert not jacobian[:, n].any()  # a number has no derivative
    names = [f.name for f in model.states]
    columns = [names.index(name) for name in ("x", "y", "yaw")]
    np.testing.assert_allclose(exact[:, columns], by_state(lambda moved: functions.rhs(moved, u, p), x, columns), rtol=1e-5, atol=1e-5)
    assert np.abs(exact[names.index("vy"), names.index("x")]) > 1e-2


def test_sensitivities_go_through_the_field():
    """Of a trajectory by where it begins, against shifted runs."""
    model, times = VEHICLE.model("eight_dof/fiala/friction_field"), np.linspace(0.0, 0.6, 13)
    names = [f.name for f in model.states]
    inputs, x0 = np.tile([0.3, 0.2, 0.0], (13, 1)), initial_state(model, VEHICLE, **START)
    rollout = SensitivityRollout(model=model, vehicle=VEHICLE, dt=1e-3, times=times, inputs=inputs, parameters=["yaw_inertia"],
                                 channels=["y", "yaw_rate"])
    seeds = np.zeros((len(names), 2))
    seeds[names.index("x"), 0] = seeds[names.index("y"), 1] = 1.0
    theta = [VEHICLE.parameters["yaw_inertia"]]
    _, slopes = rollout.run(theta, x0, np.zeros((1, 2)), seeds)
    batch = BatchRollout(model=model, vehicle=VEHICLE, dt=1e-3, times=times, inputs=inputs, parameters=["yaw_inertia"],
                         channels=["y", "yaw_rate"])
    width = 1e-5
    for k, name in enumerate(("x", "y")):
        shift = width * np.eye(len(names))[names.index(name)]
        ends = batch.trajectories(np.array([theta, theta]), np.array([x0 + shift, x0 - shift]))
        np.testing.assert_allclose(slopes[..., k], (ends[0] - ends[1]) / (2.0 * width), rtol=2e-4, atol=2e-5)


def batch_of(precision: str, chassis: str = "eight_dof/fiala") -> tuple[np.ndarray, np.ndarray, BatchRollout]:
    """24 vehicles, each on its own field and with its own mass, 2 s of slalom at 1 ms."""
    times = np.linspace(0.0, 2.0, 41)
    inputs = np.stack([0.25 * np.sin(3.0 * times), np.full(41, 0.3), np.zeros(41)], axis=1)
    batch = BatchRollout(model=VEHICLE.model(f"{chassis}/friction_field"), vehicle=VEHICLE, dt=1e-3, times=times, inputs=inputs,
                         parameters=["friction_field", "sprung_mass"], channels=["x", "y", "yaw", "vx", "yaw_rate"], precision=precision)
    theta = np.array([[table.number, PLAIN.parameters["sprung_mass"] * (0.9 + 0.01 * k)] for k, table in enumerate(TABLES)])
    return theta, inputs, batch


@pytest.mark.parametrize("chassis", ["eight_dof/fiala", "eighteen_dof/tmeasy"])
def test_each_vehicle_of_a_batch_has_its_own_field(chassis):
    """The same as one after the other, and no two alike."""
    theta, inputs, batch = batch_of("float64", chassis)
    x0 = initial_state(batch.model, VEHICLE, **START)
    together = batch.trajectories(theta, x0)
    names = [f.name for f in batch.model.states]
    for k in (0, 7, 23):
        one = Simulator(VEHICLE.replace(friction_field=theta[k, 0], sprung_mass=theta[k, 1]), batch.model)
        one.state[:] = x0
        for before, after in pairwise(inputs):
            one.advance(before, after, 50)
        end = [one.state[names.index(name)] for name in ("x", "y", "yaw", "vx", "yaw_rate")]
        np.testing.assert_allclose(together[k, -1], end, rtol=1e-7, atol=1e-8)
    assert len(np.unique(np.round(together[:, -1, 4], 6))) == 24


def test_single_precision_is_as_near_as_without_a_field():
    """Fields and arithmetic both in single precision: as shares of each channel's range, as `BatchRollout` says for 10 s."""
    found = []
    for precision in ("float64", "float32"):
        theta, _, batch = batch_of(precision)
        found.append(batch.trajectories(theta, initial_state(batch.model, VEHICLE, **START)))
    error = np.abs(found[1] - found[0]).max(axis=(0, 1)) / np.ptp(found[0], axis=(0, 1))
    assert (error < 6e-4).all() and error.max() > 1e-8


def test_the_controllers_stage_is_the_same_in_casadi():
    """Value and Jacobian of a stage, compiled and by CasADi's own machine and derivatives."""
    model = get_model("driven_bicycle/friction_field")
    layout = ProblemLayout(tuple(f.name for f in model.states), False, 2)
    function = stage_function(model, StageNames(layout.states[len(layout.model_states):], CONTROLS, VEHICLE_PARAMETERS,
                                                layout.stage_parameters),
                              lambda m: terms.build(m, layout), 3)
    rng = np.random.default_rng(5)
    arguments = [rng.uniform(0.1, 1.0, function.size1_in(i)) for i in range(function.n_in())]
    place = {f.name: i for i, f in enumerate(model.states)}
    arguments[0][[place["x"], place["y"], place["vx"]]] = 3.0, 1.0, 12.0
    arguments[2][:] = VEHICLE.vector(model)
    arguments[4][layout.stage_parameters.index("step")] = 0.03
    value, jacobian = compiled_stage(function)(*arguments)
    symbols = function.sx_in()
    (graph,) = function.call(symbols)
    theirs = ca.Function("theirs", symbols, [graph, ca.jacobian(graph, ca.vertcat(*symbols[:2]))])(*arguments)
    np.testing.assert_allclose(value, np.array(theirs[0]).ravel(), rtol=1e-9, atol=1e-9)
    exact = np.array(ca.densify(theirs[1]))
    np.testing.assert_allclose(jacobian[:, :exact.shape[1]], exact, rtol=1e-9, atol=1e-9)
    assert np.abs(exact[layout.states.index("vy") if "vy" in layout.states else 0, place["x"]]) > 0.0  # what it will meet depends on where


def test_what_is_missing_is_named():
    with pytest.raises(InputError, match="lacks friction_field"):
        Simulator(PLAIN, "eight_dof/fiala/friction_field")
    with pytest.raises(InputError, match="friction_field = -1 1 is outside"):
        PLAIN.replace(friction_field=-1.0)
    with pytest.raises(InputError, match="tyre_friction: 0 is not in"):
        FieldTable(FIELDS[0], tyre_friction=0.0)
