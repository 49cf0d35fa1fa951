"""Starts a program of this package: `python -m lfdm_ros.starting MODULE ARGUMENTS`, as cmake/executable.in does too."""

from __future__ import annotations

import importlib
import os
import signal
import sys


def same_numbers() -> None:
    """Has NumPy, before this process or a child imports it, compute angles, exponentials, logarithms and powers as on processors without
    AVX-512: its code for that differs in the last bit. So a drive is the same on every x86-64 of level 3 (docs/compiler.md).

    Where NPY_DISABLE_CPU_FEATURES is set it stays.
    """
    os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "AVX512F AVX512_SKX X86_V4")  # as NumPy names it until 2.3, and since


def start(module: str, node: bool = True) -> int:
    """Imports a module and runs its `main()`.

    The import takes seconds, in which there is nothing to end: a signal then ends the process at once, without a word.

    Args:
        node: a signal during the import is an exit status of 0, as launch expects; else 130 for SIGINT, 143 for SIGTERM.

    Returns:
        the exit status.
    """
    same_numbers()
    handlers = {number: signal.signal(number, lambda number, frame: os._exit(0 if node else 128 + number))
                for number in (signal.SIGINT, signal.SIGTERM)}
    program = importlib.import_module(module)
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        return int(program.main() or 0)
    except KeyboardInterrupt:  # when it had ended already
        return 0 if node else 130
    finally:
        # The interpreter's own end is not worth a traceback. It may wait for a bag on a disk that hangs, and `kill` then ends it; a node
        # is ended for good by who has started it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if node else signal.SIG_DFL)


def lfdm() -> int:
    """The command `lfdm`."""
    return start("lfdm_ros.cli.main", node=False)


if __name__ == "__main__":
    del sys.argv[0]  # the program's own name takes its place
    sys.exit(start(sys.argv[0]))
