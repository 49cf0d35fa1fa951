"""Common interface of the links between a bridge and the device at its other end."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lfdm_ros import plugins
from lfdm_ros.bounds import BOUNDS
from lfdm_ros.errors import InputError
from lfdm_ros.hil.e2e import INIT, E2EStateMachine
from lfdm_ros.parameters import Declared, Exposed, setting

# Signals of a vehicle, by the names of the models' outputs, and commands of a controller. Units: SI.
SIGNALS = ("x", "y", "yaw", "vx", "vy", "yaw_rate", "ax", "ay", "omega_fl", "omega_fr", "omega_rl", "omega_rr")
WHEEL_SPEEDS = SIGNALS[-4:]
COMMANDS = ("steering", "throttle", "brake")

# Names of the local end of a link.
VEHICLE, CONTROLLER = "vehicle", "controller"
SENT = {VEHICLE: SIGNALS, CONTROLLER: COMMANDS}
RECEIVED = {VEHICLE: COMMANDS, CONTROLLER: SIGNALS}

# Reasons for refusing a packet, besides those of end-to-end protection.
MALFORMED, LOST = "malformed", "lost"

MAX_FOREIGN = 100  # messages without a packet in one `receive` without timeout: a flood must not stop the loop


def unit_of(signal: str) -> str:
    return BOUNDS["omega" if signal.startswith("omega") else signal].unit


@dataclass(frozen=True, slots=True)
class Packet:
    """Signals or commands at a time.

    stamp_ns: simulated time of the signals; of a command, that of the answered signals, below 0: none. values: by name, NaN: not available.
    """

    stamp_ns: int
    values: Mapping[str, float]


# Effect of faults on a message on the wire: gets its signals and its bytes, which it may change; returns False for a lost message.
Tamper = Callable[[tuple[str, ...], bytearray], bool]


def untouched(names: tuple[str, ...], data: bytearray) -> bool:
    return True


@dataclass
class Wire:
    """Common state of links: faults of either direction, and counts. `sent`, `received`: packets; `refused`: messages by reason.

    `e2e`: state machine of the receiver, on links with end-to-end protection.
    """

    outwards: Tamper = untouched
    inwards: Tamper = untouched
    step: int = 1  # increment of alive counters and cycle numbers, different after a jump of the sender's clock
    sent: int = 0
    received: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    e2e: E2EStateMachine | None = None

    @property
    def trouble(self) -> str:
        """Reason for not using received messages; empty: no E2E error."""
        return self.e2e.trouble if self.e2e else ""

    def accept(self, now: float, error: str, sender: Hashable = None, age: float = 0.0) -> bool:
        """Decides on a checked message; counts refused ones. Arguments as of `E2EStateMachine.update`."""
        assert self.e2e is not None
        why = self.e2e.update(now, error, sender, age)
        if why and why != INIT:
            self.refused[why] += 1
        return not why


class Link(Protocol):
    """One end of a link. `send` and `receive` may be called from two threads, each from one.

    `register_link` adds a link of a test bench: a class constructed from (end, settings).
    """

    wire: Wire

    def open(self) -> None:
        """Opens the link. Raises InputError: the port, the bus or a package is missing; names the remedy."""

    def close(self) -> None:
        """Closes the link; safe to call twice."""

    def send(self, packet: Packet) -> bool:
        """Sends the due part of a packet; returns True if the other end answers it."""

    def receive(self, timeout: float) -> Packet | None:
        """Returns the next complete packet within the timeout [s], or None; without a timeout it reads at most MAX_FOREIGN messages.

        Unreadable messages are counted and skipped.
        """


@dataclass(frozen=True)
class LinkSettings(Declared):
    """Settings of links."""

    ABOUT = "link: "

    period: float = setting(0.01, "s", "of the sending loop", 1e-4, 1.0)
    timeout: float = setting(0.2, "s", "maximum age of answered signals, and of the last message of a sender", 0.001, 1e6)
    dbc: str = setting("lfdm", "", "CAN: DBC file, or the name of one in config/can")
    can_interface: str = setting("udp_multicast", "", "CAN: interface of python-can: socketcan, udp_multicast, pcan, vector and more")
    can_channel: str = setting("239.74.163.2", "", "CAN: channel of that interface: can0, or the group of udp_multicast")
    can_port: int = setting(43113, "", "CAN: port of udp_multicast", 1, 65535)
    udp_host: str = setting("127.0.0.1", "", "UDP: local address to bind to")
    udp_port: int = setting(47001, "", "UDP: port that this end listens on", 1, 65535)
    udp_peer_host: str = setting("127.0.0.1", "", "UDP: address of the other end")
    udp_peer_port: int = setting(47002, "", "UDP: port that the other end listens on", 1, 65535)


LINK = Exposed(LinkSettings, without=("period", "timeout"))


Maker = Callable[[str, LinkSettings], Link]


@dataclass(frozen=True)
class LinkKind:
    """A kind of link: its name, and its constructor from (VEHICLE or CONTROLLER, settings)."""

    name: str
    make: Maker


def _udp(end: str, settings: LinkSettings) -> Link:
    from lfdm_ros.hil.udp import UdpLink

    return UdpLink(end, settings)


def _can(end: str, settings: LinkSettings) -> Link:
    from lfdm_ros.hil.can_bus import CanLink

    return CanLink(end, settings)


LINKS: plugins.Door[LinkKind] = plugins.Door("link", "lfdm_ros.links", LinkKind, "make", LinkKind("can", _can), LinkKind("udp", _udp))


def register_link(kind: LinkKind) -> None:
    """Registers a kind of link. Raises InputError as `Door.register`, and for the reserved name ros."""
    if kind.name == "ros":
        raise InputError("link 'ros' is registered already; choose another name")
    LINKS.register(kind)


def make_link(kind: str, end: str, settings: LinkSettings) -> Link:
    """Makes one end of a link, not yet open. Raises InputError: no such kind, or invalid settings."""
    return LINKS.find(kind).make(end, settings)
