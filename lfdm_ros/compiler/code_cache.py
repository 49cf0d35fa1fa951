"""Persistent cache of compiled code and other expensive results.

Entries cannot go stale: their names are hashes of the sources that affect them. The folder is optional: results that cannot be stored are
recomputed by the next process, with one warning on stderr.
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

AGE = 30 * 86400.0  # s without use after which code of other sources is removed
SIZE = 10**9  # bytes of code of other sources that remain
_CHECK = hashlib.sha256().digest_size
_FINGERPRINT = re.compile("[0-9a-f]{20}")


def cache_directory() -> Path:
    """Returns the folder of compiled code: LFDM_CACHE_DIR, else lfdm_ros in the user's cache, else a temporary one, with a warning.

    Its files are executed, so only this user owns it and can write to it.
    """
    # The XDG rule in three lines; platformdirs has it too, but checks neither owner nor permissions.
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
    """Returns a temporary folder of this user or, if its name is taken by another, of this process."""
    folder = parent / f"lfdm_ros_{os.geteuid()}"
    try:
        _claim(folder, True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="lfdm_ros_"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _claim(folder: Path, ours: bool) -> None:
    """Creates a private folder, or checks an existing one; `ours`: dedicated folder, whose mode may be set. Raises OSError: it belongs to
    another user, or others can write to it."""
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
    """Returns the folder of a fingerprint below `home`, private. If it is new, old ones are removed. Raises OSError: it cannot be created,
    or is not private."""
    folder = home / name
    new = not folder.is_dir()
    _claim(folder, True)
    os.utime(folder)  # to identify unused ones
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


def cached(name: str, make: Callable[[], bytes]) -> bytes:
    """Returns the content of a name, or else the result of `make`, which is stored until the sources change; warns if that fails."""
    home = cache_directory()
    try:
        data = (_folder(home, fingerprint()) / name).read_bytes()
    except OSError:
        data = b""
    # The checksum before the data rejects truncated or changed files.
    check, content = data[:_CHECK], data[_CHECK:]
    if not content or hashlib.sha256(content).digest() != check:
        content = make()
        _store(home, name, content)
    return content


def _store(home: Path, name: str, data: bytes) -> None:
    try:
        path = _folder(home, fingerprint()) / name
        path.parent.mkdir(mode=0o700, exist_ok=True)  # the cache may have been emptied meanwhile
        # Written beside and renamed, so that two processes starting together never read half a file.
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
            os.replace(scratch, path)
        except OSError:  # remove the partial file from a full disk
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
