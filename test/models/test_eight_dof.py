"""The 8-DOF model against oracles that are not itself."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from lfdm_ros.backends import casadi_model, compiled_model_function
from lfdm_ros.models import functions_of, get_model
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import InputProfile, Simulator, initial_state, rollout
from lfdm_ros.vehicles import load_vehicle

MODEL = get_model("eight_dof")
HMMWV = load_vehicle("hmmwv")
P = HMMWV.vector(MODEL)
STATE = {f.name: i for i, f in enumerate(MODEL.states)}
MODEL_OUTPUT = {f.name: i for i, f in enumerate(MODEL.outputs)}
# The operations on Python's own floats: no back end at all.
OPERATIONS = SimpleNamespace(namespace=SimpleNamespace, where=lambda condition, a, b: a if condition else b, sqrt=math.sqrt,
                             fabs=math.fabs, fmin=min, fmax=max, sin=math.sin, cos=math.cos, tanh=math.tanh)


def step(x, u, p, h):
    return compiled_model_function(get_model("eight_dof"), "step")(x, u, p, [h])[0]


def rhs(x, u, p):
    return compiled_model_function(get_model("eight_dof"), "rhs")(x, u, p)[0]


def outputs(x, u, p, h):
    return compiled_model_function(get_model("eight_dof"), "outputs")(x, u, p, [h])[0]


def random_states(n, seed=1, regimes=("fast", "slow", "rest", "rolling")):
    rng = np.random.default_rng(seed)
    for i in range(n):
        regime = regimes[i % len(regimes)]
        speed = {"fast": 15.0, "slow": 0.2, "rest": 0.0, "rolling": 15.0}[regime]
        x = np.concatenate([rng.normal(0, 50, 2), rng.normal(0, 5, 1), rng.normal(0, 0.1, 1),
                            rng.normal(0, 1, 4) * speed * [1, 0.2, 0.02, 0.05], rng.normal(0, 3, 4) * speed, rng.normal(0, 4, 2)])
        if regime == "rolling":
            x[8:12] = x[4] / 0.45 * (1 + rng.normal(0, 0.05, 4))
        yield x, np.array([rng.uniform(-1, 1), rng.uniform(0, 1), rng.uniform(0, 1) * (i % 2)]), (1e-3, 5e-3, 2e-2)[i % 3]


def test_compiled_code_equals_casadi():
    """Machine code and CasADi's virtual machine have one graph: equal to 1e-12 in every regime, for step, right-hand side, outputs."""
    casadi = casadi_model(get_model("eight_dof"))
    for x, u, h in random_states(400):
        for got, expected in ((step(x, u, P, h), casadi.step(x, u, P, h)), (rhs(x, u, P), casadi.rhs(x, u, P))):
            np.testing.assert_allclose(got, np.array(expected).ravel(), rtol=1e-12, atol=1e-12)
        y, expected = outputs(x, u, P, h), np.array(casadi.outputs(x, u, P, h)).ravel()
        np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-8)
        np.testing.assert_allclose(y[-12:], np.array(casadi.tyre_forces(x, u, P, h)).ravel(), rtol=1e-12, atol=1e-8)


def test_compiled_code_equals_the_equations_on_python_floats():
    """What runs is what is written: equal to the equations without any back end."""
    equations = functions_of(MODEL, OPERATIONS)
    q = equations.prepare(SimpleNamespace(**dict(zip([f.name for f in MODEL.parameters], P.tolist()))))
    for x, u, h in random_states(400, seed=2):
        arguments = tuple(x.tolist()), tuple(u.tolist()), q
        np.testing.assert_allclose(step(x, u, P, h), equations.step(*arguments, h), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(rhs(x, u, P), equations.rhs(*arguments), rtol=1e-12, atol=1e-12)
        y = outputs(x, u, P, h)
        np.testing.assert_allclose(y[-12:], equations.tyre_forces(*arguments, h), rtol=1e-12, atol=1e-8)
        np.testing.assert_allclose(y[[MODEL_OUTPUT[n] for n in ("gear", "engine_speed", "road_wheel_angle")]], equations.drive(*arguments),
                                   rtol=1e-12)


@pytest.mark.parametrize("regime", ["rolling", "slow"])
def test_jacobians_against_finite_differences(regime):
    """Exact df/dx, df/du, df/dp (step and right-hand side) against central differences of the compiled code."""
    casadi = casadi_model(get_model("eight_dof"))
    compared = 0
    for x, u, h in random_states(24, seed=3, regimes=(regime,)):
        u[1:] = np.clip(u[1:], 0.1, 0.9)
        for exact, f in ((casadi.step_jacobian(x, u, P, h), lambda x, u, p, h=h: step(x, u, p, h)),
                         (casadi.rhs_jacobian(x, u, P), rhs)):
            args = (x, u, P)
            for j, matrix in enumerate(np.array(m) for m in exact):
                for k in range(len(args[j])):
                    columns = []
                    for eps in (1e-6, 3e-7):  # two widths: where they differ, a kink lies between the points
                        d = eps * max(1.0, abs(args[j][k]))
                        lo, hi = [a.copy() for a in args], [a.copy() for a in args]
                        lo[j][k] -= d
                        hi[j][k] += d
                        columns.append((f(*hi) - f(*lo)) / (2 * d))
                    scale = np.abs(columns[0]).max() + 1e-3
                    if np.abs(columns[0] - columns[1]).max() > 1e-4 * scale:
                        continue
                    np.testing.assert_allclose(matrix[:, k], columns[0], rtol=2e-4, atol=2e-4 * scale)
                    compared += 1
    assert compared > 0.9 * 24 * 2 * (14 + 3 + len(P))


@pytest.mark.parametrize("speed", [8.0, 20.0, 30.0])
def test_steady_cornering_meets_understeer_gradient(speed):
    """Yaw-rate gain v / (L + K v^2), K from axle masses over axle cornering stiffness, for a small steering angle."""
    vehicle = HMMWV.replace(rolling_resistance=0.0)
    p = vehicle.parameters
    a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
    front = p["sprung_mass"] * b / (a + b) + p["unsprung_mass_front"]
    rear = p["sprung_mass"] * a / (a + b) + p["unsprung_mass_rear"]
    gradient = front / (2 * p["cornering_stiffness_front"]) - rear / (2 * p["cornering_stiffness_rear"])
    assert gradient > 1e-3  # understeering, so the term matters
    steering = 2e-4
    simulator = Simulator(vehicle)
    simulator.reset(vx=speed)
    _, y = rollout(simulator, InputProfile([0], [steering], [0], [0]), until=6.0)
    index = simulator.output_index
    vx, yaw_rate, ay = y[-1, [index["vx"], index["yaw_rate"], index["ay"]]]
    expected = vx * steering * p["max_road_wheel_angle"] / (a + b + gradient * vx**2)
    assert yaw_rate == pytest.approx(expected, rel=2e-3)
    assert ay == pytest.approx(vx * yaw_rate, rel=1e-3)
    # Roll: (k - m g h_rc) phi = m h_rc ay.
    drop = 0.5 * (p["roll_centre_drop_front"] + p["roll_centre_drop_rear"])
    stiffness = p["roll_stiffness_front"] + p["roll_stiffness_rear"] - p["sprung_mass"] * GRAVITY * drop
    assert y[-1, index["roll"]] == pytest.approx(p["sprung_mass"] * drop * ay / stiffness, rel=5e-3)


def hard_manoeuvre():
    return InputProfile([0, 2, 3, 4, 5, 6, 8], [0, 0, 0.5, -0.5, 0.2, 0, 0], [1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0.2, 1, 1])


def test_loads_sum_to_weight():
    p = HMMWV.parameters
    weight = GRAVITY * (p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"])
    simulator = Simulator(HMMWV)
    simulator.reset(vx=5.0)
    _, y = rollout(simulator, hard_manoeuvre(), until=8.0)
    loads = y[:, [simulator.output_index[f"tyre_fz_{w}"] for w in ("fl", "fr", "rl", "rr")]]
    assert loads.min() > 0  # no wheel lifts, so the sum must hold throughout
    assert np.ptp(loads[:, 0]) > 2000  # and load is transferred
    np.testing.assert_allclose(loads.sum(axis=1), weight, rtol=1e-12)


def test_reported_forces_move_the_vehicle():
    """Newton, in every regime: the reported tyre forces, rotated to the body, balance the accelerations of that very step."""
    p = HMMWV.parameters
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    first = p["unsprung_mass_rear"] * p["cg_to_rear_axle"] - p["unsprung_mass_front"] * p["cg_to_front_axle"]
    lever = p["sprung_mass"] * 0.5 * (p["roll_centre_drop_front"] + p["roll_centre_drop_rear"])
    for x, u, h in random_states(200, seed=5):
        y = outputs(x, u, P, h)
        fx, fy = y[-12:-8], y[-8:-4]
        delta = np.array([1, 1, 0, 0]) * u[0] * p["max_road_wheel_angle"]
        force_x, force_y = fx * np.cos(delta) - fy * np.sin(delta), fx * np.sin(delta) + fy * np.cos(delta)
        after = step(x, u, P, h)
        acceleration = (after - x) / h
        roll_rate, yaw_rate = x[STATE["roll_rate"]], x[STATE["yaw_rate"]]
        expected_x = mass * after[STATE["ax"]] + first * yaw_rate**2 + 2 * lever * yaw_rate * roll_rate
        expected_y = mass * after[STATE["ay"]] - lever * acceleration[STATE["roll_rate"]] - first * acceleration[STATE["yaw_rate"]]
        scale = np.abs(fx).sum() + np.abs(fy).sum() + 1.0
        assert force_x.sum() == pytest.approx(expected_x, abs=1e-9 * scale)
        assert force_y.sum() == pytest.approx(expected_y, abs=1e-9 * scale)


def energy(y, index):
    """Kinetic energy of body and wheels plus the roll spring's and gravity's potential [J]."""
    p = HMMWV.parameters
    get = lambda name: y[:, index[name]]  # noqa: E731
    u, v, wx, r, roll = get("vx"), get("vy"), get("roll_rate"), get("yaw_rate"), get("roll")
    drop = 0.5 * (p["roll_centre_drop_front"] + p["roll_centre_drop_rear"])
    ms, mu = p["sprung_mass"], p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    body = 0.5 * ms * ((u + drop * roll * r)**2 + (v - drop * wx)**2) + 0.5 * mu * (u**2 + v**2)
    spin = 0.5 * p["yaw_inertia"] * r**2 + 0.5 * p["roll_inertia"] * wx**2 + p["roll_yaw_inertia"] * r * wx
    wheels = 0.5 * p["wheel_inertia"] * sum(get(f"omega_{w}")**2 for w in ("fl", "fr", "rl", "rr"))
    stiffness = p["roll_stiffness_front"] + p["roll_stiffness_rear"] - ms * GRAVITY * drop
    return body + spin + wheels + 0.5 * stiffness * roll**2


@pytest.mark.parametrize("steering", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("dt", [1e-3, 5e-3])
def test_coasting_never_creates_energy(steering, dt):
    simulator = Simulator(HMMWV, dt=dt)
    simulator.reset(vx=15.0)
    _, y = rollout(simulator, InputProfile([0, 1, 3, 5], [0, steering, -steering, 0], [0] * 4, [0] * 4), until=40.0, output_step=0.05)
    total = energy(y, simulator.output_index)
    assert np.diff(total).max() <= 1e-7 * total[0]
    assert total[-1] < 0.8 * total[0]


@pytest.mark.parametrize("dt", [1e-3, 5e-3, 2e-2])
def test_starts_from_rest_and_stops_to_rest(dt):
    """Throttle and steering from standstill, then full brakes: no NaN, no chatter, and rest is exact within a micrometre per second."""
    simulator = Simulator(HMMWV, dt=dt)
    profile = InputProfile([0, 3, 3.1, 6, 6.5], [0.9, 0.9, 0.9, -0.9, -0.9], [0, 1, 1, 0, 0], [0, 0, 0, 0, 1])
    _, y = rollout(simulator, profile, until=14.0, output_step=0.02)
    assert np.isfinite(y).all()
    index = simulator.output_index
    rest = y[-50:]
    moving = ["vx", "vy", "roll_rate", "yaw_rate", "omega_fl", "omega_fr", "omega_rl", "omega_rr"]
    assert np.abs(rest[:, [index[n] for n in moving]]).max() < 1e-4
    assert np.abs(rest[:, [index["ax"], index["ay"]]]).max() < 1e-2
    # While wheels are locked (braking to a stop) a wheel speed never changes sign.
    braking = y[int(6.5 / 0.02):, index["omega_fl"]:index["omega_rr"] + 1]
    assert braking.min() > -1e-3
    # From rest the launch does not depend on the step: the wheels' stiffness is resolved implicitly.
    reference = Simulator(HMMWV, dt=2.5e-4)
    _, z = rollout(reference, profile, until=1.0, output_step=0.02)
    assert y[50, index["vx"]] == pytest.approx(z[50, index["vx"]], rel=0.02)


def test_standing_vehicle_stays():
    simulator = Simulator(HMMWV)
    _, y = rollout(simulator, InputProfile([0], [0.3], [0], [0]), until=5.0)
    moving = [simulator.output_index[n] for n in ("x", "y", "vx", "vy", "yaw_rate", "roll", "omega_fl", "ax", "ay")]
    assert np.abs(y[:, moving]).max() == 0.0


def test_left_right_symmetry():
    runs = []
    for side in (1, -1):
        simulator = Simulator(HMMWV)
        simulator.reset(vx=8.0)
        profile = hard_manoeuvre()
        runs.append(rollout(simulator, InputProfile(profile.time, side * profile.values[:, 0], *profile.values[:, 1:].T), until=8.0)[1])
    index = simulator.output_index
    for name, sign in (("vx", 1), ("vy", -1), ("yaw_rate", -1), ("roll", -1), ("y", -1)):
        np.testing.assert_allclose(runs[0][:, index[name]], sign * runs[1][:, index[name]], atol=1e-9)
    np.testing.assert_allclose(runs[0][:, index["omega_fl"]], runs[1][:, index["omega_fr"]], atol=1e-9)


def test_step_converges_to_the_differential_equation():
    """Halving the step halves the distance to a scipy solution of the continuous equations (load transfer lag included: h -> 0)."""
    from scipy.integrate import solve_ivp

    x0 = initial_state("eight_dof", HMMWV, vx=15.0)
    u = np.array([0.05, 0.2, 0.0])

    def f(_, x):
        # The load transfer's accelerations resolved to a fixed point: what the step tends to as h goes to 0.
        x = x.copy()
        for _ in range(30):
            d = rhs(x, u, P)
            x[12:14] += d[12:14]  # of a held state the right-hand side is what is new minus what is held
        return d

    exact = solve_ivp(f, (0, 1.5), x0, rtol=1e-9, atol=1e-10, method="LSODA").y[:12, -1]
    errors = []
    for h in (4e-3, 2e-3, 1e-3):
        x = x0.copy()
        for _ in range(round(1.5 / h)):
            x = step(x, u, P, h)
        errors.append(np.abs(x[:12] - exact).max())
    assert errors[2] < 0.02
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.2) and errors[1] / errors[2] == pytest.approx(2, abs=0.2)


# Settings of paper 000 and the independent calibration of another implementation on the same recordings (means).
PAPER = dict(unsprung_load_share=0.5, wheel_inertia=11.0)
STAGES = {
    "acc": ("vd_chrono_acc_3.npy", 100, 850, InputProfile([0, 0.5, 4.5, 8.5], [0] * 4, [0, 0, 0.5, 0], [0] * 4),
            dict(rolling_resistance=0.0175, longitudinal_stiffness_front=10266, longitudinal_stiffness_rear=10006),
            dict(vx=0.205, omega_fl=0.86, omega_rl=0.90)),
    "simp_ramp": ("vd_chrono_ramp_1.npy", 700, 1070, InputProfile([0, 7, 10.7], [0, 0, 0.2], [0] * 3, [0] * 3),
                  dict(rolling_resistance=0.0175, longitudinal_stiffness_front=10266, longitudinal_stiffness_rear=10006,
                       cornering_stiffness_front=43314, cornering_stiffness_rear=52114, roll_stiffness_front=34634,
                       roll_stiffness_rear=27408, roll_damping_front=3673, roll_damping_rear=3673),
                  dict(vy=0.038, roll=0.0034, roll_rate=0.0028, yaw_rate=0.0148)),
    "rr_1": ("vd_chrono_rr_1.npy", 560, 1060, InputProfile([0], [0], [0], [0]), dict(rolling_resistance=0.01309), dict(vx=0.0885)),
}


@pytest.mark.parametrize("name", STAGES)
def test_against_chrono_hmmwv(reference_data, name):
    """With the parameters that another implementation found, the error against the Chrono HMMWV is at the noise of the recordings."""
    arrays, first, last, profile, parameters, limits = STAGES[name]
    folder = reference_data / "sbel_hmmwv_bayes_calibration"
    row = np.genfromtxt(folder / f"{name}.csv", delimiter=",", names=True)[first]
    observed = np.load(folder / arrays)
    simulator = Simulator(HMMWV.replace(**PAPER, **parameters), dt=1e-3)
    simulator.reset(vx=row["vx"], vy=row["vy"], yaw=row["yaw"], roll=row["roll"], roll_rate=row["roll_rate"], yaw_rate=row["yaw_rate"],
                    omega_fl=row["wlf"], omega_fr=row["wrf"], omega_rl=row["wlr"], omega_rr=row["wrr"])
    times = 0.01 * np.arange(first, last)
    inputs = profile.sample(times)
    outputs = np.empty((len(times), len(simulator.output_names)))
    outputs[0] = simulator.outputs
    for k in range(1, len(times)):
        simulator.advance(inputs[k - 1], inputs[k], 10)
        outputs[k] = simulator.outputs
    for channel, data in zip(limits, observed):
        error = np.sqrt(np.mean((outputs[:, simulator.output_index[channel]] - data)**2))
        assert error <= limits[channel], channel
