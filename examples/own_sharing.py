"""Laws of sharing of your own, in one file: how k follows the threat, how threats become one, and what the operator is taken to do.

    export LFDM_PLUGINS=examples/own_sharing.py
    lfdm up shared_control --set law=smooth --set rule=mean --set 'threat_settings=[risk.intention=fading]'
"""

from dataclasses import dataclass, replace

import numpy as np

from lfdm_ros.sharing.intentions import IntentionKind, register_intention
from lfdm_ros.sharing.laws import LawKind, register_law
from lfdm_ros.sharing.threat import Rule, register_rule


@dataclass(frozen=True)
class Smooth:
    """k without a corner: 3 t^2 - 2 t^3 of the threat between `engage` and `full`."""

    engage: float
    full: float

    def k(self, threat, before=0.0):
        t = min(max((threat - self.engage) / (self.full - self.engage), 0.0), 1.0)
        return t * t * (3.0 - 2.0 * t)


def mean(threats):
    """Mean of the threats that are known."""
    known = [threat for threat in threats if threat == threat]
    return sum(known) / len(known) if known else float("nan")


def fade(view):
    """The operator's command fades to straight ahead with open pedals, with a time constant of `reaction`."""
    held = view.hold()
    return replace(held, inputs=held.inputs * np.exp(-view.times / max(view.settings.reaction, 1e-3))[:, None])


SMOOTH = LawKind("smooth", "a cubic between engage and full", lambda settings: Smooth(settings.engage, settings.full))
register_law(SMOOTH)
MEAN = Rule("mean", mean)
register_rule(MEAN)
FADING = IntentionKind("fading", "the command fades to straight ahead", fade)
register_intention(FADING)
