"""Risk as a component of the threat: what handing over would avert."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import setting
from lfdm_ros.sharing.risk import Risk, RiskRollouts, RiskSettings
from lfdm_ros.sharing.situation import Situation
from lfdm_ros.sharing.threat import Assessment, Probability
from lfdm_ros.vehicles import Vehicle

HOPELESS = 0.5  # share of worlds in which it does not matter who drives


@dataclass(frozen=True)
class RiskThreat(RiskSettings):
    """threat = P(autonomy fails less than the operator) / full; of the autonomy the same the other way round. Both at most 1. Where both
    fail alike more often than not, nothing is told: who drives then goes on."""

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
        words = _words(risk)
        if risk.alike.value > HOPELESS:
            threat, words = math.nan, f"{words}: whoever drives"
        return Assessment(threat, words, math.nan if risk.autonomy is None else harm, probabilities=tuple(
            Probability(name, p.value, *p.interval) for name, p in risk.probabilities.items()), rollouts=risk.operator.failure.runs,
            horizon=risk.horizon, seconds=risk.seconds)

    def reset(self) -> None:
        """Keeps nothing of time or place."""

    def prepare(self, vehicle: Vehicle) -> None:
        """Compiles the rollouts. Raises InputError as they do."""
        self._rollouts_of(vehicle)

    def _rollouts_of(self, vehicle: Vehicle) -> RiskRollouts:
        kept = self.__dict__.get("_rollouts")
        if kept is None:
            kept = RiskRollouts(vehicle, RiskSettings(**{f.name: getattr(self, f.name) for f in fields(RiskSettings)}))
            object.__setattr__(self, "_rollouts", kept)
        return kept


def _words(risk: Risk) -> str:
    said = [f"{name} {p.value:.0%}" for name, p in risk.probabilities.items() if p.count]
    return f"{', '.join(said) or 'nothing fails'} within {risk.horizon:g} s, of {risk.averted.runs}"
