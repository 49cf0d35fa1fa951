"""The bicycles that an MPC predicts with, and the wheel loads of every model, against oracles that are not themselves."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar

from lfdm_ros.backends import casadi_model, compiled_jacobian, compiled_model_function
from lfdm_ros.models import get_model, model_names, usual_spec
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import initial_state
from lfdm_ros.vehicles import load_vehicle

NAME = "driven_bicycle"
BOTH = pytest.mark.parametrize("name", [NAME, "kinematic_bicycle"])
HMMWV = load_vehicle("hmmwv")
# Tyres of usual stiffness along the wheel; those of `hmmwv` are a tenth of it, so that its wheels spin at throttle 0.6.
STIFF = HMMWV.replace(longitudinal_stiffness_front=120e3, longitudinal_stiffness_rear=120e3)
UNEVEN = HMMWV.replace(unsprung_mass_front=400.0, unsprung_mass_rear=150.0, cg_to_front_axle=1.5, rolling_resistance=0.0,
                       wheel_inertia=1e-3)
STATE = {field.name: i for i, field in enumerate(get_model(NAME).states)}
COAST = np.zeros(3)


def step(name, x, u, p, h):
    return compiled_model_function(get_model(name), "step")(x, u, p, [h])[0]


def drive(name, vehicle, inputs, vx, until, h=1e-3, columns=("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay")):
    """States at 0, h, ... until; inputs: a function of time, read in the middle of a step."""
    model = get_model(name)
    p, x = vehicle.vector(model), initial_state(name, vehicle, vx=vx)
    call = compiled_model_function(get_model(name), "step").bind(x, COAST.copy(), p, [h])
    rows = [x.copy()]
    for k in range(round(until / h)):
        call.arguments[1][:] = inputs((k + 0.5) * h)
        call.evaluate()
        call.arguments[0][:] = call.results[0]
        rows.append(call.results[0].copy())
    return np.array(rows)[:, [[f.name for f in model.states].index(c) for c in columns]]


def total_mass(vehicle):
    return sum(vehicle.parameters[key] for key in ("sprung_mass", "unsprung_mass_front", "unsprung_mass_rear"))


def states(n, seed=1):
    rng = np.random.default_rng(seed)
    for i in range(n):
        speed = (20.0, 8.0, 0.2, 0.0, -3.0)[i % 5]
        x = np.array([*rng.normal(0, 20, 2), rng.normal(0, 4), speed * rng.uniform(0.8, 1.2), rng.normal(0, 0.3 + 0.07 * abs(speed)),
                      rng.normal(0, 0.3), *rng.normal(0, 3, 2)])
        yield x, np.array([rng.uniform(-1, 1), rng.uniform(0, 1) * (i % 3 != 0), rng.uniform(0, 1) * (i % 2)]), (1e-3, 1e-2, 5e-2)[i % 3]


# -- The family's contracts -----------------------------------------------------------------------------------------


@BOTH
def test_reverse_is_the_mirror_image_of_forwards(name):
    """Of a vehicle that is alike in front and behind, straight: with throttle and brake, at speed, from rest and into it."""
    p = HMMWV.replace(longitudinal_stiffness_rear=HMMWV.parameters["longitudinal_stiffness_front"], cg_to_rear_axle=HMMWV.parameters[
        "cg_to_front_axle"], unsprung_mass_rear=HMMWV.parameters["unsprung_mass_front"]).vector(get_model(name))
    for vx, throttle, brake, h in product((0.0, 0.05, 2.0, 12.0), (0.0, 0.05, 1.0), (0.0, 0.01, 1.0), (1e-3, 0.05)):
        x, u = np.array([0, 0, 0, vx, 0, 0, 0, 0]), np.array([0.0, throttle, brake])
        mirror = np.array([-1.0, 1, 1, -1, 1, 1, -1, 1])
        np.testing.assert_allclose(step(name, mirror * x, u * [1, -1, 1], p, h), mirror * step(name, x, u, p, h), rtol=1e-12, atol=1e-12)
    assert step(name, np.zeros(8), np.array([0.0, -0.1, 0.0]), p, 0.05)[3] < -0.05


@BOTH
def test_value_and_jacobian_are_finite_everywhere(name):
    """At rest, crawling, fast, in reverse and sideways; full steering; throttle and brake at once; loads of a crash; h = 0 too. With
    friction that falls, that does not, that falls to nothing, and none."""
    p, jacobian = HMMWV.vector(get_model(name)), compiled_jacobian(get_model(name), "step", ("x", "u"))
    fixed, vanishing, ice = (HMMWV.replace(rolling_resistance=0.0, **change).vector(get_model(name)) for change in (
        {"friction_min": HMMWV.parameters["friction_max"]}, {"friction_min": 1e-9}, {"friction_scale": 0.0}))
    for vx, vy, rate, steering, throttle, brake, ax, h in product(
            (0.0, 1e-9, 0.1, 3.0, 35.0, -5.0), (0.0, 0.3, -8.0), (0.0, 0.5), (-1.0, 0.0), (0.0, 1.0, -1.0), (0.0, 1.0), (0.0, -60.0),
            (0.0, 1e-3, 0.075)):
        for parameters in (p, fixed, vanishing, ice):
            value, slopes = jacobian([1.0, 2.0, 0.5, vx, vy, rate, ax, 1.0], [steering, throttle, brake], parameters, [h])
            assert np.isfinite(value).all() and np.isfinite(slopes).all()
    for speed in (0.0, 10.0):
        for part in casadi_model(get_model(name)).step_jacobian([0, 0, 0, speed, 0, 0, 0, 0], COAST, fixed, 0.05):
            assert np.isfinite(np.array(part)).all()


@BOTH
def test_jacobian_equals_differences(name):
    """By x and u, at speed and nearly at rest; where forward and backward difference agree, which leaves out the kinks."""
    p, jacobian, d = HMMWV.vector(get_model(name)), compiled_jacobian(get_model(name), "step", ("x", "u")), 1e-6
    compared = left_out = 0
    for x, u, h in states(100, seed=5):
        z = np.concatenate([x, np.clip(u, 0.02, 0.98)])
        value, slopes = jacobian(z[:8], z[8:], p, [h])
        for i, row in enumerate(np.eye(11)):
            ahead, behind = (step(name, (z + side * row)[:8], (z + side * row)[8:], p, h) for side in (d, -d))
            same = np.abs((ahead - value) - (value - behind)) / d < 1e-4 * (1.0 + np.abs(slopes[:, i]).max())
            np.testing.assert_allclose(slopes[same, i], ((ahead - behind) / (2 * d))[same], rtol=2e-4, atol=2e-4 * np.abs(slopes).max())
            compared, left_out = compared + same.sum(), left_out + (~same).sum()
    assert left_out < 0.02 * compared


# -- Straight -------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("h", [1e-3, 0.025, 0.075])
def test_brakes_stop_at_exactly_zero(name, h):
    """Forwards and in reverse, straight and with full steering; then it stays, on the spot to the bit, also against a throttle that the
    brakes hold."""
    for (side, speed), steering, brake in product(((1.0, 12.0), (-1.0, -3.0)), (0.0, 1.0), (0.15, 1.0)):
        run = drive(name, HMMWV, lambda t, s=steering, b=brake, d=side: (s, 0.0 if t < 15.0 else 0.02 * d, b), speed,
                    17.0 if h > 1e-3 else 16.0, h)
        vx = side * run[:, 3]
        assert (vx >= 0.0).all() and (np.diff(vx) <= 0.0).all()
        assert vx[-1] == 0.0 and vx[np.argmax(vx == 0.0):].max() == 0.0
        if steering == 0.0:
            assert (run[round(14.9 / h), :3] == run[-1, :3]).all()
    x = np.zeros(8)
    np.testing.assert_array_equal(step(name, x, np.array([1.0, 0.0, 0.0]), HMMWV.vector(get_model(name)), h), x)


def test_braking_distance_at_the_friction_limit():
    """v^2 / 2 a, with constant friction a = mu g less the margin across; with falling friction from the peak of Fiala's force over the
    slip, found by search, on loads that follow the deceleration."""
    v = 25.0
    for vehicle in (HMMWV.replace(friction_min=HMMWV.parameters["friction_max"]), HMMWV, STIFF):
        vehicle = vehicle.replace(brake_torque_front=20e3, brake_torque_rear=20e3)  # enough to lock any wheel
        p = vehicle.parameters
        mu_max, mu_min = p["friction_scale"] * p["friction_max"], p["friction_scale"] * p["friction_min"]

        def peak(load, stiffness, mu_max=mu_max, mu_min=mu_min):
            if mu_max == mu_min:
                return mu_max * load

            def force(s):
                limit = (mu_max - (mu_max - mu_min) * s) * load
                return stiffness * s if 2 * stiffness * s <= limit else limit - limit**2 / (4 * stiffness * s)
            return -minimize_scalar(lambda s: -force(s), bounds=(1e-6, 1.0), method="bounded", options={"xatol": 1e-9}).fun

        mass, base = total_mass(vehicle), p["cg_to_front_axle"] + p["cg_to_rear_axle"]
        moment = p["sprung_mass"] * p["cg_height"] + sum(
            p[f"unsprung_mass_{axle}"] * (p["wheel_radius"] - 0.5 * GRAVITY * (
                0.5 * p["sprung_mass"] + p[f"unsprung_mass_{axle}"]) / p[f"tyre_vertical_stiffness_{axle}"]) for axle in ("front", "rear"))
        half = [0.5 * GRAVITY * (0.5 * p["sprung_mass"] + p[f"unsprung_mass_{axle}"]) for axle in ("front", "rear")]

        def surplus(a, half=half, moment=moment, base=base, mass=mass, p=p, peak=peak):
            shift = moment * a / (2 * base)
            return 2 * 0.995 * (peak(half[0] + shift, p["longitudinal_stiffness_front"])
                                + peak(half[1] - shift, p["longitudinal_stiffness_rear"])) - mass * a

        a = brentq(surplus, 0.5, 15.0)
        run = drive(NAME, vehicle, lambda t: (0.0, 0.0, 1.0), v, 6.0)
        assert run[-1, 3] == 0.0
        assert run[-1, 0] == pytest.approx(v**2 / (2 * a), rel=2e-3)
        coarse = drive(NAME, vehicle, lambda t: (0.0, 0.0, 1.0), v, 6.0, 0.05)
        assert coarse[-1, 0] == pytest.approx(v**2 / (2 * a), rel=2e-3)


@pytest.mark.parametrize(("vehicle", "throttle", "tolerance"), [
    (HMMWV, 0.3, 0.02), (STIFF, 0.3, 0.02), (STIFF, 0.6, 0.02), (HMMWV, 0.6, 0.06)])
def test_acceleration_is_that_of_eight_dof(vehicle, throttle, tolerance):
    """Time from 5 to 20 m/s and speed on the way, on slipping tyres. At 0.6 the soft tyres of `hmmwv` spin, which this model has not."""
    small, large = (drive(model, vehicle, lambda t: (0.0, throttle, 0.0), 5.0, 6.5)[:, 3] for model in (NAME, "eight_dof"))
    assert np.argmax(small > 20.0) == pytest.approx(np.argmax(large > 20.0), rel=tolerance)
    assert small == pytest.approx(large, rel=tolerance, abs=0.1)


@pytest.mark.parametrize("brake", [0.1, 0.3])
def test_braking_is_that_of_eight_dof_below_the_limit(brake):
    small, large = (drive(model, HMMWV, lambda t: (0.0, 0.0, brake), 20.0, 12.0)[-1, 0] for model in (NAME, "eight_dof"))
    assert small == pytest.approx(large, rel=0.02)


# -- Turning --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", [8.0, 20.0])
@pytest.mark.parametrize("h", [1e-3, 0.05])
def test_steady_turn_is_the_understeer_formula(speed, h):
    """Yaw rate v delta / (L + K v^2), K from axle masses over axle stiffnesses."""
    p = UNEVEN.parameters
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    front = p["sprung_mass"] * b / (a + b) + p["unsprung_mass_front"]
    rear = p["sprung_mass"] * a / (a + b) + p["unsprung_mass_rear"]
    k = front / (2 * p["cornering_stiffness_front"]) - rear / (2 * p["cornering_stiffness_rear"])
    steering = 2e-4
    run = drive(NAME, UNEVEN, lambda t: (steering, 0.0, 0.0), speed, 5.0, h)
    assert run[-1, 5] == pytest.approx(speed * steering * p["max_road_wheel_angle"] / (a + b + k * speed**2), rel=2e-3)


@pytest.mark.parametrize("name", ["nonlinear_bicycle", "linear_single_track"])
def test_small_slip_is_that_of_the_simpler_models(name):
    vehicle = UNEVEN.replace(friction_front=0.9, friction_rear=0.9)
    runs = [drive(model, vehicle, lambda t: (3e-4 * math.sin(math.pi * min(t, 2.0)), 0.0, 0.0), 20.0, 3.0, 5e-4) for model in (NAME, name)]
    scale = np.abs(runs[1]).max(axis=0)[[1, 2, 4, 5, 7]]
    np.testing.assert_allclose(runs[0][:, [1, 2, 4, 5, 7]] / scale, runs[1][:, [1, 2, 4, 5, 7]] / scale, atol=3e-3)


@pytest.mark.parametrize(("steering", "tolerance"), [(0.02, 0.025), (0.1, 0.03), (0.15, 0.04)])
def test_step_of_steering_is_that_of_eight_dof(steering, tolerance):
    """Yaw rate and lateral acceleration at 0.6, 3 and 4.2 m/s^2; without the loads' shift to the side there is a little more of it."""
    small, large = (drive(model, HMMWV, lambda t: (steering * min(t / 0.2, 1.0), 0.0, 0.0), 15.0, 3.0) for model in (NAME, "eight_dof"))
    for column in (3, 5):
        assert np.abs(small[:, column] - large[:, column]).max() < tolerance * np.abs(large[:, column]).max()
    assert small[-1, 7] == pytest.approx(large[-1, 7], rel=tolerance)


def lane_change(steering):
    return lambda t: (steering * math.sin(math.pi * (t - 0.5)) if 0.5 < t < 2.5 else 0.0, 0.0, 0.0)


@pytest.mark.parametrize(("steering", "bounds"), [
    (0.1, ((0.025, 3e-3, 2e-4), (0.05, 1e-2, 6e-4))), (0.2, ((0.025, 1.5e-2, 5e-4), (0.05, 6e-2, 2e-3)))])
def test_long_steps_of_a_lane_change(steering, bounds):
    """At 20 m/s, 4 and 7 m/s^2, steps of 25 and 50 ms against 1 ms: place [m] and yaw [rad] over 4 s."""
    fine = drive(NAME, HMMWV, lane_change(steering), 20.0, 4.0)
    for h, place, yaw in bounds:
        coarse = drive(NAME, HMMWV, lane_change(steering), 20.0, 4.0, h)
        error = np.abs(coarse - fine[::round(h / 1e-3)])
        assert np.hypot(error[:, 0], error[:, 1]).max() < place
        assert error[:, 2].max() < yaw


@pytest.mark.parametrize("vehicle", ["hmmwv", "dart"])
def test_steps_are_stable_from_rest_to_35_m_per_s(vehicle):
    """Eigenvalues of a step of lateral and yaw motion are inside the unit circle."""
    p, jacobian = load_vehicle(vehicle).vector(get_model(NAME)), compiled_jacobian(get_model(NAME), "step", ("x", "u"))
    for h, speed in product((1e-3, 0.005, 0.01, 0.025, 0.05, 0.075), (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, *range(1, 36))):
        lateral = jacobian([0, 0, 0, speed, 0, 0, 0, 0], COAST, p, [h])[1][4:6, 4:6]
        assert np.abs(np.linalg.eigvals(lateral)).max() < 1.0


@pytest.mark.parametrize("h", [0.025, 0.05, 0.075])
def test_a_sliding_vehicle_only_loses_energy(h):
    """Thrown sideways and spinning, with full or no steering and brakes: kinetic energy falls in every step, and braked it ends at rest."""
    p, rng = HMMWV.vector(get_model(NAME)), np.random.default_rng(3)
    mass, inertia = total_mass(HMMWV), HMMWV.parameters["yaw_inertia"]
    for i in range(30):
        x = np.array([0, 0, 0, rng.uniform(0, 35), rng.normal(0, 4), rng.normal(0, 1), 0, 0])
        u = np.array([rng.uniform(-1, 1), 0.0, (0.0, 0.3, 1.0)[i % 3]])
        start = energy = 0.5 * (mass * (x[3] ** 2 + x[4] ** 2) + inertia * x[5] ** 2)
        for _ in range(round(10.0 / h)):
            x = step(NAME, x, u, p, h)
            before, energy = energy, 0.5 * (mass * (x[3] ** 2 + x[4] ** 2) + inertia * x[5] ** 2)
            assert energy <= before + 1e-9 * start
        if u[2] > 0.0:
            assert x[3] == 0.0 and energy < 1e-12 * start


def test_forces_stay_in_the_friction_circle():
    """On random states, spinning and in reverse included; friction at the lateral slip, computed here. Over a step of 50 ms the forces that
    act on average leave it by 1 % at most."""
    p, q, forces = HMMWV.vector(get_model(NAME)), HMMWV.parameters, compiled_model_function(get_model(NAME), "tyre_forces")
    used = np.zeros(4)
    for x, u, _ in states(1500, seed=9):
        x[[6, 7]] *= 0.5
        f = forces(x, u, p, [0.0])[0].reshape(3, 4)
        delta = u[0] * q["max_road_wheel_angle"]
        vf = x[4] + q["cg_to_front_axle"] * x[5]
        along, across = x[3] * math.cos(delta) + vf * math.sin(delta), vf * math.cos(delta) - x[3] * math.sin(delta)
        slips = (across / max(abs(along), 0.1), (x[4] - q["cg_to_rear_axle"] * x[5]) / max(abs(x[3]), 0.1))
        falling = (q["friction_max"] - q["friction_min"]) * np.clip(np.abs(slips), 0, 1)
        mu = q["friction_scale"] * (q["friction_max"] - falling)[[0, 0, 1, 1]]
        assert (f[0] ** 2 + f[1] ** 2 <= (mu * f[2]) ** 2 * (1.0 + 1e-9)).all()
        used = np.maximum(used, np.hypot(f[0], f[1]) / (mu * np.maximum(f[2], 1.0)))
        if abs(x[3]) > 1.0:
            f = forces(x, u, p, [0.05])[0].reshape(3, 4)
            assert (np.hypot(f[0], f[1]) <= 1.01 * mu * f[2]).all()
    assert used.min() > 0.9


# -- Wheel loads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chassis", model_names())
def test_wheel_loads_are_those_of_the_tyres_on_the_ground(chassis):
    spec = usual_spec(chassis)
    vehicle = (load_vehicle("hmmwv_multibody") if "multibody" in spec else load_vehicle("hmmwv_shafts") if "automatic" in spec
               else HMMWV.replace(friction_front=0.9, friction_rear=0.9))
    model, functions, rng = get_model(spec), casadi_model(get_model(spec)), np.random.default_rng(2)
    p, names = vehicle.vector(model), [f.name for f in model.states]
    start = initial_state(model, vehicle, vx=15.0)
    weights, lifted = [], 0
    for scale in (0.0, *rng.uniform(0.2, 3.0, 30)):
        x = start.copy()
        for name, spread in {"roll": 0.02, "roll_rate": 0.1, "ax": 2.0, "ay": 4.0, "tyre_compression_fl": 0.02}.items():
            if name in names:
                x[names.index(name)] += scale * spread * rng.normal()
        loads = np.array(functions.wheel_loads(x, COAST, p)).ravel()
        fz = np.array(functions.tyre_forces(x, COAST, p, 1e-3)).ravel()[8:]
        np.testing.assert_allclose(np.maximum(loads, 0.0), fz, rtol=1e-12, atol=1e-9)
        weights.append(loads.sum())
        lifted += (loads < 0.0).any()
    assert weights[0] == pytest.approx(total_mass(vehicle) * GRAVITY, rel=1e-9)
    if {"roll", "ay"} <= set(names) or chassis in (NAME, "kinematic_bicycle"):
        assert lifted


def test_wheel_loads_lead_back_to_the_ground():
    """Far into lift-off the inner wheels' loads still rise as the lateral acceleration falls."""
    for name in (NAME, "eight_dof"):
        functions, model = casadi_model(get_model(name)), get_model(name)
        x, p = initial_state(name, HMMWV, vx=20.0), HMMWV.vector(model)
        i, d = [f.name for f in model.states].index("ay"), 1e-3
        x[i] = 15.0
        less = x.copy()
        less[i] -= d
        slope = np.array(functions.wheel_loads(x, COAST, p) - functions.wheel_loads(less, COAST, p)).ravel() / d
        assert slope[0] < -100.0 and slope[2] < -100.0 and slope[1] > 100.0 and slope[3] > 100.0


@pytest.mark.parametrize("steering", [0.05, 0.15])
def test_quasi_steady_loads_are_those_of_eight_dof_in_a_turn(steering):
    """From the lateral acceleration alone, against roll angle, roll rate and acceleration of a turn that has settled."""
    model = get_model("eight_dof")
    columns = [f.name for f in model.states]
    end = drive("eight_dof", HMMWV, lambda t: (steering, 0.25, 0.0), 15.0, 6.0, columns=columns)[-1]
    expected = np.array(casadi_model(get_model("eight_dof")).wheel_loads(end, COAST, HMMWV.vector(model))).ravel()
    x = np.zeros(8)
    x[6:] = end[[columns.index("ax"), columns.index("ay")]]
    loads = np.array(casadi_model(get_model(NAME)).wheel_loads(x, COAST, HMMWV.vector(get_model(NAME)))).ravel()
    assert abs(x[7]) > 1.4 and loads == pytest.approx(expected, rel=0.01)


# -- Kinematic bicycle ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [1e-3, 0.05])
def test_kinematic_rear_axle_draws_the_circle_of_the_steering(h):
    """Radius L / tan(delta) about the point beside the rear axle, at any speed."""
    p = HMMWV.parameters
    run = drive("kinematic_bicycle", HMMWV, lambda t: (0.4, 0.3, 0.0), 5.0, 6.0, h)
    radius = (p["cg_to_front_axle"] + p["cg_to_rear_axle"]) / math.tan(0.4 * p["max_road_wheel_angle"])
    rear = run[:, :2] - p["cg_to_rear_axle"] * np.column_stack([np.cos(run[:, 2]), np.sin(run[:, 2])])
    centre = (-p["cg_to_rear_axle"], radius)
    assert np.abs(np.hypot(*(rear - centre).T) - radius).max() < 1e-3 * radius
    assert run[-1, 2] > math.pi
    np.testing.assert_allclose(run[1:, 4], p["cg_to_rear_axle"] * run[1:, 5], rtol=1e-12)
    np.testing.assert_allclose(run[1:, 7], run[1:, 3] * run[1:, 5], rtol=1e-12)


def test_kinematic_and_driven_bicycle_have_one_longitudinal_motion():
    runs = [drive(name, HMMWV, lambda t: (0.0, 0.4 * (t < 4.0), 0.2 * (t > 5.0)), 3.0, 9.0, 0.01) for name in (NAME, "kinematic_bicycle")]
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-9, atol=1e-9)
