"""Batches in machine code against BatchRollout and against single runs."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lfdm_ros.backends import RUNGE_KUTTA, advance_kernel, batch_kernel, run_batch, sensitivity_kernel
from lfdm_ros.backends.trajectory_kernels import in_parallel, once
from lfdm_ros.models import get_model
from lfdm_ros.simulation import BatchRollout, InputProfile, initial_state
from lfdm_ros.vehicles import load_vehicle

SPEC = "eight_dof"
MODEL, VEHICLE = get_model(SPEC), load_vehicle("hmmwv")
PROFILE = InputProfile([0, 0.4, 0.8, 1.2], [0, 0.3, -0.3, 0], [0.6, 0.6, 0, 0], [0, 0, 0, 0.5])
TIMES = np.arange(0.0, 1.5001, 0.02)
VARIED = ("cornering_stiffness_front", "sprung_mass", "friction_scale")
CHANNELS = tuple(f.name for f in MODEL.states)
SUBSTEPS, STEP = 10, 2e-3


@pytest.fixture(scope="module")
def batch() -> tuple[BatchRollout, np.ndarray, np.ndarray, np.ndarray]:
    """A batch of 32, its varied parameters, and parameters and starts as the kernel takes them."""
    rollout = BatchRollout(model=SPEC, vehicle=VEHICLE, dt=STEP, times=TIMES, inputs=PROFILE.sample(TIMES), parameters=VARIED,
                           channels=CHANNELS)
    theta = np.array([VEHICLE.parameters[n] for n in VARIED]) * np.random.default_rng(5).uniform(0.8, 1.2, (32, len(VARIED)))
    parameters = np.repeat(VEHICLE.vector(MODEL)[:, None], 32, axis=1)
    parameters[[[f.name for f in MODEL.parameters].index(n) for n in VARIED]] = theta.T
    start = np.repeat(initial_state(SPEC, VEHICLE, vx=14.0)[:, None], 32, axis=1)
    return rollout, theta, parameters, start


def run(real: str, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, observed: np.ndarray,
        hold: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Squared errors (N, C) and trajectories (N, K, C)."""
    kernel = batch_kernel(get_model(SPEC), real, separate_inputs=inputs.ndim == 3)
    n = parameters.shape[1]
    sums, kept = np.full((len(CHANNELS), n), np.nan), np.full((len(TIMES), len(CHANNELS), n), np.nan)
    kernel.run(parameters, start, inputs, hold, SUBSTEPS, STEP, np.arange(len(CHANNELS)), observed, sums, kept, 0, n)
    return sums.T, kept.transpose(2, 0, 1)


def test_float_has_the_error_of_single_precision(batch) -> None:
    rollout, theta, parameters, start = batch
    _, trajectories = run("float", parameters, start, PROFILE.sample(TIMES), np.full((len(TIMES), len(CHANNELS)), np.nan))
    expected = rollout.trajectories(theta, start[:, 0])
    error = np.abs(trajectories - expected).max(axis=(0, 1)) / np.abs(expected).max(axis=(0, 1))
    assert error.max() < 1e-4
    assert error.max() > 1e-9  # it is single precision that was computed


def test_a_part_of_the_batch_leaves_the_rest_alone(batch) -> None:
    *_, parameters, start = batch
    kernel = batch_kernel(get_model(SPEC))
    sums, observed = np.full((1, 32), -1.0), np.zeros((len(TIMES), 1))
    kernel.run(parameters, start, PROFILE.sample(TIMES), False, SUBSTEPS, STEP, np.array([4]), observed, sums, None, 16, 32)
    assert (sums[0, :16] == -1.0).all()
    assert (sums[0, 16:] > 0.0).all()
    part = kernel.lanes + kernel.lanes // 2
    with pytest.raises(ValueError, match=f"not whole blocks of {kernel.lanes}"):
        kernel.run(parameters, start, PROFILE.sample(TIMES), False, SUBSTEPS, STEP, np.array([4]), observed, sums, None, 0, part)


def test_one_sample_is_the_start() -> None:
    x0, s0 = initial_state(SPEC, VEHICLE, vx=3.0), np.random.default_rng(0).normal(size=(len(MODEL.states), 8))
    for scheme in ("half_implicit", RUNGE_KUTTA):
        kernel = sensitivity_kernel(get_model(SPEC), states=CHANNELS, scheme=scheme)
        x, s = kernel.run(x0, s0, VEHICLE.vector(MODEL), np.zeros((0, 8)), np.zeros((1, 3)), 1, STEP, False)
        assert np.array_equal(x[0], x0)
        assert np.array_equal(s[0], s0)


def test_wrong_shapes_are_refused() -> None:
    kernel = sensitivity_kernel(get_model(SPEC))
    x0, p = initial_state(SPEC, VEHICLE), VEHICLE.vector(MODEL)
    with pytest.raises(ValueError, match=r"inputs has shape \(5, 2\)"):
        kernel.run(x0, np.zeros((len(x0), 8)), p, np.zeros((0, 8)), np.zeros((5, 2)), 1, STEP, False)
    with pytest.raises(ValueError, match="at least one"):
        kernel.run(x0, np.zeros((len(x0), 8)), p, np.zeros((0, 8)), np.zeros((5, 3)), 0, STEP, False)


@pytest.mark.parametrize("n", [1, 16, 37])
def test_a_batch_of_any_size_is_its_vehicles(n: int) -> None:
    """All cores, and vectors that are not full: each vehicle as it is alone."""
    random = np.random.default_rng(n)
    parameters = VEHICLE.vector(MODEL)[:, None] * random.uniform(0.95, 1.05, (1, n))
    start = np.column_stack([initial_state(SPEC, VEHICLE, vx=v) for v in random.uniform(5.0, 20.0, n)])
    inputs, observed = PROFILE.sample(TIMES), np.zeros((len(TIMES), 2))
    common = (inputs, False, SUBSTEPS, STEP, np.array([4, 7]), observed, True)
    sums, kept = run_batch(batch_kernel(get_model(SPEC)), parameters, start, *common)
    assert kept is not None
    assert sums.shape == (n, 2)
    assert kept.shape == (n, len(TIMES), 2)
    assert (kept[:, 0] == start[[4, 7]].T).all()
    assert sums == pytest.approx((kept ** 2).sum(axis=1), rel=1e-12)
    for i in {0, n // 2, n - 1}:
        _, alone = run_batch(batch_kernel(get_model(SPEC)), parameters[:, i:i + 1].copy(), start[:, i:i + 1].copy(), *common)
        assert alone is not None
        assert np.array_equal(alone[0], kept[i])


def test_wrong_arguments_of_an_advance_are_refused() -> None:
    x, u0, u1 = initial_state(SPEC, VEHICLE, vx=10.0), np.zeros(3), np.zeros(3)
    with pytest.raises(ValueError, match="0 steps"):
        advance_kernel(get_model(SPEC))(x, VEHICLE.vector(MODEL), u0, u1)(0, STEP)
    with pytest.raises(ValueError, match="contiguous float64"):
        advance_kernel(get_model(SPEC))(np.zeros((len(x), 2))[:, 0], VEHICLE.vector(MODEL), u0, u1)


def test_work_in_parallel_is_done_once() -> None:
    """Also from several threads that share the pool, and where one fails."""
    def count(size: int) -> list[int]:
        done: list[int] = []
        in_parallel(done.append, size)
        return sorted(done)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(count, range(50))) == [list(range(size)) for size in range(50)]
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda i: 1 // (i - 5), 20)
    assert count(7) == list(range(7))


def test_what_several_threads_ask_for_at_once_is_made_once():
    """All ask while the first is still at it."""
    asked, made = threading.Barrier(8), []

    @once
    def make(name):
        made.append(name)
        time.sleep(0.05)
        return object()

    def ask(_):
        asked.wait()
        return make("a")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert made == ["a"]
    assert make("b") is not make("a")


def test_work_within_work_stays_on_its_thread():
    """What is asked for inside of parallel work is done by the one who asks; what fails there is told."""
    threads = [set() for _ in range(6)]

    def outer(i):
        in_parallel(lambda _: threads[i].add(threading.get_ident()), 5)

    in_parallel(outer, 6)
    assert all(len(own) == 1 for own in threads)

    def fails(i):
        if i == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        in_parallel(fails, 8)
