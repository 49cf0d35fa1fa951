"""External vehicle simulations: the protocol `Plant`, FMUs, and plug-ins of entry-point group `lfdm_ros.plants`.

Imports nothing, as the process of an FMU imports it too.
"""
