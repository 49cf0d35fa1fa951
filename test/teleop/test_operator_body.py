"""Hands and feet: against the formulas of a second-order step, a drawn line and the power of the published sines."""

import math

import numpy as np
import pytest

from lfdm_ros.teleop.body import REMNANT_RMS, Foot, Neuromuscular, OperatorBody, RemnantNoise, Sines
from lfdm_ros.teleop.distraction import TABLE, Attention
from lfdm_ros.teleop.operator_settings import NOISE, NONE, OperatorSettings, Person


@pytest.mark.parametrize("z", [0.3, 0.707, 0.95, 1.0])
def test_a_step_is_the_textbooks_whatever_the_steps_of_time(z):
    w = 9.0
    times = np.linspace(0.0, 1.5, 31)
    root = math.sqrt(1.0 - z * z)
    if root:
        phase = math.acos(z)
        textbook = 1.0 - np.exp(-z * w * times) / root * np.sin(w * root * times + phase)
    else:
        textbook = 1.0 - (1.0 + w * times) * np.exp(-w * times)
    for parts in (1, 7):
        arms, found = Neuromuscular(w, z), [0.0]
        for span in np.diff(times):
            for _ in range(parts):
                arms.advance(span / parts, 1.0)
            found.append(arms.position)
        np.testing.assert_allclose(found, textbook, atol=1e-12)


def test_a_foot_lifts_changes_over_and_presses():
    foot = Foot(rate=2.0, change=0.15)
    pressed = [foot.advance(0.05, 0.4) for _ in range(5)]
    assert pressed == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4])
    braking = [foot.advance(0.05, -0.3) for _ in range(11)]
    # 0.2 s to lift, 0.15 s between the pedals, 0.15 s to press.
    assert braking == pytest.approx([0.3, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0, -0.1, -0.2, -0.3, -0.3])
    coarse = Foot(rate=2.0, change=0.15)
    coarse.advance(0.25, 0.4)
    assert coarse.advance(0.45, -0.3) == pytest.approx(-0.2)
    assert Foot(2.0, 0.15).advance(0.1, -0.5) == pytest.approx(-0.2)  # at first it hovers over either


def test_noise_has_the_power_and_the_memory_that_are_said():
    noise = RemnantNoise(2.0, 3.0, np.random.default_rng(4))
    step = 0.05
    drawn = np.array([noise.advance(step * k) for k in range(200_000)])
    assert drawn.std() == pytest.approx(2.0 * REMNANT_RMS, rel=0.05)
    assert np.corrcoef(drawn[:-4], drawn[4:])[0, 1] == pytest.approx(math.exp(-3.0 * 0.2), abs=0.02)
    sines = Sines(1.0, (1.137, 0.875))
    published = 0.125 * (0.01 * np.sin(2.0 * np.pi * 0.13 * 7.0 + 1.137) + 0.005 * np.sin(2.0 * np.pi * 0.47 * 7.0 + 0.875))
    assert sines.advance(7.0) == pytest.approx(published)
    assert np.std([sines.advance(0.01 * k) for k in range(100_000)]) == pytest.approx(REMNANT_RMS, rel=0.02)


def test_a_decision_moves_nothing_before_cycle_and_motor_delay_are_over():
    settings = OperatorSettings(remnant=NONE, variation=0.0)
    body = OperatorBody(settings, Person.drawn(settings, np.random.default_rng(1)), np.random.default_rng(1))
    body.decide(0.0, 0.1, 0.5)
    assert body.advance(0.0999) == (0.0, 0.0)
    angle, pedal = body.advance(0.2)
    assert pedal == pytest.approx(0.1 * settings.pedal_rate)
    arms = Neuromuscular(settings.neuromuscular_frequency, settings.neuromuscular_damping)
    assert angle == pytest.approx(arms.advance(0.1, 0.1))
    assert body.advance(0.15) == (angle, pedal)  # time does not go back


@pytest.mark.parametrize("remnant", [NOISE, NONE])
def test_persons_differ_as_documented_and_not_without_variation(remnant):
    settings = OperatorSettings(remnant=remnant)
    persons = [Person.drawn(settings, np.random.default_rng(seed)) for seed in range(2000)]
    factors = np.array([person.steering_factor for person in persons])
    assert np.median(factors) == pytest.approx(0.6, rel=0.03)
    assert np.quantile(factors, 0.1) == pytest.approx(0.4, rel=0.06) and np.quantile(factors, 0.9) == pytest.approx(0.85, rel=0.06)
    paces = np.array([person.pace for person in persons])
    assert paces.max() <= 1.0 and paces.min() >= 0.9 and paces.mean() == pytest.approx(0.97, abs=0.005)
    alike = OperatorSettings(remnant=remnant, variation=0.0)
    assert len({Person.drawn(alike, np.random.default_rng(seed)) for seed in range(20)}) == 1


@pytest.mark.parametrize("name", TABLE)
def test_sampled_durations_have_the_tables_moments_and_range(name):
    row = TABLE[name]
    attention = Attention(row, np.random.default_rng(11))
    drawn = np.array([attention.duration() for _ in range(20_000)])
    assert drawn.mean() == pytest.approx(row.mean, rel=0.03) and drawn.std() == pytest.approx(row.sd, rel=0.06)
    assert row.least <= drawn.min() < 1.2 * row.least and 0.5 * row.largest < drawn.max() <= row.largest


@pytest.mark.parametrize("name", TABLE)
def test_onsets_come_as_often_as_the_table_says(name):
    row, step = TABLE[name], 0.1
    attention = Attention(row, np.random.default_rng(5))
    away = np.array([attention.away(step * k) for k in range(100_000)])  # 10 000 s
    onsets = np.count_nonzero(~away[:-1] & away[1:])
    assert onsets / (step * len(away)) == pytest.approx(row.frequency, rel=0.1)
    assert away.mean() == pytest.approx(row.frequency * row.mean, rel=0.12)


def test_it_begins_whenever_it_is_first_asked():
    late, early = (Attention(TABLE["base"], np.random.default_rng(2)) for _ in range(2))
    begin = 2.0**30  # as a wall clock's
    assert [late.away(begin + 0.25 * k) for k in range(400)] == [early.away(0.25 * k) for k in range(400)]
    assert not late.away(2.0**31)


def test_who_is_attentive_never_looks_away_and_a_seed_repeats():
    assert not any(Attention(None, np.random.default_rng(1)).away(k) for k in range(1000))
    one, other = (Attention(TABLE["urban"], np.random.default_rng(2)) for _ in range(2))
    assert [one.away(0.1 * k) for k in range(2000)] == [other.away(0.1 * k) for k in range(2000)]
