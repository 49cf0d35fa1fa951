"""One question asked of many runs: drives of the controller and its rivals, and calibrations of simulated or varied recordings."""

from lfdm_ros.studies.closed_loop import Driver, Plant, Run, drive, give_task

__all__ = ["Driver", "Plant", "Run", "drive", "give_task"]
