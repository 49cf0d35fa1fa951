"""Episodes of an operator in closed loop on a winding lane with a disturbance and without intervention.

First the operator drives for a while; delay, gains and remnant are learned from that. Shortly before the assessment a disturbance changes
the heading, to which the operator has not fully responded yet. No operator equals the learned model: all have neuromuscular lag; `preview`
aims at a point of the lane, not at errors; `two_point` is the driver model of `teleop`, randomised by seed, and brakes; `braking` steers
like `preview` and brakes late.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.cycle import Cycle, CycleOutcome
from lfdm_ros.control.prediction import Measured
from lfdm_ros.engine.run_monitor import RunMonitor
from lfdm_ros.models.spinning import sideslip
from lfdm_ros.perception.obstacles import Obstacles
from lfdm_ros.sharing.operator_learning import OperatorLearner, PreviewSteering
from lfdm_ros.sharing.risk import FAILURES, RiskSettings
from lfdm_ros.sharing.situation import Corridor, Draws, Situation, StampedCommand
from lfdm_ros.simulation import Actuator, Simulator
from lfdm_ros.simulation.path import Path, outside
from lfdm_ros.simulation.world import Circle, World
from lfdm_ros.teleop import OperatorSettings
from lfdm_ros.teleop.body import Neuromuscular, RemnantNoise
from lfdm_ros.teleop.network_link import NetworkLinkSettings
from lfdm_ros.teleop.operator import Operator
from lfdm_ros.teleop.operator_settings import OPERATOR
from lfdm_ros.teleop.remote import RemoteDriver
from lfdm_ros.vehicles import Vehicle

PERIOD, PHYSICS_STEP, LEARNER_PERIOD = 0.01, 1e-3, 0.05  # [s] of the operator, the vehicle model and the learner
DISTURBANCE_INTERVAL = 4.0  # [s] mean time between disturbances while the operator is learned
DISTURBANCE_SD = 0.04  # [rad] standard deviation of the change of heading; twice that before the assessment
MAX_RESPONSE_TIME = 0.6  # [s] from the last disturbance to the assessment
HISTORY = 3.0  # [s] of states and commands given to the risk


@dataclass(frozen=True)
class Driving:
    """An operator. kind: preview, two_point or braking; delay: from picture to command [s], of two_point the round trip of the link in
    addition to its own; preview: time to the aim point [s]; learned: duration of learning [s]."""

    kind: str
    delay: float
    preview: float = 1.0
    learned: float = 40.0


class PreviewOperator:
    """An operator that steers after a delay by pure pursuit (Coulter 1992) and holds the speed; kind braking: brakes 0.3 s after it is
    0.8 m off the lane."""

    def __init__(self, vehicle: Vehicle, driving: Driving, path: Path, speed: float, seed: int) -> None:
        """Draws delay, preview and gain around the given ones."""
        rng = np.random.default_rng([seed, 5])
        spread = np.exp((0.1, 0.15, 0.15) * np.clip(rng.standard_normal(3), -2.0, 2.0))
        self._delay, self._preview, self._gain = driving.delay * spread[0], driving.preview * spread[1], spread[2]
        self._path, self._speed, self._braking = path, speed, driving.kind == "braking"
        self._steering_law, self._arms = PreviewSteering(vehicle), Neuromuscular(10.0, 0.707)
        self._remnant = RemnantNoise(1.0, OPERATOR.kind().remnant_bandwidth, rng)
        self._pictures, self._time = deque[Measured](), 0.0
        self._angle_setpoint, self._brake_from = 0.0, math.inf

    def cycle(self, now: float, measured: Measured | None = None) -> Cycle:
        """Returns the command at `now` [s]."""
        if measured is not None:
            self._pictures.append(measured)
        delayed = None
        while self._pictures and self._pictures[0].time <= now - self._delay + 1e-9:
            delayed = self._pictures.popleft()
        pedal = 0.0
        if delayed is not None:
            v = delayed.values
            position, offset = self._path.project(np.array([v["x"]]), np.array([v["y"]]))
            ahead = max(self._preview * v["vx"], 5.0)
            px, py = (float(c[0]) for c in self._path.at(position + ahead)[:2])
            bearing = math.remainder(math.atan2(py - v["y"], px - v["x"]) - v["yaw"], 2.0 * math.pi)
            arc = 2.0 * math.sin(bearing) / math.hypot(px - v["x"], py - v["y"])
            self._angle_setpoint = self._gain * math.atan(arc * self._steering_law.wheelbase * (1.0 + 0.002 * v["vx"] ** 2))
            if self._braking and abs(float(offset[0])) > 0.8:
                self._brake_from = min(self._brake_from, now + 0.3)
            elif self._braking and now > self._brake_from + 1.0:
                self._brake_from = math.inf
            pedal = min(max(0.15 * (self._speed - v["vx"]) + 0.12, -0.3), 0.6)
        if now >= self._brake_from:
            pedal = -0.3
        angle = self._arms.advance(now - self._time, self._angle_setpoint) + self._remnant.advance(now)
        self._time = now
        steering = min(max(angle / self._steering_law.lock, -1.0), 1.0)
        return Cycle((steering, max(pedal, 0.0), max(-pedal, 0.0)), CycleOutcome.SOLVED)


def operator_of(driving: Driving, vehicle: Vehicle, path: Path, speed: float, seed: int) -> PreviewOperator | RemoteDriver:
    """Creates the operator of a seed."""
    if driving.kind != "two_point":
        return PreviewOperator(vehicle, driving, path, speed, seed)
    link = NetworkLinkSettings(delay=0.5 * driving.delay)
    driver = RemoteDriver.over(Operator(vehicle, OperatorSettings(), seed), link, link, seed)
    driver.follow(path, speed)
    return driver


@dataclass(eq=False)
class DrivenEpisode:
    """The situation at the assessment, and the closed loop to continue from it; measurement_error: of x, y, yaw, vx."""

    situation: Situation
    loop: "OperatorLoop"
    world: World
    measurement_error: np.ndarray


class OperatorLoop:
    """An operator in closed loop with the true vehicle."""

    def __init__(self, vehicle: Vehicle, chassis: str, tyre: str, operator: "PreviewOperator | RemoteDriver", speed: float) -> None:
        self.simulator = Simulator(vehicle, chassis, PHYSICS_STEP, tyre)
        self.simulator.reset(vx=speed)
        self.operator, self.actuator = operator, Actuator.of(vehicle.actuators)
        self.index, self._inputs, self._k = self.simulator.output_index, np.zeros(3), 0
        self._yaw = [f.name for f in self.simulator.model.states].index("yaw")
        self.sent = deque[StampedCommand](maxlen=round(HISTORY / PERIOD))
        self.past = deque[Measured](maxlen=round(HISTORY / LEARNER_PERIOD))

    @property
    def now(self) -> float:
        """[s]"""
        return self._k * PERIOD

    def disturb_heading(self, angle: float) -> None:
        """Changes the heading by an angle [rad]."""
        self.simulator.state[self._yaw] += angle

    def measured(self) -> Measured:
        """Returns the present state."""
        out = self.simulator.outputs
        return Measured(self.now, {name: float(out[self.index[name]]) for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate")})

    def step(self) -> StampedCommand:
        """Advances by a cycle; returns the command in force, with the time at which it was issued."""
        state, now = self.measured(), self.now
        if not self._k % 5:
            self.past.append(state)
        command = self.operator.cycle(now, state).command
        issued = getattr(self.operator, "issued", now)
        self.sent.append(StampedCommand(now, *command))
        self.actuator.send(now, command)
        before, self._inputs = self._inputs, self.actuator.advance(now + PERIOD)
        self.simulator.advance(before, self._inputs, round(PERIOD / PHYSICS_STEP))
        self._k += 1
        return StampedCommand(issued if math.isfinite(issued) else now, *command)


def winding_lane(rng: np.random.Generator, length: float, speed: float) -> Path:
    """Draws a lane of two sine waves with a lateral acceleration of about 1 m/s^2 at `speed` [m/s]."""
    s = np.arange(0.0, length, 2.0)
    y = np.zeros(len(s))
    for wave in rng.uniform(70.0, 180.0, 2):
        y += rng.uniform(0.3, 1.0) / speed**2 * (wave / (2.0 * math.pi))**2 * np.sin(2.0 * math.pi * s / wave + rng.uniform(0.0, 6.3))
    return Path(np.column_stack([s, y - y[0]]))


def drive_until_assessment(driving: Driving, seed: int, nominal: Vehicle, true_vehicle: Vehicle, chassis: str, tyre: str, draws: Draws,
                           s: RiskSettings) -> DrivenEpisode:
    """Drives until the assessment; returns the situation given to the risk, and the loop."""
    rng = np.random.default_rng([seed, 3])
    speed = rng.uniform(9.0, 18.0)
    path = winding_lane(rng, 60.0 + speed * (driving.learned + s.horizon + 6.0), speed)
    loop = OperatorLoop(true_vehicle, chassis, tyre, operator_of(driving, nominal, path, speed, seed), speed)
    learner, command = OperatorLearner(nominal), StampedCommand(0.0)
    next_disturbance = rng.exponential(DISTURBANCE_INTERVAL)
    last = driving.learned - rng.uniform(0.05, MAX_RESPONSE_TIME)
    for k in range(round(driving.learned / PERIOD)):
        if loop.now >= next_disturbance and loop.now < last - 3.0:
            loop.disturb_heading(DISTURBANCE_SD * rng.standard_normal())
            next_disturbance = loop.now + rng.exponential(DISTURBANCE_INTERVAL)
        if last <= loop.now < last + PERIOD - 1e-9:
            loop.disturb_heading(2.0 * DISTURBANCE_SD * rng.standard_normal())
        command = loop.step()
        if k % round(LEARNER_PERIOD / PERIOD) == 0:
            learner.on_state(loop.past[-1], path)
            learner.on_command(command.time, command.steering)
    state = loop.measured()
    # Present and past measurements have one constant error, with the standard deviations assumed by the risk.
    error = rng.standard_normal(4) * (s.position_sd, s.position_sd, s.heading_sd, s.speed_sd)
    measured = [Measured(m.time, {**m.values} | {name: m.values[name] + float(d) for name, d in zip(("x", "y", "yaw", "vx"), error)})
                for m in (*loop.past, state)]
    position = float(path.project(np.array([state.values["x"]]), np.array([state.values["y"]]))[0][0])
    count = rng.poisson(3)
    ahead, side = position + rng.uniform(10.0, 3.2 * speed, count), rng.choice((-1.0, 1.0), count)
    radii = rng.uniform(0.2, 0.8, count)
    lateral = side * (true_vehicle.footprint.half_width + radii + rng.uniform(0.1, 3.0, count))
    x, y, yaw, _ = path.at(ahead)
    centres = np.column_stack([x - lateral * np.sin(yaw), y + lateral * np.cos(yaw)])
    detected = Obstacles(centres + s.obstacle_sd * rng.standard_normal((count, 2)), radii, np.zeros((count, 2)), state.time)
    # A corridor that contains the vehicle, as it is and as it is measured.
    room = true_vehicle.footprint.half_width + rng.uniform(0.2, 2.5, 2)
    for values in (state.values, measured[-1].values):
        rows = np.array([[0.0, *room], [path.length, *room]])
        room += [out and out + 0.1 for out in outside(rows, path, position, values["x"], values["y"], values["yaw"],
                                                      true_vehicle.footprint)]
    corridor = Corridor(path, np.array([[0.0, *room], [path.length, *room]]))
    situation = Situation(state.time, nominal, measured[-1], tuple(loop.sent), command, None, None, detected, path, corridor, draws,
                          past=tuple(measured), operator_posterior=learner.posterior)
    world = World(tuple(Circle(float(cx), float(cy), float(r), 0.0, 0.0) for (cx, cy), r in zip(centres, radii)))
    return DrivenEpisode(situation, loop, world, error)


def drive_to_outcome(episode: DrivenEpisode, s: RiskSettings) -> dict[str, int]:
    """Drives on for the risk's horizon; returns which failures occurred."""
    loop, index, corridor = episode.loop, episode.loop.index, episode.situation.corridor
    assert corridor is not None
    monitor = RunMonitor(episode.world, episode.situation.vehicle.footprint, index, corridor.path, corridor.room)
    outcome = dict.fromkeys(FAILURES, 0)
    start = loop.now
    for _ in range(round(s.horizon / PERIOD) + 1):
        note_failures(outcome, monitor, loop.now - start, loop.simulator.outputs, index, s.spin)
        loop.step()
    return outcome | {"failure": max(outcome.values())}


def note_failures(outcome: dict[str, int], monitor: RunMonitor, time: float, outputs: np.ndarray, index: Mapping[str, int],
                  spin: float) -> None:
    """Sets the failures of `outcome` that occur at `time` [s]; lift and spin count before a collision only. spin: sideslip angle [rad]."""
    hit = monitor.check_contact(time, outputs) <= 0.0
    before_collision = not outcome["collision"] and not hit
    outcome["lift"] |= int(before_collision and monitor.check_lift(time, outputs) > 0)
    outcome["spin"] |= int(before_collision and sideslip(*outputs[[index["vx"], index["vy"]]].tolist()) >= spin)
    outcome["collision"] |= int(hit)
    outcome["leaving"] |= int(monitor.check_path(outputs) > 0.0)
