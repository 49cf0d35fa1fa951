"""Files of the package: vehicles, stacks, recipes, mappings and message definitions."""

import os
import sys
from pathlib import Path

from lfdm_ros.errors import InputError, quote, suggest

_PACKAGE = Path(__file__).resolve().parent


def share_directory() -> Path:
    """Returns the folder of config/, launch/ and msg/.

    In the source tree that is the project's root; installed, it is share/lfdm_ros of the prefix (colcon or Python environment).

    Raises:
        InputError: no such folder; the package is not installed properly.
    """
    candidates = [_PACKAGE.parent]
    candidates += [Path(p) / "share" / "lfdm_ros" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
    candidates.append(Path(sys.prefix) / "share" / "lfdm_ros")
    for candidate in candidates:
        if (candidate / "config" / "vehicles").is_dir() and (candidate / "msg").is_dir():
            return candidate
    looked = ", ".join(map(str, candidates))
    raise InputError(f"lfdm_ros is installed without its config/ and msg/ folders (looked in {looked}); reinstall it")


def config_names(kind: str) -> list[str]:
    """Returns the names of a kind that ship with the package, sorted: stems of the YAML files in its folder below config/."""
    return sorted(path.stem for path in (share_directory() / "config" / kind).glob("*.yaml"))


def find_config(kind: str, name: str | os.PathLike[str]) -> Path:
    """Finds a YAML file of the package, or one given as a path.

    Args:
        kind: the folder below config/, for example "vehicles".
        name: a path to a YAML file, or the stem of one that ships with the package.

    Raises:
        InputError: neither exists; the message lists what does.
    """
    path = Path(name)
    try:
        if path.is_file():
            return path
    except OSError as error:  # a name that is too long, a folder that is closed to us
        raise InputError(f"no {kind} file {quote(str(name))}: {error.strerror}") from None
    folder = share_directory() / "config" / kind
    if not path.suffix and len(path.parts) == 1 and (folder / f"{name}.yaml").is_file():
        return folder / f"{name}.yaml"
    # "config/stacks/simulator.yaml" works from any directory, not only from the project's root.
    if path.parts[:2] == ("config", kind) and (folder / path.name).is_file():
        return folder / path.name
    raise InputError(f"no {kind} file {quote(str(name))}{suggest(path.stem, config_names(kind), 'give a path to a YAML file or one of: ')}")
