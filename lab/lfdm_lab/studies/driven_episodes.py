"""Episodes of an operator that keeps a winding lane, is knocked off it, and drives on as nobody intervenes.

Before the question the operator drives for a while, of which delay, gains and unsteadiness are learned. Shortly before it, a knock turns
the vehicle; the answer to that is still to come, or on its way. No operator is the model that is learned: the arms of all lag; `preview`
aims at a point of the lane, not at errors; `two_point` is the driver model of `teleop` with a person of each seed, and brakes; `braking`
steers as the first and brakes late besides.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.prediction import Measured
from lfdm_ros.control.routing.path import Path, outside
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.models.spinning import sideslip
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.operator_learning import OperatorLearner, PreviewSteering
from lfdm_ros.sharing.risk import FAILURES, RiskSettings
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand
from lfdm_ros.simulation import Actuator, Simulator
from lfdm_ros.simulation.world import Circle, World
from lfdm_ros.teleop import Operator, OperatorSettings
from lfdm_ros.teleop.body import Neuromuscular, RemnantNoise
from lfdm_ros.teleop.network_link import NetworkLinkSettings
from lfdm_ros.teleop.operator_settings import OPERATOR
from lfdm_ros.teleop.remote import RemoteDriver
from lfdm_ros.vehicles import Vehicle

LOOK, PHYSICS, LEARN = 0.01, 1e-3, 0.05  # [s] between cycles of the operator, of the model, and between looks of the learner
KNOCKS = 4.0  # [s] mean time between knocks while the operator is learned
KNOCK = 0.04  # [rad] standard deviation of a turn while the operator is learned; twice that before the question
BEFORE = 0.6  # [s] at most from the last knock to the question
PAST = 3.0  # [s] of states and commands given to the risk


@dataclass(frozen=True)
class Driving:
    """An operator. kind: preview, two_point or braking; delay: from picture to the command [s], of two_point what the link takes there and
    back besides its own; preview: distance of the point ahead [s]; learned: how long it was watched before [s]."""

    kind: str
    delay: float
    preview: float = 1.0
    learned: float = 40.0


class SteeringOperator(Protocol):
    """The part of a driver that is used here."""

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Returns the command at `now` [s]."""
        ...


class PreviewOperator:
    """Steers after a delay towards a point of the lane, the angle that leads there on an arc (Coulter 1992); keeps the speed. `braking`:
    off the lane by 0.8 m it brakes, 0.3 s later than it steers."""

    def __init__(self, vehicle: Vehicle, driving: Driving, path: Path, speed: float, seed: int) -> None:
        """Draws the person: delay, preview and gain around the given ones."""
        rng = np.random.default_rng([seed, 5])
        spread = np.exp((0.1, 0.15, 0.15) * np.clip(rng.standard_normal(3), -2.0, 2.0))
        self._delay, self._preview, self._gain = driving.delay * spread[0], driving.preview * spread[1], spread[2]
        self._path, self._speed, self._braking = path, speed, driving.kind == "braking"
        self._law, self._arms = PreviewSteering(vehicle), Neuromuscular(10.0, 0.707)
        self._remnant = RemnantNoise(1.0, OPERATOR.kind().remnant_bandwidth, rng)
        self._pictures, self._time = deque[Measured](), 0.0
        self._wanted, self._brake_from = 0.0, math.inf

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Returns the command at `now` [s]."""
        if measured is not None:
            self._pictures.append(measured)
        seen = None
        while self._pictures and self._pictures[0].time <= now - self._delay + 1e-9:
            seen = self._pictures.popleft()
        pedal = 0.0
        if seen is not None:
            v = seen.values
            here, aside = self._path.project(np.array([v["x"]]), np.array([v["y"]]))
            ahead = max(self._preview * v["vx"], 5.0)
            px, py = (float(c[0]) for c in self._path.at(here + ahead)[:2])
            bearing = math.remainder(math.atan2(py - v["y"], px - v["x"]) - v["yaw"], 2.0 * math.pi)
            arc = 2.0 * math.sin(bearing) / math.hypot(px - v["x"], py - v["y"])
            self._wanted = self._gain * math.atan(arc * self._law.wheelbase * (1.0 + 0.002 * v["vx"] ** 2))
            if self._braking and abs(float(aside[0])) > 0.8:
                self._brake_from = min(self._brake_from, now + 0.3)
            elif self._braking and now > self._brake_from + 1.0:
                self._brake_from = math.inf
            pedal = min(max(0.15 * (self._speed - v["vx"]) + 0.12, -0.3), 0.6)
        if now >= self._brake_from:
            pedal = -0.3
        angle = self._arms.advance(now - self._time, self._wanted) + self._remnant.advance(now)
        self._time = now
        steering = min(max(angle / self._law.lock, -1.0), 1.0)
        return Cycle((steering, max(pedal, 0.0), max(-pedal, 0.0)), CycleOutcome.SOLVED)


def operator_of(driving: Driving, vehicle: Vehicle, path: Path, speed: float, seed: int) -> SteeringOperator:
    """Makes the operator of a seed."""
    if driving.kind != "two_point":
        return PreviewOperator(vehicle, driving, path, speed, seed)
    link = NetworkLinkSettings(delay=0.5 * driving.delay)
    driver = RemoteDriver.over(Operator(vehicle, OperatorSettings(), seed), link, link, seed)
    driver.follow(path, speed)
    return driver


@dataclass(eq=False)
class Question:
    """The situation, and the state to continue from it."""

    situation: Situation
    loop: "Loop"
    around: World
    spread: np.ndarray


class Loop:
    """An operator in a closed loop with the vehicle that is the truth."""

    def __init__(self, vehicle: Vehicle, chassis: str, tyre: str, operator: SteeringOperator, speed: float) -> None:
        self.simulator = Simulator(vehicle, chassis, PHYSICS, tyre)
        self.simulator.reset(vx=speed)
        self.operator, self.actuator = operator, Actuator.of(vehicle.actuators)
        self.index, self._inputs, self._k = self.simulator.output_index, np.zeros(3), 0
        self._yaw = [f.name for f in self.simulator.model.states].index("yaw")
        self.sent, self.past = deque[StampedCommand](maxlen=round(PAST / LOOK)), deque[Measured](maxlen=round(PAST / LEARN))

    @property
    def now(self) -> float:
        """[s]"""
        return self._k * LOOK

    def turn(self, angle: float) -> None:
        """Knocks the vehicle: its heading is another by an angle [rad]."""
        self.simulator.state[self._yaw] += angle

    def measured(self) -> Measured:
        """Returns the present state."""
        out = self.simulator.outputs
        return Measured(self.now, {name: float(out[self.index[name]]) for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate")})

    def step(self) -> StampedCommand:
        """Goes on by a cycle; returns the command that is in force, stamped by when it was given."""
        state, now = self.measured(), self.now
        if not self._k % 5:
            self.past.append(state)
        command = self.operator.cycle(now, state).command
        issued = getattr(self.operator, "issued", now)
        self.sent.append(StampedCommand(now, *command))
        self.actuator.send(now, command)
        before, self._inputs = self._inputs, self.actuator.advance(now + LOOK)
        self.simulator.advance(before, self._inputs, round(LOOK / PHYSICS))
        self._k += 1
        return StampedCommand(issued if math.isfinite(issued) else now, *command)


def winding_lane(rng: np.random.Generator, length: float, speed: float) -> Path:
    """Draws a lane of two waves, whose lateral acceleration at a speed [m/s] is about 1 m/s^2."""
    s = np.arange(0.0, length, 2.0)
    y = np.zeros(len(s))
    for wave in rng.uniform(70.0, 180.0, 2):
        y += rng.uniform(0.3, 1.0) / speed**2 * (wave / (2.0 * math.pi))**2 * np.sin(2.0 * math.pi * s / wave + rng.uniform(0.0, 6.3))
    return Path(np.column_stack([s, y - y[0]]))


def question(driving: Driving, seed: int, told: Vehicle, own: Vehicle, chassis: str, tyre: str, draws: Draws,
             s: RiskSettings) -> Question:
    """Drives until the question; returns the situation given to the risk."""
    rng = np.random.default_rng([seed, 3])
    speed = rng.uniform(9.0, 18.0)
    path = winding_lane(rng, 60.0 + speed * (driving.learned + s.horizon + 6.0), speed)
    loop = Loop(own, chassis, tyre, operator_of(driving, told, path, speed, seed), speed)
    learner, command = OperatorLearner(told), StampedCommand(0.0)
    due = rng.exponential(KNOCKS)
    last = driving.learned - rng.uniform(0.05, BEFORE)
    for k in range(round(driving.learned / LOOK)):
        if loop.now >= due and loop.now < last - 3.0:
            loop.turn(KNOCK * rng.standard_normal())
            due = loop.now + rng.exponential(KNOCKS)
        if last <= loop.now < last + LOOK - 1e-9:
            loop.turn(2.0 * KNOCK * rng.standard_normal())
        command = loop.step()
        if k % round(LEARN / LOOK) == 0:
            learner.on_state(loop.past[-1], path)
            learner.on_command(command.time, command.steering)
    state = loop.measured()
    # Present and past measurements have the errors assumed by the risk.
    off = rng.standard_normal(4) * (s.position_sd, s.position_sd, s.heading_sd, s.speed_sd)
    told_of = [Measured(m.time, {**m.values} | {name: m.values[name] + float(d) for name, d in zip(("x", "y", "yaw", "vx"), off)})
               for m in (*loop.past, state)]
    here = float(path.project(np.array([state.values["x"]]), np.array([state.values["y"]]))[0][0])
    count = rng.poisson(3)
    ahead, side = here + rng.uniform(10.0, 3.2 * speed, count), rng.choice((-1.0, 1.0), count)
    radii = rng.uniform(0.2, 0.8, count)
    aside = side * (own.footprint.half_width + radii + rng.uniform(0.1, 3.0, count))
    x, y, yaw, _ = path.at(ahead)
    centres = np.column_stack([x - aside * np.sin(yaw), y + aside * np.cos(yaw)])
    seen = Obstacles(centres + s.obstacle_sd * rng.standard_normal((count, 2)), radii, np.zeros((count, 2)), state.time)
    # A lane around the vehicle, also given to the risk.
    room = own.footprint.half_width + rng.uniform(0.2, 2.5, 2)
    for values in (state.values, told_of[-1].values):
        rows = np.array([[0.0, *room], [path.length, *room]])
        room += [out and out + 0.1 for out in outside(rows, path, here, values["x"], values["y"], values["yaw"], own.footprint)]
    corridor = Corridor(path, np.array([[0.0, *room], [path.length, *room]]))
    situation = Situation(state.time, told, told_of[-1], tuple(loop.sent), command, None, None, seen, path, corridor, draws,
                          past=tuple(told_of), operator_posterior=learner.posterior)
    around = World(tuple(Circle(float(cx), float(cy), float(r), 0.0, 0.0) for (cx, cy), r in zip(centres, radii)))
    return Question(situation, loop, around, off)


def answer(asked: Question, s: RiskSettings) -> dict[str, Any]:
    """Drives on; returns what happened."""
    loop, index, corridor = asked.loop, asked.loop.index, asked.situation.corridor
    assert corridor is not None
    monitor = RunMonitor(asked.around, asked.situation.vehicle.footprint, index, corridor.path, corridor.room)
    happened: dict[str, Any] = dict.fromkeys(FAILURES, 0)
    begin = loop.now
    for _ in range(round(s.horizon / LOOK) + 1):
        out = loop.simulator.outputs
        hit = monitor.check_contact(loop.now - begin, out) <= 0.0
        free = not happened["collision"] and not hit
        happened["lift"] |= int(free and monitor.check_lift(loop.now - begin, out) > 0)
        happened["spin"] |= int(free and sideslip(*(float(out[index[name]]) for name in ("vx", "vy"))) >= s.spin)
        happened["collision"] |= int(hit)
        happened["leaving"] |= int(monitor.check_path(out) > 0.0)
        loop.step()
    return happened | {"failure": max(happened[what] for what in FAILURES)}
