"""Derivatives in directions of parameters, initial state and inputs together, against central differences of the batch."""

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.simulation import BatchRollout, SensitivityRollout, initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
SAMPLE, STEP, SPEED = 0.01, 2e-3, 12.0
TIMES = np.arange(81) * SAMPLE
PARAMETERS = ("sprung_mass", "cornering_stiffness_front", "yaw_inertia")

STEERING = 0.1 * np.sin(6.0 * TIMES) + 0.03 * np.sin(17.0 * TIMES)
SLOPE = 0.6 * np.cos(6.0 * TIMES) + 0.51 * np.cos(17.0 * TIMES)
THROTTLE = 0.2 + 0.1 * np.sin(3.0 * TIMES)
INPUTS = np.column_stack([STEERING, THROTTLE, np.full(len(TIMES), 0.02)])
SERIES = SPEED + 0.5 * np.sin(4.0 * TIMES)

# What the directions change.
DIRECTIONS = ("sprung_mass", "cornering_stiffness_front", "yaw_inertia", "vy", "vx, rolling", "steering offset", "steering scale",
              "steering delay", "throttle offset", "everything")


def seeds(model: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """d theta (P, D), d x0 (nx, D), d inputs (K, 3, D) of DIRECTIONS, of a size that changes the run by about as much each."""
    start = initial_state(model, VEHICLE, vx=SPEED)
    names = [f.name for f in VEHICLE.model(model).states]
    theta, x0, u = np.zeros((3, 10)), np.zeros((len(start), 10)), np.zeros((len(TIMES), 3, 10))
    theta[range(3), range(3)] = [VEHICLE.parameters[name] for name in PARAMETERS]
    x0[names.index("vy"), 3] = 1.0
    x0[:, 4] = initial_state(model, VEHICLE, vx=SPEED + 1.0) - start
    u[:, 0, 5], u[:, 0, 6], u[:, 0, 7], u[:, 1, 8] = 0.1, STEERING, -0.1 * SLOPE, 0.3
    weights = np.random.default_rng(4).normal(size=9)
    theta[:, 9], x0[:, 9], u[:, :, 9] = theta[:, :9] @ weights, x0[:, :9] @ weights, u[:, :, :9] @ weights
    return theta, x0, u


def rollout(model: str, hold: bool = False, prescribed: tuple[str, ...] = (), **changes: object) -> SensitivityRollout:
    inputs = np.column_stack([INPUTS, SERIES]) if prescribed else INPUTS
    return SensitivityRollout(**{**dict(model=model, vehicle=VEHICLE, dt=STEP, times=TIMES, inputs=inputs, parameters=PARAMETERS,
                                        channels=[f.name for f in VEHICLE.model(model).states], hold=hold, prescribed=prescribed),
                                 **changes})


def point(model: str) -> tuple[np.ndarray, np.ndarray]:
    # Not straight ahead: exactly there all four tyres are at a kink.
    return np.array([VEHICLE.parameters[name] for name in PARAMETERS]), initial_state(model, VEHICLE, vx=SPEED, vy=0.2, yaw_rate=0.05)


@pytest.mark.parametrize(("model", "hold", "prescribed"), [
    ("linear_single_track", False, ()), ("linear_single_track", True, ("vx",)), ("nonlinear_bicycle", True, ()),
    ("nonlinear_bicycle", False, ("vx",)), ("eight_dof", False, ()), ("eight_dof", True, ("vx",)), ("eighteen_dof", False, ("vx",)),
])
def test_equal_to_central_differences(model: str, hold: bool, prescribed: tuple[str, ...]) -> None:
    single = rollout(model, hold, prescribed)
    (theta, x0), (d_theta, d_x0, d_inputs) = point(model), seeds(model)
    table = np.column_stack([INPUTS, SERIES]) if prescribed else INPUTS
    trajectory, derivatives = single.run(theta, x0, d_theta, d_x0, None, d_inputs)
    names = [f.name for f in VEHICLE.model(model).states]
    batch = BatchRollout(model=model, vehicle=VEHICLE, dt=STEP, times=TIMES, inputs=table, parameters=PARAMETERS, channels=names, hold=hold,
                         prescribed=prescribed)
    assert trajectory == pytest.approx(batch.trajectories(theta, x0)[0], rel=1e-9, abs=1e-11)
    errors = []
    scale = np.abs(derivatives).max(axis=0) + 1e-4 * (np.abs(trajectory).max(axis=0)[:, None] + 1e-3)
    whole = np.zeros((len(TIMES), table.shape[1], len(DIRECTIONS)))
    whole[:, :3] = d_inputs
    for width in (1e-3, 1e-4, 1e-5):
        runs = [batch.trajectories(theta + sign * width * d_theta.T, x0 + sign * width * d_x0.T,
                                   table + sign * width * np.moveaxis(whole, 2, 0)) for sign in (1.0, -1.0)]
        errors.append(np.abs(np.moveaxis(runs[0] - runs[1], 0, -1) / (2.0 * width) - derivatives) / scale)
    best = np.minimum.reduce(errors).max(axis=(0, 1))
    assert dict(zip(DIRECTIONS, best)) == pytest.approx(dict.fromkeys(DIRECTIONS, 0.0), abs=2e-6)
    sizes = np.abs(derivatives[:, names.index("yaw_rate")]).max(axis=0)
    # Single-track models coast, and one whose speed is prescribed does not know the start's.
    nothing = {*(["throttle offset"] if "dof" not in model else []), *(["vx, rolling"] if prescribed and "dof" not in model else [])}
    assert {name for name, size in zip(DIRECTIONS, sizes) if size < 1e-6} == nothing
    assert not prescribed or not derivatives[:, names.index("vx")].any()


def test_a_direction_does_not_depend_on_the_others() -> None:
    """Ten directions are two passes; alone each is one. The last is a sum of all others, and so is its derivative."""
    single, (theta, x0), given = rollout("eight_dof"), point("eight_dof"), seeds("eight_dof")
    trajectory, together = single.run(theta, x0, given[0], given[1], seeds_inputs=given[2])
    scale = np.abs(together).max(axis=(0, 2))
    for i in (0, 5, 7, 8, 9):
        same, alone = single.run(theta, x0, *(g[..., i:i + 1] for g in given[:2]), seeds_inputs=given[2][..., i:i + 1])
        assert np.array_equal(same, trajectory)
        assert np.array_equal(alone[..., 0], together[..., i])
    weights = np.random.default_rng(4).normal(size=9)
    assert (np.abs(together[..., :9] @ weights - together[..., 9]).max(axis=0) <= 1e-10 * scale).all()


def test_without_seeds_of_inputs_they_are_zero() -> None:
    model = "linear_single_track"
    single, (theta, x0), (d_theta, d_x0, d_inputs) = rollout(model), point(model), seeds(model)
    without = single.run(theta, x0, d_theta, d_x0)[1]
    assert without == pytest.approx(single.run(theta, x0, d_theta, d_x0, None, 0.0 * d_inputs)[1], rel=1e-11, abs=1e-13)


def test_parameters_and_inputs_of_a_call_are_used() -> None:
    single, (theta, x0), (d_theta, d_x0, _) = rollout("linear_single_track"), point("linear_single_track"), seeds("linear_single_track")
    other = rollout("linear_single_track", inputs=0.5 * INPUTS, vehicle=VEHICLE.replace(sprung_mass=2500.0))
    changed = np.array([2500.0, *theta[1:]])
    for a, b in zip(single.run(changed, x0, d_theta, d_x0, 0.5 * INPUTS), other.run(changed, x0, d_theta, d_x0)):
        assert np.array_equal(a, b)
    assert not np.array_equal(single.run(changed, x0, d_theta, d_x0)[0], other.run(changed, x0, d_theta, d_x0)[0])


def test_no_directions_and_no_unknowns() -> None:
    single, (theta, x0), (d_theta, d_x0, _) = rollout("eight_dof", channels=("yaw_rate", "vx")), point("eight_dof"), seeds("eight_dof")
    trajectory, derivatives = single.run(theta, x0, d_theta[:, :0], d_x0[:, :0])
    assert derivatives.shape == (len(TIMES), 2, 0)
    assert trajectory == pytest.approx(single.run(theta, x0, d_theta, d_x0)[0], rel=1e-10, abs=1e-12)
    plain = rollout("eight_dof", channels=("yaw_rate", "vx"), parameters=(), states=())
    assert np.array_equal(plain.run([], x0, np.zeros((0, 0)), np.zeros((len(x0), 0)))[0], trajectory)


def test_chosen_states_only() -> None:
    (theta, x0), (d_theta, d_x0, _) = point("linear_single_track"), seeds("linear_single_track")
    whole, some = rollout("linear_single_track"), rollout("linear_single_track", states=("vy",))
    a, b = (r.run(theta, x0, d_theta[:, :4], d_x0[:, :4])[1] for r in (whole, some))
    assert b == pytest.approx(a, rel=1e-11, abs=1e-13)
    with pytest.raises(InputError, match="changes a state that is not among: vy"):
        some.run(theta, x0, d_theta, d_x0)


def test_threads_processes_and_pickles_give_the_same() -> None:
    single, (theta, x0), (d_theta, d_x0, d_inputs) = rollout("eight_dof"), point("eight_dof"), seeds("eight_dof")
    starts = [x0 + 0.1 * i * d_x0[:, 4] for i in range(12)]
    expected = [single.run(theta, start, d_theta, d_x0, None, d_inputs) for start in starts]
    copy = pickle.loads(pickle.dumps(single))
    with ThreadPoolExecutor(4) as pool:
        for used in (single, copy):
            results = list(pool.map(lambda start, used=used: used.run(theta, start, d_theta, d_x0, None, d_inputs), starts))
            assert all(np.array_equal(a, b) for found, right in zip(results, expected) for a, b in zip(found, right))
    # The threads that share the passes of one call do not come along into a child.
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=lambda: send.send(single.run(theta, x0, d_theta, d_x0, None, d_inputs)[1]))
    child.start()
    assert receive.poll(30)
    assert np.array_equal(receive.recv(), expected[0][1])
    child.join(30)
    assert child.exitcode == 0


def test_a_run_that_diverges_is_not_finite() -> None:
    single, (theta, x0), (d_theta, d_x0, _) = rollout("eight_dof"), point("eight_dof"), seeds("eight_dof")
    x0[[f.name for f in single.model.states].index("vy")] = 1e200
    trajectory, _ = single.run(theta, x0, d_theta, d_x0)
    assert np.isfinite(trajectory[0]).all()
    assert not np.isfinite(trajectory[-1]).all()


@pytest.mark.parametrize(("place", "value", "message"), [
    (0, np.zeros(2), r"theta has shape \(2,\), expected \(3,\)"),
    (1, np.zeros(3), r"x0 has shape \(3,\), expected \(8,\)"),
    (2, np.zeros((2, 10)), r"seeds_theta has shape \(2, 10\), expected \(3, 10\)"),
    (3, np.zeros((8, 9)), r"seeds_x0 has shape \(8, 9\), expected \(8, 10\)"),
    (4, np.full((81, 3), np.inf), "inputs must be finite"),
    (4, np.zeros((2, 81, 3)), "derivatives are of one run"),
    (5, np.zeros((81, 4, 10)), r"seeds_inputs has shape \(81, 4, 10\), expected \(81, 3, 10\)"),
])
def test_what_is_refused(place: int, value: np.ndarray, message: str) -> None:
    (theta, x0), (d_theta, d_x0, d_inputs) = point("linear_single_track"), seeds("linear_single_track")
    arguments = [theta, x0, d_theta, d_x0, INPUTS, d_inputs]
    arguments[place] = value
    with pytest.raises(InputError, match=message):
        rollout("linear_single_track").run(*arguments)


@pytest.mark.parametrize(("model", "prescribed"), [("linear_single_track", ()), ("eight_dof", ("vx",)), ("twenty_four_dof", ())])
@pytest.mark.parametrize("memory", [2**30, 2**21])
def test_many_runs_on_a_gpu_as_one_by_one(gpu, model: str, prescribed: tuple[str, ...], memory: int) -> None:
    """Each run and direction in a thread; also where they go over in chunks."""
    gpu.set(memory=memory)
    several = rollout(model, prescribed=prescribed, channels=["vx", "vy", "yaw_rate"])
    (theta, x0), (d_theta, d_x0, _) = point(model), seeds(model)
    thetas = theta * np.random.default_rng(5).uniform(0.9, 1.1, (7, 3))
    starts = np.repeat(x0[None], 7, axis=0)
    starts[:, [f.name for f in VEHICLE.model(model).states].index("vy")] += np.linspace(-0.1, 0.1, 7)
    ours, theirs = (several.run_many(thetas, starts, d_theta[:, :6], d_x0[:, :6], backend) for backend in ("gpu", "cpu"))
    for a, b in zip(ours, theirs):
        scale = np.abs(b).max(axis=(0, 1), keepdims=True) + 1e-12
        assert a.shape == b.shape and (np.abs(a - b) / scale).max() < 1e-11
    single = several.run_many(thetas, starts, d_theta[:, :6], d_x0[:, :6], "gpu", "float32")
    for a, b, bound in zip(single, theirs, (1e-4, 1e-2)):
        assert (np.abs(a - b) / (np.abs(b).max(axis=(0, 1), keepdims=True) + 1e-3)).max() < bound
    assert ours[1].shape == (7, len(TIMES), 3, 6)
    x, s = several.run(thetas[3], starts[3], d_theta[:, :6], d_x0[:, :6])
    np.testing.assert_array_equal(theirs[0][3], x)
    np.testing.assert_array_equal(theirs[1][3], s)
    assert gpu.counts()["launches"] >= 1


def test_many_runs_say_what_is_wrong() -> None:
    single = rollout("linear_single_track", states=["vy"])
    (theta, x0), (d_theta, d_x0, _) = point("linear_single_track"), seeds("linear_single_track")
    for backend in ("cpu", "gpu"):
        with pytest.raises(InputError, match="seeds_x0 changes a state that is not among: vy"):
            single.run_many(theta, x0, d_theta, d_x0, backend)
    with pytest.raises(InputError, match="derivatives run on cpu or gpu, not on 'auto'"):
        single.run_many(theta, x0, d_theta, d_x0, "auto")
    with pytest.raises(InputError, match="on the processor derivatives are float64"):
        single.run_many(theta, x0, d_theta, np.zeros_like(d_x0), "cpu", "float32")
    with pytest.raises(InputError, match="seeds_theta has shape"):
        single.run_many(theta, x0, d_theta[:2], d_x0)
