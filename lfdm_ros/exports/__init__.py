"""Vehicles for others: as an FMU, as C, for a browser, as CasADi functions, with what a calibration knows of them."""

from lfdm_ros.exports.c_files import CFiles, write_c
from lfdm_ros.exports.casadi_files import write_casadi
from lfdm_ros.exports.fmu_file import write_fmu
from lfdm_ros.exports.library import WasmFiles, write_wasm

__all__ = ["CFiles", "WasmFiles", "write_c", "write_casadi", "write_fmu", "write_wasm"]
