"""Plug-ins of other packages and files: tyres, powertrains, chassis, models and more, loaded once, at the first look-up.

An installed package names an object, or a function that registers several, in an entry point:

    [project.entry-points."lfdm_ros.tyres"]
    brush = "my_tyres:BRUSH"

A file or module that registers by calls needs no installation: LFDM_PLUGINS lists files (my_tyre.py) and modules, separated as PATH is.
"""

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

from lfdm_ros.errors import InputError, quote, suggest

VARIABLE = "LFDM_PLUGINS"
T = TypeVar("T")

_loaded: set[str] = set()  # groups, and the variable: a look-up by a plug-in while it is loaded does not load it again


_makers: list[Callable[..., Any]] = []


def makers() -> tuple[Callable[..., Any], ...]:
    """Returns the functions of all registered plug-ins."""
    return tuple(_makers)


class Registry(Mapping[str, T]):
    """Entries by name in the order in which they were registered; plug-ins are loaded before the first look."""

    def __init__(self, load_plugins: Callable[[], None], *entries: Any):
        """Registers the named `entries` of this package."""
        self._load = load_plugins
        self.registered: dict[str, T] = {entry.name: entry for entry in entries}

    def add(self, entry: Any, maker: Callable[..., Any]) -> None:
        """Adds an entry; `maker`: its function. Its source is part of cache keys, unless it is of this package, whose rooms keys name."""
        self.registered[entry.name] = entry
        if getattr(maker, "__module__", "").partition(".")[0] != __package__:
            _makers.append(maker)

    def __getitem__(self, name: str) -> T:
        self._load()
        return self.registered[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(tuple(self.registered))

    def __len__(self) -> int:
        self._load()
        return len(self.registered)


class Door(Registry[T]):
    """A registry that other packages add to by an entry-point group: objects of one class, each with a name."""

    def __init__(self, noun: str, group: str, kind: Any, maker: str, *entries: T):
        """Registers the entries of this package.

        Args:
            noun: of messages, as "sensor".
            maker: attribute of an entry with the function on whose source results depend.
        """
        super().__init__(lambda: load({group: self.register}), *entries)
        self._noun, self._kind, self._maker = noun, kind, maker

    def register(self, entry: T) -> None:
        """Registers an entry by its name. Raises InputError: another class, or a name that is taken or invalid."""
        if not isinstance(entry, self._kind):
            package = ".".join(self._kind.__module__.split(".")[:2])
            raise InputError(f"{entry!r} is no {self._noun}; register a {self._kind.__name__} of {package}")
        name: Any = entry.name
        if not (isinstance(name, str) and name.isidentifier()):
            raise InputError(f"{self._noun} {name!r}: no name; use letters, digits and _, beginning with a letter")
        if self.registered.get(name, entry) is not entry:
            raise InputError(f"{self._noun} '{name}' is registered already; choose another name")
        self.add(entry, getattr(entry, self._maker))

    def find(self, name: str, where: str = "") -> T:
        """Returns the entry of a name. Raises InputError for an unknown one; `where` leads the message."""
        if name not in self:
            raise InputError(f"{where and where + ': '}{self._noun} {quote(name)} is unknown{suggest(name, self, 'choose one of: ')}")
        return self[name]


def load(groups: Mapping[str, Callable[[Any], None]]) -> None:
    """Imports the modules of LFDM_PLUGINS and the entry points of `groups`, once; objects go to the function of their group.

    An installed plug-in that fails is left out with a warning and its reason, since it may not concern this run.

    Raises:
        InputError: a file or module of LFDM_PLUGINS fails; names it.
    """
    if VARIABLE not in _loaded:
        _loaded.add(VARIABLE)
        for name in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
            _import(name)
    for group, register in groups.items():
        if group in _loaded:
            continue
        _loaded.add(group)
        for entry in entry_points(group=group):
            try:
                found = entry.load()
                if hasattr(found, "name") or isinstance(found, type):
                    register(found)
                else:
                    found()
            except Exception as error:  # plug-ins may raise anything
                warnings.warn(f"plug-in {entry.name} = {entry.value} of {group} is left out: {error}", RuntimeWarning, stacklevel=2)


def _import(name: str) -> None:
    try:
        if not name.endswith(".py"):
            importlib.import_module(name)
            return
        path = Path(name).expanduser().resolve()
        module = f"lfdm_ros_plugin_{path.stem}"
        spec = importlib.util.spec_from_file_location(module, path)
        assert spec is not None and spec.loader is not None
        sys.modules[module] = made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
    except InputError as error:
        raise InputError(f"{VARIABLE}: {name}: {error}") from None
    except Exception as error:
        raise InputError(f"{VARIABLE}: {name} cannot be loaded: {type(error).__name__}: {error}") from None
