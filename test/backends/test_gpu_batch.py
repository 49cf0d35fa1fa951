"""Batches on a GPU without one: their PTX as C against the processor's kernels, and the launcher on a driver that runs that C."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from lfdm_ros.backends import batch_backend, compile_batch, cuda_driver, gpu_batch, gpu_launch
from lfdm_ros.backends.batch_backend import QuickerBatch
from lfdm_ros.backends.gpu_batch import GpuBatch
from lfdm_ros.errors import InputError
from lfdm_ros.ground import FieldTable, FrictionField, FrictionLink, Grid, load_soil
from lfdm_ros.models import chassis_slots, model_names
from lfdm_ros.resources import find_config
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import load_vehicle

# Every chassis of one body on every tyre; the large one and each other part on the vehicle's own, for which the C compiler takes long.
VEHICLES = {"hmmwv": [name for name in model_names() if name != "multibody_hmmwv"], "hmmwv_multibody": ["multibody_hmmwv"],
            "sedan": ["eight_dof"], "dart": ["eight_dof"], "hmmwv_shafts": ["eight_dof"]}
HMMWV = load_vehicle("hmmwv")
TIMES = 0.05 * np.arange(11)
INPUTS = np.column_stack([0.1 * np.sin(2.0 * TIMES), np.full(len(TIMES), 0.2), np.zeros(len(TIMES))])
BLOCK = gpu_launch.BLOCK


def wavy(phase):
    """Friction in waves along the way."""
    grid = Grid.covering((-20.0, -20.0), (60.0, 20.0), 2.0)
    x = np.broadcast_to(grid.xs, grid.shape)
    return FieldTable(FrictionField(grid, np.sin(0.3 * x + phase), FrictionLink(0.1, 0.8)), 0.9)


WAVY = [wavy(0.1 * k) for k in range(40)]


def models():
    """Each model with a vehicle that can drive it."""
    for name, chassis_names in VEHICLES.items():
        vehicle = load_vehicle(name)
        for chassis in chassis_names:
            for tyre in vehicle.parts("tyre") if name == "hmmwv" and "tyre" in chassis_slots(chassis) else (None,):
                if not (tyre or "").startswith("bekker_wong"):
                    yield vehicle.model(chassis, tyre), vehicle


def others():
    """On soil, on a field of friction by vehicle, and on tyres of a .tir file."""
    soft = HMMWV.replace(**load_soil("dry_sand").parameters)
    found = [(soft.model(name), soft) for name in ("eleven_dof/bekker_wong/soil", "eighteen_dof/bekker_wong_rigid/soil")]
    slippery = HMMWV.replace(friction_scale=1.0, friction_field=float(WAVY[0].number))
    found += [(slippery.model(f"{chassis}/friction_field"), slippery) for chassis in ("eight_dof", "eighteen_dof")]
    document = yaml.safe_load(find_config("vehicles", "sedan").read_text())
    document["tyre"]["tir"] = str(Path(__file__).parents[1] / "models" / "data" / "passenger_61.tir")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "car.yaml")
        file.write_text(yaml.safe_dump(document | {"default_tyre": "magic_formula"}))
        car = load_vehicle(file)
    return [*found, (car.model("eight_dof", "magic_formula_relaxed"), car)]  # which is magic_formula with its states


MODELS = {model.name: (model, vehicle) for model, vehicle in (*models(), *others())}


def batch(model, vehicle, count, seed=0):
    """Arguments of a run: each vehicle has its own parameters and state."""
    rng = np.random.default_rng(seed)
    p = vehicle.vector(model)[:, None] * np.linspace(0.995, 1.005, count)
    # Counts, choices and exponents stay what they are.
    p = np.where(vehicle.vector(model)[:, None] == np.round(vehicle.vector(model)[:, None]), vehicle.vector(model)[:, None], p)
    x0 = np.repeat(initial_state(model, vehicle, vx=12.0)[:, None], count, axis=1)
    x0[[f.name for f in model.states].index("vx")] += rng.uniform(-0.5, 0.5, count)
    return np.ascontiguousarray(p), x0


def agree(found, expected, model, real_bound):
    """States of all vehicles, in parts of the largest of each over the run."""
    scale = np.maximum(np.abs(expected).max(axis=(0, 1)), 1e-3)
    worst = np.abs(found - expected).max(axis=(0, 1)) / scale
    place = worst.argmax()
    assert worst[place] < real_bound, f"{model.name}: {model.states[place].name} off by {worst[place]:.2g}"


@pytest.mark.parametrize("precision, bound", [("float64", 1e-12), ("float32", 2e-4)])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_as_the_processor_does(gpu, name, precision, bound):
    """All states. In single precision accelerations of wheels and body are differences of large forces; motion is held to 1e-5."""
    model, vehicle = MODELS[name]
    p, x0 = batch(model, vehicle, 5)
    rows = np.arange(len(model.states))
    arguments = (p, x0, INPUTS, False, 20, 0.05 / 20, rows, np.zeros((len(TIMES), len(rows))), True)
    sums, kept = GpuBatch(model, precision, False, ())(*arguments)
    expected_sums, expected = compile_batch("cpu", model, precision, False, ())(*arguments)
    agree(kept, expected, model, bound)
    assert np.allclose(sums, expected_sums, rtol=2.0 * bound, atol=1e-6)
    if precision == "float32":
        motion = [i for i, f in enumerate(model.states) if f.name in ("x", "y", "yaw", "vx", "vy", "yaw_rate")]
        scale = np.maximum(np.abs(expected[:, :, motion]).max(axis=(0, 1)), 0.1)
        assert (np.abs(kept[:, :, motion] - expected[:, :, motion]).max(axis=(0, 1)) / scale).max() < 1e-5


MODEL, VEHICLE = MODELS["eight_dof"]
ROWS = np.array([0, 1, 3], dtype=np.int64)


def arguments(count, hold=False, inputs=INPUTS, keep=True):
    p, x0 = batch(MODEL, VEHICLE, count)
    observed = np.zeros((len(TIMES), len(ROWS)))
    observed[::3] = np.nan
    return p, x0, inputs, hold, 10, 0.005, ROWS, observed, keep


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17])
@pytest.mark.parametrize("hold", [False, True])
def test_any_number_of_vehicles(gpu, count, hold):
    ours = GpuBatch(MODEL, "float64", False, ())(*arguments(count, hold))
    theirs = compile_batch("cpu", MODEL, "float64", False, ())(*arguments(count, hold))
    for a, b in zip(ours, theirs):
        assert a.shape == b.shape and np.allclose(a, b, rtol=1e-12, atol=1e-12)


def test_own_inputs_and_prescribed_states(gpu):
    count = 300
    speed = 12.0 + 0.2 * TIMES
    table = np.repeat(np.column_stack([INPUTS, speed])[:, :, None], count, axis=2)
    table[:, 0] *= np.linspace(-1.0, 1.0, count)
    ours = GpuBatch(MODEL, "float64", True, ("vx",))(*arguments(count, inputs=table))
    theirs = compile_batch("cpu", MODEL, "float64", True, ("vx",))(*arguments(count, inputs=table))
    for a, b in zip(ours, theirs):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)
    assert np.ptp(ours[1][:, -1, 1]) > 0.1  # each its own


@pytest.mark.parametrize("memory", [2**30, 2**21])
@pytest.mark.parametrize("precision, bound", [("float64", 1e-12), ("float32", 1e-5)])
def test_fields_of_friction_by_vehicle(gpu, precision, bound, memory):
    """Each on a field of its own, some of them on the same, one on a number that no field has; also where not all fields fit at a time."""
    gpu.set(memory=memory)
    model, vehicle = MODELS["eight_dof/friction_field"]
    count, row = 3000, [f.name for f in model.parameters].index("friction_field")
    p, x0 = batch(model, vehicle, count)
    p[row] = [WAVY[k % len(WAVY)].number for k in range(count)]
    p[row, 500] = 1e9
    given = p, x0, INPUTS, False, 10, 0.005, ROWS, np.zeros((len(TIMES), len(ROWS))), True
    (_, ours), (_, theirs) = GpuBatch(model, precision, False, ())(*given), compile_batch("cpu", model, precision, False, ())(*given)
    assert np.isnan(ours[500, 1:]).any() and np.isnan(theirs[500, 1:]).any()
    lives = np.arange(count) != 500
    assert np.abs(ours - theirs)[lives].max() < bound * np.abs(theirs[lives]).max()
    assert np.ptp(ours[lives][:len(WAVY), -1, 0]) > 1e-4
    if memory < 2**30:
        assert gpu.counts()["launches"] > 1


def test_what_does_not_fit_goes_over_in_chunks(gpu):
    """A memory of 512 kB for a batch of 5 MB, through two streams; each vehicle runs once."""
    gpu.set(memory=2**19)
    count = 7000
    ours = GpuBatch(MODEL, "float64", False, ())(*arguments(count))
    theirs = compile_batch("cpu", MODEL, "float64", False, ())(*arguments(count))
    assert gpu.counts()["launches"] > 10
    for a, b in zip(ours, theirs):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)


def test_several_devices_share_the_work(gpu):
    gpu.set(devices=3, memory=2**21)
    run = GpuBatch(MODEL, "float64", False, ())
    assert run.resident == 3 * 2 * gpu_launch.RESIDENT
    ours, theirs = run(*arguments(4000)), compile_batch("cpu", MODEL, "float64", False, ())(*arguments(4000))
    assert np.allclose(ours[1], theirs[1], rtol=1e-12, atol=1e-12)


def test_calls_of_several_threads(gpu):
    run = GpuBatch(MODEL, "float64", False, ())
    expected = run(*arguments(900))[0].copy()
    with ThreadPoolExecutor(4) as pool:
        for sums, _ in pool.map(lambda _: run(*arguments(900)), range(12)):
            assert (sums == expected).all()


def test_a_vehicle_that_diverges_stays_alone(gpu):
    p, x0, *rest = arguments(200)
    x0[3, 77] = np.nan
    p[:, 150] = 0.0
    clean = GpuBatch(MODEL, "float64", False, ())(*arguments(200))
    sums, kept = GpuBatch(MODEL, "float64", False, ())(p, x0, *rest)
    bad = ~np.isfinite(kept).all(axis=(1, 2))
    assert np.flatnonzero(bad).tolist() == [77, 150]
    for found, expected in ((kept, clean[1]), (sums, clean[0])):
        np.testing.assert_allclose(found[~bad], expected[~bad], rtol=1e-12, atol=1e-13)


def test_what_vehicles_have_in_common_goes_by_value(gpu):
    """A kernel for those parameters that differ; another where more do, none where fewer do, and one vehicle has all in common."""
    model, vehicle = MODELS["eight_dof/tmeasy/automatic"]
    names = [f.name for f in model.parameters]
    run, theirs = GpuBatch(model, "float64", False, ()), compile_batch("cpu", model, "float64", False, ())
    for varied, links in (((), 1), (("sprung_mass",), 2), ((), 2), (("yaw_inertia", "cg_height"), 3), (("sprung_mass", "cg_height"), 3)):
        p, x0 = np.repeat(vehicle.vector(model)[:, None], 40, axis=1), batch(model, vehicle, 40)[1]
        for name in varied:
            p[names.index(name)] *= np.linspace(0.9, 1.1, 40)
        given = p, x0, INPUTS, False, 10, 0.005, ROWS, np.zeros((len(TIMES), len(ROWS))), True
        for a, b in zip(run(*given), theirs(*given)):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
        assert len(gpu.loaded) == links
    one = [a[:, :1] if i < 2 else a for i, a in enumerate(given)]
    np.testing.assert_allclose(run(*one)[1], theirs(*one)[1], rtol=1e-12, atol=1e-12)
    assert len(gpu.loaded) == 3


@pytest.mark.parametrize("name", ["multibody_hmmwv", "eight_dof/magic_formula_relaxed/gearbox"])
def test_more_in_common_than_arguments_hold(monkeypatch, name):
    """Then the parameters go by value, and what follows from them as far as there is room."""
    model, _ = MODELS[name]
    common = gpu_batch.common_of(model, (0,), "double")
    assert 8 * len(common.nodes) <= gpu_batch.BY_VALUE < 4096 and common.columns == (0,)
    monkeypatch.setattr(gpu_batch, "BY_VALUE", 64)
    assert gpu_batch.common_of(model, (0,), "double") == gpu_batch.Common(tuple(range(len(model.parameters))), ())


def test_nothing_asked_nothing_run(gpu):
    run = GpuBatch(MODEL, "float64", False, ())
    p, x0, inputs, hold, substeps, h, _, _, _ = arguments(10)
    sums, kept = run(p, x0, inputs, hold, substeps, h, ROWS[:0], np.zeros((len(TIMES), 0)), True)
    assert sums.shape == (10, 0) and kept.shape == (10, len(TIMES), 0) and not gpu.counts()["launches"]


def test_machine_code_is_kept(gpu):
    """Linked once; from then on it comes from the code cache."""
    GpuBatch(MODEL, "float64", False, ())
    gpu.set()
    GpuBatch(MODEL, "float64", False, ())
    assert gpu.counts()["links"] == 0


# -- Failures -------------------------------------------------------------------------------------------------------------------


def test_no_driver(monkeypatch):
    monkeypatch.setenv(cuda_driver.VARIABLE, "libno_such_driver.so")
    cuda_driver.devices.cache_clear()
    with pytest.raises(InputError, match=r"back end gpu: no driver of NVIDIA: libno_such_driver.so.*backend cpu"):
        compile_batch("gpu", MODEL, "float64", False, ("x",))


def test_no_device_and_an_old_one(gpu):
    gpu.set(devices=0)
    with pytest.raises(InputError, match="finds no GPU"):
        GpuBatch(MODEL, "float64", False, ())
    gpu.set(capability=(6, 1))
    with pytest.raises(InputError, match=r"Stub 0 has compute capability 6.1; the kernels need 7.5"):
        GpuBatch(MODEL, "float64", False, ())


def test_out_of_memory_gives_all_back(gpu):
    gpu.set(memory=1000)
    with pytest.raises(InputError, match="Stub 0 is out of memory: one run needs"):
        GpuBatch(MODEL, "float64", False, ())(*arguments(10))
    counts = gpu.counts()
    assert counts["allocations"] == counts["pinned"] == counts["contexts"] == 0


@pytest.mark.parametrize("fail_at", range(1, 10))
def test_a_driver_that_fails(gpu, fail_at):
    """At any call: one line with the driver's words, nothing kept, and the next call works."""
    run = GpuBatch(MODEL, "float64", False, ())
    gpu.set(fail_at=fail_at, code=700)
    run = GpuBatch(MODEL, "float64", False, ())
    try:
        run(*arguments(50))
    except InputError as error:
        assert "illegal memory access" in str(error) and "700" in str(error)
    else:
        assert fail_at > 6
    gpu.set()
    found = run(*arguments(50))
    assert np.allclose(found[1], compile_batch("cpu", MODEL, "float64", False, ())(*arguments(50))[1], rtol=1e-12, atol=1e-12)


def test_equations_that_call_functions_are_refused(gpu, monkeypatch):
    monkeypatch.setattr(gpu_batch, "LIBRARY", {"sqrt"})
    with pytest.raises(InputError, match="calls sqrt, for which a GPU has no instructions"):
        GpuBatch(MODEL, "float64", False, ())


@pytest.mark.parametrize("name", ["eight_dof", "eleven_dof/tmeasy", "twenty_four_dof/tmeasy_nr", "eight_dof/friction_field"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_real_gpu_gives_the_bits_of_the_ptx_as_c(stub_driver, monkeypatch, name, precision):
    model, vehicle = MODELS[name]
    p, x0 = batch(model, vehicle, 700)
    rows = np.arange(len(model.states))
    given = p, x0, INPUTS, False, 20, 0.05 / 20, rows, np.zeros((len(TIMES), len(rows))), True
    cuda_driver.devices.cache_clear()
    try:
        real = GpuBatch(model, precision, False, ())(*given)
    except InputError as error:
        pytest.skip(str(error))
    monkeypatch.setenv(cuda_driver.VARIABLE, str(stub_driver.path))
    monkeypatch.setattr(gpu_launch, "POOL", gpu_launch.StreamPool())
    stub_driver.set()
    for a, b in zip(real, GpuBatch(model, precision, False, ())(*given)):
        np.testing.assert_array_equal(a, b)


# -- The quicker of two -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """The time by which batches are measured: it goes on as they say."""
    now = [0.0]
    monkeypatch.setattr(batch_backend, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


class Counted:
    """A batch that takes its time of a clock, and counts the calls with all samples."""

    resident = 1024

    def __init__(self, clock, pause=1e-5, error=None):
        self.clock, self.pause, self.error, self.calls = clock, pause, error, 0
        self.run = compile_batch("cpu", MODEL, "float64", False, ())

    def __call__(self, p, x0, inputs, *rest):
        self.clock[0] += self.pause * (len(inputs) - 1)
        self.calls += p.shape[1] > 1000
        if self.error and p.shape[1] > 1000:
            raise InputError(self.error)
        return self.run(p, x0, inputs, *rest)


@pytest.mark.parametrize("slow_cpu", [True, False])
def test_the_quicker_runs_the_batch(clock, slow_cpu):
    """By times measured on fewer vehicles; a small batch never leaves the processor."""
    cpu, gpu = Counted(clock, 0.05 if slow_cpu else 1e-5), Counted(clock, 1e-5 if slow_cpu else 0.05)
    run = QuickerBatch(cpu, lambda: gpu)
    expected = cpu.run(*arguments(2000))
    found = run(*arguments(2000))
    assert (found[1] == expected[1]).all() and (cpu.calls, gpu.calls) == ((0, 1) if slow_cpu else (1, 0))
    run(*arguments(100))
    assert cpu.calls + gpu.calls == 1


def test_without_a_gpu_the_processor_does_it(clock, capsys):
    """With a line that says why, once; also where the GPU fails in the middle."""
    def none():
        raise InputError("no GPU of this kind")

    cpu = Counted(clock)
    runs = [QuickerBatch(cpu, none), QuickerBatch(cpu, none), QuickerBatch(Counted(clock, 0.05), lambda: Counted(clock, error="it broke"))]
    for run in runs * 2:
        assert np.isfinite(run(*arguments(2000))[0]).all()
    lines = capsys.readouterr().err.splitlines()
    assert sorted(lines) == ["note: back end auto: it broke; batches run on the processor",
                             "note: back end auto: no GPU of this kind; batches run on the processor"]
    assert cpu.calls == 4 and runs[2](*arguments(300))[1].shape == (300, len(TIMES), len(ROWS))


def test_by_name_through_the_library(gpu):
    """`BatchRollout`, which other rooms use; samples, states and squared errors as on the processor."""
    given = {"model": MODEL, "vehicle": VEHICLE, "dt": 0.005, "times": TIMES, "inputs": INPUTS, "parameters": ["sprung_mass"],
             "channels": ["vx", "yaw_rate"]}
    theta, x0 = VEHICLE.parameters["sprung_mass"] * np.linspace(0.8, 1.2, 500)[:, None], initial_state(MODEL, VEHICLE, vx=12.0)
    ours, theirs = (BatchRollout(**given, backend=name) for name in ("gpu", "cpu"))
    np.testing.assert_allclose(ours.trajectories(theta, x0), theirs.trajectories(theta, x0), rtol=1e-12, atol=1e-13)
    observed = np.zeros((len(TIMES), 2))
    np.testing.assert_allclose(ours.squared_errors(theta, x0, observed), theirs.squared_errors(theta, x0, observed), rtol=1e-12)
    assert gpu.counts()["launches"] == 2
