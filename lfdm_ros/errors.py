"""Exceptions of the command line: invalid input, a failed run, a signal to end; their places and reasons, and quoting of values."""

import difflib
import reprlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

QUOTED = 200  # characters of a value that a message quotes at most
_MAX_MESSAGE = 1500  # characters: room for a list of all allowed names
_FEW = 12  # names that are listed beside the nearest one


class InputError(ValueError):
    """Invalid input; the message is one line that names the file, key or line, and the fix.

    The command line prints it on stderr and exits with status 2. A message is always one line of at most 1500 characters: a longer one
    loses its middle.
    """

    def __init__(self, message: str = "") -> None:
        line = " ".join(str(message).split())
        super().__init__(line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE - 303]}...{line[-300:]}")


class RunError(RuntimeError):
    """A failure in a run, which has ended with all its bags closed. The command line exits with status 1.

    Attributes:
        failures: one line each.
        summary: of the run up to its end.
    """

    def __init__(self, failures: Sequence[str], summary: Mapping[str, Any]) -> None:
        super().__init__("; ".join(failures))
        self.failures, self.summary = failures, summary


class Interrupted(KeyboardInterrupt):
    """Termination by a signal. Attribute: status, for the exit."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


class _Repr(reprlib.Repr):
    """`repr` that stops early: the work is bounded as well as the text."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 6
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = self.maxarray = 30
        self.maxstring = self.maxlong = self.maxother = QUOTED

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write out integers of thousands of digits.
        return repr(x) if -sys.float_info.max <= x <= sys.float_info.max else "a number beyond 1e308"

    def repr_dict(self, x: Any, level: int) -> str:
        if not x or level <= 0:
            return "{...}" if x else "{}"
        shown = [f"{self.repr1(key, level - 1)}: {self.repr1(x[key], level - 1)}" for key, _ in zip(x, range(self.maxdict))]
        return f"{{{', '.join(shown + ['...'] * (len(x) > self.maxdict))}}}"


def reason(error: Exception) -> str:
    """Returns the reason of an error of the disk in a few words, without the name of the file; of several files the first."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        return str(error.args[0][0][-1])
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def prefixing(where: object, kind: type[Exception] = InputError) -> Iterator[None]:
    """Converts an error of a kind in the block to an InputError, with the place or action `where` before its reason."""
    try:
        yield
    except kind as error:
        raise InputError(f"{where}: {reason(error)}") from None


def error_text(error: Exception) -> str:
    """Returns the message of an InputError; for other exceptions with the class."""
    return str(error) if isinstance(error, InputError) else repr(error)


def quote(value: Any) -> str:
    """Returns `repr(value)` on one line, of at most 200 characters, for a message."""
    text = _Repr().repr(value)
    return text if len(text) <= QUOTED else f"{text[:QUOTED - 3]}..."


def suggest(name: object, available: Iterable[str], lead: str = "") -> str:
    """Returns the end of a message about an unknown name: the nearest known ones, and after `lead` all where they are few or none is near.

    " (did you mean 'vx'?); choose one of: vx, vy" for suggest("vxx", ("vx", "vy"), "choose one of: ").
    """
    names, name = list(dict.fromkeys(map(str, available))), str(name)[:QUOTED]
    few = len(names) <= _FEW
    near = (difflib.get_close_matches(name, names, 1, 0.6 if few else 0.8) or difflib.get_close_matches(name, names, 3, 0.7)
            or sorted((n for n in names if len(name) > 2 and name in n), key=len)[:3])
    text = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    return text + (f"; {lead}{', '.join(names) or 'none'}" if lead and (few or not near) else "")
