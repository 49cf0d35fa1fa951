"""The 8-DOF model against oracles that are not itself."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from lfdm_ros.backends import compiled_model_function
from lfdm_ros.models import functions_of, get_model
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
