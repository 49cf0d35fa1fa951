"""Derivatives of the models with shifted gears and TMeasy tyres, in what those add: shifts, reverse flow, lifted wheels."""

from collections.abc import Callable

import numpy as np
import pytest
from differences import chained

from lfdm_ros.backends import casadi_model
from lfdm_ros.simulation import BatchRollout, InputProfile, Simulator, initial_state, rollout
from lfdm_ros.simulation.sensitivity import forward_sensitivity
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv_shafts")
CHASSIS = ("eleven_dof", "eighteen_dof", "twenty_four_dof")
DT, SAMPLE = 1e-3, 0.01
PARAMETERS = ("sprung_mass", "wheel_inertia", "crank_inertia", "tmeasy_longitudinal_slope_nominal", "tmeasy_lateral_peak_force_nominal",
              "carcass_stiffness_lateral", "brake_torque_front", "cg_height")

Outputs = Callable[[str], np.ndarray]


def share_of_reverse_flow(of: Outputs) -> float:
    """Share of the run in which the turbine, driven by the wheels through the gear engaged, outruns the pump."""
    ratios = np.array([VEHICLE.parameters[f"gear_ratio_{i}"] for i in range(8)])[of("gear").astype(int) - 1]
    turbine = sum(of(f"omega_{wheel}") for wheel in ("fl", "fr", "rl", "rr")) / 4.0 / ratios
    return float(np.mean(turbine > of("engine_speed")))


# Inputs, initial values, seconds, and what shows that the run is there.
REGIMES: dict[str, tuple[InputProfile, dict[str, float], float, Callable[[Outputs], bool]]] = {
    "rest": (InputProfile([0], [0.2], [0], [0.3]), {}, 0.3, lambda of: np.ptp(of("vx")) == 0.0),
    "gear change": (InputProfile([0], [0.02], [1.0], [0]), {"vx": 7.0, "engine_speed": 190.0}, 2.5, lambda of: np.ptp(of("gear")) > 0.0),
    "reverse flow": (InputProfile([0], [0.05], [0.0], [0]), {"vx": 12.0, "engine_speed": 60.0}, 0.5,
                     lambda of: share_of_reverse_flow(of) > 0.3),
    "braking": (InputProfile([0, 0.1], [0.03, 0.03], [0, 0], [0, 0.3]), {"vx": 15.0, "engine_speed": 150.0}, 1.0,
                lambda of: of("vx")[-1] < of("vx")[0] - 1.0),
    "saturation": (InputProfile([0, 0.4], [0, 0.8], [0.3, 0.3], [0, 0]), {"vx": 18.0, "engine_speed": 180.0}, 1.0,
                   lambda of: np.abs(of("vy")).max() > 0.5),
}


def call(chassis: str, regime: str) -> dict:
    profile, start, seconds, _ = REGIMES[regime]
    model = VEHICLE.model(chassis, "tmeasy")
    times = np.arange(0.0, seconds + SAMPLE / 2, SAMPLE)
    return dict(model=model.name, vehicle=VEHICLE, dt=DT, times=times, inputs=profile, x0=initial_state(model, VEHICLE, **start),
                channels=[f.name for f in model.states], parameters=PARAMETERS)


def scales(result) -> np.ndarray:
    sizes = np.array([abs(VEHICLE.parameters[n]) for n in PARAMETERS])
    states = np.abs(result.trajectories).max(axis=0) + 1e-3
    return np.abs(result.sensitivities).max(axis=0) + 1e-4 * states[:, None] / sizes


@pytest.mark.parametrize("chassis", CHASSIS)
@pytest.mark.parametrize("regime", REGIMES)
def test_exact_in_every_regime(chassis: str, regime: str) -> None:
    """The chain of CasADi's Jacobians always; central differences as well, but for runs in which a shift moves with the parameter."""
    arguments = call(chassis, regime)
    result = forward_sensitivity(**arguments, method="exact")
    simulator = Simulator(VEHICLE, model=chassis, dt=DT, tyre="tmeasy")
    simulator.reset(**REGIMES[regime][1])
    _, outputs = rollout(simulator, REGIMES[regime][0], arguments["times"][-1], SAMPLE)
    assert REGIMES[regime][3](lambda name: outputs[:, simulator.output_index[name]])

    model, functions, p = simulator.model, casadi_model(simulator.model), VEHICLE.vector(simulator.model)
    columns = [[f.name for f in model.parameters].index(n) for n in PARAMETERS]
    inputs, scale = arguments["inputs"].sample(arguments["times"]), scales(result)
    seeds = np.zeros((len(arguments["x0"]), len(PARAMETERS)))
    for k, (_, s) in enumerate(chained(functions, p, arguments["x0"], seeds, inputs[:31], round(SAMPLE / DT), DT, columns), 1):
        assert (np.abs(result.sensitivities[k] - s) <= 1e-8 * scale).all()

    batch = BatchRollout(model=model.name, vehicle=VEHICLE, dt=DT, times=arguments["times"], inputs=inputs, parameters=PARAMETERS,
                         channels=arguments["channels"])
    theta, errors = np.array([VEHICLE.parameters[name] for name in PARAMETERS]), []
    for width in (1e-4, 1e-5, 1e-6, 1e-7):
        shifts = np.diag(width * theta)
        runs = batch.trajectories(np.concatenate([theta + shifts, theta - shifts]), arguments["x0"])
        slopes = np.moveaxis((runs[:len(theta)] - runs[len(theta):]) / (2.0 * width * theta)[:, None, None], 0, -1)
        gear = arguments["channels"].index("gear")
        same = (runs[:, :, gear] == result.trajectories[:, gear]).all(axis=1)
        error = np.abs(slopes - result.sensitivities) / scale
        error[:, :, ~(same[:len(theta)] & same[len(theta):])] = np.inf
        errors.append(error)
    best = np.minimum.reduce(errors)
    assert np.isfinite(best).all()  # the narrowest shift moves no gear change
    assert best.max() < 1e-4


def test_a_lifted_wheel() -> None:
    """A roll that lifts a wheel: its tyre carries nothing, and the derivative of its force by everything is nothing."""
    model = VEHICLE.model("eighteen_dof", "tmeasy")
    x0 = initial_state(model, VEHICLE, vx=15.0, ay=20.0, roll=0.1)
    functions, p = casadi_model(model), VEHICLE.vector(model)
    forces = np.array(functions.tyre_forces(x0, np.zeros(3), p, DT)).ravel()
    lifted = np.flatnonzero(forces[8:] <= 0.0)
    assert len(lifted) in (1, 2)
    times = np.arange(0.0, 0.0301, SAMPLE)
    result = forward_sensitivity(model=model.name, vehicle=VEHICLE, dt=DT, times=times, inputs=np.zeros((len(times), 3)), x0=x0,
                                 channels=[f.name for f in model.states], parameters=PARAMETERS, states=("vx",), method="exact")
    seeds = np.zeros((len(x0), len(PARAMETERS) + 1))
    seeds[[f.name for f in model.states].index("vx"), -1] = 1.0
    columns = [[f.name for f in model.parameters].index(n) for n in PARAMETERS]
    *_, (_, s) = chained(functions, p, x0, seeds, np.zeros((len(times), 3)), round(SAMPLE / DT), DT, columns)
    assert result.sensitivities[-1] == pytest.approx(s, rel=1e-8, abs=1e-9 * np.abs(s).max())
