"""A tyre alone as an FMU: its load against the tyre's own equations in numpy, on wheels in any attitude; what cannot be one is refused."""

import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_compiler import needs_cc
from chassis_fmu import write_chassis
from scipy.spatial.transform import Rotation

from lfdm_ros.backends.model_functions import ARRAYS
from lfdm_ros.cli.main import main
from lfdm_ros.exports.fmu_file import write_fmu
from lfdm_ros.exports.library import own_platform
from lfdm_ros.exports.variables import exported_tyre
from lfdm_ros.models import SLOTS, Patch, Record, Wheel
from lfdm_ros.models.tyre_alone import TYRE_DEFAULTS
from lfdm_ros.vehicles import Vehicle, load_vehicle
from lfdm_ros.vehicles.tir_file import read_tir

fmpy = pytest.importorskip("fmpy")
from masters import Master  # noqa: E402

pytestmark = needs_cc
LOAD = [f"wheel_load.{name}.{axis}" for name in ("point", "force", "moment") for axis in "xyz"]
TIR = Path(__file__).parents[1] / "models" / "data" / "passenger_61.tir"
STEP = 1e-3


def vehicle_with(tyre: str) -> Vehicle:
    vehicle = load_vehicle("hmmwv")
    return vehicle.replace(**read_tir(TIR), tyre_vertical_damping_front=500.0) if tyre.startswith("magic") else vehicle


def expected(vehicle: Vehicle, tyre: str, wheel: str, u: dict[str, float],
             states: dict[str, float]) -> tuple[np.ndarray, dict[str, float]]:
    """Returns point, force and moment, and the rates of the tyre's states: the contact by rotation matrices, the tyre by its equations
    on numbers."""
    part, p = SLOTS["tyre"][tyre], Record(**{**TYRE_DEFAULTS, **vehicle.parameters})
    axle, side = "front" if wheel[0] == "f" else "rear", 1.0 if wheel[1] == "l" else -1.0

    def vector(name: str, parts: str = "xyz") -> np.ndarray:
        return np.array([u[f"{name}.{part}"] for part in parts])

    centre, velocity, turning = (vector(f"wheel_state.{name}") for name in ("pos", "lin_vel", "ang_vel"))
    turned = Rotation.from_quat([u[f"wheel_state.rot.e{i}"] for i in (1, 2, 3, 0)])
    axis, normal = turned.apply([0.0, 1.0, 0.0]), vector("terrain_normal")
    normal = normal / np.linalg.norm(normal)
    along = np.cross(axis, normal)
    along /= np.linalg.norm(along)
    across = np.cross(normal, along)
    down = np.cross(along, axis)  # in the wheel's plane, away from the ground
    camber = np.arctan2(axis @ normal, np.linalg.norm(np.cross(axis, normal)))
    radius = (centre - [centre[0], centre[1], u["terrain_height"]]) @ normal / (down @ normal)
    point = centre - radius * down
    omega = turning @ axis
    moving = velocity + np.cross(turning - omega * axis, point - centre)
    deflection, rate = p.wheel_radius - radius, -(moving @ normal) / np.cos(camber)
    damping = vehicle.parameters.get(f"tyre_vertical_damping_{axle}", 0.0)
    pressed = (getattr(p, f"tyre_vertical_stiffness_{axle}") * deflection + damping * rate) / np.cos(camber)
    load = max(pressed, 0.0) if deflection > 0.0 else 0.0
    radius = min(radius, p.wheel_radius)
    equations, vx = part.build(ARRAYS), moving @ along
    q = equations.prepare(p)
    met = Patch(friction=vehicle.parameters["friction_scale"] * u["terrain_mu"] / TYRE_DEFAULTS["reference_mu"])
    rolling = Wheel(axle == "front", vx, moving @ across, 1.0, 0.0, omega, load, radius, Record(**states), met, inclination=camber,
                    side=side)
    floor = TYRE_DEFAULTS["slip_speed_floor"] if vx >= 0.0 else -TYRE_DEFAULTS["slip_speed_floor"]
    if not part.wheel_states and abs(vx) < abs(floor):
        free = equations.rolling_radius(q, rolling) if tyre != "fiala" else radius
        rolling = replace(rolling, vx=floor, omega=omega + (floor - vx) / free)
    contact = equations.forces(q, rolling)
    roll = contact.my - contact.friction * np.clip(omega, -1.0, 1.0)
    found = [point, contact.fx * along + contact.fy * across + load * normal, contact.mx * along + roll * axis + contact.mz * normal]
    return np.concatenate(found), {name: float(value) for name, value in contact.changes.items()}


def any_wheel(rng: np.random.Generator) -> dict[str, float]:
    """Returns a rolling wheel somewhere on oblique ground: spun, cambered, steered, with its body in motion."""
    heading, lean, spun, speed = rng.uniform(-3.0, 3.0), rng.uniform(-0.15, 0.15), rng.uniform(-3.0, 3.0), rng.uniform(-25.0, 25.0)
    turned = Rotation.from_euler("ZXY", [heading, lean, spun])
    e1, e2, e3, e0 = turned.as_quat()
    ahead = Rotation.from_euler("Z", heading).apply([1.0, rng.uniform(-0.1, 0.1), rng.uniform(-0.02, 0.02)]) * speed
    body = rng.uniform(-0.5, 0.5, 3)
    turning = body + turned.apply([0.0, 1.0, 0.0]) * (speed / 0.46 * rng.uniform(0.9, 1.1))
    normal = np.array([rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1), 1.0])
    height = rng.uniform(-3.0, 3.0)
    centre = [*rng.uniform(-100.0, 100.0, 2), height + rng.uniform(0.41, 0.48)]
    values = {"wheel_state.pos": centre, "wheel_state.lin_vel": ahead, "wheel_state.ang_vel": turning, "terrain_normal": normal}
    found = {f"{name}.{axis}": float(value) for name, three in values.items() for axis, value in zip("xyz", three)}
    return found | {"wheel_state.rot.e0": e0, "wheel_state.rot.e1": e1, "wheel_state.rot.e2": e2, "wheel_state.rot.e3": e3,
                    "terrain_height": height, "terrain_mu": rng.uniform(0.3, 1.0)}


@pytest.mark.parametrize(("tyre", "wheel", "version"), [
    ("tmeasy", "fl", 2), ("tmeasy_nr", "rr", 3), ("fiala", "rl", 2), ("magic_formula", "fr", 2), ("magic_formula_relaxed", "fl", 3)])
def test_the_load_is_that_of_the_tyres_equations(tmp_path, tyre, wheel, version):
    """No oracle of itself: rotation matrices for the contact, numbers for graphs, and Euler's rule for the states."""
    from fmpy.validation import validate_fmu

    vehicle = vehicle_with(tyre)
    export = exported_tyre(vehicle, wheel, tyre)
    write_fmu(export, tmp_path / "tyre.fmu", version, [own_platform()])
    assert validate_fmu(str(tmp_path / "tyre.fmu")) == []
    master, rng = Master(tmp_path / "tyre.fmu"), np.random.default_rng(1)
    own = [f.name for f in export.model.states if f.name != "turn"]
    loads = []
    for k in range(60):
        u = any_wheel(rng)
        master.set(**u)
        before = dict(zip(own, master.get([f"state.{name}" for name in own]))) if own else {}
        load, rates = expected(vehicle, tyre, wheel, u, before)
        np.testing.assert_allclose(master.get(LOAD), load, rtol=1e-9, atol=1e-6)
        loads.append(load)
        master.fmu.doStep(k * STEP, STEP)
        if own:
            after = master.get([f"state.{name}" for name in own])
            np.testing.assert_allclose(after, [before[name] + STEP * rates[name] for name in own], rtol=1e-9, atol=1e-12)
    forces = np.linalg.norm(np.array(loads)[:, 3:6], axis=1)
    assert (forces < 1e-3).any() and (forces > 3000.0).sum() > 20  # in the air, and on the ground
    master.close()


def test_a_wheel_that_nobody_has_placed_carries_nothing(tmp_path):
    write_fmu(exported_tyre(load_vehicle("hmmwv"), "fl", "tmeasy"), tmp_path / "tyre.fmu", 2, [own_platform()])
    master = Master(tmp_path / "tyre.fmu")
    for height, loaded in ((1.0, False), (0.0, False), (-1.0, False), (0.46, True)):
        master.set(**{"wheel_state.pos.z": height})
        assert (master.get(LOAD)[5] > 0.0) is np.bool_(loaded)
    master.close()


def test_a_system_of_chassis_and_four_tyres(tmp_path, capsys):
    chassis = write_chassis(tmp_path / "chassis.fmu")
    words = ["--vehicle", "hmmwv", "--tyre", "tmeasy", "--chassis", str(chassis), "--out", str(tmp_path / "car.ssp")]
    assert main(["export", "tyre", *words]) == 0
    assert "tmeasy_tyre of hmmwv, fl, fr, rl, rr on" in capsys.readouterr().err
    with zipfile.ZipFile(tmp_path / "car.ssp") as archive:
        structure = archive.read("SystemStructure.ssd").decode()
        assert archive.read("resources/chassis.fmu") == chassis.read_bytes()
    assert len(re.findall("<ssd:Component ", structure)) == 5
    assert structure.count('endElement="tyre_') == 4 * 13 and structure.count('startElement="tyre_') == 4 * 9
    assert 'startConnector="steering" endElement="chassis"' in structure
    assert main(["fmu", "info", str(tmp_path / "car.ssp")]) == 0
    assert "tyre_rr.wheel_load.force.z to chassis.wheel_RR.force.z" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "reason"), [
    (["--tyre", "bekker_wong", "--out", "a.fmu"], "tyre bekker_wong needs soil of its ground"),
    (["--tyre", "magic_formula", "--out", "a.fmu"], "--tyre must be one of fiala, tmeasy"),
    (["--wheel", "rm", "--out", "a.fmu"], "invalid choice: 'rm'"), (["--out", "a.ssp"], "ends in .fmu"),
    (["--chassis", "chassis.fmu", "--out", "a.fmu"], "ends in .ssp"),
    (["--step", "0.01", "--tyre", "tmeasy", "--out", "a.fmu"], "step 0.01 s"),
    (["--chassis", "lacking.fmu", "--out", "a.ssp"], "lacking.fmu: no output wheel_RL.rot.e2; wheels are named as those of Chrono"),
    (["--chassis", "none.fmu", "--out", "a.ssp"], "none.fmu: No such file"),
    (["--platform", "vms", "--out", "a.fmu"], "no such platform")])
def test_bad_arguments_are_one_line(words, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_chassis(tmp_path / "lacking.fmu", without="wheel_RL.rot.e2")
    try:
        assert main(["export", "tyre", "--vehicle", "hmmwv", *words]) != 0
    except SystemExit as error:
        assert error.code != 0
    said = capsys.readouterr().err
    assert reason in said and "Traceback" not in said and not list(tmp_path.glob("a.*"))
