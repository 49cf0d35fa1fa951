"""Keys of cached results change with the sources that compute them."""

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import grimp
import pytest
from keyed import missing

from lfdm_ros import cache_key, plugins
from lfdm_ros.calibration import checkpoint
from lfdm_ros.compiler import code_cache
from lfdm_ros.control import limits

ROOT = Path(__file__).resolve().parents[1]
KEY = """
from lfdm_ros.models import get_model
from lfdm_ros.cache_key import SIMULATION_DEPENDENCIES, cache_key
get_model("eight_dof/dugoff")
print(cache_key({"seed": 1}, SIMULATION_DEPENDENCIES))
"""


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A copy of the package, whose sources are the ones that count."""
    copy = shutil.copytree(ROOT / "lfdm_ros", tmp_path / "lfdm_ros", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(cache_key, "PACKAGE", copy)
    return copy


@pytest.fixture
def edit(package, tmp_path, monkeypatch) -> Callable[[str], None]:
    """Edits a file of the copy, which has another name from then on: sources are read once in a process."""
    names = (tmp_path / f"edited_{number}" for number in count())

    def edit(file: str) -> None:
        with (package / file).open("a") as sources_file:
            sources_file.write("# a remark\n")
        name = next(names)
        name.symlink_to(package)
        monkeypatch.setattr(cache_key, "PACKAGE", name)

    return edit


def test_an_edited_source_changes_the_key_of_what_depends_on_it(edit) -> None:
    def keys(seed: int = 1) -> list[str]:
        chosen = (cache_key.SIMULATION_DEPENDENCIES, ("samplers", "calibration"), ("units",))
        return [cache_key.cache_key({"seed": seed}, rooms, ("plots",)) for rooms in chosen]

    first = keys()
    assert keys() == first and not set(keys(seed=2)) & set(first)
    edit("calibration/plots.py")
    assert keys() == first
    for number, (path, changes) in enumerate({"models/fiala.py": [True, False, False], "samplers/smc.py": [False, True, False],
                                              "units.py": [True, False, True]}.items()):
        before = keys()
        edit(path)
        assert [old != new for old, new in zip(before, keys())] == changes, (number, path)


def test_an_edited_equation_changes_the_folder_of_compiled_code(edit) -> None:
    before = code_cache.fingerprint.__wrapped__()
    edit("calibration/plots.py")
    assert code_cache.fingerprint.__wrapped__() == before
    edit("models/fiala.py")
    assert code_cache.fingerprint.__wrapped__() != before


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    return grimp.build_graph("lfdm_ros", cache_dir=None)


@pytest.mark.parametrize("module, dependencies", [
    ("calibration.sbc", checkpoint.CACHE_DEPENDENCIES), ("calibration.stage", checkpoint.CACHE_DEPENDENCIES),
    ("control.limits", (*limits.CACHE_DEPENDENCIES, "models", "backends", "compiler"))])
def test_a_key_has_all_that_is_imported_to_make_what_it_stands_for(imports, module, dependencies) -> None:
    whole = f"lfdm_ros.{module}"
    used = {name.removeprefix("lfdm_ros").removeprefix(".") for name in imports.find_upstream_modules(whole) | {whole}}
    shown = {f"calibration.{name}" for name in checkpoint.ONLY_SHOWING}
    assert not missing(used - shown, dependencies)


def test_an_edited_tyre_from_outside_changes_the_key(tmp_path) -> None:
    shutil.copy(ROOT / "examples" / "dugoff_tyre.py", tmp_path)
    tyre = tmp_path / "dugoff_tyre.py"

    def key() -> str:
        environment = {**os.environ, "LFDM_PLUGINS": str(tyre), "PYTHONPATH": str(ROOT)}
        return subprocess.run([sys.executable, "-c", KEY], env=environment, capture_output=True, text=True, check=True).stdout

    first = key()
    assert key() == first
    text = tyre.read_text()
    tyre.write_text(text.replace("wheel.ground.friction * q.friction", "0.9 * wheel.ground.friction * q.friction"))
    assert tyre.read_text() != text
    assert key() != first


def test_a_package_from_outside_counts_whole_and_what_is_typed_in_by_its_code(tmp_path, monkeypatch) -> None:
    inner = tmp_path / "mine" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner.parent, inner):
        (folder / "__init__.py").write_text("")
    (inner / "tyre.py").write_text("def build(m): pass\n")
    (inner.parent / "helper.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from mine.inner import tyre

    def digest(maker) -> str:
        monkeypatch.setattr(plugins, "makers", lambda: (maker,))
        return cache_key.cache_key({}, ())

    first = digest(tyre.build)
    (inner.parent / "helper.py").write_text("A = 2\n")
    assert digest(importlib.reload(tyre).build) != first
    typed = {}
    exec("def one(m): return 1\ndef two(m): return 2", typed)
    assert digest(typed["one"]) != digest(typed["two"])


def test_makers_of_the_package_itself_are_no_plugins() -> None:
    import lfdm_ros.sensors.standard  # registers sensors

    assert not [maker for maker in plugins.makers() if maker.__module__ == lfdm_ros.sensors.standard.__name__]
