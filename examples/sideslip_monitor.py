"""A node of your own, in one file: the sideslip angle of each state, and the largest so far in the diagnostics.

    export LFDM_PLUGINS=examples/sideslip_monitor.py
    lfdm up mine.yaml                                        (also --processes, and ros2 launch)

mine.yaml is a stack file that names it, as test/extending does:

    nodes:
      - {executable: vehicle_simulator, parameters: {scenario: ramp_steer}}
      - {executable: input_player, parameters: {scenario: ramp_steer}}
      - {executable: sideslip_monitor, parameters: {limit: 0.1}}
"""

import math

from std_msgs.msg import Float64

from lfdm_ros.errors import InputError
from lfdm_ros.msg import VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.component import OK, WARN, Component, while_active
from lfdm_ros.ros.endpoints import publishes, subscribes
from lfdm_ros.ros.messages import check_state
from lfdm_ros.ros.parameters import Parameter
from lfdm_ros.stacks.stack import register_node


class SideslipMonitor(Component):
    """Publishes `sideslip` [rad] for each `vehicle/state` that is fast enough to have one."""

    NAME = "sideslip_monitor"
    PARAMETERS = (
        Parameter("least_speed", 1.0, "speed below which there is no sideslip [m/s]", 0.1, 100.0),
        Parameter("limit", 0.1, "sideslip from which /diagnostics warns [rad]", 0.0, 3.0, live=True),
    )

    ENDPOINTS = (
        subscribes("vehicle/state", VehicleState, qos.STATE, "what has a sideslip"),
        publishes("sideslip", Float64, qos.STATE, "of each state [rad]"),
    )

    def configure(self):
        self._publisher = self.publisher("sideslip")
        self.subscription("vehicle/state", self._on_state)

    def activate(self):
        self._states, self._largest = 0, 0.0

    @while_active
    def _on_state(self, state):
        try:
            check_state(state)  # finite, and what a vehicle can be
        except InputError as error:
            self.refusals.refuse("state", error)  # counted in /diagnostics
            return
        if state.vx < self.value("least_speed"):
            return
        sideslip = math.atan2(state.vy, state.vx)
        self._states, self._largest = self._states + 1, max(self._largest, abs(sideslip))
        self._publisher.publish(Float64(data=sideslip))

    @while_active
    def diagnose(self):
        level = WARN if self._largest > self.value("limit") else OK
        return level, f"sideslip of {self._largest:.3f} rad at most", {"states": self._states, "largest": self._largest}

    def summary(self):
        """What `run_stack` adds to its own."""
        return {"sideslip_states": self._states, "sideslip_largest": self._largest}


register_node(SideslipMonitor)
