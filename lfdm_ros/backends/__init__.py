"""What turns the equations of `lfdm_ros.models` into a numba kernel or a CasADi function."""

from lfdm_ros.backends.casadi_backend import CasadiModel, casadi_model
from lfdm_ros.backends.numba_backend import Kernels, numba_kernels

__all__ = ["CasadiModel", "Kernels", "casadi_model", "numba_kernels"]
