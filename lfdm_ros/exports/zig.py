"""Compilers and linkers that an export calls: this machine's, or zig of the extra `export`."""

import importlib.util
import subprocess
import sys
from collections.abc import Sequence

from lfdm_ros.errors import InputError


def zig(purpose: str) -> list[str]:
    """Returns the command of zig. Raises InputError, which begins with the purpose: the extra is missing."""
    if importlib.util.find_spec("ziglang") is None:
        raise InputError(f"{purpose} needs the package ziglang, a compiler (the extra 'export'): pip install ziglang")
    return [sys.executable, "-m", "ziglang"]


def build(command: Sequence[object], purpose: str) -> None:
    """Runs a compiler or linker. Raises InputError: it fails; with its first line about an error."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip() or f"status {done.returncode}")
        raise InputError(f"{purpose}: {command[0]} fails: {said}")
