"""The folder that keeps compiled code between processes. It cannot go stale: its name is a hash of the sources that can change it."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def cache_directory() -> Path:
    """The folder of compiled code: LFDM_CACHE_DIR, else lfdm_ros below the user's cache, else a temporary one."""
    chosen = os.environ.get("LFDM_CACHE_DIR")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lfdm_ros"
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            return home
    except OSError:
        return Path(tempfile.gettempdir()) / f"lfdm_ros_{os.getuid()}"


@cache
def fingerprint() -> str:
    """Hash of the sources of models and back ends, of Python and of the kind of machine."""
    digest = hashlib.sha256()
    for folder in ("models", "backends"):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    digest.update("|".join((sys.version, platform.machine())).encode())
    return digest.hexdigest()[:20]
