"""Calibration of the risk: predictions at the beginning of episodes in which nobody intervenes, against their outcomes.

Each episode is a situation of its own seed: a speed, a command that is held by an unsteady hand, obstacles, a lane that bends. The risk
(`sharing.risk`) has the inputs of a node: a measured state, detected obstacles, draws of a posterior, a prior over the friction.
The outcome is simulated by a larger model, the chassis of 18 degrees of freedom at 1 ms, with a truth drawn from the same distributions:
one vehicle of the posterior, one friction, one place of each obstacle, one hand. That is the world which the risk knows. In the others one
of these differs: there the probability may be wrong, and `surprised` is the sign of it that a user has without knowing the truth. In the
last worlds an operator drives that was learned before (`driven_episodes`), and the risk assumes of it what it does by default.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import rankdata

from lfdm_lab.studies import STUDIES
from lfdm_lab.studies.driven_episodes import Driving, answer, question
from lfdm_ros.cache_key import SIMULATION_DEPENDENCIES, cache_key
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.routing.path import Path
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.models.spinning import sideslip
from lfdm_ros.numerics import binomial_interval
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.components import COMPONENTS, RiskThreat, make_components
from lfdm_ros.sharing.fleet import friction_draws
from lfdm_ros.sharing.forecast import Forecast
from lfdm_ros.sharing.risk import FAILURES, Outlook, RiskRollouts, RiskSettings, unsteady
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand
from lfdm_ros.sharing.threat import ThreatComponent, assess
from lfdm_ros.simulation import Actuator, BatchRollout, Simulator, initial_state
from lfdm_ros.simulation.world import Circle, World
from lfdm_ros.vehicles import Vehicle, load_vehicle

CACHE_DEPENDENCIES = (*SIMULATION_DEPENDENCIES, "parameters", "solvers", "sensors", "perception", "control", "sharing", "teleop",
                      "engine/run_monitor", f"{STUDIES}/risk_validation", f"{STUDIES}/driven_episodes")
CHUNK = 25  # episodes of an item
LOOK, PHYSICS = 0.01, 1e-3  # [s] between checks of the outcome, and step of the true model
AHEAD = 3.0  # [s] of the held command used by the other components
NOTICED = 1.0  # [s] after which measurements are compared with the rollouts
WITNESSES = 128  # rollouts that it is compared with
CHASSIS, TYRE = "eighteen_dof", "fiala"
# Uncertainty of the vehicle after a calibration: standard deviations, as shares.
POSTERIOR = {"cornering_stiffness_front": 0.08, "cornering_stiffness_rear": 0.08, "friction_max": 0.04, "yaw_inertia": 0.05,
             "cg_height": 0.03}
DRAWS = 200
HAND = 0.02  # standard deviation of the assumed operator's steering
SLOPE, CALIBRATION_ERROR = (0.9, 1.1), 0.03  # limits of a probability that is right


@dataclass(frozen=True)
class Truth:
    """A world, and the risk's assumptions of it. friction: mean and standard deviation as they are; assumed: as the risk has them; tyre: of
    the vehicle that drives; hand: [1] standard deviation of the operator's steering; reacts: after this time [s] the operator brakes and
    straightens, which no held command does; driving: an operator in a closed loop."""

    name: str
    about: str
    friction: tuple[float, float] = (1.0, 0.1)
    assumed: tuple[float, float] = (1.0, 0.1)
    tyre: str = TYRE
    hand: float = HAND
    reacts: float = math.inf
    driving: Driving | None = None


WORLDS = {world.name: world for world in (
    Truth("known", "as it is told"),
    Truth("slippery_told", "a slippery road, and the risk knows it", friction=(0.4, 0.1), assumed=(0.4, 0.1)),
    Truth("slippery", "a slippery road that it takes for a dry one", friction=(0.4, 0.1)),
    Truth("other_tyre", "other tyres than those of the posterior", tyre="tmeasy"),
    Truth("other_hand", "a hand three times as unsteady as it thinks", hand=3.0 * HAND),
    Truth("reacting", "an operator who brakes after 0.8 s", reacts=0.8),
    Truth("prompt", "drives, answers after 0.3 s", driving=Driving("preview", 0.3, 1.8)),
    Truth("slow", "drives, answers after 0.8 s", driving=Driving("preview", 0.8, 3.5)),
    Truth("two_point", "drives by two points", driving=Driving("two_point", 0.0)),
    Truth("two_point_link", "the same behind a link of 0.15 s", driving=Driving("two_point", 0.15)),
    Truth("late_brake", "drives, answers after 0.5 s, brakes off the lane", driving=Driving("braking", 0.5, 2.5)),
)}


@dataclass(frozen=True)
class Episodes:
    """Some episodes of one world, by their seeds. Plain data, so it can go to another process."""

    world: str
    first: int
    count: int
    settings: RiskSettings
    vehicle: str = "hmmwv"


def episodes(seeds: int, settings: RiskSettings, worlds: Sequence[str] = tuple(WORLDS), others: int | None = None,
             vehicle: str = "hmmwv") -> list[Episodes]:
    """Returns the episodes of seeds 1 to `seeds` in the world assumed by the risk, 1 to `others` (default: a quarter of it) in others."""
    counts = {name: seeds if name == "known" else (-(-seeds // 4) if others is None else others) for name in worlds}
    return [Episodes(name, first, min(CHUNK, counts[name] - first + 1), settings, vehicle)
            for name in worlds for first in range(1, counts[name] + 1, CHUNK)]


def key(item: Episodes) -> str:
    """Hashes all that a result depends on."""
    vehicle = load_vehicle(item.vehicle)
    return cache_key({"item": asdict(item), "world": asdict(WORLDS[item.world]), "vehicle": vehicle.identity}, CACHE_DEPENDENCIES)


def work(item: Episodes) -> dict[str, Any]:
    """Runs the episodes; returns prediction and outcome of each as JSON."""
    found = [episode(WORLDS[item.world], seed, item.settings, item.vehicle) for seed in range(item.first, item.first + item.count)]
    return {"world": item.world, "first": item.first, "episodes": found}


# -- One episode --------------------------------------------------------------------------------------------------------------


def episode(world: Truth, seed: int, settings: RiskSettings, vehicle: str = "hmmwv") -> dict[str, Any]:
    """Runs one episode; returns the probabilities and the outcome."""
    if world.driving is not None:
        return _driven(world, world.driving, seed, settings, vehicle)
    told, situation = situation_of(seed, vehicle)
    rollouts, draws = _rollouts(vehicle, world.assumed, settings), _posterior(vehicle)
    assert situation.operator is not None
    risk = rollouts.assess(situation)
    assert risk.operator is not None
    truth = np.random.default_rng([seed, 2])
    happened = _drive(world, truth, told, draws, situation, settings)
    predicted = _predicted(risk.operator)
    return {"seed": seed, "predicted": predicted, "threats": _threats(vehicle, situation),
            "happened": {name: happened[name] for name in predicted},
            "surprised": _surprised(told, draws, situation, settings, world.assumed, happened["noticed"]), "seconds": risk.seconds}


def _driven(world: Truth, driving: Driving, seed: int, settings: RiskSettings, vehicle: str) -> dict[str, Any]:
    told, draws, truth = _vehicle(vehicle), _posterior(vehicle), np.random.default_rng([seed, 2])
    default = RiskSettings()
    settings = replace(settings, intention=default.intention, remnant=default.remnant)
    asked = question(driving, seed, told, _true_vehicle(world, truth, told, draws), CHASSIS, world.tyre, draws, settings)
    risk = _rollouts(vehicle, world.assumed, settings).assess(asked.situation)
    assert risk.operator is not None
    return {"seed": seed, "predicted": _predicted(risk.operator), "threats": {}, "happened": answer(asked, settings), "surprised": None,
            "seconds": risk.seconds}


def _predicted(outlook: Outlook) -> dict[str, float]:
    return {name: p.value for name, p in outlook.by_name().items()} | {"failure": outlook.failure.value}


def _threats(vehicle: str, situation: Situation) -> dict[str, float | None]:
    """Returns the threat by each of the other components in the same situation; None: undefined."""
    components, forecast = _others(vehicle)
    assert situation.operator is not None
    known = replace(situation, intention=forecast.held(situation, situation.operator, AHEAD))
    said = assess(components, known).assessments
    return {name: None if math.isnan(a.threat) else float(a.threat) for name, a in said.items()}


@cache
def _others(vehicle: str) -> tuple[tuple[ThreatComponent, ...], Forecast]:
    components = make_components([name for name in COMPONENTS if name != RiskThreat.name])
    for component in components:
        if callable(prepare := getattr(component, "prepare", None)):
            prepare(_vehicle(vehicle))
    return components, Forecast(_vehicle(vehicle))


@cache
def _vehicle(name: str) -> Vehicle:
    return load_vehicle(name)


@cache
def _posterior(name: str) -> Draws:
    """Draws a posterior around the vehicle's values."""
    vehicle, rng = _vehicle(name), np.random.default_rng(17)
    known = [parameter for parameter in POSTERIOR if parameter in vehicle.parameters]
    values = [vehicle.parameters[parameter] * (1.0 + POSTERIOR[parameter] * rng.standard_normal(DRAWS)) for parameter in known]
    return Draws(tuple(known), np.column_stack(values), 1)


@cache
def _rollouts(name: str, friction: tuple[float, float], settings: RiskSettings) -> RiskRollouts:
    # In this study obstacles keep their velocity.
    changed = {**asdict(settings), "friction": friction[0], "friction_sd": friction[1], "halting": 0.0}
    return RiskRollouts(_vehicle(name), RiskSettings(**changed))


def situation_of(seed: int, vehicle: str = "hmmwv") -> tuple[Vehicle, Situation]:
    """Returns the vehicle of the risk, and the initial situation of an episode."""
    told = _vehicle(vehicle)
    return told, _situation(np.random.default_rng([seed, 1]), told, _posterior(vehicle))


def _situation(rng: np.random.Generator, vehicle: Vehicle, draws: Draws) -> Situation:
    """Draws the situation at the beginning, with detected obstacles; the true ones differ from these by the settings' errors."""
    speed = rng.uniform(8.0, 22.0)
    bend = rng.normal(0.0, 0.004)
    s = np.linspace(-30.0, 140.0, 120)
    lane = Path(np.column_stack([s, 0.5 * bend * s * s]))
    room = rng.uniform(3.0, 8.0, 2)
    # About the steering that the bend asks for, more or less well held.
    p = vehicle.parameters
    wheelbase = p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    steering = bend * wheelbase * (1.0 + 0.004 * speed * speed) / p["max_road_wheel_angle"] + rng.normal(0.0, 0.03)
    pedal = rng.uniform(-0.25, 0.4)
    count = rng.poisson(4)
    along, aside = rng.uniform(12.0, 70.0, count), rng.normal(0.0, 5.0, count)
    aside += 2.0 * np.sign(aside)
    moves = rng.random(count) < 0.25
    velocities = np.where(moves[:, None], rng.normal(0.0, 2.0, (count, 2)), 0.0)
    seen = Obstacles(np.column_stack([along, 0.5 * bend * along**2 + aside]), rng.uniform(0.3, 1.2, count), velocities, 0.0)
    measured = Measured(0.0, {"x": 0.0, "y": 0.0, "yaw": 0.0, "vx": speed, "vy": 0.0, "yaw_rate": 0.0})
    command = StampedCommand.of_pedal(0.0, float(np.clip(steering, -1.0, 1.0)), pedal)
    corridor = Corridor(lane, np.array([[0.0, *room], [lane.length, *room]]))
    return Situation(0.0, vehicle, measured, (), command, None, None, seen, lane, corridor, draws)


def _true_vehicle(world: Truth, rng: np.random.Generator, vehicle: Vehicle, draws: Draws) -> Vehicle:
    """Draws one vehicle of the posterior on one road of the world."""
    values = draws.values[rng.integers(len(draws.values))]
    friction = float(friction_draws(*world.friction, rng.random(1))[0])
    own = vehicle.replace(**dict(zip(draws.names, values.tolist())))
    return own.replace(friction_scale=own.parameters["friction_scale"] * friction)


def _drive(world: Truth, rng: np.random.Generator, vehicle: Vehicle, draws: Draws, situation: Situation,
           s: RiskSettings) -> dict[str, Any]:
    """Simulates the outcome with one truth, drawn from the world."""
    simulator = Simulator(_true_vehicle(world, rng, vehicle, draws), CHASSIS, PHYSICS, world.tyre)
    seen = situation.obstacles
    moves, count = seen.moving, len(seen.radii)
    centres = seen.centres + s.obstacle_sd * rng.standard_normal((count, 2))
    velocities = seen.velocities + np.where(moves[:, None], s.obstacle_speed_sd * rng.standard_normal((count, 2)), 0.0)
    around = World(tuple(Circle(x, y, r, vx, vy) for (x, y), r, (vx, vy) in zip(centres.tolist(), seen.radii.tolist(),
                                                                                velocities.tolist())))
    known = situation.measured.values
    simulator.reset(x=float(s.position_sd * rng.standard_normal()), y=float(s.position_sd * rng.standard_normal()),
                    yaw=float(s.heading_sd * rng.standard_normal()), vx=float(known["vx"] + s.speed_sd * rng.standard_normal()))
    actuator, command, corridor = Actuator.of(vehicle.actuators), situation.operator, situation.corridor
    assert command is not None and corridor is not None
    index = simulator.output_index
    monitor = RunMonitor(around, vehicle.footprint, index, corridor.path, corridor.room)
    noticed, speeds = [index[n] for n in ("vx", "yaw_rate")], [index[n] for n in ("vx", "vy")]
    share, hand, inputs = math.exp(-s.sample / s.remnant_time), 0.0, np.zeros(3)
    happened: dict[str, Any] = dict.fromkeys(FAILURES, 0)
    every, steps, sampled = round(s.sample / LOOK), round(LOOK / PHYSICS), round(NOTICED / LOOK)
    for k in range(round(s.horizon / LOOK) + 1):
        out = simulator.outputs
        time = k * LOOK
        if k == sampled:
            happened["noticed"] = out[noticed].tolist()
        hit = monitor.check_contact(time, out) <= 0.0
        before_any = not happened["collision"] and not hit
        happened["lift"] |= int(before_any and monitor.check_lift(time, out) > 0)
        vx, vy = out[speeds].tolist()
        happened["spin"] |= int(before_any and sideslip(vx, vy) >= s.spin)
        happened["collision"] |= int(hit)
        happened["leaving"] |= int(monitor.check_path(out) > 0.0)
        if k % every == 0:
            steering, throttle, brake = command.inputs
            if time >= world.reacts:
                steering, throttle, brake = 0.0, 0.0, 0.5
            if time > 0.0:
                hand = share * hand + math.sqrt(1.0 - share * share) * rng.standard_normal()
            actuator.send(time, (float(np.clip(steering + world.hand * hand, -1.0, 1.0)), throttle, brake))
        before, inputs = inputs, actuator.advance(time + LOOK)
        simulator.advance(before, inputs, steps)
    happened["failure"] = max(happened[what] for what in FAILURES)
    return happened


def _surprised(vehicle: Vehicle, draws: Draws, situation: Situation, s: RiskSettings, assumed: tuple[float, float],
               measured: Sequence[float]) -> int:
    """Returns 1 if speed or yaw rate after NOTICED lie outside the range of 95 % of the rollouts (each 97.5 %), else 0."""
    command = situation.operator
    assert command is not None
    rng = np.random.default_rng(5)
    times = s.sample * np.arange(round(NOTICED / s.sample) + 1)
    hand = unsteady(rng.standard_normal((len(times), WITNESSES)), s).T
    inputs = np.empty((WITNESSES, len(times), 3))
    inputs[:] = command.inputs
    inputs[..., 0] = np.clip(inputs[..., 0] + s.remnant * hand, -1.0, 1.0)
    inputs[:, 0] = 0.0
    a = vehicle.actuators
    for k in range(1, len(times)):  # as fast as the actuators
        for i, rate in enumerate((a.steering_rate, a.throttle_rate, a.brake_rate)):
            inputs[:, k, i] = np.clip(inputs[:, k, i], inputs[:, k - 1, i] - rate * s.sample, inputs[:, k - 1, i] + rate * s.sample)
    names = (*draws.names, "friction_scale")
    scale = vehicle.parameters["friction_scale"] * friction_draws(*assumed, rng.random(WITNESSES))
    theta = np.column_stack([draws.values[rng.integers(len(draws.values), size=WITNESSES)], scale])
    model = vehicle.model(s.model)
    x0 = np.repeat(initial_state(model, vehicle, vx=float(situation.measured.values["vx"]))[None], WITNESSES, axis=0)
    faster = 1.0 + s.speed_sd * rng.standard_normal(WITNESSES) / float(situation.measured.values["vx"])
    for i, f in enumerate(model.states):
        if f.name == "vx" or f.stem == "omega":
            x0[:, i] *= faster
    batch = BatchRollout(model=model, vehicle=vehicle, dt=s.step, times=times, inputs=inputs, parameters=names,
                         channels=("vx", "yaw_rate"))
    ends = batch.trajectories(theta, x0, inputs)[:, -1]
    lower, upper = np.percentile(ends, (1.25, 98.75), axis=0)
    return int(((np.array(measured) < lower) | (np.array(measured) > upper)).any())


# -- Results ------------------------------------------------------------------------------------------------------------------


def summarise(results: Sequence[Mapping[str, Any]], what: str = "failure", bins: int = 10) -> dict[str, dict[str, Any]]:
    """Summarises by world how often predictions came true.

    rows: of each bin of equal width the mean prediction, the share that came true with its 95 % interval, and the episodes.
    expected_calibration_error: their mean distance, weighted by episodes (Naeini et al. 2015); slope: of the outcome over the prediction,
    by least squares over the episodes, with its standard error; brier, brier_skill: against the base rate (Murphy 1973); auc: area under
    the ROC curve; surprised: NaN where nobody asked.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in WORLDS:
        some = [e for result in results if result["world"] == name for e in result["episodes"]]
        if not some:
            continue
        p, y = (np.array([e[kind][what] for e in some], float) for kind in ("predicted", "happened"))
        place = np.minimum((p * bins).astype(int), bins - 1)
        rows = []
        for b in range(bins):
            chosen = place == b
            if n := int(chosen.sum()):
                lower, upper = binomial_interval(int(y[chosen].sum()), n)
                rows.append({"predicted": float(p[chosen].mean()), "observed": float(y[chosen].mean()), "episodes": n, "lower": lower,
                             "upper": upper})
        base, spread = float(y.mean()), p - p.mean()
        varied = float(spread @ spread)
        slope = float(spread @ (y - base)) / varied if varied else math.nan
        error = math.sqrt(float(np.sum((spread * (y - base - slope * spread)) ** 2))) / varied if varied else math.nan
        seen = [e["surprised"] for e in some if e["surprised"] is not None]
        brier, climate = float(np.mean((p - y) ** 2)), base * (1.0 - base)
        found[name] = {
            "about": WORLDS[name].about, "episodes": len(some), "failures": int(y.sum()), "predicted": float(p.mean()),
            "expected_calibration_error": sum(r["episodes"] * abs(r["predicted"] - r["observed"]) for r in rows) / len(some),
            "slope": slope, "slope_se": error, "brier": brier, "brier_skill": 1.0 - brier / climate if climate else math.nan,
            "auc": roc_area(p, y)[0], "surprised": float(np.mean(seen)) if seen else math.nan, "rows": rows}
    return found


def is_right(summary: Mapping[str, Any]) -> bool:
    """Checks that a world's probabilities are right: slope, calibration error, and more skill than the base rate."""
    return bool(SLOPE[0] <= summary["slope"] <= SLOPE[1] and summary["expected_calibration_error"] <= CALIBRATION_ERROR
                and summary["brier_skill"] > 0.0)


def table(summary: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows."""
    heads = ["world", "episodes", "failures", "predicted", "slope", "calibration error", "area under ROC", "Brier skill", "surprised"]
    return heads, [[f"{name}: {w['about']}", str(w["episodes"]), f"{w['failures'] / w['episodes']:.1%}", f"{w['predicted']:.1%}",
                    f"{w['slope']:.3f} ± {w['slope_se']:.3f}", f"{w['expected_calibration_error']:.3f}", f"{w['auc']:.3f}",
                    f"{w['brier_skill']:.2f}", "-" if math.isnan(w["surprised"]) else f"{w['surprised']:.1%}"]
                   for name, w in summary.items()]


# -- Beside others --------------------------------------------------------------------------------------------------------------


def measures(results: Sequence[Mapping[str, Any]], world: str = "known") -> list[dict[str, Any]]:
    """Compares how well the risk and each other component foretell the outcomes of the same episodes: one row for each, for failures of any
    kind and for collisions.

    told: share of the episodes in which it could tell; where it could not it counts as 0. auc: area under the ROC curve, the probability
    that of two episodes the one that fails is given the larger number, with its standard error (Hanley & McNeil 1982). skill: Brier's,
    against the base rate, of the best monotone reading of it as a probability (isotonic regression), read from one half of the episodes and
    scored on the other; own_skill: of the number as it is, where it is a probability.
    """
    some = sorted((e for result in results if result["world"] == world for e in result["episodes"]), key=lambda e: int(e["seed"]))
    rows = []
    for what in ("failure", "collision"):
        y = np.array([e["happened"][what] for e in some], float)
        said: dict[str, list[float | None]] = {"risk": [e["predicted"][what] for e in some]}
        for e in some:
            for name, value in e.get("threats", {}).items():
                said.setdefault(name, []).append(value)
        for name, values in said.items():
            x = np.array([0.0 if value is None else value for value in values])
            told, (auc, error) = float(np.mean([value is not None for value in values])), roc_area(x, y)
            rows.append({"what": what, "measure": name, "episodes": len(some), "told": told, "auc": auc, "auc_se": error,
                         "skill": _skill(_read(x, y), y), "own_skill": _skill(x, y) if name == "risk" else None})
    return rows


def roc_area(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Returns the area under the ROC curve of numbers x (n,) for outcomes y (n,) of 0 and 1, ties half, and its standard error; NaN where
    all are alike."""
    ones = int(y.sum())
    zeros = len(y) - ones
    if not ones or not zeros:
        return math.nan, math.nan
    a = (float(rankdata(x)[y > 0.0].sum()) - 0.5 * ones * (ones + 1)) / (ones * zeros)
    q1, q2 = a / (2.0 - a), 2.0 * a * a / (1.0 + a)
    variance = (a * (1.0 - a) + (ones - 1) * (q1 - a * a) + (zeros - 1) * (q2 - a * a)) / (ones * zeros)
    return a, math.sqrt(max(variance, 0.0))


def _read(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns probabilities (n,), those of each half of the episodes (every other one) by isotonic regression on the other half."""
    p = np.full(len(y), math.nan)
    for part in (0, 1):
        values, place, count = np.unique(x[part::2], return_inverse=True, return_counts=True)
        if len(values):
            fit = isotonic_regression(np.bincount(place, y[part::2]) / count, weights=count.astype(float)).x
            p[1 - part::2] = np.interp(x[1 - part::2], values, fit)
    return p


def _skill(p: np.ndarray, y: np.ndarray) -> float:
    base = float(y.mean()) if len(y) else math.nan
    climate = base * (1.0 - base)
    return 1.0 - float(np.mean((p - y) ** 2)) / climate if climate > 0.0 else math.nan


def measures_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows, the best first."""
    heads = ["foretells", "measure", "could tell", "area under ROC", "Brier skill, read by isotonic regression", "as it is"]

    def number(value: float | None, digits: int = 2) -> str:
        return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"

    ordered = sorted(rows, key=lambda r: (r["what"] != "failure", -r["auc"] if r["auc"] == r["auc"] else math.inf))
    return heads, [[r["what"], r["measure"], f"{r['told']:.0%}", f"{number(r['auc'], 3)} ± {number(r['auc_se'], 3)}",
                    number(r["skill"]), number(r["own_skill"])] for r in ordered]
