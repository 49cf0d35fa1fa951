"""Errors of the simpler models against the one with 24 degrees of freedom, and of each model against a fine step; the tables are in
docs/concepts/which_model.md."""

import numpy as np
from scipy.optimize import brentq

from lfdm_ros.simulation import InputProfile, Simulator, rollout
from lfdm_ros.vehicles import load_vehicle

SHAFTS = load_vehicle("hmmwv_shafts")
CRUISE = dict(vx=15.0, gear=3.0, engine_speed=212.0)  # in the third gear, with the throttle that keeps this speed


def run(model: str, profile: InputProfile, until: float, dt: float = 1e-3, vehicle=SHAFTS, **start: float) -> dict[str, np.ndarray]:
    """Outputs by name, every 20 ms."""
    simulator = Simulator(vehicle, model=model, dt=dt)
    states = {field.name for field in simulator.model.states}
    simulator.reset(**{name: value for name, value in start.items() if name in states})
    return dict(zip(simulator.output_names, rollout(simulator, profile, until, output_step=0.02)[1].T))


def lane_change(amplitude: float) -> InputProfile:
    """One sine of steering in 3 s."""
    time = np.linspace(0.5, 3.5, 151)
    return InputProfile(time, amplitude * np.sin(2.0 * np.pi * (time - 0.5) / 3.0), np.full_like(time, 0.13), np.zeros_like(time))


def test_models_are_ordered_by_their_simplifications() -> None:
    """Largest error of the yaw rate in a lane change of 4 m/s²: with the same tyres and the same yaw inertia, only the motion of the
    suspension is left between 18 and 24 degrees of freedom."""
    reference = "twenty_four_dof/tmeasy"
    profile = lane_change(brentq(lambda a: np.abs(run(reference, lane_change(a), 5.0, **CRUISE)["ay"]).max() - 4.0, 0.01, 1.0, xtol=1e-3))
    p = SHAFTS.parameters
    unsprung = sum(p[f"unsprung_mass_{axle}"] * (p[f"cg_to_{axle}_axle"] ** 2 + 0.25 * p[f"track_{axle}"] ** 2)
                   for axle in ("front", "rear"))
    whole = SHAFTS.replace(yaw_inertia=p["yaw_inertia"] + unsprung)  # as the smaller models have it
    exact = run(reference, profile, 5.0, **CRUISE)["yaw_rate"]
    linear, axle, roll = (np.abs(run(model, profile, 5.0, vehicle=whole, **CRUISE)["yaw_rate"] - exact).max() / np.abs(exact).max()
                          for model in ("linear_single_track", "eleven_dof/tmeasy", "eighteen_dof/tmeasy"))
    assert roll < 0.01 < axle < linear


def test_a_step_of_10_ms_is_too_long() -> None:
    """Speed, yaw rate and front wheel speed from rest to 11 m/s, left and right, and braked to rest."""
    model = "eighteen_dof/tmeasy"
    drive = InputProfile([0, 0.5, 4, 5, 6, 7, 8, 8.5, 9], [0, 0, 0, 0.25, -0.25, 0, 0, 0, 0], [0, 1, 1, 0.3, 0.3, 0.3, 0, 0, 0],
                         [0, 0, 0, 0, 0, 0, 0, 0.4, 0.4])
    fine, usual, long = (run(model, drive, 14.0, dt) for dt in (1e-4, 1e-3, 1e-2))
    errors = [max(np.abs(coarse[name] - fine[name]).max() / np.abs(fine[name]).max() for name in ("vx", "yaw_rate", "omega_fl"))
              for coarse in (usual, long)]
    assert errors[0] < 0.02 < errors[1]
