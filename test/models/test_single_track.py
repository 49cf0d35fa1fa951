"""The single-track models against oracles that are not themselves; what all four have in common."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.signal import lsim

from lfdm_ros.backends import casadi_model, compiled_model_function
from lfdm_ros.models import get_model
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import BatchRollout, InputProfile, Simulator, initial_state, rollout
from lfdm_ros.vehicles import load_vehicle

RHODE = load_vehicle("rhode_dual_track").replace(friction_front=0.9, friction_rear=0.7)
# Unequal unsprung masses, so that their moment about the sprung mass's centre counts.
HMMWV = load_vehicle("hmmwv").replace(unsprung_mass_front=500.0, unsprung_mass_rear=100.0, cg_to_front_axle=1.5, friction_front=0.9,
                                      friction_rear=0.7, rolling_resistance=0.0)
STATE = {field.name: i for i, field in enumerate(get_model("linear_single_track").states)}
NAMES = ["linear_single_track", "nonlinear_bicycle", "driven_bicycle", "kinematic_bicycle"]
BOTH, ALL = (pytest.mark.parametrize("name", names) for names in (NAMES[:2], NAMES))


def kernels(name):
    """step, rhs and outputs of a model as machine code."""
    functions = {key: compiled_model_function(get_model(name), key) for key in ("step", "rhs", "outputs")}
    return SimpleNamespace(step=lambda x, u, p, h: functions["step"](x, u, p, [h])[0], rhs=lambda x, u, p: functions["rhs"](x, u, p)[0],
                           outputs=lambda x, u, p, h: functions["outputs"](x, u, p, [h])[0])


def state_space(p, v):
    """A and B of x' = A x + B delta for x = (yaw rate, sideslip), after Schramm, Hiller, Bardini; axle stiffnesses; no unsprung mass."""
    m, j, a, b = p["sprung_mass"], p["yaw_inertia"], p["cg_to_front_axle"], p["cg_to_rear_axle"]
    cf, cr = 2 * p["cornering_stiffness_front"], 2 * p["cornering_stiffness_rear"]
    return (np.array([[-(cf * a**2 + cr * b**2) / (j * v), (cr * b - cf * a) / j],
                      [(cr * b - cf * a) / (m * v**2) - 1.0, -(cf + cr) / (m * v)]]), np.array([[cf * a / j], [cf / (m * v)]]))


def states(n, seed=1):
    rng = np.random.default_rng(seed)
    for i in range(n):
        speed = (15.0, 0.2, 0.0, -3.0)[i % 4]
        x = np.concatenate([rng.normal(0, 50, 2), rng.normal(0, 4, 1), [speed], rng.normal(0, 1 + 0.2 * abs(speed), 1),
                            rng.normal(0, 0.5, 1), rng.normal(0, 3, 2)])
        yield x, np.array([rng.uniform(-1, 1), rng.uniform(0, 1), rng.uniform(0, 1)]), (1e-3, 5e-3, 2e-2)[i % 3]


@pytest.mark.parametrize(("name", "vehicle"), [(name, HMMWV) for name in NAMES] + [(name, RHODE) for name in NAMES[:2]])
def test_compiled_code_equals_casadi(name, vehicle):
    """The two back ends run the same text: step, right-hand side and forces, sliding or not, fast, slow, at rest and in reverse."""
    model, code, casadi = get_model(name), kernels(name), casadi_model(get_model(name))
    p = vehicle.vector(model)
    force = [f.name for f in model.outputs].index("tyre_fx_fl")
    for x, u, h in states(200):
        for got, expected in ((code.step(x, u, p, h), casadi.step(x, u, p, h)), (code.rhs(x, u, p), casadi.rhs(x, u, p))):
            np.testing.assert_allclose(got, np.array(expected).ravel(), rtol=1e-12, atol=1e-11)
        y = np.empty(len(model.outputs))
        y = code.outputs(x, u, p, h)
        np.testing.assert_allclose(y[force:], np.array(casadi.tyre_forces(x, u, p, h)).ravel(), rtol=1e-12, atol=1e-8)


@ALL
def test_step_and_right_hand_side_belong_together(name):
    """(step - x) / h tends to the right-hand side; held values are set by the step, and the right-hand side has what is missing."""
    model = get_model(name)
    code, p = kernels(name), HMMWV.vector(model)
    held = [i for i, field in enumerate(model.states) if field.role == "held"]
    assert [model.states[i].name for i in held][-2:] == ["ax", "ay"]
    for x, u, _ in states(40):
        h = 1e-8
        after, rate = code.step(x, u, p, h), code.rhs(x, u, p)
        expected = x + h * rate
        expected[held] = x[held] + rate[held]
        # At rest the tyres' damping has rates of 1000 1/s and more.
        np.testing.assert_allclose(after, expected, rtol=0, atol=3e-4 * h * (1 + np.abs(rate).max()) + 1e-4 * np.abs(rate[held]).max())


@ALL
def test_left_and_right_are_mirror_images(name):
    code, p = kernels(name), HMMWV.vector(get_model(name))
    mirror = np.array([1, -1, -1, 1, -1, -1, 1, -1])
    for x, u, h in states(40):
        np.testing.assert_allclose(code.step(mirror * x, u * [-1, 1, 1], p, h), mirror * code.step(x, u, p, h), rtol=1e-12, atol=1e-12)


@BOTH
def test_rest_is_rest_and_slow_motion_dies_out(name):
    """At a speed of 0 the steered wheels make no force; lateral motion decays without swinging, in steps far above its time constant."""
    code, p = kernels(name), RHODE.vector(get_model(name))
    u = np.array([1.0, 1.0, 0.0])
    x = np.zeros(8)
    for _ in range(50):
        x = code.step(x, u, p, 0.01)
    np.testing.assert_array_equal(x, np.zeros(8))
    x[STATE["vy"]], x[STATE["yaw_rate"]] = 0.02, -0.01
    energy = [np.inf]
    for _ in range(20):
        x = code.step(x, np.zeros(3), p, 0.05)
        energy.append(2000.0 * x[STATE["vy"]] ** 2 + 4000.0 * x[STATE["yaw_rate"]] ** 2)
    assert (np.diff(energy[1:]) < 0).all()
    assert energy[-1] < 1e-6 * energy[1]


@BOTH
def test_outputs(name):
    """Loads carry the weight, half of an axle's force stands at each wheel, and what a single-track model lacks is 0."""
    vehicle = HMMWV
    simulator = Simulator(vehicle, model=name)
    simulator.reset(vx=15.0)
    _, y = rollout(simulator, InputProfile([0.0], [0.1], [0.5], [0.2]), until=3.0)
    column = simulator.output_index
    last = dict(zip(simulator.output_names, y[-1]))
    p = vehicle.parameters
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    np.testing.assert_allclose(y[:, [column[f"tyre_fz_{w}"] for w in ("fl", "fr", "rl", "rr")]].sum(axis=1), mass * GRAVITY)
    assert last["tyre_fz_fl"] == last["tyre_fz_fr"]
    assert last["tyre_fy_fl"] == last["tyre_fy_fr"] > 0.0
    assert last["tyre_fy_rl"] == last["tyre_fy_rr"] > 0.0
    assert last["road_wheel_angle"] == pytest.approx(0.1 * p["max_road_wheel_angle"])
    for absent in ("roll", "pitch", "roll_rate", "pitch_rate", "omega_fl", "omega_rr", "gear", "engine_speed", "tyre_fx_fl"):
        assert (y[:, column[absent]] == 0.0).all(), absent
    # Steady by now: ay is the yaw rate's, within the deceleration that is left.
    assert last["ay"] == pytest.approx(last["vx"] * last["yaw_rate"], rel=0.02)


# -- Linear single-track -------------------------------------------------------------------------------------------


def test_linear_is_the_published_state_space_form():
    """Yaw rate and sideslip of a chirp against scipy.signal.lsim of the matrices, which takes the input linear between the samples;
    throttle and brake have no effect."""
    v = 10.0
    t = np.arange(0.0, 10.0, 0.01)
    steering = 0.6 * np.sin(2 * np.pi * (0.2 + 0.08 * t) * t)
    a, b = state_space(RHODE.parameters, v)
    _, exact, _ = lsim((a, b, np.eye(2), np.zeros((2, 1))), steering * RHODE.parameters["max_road_wheel_angle"], t)
    errors = []
    for dt in (0.01, 0.005, 0.0025):
        batch = BatchRollout(model="linear_single_track", vehicle=RHODE, dt=dt, times=t, parameters=(),
                             inputs=np.column_stack([steering, t > 5.0, t < 5.0]), channels=("yaw_rate", "vy", "vx"))
        run = batch.trajectories(np.zeros((1, 0)), initial_state("linear_single_track", RHODE, vx=v))[0]
        assert (run[:, 2] == v).all()
        errors.append(np.abs(run[:, :2] / [1.0, v] - exact).max())
    assert errors[0] < 2e-4 * np.abs(exact).max()
    # The input at the middle of a step: second order.
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 4.0, rtol=0.1)


@pytest.mark.parametrize("speed", [3.0, 10.0, 30.0])
def test_linear_step_response_is_third_order_and_has_the_right_eigenvalues(speed):
    code, p = kernels("linear_single_track"), RHODE.vector(get_model("linear_single_track"))
    a, b = state_space(RHODE.parameters, speed)
    u = np.array([0.2, 0.0, 0.0])
    delta = 0.2 * RHODE.parameters["max_road_wheel_angle"]
    rest = np.linalg.solve(a, b[:, 0] * delta)
    exact = (expm(a * 0.8) - np.eye(2)) @ rest
    errors = []
    for n in (16, 32, 64):
        x = initial_state("linear_single_track", RHODE, vx=speed)
        for _ in range(n):
            x = code.step(x, u, p, 0.8 / n)
        errors.append(np.abs(np.array([x[STATE["yaw_rate"]], x[STATE["vy"]] / speed]) - exact).max())
    assert errors[1] / errors[2] == pytest.approx(8.0, rel=0.15)
    # The matrix of one step has the eigenvalues exp(h lambda).
    h, keep = 1e-3, [STATE["yaw_rate"], STATE["vy"]]
    x = initial_state("linear_single_track", RHODE, vx=speed)
    step = np.array([code.step(x + np.eye(len(x))[k], 0 * u, p, h) - code.step(x, 0 * u, p, h) for k in keep])[:, keep].T
    got, expected = np.log(np.linalg.eigvals(step).astype(complex)) / h, np.linalg.eigvals(a).astype(complex)
    np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(expected), rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("vehicle", [RHODE, HMMWV], ids=["rhode", "hmmwv"])
def test_linear_steady_state(vehicle):
    """Yaw-rate gain v / (L + K v^2) and sideslip b / R - alpha_r, K from axle masses over axle stiffnesses."""
    p, v, steering = vehicle.parameters, 12.0, 0.3
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    front = p["sprung_mass"] * b / (a + b) + p["unsprung_mass_front"]
    rear = p["sprung_mass"] * a / (a + b) + p["unsprung_mass_rear"]
    cf, cr = 2 * p["cornering_stiffness_front"], 2 * p["cornering_stiffness_rear"]
    simulator = Simulator(vehicle, model="linear_single_track", dt=0.005)
    simulator.reset(vx=v)
    for _ in range(4):
        simulator.advance([steering, 0, 0], [steering, 0, 0], 1000)
    yaw_rate = v * steering * p["max_road_wheel_angle"] / (a + b + (front / cf - rear / cr) * v**2)
    x = dict(zip(STATE, simulator.state))
    assert x["yaw_rate"] == pytest.approx(yaw_rate, rel=1e-9)
    assert x["vy"] / v == pytest.approx(b * yaw_rate / v - rear * v * yaw_rate / cr, rel=1e-8)
    assert x["ay"] == pytest.approx(v * yaw_rate, rel=1e-9)


@pytest.mark.parametrize("name", ["linear_single_track", "nonlinear_bicycle"])
def test_small_angles_are_those_of_the_eight_dof_model_without_roll(name):
    """A lane change of 0.01 degrees at the wheels; unsprung masses off the centre included. Turning wheels would add to the yaw inertia."""
    profile = InputProfile([0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 3e-4, 0.0, -3e-4, 0.0], [0.0] * 5, [0.0] * 5)
    stiff = HMMWV.replace(roll_centre_drop_front=0.0, roll_centre_drop_rear=0.0, roll_yaw_inertia=0.0, wheel_inertia=1e-3)
    runs = []
    for model in (name, "eight_dof"):
        simulator = Simulator(stiff, model=model, dt=2.5e-4)
        simulator.reset(vx=20.0)
        _, y = rollout(simulator, profile, until=4.0)
        runs.append(y[:, [simulator.output_index[c] for c in ("y", "vy", "yaw_rate", "ay", "yaw", "tyre_fy_rl")]])
    scale = np.abs(runs[1]).max(axis=0)
    np.testing.assert_allclose(runs[0] / scale, runs[1] / scale, atol=2e-3)


# -- Nonlinear bicycle ---------------------------------------------------------------------------------------------


def paper_tyre(alpha, friction, load, critical):
    """Eqs 12-13 for slip angles to both sides."""
    t = np.tan(abs(alpha))
    force = friction * load / (2 * np.tan(critical)) * t if abs(alpha) <= critical else friction * load * (1 - np.tan(critical) / (2 * t))
    return np.sign(alpha) * force


def paper_bicycle(p, delta):
    """Eqs 10, 11, 14 and 15 as they stand; x = (X, Y, yaw, Vx, Vy, yaw rate)."""
    m, iz, l1, l2 = p["sprung_mass"], p["yaw_inertia"], p["cg_to_front_axle"], p["cg_to_rear_axle"]
    wf, wr = m * GRAVITY * l2 / (l1 + l2), m * GRAVITY * l1 / (l1 + l2)
    critical_f = np.arctan(p["friction_front"] * wf / (4 * p["cornering_stiffness_front"]))
    critical_r = np.arctan(p["friction_rear"] * wr / (4 * p["cornering_stiffness_rear"]))

    def rhs(t, x):
        _, _, yaw, vx, vy, omega = x
        d = delta(t)
        fyf = paper_tyre(d - np.arctan((l1 * omega + vy) / vx), p["friction_front"], wf, critical_f)
        fyr = paper_tyre(np.arctan((l2 * omega - vy) / vx), p["friction_rear"], wr, critical_r)
        return [vx * np.cos(yaw) - vy * np.sin(yaw), vx * np.sin(yaw) + vy * np.cos(yaw), omega,
                -fyf * np.sin(d) / m + vy * omega, (fyr + fyf * np.cos(d)) / m - vx * omega, (l1 * fyf * np.cos(d) - l2 * fyr) / iz]

    return rhs


@pytest.mark.parametrize(("front", "rear", "steering", "until"), [
    (0.9, 0.9, 0.1, 2.0), (0.9, 0.9, 0.7, 2.0), (0.25, 0.9, 0.6, 2.0), (0.9, 0.25, 0.3, 1.2)])
def test_bicycle_is_the_paper_integrated_tightly(front, rear, steering, until):
    """Grip, sliding front, ice in front, ice behind (the begin of a spin: eqs 14-15 end at 90 degrees of sideslip): against the
    equations as printed, solved to 1e-10."""
    vehicle = RHODE.replace(friction_front=front, friction_rear=rear, cornering_stiffness_front=40e3, cornering_stiffness_rear=45e3)
    p = vehicle.parameters
    exact = solve_ivp(paper_bicycle(p, lambda t: steering * min(t / 0.5, 1.0) * p["max_road_wheel_angle"]), (0.0, until),
                      [0, 0, 0, 20.0, 0, 0], method="DOP853", rtol=1e-10, atol=1e-10, max_step=0.01).y[:, -1]
    errors = []
    for dt in (2e-3, 1e-3):
        simulator = Simulator(vehicle, model="nonlinear_bicycle", dt=dt)
        simulator.reset(vx=20.0)
        rollout(simulator, InputProfile([0.0, 0.5], [0.0, steering], [0, 0], [0, 0]), until=until)
        errors.append(np.abs(simulator.state[:6] - exact) / np.maximum(np.abs(exact), 0.1))
    assert errors[1].max() < 5e-3
    assert errors[0].max() / errors[1].max() == pytest.approx(2.0, rel=0.2)  # first order, as the family's half-implicit step is


@pytest.mark.parametrize("axle", ["front", "rear"])
def test_bicycle_tyre_force_law(axle):
    """The force of each axle over slip angles to 89 degrees is eq 12 or 13; it has no step or kink at the critical slip and never
    exceeds friction times load."""
    model = get_model("nonlinear_bicycle")
    code, p = kernels("nonlinear_bicycle"), RHODE.vector(model)
    q, v = RHODE.parameters, 10.0
    place = [f.name for f in model.outputs].index(f"tyre_fy_{axle[0]}l")
    arm = q["cg_to_rear_axle"] if axle == "front" else q["cg_to_front_axle"]
    load = q["sprung_mass"] * GRAVITY * arm / (q["cg_to_front_axle"] + q["cg_to_rear_axle"])
    friction = q[f"friction_{axle}"]
    critical = np.arctan(friction * load / (4 * q[f"cornering_stiffness_{axle}"]))
    alphas = np.radians(np.linspace(-89, 89, 1500))
    forces, y = [], np.empty(len(model.outputs))
    for alpha in alphas:
        x = initial_state("nonlinear_bicycle", RHODE, vx=v, vy=-v * np.tan(alpha))
        y = code.outputs(x, np.zeros(3), p, 0.0)
        forces.append(2 * y[place])
    np.testing.assert_allclose(forces, [paper_tyre(alpha, friction, load, critical) for alpha in alphas], rtol=1e-10, atol=1e-6)
    assert np.abs(forces).max() < friction * load
    assert np.abs(forces).max() > 0.98 * friction * load
    slope = np.diff(forces) / np.diff(np.tan(alphas))
    assert np.abs(np.diff(slope)).max() < 0.05 * slope.max()


def test_bicycle_loses_energy_only_to_sliding():
    """d/dt of the kinetic energy is the power of the lateral forces at the contact patches, which is never positive."""
    model = get_model("nonlinear_bicycle")
    code, p = kernels("nonlinear_bicycle"), RHODE.vector(model)
    q = RHODE.parameters
    front = [f.name for f in model.outputs].index("tyre_fy_fl")
    y = np.empty(len(model.outputs))
    for x, u, _ in states(200, seed=4):
        rate = code.rhs(x, u, p)
        y = code.outputs(x, u, p, 0.0)
        vx, vy, r = x[3:6]
        delta = u[0] * q["max_road_wheel_angle"]
        vf, vr = vy + q["cg_to_front_axle"] * r, vy - q["cg_to_rear_axle"] * r
        parts = [2 * y[front] * (vf * np.cos(delta) - vx * np.sin(delta)), 2 * y[front + 2] * vr]
        change = q["sprung_mass"] * (vx * rate[3] + vy * rate[4]) + q["yaw_inertia"] * r * rate[5]
        assert change == pytest.approx(sum(parts), rel=1e-9, abs=1e-6)
        assert max(parts) <= 0.0
