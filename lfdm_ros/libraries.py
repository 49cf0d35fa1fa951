"""Libraries with special import handling."""

import importlib
import sys
import time
from typing import Any

_TRIES, _PAUSE = 5, 0.1  # [s]


def arviz() -> Any:
    """Imports ArviZ, again where it fails: its first import of a day writes a file, which collides with other processes."""
    for left in reversed(range(_TRIES)):
        try:
            return importlib.import_module("arviz")
        except FileNotFoundError:
            if not left:
                raise
            for name in [name for name in sys.modules if name.partition(".")[0] == "arviz"]:
                del sys.modules[name]
            time.sleep(_PAUSE)
    raise AssertionError
