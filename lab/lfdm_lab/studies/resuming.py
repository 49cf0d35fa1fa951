"""Work of a study that resumes where it was interrupted: finished results are kept, with a hash of all that they depend on."""

import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path as File
from typing import Any, TypeVar

from lfdm_ros.errors import InputError
from lfdm_ros.scheduling import Scheduler

KEPT = "runs.jsonl"
Item = TypeVar("Item")


def carry_out(items: Sequence[Item], work: Callable[[Item], dict[str, Any]], key: Callable[[Item], str], scheduler: Scheduler,
              found: dict[int, dict[str, Any]], folder: File | None = None,
              progress: Callable[[int, int, float], None] | None = None) -> None:
    """Works on all items; the results are in `found` by number, also when this is interrupted.

    Args:
        work: makes JSON of an item, in another process perhaps.
        key: hash of all that its result depends on.
        folder: results are kept here, and taken from here where nothing that they depend on has changed; None: nothing is kept.
        progress: called with items done, all of them, and the seconds left (nan: unknown).

    Raises:
        InputError: as `work`, or the folder cannot be written to.
    """
    keys = [key(item) for item in items]
    file = None
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            kept, whole = _kept(folder / KEPT)
            file = (folder / KEPT).open("a", encoding="utf-8")
            if not whole:  # what comes next would be lost with it
                file.write("\n")
        except OSError as error:
            raise InputError(f"cannot write to {folder}: {error.strerror or error}") from None
        found |= {i: kept[key] for i, key in enumerate(keys) if key in kept}
    missing = [i for i in range(len(items)) if i not in found]
    began = time.perf_counter()
    try:
        if progress is not None and found:
            progress(len(found), len(items), math.nan)
        for done, (number, result) in enumerate(scheduler.map(work, [items[i] for i in missing]), 1):
            # As it will be read again.
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
                progress(len(found), len(items), (time.perf_counter() - began) / done * (len(missing) - done))
    finally:
        if file is not None:
            with suppress(OSError):  # already reported
                file.close()


def _kept(path: File) -> tuple[dict[str, dict[str, Any]], bool]:
    """Returns the kept results by key, and True if the last line of the file is whole."""
    kept = {}
    text = path.read_bytes() if path.is_file() else b""
    for line in text.splitlines():
        try:
            row = json.loads(line)
            kept[row["key"]] = row["result"]
        except (ValueError, KeyError, TypeError):  # not whole: killed while it was written
            continue
    return kept, not text or text.endswith(b"\n")
