"""Tests look at the package as those do who use it: private names stand in them only where nothing public could serve."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "test", ROOT / "lab" / "test")
RECORD = {"_asdict", "_fields", "_make", "_replace"}  # public, of named tuples
LOOK_UP = {"setattr", "getattr", "delattr", "hasattr"}

# Uses by file and name, and why nothing public serves.
ALLOWED = {
    # What the adapter of PyMC overrides and calls is private there; it must be known when a release changes it.
    "test_adapters.py": {"_step": 1, "_initialize_kernel": 1},
}


def is_private(name: str) -> bool:
    return name.startswith("_") and name.strip("_") != "" and not name.endswith("__") and name not in RECORD


def own_attributes(kind: ast.ClassDef) -> Iterator[ast.Attribute]:
    """`self._x` in a class that has it from itself: a method, an attribute, or what it assigns."""
    parts = list(ast.walk(kind))
    names = {part.name for part in parts if isinstance(part, ast.FunctionDef)}
    names |= {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    names |= {part.attr for part in parts if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store)}
    return (part for part in parts if isinstance(part, ast.Attribute) and part.attr in names
            and isinstance(part.value, ast.Name) and part.value.id in ("self", "cls"))


def uses(tree: ast.AST) -> Iterator[str]:
    """Private names that belong to somebody else: attributes, imports, and texts that say what to replace or to look up."""
    nodes = list(ast.walk(tree))
    own = {part for kind in nodes if isinstance(kind, ast.ClassDef) for part in own_attributes(kind)}
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Attribute) and node not in own:
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [name for alias in node.names for name in alias.name.split(".")]
        elif isinstance(node, ast.Call) and (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in LOOK_UP:
            texts = [part.value for part in node.args[:2] if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            names = [name for text in texts for name in text.split(".")]
        yield from filter(is_private, names)


def test_private_names_of_the_package_are_not_used() -> None:
    found = {str(path.relative_to(folder)): Counter(uses(ast.parse(path.read_text(encoding="utf-8"))))
             for folder in FOLDERS for path in folder.rglob("*.py")}
    assert {file: dict(names) for file, names in found.items() if names} == ALLOWED


def test_such_a_use_is_found() -> None:
    text = """
from package._part import _made
import package._other
class Mine(Theirs):
    _kept = 1
    def look(self):
        self._found = self._kept + self._inherited
        return thing._inner.value
monkeypatch.setattr(module, "_replaced", 1)
monkeypatch.setattr("package.module._again", 1)
point._replace(x=1), thing.__dict__, _
"""
    assert sorted(uses(ast.parse(text))) == ["_again", "_inherited", "_inner", "_made", "_other", "_part", "_replaced"]
