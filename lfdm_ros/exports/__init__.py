"""Vehicles for others: as an FMU, as C, as CasADi functions, with what a calibration knows of them."""
