"""The ground: how long friction fields, their conditioning and their look-up take, and what a field costs a batch of vehicles.

`lfdm bench terrain`, or `python benchmarks/terrain.py`; of soft soil three numbers of `lfdm bench soil`. Beside ours, in the same run and
in turn: SciPy's splines for the look-up, GSTools for fields and conditioning where it is installed. `lookup_ns` is of one point after the
other on one core, but for `simd`; `cubic` is the formula of the ground `friction_field`, with the link to friction, `bilinear` that of
`friction_map`, the same field in cells of half its spacing (`map_error`: how far it is off).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np
from scipy import ndimage
from scipy.interpolate import RectBivariateSpline

from lfdm_lab.benchmarks import risk as risk_benchmark
from lfdm_lab.benchmarks import soil
from lfdm_lab.cli.bench import Record, format_table
from lfdm_ros.backends.casadi_backend import OPERATIONS
from lfdm_ros.compiler import Code
from lfdm_ros.compiler.graph import graph_of
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL, TRIPLE, here, machine_code
from lfdm_ros.ground import Embedding, FieldPosterior, FieldPrior, FieldTable, FrictionField, FrictionMap, Grid, Observations
from lfdm_ros.models.friction_field import FrictionFieldGround
from lfdm_ros.models.friction_map import FrictionMapGround
from lfdm_ros.sharing.risk import RiskRollouts, RiskSettings
from lfdm_ros.simulation import BatchRollout, initial_state
from lfdm_ros.vehicles import load_vehicle

SIDE, SPACING, SEEN = 256, 0.5, 200
PRIOR = FieldPrior(alpha_x=3.0, alpha_y=3.0, sigma_f=1.5)
GRID = Grid(-20.0, -40.0, SPACING, SIDE, SIDE)
# Pieces of work are short and many, and the fastest counts: what else the machine does then falls between them.
POINTS, REPEATS = 20_000, 40
VEHICLES, STEP, SAMPLE, SECONDS, SPEED = 1024, 1e-3, 0.01, 0.1, 15.0
CHASSIS = ("eight_dof", "eighteen_dof")


def measure(runs: int) -> list[Record]:
    """All numbers of `lfdm bench terrain`."""
    return [*fields(runs), *lookups(runs), *rollouts(runs), *risk(runs), *soil_wheel(runs)]


def quickest(run: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of a few calls, after one that is not counted."""
    run()
    best = np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best


# -- Fields -------------------------------------------------------------------------------------------------------------------


def observations() -> Observations:
    rng = np.random.default_rng(2)
    ends = np.array([[GRID.xs[0], GRID.ys[0]], [GRID.xs[-1], GRID.ys[-1]]])
    return Observations(rng.uniform(ends[0], ends[1], (SEEN, 2)), PRIOR.sigma_f * rng.standard_normal(SEEN), np.full(SEEN, PRIOR.sigma_n))


def fields(runs: int) -> list[Record]:
    """A pair of fields; what it takes to condition one of them, observations' matrix included; mean and deviation."""
    embedding, seen, rng = Embedding(PRIOR, GRID), observations(), np.random.default_rng(1)
    drawn = Embedding(PRIOR, GRID).draw(1, rng)
    known = FieldPosterior(PRIOR, GRID, seen)
    found = [("fields_ms/256", lambda: embedding.pair(rng)),
             ("condition_ms/200", lambda: FieldPosterior(PRIOR, GRID, seen).condition(drawn, rng)),
             ("condition_ms/200/next", lambda: known.condition(drawn, rng)),
             ("mean_ms/200", known.mean), ("sd_ms/200", known.sd)]
    records = [Record.of(name, [1e3 * quickest(run, 10) for _ in range(runs)], "ms") for name, run in found]
    if find_spec("gstools"):
        import gstools

        model = gstools.Gaussian(dim=2, var=PRIOR.sigma_f**2, len_scale=[PRIOR.alpha_x, PRIOR.alpha_y], rescale=1.0)
        field = gstools.SRF(model, seed=1)
        krige = gstools.krige.Simple(model, seen.places.T, seen.latent, mean=0.0, exact=False, cond_err=seen.noise**2)
        records += [Record.of(f"{name}/gstools", [1e3 * quickest(run, 1)], "ms") for name, run in (
            ("fields_ms/256", lambda: [field.structured([GRID.xs, GRID.ys]) for _ in range(2)]),
            ("condition_ms/200", lambda: krige.structured([GRID.xs, GRID.ys], return_var=False)))]
    return records


# -- The look-up --------------------------------------------------------------------------------------------------------------


def lookup(kind: str, lanes: int) -> Callable[[float, np.ndarray, np.ndarray, np.ndarray], None]:
    """f(number, x (n,), y (n,), friction (n,)): a loop over the points, so many at a time."""
    number, x, y = (ca.SX.sym(name) for name in ("number", "x", "y"))
    ground: Any = (FrictionFieldGround if kind == "cubic" else FrictionMapGround)(OPERATIONS)
    q = ground.prepare(SimpleNamespace(friction_field=number, friction_map=number, friction_scale=1.0))
    value = ground.under(0, x, y, None, q).friction
    function = ca.Function("friction", [number, x, y], [value])

    def text() -> str:
        graph = graph_of(function)
        (of_number,), (of_x,), (of_y,) = graph.inputs
        code = Code(graph, {"number": "double", "x": "ptr", "y": "ptr", "friction": "ptr", "count": "i64"}, lanes=lanes)
        needed, moving = graph.reachable(graph.outputs[0]), graph.depends([of_x, of_y])
        code.bind(of_number, code.repeated("%number", code.value))
        code.emit(i for i in needed if not moving[i])
        with code.loop("0", "%count", lanes) as i:
            for node, array in ((of_x, "%x"), (of_y, "%y")):
                code.bind(node, code.load(code.element(array, i, "double"), 0, code.value))
            code.emit(i for i in needed if moving[i])
            code.store(code.get(graph.outputs[0][0]), code.element("%friction", i, "double"), 0, code.value)
        return code.text("look_up", TRIPLE)

    key = f"bench terrain {kind} {lanes} {function.serialize()}"
    call = machine_code(key, text).function("look_up", [REAL, POINTER, POINTER, POINTER, INTEGER])
    return lambda number, x, y, friction: call(number, x.ctypes.data, y.ctypes.data, friction.ctypes.data, len(x))


def lookups(runs: int) -> list[Record]:
    """Nanoseconds a point: places at random on the whole map, and along a way as a wheel takes it."""
    field = FrictionField(GRID, FieldPosterior(PRIOR, GRID).draw(1, np.random.default_rng(3))[0])
    table, fine, rng = FieldTable(field), FrictionMap(field), np.random.default_rng(4)
    count = POINTS - POINTS % 64
    x, y = rng.uniform(GRID.xs[0], GRID.xs[-1], count), rng.uniform(GRID.ys[0], GRID.ys[-1], count)
    way = np.linspace(0.0, 1.0, count)
    wx, wy = GRID.xs[0] + 120.0 * way, GRID.ys[0] + 60.0 + 30.0 * np.sin(12.0 * way)
    rows, columns, friction = (y - GRID.y) / SPACING, (x - GRID.x) / SPACING, np.empty(count)
    theirs, coefficients = RectBivariateSpline(GRID.ys, GRID.xs, field.latent, s=0), ndimage.spline_filter(field.latent, 3, mode="mirror")
    (cubic, wide), (linear, wide_linear) = ((lookup(kind, 1), lookup(kind, here().lanes())) for kind in ("cubic", "bilinear"))
    found: list[tuple[str, Callable[[], object]]] = [
        ("cubic", lambda: cubic(table.number, x, y, friction)), ("cubic/way", lambda: cubic(table.number, wx, wy, friction)),
        ("bilinear", lambda: linear(fine.number, x, y, friction)), ("cubic/simd", lambda: wide(table.number, x, y, friction)),
        ("bilinear/simd", lambda: wide_linear(fine.number, x, y, friction)),
        ("scipy_map_coordinates", lambda: ndimage.map_coordinates(coefficients, [rows, columns], order=3, mode="mirror", prefilter=False)),
        ("scipy_fitpack", lambda: theirs.ev(y, x))]
    records = [Record.of(f"lookup_ns/{name}", [1e9 * quickest(run) / count for _ in range(runs)], "ns") for name, run in found]
    cubic(table.number, x, y, friction)
    return [*records, Record.of("lookup_error/cubic", [float(np.abs(friction - field.link.friction(ndimage.map_coordinates(
        coefficients, [rows, columns], order=3, mode="mirror", prefilter=False))).max())], "1"), Record.of("map_error", [fine.error], "1")]


# -- Rollouts -----------------------------------------------------------------------------------------------------------------


class Rollouts:
    """Vehicles that start all over the map, steering a little, with or without a field under them."""

    def __init__(self, chassis: str, numbers: np.ndarray | None, precision: str, ground: str = "friction_field", apart: bool = True):
        """`numbers` (VEHICLES,): of their fields, or of the maps of them; not apart: all start at one place, as rollouts of a plan do."""
        vehicle, rng = load_vehicle("hmmwv").replace(friction_field=0.0, friction_map=0.0), np.random.default_rng(5)
        times = np.arange(0.0, SECONDS + SAMPLE / 2, SAMPLE)
        model = vehicle.model(f"{chassis}/plane" if numbers is None else f"{chassis}/{ground}")
        names = ["sprung_mass"] if numbers is None else ["sprung_mass", ground]
        self.batch = BatchRollout(model=model, vehicle=vehicle, dt=STEP, times=times, inputs=np.tile([0.1, 0.2, 0.0], (len(times), 1)),
                                  parameters=names, channels=["vx"], precision=precision)
        masses = vehicle.parameters["sprung_mass"] * rng.uniform(0.8, 1.2, VEHICLES)
        self.theta = np.column_stack([masses] if numbers is None else [masses, numbers])
        self.x0 = np.repeat(initial_state(model, vehicle, vx=SPEED)[None], VEHICLES, axis=0)
        place = [[field.name for field in model.states].index(name) for name in ("x", "y", "yaw")]
        self.x0[:, place] = rng.uniform((0.0, -20.0, -3.0), (80.0, 70.0, 3.0), (VEHICLES, 3)) if apart else (20.0, 20.0, 0.3)
        self.observed = np.full((len(times), 1), np.nan)

    def run(self) -> None:
        self.batch.squared_errors(self.theta, self.x0, self.observed)


def rollouts(runs: int) -> list[Record]:
    """A step of a vehicle in a batch with a field, over the same without; all vehicles on one field, or each on its own of 64; the same
    with maps of the fields."""
    latent = FieldPosterior(PRIOR, GRID).draw(64, np.random.default_rng(6))
    fields = [FrictionField(GRID, one) for one in latent]
    tables, maps = [FieldTable(one, 0.8) for one in fields], [FrictionMap(one, 0.8) for one in fields]
    numbers, of_maps = (np.array([one.number for one in made]) for made in (tables, maps))
    each = np.arange(VEHICLES) % len(fields)
    records = []
    for chassis in CHASSIS:
        for precision in ("float64", "float32"):
            end = ("" if chassis == CHASSIS[0] else f"/{chassis}") + ("" if precision == "float64" else f"/{precision}")
            kinds = {"plane": Rollouts(chassis, None, precision),
                     "field": Rollouts(chassis, np.full(VEHICLES, numbers[0]), precision),
                     "one_each": Rollouts(chassis, numbers[each], precision),
                     "field_from_one_place": Rollouts(chassis, np.full(VEHICLES, numbers[0]), precision, apart=False),
                     "map": Rollouts(chassis, np.full(VEHICLES, of_maps[0]), precision, "friction_map"),
                     "map_each": Rollouts(chassis, of_maps[each], precision, "friction_map"),
                     "map_from_one_place": Rollouts(chassis, np.full(VEHICLES, of_maps[0]), precision, "friction_map", apart=False)}
            found: dict[str, list[float]] = {name: [] for name in kinds}
            for _ in range(runs):
                times = dict.fromkeys(kinds, np.inf)
                for _ in range(REPEATS):  # in turn, so that what else the machine does falls on all
                    for name, one in kinds.items():
                        times[name] = min(times[name], quickest(one.run, 1))
                for name, seconds in times.items():
                    found[name].append(1e9 * seconds / (VEHICLES * round(SECONDS / STEP)) if name == "plane" else seconds / times["plane"])
            records += [Record.of(f"vehicle_step_ns/plane{end}", found.pop("plane"), "ns"),
                        *(Record.of(f"rollout_ratio/{name}{end}", ratios, "1") for name, ratios in found.items())]
    return records


def risk(runs: int) -> list[Record]:
    """All 1,024 rollouts of shared control's risk, obstacles and corridor among them, with a field, or its map, over without."""
    drawn = FrictionField(GRID, FieldPosterior(PRIOR, GRID).draw(1, np.random.default_rng(7))[0])
    field, fine = FieldTable(drawn, 0.8), FrictionMap(drawn, 0.8)
    situation = risk_benchmark.example()
    vehicle = situation.vehicle.replace(friction_field=field.number, friction_map=fine.number)
    kinds = [RiskRollouts(vehicle, RiskSettings(clear=0.0, model=f"eight_dof/{ground}")) for ground in (
        "plane", "friction_field", "friction_map")]
    ratios: list[list[float]] = [[], []]
    for _ in range(runs):
        times = [np.inf] * len(kinds)
        for _ in range(REPEATS):
            for k, rollouts in enumerate(kinds):
                times[k] = min(times[k], rollouts.assess(replace(situation, vehicle=vehicle)).seconds)
        for own, seconds in zip(ratios, times[1:]):
            own.append(seconds / times[0])
    return [Record.of(f"rollout_ratio/{name}", own, "1") for name, own in zip(("risk", "risk_map"), ratios)]


def soil_wheel(runs: int) -> list[Record]:
    """Of `lfdm bench soil`, which says more: a wheel by the exact integrals, one in a batch, and its largest error as a share of the load,
    of soils whose exponent is not below 0.4."""
    plain, sinking = (soil.batch_of(spec, runs, False) for spec in ("eighteen_dof/fiala", "eighteen_dof/bekker_wong/soil"))
    easy = [found for name, found in soil.errors_of_soils().items() if soil.load_soil(name).sinkage_exponent >= soil.EASY]
    return [Record.of("soil_wheel_us/exact", [1e-3 * one for one in soil.wheel_alone(soil.Exact, runs)], "us"),
            Record.of("soil_wheel_ns/kernel", [(s - p) / 4.0 for s, p in zip(sinking, plain)], "ns"),
            Record.of("soil_wheel_error/kernel", [float(np.concatenate(easy).max())], "1")]


if __name__ == "__main__":
    print(format_table(measure(3)))
