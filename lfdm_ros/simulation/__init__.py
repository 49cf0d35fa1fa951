"""Runs of a vehicle model: one vehicle step by step, a whole run, or many vehicles at once."""

from lfdm_ros.simulation.batch import BatchRollout
from lfdm_ros.simulation.inputs import InputProfile
from lfdm_ros.simulation.rollout import rollout
from lfdm_ros.simulation.simulator import SimulationDiverged, Simulator, initial_state

__all__ = ["BatchRollout", "InputProfile", "SimulationDiverged", "Simulator", "initial_state", "rollout"]
