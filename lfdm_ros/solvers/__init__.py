"""Multistage optimal control problems: stage functions, and solvers of their quadratic and nonlinear programs."""

from lfdm_ros.solvers.hpipm import Hpipm, SolverMissing
from lfdm_ros.solvers.nonlinear_program import Ipopt, Linearised
from lfdm_ros.solvers.piqp_solver import Piqp
from lfdm_ros.solvers.stage_qp import StageDimensions, StageNames, StageQp, StageSolution, StageSolver, compiled_stage, stage_function

__all__ = ["Hpipm", "Ipopt", "Linearised", "Piqp", "SolverMissing", "StageDimensions", "StageNames", "StageQp", "StageSolution",
           "StageSolver", "compiled_stage", "stage_function"]
