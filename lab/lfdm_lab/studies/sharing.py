"""Comparison of an operator behind a link, the autonomy, and both together, on the same seeds.

Each run drives a scenario on the chassis of 18 degrees of freedom, also those among things that move (`movers`). The operator is
simulated (`teleop.Operator`): published results with people can stand beside those found here, but are not the same. The same seed is the
same operator, the same field and the same noise for all controls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.stats import binomtest

from lfdm_lab.studies import STUDIES, movers
from lfdm_lab.studies.driving import Trial as Figured
from lfdm_lab.studies.driving import figures
from lfdm_ros.cache_key import cache_key
from lfdm_ros.control import Controller, Cycle, Settings
from lfdm_ros.control.controller import limits_of
from lfdm_ros.control.cycle import Driver
from lfdm_ros.control.prediction import Measured
from lfdm_ros.engine.closed_loop import PlantSettings, Run
from lfdm_ros.errors import InputError, suggest
from lfdm_ros.numerics import binomial_interval
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.resources import find_config
from lfdm_ros.sharing.arbiter import AuthorityArbiter, SharedDecision
from lfdm_ros.sharing.components import make_components
from lfdm_ros.sharing.shared_driver import SharedDriver
from lfdm_ros.sharing.sharing_settings import BLEND, SharingSettings
from lfdm_ros.simulation import Scenario, load_scenario
from lfdm_ros.teleop import Operator, OperatorSettings
from lfdm_ros.teleop.network_link import NetworkLinkSettings
from lfdm_ros.teleop.remote import RemoteDriver
from lfdm_ros.vehicles import Vehicle, load_vehicle

CHASSIS, VEHICLE = "eighteen_dof", "hmmwv"
CACHE_DEPENDENCIES = (*movers.CACHE_DEPENDENCIES, "sharing", "teleop", f"{STUDIES}/sharing")
LATENCIES = (0.0, 0.2, 0.5, 0.8)  # [s] there and back
CONTROLS = OPERATOR, AUTONOMY, SHARED = "operator", "autonomy", "shared"
BLIND = (-0.15, 0.5)  # [rad] bearings outside the view of a blind autonomy, from straight ahead, + left
PATIENCE = 8.0  # [s] of standing after which a vehicle will not go on
THREAT_GAP = 2.0  # [s] for which k stays below 1/2 between two threats
OFFER = 2.0  # [s] of standing after which autonomy offers to drive on
RISK = ("risk", "hidden")  # threats that are blended by; the second only where traffic may be hidden


@dataclass(frozen=True)
class Setting:
    """Scenario of a drive, by the name of a file or among things that move, density of its field, changes of the vehicle that the autonomy
    knows of and no operator feels, and settings of the controller."""

    scenario: str
    seeded: bool = False
    density: float | None = None
    changes: tuple[str, ...] = ()
    controller: Mapping[str, Any] = field(default_factory=dict)

    @property
    def moves(self) -> bool:
        return self.scenario in movers.SCENARIOS

    def load(self, seed: int) -> Scenario:
        """Returns the scenario of a seed."""
        return movers.scenario_of(self.scenario, seed) if self.moves else load_scenario(
            self.scenario, seed if self.seeded else None, self.density)


SCENARIOS = {
    "lane_change": Setting("iso_3888_1"),
    "obstacle_field": Setting("obstacle_field_40", seeded=True, density=2.0),
    "slippery_curve": Setting("curve", changes=("friction_scale=0.45",), controller={"path_lateral_acceleration": 2.0}),
}
MOVERS = {name: Setting(name, seeded=True, changes=movers.CHANGES.get(name, ())) for name in movers.SCENARIOS}
KNOWN = SCENARIOS | MOVERS


@dataclass(frozen=True)
class SharingRun:
    """One run. Plain data, so it can go to another process. threats: components, without "risk" the baselines of an ablation; mode: of
    the sharing; blind: the autonomy does not see what lies at bearings BLIND; changes: of the components' settings."""

    scenario: str
    control: str
    latency: float
    seed: int
    threats: tuple[str, ...] = RISK
    changes: tuple[str, ...] = ()
    mode: str = BLEND
    blind: bool = False


def drives(seeds: int, latencies: Sequence[float] = LATENCIES, scenarios: Sequence[str] = tuple(SCENARIOS),
           controls: Sequence[str] = CONTROLS) -> list[SharingRun]:
    """Returns drives by every control at every latency in every scenario, seeds 1 to `seeds`; the autonomy, which has no link, once. Raises
    InputError: no such scenario or control, or a latency that is none."""
    for name, known in (*((s, KNOWN) for s in scenarios), *((c, CONTROLS) for c in controls)):
        if name not in known:
            raise InputError(f"there is no '{name}'{suggest(name, known, 'choose from: ')}")
    for latency in latencies:
        if not 0.0 <= latency <= 2.0:
            raise InputError(f"latency is {latency:g} s; give 0 to 2")
    return [SharingRun(scenario, control, latency, seed) for seed in range(1, seeds + 1) for scenario in scenarios for control in controls
            for latency in (latencies if control != AUTONOMY else latencies[:1])]


# Variants of the threat, its components and the intention they assume, beside the risk that is blended in.
ABLATION: Mapping[str, dict[str, Any]] = {
    "sideslip": {"threats": ("sideslip",)}, "demand": {"threats": ("demand",)}, "clearance": {"threats": ("clearance",)},
    "load_transfer": {"threats": ("load_transfer",)}, "reacting": {"changes": ("risk.intention=reacting",)},
    "predicted": {"changes": ("risk.intention=predicted",)}}
ABLATED = 0.5  # [s] latency at which they are compared


def ablation(seeds: int, latencies: Sequence[float], scenarios: Sequence[str], names: Sequence[str] = tuple(ABLATION)) -> list[SharingRun]:
    """Returns drives of shared control with each variant of ABLATION, on the same seeds. Raises InputError: no such variant."""
    for name in names:
        if name not in ABLATION:
            raise InputError(f"there is no '{name}' to leave the risk out for; choose from: {', '.join(ABLATION)}")
    return [SharingRun(scenario, SHARED, latency, seed, **ABLATION[name]) for seed in range(1, seeds + 1) for scenario in scenarios
            for name in names for latency in latencies]


def blind(seeds: int, latency: float, scenarios: Sequence[str]) -> list[SharingRun]:
    """Returns drives of an autonomy with a blind sector, alone and in shared control."""
    return [SharingRun(scenario, control, 0.0 if control == AUTONOMY else latency, seed, blind=True) for seed in range(1, seeds + 1)
            for scenario in scenarios for control in (AUTONOMY, SHARED)]


def key(item: SharingRun) -> str:
    """Hashes all that a result depends on."""
    setting = KNOWN[item.scenario]
    return cache_key({"item": asdict(item), "setting": asdict(setting), "vehicle": load_vehicle(VEHICLE).identity,
                   "scenario": "" if setting.moves else find_config("scenarios", setting.scenario).read_text(encoding="utf-8")},
                  CACHE_DEPENDENCIES)


def work(item: SharingRun, bag_of: movers.BagOf | None = None) -> dict[str, Any]:
    """Drives, and records where it has a bag; returns the result as JSON."""
    notes = Notes()
    return figures_of(item, *driven(item, notes, bag_of), notes)


def bag_name(item: SharingRun) -> str:
    """Returns the name of a bag of the run; empty: it is not shared, or by a variant."""
    return f"{item.scenario}_{item.latency:g}_{item.seed}" if item == SharingRun(item.scenario, SHARED, item.latency, item.seed) else ""


def driven(item: SharingRun, notes: Notes, bag_of: movers.BagOf | None = None) -> tuple[Scenario, Run, Driver]:
    """Drives; returns the scenario, the run, and the driver."""
    setting = KNOWN[item.scenario]
    vehicle = load_vehicle(VEHICLE, setting.changes)
    scenario = setting.load(item.seed)
    driver = make_driver(item, vehicle, notes)
    return scenario, movers.recorded(vehicle, scenario, driver, PlantSettings(model=CHASSIS, seed=item.seed), bag_of), driver


class Notes:
    """Notes of each decision: times [s], k, the operator's steering, and the time that the risk took [ms]."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.k: list[float] = []
        self.steering: list[float] = []
        self.risk_ms: list[float] = []

    def take(self, decision: SharedDecision) -> None:
        self.times.append(decision.time)
        self.k.append(decision.k)
        self.steering.append(0.0 if decision.operator is None else decision.operator.steering)
        said = decision.threat.assessments.get("risk")
        if said is not None:
            self.risk_ms.append(1e3 * said.seconds)


def make_driver(item: SharingRun, vehicle: Vehicle, notes: Notes) -> Driver:
    """Makes the driver. Raises InputError for threats or changes that there are not."""
    settings = Settings(time_budget=0.0, **KNOWN[item.scenario].controller)
    operator: Driver | None = None
    if item.control in (OPERATOR, SHARED):
        link = NetworkLinkSettings(delay=0.5 * item.latency)
        # The operator's hands move between two cycles of the controller only as often as these are.
        person = Operator(load_vehicle(VEHICLE), OperatorSettings(period=settings.period), item.seed)
        operator = RemoteDriver.over(person, link, link, item.seed)
        if item.control == OPERATOR:
            return operator
    controller = (Blinded if item.blind else Controller)(vehicle, settings, limits_of(vehicle, settings))
    if item.control == AUTONOMY:
        return controller
    components = make_components(item.threats, item.changes)
    arbiter = AuthorityArbiter(vehicle, SharingSettings(mode=item.mode, period=0.06, offer_after=OFFER), components)
    return SharedDriver(arbiter, operator, controller, notes.take)


class Blinded(Controller):
    """A controller that does not see obstacles at bearings BLIND from the vehicle's position when they were seen."""

    eye = (0.0, 0.0, 0.0)

    def update_obstacles(self, obstacles: Obstacles) -> None:
        x, y, yaw = self.eye
        bearing = np.arctan2(obstacles.centres[:, 1] - y, obstacles.centres[:, 0] - x) - yaw
        bearing = np.arctan2(np.sin(bearing), np.cos(bearing))
        super().update_obstacles(obstacles.where((bearing < BLIND[0]) | (bearing > BLIND[1])))

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        if measured is not None:
            x, y, yaw = (float(measured.values[name]) for name in ("x", "y", "yaw"))
            self.eye = x, y, yaw
        return super().cycle(now, measured)


def figures_of(item: SharingRun, scenario: Scenario, run: Run, driver: Driver, notes: Notes) -> dict[str, Any]:
    """Returns the result as JSON; SI. steering_effort: root mean square of the rate of the operator's steering, or the vehicle's [1/s]."""
    setting = KNOWN[item.scenario]
    trial = Figured(setting.scenario, item.seed, "mpc", Settings(), vehicle=VEHICLE, changes=setting.changes, density=setting.density)
    found = figures(trial, scenario, run)
    for name in ("cycle_us", "controller", "compensate", "delay", "cycle_ms"):
        del found[name]
    period = driver.settings.period
    steering = np.array(notes.steering) if notes.times else run.commands[:, 0]
    return {**found, "scenario": item.scenario, "control": item.control, "latency_s": item.latency, "seed": item.seed,
            "threats": list(item.threats), "changes": list(item.changes), "mode": item.mode, "blind": item.blind,
            "failure": movers.judged(movers.Drive(item.scenario, item.control, item.seed), found),
            "k_crossings": int(np.count_nonzero(np.diff(np.array(notes.k) > 0.5))),
            "k_crossings_of_one_threat": crossings_of_one_threat(notes.times, notes.k),
            "mean_k": float(np.mean(notes.k)) if notes.k else float(item.control == AUTONOMY),
            "steering_effort": float(np.sqrt(np.mean(np.square(np.diff(steering) / period)))) if len(steering) > 1 else 0.0,
            "risk_ms_p50": float(np.median(notes.risk_ms)) if notes.risk_ms else None}


def crossings_of_one_threat(times: Sequence[float], k: Sequence[float]) -> int:
    """Returns how often k (n,) at times (n,) [s] passes 1/2 at most in one threat: a threat ends where k stays below for THREAT_GAP. From
    above 1/2, where it is until the operator's first command, it falls for no threat."""
    high, most, here, fell = np.array(k) > 0.5, 0, 0, -math.inf
    for i in (np.flatnonzero(np.diff(high)) + 1).tolist()[int(high[:1].any()):]:
        if high[i]:
            here = 1 if times[i] - fell > THREAT_GAP else here + 1
        else:
            here, fell = here + 1, times[i]
        most = max(most, here)
    return most


# -- Results ------------------------------------------------------------------------------------------------------------------


def summarise(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns one row for each scenario, control, latency, set of components and changes of them, mode and blindness; failures with their
    95 % interval; mean_k of all runs, and k_where_fine of those whose operator does not fail alone: interference where nothing asks for it.
    stands: of the failures those that only do not arrive; worse: seeds on which the shared run ends worse than the better of operator and
    autonomy alone; k_crossings: how often k passes 1/2 in a run, the mean and the most, and in
    one threat: the mean of the runs' most, and the most.
    against_risk: of the seeds on which one of this and the risk that is blended in fails and the other does not, how often it is this one,
    how often the risk, and the probability of as uneven a count or more if neither were better (McNemar 1947, exact)."""
    fine = {(run["scenario"], run["latency_s"], run["seed"]) for run in runs if run["control"] == OPERATOR and not run["failure"]}
    alone = {(run["control"], run["scenario"], run["latency_s"] if run["control"] == OPERATOR else None, run["seed"]): ends(run)
             for run in runs if run["control"] != SHARED and not run["blind"]}
    by_risk = {(run["scenario"], run["latency_s"], run["seed"]): bool(run["failure"]) for run in runs if variant(run) == "risk"}
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        which = (run["scenario"], run["control"], run["latency_s"], tuple(run["threats"]), tuple(run["changes"]), run["mode"], run["blind"])
        groups.setdefault(which, []).append(run)
    rows = []
    for (scenario, control, latency, threats, changes, mode, blind), some in groups.items():
        n, failed = len(some), sum(bool(run["failure"]) for run in some)
        errors = [run["largest_error"] for run in some if run["largest_error"] is not None]
        times = [run["reached"] for run in some if run["reached"] is not None]
        needless = [run["mean_k"] for run in some if (scenario, latency, run["seed"]) in fine]
        pairs = [(bool(run["failure"]), by_risk[scenario, latency, run["seed"]]) for run in some
                 if control == SHARED and (scenario, latency, run["seed"]) in by_risk]
        worse, better = pairs.count((True, False)), pairs.count((False, True))
        rows.append({
            "scenario": scenario, "control": control, "latency_s": latency, "threats": list(threats), "changes": list(changes),
            "mode": mode, "blind": blind, "episodes": n, "failures": failed, "failures_95": binomial_interval(failed, n),
            "collisions": sum(bool(run["collision"]) for run in some), "lifts": sum(run["lifted"] > 0.0 for run in some),
            "stands": sum(ends(run) == LATE for run in some), "worse": sorted(
                run["seed"] for run in some if control == SHARED and ends(run) > min(
                    alone.get((OPERATOR, scenario, latency, run["seed"]), HARM), alone.get((AUTONOMY, scenario, None, run["seed"]), HARM))),
            **{name: [float(np.mean([run[name] for run in some])), max(run[name] for run in some)]
               for name in ("k_crossings", "k_crossings_of_one_threat")},
            "goals": len(times), "time_s": float(np.median(times)) if times else math.nan,
            "path_error_m": float(np.median(errors)) if errors else math.nan,
            "mean_speed": float(np.mean([run["mean_speed"] for run in some])), "mean_k": float(np.mean([run["mean_k"] for run in some])),
            "k_where_fine": float(np.mean(needless)) if needless else math.nan,
            "steering_effort": float(np.mean([run["steering_effort"] for run in some])),
            "against_risk": [worse, better, float(binomtest(worse, worse + better).pvalue) if worse + better else 1.0] if pairs else None})
    return rows


LATE, HARM = 1, 2


def ends(run: Mapping[str, Any]) -> int:
    """Returns how a run ends: 0 well, LATE or standing, or with HARM."""
    return 0 if not run["failure"] else LATE if run["failure"] == "does not arrive" else HARM


def variant(run: Mapping[str, Any]) -> str:
    """Names the variant of a run or a row: "risk", one of ABLATION, or empty: neither, as where nothing is shared."""
    if run["control"] != SHARED or run["blind"]:
        return ""
    made = {"threats": tuple(run["threats"]), "changes": tuple(run["changes"]), "mode": run["mode"]}
    usual: dict[str, Any] = {"threats": RISK, "changes": (), "mode": BLEND}
    return next((name for name, other in {"risk": {}, **ABLATION}.items() if made == usual | other), "")


def ablation_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows of the variants of the threat, on the same seeds; none where nothing but the risk was driven."""
    heads = ["scenario", "latency [s]", "threat by", "runs", "failures (95 %)", "collisions", "mean speed [m/s]", "mean k",
             "k where the operator alone does not fail", "fails where risk does not : the other way round"]
    names = ("risk", *ABLATION)
    cells = {(row["scenario"], row["latency_s"]) for row in rows if variant(row) in ABLATION}
    shown = [row for row in rows if (row["scenario"], row["latency_s"]) in cells and variant(row)]
    ordered = sorted(shown, key=lambda r: (list(KNOWN).index(r["scenario"]), r["latency_s"], names.index(variant(r))))
    return heads, [[row["scenario"], f"{row['latency_s']:g}", variant(row), str(row["episodes"]), _failures(row), str(row["collisions"]),
                    _number(row["mean_speed"], 1), _number(row["mean_k"], 2), _number(row["k_where_fine"], 2), _against(row)]
                   for row in ordered]


def _against(row: Mapping[str, Any]) -> str:
    if variant(row) == "risk" or row["against_risk"] is None:
        return "-"
    worse, better, p = row["against_risk"]
    return f"{worse} : {better} (p = {p:.2g})"


def _failures(row: Mapping[str, Any]) -> str:
    return f"{row['failures']} ({row['failures_95'][0]:.0%} to {row['failures_95'][1]:.0%})"


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "-"


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows."""
    heads = ["scenario", "latency [s]", "control", "runs", "failures (95 %)", "of these only stand",
             "worse than the better of both alone (seeds)", "k through 1/2: mean, most", "in one threat: mean, most", "collisions", "lifts",
             "path error [m]", "time [s]", "mean speed [m/s]", "steering effort [1/s]", "mean k",
             "k where the operator alone does not fail"]

    def name(row: Mapping[str, Any]) -> str:
        parts = [row["control"]] + ([row["mode"]] if row["mode"] != BLEND else []) + (["blind"] if row["blind"] else [])
        if row["control"] == SHARED and row["threats"] != list(RISK):
            parts.append("+".join(row["threats"]))
        return " ".join([*parts, *row["changes"]])

    ordered = sorted(rows, key=lambda r: (list(KNOWN).index(r["scenario"]), r["latency_s"], CONTROLS.index(r["control"])))
    return heads, [[row["scenario"], f"{row['latency_s']:g}", name(row), str(row["episodes"]),
                    _failures(row), str(row["stands"]), movers.counted(row["worse"]) if row["control"] == SHARED else "-",
                    *(f"{row[name][0]:.1f}, {row[name][1]}" if row["control"] == SHARED else "-"
                      for name in ("k_crossings", "k_crossings_of_one_threat")),
                    str(row["collisions"]), str(row["lifts"]), _number(row["path_error_m"], 2),
                    _number(row["time_s"], 1), _number(row["mean_speed"], 1), _number(row["steering_effort"], 2),
                    _number(row["mean_k"], 2), _number(row["k_where_fine"], 2)] for row in ordered]


def helps(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Checks that sharing, by risk and blending, fails less often than the operator alone at every latency above 0 where the operator fails
    at all, and nowhere more often."""
    def failures(control: str) -> dict[tuple[str, float], float]:
        return {(r["scenario"], r["latency_s"]): r["failures"] / r["episodes"] for r in rows
                if r["control"] == control and not r["blind"] and (control != SHARED or variant(r) == "risk")}

    alone, shared = failures(OPERATOR), failures(SHARED)
    return all(shared[cell] < share or share == shared[cell] == 0.0 for cell, share in alone.items() if cell in shared and cell[1] > 0.0)
