"""The likelihood of a stage against NumPy, SciPy and finite differences: nuisances, correlated errors, several data sets, gradients."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from lfdm_ros.inference.dataset import Dataset, Recording
from lfdm_ros.inference.likelihood import RolloutLikelihood
from lfdm_ros.inference.measurement import InputPath
from lfdm_ros.inference.model import BatchedDensity, ErrorPriors
from lfdm_ros.inference.priors import Prior
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import load_vehicle

VEHICLE = load_vehicle("hmmwv")
UNKNOWNS = [[("cornering_stiffness_front", 1.0)], [("cornering_stiffness_rear", 1.0)]]
NUISANCES = ("steering.offset", "steering.scale", "steering.delay", "steering.lag", "yaw_rate.offset", "heading.misalignment")
Q = np.array([48e3, 55e3, 0.01, 1.05, 0.043, 0.06, 0.004, 0.02, 14.8])


def data_set(seed: int = 0, hold: bool = False, name: str = "", rows: int = 150) -> Dataset:
    """A turn at 15 m/s with noise; vy has gaps."""
    rng = np.random.default_rng(seed)
    times = 0.01 * np.arange(rows)
    smooth = np.cumsum(rng.standard_normal((rows + 100, 1)), axis=0) * 0.01
    inputs = np.column_stack([0.2 * np.tanh(smooth), np.full(rows + 100, 0.2), np.zeros(rows + 100)])
    observed = np.column_stack([0.1 * rng.standard_normal(rows), 0.2 + 0.05 * rng.standard_normal(rows)])
    observed[40:70, 0] = np.nan
    return Dataset(Recording(name or "a", None, name * 64), times, inputs[100:], hold, observed, ("vy", "yaw_rate"),
                   {"vx": 15.0, "vy": 0.1, "yaw_rate": 0.05}, name, inputs[:100], (), ("vy", "yaw_rate"))


def likelihood(*data: Dataset, **changes) -> RolloutLikelihood:
    """All nuisances, and the speed at the start of each data set."""
    arguments = {"model": "eight_dof", "vehicle": VEHICLE, "step": 0.002, "unknowns": UNKNOWNS, "nuisances": NUISANCES,
                 "estimated": [["vx"]] * len(data), "correlated": True}
    return RolloutLikelihood(data, **(arguments | changes))


def test_a_late_slow_and_scaled_input_is_what_filters_make_of_it():
    data = data_set()
    path = InputPath(data, NUISANCES)
    values = np.where(np.array(NUISANCES) == "steering.delay", 0.04, Q[2:8])  # from point to point of the grid, or both grids would differ
    offset, scale, delay, lag = values[:4]
    recorded = np.concatenate([data.history[:, 0], data.inputs[:, 0]])
    grid = 0.01 * np.arange(len(recorded))
    fine = np.linspace(0.0, grid[-1], 20 * (len(grid) - 1) + 1)
    delayed = np.interp(fine - delay, grid, recorded)
    # A bilinear filter on a grid 20 times finer, started in balance.
    k = 2.0 * lag / (fine[1] - fine[0])
    slow = lfilter([1.0, 1.0], [1.0 + k, 1.0 - k], delayed, zi=[delayed[0] * (1.0 - 1.0 / (1.0 + k))])[0]
    expected = offset + scale * slow[20 * 100::20]
    got = path.inputs(values[None])[0]
    np.testing.assert_allclose(got[:, 0], expected, atol=1e-6)
    np.testing.assert_array_equal(got[:, 1:], data.inputs[:, 1:])


def test_sensors_are_off_by_what_is_said():
    data = data_set()
    whole = likelihood(data).responses(Q)[0][0]
    theta, values = Q[:2], Q[2:8]
    x0 = initial_state("eight_dof", VEHICLE, vx=Q[8], vy=0.1 + 0.02 * 15.0, yaw_rate=0.05 - 0.004)
    inputs = InputPath(data, NUISANCES).inputs(values[None])[0]
    rollout = BatchRollout(model="eight_dof", vehicle=VEHICLE, dt=0.002, times=data.times, inputs=inputs,
                           parameters=["cornering_stiffness_front", "cornering_stiffness_rear"], channels=["vx", "vy", "yaw_rate"])
    vx, vy, yaw_rate = rollout.trajectories(theta, x0)[0].T
    np.testing.assert_allclose(whole[:, 0], vy * np.cos(0.02) - vx * np.sin(0.02), atol=1e-12)
    np.testing.assert_allclose(whole[:, 1], yaw_rate + 0.004, atol=1e-12)


def test_a_sensor_that_is_turned_reads_heading_and_goes_the_way_of_the_vehicle():
    """Heading and path of a run that begins with a turned sensor's heading, against one that begins with the vehicle's own."""
    data = replace(data_set(), channels=("x", "y", "yaw"), observed=np.zeros((150, 3)), sourced=("x", "y", "yaw"),
                   initial={"vx": 15.0, "vy": 0.0, "yaw_rate": 0.0, "x": 3.0, "y": -2.0, "yaw": 1.2})
    turned = likelihood(data, unknowns=(), nuisances=("heading.misalignment",), estimated=[[]])
    got = turned.responses(np.array([0.02]))[0][0]
    rollout = BatchRollout(model="eight_dof", vehicle=VEHICLE, dt=0.002, times=data.times, inputs=data.inputs, parameters=[],
                           channels=["x", "y", "yaw"])
    x0 = initial_state("eight_dof", VEHICLE, **{**data.initial, "yaw": 1.18, "vy": 0.02 * 15.0})
    own = rollout.trajectories(np.empty((1, 0)), x0)[0]
    np.testing.assert_allclose(got, own + [0.0, 0.0, 0.02], atol=1e-12)
    steps = 1e-5
    slopes = turned.error_slopes(np.array([0.02]))
    for c in range(3):
        ahead, behind = (turned.errors(np.array([[0.02 + sign * steps]]))[c][0] for sign in (1.0, -1.0))
        np.testing.assert_allclose(slopes[c][:, 0], (ahead - behind) / (2.0 * steps), atol=1e-4)


@pytest.mark.parametrize("hold", [False, True])
def test_derivatives_are_those_of_finite_differences(hold):
    problem = likelihood(data_set(1, hold), data_set(2, hold, "b"))
    q = np.append(Q, 15.1)
    moments, slopes = problem.moments_and_slopes(q)
    np.testing.assert_allclose(moments, problem.moments(q)[0], rtol=1e-10)
    steps = 1e-6 * np.maximum(np.abs(q), 1e-2)
    above, below = problem.moments(q + np.diag(steps)), problem.moments(q - np.diag(steps))
    numeric = np.moveaxis((above - below) / (2.0 * steps)[:, None, None], 0, -1)
    np.testing.assert_allclose(slopes, numeric, rtol=2e-4, atol=1e-6 * np.abs(numeric * steps).max() / steps.min())
    errors, by_q = problem.errors(q), problem.error_slopes(q)
    for g in range(2):
        ahead, behind = problem.errors(q + np.diag(steps))[g], problem.errors(q - np.diag(steps))[g]
        expected = ((ahead - behind) / (2.0 * steps)[:, None]).T
        np.testing.assert_allclose(by_q[g] * steps, expected * steps, atol=1e-5 * np.abs(errors[g]).max() * 1e-3)


def test_correlated_errors_have_the_density_of_a_gaussian_process():
    """AR(1) in closed form against the multivariate normal with covariance sigma^2 rho^|i - j| within each run."""
    data = (data_set(3), data_set(4, name="b", rows=80))
    problem = likelihood(*data)
    priors = {name: Prior("normal", (("mean", 0.0), ("sd", 1e6)), "") for name in [*"ab", *NUISANCES, "initial.a", "initial.b"]}
    uniform = Prior("uniform", (("lower", 0.0), ("upper", 0.99)), "")
    errors = {name: ErrorPriors(Prior("log_normal", (("median", 0.1), ("log_sd", 1.0)), ""), uniform) for name in ("vy", "yaw_rate")}
    density = BatchedDensity(problem, priors, errors)
    q, sigma, rho = np.append(Q, 15.0), (0.1, 0.05), (0.7, 0.3)
    point = dict(zip(density.names, [*q, np.log(sigma[0]), rho[0], np.log(sigma[1]), rho[1]]))
    assert list(point)[-4:] == ["sigma.vy", "rho.vy", "sigma.yaw_rate", "rho.yaw_rate"]
    expected = 0.0
    for responses, one in zip(problem.responses(q), data):
        for c in range(2):
            error = one.observed[:, c] - responses[0, :, c]
            for run in np.split(error, np.flatnonzero(np.diff(np.isfinite(error))) + 1):
                if np.isfinite(run).all():
                    lags = np.abs(np.subtract.outer(np.arange(len(run)), np.arange(len(run))))
                    expected += stats.multivariate_normal.logpdf(run, np.zeros(len(run)), sigma[c] ** 2 * rho[c] ** lags)
    assert density(np.array([list(point.values())]))[1][0] == pytest.approx(expected, rel=1e-9)


def test_data_sets_add_up_and_can_be_taken_apart():
    one, other = data_set(5), data_set(6, name="b")
    q = np.append(Q, 15.2)
    both = likelihood(one, other)
    np.testing.assert_allclose(both.moments(q), both.only([True, False]).moments(q) + both.only([False, True]).moments(q), rtol=1e-12)
    np.testing.assert_allclose(both.only([True, False]).moments(q), likelihood(one).moments(Q), rtol=1e-12)
    assert [group.count for group in both.groups] == [240, 300]
    assert [group.runs for group in both.groups] == [4, 2]
    labelled = likelihood(one, other, labels=[("vy", "yaw_rate"), ("b.vy", "yaw_rate")])
    assert [group.label for group in labelled.groups] == ["vy", "yaw_rate", "b.vy"]
    np.testing.assert_allclose(labelled.moments(q)[0, 0], both.only([True, False]).moments(q)[0, 0], rtol=1e-12)


def test_the_kernels_own_sums_are_the_errors():
    data = data_set(7)
    plain = likelihood(data, nuisances=(), estimated=[[]], correlated=False)
    q = np.array([[48e3, 55e3], [60e3, 52e3]])
    errors = plain.errors(q)
    np.testing.assert_allclose(plain.moments(q)[:, :, 0], np.column_stack([(e**2).sum(axis=1) for e in errors]), rtol=1e-12)
    assert plain.pieces[0].plain


def test_a_prescribed_speed_drives_every_particle():
    speed = 15.0 + 2.0 * np.sin(0.05 * np.arange(150))
    data = replace(data_set(8), following=("vx",), prescribed=speed[:, None])
    plain = likelihood(data, nuisances=("steering.delay",), estimated=[[]])
    got = plain.responses(np.array([48e3, 55e3, 0.0]))[0][0]
    rollout = BatchRollout(model="eight_dof", vehicle=VEHICLE, dt=0.002, times=data.times, inputs=data.table, prescribed=["vx"],
                           parameters=["cornering_stiffness_front", "cornering_stiffness_rear"], channels=["vy", "yaw_rate"])
    x0 = initial_state("eight_dof", VEHICLE, **data.initial)
    np.testing.assert_allclose(got, rollout.trajectories([48e3, 55e3], x0)[0], rtol=1e-12)


def test_correlation_time_of_errors_that_stay():
    """White errors count in full; errors that are constant over each data set count once for each."""
    white = likelihood(data_set(9), nuisances=(), estimated=[[]])
    q = np.array([48e3, 55e3])
    response = white.responses(q)[0][0]
    rng = np.random.default_rng(1)

    def with_errors(make) -> RolloutLikelihood:
        sets = [replace(data_set(9), observed=response + np.column_stack([make(), make()]), name=str(i)) for i in range(20)]
        return likelihood(*sets, nuisances=(), estimated=[[]] * 20)

    assert with_errors(lambda: rng.standard_normal(150)).correlation_times(q)["vy"] < 1.5
    assert with_errors(lambda: np.full(150, rng.standard_normal())).correlation_times(q)["vy"] == pytest.approx(150.0, rel=0.02)
    weighted = white.weighted({"vy": 0.25})
    assert [group.weight for group in weighted.groups] == [0.25, 1.0]


@pytest.mark.parametrize("nuisances", [("steering.offset",), ("steering.offset", "steering.scale", "steering.lag")])
def test_sums_of_squares_with_inputs_of_its_own_are_those_of_the_errors(nuisances):
    """The kernel's sums, of more particles than a core looks at together, against those of the responses."""
    both = likelihood(data_set(), data_set(1, name="b"), nuisances=nuisances, estimated=[[], []], correlated=False)
    values = {"steering.offset": 0.01, "steering.scale": 1.05, "steering.lag": 0.06}
    centre = np.array([48e3, 55e3, *(values[name] for name in nuisances)])
    q = centre * (1.0 + 0.05 * np.random.default_rng(0).standard_normal((700, len(centre))))
    moments = both.moments(q)
    for g, errors in enumerate(both.errors(q)):
        np.testing.assert_allclose(moments[:, g, 0], (errors**2).sum(axis=1), rtol=1e-10)


def test_a_gpu_gives_the_likelihood(gpu, monkeypatch):
    """Named by LFDM_BACKEND, as `lfdm calibrate --backend` does: of a population of particles, each with its own inputs."""
    q = Q * np.random.default_rng(7).uniform(0.9, 1.1, (64, len(Q)))
    found = {}
    for backend in ("cpu", "gpu"):
        monkeypatch.setenv("LFDM_BACKEND", backend)
        both = data_set(), data_set(1, name="b")
        found[backend] = [likelihood(*both).moments(np.column_stack([q, q[:, -1]])),
                          likelihood(*both, correlated=False, nuisances=()).moments(np.column_stack([q[:, [0, 1, 8]], q[:, 8]]))]
    for ours, theirs in zip(found["gpu"], found["cpu"]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert gpu.counts()["launches"] == 4
