"""Resumable studies: finished results are stored with a hash of all that they depend on."""

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path as File
from typing import Any, TypeVar

from lfdm_ros.errors import InputError
from lfdm_ros.scheduling import Scheduler

RESULTS = "runs.jsonl"
Item = TypeVar("Item")


def carry_out(items: Sequence[Item], work: Callable[[Item], dict[str, Any]], key: Callable[[Item], str], scheduler: Scheduler,
              found: dict[int, dict[str, Any]], folder: File | None = None,
              progress: Callable[[int, int, float], None] | None = None) -> None:
    """Works on all items; `found` has the results by number, also after an interruption.

    Args:
        work: returns the result of an item as JSON; may run in another process.
        key: returns a hash of all that the result depends on.
        folder: results are stored here, and reused if their key is unchanged; None: not stored.
        progress: called with finished items, all items, and the seconds left (nan: unknown).

    Raises:
        InputError: from `work`, or the folder cannot be written to.
    """
    keys = [key(item) for item in items]
    file = None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stored, complete = _stored(folder / RESULTS)
            file = (folder / RESULTS).open("a", encoding="utf-8")
            if not complete:  # else the next line would be lost with this one
                file.write("\n")
        except OSError as error:
            raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None
        found |= {i: stored[key] for i, key in enumerate(keys) if key in stored}
    missing = [i for i in range(len(items)) if i not in found]
    started = time.perf_counter()
    try:
        if progress is not None and found:
            progress(len(found), len(items), math.nan)
        for done, (number, result) in enumerate(scheduler.map(work, [items[i] for i in missing]), 1):
            # The same value as from a stored result.
            text = json.dumps(result)
            found[missing[number]] = json.loads(text)
            if file is not None:
                try:
                    file.write(json.dumps({"key": keys[missing[number]]})[:-1] + f', "result": {text}}}\n')
                    file.flush()
                except OSError as error:
                    raise InputError(f"cannot write to {folder}: {error.strerror or error}; start again where there is room, what is done "
                                     "is kept") from None
            if progress is not None:
                progress(len(found), len(items), (time.perf_counter() - started) / done * (len(missing) - done))
    finally:
        if file is not None:
            with suppress(OSError):  # already reported
                file.close()


def _stored(path: File) -> tuple[dict[str, dict[str, Any]], bool]:
    """Returns the stored results by key, and True if the last line of the file is complete."""
    stored = {}
    text = path.read_bytes() if path.is_file() else b""
    for line in text.splitlines():
        try:
            row = json.loads(line)
            stored[row["key"]] = row["result"]
        except (ValueError, KeyError, TypeError):  # incomplete: killed while writing
            continue
    return stored, not text or text.endswith(b"\n")
