"""Folder that keeps compiled code, and other results that take long to make, between processes.

Entries cannot go stale: their names are hashes of the sources that can change them. Work never depends on the folder: what cannot be
stored is made again by the next process, and one line on stderr says so.
"""

import atexit
import contextlib
import errno
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from lfdm_ros.cache_key import package_digest

AGE = 30 * 86400.0  # s without use after which code of other sources goes
SIZE = 10**9  # bytes of code of other sources that are kept
_CHECK = hashlib.sha256().digest_size
_FINGERPRINT = re.compile("[0-9a-f]{20}")


def cache_directory() -> Path:
    """Returns the folder of compiled code: LFDM_CACHE_DIR, else lfdm_ros in the user's cache, else a temporary one, with a warning.

    Its files are executed, so it belongs to this user, and nobody else can write to it.
    """
    # Three lines of the XDG rule; platformdirs has it too, but looks neither at the owner nor at who can write.
    chosen = os.environ.get("LFDM_CACHE_DIR")
    if chosen:
        return _usable(Path(chosen), False)
    try:
        user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # nobody's home
        return _temporary(Path(tempfile.gettempdir()))
    return _usable(user / "lfdm_ros", True)


@cache
def _usable(folder: Path, ours: bool) -> Path:
    try:
        _claim(folder, ours)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        other = _temporary(Path(tempfile.gettempdir()))
        print(f"warning: compiled code is not kept in {folder} ({error.strerror or error}) but in {other}; make it a folder of your own, "
              "or set LFDM_CACHE_DIR to one", file=sys.stderr)
        return other


@cache
def _temporary(parent: Path) -> Path:
    """Returns a temporary folder of this user where nobody has taken its name, else of this process."""
    folder = parent / f"lfdm_ros_{os.geteuid()}"
    try:
        _claim(folder, True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="lfdm_ros_"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _claim(folder: Path, ours: bool) -> None:
    """Makes a private folder, or makes sure that the one there is; `ours`: it is for nothing else, so its mode may be set. Raises OSError:
    it belongs to another user, or others can write to it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place, found = folder.lstat(), folder.stat()  # a link may lead there, if it is ours too
    if not place.st_uid == found.st_uid == os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user")
    if found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "others can write to it")
    if ours and found.st_mode & 0o077:
        folder.chmod(0o700)


@cache
def _folder(home: Path, name: str) -> Path:
    """Returns the folder of a fingerprint below `home`, private. Where it is new, old ones go. Raises OSError: it cannot be made, or is not
    private."""
    folder = home / name
    new = not folder.is_dir()
    _claim(folder, True)
    os.utime(folder)  # by which those that nobody uses are known
    if new:
        _prune(home, folder)
    return folder


def _prune(home: Path, present: Path) -> None:
    """Removes the folders of other fingerprints that nobody has used for AGE, and the oldest of the others beyond SIZE."""
    others = []
    with contextlib.suppress(OSError):
        for folder in home.iterdir():
            if _FINGERPRINT.fullmatch(folder.name) and folder != present:
                with contextlib.suppress(OSError):  # another process removes it, too
                    others.append((folder.stat().st_mtime, sum(file.stat().st_size for file in folder.iterdir()), folder))
    total = 0
    for used, size, folder in sorted(others, reverse=True):
        total += size
        if time.time() - used > AGE or total > SIZE:
            shutil.rmtree(folder, ignore_errors=True)


def stored(name: str) -> bytes | None:
    """Returns the content that `store` wrote under a name; None if there is nothing, or not as it was written."""
    try:
        data = (_folder(cache_directory(), fingerprint()) / name).read_bytes()
    except OSError:
        return None
    # A checksum before the data: half a file, or a changed one, is made again instead of used.
    check, kept = data[:_CHECK], data[_CHECK:]
    return kept if kept and hashlib.sha256(kept).digest() == check else None


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """Returns the content of a name; where there is none, what `make` gives, which is stored."""
    data = stored(name)
    if data is None:
        data = make()
        store(name, data)
    return data


def store(name: str, data: bytes) -> None:
    """Keeps data under a name, for as long as the sources stay as they are; says so where that cannot be."""
    home = cache_directory()
    try:
        path = _folder(home, fingerprint()) / name
        path.parent.mkdir(mode=0o700, exist_ok=True)  # somebody may have emptied the cache meanwhile
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
        _warn(home, error.strerror or str(error))


@cache  # once for each folder and reason
def _warn(folder: Path, reason: str) -> None:
    print(f"warning: compiled code cannot be kept in {folder} ({reason}) and is made again each time; make room there, or set "
          "LFDM_CACHE_DIR to another folder", file=sys.stderr)


@cache
def fingerprint() -> str:
    """Returns the hash of the sources of models, back ends and compiler, of Python and the kind of machine. Equations from outside have
    their own."""
    return hashlib.sha256((package_digest(("models", "backends", "compiler")) + platform.machine()).encode()).hexdigest()[:20]
