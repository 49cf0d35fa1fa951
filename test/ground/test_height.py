"""Heights by place under vehicles: the look-up against SciPy's spline, statics and fall on an inclined plane, a wavy road against the
quarter-car formula."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from lfdm_ros.backends import ARRAYS, casadi_model, compiled_jacobian
from lfdm_ros.errors import InputError
from lfdm_ros.ground import Grid, HeightMap
from lfdm_ros.models import Record, get_model
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.ground_maps import HeightMapGround
from lfdm_ros.simulation import Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv").replace(unsprung_load_share=1.0)
P = HMMWV.parameters
BASE = P["cg_to_front_axle"] + P["cg_to_rear_axle"]
MASS = P["sprung_mass"] + P["unsprung_mass_front"] + P["unsprung_mass_rear"]
WHEELS = ("fl", "fr", "rl", "rr")


def plane(rise_x: float, rise_y: float = 0.0) -> HeightMap:
    grid = Grid(-60.0, -60.0, 3.0, 41, 41)
    return HeightMap(grid, rise_x * grid.xs[None, :] + rise_y * grid.ys[:, None])


def outputs(simulator: Simulator) -> dict[str, float]:
    return dict(zip(simulator.output_names, simulator.outputs.tolist()))


def loads(simulator: Simulator) -> np.ndarray:
    return np.array([outputs(simulator)[f"tyre_fz_{wheel}"] for wheel in WHEELS])


def test_height_and_slopes_of_a_place():
    """Through the nodes, between them as the map itself says, slopes those of differences, beyond the edges the nearest point's height."""
    grid = Grid(-3.0, 2.0, 0.5, 30, 20)
    heights = HeightMap(grid, np.random.default_rng(2).normal(0.0, 0.1, grid.shape))
    ground = HeightMapGround(ARRAYS)
    q = ground.prepare(SimpleNamespace(height_map=heights.number, friction_scale=0.8))

    def patch(x, y):
        return ground.under(0, np.asarray(x, float), np.asarray(y, float), Record(), q)

    x, y = np.random.default_rng(3).uniform((-4.0, 1.0), (13.0, 13.0), (200, 2)).T
    found, expected = patch(x, y), heights.at(x, y)
    np.testing.assert_allclose([found.height, found.slope_x, found.slope_y], expected, atol=1e-12)
    inside = ~heights.outside(x, y)
    for slope, dx, dy in ((found.slope_x, 1e-6, 0.0), (found.slope_y, 0.0, 1e-6)):
        difference = (patch(x + dx, y + dy).height - patch(x - dx, y - dy).height) / 2e-6
        np.testing.assert_allclose(slope[inside], difference[inside], atol=1e-7)
    np.testing.assert_allclose(patch(grid.xs, 0.0 * grid.xs + grid.ys[4]).height, heights.heights[4], atol=1e-12)
    assert patch(-50.0, 2.0).height == pytest.approx(heights.heights[0, 0]) and patch(-50.0, 5.0).slope_x == 0.0
    assert found.friction == 0.8


@pytest.mark.parametrize("chassis", ["eight_dof", "twenty_four_dof"])
def test_an_inclined_plane(chassis):
    """Parked uphill, the front loses m g sin h / L; let go, it falls with g sin, less what turns in the wheels."""
    angle, base = math.atan(0.12), HMMWV.replace(rolling_resistance=0.0)
    hill = plane(0.12)
    simulator = Simulator(base.replace(height_map=hill.number), f"{chassis}/fiala/height_map")
    simulator.reset()
    simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 6000)
    assert abs(outputs(simulator)["vx"]) < 0.02
    wheels = sum(P[f"unsprung_mass_{a}"] * (P["wheel_radius"] - 0.02) for a in ("front", "rear"))
    expected = (GRAVITY * math.cos(angle) * (P["sprung_mass"] * P["cg_to_rear_axle"] / BASE + P["unsprung_mass_front"])
                - GRAVITY * math.sin(angle) * (P["sprung_mass"] * P["cg_height"] + wheels) / BASE)
    assert loads(simulator)[:2].sum() == pytest.approx(expected, rel=0.01)
    assert loads(simulator).sum() == pytest.approx(MASS * GRAVITY * math.cos(angle), rel=2e-3)
    simulator.advance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 500)
    before = outputs(simulator)["vx"]
    simulator.advance((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1000)
    fallen = before - outputs(simulator)["vx"]
    turning = 4.0 * P["wheel_inertia"] / (P["wheel_radius"] - 0.02) ** 2
    assert fallen == pytest.approx(GRAVITY * math.sin(angle) * MASS / (MASS + turning), rel=0.01)


@pytest.mark.parametrize("rise", [(0.1, 0.0), (0.0, 0.1)], ids=["uphill", "across"])
@pytest.mark.parametrize("tyre", ["fiala", "tmeasy", "tmeasy_nr"])
@pytest.mark.parametrize("chassis", ["eight_dof", "twenty_four_dof"])
def test_a_parked_vehicle_stays_where_it_is(chassis, tyre, rise):
    hill = plane(*rise)
    simulator = Simulator(HMMWV.replace(height_map=hill.number), f"{chassis}/{tyre}/height_map")
    simulator.reset()
    simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 2000)
    parked = outputs(simulator)
    simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 20_000)
    moved = outputs(simulator)
    assert math.hypot(moved["x"] - parked["x"], moved["y"] - parked["y"]) < 5e-3


@pytest.mark.parametrize("tyre", ["fiala", "tmeasy_nr"])
def test_locked_wheels_slide_where_the_slope_is_steeper_than_their_friction(tyre):
    """Downhill with g (sin - mu cos): of Fiala the friction at full slip, of TMeasy at walking pace that of the ground."""
    hill, scale = plane(-0.12), 0.05
    friction = scale * (P["friction_min"] if tyre == "fiala" else 1.0)
    simulator = Simulator(HMMWV.replace(height_map=hill.number, friction_scale=scale), f"eight_dof/{tyre}/height_map")
    simulator.reset()
    simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 200)
    before = outputs(simulator)["vx"]
    simulator.advance((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 200)
    angle = math.atan(0.12)
    assert outputs(simulator)["vx"] - before == pytest.approx(0.2 * GRAVITY * (math.sin(angle) - friction * math.cos(angle)), rel=0.02)


@pytest.mark.parametrize("dt", [1e-3, 2e-3])
@pytest.mark.parametrize("tyre", ["fiala", "tmeasy_nr"])
@pytest.mark.parametrize("chassis", ["eight_dof", "twenty_four_dof"])
def test_a_vehicle_that_slides_to_rest_stops_once(chassis, tyre, dt):
    """On locked wheels, turned to the side: the speed falls to nothing and stays there, whatever the step."""
    level = plane(0.0)
    simulator = Simulator(HMMWV.replace(height_map=level.number), f"{chassis}/{tyre}/height_map", dt)
    simulator.reset(vx=3.0, vy=1.5)
    braked, speeds = (0.0, 0.0, 1.0), []
    for _ in range(300):
        simulator.advance(braked, braked, round(0.01 / dt))
        now = outputs(simulator)
        speeds.append((now["vx"], now["vy"]))
    vx, vy = np.array(speeds).T
    rocking = 0.1 if chassis == "twenty_four_dof" else 0.01  # of the body on its struts
    assert vx.min() > -rocking and vy.min() > -rocking
    assert np.hypot(vx, vy)[-50:].max() < 2e-3


@pytest.mark.parametrize("speed", [5.0, 12.0, 25.0])
def test_a_wavy_road_is_the_quarter_cars(speed):
    """Waves as long as the wheelbase: all wheels go up at once, and each is a quarter car, below, near and above the wheels' resonance."""
    # One vehicle front and rear, on which nothing but the road acts.
    vehicle = HMMWV.replace(rolling_resistance=0.0, unsprung_mass_rear=P["unsprung_mass_front"], **{
        name: 0.0 for name in P if name.startswith("motor_torque")})
    p, height = vehicle.parameters, 2e-3
    spacing = BASE / 24.0
    grid = Grid(-48 * spacing, -6.0 * spacing, spacing, 24 * 50, 13)
    road = HeightMap(grid, np.tile(height * np.sin(2.0 * math.pi * grid.xs / BASE), (13, 1)))
    simulator = Simulator(vehicle.replace(height_map=road.number), "twenty_four_dof/fiala/height_map", 5e-4)
    simulator.reset(vx=speed)
    rolling, times, found = (0.0, 0.0, 0.0), [], []
    simulator.advance(rolling, rolling, 4000)
    place = outputs(simulator)["x"]
    while outputs(simulator)["x"] < place + 3.0 * BASE:
        found.append(loads(simulator).mean())  # the road pushes along, too, at the wheels: the body pitches, which the mean does not see
        times.append(outputs(simulator)["x"])
        simulator.advance(rolling, rolling, 4)
    # Amplitude by least squares on place, at the speed that it has: nothing brakes it much.
    driven = outputs(simulator)["vx"]
    assert driven == pytest.approx(speed, rel=0.01)
    phase = 2.0 * math.pi * np.array(times) / BASE
    fit, *_ = np.linalg.lstsq(np.column_stack([np.sin(phase), np.cos(phase), np.ones_like(phase)]), np.array(found), rcond=None)
    amplitude = math.hypot(*fit[:2])

    w = 2.0 * math.pi * driven / BASE
    sprung, unsprung = 0.25 * p["sprung_mass"], 0.5 * p["unsprung_mass_front"]
    strut, tyre = p["suspension_stiffness_front"] + 1j * w * p["suspension_damping_front"], p["tyre_vertical_stiffness_front"]
    _, wheel = np.linalg.solve([[strut - sprung * w * w, -strut], [-strut, strut + tyre - unsprung * w * w]], [0.0, tyre * height])
    assert amplitude == pytest.approx(abs(tyre * (height - wheel)), rel=0.03)


def test_derivatives_see_the_hill():
    grid = Grid(-20.0, -20.0, 1.0, 41, 41)
    hill = HeightMap(grid, 0.4 * np.exp(-((grid.xs[None, :] - 3.0) ** 2 + grid.ys[:, None] ** 2) / 30.0))
    vehicle, model = HMMWV.replace(height_map=hill.number), get_model("eight_dof/height_map")
    x, u, p, h = initial_state(model, vehicle, vx=8.0, x=1.3, y=0.7), np.array([0.1, 0.2, 0.0]), vehicle.vector(model), np.array([1e-3])
    value, exact = compiled_jacobian(model, "step", ("x",))(x, u, p, h)
    step = casadi_model(model).step
    np.testing.assert_allclose(value, np.array(step(x, u, p, h)).ravel(), rtol=1e-10, atol=1e-10)
    names = [field.name for field in model.states]
    for name in ("x", "y", "yaw"):
        moved = [x.copy(), x.copy()]
        for sign, state in zip((1.0, -1.0), moved):
            state[names.index(name)] += sign * 1e-5
        difference = np.subtract(*(np.array(step(state, u, p, h)).ravel() for state in moved)) / 2e-5
        np.testing.assert_allclose(exact[:len(x), names.index(name)], difference, atol=1e-8)
    assert abs(exact[names.index("vx"), names.index("x")]) > 1e-5


def test_bad_maps_are_one_line():
    grid = Grid(0.0, 0.0, 1.0, 5, 4)
    with pytest.raises(InputError, match=r"heights: values of shape \(5, 4\) for a grid of \(ny, nx\) = \(4, 5\)"):
        HeightMap(grid, np.zeros((5, 4)))
    with pytest.raises(InputError, match="heights: no finite number at row 2, column 3; fill holes before"):
        HeightMap(grid, np.where(np.arange(20).reshape(4, 5) == 13, np.nan, 0.0))
