"""Parameters of the calibrator, and the settings that they make."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lfdm_ros.bounds import BOUNDS
from lfdm_ros.calibration.gates import GateLimits
from lfdm_ros.engine.applying import MANUAL, POLICIES
from lfdm_ros.engine.background import LOWEST, NORMAL, Share
from lfdm_ros.engine.folder_watch import CalibrationOrder
from lfdm_ros.ros.parameters import Parameter

Value = Callable[[str], Any]  # of a parameter, by its name

PARAMETERS = (
    Parameter("watch_directory", "", "folder in which a new bag starts a calibration, made if it is not there; empty: none"),
    Parameter("recipe", "hmmwv_paper", "recipe for the watched folder: a name in config/calibration, or a path"),
    Parameter("ground", "", "ground that bags were recorded on: a name in config/grounds, a file or a bag; recorded: the one that each bag "
                            "holds; empty: as the recipe says, else a level road"),
    Parameter("out_directory", "", "results of the watched folder; empty: calibrations, in that folder"),
    Parameter("store", "", "folder of the stored posteriors; empty: store in out_directory, else in calibrations in the watched "
                           "folder, else calibrator in ROS_HOME (default ~/.ros)"),
    Parameter("draws", 0, "draws per chain for the watched folder; 0: as the recipe says", *BOUNDS["draws"].range),
    Parameter("chains", 0, "chains for the watched folder; 0: as the recipe says", *BOUNDS["chains"].range),
    Parameter("seed", 0, "seed for the watched folder; 0: as the recipe says", *BOUNDS["seed"].range),
    Parameter("continue_posterior", False, "a new bag in the watched folder continues from the newest posterior of the recipe, instead "
                                           "of calibrating with all bags anew; the recipe's sampler must be one that can (smc)"),
    Parameter("abandoned_after", 60.0, "seconds without a change after which a bag that was never closed counts as finished",
              1.0, 86_400.0, unit="s"),
    Parameter("max_cores", 0, "processor cores that a calibration may use; 0: all but one", 0, 1024, live=True),
    Parameter("priority", LOWEST, "of a calibration's process: lowest, SCHED_IDLE and nice 19; normal, as other programs",
              choices=(LOWEST, NORMAL), live=True),
    Parameter("apply_policy", MANUAL, "OFF: posteriors are stored only; MANUAL: apply_posterior puts one in force; AUTO: a new one is "
                                      "put in force once it passes all gates", choices=POLICIES, live=True),
    Parameter("gate_r_hat", 1.01, "largest R-hat of any unknown", 1.0, 10.0, live=True, unit="1"),
    Parameter("gate_ess", 400.0, "least bulk effective sample size of any unknown", 0.0, 1e9, live=True, unit="1"),
    Parameter("gate_coverage_lower", 0.8, "least share of samples inside the 90 % predictive intervals, of each channel",
              0.0, 1.0, live=True, unit="1"),
    Parameter("gate_coverage_upper", 0.99, "largest such share", 0.0, 1.0, live=True, unit="1"),
    Parameter("gate_change_sd", 10.0, "largest change of a vehicle parameter, in standard deviations of the posterior in force",
              0.0, 1e9, live=True, unit="1"),
    Parameter("gate_change_relative", 0.3, "largest change of a vehicle parameter, as a share of its value in force",
              0.0, 1e9, live=True, unit="1"),
    Parameter("apply_speed_limit", 0.5, "largest speed at which parameters may change; below 0: any, also an unknown one",
              -1.0, 100.0, live=True, unit="m/s"),
    Parameter("apply_slow_only", ["*"], "names or patterns of the vehicle parameters that apply_speed_limit is about", live=True),
)


def store_path(value: Value, node: str) -> Path:
    """Returns the folder of the stored posteriors; node: its full name."""
    if value("store"):
        return Path(value("store"))
    if value("out_directory"):
        return Path(value("out_directory")) / "store"
    if value("watch_directory"):
        return Path(value("watch_directory")) / "calibrations" / "store"
    home = Path(os.environ.get("ROS_HOME") or Path.home() / ".ros")
    return home / node.lstrip("/")


def order_of(value: Value) -> CalibrationOrder:
    """Returns the settings of calibrations with the watched folder's bags."""
    return CalibrationOrder(value("recipe"), value("out_directory"), value("draws"), value("chains"), value("seed"),
                            value("continue_posterior"))


def share_of(value: Value) -> Share:
    """Returns the share of the machine that a calibration gets."""
    return Share(value("max_cores"), value("priority"))


def limits_of(value: Value) -> GateLimits:
    """Returns the limits of the gates."""
    return GateLimits(
        r_hat=value("gate_r_hat"), ess=value("gate_ess"), coverage=(value("gate_coverage_lower"), value("gate_coverage_upper")),
        change_sd=value("gate_change_sd"), change_relative=value("gate_change_relative"), speed=value("apply_speed_limit"),
        slow=value("apply_slow_only"))
