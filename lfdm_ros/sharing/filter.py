"""Mode `filter`: the operator's command, changed as little as obstacles, friction, loads and corridor ask. He has the last word until then.

A command is admitted if there is a way out after it: it is held for a moment, and then the vehicle can be stopped, straight or to one side,
without touching what is seen, without sliding or lifting a wheel, within the corridor (the idea of a predictive safety filter: Wabersich &
Zeilinger 2021; of steering envelopes shared with a driver: Erlien, Fujita & Gerdes 2016). Of a grid of commands around the operator's the
nearest that is admitted goes out; every one that is considered has been driven on the model that predicts, in one batch, with the vehicle's
actuators, and measured with its outline.

Why a search, not the planner's quadratic program with the operator's command as its target: that is linearised about autonomy's plan, and
so would push the operator to autonomy's side of each obstacle; it needs a second solver state; and its answer holds to first order only.
The command has two numbers: a grid covers both sides, ends in bounded time and says by itself that nothing is left.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from lfdm_ros.control.safety.braking import FASTEST
from lfdm_ros.control.safety.stops import outline_distance, peak_of
from lfdm_ros.sharing.demand import LEAST_ANGLE, SLOW, sliding_angle
from lfdm_ros.sharing.forecast import Forecast
from lfdm_ros.sharing.load_transfer import Loads
from lfdm_ros.sharing.settings import SharingSettings
from lfdm_ros.sharing.situation import Command, Situation
from lfdm_ros.simulation import BatchRollout
from lfdm_ros.vehicles import Vehicle

SAMPLE, HORIZON = 0.1, 3.2  # [s]
STEP = 0.05  # [s] of the model
HELD = 0.3  # [s] for which a command is, before the way out of it begins
# Of the steering, shares of what is allowed.
TURNS = (0.0, 0.08, -0.08, 0.17, -0.17, 0.28, -0.28, 0.42, -0.42, 0.6, -0.6, 0.8, -0.8, 1.0, -1.0)
PEDALS = (0.0, 0.35, 0.7, 1.0)  # towards the brake of a stop
WAYS = (0.0, 0.5, -0.5, 1.0, -1.0)  # of the steering while stopping, shares of what is allowed
DEAR = 0.5  # of a change of the pedals, in changes of the steering
KEEP = 0.15  # of a change from what was sent before, in changes from what the operator asks: two that are equally far do not take turns
WITHIN = 0.98  # load-transfer ratio up to which no wheel lifts
CHANNELS = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay")


@dataclass(frozen=True)
class Filtered:
    """What was asked, and what goes out for it. change: the larger of those of steering and pedal, 0: none; admitted: False where nothing
    was, and the brake goes out, with the steering that breaks the least."""

    requested: Command
    command: Command
    admitted: bool
    reason: str

    @property
    def change(self) -> float:
        return min(max(abs(self.command.steering - self.requested.steering), abs(self.command.pedal - self.requested.pedal)), 1.0)

    def over(self, operator: Command, now: float) -> Command:
        """The same change of a newer command of the operator's."""
        if self.command is self.requested or operator.reverse:
            return dataclasses.replace(operator, time=now)
        steering = min(max(operator.steering + self.command.steering - self.requested.steering, -1.0), 1.0)
        pedal = min(max(operator.pedal + self.command.pedal - self.requested.pedal, -1.0), 1.0)
        return Command.of_pedal(now, steering, pedal)


class Filter:
    """Filters for one vehicle. Keeps what it sent last."""

    def __init__(self, vehicle: Vehicle, settings: SharingSettings) -> None:
        """Compiles the batch, or loads it. Raises InputError if the vehicle lacks parameters."""
        self.settings = settings
        self.take(vehicle)
        self.reset()

    def take(self, vehicle: Vehicle) -> None:
        """Another vehicle's parameters. Raises InputError if it lacks some; then nothing has changed."""
        times = np.arange(0.0, HORIZON + 1e-9, SAMPLE)
        model = vehicle.model(self.settings.forecast_model)
        batch = BatchRollout(model=model.name, vehicle=vehicle, dt=STEP, times=times, inputs=np.zeros((len(times), 3)), parameters=(),
                             channels=CHANNELS)
        p = vehicle.parameters
        self._front, self._lock, self._peak = p["cg_to_front_axle"], p["max_road_wheel_angle"], peak_of(model, vehicle)
        self._batch, self._times, self._vehicle = batch, times, vehicle
        self._forecast = Forecast(vehicle, self.settings.forecast_model)
        try:
            self._loads: Loads | None = Loads(vehicle)
        except KeyError:
            self._loads = None

    def reset(self) -> None:
        """Nothing was sent."""
        self._last: tuple[float, float] | None = None

    def least_change(self, situation: Situation, allowed: float) -> Filtered:
        """The command nearest to the operator's that has a way out; there is one of his.

        Args:
            allowed: largest steering, as share of full lock: as the gate behind has it.
        """
        asked = situation.operator
        assert asked is not None
        now = self._now(situation)
        u = (min(max(asked.steering, -allowed), allowed), asked.pedal)
        if asked.reverse or now[3] < SLOW:  # what is about to move off or to back has time
            return Filtered(asked, asked, True, "")
        if self._violations(situation, now, np.array([u]), allowed)[0] <= 0.0:
            self._last = u
            return Filtered(asked, asked, True, "")
        stop = -self.settings.stop_brake
        grid = np.array([(min(max(u[0] + turn * allowed, -allowed), allowed), u[1] + part * (min(stop, u[1]) - u[1]))
                         for part in PEDALS for turn in TURNS])
        if situation.autonomy is not None and not situation.autonomy.reverse:
            grid = np.vstack([grid, (situation.autonomy.steering, situation.autonomy.pedal)])
        grid = np.unique(np.round(grid, 9), axis=0)
        far = _cost(grid, np.array(u)) + (KEEP * _cost(grid, np.array(self._last)) if self._last is not None else 0.0)
        grid = grid[np.argsort(far, kind="stable")]
        bad = self._violations(situation, now, grid, allowed)
        admitted = np.flatnonzero(bad <= 0.0)
        # Where nothing is left, it is hit at the least speed.
        best = int(admitted[0]) if len(admitted) else int(np.argmin(np.where(grid[:, 1] <= grid[:, 1].min() + 1e-9, bad, math.inf)))
        steering, pedal = grid[best].tolist()
        self._last = (steering, pedal)
        said = (f"steering {steering - asked.steering:+.2f}, pedal {pedal - asked.pedal:+.2f}: the nearest command with a way out"
                if len(admitted) else "no command has a way out: braking")
        return Filtered(asked, Command.of_pedal(situation.time, steering, pedal), bool(len(admitted)), said)

    # -- What a command leads to ---------------------------------------------------------------------------------------------

    def _now(self, situation: Situation) -> np.ndarray:
        """The state (8,) when a command of now begins to act."""
        a = situation.vehicle.actuators
        held = self._forecast.held(situation, situation.applied, a.delay)
        self._start, self._road = held.states[-1], float(held.inputs[-1, 0])
        return held.states[-1][[held.names.index(name) for name in CHANNELS]]

    def _violations(self, situation: Situation, now: np.ndarray, commands: np.ndarray, allowed: float) -> np.ndarray:
        """By how much each of the commands (n, 2), steering and pedal, breaks what is to be kept on the best way out (n,); 0 or less: it
        keeps all."""
        n = len(commands)
        table = self._inputs(situation, np.repeat(commands, len(WAYS), axis=0), np.tile(np.array(WAYS) * allowed, n))
        runs = self._batch.trajectories(np.zeros((len(table), 0)), self._start, table)
        x, y, yaw, vx, vy, yaw_rate, ax, ay = np.moveaxis(np.where(np.isfinite(runs), runs, FASTEST), -1, 0)
        bad = np.maximum(self._touches(situation, x, y, yaw), self._leaves(situation, x, y, yaw))
        slip = np.abs(table[:, :, 0] * self._lock - np.arctan2(vy + self._front * yaw_rate, np.maximum(vx, SLOW)))
        rear = np.abs(np.arctan2(vy - (self._vehicle.parameters["cg_to_rear_axle"]) * yaw_rate, np.maximum(vx, SLOW)))
        moving = vx > SLOW
        held = np.broadcast_to(self._peak(x.ravel(), y.ravel(), yaw.ravel()), x.size).reshape(x.shape)
        slides = np.maximum(sliding_angle(self._vehicle.parameters, held), LEAST_ANGLE)
        slide = np.where(moving, np.maximum(slip, rear) / slides - self.settings.grip_use, -1.0)
        bad = np.maximum(bad, slide[:, 1:].max(axis=1) - max(slide[:, 0].max(), 0.0))  # who slides already may slide as much
        if self._loads is not None:
            bad = np.maximum(bad, (self._loads.ratio(ay, ax) - WITHIN)[:, 1:].max(axis=1))
        return np.asarray(bad.reshape(n, len(WAYS)).min(axis=1))

    def _inputs(self, situation: Situation, commands: np.ndarray, ways: np.ndarray) -> np.ndarray:
        """What reaches the wheels (n, K, 3) of commands (n, 2) that are held and then stop with the steering `ways` (n,)."""
        a, s = situation.vehicle.actuators, self.settings
        table = np.zeros((len(commands), len(self._times), 3))
        steering, pedal = np.full(len(commands), situation.applied.steering), np.full(len(commands), situation.applied.pedal)
        road = np.full(len(commands), self._road)
        stop = np.minimum(commands[:, 1], -s.stop_brake)
        up, down = min(s.throttle_rate, a.throttle_rate), min(s.brake_rate, a.brake_rate)
        lag = math.exp(-SAMPLE / a.steering_lag) if a.steering_lag else 0.0
        for i, time in enumerate(self._times):
            if i:
                aim, press = (commands[:, 0], commands[:, 1]) if time <= HELD + 1e-9 else (ways, stop)
                steering = np.clip(aim, steering - a.steering_rate * SAMPLE, steering + a.steering_rate * SAMPLE)
                pedal = np.clip(press, pedal - down * SAMPLE, pedal + up * SAMPLE)
                road = steering + (road - steering) * lag
            table[:, i] = np.column_stack([road, np.maximum(pedal, 0.0), np.maximum(-pedal, 0.0)])
        return table

    def _touches(self, situation: Situation, x: np.ndarray, y: np.ndarray, yaw: np.ndarray) -> np.ndarray:
        """By how much the runs (n, K) come nearer to an obstacle than the margin (n,) [m]; what is nearer already may stay as near."""
        outline, margin, seen = self._vehicle.footprint, self.settings.filter_margin, situation.obstacles
        worst = np.full(len(x), -math.inf)
        begin = situation.time + situation.vehicle.actuators.delay
        reach = float(np.hypot(x - x[:, :1], y - y[:, :1]).max()) + outline.front + outline.rear + margin
        ends = seen.at(begin)
        away = np.hypot(ends.centres[:, 0] - x[0, 0], ends.centres[:, 1] - y[0, 0]) - ends.radii
        near = ends.where((away < reach) | ends.moving) if len(ends.radii) else ends
        for centre, radius, velocity in zip(near.centres, near.radii, near.velocities):
            dx, dy = (centre[k] + velocity[k] * self._times - place for k, place in ((0, x), (1, y)))
            gap = outline_distance(outline, dx, dy, yaw) - radius
            need = min(margin, max(float(gap[0, 0]) - 0.02, 0.0) if gap[0, 0] > 0.0 else float(gap[0, 0]) - 0.02)
            worst = np.maximum(worst, need - gap.min(axis=1))
        return worst

    def _leaves(self, situation: Situation, x: np.ndarray, y: np.ndarray, yaw: np.ndarray) -> np.ndarray:
        """By how much the runs leave the corridor (n,) [m], more than the vehicle is out of it already."""
        corridor, outline = situation.corridor, self._vehicle.footprint
        if corridor is None:
            return np.full(len(x), -math.inf)
        out = np.full(x.shape, -math.inf)
        for ahead in (outline.front, -outline.rear):
            s, e = corridor.path.project((x + ahead * np.cos(yaw)).ravel(), (y + ahead * np.sin(yaw)).ravel())
            left, right = (room.reshape(x.shape) for room in corridor.room_at(s))
            e = e.reshape(x.shape)
            out = np.maximum(out, np.maximum(e + outline.half_width - left, outline.half_width - right - e))
        return np.asarray(out.max(axis=1) - max(float(out[0, 0]), 0.0))


def _cost(commands: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How far commands (n, 2) are from one (2,)."""
    return np.asarray(np.hypot(commands[:, 0] - wanted[0], DEAR * (commands[:, 1] - wanted[1])))
