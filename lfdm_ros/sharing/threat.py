"""The threat to the vehicle: components behind one interface, and rules that combine them to one number.

Components look at the same danger from several sides, so that their threats are not independent: the sum of two of them, or the noisy-or 1
- (1 - a)(1 - b), would count one obstacle twice, and would grow with each component that is added. The threat of all is their maximum: it
is monotone in each, as large as the worst, and does not change when a component is given twice. `noisy_or` is there for components whose
causes are independent.

The autonomy's plan is assessed as well. Where that is worse, handing over would not help: k follows the operator's threat less the excess
of autonomy's over it, which is monotone in both (`relative`).
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
    """Probability of an event within the horizon by one driver's command: "operator collision". The ends are those of the 95 % interval."""

    name: str
    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Assessment:
    """A component's assessment.

    threat: of leaving the wheel to the operator, in [0, 1]; NaN: unknown, and `reason` says why. autonomy: of leaving it to the autonomy;
    NaN: this component does not assess that. reason: one line. details: numbers behind it, by name with their unit. rollouts, horizon [s],
    seconds of wall clock: of the probabilities.
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
    """One way to see a threat. Made without arguments, or with those of its settings; a `Declared` dataclass has them checked.

    `assess` is called once a period with all that is known, and may keep what it likes between calls; equal calls in equal order give equal
    answers. `reset`: time or place are not what they were. A component with `prepare(vehicle)` is given the vehicle before it drives:
    then what has to be compiled is.
    """

    @property
    def name(self) -> str: ...
    def assess(self, situation: Situation) -> Assessment: ...
    def reset(self) -> None: ...


@dataclass(frozen=True)
class Threat:
    """The threat of all components together, of the operator's command and of autonomy's (NaN: nobody could tell), and what each said."""

    operator: float
    autonomy: float
    assessments: Mapping[str, Assessment] = field(default_factory=dict)

    @property
    def relative(self) -> float:
        """The operator's threat less the excess of autonomy's over it, which k follows; NaN where the operator's is unknown."""
        if math.isnan(self.autonomy):
            return self.operator
        return max(self.operator - max(self.autonomy - self.operator, 0.0), 0.0)  # NaN stays NaN: it is no larger than 0.0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons of the components, the largest threat first, unknown ones last."""
        told = sorted(self.assessments.items(), key=lambda item: -item[1].threat if item[1].threat == item[1].threat else math.inf)
        return tuple(f"{name}: {a.reason or f'{a.threat:.2f}'}" for name, a in told)


def maximum(threats: Iterable[float]) -> float:
    """Returns the largest of them; NaN where all are NaN."""
    return max((t for t in threats if t == t), default=math.nan)


def noisy_or(threats: Iterable[float]) -> float:
    """Returns the probability that one at least of independent causes acts; NaN where all are NaN."""
    known = [t for t in threats if t == t]
    return 1.0 - math.prod(1.0 - t for t in known) if known else math.nan


@dataclass(frozen=True)
class Rule:
    """A way to make one threat of many: combine(threats) gives it; NaN where all are NaN."""

    name: str
    combine: Callable[[Iterable[float]], float]


RULES: plugins.Door[Rule] = plugins.Door(
    "rule", "lfdm_ros.threat_rules", Rule, "combine", Rule("maximum", maximum), Rule("noisy_or", noisy_or))
register_rule = RULES.register


def assess(components: Sequence[ThreatComponent], situation: Situation, rule: str = "maximum") -> Threat:
    """Assesses a situation by all components, combined by one of RULES; a threat beyond [0, 1] counts as its nearer end. The threat of a
    component that raises is unknown, with the error as its reason."""
    said = {component.name: _assessed(component, situation) for component in components}

    def combine(threats: Iterable[float]) -> float:
        return _within(RULES[rule].combine(map(_within, threats)))

    return Threat(combine(a.threat for a in said.values()), combine(a.autonomy for a in said.values()), said)


def _assessed(component: ThreatComponent, situation: Situation) -> Assessment:
    try:
        return component.assess(situation)
    except Exception as error:  # whatever foreign code raises: the vehicle is to be driven all the same
        return Assessment.unknown(f"failed: {type(error).__name__}: {error}")


def _within(threat: float) -> float:
    return min(max(threat, 0.0), 1.0) if threat == threat else threat
