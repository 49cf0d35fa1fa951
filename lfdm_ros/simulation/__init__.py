"""Runs of a vehicle model: one vehicle step by step, a whole run, or many vehicles at once; scenarios, worlds and paths."""

from lfdm_ros.simulation.actuator import Actuator, Selector
from lfdm_ros.simulation.batch import BatchRollout
from lfdm_ros.simulation.equilibrium import equilibrium
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.rollout import IntegrationFailed, rollout, rollout_implicit, rollout_rk4
from lfdm_ros.simulation.scenario import Scenario, load_scenario
from lfdm_ros.simulation.sensitivity import NotDifferentiable, Sensitivities, SensitivityRollout, forward_sensitivity
from lfdm_ros.simulation.simulator import OutOfReach, SimulationDiverged, Simulator, initial_state, with_ground
from lfdm_ros.simulation.world import Circle, Goal, MotionStep, Polygon, Pose, World
from lfdm_ros.vehicles.body import Footprint

__all__ = ["Actuator", "BatchRollout", "Circle", "Footprint", "Goal", "InputProfile", "IntegrationFailed", "MotionStep",
           "NotDifferentiable", "OutOfReach", "Polygon", "Pose", "Scenario", "Selector", "Sensitivities", "SensitivityRollout",
           "SimulationDiverged", "Simulator", "World", "equilibrium", "forward_sensitivity", "initial_state", "load_scenario", "rollout",
           "rollout_implicit", "rollout_rk4", "with_ground"]
