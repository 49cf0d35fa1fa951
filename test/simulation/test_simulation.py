"""Inputs, the stepwise simulator, and batches against it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.simulation import BatchRollout, InputProfile, SimulationDiverged, Simulator, initial_state, rollout
from lfdm_ros.vehicles import load_vehicle

HMMWV = load_vehicle("hmmwv")
PROFILE = InputProfile([0, 1, 2, 4], [0, 0.3, -0.3, 0.1], [0.5, 0.3, 0, 0], [0, 0, 0.3, 0])


def test_profile_is_linear_between_rows_and_held_outside():
    np.testing.assert_allclose(PROFILE.sample([-1, 0.5, 1.5, 9]), [[0, 0.5, 0], [0.15, 0.4, 0], [0, 0.15, 0.15], [0.1, 0, 0]])


def test_profile_file_with_and_without_header(tmp_path):
    (tmp_path / "a.txt").write_text("0 0 0 0\n# comment\n1, 0.5, 0.2, 0\n")
    (tmp_path / "b.csv").write_text("time,throttle,steering,brake\n0,0,0,0\n1,0.2,0.5,0\n")
    for name in ("a.txt", "b.csv"):
        np.testing.assert_allclose(InputProfile.from_file(tmp_path / name).sample(1.0), [[0.5, 0.2, 0]])


@pytest.mark.parametrize("text, words", [
    ("0 0 0\n", ("line 1", "4 columns")), ("0 0 0 0\n1 x 0 0\n", ("line 2",)), ("0 0 0 0\n1 2 0 0\n", ("row 2", "steering", "[-1, 1]")),
    ("0 0 nan 0\n", ("row 1", "finite")), ("1 0 0 0\n0 0 0 0\n", ("row 2", "rise")), ("", ("no rows",)),
    ("time,steer,throttle,brake\n", ("line 1",)),
])
def test_bad_profiles_name_file_and_line(tmp_path, text, words):
    path = tmp_path / "inputs.txt"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        InputProfile.from_file(path)
    for word in (str(path), *words):
        assert word in str(error.value)


def test_advance_in_pieces_equals_one_call():
    a, b = Simulator(HMMWV), Simulator(HMMWV)
    u = np.array([0.2, 0.5, 0.0])
    a.advance(u, u, 1000)
    for _ in range(10):
        b.advance(u, u, 100)
    assert (a.state == b.state).all() and a.time == b.time == 1.0


def test_batch_equals_scalar():
    """Every vehicle of a batch runs as it would alone, wherever it stands in a SIMD block."""
    rng = np.random.default_rng(0)
    names = ["sprung_mass", "cornering_stiffness_front", "cornering_stiffness_rear", "rolling_resistance", "friction_scale"]
    theta = np.array([HMMWV.parameters[n] for n in names]) * rng.uniform(0.7, 1.3, (37, len(names)))
    x0 = np.array([initial_state("eight_dof", HMMWV, vx=v) for v in rng.uniform(0, 15, 37)])
    times = np.arange(0, 4.0, 0.02)
    channels = ["x", "y", "vx", "vy", "roll", "yaw_rate", "omega_rl", "ay"]
    batch = BatchRollout(model="eight_dof", vehicle=HMMWV, dt=0.002, times=times, inputs=PROFILE.sample(times),
                         parameters=names, channels=channels)
    got = batch.trajectories(theta, x0)
    for i in (0, 15, 16, 36):
        simulator = Simulator(HMMWV.replace(**dict(zip(names, theta[i]))), dt=0.002)
        simulator.state[:] = x0[i]
        _, outputs = rollout(simulator, PROFILE, until=times[-1], output_step=0.02)
        expected = outputs[:, [simulator.output_index[c] for c in channels]]
        np.testing.assert_allclose(got[i], expected, rtol=1e-10, atol=1e-9)
    observed = got[3] + 0.1
    observed[::7, 2] = np.nan
    sums = batch.squared_errors(theta, x0, observed)
    np.testing.assert_allclose(sums, np.nansum((got - observed)**2, axis=1), rtol=1e-12)
    assert list(batch.counts(observed)[:3]) == [200, 200, 171]


def test_divergence_is_reported():
    simulator = Simulator(HMMWV)
    simulator.state[4] = np.nan
    with pytest.raises(SimulationDiverged, match=r"0\.01"):
        simulator.advance([0, 0, 0], [0, 0, 0], 10)
    times = np.arange(0, 1, 0.1)
    batch = BatchRollout(model="eight_dof", vehicle=HMMWV, dt=0.01, times=times, inputs=np.zeros((10, 3)),
                         parameters=["sprung_mass"], channels=["vx"])
    sums = batch.squared_errors([[2000.0], [np.nan]], initial_state("eight_dof", HMMWV, vx=5.0), np.full((10, 1), 5.0))
    assert np.isfinite(sums[0, 0]) and sums[1, 0] == np.inf


def test_errors():
    with pytest.raises(InputError, match="did you mean 'yaw_rate'"):
        initial_state("eight_dof", HMMWV, yawrate=1.0)
    with pytest.raises(InputError, match="eight_dof"):
        Simulator(HMMWV, model="nine_dof")
    with pytest.raises(InputError, match="multiple"):
        rollout(Simulator(HMMWV), PROFILE, 1.0, output_step=0.0015)
    with pytest.raises(InputError, match="evenly"):
        BatchRollout(model="eight_dof", vehicle=HMMWV, dt=0.01, times=[0, 1, 3], inputs=np.zeros((3, 3)), parameters=[], channels=[])


@pytest.mark.parametrize("model", ["eight_dof", "eighteen_dof/tmeasy"])
def test_batch_with_inputs_of_each_vehicle(model):
    """Every run of a batch with its own inputs and parameters is the run of that vehicle alone."""
    rng = np.random.default_rng(3)
    times = np.arange(0, 2.001, 0.01)
    knots = rng.uniform([-0.5, 0, 0], [0.5, 1, 0.2], (19, 5, 3))
    inputs = np.array([[np.interp(times, np.linspace(0, 2, 5), column) for column in run.T] for run in knots]).transpose(0, 2, 1)
    masses = rng.uniform(1800, 2500, 19)
    x0 = initial_state(model, HMMWV, vx=8.0)
    common = dict(model=model, vehicle=HMMWV, dt=1e-3, times=times, parameters=["sprung_mass"], channels=["vx", "vy", "yaw_rate"])
    together = BatchRollout(inputs=inputs, **common).trajectories(masses[:, None], x0)
    for i in range(19):
        alone = BatchRollout(inputs=inputs[i], **common).trajectories(masses[i:i + 1, None], x0)[0]
        np.testing.assert_allclose(together[i], alone, rtol=1e-10, atol=1e-10)


def test_code_cache_is_keyed_on_the_sources(tmp_path):
    """A second process loads the compiled code; test_cache_key.py has what its folder's name changes with."""
    script = ("import lfdm_ros.compiler.machine_code as m\n"
              "compiled, compile_text = [], m.compile_text\n"
              "m.compile_text = lambda *a: (compiled.append(1), compile_text(*a))[1]\n"
              "from lfdm_ros.backends import advance_kernel\n"
              "from lfdm_ros.models import get_model\n"
              "advance_kernel(get_model('eight_dof'))\n"
              "from lfdm_ros.compiler.code_cache import fingerprint\n"
              "print(len(compiled), fingerprint())")
    run = [subprocess.run([sys.executable, "-c", script], env={**os.environ, "LFDM_CACHE_DIR": str(tmp_path)}, check=True,
                          capture_output=True, text=True).stdout.split() for _ in range(2)]
    assert run[0][0] == "1" and run[1][0] == "0" and run[0][1] == run[1][1]
