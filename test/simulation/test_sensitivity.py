"""Derivatives of trajectories: against the chain of CasADi's Jacobians and against central differences, in every regime."""

import numpy as np
import pytest
from differences import chained

from lfdm_ros.backends import casadi_model, cores
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model
from lfdm_ros.simulation import InputProfile, SimulationDiverged, initial_state
from lfdm_ros.simulation import sensitivity as module
from lfdm_ros.simulation.sensitivity import NotDifferentiable, Sensitivities, cheaper_method, forward_sensitivity
from lfdm_ros.vehicles import load_vehicle

SPEC = "eight_dof"
MODEL, VEHICLE = get_model(SPEC), load_vehicle("hmmwv")
STATES = [f.name for f in MODEL.states]
DT, SAMPLE = 1e-3, 0.01
PARAMETERS = ("longitudinal_stiffness_front", "cornering_stiffness_front", "cornering_stiffness_rear", "roll_stiffness_front",
              "roll_damping_rear", "rolling_resistance", "sprung_mass", "friction_scale", "cg_height", "motor_torque_0")
INITIAL = ("vx", "yaw_rate")

# Inputs, initial speed, seconds.
REGIMES = {
    "rest": (InputProfile([0], [0.2], [0], [0.3]), 0.0, 0.5),
    "launch": (InputProfile([0, 0.2], [0, 0.1], [0, 1], [0, 0]), 0.0, 1.0),
    "cruise": (InputProfile([0, 0.5, 1], [0, 0.1, -0.1], [0.2, 0.2, 0.1], [0, 0, 0]), 15.0, 1.0),
    "braking": (InputProfile([0, 0.1], [0.05, 0.05], [0, 0], [0, 0.4]), 15.0, 1.0),
    "locked": (InputProfile([0, 0.1], [0, 0], [0, 0], [0, 1]), 12.0, 0.8),
    "saturation": (InputProfile([0, 0.35], [0, 1], [0.5, 0.5], [0, 0]), 20.0, 1.0),
}


def arguments(regime: str, **changes: object) -> dict:
    profile, speed, seconds = REGIMES[regime]
    times = np.arange(0.0, seconds + SAMPLE / 2, SAMPLE)
    return dict(model=SPEC, vehicle=VEHICLE, dt=DT, times=times, inputs=profile, x0=initial_state(SPEC, VEHICLE, vx=speed),
                channels=STATES, parameters=PARAMETERS, states=INITIAL) | changes


def scales(result: Sensitivities) -> np.ndarray:
    """Sizes (C, P + S) for comparing derivatives; one that is 0 by symmetry is compared with state over parameter."""
    sizes = np.array([abs(VEHICLE.parameters[n]) or 1.0 for n in PARAMETERS] + [1.0] * len(INITIAL))
    states = np.abs(result.trajectories).max(axis=0) + 1e-3
    return np.abs(result.sensitivities).max(axis=0) + 1e-4 * states[:, None] / sizes


@pytest.mark.parametrize("regime", REGIMES)
def test_equal_to_the_chain_of_step_jacobians(regime: str) -> None:
    call = arguments(regime)
    result = forward_sensitivity(**call, method="exact")
    columns = [[f.name for f in MODEL.parameters].index(n) for n in PARAMETERS]
    s = np.zeros((len(STATES), len(PARAMETERS) + len(INITIAL)))
    s[[STATES.index(n) for n in INITIAL], range(len(PARAMETERS), len(PARAMETERS) + len(INITIAL))] = 1.0
    chain = chained(casadi_model(MODEL), VEHICLE.vector(MODEL), call["x0"], s, call["inputs"].sample(call["times"]), round(SAMPLE / DT), DT,
                    columns)
    for k, (x, s) in enumerate(chain, 1):
        assert result.trajectories[k] == pytest.approx(x, rel=1e-9, abs=1e-9)
        assert (np.abs(result.sensitivities[k] - s) <= 1e-8 * scales(result)).all()


def test_finite_differences_agree_and_say_so() -> None:
    call = arguments("cruise", parameters=("cornering_stiffness_rear", "roll_stiffness_front"), channels=["vy", "ay"])
    exact = forward_sensitivity(**call, method="exact")
    other = forward_sensitivity(**call, method="finite_difference")
    assert (exact.method, other.method) == ("exact", "finite_difference")
    assert exact.names == ("cornering_stiffness_rear", "roll_stiffness_front", "vx", "yaw_rate")
    assert other.trajectories == pytest.approx(exact.trajectories, rel=1e-11, abs=1e-12)
    scale = np.abs(exact.sensitivities).max(axis=(0, 1))
    assert (np.abs(other.sensitivities - exact.sensitivities).max(axis=(0, 1)) < 1e-5 * scale).all()


def test_held_inputs() -> None:
    """Held for one sample, the inputs of the last row are never used."""
    call = arguments("launch", hold=True)
    table = call["inputs"].sample(call["times"])
    changed = table.copy()
    changed[-1] = 1.0
    first, second = (forward_sensitivity(**{**call, "inputs": t}, method="exact") for t in (table, changed))
    assert np.array_equal(first.trajectories, second.trajectories)
    assert not np.array_equal(first.trajectories, forward_sensitivity(**{**call, "hold": False}, method="exact").trajectories)


@pytest.mark.parametrize(("changes", "message"), [
    ({"parameters": ("sprung_mas",)}, "no parameter 'sprung_mas' (did you mean 'sprung_mass'"),
    ({"states": ("yaw_rte",)}, "no state 'yaw_rte' (did you mean 'yaw_rate'"),
    ({"channels": ("speedy",)}, "no state 'speedy'"),
    ({"parameters": ("sprung_mass", "sprung_mass")}, "named twice"),
    ({"method": "adjoint"}, "no method 'adjoint'; choose one of: auto, exact, finite_difference"),
    ({"model": "nine_dof"}, "no model 'nine_dof'"),
    ({"times": [0.0, 0.1, 0.3]}, "sample times must rise evenly"),
    ({"inputs": np.zeros((3, 3))}, "inputs must be finite, of shape"),
    ({"x0": np.zeros(3)}, "initial state must be 14 finite numbers"),
])
def test_what_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        forward_sensitivity(**{"method": "exact", **arguments("cruise", **changes)})
    assert message in str(caught.value)


def test_a_run_that_diverges_says_when() -> None:
    x0 = initial_state(SPEC, VEHICLE, vx=10.0)
    x0[STATES.index("vy")] = 1e200
    with pytest.raises(SimulationDiverged) as caught:
        forward_sensitivity(**arguments("cruise", x0=x0), method="exact")
    assert caught.value.time == pytest.approx(SAMPLE)
    assert not np.isfinite(caught.value.state).all()


def test_a_derivative_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*call: object) -> tuple[np.ndarray, np.ndarray]:
        x, s = run(*call)
        s[7:, 2, 1] = np.nan
        return x, s

    run = module.SensitivityRollout.run
    monkeypatch.setattr(module.SensitivityRollout, "run", broken)
    with pytest.raises(NotDifferentiable, match=f"by {PARAMETERS[1]} is not finite at t = 0.07 s"):
        forward_sensitivity(**arguments("cruise"), method="exact")


def test_auto_takes_the_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {cheaper_method(SPEC, n, cores) for n in (1, 8, 9, 64) for cores in (1, 2, 16)} == {"exact"}
    # 7 derivatives are 15 runs, one block of vehicles; 8 are 17 runs, two blocks in turn on one core, at once on two.
    assert [cheaper_method("twenty_four_dof/tmeasy", n, cores) for n, cores in ((7, 1), (8, 1), (8, 2))] == [
        "finite_difference", "exact", "finite_difference"]
    with monkeypatch.context() as changed:
        changed.setitem(module.PASS_COST, SPEC, 1.1)
        assert forward_sensitivity(**arguments("cruise", parameters=PARAMETERS[:3])).method == "finite_difference"
    result = forward_sensitivity(**arguments("cruise"))
    assert result.method == cheaper_method(SPEC, len(PARAMETERS) + len(INITIAL), cores())
