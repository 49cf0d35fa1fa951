"""Inversion of a vehicle's model: steering and pedals for a speed with a curvature or steering angle. Independent of ROS.

`PedalInversion` and `SteeringInversion` invert the model's responses; `Follower` adds feedback for the road and for model errors.
"""

import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.simulation import Simulator
from lfdm_ros.vehicles import Vehicle

_STEP = 2e-3  # [s]
_SAMPLE = 0.2  # [s]
_THROTTLES, _BRAKES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0), (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
_ACCELERATING, _SLOWING = 30.0, 40.0  # [s] of a run
_SETTLING, _BITING = 1.0, 0.4  # [s] after which a run that begins at speed is in its gear, and brakes act in full
_FASTEST = 60.0  # [m/s] largest top speed
_SPEEDS = 41
_ANGLES = 81
_TURN_TIME, _TURN_SPEED, _TURN_ACCELERATION = 4.0, 0.4, 1.5  # [s]; share of the top speed; [m/s^2]
_MOVING = 0.5  # [m/s] below which a curvature cannot be measured
_STANDING = 0.1  # [m/s]
_NEAR = 1.0  # [m/s] largest error of the speed that is integrated


class PedalInversion:
    """Acceleration by throttle and brake at a speed, on a level road, and its inverse.

    One number stands for both pedals: from -1, full brake, through 0, neither, to 1, full throttle.
    """

    def __init__(self, vehicle: Vehicle, model: str = "eight_dof") -> None:
        """Drives the model from standstill by each throttle, and from its top speed down by each throttle and brake. Raises InputError: the
        vehicle cannot be that model."""
        simulator = _simulator(vehicle, model)
        speeds, _ = _run(simulator, 0.0, 1.0, _ACCELERATING)
        self.top_speed = float(min(max(speeds.max(), 1.0), _FASTEST))
        self.speeds = np.linspace(0.0, self.top_speed, _SPEEDS)
        self.levels = np.array([*(-b for b in reversed(_BRAKES)), *_THROTTLES])
        table = np.column_stack([self._answers(simulator, level) for level in self.levels])
        # The inverse needs an acceleration that increases with the pedal, unlike that of spinning wheels.
        self.accelerations = np.maximum.accumulate(table, axis=1)

    def _answers(self, simulator: Simulator, level: float) -> np.ndarray:
        """Returns the acceleration [m/s^2] at each of the speeds, by one level of the pedals."""
        speeds, answers = _run(simulator, self.top_speed, level, _SLOWING)
        start = round((_SETTLING if level >= 0.0 else _BITING) / _SAMPLE)
        speeds, answers = speeds[start:], answers[start:]
        moving = speeds > _STANDING
        if level > 0.0:
            up, faster = _run(simulator, 0.0, level, _ACCELERATING)
            below = up < (speeds.min() if len(speeds) else math.inf)
            speeds, answers, moving = (np.concatenate(pair) for pair in (
                (up[below], speeds), (faster[below], answers), (np.full(below.sum(), True), moving)))
        if not moving.any():
            return np.zeros(len(self.speeds))
        order = np.argsort(speeds[moving])
        return np.interp(self.speeds, speeds[moving][order], answers[moving][order])

    def range(self, speed: float) -> tuple[float, float, float]:
        """Returns the acceleration [m/s^2] of full brake, of neither pedal, and of full throttle at a speed [m/s], forward."""
        row = self._row(speed)
        return float(row[0]), float(np.interp(0.0, self.levels, row)), float(row[-1])

    def level(self, speed: float, acceleration: float) -> float:
        """Returns the level of the pedals that comes nearest to an acceleration [m/s^2] at a speed [m/s], forward."""
        return float(np.interp(acceleration, self._row(speed), self.levels))

    def _row(self, speed: float) -> np.ndarray:
        at = min(max(speed, 0.0), self.top_speed) / self.top_speed * (_SPEEDS - 1)
        k = min(int(at), _SPEEDS - 2)
        row: np.ndarray = self.accelerations[k] + (at - k) * (self.accelerations[k + 1] - self.accelerations[k])
        return row


class SteeringInversion:
    """Angle of the front wheels by the steering input, its inverse, and the angle that a curvature needs at a speed. wheelbase: [m].
    understeer: angle per lateral acceleration beyond that of the bend [rad s^2/m], of the model in a gentle turn."""

    def __init__(self, vehicle: Vehicle, model: str, pedals: PedalInversion) -> None:
        """Tabulates the model's angles and drives it through a turn. Raises InputError: the vehicle cannot be that model."""
        simulator = _simulator(vehicle, model)
        self._inputs, self._angles = np.linspace(-1.0, 1.0, _ANGLES), np.empty(_ANGLES)
        for k, steering in enumerate(self._inputs):
            simulator.reset()
            simulator.advance((steering, 0.0, 0.0), (steering, 0.0, 0.0), 1)
            self._angles[k] = simulator.outputs[simulator.output_index["road_wheel_angle"]]
        self.wheelbase = vehicle.parameters["cg_to_front_axle"] + vehicle.parameters["cg_to_rear_axle"]
        self.understeer = self._gradient(simulator, pedals)

    @property
    def largest(self) -> float:
        """Largest angle reachable to both sides [rad]."""
        return float(min(-self._angles[0], self._angles[-1]))

    def input(self, angle: float) -> float:
        """Returns the steering input for an angle [rad] of the front wheels."""
        return float(np.interp(angle, self._angles, self._inputs))

    def angle_of(self, steering: float) -> float:
        """Returns the angle [rad] of the front wheels at a steering input."""
        return float(np.interp(steering, self._inputs, self._angles))

    def angle(self, curvature: float, speed: float) -> float:
        """Returns the angle [rad] of the front wheels for a curvature [1/m] at a speed [m/s]."""
        return curvature * (self.wheelbase + self.understeer * speed * speed)

    def _gradient(self, simulator: Simulator, pedals: PedalInversion) -> float:
        speed = max(_TURN_SPEED * pedals.top_speed, 1.0)
        across = min(_TURN_ACCELERATION, 0.5 * speed * speed / self.wheelbase)
        angle = self.wheelbase * across / speed**2
        steering = self.input(angle)
        simulator.reset(vx=speed)
        inputs = (steering, max(pedals.level(speed, 0.0), 0.0), 0.0)
        simulator.advance(inputs, inputs, round(_TURN_TIME / simulator.dt))
        vx, yaw_rate = (float(simulator.outputs[simulator.output_index[name]]) for name in ("vx", "yaw_rate"))
        return (angle * vx / yaw_rate - self.wheelbase) / vx**2 if vx > _MOVING and abs(yaw_rate) > 1e-6 else 0.0


@dataclass(frozen=True)
class MotionSetpoint:
    """A speed [m/s], and an angle of the front wheels [rad] or a curvature [1/m], which takes precedence.

    The others are limits, 0: those of the vehicle. acceleration [m/s^2] and jerk [m/s^3] of the speed, either way; angle_rate [rad/s].
    """

    speed: float = 0.0
    angle: float = 0.0
    curvature: float | None = None
    acceleration: float = 0.0
    jerk: float = 0.0
    angle_rate: float = 0.0


@dataclass(frozen=True)
class FollowerSettings(Declared):
    """Gains and limits of a `Follower`. Raises InputError for values out of range."""

    ABOUT = "follower: "

    lateral_limit: float = setting(4.0, "m/s^2", "largest requested lateral acceleration", 0.1, 50.0)
    speed_gain: float = setting(1.0, "1/s", "proportional gain of the speed control", 0.0, 20.0)
    speed_integral: float = setting(0.2, "1/s^2", "integral gain of the speed control", 0.0, 20.0)
    curvature_integral: float = setting(1.0, "1/s", "integral gain of the curvature control", 0.0, 20.0)
    standing_brake: float = setting(0.3, "1", "brake pedal at standstill", 0.0, 1.0)


FOLLOWER = Exposed(FollowerSettings, "", {})


class Follower:
    """Feedback control of steering, throttle and brake for a setpoint, with each state of the vehicle."""

    def __init__(self, vehicle: Vehicle, model: str = "eight_dof", settings: FollowerSettings | None = None) -> None:
        """Inverts the vehicle's model. Raises InputError: the vehicle cannot be that model."""
        self.settings = settings or FollowerSettings()
        self.pedals = PedalInversion(vehicle, model)
        self.steering = SteeringInversion(vehicle, model, self.pedals)
        self._actuators = vehicle.actuators
        self._largest_rate = vehicle.actuators.steering_rate * self.steering.largest
        self.reset()

    def reset(self) -> None:
        """Begins anew: the setpoint counts from the next state."""
        self._time: float | None = None
        self._speed = self._acceleration = self._sum = self._trim = self.angle = self._measured_acceleration = 0.0
        self._free = True

    def inputs(self, time: float, speed: float, yaw_rate: float, setpoint: MotionSetpoint) -> tuple[float, float, float]:
        """Returns steering, throttle and brake for a setpoint. time: of the state [s]; going back begins anew. speed: forward [m/s].
        yaw_rate: [rad/s]."""
        if self._time is not None and time < self._time:
            self.begin(self.angle)
        if self._time is None:
            self._speed, self._before = speed, speed
        span = 0.0 if self._time is None else time - self._time
        self._time = time
        if span > 0.0:
            self._measured_acceleration += (1.0 - math.exp(-span / 0.1)) * ((speed - self._before) / span - self._measured_acceleration)
        self._before = speed
        return self._steer(span, speed, yaw_rate, setpoint), *self._drive(span, speed, setpoint)

    def begin(self, angle: float) -> None:
        """Begins anew with the front wheels at an angle [rad]."""
        self.reset()
        self.angle = angle

    def _drive(self, span: float, speed: float, setpoint: MotionSetpoint) -> tuple[float, float]:
        goal = setpoint.speed
        # The selector changes near standstill only: a reversal begins with a stop.
        if goal * speed < 0.0 and abs(speed) > _STANDING:
            goal = 0.0
        if goal == 0.0 and abs(speed) <= _STANDING:
            self._speed = self._acceleration = self._sum = 0.0
            return 0.0, self.settings.standing_brake
        direction = -1.0 if (goal or speed) < 0.0 else 1.0
        self._approach(span, speed, goal, setpoint)
        # Speed of the vehicle when this command acts.
        ahead = speed + self._measured_acceleration * self._actuators.delay
        error = self._speed - ahead
        if self._free and abs(error) < _NEAR:
            self._sum += self.settings.speed_integral * error * span
        requested = direction * (self._acceleration + self.settings.speed_gain * error + self._sum)
        slowest, _, fastest = self.pedals.range(direction * speed)
        self._free = slowest < requested < fastest
        level = self.pedals.level(direction * speed, requested)
        return (direction * level, 0.0) if level > 0.0 else (0.0, -level)

    def _approach(self, span: float, speed: float, goal: float, setpoint: MotionSetpoint) -> None:
        """Moves the commanded speed towards the setpoint."""
        limit, jerk = abs(setpoint.acceleration) or math.inf, abs(setpoint.jerk) or math.inf
        left = goal - self._speed
        if limit == math.inf and jerk == math.inf:
            self._speed, self._acceleration = goal, 0.0
            return
        most = min(limit, math.sqrt(2.0 * jerk * abs(left)) if jerk < math.inf else math.inf)
        requested = math.copysign(min(most, abs(left) / span if span else most), left)
        self._acceleration += min(max(requested - self._acceleration, -jerk * span), jerk * span) if jerk < math.inf else (
            requested - self._acceleration)
        # Not far ahead of a vehicle that cannot follow.
        room = max(1.0, limit if limit < math.inf else 0.0)
        self._speed = min(max(self._speed + span * self._acceleration, speed - room), speed + room)

    def _steer(self, span: float, speed: float, yaw_rate: float, setpoint: MotionSetpoint) -> float:
        largest = self.settings.lateral_limit / max(speed * speed, 1e-6)
        if setpoint.curvature is None:
            self._trim = 0.0
            angle = setpoint.angle
        else:
            curvature = min(max(setpoint.curvature, -largest), largest)
            if abs(speed) > _MOVING:
                error = curvature - yaw_rate / speed
                self._trim += self.settings.curvature_integral * span * error
                self._trim = min(max(self._trim, -0.5 * largest), 0.5 * largest)
            angle = self.steering.angle(curvature + self._trim, speed)
        most = min(self.steering.largest, abs(self.steering.angle(largest, speed)) if setpoint.curvature is None else math.inf)
        angle = min(max(angle, -most), most)
        rate = min(abs(setpoint.angle_rate) or math.inf, self._largest_rate)
        before, self.angle = self.angle, self.angle + min(max(angle - self.angle, -rate * span), rate * span)
        # A lead that makes up for the lag on a ramp.
        ahead = self._actuators.steering_lag * (self.angle - before) / span if span else 0.0
        return self.steering.input(self.angle + ahead)


def _simulator(vehicle: Vehicle, model: str) -> Simulator:
    chosen = vehicle.model(model)
    return Simulator(vehicle, model=chosen, dt=min(_STEP, chosen.largest_step))


def _run(simulator: Simulator, speed: float, level: float, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns speeds [m/s] and accelerations [m/s^2] of a straight run from a speed by one level of the pedals, until it stands or ends."""
    simulator.reset(vx=speed)
    command, steps = (0.0, max(level, 0.0), max(-level, 0.0)), round(_SAMPLE / simulator.dt)
    vx = simulator.output_index["vx"]
    speeds = [speed]
    for _ in range(round(seconds / _SAMPLE)):
        simulator.advance(command, command, steps)
        speeds.append(float(simulator.outputs[vx]))
        if speeds[-1] <= 0.0 and level <= 0.0:
            break
    series = np.array(speeds)
    return 0.5 * (series[1:] + series[:-1]), np.diff(series) / _SAMPLE
