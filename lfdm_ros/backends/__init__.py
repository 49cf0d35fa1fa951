"""The equations of `lfdm_ros.models` on CasADi symbols and NumPy arrays, and their compiled kernels: single vehicle, batch, derivatives."""

from lfdm_ros.backends.batch_backend import BACKENDS, BatchBackend, RunBatch, compile_batch, default_backend, register_backend
from lfdm_ros.backends.casadi_backend import CasadiModel, casadi_model
from lfdm_ros.backends.gpu_batch import gpu_sensitivity
from lfdm_ros.backends.hazard_kernel import HazardKernel, hazard_kernel
from lfdm_ros.backends.model_functions import (
    ARRAYS,
    SolverFailed,
    compiled_jacobian,
    compiled_model_function,
    constants,
    implicit_interval,
    numba_function,
)
from lfdm_ros.backends.steps import HALF_IMPLICIT, RUNGE_KUTTA
from lfdm_ros.backends.tick_kernel import advance_kernel
from lfdm_ros.backends.trajectory_kernels import SensitivityKernel, batch_kernel, cores, in_parallel, run_batch, sensitivity_kernel

__all__ = ["ARRAYS", "BACKENDS", "HALF_IMPLICIT", "RUNGE_KUTTA", "BatchBackend", "CasadiModel", "HazardKernel", "RunBatch",
           "SensitivityKernel", "SolverFailed", "advance_kernel", "batch_kernel", "casadi_model", "compile_batch", "compiled_jacobian",
           "compiled_model_function", "constants", "cores", "default_backend", "gpu_sensitivity", "hazard_kernel", "implicit_interval",
           "in_parallel", "numba_function", "register_backend", "run_batch", "sensitivity_kernel"]
