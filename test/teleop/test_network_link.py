"""The link against what its settings promise: nothing early, nothing lost without being counted, the same for a seed."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lfdm_ros.errors import InputError
from lfdm_ros.teleop.network_link import EXPONENTIAL, LOG_NORMAL, UNIFORM, NetworkLink, NetworkLinkSettings

SETTINGS = st.builds(
    NetworkLinkSettings, delay=st.floats(0.0, 2.0), jitter=st.floats(0.0, 1.0),
    jitter_distribution=st.sampled_from([UNIFORM, EXPONENTIAL, LOG_NORMAL]), drop=st.floats(0.0, 1.0),
    burst_share=st.floats(0.0, 0.5), burst_length=st.floats(1.0, 50.0), burst_drop=st.floats(0.0, 1.0),
    overtaking=st.booleans(), rate=st.sampled_from([0.0, 5.0, 50.0, 500.0]), waiting=st.integers(0, 5))
# Steps of time, and whether an item is sent at its end.
STEPS = st.lists(st.tuples(st.floats(0.0, 0.3), st.booleans()), max_size=60)


def run(settings, seed, steps):
    """(what arrived, as (item, sent, arrived, received at); the link) of items that are their own numbers."""
    link, now, found = NetworkLink(settings, seed), 0.0, []
    for k, (step, sends) in enumerate(steps):
        now += step
        if sends:
            link.send(now, k)
        found += [(a.item, a.sent, a.arrived, now) for a in link.receive(now)]
        assert link.sent == link.arrived + link.dropped + link.under_way
    return found, link


@given(SETTINGS, st.integers(0, 2**62), STEPS)
def test_nothing_comes_early_twice_or_unaccounted_for(settings, seed, steps):
    found, link = run(settings, seed, steps)
    for _, sent, arrived, received in found:
        assert sent + settings.delay - 1e-9 <= arrived <= received + 1e-9
    assert len({item for item, *_ in found}) == len(found) == link.arrived
    assert link.sent == sum(sends for _, sends in steps)
    if not settings.overtaking:
        assert [item for item, *_ in found] == sorted(item for item, *_ in found)
    arrivals = [arrived for *_, arrived, _ in found]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(arrivals)) or settings.overtaking
    rest = link.receive(1e6)
    assert link.under_way == 0 and link.sent == link.arrived + link.dropped and len(rest) + len(found) == link.arrived


@given(SETTINGS, st.integers(0, 2**62), STEPS)
def test_a_seed_repeats_and_so_does_a_reset(settings, seed, steps):
    found, link = run(settings, seed, steps)
    assert run(settings, seed, steps)[0] == found
    link.reset()
    assert (link.sent, link.arrived, link.dropped, link.under_way) == (0, 0, 0, 0)
    now, again = 0.0, []
    for k, (step, sends) in enumerate(steps):
        now += step
        if sends:
            link.send(now, k)
        again += [(a.item, a.sent, a.arrived, now) for a in link.receive(now)]
    assert again == found


@given(SETTINGS, st.integers(0, 2**62), STEPS, st.floats(0.0, 1.0))
def test_links_that_differ_in_delay_lose_the_same_items(settings, seed, steps, more):
    slower = NetworkLinkSettings(**{**vars(settings), "delay": settings.delay + more})
    one, other = (run(s, seed, steps)[1] for s in (settings, slower))
    assert one.dropped == other.dropped


def sent_at(settings, rate, count, seed=3):
    link = NetworkLink(settings, seed)
    kept = [link.send(k / rate, k) for k in range(count)]
    return link, np.array(kept)


@pytest.mark.parametrize("distribution, sd", [(UNIFORM, 1.0 / math.sqrt(3.0)), (EXPONENTIAL, 1.0), (LOG_NORMAL, 1.0)])
def test_jitter_has_its_mean_and_spread(distribution, sd):
    link, _ = sent_at(NetworkLinkSettings(delay=0.1, jitter=0.05, jitter_distribution=distribution, overtaking=True), 100.0, 20_000)
    extra = np.array([a.arrived - a.sent for a in link.receive(1e6)]) - 0.1
    assert extra.mean() == pytest.approx(0.05, rel=0.03) and extra.std() == pytest.approx(0.05 * sd, rel=0.15) and extra.min() >= -1e-9


def test_bursts_have_their_share_and_length_and_single_drops_theirs():
    _, kept = sent_at(NetworkLinkSettings(burst_share=0.1, burst_length=25.0), 100.0, 100_000)
    lost = np.flatnonzero(np.diff(np.concatenate([[1], kept, [1]])))  # begins and ends of bursts
    lengths = lost[1::2] - lost[::2]
    assert 1.0 - kept.mean() == pytest.approx(0.1, rel=0.1) and lengths.mean() == pytest.approx(25.0, rel=0.1)
    _, kept = sent_at(NetworkLinkSettings(drop=0.2), 100.0, 50_000)
    assert 1.0 - kept.mean() == pytest.approx(0.2, rel=0.05)
    assert np.corrcoef(kept[:-1], kept[1:])[0, 1] == pytest.approx(0.0, abs=0.02)  # one loss does not bring the next


def test_a_limited_rate_lets_items_wait_and_then_loses_them():
    link = NetworkLink(NetworkLinkSettings(rate=10.0, waiting=2))
    assert [link.send(0.0, k) for k in range(5)] == [True, True, True, False, False]
    assert [(a.item, pytest.approx(a.arrived)) for a in link.receive(1.0)] == [(0, 0.0), (1, 0.1), (2, 0.2)]
    assert link.send(1.0, 9) and link.receive(1.0)[0].item == 9


def test_statistics_tell_of_the_newest_and_of_silence():
    link = NetworkLink(NetworkLinkSettings(delay=0.2))
    empty = link.statistics(0.0)
    assert math.isnan(empty.latency) and math.isnan(empty.age) and math.isnan(empty.latency_p99)
    for k in range(10):
        link.send(0.1 * k, k)
    link.receive(0.95)
    seen = link.statistics(0.95)
    assert (seen.latency, seen.latency_p50, seen.latency_p99) == pytest.approx((0.2, 0.2, 0.2))
    assert (seen.sent, seen.arrived, seen.dropped, seen.under_way) == (10, 8, 0, 2)
    assert seen.age == pytest.approx(0.95 - 0.7)


@pytest.mark.parametrize("wrong, words", [
    ({"delay": -0.1}, "link: delay is -0.1 s; give 0 to 10 s"), ({"drop": 1.5}, "link: drop is 1.5"),
    ({"jitter_distribution": "normal"}, "choose one of: uniform, exponential, log_normal"),
    ({"burst_share": 0.9, "burst_length": 2.0}, "burst_length is 2 with a burst_share of 0.9; give at least 9")])
def test_settings_that_cannot_be_are_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        NetworkLinkSettings(**wrong)


def test_time_does_not_go_back():
    link = NetworkLink()
    link.send(1.0, "a")
    with pytest.raises(InputError, match="reset it to go back"):
        link.receive(0.5)
    link.reset()
    assert link.receive(0.5) == []
