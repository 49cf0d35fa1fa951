"""A seeded link with delay, jitter, drops, bursts and limited rate, for any item. Times are arguments of each call."""

import heapq
import math
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from scipy.special import ndtri

from lfdm_ros.errors import InputError
from lfdm_ros.parameters import Declared, Exposed, setting

T = TypeVar("T")

UNIFORM, EXPONENTIAL, LOG_NORMAL = "uniform", "exponential", "log_normal"
REMEMBERED = 1000  # latencies in the percentiles
_SAME = 1e-9  # [s] tolerance of times
_MIN_CHANCE = 1e-16  # keeps logarithms finite


@dataclass(frozen=True)
class NetworkLinkSettings(Declared):
    """One direction of a link.

    Losses: each item by itself with chance `drop`; and in bursts, by a chain of two states that moves with each item (Gilbert 1960,
    Capacity of a burst-noise channel; Elliott 1963): in the bad state an item is lost with chance `burst_drop`. Raises InputError: a value
    is out of its range, or bursts so long and frequent that none ends.
    """

    ABOUT = "link: "

    delay: float = setting(0.0, "s", "minimum latency", 0.0, 10.0, live=True)
    jitter: float = setting(0.0, "s", "mean of the random additional latency", 0.0, 10.0, live=True)
    jitter_distribution: str = setting(EXPONENTIAL, "", "its distribution: uniform from 0, exponential, or log-normal with standard "
                                                        "deviation equal to the mean", choices=(UNIFORM, EXPONENTIAL, LOG_NORMAL))
    drop: float = setting(0.0, "1", "probability of an independent loss", 0.0, 1.0, live=True)
    burst_share: float = setting(0.0, "1", "share of the items sent in the bad state", 0.0, 0.95)
    burst_length: float = setting(20.0, "1", "mean number of consecutive items in the bad state", 1.0, 1e6)
    burst_drop: float = setting(1.0, "1", "probability of a loss in the bad state", 0.0, 1.0)
    overtaking: bool = setting(False, "", "items may arrive out of order; else later ones wait")
    rate: float = setting(0.0, "Hz", "maximum rate of items; others wait; 0: unlimited", 0.0, 1e6)
    waiting: int = setting(10, "1", "maximum queue length; further items are lost", 0, 100_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.burst_share > 0.0 and self.burst_share / (1.0 - self.burst_share) / self.burst_length > 1.0:
            minimum = self.burst_share / (1.0 - self.burst_share)
            raise InputError(f"link: burst_length is {self.burst_length:g} with a burst_share of {self.burst_share:g}; give at least "
                             f"{minimum:g}")


# Both directions alike, but for the delay.
LINK = Exposed(NetworkLinkSettings, "link_", without=("delay",))


@dataclass(frozen=True)
class Arrival(Generic[T]):
    """An item with its times of entry and exit [s]."""

    item: T
    sent: float
    arrived: float


@dataclass(frozen=True)
class LinkStatistics:
    """Latencies [s] of arrivals: of the newest, median and 99th percentile of the last 1000; age: since the newest arrival was sent [s];
    NaN: none yet. Numbers of items sent, arrived, dropped and under way; burst: the link is in its bad state."""

    latency: float
    latency_p50: float
    latency_p99: float
    age: float
    sent: int
    arrived: int
    dropped: int
    under_way: int
    burst: bool


class NetworkLink(Generic[T]):
    """One direction. Equal calls with equal seeds give equal results; an item's random numbers depend only on its index, so that settings
    are compared with common random numbers."""

    def __init__(self, settings: NetworkLinkSettings | None = None, seed: int = 1) -> None:
        """Raises InputError for a negative seed."""
        if not 0 <= seed < 2**63:
            raise InputError(f"link: seed is {seed}; give 0 to {2**63 - 1}")
        self.settings, self._seed = settings or NetworkLinkSettings(), seed
        self.reset()

    def reset(self) -> None:
        """Empties the link and restarts its random numbers."""
        self._random = np.random.default_rng(self._seed)
        self._in_transit: list[tuple[float, int, float, T]] = []  # due, number, sent, item
        self._departures: deque[float] = deque()  # of queued items
        self._leaves, self._due, self._now = -math.inf, -math.inf, -math.inf
        self._bad = False
        self._latencies: deque[float] = deque(maxlen=REMEMBERED)
        self._newest = math.nan  # send time of the newest arrival
        self.sent = self.arrived = self.dropped = 0

    def send(self, time: float, item: T) -> bool:
        """Sends an item at a time [s]; False: it is lost. Raises InputError where time decreases or is not finite."""
        self._advance(time)
        number, s = self.sent, self.settings
        self.sent += 1
        chance, lost, change, late = self._random.random(4).tolist()
        bad = self._bad_state(change)
        if chance < s.drop or (bad and lost < s.burst_drop) or (leaves := self._departure(time)) is None:
            self.dropped += 1
            return False
        due = leaves + s.delay + self._jitter(late)
        if not s.overtaking:
            self._due = due = max(due, self._due)
        heapq.heappush(self._in_transit, (due, number, time, item))
        return True

    def receive(self, time: float) -> list[Arrival[T]]:
        """Returns the items that have arrived by a time [s], in order. Raises InputError where time decreases or is not finite."""
        self._advance(time)
        found = []
        while self._in_transit and self._in_transit[0][0] <= time + _SAME:
            due, _, sent, item = heapq.heappop(self._in_transit)
            found.append(Arrival(item, sent, due))
            self._latencies.append(due - sent)
            if not sent <= self._newest:
                self._newest = sent
        self.arrived += len(found)
        return found

    @property
    def under_way(self) -> int:
        return len(self._in_transit)

    def statistics(self, time: float) -> LinkStatistics:
        """Returns the statistics of the link at a time [s]."""
        last, p50, p99 = (self._latencies[-1], *np.quantile(self._latencies, (0.5, 0.99)).tolist()) if self._latencies else [math.nan] * 3
        return LinkStatistics(last, p50, p99, time - self._newest, self.sent, self.arrived, self.dropped, self.under_way, self._bad)

    def _advance(self, time: float) -> None:
        if not math.isfinite(time) or time < self._now - _SAME:
            raise InputError(f"link: time is {time:g} s after {self._now:g} s; reset it to go back")
        self._now = max(time, self._now)

    def _bad_state(self, change: float) -> bool:
        """Draws the state for the next item: mean bad run `burst_length`, share `burst_share`."""
        s = self.settings
        if s.burst_share <= 0.0:
            self._bad = False
        elif not self.sent - 1:  # the first item: stationary distribution
            self._bad = change < s.burst_share
        elif self._bad:
            self._bad = change >= 1.0 / s.burst_length
        else:
            self._bad = change < s.burst_share / (1.0 - s.burst_share) / s.burst_length
        return self._bad

    def _departure(self, time: float) -> float | None:
        """Returns the time when the link accepts an item; None: the queue is full."""
        s = self.settings
        if not s.rate:
            return time
        while self._departures and self._departures[0] <= time + _SAME:
            self._departures.popleft()
        leaves = max(time, self._leaves + 1.0 / s.rate)
        if leaves > time + _SAME:
            if len(self._departures) >= s.waiting:
                return None
            self._departures.append(leaves)
        self._leaves = leaves
        return leaves

    def _jitter(self, late: float) -> float:
        """Returns the random latency [s] for a uniform number in [0, 1)."""
        s = self.settings
        if not s.jitter:
            return 0.0
        if s.jitter_distribution == UNIFORM:
            return 2.0 * s.jitter * late
        if s.jitter_distribution == EXPONENTIAL:
            return -s.jitter * math.log(max(1.0 - late, _MIN_CHANCE))
        spread = math.log(2.0)  # variance of the logarithm where sd and mean are equal
        return s.jitter * math.exp(math.sqrt(spread) * float(ndtri(min(max(late, _MIN_CHANCE), 1.0 - _MIN_CHANCE))) - 0.5 * spread)
