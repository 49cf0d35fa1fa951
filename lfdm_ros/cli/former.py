"""Options' former names: hidden, taken for one release more, with a line on stderr that has the new one."""

from __future__ import annotations

import argparse
import sys
from typing import Any


def add_former(parser: argparse.ArgumentParser, former: str, option: str, **kwargs: Any) -> None:
    """Adds the former name of an option that the parser has; `kwargs` are those of `add_argument` that read its value."""
    parser.add_argument(former, dest=option.lstrip("-").replace("-", "_"), action=_Former, help=argparse.SUPPRESS,
                        default=argparse.SUPPRESS, option=option, **kwargs)


class _Former(argparse.Action):
    def __init__(self, *args: Any, option: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._option = option

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        print(f"warning: {option_string} is {self._option} now; the next release takes the new name only", file=sys.stderr)
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, [*before, values] if isinstance(before, list) else values)
