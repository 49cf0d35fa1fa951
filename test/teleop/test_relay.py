"""The relay as a node calls it: each state answered once, in simulated time, whatever the order in which messages come."""

import math

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.teleop.network_link import NetworkLinkSettings
from lfdm_ros.teleop.relay import COMMAND, IMAGE, SCAN, STATE, Out, Relay

MS = 1_000_000


def lockstep(up=0.0, down=0.0, seed=1, answers=lambda stamp: True, states=60, **settings):
    """Stamps of the answers' commands, by the states' stamps [ms], of an operator whose command is the stamp that it answers."""
    relay, found = Relay(NetworkLinkSettings(delay=up, **settings), NetworkLinkSettings(delay=down, **settings), seed, lockstep=True), {}
    for k in range(states):
        stamp = 10 * k * MS
        outs = relay.state(stamp, stamp, 0)
        while outs and outs[0].kind == STATE:
            outs = [answer for out in outs for answer in relay.command(out.message, out.message, 0)]
        assert len(outs) == 1 and outs[0].kind == COMMAND and outs[0].stamp_ns == stamp
        found[10 * k] = None if outs[0].message is None else outs[0].message // MS
    return found, relay


def test_without_delay_a_state_is_answered_by_the_operators_answer_to_it():
    found, relay = lockstep()
    assert all(answer == stamp for stamp, answer in found.items())
    assert relay.statistics(0)[0].arrived == relay.statistics(0)[1].arrived == 60


def test_delays_add_up_in_simulated_time_and_nothing_is_asked_before():
    found, _ = lockstep(up=0.05, down=0.03)
    assert all(answer is None for stamp, answer in found.items() if stamp < 80)
    assert all(answer == stamp - 80 for stamp, answer in found.items() if stamp >= 80)


def test_with_jitter_and_losses_every_state_has_an_answer_and_a_seed_repeats():
    one, relay = lockstep(0.02, 0.02, 5, states=300, jitter=0.03, drop=0.2, burst_share=0.1, burst_length=4.0)
    assert lockstep(0.02, 0.02, 5, states=300, jitter=0.03, drop=0.2, burst_share=0.1, burst_length=4.0)[0] == one
    assert lockstep(0.02, 0.02, 6, states=300, jitter=0.03, drop=0.2, burst_share=0.1, burst_length=4.0)[0] != one
    told = [answer for answer in one.values() if answer is not None]
    assert told == sorted(told) and relay.up.dropped > 40 and relay.statistics(0)[1].age >= 0.02


def test_a_state_published_again_is_passed_on_again_or_answered_again():
    relay = Relay(NetworkLinkSettings(), NetworkLinkSettings(), lockstep=True)
    first = relay.state(10 * MS, "a", 0)
    assert first == relay.state(10 * MS, "a", 0) == [Out(STATE, "a")] and "picture of 0.010 s" in relay.waits_for
    answer = relay.command(10 * MS, "go", 0)
    assert answer == [Out(COMMAND, "go", 10 * MS)] == relay.state(10 * MS, "a", 0) and relay.waits_for == ""
    assert relay.command(10 * MS, "again", 0) == [] and relay.refusals.counts[COMMAND] == 1
    assert relay.up.sent == relay.down.sent == 1


def test_pictures_that_come_together_go_out_one_by_one_and_never_backwards():
    relay = Relay(NetworkLinkSettings(delay=0.02, jitter=0.03), NetworkLinkSettings(), 5, lockstep=True)
    shown, together = [], 0
    for k in range(300):
        outs, pictures = relay.state(10 * k * MS, 10 * k * MS, 0), 0
        while outs[0].kind == STATE:
            shown += [outs[0].message, *(out.message for out in relay.state(10 * k * MS, 10 * k * MS, 0))]  # unanswered for too long
            outs, pictures = relay.command(outs[0].message, "go", 0), pictures + 1
        together = max(together, pictures)
    assert together > 2 and shown == sorted(shown) and len(shown) > 500 and relay.refusals.total == 0


def test_what_cannot_be_used_is_answered_but_does_not_travel():
    relay = Relay(NetworkLinkSettings(), NetworkLinkSettings(), lockstep=True)
    assert relay.state(0, None, 0) == [Out(COMMAND, None, 0, math.nan)] and relay.up.sent == 0
    relay.state(10 * MS, "a", 0)
    assert relay.command(10 * MS, None, 0) == [Out(COMMAND, None, 10 * MS, math.nan)] and relay.down.sent == 0


def test_scans_ride_with_their_state_and_a_state_waits_for_the_scan_that_is_due():
    relay = Relay(NetworkLinkSettings(delay=0.02), NetworkLinkSettings(), lockstep=True, lidar_rate=50.0)
    assert relay.state(0, "s0", 0) == [] and relay.waits_for_scan
    assert relay.scan(0, "scan0") == [Out(COMMAND, None, 0, math.nan)]
    assert relay.state(10 * MS, "s1", 0) == [Out(COMMAND, None, 10 * MS, math.nan)]
    assert relay.scan(20 * MS, "scan1") == []  # before its state
    assert relay.state(20 * MS, "s2", 0) == [Out(SCAN, "scan0"), Out(STATE, "s0")]
    assert relay.command(0, "c0", 0) == [Out(COMMAND, "c0", 20 * MS)]
    assert relay.state(40 * MS, "s3", 0) == [] and relay.waits_for == "the scan that is due"
    assert relay.give_up_on_scan()[-1].kind == STATE and not relay.waits_for_scan


def test_a_late_answer_to_the_picture_before_a_reset_does_not_answer_the_state_that_waits_for_its_scan():
    relay = Relay(NetworkLinkSettings(), NetworkLinkSettings(), lockstep=True, lidar_rate=50.0)
    relay.scan(0, "scan0")
    assert relay.state(0, "s0", 0) == [Out(SCAN, "scan0"), Out(STATE, "s0")]  # no answer yet, and the simulator is reset
    assert relay.state(20 * MS, "s2", 0) == [] and relay.waits_for_scan
    assert relay.command(0, "c0", 0) == [] and relay.state(20 * MS, "s2", 0) == []
    assert relay.scan(20 * MS, "scan2") == [Out(SCAN, "scan2"), Out(STATE, "s2")]
    (answer,) = relay.command(20 * MS, "c2", 0)
    assert answer == Out(COMMAND, "c2", 20 * MS) == relay.state(20 * MS, "s2", 0)[0]


def test_the_newest_image_rides_with_the_next_state_and_arrives_as_late():
    relay = Relay(NetworkLinkSettings(delay=0.1), NetworkLinkSettings())
    for stamp in (1, 2):
        relay.image(stamp * MS, f"image{stamp}")
    assert relay.state(3 * MS, "a", 3 * MS) == [] and relay.state(13 * MS, "b", 13 * MS) == []
    assert relay.poll(103 * MS) == [Out(IMAGE, "image2"), Out(STATE, "a")]
    assert relay.poll(113 * MS) == [Out(STATE, "b")]
    lossy = Relay(NetworkLinkSettings(rate=50.0, waiting=0), NetworkLinkSettings())
    lossy.state(0, "a", 1 * MS)
    lossy.image(MS, "image")
    assert lossy.state(2 * MS, "b", 2 * MS) == []  # lost: the link sends 50 a second
    assert lossy.state(40 * MS, "c", 40 * MS) == [Out(IMAGE, "image"), Out(STATE, "c")]


def test_an_answer_says_how_old_the_command_in_it_is():
    relay = Relay(NetworkLinkSettings(), NetworkLinkSettings(delay=0.02), lockstep=True)
    ages = []
    for k in range(6):
        relay.state(k * 10 * MS, k, 0)
        (out,) = relay.command(k * 10 * MS, k, 0)
        ages.append(out.age)
    assert np.isnan(ages[:2]).all() and ages[2:] == pytest.approx([0.02] * 4)


def test_a_scan_whose_picture_is_lost_comes_with_the_next():
    relay = Relay(NetworkLinkSettings(rate=50.0, waiting=0), NetworkLinkSettings())
    relay.scan(1, "scan")
    assert relay.state(1, "a", 1 * MS) == [Out(SCAN, "scan"), Out(STATE, "a")]
    relay.scan(2, "another")
    assert relay.state(2, "b", 2 * MS) == [] and relay.up.dropped == 1
    assert relay.state(3, "c", 30 * MS) == [Out(SCAN, "another"), Out(STATE, "c")]


def test_free_running_it_comes_when_it_is_due():
    relay = Relay(NetworkLinkSettings(delay=0.1), NetworkLinkSettings(delay=0.05))
    assert relay.state(1, "a", 1000 * MS) == [] and relay.poll(1099 * MS) == [] and relay.poll(0) == []
    assert relay.poll(1100 * MS) == [Out(STATE, "a")]
    assert relay.command(1, "c", 1100 * MS) == [] and relay.poll(1150 * MS) == [Out(COMMAND, "c")]
    relay.state(2, "b", 1160 * MS)
    assert relay.poll(200 * MS) == [] and relay.resets == 1 and relay.up.under_way == 0  # the clock was set back


def test_the_clock_of_lockstep_may_be_set_back():
    relay = Relay(NetworkLinkSettings(delay=0.05), NetworkLinkSettings(), lockstep=True)
    for k in range(3):
        relay.state(k * 10 * MS, k, 0)
    assert relay.state(0, "anew", 0) == [Out(COMMAND, None, 0, math.nan)] and relay.resets == 1 and relay.up.under_way == 1
    assert relay.state(-5, "before time", 0) == [] and relay.refusals.counts[STATE] == 1


def test_what_overtakes_cannot_be_in_lockstep():
    with pytest.raises(InputError, match="overtaking is on, which lockstep cannot have"):
        Relay(NetworkLinkSettings(overtaking=True), NetworkLinkSettings(), lockstep=True)
