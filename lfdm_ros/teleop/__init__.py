"""The operator at the other end of a link: a driver model, and the delays between it and the vehicle."""

from lfdm_ros.teleop.cognition import Cognition, OperatorDecision, OperatorKind, Percept, register_operator
from lfdm_ros.teleop.operator_settings import OPERATOR, OperatorSettings, Person

__all__ = ["OPERATOR", "Cognition", "OperatorDecision", "OperatorKind", "OperatorSettings", "Percept", "Person",
           "register_operator"]
