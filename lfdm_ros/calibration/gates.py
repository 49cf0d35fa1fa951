"""Acceptance conditions of a posterior before a vehicle uses it. Pure functions of the contents of summary.json."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from lfdm_ros.errors import InputError
from lfdm_ros.vehicles.schema import DECLARED
from lfdm_ros.vehicles.vehicle import check

SPEED = "speed"


@dataclass(frozen=True)
class GateLimits:
    """Thresholds of the gates.

    Attributes:
        r_hat: largest rank-normalised split R-hat of any unknown.
        ess: least bulk effective sample size of any unknown.
        coverage: range of the share of measured samples that the 90 % predictive intervals hold, of each channel.
        change_sd: largest change of a vehicle parameter, in standard deviations of the posterior last applied.
        change_relative: largest change of a vehicle parameter, as a share of its value in the posterior last applied.
        speed: largest speed [m/s] at which parameters may change; negative: any speed, also when it is not known.
        slow: names or patterns of the vehicle parameters that `speed` is about.
    """

    r_hat: float = 1.01
    ess: float = 400.0
    coverage: tuple[float, float] = (0.8, 0.99)
    change_sd: float = 10.0
    change_relative: float = 0.3
    speed: float = 0.5
    slow: Sequence[str] = ("*",)


@dataclass(frozen=True)
class GateResult:
    """Verdict of one gate; `reason` has the numbers, passed or not."""

    name: str
    passed: bool
    reason: str


def verdicts(summary: Mapping[str, Any], last: Mapping[str, Any] | None, speed: float | None, limits: GateLimits) -> list[GateResult]:
    """Evaluates all gates, in order. `summary`: of the posterior to be applied, as in summary.json; `last`: of the posterior in force;
    None: the vehicle file is in force; `speed`: of the vehicle [m/s]; None: unknown."""
    return [finished(summary), r_hat(summary, limits.r_hat), ess(summary, limits.ess), coverage(summary, *limits.coverage),
            bounds(summary), change_sd(summary, last, limits.change_sd), change_relative(summary, last, limits.change_relative),
            slow(summary, speed, limits.speed, limits.slow)]


def refused(verdicts: Iterable[GateResult]) -> str:
    """Joins the reasons of the gates that did not pass, in one line; empty: all passed."""
    return "; ".join(f"{verdict.name}: {verdict.reason}" for verdict in verdicts if not verdict.passed)


def finished(summary: Mapping[str, Any]) -> GateResult:
    interrupted = bool(summary.get("interrupted"))
    stages = ", ".join(finished_stages(summary))
    return GateResult("finished", not interrupted, f"all stages done: {stages}" if not interrupted else
                   f"interrupted; only {stages} finished" if stages else "interrupted; nothing finished")


def finished_stages(summary: Mapping[str, Any]) -> list[str]:
    """Names of the completed stages; the summary also lists an interrupted one."""
    return [stage["name"] for stage in summary["stages"] if stage.get("temperature", 1.0) == 1.0]


def r_hat(summary: Mapping[str, Any], largest: float) -> GateResult:
    return _judge("r_hat", _diagnostic(summary, "r_hat"), max, lambda value: value <= largest, f"at most {largest:g} is allowed", "R-hat",
                  ".4g")


def ess(summary: Mapping[str, Any], least: float) -> GateResult:
    return _judge("ess", _diagnostic(summary, "ess_bulk"), min, lambda value: value >= least, f"at least {least:g} is required", "bulk ESS",
                  ".0f")


def coverage(summary: Mapping[str, Any], lower: float, upper: float) -> GateResult:
    """Checks the coverage of the predictive intervals of parameters and noise on data that were not fitted: held out or cross-validated; on
    the fitted data only where there is nothing else."""
    held_out, unseen = summary.get("held_out"), summary.get("out_of_sample")
    held_out_coverage = held_out.get("coverage_90") if isinstance(held_out, Mapping) else None
    left = {name: row.get("coverage_90") for name, row in unseen.items()} if isinstance(unseen, Mapping) else {}
    where = "of held-out data" if held_out_coverage else "of data left out in turn" if left else "of the fitted data (nothing was held out)"
    values = _numbers({**left, **held_out_coverage} if held_out_coverage else left or summary.get("coverage_90", {}))
    rule = f"between {lower:.0%} and {upper:.0%} of the samples should lie in the 90 % intervals {where}"
    return _judge("coverage", values, lambda all_: max(all_, key=lambda v: max(lower - v, v - upper)), lambda v: lower <= v <= upper,
                  rule, "coverage", ".1%")


def bounds(summary: Mapping[str, Any]) -> GateResult:
    """Checks that each vehicle parameter, and its 94 % interval, is physically possible as the models declare it."""
    ends = [(f"{target} ({end} of {name})", target, factor * float(row[end])) for stage in summary["stages"]
            for name, row in stage["parameters"].items() for target, factor in (row.get("targets") or {}).items()
            for end in ("hdi_3%", "hdi_97%") if row.get(end) is not None]
    for label, name, value in (*_passed_on(summary), *ends):
        try:
            check(name, math.nan if value is None else value, label)
        except InputError as error:
            return GateResult("bounds", False, str(error))
    return GateResult("bounds", True, f"{len(_passed_on(summary))} vehicle parameters and their intervals are inside the declared ranges")


def change_sd(summary: Mapping[str, Any], last: Mapping[str, Any] | None, most: float) -> GateResult:
    """Checks that no vehicle parameter moves by more than `most` standard deviations of the posterior in force."""
    spread = {target: abs(factor) * float(row["sd"]) for stage in (last or {"stages": ()})["stages"] for row in stage["parameters"].values()
              for target, factor in (row.get("targets") or {}).items() if row.get("sd") is not None}
    changes = {name: _ratio(new - old, spread[name]) for name, old, new in _pairs(summary, last) if name in spread}
    return _change("change_sd", changes, most, last, ".3g", "standard deviations of the posterior in force")


def change_relative(summary: Mapping[str, Any], last: Mapping[str, Any] | None, most: float) -> GateResult:
    """Checks that no vehicle parameter moves by more than the share `most` of its value in force."""
    changes = {name: _ratio(new - old, old) for name, old, new in _pairs(summary, last)}
    return _change("change_relative", changes, most, last, ".1%", "of the value in force")


def slow(summary: Mapping[str, Any], speed: float | None, most: float, patterns: Sequence[str]) -> GateResult:
    """Checks that the vehicle is slow enough for the parameters that must not jump while it drives."""
    concerned = [name for _, name, _ in _passed_on(summary) if any(fnmatch(name, pattern) for pattern in patterns)]
    if most < 0.0 or not concerned:
        return GateResult(SPEED, True, "no parameter of this posterior needs a slow vehicle")
    subject = f"{', '.join(concerned[:3])}{' and others' if len(concerned) > 3 else ''} may change"
    if speed is None or not math.isfinite(speed):
        return GateResult(SPEED, False, f"the vehicle's speed is not known (no fresh vehicle/state); {subject} at {most:g} m/s or less")
    return GateResult(SPEED, abs(speed) <= most, f"the vehicle drives at {abs(speed):.2f} m/s; {subject} at {most:g} m/s or less")


def _passed_on(summary: Mapping[str, Any]) -> list[tuple[str, str, float | None]]:
    """Lists (label, vehicle parameter, value) of all stages."""
    return [(stage["name"], name, value) for stage in summary["stages"] for name, value in stage["passed_on"].items()]


def _pairs(summary: Mapping[str, Any], last: Mapping[str, Any] | None) -> list[tuple[str, float, float]]:
    """Lists (vehicle parameter, value in force, new value) of parameters set by both."""
    before = {name: value for _, name, value in _passed_on(last)} if last else {}
    return [(name, float(old), float(new)) for _, name, new in _passed_on(summary)
            if (old := before.get(name)) is not None and new is not None]


def _ratio(change: float, scale: float) -> float:
    return abs(change / scale) if scale else math.inf if change else 0.0


def _diagnostic(summary: Mapping[str, Any], key: str) -> dict[str, float]:
    rows = {f"{stage['name']}: {name}": row for stage in summary["stages"] for name, row in stage["parameters"].items()}
    return _numbers({name: row.get(key) for name, row in rows.items()})


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: math.nan if value is None else float(value) for name, value in values.items()}


def _judge(name: str, values: Mapping[str, float], worst: Any, good: Any, rule: str, quantity: str, form: str) -> GateResult:
    if not values:
        return GateResult(name, False, f"the calibration says nothing of its {quantity}")
    unknown = [key for key, value in values.items() if not math.isfinite(value)]
    if unknown:
        return GateResult(name, False, f"{quantity} of {unknown[0]} could not be computed; {rule}")
    value = worst(values.values())
    key = next(key for key, candidate in values.items() if candidate == value)
    return GateResult(name, bool(good(value)), f"{quantity} of {key} is {value:{form}}; {rule}")


def _change(name: str, changes: Mapping[str, float], most: float, last: Mapping[str, Any] | None, form: str, unit: str) -> GateResult:
    if last is None:
        return GateResult(name, True, "no posterior is in force to compare with")
    if not changes:
        return GateResult(name, True, "the posterior in force says nothing of these parameters")
    worst = max(changes, key=lambda key: changes[key])
    parameter = f"{worst} [{DECLARED[worst].unit}]" if worst in DECLARED else worst
    return GateResult(name, changes[worst] <= most,
                      f"{parameter} changes by {changes[worst]:{form}} {unit}; at most {most:{form}} is allowed")
