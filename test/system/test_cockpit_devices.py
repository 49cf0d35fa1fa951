"""Wheels and odd pads: taught by "turn, press" in a dialogue, kept by the browser; nothing drives meanwhile. The page alone, no graph."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from browser import FLAT, PATIENCE, Page, chromium

from lfdm_ros.cockpit.seat import Seat, SeatSettings
from lfdm_ros.cockpit.server import CockpitServer
from lfdm_ros.cockpit.wire import SHARING, STATE, pack
from lfdm_ros.teleop.hands_on import Command

# A wheel on axis 0 and pedals on axes 2 and 3. Pedals rest at +1 and are -1 when pressed, but read 0 before they first move.
WHEEL = """
window.shaken = [];
window.pad = {id: "Racing wheel", index: 0, connected: true, mapping: "", axes: [0, 0, 0, 0],
  buttons: Array.from({length: 12}, () => ({pressed: false, touched: false, value: 0})),
  vibrationActuator: {playEffect: async (kind, effect) => { window.shaken.push([kind, effect, performance.now()]); }}};
window.button = (index, pressed) => Object.assign(window.pad.buttons[index], {pressed, value: Number(pressed)});
navigator.getGamepads = () => [window.pad];
"""
LET_GO = (0.0, 0.0, 0.4)
MAPPING = {"steering": {"axis": 0, "left": -1, "centre": 0, "right": 1}, "throttle": {"axis": 2, "rest": 1, "full": -1},
           "brake": {"axis": 3, "rest": 1, "full": -1}, "hold": [4]}


class Host:
    """A page's server without a graph, with a picture twenty times a second. requests: of the page. threat: said to the page."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        settings = SeatSettings(released="brake", picture_timeout=10.0, input_timeout=1.0)
        self.server = CockpitServer(Seat(settings), lambda name, value, page: self.requests.append((name, value)))
        self.server.start()
        self.threat = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._thread.start()

    def _publish(self) -> None:
        while not self._ended.wait(0.05):
            stamp = time.monotonic()
            self.server.publish(STATE, pack(STATE, stamp, [0.0] * 21, self.server.next_number()))
            if self.threat:
                self.server.publish(SHARING, pack(SHARING, stamp, [0.0, 0.0, self.threat, *[0.0] * 11]))

    def until(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{condition} in {PATIENCE:g} s; the command is {self.command}"
            time.sleep(0.02)

    @property
    def command(self) -> Command | None:
        return self.server.command(time.monotonic())

    def let_go_for(self, seconds: float) -> bool:
        """Checks that nobody drives for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.command != LET_GO:
                return False
            time.sleep(0.02)
        return True

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self.server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launch:
        yield launch(FLAT)


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture
def page(browser: Any, host: Host) -> Iterator[Page]:
    page = Page(browser, host.server.url, script=WHEEL)
    page.wait("body[data-seat]")
    yield page
    assert not page.faults
    page.close()


@pytest.fixture(scope="module")
def teachers(browser: Any) -> Iterator[Page]:
    """A page of which the tests of the teacher alone take its script."""
    host = Host()
    page = Page(browser, host.server.url, script=WHEEL)
    yield page
    page.close()
    host.close()


def prompted(page: Page, words: str) -> None:
    """Waits for a prompt of the dialogue."""
    page.wait(f"#teach-prompt:has-text('{words}')")


def do(page: Page, words: str, *scripts: str) -> None:
    """Waits for a prompt, then does things to the wheel, one after the other."""
    prompted(page, words)
    for script in scripts:
        page.tab.evaluate(script)
        time.sleep(0.1)


def press_pedal(page: Page, name: str, axis: int) -> None:
    do(page, f"Press the {name}", f"pad.axes[{axis}] = 0.6", f"pad.axes[{axis}] = -1")
    do(page, f"release the {name}", f"pad.axes[{axis}] = 0.2", f"pad.axes[{axis}] = 1")


# What a person does at each prompt.
ANSWERS = {
    "fully left": ("pad.axes[0] = -0.5", "pad.axes[0] = -1"), "fully right": ("pad.axes[0] = 0", "pad.axes[0] = 1"),
    "Press the throttle": ("pad.axes[0] = 0", "pad.axes[2] = 0.6", "pad.axes[2] = -1"),
    "release the throttle": ("pad.axes[2] = 0.2", "pad.axes[2] = 1"),
    "Press the brake": ("pad.axes[3] = 0.6", "pad.axes[3] = -1"), "release the brake": ("pad.axes[3] = 0.2", "pad.axes[3] = 1"),
    "must be held": ("button(4, true)",), "once more": ("button(4, false)", "pad.axes[2] = pad.axes[3] = 1")}
LET_GO_OF_ALL = "pad.axes[0] = 0; if (pad.axes[2]) pad.axes[2] = 1; if (pad.axes[3]) pad.axes[3] = 1; button(4, false)"


def teach(page: Page) -> None:
    """Does what the dialogue says, to its end; lets go and does it again where a slow page has missed it."""
    page.wait("#teach-dialogue[open]")
    end, done, since = time.monotonic() + PATIENCE, "", 0.0
    while page.tab.locator("#teach-dialogue[open]").count():
        prompt = page.tab.inner_text("#teach-prompt")
        assert time.monotonic() < end, f"{prompt} {page.tab.inner_text('#teach-error')}"
        words = next((words for words in ANSWERS if words in prompt), "")
        if words and (words != done or time.monotonic() > since + 4.0):
            if words == done:
                page.tab.evaluate(LET_GO_OF_ALL)
                time.sleep(1.0)
            for script in ANSWERS[words]:
                page.tab.evaluate(script)
                time.sleep(0.1)
            done, since = words, time.monotonic()
        time.sleep(0.05)
    time.sleep(0.3)  # until the page has seen the switch let go: held from the beginning, it would not count


def stored(page: Page) -> Any:
    return json.loads(page.tab.evaluate("localStorage.getItem('lfdm mapping Racing wheel')"))


def test_a_wheel_is_taught_drives_and_is_known_after_a_reload(page: Page, host: Host) -> None:
    page.wait("#notice:has-text('Racing wheel: press teach device once')")
    page.tab.evaluate("button(4, true); pad.axes[2] = -1; pad.axes[0] = -1")
    assert host.let_go_for(0.5)  # no mapping is guessed
    page.tab.evaluate("button(4, false); pad.axes[2] = 0; pad.axes[0] = 0")
    page.tab.focus("#teach")
    page.tab.keyboard.press("Enter")
    teach(page)
    assert stored(page) == MAPPING
    assert not page.tab.is_visible("#notice")

    def drive() -> None:
        page.tab.evaluate("button(4, true); pad.axes[0] = -1; pad.axes[2] = 0")
        host.until(lambda: host.command == (1.0, 0.5, 0.0))  # left is positive
        page.tab.evaluate("pad.axes[0] = 1; pad.axes[2] = 1; pad.axes[3] = -1")
        host.until(lambda: host.command == (-1.0, 0.0, 1.0))
        page.tab.evaluate("pad.axes[0] = 0; pad.axes[3] = 1; pad.axes[2] = -1")
        host.until(lambda: host.command == (0.0, 1.0, 0.0))
        page.tab.evaluate("button(4, false)")
        host.until(lambda: host.command == LET_GO)

    drive()
    page.tab.reload()
    page.wait("body[data-seat]")
    page.tab.evaluate("button(4, true); pad.axes[0] = -1")  # pedals read 0 again, half of their travel: they have not moved
    host.until(lambda: host.command == (1.0, 0.0, 0.0))
    page.tab.evaluate("button(4, false); pad.axes[2] = pad.axes[3] = 1")
    host.until(lambda: host.command == LET_GO)
    drive()
    assert "teach" not in page.tab.inner_text("#notice")


def test_nothing_drives_while_the_dialogue_is_open_and_escape_in_it_only_ends_it(page: Page, host: Host) -> None:
    page.tab.click("#teach")
    teach(page)
    page.tab.evaluate("button(4, true); pad.axes[2] = -1")
    host.until(lambda: host.command == (0.0, 1.0, 0.0))
    page.tab.focus("#teach")
    page.tab.keyboard.press("Enter")
    host.until(lambda: host.command == LET_GO)
    page.tab.click("#canvas", position={"x": 300, "y": 500})  # the focus is elsewhere: keys would drive
    page.tab.keyboard.down("KeyW")
    assert host.let_go_for(0.5)
    assert page.tab.is_visible("#teach-dialogue") and not host.requests
    page.tab.focus("#teach-cancel")
    page.tab.keyboard.press("Escape")
    page.wait("#teach-dialogue:not([open])")
    assert host.let_go_for(0.5) and not host.requests  # what is still held must be let go first
    assert stored(page) == MAPPING
    page.tab.keyboard.up("KeyW")
    page.tab.evaluate("button(4, false)")
    time.sleep(0.2)
    page.tab.evaluate("button(4, true); pad.axes[2] = 0")
    host.until(lambda: host.command == (0.0, 0.5, 0.0))
    page.tab.click("#teach")
    page.tab.click("#canvas", position={"x": 300, "y": 500})
    page.tab.keyboard.press("Escape")
    host.until(lambda: host.requests == [("stop", True)])


def test_answers_that_contradict_are_refused(page: Page) -> None:
    page.tab.click("#teach")
    do(page, "fully left", "button(2, true)")
    page.wait("#teach-error:has-text('button 2 is no axis')")
    page.tab.evaluate("button(2, false)")
    time.sleep(0.1)
    page.tab.evaluate("pad.axes[0] = -1")
    do(page, "fully right", "pad.axes[0] = 0", "pad.axes[0] = -1")
    page.wait("#teach-error:has-text('same side')")
    do(page, "fully right", "pad.axes[0] = 1")
    do(page, "Press the throttle", "pad.axes[0] = 0", "pad.axes[0] = 1")
    page.wait("#teach-error:has-text('axis 0 steers: it cannot be the throttle as well')")
    page.tab.evaluate("pad.axes[0] = 0")
    press_pedal(page, "throttle", 2)
    do(page, "Press the brake", "pad.axes[2] = -1")
    page.wait("#teach-error:has-text('axis 2 is the throttle already')")
    page.tab.evaluate("pad.axes[2] = 1")
    do(page, "Press the brake", "button(6, true)")
    do(page, "release the brake", "button(6, false)")
    do(page, "must be held", "button(6, true)")
    page.wait("#teach-error:has-text('button 6 moves with the brake')")
    do(page, "must be held", "button(6, false)", "button(4, true)")
    do(page, "once more", "button(4, false)")
    page.wait("#teach-dialogue:not([open])")
    assert stored(page) == {**MAPPING, "brake": {"button": 6, "rest": 0, "full": 1}}


def test_the_threat_shakes_a_pad_at_most_twice_a_second(page: Page, host: Host) -> None:
    host.threat = 0.6
    page.wait("body[data-sharingvalues]")
    time.sleep(0.5)
    assert page.tab.evaluate("shaken") == []
    host.threat = 0.9
    host.until(lambda: len(page.tab.evaluate("shaken")) >= 4)
    host.threat = 0.0  # no longer said
    time.sleep(1.5)
    shaken = page.tab.evaluate("shaken")
    assert len(shaken) <= 8 and {kind for kind, *_ in shaken} == {"dual-rumble"}
    assert all(effect["strongMagnitude"] == pytest.approx(0.9) for _, effect, _ in shaken)
    assert min(later[2] - before[2] for before, later in pairwise(shaken)) >= 499.0


# Plays [seconds, axes, pressed buttons] to a teacher alone, at 50 Hz, and returns prompts and errors in order, and the mapping.
PLAY = """
async moves => {
  const {Teacher} = await import("./teach.js");
  const teacher = new Teacher(), prompts = [], errors = [];
  let now = 0, answer = null;
  for (const [seconds, axes, down] of moves) {
    const buttons = Array.from({length: 8}, (_, k) => ({pressed: down.includes(k), value: Number(down.includes(k))}));
    for (const end = now + seconds; now < end && !answer?.done; now += 0.02) {
      answer = teacher.step({axes, buttons}, now);
      if (answer.prompt !== prompts.at(-1)) prompts.push(answer.prompt);
      if (answer.error && answer.error !== errors.at(-1)) errors.push(answer.error);
    }
  }
  return {prompts, errors, mapping: answer.mapping, done: answer.done};
}
"""
Move = tuple[float, list[float], list[int]]
REST: Move = (0.5, [0.0, 0.0, 0.0], [])
TURNS: list[Move] = [REST, (0.5, [0.8, 0.0, 0.0], []), (0.5, [-1.0, 0.0, 0.0], []), (0.5, [0.0, 0.0, 0.0], [])]
HOLDS: list[Move] = [(0.5, [0.0, 1.0, 1.0], [1]), (0.5, [0.0, 1.0, 1.0], [])]
BRAKES: list[Move] = [(0.5, [0.0, 1.0, -0.9], []), (1.0, [0.0, 1.0, 1.0], [])]


def play(page: Page, *moves: Move) -> Any:
    return page.tab.evaluate(PLAY, [list(move) for move in moves])


def test_the_teacher_alone_takes_what_is_turned_and_pressed(teachers: Page) -> None:
    taught = play(teachers, *TURNS, (0.5, [0.0, -1.0, 0.0], []), (1.0, [0.0, 1.0, 0.0], []), *BRAKES, *HOLDS)
    assert taught["done"] and not taught["errors"] and taught["prompts"][-1] == "Done."
    assert taught["mapping"] == {
        "steering": {"axis": 0, "left": 0.8, "centre": 0, "right": -1}, "throttle": {"axis": 1, "rest": 1, "full": -1},
        "brake": {"axis": 2, "rest": 1, "full": -0.9}, "hold": [1]}
    assert not play(teachers, *TURNS)["done"]


def test_the_teacher_notices_a_pedal_that_it_has_learnt_the_wrong_way_round(teachers: Page) -> None:
    """A pedal that reads 0 before it moves and is only touched at first looks as if it were pressed to +1 and released to -1."""
    touched: list[Move] = [(0.5, [0.0, 0.9, 0.0], []), (1.0, [0.0, -1.0, 0.0], []), (0.5, [0.0, 1.0, 0.0], [])]
    away: list[Move] = [(2.5, [0.0, 1.0, 1.0], [])]
    anew: list[Move] = [(0.5, [0.0, -1.0, 1.0], []), (0.5, [0.0, 1.0, 1.0], [])]
    first = play(teachers, *TURNS, *touched, *BRAKES, *HOLDS, *away)
    assert not first["done"] and first["errors"][-1:] == ["The throttle reads as pressed while it is let go: once more."]
    second = play(teachers, *TURNS, *touched, *BRAKES, *HOLDS, *away, *anew, *BRAKES, *HOLDS)
    shortly: list[Move] = [touched[0], (0.5, *touched[1][1:]), (0.5, [0.0, 0.5, 0.0], []), (1.0, *touched[2][1:])]
    hesitant = play(teachers, *TURNS, *shortly, *BRAKES, *HOLDS)
    assert hesitant["done"] and not hesitant["errors"] and hesitant["mapping"]["throttle"] == {"axis": 1, "rest": 1, "full": -1}
    assert second["done"] and second["mapping"]["throttle"] == {"axis": 1, "rest": 1, "full": -1}


def test_the_teacher_asks_for_a_straight_wheel_a_centre_and_a_button_that_rests(teachers: Page) -> None:
    crooked = play(teachers, (0.5, [0.6, 0.0, 0.0], []), (0.5, [1.0, 0.0, 0.0], []), (0.5, [-1.0, 0.0, 0.0], []))
    assert len(crooked["errors"]) == 1 and "begin with the wheel straight" in crooked["errors"][0]
    pedals: list[Move] = [(0.5, [0.0, -1.0, 0.0], []), (1.0, [0.0, 1.0, 0.0], []), *BRAKES]
    latching = play(teachers, *TURNS, *pedals, HOLDS[0], (3.0, *HOLDS[0][1:]))
    assert latching["errors"] == ["The button that is held to drive stays pressed: press another one."]
    # Both pedals on one axis, to either side of its rest.
    centred: Move = (1.0, [0.0, 0.0, 0.0], [])
    both = play(teachers, *TURNS, (0.5, [0.0, 1.0, 0.0], []), centred, (0.5, [0.0, -1.0, 0.0], []), centred,
                (0.5, [0.0, 0.0, 0.0], [1]), centred)
    assert both["mapping"]["throttle"] == {"axis": 1, "rest": 0, "full": 1}
    assert both["mapping"]["brake"] == {"axis": 1, "rest": 0, "full": -1}


def test_a_standard_pad_is_taught_otherwise_and_back(page: Page, host: Host) -> None:
    page.tab.evaluate("pad.mapping = 'standard'")
    page.wait("#notice:is([hidden], :has-text('WebGL'))")
    page.tab.evaluate("button(5, true); button(7, true)")
    host.until(lambda: host.command == (0.0, 1.0, 0.0))
    page.tab.evaluate("window.dispatchEvent(new Event('blur'))")
    host.until(lambda: host.command == LET_GO)
    assert host.let_go_for(0.5)  # the button is held all the time
    page.tab.evaluate("button(5, false); button(7, false)")
    page.tab.click("#teach")
    teach(page)
    page.tab.evaluate("button(5, true); button(7, true)")
    assert host.let_go_for(0.5)
    page.tab.evaluate("button(5, false); button(7, false)")
    page.tab.click("#teach")
    page.tab.click("#teach-forget")
    page.wait("#teach-dialogue:not([open])")
    time.sleep(0.2)
    page.tab.evaluate("button(5, true); button(7, true)")
    host.until(lambda: host.command == (0.0, 1.0, 0.0))
