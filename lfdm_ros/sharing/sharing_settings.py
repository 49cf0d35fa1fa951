"""Settings of shared control: each declared once, with unit, range and description. Nodes, files and help are derived from them."""

from dataclasses import dataclass
from typing import ClassVar

from lfdm_ros.control.command_limits import CommandLimits
from lfdm_ros.parameters import Exposed, setting
from lfdm_ros.sharing.laws import LAWS, PIECEWISE, Hysteresis, Law, Rate
from lfdm_ros.sharing.threat import RULES

MODES = BLEND, OPERATOR, AUTONOMY = "blend", "operator", "autonomy"
FORMER_MODES = {"filter": "has been removed, as it failed in every run of its ablation: choose blend, operator or autonomy"}
HOLD_SHARE = 0.85  # [1] k during the extra hold, at most


@dataclass(frozen=True)
class SharingSettings(CommandLimits):
    """Settings of the arbiter, without those of the threat components. Raises InputError: a value is out of range; the message names it."""

    ABOUT: ClassVar[str] = "setting "

    mode: str = setting(BLEND, "", "authority: blend, both by their shares; operator or autonomy alone", choices=MODES, live=True,
                        former=FORMER_MODES)
    forecast_model: str = setting("driven_bicycle", "", "vehicle model of the command forecasts, by its name in the registry; its ground "
                                                        "gives the friction at the vehicle's position: driven_bicycle/GROUND")
    period: float = setting(0.05, "s", "between two assessments of the threat; commands are sent with every state", 0.005, 1.0)

    # -- k(threat) ----------------------------------------------------------------------------------------------------
    law: str = setting(PIECEWISE.name, "", "share of autonomy by threat", choices=lambda: tuple(LAWS), live=True)
    rule: str = setting("maximum", "", "rule that combines the threats of the components", choices=lambda: tuple(RULES), live=True)
    engage: float = setting(0.2, "1", "threat up to which the operator drives; of the law piecewise", 0.0, 0.99, live=True)
    full: float = setting(0.8, "1", "threat from which on autonomy drives; of the law piecewise", 0.01, 1.0, live=True)
    middle: float = setting(0.5, "1", "threat at which they share evenly; of the law sigmoid", 0.01, 0.99, live=True)
    steepness: float = setting(10.0, "1", "of the law sigmoid", 0.01, 1000.0, live=True)
    hysteresis: float = setting(0.15, "1", "drop of the threat required before k decreases", 0.0, 1.0, live=True)
    # Autonomy's driving lowers the threat; until the operator could react to it, a low threat does not show that handing back is safe.
    hold: float = setting(0.3, "s", "where autonomy has the larger share, k falls once the threat has been lower for this time plus "
                                    "two round trips of the operator's link", 0.0, 10.0, live=True)
    extra_hold: float = setting(2.0, "s", f"for this time longer k stays at {HOLD_SHARE:g} at most, so that the operator does not return "
                                          "to the same threat; longer while pedals differ, over a slow link and after a threat has "
                                          "returned", 0.0, 20.0, live=True)
    k_up: float = setting(10.0, "1/s", "largest rate at which autonomy takes over", 0.01, 1000.0, live=True)
    # At most the inverse of the reaction time, `risk.reaction`, so that the operator can take over.
    k_down: float = setting(3.0, "1/s", "largest rate at which the operator regains control", 0.01, 1000.0, live=True)

    # -- Opposite sides of an obstacle --------------------------------------------------------------------------------
    sides: bool = setting(True, "", "where operator and autonomy pass an obstacle on opposite sides, one of them drives, not the mean",
                          live=True)
    sides_horizon: float = setting(3.0, "s", "horizon over which sides are compared", 0.1, 10.0, live=True)
    sides_near: float = setting(6.0, "m", "largest distance of both drivers to an obstacle that counts", 0.1, 100.0, live=True)
    sides_hold: float = setting(0.4, "s", "time for which the choice stays after sides have agreed, and autonomy's after the threat has "
                                          "fallen", 0.0, 10.0, live=True)
    choose_autonomy: float = setting(0.5, "1", "threat from which on autonomy's side is taken", 0.0, 1.0, live=True)
    choose_operator: float = setting(0.2, "1", "threat below which autonomy's side is left", 0.0, 1.0, live=True)

    # -- Standing -----------------------------------------------------------------------------------------------------
    # Off by default: pressing a dead man's switch that brakes while released would count as releasing the brake, which accepts.
    offer_after: float = setting(0.0, "s", "standstill after which autonomy, if it has a path, offers to drive on; 0: never",
                                 0.0, 300.0, live=True)

    # -- Sources ------------------------------------------------------------------------------------------------------
    operator_age: float = setting(1.5, "s", "age of the operator's command by its stamp from which on the operator is lost", 0.01, 60.0,
                                  live=True)
    operator_timeout: float = setting(0.15, "s", "time since its reception from which on the operator is lost", 0.01, 60.0, live=True)
    autonomy_age: float = setting(0.5, "s", "age of autonomy's command by its stamp from which on it is lost", 0.01, 60.0, live=True)
    autonomy_timeout: float = setting(0.15, "s", "time since its reception from which on it is lost", 0.01, 60.0, live=True)
    plan_age: float = setting(0.5, "s", "age of autonomy's plan from which on it does not count", 0.01, 60.0, live=True)
    state_age: float = setting(0.5, "s", "age of the vehicle's state by its stamp from which on it is lost", 0.01, 60.0, live=True)
    state_timeout: float = setting(0.15, "s", "time since its reception from which on it is lost", 0.01, 60.0, live=True)
    max_silence: float = setting(0.5, "s", "the timeouts above are for regular sources; others are lost after twice the longest recent gap "
                                           "between their messages, and after this time in any case", 0.0, 60.0, live=True)
    wait_for_operator: bool = setting(False, "", "autonomy waits for the first command of the operator; not in mode autonomy", live=True)
    uncommanded_stop_timeout: float = setting(2.0, "s", "time without any command after which a moving vehicle is stopped", 0.0, 60.0,
                                              live=True)

    # -- Output -------------------------------------------------------------------------------------------------------
    emergency_brake: float = setting(1.0, "1", "brake of an emergency stop", 0.01, 1.0, live=True)
    emergency_rate: float = setting(20.0, "1/s", "largest rate at which the brake of an emergency stop is applied; no more than the "
                                                 "vehicle's actuators have", 0.01, 100.0, live=True)
    swing_time: float = setting(0.35, "s", "shortest time of the steering from one end of its range to the other", 0.01, 10.0,
                                live=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.law_of()

    def law_of(self) -> Law:
        """Returns the law. Raises InputError for inconsistent settings of it."""
        return Hysteresis(LAWS[self.law].checked(self), self.hysteresis)

    @property
    def rate(self) -> Rate:
        """Largest rates of k."""
        return Rate(self.k_up, self.k_down)


SHARING = Exposed(SharingSettings)
