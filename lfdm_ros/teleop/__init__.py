"""The operator at the other end of a link: a driver model, and the delays between it and the vehicle."""

from lfdm_ros.teleop.cognition import Cognition, Decision, OperatorKind, Percept, register_operator
from lfdm_ros.teleop.operator import Operator
from lfdm_ros.teleop.settings import OPERATOR, OperatorSettings, Person

__all__ = ["OPERATOR", "Cognition", "Decision", "Operator", "OperatorKind", "OperatorSettings", "Percept", "Person", "register_operator"]
