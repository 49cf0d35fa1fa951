"""Modules that a key of results must have."""

from collections.abc import Iterable

from lfdm_ros import cache_key

# Of these no result depends: how files are found and kept, errors told, work handed out, and the ways in from outside, which have keys of
# their own; and how pictures are saved.
HARMLESS = {"", "errors", "files", "resources", "plugins", "cache_key", "scheduling", "libraries", "reports"}


def missing(used: Iterable[str], dependencies: Iterable[str]) -> set[str]:
    """Returns modules of the package, such as "control.path", that are used and missing in `dependencies`, all of which exist."""
    counted = {room.replace("/", ".") for room in dependencies}
    assert all((cache_key.PACKAGE / room).is_dir() or (cache_key.PACKAGE / f"{room}.py").is_file() for room in dependencies)
    return {name for name in set(used) - HARMLESS if not {name, name.split(".")[0]} & counted}
