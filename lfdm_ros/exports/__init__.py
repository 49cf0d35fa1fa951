"""Vehicles for others: as an FMU, as C, as CasADi functions, with what a calibration knows of them."""

from lfdm_ros.exports.c_files import CFiles, write_c

__all__ = ["CFiles", "write_c"]
