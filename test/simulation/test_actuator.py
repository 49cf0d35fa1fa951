"""The actuator against closed forms and a finely stepped solution of the same equation."""

import math
from typing import Any

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.simulation import Actuator, Selector


def test_without_delay_lag_and_limits_commands_pass_through_to_the_bit() -> None:
    random = np.random.default_rng(1)
    actuator = Actuator()
    assert (actuator.advance(0.0) == 0.0).all()
    for k in range(50):
        command = random.uniform(-1.0, 1.0, 3)
        actuator.send(0.02 * k, command)
        assert (actuator.advance(0.02 * k) == command).all()
        assert (actuator.advance(0.02 * k + 0.013) == command).all()


def test_the_delay_is_exact() -> None:
    actuator, period, delay = Actuator(delay=0.2), 0.02, 0.2
    sent: list[tuple[float, float]] = []
    steps = np.arange(0, 1000)
    for step in steps:
        time = step * 0.001
        if step % 20 == 0:
            value = float(np.sin(7.0 * time))
            actuator.send(time, (value, 0.5 + 0.5 * value, 0.0))
            sent.append((time, value))
        in_effect = [v for t, v in sent if t <= time - delay + 1e-9]
        expected = in_effect[-1] if in_effect else 0.0
        got = actuator.advance(time)
        assert got[0] == expected and got[1] == (0.5 + 0.5 * expected if in_effect else 0.0)
    assert len(sent) * period == pytest.approx(1.0)


def test_the_lag_of_the_steering_is_the_closed_form_for_any_step() -> None:
    for step in (0.001, 0.01, 0.13):
        actuator = Actuator(delay=0.05, steering_lag=0.1)
        actuator.send(0.0, (0.8, 0.6, 0.0))
        for time in np.arange(1, int(1.0 / step)) * step:
            got = actuator.advance(time)
            after = max(time - 0.05, 0.0)
            assert got[0] == pytest.approx(0.8 * (1.0 - math.exp(-after / 0.1)), abs=1e-12)
            assert got[1] == (0.6 if time >= 0.05 - 1e-9 else 0.0)  # no lag for the pedals


def test_rates_are_limited_up_and_down() -> None:
    actuator = Actuator(steering_rate=2.0, throttle_rate=4.0, brake_rate=5.0)
    actuator.send(0.0, (1.0, 1.0, 1.0))
    assert actuator.advance(0.1) == pytest.approx([0.2, 0.4, 0.5])
    assert actuator.advance(10.0) == pytest.approx([1.0, 1.0, 1.0], abs=0.0)
    actuator.send(10.0, (-1.0, 0.0, 0.0))
    assert actuator.advance(10.15) == pytest.approx([0.7, 0.4, 0.25])
    assert (actuator.advance(12.0) == [-1.0, 0.0, 0.0]).all()


def test_lag_and_limit_together_solve_the_equation() -> None:
    lag, rate, h = 0.15, 1.5, 1e-5
    actuator = Actuator(delay=0.03, steering_lag=lag, steering_rate=rate)
    random = np.random.default_rng(2)
    commands = random.uniform(-1.0, 1.0, 20)
    steering, worst, limited = 0.0, 0.0, 0
    for k, command in enumerate(commands):
        actuator.send(0.1 * k, (command, 0.0, 0.0))
        for n in range(10_000):
            target = commands[k] if n * h >= 0.03 - 1e-12 else (commands[k - 1] if k else 0.0)
            speed = (target - steering) / lag
            limited += abs(speed) > rate
            steering += h * max(-rate, min(rate, speed))
        worst = max(worst, abs(actuator.advance(0.1 * (k + 1))[0] - steering))
    assert worst < 1e-4 and limited > 10_000


def test_the_result_does_not_depend_on_the_steps() -> None:
    fine, coarse = (Actuator(delay=0.05, steering_lag=0.08, steering_rate=2.0, throttle_rate=3.0) for _ in range(2))
    for k in range(20):
        command = (math.sin(k), 0.5 + 0.5 * math.cos(k), 0.0)
        for actuator in (fine, coarse):
            actuator.send(0.1 * k, command)
        for n in range(1, 101):
            got = fine.advance(0.1 * k + 0.001 * n)
    assert got == pytest.approx(coarse.advance(2.0), abs=1e-12)


def test_it_starts_and_starts_anew_with_given_inputs() -> None:
    actuator = Actuator(delay=0.1, inputs=(0.1, 0.2, 0.0))
    actuator.send(0.0, (1.0, 1.0, 0.0))
    assert (actuator.advance(0.05) == [0.1, 0.2, 0.0]).all()
    actuator.reset(0.0, (0.0, 0.3, 0.0))
    assert (actuator.advance(0.5) == [0.0, 0.3, 0.0]).all()


@pytest.mark.parametrize(("settings", "words"), [
    ({"delay": -0.1}, "delay is -0.1"), ({"delay": math.nan}, "delay is nan"), ({"steering_lag": math.inf}, "steering_lag is inf"),
    ({"steering_rate": 0.0}, "steering_rate is 0"), ({"brake_rate": math.nan}, "brake_rate is nan"),
    ({"inputs": (0.0, 0.0)}, "steering, throttle and brake"),
])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Actuator(**settings)


def test_commands_and_time_go_forward() -> None:
    actuator = Actuator(delay=0.1)
    actuator.send(1.0, (0.0, 0.0, 0.0))
    with pytest.raises(InputError, match=r"at 0\.9 s after one at 1 s"):
        actuator.send(0.9, (0.0, 0.0, 0.0))
    with pytest.raises(InputError, match="all finite"):
        actuator.send(1.1, (0.0, math.nan, 0.0))
    actuator.advance(2.0)
    with pytest.raises(InputError, match=r"1\.5 s requested after 2 s"):
        actuator.advance(1.5)


def test_the_selector_changes_near_standstill_only() -> None:
    selector = Selector()
    ahead, back, none = np.array([0.1, 0.5, 0.0]), np.array([0.1, -0.5, 0.0]), np.array([0.1, 0.0, 0.3])
    for inputs, speed, throttle in ((ahead, 9.0, 0.5), (back, 9.0, 0.0), (back, 0.31, 0.0), (back, 0.29, -0.5), (back, -2.0, -0.5),
                                    (none, -2.0, 0.0), (back, -2.0, -0.5), (ahead, -2.0, 0.0), (ahead, -0.2, 0.5), (back, 0.3, 0.0)):
        assert selector.through(inputs, speed).tolist() == [0.1, throttle, inputs[2]]
    assert selector.through(back, 0.0)[1] == -0.5 and selector.reverse
    selector.reset()
    assert not selector.reverse
