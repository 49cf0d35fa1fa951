"""Vehicles that others simulate: the protocol `Plant`, FMUs, and plug-ins of entry-point group `lfdm_ros.plants`.

Imports nothing, since the process of an FMU imports it too.
"""
