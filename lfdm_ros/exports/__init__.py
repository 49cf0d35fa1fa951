"""Exports of vehicles with their calibration: FMU, C, WebAssembly, CasADi functions."""

from lfdm_ros.exports.c_files import CFiles, write_c
from lfdm_ros.exports.casadi_files import write_casadi
from lfdm_ros.exports.fmu_file import write_fmu
from lfdm_ros.exports.library import WasmFiles, write_wasm

__all__ = ["CFiles", "WasmFiles", "write_c", "write_casadi", "write_fmu", "write_wasm"]
