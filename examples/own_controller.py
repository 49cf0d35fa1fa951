"""A controller of your own, in one file of plain rclpy: round a circle at a constant speed.

    lfdm up vehicle                            # in one terminal: a vehicle that waits for commands
    python examples/own_controller.py          # in another one
    lfdm topic echo /vehicle/state --field vx  # in a third one

Pure pursuit (Coulter 1992) for the steering, a proportional law for the speed. Wheelbase and full lock are those of whatever vehicle
stands there: it says them itself, on a latched topic.
"""

import math
from contextlib import suppress

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile

from lfdm_ros.msg import DriverCommand, VehicleDescription, VehicleState

RADIUS, SPEED = 30.0, 8.0  # of the circle, whose centre is so far to the left of the origin [m]; [m/s]
AHEAD = 8.0  # of the point that is aimed at, along the circle [m]
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class Circle(Node):
    def __init__(self):
        super().__init__("own_controller")
        self.vehicle = self.waiting = None
        self.command = self.create_publisher(DriverCommand, "control/command", 10)
        self.create_subscription(VehicleDescription, "vehicle/description", self.on_description, LATCHED)
        self.create_subscription(VehicleState, "vehicle/state", self.on_state, 1)

    def on_description(self, vehicle):
        self.vehicle = vehicle
        if self.waiting is not None:  # in lockstep nothing goes on until this state is answered
            self.on_state(self.waiting)
            self.waiting = None

    def on_state(self, state):
        if self.vehicle is None:
            self.waiting = state
            return
        # The point of the circle that is AHEAD further along it, in the axes of the rear axle.
        x, y = state.x - self.vehicle.rear_axle * math.cos(state.yaw), state.y - self.vehicle.rear_axle * math.sin(state.yaw)
        angle = math.atan2(y - RADIUS, x) + AHEAD / RADIUS
        dx, dy = RADIUS * math.cos(angle) - x, RADIUS + RADIUS * math.sin(angle) - y
        left = dy * math.cos(state.yaw) - dx * math.sin(state.yaw)
        curvature = 2.0 * left / (dx * dx + dy * dy)
        pedal = 0.5 * (SPEED - state.vx)

        command = DriverCommand()
        command.header.stamp = state.header.stamp  # of the state that it answers: how old it is, is seen from that
        command.steering = min(max(math.atan(self.vehicle.wheelbase * curvature) / self.vehicle.full_lock, -1.0), 1.0)
        command.throttle, command.brake = min(max(pedal, 0.0), 1.0), min(max(-pedal, 0.0), 1.0)
        self.command.publish(command)


def main():
    rclpy.init()
    with suppress(KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        rclpy.spin(Circle())


if __name__ == "__main__":
    main()
