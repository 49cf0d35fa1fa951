"""The folder that keeps compiled code, and what else takes long to make, between processes.

What it keeps cannot go stale: its name is a hash of the sources that can change it. Work never depends on it: what cannot be kept is
made again by the next process, and one line on stderr says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import tempfile
from functools import cache
from pathlib import Path

from lfdm_ros.sources import package_digest

_CHECK = hashlib.sha256().digest_size


def cache_directory() -> Path:
    """The folder of compiled code: LFDM_CACHE_DIR, else lfdm_ros below the user's cache, else a temporary one."""
    chosen = os.environ.get("LFDM_CACHE_DIR")
    try:
        home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lfdm_ros"
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except (OSError, RuntimeError):  # RuntimeError: nobody's home
        return Path(tempfile.gettempdir()) / f"lfdm_ros_{os.getuid()}"


def stored(name: str) -> bytes | None:
    """What `store` kept under a name; None if there is nothing, or not as it was written."""
    try:
        data = _file(name).read_bytes()
    except OSError:
        return None
    # A checksum before the data: half a file, or a changed one, is made again instead of used.
    check, kept = data[:_CHECK], data[_CHECK:]
    return kept if kept and hashlib.sha256(kept).digest() == check else None


def store(name: str, data: bytes) -> None:
    """Keeps data under a name, for as long as the sources stay as they are; says so where that cannot be."""
    path = _file(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed, so that two processes starting together never read half a file.
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(scratch, path)
        except OSError:  # a full disk must not stay full of what nobody will read
            with contextlib.suppress(OSError):
                os.unlink(scratch)
            raise
    except OSError as error:
        _warn(path.parent.parent, error.strerror or str(error))


@cache  # once for each folder and reason
def _warn(folder: Path, reason: str) -> None:
    print(f"warning: compiled code cannot be kept in {folder} ({reason}) and is made again each time; make room there, or set "
          "LFDM_CACHE_DIR to another folder", file=sys.stderr)


def _file(name: str) -> Path:
    return cache_directory() / fingerprint() / name


@cache
def fingerprint() -> str:
    """Hash of the sources of models, back ends and compiler, of Python and the kind of machine. Equations from outside have their own."""
    return hashlib.sha256((package_digest(("models", "backends", "compiler")) + platform.machine()).encode()).hexdigest()[:20]
