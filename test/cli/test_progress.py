"""Progress on stderr: nothing of what is short, one line in place on a terminal, lines elsewhere."""

import io
import sys

import pytest

from lfdm_ros.cli import common
from lfdm_ros.cli.common import StatusLine, show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def told(stream: io.StringIO, seconds: int) -> str:
    shown = StatusLine("drive", stream, 100.0)
    for tenth in range(10 * seconds + 1):
        shown.done = f"{tenth // 10} of 60 s driven"
        shown.tick(100.0 + 0.1 * tenth)
    shown.end()
    return stream.getvalue()


def test_elsewhere_a_line_each_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "LINE_PERIOD", 10.0)
    assert told(io.StringIO(), 9) == ""
    lines = told(io.StringIO(), 25).splitlines()
    assert len(lines) == 2 and lines[0].startswith("drive: 10 s, ") and lines[1].startswith("drive: 20 s, ")


def test_a_terminal_has_one_line_that_goes_away() -> None:
    assert told(Terminal(), 2) == ""
    text = told(Terminal(), 5)
    assert "\n" not in text and text.endswith("\r\x1b[K") and text.count("drive: ") > 2


def test_a_command_says_it_and_its_errors_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(common, "FIRST_DELAY", 0.0)
    monkeypatch.setattr(common, "TERMINAL_PERIOD", 0.001)
    with pytest.raises(ValueError, match="spoilt"), show_progress("simulate", lambda: "half"):
        while "simulate: 0 s, half" not in terminal.getvalue():
            pass
        raise ValueError("spoilt")
    assert terminal.getvalue().endswith("\r\x1b[K")
