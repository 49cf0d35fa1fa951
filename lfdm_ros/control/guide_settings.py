"""What the search for a way spans and what it weighs."""

from __future__ import annotations

from dataclasses import dataclass

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, Exposed, setting

MOST_OFFSETS = 1000


@dataclass(frozen=True)
class GuideSettings(Declared):
    """What the lattice spans and what it weighs.

    Raises:
        InputError: a value is out of its range; the message names it.
    """

    ABOUT = "lattice: "

    horizon: float = setting(120.0, "m", "how far ahead", 5.0, 1000.0)
    side: float = setting(30.0, "m", "how far to each side of the line to the goal", 1.0, 500.0)
    offset_step: float = setting(0.5, "m", "between two offsets to the side", 0.02, 10.0)
    slopes: int = setting(10, "1", "to each side; the steepest is this many offset steps a station", 1, 50)
    shortest_station: float = setting(4.0, "m", "least length of a station", 0.2, 100.0)
    longest_station: float = setting(10.0, "m", "largest length of a station", 0.2, 100.0)
    station_time: float = setting(0.4, "s", "a station is as long as the vehicle drives in this time, within the two above", 0.05, 5.0)
    lateral_acceleration: float = setting(4.0, "m/s^2", "most on a route", 0.1, 20.0)
    braking: float = setting(3.0, "m/s^2", "with which the vehicle can slow down before a curve further ahead", 0.1, 20.0)
    smallest_radius: float = setting(10.0, "m", "tightest comfortable circle", 0.1, 100.0)
    turning_speed: float = setting(7.0, "m/s", "to which the vehicle slows down to turn round", 0.1, 50.0)
    goal_tolerance: float = setting(1.0, "m", "how far from the goal a route may end", 0.01, 50.0)
    curvature_weight: float = setting(3.0, "1", "cost a metre driven at the curvature's limit", 0.001, 1e3)
    deviation_weight: float = setting(0.15, "1", "cost a metre that lies deviation_cap or more from the route before", 0.001, 1e3)
    deviation_cap: float = setting(2.0, "m", "distance from the route before beyond which the cost no longer grows", 0.01, 50.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.longest_station < self.shortest_station:
            raise InputError("lattice: longest_station is below shortest_station; give at least that")
        if 2.0 * self.side / self.offset_step > MOST_OFFSETS:
            raise InputError(f"lattice: side over offset_step is {self.side / self.offset_step:g}; give at most {MOST_OFFSETS // 2}: the "
                             "search takes that much longer")


# How fast a route may be and where it has to slow down is the controller's: path_lateral_acceleration, path_braking.
LATTICE = Exposed(GuideSettings, "lattice_", without=("lateral_acceleration", "braking"))
