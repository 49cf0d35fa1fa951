"""Whether a simulated vehicle has driven as its commands say: the recorded commands are not what it got where they did not act."""

from __future__ import annotations

from contextlib import suppress

from lfdm_ros.bags.reader import Bag
from lfdm_ros.errors import InputError

_STATUS = "lfdm_ros/msg/SimulatorStatus"


def not_driven(bag: Bag) -> str:
    """What the last status of a recorded simulator says of that, see SimulatorStatus.msg; empty: it drove, or there is none."""
    connections = [connection for connection in bag.connections if connection.msgtype == _STATUS]
    last = {connection.topic: cdr for connection, _, cdr in (bag.raw(connections) if connections else ())}
    for cdr in last.values():
        with suppress(InputError):  # one that does not fit its type says nothing
            if why := getattr(bag.decode(cdr, _STATUS), "not_driven", ""):  # bags of former versions lack it
                return str(why)
    return ""
