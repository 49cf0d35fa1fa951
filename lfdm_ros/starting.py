"""Starts a program of this package: `python -m lfdm_ros.starting MODULE ARGUMENTS`, as cmake/executable.in does too."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from functools import partial


def disable_avx512() -> None:
    """Disables NumPy's code for AVX-512, before this process or a child imports NumPy: its angles, exponentials, logarithms and powers
    differ in the last bit. So a drive is the same on every x86-64 of level 3 (docs/concepts/compiler.md).

    Where NPY_DISABLE_CPU_FEATURES is set it stays.
    """
    os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "AVX512F AVX512_SKX X86_V4")  # as NumPy names it until 2.3, and since


def start(module: str, node: bool = True) -> int:
    """Imports a module and runs its `main()`, or, where it has none, the node that it defines.

    The import takes seconds, in which there is nothing to shut down: a signal then ends the process silently at once.

    Args:
        node: a signal during the import is an exit status of 0, as launch expects; else 130 for SIGINT, 143 for SIGTERM.

    Returns:
        the exit status.
    """
    disable_avx512()
    handlers = {number: signal.signal(number, lambda number, frame: os._exit(0 if node else 128 + number))
                for number in (signal.SIGINT, signal.SIGTERM)}
    program = importlib.import_module(module)
    main = getattr(program, "main", None)
    if main is None:
        runtime = importlib.import_module("lfdm_ros.ros.runtime")
        main = partial(runtime.run_node, runtime.node_in(program))
    for number, handler in handlers.items():
        signal.signal(number, handler)
    try:
        return int(main() or 0)
    except KeyboardInterrupt:  # after its end
        return 0 if node else 130
    finally:
        # No traceback at the interpreter's own end. It may wait for a bag on a disk that hangs, and `kill` then ends it; a node is
        # killed by its parent.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if node else signal.SIG_DFL)


def lfdm() -> int:
    """Runs the command `lfdm`."""
    return start("lfdm_ros.cli.main", node=False)


if __name__ == "__main__":
    del sys.argv[0]  # the program's own name takes its place
    sys.exit(start(sys.argv[0]))
