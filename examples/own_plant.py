"""A vehicle of your own as a plant, in one file: in Python, and one that another program simulates and answers for over UDP.

    export LFDM_PLUGINS=examples/own_plant.py
    lfdm drive nato_lane_change --plant kinematic
    python examples/own_plant.py 4750 &          # the other program
    lfdm drive nato_lane_change --plant plant.yaml          # its content: {type: udp_vehicle, port: 4750}
"""

import math
import socket
import struct
import sys

import numpy as np

from lfdm_ros.plants.plant import PlantFailed, PlantType, register_plant


class Kinematic:
    """A bicycle whose tyres do not slip; the position is that of the rear axle."""

    dt, output_names = 0.001, ("x", "y", "yaw", "vx", "vy", "yaw_rate")
    parameters = {"wheelbase": 3.4, "lock": 0.5}

    def reset(self, *, x, y, yaw, vx):
        self.outputs = np.array([x, y, yaw, vx, 0.0, 0.0])

    def advance(self, u0, u1, n):
        for k in range(n):
            steering, throttle, brake = np.add(u0, np.subtract(u1, u0) * (k + 0.5) / n)
            x, y, yaw, vx, _, _ = self.outputs
            rate = vx * math.tan(steering * self.parameters["lock"]) / self.parameters["wheelbase"]
            vx = max(vx + self.dt * (4.0 * throttle - 8.0 * brake - 0.1), 0.0)
            ahead = self.dt * vx
            self.outputs = np.array([x + ahead * math.cos(yaw), y + ahead * math.sin(yaw), yaw + self.dt * rate, vx, 0.0, rate])


class UdpVehicle:
    """Asks another program: a datagram of 8 doubles, 0 and x, y, yaw, vx, or n, u0, u1; the answer is the outputs."""

    dt, output_names, parameters = Kinematic.dt, Kinematic.output_names, {}

    def __init__(self, settings, where):
        self.socket, self.where = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), where
        self.socket.settimeout(5.0)
        self.socket.connect(("127.0.0.1", settings.get("port", 4750)))

    def ask(self, *numbers):
        try:
            self.socket.send(struct.pack("<8d", *numbers, *[0.0] * (8 - len(numbers))))
            self.outputs = np.array(struct.unpack("<6d", self.socket.recv(48)))
        except (OSError, struct.error) as error:
            raise PlantFailed(f"{self.where}: the other program does not answer: {error}") from None

    def reset(self, *, x, y, yaw, vx):
        self.ask(0.0, x, y, yaw, vx)

    def advance(self, u0, u1, n):
        self.ask(n, *u0, *u1)


register_plant(PlantType("kinematic", "a bicycle without slip", lambda settings, where: Kinematic()))
register_plant(PlantType("udp_vehicle", "a vehicle that another program simulates", UdpVehicle))

if __name__ == "__main__":
    server, vehicle = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), Kinematic()
    server.bind(("127.0.0.1", int(sys.argv[1])))
    while True:
        message, asker = server.recvfrom(64)
        n, *numbers = struct.unpack("<8d", message)
        if n:
            vehicle.advance(numbers[:3], numbers[3:6], int(n))
        else:
            vehicle.reset(**dict(zip(("x", "y", "yaw", "vx"), numbers)))
        server.sendto(struct.pack("<6d", *vehicle.outputs), asker)
