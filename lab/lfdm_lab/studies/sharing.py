"""Comparison of a remote operator, the autonomy, and shared control, on the same seeds.

Each run drives a scenario, also those of `movers`, on the 18-DOF chassis. The operator is simulated (`teleop.Operator`), so the results
are not those of published experiments with people. All controls get the same operator, field and noise for a seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.stats import binomtest

from lfdm_lab.studies import STUDIES, format_number, grouped, movers
from lfdm_lab.studies.driving import DOES_NOT_ARRIVE, Trial, figures
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
from lfdm_ros.teleop import OperatorSettings
from lfdm_ros.teleop.network_link import NetworkLinkSettings
from lfdm_ros.teleop.operator import Operator
from lfdm_ros.teleop.remote import RemoteDriver
from lfdm_ros.vehicles import Vehicle, load_vehicle

CHASSIS, VEHICLE = "eighteen_dof", "hmmwv"
CACHE_DEPENDENCIES = (*movers.CACHE_DEPENDENCIES, "sharing", "teleop", f"{STUDIES}/sharing")
LATENCIES = (0.0, 0.2, 0.5, 0.8)  # [s] round trip
CONTROLS = OPERATOR, AUTONOMY, SHARED = "operator", "autonomy", "shared"
BLIND_SECTOR = (-0.15, 0.5)  # [rad] bearings that a blind autonomy does not detect, from straight ahead, + left
THREAT_GAP = 2.0  # [s] minimum time of k below 1/2 between two threats
RISK_THREATS = ("risk", "hidden")  # threat components of the shared control; the second only acts where occluded traffic is expected


@dataclass(frozen=True)
class Setting:
    """Scenario of a drive (name of a file, or of `movers`), density of its obstacle field, changes of the vehicle that are known to the
    autonomy but not to the operator, and settings of the controller."""

    scenario: str
    seeded: bool = False
    density: float | None = None
    changes: tuple[str, ...] = ()
    controller: Mapping[str, Any] = field(default_factory=dict)

    def load(self, seed: int) -> Scenario:
        """Returns the scenario of a seed."""
        if self.scenario in movers.SCENARIOS:
            return movers.scenario_of(self.scenario, seed)
        return load_scenario(self.scenario, seed if self.seeded else None, self.density)


SCENARIOS = {
    "lane_change": Setting("iso_3888_1"),
    "obstacle_field": Setting("obstacle_field_40", seeded=True, density=2.0),
    "slippery_curve": Setting("curve", changes=("friction_scale=0.45",), controller={"path_lateral_acceleration": 2.0}),
}
MOVERS = {name: Setting(name, seeded=True, changes=movers.VEHICLE_CHANGES.get(name, ())) for name in movers.SCENARIOS}
ALL_SETTINGS = SCENARIOS | MOVERS


@dataclass(frozen=True)
class SharingRun:
    """One run; plain data for other processes. threats: components, without "risk" the baselines of an ablation; changes: of the
    components' settings; mode: of the sharing; blind: the autonomy detects nothing in BLIND_SECTOR."""

    scenario: str
    control: str
    latency: float
    seed: int
    threats: tuple[str, ...] = RISK_THREATS
    changes: tuple[str, ...] = ()
    mode: str = BLEND
    blind: bool = False


def drives(seeds: Sequence[int], latencies: Sequence[float] = LATENCIES, scenarios: Sequence[str] = tuple(SCENARIOS),
           controls: Sequence[str] = CONTROLS) -> list[SharingRun]:
    """Returns drives of every control at every latency in every scenario on the seeds; the autonomy, which has no link, once. Raises
    InputError: unknown scenario or control, or latency out of range."""
    for name, choices in (*((s, ALL_SETTINGS) for s in scenarios), *((c, CONTROLS) for c in controls)):
        if name not in choices:
            raise InputError(f"there is no '{name}'{suggest(name, choices, 'choose from: ')}")
    for latency in latencies:
        if not 0.0 <= latency <= 2.0:
            raise InputError(f"latency is {latency:g} s; give 0 to 2")
    return [SharingRun(scenario, control, latency, seed) for seed in seeds for scenario in scenarios for control in controls
            for latency in (latencies if control != AUTONOMY else latencies[:1])]


# Variants of threat components and assumed intention, compared with RISK_THREATS.
ABLATION: Mapping[str, dict[str, Any]] = {
    "sideslip": {"threats": ("sideslip",)}, "demand": {"threats": ("demand",)}, "clearance": {"threats": ("clearance",)},
    "load_transfer": {"threats": ("load_transfer",)}, "reacting": {"changes": ("risk.intention=reacting",)},
    "predicted": {"changes": ("risk.intention=predicted",)}}
ABLATION_LATENCY = 0.5  # [s] at which they are compared


def ablation(seeds: Sequence[int], latencies: Sequence[float], scenarios: Sequence[str],
             names: Sequence[str] = tuple(ABLATION)) -> list[SharingRun]:
    """Returns drives of shared control with each variant of ABLATION, on the same seeds. Raises InputError: no such variant."""
    for name in names:
        if name not in ABLATION:
            raise InputError(f"there is no '{name}' to leave the risk out for; choose from: {', '.join(ABLATION)}")
    return [SharingRun(scenario, SHARED, latency, seed, **ABLATION[name]) for seed in seeds for scenario in scenarios
            for name in names for latency in latencies]


def blind(seeds: Sequence[int], latency: float, scenarios: Sequence[str]) -> list[SharingRun]:
    """Returns drives of an autonomy with a blind sector, alone and in shared control."""
    return [SharingRun(scenario, control, 0.0 if control == AUTONOMY else latency, seed, blind=True) for seed in seeds
            for scenario in scenarios for control in (AUTONOMY, SHARED)]


def key(item: SharingRun) -> str:
    """Hashes all that a result depends on."""
    setting = ALL_SETTINGS[item.scenario]
    file = "" if setting.scenario in movers.SCENARIOS else find_config("scenarios", setting.scenario).read_text(encoding="utf-8")
    return cache_key({"item": asdict(item), "setting": asdict(setting), "vehicle": load_vehicle(VEHICLE).identity, "scenario": file},
                     CACHE_DEPENDENCIES)


def work(item: SharingRun, make_bag: movers.BagFactory | None = None) -> dict[str, Any]:
    """Drives, records if `make_bag` is given, and returns the result as JSON."""
    log = DecisionLog()
    return figures_of(item, *drive_item(item, log, make_bag), log)


def bag_name(item: SharingRun) -> str:
    """Returns the name of a run's bag; empty: not recorded, as all but shared control with RISK_THREATS."""
    return f"{item.scenario}_{item.latency:g}_{item.seed}" if item == SharingRun(item.scenario, SHARED, item.latency, item.seed) else ""


def drive_item(item: SharingRun, log: DecisionLog, make_bag: movers.BagFactory | None = None) -> tuple[Scenario, Run, Driver]:
    """Drives; returns the scenario, the run, and the driver."""
    setting = ALL_SETTINGS[item.scenario]
    vehicle = load_vehicle(VEHICLE, setting.changes)
    scenario = setting.load(item.seed)
    driver = make_driver(item, vehicle, log)
    return scenario, movers.drive_recorded(vehicle, scenario, driver, PlantSettings(model=CHASSIS, seed=item.seed), make_bag), driver


class DecisionLog:
    """Log of decisions: times [s], k, the operator's steering, computing time of the risk [ms]."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.k: list[float] = []
        self.steering: list[float] = []
        self.risk_ms: list[float] = []

    def record(self, decision: SharedDecision) -> None:
        self.times.append(decision.time)
        self.k.append(decision.k)
        self.steering.append(0.0 if decision.operator is None else decision.operator.steering)
        assessment = decision.threat.assessments.get("risk")
        if assessment is not None:
            self.risk_ms.append(1e3 * assessment.seconds)


def make_driver(item: SharingRun, vehicle: Vehicle, log: DecisionLog) -> Driver:
    """Creates the driver. Raises InputError: unknown threats or changes."""
    settings = Settings(time_budget=0.0, **ALL_SETTINGS[item.scenario].controller)
    operator: Driver | None = None
    if item.control in (OPERATOR, SHARED):
        link = NetworkLinkSettings(delay=0.5 * item.latency)
        # The operator model advances once per cycle of the controller.
        model = Operator(load_vehicle(VEHICLE), OperatorSettings(period=settings.period), item.seed)
        operator = RemoteDriver.over(model, link, link, item.seed)
        if item.control == OPERATOR:
            return operator
    controller = (Blinded if item.blind else Controller)(vehicle, settings, limits_of(vehicle, settings))
    if item.control == AUTONOMY:
        return controller
    components = make_components(item.threats, item.changes)
    arbiter = AuthorityArbiter(vehicle, SharingSettings(mode=item.mode, period=0.06, offer_after=2.0), components)
    return SharedDriver(arbiter, operator, controller, log.record)


class Blinded(Controller):
    """A controller that ignores obstacles in BLIND_SECTOR, seen from the vehicle's pose at the last cycle."""

    pose = (0.0, 0.0, 0.0)

    def update_obstacles(self, obstacles: Obstacles) -> None:
        x, y, yaw = self.pose
        bearing = np.arctan2(obstacles.centres[:, 1] - y, obstacles.centres[:, 0] - x) - yaw
        bearing = np.arctan2(np.sin(bearing), np.cos(bearing))
        super().update_obstacles(obstacles.where((bearing < BLIND_SECTOR[0]) | (bearing > BLIND_SECTOR[1])))

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        if measured is not None:
            x, y, yaw = (float(measured.values[name]) for name in ("x", "y", "yaw"))
            self.pose = x, y, yaw
        return super().cycle(now, measured)


def figures_of(item: SharingRun, scenario: Scenario, run: Run, driver: Driver, log: DecisionLog) -> dict[str, Any]:
    """Returns the result as JSON, in SI units; steering_effort: RMS steering rate of the operator, or of the vehicle [1/s]."""
    setting = ALL_SETTINGS[item.scenario]
    trial = Trial(setting.scenario, item.seed, "mpc", Settings(), vehicle=VEHICLE, changes=setting.changes, density=setting.density)
    result = figures(trial, scenario, run)
    for name in ("cycle_us", "controller", "compensate", "delay", "cycle_ms"):
        del result[name]
    period = driver.settings.period
    steering = np.array(log.steering) if log.times else run.commands[:, 0]
    return {**result, "scenario": item.scenario, "control": item.control, "latency_s": item.latency, "seed": item.seed,
            "threats": list(item.threats), "changes": list(item.changes), "mode": item.mode, "blind": item.blind,
            "failure": movers.classify_failure(movers.Drive(item.scenario, item.control, item.seed), result),
            "k_crossings": int(np.count_nonzero(np.diff(np.array(log.k) > 0.5))),
            "k_crossings_of_one_threat": crossings_of_one_threat(log.times, log.k),
            "mean_k": float(np.mean(log.k)) if log.k else float(item.control == AUTONOMY),
            "steering_effort": float(np.sqrt(np.mean(np.square(np.diff(steering) / period)))) if len(steering) > 1 else 0.0,
            "risk_ms_p50": float(np.median(log.risk_ms)) if log.risk_ms else None}


def crossings_of_one_threat(times: Sequence[float], k: Sequence[float]) -> int:
    """Returns the largest number of crossings of 1/2 by k (n,) at times (n,) [s] within one threat; a threat ends when k stays below for
    THREAT_GAP. The first fall, at the operator's first command, does not count."""
    high, largest, current, last_fall = np.array(k) > 0.5, 0, 0, -math.inf
    for i in (np.flatnonzero(np.diff(high)) + 1).tolist()[int(high[:1].any()):]:
        if high[i]:
            current = 1 if times[i] - last_fall > THREAT_GAP else current + 1
        else:
            current, last_fall = current + 1, times[i]
        largest = max(largest, current)
    return largest


# -- Results ------------------------------------------------------------------------------------------------------------------


def summarise(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns one row for each scenario, control, latency, components with their changes, mode and blindness.

    failures_95: interval of their share; stands: failures that only do not arrive; worse: seeds on which the shared run ends worse than the
    better of operator and autonomy alone; k_crossings: of 1/2 by k in a run, mean and maximum; k_crossings_of_one_threat: the same of each
    run's maximum within a threat; k_where_fine: mean k of the runs whose operator does not fail alone (needless interference);
    against_risk: seeds on which only this variant fails, on which only RISK_THREATS fail, and the p-value (McNemar 1947, exact).
    """
    solved_alone = {(run["scenario"], run["latency_s"], run["seed"]) for run in runs if run["control"] == OPERATOR and not run["failure"]}
    alone = {(run["control"], run["scenario"], run["latency_s"] if run["control"] == OPERATOR else None, run["seed"]): outcome_rank(run)
             for run in runs if run["control"] != SHARED and not run["blind"]}
    by_risk = {(run["scenario"], run["latency_s"], run["seed"]): bool(run["failure"]) for run in runs if variant(run) == "risk"}
    groups = grouped(runs, "scenario", "control", "latency_s", "threats", "changes", "mode", "blind")
    rows = []
    for (scenario, control, latency, threats, changes, mode, blind), group in groups.items():
        n, failed = len(group), sum(bool(run["failure"]) for run in group)
        errors = [run["largest_error"] for run in group if run["largest_error"] is not None]
        times = [run["reached"] for run in group if run["reached"] is not None]
        needless = [run["mean_k"] for run in group if (scenario, latency, run["seed"]) in solved_alone]
        pairs = [(bool(run["failure"]), by_risk[scenario, latency, run["seed"]]) for run in group
                 if control == SHARED and (scenario, latency, run["seed"]) in by_risk]
        worse, better = pairs.count((True, False)), pairs.count((False, True))
        rows.append({
            "scenario": scenario, "control": control, "latency_s": latency, "threats": list(threats), "changes": list(changes),
            "mode": mode, "blind": blind, "episodes": n, "failures": failed, "failures_95": binomial_interval(failed, n),
            "collisions": sum(bool(run["collision"]) for run in group), "lifts": sum(run["lifted"] > 0.0 for run in group),
            "stands": sum(outcome_rank(run) == LATE for run in group), "worse": sorted(
                run["seed"] for run in group if control == SHARED and outcome_rank(run) > min(
                    alone.get((OPERATOR, scenario, latency, run["seed"]), HARM), alone.get((AUTONOMY, scenario, None, run["seed"]), HARM))),
            **{name: [float(np.mean([run[name] for run in group])), max(run[name] for run in group)]
               for name in ("k_crossings", "k_crossings_of_one_threat")},
            "goals": len(times), "time_s": float(np.median(times)) if times else math.nan,
            "path_error_m": float(np.median(errors)) if errors else math.nan,
            "mean_speed": float(np.mean([run["mean_speed"] for run in group])), "mean_k": float(np.mean([run["mean_k"] for run in group])),
            "k_where_fine": float(np.mean(needless)) if needless else math.nan,
            "steering_effort": float(np.mean([run["steering_effort"] for run in group])),
            "against_risk": [worse, better, float(binomtest(worse, worse + better).pvalue) if worse + better else 1.0] if pairs else None})
    return rows


LATE, HARM = 1, 2


def outcome_rank(run: Mapping[str, Any]) -> int:
    """Ranks the outcome of a run: 0 success, LATE (or stopped), HARM."""
    return 0 if not run["failure"] else LATE if run["failure"] == DOES_NOT_ARRIVE else HARM


def variant(run: Mapping[str, Any]) -> str:
    """Returns the variant of a run or a row: "risk", one of ABLATION, or empty, as without shared control."""
    if run["control"] != SHARED or run["blind"]:
        return ""
    setup = {"threats": tuple(run["threats"]), "changes": tuple(run["changes"]), "mode": run["mode"]}
    standard: dict[str, Any] = {"threats": RISK_THREATS, "changes": (), "mode": BLEND}
    return next((name for name, changes in {"risk": {}, **ABLATION}.items() if setup == standard | changes), "")


def ablation_table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows of the variants of the threat on the same seeds; no rows if only RISK_THREATS were driven."""
    heads = ["scenario", "latency [s]", "threat by", "runs", "failures (95 %)", "collisions", "mean speed [m/s]", "mean k",
             "k where the operator alone does not fail", "fails where risk does not : the other way round"]
    names = ("risk", *ABLATION)
    cells = {(row["scenario"], row["latency_s"]) for row in rows if variant(row) in ABLATION}
    shown = [row for row in rows if (row["scenario"], row["latency_s"]) in cells and variant(row)]
    ordered = sorted(shown, key=lambda r: (list(ALL_SETTINGS).index(r["scenario"]), r["latency_s"], names.index(variant(r))))
    return heads, [[row["scenario"], f"{row['latency_s']:g}", variant(row), str(row["episodes"]), _failures(row), str(row["collisions"]),
                    format_number(row["mean_speed"], 1), format_number(row["mean_k"]), format_number(row["k_where_fine"]), _against(row)]
                   for row in ordered]


def _against(row: Mapping[str, Any]) -> str:
    if variant(row) == "risk" or row["against_risk"] is None:
        return "-"
    worse, better, p = row["against_risk"]
    return f"{worse} : {better} (p = {p:.2g})"


def _failures(row: Mapping[str, Any]) -> str:
    return f"{row['failures']} ({row['failures_95'][0]:.0%} to {row['failures_95'][1]:.0%})"


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Returns heads and rows."""
    heads = ["scenario", "latency [s]", "control", "runs", "failures (95 %)", "of these only stand",
             "worse than the better of both alone (seeds)", "k through 1/2: mean, most", "in one threat: mean, most", "collisions", "lifts",
             "path error [m]", "time [s]", "mean speed [m/s]", "steering effort [1/s]", "mean k",
             "k where the operator alone does not fail"]

    def name(row: Mapping[str, Any]) -> str:
        parts = [row["control"]] + ([row["mode"]] if row["mode"] != BLEND else []) + (["blind"] if row["blind"] else [])
        if row["control"] == SHARED and row["threats"] != list(RISK_THREATS):
            parts.append("+".join(row["threats"]))
        return " ".join([*parts, *row["changes"]])

    ordered = sorted(rows, key=lambda r: (list(ALL_SETTINGS).index(r["scenario"]), r["latency_s"], CONTROLS.index(r["control"])))
    return heads, [[row["scenario"], f"{row['latency_s']:g}", name(row), str(row["episodes"]),
                    _failures(row), str(row["stands"]), movers.format_seeds(row["worse"]) if row["control"] == SHARED else "-",
                    *(f"{row[name][0]:.1f}, {row[name][1]}" if row["control"] == SHARED else "-"
                      for name in ("k_crossings", "k_crossings_of_one_threat")),
                    str(row["collisions"]), str(row["lifts"]), format_number(row["path_error_m"]),
                    format_number(row["time_s"], 1), format_number(row["mean_speed"], 1), format_number(row["steering_effort"]),
                    format_number(row["mean_k"]), format_number(row["k_where_fine"])] for row in ordered]


def is_beneficial(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Checks that sharing by RISK_THREATS and blending fails less often than the operator alone at every latency above 0 at which the
    operator fails, and never more often."""
    def failures(control: str) -> dict[tuple[str, float], float]:
        return {(r["scenario"], r["latency_s"]): r["failures"] / r["episodes"] for r in rows
                if r["control"] == control and not r["blind"] and (control != SHARED or variant(r) == "risk")}

    alone, shared = failures(OPERATOR), failures(SHARED)
    return all(shared[cell] < share or share == shared[cell] == 0.0 for cell, share in alone.items() if cell in shared and cell[1] > 0.0)
