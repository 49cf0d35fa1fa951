"""Reference paths, routes round obstacles, and the model predictive controller."""

from lfdm_ros.control.controller import Controller, limits_of
from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.limits import LimitTable, Manoeuvres, lift_limits
from lfdm_ros.control.ocp.planner import Planner
from lfdm_ros.control.ocp.terms import Constraint, Term, register_mpc_term
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.routing.lattice import LatticeSettings
from lfdm_ros.control.routing.lattice_planner import LatticePlanner
from lfdm_ros.control.routing.routes import Reference, Route
from lfdm_ros.control.settings import Settings
from lfdm_ros.simulation.path import Path, speed_profile

__all__ = ["Constraint", "Controller", "Cycle", "CycleOutcome", "LatticePlanner", "LatticeSettings", "LimitTable", "Manoeuvres", "Measured",
           "Path", "Plan", "Planner", "Reference", "Route", "Settings", "Term", "lift_limits", "limits_of", "register_mpc_term",
           "speed_profile"]
