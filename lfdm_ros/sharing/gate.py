"""The command gate: its output is finite, fresh, in range, and within the rates of steering and pedals, whatever its input.

Magnitude by speed. A steady turn at road-wheel angle d has the lateral acceleration v^2 d / (L + K v^2), with the wheelbase L and the
understeer gradient K of the vehicle's axles. It is limited to the friction at the vehicle's position, mu g. Countersteering is admitted
beyond that: up to where the front wheels point along their own motion they add no lateral force.

Brake. A rear axle that brakes too hard in a bend locks, and the vehicle spins: the brake is limited to the force that this axle has left
beside its lateral force, as in autonomy's stops. An emergency stop is not limited.

Rate by speed. The steering moves at its actuator's rate, but takes at least `swing_time` from one end of its range to the other; this
bounds the lateral jerk where full lock exceeds the friction limit.
"""

import math
from dataclasses import dataclass

from lfdm_ros.control.command_limits import RateLimits, rate_limited
from lfdm_ros.control.limits import LimitTable
from lfdm_ros.control.safety.braking import braking
from lfdm_ros.control.safety.stops import NOMINAL, braking_model_of, peak_of
from lfdm_ros.errors import InputError
from lfdm_ros.sharing.sharing_settings import SharingSettings
from lfdm_ros.sharing.situation import StampedCommand
from lfdm_ros.vehicles import Vehicle
from lfdm_ros.vehicles.body import understeer_gradient

LONGEST = 0.1  # [s] longest step of the rate limits: no jump after a gap
SLOW = 1.0  # [m/s] up to which the selector may change
MIN_LOCK = 0.02  # share of full lock available at any speed, needed to stay on a straight road
NEEDED = ("cg_to_front_axle", "cg_to_rear_axle", "max_road_wheel_angle", "friction_max")
MAX_AGE = 0.2  # [s] of a decision; the gate brakes after that


@dataclass(frozen=True)
class GatedCommand:
    """The gate's output, and the limits that changed it."""

    command: StampedCommand
    limits: tuple[str, ...]


class OutputGate:
    """Gate of one vehicle's commands; stores the command in force."""

    def __init__(self, vehicle: Vehicle, settings: SharingSettings, table: LimitTable | None = None) -> None:
        """Makes the gate of a vehicle; table: steering limits against wheel lift, applied as well."""
        self.settings, self._table = settings, table
        self.set_vehicle(vehicle)
        self.reset()

    def set_vehicle(self, vehicle: Vehicle) -> None:
        """Sets the parameters of the vehicle. Raises InputError where it lacks some; then nothing has changed."""
        p = vehicle.parameters
        missing = [name for name in NEEDED if name not in p]
        if missing:
            raise InputError(f"vehicle {vehicle.name} has no {', '.join(missing)}; the command gate needs it")
        self._peak = peak_of(vehicle.model(self.settings.forecast_model), vehicle)
        a, b = p["cg_to_front_axle"], p["cg_to_rear_axle"]
        self._wheelbase, self._front = a + b, a
        self._understeer = max(understeer_gradient(p), 0.0)  # [rad s^2/m]; an oversteering vehicle counts as neutral
        self._lock = p["max_road_wheel_angle"]
        self._actuators, self._braking_model = vehicle.actuators, braking_model_of(vehicle, 1.0)

    def reset(self) -> None:
        """Clears commands and motion."""
        self.applied, self._reverse = StampedCommand(0.0), False
        self._vx = self._vy = self._yaw_rate = 0.0
        self._pose = (0.0, 0.0, 0.0)
        self.restart()

    def restart(self) -> None:
        """Restarts time; the command in force stays."""
        self._sent = False

    def set_motion(self, vx: float, vy: float, yaw_rate: float, pose: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> None:
        """Sets the motion of the vehicle [m/s, rad/s], and its pose: x, y [m], yaw [rad]; values that are not finite are ignored."""
        if all(map(math.isfinite, (vx, vy, yaw_rate, *pose))):
            self._vx, self._vy, self._yaw_rate, self._pose = vx, vy, yaw_rate, pose

    # -- Limits ----------------------------------------------------------------------------------------------------------

    def max_steering(self, vx: float) -> float:
        """Returns the largest steering at a speed and the vehicle's position, as share of full lock."""
        v2, grip = vx * vx, float(self._peak(*self._pose)[0])
        angle = (self._wheelbase + self._understeer * v2) * grip / max(v2, 1e-6)
        share = angle / self._lock
        if self._table is not None:
            share = min(share, float(self._table.at(abs(vx))))
        return min(max(share, MIN_LOCK), 1.0)

    def steering_range(self) -> tuple[float, float]:
        """Returns smallest and largest steering now, by speed and for countersteering."""
        lock = self.max_steering(self._vx)
        # In reverse the front wheels trail.
        along = math.atan2(self._vy + self._front * self._yaw_rate, self._vx) / self._lock if self._vx > SLOW else 0.0
        return max(min(-lock, along), -1.0), min(max(lock, along), 1.0)

    def max_brake(self) -> float:
        """Returns the brake [0, 1] at which the rear axle reaches its friction limit now."""
        circle = NOMINAL.circle * float(self._peak(*self._pose)[0])
        return min(braking(self._braking_model, abs(self._vx * self._yaw_rate), circle) / self._braking_model.full_brake, 1.0)

    def clip(self, command: StampedCommand) -> StampedCommand:
        """Returns a command within the ranges of steering and brake, without rates."""
        low, high = self.steering_range()
        pedal = max(command.pedal, -self.max_brake())
        return StampedCommand.of_pedal(command.time, min(max(command.steering, low), high), pedal, command.reverse)

    def max_steering_rate(self) -> float:
        """Returns the largest rate of the steering now [1/s]."""
        return min(self._actuators.steering_rate, 2.0 * self.max_steering(self._vx) / self.settings.swing_time)

    # -- Output ----------------------------------------------------------------------------------------------------------

    def admit(self, requested: StampedCommand | None, now: float, emergency: bool = False) -> GatedCommand:
        """Returns the limited command for `now` [s].

        Args:
            requested: the decided command; None, or one that is older than `MAX_AGE`: the gate brakes.
            emergency: brake at the rate of an emergency stop.
        """
        s, limits, before = self.settings, list[str](), self.applied
        dt = min(max(now - before.time, 0.0), LONGEST) if self._sent else 0.0
        if requested is None or not abs(now - requested.time) <= MAX_AGE:
            limits.append("stale")
            requested = StampedCommand(now, before.steering, 0.0, s.stop_brake)
        low, high = self.steering_range()
        steering = min(max(requested.steering, low), high)
        if steering != requested.steering:
            limits.append("steering")
        pedal = requested.pedal if emergency else max(requested.pedal, -self.max_brake())
        if pedal != requested.pedal:
            limits.append("brake")
        if pedal > 0.0 and requested.reverse != self._reverse:
            if before.pedal > 0.0 or abs(self._vx) > SLOW:
                limits.append("selector")
                pedal = 0.0
            else:
                self._reverse = requested.reverse
        a, rates = self._actuators, RateLimits.of(s, self._actuators)
        down = min(s.emergency_rate, a.throttle_rate, a.brake_rate) if emergency else rates.down
        rates = RateLimits(self.max_steering_rate(), rates.up, down)
        turned, pressed = rate_limited((before.steering, before.pedal), (steering, pedal), rates, dt)
        limits += [name for name, limited, target in (("steering_rate", turned, steering), ("pedal_rate", pressed, pedal))
                   if abs(limited - target) > 1e-12]
        self.applied = StampedCommand.of_pedal(now, turned, pressed, self._reverse and pressed > 0.0)
        self._sent = True
        return GatedCommand(self.applied, tuple(limits))
