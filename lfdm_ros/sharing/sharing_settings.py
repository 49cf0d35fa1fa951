"""Settings of shared control: each declared once, with unit, range and description. Nodes, files and help are derived from them."""

from dataclasses import dataclass
from typing import ClassVar

from lfdm_ros.control.command_limits import CommandLimits
from lfdm_ros.parameters import Exposed, setting
from lfdm_ros.sharing.laws import LAWS, PIECEWISE, Hysteresis, Law, Rate
from lfdm_ros.sharing.threat import RULES

MODES = BLEND, OPERATOR, AUTONOMY = "blend", "operator", "autonomy"
FORMER_MODES = {"filter": "has been removed, as it failed in every run of its ablation: choose blend, operator or autonomy"}


@dataclass(frozen=True)
class SharingSettings(CommandLimits):
    """Everything but the vehicle and the components of the threat. Raises InputError: a value is out of its range; the message names it."""

    ABOUT: ClassVar[str] = "setting "

    mode: str = setting(BLEND, "", "authority: blend, both by their shares; operator or autonomy alone", choices=MODES, live=True,
                        former=FORMER_MODES)
    forecast_model: str = setting("driven_bicycle", "", "vehicle model that commands are followed with, by its name in the registry; its "
                                                        "ground says what the tyres hold where the vehicle is: driven_bicycle/GROUND")
    period: float = setting(0.05, "s", "between two looks at the threat; commands go out with every state", 0.005, 1.0)

    # -- k(threat) ----------------------------------------------------------------------------------------------------
    law: str = setting(PIECEWISE.name, "", "share of autonomy by threat", choices=lambda: tuple(LAWS), live=True)
    rule: str = setting("maximum", "", "how the threats of the components become one", choices=lambda: tuple(RULES), live=True)
    engage: float = setting(0.2, "1", "threat up to which the operator drives; of the law piecewise", 0.0, 0.99, live=True)
    full: float = setting(0.8, "1", "threat from which on autonomy drives; of the law piecewise", 0.01, 1.0, live=True)
    middle: float = setting(0.5, "1", "threat at which they share evenly; of the law sigmoid", 0.01, 0.99, live=True)
    steepness: float = setting(10.0, "1", "of the law sigmoid", 0.01, 1000.0, live=True)
    hysteresis: float = setting(0.15, "1", "drop of the threat required before k decreases", 0.0, 1.0, live=True)
    # Autonomy that drives lowers the threat; until the operator has seen that and answered, the calm says nothing of the operator.
    hold: float = setting(0.3, "s", "where autonomy has the larger share, k falls once the threat has been lower for so long, and "
                                    "for twice what the operator's link takes there and back", 0.0, 10.0, live=True)
    k_up: float = setting(10.0, "1/s", "largest rate at which autonomy takes over", 0.01, 1000.0, live=True)
    # Not faster than a reaction, `risk.reaction`, so that the operator is able to take over.
    k_down: float = setting(3.0, "1/s", "largest rate at which the operator is given back the wheel", 0.01, 1000.0, live=True)

    # -- Opposite sides of an obstacle --------------------------------------------------------------------------------
    sides: bool = setting(True, "", "where operator and autonomy pass an obstacle on opposite sides one of them drives, not their mean",
                          live=True)
    sides_horizon: float = setting(3.0, "s", "how far ahead sides are compared", 0.1, 10.0, live=True)
    sides_near: float = setting(6.0, "m", "an obstacle counts that both pass as near as this", 0.1, 100.0, live=True)
    sides_hold: float = setting(0.4, "s", "time for which the choice stays after sides have agreed, and autonomy's after the threat has "
                                          "fallen", 0.0, 10.0, live=True)
    choose_autonomy: float = setting(0.5, "1", "threat from which on autonomy's side is taken", 0.0, 1.0, live=True)
    choose_operator: float = setting(0.2, "1", "threat down to which it is kept", 0.0, 1.0, live=True)

    # -- Standing -----------------------------------------------------------------------------------------------------
    # Not by default: pressing a dead man's switch that brakes while it is released is a foot that comes off the brake.
    offer_after: float = setting(0.0, "s", "where the operator has stood for so long, autonomy that has a way offers to drive on; 0: never",
                                 0.0, 300.0, live=True)

    # -- Sources ------------------------------------------------------------------------------------------------------
    operator_age: float = setting(1.5, "s", "age of the operator's command by its stamp from which on the operator is lost", 0.01, 60.0,
                                  live=True)
    operator_timeout: float = setting(0.15, "s", "time since the last one came from which on the operator is lost", 0.01, 60.0, live=True)
    autonomy_age: float = setting(0.5, "s", "age of autonomy's command by its stamp from which on it is lost", 0.01, 60.0, live=True)
    autonomy_timeout: float = setting(0.15, "s", "time since the last one came from which on it is lost", 0.01, 60.0, live=True)
    plan_age: float = setting(0.5, "s", "age of autonomy's plan from which on it does not count", 0.01, 60.0, live=True)
    state_age: float = setting(0.5, "s", "age of the vehicle's state by its stamp from which on it is lost", 0.01, 60.0, live=True)
    state_timeout: float = setting(0.15, "s", "time since the last one came from which on it is lost", 0.01, 60.0, live=True)
    max_silence: float = setting(0.5, "s", "the timeouts above are for regular sources; others are lost after twice the longest recent gap "
                                           "between their messages, and after this time in any case", 0.0, 60.0, live=True)
    wait_for_operator: bool = setting(False, "", "autonomy does not begin before the operator has come; not in mode autonomy", live=True)
    uncommanded_stop_timeout: float = setting(2.0, "s", "time without any command after which a moving vehicle is stopped", 0.0, 60.0,
                                              live=True)

    # -- The way out --------------------------------------------------------------------------------------------------
    emergency_brake: float = setting(1.0, "1", "brake of an emergency stop", 0.01, 1.0, live=True)
    emergency_rate: float = setting(20.0, "1/s", "largest rate at which the brake of an emergency stop is applied; no more than the "
                                                 "vehicle's actuators have", 0.01, 100.0, live=True)
    swing_time: float = setting(0.35, "s", "the steering goes from one end of what is allowed to the other in no less", 0.01, 10.0,
                                live=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.law_of()

    def law_of(self) -> Law:
        """Returns the law. Raises InputError where its numbers do not fit together."""
        return Hysteresis(LAWS[self.law].checked(self), self.hysteresis)

    @property
    def rate(self) -> Rate:
        """Largest rates of k."""
        return Rate(self.k_up, self.k_down)


SHARING = Exposed(SharingSettings)
