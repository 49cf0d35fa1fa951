"""An operator's mind of your own, in one file: it turns towards the far point, as hard as that lies aside.

    export LFDM_PLUGINS=examples/pursuit_operator.py
    lfdm drive nato_lane_change --driver operator --set cognition=pursuit

Pure pursuit (Coulter 1992) as a person would do it: delays, hands, feet, distraction and the choice of a way are those of every operator.
"""

import math

from lfdm_ros.teleop import OperatorDecision, OperatorKind, register_operator

PRESS = 0.3  # pedal for a m/s that is missing


class Pursuit:
    def __init__(self, vehicle, settings, person, random):
        p = vehicle.parameters
        self._wheelbase = p["cg_to_front_axle"] + p["cg_to_rear_axle"]

    def act(self, percept):
        curvature = 2.0 * math.sin(percept.far_angle) / percept.far_distance
        return OperatorDecision(math.atan(self._wheelbase * curvature), PRESS * (percept.target_speed - percept.speed))

    def reset(self):
        pass  # it remembers nothing


register_operator(OperatorKind("pursuit", "turns towards the far point", Pursuit))
