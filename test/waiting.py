"""Waiting for what comes about by itself."""

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], what: str = "the condition", seconds: float = 240.0) -> Any:
    """Returns what a condition gives once it holds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not come about in {seconds:g} s"
        time.sleep(0.05)
    return found
