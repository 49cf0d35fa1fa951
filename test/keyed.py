"""Modules that a key of results must have."""

from __future__ import annotations

from collections.abc import Iterable

from lfdm_ros import sources

# Of these no result depends: how files are found and kept, errors told, work handed out, and the ways in from outside, which have keys of
# their own; and how pictures are saved.
HARMLESS = {"", "errors", "figures", "files", "resources", "plugins", "sources", "scheduling", "libraries", "page"}


def missing(used: Iterable[str], made_by: Iterable[str]) -> set[str]:
    """Returns modules of the package, such as "control.path", that are used and not in the rooms and modules `made_by`; these exist."""
    counted = {room.replace("/", ".") for room in made_by}
    assert all((sources.PACKAGE / room).is_dir() or (sources.PACKAGE / f"{room}.py").is_file() for room in made_by)
    return {name for name in set(used) - HARMLESS if not {name, name.split(".")[0]} & counted}
