"""Documents that no person writes, given to everything that reads documents: an answer, or one line."""

import ast
import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from lfdm_ros import documents
from lfdm_ros.bags.mapping import load_mapping
from lfdm_ros.calibration.recipe import load_recipe
from lfdm_ros.calibration.results import load_posterior_summary
from lfdm_ros.calibration.store import PosteriorStore
from lfdm_ros.engine.bag_folder import is_closed
from lfdm_ros.errors import QUOTED, InputError, quote
from lfdm_ros.resources import find_config
from lfdm_ros.simulation import load_scenario
from lfdm_ros.stacks.stack import load_stack, parse_override
from lfdm_ros.units import unit_scale
from lfdm_ros.vehicles import load_vehicle
from lfdm_ros.vehicles.lfdm_json import import_lfdm

LAUGHS = "\n".join(["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]",
                    *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12))])
MERGES = "\n".join(["a0: &a0 {x0: 1, y0: 2}", *(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}], x{i}: 1}}" for i in range(1, 12))])

# Name -> text, and whether every reader must refuse it already because of its form.
NASTY = {
    "empty": ("", False), "date": ("x: 2001-13-45", False), "good_date": ("2001-12-14: 2001-12-14", False), "nothing": ("~", False),
    "no_int": ("x: !!int abc", True), "empty_int": ("x: !!int ''", True), "no_float": ("x: !!float []", True),
    "no_bool": ("x: !!bool maybe", True), "timestamp": ("x: !!timestamp x", True), "binary": ("x: !!binary =", True),
    "object": ("x: !!python/object/apply:os.system ['true']", True), "tag": (f"x: !{'t' * 5000} 1", True),
    "digits": ("x: " + "9" * 5000, True), "beyond": ("x: 1" + "0" * 309, True), "hex": ("x: 0x" + "f" * 5000, True),
    "sixties": ("x: 1" + ":59" * 3000, True), "inf": ("x: [1e999, .inf, .nan, -.inf]", False),
    "lists": ("[" * 5000 + "]" * 5000, True), "mappings": ("{a: " * 5000, True), "blocks": ("- " * 5000, True), "open": ("[" * 40, True),
    "laughs": (LAUGHS, True), "merges": (MERGES, True), "itself": ("a: &a [*a]", True),
    "long_alias": (f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 200)}]", True), "no_anchor": ("a: *b", True),
    "long_key": ("k" * 900 + ": 1", False), "list_key": ("? [a, b]\n: 1", True), "long_text": ("x" * 50_000, False),
    "large": ("a: [" + "1,\n" * 400_000 + "]", True), "two": ("a: 1\n---\nb: 2", True), "control": ("a: \x07", True),
    "nul": ("a: \0", True),
    "lines": ('"a\\nb\\u2028c": "d\\ne"', False), "tab": ("a:\n\t- b", True), "colon": ("a: b: c", True), "words": ("just words", False),
    "deep_key": ("{" * 45 + "a" + "}" * 45, True),
}
# What reads long files too: a path of many points, what a program wrote.
LONG = ("scenario", "bag")
READERS: dict[str, Callable[[Path], Any]] = {
    "vehicle": load_vehicle, "stack": load_stack, "recipe": load_recipe, "scenario": load_scenario, "mapping": load_mapping,
    "bag": lambda path: is_closed(path), "--set": lambda path: parse_override(f"x.y={path.read_text()}"),
}


def one_line(read: Callable[[], Any], longest: int = 400) -> str:
    """What the reader says if it refuses; anything but an answer or one line fails."""
    try:
        read()
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) < longest, str(error)
        return str(error)
    return ""


@pytest.mark.parametrize("kind", READERS)
def test_every_reader_answers_nasty_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)  # short names: the messages are what is measured
    path = Path("file.yaml")
    for name, (text, malformed) in NASTY.items():
        if name == "large" and kind in LONG:
            continue
        path.write_text(text)
        said = one_line(lambda: READERS[kind](path))
        # What asks whether a bag is closed has no message.
        assert said or kind == "bag" or (kind == "--set" and not malformed), name
        if malformed and kind not in ("bag", "--set"):
            assert re.search(r"not readable YAML: ", said), (name, said)
    path.write_bytes(b"\xff\xfe\x00")
    assert kind in ("bag", "--set") or "not readable YAML" in one_line(lambda: READERS[kind](path))


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text("speed: 5\npath: [[0, 0], [9, 0]]\nspeed: 50\nduration: 9\n")
    with pytest.raises(InputError, match=r"line 3.*'speed' is there twice"):
        load_scenario(tmp_path / "twice.yaml")


def test_json_within_the_same_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = PosteriorStore(tmp_path / "store").writer()
    readers = {"vehicle": lambda path: import_lfdm(path, path), "summary.json": lambda path: load_posterior_summary(path.parent),
               "store": lambda path: store.add(path.parent), "read": documents.read_json}
    for text in ("", "[" * 100_000, '{"a":' * 5000, "[" * 60 + "]" * 60, '{"m": ' + "9" * 5000 + "}", '{"m": 1' + "0" * 310 + "}",
                 '{"m": NaN}', '{"m": 1e999}', '"x"', '{"' + "k" * 5000 + '": 1, "' + "k" * 5000 + '": 2}', '{"m": {"m": []}}',
                 '{"stages": [[]], "m": [1, [2]]}', '{"stages": 1}', "\x00"):
        Path("summary.json").write_text(text)
        for name, read in readers.items():
            assert one_line(partial(read, Path("summary.json"))) or name == "read", (name, text[:40])
    store.close()


VALUES: tuple[Any, ...] = (None, True, "", "x", "x" * 5000, "9**9**9**9 m", "(" * 40, -1, 0, 10**300, 10**30, 1e308, -1e308, 1e-320,
                           float("nan"), float("inf"), [], [[]], [1, 2], {}, {"x": 1},
                           {"value": 10**300, "unit": "km"}, {"value": 1, "unit": [1]})


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a document has values."""
    for key in node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield (*at, key)
        yield from places(node[key], (*at, key))


def mutants(document: Any, take: int) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """The document with one value replaced; each `take`-th of all of them."""
    pairs = [(place, value) for place in places(document) for value in VALUES]
    for place, value in pairs[::take]:
        changed = copy.deepcopy(document)
        node = changed
        for key in place[:-1]:
            node = node[key]
        node[place[-1]] = value
        yield place, value, changed


@pytest.mark.parametrize("kind, name, take", [
    ("vehicles", "sedan", 331), ("scenarios", "double_lane_change", 31), ("scenarios", "moving_obstacle", 7), ("scenarios", "slalom", 3),
    ("stacks", "demo", 17), ("calibration", "hmmwv_demo", 211), ("recordings", "rhode", 61)])
def test_nasty_values_in_shipped_files(tmp_path: Path, kind: str, name: str, take: int) -> None:
    read = {"vehicles": load_vehicle, "scenarios": load_scenario, "stacks": load_stack, "calibration": load_recipe,
            "recordings": load_mapping}
    document = yaml.safe_load(find_config(kind, name).read_text(encoding="utf-8"))
    path = tmp_path / "file.yaml"
    for place, value, changed in mutants(document, take):
        path.write_text(yaml.dump(changed, Dumper=yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper))
        try:
            one_line(lambda: read[kind](path), 1501)
        except Exception as error:
            raise AssertionError(f"{place} = {quote(value)}") from error


@pytest.mark.parametrize("unit", [
    "9**9**9**9 m", "m**9**9**9", "min⁹⁹⁹⁹⁹⁹⁹", "((((min^9)^9)^9)^9)", "m" * 100, "(" * 50 + "m" + ")" * 50, "m^1e9", "m^(9^9)", "2*m",
    "Ym^9*Ym^9*Ym^9*Ym^9", "m**(1+1)", "m//s", "m#s", "(m", "m)", "*m", "m*", "m\0", "lambda: 0", "__import__('os')"])
def test_a_unit_is_no_program(unit: str) -> None:
    with pytest.raises(ValueError, match="unit ") as error:
        unit_scale(unit)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize("unit, factor", [
    ("m/s²", 1.0), ("N m s^-1", 1.0), ("m^(-2)", 1.0), ("rad/s/(N*m)**0.5", 1.0), ("1/ms", 1000.0), ("km per hour", 1 / 3.6),
    ("m·cm", 0.01), ("kg*m^2/(s*(A/mm))", 1e-3), ("%", 0.01), ("µs", 1e-6)])
def test_units_that_people_write(unit: str, factor: float) -> None:
    assert unit_scale(unit)[0] == pytest.approx(factor)


def test_quotes_are_short() -> None:
    nested: Any = []
    for _ in range(5000):
        nested = [nested, nested]
    for value in ("x" * 10**6, "\n" * 500, 10**5000, -(10**5000), nested, {"a": nested}, list(range(10**6)), {i: i for i in range(10**5)},
                  b"x" * 10**6, {"x" * 10**6: 1}):
        assert len(quote(value)) <= QUOTED and "\n" not in quote(value)
    for value in ("a'b", 1, 1.5, None, [1, "a"], {"b": 1, "a": [2]}, (1,), True):
        assert quote(value) == repr(value)
    assert str(InputError("a\n  b")) == "a b" and len(str(InputError("x" * 10_000 + "; the fix"))) <= 1500
    assert str(InputError("x" * 10_000 + "; the fix")).endswith("; the fix")


def test_aliases_of_a_persons_size_stay(tmp_path: Path) -> None:
    text = "base: &b {speed: 3, list: &l [1, 2]}\nother: {<<: *b, again: *l}\nplain: [*l, *l]\ndate: 2001-12-14\n"
    assert documents.parse_yaml(text, "x") == {
        "base": {"speed": 3, "list": [1, 2]}, "other": {"speed": 3, "list": [1, 2], "again": [1, 2]}, "plain": [[1, 2], [1, 2]],
        "date": "2001-12-14"}
    assert json.loads(json.dumps(documents.parse_yaml(text, "x")))


@pytest.mark.parametrize("name", ["x" * 5000, "a/" * 3000, "\0"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    assert "vehicles" in one_line(lambda: load_vehicle(name))


@pytest.mark.parametrize("kind", ["calibration", "recordings", "scenarios", "stacks", "vehicles"])
def test_what_ships_is_read_as_pyyaml_reads_it(kind):
    """Nodes are composed here, from libyaml's events."""
    for path in (Path(__file__).resolve().parents[1] / "config" / kind).glob("*.yaml"):
        assert documents.read_yaml(path)[0] == yaml.safe_load(path.read_text()), path


# Calls that run what they read, by the name of what is called; `numpy.load` does unless it is told not to.
RUNNING = ("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads", "shelve.open", "joblib.load", "dill.load",
           "yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.unsafe_load_all", "np.load", "numpy.load", "eval",
           "exec", "compile")


def test_nothing_that_is_read_is_run():
    """Vehicles, bags, posteriors, checkpoints and caches may come from others. One benchmark runs what it writes itself."""
    root = Path(__file__).resolve().parents[1]
    folders = ("lfdm_ros", "lab", "examples", "launch", ".ci")
    names = {name.rpartition(".")[2] for name in RUNNING}
    for path in (path for folder in folders for path in (root / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)] if any(name in text for name in names) else []
        for call in calls:
            if getattr(call.func, "attr", getattr(call.func, "id", "")) not in names:
                continue
            said = ast.unparse(call.func)
            safe = any(word.arg == "allow_pickle" and ast.unparse(word.value) == "False" for word in call.keywords)
            written_here = path.name == "_alternatives.py" and said == "exec"
            assert said not in RUNNING or safe or written_here, f"{path}:{call.lineno}: {said}"


def test_half_a_character_is_refused():
    with pytest.raises(InputError, match="x: not readable YAML: "):
        documents.parse_yaml("a: \ud800", "x")
