"""Shared control: the threat as a probability by the calibrated posterior, and the share of authority that follows from it."""

from lfdm_ros.sharing.arbiter import AuthorityArbiter, SharedDecision
from lfdm_ros.sharing.components import make_components
from lfdm_ros.sharing.intentions import IntentionKind, register_intention
from lfdm_ros.sharing.laws import LawKind, register_law
from lfdm_ros.sharing.operator_learning import OperatorLearner, OperatorPosterior, learn_drive
from lfdm_ros.sharing.risk import RiskRollouts, RiskSettings
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand
from lfdm_ros.sharing.threat import Assessment, Rule, ThreatComponent, assess, register_rule

__all__ = ["Assessment", "AuthorityArbiter", "Corridor", "Draws", "IntentionKind", "LawKind", "OperatorLearner", "OperatorPosterior",
           "RiskRollouts", "RiskSettings", "Rule", "SharedDecision", "SharingSettings", "Situation", "StampedCommand", "ThreatComponent",
           "assess", "learn_drive", "make_components", "register_intention", "register_law", "register_rule"]
