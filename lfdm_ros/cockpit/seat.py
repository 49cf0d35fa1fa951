"""The driver's seat of the cockpit: one driver among several clients, a dead man's switch, and limits on the age of inputs.

Times are arguments, in seconds of one monotonic clock; no sockets or threads.
"""

from __future__ import annotations

import json
import math
from collections import deque
from dataclasses import dataclass, field

from lfdm_ros.bounds import MALFORMED, NOT_FINITE, OUT_OF_RANGE, STAMP, TOO_MANY, UNUSABLE, Refused
from lfdm_ros.parameters import Declared, Exposed, setting
from lfdm_ros.teleop.hands_on import BRAKE, SILENT, Command

MAX_INPUT = 400  # characters of an input
MAX_INPUT_RATE = 200  # inputs a second of one client, and as many requests
_CLOCK_DRIFT = 2e-4  # [1] maximum between the clocks of page and server
_KEYS = {"number", "time", "held", "steering", "throttle", "brake", "picture"}


@dataclass(frozen=True)
class SeatSettings(Declared):
    """Times and pedals of the seat. Raises InputError: a value is out of its range."""

    ABOUT = "cockpit: "

    input_timeout: float = setting(0.25, "s", "age of the last input from which the driver counts as absent", 0.05, 5.0, live=True)
    picture_timeout: float = setting(0.5, "s", "maximum age of the displayed state while driving", 0.1, 30.0, live=True)
    lease_timeout: float = setting(1.0, "s", "silence of the driver after which another client may take the seat", 0.1, 60.0, live=True)
    released: str = setting(SILENT, "", "output while nobody drives: the brake, or nothing, so that autonomy takes over",
                            choices=(BRAKE, SILENT))
    released_brake: float = setting(0.4, "1", "brake pedal then", 0.0, 1.0, live=True)


SEAT = Exposed(SeatSettings)


@dataclass(frozen=True)
class Intent:
    """An input of a page. number: rising. time: of the page's clock [s]. picture: number of the newest state that the page has drawn."""

    number: int
    time: float
    held: bool
    steering: float
    throttle: float
    brake: float
    picture: int

    @classmethod
    def parse(cls, text: str | bytes) -> Intent:
        """Reads an input from JSON. Raises Refused: too long, malformed, not finite or out of range."""
        if len(text) > MAX_INPUT:
            raise Refused(f"an input of {len(text)} characters; at most {MAX_INPUT}", TOO_MANY)
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            raise Refused("an input that is not JSON", MALFORMED) from None
        if not isinstance(data, dict) or set(data) != _KEYS:
            raise Refused(f"an input has the keys {', '.join(sorted(_KEYS))}", MALFORMED)
        if not all(type(data[key]) is int for key in ("number", "picture")) or type(data["held"]) is not bool:
            raise Refused("number and picture of an input are whole numbers, held is true or false", MALFORMED)
        values = {key: data[key] for key in ("time", "steering", "throttle", "brake")}
        for key, value in values.items():
            if type(value) not in (int, float):
                raise Refused(f"{key} of an input is a number", MALFORMED)
            if not abs(value) < 1e300:  # false for NaN; a whole number of JSON may be larger than any float
                raise Refused(f"{key} is not finite", NOT_FINITE)
        for key, lower in (("steering", -1.0), ("throttle", -1.0), ("brake", 0.0)):
            if not lower <= values[key] <= 1.0:
                raise Refused(f"{key} is {values[key]:g}; from {lower:g} to 1", OUT_OF_RANGE)
        return cls(data["number"], float(data["time"]), data["held"], float(data["steering"]), float(data["throttle"]),
                   float(data["brake"]), data["picture"])

    @property
    def at_rest(self) -> bool:
        """True with switch and both pedals released."""
        return not self.held and self.throttle == 0.0 and self.brake == 0.0


class PageRate:
    """Limit on the messages of a page."""

    def __init__(self) -> None:
        self._arrivals: deque[float] = deque()

    def check(self, time: float) -> None:
        """Counts a message at a time [s]. Raises Refused: more than MAX_INPUT_RATE in the last second."""
        while self._arrivals and time - self._arrivals[0] > 1.0:
            self._arrivals.popleft()
        if len(self._arrivals) >= MAX_INPUT_RATE:
            raise Refused(f"more than {MAX_INPUT_RATE} messages a second", TOO_MANY)
        self._arrivals.append(time)


@dataclass
class _Client:
    name: str
    intent: Intent | None = None
    received_at: float = -math.inf
    armed: bool = False  # at rest since the last loss: may drive
    delay_offset: float = math.inf  # minimum clock difference so far [s], that of an input without delay
    rate: PageRate = field(default_factory=PageRate)


class Seat:
    """Decides which client drives, and its command.

    A client drives while it holds its switch, after having been at rest. It stops driving when it releases the switch, leaves, falls
    silent, sends late or outdated inputs, or shows an old picture; after all but the first it must come to rest before it drives again.

    Attributes:
        driver: client that has the seat, also after release until another one takes it. None: free.
        reason: one line why nobody drives; empty while somebody does.
        stopped: latched by `stop`: full brake regardless of inputs.
    """

    def __init__(self, settings: SeatSettings | None = None) -> None:
        self.settings = settings or SeatSettings()
        self.driver: int | None = None
        self.reason = "nobody has taken the seat"
        self.stopped = False
        self._clients: dict[int, _Client] = {}

    def enter(self, client: int, name: str) -> None:
        """Adds a client by its unique number."""
        self._clients[client] = _Client(name)

    def leave(self, client: int) -> None:
        """Removes a client; if it was the driver, the seat becomes free."""
        self._clients.pop(client, None)
        if client == self.driver:
            self.driver, self.reason = None, "the driver's page has closed"

    def name(self, client: int | None) -> str:
        """Returns a client's name; empty for None."""
        return self._clients[client].name if client in self._clients else ""

    def take(self, client: int, time: float, intent: Intent, picture_age: float) -> None:
        """Processes an input of a client, with the age [s] of its displayed picture. Raises Refused: old, late, too many, or of a second
        driver."""
        state = self._clients[client]
        self._check(state, time, intent)
        timed_out = time - state.received_at > self.settings.input_timeout
        state.intent, state.received_at = intent, time
        if picture_age > self.settings.picture_timeout:
            self._lose(client, f"the picture is {picture_age:.1f} s old, and at most {self.settings.picture_timeout:g} s count"
                       if math.isfinite(picture_age) else "no picture has arrived yet")
        elif intent.at_rest:
            state.armed = True
        elif timed_out:
            self._lose(client, "the input was interrupted; let go of everything first")
        if not intent.held:
            if client == self.driver and state.armed:
                self.reason = "let go"
            return
        if client != self.driver:
            if self._drives(self.driver, time) or self._waits_for(self.driver, time):
                state.armed = False
                raise Refused(f"{self.name(self.driver)} drives", UNUSABLE)
            if state.armed:
                self.driver = client
        if client == self.driver and state.armed:
            self.reason = ""

    def command(self, time: float) -> Command | None:
        """Returns the command at a time [s]; None: none, others drive."""
        if self.stopped:
            return 0.0, 0.0, 1.0
        state = self._holding(self.driver)
        if state is not None and state.intent is not None and self._drives(self.driver, time):
            return state.intent.steering, state.intent.throttle, state.intent.brake
        if state is not None and state.armed:
            self._lose(self.driver, f"no input of the driver for {time - state.received_at:.1f} s")
        return (0.0, 0.0, self.settings.released_brake) if self.settings.released == BRAKE else None

    def stop(self) -> None:
        """Brakes fully until `resume`; open to any client."""
        self.stopped = True

    def resume(self) -> None:
        """Ends a stop; all inputs must be released before anybody drives again."""
        self.stopped = False
        self.disarm()

    def disarm(self) -> None:
        """Requires every client to come to rest before it drives again."""
        for state in self._clients.values():
            state.armed = False
        self.reason = "let go of everything first"

    def drives(self, time: float) -> bool:
        """Checks that a client drives at a time [s]."""
        return not self.stopped and self._drives(self.driver, time)

    def _holding(self, client: int | None) -> _Client | None:
        """Returns a client whose last input, of any age, held its switch; None: it did not, or no such client."""
        state = self._clients.get(client) if client is not None else None
        return state if state is not None and state.intent is not None and state.intent.held else None

    def _drives(self, client: int | None, time: float) -> bool:
        state = self._holding(client)
        return state is not None and state.armed and time - state.received_at <= self.settings.input_timeout

    def _waits_for(self, client: int | None, time: float) -> bool:
        """Checks that a driver that holds its switch has been silent for less than lease_timeout."""
        state = self._holding(client)
        return state is not None and time - state.received_at <= self.settings.lease_timeout

    def _lose(self, client: int | None, reason: str) -> None:
        assert client is not None
        self._clients[client].armed = False
        if self.driver in (client, None):  # nobody drives: shown to clients that try
            self.reason = reason

    def _check(self, state: _Client, time: float, intent: Intent) -> None:
        """Raises Refused for an input that comes out of order, late, or too often."""
        state.rate.check(time)
        if state.intent is not None and intent.number <= state.intent.number:
            state.armed = False
            self.reason = "an input was out of order; let go of everything first"
            raise Refused(f"input {intent.number} after {state.intent.number}", STAMP)
        if state.intent is not None and math.isfinite(state.delay_offset):
            state.delay_offset += _CLOCK_DRIFT * (time - state.received_at)
        state.delay_offset = min(state.delay_offset, time - intent.time)
        late = time - intent.time - state.delay_offset
        if late > self.settings.input_timeout:
            state.armed = False
            if self.driver is not None and self._clients.get(self.driver) is state:
                self.reason = f"the input was {min(late, 99.0):.1f} s late; let go of everything first"
            raise Refused(f"an input that is {min(late, 99.0):.1f} s late", STAMP)
