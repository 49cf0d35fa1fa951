"""The integrators converge to each other; what fails has a name."""

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.simulation import InputProfile, SimulationDiverged, Simulator, rollout
from lfdm_ros.simulation.rollout import IntegrationFailed, rollout_implicit, rollout_rk4
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
# A lane change that stays between the kinks of the tyre and the torque map.
SMOOTH = InputProfile([0, 0.5, 1, 2, 3], [0, 0, 0.2, -0.2, 0], [0.3, 0.3, 0.3, 0.2, 0.1], [0] * 5)
CHANNELS = ("x", "y", "vx", "vy", "yaw_rate", "roll", "omega_fl", "ax", "ay")


def simulator(dt: float = 1e-3, speed: float = 15.0) -> Simulator:
    made = Simulator(VEHICLE, model="eight_dof", dt=dt)
    made.reset(vx=speed)
    return made


def columns() -> list[int]:
    return [simulator().output_index[name] for name in CHANNELS]


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    return rollout_implicit(simulator(), SMOOTH, 3.0, tolerance=1e-9)[1][:, columns()]


@pytest.mark.parametrize("method", [rollout, rollout_rk4], ids=["half_implicit", "rk4"])
def test_fixed_steps_converge_to_the_implicit_integrator(method, reference: np.ndarray) -> None:
    """First order: of the half-implicit step by itself, of RK4 through the load transfer, which lags one step in it."""
    errors = []
    for dt in (2e-3, 1e-3, 5e-4):
        _, outputs = method(simulator(dt), SMOOTH, 3.0)
        errors.append(np.abs(outputs[:, columns()] - reference).max(axis=0))
    orders = np.log2(errors[0] / errors[2]) / 2.0
    assert orders == pytest.approx(np.ones(len(CHANNELS)), abs=0.2)


def test_rk4_is_much_closer_than_the_half_implicit_step(reference: np.ndarray) -> None:
    error, of_rollout = (np.abs(method(simulator(), SMOOTH, 3.0)[1][:, columns()] - reference).max(axis=0)
                         for method in (rollout_rk4, rollout))
    assert (error < 0.2 * of_rollout).all()


def test_a_looser_tolerance_costs_no_more_than_it_allows(reference: np.ndarray) -> None:
    _, loose = rollout_implicit(simulator(), SMOOTH, 3.0, tolerance=1e-6)
    assert (np.abs(loose[:, columns()] - reference) < 1e-2).all()


def test_the_simulator_stays_where_it_is() -> None:
    made = simulator()
    before = made.state.copy()
    for method in (rollout_rk4, rollout_implicit):
        times, outputs = method(made, SMOOTH, 0.1, 0.02)
        assert times == pytest.approx(np.arange(6) * 0.02)
        assert outputs.shape == (6, len(made.output_names))
        assert outputs[0, made.output_index["vx"]] == 15.0
        assert made.time == 0.0
        assert np.array_equal(made.state, before)


def test_a_stop_under_the_brakes() -> None:
    """Stiff: friction holds the wheels, the tyres the vehicle."""
    profile = InputProfile([0, 0.2], [0, 0], [0, 0], [0, 1])
    made = simulator(speed=5.0)
    _, implicit = rollout_implicit(made, profile, 2.0)
    _, half_implicit = rollout(simulator(speed=5.0), profile, 2.0)
    vx, x = made.output_index["vx"], made.output_index["x"]
    assert abs(implicit[-1, vx]) < 1e-5
    assert implicit[-1, x] == pytest.approx(half_implicit[-1, x], abs=0.01)


def test_a_step_that_diverges_is_named() -> None:
    made = simulator()
    made.state[[5, 7]] = 1e200  # vy, yaw_rate: their product is no number
    with pytest.raises(SimulationDiverged) as caught:
        rollout_rk4(made, SMOOTH, 1.0, 0.02)
    assert caught.value.time == pytest.approx(0.02)
    assert not np.isfinite(caught.value.state).all()


def test_a_solver_that_gives_up_is_named() -> None:
    made = simulator()
    made.state[4] = 1e200
    with pytest.raises(IntegrationFailed, match=r"failed after t = 0 s: SUNDIALS \w+: IDA") as caught:
        rollout_implicit(made, SMOOTH, 1.0)
    assert caught.value.time == 0.0
    assert caught.value.state[4] == 1e200


def test_steps_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="not a multiple"):
        rollout_rk4(simulator(), SMOOTH, 1.0, 0.0105)
    with pytest.raises(InputError, match="must be positive"):
        rollout_implicit(simulator(), SMOOTH, 1.0, tolerance=0.0)


@pytest.mark.parametrize("chassis", ["eleven_dof", "eighteen_dof", "twenty_four_dof"])
def test_models_with_tyre_deflections_converge_as_well(chassis: str) -> None:
    """In one gear: to the implicit integrator, in the first order."""
    vehicle, profile = load_vehicle("hmmwv_shafts"), InputProfile([0, 0.5, 1.0], [0, 0.05, 0.05], [0.6] * 3, [0] * 3)
    names = ("x", "y", "vx", "vy", "yaw_rate")

    def run(method, dt: float) -> np.ndarray:
        made = Simulator(vehicle, model=chassis, dt=dt, tyre="tmeasy")
        made.reset(vx=3.0, engine_speed=180.0)  # the engine drives the converter throughout
        return method(made, profile, 0.6)[1][:, [made.output_index[name] for name in names]]

    reference = run(rollout_implicit, 1e-3)
    for method in (rollout, rollout_rk4):
        coarse, fine = (np.abs(run(method, dt) - reference).max(axis=0) for dt in (1e-3, 2.5e-4))
        assert (fine < 0.02 * np.abs(reference).max(axis=0)).all()
        assert (fine < 0.5 * coarse + 1e-6).all()


@pytest.mark.parametrize("chassis", ["eleven_dof", "twenty_four_dof"])
def test_the_converter_is_passed_where_the_wheels_begin_to_drive_the_engine(chassis: str) -> None:
    """The throttle closes and opens: the torque of the converter goes through 0 four times, and the fixed step converges to the solver."""
    vehicle = load_vehicle("hmmwv_shafts").replace(gear_count=1.0, gear_ratio_0=0.16)
    profile = InputProfile([0, 0.5, 1.0, 1.5], [0.02] * 4, [0.3, 0.0, 0.0, 0.4], [0.0] * 4)

    def run(method, dt: float = 1e-3) -> dict[str, np.ndarray]:
        made = Simulator(vehicle, model=chassis, dt=dt, tyre="tmeasy")
        made.reset(vx=12.0, engine_speed=163.0, yaw_rate=0.03, vy=-0.02)
        _, outputs = method(made, profile, 1.5)
        return {name: outputs[:, i] for name, i in made.output_index.items()}

    reference = run(rollout_implicit)
    ratio = reference["omega_rl"] / 0.16 / reference["engine_speed"]
    assert ratio.min() < 0.9 and ratio.max() > 1.03 and np.count_nonzero(np.diff(ratio > 1.0)) == 3
    coarse, fine = run(rollout), run(rollout, 2.5e-4)
    for name in ("vx", "engine_speed", "yaw_rate"):
        off, less = (np.abs(found[name] - reference[name]).max() / np.ptp(reference[name]) for found in (coarse, fine))
        assert off < 3e-3 and less < 0.3 * off, name
