"""Laps over ice that only the simulator knows, on the running graph."""

import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import domains
import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from grid_map_msgs.msg import GridMap
from rclpy.client import Client
from rclpy.serialization import deserialize_message
from std_srvs.srv import SetBool

from lfdm_ros.bags import open_bag, read_series
from lfdm_ros.control.routing.path import Path as Way
from lfdm_ros.control.routing.path import outside
from lfdm_ros.errors import InputError
from lfdm_ros.ground.ground_file import GroundDescription, load_ground
from lfdm_ros.ground.posterior import FrictionPosteriorMap
from lfdm_ros.msg import VehicleState
from lfdm_ros.ros import qos
from lfdm_ros.ros.grid_map import read_known
from lfdm_ros.ros.grounds import KNOWN
from lfdm_ros.ros.messages import ODOM_FRAME, nanoseconds
from lfdm_ros.sensors.state_gate import pose_jumped
from lfdm_ros.simulation import Scenario, load_scenario
from lfdm_ros.srv import Reset
from lfdm_ros.stacks.compose import run_stack
from lfdm_ros.stacks.inspection import ObserverNode
from lfdm_ros.vehicles import Footprint, load_vehicle

VEHICLE = "hmmwv"
_NEAR = 6.0  # [m] from the end of the path a lap is over
_LONGEST = 60.0  # [s] of a lap
_TOLD = 2.0  # [s] of the wall clock after which a map has come of what the learner has felt
_PATIENCE = 600.0  # [s] of the wall clock for it to feel a lap


@dataclass(frozen=True, eq=False)
class Lap:
    """x, y [m], speed [m/s], sideslip [rad] (n,); out: how far a corner of the vehicle was out of its lane at each [m]; entry: speed at the
    edge of what is more slippery than half of the ground's median [m/s], NaN: it did not come there; known: before it began."""

    x: np.ndarray
    y: np.ndarray
    speed: np.ndarray
    sideslip: np.ndarray
    out: np.ndarray
    entry: float
    known: FrictionPosteriorMap | None


class _Keeper(ObserverNode):
    """Puts the vehicle back at the end of each lap, once what it has felt there is known."""

    def __init__(self, scenario: Scenario, laps: int) -> None:
        assert scenario.path is not None
        self._end, self._left = np.asarray(scenario.path)[-1], laps
        super().__init__("lap_keeper")
        self.node.create_subscription(VehicleState, "vehicle/state", self._on_state, qos.NEWEST)
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, qos.STATUS)
        self._pause: Client = self.node.create_client(SetBool, "vehicle_simulator/pause")
        self._reset: Client = self.node.create_client(Reset, "vehicle_simulator/reset")
        self._state: VehicleState | None = None
        self._begun_ns: int | None = None
        self._learned_since: float | None = None  # by the wall clock
        self._asked: Any = None  # of a service: what has not been answered
        self._waits_since: float | None = None

    def _on_state(self, state: VehicleState) -> None:
        self._state = state

    def _on_diagnostics(self, array: DiagnosticArray) -> None:
        for status in array.status:
            if status.name == "ground_learner":
                behind = float(next((pair.value for pair in status.values if pair.key == "behind"), "0"))
                self._learned_since = None if behind > 0.0 else self._learned_since or time.monotonic()

    def look(self) -> bool:
        """Whether all laps are driven; asked again and again."""
        self.spin_some(20)
        if self._asked is not None and not self._asked.done():
            return False
        self._asked, state = None, self._state
        if state is None or not (self._pause.service_is_ready() and self._reset.service_is_ready()):
            return False
        now = nanoseconds(state.header.stamp)
        self._begun_ns = now if self._begun_ns is None else self._begun_ns
        if self._waits_since is None:
            there = bool(np.hypot(*(self._end - (state.x, state.y))) < _NEAR)
            if there or now - self._begun_ns > 1e9 * _LONGEST:
                self._asked, self._waits_since = self._pause.call_async(SetBool.Request(data=True)), time.monotonic()
                self._learned_since = None
            return False
        clock = time.monotonic()
        learned = self._learned_since is not None and clock - self._learned_since > _TOLD
        if not learned and clock - self._waits_since < _PATIENCE:
            return False
        self._left -= 1
        if not self._left:
            return True
        self._reset.call_async(Reset.Request())
        self._asked = self._pause.call_async(SetBool.Request(data=False))
        self._waits_since, self._begun_ns, self._state = None, None, None
        return False


def laps(count: int = 3, ground: str = "ice_in_the_bend", scenario: str = "curve", bag: Path | None = None, speed: float = 1.0,
         overrides: Mapping[str, Any] | None = None) -> list[Lap]:
    """Runs the stack `autonomy` with the ground under the simulator alone.

    Args:
        bag: to be recorded; None: one that is not kept.
        speed: simulated seconds a second, 0: as fast as possible.
        overrides: for the stack, besides.

    Raises:
        InputError, RunError, Interrupted: as `run_stack`.
    """
    course = load_scenario(scenario)
    if course.path is None:
        raise InputError(f"scenario {scenario} has no path to drive again")
    with tempfile.TemporaryDirectory() as folder:
        keeper, kept = _Keeper(course, count), bag or Path(folder) / "laps"
        try:
            longest = count * (_LONGEST + _PATIENCE)
            run_stack("autonomy", speed=speed, record=kept, quiet=True, until=keeper.look, timeout=longest, overrides={
                "scenario": scenario, "ground": ground, "learn_ground": True, "vehicle": VEHICLE, "vehicle_simulator.model": "eighteen_dof",
                "vehicle_simulator.tyre": "", **(overrides or {})})
        finally:
            keeper.close()
        return read(kept, course, load_ground(ground))


def read(bag: Path, course: Scenario, ground: GroundDescription) -> list[Lap]:
    """The laps of a recording."""
    names = ["x", "y", "yaw", "vx", "vy"]
    series = read_series(bag, "vehicle/state", names)
    times, rows = series.time, series.values
    states = [(round(1e9 * t), dict(zip(names, row))) for t, row in zip(times, rows)]
    begins = [0, *(i for i in range(1, len(states)) if pose_jumped(states[i - 1], states[i])), len(states)]
    maps = []
    with open_bag(bag) as opened:
        told = KNOWN in [connection.topic.lstrip("/") for connection in opened.connections]
        for _, stamp_ns, cdr in opened.raw(opened.select(KNOWN)) if told else ():
            maps.append((1e-9 * stamp_ns, read_known(deserialize_message(bytes(cdr), GridMap), ODOM_FRAME)))
    found, body = [], load_vehicle(VEHICLE).footprint
    for first, end in pairwise(begins):
        before = [known for time_, known in maps if time_ <= times[first] + 0.05]
        found.append(_lap(rows[first:end], course, ground, body, before[-1] if before else None))
    return found


def _lap(rows: np.ndarray, course: Scenario, ground: GroundDescription, body: Footprint, known: FrictionPosteriorMap | None) -> Lap:
    x, y, yaw, vx, vy = rows.T
    assert course.path is not None
    way, along, out = Way(course.path), 0.0, np.zeros(len(x))
    for i, pose in enumerate(zip(x, y, yaw)):
        along = float(way.project(x[i:i + 1], y[i:i + 1], np.array([along]))[0][0])
        out[i] = max(outside(course.corridor, way, along, *pose, body))
    friction = ground.field.friction_at(x, y)
    slippery = np.flatnonzero(friction < 0.5 * np.median(ground.field.link.friction(ground.field.latent)))
    entry = float(vx[slippery[0]]) if len(slippery) else np.nan
    return Lap(x, y, np.hypot(vx, vy), np.abs(np.arctan2(vy, np.maximum(vx, 1.0))), out, entry, known)


@pytest.mark.usefixtures("compiled")
def test_the_second_lap_is_slower_onto_the_ice_and_stays_in_the_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole graph in lockstep: nobody but the simulator was told of the ice."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(domains.other()))
    first, second = laps(2, bag=tmp_path / "laps", speed=0.0, overrides={
        "stepping": "lockstep", "ground_learner.priority": "normal", "scan_patience": 60.0})
    assert second.entry < first.entry - 0.1 and second.sideslip.max() < first.sideslip.max()
    assert second.out.max() <= min(first.out.max(), 0.1)
    assert second.known is not None and second.known.median.friction_at(98.8, 12.0) < 0.4
    assert os.listdir(tmp_path / "laps")
