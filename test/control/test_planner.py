"""The problem's geometry against sampling, exact distances and circles; plans against formulas, and what they have to keep."""

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from lfdm_ros.backends import casadi_model
from lfdm_ros.control.limits import LimitTable
from lfdm_ros.control.ocp import terms
from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.ocp.stages import FAR_AWAY, avoid
from lfdm_ros.control.ocp.terms import VEHICLE_PARAMETERS, ProblemLayout
from lfdm_ros.control.routing.routes import Reference
from lfdm_ros.control.settings import Settings
from lfdm_ros.models.chassis import static_loads
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.simulation.path import Path
from lfdm_ros.simulation.world import Circle, Footprint, World
from lfdm_ros.vehicles import load_vehicle

# Its outline with unlike ends, so that front and rear cannot be mixed up.
HMMWV = load_vehicle("hmmwv", ["front_overhang=1.0111", "rear_overhang=0.2111"])
LAGGING = HMMWV.replace(steering_lag=0.15)
FOOTPRINT = Footprint(2.7, 1.9, 1.1)
PLAIN = SimpleNamespace(namespace=SimpleNamespace, sin=math.sin, cos=math.cos, sqrt=math.sqrt, fabs=abs, fmin=min, fmax=max)
STRAIGHT = Path(np.array([[0.0, 0.0], [400.0, 0.0]]))


def circle(radius, turn=1.5 * math.pi):
    """A path along a circle from the origin, to the left for a positive radius."""
    s = np.linspace(0.0, turn * abs(radius), int(turn * abs(radius) / 0.4) + 1)
    return Path.of_samples(s, radius * np.sin(s / radius), radius * (1.0 - np.cos(s / radius)), s / radius, np.full(len(s), 1.0 / radius))


def reference(path, speed, highest=40.0, **more):
    return Reference(path, np.full(len(path.s), float(speed)), highest, **more)


@pytest.fixture(scope="module")
def bicycle():
    return Planner(HMMWV, Settings(time_budget=0.0))


@pytest.fixture(scope="module")
def eight():
    return Planner(HMMWV, Settings(time_budget=0.0, model="eight_dof"))


@pytest.fixture(scope="module")
def lagging():
    return Planner(LAGGING, Settings(time_budget=0.0))


@pytest.fixture(autouse=True)
def as_made(request):
    """Each test starts with a planner as it was made."""
    yield
    for name in {"bicycle", "eight", "lagging"} & set(request.fixturenames):
        planner = request.getfixturevalue(name)
        planner.limits = None
        planner.set_vehicle(LAGGING if planner.layout.lag else HMMWV)
        planner.tune(Settings(time_budget=0.0, model=planner.model.name))
        planner.reset()


def state(planner, **values):
    """z0 (nz,): coasting, wheels rolling."""
    wheels = {n: values.get("vx", 0.0) / HMMWV.parameters["wheel_radius"] for n in planner.trajectory.names if n.startswith("omega_")}
    z = np.zeros(len(planner.trajectory.names))
    for name, value in (wheels | values).items():
        z[planner.trajectory.place[name]] = value
    return z


def planned(planner, z0, ref, obstacles=None, time=0.0, iterations=25):
    """The plan after some steps, each as in a cycle: what the last that was accepted came to, and the states by name."""
    planner.reset()
    planner.start(z0, ref)
    outcome = planner.plan(z0, ref, obstacles, time, 1)
    assert outcome.solved, outcome.status
    for _ in range(iterations - 1):
        following = planner.plan(z0, ref, obstacles, time, 1)
        if not following.solved:
            break
        outcome = following
    return outcome, {name: planner.trajectory.z[:, i].copy() for name, i in planner.trajectory.place.items()}


def circles(*rows, time=0.0):
    """Obstacles from rows x, y, radius, vx, vy."""
    table = np.array(rows, float)
    return Obstacles(table[:, :2], table[:, 2], table[:, 3:], time)


# -- The problem's text -----------------------------------------------------------------------------------------------


def geometry(obstacles=1, lag=False):
    layout = ProblemLayout(("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay"), lag, obstacles)
    k = SimpleNamespace(front=2.7, rear=1.9, half_width=1.1, load_front=1000.0, load_rear=2000.0, to_rear_axle=1.5)
    c = SimpleNamespace(**dict.fromkeys(layout.stage_parameters, 0.0) | dict(path_cos=1.0, friction=8.0, limit=0.5))
    z = SimpleNamespace(**dict.fromkeys(layout.states, 0.0))
    built = terms.build(PLAIN, layout)

    def rows(loads=(1000.0, 1000.0, 2000.0, 2000.0), friction=1.0):
        return dict(zip((c.name for c in layout.constraints), built.rows(SimpleNamespace(z=z, k=k, c=c, loads=loads, friction=friction))))
    return z, k, c, rows, lambda: built.residuals(SimpleNamespace(z=z, w=SimpleNamespace(steering_rate=0.0, pedal_rate=0.0), k=k, c=c))


def test_distance_from_the_outline_is_the_exact_one():
    """To the rounding of the root at the corner, 1 mm, which is to the far side."""
    rng = np.random.default_rng(1)
    z, _, c, rows, _ = geometry()
    inside = 0
    for _ in range(400):
        z.x, z.y, z.yaw = rng.uniform(-3.0, 3.0), rng.uniform(-3.0, 3.0), rng.uniform(-7.0, 7.0)
        x, y, radius = rng.uniform(-8.0, 8.0), rng.uniform(-8.0, 8.0), rng.uniform(0.1, 3.0)
        c.obstacle_x_0, c.obstacle_y_0, c.obstacle_radius_0 = x, y, radius
        exact = World((Circle(x, y, radius),)).clearance(0.0, z.x, z.y, z.yaw, FOOTPRINT)
        assert -1e-12 <= rows()["obstacle_0"] - exact <= 1.001e-3
        inside += exact < -radius
    assert inside > 10


def test_distance_is_that_of_the_nearest_sample_of_the_outline():
    rng = np.random.default_rng(2)
    z, _, c, rows, _ = geometry()
    edge = np.linspace(0.0, 1.0, 400)[:, None]
    corners = np.array([[2.7, 1.1], [-1.9, 1.1], [-1.9, -1.1], [2.7, -1.1], [2.7, 1.1]])
    outline = np.concatenate([a + edge * (b - a) for a, b in pairwise(corners)])
    for _ in range(100):
        z.x, z.y, z.yaw = rng.uniform(-3.0, 3.0, 3)
        around, away, radius = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(3.3, 12.0), rng.uniform(0.1, 3.0)
        c.obstacle_x_0, c.obstacle_y_0, c.obstacle_radius_0 = z.x + away * np.cos(around), z.y + away * np.sin(around), radius
        turn = np.array([[np.cos(z.yaw), np.sin(z.yaw)], [-np.sin(z.yaw), np.cos(z.yaw)]])
        points = outline @ turn + [z.x, z.y]
        nearest = np.hypot(points[:, 0] - c.obstacle_x_0, points[:, 1] - c.obstacle_y_0).min() - radius
        assert rows()["obstacle_0"] == pytest.approx(nearest, abs=2e-3)


@pytest.mark.parametrize("radius", [30.0, -20.0])
def test_path_errors_are_those_of_projection_to_second_order(radius):
    """Half as far from the path's point, an eighth of the error of the distance and a quarter of that of the heading."""
    path = circle(radius)
    z, _, c, _, residuals = geometry()
    s0 = 20.3
    x, y, yaw, curvature = (float(v[0]) for v in path.at(np.array([s0])))
    c.path_x, c.path_y, c.path_cos, c.path_sin, c.path_yaw, c.path_curvature = x, y, math.cos(yaw), math.sin(yaw), yaw, curvature
    c.path_speed, c.path_speed_slope = 12.0, 0.5
    errors = []
    for share in (1.0, 0.5, 0.25):
        along, left = 2.0 * share, 1.5 * share
        z.x, z.y = x + along * c.path_cos - left * c.path_sin, y + along * c.path_sin + left * c.path_cos
        z.yaw, z.vx = yaw + 0.3, 10.0
        # The circle itself says where the point is.
        centre = np.array([0.0, radius])
        apart = np.array([z.x, z.y]) - centre
        e = math.copysign(1.0, radius) * (abs(radius) - np.hypot(*apart))
        station = radius * math.atan2(apart[0] * math.copysign(1.0, radius), -apart[1] * math.copysign(1.0, radius))
        projected, offset = path.project(np.array([z.x]), np.array([z.y]), np.array([s0]))
        assert projected[0] == pytest.approx(station, abs=1e-3) and offset[0] == pytest.approx(e, abs=1e-3)
        lateral, heading, speed = residuals()[:3]
        errors.append((abs(lateral - e), abs(heading - (z.yaw - station / radius))))
        assert speed == pytest.approx(10.0 - (12.0 + 0.5 * (station - s0)), abs=0.1 * share**2)
    for far, near in pairwise(errors):
        assert near[0] < far[0] / 6.0 + 1e-9 and near[1] < far[1] / 3.0 + 1e-9
    assert errors[-1][0] < 1e-3


def test_rows_grow_in_the_direction_they_say():
    z, _, c, rows, residuals = geometry(obstacles=2, lag=True)
    assert rows()["load_front"] == 1.0 and rows()["load_rear"] == 1.0
    light = rows((900.0, 1100.0, 2600.0, 1400.0))
    assert light["load_front"] == 0.9 and light["load_rear"] == 0.7
    z.ax, z.ay = -4.0, 4.0
    assert rows()["friction"] == pytest.approx(0.5) and rows(friction=0.5)["friction"] == pytest.approx(2.0)
    z.road_steering, z.steering, z.vx, c.limit_slope = -0.2, 0.9, 10.0, -0.01
    assert rows()["steering_limit"] == pytest.approx(-0.5)  # of the wheels, not of the command
    assert rows()["speed"] == 10.0
    z.y, z.yaw = 0.5, 0.2
    # The front's and the rear's middle stand to the left of the path by:
    assert rows()["corridor_front"] == pytest.approx(0.5 + 2.7 * math.sin(0.2))
    assert rows()["corridor_rear"] == pytest.approx(0.5 - 1.9 * math.sin(0.2))
    assert residuals()[0] == pytest.approx(0.5) and residuals()[1] == pytest.approx(0.2)
    z.vy, z.yaw_rate = 0.3, 0.1
    assert residuals()[3] == pytest.approx(0.3 - 1.5 * 0.1)


def test_each_stage_keeps_from_the_nearest_on_either_side(bicycle):
    """As whole arrays say, and as the text in Python."""
    rng, numbers, t = np.random.default_rng(4), bicycle.stages, bicycle.trajectory
    half, pose = numbers.obstacles.shape[1] // 2, np.array([t.place[name] for name in ("x", "y", "yaw")])
    for count in (0, 1, 3, 12):
        t.z[:] = rng.normal(0.0, 20.0, t.z.shape)
        seen = Obstacles(rng.normal(0.0, 40.0, (count, 2)), rng.random(count), rng.normal(0.0, 1.0, (count, 2)), 0.5,
                         turns=rng.normal(0.0, 0.3, count), deviations=rng.random((count, 2)))
        seen.velocities[::3] = 0.0  # what stands stays as large as it is
        numbers.avoid(seen, 2.0, 1.5)
        found = np.empty(numbers.obstacles.shape)
        places = np.array([seen.at(2.0 + ahead).centres for ahead in t.grid])
        later = 1.5 + t.grid
        radii = np.array([[radius + 1.5 * after * (sd[1] if velocity.any() else 0.0) for radius, sd, velocity in zip(
            seen.radii, seen.deviations, seen.velocities)] for after in later]).reshape(len(later), count)
        avoid(t.z, pose, places, radii, found)
        np.testing.assert_allclose(numbers.obstacles, found, rtol=0.0, atol=1e-12)
        for k, (x, y, yaw) in enumerate(t.z[:, pose].tolist()):
            at = places[k]
            away = np.hypot(*(at - [x, y]).T) - radii[k]
            left = math.cos(yaw) * (at[:, 1] - y) - math.sin(yaw) * (at[:, 0] - x) > 0.0
            for first, side in ((0, left), (half, ~left)):
                near = [i for i in np.argsort(away) if side[i] and away[i] < FAR_AWAY][:half]
                expected = [(*at[i], radii[k, i]) for i in near] + [(x + FAR_AWAY, y, 0.0)] * (half - len(near))
                np.testing.assert_allclose(numbers.obstacles[k, first:first + half], expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("lag", [False, True])
@pytest.mark.parametrize("obstacles", [0, 2, 8])
def test_names_are_unique_and_fit_each_other(lag, obstacles):
    layout = ProblemLayout(("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay"), lag, obstacles)
    rows, costs = [c.name for c in layout.constraints], [term.name for term in layout.terms]
    for names in (layout.states, layout.stage_parameters, rows, costs, VEHICLE_PARAMETERS):
        assert len(set(names)) == len(names)
    assert len(rows) == obstacles + 7 and len(costs) == 8
    assert ("road_steering" in layout.states) == lag
    group_of = {c.name: c.group or c.name for c in layout.constraints}
    assert group_of["load_rear"] == "wheel_lift" and group_of["corridor_rear"] == "corridor" and group_of["speed"] == "speed"
    assert all(group_of[f"obstacle_{i}"] == "obstacle" for i in range(obstacles))


# -- Plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bicycle", "eight", "lagging"])
def test_free_road_keeps_the_speed_and_goes_straight(name, request):
    planner = request.getfixturevalue(name)
    outcome, z = planned(planner, state(planner, x=5.0, vx=15.0), reference(STRAIGHT, 15.0))
    assert np.abs(z["vx"] - 15.0).max() < 0.15
    assert np.abs(z["y"]).max() < 0.02 and np.abs(z["steering"]).max() < 2e-3
    assert z["x"][-1] == pytest.approx(5.0 + 15.0 * planner.trajectory.grid[-1], abs=0.5)
    assert not outcome.violated and not outcome.active
    assert outcome.cost == pytest.approx(sum(outcome.cost_terms.values()))


@pytest.mark.parametrize("radius", [60.0, -60.0])
def test_steering_on_a_circle_is_the_understeer_formulas(bicycle, radius):
    """Each axle carries the lateral force of the mass over it; the tyres are all but linear at 1 m/s^2."""
    p, speed = SimpleNamespace(**HMMWV.parameters), 8.0
    bicycle.tune(Settings(time_budget=0.0, weight_lateral=50.0, weight_heading=0.0, weight_steering=0.0, weight_sideslip=0.0,
                          weight_pedal=0.0))
    z0 = state(bicycle, vx=speed, yaw_rate=speed / radius, ay=speed**2 / radius, steering=0.1 * np.sign(radius))
    _, z = planned(bicycle, z0, reference(circle(radius), speed))
    middle = slice(28, 38)  # the transient is over
    assert np.abs(z["yaw_rate"][middle] / z["vx"][middle] - 1.0 / radius).max() < 0.005 / abs(radius)
    base, ay = p.cg_to_front_axle + p.cg_to_rear_axle, float((z["vx"] * z["yaw_rate"])[middle].mean())
    slip = []
    for other, unsprung, stiffness in ((p.cg_to_rear_axle, p.unsprung_mass_front, p.cornering_stiffness_front),
                                       (p.cg_to_front_axle, p.unsprung_mass_rear, p.cornering_stiffness_rear)):
        slip.append(ay * (p.sprung_mass * other / base + unsprung) / (2.0 * stiffness))
    expected = (base * ay / float(np.mean(z["vx"][middle])) ** 2 + slip[0] - slip[1]) / p.max_road_wheel_angle
    assert abs(slip[0] - slip[1]) > 1e-4
    assert float(z["steering"][middle].mean()) == pytest.approx(expected, rel=0.01)


def test_shift_is_the_plan_read_a_little_later(bicycle):
    planned(bicycle, state(bicycle, y=2.0, vx=15.0), reference(STRAIGHT, 17.0), iterations=3)
    trajectory = bicycle.trajectory
    before, grid = trajectory.z.copy(), trajectory.grid
    for time in (0.02, 0.05, 0.31):
        trajectory.z[:] = before
        bicycle.shift(time)
        for i, name in enumerate(trajectory.names):
            column = before[:, i]
            beyond = np.maximum(grid + time - grid[-1], 0.0) * (column[-1] - column[-2]) / (grid[-1] - grid[-2])
            expected = np.interp(grid + time, grid, column) + beyond
            if name in ("steering", "pedal"):
                expected = np.clip(expected, -1.0, 1.0)
            assert trajectory.z[:, i] == pytest.approx(expected, abs=1e-12), name
        # The controls belong to the steering and pedal.
        assert trajectory.w[:-1, 0] * trajectory.durations == pytest.approx(np.diff(trajectory.column("steering")), abs=1e-9)
    trajectory.z[:] = before
    bicycle.shift(0.0)
    bicycle.shift(-1.0)
    assert np.array_equal(trajectory.z, before)


@pytest.mark.parametrize("name", ["bicycle", "eight", "lagging"])
def test_plans_keep_bounds_rates_and_dynamics(name, request):
    """In a task that asks for more than there is."""
    planner = request.getfixturevalue(name)
    s = Settings(time_budget=0.0, model=planner.model.name, largest_brake=0.4,
                 largest_throttle=0.3)
    planner.tune(s)
    reached = set()
    for values, speed in ((dict(y=2.5, vx=16.0), 8.0), (dict(y=-2.5, vx=6.0), 25.0)):
        _, z = planned(planner, state(planner, **values), reference(STRAIGHT, speed))
        steering_rate, pedal_rate = planner.trajectory.w[:-1].T
        for column, lower, upper in ((steering_rate, -0.8, 0.8), (pedal_rate, -s.brake_rate, s.throttle_rate),
                                     (z["steering"], -1.0, 1.0), (z["pedal"], -0.4, 0.3)):
            assert column.min() >= lower - 1e-6 and column.max() <= upper + 1e-6
            # One step of the real-time iteration ends a little inside.
            reached |= {(lower, "lower")} if column.min() < lower + 5e-3 else set()
            reached |= {(upper, "upper")} if column.max() > upper - 5e-3 else set()
        for rate, command in ((steering_rate, z["steering"]), (pedal_rate, z["pedal"])):
            assert command[0] + np.cumsum(rate * planner.trajectory.durations) == pytest.approx(command[1:], abs=1e-6)
    assert {(-0.4, "lower"), (0.3, "upper")} <= reached
    assert (-0.8, "lower") in reached or (0.8, "upper") in reached


def least_loads(planner, vehicle=HMMWV):
    """Smallest share of its static load that a wheel has at each stage but the first, from the model itself."""
    model = casadi_model(planner.model)
    p, n = vehicle.vector(planner.model), len(planner.model.states)
    front, rear = static_loads(SimpleNamespace(**vehicle.parameters))
    result = []
    for z in planner.trajectory.z[1:]:
        pedal = z[planner.trajectory.place["pedal"]]
        loads = model.wheel_loads(z[:n], [z[planner.trajectory.place["steering"]], max(pedal, 0.0), max(-pedal, 0.0)], p).full()[:, 0]
        result.append(float((loads / [front, front, rear, rear]).min()))
    return np.array(result)


@pytest.mark.parametrize("name", ["bicycle", "eight"])
def test_plan_slows_down_or_widens_where_a_wheel_would_become_light(name, request, monkeypatch):
    monkeypatch.setattr("lfdm_ros.control.ocp.planner.MAX_GAP", math.inf)  # to convergence, by whatever way
    planner = request.getfixturevalue(name)
    radius, speed = 50.0, 15.0
    path, z0 = circle(radius), state(planner, vx=speed, yaw_rate=speed / radius, ay=speed**2 / radius, steering=0.12)
    values = dict(time_budget=0.0, model=planner.model.name)
    least, slowest, widest = {}, {}, {}
    for margin in (0.0, 0.65):
        planner.tune(Settings(load_margin=margin, penalty_load=600.0, **values))
        outcome, z = planned(planner, z0, reference(path, speed), iterations=60)
        least[margin], slowest[margin] = least_loads(planner).min(), z["vx"].min()
        widest[margin] = np.abs(path.project(z["x"], z["y"])[1]).max()
        assert "wheel_lift" not in outcome.violated
        assert ("wheel_lift" in outcome.active) == (margin == 0.65)
    assert least[0.0] < 0.62
    assert least[0.65] == pytest.approx(0.65, abs=6e-3)
    assert slowest[0.65] < slowest[0.0] - 0.2 or widest[0.65] > widest[0.0] + 0.2


def test_speed_limit_wins_over_the_reference(bicycle):
    outcome, z = planned(bicycle, state(bicycle, vx=11.0), reference(STRAIGHT, 20.0, highest=12.0))
    assert 11.9 < z["vx"].max() <= 12.0 + 1e-3 and "speed" in outcome.active
    outcome, _ = planned(bicycle, state(bicycle, vx=14.0), reference(STRAIGHT, 20.0, highest=12.0))
    assert "speed" in outcome.violated


def test_corners_stay_in_a_corridor_that_lies_beside_the_path(bicycle):
    corridor = np.array([[0.0, 2.0, 6.0], [30.0, 2.0, 6.0], [40.0, 0.3, 6.0], [70.0, 0.3, 6.0], [80.0, 6.0, 2.0], [400.0, 6.0, 2.0]])
    outcome, z = planned(bicycle, state(bicycle, vx=15.0), reference(STRAIGHT, 15.0, corridor=corridor), iterations=40)
    assert "corridor" in outcome.active and "corridor" not in outcome.violated
    for x, y, yaw in zip(z["x"][1:], z["y"][1:], z["yaw"][1:]):
        for forward, left in ((2.7, 1.1), (2.7, -1.1), (-1.9, 1.1), (-1.9, -1.1)):
            at, offset = x + forward * math.cos(yaw) - left * math.sin(yaw), y + forward * math.sin(yaw) + left * math.cos(yaw)
            assert offset <= np.interp(at, corridor[:, 0], corridor[:, 1]) + 0.02
            assert -offset <= np.interp(at, corridor[:, 0], corridor[:, 2]) + 0.02
    inside = (z["x"] > 42.0) & (z["x"] < 66.0)
    assert inside.sum() > 5 and z["y"][inside].max() <= 0.3 - 1.1 - 0.5 + 0.01  # stages so far ahead keep from the edge
    assert np.abs(z["y"][z["x"] < 10.0]).max() < 0.6


def test_no_corner_leaves_through_a_corridor_that_is_too_narrow_in_silence(bicycle):
    corridor = np.array([[0.0, 0.9, 0.9], [400.0, 0.9, 0.9]])
    outcome, _ = planned(bicycle, state(bicycle, vx=15.0), reference(STRAIGHT, 15.0, corridor=corridor))
    assert "corridor" in outcome.violated and outcome.cost_terms["corridor"] > 0.0


def test_a_plan_keeps_less_from_the_edges_of_a_narrow_corridor(bicycle):
    """0.5 m of room beside a vehicle of 2.2 m: 0.075 m on either side. A plan that reaches them is at the bound, and keeps it."""
    room = np.linspace([0.0, 1.35, 1.35], [400.0, 1.35, 1.35], 2)
    beside = room + [[0.0, -0.2, 0.2]]  # its middle is 0.2 m to the right of the path
    outcome, z = planned(bicycle, state(bicycle, vx=15.0, y=-0.2), reference(STRAIGHT, 15.0, corridor=beside))
    assert "corridor" in outcome.active and "corridor" not in outcome.violated
    assert z["y"][5:].max() == pytest.approx(-0.2 + 0.25 - 0.075, abs=0.005)


def table(steering, speeds=(2.0, 10.0, 20.0, 40.0)):
    n = len(speeds)
    values = np.asarray(steering, float)
    return LimitTable(np.array(speeds), values, values, np.full(n, 5.0), ("wheel_load",) * n, "hmmwv", "twenty_four_dof", "tmeasy", 0.1,
                      1.0, "")


@pytest.mark.parametrize("name", ["bicycle", "lagging"])
def test_steering_limit_of_the_table_is_kept_at_each_speed(name, request):
    planner = request.getfixturevalue(name)
    planner.limits = table((1.0, 0.10, 0.03, 0.01))
    ref, largest = reference(STRAIGHT, 20.0), {}
    for use in (True, False):
        planner.tune(Settings(time_budget=0.0, use_limit_table=use))
        outcome, z = planned(planner, state(planner, y=4.0, vx=12.0), ref, iterations=40)
        road = z["road_steering" if planner.layout.lag else "steering"]
        largest[use] = (np.abs(road[1:]) / planner.limits.at(z["vx"][1:])).max()
        assert ("steering_limit" in outcome.active) == use and "steering_limit" not in outcome.violated
    assert largest[True] == pytest.approx(1.0, abs=1e-2) and largest[False] > 1.3


# -- Obstacles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_each_stage_looks_at_the_nearest_on_its_left_and_right(bicycle, count):
    rng = np.random.default_rng(count)
    rows = np.column_stack([rng.uniform(-20.0, 120.0, count), rng.uniform(-30.0, 30.0, count), rng.uniform(0.3, 2.0, count),
                            rng.uniform(-3.0, 3.0, (count, 2))])
    seen, now = circles(*rows, time=4.0), 4.7
    z0, ref = state(bicycle, vx=15.0), reference(circle(80.0), 15.0)
    bicycle.start(z0, ref)
    before = bicycle.trajectory.z.copy()
    bicycle.plan(z0, ref, seen, now, 1)
    half = bicycle.settings.obstacles // 2
    for k, (z, slots) in enumerate(zip(before, bicycle.stages.obstacles)):
        x, y, yaw = (z[bicycle.trajectory.place[n]] for n in ("x", "y", "yaw"))
        sides = [], []
        for cx, cy, radius, vx, vy in rows:
            cx, cy = cx + (now - 4.0 + bicycle.trajectory.grid[k]) * vx, cy + (now - 4.0 + bicycle.trajectory.grid[k]) * vy
            away = math.hypot(cx - x, cy - y) - radius
            if away < FAR_AWAY:
                left = -(cx - x) * math.sin(yaw) + (cy - y) * math.cos(yaw) > 0.0
                sides[0 if left else 1].append((away, cx, cy, radius))
        expected = {tuple(np.round(o[1:], 9)) for side in sides for o in sorted(side)[:half]}
        there = {tuple(np.round(slot, 9)) for slot in slots if slot[2] > 0.0}
        assert there == expected, k
        for slot in slots[slots[:, 2] == 0.0]:
            assert math.hypot(slot[0] - x, slot[1] - y) == pytest.approx(FAR_AWAY)


def clearances(planner, z, seen, time=0.0):
    """Exact clearance at each stage but the first."""
    world = World(tuple(Circle(cx - seen.time * vx, cy - seen.time * vy, r, vx, vy) for (cx, cy), r, (vx, vy) in zip(
        seen.centres.tolist(), seen.radii.tolist(), seen.velocities.tolist())))
    return np.array([world.clearance(time + t, x, y, yaw, FOOTPRINT) for t, x, y, yaw in
                     zip(planner.trajectory.grid[1:], z["x"][1:], z["y"][1:], z["yaw"][1:])])


@pytest.mark.parametrize("name", ["bicycle", "eight", "lagging"])
@pytest.mark.parametrize("rows", [[(35.0, 0.6, 1.0, 0.0, 0.0)], [(30.0, -18.0, 1.5, 0.0, 6.0)], [(70.0, 0.5, 1.0, -10.0, 0.0)]],
                         ids=["standing", "crossing", "oncoming"])
def test_plan_keeps_the_margin_from_what_stands_and_moves(name, rows, request):
    planner = request.getfixturevalue(name)
    seen, s = circles(*rows, time=-0.5), planner.settings
    outcome, z = planned(planner, state(planner, vx=12.0), reference(STRAIGHT, 12.0), seen, iterations=40)
    margin = s.obstacle_margin + s.obstacle_growth * planner.trajectory.grid[1:]
    assert "obstacle" in outcome.active and "obstacle" not in outcome.violated
    # Not to convergence: at the corners of the outline the steps go to and fro a little.
    assert (clearances(planner, z, seen) - margin).min() > -0.15
    _, unaware = planned(planner, state(planner, vx=12.0), reference(STRAIGHT, 12.0))
    assert clearances(planner, unaware, seen).min() < 0.0


def test_no_obstacles_and_none_far_away_are_the_same(bicycle):
    z0, ref = state(bicycle, y=1.0, vx=15.0), reference(STRAIGHT, 15.0)
    plans = []
    for seen in (None, Obstacles(np.zeros((0, 2)), np.zeros(0), np.zeros((0, 2)), -math.inf), circles((900.0, 0.0, 1.0, 0.0, 0.0))):
        planned(bicycle, z0, ref, seen, iterations=2)
        plans.append(bicycle.trajectory.z.copy())
    assert np.array_equal(plans[0], plans[1]) and np.array_equal(plans[0], plans[2])


# -- Starts, and what goes wrong --------------------------------------------------------------------------------------

STARTS = {"standing": dict(), "standing aside": dict(y=30.0, yaw=2.0), "creeping back": dict(vx=-1.0),
          "aside, away": dict(y=40.0, yaw=3.0, vx=20.0), "across": dict(y=-10.0, yaw=1.5, vx=12.0),
          "many turns": dict(yaw=40.0 * math.pi, vx=10.0), "far": dict(x=-300.0, y=200.0, vx=15.0),
          "skidding": dict(vx=35.0, yaw_rate=2.0, vy=5.0)}


@pytest.mark.parametrize("name", ["bicycle", "eight", "lagging"])
@pytest.mark.parametrize("start", STARTS)
def test_cold_start(name, start, request):
    """There is a plan at once, from anywhere; it is finite and does not turn by more than it must."""
    planner = request.getfixturevalue(name)
    z0, ref = state(planner, **STARTS[start]), reference(STRAIGHT, 15.0)
    planner.start(z0, ref)
    outcome = planner.plan(z0, ref, None, 0.0, planner.settings.cold_iterations)
    assert outcome.solved, outcome.status
    assert np.isfinite(planner.trajectory.z).all() and np.array_equal(planner.trajectory.z[0], z0)
    yaw = planner.trajectory.z[:, planner.trajectory.place["yaw"]]
    assert np.abs(yaw - z0[planner.trajectory.place["yaw"]]).max() < 2.5 * math.pi
    if start in ("standing", "creeping back", "many turns"):
        assert planner.trajectory.z[-1, planner.trajectory.place["vx"]] > 4.0


@pytest.mark.parametrize("name", ["bicycle", "eight"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_a_state_that_is_no_number_is_a_named_failure_and_leaves_nothing_behind(name, value, request):
    planner = request.getfixturevalue(name)
    good, ref = state(planner, y=1.0, vx=15.0), reference(STRAIGHT, 15.0)
    planned(planner, good, ref, iterations=3)
    expected = planner.trajectory.z.copy()
    for where in ("vx", "x", "yaw_rate"):
        bad = good.copy()
        bad[planner.trajectory.place[where]] = value
        outcome = planner.plan(bad, ref, None, 0.0, 1)
        assert not outcome.solved and outcome.status and outcome.residual > 1.0, outcome
        planned(planner, good, ref, iterations=3)
        assert np.array_equal(planner.trajectory.z, expected), where


def test_another_vehicle_counts_from_the_next_plan_on(bicycle):
    z0, ref = state(bicycle, vx=15.0), reference(STRAIGHT, 2.0)
    planned(bicycle, z0, ref, iterations=8)
    first = bicycle.trajectory.z.copy()
    slippery = HMMWV.replace(friction_scale=0.4 * HMMWV.parameters["friction_scale"])
    bicycle.set_vehicle(slippery)
    planned(bicycle, z0, ref, iterations=8)
    fresh = Planner(slippery, bicycle.settings)
    planned(fresh, z0, ref, iterations=8)
    assert np.array_equal(bicycle.trajectory.z, fresh.trajectory.z)
    p, hardest = slippery.parameters, [float(-z[2:, bicycle.trajectory.place["ax"]].min()) for z in (first, bicycle.trajectory.z)]
    most = bicycle.settings.friction_use * p["friction_scale"] * p["friction_max"] * 9.81
    assert hardest[0] > 1.3 * most and hardest[1] < 1.1 * most


def test_a_plan_is_the_same_to_the_bit_after_a_reset(bicycle):
    z0, ref, seen = state(bicycle, y=1.0, vx=14.0), reference(circle(70.0), 15.0), circles((40.0, 8.0, 1.0, 0.0, -1.0))
    results = []
    for _ in range(2):
        planned(bicycle, z0, ref, seen, iterations=4)
        bicycle.shift(0.02)
        bicycle.plan(bicycle.trajectory.z[0].copy(), ref, seen, 0.02, 1)
        results.append(bicycle.trajectory.z.copy())
        planned(bicycle, state(bicycle, x=50.0, vx=5.0), reference(STRAIGHT, 20.0))
    assert np.array_equal(*results)


def test_the_second_solver_comes_to_the_same_plan(bicycle):
    z0, ref, seen = state(bicycle, y=1.0, vx=14.0), reference(circle(70.0), 15.0), circles((40.0, 13.0, 1.0, 0.0, -1.0))
    # More than one iteration a cycle: both solve exactly.
    planners = [Planner(HMMWV, Settings(time_budget=0.0, iterations=12, solver=solver)) for solver in ("hpipm", "piqp")]
    for planner in planners:
        planned(planner, z0, ref, seen, iterations=12)
    assert [planner.solver.name for planner in planners] == ["hpipm", "piqp"]
    assert planners[0].trajectory.z == pytest.approx(planners[1].trajectory.z, abs=2e-3)


def test_a_first_guess_becomes_a_plan_however_late_it_is(bicycle):
    """On a machine so slow that the guess alone takes the time of a cycle, each cycle would begin with another one, for ever."""
    z0, task = state(bicycle, vx=12.0), reference(circle(30.0), 12.0)
    obstacles = Obstacles(np.array([[25.0, 6.0]]), np.array([1.5]), np.zeros((1, 2)), 0.0)
    bicycle.start(z0, task)
    assert not bicycle.plan(z0, task, obstacles, 0.0, 3, until=0.0).solved
    bicycle.start(z0, task)
    outcome = bicycle.plan(z0, task, obstacles, 0.0, 3, until=0.0, begun=True)
    assert outcome.solved or outcome.unfinished
    for _ in range(5):
        outcome = outcome if outcome.solved else bicycle.plan(z0, task, obstacles, 0.0, 3, until=0.0, begun=True)
    assert outcome.solved
