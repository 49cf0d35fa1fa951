"""What turns the equations of `lfdm_ros.models` into CasADi graphs, and those into machine code for one vehicle or many."""

from lfdm_ros.backends.array_operations import ARRAYS
from lfdm_ros.backends.casadi_backend import CasadiModel, casadi_model
from lfdm_ros.backends.code_cache import cache_directory
from lfdm_ros.backends.compiled_functions import compiled, compiled_jacobian, compiled_model_function
from lfdm_ros.backends.hpipm import Hpipm, SolverMissing
from lfdm_ros.backends.implicit import SolverFailed, implicit_interval
from lfdm_ros.backends.nonlinear_program import Ipopt, Linearised
from lfdm_ros.backends.numba_functions import constants, numba_function, write_object
from lfdm_ros.backends.piqp_solver import Piqp
from lfdm_ros.backends.stage_functions import StageNames, compiled_stage, stage_function
from lfdm_ros.backends.stage_qp import StageDimensions, StageQp, StageSolution, StageSolver
from lfdm_ros.backends.steps import HALF_IMPLICIT, RUNGE_KUTTA
from lfdm_ros.backends.tick_kernel import advance_kernel
from lfdm_ros.backends.trajectory_kernels import BatchKernel, SensitivityKernel, batch_kernel, cores, run_batch, sensitivity_kernel

__all__ = ["ARRAYS", "HALF_IMPLICIT", "RUNGE_KUTTA", "BatchKernel", "CasadiModel", "Hpipm", "Ipopt", "Linearised", "Piqp",
           "SensitivityKernel", "SolverFailed", "SolverMissing", "StageDimensions", "StageNames", "StageQp", "StageSolution",
           "StageSolver", "advance_kernel", "batch_kernel", "cache_directory", "casadi_model", "compiled", "compiled_jacobian",
           "compiled_model_function", "compiled_stage", "constants", "cores", "implicit_interval", "numba_function", "run_batch",
           "sensitivity_kernel", "stage_function", "write_object"]
