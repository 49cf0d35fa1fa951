"""Threat to the vehicle: components with a common interface, and rules that combine them to one number.

Components assess the same hazard in several ways, so that their threats are not independent: their sum, or the noisy-or 1 - (1 - a)(1 - b),
would count one obstacle twice, and would grow with each added component. The default rule is the maximum: it is monotone in each threat and
does not change when a component is given twice. `noisy_or` is for components with independent causes.

The autonomy's plan is assessed as well. Where it is worse, handing over would not help: k follows the operator's threat less the excess of
autonomy's over it, which is monotone in both (`relative`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from lfdm_ros import plugins
from lfdm_ros.sharing.situation import Situation


@dataclass(frozen=True)
class Probability:
    """Probability of an event within the horizon for one driver ("operator collision"), with the ends of its 95 % interval."""

    name: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Assessment:
    """Assessment by one component.

    threat: if the operator drives, in [0, 1]; NaN: unknown, with the cause in `reason`. autonomy: threat if autonomy drives; NaN: not
    assessed. reason: one line. details: underlying values, by name with unit. rollouts, horizon [s], seconds of wall-clock time: of the
    probabilities.
    """

    threat: float
    reason: str = ""
    autonomy: float = math.nan
    details: Mapping[str, float] = field(default_factory=dict)
    probabilities: tuple[Probability, ...] = ()
    rollouts: int = 0
    horizon: float = math.nan
    seconds: float = 0.0

    @classmethod
    def unknown(cls, reason: str) -> Assessment:
        """Returns an assessment of unknown threat."""
        return cls(math.nan, reason)


@runtime_checkable
class ThreatComponent(Protocol):
    """Component of the threat. Constructed without arguments, or with its settings, which a `Declared` dataclass validates.

    `assess` is called once a period with the situation, and may keep state between calls; equal sequences of calls give equal results.
    `reset` is called after a jump of time or position, `prepare(vehicle)`, if there is one, before driving: compile there.
    """

    @property
    def name(self) -> str: ...
    def assess(self, situation: Situation) -> Assessment: ...
    def reset(self) -> None: ...


@dataclass(frozen=True)
class Threat:
    """Combined threat of the operator's command and of autonomy's (NaN: unknown), and the assessments of all components."""

    operator: float
    autonomy: float
    assessments: Mapping[str, Assessment] = field(default_factory=dict)

    @property
    def relative(self) -> float:
        """Operator's threat less the excess of autonomy's over it, the input of k; NaN where the operator's is unknown."""
        if math.isnan(self.autonomy):
            return self.operator
        return max(self.operator - max(self.autonomy - self.operator, 0.0), 0.0)  # NaN stays NaN: it is no larger than 0.0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons of the components, the largest threat first, unknown ones last."""
        ordered = sorted(self.assessments.items(), key=lambda item: -item[1].threat if item[1].threat == item[1].threat else math.inf)
        return tuple(f"{name}: {a.reason or f'{a.threat:.2f}'}" for name, a in ordered)


def maximum(threats: Iterable[float]) -> float:
    """Returns the largest threat; NaN where all are NaN."""
    return max((t for t in threats if t == t), default=math.nan)


def noisy_or(threats: Iterable[float]) -> float:
    """Returns the probability that at least one of independent causes acts; NaN where all are NaN."""
    available = [t for t in threats if t == t]
    return 1.0 - math.prod(1.0 - t for t in available) if available else math.nan


@dataclass(frozen=True)
class Rule:
    """Rule that combines threats: combine(threats) returns one; NaN where all are NaN."""

    name: str
    combine: Callable[[Iterable[float]], float]


RULES: plugins.Door[Rule] = plugins.Door(
    "rule", "lfdm_ros.threat_rules", Rule, "combine", Rule("maximum", maximum), Rule("noisy_or", noisy_or))
register_rule = RULES.register


def assess(components: Sequence[ThreatComponent], situation: Situation, rule: str = "maximum") -> Threat:
    """Assesses a situation with all components, combined by one of RULES; threats are clipped to [0, 1]. If a component raises, its threat
    is unknown, with the error as reason."""
    assessments = {component.name: _assessed(component, situation) for component in components}

    def combine(threats: Iterable[float]) -> float:
        return _clipped(RULES[rule].combine(map(_clipped, threats)))

    return Threat(combine(a.threat for a in assessments.values()), combine(a.autonomy for a in assessments.values()), assessments)


def _assessed(component: ThreatComponent, situation: Situation) -> Assessment:
    try:
        return component.assess(situation)
    except Exception as error:  # user code may raise anything; driving goes on
        return Assessment.unknown(f"failed: {type(error).__name__}: {error}")


def _clipped(threat: float) -> float:
    return min(max(threat, 0.0), 1.0) if threat == threat else threat
