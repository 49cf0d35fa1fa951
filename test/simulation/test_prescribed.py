"""States that follow a given series, and inputs given by call: against a plain loop over CasADi's step."""


import numpy as np
import pytest

from lfdm_ros.backends import casadi_model
from lfdm_ros.errors import InputError
from lfdm_ros.models import get_model, model_names, usual_spec
from lfdm_ros.simulation import BatchRollout, SensitivityRollout, Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

HMMWV, SHAFTS = load_vehicle("hmmwv"), load_vehicle("hmmwv_shafts")
SAMPLE, SUBSTEPS, SPEED = 0.01, 5, 12.0
TIMES = np.arange(41) * SAMPLE
VARIED = ("sprung_mass", "yaw_inertia")

# A specification and its vehicle; the states that are prescribed.
CASES = [("linear_single_track", HMMWV, ("vx",)), ("nonlinear_bicycle", HMMWV, ("vx",)), ("nonlinear_bicycle", HMMWV, ("yaw_rate", "vx")),
         ("eight_dof", HMMWV, ("vx",)), ("eighteen_dof/tmeasy", SHAFTS, ("vx",))]

RUNS = 3


def series(names: tuple[str, ...]) -> np.ndarray:
    """The prescribed states of each run (RUNS, K, M); corners at every sample show how they go on in between."""
    random = np.random.default_rng(2)
    whole = {"vx": SPEED + 2.0 * TIMES + random.normal(0.0, 0.05, (RUNS, len(TIMES))),
             "yaw_rate": 0.1 * np.sin(8.0 * TIMES) + random.normal(0.0, 0.01, (RUNS, len(TIMES)))}
    return np.stack([whole[name] for name in names], axis=-1)


def driver() -> np.ndarray:
    """Steering, throttle, brake of each run (RUNS, K, 3)."""
    shares = np.array([0.5, 1.0, -0.7])[:, None]
    return np.stack([0.15 * shares * np.sin(10.0 * TIMES), 0.2 + 0.0 * shares * TIMES, 0.05 * (TIMES > 0.2) * np.abs(shares)], axis=-1)


def loop(spec: str, p: np.ndarray, x0: np.ndarray, table: np.ndarray, places: list[int], hold: bool) -> np.ndarray:
    """States at the samples (K, nx): CasADi's step, with the prescribed states overwritten before each step and at each sample."""
    functions = casadi_model(get_model(spec))
    x, states = x0.copy(), np.empty((len(table), len(x0)))
    x[places] = table[0, 3:]
    states[0] = x
    for k in range(1, len(table)):
        for j in range(SUBSTEPS):
            u = table[k - 1, :3] if hold else table[k - 1, :3] + (j + functions.input_time) / SUBSTEPS * (table[k, :3] - table[k - 1, :3])
            x[places] = table[k - 1, 3:] + j / SUBSTEPS * (table[k, 3:] - table[k - 1, 3:])
            x = np.array(functions.step(x, u, p, SAMPLE / SUBSTEPS)).ravel()
        x[places] = table[k, 3:]
        states[k] = x
    return states


@pytest.mark.parametrize(("chassis", "vehicle", "prescribed"), CASES)
def test_equal_to_a_plain_loop(chassis: str, vehicle, prescribed: tuple[str, ...]) -> None:
    model = vehicle.model(chassis)
    names, places = [f.name for f in model.parameters], [[f.name for f in model.states].index(name) for name in prescribed]
    x0, tables = initial_state(model, vehicle, vx=SPEED), np.concatenate([driver(), series(prescribed)], axis=-1)
    theta = np.array([vehicle.parameters[name] for name in VARIED]) * np.array([[0.9, 1.1], [1.0, 1.0], [1.2, 0.95]])
    common = dict(model=chassis, vehicle=vehicle, dt=SAMPLE / SUBSTEPS, times=TIMES, parameters=VARIED,
                  channels=[f.name for f in model.states], prescribed=prescribed)
    for hold in (False, True):
        batch = BatchRollout(inputs=tables[0], hold=hold, **common)
        single = SensitivityRollout(inputs=tables[0], hold=hold, states=(), **common)
        together = batch.trajectories(theta, x0, tables)
        assert np.array_equal(together[:, :, places], tables[:, :, 3:])
        shared = batch.trajectories(theta, x0)
        for i in range(RUNS):
            p = vehicle.vector(model)
            p[[names.index(name) for name in VARIED]] = theta[i]
            expected = loop(model.name, p, x0, tables[i], places, hold)
            scale = np.abs(expected).max(axis=0)
            assert (np.abs(together[i] - expected) <= 1e-9 * scale + 1e-12).all()
            states, _ = single.run(theta[i], x0, np.zeros((2, 0)), np.zeros((len(x0), 0)), tables[i])
            assert (np.abs(states - expected) <= 1e-9 * scale + 1e-12).all()
        assert shared[0] == pytest.approx(together[0], rel=1e-10, abs=1e-12)
        free = BatchRollout(inputs=tables[0, :, :3], hold=hold, **(common | {"prescribed": ()})).trajectories(theta[:1], x0)
        assert np.abs(free[0] - together[0]).max() > 0.1  # the equations alone drive elsewhere


@pytest.mark.parametrize("chassis", model_names())
def test_every_model_is_dragged_along(chassis: str) -> None:
    """A speed that rises by a tenth without throttle: the vehicle gets as far as that takes it, and its wheels, with some slip, follow."""
    spec = usual_spec(chassis)
    vehicle = load_vehicle("hmmwv_multibody") if "multibody" in spec else SHAFTS if "automatic" in spec else HMMWV
    speed = SPEED + 3.0 * TIMES
    inputs = np.column_stack([np.zeros((len(TIMES), 3)), speed])
    model = vehicle.model(spec)
    names = [f.name for f in model.states]
    wheels = [name for name in names if name.startswith("omega_")]
    x0 = initial_state(model, vehicle, vx=SPEED)
    run = BatchRollout(model=model, vehicle=vehicle, dt=1e-3, times=TIMES, inputs=inputs, parameters=(), channels=("x", "vx", *wheels),
                       prescribed=("vx",)).trajectories(np.zeros((1, 0)), x0)[0]
    assert np.array_equal(run[:, 1], speed)
    assert run[-1, 0] == pytest.approx(np.sum(0.5 * (speed[1:] + speed[:-1])) * SAMPLE, rel=1e-3)
    for column, name in enumerate(wheels, start=2):
        assert run[-1, column] / x0[names.index(name)] == pytest.approx(speed[-1] / SPEED, abs=0.05)


def test_inputs_of_a_call() -> None:
    """In every form, they are those that the constructor would have got; the next call has the constructor's again."""
    tables, theta = driver(), np.array([[2000.0], [2200.0], [2400.0]])
    common = dict(model="linear_single_track", vehicle=HMMWV, dt=2e-3, times=TIMES, parameters=("sprung_mass",),
                  channels=("vy", "yaw_rate"))
    x0, batch = initial_state("linear_single_track", HMMWV, vx=SPEED), BatchRollout(inputs=np.zeros((len(TIMES), 3)), **common)
    observed = np.random.default_rng(0).normal(size=(len(TIMES), 2))
    assert not batch.trajectories(theta, x0).any()
    for given in (tables, tables[1]):
        made = BatchRollout(inputs=given, **common)
        assert np.array_equal(batch.trajectories(theta, x0, given), made.trajectories(theta, x0))
        assert np.array_equal(batch.squared_errors(theta, x0, observed, given), made.squared_errors(theta, x0, observed))
        assert np.array_equal(made.trajectories(theta, x0, np.zeros_like(given)), batch.trajectories(theta, x0))
    in_order = np.moveaxis(np.ascontiguousarray(np.moveaxis(tables, 0, 2)), 2, 0)
    runs = batch.trajectories(theta, x0, in_order)
    assert np.array_equal(runs, batch.trajectories(theta, x0, tables))
    assert runs.transpose(1, 2, 0).strides[-1] == runs.itemsize
    assert not batch.trajectories(theta, x0).any()
    simulator = Simulator(HMMWV.replace(sprung_mass=2200.0), model="linear_single_track", dt=2e-3)
    simulator.reset(vx=SPEED)
    for k in range(1, len(TIMES)):
        simulator.advance(tables[1, k - 1], tables[1, k], SUBSTEPS)
    assert runs[1, -1] == pytest.approx(simulator.state[[4, 5]], rel=1e-9)


@pytest.mark.parametrize("kind", [BatchRollout, SensitivityRollout])
@pytest.mark.parametrize(("prescribed", "columns", "message"), [
    (("speed",), 4, "no state 'speed'"),
    (("ax",), 4, "state 'ax' cannot be prescribed, it is held; choose from x, y, yaw, vx, vy, yaw_rate"),
    (("vx", "vx"), 5, "named twice"),
    (("vx",), 3, "inputs must be finite, of shape (41, 4), or (vehicles, 41, 4); the last columns are vx"),
    ((), 4, "inputs must be finite, of shape (41, 3)"),
])
def test_what_is_refused(kind: type, prescribed: tuple[str, ...], columns: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        kind(model="linear_single_track", vehicle=HMMWV, dt=2e-3, times=TIMES, inputs=np.zeros((len(TIMES), columns)), parameters=(),
             channels=("vy",), prescribed=prescribed)
    assert message in str(caught.value)


def test_inputs_of_a_call_are_checked() -> None:
    batch = BatchRollout(model="linear_single_track", vehicle=HMMWV, dt=2e-3, times=TIMES, inputs=driver()[0], parameters=(),
                         channels=("vy",))
    x0, broken = initial_state("linear_single_track", HMMWV, vx=SPEED), driver()
    broken[1, 7, 0] = np.nan
    for inputs, message in ((broken, "inputs must be finite"), (driver()[:, :, :2], "inputs must be finite, of shape"),
                            (driver()[:2], "3 runs with the inputs of 2")):
        with pytest.raises(InputError, match=message):
            batch.trajectories(np.zeros((3, 0)), x0, inputs)
