"""Files written whole or not at all, also on a full disk."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BLOCK = 1 << 20  # bytes of a file that are hashed together


def content_digest(paths: Iterable[Path]) -> str:
    """Returns the SHA-256 of the contents of files, one after the other, in hexadecimal. Raises OSError."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to, which replaces `path` at the end. A failure leaves nothing behind and `path` unchanged.

    A device or a pipe, which cannot be replaced, is written directly; a link stays one. An OSError names `path`.
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
    """Writes a text, whole or not at all. Raises OSError."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
