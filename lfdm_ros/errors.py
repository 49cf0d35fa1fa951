"""Exceptions that the command line knows: input that cannot be used, a run in which something failed, a signal to end."""

from collections.abc import Mapping, Sequence
from typing import Any


class InputError(ValueError):
    """Bad input from a person or a file; the message is one line that names the file, key or line, and the fix.

    The command line prints it on stderr and exits with status 2.
    """


class RunError(RuntimeError):
    """Something failed in a run that has ended since, with all its bags closed. The command line exits with status 1.

    Attributes:
        failures: one line each.
        summary: what the run came to nevertheless.
    """

    def __init__(self, failures: Sequence[str], summary: Mapping[str, Any]) -> None:
        super().__init__("; ".join(failures))
        self.failures, self.summary = failures, summary


class Interrupted(KeyboardInterrupt):
    """A signal has asked to end. Attribute: status, to exit with."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status
