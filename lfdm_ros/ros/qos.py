"""The quality-of-service profiles of the graph, by purpose. All but SENSOR is reliable: a lost command or state is an error, not noise."""

from collections.abc import Sequence

from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.topic_endpoint_info import TopicEndpointInfo


def reliable(depth: int, durability: DurabilityPolicy = DurabilityPolicy.VOLATILE) -> QoSProfile:
    """Returns the profile that keeps `depth` messages until they are acknowledged."""
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth, reliability=ReliabilityPolicy.RELIABLE,
                      durability=durability)


# States of the vehicle and commands of its driver, each publishing tick. Deep, so that a recorder in another process that
# falls behind for seconds at 50 times real time loses nothing: a reliable writer stores a sample until it is acknowledged or
# replaced by `depth` newer ones. The history grows only as needed.
STATE = reliable(10_000)
COMMAND = reliable(10_000)
# For subscribers to states and commands outside lockstep: the newest counts. A busy machine would process a queue of old ones, always late.
NEWEST = reliable(1)
# A goal or a path: the newest counts.
TASK = reliable(1)
# For subscribers to drivers of real sensors, mostly best effort; compatible with reliable ones.
SENSOR = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
# Time: the newest counts.
CLOCK = reliable(1)
# Status and diagnostics, once or twice a second.
STATUS = reliable(10)
# Topics of tf2: transforms of many publishers.
TRANSFORMS = reliable(100)
# Latched for late subscribers: posterior, static data.
LATCHED = reliable(1, DurabilityPolicy.TRANSIENT_LOCAL)
# For subscribers to logs, including earlier ones.
LOG = reliable(100, DurabilityPolicy.TRANSIENT_LOCAL)


def matching(ends: Sequence[TopicEndpointInfo], depth: int) -> QoSProfile:
    """Returns the profile compatible with all publishers: no stricter than each of them offers."""
    reliable = all(end.qos_profile.reliability == ReliabilityPolicy.RELIABLE for end in ends)
    latched = all(end.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL for end in ends)
    return QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=depth,
                      reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
                      durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE)


def name_of(profile: QoSProfile | None) -> str:
    """Returns the name of a profile of this module; "" for others."""
    return next((name for name, own in globals().items() if own is profile is not None), "")
