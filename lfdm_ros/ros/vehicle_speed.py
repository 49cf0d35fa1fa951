"""How fast the vehicle is, for who wants to know it now and then."""

from __future__ import annotations

import math
import time

from rclpy.serialization import deserialize_message

from lfdm_ros.bounds import Refusals, require_all
from lfdm_ros.errors import InputError
from lfdm_ros.msg import VehicleState

FRESH = 1.0  # [s] for which a vehicle/state says how fast the vehicle is


class VehicleSpeed:
    """Keeps the last vehicle/state as bytes: most of the time nobody asks for the speed."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._received: tuple[float, bytes] | None = None

    def receive(self, state: bytes) -> None:
        """Takes a message as it came."""
        self._received = time.monotonic(), state

    def now(self) -> float | None:
        """[m/s]; None: not known."""
        received = self._received
        if received is None or time.monotonic() - received[0] > FRESH:
            return None
        state = deserialize_message(received[1], VehicleState)
        try:
            require_all({"vx": state.vx, "vy": state.vy}, ("vx",))
        except InputError as error:
            self._refusals.refuse("state", error)
            return None
        return math.hypot(state.vx, state.vy if math.isfinite(state.vy) else 0.0)
