"""A vehicle as C: it drives as the simulator does, in scalars and in vectors, and knows its derivatives."""

import ctypes
import dataclasses
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import c_compiler
import numpy as np
import pytest
from c_compiler import needs_cc

from lfdm_ros.backends import casadi_model
from lfdm_ros.errors import InputError
from lfdm_ros.exports.c_files import write_c
from lfdm_ros.simulation import BatchRollout, InputProfile, Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

H, SPEED, TOLERANCE = 1e-3, 12.0, 1e-12
PROFILE = InputProfile([0, 1, 2, 3, 4, 5], [0, 0.1, -0.1, 0.2, 0.1, 0], [0.2, 0.5, 0.5, 0.1, 0.0, 0.0], [0, 0, 0, 0, 0.3, 0.1])
TIMES = np.linspace(0.0, 5.0, 501)
INPUTS = PROFILE.sample(TIMES)
VARIANTS = {"scalars": ("-O1",), "vectors": ("-O1", *c_compiler.VECTORS)}
LARGE = ("hmmwv_shafts", "eighteen_dof", "unoptimised")  # an optimiser takes long for its derivatives
SMALLER = [("hmmwv", "driven_bicycle", "scalars"), ("hmmwv", "driven_bicycle", "vectors"), ("hmmwv", "eight_dof", "vectors")]
CASES = [*SMALLER, LARGE]
ARGUMENTS = {np.ndarray: ctypes.c_void_p, int: ctypes.c_int, float: ctypes.c_double}


class Exported:
    """The functions of an exported vehicle on arrays."""

    def __init__(self, folder: Path, vehicle: str, model: str, *flags: str):
        self.vehicle = load_vehicle(vehicle)
        self.model = self.vehicle.model(model)
        files = write_c(self.vehicle, self.model, folder, "v")
        self._library = c_compiler.library(folder / f"{len(list(folder.iterdir()))}.so", *flags, files.source)
        header = files.header.read_text()
        self.room = int(header.split("v_q_count = ")[1].split(" ")[0])
        self.parameters, self.rest = (np.array((ctypes.c_double * n).in_dll(self._library, f"v_{name}")) for name, n in (
            ("parameters", len(self.model.parameters)), ("rest", len(self.model.states))))

    def call(self, name: str, *arguments: object) -> int:
        call = getattr(self._library, f"v_{name}")
        call.argtypes = [ARGUMENTS[type(a)] for a in arguments]
        return int(call(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments)))

    def started(self, **place: float) -> np.ndarray:
        x = np.zeros(len(self.model.states))
        self.call("start", self.parameters, np.array([place.get(name, 0.0) for name in ("x", "y", "yaw", "vx")]), x)
        return x

    def driven(self, x: np.ndarray, inputs: np.ndarray, steps: int) -> np.ndarray:
        q = np.zeros(self.room)
        self.call("prepare", self.parameters, q)
        for before, after in pairwise(inputs):
            assert self.call("advance", x, q, before, after, steps, H) == 1
        return x


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    made = {}

    def get(vehicle: str, model: str, variant: str) -> Exported:
        key = vehicle, model, variant
        if key not in made:
            made[key] = Exported(tmp_path_factory.mktemp("c"), vehicle, model, *VARIANTS.get(variant, ("-O0",)))
        return made[key]

    return get


def difference(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference, relative to the size of large numbers."""
    return float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b))))


@needs_cc
@pytest.mark.parametrize("vehicle, model, variant", CASES)
def test_it_drives_as_the_simulator_does(exported, vehicle, model, variant):
    c = exported(vehicle, model, variant)
    simulator = Simulator(c.vehicle, c.model, H)
    simulator.reset(x=1.0, y=2.0, yaw=0.5, vx=SPEED)
    x = c.started(x=1.0, y=2.0, yaw=0.5, vx=SPEED)
    assert difference(x, simulator.state) < TOLERANCE
    assert difference(c.rest, initial_state(c.model, c.vehicle)) == 0.0
    for before, after in pairwise(INPUTS):
        simulator.advance(before, after, 10)
    c.driven(x, INPUTS, 10)
    assert simulator.outputs[simulator.output_index["yaw"]] != 0.5
    assert difference(x, simulator.state) < TOLERANCE
    dx, y = np.zeros(len(x)), np.zeros(len(c.model.outputs))
    c.call("evaluate", x, INPUTS[-1], c.parameters, H, dx, y)
    assert difference(y, simulator.outputs) < 1e-9  # accelerations, of states that differ in the last bits
    slopes = np.array(casadi_model(c.model).rhs(x, INPUTS[-1], c.parameters)).ravel()
    assert difference(dx, slopes) < 1e-9


@needs_cc
@pytest.mark.parametrize("vehicle, model, variant", SMALLER)
def test_vehicles_side_by_side(exported, vehicle, model, variant):
    """Eleven, of which vectors leave three over, each with parameters of its own."""
    c, count, times = exported(vehicle, model, variant), 11, TIMES[:101:10]
    names = [f.name for f in c.model.parameters]
    varied = ["rolling_resistance", "cg_to_front_axle"]
    theta = c.parameters[[names.index(name) for name in varied]] * np.linspace(0.9, 1.1, count)[:, None]
    channels = [f.name for f in c.model.states]
    rollout = BatchRollout(model=c.model, vehicle=c.vehicle, dt=H, times=times, inputs=PROFILE.sample(times), parameters=varied,
                           channels=channels)
    x0 = initial_state(c.model, c.vehicle, vx=SPEED)
    expected = rollout.trajectories(theta, x0)[:, -1].T
    p, x = np.repeat(c.parameters[:, None], count, 1), np.repeat(x0[:, None], count, 1)
    p[[names.index(name) for name in varied]] = theta.T
    for before, after in pairwise(np.repeat(PROFILE.sample(times)[:, :, None], count, 2)):
        assert c.call("batch", x, p, before.copy(), after.copy(), count, 100, H) == 1
    assert difference(x, expected) < TOLERANCE
    x[0, 3] = np.nan
    assert c.call("batch", x, p, before.copy(), after.copy(), count, 1, H) == 0


@needs_cc
@pytest.mark.parametrize("vehicle, model, variant", [case for case in CASES if case[2] != "vectors"])
def test_derivatives(exported, vehicle, model, variant):
    """Forward is CasADi's Jacobian times the direction, and the gradient times the direction is the direction's derivative."""
    c = exported(vehicle, model, variant)
    x, random = c.driven(c.started(vx=SPEED), INPUTS[:51], 10), np.random.default_rng(1)
    u, sizes = np.array([0.1, 0.4, 0.1]), (len(x), 3, len(c.parameters))
    sx, su, sp = (random.normal(size=n) * scale for n, scale in zip(sizes, (1.0, 1.0, np.abs(c.parameters))))
    dx, y = np.zeros(len(x)), np.zeros(len(c.model.outputs))
    c.call("forward", x, u, c.parameters, H, sx, su, sp, dx, y)
    blocks = [np.array(block) for block in casadi_model(c.model).rhs_jacobian(x, u, c.parameters)]
    assert difference(dx, sum(block @ direction for block, direction in zip(blocks, (sx, su, sp)))) < 1e-10
    sdx, sy = random.normal(size=len(dx)), random.normal(size=len(y))
    gradients = [np.zeros(n) for n in sizes]
    c.call("reverse", x, u, c.parameters, H, sdx, sy, *gradients)
    terms = [*(sdx * dx), *(sy * y)]
    assert abs(sum(terms) - sum(g @ s for g, s in zip(gradients, (sx, su, sp)))) < TOLERANCE * np.sum(np.abs(terms))


@needs_cc
@pytest.mark.parametrize("variant", VARIANTS)
def test_nothing_is_undefined(tmp_path, variant):
    """The example drives under the sanitizers of addresses and of undefined behaviour."""
    vehicle = load_vehicle("hmmwv")
    files = write_c(vehicle, vehicle.model("driven_bicycle"), tmp_path, "vehicle")
    example = Path(__file__).resolve().parents[2] / "examples" / "c" / "main.c"
    sanitized = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-I", tmp_path)
    program = c_compiler.build(tmp_path / "main", *sanitized, *VARIANTS[variant], "-O0", example, files.source)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    assert len(done.stdout.splitlines()) > 10


TARGETS = {"cortex-m7": ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m7"), "aarch64": ("-target", "aarch64-linux-gnu"),
           "riscv64": ("-target", "riscv64-linux-musl"), "win64": ("-target", "x86_64-windows-gnu")}


@pytest.mark.parametrize("target", TARGETS)
def test_other_processors(tmp_path, target):
    if find_spec("ziglang") is None:
        pytest.skip("no ziglang: pip install ziglang")
    vehicle = load_vehicle("hmmwv")
    files = write_c(vehicle, vehicle.model("driven_bicycle"), tmp_path)
    done = subprocess.run([sys.executable, "-m", "ziglang", "cc", *TARGETS[target], *c_compiler.STRICT, "-O2", "-c", files.source, "-o",
                           tmp_path / "out.o"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_names(tmp_path, monkeypatch):
    vehicle = load_vehicle("hmmwv")
    files = write_c(vehicle, vehicle.model("kinematic_bicycle"), tmp_path)
    assert files.header.name == "hmmwv_kinematic_bicycle.h" and files.source.name == "hmmwv_kinematic_bicycle.c"
    assert "hmmwv_kinematic_bicycle_u_steering = 0,  /* [1]" in files.header.read_text()
    with pytest.raises(InputError, match="begin"):
        write_c(vehicle, vehicle.model("kinematic_bicycle"), tmp_path, "8dof")
    with monkeypatch.context() as patch, pytest.raises(InputError, match="cannot be written"):
        patch.setattr("lfdm_ros.exports.c_files.c_texts", lambda *_: pytest.fail("the equations are written first"))
        write_c(vehicle, vehicle.model("kinematic_bicycle"), files.header, "v")


@needs_cc
def test_any_name_of_a_vehicle_is_compiled(tmp_path):
    odd = dataclasses.replace(load_vehicle("hmmwv"), name='4x4 "Jörg" */ #error')
    files = write_c(odd, odd.model("linear_single_track"), tmp_path)
    strict = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["cc", *strict, "-c", str(files.source), "-o", str(tmp_path / "a.o")], check=True)


def test_arrays_are_refused(tmp_path):
    vehicle = load_vehicle("hmmwv").replace(height_map=1.0)
    with pytest.raises(InputError, match="given_ground"):
        write_c(vehicle, vehicle.model("eight_dof/height_map"), tmp_path)
    assert not list(tmp_path.iterdir())
