"""The ground `friction_map`: a field in fine cells, against SciPy's bilinear interpolation of SciPy's spline, and against the field."""

import numpy as np
import pytest
from differences import by_state
from scipy import ndimage
from scipy.interpolate import RegularGridInterpolator

from lfdm_ros.backends import casadi_model, compiled_jacobian
from lfdm_ros.compiler.tables import rows
from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldPosterior, FieldPrior, FieldTable, FrictionField, FrictionLink, FrictionMap, Grid
from lfdm_ros.simulation import BatchRollout, SimulationDiverged, Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

GRID = Grid(-8.0, -12.0, 0.5, 90, 60)
PRIOR = FieldPrior(alpha_x=2.5, alpha_y=2.0, sigma_f=1.6)
LATENT = FieldPosterior(PRIOR, GRID).draw(4, np.random.default_rng(4))
FIELDS = [FrictionField(GRID, latent, FrictionLink(0.15, 0.9)) for latent in LATENT]
FINER = 3
MAPS = [FrictionMap(field, 0.8, FINER) for field in FIELDS]
TABLES = [FieldTable(field, 0.8) for field in FIELDS]
PLAIN = load_vehicle("hmmwv").replace(friction_scale=1.1, friction_front=0.7, friction_rear=0.8)
VEHICLE = PLAIN.replace(friction_map=MAPS[0].number)
START = {"vx": 14.0, "x": 1.0, "y": -1.0, "yaw": 0.2}


def by_scipy(field: FrictionField) -> RegularGridInterpolator:
    """Friction of a field over the tyre's, linear between places a third of a node apart, by (x, y); beyond the map not clamped."""
    xs, ys = (first + 0.5 / FINER * np.arange((count - 1) * FINER + 1) for first, count in ((GRID.x, GRID.nx), (GRID.y, GRID.ny)))
    rows, columns = np.meshgrid((ys - GRID.y) / 0.5, (xs - GRID.x) / 0.5, indexing="ij")
    latent = ndimage.map_coordinates(field.latent, [rows, columns], order=3, mode="mirror")
    return RegularGridInterpolator((xs, ys), ((0.15 + 0.75 / (1.0 + np.exp(-latent))) / 0.8).T)


def test_wheels_have_the_friction_of_their_places():
    """A run on the map against one whose friction is looked up outside, by SciPy, and given to each wheel before each step; off the map,
    too."""
    interpolator, p = by_scipy(FIELDS[0]), PLAIN.parameters
    inside, given = (Simulator(vehicle, f"eight_dof/fiala/{ground}", dt=2e-3) for vehicle, ground in (
        (VEHICLE, "friction_map"), (PLAIN, "given_ground")))
    names = [f.name for f in given.model.states]
    for simulator in (inside, given):
        simulator.reset(**START)
    frictions = []
    for k in range(1500):
        u = [0.05 * np.sin(0.02 * k), 0.5, 0.0]
        x, y, yaw = (given.state[names.index(name)] for name in ("x", "y", "yaw"))
        ahead = np.repeat([p["cg_to_front_axle"], -p["cg_to_rear_axle"]], 2)
        left = np.array([0.5, -0.5, 0.5, -0.5]) * np.repeat([p["track_front"], p["track_rear"]], 2)
        wx, wy = x + ahead * np.cos(yaw) - left * np.sin(yaw), y + ahead * np.sin(yaw) + left * np.cos(yaw)
        found = 1.1 * interpolator(np.column_stack([np.clip(wx, GRID.xs[0], GRID.xs[-1]), np.clip(wy, GRID.ys[0], GRID.ys[-1])]))
        frictions.append(found)
        given.meet(**{f"ground_friction_{wheel}": value for wheel, value in zip(given.model.wheels, found)})
        inside.advance(u, u, 1)
        given.advance(u, u, 1)
    np.testing.assert_allclose(inside.state, given.state, rtol=1e-8, atol=1e-9)
    assert np.ptp(np.array(frictions), axis=0).min() > 0.3  # it met patches
    assert given.state[names.index("x")] > GRID.xs[-1] + 2.0  # and the edge


@pytest.mark.parametrize("chassis", ["eight_dof/fiala", "nonlinear_bicycle"])
def test_derivatives_are_exact_within_a_cell(chassis):
    model = VEHICLE.model(f"{chassis}/friction_map")
    x, u, p = initial_state(model, VEHICLE, **START, vy=0.5, yaw_rate=0.4), np.array([0.3, 0.2, 0.0]), VEHICLE.vector(model)
    value, jacobian = compiled_jacobian(model, "rhs", ("x", "friction_map"))(x, u, p)
    functions, n = casadi_model(model), len(x)
    np.testing.assert_allclose(value, np.array(functions.rhs(x, u, p)).ravel(), rtol=1e-11, atol=1e-11)
    assert not jacobian[:, n].any()  # a number has no derivative
    names = [f.name for f in model.states]
    columns = [names.index(name) for name in ("x", "y", "yaw")]
    np.testing.assert_allclose(jacobian[:, columns], by_state(lambda moved: functions.rhs(moved, u, p), x, columns), rtol=1e-5, atol=1e-5)
    assert np.abs(jacobian[names.index("vy"), names.index("x")]) > 1e-2


def ends_of(precision: str, ground: str, numbers: list[float]) -> np.ndarray:
    """Four vehicles, each on its own field, 2 s of slalom at 1 ms: x, y, yaw."""
    times = np.linspace(0.0, 2.0, 21)
    inputs = np.stack([0.25 * np.sin(3.0 * times), np.full(21, 0.3), np.zeros(21)], axis=1)
    vehicle = PLAIN.replace(friction_field=0.0, friction_map=0.0)
    batch = BatchRollout(model=vehicle.model(f"eight_dof/fiala/{ground}"), vehicle=vehicle, dt=1e-3, times=times, inputs=inputs,
                         parameters=[ground], channels=["x", "y", "yaw"], precision=precision)
    return batch.trajectories(np.array(numbers)[:, None], initial_state(batch.model, vehicle, **START))[:, -1]


def test_finer_cells_lead_to_the_field():
    """Error of the friction, as the map itself says it, and of where vehicles end: both fall with the square of the cells."""
    field = ends_of("float64", "friction_field", [table.number for table in TABLES])
    errors, off = [], []
    for finer in (1, 2, 4, 8):
        maps = [FrictionMap(one, 0.8, finer) for one in FIELDS]
        errors.append(max(one.error for one in maps))
        off.append(np.abs(ends_of("float64", "friction_map", [one.number for one in maps]) - field).max())
    assert errors[0] > 20.0 * errors[3] and errors[1] > 8.0 * errors[3] and off[0] > 20.0 * off[3], (errors, off)
    assert errors[3] < 3e-3 and off[3] < 0.02
    # What a map says of itself is what places all over it show.
    rng, finest = np.random.default_rng(3), MAPS[0]
    x, y = rng.uniform(GRID.xs[0], GRID.xs[-1], 20_000), rng.uniform(GRID.ys[0], GRID.ys[-1], 20_000)
    there = 0.8 * by_scipy(FIELDS[0])(np.column_stack([x, y])) - FIELDS[0].friction_at(x, y)
    assert 0.6 * finest.error < np.abs(there).max() < 1.2 * finest.error


def test_single_precision_and_a_map_for_each_vehicle():
    numbers = [one.number for one in MAPS]
    double, single = (ends_of(precision, "friction_map", numbers) for precision in ("float64", "float32"))
    np.testing.assert_allclose(single, double, atol=2e-2)
    assert len(np.unique(np.round(double[:, 1], 4))) == 4
    for k in (0, 3):
        np.testing.assert_array_equal(ends_of("float64", "friction_map", [numbers[k]] * 4)[0], double[k])


def test_what_is_wrong_is_named():
    with pytest.raises(InputError, match="lacks friction_map"):
        Simulator(PLAIN, "eight_dof/fiala/friction_map")
    with pytest.raises(InputError, match="finer: 0; give a whole number"):
        FrictionMap(FIELDS[0], finer=0)
    with pytest.raises(InputError, match="finer: 40 makes a map of 3560 x 2360 cells"):
        FrictionMap(FIELDS[0], finer=40)
    with pytest.raises(InputError, match="tyre_friction: 0 is not in"):
        FrictionMap(FIELDS[0], 0.0)
    table = FrictionMap(FrictionField.uniform(0.4))
    number = table.number
    del table
    assert np.isnan(rows(number, 8.0)).all()  # of a map that is gone, where no vehicle drives on as on ice
    simulator = Simulator(PLAIN.replace(friction_map=number), "eight_dof/fiala/friction_map")
    simulator.reset(vx=10.0)
    with pytest.raises(SimulationDiverged):
        simulator.advance([0.5, 0.5, 0.0], [0.5, 0.5, 0.0], 10)
