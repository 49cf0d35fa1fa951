"""Files that are whole or not there, also on a disk that fills up."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BLOCK = 1 << 20  # bytes of a file that are hashed together


def content_digest(paths: Iterable[Path]) -> str:
    """SHA-256 of the contents of files, one after the other, in hexadecimal. Raises OSError as the disk does."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; at the end it takes the place of `path`. What fails leaves nothing behind and `path` as it was.

    A device or a pipe, which has no place to take, is written as it is; a link stays one. An OSError of what is written names `path`.
    """
    given, path = path, path.resolve()
    whole = path.is_file() or not path.exists()
    partial = path.with_name(f".{path.name}.partial") if whole else path
    try:
        yield partial
        if whole:
            partial.replace(path)
    except BaseException as error:
        if whole:
            with suppress(OSError):
                partial.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(partial)):  # a write that fails names no file by itself
            error.filename, error.filename2 = str(given), None
        raise


def write_text(path: Path, text: str) -> None:
    """Writes a text, whole or not at all. Raises OSError as the disk does."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


def reason(error: Exception) -> str:
    """Why the disk refused, in a few words and without the name of the file; of several files the first."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        return str(error.args[0][0][-1])
    return getattr(error, "strerror", None) or str(error)
