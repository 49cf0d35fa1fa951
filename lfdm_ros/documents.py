"""Reading of documents, YAML, JSON and XML: every failure is an InputError that names file and key.

A document has at most MAX_LENGTH characters, also with its aliases written out, MAX_DEPTH levels of nesting, and no integer beyond
1e308, so that its readers may walk over it, convert it and quote it without care. Dates are texts, and tags other than those of YAML's core
are refused.

By hand, not by pydantic or msgspec: a mistake is one line with file, key, unit and fix, into which their errors would have to be translated
one by one; and the bounds above apply while reading, before there is anything to validate.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.resources import find_config
from lfdm_ros.units import to_si

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_LENGTH = 1_000_000
MAX_DEPTH = 50
MAX_LEVELS = 100  # of elements of XML within elements
MAX_GENERATED_LENGTH = 100_000_000  # bytes of a file written by a program
_MAX_INTEGER_LENGTH = 400  # characters, in any base

_CORE = ("null", "bool", "int", "float", "str", "seq", "map")
_TAG = "tag:yaml.org,2002:"


_Reader: Any = yaml.SafeLoader
if yaml.__with_libyaml__:
    class _LibyamlReader(yaml.composer.Composer, yaml.CSafeLoader):
        """Events from libyaml, in a fifth of the time; nodes are composed here, where `_Loader` counts them."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            yaml.composer.Composer.__init__(self)

    _Reader = _LibyamlReader


class _Loader(_Reader):
    """PyYAML's safe loader within the bounds above; raises only YAMLError."""

    yaml_constructors = {tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items()
                         if tag is None or tag in [_TAG + kind for kind in _CORE]}
    yaml_implicit_resolvers = {first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
                               for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._size = 0
        # Aliases expand beyond the length of the text, so count nodes. At most every second one may be empty.
        self._largest = MAX_LENGTH if len(text) <= MAX_LENGTH else 2 * len(text)
        self._sizes: dict[str, int] = {}  # of anchors, aliases written out

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys:
                    text = f"key {quote(key.value)} is there twice; leave one out"
                    raise yaml.constructor.ConstructorError(None, None, text, key.start_mark)
                keys.add((key.tag, key.value))
        return super().construct_mapping(node, deep)

    def compose_node(self, parent: Any, index: Any) -> Any:
        event, before = self.peek_event(), self._size
        alias = isinstance(event, yaml.AliasEvent)
        if alias and event.anchor in self.anchors and event.anchor not in self._sizes:
            raise yaml.composer.ComposerError(None, None, f"anchor {quote(event.anchor)} holds itself", event.start_mark)
        self._size += self._sizes.get(event.anchor, 0) if alias else 1 + len(getattr(event, "value", ""))
        if self._size > self._largest:
            raise yaml.composer.ComposerError(None, None, f"with its aliases written out it has more than {self._largest} characters",
                                              event.start_mark)
        if self._depth >= MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"more than {MAX_DEPTH} levels", event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if not alias and event.anchor is not None:
            self._sizes[event.anchor] = self._size - before
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        tag = node.tag.removeprefix(_TAG)
        integer = tag == "int" and isinstance(node, yaml.ScalarNode)
        if integer and len(node.value) > _MAX_INTEGER_LENGTH:
            raise yaml.constructor.ConstructorError(None, None, f"a number of {len(node.value)} digits", node.start_mark)
        try:
            value = super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):  # from conversions of an explicit tag
            raise yaml.constructor.ConstructorError(None, None, f"{quote(node.value)} is no {tag}", node.start_mark) from None
        if integer and _too_large(value):
            raise yaml.constructor.ConstructorError(None, None, "a number beyond 1e308", node.start_mark)
        return value


def parse_yaml(text: str, where: str, largest: int = MAX_LENGTH) -> Any:
    """Returns the document in a text. Raises InputError: it is not YAML, or beyond the bounds of this module; `where` leads the message."""
    if len(text) > largest:
        raise InputError(f"{where}: longer than {largest} characters")
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = " ".join(quote(part)[1:-1] for part in (error.context, error.problem) if part)
        raise InputError(f"{where}: not readable YAML: {place}{problem}") from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # libyaml takes no halves of characters
        raise InputError(f"{where}: not readable YAML: {quote(str(error))[1:-1]}") from None


def parse_json(text: str, where: str, pairs: Callable[[Sequence[tuple[str, Any]]], Any] | None = None) -> Any:
    """Returns the document in a text; `pairs` makes its objects. Raises InputError: it is not JSON, or beyond the bounds of this module;
    `where` leads the message."""
    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_int=_integer)
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{where}: not readable JSON: more than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InputError(f"{where}: not readable JSON: {quote(str(error))[1:-1]}") from None
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for node in level if isinstance(node, (list, dict)) for child in (node.values() if isinstance(node, dict) else node)]
        if not level:
            return value
    raise InputError(f"{where}: not readable JSON: more than {MAX_DEPTH} levels")


def read_text(path: Path, kind: str, largest: int = MAX_LENGTH) -> str:
    """Returns the text of a file of at most `largest` bytes; `kind` names it in messages. Raises InputError: it cannot be read, is no text
    or too long."""
    try:
        with path.open("rb") as file:
            data = file.read(largest + 1)
        if len(data) <= largest:
            return data.decode("utf-8")
        problem = f"longer than {largest} bytes"
    except FileNotFoundError:
        problem = ""
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path with a NUL
        problem = quote(error.strerror or str(error) if isinstance(error, OSError) else str(error))[1:-1]
    raise InputError(f"{path}: not readable {kind}: {problem}" if problem else f"{path}: no such file, which should be {kind}")


def read_yaml(path: Path, largest: int = MAX_LENGTH) -> tuple[Any, str]:
    """Returns the document of a file and its text, of at most `largest` characters. Raises InputError: the file cannot be read, is not
    YAML, or beyond the bounds of this module."""
    text = read_text(path, "YAML", largest)
    return parse_yaml(text, str(path), largest), text


def of_config(kind: str, source: str | os.PathLike[str] | Mapping[str, Any], called: str) -> tuple[Any, str]:
    """Returns the content of a file of config/`kind`, by name or path, or a given mapping; and its name in messages, which without a file
    is `called`. Raises InputError: as `find_config` and `read_yaml`."""
    if isinstance(source, Mapping):
        return source, called
    path = find_config(kind, source)
    return read_yaml(path)[0], str(path)


def read_json(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file written by a program. Raises InputError: the file cannot be read, holds no JSON object, or is
    beyond the bounds of this module."""
    content = parse_json(read_text(path, "JSON", MAX_GENERATED_LENGTH), str(path))
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object")
    return content


class _Refused(Exception):
    """Raised within a handler of expat."""


def parse_xml(data: bytes, where: str) -> "Element":
    """Parses XML without a document type, so that no entity is ever declared; tags are local names. Raises InputError: it is none, or has
    more than MAX_LEVELS levels; `where` leads the message."""
    # Here, since every command reads YAML and few read XML.
    from xml.etree.ElementTree import TreeBuilder
    from xml.parsers import expat

    builder, parser, level = TreeBuilder(), expat.ParserCreate(namespace_separator=" "), 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal level
        level += 1
        if level > MAX_LEVELS:
            raise _Refused(f"more than {MAX_LEVELS} levels")
        builder.start(tag.rpartition(" ")[2], {key.rpartition(" ")[2]: value for key, value in attributes.items()})

    def end(tag: str) -> None:
        nonlocal level
        level -= 1
        builder.end(tag.rpartition(" ")[2])

    def refuse(*_: Any) -> None:
        raise _Refused("a document type, which may declare entities; leave it out")

    parser.StartElementHandler, parser.EndElementHandler, parser.StartDoctypeDeclHandler = start, end, refuse
    parser.CharacterDataHandler = builder.data
    try:
        parser.Parse(data, True)
        return builder.close()
    except (expat.ExpatError, _Refused, ValueError, LookupError) as error:
        raise InputError(f"{where}: not readable XML: {quote(str(error))[1:-1]}") from None


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) <= _MAX_INTEGER_LENGTH else None
    if value is None or _too_large(value):
        raise ValueError("a number beyond 1e308")
    return value


def _too_large(value: int) -> bool:
    return not -sys.float_info.max <= value <= sys.float_info.max


def mapping(node: Any, where: str, required: Iterable[str] = (), optional: Iterable[str] = (),
            hints: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns `node` as a mapping with all required keys and no others than those and the optional ones. Raises InputError: it is not;
    `hints`: ends of the message by unknown key, instead of the nearest known ones."""
    required = tuple(required)
    allowed = (*required, *optional)
    if not isinstance(node, dict):
        raise InputError(f"{where}: expected a mapping with {', '.join(map(str, allowed))}, found {quote(node)}")
    for key in node:
        if key not in allowed:
            raise InputError(f"{where}: unknown key {quote(key)}" + ((hints or {}).get(key) or suggest(key, allowed, "allowed: ")))
    for key in required:
        if node.get(key) is None:
            raise InputError(f"{where}: missing key '{key}'")
    return dict(node)


def numbers(node: Any, where: str, required: Iterable[str] = (), optional: Iterable[str] = ()) -> dict[str, float]:
    """Returns `node` as a mapping of finite numbers. Raises InputError: as `mapping` and `number`."""
    return {key: number(value, f"{where}: {key}") for key, value in mapping(node, where, required, optional).items()}


def entries(node: Any, where: str, form: str, least: int = 0) -> list[tuple[str, Any]]:
    """Returns the entries of a list, each after its place. Raises InputError: no list, or less than `least`; `form`: of its entries."""
    if not isinstance(node, list) or len(node) < least:
        raise InputError(f"{where}: give a list of {form}")
    return [(f"{where}[{i}]", entry) for i, entry in enumerate(node)]


def interval(node: Any, where: str) -> tuple[float, float]:
    """Returns the two ends [m] of an interval. Raises InputError: it is written otherwise, or empty."""
    if not isinstance(node, list) or len(node) != 2:
        raise InputError(f"{where}: give [lowest, highest] in m, found {quote(node)}")
    low, high = (number(value, where) for value in node)
    if low >= high:
        raise InputError(f"{where}: {low:g} m is not below {high:g} m")
    return low, high


def flag(value: Any, where: str) -> bool:
    """Returns true or false. Raises InputError: it is something else."""
    if not isinstance(value, bool):
        raise InputError(f"{where}: expected true or false, found {quote(value)}")
    return value


def is_number(text: str) -> bool:
    """Checks that a text is a number, of any form that float takes."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number(value: Any, where: str) -> float:
    """Returns a finite number. Raises InputError: anything else, booleans too."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -sys.float_info.max <= value <= sys.float_info.max:
        raise InputError(f"{where}: expected a finite number, found {quote(value)}")
    return float(value)


def integer(value: Any, where: str, least: int, most: int = 2**63 - 1) -> int:
    """Returns a whole number from `least` to `most`. Raises InputError: it is something else."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bound = f"at least {least}" if most == 2**63 - 1 else f"{least} to {most}"
        raise InputError(f"{where}: expected a whole number of {bound}, found {quote(value)}")
    return value


def text(value: Any, where: str) -> str:
    """Returns a text that is not empty. Raises InputError: it is something else."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: expected a text, found {quote(value)}")
    return value


def quantity(node: Any, unit: str, where: str) -> tuple[float, str]:
    """Returns a number written {value: ..., unit: ..., source: ...}, in `unit`, and its source. Raises InputError: it is written otherwise,
    is not finite, or its unit does not fit."""
    entry = _quantity(node, unit, where)
    return _converted(entry["value"], entry, unit, where), str(entry.get("source", ""))


def quantities(node: Any, unit: str, where: str) -> tuple[list[float], str]:
    """Returns a list of numbers as `quantity` returns one, and its source."""
    entry = _quantity(node, unit, where)
    if not isinstance(entry["value"], list):
        raise InputError(f"{where}: expected a list of numbers, found {quote(entry['value'])}")
    return [_converted(value, entry, unit, where) for value in entry["value"]], str(entry.get("source", ""))


def _quantity(node: Any, unit: str, where: str) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise InputError(f"{where}: write {{value: ..., unit: {unit}, source: ...}}, not {quote(node)}")
    return mapping(node, where, ("value", "unit"), ("source",))


def _converted(value: Any, entry: dict[str, Any], unit: str, where: str) -> float:
    converted = float(to_si(number(value, where), str(entry["unit"]), unit, where))
    if not math.isfinite(converted):
        raise InputError(f"{where}: {quote(value)} is too much in '{unit}'")
    return converted
