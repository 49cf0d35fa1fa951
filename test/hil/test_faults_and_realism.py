"""Faults and realism: what each does to a value, when, and what cannot be declared."""

import math
from typing import Any

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.hil.faults import KINDS, Fault, Injector, load_faults
from lfdm_ros.hil.realism import load_realism
from lfdm_ros.resources import share_directory

SHIPPED = sorted((share_directory() / "config" / "hil").glob("*.yaml"))


def course(fault: Fault, signal: str = "ax", seconds: float = 1.0, seed: int = 1) -> list[float]:
    """What becomes of a signal that is the time, every 0.1 s."""
    injector, found = Injector((fault,), seed), []
    for k in range(round(10 * seconds)):
        injector.at(0.1 * k)
        found.append(round(injector.values({signal: 0.1 * k})[signal], 6))
    return found


@pytest.mark.parametrize(("fault", "found"), [
    (Fault("freeze", "ax", 0.2, 0.5), [0.0, 0.1, 0.2, 0.2, 0.2, 0.5, 0.6, 0.7, 0.8, 0.9]),
    (Fault("bias", "signals", 0.2, 0.5, 1.0), [0.0, 0.1, 1.2, 1.3, 1.4, 0.5, 0.6, 0.7, 0.8, 0.9]),
    (Fault("delay", "all", 0.2, 0.7, 0.2), [0.0, 0.1, 0.2, 0.2, 0.2, 0.3, 0.4, 0.7, 0.8, 0.9]),
    (Fault("bias", "ay", 0.2, 0.5, 1.0), [0.1 * k for k in range(10)]),
])
def test_values(fault: Fault, found: list[float]) -> None:
    assert course(fault) == pytest.approx(found)


def test_not_available_and_spikes_by_seed() -> None:
    assert [math.isnan(v) for v in course(Fault("nan", "ax", 0.2, 0.4))] == [False, False, True, True] + 6 * [False]
    spikes = course(Fault("spike", "ax", 0.0, 100.0, 5.0, 0.2), seconds=100.0)
    hit = [value - 0.1 * k for k, value in enumerate(spikes)]
    assert set(np.round(hit, 4)) == {0.0, 5.0} and 150 < np.count_nonzero(np.array(hit) > 1.0) < 250
    assert spikes == course(Fault("spike", "ax", 0.0, 100.0, 5.0, 0.2), seconds=100.0)
    assert spikes != course(Fault("spike", "ax", 0.0, 100.0, 5.0, 0.2), seconds=100.0, seed=2)


def test_messages() -> None:
    injector = Injector((Fault("drop", "yaw_rate", 0.0, 1.0), Fault("bit_error", "x", 0.0, 1.0), Fault("link_loss", start=2.0)))
    injector.at(0.5)
    data = bytearray(8)
    assert not injector.tamper(("yaw_rate", "ax"), data) and injector.tamper(("omega_fl",), data) and data == bytes(8)
    assert injector.tamper(("x", "y"), data) and sum(byte.bit_count() for byte in data) == 1
    injector.at(1.5)
    assert injector.tamper(("yaw_rate",), data)
    injector.at(2.5)
    assert not injector.tamper((), data)


def test_actuators_and_the_clock() -> None:
    injector = Injector((Fault("stuck", "brake", 0.0, 1.0), Fault("clock_step", start=0.5, end=1.0)))
    injector.at(0.0)
    assert injector.clock == 0.0
    injector.actuators(np.array([0.1, 0.2, 0.3]))
    injector.at(0.7)
    assert injector.actuators(np.array([0.4, 0.5, 0.6])).tolist() == [0.4, 0.5, 0.3] and injector.clock == 0.2
    injector.at(1.0)
    assert injector.actuators(np.array([0.4, 0.5, 0.6])).tolist() == [0.4, 0.5, 0.6] and injector.active == ()


def test_changes_are_told_once_and_faults_come_and_go_on_request() -> None:
    injector = Injector()
    assert not injector.at(0.0)
    injector.add(Fault("bias", "ax", 0.0, value=1.0))
    injector.add(Fault("drop", "ay", 0.0))
    assert injector.at(0.1) and not injector.at(0.2)
    assert [str(fault) for fault in injector.active] == ["bias ax 1 m/s^2", "drop ay"]
    assert injector.clear("ax") == 1 and injector.at(0.3) and [f.kind for f in injector.active] == ["drop"]
    assert injector.clear() == 1 and injector.at(0.4) and not injector.active


@pytest.mark.parametrize(("row", "words"), [
    ({"fault": "explode", "from": 0.0}, "fault 'explode' is unknown; there are: freeze, drop"),
    ({"fault": "freeze", "signal": "smell", "from": 0.0}, "signal 'smell' is unknown"),
    ({"fault": "stuck", "signal": "yaw", "from": 0.0}, "of 'yaw' there is none, but of: steering, throttle, brake"),
    ({"fault": "bias", "signal": "yaw", "from": 0.0}, "give its value, in the unit of yaw"),
    ({"fault": "freeze", "signal": "yaw", "from": 2.0, "until": 1.0}, "let it end after it begins"),
    ({"fault": "freeze", "signal": "yaw", "from": 0.0, "share": 1.5}, "share is 1.5"),
    ({"fault": "freeze", "from": "soon"}, "faults: faults\\[0\\]: from"),
    ({"fault": "freeze"}, "missing"),
])
def test_schedules_that_cannot_be(row: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_faults({"faults": [row]})


def test_every_kind_can_be_scheduled() -> None:
    for kind in KINDS.values():
        signal = kind.only[0] if kind.only else "yaw"
        assert load_faults({"faults": [{"fault": kind.name, "signal": signal, "from": 1.0, "value": 0.5}]})[0][0].kind == kind.name


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_files_load(path: Any) -> None:
    assert load_faults(path)[0] if "faults" in path.stem else load_realism(path).vehicle


# -- realism ----------------------------------------------------------------------------------------------------------------


def measured(settings: dict[str, float], values: list[float], step: float = 0.1) -> list[float]:
    realism = load_realism({"sensors": {"yaw_rate": settings}})
    return [realism.measure(step * k, {"yaw_rate": value})["yaw_rate"] for k, value in enumerate(values)]


@pytest.mark.parametrize(("settings", "found"), [
    ({}, [0.0, 0.13, 0.26, 0.39]),
    ({"bias": 1.0}, [1.0, 1.13, 1.26, 1.39]),
    ({"quantisation": 0.1}, [0.0, 0.1, 0.3, 0.4]),
    ({"dead_band": 0.2}, [0.0, 0.0, 0.26, 0.39]),
    ({"rate": 5.0}, [0.0, 0.0, 0.26, 0.26]),
    ({"latency": 0.2}, [math.nan, math.nan, 0.0, 0.13]),
    ({"drop": 1.0}, [math.nan] * 4),
])
def test_sensors(settings: dict[str, float], found: list[float]) -> None:
    assert measured(settings, [0.0, 0.13, 0.26, 0.39]) == pytest.approx(found, nan_ok=True)


def test_noise_is_white_by_seed_and_apart_for_each_signal() -> None:
    noise = np.array(measured({"noise": 0.5}, [0.0] * 2000))
    assert noise.std() == pytest.approx(0.5, rel=0.1) and abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.1
    assert noise.tolist() == measured({"noise": 0.5}, [0.0] * 2000)
    realism = load_realism({"sensors": {"wheel_speeds": {"noise": 0.5}}})
    wheels = realism.measure(0.0, {f"omega_{wheel}": 0.0 for wheel in ("fl", "fr", "rl", "rr")})
    assert len(set(wheels.values())) == 4


def test_actuators_stay_in_their_range() -> None:
    realism = load_realism({"actuators": {"steering": {"bias": 0.1, "dead_band": 0.2, "quantisation": 0.25}, "brake": {"bias": -0.5}}})
    assert realism.command((0.05, 0.3, 0.2)) == (0.0, 0.3, 0.0)
    assert realism.command((0.95, 0.3, 0.75)) == (1.0, 0.3, 0.25)


@pytest.mark.parametrize(("content", "words"), [
    ({"sensors": {"smell": {}}}, "smell"),
    ({"sensors": {"yaw": {"colour": 1.0}}}, "sensors: yaw: .*colour"),
    ({"sensors": {"yaw": {"noise": -1.0}}}, "sensors: yaw: sensor: noise is -1"),
    ({"actuators": {"steering": {"rate": 1.0}}}, "rate"),
    ({"vehicle": {"sprung_mass": 1.0}}, "sprung_mass"),
    ({"seed": "x"}, "seed"),
])
def test_declarations_that_cannot_be(content: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_realism(content)
