"""Rollout of a constant command with the prediction model of the controller and the vehicle's actuators."""

import math
from bisect import bisect_right

import numpy as np

from lfdm_ros.backends import advance_kernel
from lfdm_ros.control.plan import Plan
from lfdm_ros.control.prediction import measured_state
from lfdm_ros.control.safety.braking import MAX_SPEED
from lfdm_ros.sharing.situation import Situation, StampedCommand
from lfdm_ros.vehicles import Vehicle

MODEL = "driven_bicycle"
STEP = 0.05  # [s] of the rollout and of the model


class Forecast:
    """Rollouts of constant commands of one vehicle. Its only state is the compiled model and the vehicle's parameters."""

    def __init__(self, vehicle: Vehicle, model: str = MODEL) -> None:
        """Compiles the model, or loads it. Raises InputError if the vehicle lacks parameters of it."""
        self.model = vehicle.model(model)
        self.names = tuple(f.name for f in self.model.states)
        self._vx, self._step = self.names.index("vx"), min(STEP, self.model.largest_step)
        self._x, self._before, self._after = np.zeros(len(self.names)), np.zeros(3), np.zeros(3)
        self._bind = advance_kernel(self.model)
        self.set_vehicle(vehicle)

    def set_vehicle(self, vehicle: Vehicle) -> None:
        """Sets the parameters of the vehicle. Raises InputError if it lacks some; then nothing has changed."""
        self._advance = self._bind(self._x, vehicle.vector(self.model), self._before, self._after)
        self._vehicle = vehicle

    def roll_out(self, situation: Situation, command: StampedCommand, horizon: float) -> Plan:
        """Rolls out a command that is sent from now on, from the measured state until `horizon` [s] from now.

        Earlier commands act during the actuators' delay; then steering and pedal move at the actuators' rates. The inputs are those at the
        wheels. The plan ends early where the model diverges.
        """
        a, measured = situation.vehicle.actuators, situation.measured
        effects = [c.time + a.delay for c in situation.sent]
        begin = situation.time + a.delay
        times, rows, inputs = [measured.time], [measured_state(self.model, self._vehicle, measured)], []
        acting = situation.sent[max(bisect_right(effects, measured.time) - 1, 0)] if situation.sent else StampedCommand(measured.time)
        steering, pedal, reverse = acting.steering, acting.pedal, acting.reverse
        road = steering
        inputs.append(_inputs(road, pedal, reverse))
        x, before, after = self._x, self._before, self._after
        x[:] = rows[0]
        before[:] = inputs[0]
        now, end = measured.time, situation.time + horizon
        while now < end - 1e-9:
            step = min(self._step, end - now)
            now += step
            i = bisect_right(effects, now - 0.5 * step) - 1
            target = command if now - 0.5 * step >= begin or i < 0 else situation.sent[i]
            steering = _towards(steering, target.steering, a.steering_rate * step)
            pedal = _towards(pedal, target.pedal, (a.throttle_rate if target.pedal > pedal else a.brake_rate) * step)
            reverse = target.reverse if pedal > 0.0 and target.pedal > 0.0 else reverse
            road = steering + (road - steering) * math.exp(-step / a.steering_lag) if a.steering_lag else steering
            after[:] = _inputs(road, pedal, reverse)
            if not (self._advance(1, step) and abs(x[self._vx]) < MAX_SPEED):
                break
            before[:] = after
            times.append(now)
            rows.append(x.copy())
            inputs.append(tuple(after.tolist()))
        return Plan(self.names, np.array(times), np.array(rows), np.array(inputs))


def _inputs(steering: float, pedal: float, reverse: bool) -> tuple[float, float, float]:
    throttle = max(pedal, 0.0)
    return steering, -throttle if reverse else throttle, max(-pedal, 0.0)


def _towards(value: float, target: float, step: float) -> float:
    return min(max(target, value - step), value + step)


def column(trajectory: Plan, name: str) -> np.ndarray:
    """Returns one state of a trajectory over time (n,)."""
    return np.asarray(trajectory.states[:, trajectory.names.index(name)])


def poses(trajectory: Plan, now: float, horizon: float, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns times from `now` on (n,) [s] until the trajectory or the horizon [s] ends, and the poses x, y [m], yaw [rad] (n, 3), linearly
    interpolated at most `spacing` [m] apart; none after the end of the trajectory."""
    t = trajectory.times
    end = min(float(t[-1]), now + horizon)
    if end < now or float(t[0]) > end:
        return np.zeros(0), np.zeros((0, 3))
    x, y, yaw = (column(trajectory, name) for name in ("x", "y", "yaw"))
    begin = max(now, float(t[0]))
    knots = np.concatenate([[begin], t[(t > begin) & (t < end)], [end]])
    at = np.column_stack([np.interp(knots, t, values) for values in (x, y, np.unwrap(yaw))])
    parts = np.clip(np.ceil(np.hypot(*np.diff(at[:, :2], axis=0).T) / spacing), 1, 200).astype(int)
    share = np.concatenate([np.arange(n) / n for n in parts] + [[0.0]])
    first = np.concatenate([np.repeat(np.arange(len(parts)), parts), [len(knots) - 1]])
    after = np.minimum(first + 1, len(knots) - 1)
    return (knots[first] + share * (knots[after] - knots[first]) - now,
            at[first] + share[:, None] * (at[after] - at[first]))
