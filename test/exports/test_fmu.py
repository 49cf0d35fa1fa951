"""FMUs, driven by FMPy: every bit as `Simulator`, derivatives against CasADi, states saved, bad values refused."""

import ctypes
import dataclasses
import itertools
import re
import zipfile
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from c_compiler import needs_cc

from lfdm_ros.backends import casadi_model
from lfdm_ros.bags.grounds import find_ground
from lfdm_ros.errors import InputError
from lfdm_ros.exports.fmu_file import terminals, write_fmu
from lfdm_ros.exports.library import own_platform, platforms_named
from lfdm_ros.exports.variables import TUNABLE, exported, exported_tyre
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import load_vehicle

fmpy = pytest.importorskip("fmpy")
from masters import INTERVAL, Master, native, profile  # noqa: E402

pytestmark = needs_cc


@pytest.fixture(scope="module")
def fmus(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("fmus"), {}

    def make(vehicle: str, model: str, version: int) -> tuple[Path, object]:
        key = vehicle, model, version
        if key not in made:
            path = folder / f"{re.sub('[^a-z0-9]', '_', '_'.join(map(str, key)))}.fmu"
            export = exported(load_vehicle(vehicle), model)
            write_fmu(export, path, version, [own_platform()])
            made[key] = path, export
        return made[key]

    return make


def states(export) -> list[str]:
    return [f"state.{f.name}" for f in export.model.states]


def test_inputs_of_the_end_of_a_step_are_linear_from_those_of_its_start(fmus):
    path, export = fmus("hmmwv", "twenty_four_dof", 3)
    rows = profile(2.0)
    master = Master(path, linear=True, **dict(zip(("steering", "throttle", "brake"), rows[0])))
    found = master.drive(states(export), np.vstack([rows[1:], rows[-1]]), INTERVAL, held=True)
    np.testing.assert_allclose(found, native("hmmwv", "twenty_four_dof", rows, 0.0), rtol=1e-9, atol=1e-12)  # inputs without a slope
    master.close()


def test_outputs_are_those_of_the_simulator(fmus):
    path, export = fmus("hmmwv", "eighteen_dof", 2)
    simulator, master = Simulator(load_vehicle("hmmwv"), "eighteen_dof"), Master(path, start__vx=12.0)
    simulator.reset(vx=12.0)
    u = np.array([0.2, 0.3, 0.0])
    simulator.advance(u, u, 10)
    master.drive(states(export), np.array([u, u]), INTERVAL)
    names = [name for name in simulator.output_names if name in export.model.computed_outputs]
    expected = [simulator.outputs[simulator.output_index[name]] for name in names]
    np.testing.assert_allclose(master.get(names), expected, rtol=1e-12, atol=1e-9)
    master.close()


@pytest.mark.parametrize("version", [2, 3])
def test_a_saved_state_is_driven_on_to_the_bit_also_as_bytes_and_beside_another_instance(fmus, version):
    path, export = fmus("hmmwv", "eighteen_dof" if version == 2 else "twenty_four_dof", version)
    names, rows = states(export), profile(2.0)
    first, second = Master(path, start__vx=5.0), Master(path, start__vx=9.0)
    first.drive(names, rows[:50], INTERVAL)
    get, put = (getattr(first.fmu, name) for name in (("getFMUstate", "setFMUstate") if version == 2 else ("getFMUState", "setFMUState")))
    pack, unpack = (getattr(first.fmu, name) for name in (("serializeFMUstate", "deSerializeFMUstate") if version == 2
                                                          else ("serializeFMUState", "deserializeFMUState")))
    kept = pack(get())
    u = dict(zip(("steering", "throttle", "brake"), rows[50]))

    def go_on() -> np.ndarray:
        first.set(**u)
        first.fmu.doStep(0.49, INTERVAL)
        second.set(throttle=0.1)
        second.fmu.doStep(second.fmu_time, INTERVAL)
        second.fmu_time += INTERVAL
        return first.get(names)

    second.fmu_time = 0.0
    expected = go_on()
    put(unpack(kept))
    np.testing.assert_array_equal(go_on(), expected)
    for master in (first, second):
        master.close()


def test_a_damaged_state_is_refused_and_the_run_goes_on(fmus):
    path, export = fmus("hmmwv", "eighteen_dof", 2)
    master = Master(path, start__vx=5.0)
    good = master.fmu.serializeFMUstate(master.fmu.getFMUstate())
    before = master.get(states(export))
    for place, bad in ((0, b"\xff"), (len(good) - 8, b"\xff"), (8, b"\xff"), (len(good) - 16, b"\x07")):
        damaged = good[:place] + bad * 8 + good[place + 8:]
        with pytest.raises(fmpy.fmi1.FMICallException):
            master.fmu.setFMUstate(master.fmu.deSerializeFMUstate(damaged))
        np.testing.assert_array_equal(master.get(states(export)), before)
    master.fmu.doStep(0.0, INTERVAL)
    master.close()


def test_a_parameter_that_is_tuned_drives_as_the_vehicle_with_it(fmus):
    path, export = fmus("hmmwv_multibody", "multibody_hmmwv", 2)
    names, rows = states(export), profile(2.0)
    heavier = load_vehicle("hmmwv_multibody").replace(**{name: 1.1 * load_vehicle("hmmwv_multibody").parameters[name]
                                                         for name in ("sprung_mass",)})
    simulator, master = Simulator(heavier, "multibody_hmmwv"), Master(path, sprung_mass=heavier.parameters["sprung_mass"])
    np.testing.assert_allclose(master.get(names), simulator.state, rtol=0, atol=1e-7)  # it stands lower, found by another Newton
    assert abs(master.get(["state.z"])[0] - export.rest[names.index("state.z")]) > 1e-3
    found = master.drive(names, rows, INTERVAL)
    for now, following in itertools.pairwise(rows):
        simulator.advance(now, following, 10)
    np.testing.assert_allclose(found[-1], simulator.state, rtol=1e-5, atol=1e-5)
    master.close()


@pytest.mark.parametrize(("model", "version", "kind"), [("eighteen_dof", 2, "CoSimulation"), ("eighteen_dof", 2, "ModelExchange"),
                                                        ("twenty_four_dof", 3, "ModelExchange")])
def test_directional_derivatives_are_those_of_casadi(fmus, model, version, kind):
    path, export = fmus("hmmwv", model, version)
    master = Master(path, kind, start__vx=15.0)
    if kind == "CoSimulation":
        master.drive(states(export), profile(3.0), INTERVAL)
    else:
        master.set(steering=0.1, throttle=0.4)
    x, p = master.get(states(export)), load_vehicle("hmmwv").vector(export.model)
    u = master.get([f.name for f in export.model.inputs])
    if kind == "ModelExchange":
        master.get(["der(state.vx)"])  # held states are solved for
        x = master.get(states(export))
    rng = np.random.default_rng(1)
    functions = casadi_model(export.model)
    held, free = export.places("held"), export.places("continuous")
    seed_x, seed_u, seed_p = (rng.standard_normal(n) for n in (len(x), len(u), len(p)))
    seed_p *= 1e-3 * np.abs(p)
    seed_x[held] = 0.0
    by_x, by_u, by_p = (np.array(j) for j in functions.rhs_jacobian(x, u, p))
    if kind == "ModelExchange":
        right = by_x[held] @ seed_x + by_u[held] @ seed_u + by_p[held] @ seed_p
        seed_x[held] = -np.linalg.solve(by_x[np.ix_(held, held)], right)
    expected = (by_x @ seed_x + by_u @ seed_u + by_p @ seed_p)[free]
    knowns = [*(f"state.{export.model.states[i].name}" for i in free), *(f.name for f in export.model.inputs),
              *(f.name for f in export.model.parameters)]
    unknowns = [f"der(state.{export.model.states[i].name})" for i in free]
    seeds = [*seed_x[free], *seed_u, *seed_p]
    if kind == "CoSimulation":
        assert (seed_x[held] == 0.0).all()
    found = master.directional(unknowns, knowns, seeds)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    if version == 3:
        # w (J v) = (J' w) v
        weights = rng.standard_normal(len(unknowns))
        of, by = ([master.references[name] for name in names] for names in (unknowns, knowns))
        gradient = (ctypes.c_double * len(by))()
        master.fmu.fmi3GetAdjointDerivative(
            master.fmu.component, (ctypes.c_uint32 * len(of))(*of), len(of), (ctypes.c_uint32 * len(by))(*by), len(by),
            (ctypes.c_double * len(of))(*weights), len(of), gradient, len(by))
        terms = np.array([*(np.array(gradient) * seeds), *(weights * found)])
        assert abs(np.dot(gradient, seeds) - np.dot(weights, found)) <= 1e-12 * np.sum(np.abs(terms))
    master.close()


def test_model_exchange_agrees_with_the_rule_of_the_steps_at_step_zero(fmus):
    """The half-implicit rule has an error of first order: extrapolated (Richardson) it meets a solver of the exported equations."""
    scipy = pytest.importorskip("scipy.integrate")
    path, export = fmus("hmmwv", "eighteen_dof", 2)
    names, free = states(export), export.places("continuous")
    master = Master(path, "ModelExchange", start__vx=10.0)
    master.fmu.enterContinuousTimeMode()
    n = len(free)
    memory = (ctypes.c_double * n)()

    def slopes(t: float, x: np.ndarray) -> np.ndarray:
        master.fmu.setTime(t)
        master.set(steering=0.1 * np.sin(t), throttle=0.3)
        master.fmu.setContinuousStates((ctypes.c_double * n)(*x), n)
        master.fmu.getDerivatives(memory, n)
        return np.array(memory)

    start = master.get(names)[free]
    solved = scipy.solve_ivp(slopes, (0.0, 1.0), start, method="Radau", rtol=1e-10, atol=1e-10).y[:, -1]
    ends = []
    for step in (4e-4, 2e-4, 1e-4):
        simulator = Simulator(load_vehicle("hmmwv"), "eighteen_dof", dt=step)
        simulator.reset(vx=10.0)
        count, width = round(1.0 / step), 25
        for k in range(0, count, width):
            u = [np.array([0.1 * np.sin(t), 0.3, 0.0]) for t in (k * step, (k + width) * step)]
            simulator.advance(*u, width)
        ends.append(simulator.state[free].copy())
    first = [2.0 * ends[1] - ends[0], 2.0 * ends[2] - ends[1]]
    np.testing.assert_allclose((4.0 * first[1] - first[0]) / 3.0, solved, rtol=1e-6, atol=1e-6)
    master.close()


def test_casadi_imports_it_with_its_jacobian(fmus):
    path, export = fmus("hmmwv", "eighteen_dof", 2)
    builder = ca.DaeBuilder("vehicle", str(path), {"debug": False})
    f = builder.create("f", ["x", "u"], ["ode"])
    names, free = states(export), export.places("continuous")
    master = Master(path, "ModelExchange", start__vx=10.0)
    master.get(["der(state.vx)"])
    x = dict(zip(names, master.get(names)))
    at = np.array([x[name] for name in builder.x()])
    u = np.zeros(len(builder.u()))
    jacobian = np.array(f.factory("j", ["x", "u"], ["jac:ode:x"])(at, u))
    columns = list(builder.x())
    assert sorted(columns) == sorted(names[i] for i in free)
    by_x = np.array(casadi_model(export.model).rhs_jacobian([x[name] for name in names], u, load_vehicle("hmmwv").vector(export.model))[0])
    held = export.places("held")  # which follow the others
    expected = by_x[np.ix_(free, free)] - by_x[np.ix_(free, held)] @ np.linalg.solve(by_x[np.ix_(held, held)], by_x[np.ix_(held, free)])
    order = [columns.index(names[i]) for i in free]
    np.testing.assert_allclose(jacobian[np.ix_(order, order)], expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())
    master.close()


def test_libcosim_drives_it_to_the_same_bits(fmus):
    """Another importer, in C++ on FMI Library."""
    cosim = pytest.importorskip("libcosimpy", reason="the oracle libcosim is not installed: pip install libcosimpy")
    from libcosimpy import CosimExecution, CosimManipulator, CosimObserver, CosimSlave

    assert cosim
    (path, export), rows = fmus("hmmwv", "eighteen_dof", 2), profile()
    execution = CosimExecution.CosimExecution.from_step_size(round(INTERVAL * 1e9))
    slave = execution.add_local_slave(CosimSlave.CosimLocalSlave(str(path), "vehicle"))
    drivers, observer = CosimManipulator.CosimManipulator.create_override(), CosimObserver.CosimObserver.create_last_value()
    assert execution.add_manipulator(drivers) and execution.add_observer(observer)
    execution.boolean_initial_value(slave, export.first["linear"], True)
    for reference, value in ((export.first["place"] + 3, 5.0), *enumerate(rows[0])):
        execution.real_initial_value(slave, reference, float(value))
    states = [export.first["x"] + i for i in range(len(export.model.states))]
    for following, expected in zip(rows[1:], native("hmmwv", "eighteen_dof", rows, 5.0, slopes=False)):
        assert drivers.slave_real_values(slave, [0, 1, 2], list(map(float, following)))
        assert execution.step()
        np.testing.assert_array_equal(observer.last_real_values(slave, states), expected)


def test_bad_values_are_refused_and_change_nothing(fmus):
    path, export = fmus("hmmwv", "eighteen_dof", 2)
    master = Master(path, start__vx=3.0)
    before = master.get([v.name for v in export.variables])
    for values in ({"steering": float("nan")}, {"throttle": 1.5}, {"sprung_mass": -1.0}, {"start__vx": 1.0}, {"vx": 1.0},
                   {"sprung_mass": float("inf")}):
        with pytest.raises(fmpy.fmi1.FMICallException):
            master.set(**values)
    with pytest.raises(fmpy.fmi1.FMICallException):
        master.fmu.getReal([12345])
    for time, interval in ((0.0, 0.0), (0.0, -1.0), (0.0, float("nan")), (1.0, 0.01)):
        with pytest.raises(fmpy.fmi1.FMICallException):
            master.fmu.doStep(time, interval)
    np.testing.assert_array_equal(master.get([v.name for v in export.variables]), before)
    master.close()


def test_a_run_that_diverges_is_an_error_and_leaves_the_state_before(fmus):
    path, export = fmus("hmmwv", "twenty_four_dof", 3)
    master = Master(path, start__vx=20.0)
    master.set(state__roll_rate=1e200)
    before = master.get(states(export))
    with pytest.raises(fmpy.fmi1.FMICallException):
        master.fmu.doStep(0.0, 1.0)
    np.testing.assert_array_equal(master.get(states(export)), before)
    master.close()


def test_two_vehicles_in_one_global_namespace_keep_their_own_equations(fmus):
    names = []
    for vehicle, model in (("hmmwv", "eighteen_dof"), ("sedan", "eight_dof")):
        path, _ = fmus(vehicle, model, 2)
        with zipfile.ZipFile(path) as archive:
            (name,) = [n for n in archive.namelist() if n.endswith(".so")]
            names.append(path.with_suffix(".so"))
            names[-1].write_bytes(archive.read(name))
    for name in names:
        ctypes.CDLL(str(name), mode=ctypes.RTLD_GLOBAL)
    for vehicle, model in (("sedan", "eight_dof"), ("hmmwv", "eighteen_dof")):
        path, export = fmus(vehicle, model, 2)
        master, rows = Master(path, start__vx=5.0), profile(1.0)
        np.testing.assert_array_equal(master.drive(states(export), rows, INTERVAL), native(vehicle, model, rows, 5.0))
        master.close()


def test_the_same_file_whenever_it_is_written(fmus, tmp_path):
    path, export = fmus("hmmwv", "linear_single_track", 3)
    write_fmu(export, tmp_path / "again.fmu", 3, [own_platform()])
    assert (tmp_path / "again.fmu").read_bytes() == path.read_bytes()


def test_any_name_of_a_vehicle_gives_a_library_that_loads(tmp_path):
    odd = dataclasses.replace(load_vehicle("hmmwv"), name='4x4 "Jörg" */', description="ein <Auto> & mehr")
    write_fmu(exported(odd, "linear_single_track"), tmp_path / "a.fmu", 2, [own_platform()])
    master = Master(tmp_path / "a.fmu", start__vx=10.0)
    assert master.get(["vx"])[0] == 10.0
    master.close()


def test_every_parameter_is_tunable_with_unit_bounds_and_source(fmus):
    path, export = fmus("hmmwv", "eighteen_dof", 2)
    description = fmpy.read_model_description(str(path))
    parameters = {v.name: v for v in description.modelVariables if v.variability == "tunable"}
    assert set(parameters) == {f.name for f in export.model.parameters} == {v.name for v in export.variables if v.kind == TUNABLE}
    mass = parameters["sprung_mass"]
    assert (mass.unit, float(mass.start)) == ("kg", load_vehicle("hmmwv").parameters["sprung_mass"])
    assert 0.0 < float(mass.min) < 1e-300  # 0 itself is no mass
    units = {unit.name: unit.baseUnit for unit in description.unitDefinitions}
    stiffness = units["N.m/rad"]
    assert (stiffness.kg, stiffness.m, stiffness.s, stiffness.rad) == (1, 2, -2, -1)
    assert all(unit for name, unit in units.items() if "(" not in name)


@pytest.mark.parametrize(("export", "expected"), [
    (exported(load_vehicle("hmmwv"), "eight_dof/given_ground"),
     {"driver": {"throttle"}, **{f"wheel_{wheel}": {"tyre_fz", "ground_height"} for wheel in ("fl", "fr", "rl", "rr")}}),
    (exported_tyre(load_vehicle("hmmwv"), "fl", "fiala"),
     {"wheel": {"state.rot.e0", "load.force.z"}, "road": {"terrain_mu", "query_point.x"}})], ids=("vehicle", "tyre"))
def test_terminals_group_the_variables_of_fmi_3(export, expected):
    etree = pytest.importorskip("lxml.etree")
    schema = etree.XMLSchema(file=str(Path(fmpy.__file__).parent / "schema" / "fmi3" / "fmi3TerminalsAndIcons.xsd"))
    root = etree.fromstring(terminals(export))
    schema.assertValid(root)
    groups = {terminal.get("name"): {member.get("memberName"): member.get("variableName") for member in terminal}
              for terminal in root.iter("Terminal")}
    assert groups.keys() == expected.keys()
    assert all(members <= groups[name].keys() for name, members in expected.items())
    named = [name for members in groups.values() for name in members.values()]
    assert len(named) == len(set(named)) and set(named) <= {v.name for v in export.variables}


def test_refusals_name_the_reason(tmp_path):
    hmmwv = load_vehicle("hmmwv")
    ground = VehicleOnGround(hmmwv, find_ground("ice_in_the_bend"))
    with pytest.raises(InputError, match="reads its ground from arrays"):
        write_fmu(exported(ground.vehicle, "eighteen_dof", ground.tyre("eighteen_dof", None)), tmp_path / "a.fmu", 2, [own_platform()])
    with pytest.raises(InputError, match="linux64"):
        platforms_named("linux32")
    with pytest.raises(InputError, match=r"step 0\.5 s"):
        exported(hmmwv, "eighteen_dof", step=0.5)
    assert not list(tmp_path.iterdir())
    assert platforms_named("macos,linux64") == ["macos-x86_64", "macos-arm64", "linux64"]


@pytest.mark.parametrize("platform", ["aarch64-linux", "macos"])
def test_libraries_for_others_have_their_form(platform, tmp_path):
    pytest.importorskip("ziglang", reason="the extra 'export' is not installed")
    export = exported(load_vehicle("hmmwv"), "linear_single_track")
    write_fmu(export, tmp_path / "a.fmu", 3, platforms_named(platform))
    with zipfile.ZipFile(tmp_path / "a.fmu") as archive:
        libraries = {name: archive.read(name) for name in archive.namelist() if name.startswith("binaries")}
    magic = {"aarch64-linux": b"\x7fELF", "macos": b"\xcf\xfa\xed\xfe"}[platform]
    assert len(libraries) == len(platforms_named(platform))
    for data in libraries.values():
        assert data.startswith(magic)
        assert b"fmi3DoStep" in data
