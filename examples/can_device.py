"""A controller at the other end of a CAN bus: drives a double lane change. An example of a device under test, to copy and change.

    lfdm up hil &                                   # the vehicle
    python examples/can_device.py                   # this, in a second terminal

It knows nothing of lfdm_ros but the DBC file: python-can carries the frames, cantools says what is in them. It hears the vehicle's
messages, checks their alive counters and checksums (AUTOSAR E2E profile 1A), and answers each Motion with a Command: steering in [-1, 1],
positive to the left; throttle and brake in [0, 1]. The steering is pure pursuit (Coulter 1992) of the lane change of NATO AVTP 03-160 W.
Without messages that it trusts for 0.2 s it brakes.
"""

import argparse
import math
import pathlib
import signal
import sys
import time

import can
import cantools

DBC = pathlib.Path(__file__).resolve().parent.parent / "config" / "can" / "lfdm.dbc"
FULL_LOCK = 0.6525  # [rad] road-wheel angle of the steering command 1
WHEELBASE, REAR = 3.378, 1.689  # [m]; from the position to the rear axle
AHEAD, LEAST_AHEAD = 0.5, 4.0  # look-ahead: [s], [m]
CHARACTERISTIC_SPEED = 18.0  # [m/s] at which the vehicle turns half as much as its wheels say
NEEDED = ("Position", "Velocity", "Motion")
NO_CYCLE = 4095
SILENCE = 20  # cycles of Motion, 10 ms, that it may lack one of them before it brakes


def shifted(byte):
    """A byte after eight steps of CRC-8 with the polynomial of SAE J1850, 0x1D."""
    for _ in range(8):
        byte = (byte << 1) ^ 0x1D if byte & 0x80 else byte << 1
    return byte & 0xFF


TABLE = bytes(shifted(byte) for byte in range(256))


def crc8(data):
    """That CRC-8 of bytes, from 0 and not inverted."""
    crc = 0
    for byte in data:
        crc = TABLE[crc ^ byte]
    return crc


def checksum(data_id, data):
    """Of a protected message: over its data ID, low byte first, and all its bytes but the first."""
    return crc8([data_id & 0xFF, data_id >> 8, *data[1:]])


def lane(x, approach=30.0, change=28.6, section=15.0, middle=25.0, offset=3.5):
    """Where the double lane change is at x [m], to the left [m]."""
    away, back = approach + section, approach + section + change + middle

    def step(begin):
        part = min(max((x - begin) / change, 0.0), 1.0)
        return part**3 * (10.0 + part * (6.0 * part - 15.0))

    return offset * (step(away) - step(back))


class Controller:
    """Takes frames, gives the command's frame where one is due."""

    def __init__(self, speed=12.0, dbc=DBC):
        database = cantools.database.load_file(dbc)
        self.messages = {m.frame_id: m for m in database.messages if "Vehicle" in m.senders}
        self.lowest = {s.name: s.minimum for m in self.messages.values() for s in m.signals}
        self.command = database.get_message_by_name("Command")
        self.ids = {m.name: m.dbc.attributes["E2E_DataID"].value for m in database.messages}
        self.speed, self.counter, self.signals, self.counters = speed, 0, {}, {}
        self.age = dict.fromkeys(NEEDED, 0)  # cycles since the last one that could be used
        self.rejected, self.unusable = 0, 0  # messages that were not trusted; cycles in which a signal was missing

    def hear(self, frame):
        """A frame from the bus; the frame to send in answer, or None."""
        message = self.messages.get(frame.arbitration_id)
        if message is None or len(frame.data) != message.length:
            return None
        trusted = self.check(message.name, frame.data)
        if trusted:
            self.age[message.name] = 0
            values = message.decode(frame.data, decode_choices=False)
            # Below its range a signal says that it is not available.
            self.signals.update((name, value if value >= self.lowest[name] else math.nan) for name, value in values.items())
        if message.name != "Motion":
            return None
        for name in NEEDED:
            self.age[name] += 1
        self.unusable += not self.usable()
        return self.answer(round(self.signals["cycle"]) if trusted else NO_CYCLE)

    def check(self, name, data):
        """Whether counter and checksum are as they should be."""
        counter, before = data[1] & 0x0F, self.counters.get(name)
        good = checksum(self.ids[name], data) == data[0] and counter < 15
        if good:
            self.counters[name] = counter
            good = before is None or 1 <= (counter - before) % 15 <= 4
        self.rejected += not good
        return good

    def usable(self):
        """Whether all is known that is needed to drive."""
        return all(math.isfinite(self.signals.get(name, math.nan)) for name in ("x", "y", "yaw", "vx", "yaw_rate"))

    def answer(self, cycle):
        """The command to the Motion of this cycle; NO_CYCLE: to none, which the vehicle takes for too old."""
        if max(self.age[name] for name in NEEDED) > SILENCE or not self.usable():
            steering, pedal = 0.0, -0.5
        else:
            steering, pedal = self.drive()
        self.counter = (self.counter + 1) % 15
        data = bytearray(self.command.encode(
            {"crc": 0, "counter": self.counter, "answers": cycle, "steering": steering, "throttle": max(pedal, 0.0),
             "brake": max(-pedal, 0.0)}, strict=False))
        data[0] = checksum(self.ids["Command"], data)
        return can.Message(arbitration_id=self.command.frame_id, data=data, is_extended_id=False)

    def drive(self):
        """Steering and pedal, above 0 throttle, below brake."""
        s = self.signals
        x, y = s["x"] - REAR * math.cos(s["yaw"]), s["y"] - REAR * math.sin(s["yaw"])
        distance = max(LEAST_AHEAD, AHEAD * s["vx"])
        angle = math.remainder(math.atan2(lane(x + distance) - y, distance) - s["yaw"], 2.0 * math.pi)
        curvature = 2.0 * math.sin(angle) / distance
        steering = math.atan(WHEELBASE * curvature * (1.0 + (s["vx"] / CHARACTERISTIC_SPEED) ** 2)) / FULL_LOCK
        return max(-1.0, min(1.0, steering)), max(-0.5, min(0.5, 0.3 * (self.speed - s["vx"])))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--interface", default="udp_multicast", help="of python-can: udp_multicast, socketcan, ... (default: %(default)s)")
    parser.add_argument("--channel", default="239.74.163.2", help="of that interface (default: %(default)s)")
    parser.add_argument("--port", type=int, default=43113, help="of udp_multicast (default: %(default)s)")
    parser.add_argument("--speed", type=float, default=12.0, help="to be kept [m/s] (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="end after so many (default: until Ctrl-C)")
    parser.add_argument("--dbc", default=DBC, help="(default: %(default)s)")
    args = parser.parse_args()
    controller = Controller(args.speed, args.dbc)
    more = {"port": args.port, "hop_limit": 0} if args.interface == "udp_multicast" else {}
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell has started this with Ctrl-C ignored: in the background
        signal.signal(number, lambda *_: sys.exit(0))
    end = time.monotonic() + args.seconds
    filters = [{"can_id": frame_id, "can_mask": 0x7FF, "extended": False} for frame_id in controller.messages]
    with can.Bus(interface=args.interface, channel=args.channel, can_filters=filters, **more) as bus:
        print("ready", flush=True)
        while time.monotonic() < end:
            try:
                frame = bus.recv(0.1)
                answer = controller.hear(frame) if frame is not None else None
                if answer is not None:
                    bus.send(answer)
            except can.CanError:  # what came is no frame, or the answer did not go out: on a wire that is a lost message
                continue


if __name__ == "__main__":
    main()
