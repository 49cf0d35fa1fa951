"""Calibration of the risk: predictions at the start of episodes without intervention, compared with their outcomes.

Each episode is a random situation: speed, a held command with remnant noise, obstacles, a curved lane. The risk (`sharing.risk`) gets the
inputs of its node: a measured state, detected obstacles, posterior draws, a friction prior. The outcome is simulated on the 18-DOF chassis
at 1 ms with one truth drawn from the same distributions: vehicle, friction, obstacle positions, remnant. That is the known world. In each
other world one of these distributions differs; there the probability may be wrong, and `surprised` shows it without knowledge of the truth.
In the last worlds a previously learned operator drives (`driven_episodes`), and the risk has its default assumptions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import rankdata

from lfdm_lab.studies import STUDIES, format_number
from lfdm_lab.studies.driven_episodes import PERIOD, PHYSICS_STEP, Driving, drive_to_outcome, drive_until_assessment, note_failures
from lfdm_ros.cache_key import SIMULATION_DEPENDENCIES, cache_key
from lfdm_ros.control.prediction import Measured
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.numerics import binomial_interval
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.components import COMPONENTS, RiskThreat, make_components
from lfdm_ros.sharing.fleet import friction_draws
from lfdm_ros.sharing.forecast import Forecast
from lfdm_ros.sharing.risk import FAILURES, Outlook, RiskRollouts, RiskSettings, unsteady
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand
from lfdm_ros.sharing.threat import ThreatComponent, assess
from lfdm_ros.simulation import Actuator, BatchRollout, Simulator, initial_state
from lfdm_ros.simulation.path import Path
from lfdm_ros.simulation.world import Circle, World
from lfdm_ros.vehicles import Vehicle, load_vehicle

CACHE_DEPENDENCIES = (*SIMULATION_DEPENDENCIES, "parameters", "solvers", "sensors", "perception", "control", "sharing", "teleop",
                      "engine/run_monitor", f"{STUDIES}/risk_validation", f"{STUDIES}/driven_episodes")
CHUNK = 25  # episodes of an item
HELD_HORIZON = 3.0  # [s] of the held command given to the other components
SURPRISE_TIME = 1.0  # [s] after which measurements are compared with the rollouts
SURPRISE_ROLLOUTS = 128
CHASSIS, TYRE = "eighteen_dof", "fiala"
# Uncertainty of the vehicle after a calibration: relative standard deviations.
POSTERIOR = {"cornering_stiffness_front": 0.08, "cornering_stiffness_rear": 0.08, "friction_max": 0.04, "yaw_inertia": 0.05,
             "cg_height": 0.03}
DRAWS = 200
REMNANT = 0.02  # standard deviation of the assumed operator's steering
SLOPE, CALIBRATION_ERROR = (0.9, 1.1), 0.03  # acceptance limits


@dataclass(frozen=True)
class Truth:
    """A world, and the risk's assumptions of it. friction: true mean and standard deviation; assumed: those of the risk; tyre: of the true
    vehicle; remnant: standard deviation of the operator's steering [1]; brake_time: from which the operator brakes and straightens, unlike
    a held command [s]; driving: an operator in closed loop."""

    name: str
    about: str
    friction: tuple[float, float] = (1.0, 0.1)
    assumed: tuple[float, float] = (1.0, 0.1)
    tyre: str = TYRE
    remnant: float = REMNANT
    brake_time: float = math.inf
    driving: Driving | None = None


WORLDS = {world.name: world for world in (
    Truth("known", "as assumed"),
    Truth("slippery_known", "a slippery road, known to the risk", friction=(0.4, 0.1), assumed=(0.4, 0.1)),
    Truth("slippery", "a slippery road, assumed dry", friction=(0.4, 0.1)),
    Truth("other_tyre", "another tyre model than that of the posterior", tyre="tmeasy"),
    Truth("other_hand", "three times the assumed remnant", remnant=3.0 * REMNANT),
    Truth("reacting", "an operator who brakes after 0.8 s", brake_time=0.8),
    Truth("prompt", "drives, delay 0.3 s", driving=Driving("preview", 0.3, 1.8)),
    Truth("slow", "drives, delay 0.8 s", driving=Driving("preview", 0.8, 3.5)),
    Truth("two_point", "two-point driver model", driving=Driving("two_point", 0.0)),
    Truth("two_point_link", "the same over a link of 0.15 s", driving=Driving("two_point", 0.15)),
    Truth("late_brake", "drives, delay 0.5 s, brakes off the lane", driving=Driving("braking", 0.5, 2.5)),
)}


@dataclass(frozen=True)
class Episodes:
    """Episodes of one world, by their seeds; plain data for other processes."""

    world: str
    first: int
    count: int
    settings: RiskSettings
    vehicle: str = "hmmwv"


def episodes(seeds: int, settings: RiskSettings, worlds: Sequence[str] = tuple(WORLDS), others: int | None = None,
             vehicle: str = "hmmwv") -> list[Episodes]:
    """Returns the episodes of seeds 1 to `seeds` in the known world, 1 to `others` (default: a quarter) in the others."""
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
    nominal, situation = situation_of(seed, vehicle)
    rollouts, draws = _rollouts(vehicle, world.assumed, settings), _posterior(vehicle)
    assert situation.operator is not None
    risk = rollouts.assess(situation)
    assert risk.operator is not None
    truth = np.random.default_rng([seed, 2])
    outcome = _drive(world, truth, nominal, draws, situation, settings)
    predicted = _predicted(risk.operator)
    return {"seed": seed, "predicted": predicted, "threats": _threats(vehicle, situation),
            "happened": {name: outcome[name] for name in predicted},
            "surprised": _is_surprised(nominal, draws, situation, settings, world.assumed, outcome["measured"]), "seconds": risk.seconds}


def _driven(world: Truth, driving: Driving, seed: int, settings: RiskSettings, vehicle: str) -> dict[str, Any]:
    nominal, draws, truth = _vehicle(vehicle), _posterior(vehicle), np.random.default_rng([seed, 2])
    default = RiskSettings()
    settings = replace(settings, intention=default.intention, remnant=default.remnant)
    true_vehicle = _true_vehicle(world, truth, nominal, draws)
    driven = drive_until_assessment(driving, seed, nominal, true_vehicle, CHASSIS, world.tyre, draws, settings)
    risk = _rollouts(vehicle, world.assumed, settings).assess(driven.situation)
    assert risk.operator is not None
    return {"seed": seed, "predicted": _predicted(risk.operator), "threats": {}, "happened": drive_to_outcome(driven, settings),
            "surprised": None, "seconds": risk.seconds}


def _predicted(outlook: Outlook) -> dict[str, float]:
    return {name: p.value for name, p in outlook.by_name().items()} | {"failure": outlook.failure.value}


def _threats(vehicle: str, situation: Situation) -> dict[str, float | None]:
    """Returns the threat by each of the other components in the same situation; None: undefined."""
    components, forecast = _other_components(vehicle)
    assert situation.operator is not None
    situation = replace(situation, intention=forecast.roll_out(situation, situation.operator, HELD_HORIZON))
    return {name: None if math.isnan(a.threat) else float(a.threat) for name, a in assess(components, situation).assessments.items()}


@cache
def _other_components(vehicle: str) -> tuple[tuple[ThreatComponent, ...], Forecast]:
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
    names = [name for name in POSTERIOR if name in vehicle.parameters]
    values = [vehicle.parameters[name] * (1.0 + POSTERIOR[name] * rng.standard_normal(DRAWS)) for name in names]
    return Draws(tuple(names), np.column_stack(values), 1)


@cache
def _rollouts(name: str, friction: tuple[float, float], settings: RiskSettings) -> RiskRollouts:
    # In this study obstacles keep their velocity.
    changed = {**asdict(settings), "friction": friction[0], "friction_sd": friction[1], "halting": 0.0}
    return RiskRollouts(_vehicle(name), RiskSettings(**changed))


def situation_of(seed: int, vehicle: str = "hmmwv") -> tuple[Vehicle, Situation]:
    """Returns the nominal vehicle and the initial situation of an episode."""
    nominal = _vehicle(vehicle)
    return nominal, _situation(np.random.default_rng([seed, 1]), nominal, _posterior(vehicle))


def _situation(rng: np.random.Generator, vehicle: Vehicle, draws: Draws) -> Situation:
    """Draws the initial situation with detected obstacles; the true ones differ from these by the settings' errors."""
    speed = rng.uniform(8.0, 22.0)
    bend = rng.normal(0.0, 0.004)
    s = np.linspace(-30.0, 140.0, 120)
    lane = Path(np.column_stack([s, 0.5 * bend * s * s]))
    room = rng.uniform(3.0, 8.0, 2)
    # Steady-state steering of the bend with an error.
    p = vehicle.parameters
    wheelbase = p["cg_to_front_axle"] + p["cg_to_rear_axle"]
    steering = bend * wheelbase * (1.0 + 0.004 * speed * speed) / p["max_road_wheel_angle"] + rng.normal(0.0, 0.03)
    pedal = rng.uniform(-0.25, 0.4)
    count = rng.poisson(4)
    longitudinal, lateral = rng.uniform(12.0, 70.0, count), rng.normal(0.0, 5.0, count)
    lateral += 2.0 * np.sign(lateral)
    moves = rng.random(count) < 0.25
    velocities = np.where(moves[:, None], rng.normal(0.0, 2.0, (count, 2)), 0.0)
    centres = np.column_stack([longitudinal, 0.5 * bend * longitudinal**2 + lateral])
    detected = Obstacles(centres, rng.uniform(0.3, 1.2, count), velocities, 0.0)
    measured = Measured(0.0, {"x": 0.0, "y": 0.0, "yaw": 0.0, "vx": speed, "vy": 0.0, "yaw_rate": 0.0})
    command = StampedCommand.of_pedal(0.0, float(np.clip(steering, -1.0, 1.0)), pedal)
    corridor = Corridor(lane, np.array([[0.0, *room], [lane.length, *room]]))
    return Situation(0.0, vehicle, measured, (), command, None, None, detected, lane, corridor, draws)


def _true_vehicle(world: Truth, rng: np.random.Generator, vehicle: Vehicle, draws: Draws) -> Vehicle:
    """Draws a vehicle of the posterior with a friction of the world."""
    values = draws.values[rng.integers(len(draws.values))]
    friction = float(friction_draws(*world.friction, rng.random(1))[0])
    vehicle = vehicle.replace(**dict(zip(draws.names, values.tolist())))
    return vehicle.replace(friction_scale=vehicle.parameters["friction_scale"] * friction)


def _drive(world: Truth, rng: np.random.Generator, vehicle: Vehicle, draws: Draws, situation: Situation,
           s: RiskSettings) -> dict[str, Any]:
    """Simulates the outcome with one truth drawn from the world; also returns `measured`: speed and yaw rate at SURPRISE_TIME."""
    simulator = Simulator(_true_vehicle(world, rng, vehicle, draws), CHASSIS, PHYSICS_STEP, world.tyre)
    detected = situation.obstacles
    moves, count = detected.moving, len(detected.radii)
    centres = detected.centres + s.obstacle_sd * rng.standard_normal((count, 2))
    velocities = detected.velocities + np.where(moves[:, None], s.obstacle_speed_sd * rng.standard_normal((count, 2)), 0.0)
    obstacles = World(tuple(Circle(x, y, r, vx, vy) for (x, y), r, (vx, vy) in zip(centres.tolist(), detected.radii.tolist(),
                                                                                   velocities.tolist())))
    measured = situation.measured.values
    simulator.reset(x=float(s.position_sd * rng.standard_normal()), y=float(s.position_sd * rng.standard_normal()),
                    yaw=float(s.heading_sd * rng.standard_normal()), vx=float(measured["vx"] + s.speed_sd * rng.standard_normal()))
    actuator, command, corridor = Actuator.of(vehicle.actuators), situation.operator, situation.corridor
    assert command is not None and corridor is not None
    index = simulator.output_index
    monitor = RunMonitor(obstacles, vehicle.footprint, index, corridor.path, corridor.room)
    correlation, remnant, inputs = math.exp(-s.sample / s.remnant_time), 0.0, np.zeros(3)
    outcome = dict.fromkeys(FAILURES, 0)
    every, steps, sampled = round(s.sample / PERIOD), round(PERIOD / PHYSICS_STEP), round(SURPRISE_TIME / PERIOD)
    for k in range(round(s.horizon / PERIOD) + 1):
        time = k * PERIOD
        if k == sampled:
            later = simulator.outputs[[index["vx"], index["yaw_rate"]]].tolist()
        note_failures(outcome, monitor, time, simulator.outputs, index, s.spin)
        if k % every == 0:
            steering, throttle, brake = command.inputs if time < world.brake_time else (0.0, 0.0, 0.5)
            if time > 0.0:
                remnant = correlation * remnant + math.sqrt(1.0 - correlation * correlation) * rng.standard_normal()
            actuator.send(time, (float(np.clip(steering + world.remnant * remnant, -1.0, 1.0)), throttle, brake))
        before, inputs = inputs, actuator.advance(time + PERIOD)
        simulator.advance(before, inputs, steps)
    return {**outcome, "failure": max(outcome.values()), "measured": later}


def _is_surprised(vehicle: Vehicle, draws: Draws, situation: Situation, s: RiskSettings, assumed: tuple[float, float],
                  measured: Sequence[float]) -> int:
    """Returns 1 if speed or yaw rate at SURPRISE_TIME is outside the 95 % interval of the rollouts (97.5 % each), else 0."""
    command = situation.operator
    assert command is not None
    rng = np.random.default_rng(5)
    times = s.sample * np.arange(round(SURPRISE_TIME / s.sample) + 1)
    remnant = unsteady(rng.standard_normal((len(times), SURPRISE_ROLLOUTS)), s).T
    inputs = np.empty((SURPRISE_ROLLOUTS, len(times), 3))
    inputs[:] = command.inputs
    inputs[..., 0] = np.clip(inputs[..., 0] + s.remnant * remnant, -1.0, 1.0)
    inputs[:, 0] = 0.0
    a = vehicle.actuators
    for k in range(1, len(times)):  # rate limits of the actuators
        for i, rate in enumerate((a.steering_rate, a.throttle_rate, a.brake_rate)):
            inputs[:, k, i] = np.clip(inputs[:, k, i], inputs[:, k - 1, i] - rate * s.sample, inputs[:, k - 1, i] + rate * s.sample)
    names = (*draws.names, "friction_scale")
    scale = vehicle.parameters["friction_scale"] * friction_draws(*assumed, rng.random(SURPRISE_ROLLOUTS))
    theta = np.column_stack([draws.values[rng.integers(len(draws.values), size=SURPRISE_ROLLOUTS)], scale])
    model = vehicle.model(s.model)
    x0 = np.repeat(initial_state(model, vehicle, vx=float(situation.measured.values["vx"]))[None], SURPRISE_ROLLOUTS, axis=0)
    speed_ratio = 1.0 + s.speed_sd * rng.standard_normal(SURPRISE_ROLLOUTS) / float(situation.measured.values["vx"])
    for i, f in enumerate(model.states):
        if f.name == "vx" or f.stem == "omega":
            x0[:, i] *= speed_ratio
    batch = BatchRollout(model=model, vehicle=vehicle, dt=s.step, times=times, inputs=inputs, parameters=names,
                         channels=("vx", "yaw_rate"))
    ends = batch.trajectories(theta, x0, inputs)[:, -1]
    lower, upper = np.percentile(ends, (1.25, 98.75), axis=0)
    return int(((np.array(measured) < lower) | (np.array(measured) > upper)).any())


# -- Results ------------------------------------------------------------------------------------------------------------------


def summarise(results: Sequence[Mapping[str, Any]], kind: str = "failure", bins: int = 10) -> dict[str, dict[str, Any]]:
    """Summarises predictions and outcomes by world.

    rows: of each bin of equal width the mean prediction, the observed share with its 95 % interval, and the number of episodes;
    expected_calibration_error: their mean distance, weighted by episodes (Naeini et al. 2015); slope: of the outcome over the prediction,
    by least squares over the episodes, with its standard error; brier, brier_skill: against the base rate (Murphy 1973); auc: area under
    the ROC curve; surprised: NaN if undefined.
    """
    found: dict[str, dict[str, Any]] = {}
    for name in WORLDS:
        group = [e for result in results if result["world"] == name for e in result["episodes"]]
        if not group:
            continue
        p, y = (np.array([e[column][kind] for e in group], float) for column in ("predicted", "happened"))
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
        surprises = [e["surprised"] for e in group if e["surprised"] is not None]
        brier, base_brier = float(np.mean((p - y) ** 2)), base * (1.0 - base)
        found[name] = {
            "about": WORLDS[name].about, "episodes": len(group), "failures": int(y.sum()), "predicted": float(p.mean()),
            "expected_calibration_error": sum(r["episodes"] * abs(r["predicted"] - r["observed"]) for r in rows) / len(group),
            "slope": slope, "slope_se": error, "brier": brier, "brier_skill": 1.0 - brier / base_brier if base_brier else math.nan,
            "auc": roc_area(p, y)[0], "surprised": float(np.mean(surprises)) if surprises else math.nan, "rows": rows}
    return found


def is_calibrated(summary: Mapping[str, Any]) -> bool:
    """Checks slope and calibration error of a world's probabilities, and that they have more skill than the base rate."""
    return bool(SLOPE[0] <= summary["slope"] <= SLOPE[1] and summary["expected_calibration_error"] <= CALIBRATION_ERROR
                and summary["brier_skill"] > 0.0)


def table(summary: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows."""
    heads = ["world", "episodes", "failures", "predicted", "slope", "calibration error", "area under ROC", "Brier skill", "surprised"]
    return heads, [[f"{name}: {w['about']}", str(w["episodes"]), f"{w['failures'] / w['episodes']:.1%}", f"{w['predicted']:.1%}",
                    f"{w['slope']:.3f} ± {w['slope_se']:.3f}", f"{w['expected_calibration_error']:.3f}", f"{w['auc']:.3f}",
                    f"{w['brier_skill']:.2f}", "-" if math.isnan(w["surprised"]) else f"{w['surprised']:.1%}"]
                   for name, w in summary.items()]


# -- Other measures -------------------------------------------------------------------------------------------------------------


def measures(results: Sequence[Mapping[str, Any]], world: str = "known") -> list[dict[str, Any]]:
    """Compares risk and other components as predictors of the same episodes: a row for each, for failures of any kind and for collisions.

    defined: share of the episodes in which it is defined (else it counts as 0); auc: area under the ROC curve, with its error (Hanley &
    McNeil 1982); skill: Brier skill against the base rate after isotonic regression, fitted on one half of the episodes and scored on the
    other; own_skill: the same without regression, for a probability.
    """
    group = sorted((e for result in results if result["world"] == world for e in result["episodes"]), key=lambda e: int(e["seed"]))
    rows = []
    for kind in ("failure", "collision"):
        y = np.array([e["happened"][kind] for e in group], float)
        scores: dict[str, list[float | None]] = {"risk": [e["predicted"][kind] for e in group]}
        for e in group:
            for name, value in e.get("threats", {}).items():
                scores.setdefault(name, []).append(value)
        for name, values in scores.items():
            x = np.array([0.0 if value is None else value for value in values])
            defined, (auc, error) = float(np.mean([value is not None for value in values])), roc_area(x, y)
            rows.append({"what": kind, "measure": name, "episodes": len(group), "defined": defined, "auc": auc, "auc_se": error,
                         "skill": _skill(_calibrated(x, y), y), "own_skill": _skill(x, y) if name == "risk" else None})
    return rows


def roc_area(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Returns the area under the ROC curve of scores x (n,) for outcomes y (n,) of 0 and 1, and its standard error; NaN if all outcomes
    are equal."""
    ones = int(y.sum())
    zeros = len(y) - ones
    if not ones or not zeros:
        return math.nan, math.nan
    a = (float(rankdata(x)[y > 0.0].sum()) - 0.5 * ones * (ones + 1)) / (ones * zeros)
    q1, q2 = a / (2.0 - a), 2.0 * a * a / (1.0 + a)
    variance = (a * (1.0 - a) + (ones - 1) * (q1 - a * a) + (zeros - 1) * (q2 - a * a)) / (ones * zeros)
    return a, math.sqrt(max(variance, 0.0))


def _calibrated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns probabilities (n,): of the even episodes by isotonic regression on the odd ones, and vice versa."""
    p = np.full(len(y), math.nan)
    for part in (0, 1):
        values, place, count = np.unique(x[part::2], return_inverse=True, return_counts=True)
        if len(values):
            fit = isotonic_regression(np.bincount(place, y[part::2]) / count, weights=count.astype(float)).x
            p[1 - part::2] = np.interp(x[1 - part::2], values, fit)
    return p


def _skill(p: np.ndarray, y: np.ndarray) -> float:
    base = float(y.mean()) if len(y) else math.nan
    base_brier = base * (1.0 - base)
    return 1.0 - float(np.mean((p - y) ** 2)) / base_brier if base_brier > 0.0 else math.nan


def measures_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows, sorted by area under the ROC curve."""
    heads = ["predicted", "measure", "defined", "area under ROC", "Brier skill after isotonic regression", "without"]
    ordered = sorted(rows, key=lambda r: (r["what"] != "failure", -r["auc"] if r["auc"] == r["auc"] else math.inf))
    return heads, [[r["what"], r["measure"], f"{r['defined']:.0%}", f"{format_number(r['auc'], 3)} ± {format_number(r['auc_se'], 3)}",
                    format_number(r["skill"]), format_number(r["own_skill"])] for r in ordered]
