"""The seat: one driver, a dead man's switch, and no command of anybody that has let go, fallen silent, or looks at an old picture."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lfdm_ros.bounds import Refused
from lfdm_ros.cockpit.seat import MAX_INPUT_RATE, Intent, Seat, SeatSettings

HELD = {"held": True, "throttle": 0.5, "steering": 0.2}


class Page:
    """A page with a clock and a number of its own."""

    def __init__(self, seat: Seat, client: int, clock: float = 100.0) -> None:
        self.seat, self.client, self.clock, self.number = seat, client, clock, 0
        seat.enter(client, f"page {client}")

    def send(self, time: float, *, late: float = 0.0, picture_age: float = 0.0, number: int | None = None, **values: Any) -> None:
        self.number += 1
        intent = {"held": False, "steering": 0.0, "throttle": 0.0, "brake": 0.0, "picture": 0, **values}
        self.seat.take(self.client, time, Intent(number=self.number if number is None else number, time=time - late - self.clock, **intent),
                       picture_age)


@pytest.fixture
def seat() -> Seat:
    return Seat(SeatSettings())


def test_holding_drives_after_rest_only(seat: Seat) -> None:
    page = Page(seat, 1)
    page.send(0.0, **HELD)  # held from the beginning: a stuck key
    assert seat.command(0.0) is None
    page.send(0.02)
    page.send(0.04, **HELD)
    assert seat.command(0.05) == (0.2, 0.5, 0.0) and seat.driver == 1 and not seat.reason
    page.send(0.06)
    assert seat.command(0.06) is None and seat.reason == "let go" and seat.driver == 1


@pytest.mark.parametrize("loss, words", [
    ("silence", "no input of the driver"), ("picture", "the picture is 0.9 s old"), ("late", "0.6 s late"), ("leave", "page has closed"),
])
def test_each_loss_ends_driving_until_all_is_let_go(seat: Seat, loss: str, words: str) -> None:
    page = Page(seat, 1)
    page.send(0.0)
    page.send(0.02, **HELD)
    assert seat.command(0.03) is not None
    if loss == "silence":
        assert seat.command(0.02 + 0.24) is not None
        time = 0.02 + 0.26
        assert seat.command(time) is None
    elif loss == "picture":
        time = 0.04
        page.send(time, picture_age=0.9, **HELD)
    elif loss == "late":
        time = 0.2
        with pytest.raises(Refused, match="late"):
            page.send(time, late=0.6, **HELD)
    else:
        time = 0.1
        seat.leave(1)
        assert seat.command(time) is None and words in seat.reason
        return
    assert seat.command(time) is None and words in seat.reason
    page.send(time + 0.02, **HELD)  # still held: does not count
    assert seat.command(time + 0.03) is None
    page.send(time + 0.04)
    page.send(time + 0.06, **HELD)
    assert seat.command(time + 0.07) is not None


def test_one_driver_at_a_time(seat: Seat) -> None:
    one, other = Page(seat, 1), Page(seat, 2, clock=-7.0)
    for page in (one, other):
        page.send(0.0)
    one.send(0.02, **HELD)
    with pytest.raises(Refused, match="page 1 drives"):
        other.send(0.03, **HELD)
    assert seat.driver == 1
    one.send(0.05)  # lets go
    other.send(0.06, **HELD)
    assert seat.command(0.07) is None  # held since before: must be let go first
    other.send(0.08)
    other.send(0.10, **HELD)
    assert seat.driver == 2 and seat.command(0.11) is not None
    # Silent while it holds: its seat is free after the lease's time only.
    one.send(0.5)
    with pytest.raises(Refused, match="page 2 drives"):
        one.send(0.6, **HELD)
    assert seat.command(0.61) is None
    one.send(1.0)
    one.send(1.2, **HELD)
    assert seat.driver == 1 and seat.command(1.21) is not None


def test_a_stop_of_any_page_brakes_whatever_is_held(seat: Seat) -> None:
    page = Page(seat, 1)
    page.send(0.0)
    page.send(0.02, **HELD)
    seat.stop()
    assert seat.command(0.03) == (0.0, 0.0, 1.0)
    seat.resume()
    assert seat.command(0.04) is None
    page.send(0.05, **HELD)
    assert seat.command(0.06) is None


def test_released_brakes_where_it_should() -> None:
    seat = Seat(SeatSettings(released="brake", released_brake=0.3))
    assert seat.command(0.0) == (0.0, 0.0, 0.3)


def test_an_old_number_and_a_flood_are_refused(seat: Seat) -> None:
    page = Page(seat, 1)
    page.send(0.0)
    with pytest.raises(Refused, match="after 1"):
        page.send(0.02, number=1, **HELD)
    flood = Page(seat, 2)
    refused = 0
    for k in range(1000):
        try:
            flood.send(1.0 + k / 1000.0)
        except Refused as error:
            assert "messages a second" in str(error)
            refused += 1
    assert refused == 1000 - MAX_INPUT_RATE


def test_clocks_that_drift_are_not_late(seat: Seat) -> None:
    page = Page(seat, 1)
    for k in range(3600):  # an hour, the page's clock 100 ppm slow
        page.send(float(k), late=1e-4 * k)
    page.send(3600.02, late=0.36)
    page.send(3600.04, late=0.36, **HELD)
    assert seat.command(3600.05) is not None


GOOD = {"number": 1, "time": 0.0, "held": True, "steering": 0.0, "throttle": 0.0, "brake": 0.0, "picture": 3}


@pytest.mark.parametrize("text, words", [
    ("", "not JSON"), ("[" * 399, "not JSON"), ("x" * 401, "401 characters"), ("[]", "has the keys"), ("{}", "has the keys"),
    (json.dumps({**GOOD, "more": 1}), "has the keys"), (json.dumps({**GOOD, "number": 1.5}), "whole numbers"),
    (json.dumps({**GOOD, "held": 1}), "true or false"), (json.dumps({**GOOD, "steering": "left"}), "steering of an input"),
    (json.dumps({**GOOD, "throttle": math.nan}), "throttle is not finite"), (json.dumps({**GOOD, "time": math.inf}), "time is not finite"),
    (json.dumps({**GOOD, "brake": -0.1}), "brake is -0.1"), (json.dumps({**GOOD, "steering": 1e299}), "steering is 1e"),
    (json.dumps({**GOOD, "picture": True}), "whole numbers"),
])
def test_malformed_inputs_are_refused(text: str, words: str) -> None:
    with pytest.raises(Refused, match=words):
        Intent.parse(text)


EVENTS = st.lists(st.tuples(
    st.sampled_from([1, 2]), st.sampled_from(["hold", "rest", "pedal", "leave", "nothing", "stop"]), st.floats(0.001, 0.6),
    st.sampled_from([0.0, 0.0, 0.0, 0.4]), st.sampled_from([0.0, 0.0, 0.0, 0.8])), max_size=60)


@settings(max_examples=300, deadline=None)
@given(EVENTS)
def test_no_throttle_without_a_driver_that_holds_fresh_inputs(events: list[tuple[int, str, float, float, float]]) -> None:
    """Whatever the order: throttle only of a client whose inputs since its last rest were all held, on time and of fresh pictures."""
    seat = Seat(SeatSettings())
    pages = {client: Page(seat, client) for client in (1, 2)}
    good = {1: False, 2: False}  # at rest since the last loss, by an account of its own
    last: dict[int, tuple[float, bool]] = {}
    time = 0.0
    for client, does, dt, late, age in events:
        time += dt
        if does == "leave":
            seat.leave(client)
            pages[client], good[client] = Page(seat, client), False
            last.pop(client, None)
        elif does == "stop":
            seat.stop()
            seat.resume()
            good = {1: False, 2: False}
        elif does != "nothing":
            held = does == "hold"
            gap = time - last[client][0] > 0.25 if client in last else True
            try:
                pages[client].send(time, late=late, picture_age=age, held=held, throttle=0.0 if does == "rest" else 1.0)
            except Refused:
                good[client] = False
            else:
                last[client] = time, held
                good[client] = age == 0.0 and (does == "rest" or (good[client] and not gap))
        command = seat.command(time)
        if command is not None:
            driver = seat.driver
            assert driver is not None and good[driver] and last[driver][1] and time - last[driver][0] <= 0.25
