"""Components of the threat by name: built-in ones, and registered ones.

Clearance measures the outline against circles exactly, as the simulated world does; moving obstacles are extrapolated at constant velocity.
Load transfer follows the lateral acceleration as in a steady turn (paper 000 eqs 10-13), as in the planner; the measured roll replaces the
steady one for the present state.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np

from lfdm_ros import documents, plugins
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.routing.hidden_traffic import hidden_traffic_speeds
from lfdm_ros.control.safety.stops import outline_distance, peak_of
from lfdm_ros.errors import InputError, quote
from lfdm_ros.models import roll_chassis
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.forecast import MODEL, column, poses
from lfdm_ros.sharing.risk import Risk, RiskRollouts, RiskSettings
from lfdm_ros.sharing.situation import Situation
from lfdm_ros.sharing.threat import Assessment, Probability, ThreatComponent
from lfdm_ros.vehicles import Footprint, Vehicle
from lfdm_ros.vehicles.body import mass_of


@dataclass(frozen=True)
class Sideslip(Declared):
    """The law published with paper 001's experiments, as a baseline: threat = |atan2(vy, |vx|)| / full, at most 1. It uses neither
    obstacles nor a prediction, and 3 degrees are ordinary in a hard lane change."""

    ABOUT: ClassVar[str] = "threat sideslip: "
    name: ClassVar[str] = "sideslip"

    full: float = setting(3.0, "deg", "sideslip at which the threat is 1", 0.1, 90.0)
    least_speed: float = setting(0.5, "m/s", "speed below which sideslip is not evaluated", 0.0, 10.0)

    def assess(self, situation: Situation) -> Assessment:
        vx, vy = situation.value("vx"), situation.value("vy")
        if math.hypot(vx, vy) < self.least_speed:
            return Assessment(0.0, "standing")
        slip = math.degrees(abs(math.atan2(vy, abs(vx))))
        return Assessment(min(slip / self.full, 1.0), f"sideslip {slip:.1f} deg", details={"sideslip_deg": slip})

    def reset(self) -> None:
        """Keeps nothing."""


SLOW = 2.0  # [m/s] below which slip angles are not evaluated
MIN_ANGLE, MIN_GRIP = 1e-3, 0.1  # [rad], [m/s^2] lower bounds for ground without friction
PEAK = 3.0  # the Fiala tyre slides from tan(alpha) = 3 mu Fz / C on (001 eq 18)


@dataclass(frozen=True)
class Demand(Declared):
    """The worst front sideslip of the autonomy's plan, or its share of the friction circle: 0 up to `engage`, 1 from `full` on. Anderson,
    Peters, Pilutti & Iagnemma 2010, "An optimal-control-based framework for trajectory planning, threat assessment, and semi-autonomous
    control of passenger vehicles in hazard avoidance scenarios": the plan is the least demanding manoeuvre available; a demanding plan
    leaves little margin."""

    ABOUT: ClassVar[str] = "threat demand: "
    name: ClassVar[str] = "demand"

    measure: str = setting("sideslip", "", "measure of the plan: sideslip of the front tyres, or saturation of the friction circle",
                           choices=("sideslip", "saturation"))
    engage: float = setting(0.35, "1", "share of the peak up to which the threat is 0", 0.0, 5.0)
    full: float = setting(0.85, "1", "share of the peak from which on the threat is 1", 0.01, 5.0)
    horizon: float = setting(2.0, "s", "evaluated part of the plan", 0.1, 10.0)
    model: str = setting(MODEL, "", "vehicle model with the ground that gives the friction along the plan, by its name in the registry")

    def assess(self, situation: Situation) -> Assessment:
        plan = situation.plan
        if plan is None:
            return Assessment.unknown("autonomy has no plan")
        near = (plan.times >= situation.time - 1e-9) & (plan.times <= situation.time + self.horizon + 1e-9)
        if not near.any():
            return Assessment.unknown("the plan is over")
        share = (front_slip if self.measure == "sideslip" else saturation)(plan, situation.vehicle, self.model)
        if share is None:
            return Assessment.unknown(f"plan or vehicle lacks what its {self.measure} needs")
        worst = float(np.max(share[near]))
        if not math.isfinite(worst):
            return Assessment.unknown("the plan is not finite")
        threat = min(max((worst - self.engage) / max(self.full - self.engage, 1e-6), 0.0), 1.0)
        return Assessment(threat, f"the plan's {self.measure} reaches {100.0 * worst:.0f} % of the peak", details={"share": worst})

    def reset(self) -> None:
        """Keeps nothing."""


def front_slip(plan: Plan, vehicle: Vehicle, model: str = MODEL) -> np.ndarray | None:
    """Returns front slip angles of a plan (n,), as shares of the sliding angle on the model's ground at each pose; None: unknown."""
    p, place, grip = vehicle.parameters, {name: i for i, name in enumerate(plan.names)}, _grip_along(plan, vehicle, model)
    if grip is None or not {"vx", "vy", "yaw_rate"} <= set(place) or not {"cornering_stiffness_front", "max_road_wheel_angle"} <= set(p):
        return None
    vx, vy, r = (plan.states[:, place[name]] for name in ("vx", "vy", "yaw_rate"))
    road = plan.states[:, place["road_steering"]] if "road_steering" in place else plan.inputs[:, 0]
    slip = np.abs(road * p["max_road_wheel_angle"] - np.arctan2(vy + p["cg_to_front_axle"] * r, np.maximum(np.abs(vx), SLOW)))
    return np.where(np.abs(vx) < SLOW, 0.0, slip / np.maximum(sliding_angle(p, grip), MIN_ANGLE))


def sliding_angle(p: Mapping[str, float], grip: np.ndarray) -> np.ndarray:
    """Returns the slip angle at which the front tyres begin to slide [rad], for peak accelerations `grip` [m/s^2]; of its shape."""
    load = 0.5 * mass_of(p) * p["cg_to_rear_axle"] / (p["cg_to_front_axle"] + p["cg_to_rear_axle"])
    return np.arctan(PEAK * grip * load / p["cornering_stiffness_front"])


def saturation(plan: Plan, vehicle: Vehicle, model: str = MODEL) -> np.ndarray | None:
    """Returns accelerations of a plan (n,), as shares of the friction limit of the model's ground at each pose; None: unknown."""
    grip = _grip_along(plan, vehicle, model)
    if grip is None or not {"ax", "ay"} <= set(plan.names):
        return None
    used: np.ndarray = np.hypot(column(plan, "ax"), column(plan, "ay")) / np.maximum(grip, MIN_GRIP)
    return used


def _grip_along(plan: Plan, vehicle: Vehicle, model: str) -> np.ndarray | None:
    """Returns the peak acceleration of the tyres at the poses of a plan [m/s^2], (n,) or (1,); None: unknown."""
    if not {"x", "y", "yaw"} <= set(plan.names) or "friction_max" not in vehicle.parameters:
        return None
    try:
        peak = peak_of(vehicle.model(model), vehicle)
    except InputError:  # no such model, or the vehicle lacks parameters of it
        return None
    return peak(*(column(plan, name) for name in ("x", "y", "yaw")))


SPACING = 0.25  # [m] between the poses that are checked


def _obstacles_timeout(situation: Situation, timeout: float) -> str:
    """Returns the reason why the obstacles count as outdated, by their age [s]; empty: they do not."""
    age = situation.time - situation.obstacles.time
    if age <= timeout:
        return ""
    return "no obstacles received yet" if math.isinf(age) else f"obstacles are {age:.2f} s old"


@dataclass(frozen=True)
class Clearance(Declared):
    """Threat by time to collision and clearance of the operator's constant command, and of the autonomy's plan: contact now is 1, contact
    later than `far` or a gap of `margin` is 0."""

    ABOUT: ClassVar[str] = "threat clearance: "
    name: ClassVar[str] = "clearance"

    near: float = setting(0.7, "s", "time to collision up to which the threat is 1", 0.0, 10.0)
    far: float = setting(1.8, "s", "time to collision from which on the threat is 0", 0.01, 20.0)
    margin: float = setting(0.3, "m", "gap from which on the threat is 0", 0.01, 10.0)
    scan_timeout: float = setting(1.0, "s", "age of the obstacles from which on the threat is unknown", 0.01, 60.0)

    def assess(self, situation: Situation) -> Assessment:
        if outdated := _obstacles_timeout(situation, self.scan_timeout):
            return Assessment.unknown(outdated)
        if situation.intention is None:
            return Assessment.unknown("no command of the operator")
        operator, ttc, gap = self._threat(situation, situation.intention)
        autonomy = math.nan if situation.plan is None else self._threat(situation, situation.plan)[0]
        reason = "nothing near" if math.isinf(gap) else f"{gap:.2f} m" if math.isinf(ttc) else f"collision in {ttc:.2f} s"
        return Assessment(operator, reason, autonomy, {"time_to_collision_s": ttc, "clearance_m": gap})

    def _threat(self, situation: Situation, trajectory: Plan) -> tuple[float, float, float]:
        """Returns threat, time to collision [s] and least clearance [m]; inf: none."""
        ahead, gaps = clearances(trajectory, situation.time, self.far, situation.obstacles, situation.vehicle.footprint)
        if not len(ahead):
            return math.nan, math.inf, math.inf
        urgent = np.clip((self.far - ahead) / max(self.far - self.near, 1e-6), 0.0, 1.0)
        close = np.clip(1.0 - gaps / self.margin, 0.0, 1.0)
        hits = np.flatnonzero(gaps <= 0.0)
        return float((urgent * close).max()), float(ahead[hits[0]]) if len(hits) else math.inf, float(gaps.min())

    def reset(self) -> None:
        """Keeps nothing."""


def clearances(trajectory: Plan, now: float, horizon: float, obstacles: Obstacles, outline: Footprint) -> tuple[np.ndarray, np.ndarray]:
    """Returns times from `now` on (n,) [s], at most `horizon`, and the smallest distance of the outline to an obstacle at each (n,) [m],
    below 0 inside; inf where none is near."""
    ahead, at = poses(trajectory, now, horizon, SPACING)
    gaps = np.full(len(ahead), math.inf)
    if not len(ahead) or not len(obstacles.radii):
        return ahead, gaps
    x, y, yaw = at.T
    late = (now - obstacles.time) + ahead
    reach = outline.front + outline.rear + 2.0 * outline.half_width + float(np.hypot(x - x[0], y - y[0]).max())
    away = np.hypot(obstacles.centres[:, 0] - x[0], obstacles.centres[:, 1] - y[0]) - obstacles.radii
    travelled = np.hypot(obstacles.velocities[:, 0], obstacles.velocities[:, 1]) * float(late[-1])
    near = obstacles.where(away < reach + travelled + 5.0)
    if not len(near.radii):
        return ahead, gaps
    apart = near.centres + near.shifts(late) - at[:, None, :2]
    return ahead, (outline_distance(outline, apart[..., 0], apart[..., 1], yaw[:, None]) - near.radii).min(axis=1)


NEEDED = tuple(f.name for f in roll_chassis.PARAMETERS if "damping" not in f.name and "inertia" not in f.name)


class Loads:
    """Load-transfer ratios of a vehicle: difference of an axle's wheel loads over their sum, 0 at rest, 1 when a wheel has lifted."""

    def __init__(self, vehicle: Vehicle) -> None:
        """Raises KeyError where the vehicle lacks parameters."""
        p = SimpleNamespace(**{name: vehicle.parameters[name] for name in NEEDED})
        terms = roll_chassis.load_terms(p)
        steady = terms.lever / terms.roll_stiffness  # roll for a unit of ay
        self._static, self._pitch = terms.static, terms.pitch
        self._lateral, self._springs = terms.lateral, terms.springs
        self._steady = steady

    def ratio(self, ay: np.ndarray, ax: np.ndarray, roll: np.ndarray | None = None) -> np.ndarray:
        """Returns the larger ratio of the two axles (n,); roll: [rad] to the right, None: of a steady turn."""
        lean = self._steady * ay if roll is None else roll
        worst = np.zeros(np.shape(ay))
        for static, lateral, spring, sign in zip(self._static, self._lateral, self._springs, (-1.0, 1.0)):
            load = np.maximum(static + sign * self._pitch * ax, 0.05 * static)
            worst = np.maximum(worst, np.abs(lateral * ay + spring * lean) / load)
        return worst


@dataclass(frozen=True)
class LoadTransfer(Declared):
    """Threat by load transfer, measured or predicted: 0 up to `engage`, 1 from `full` on."""

    ABOUT: ClassVar[str] = "threat load_transfer: "
    name: ClassVar[str] = "load_transfer"

    engage: float = setting(0.6, "1", "load-transfer ratio up to which the threat is 0", 0.0, 1.0)
    full: float = setting(0.95, "1", "load-transfer ratio from which on the threat is 1", 0.01, 2.0)
    horizon: float = setting(1.5, "s", "prediction horizon of the loads", 0.1, 10.0)

    def assess(self, situation: Situation) -> Assessment:
        try:
            loads = Loads(situation.vehicle)
        except KeyError as missing:
            return Assessment.unknown(f"the vehicle has no {missing.args[0]}")
        ay, ax, roll = (situation.value(name) for name in ("ay", "ax", "roll"))
        if math.isnan(ay):
            ay = situation.value("vx") * situation.value("yaw_rate")
        now = float(loads.ratio(np.array(ay), np.array(0.0 if math.isnan(ax) else ax), None if math.isnan(roll) else np.array(roll)))
        operator = self._worst(loads, situation, situation.intention)
        autonomy = self._worst(loads, situation, situation.plan)
        worst = max(now, operator) if operator == operator else now
        return Assessment(self._threat(worst), f"load transfer {now:.2f}" + (f", {operator:.2f} ahead" if operator == operator else ""),
                          self._threat(max(now, autonomy)) if autonomy == autonomy else math.nan,
                          {"now": now, "operator": operator, "autonomy": autonomy})

    def _worst(self, loads: Loads, situation: Situation, trajectory: Plan | None) -> float:
        """Returns the largest ratio on a trajectory within the horizon; NaN: unknown."""
        if trajectory is None or not {"ax", "ay"} <= set(trajectory.names):
            return math.nan
        t = trajectory.times
        near = (t >= situation.time - 1e-9) & (t <= situation.time + self.horizon + 1e-9)
        if not near.any():
            return math.nan
        return float(loads.ratio(column(trajectory, "ay")[near], column(trajectory, "ax")[near]).max())

    def _threat(self, ratio: float) -> float:
        return min(max((ratio - self.engage) / max(self.full - self.engage, 1e-6), 0.0), 1.0)

    def reset(self) -> None:
        """Keeps nothing."""


@dataclass(frozen=True)
class Hidden(Declared):
    """Threat by speed in excess of the limit for traffic hidden by obstacles beside the path (`routing.hidden_traffic`): the largest excess
    while the operator's command stays constant; 0 if the operator brakes at least as hard as autonomy. Unknown if no hidden traffic is
    assumed."""

    ABOUT: ClassVar[str] = "threat hidden: "
    name: ClassVar[str] = "hidden"

    full: float = setting(1.5, "m/s", "excess of the speed at which the threat is 1", 0.1, 20.0)
    braking: float = setting(5.0, "m/s^2", "deceleration of the stop for emerging traffic", 0.1, 20.0)
    # With a shorter one, an operator of a slow link would regain the pedal between two parked cars, and lose it again at the next.
    ahead: float = setting(1.0, "s", "time for which the operator's command is held", 0.0, 3.0)
    scan_timeout: float = setting(1.0, "s", "age of the obstacles from which on the threat is unknown", 0.01, 60.0)

    def assess(self, situation: Situation) -> Assessment:
        path, x, y, yaw, vx = situation.path, *(situation.value(name) for name in ("x", "y", "yaw", "vx"))
        if path is None or situation.hidden_speed <= 0.0:
            return Assessment.unknown("no hidden traffic is assumed")
        if outdated := _obstacles_timeout(situation, self.scan_timeout):
            return Assessment.unknown(outdated)
        vehicle, intention, rows = situation.vehicle, situation.intention, np.array([[x, y, vx]])
        if intention is not None:
            predicted = np.column_stack([column(intention, name) for name in ("x", "y", "vx")])
            rows = np.vstack([rows, predicted[intention.times <= situation.time + self.ahead]])
        stations = path.project(rows[:, 0], rows[:, 1])[0]
        highest = hidden_traffic_speeds(
            path, float(stations[0]), max(vx, 0.0), vehicle.lidar.place(x, y, yaw), situation.obstacles.at(situation.time),
            vehicle.footprint, situation.hidden_speed, self.braking)
        excess = max(float(np.max(rows[:, 2] - highest[np.minimum(np.searchsorted(path.s, stations), len(highest) - 1)])), 0.0)
        slows = situation.operator is not None and situation.autonomy is not None and (
            situation.operator.pedal <= situation.autonomy.pedal)
        reason = f"{excess:.1f} m/s faster than hidden traffic allows" if excess else "nothing hidden"
        return Assessment(0.0 if slows else min(excess / self.full, 1.0), reason, 0.0, {"excess_m_s": excess})

    def reset(self) -> None:
        """Keeps nothing."""


MAX_ALIKE = 0.5  # share of runs in which both drivers fail alike


@dataclass(frozen=True)
class RiskThreat(RiskSettings):
    """Threat P(autonomy does better than the operator) / full, for autonomy with the roles exchanged; both at most 1. Unknown where both
    fail alike in most runs, so that k stays."""

    ABOUT: ClassVar[str] = "threat risk: "
    name: ClassVar[str] = "risk"

    full: float = setting(0.3, "1", "probability at which the threat is 1", 0.01, 1.0)

    def assess(self, situation: Situation) -> Assessment:
        if situation.operator is None and situation.plan is None:
            return Assessment.unknown("neither command nor plan")
        try:
            risk = self._rollouts_of(situation.vehicle).assess(situation)
        except InputError as error:
            return Assessment.unknown(str(error))
        if risk.operator is None:
            return Assessment.unknown("no command of the operator")
        threat, harm = (min(p.value / self.full, 1.0) for p in (risk.averted, risk.harmed))
        words = _summary(risk)
        if risk.alike.value > MAX_ALIKE:
            threat, words = math.nan, f"{words}: whoever drives"
        return Assessment(threat, words, math.nan if risk.autonomy is None else harm, probabilities=tuple(
            Probability(name, p.value, *p.interval) for name, p in risk.probabilities.items()), rollouts=risk.operator.failure.runs,
            horizon=risk.horizon, seconds=risk.seconds)

    def reset(self) -> None:
        """Keeps nothing that depends on time or position."""

    def prepare(self, vehicle: Vehicle) -> None:
        """Compiles the rollouts. Raises InputError as they do."""
        self._rollouts_of(vehicle)

    def _rollouts_of(self, vehicle: Vehicle) -> RiskRollouts:
        rollouts = self.__dict__.get("_rollouts")
        if rollouts is None:
            rollouts = RiskRollouts(vehicle, RiskSettings(**{f.name: getattr(self, f.name) for f in fields(RiskSettings)}))
            object.__setattr__(self, "_rollouts", rollouts)
        return rollouts


def _summary(risk: Risk) -> str:
    failures = [f"{name} {p.value:.0%}" for name, p in risk.probabilities.items() if p.count]
    return f"{', '.join(failures) or 'nothing fails'} within {risk.horizon:g} s, of {risk.averted.runs}"


COMPONENTS: plugins.Door[type[ThreatComponent]] = plugins.Door(
    "threat", "lfdm_ros.threats", ThreatComponent, "assess", Sideslip, Demand, Clearance, LoadTransfer, Hidden, RiskThreat)
register_component = COMPONENTS.register


def make_components(names: Sequence[str], changes: Sequence[str] = ()) -> tuple[ThreatComponent, ...]:
    """Makes components by name.

    Args:
        changes: of settings, NAME.SETTING=VALUE; those of components that are not in `names` have no effect.

    Raises:
        InputError: no such component or setting, a name twice, or a value that does not fit.
    """
    available, settings = tuple(COMPONENTS), dict[str, dict[str, Any]]()
    for name in names:
        COMPONENTS.find(name)
        if names.count(name) > 1:
            raise InputError(f"threat '{name}' is given twice")
        settings[name] = {}
    for change in changes:
        path, equals, text = change.partition("=")
        name, dot, setting = path.strip().partition(".")
        if not (equals and dot) or name not in available:
            raise InputError(f"{quote(change)}: write NAME.SETTING=VALUE, NAME one of {', '.join(available)}")
        value = _setting(name, setting, text)
        if name in settings:
            settings[name][setting] = value
    return tuple(COMPONENTS[name](**values) for name, values in settings.items())


def _setting(name: str, setting: str, text: str) -> Any:
    kind = COMPONENTS[name]
    table = Exposed(cast(Any, kind)).by_field if issubclass(cast(type, kind), Declared) else {}
    if setting not in table:
        raise InputError(f"threat '{name}' has no setting {quote(setting)}; it has {', '.join(table) or 'none'}")
    where = f"{name}.{setting}"
    return table[setting].convert(documents.parse_yaml(text, where), where)
