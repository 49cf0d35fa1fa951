"""The Magic Formula against an independent implementation, its slopes, guards and sides, and in batches, derivatives and the controller."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from lfdm_ros.backends import ARRAYS
from lfdm_ros.control import Controller, Settings
from lfdm_ros.errors import InputError
from lfdm_ros.models import Patch, Record, Wheel, all_parameters
from lfdm_ros.models.declaration import OUTPUTS
from lfdm_ros.models.magic_formula import MagicFormula, RelaxingMagicFormula
from lfdm_ros.simulation import BatchRollout, InputProfile, Simulator, forward_sensitivity, initial_state, rollout
from lfdm_ros.vehicles import load_vehicle, save_vehicle
from lfdm_ros.vehicles.tir_file import read_tir

DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).resolve().parents[2]
OUTPUT_INDEX = {field.name: i for i, field in enumerate(OUTPUTS)}
REFERENCES = np.loadtxt(DATA / "magic_formula.txt")


def tyre(version: int, kind=MagicFormula, **changes: float):
    """A tyre by the file of this version, and what it prepares."""
    made = kind(ARRAYS)
    return made, made.prepare(SimpleNamespace(**read_tir(DATA / f"passenger_{version}.tir") | changes))


def wheel(load, inclination=0.0, speed=16.7, lateral=0.0, omega=0.0, side=1.0, friction=1.0, **more) -> Wheel:
    values = (np.asarray(value, float) for value in (speed, lateral, 1.0, 0.0, omega, load, 0.3))
    return Wheel(True, *values, Record(), Patch(friction=friction), inclination=np.asarray(inclination, float), side=side, **more)


@pytest.mark.parametrize(("version", "side"), [(61, 1.0), (52, -1.0)])
def test_forces_and_moments_are_those_of_another_implementation(version: int, side: float) -> None:
    """To rounding, on the side of the file; the aligning moment to 1e-4 of the largest: the residual of the reference has cos(tan alpha) in
    place of cos' alpha (4.E47)."""
    rows = REFERENCES[REFERENCES[:, 0] == version]
    made, q = tyre(version, RelaxingMagicFormula)
    _, alpha, kappa, load, inclination, speed = rows[:, :6].T
    at = wheel(load, inclination, speed, side=side)
    k = made.evaluate(q, at, kappa, np.tan(alpha))
    found = np.array([k.fx, k.fy, k.mx, k.my, k.mz, *made.lengths(q, at)])
    error = np.abs(found - rows[:, 6:].T) / np.abs(rows[:, 6:]).max(axis=0)[:, None]
    np.testing.assert_array_less(error.max(axis=1), [1e-11, 1e-11, 1e-11, 1e-11, 1e-4, 1e-11, 1e-11])


@pytest.mark.parametrize("version", [61, 52])
def test_slopes_are_derivatives(version: int) -> None:
    """Of the forces in pure slip, where they are smooth."""
    made, q = tyre(version)
    rng, h = np.random.default_rng(1), 1e-6
    slip, at = rng.uniform(-0.3, 0.3, 50), wheel(rng.uniform(500.0, 8000.0, 50), rng.uniform(-0.1, 0.1, 50))
    by_s, by_t = made.evaluate(q, at, slip, 0.0 * slip), made.evaluate(q, at, 0.0 * slip, slip)
    later, before = ((made.evaluate(q, at, slip + d, 0.0 * slip).fx, made.evaluate(q, at, 0.0 * slip, slip + d).fy) for d in (h, -h))
    np.testing.assert_allclose(by_s.slope_x, (later[0] - before[0]) / (2.0 * h), rtol=1e-5, atol=1.0)
    # The lateral force of drive (RVY) is 0 here, its weight 1.
    np.testing.assert_allclose(by_t.slope_y, (later[1] - before[1]) / (2.0 * h), rtol=1e-5, atol=1.0)


def test_signs_are_those_of_iso_8855() -> None:
    """Slip to the left pushes to the right and the moment turns to the left; a top to the right pushes to the right; drive pushes ahead."""
    made, q = tyre(61)
    plain = made.evaluate(q, wheel(4000.0), 0.0, 0.0)
    slipping, leaning, driven = (made.evaluate(q, wheel(4000.0, lean), s, t) for lean, s, t in ((0, 0, 0.03), (0.05, 0, 0), (0, 0.03, 0)))
    assert slipping.fy < plain.fy - 1000.0 and slipping.mz > plain.mz + 10.0
    assert leaning.fy < plain.fy - 50.0
    assert driven.fx > plain.fx + 1000.0
    assert plain.my < 0.0 < made.evaluate(q, wheel(4000.0, speed=-16.7), 0.0, 0.0).my


def test_guards() -> None:
    """No load gives nothing; loads, slips and inclination beyond their ranges give what their limits give; nothing is no number."""
    made, q = tyre(61)
    none = made.evaluate(q, wheel(0.0, 0.05), 0.1, 0.1)
    assert [none.fx, none.fy, none.mx, none.my, none.mz] == [0.0] * 5
    for beyond, limit in ((wheel(3e4), wheel(1e4)), (wheel(4e3, 0.5), wheel(4e3, 0.175)), (wheel(4e3, -0.5), wheel(4e3, -0.175))):
        assert made.evaluate(q, beyond, 0.05, 0.05).fy == made.evaluate(q, limit, 0.05, 0.05).fy
    assert made.evaluate(q, wheel(4e3), 9.0, 0.0).fx == made.evaluate(q, wheel(4e3), 1.5, 0.0).fx
    rng = np.random.default_rng(2)
    speed, lateral, omega = rng.uniform(-30, 30, 500), rng.uniform(-30, 30, 500), rng.uniform(-100, 100, 500)
    speed[:100], lateral[50:150], omega[100:200] = 0.0, 0.0, 0.0
    for locked in (0.0, 1.0):
        contact = made.forces(q, wheel(rng.uniform(0, 2e4, 500), rng.uniform(-1, 1, 500), speed, lateral, omega, locked=locked,
                                       any_locked=locked))
        values = [contact.fx, contact.fy, contact.kx, contact.ky, contact.mx, contact.mz, contact.friction]
        assert all(np.isfinite(value).all() for value in values) and (contact.kx >= 0.0).all() and (contact.ky >= 0.0).all()


def test_shifts_fade_out_at_standstill_and_turn_round_in_reverse() -> None:
    """Ply steer pushes to one side ahead and to the other in reverse; a wheel that stands feels none, of an axle both cancel."""
    made, q = tyre(61)
    ahead, still, back = (made.evaluate(q, wheel(4000.0, speed=speed), 0.0, 0.0).fy for speed in (16.7, 0.0, -16.7))
    assert ahead == pytest.approx(-back) and abs(ahead) > 50.0 and still == 0.0
    assert made.evaluate(q, wheel(4000.0, side=0.0), 0.0, 0.0).fy == 0.0
    left, right = (made.evaluate(q, wheel(4000.0, sign * 0.05, side=sign), 0.04, sign * 0.1) for sign in (1.0, -1.0))
    np.testing.assert_allclose([left.fx, left.fy, left.mx, left.my, left.mz], [right.fx, -right.fy, -right.mx, right.my, -right.mz])


def test_less_friction_leaves_less_force_and_the_same_stiffness() -> None:
    made, q = tyre(61)
    dry, ice = (made.evaluate(q, wheel(4000.0, friction=friction, side=0.0), 0.0, np.array([1e-4, 0.3])).fy for friction in (1.0, 0.2))
    assert ice[0] == pytest.approx(dry[0], rel=0.01) and 0.1 < ice[1] / dry[1] < 0.25


# -- Files ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "message"), [
    ("FITTYP = 61", "FITTYP = 94", r"line 15: FITTYP '94' is none of Magic Formula 5.2, 6.1 or 6.2"),
    ("FORCE = 'newton'", "FORCE = 'pound_force'", r"line 9: FORCE is in 'pound_force'; convert the file to SI, newton"),
    ("PCX1 = 1.579", "PCX1 = much", r"line \d+: PCX1 must be a number, not 'much'"),
    ("PCX1 = 1.579", "PCX1 = nan", r"line \d+: PCX1 must be finite"),
    ("PCX1 = 1.579", "$PCX1 = 1.579", r"PCX1 is missing, without which"),
    ("FNOMIN = 4000", "FNOMIN = -4000", r"line 32: FNOMIN = -4000 is outside 0 to 1e\+07"),
    ("TYRESIDE = 'LEFT'", "TYRESIDE = 'TOP'", r"line 17: TYRESIDE 'TOP'"),
    ("FITTYP = 61", "", r"FITTYP is missing"),
])
def test_a_file_that_is_wrong_names_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = (DATA / "passenger_61.tir").read_text()
    assert old in text
    (tmp_path / "wrong.tir").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=message) as error:
        read_tir(tmp_path / "wrong.tir")
    assert str(tmp_path / "wrong.tir") in str(error.value)


def test_what_a_file_gives() -> None:
    """Every parameter; comments, quotes, other sections and Fortran's exponents pass; what is missing has its default."""
    values = read_tir(DATA / "passenger_61.tir")
    assert values.keys() == {name for name in all_parameters() if name.startswith("mf_")}
    assert (values["mf_version"], values["mf_tyreside"], values["mf_q_v1"], values["mf_qsx12"]) == (61.0, 1.0, 7.742e-4, 0.0)
    older = read_tir(DATA / "passenger_52.tir")
    assert (older["mf_version"], older["mf_tyreside"], older["mf_pky4"], older["mf_lkyc"]) == (52.0, -1.0, 2.0, 1.07)


@pytest.fixture(scope="module")
def car(tmp_path_factory):
    """The sedan of the package on the tyres of a .tir file beside it."""
    folder = tmp_path_factory.mktemp("car")
    document = yaml.safe_load((ROOT / "config" / "vehicles" / "sedan.yaml").read_text())
    document["tyre"]["tir"] = "tyre.tir"
    (folder / "tyre.tir").write_text((DATA / "passenger_61.tir").read_text())
    (folder / "car.yaml").write_text(yaml.safe_dump(document | {"default_tyre": "magic_formula"}))
    return load_vehicle(folder / "car.yaml")


def test_a_vehicle_file_refers_to_it(car, tmp_path: Path) -> None:
    """Its values say where they are from; a vehicle that is saved has them in its own file."""
    assert car.sources["mf_pcx1"] == "tyre.tir" and {"magic_formula", "magic_formula_relaxed"} <= set(car.parts("tyre"))
    save_vehicle(car, tmp_path / "saved.yaml")
    assert load_vehicle(tmp_path / "saved.yaml") == car


# -- In models ------------------------------------------------------------------------------------------------------------------------


def turned(car, chassis: str, kind: str) -> np.ndarray:
    """The yaw rate of 4 s with a step of the steering at 0.5 s, a sample each 0.01 s."""
    simulator = Simulator(car, model=chassis, tyre=kind, dt=1e-3)
    simulator.reset(vx=15.0)
    profile = InputProfile([0.0, 0.5, 0.52, 4.0], [0.0, 0.0, 0.06, 0.06], [0.05] * 4, [0.0] * 4)
    _, outputs = rollout(simulator, profile, 4.0)
    return outputs[:, OUTPUT_INDEX["yaw_rate"]]


@pytest.mark.parametrize("chassis", ["eight_dof", "twenty_four_dof"])
def test_a_turn_with_and_without_relaxation(car, chassis: str) -> None:
    """Both end in the same turn, the relaxing tyre some hundredths of a second later."""
    steady, relaxed = (turned(car, chassis, kind) for kind in ("magic_formula", "magic_formula_relaxed"))
    assert relaxed[-1] == pytest.approx(steady[-1], rel=0.01) and 0.05 < steady[-1] < 0.5
    reached = [np.argmax(run > 0.5 * run[-1]) for run in (steady, relaxed)]
    assert 1 <= reached[1] - reached[0] <= 6


@pytest.mark.parametrize("kind", ["magic_formula", "magic_formula_relaxed"])
def test_a_parked_vehicle_stays(car, kind: str) -> None:
    """From walking pace it comes to a stand by its brakes; on its carcass it swings for a while."""
    simulator = Simulator(car, model="eight_dof", tyre=kind, dt=1e-3)
    simulator.reset(vx=2.0)
    _, outputs = rollout(simulator, InputProfile([0.0, 4.0], [0.1] * 2, [0.0] * 2, [0.3] * 2), 4.0)
    assert np.abs(outputs[-100:, OUTPUT_INDEX["vx"]]).max() < {"magic_formula": 1e-6, "magic_formula_relaxed": 1e-3}[kind]


def test_coefficients_are_inferred_in_batches(car) -> None:
    """Exact derivatives by coefficients are those of differences between the vehicles of a batch."""
    times, names = np.linspace(0.0, 1.0, 11), ["mf_pky1", "mf_pdy1", "mf_qdz1", "mf_phy1"]
    common = {"model": car.spec("eight_dof"), "vehicle": car, "dt": 1e-3, "times": times, "channels": ["yaw_rate"],
              "inputs": np.tile([0.1, 0.1, 0.0], (11, 1)), "parameters": names}
    x0 = initial_state(common["model"], car, vx=15.0)
    exact = forward_sensitivity(x0=x0, method="exact", **common).sensitivities[-1, 0]
    values, steps = np.array([car.parameters[name] for name in names]), np.diag([1e-3, 1e-5, 1e-5, 1e-6])
    runs = BatchRollout(**common).trajectories(np.concatenate([values + steps, values - steps]), x0)[:, -1, 0]
    np.testing.assert_allclose(exact, (runs[:4] - runs[4:]) / (2.0 * steps.diagonal()), rtol=1e-4, atol=1e-9)
    assert (exact != 0.0).all()


def test_the_controller_plans_with_it(car) -> None:
    controller = Controller(car, Settings(model=car.spec("eight_dof"), time_budget=0.0))
    assert controller.cycle(0.0).outcome
