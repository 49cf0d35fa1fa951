"""Drivers for closed loops that are not about driving."""

from lfdm_ros.control import Cycle, CycleOutcome, Settings


class Blind:
    """Gives one command, whatever it sees, and notes what it is told."""

    def __init__(self, steering=0.0, throttle=0.0, settings=None):
        self.settings = settings or Settings(time_budget=0.0)
        self.command, self.measured, self.seen = (steering, throttle, 0.0), [], []

    def follow(self, path, speed, corridor=None, stop=True, hidden_speed=0.0):
        pass

    def go_to(self, goal, speed):
        pass

    def update_obstacles(self, obstacles):
        self.seen.append(obstacles)

    def poll(self, now):
        pass

    def cycle(self, now, measured=None):
        self.measured.append((now, measured))
        return Cycle(self.command, CycleOutcome.SOLVED)
