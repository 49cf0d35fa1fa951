"""Python functions as machine code from the cache, and who may put code into its folder."""

import ctypes
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lfdm_ros.compiler import code_cache
from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL
from lfdm_ros.compiler.native import native

TEXT = """
import math
import numpy as np
from numba import carray
import lfdm_ros.compiler.numba_support

def entry(x, n, turn):
    values = carray(x, (n,), dtype=np.float64)
    total = 0.0
    for i in range(n):
        values[i] = math.remainder(values[i], turn)
        total += values[i] / turn
    return total
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_loop.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LFDM_CACHE_DIR", str(tmp_path / "cache"))
    return "a_loop"


def test_a_loop_runs_and_divides_by_zero_as_c_does(module: str) -> None:
    loop = native(module, (POINTER, INTEGER, REAL), REAL)
    x = np.array([1.0, 5.0, -4.0])
    assert loop(x.ctypes.data, 3, 3.0) == pytest.approx((1.0 - 1.0 - 1.0) / 3.0)
    assert x.tolist() == [1.0, -1.0, -1.0]
    assert np.isnan(loop(x.ctypes.data, 3, 0.0))


def test_the_next_process_needs_no_numba(module: str, tmp_path: Path) -> None:
    code = ("import ctypes, sys; from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL; "
            "from lfdm_ros.compiler.native import native; x = (ctypes.c_double * 1)(4.0); "
            "print(native('a_loop', (POINTER, INTEGER, REAL), REAL)(ctypes.addressof(x), 1, 3.0), 'numba' in sys.modules)")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    def said() -> str:
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.strip()

    expected = ctypes.c_double(1.0 / 3.0).value
    assert said() == f"{expected} True"
    assert said() == f"{expected} False"
    (tmp_path / "a_loop.py").write_text(TEXT.replace("total +=", "total -="))
    assert said() == f"{-expected} True"  # what is edited is translated anew


def test_a_loop_that_makes_arrays_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would work in the process that translates it, and crash the next."""
    (tmp_path / "makes_arrays.py").write_text("import numpy as np\ndef entry(n):\n    return np.empty(n).sum()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="makes_arrays: its arrays come from outside"):
        native("makes_arrays", (INTEGER,), REAL)


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("LFDM_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(code_cache.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / "cache" / "lfdm_ros"


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_the_folder_is_private(home, capsys) -> None:
    home.mkdir(parents=True, mode=0o755)
    code_cache.cached("a.o", lambda: b"code")
    assert code_cache.cache_directory() == home and code_cache.cached("a.o", lambda: b"new") == b"code"
    assert mode(home) == mode(home / code_cache.fingerprint()) == 0o700
    assert not capsys.readouterr().err


@pytest.mark.parametrize("below", [False, True])
def test_code_that_others_could_have_put_there_is_not_read(home, tmp_path, monkeypatch, capsys, below) -> None:
    code_cache.cached("a.o", lambda: b"code")
    open_to_all = home / code_cache.fingerprint() if below else home
    open_to_all.chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "cache")  # by another name, as a folder is looked at once in a process
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    assert code_cache.cached("a.o", lambda: b"other") == b"other"
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path / "link" / "lfdm_ros") in said and "others can write to it" in said
    if not below:
        assert code_cache.cached("a.o", lambda: b"new") == b"other"
        assert mode(code_cache.cache_directory()) == 0o700 and code_cache.cache_directory().parent == home.parents[1]


def test_a_folder_of_another_user_is_not_used(home, monkeypatch, capsys, tmp_path) -> None:
    (tmp_path / f"lfdm_ros_{os.geteuid() + 1}").mkdir()  # its name is taken by somebody else, too
    home.mkdir(parents=True)
    own = os.geteuid()
    monkeypatch.setattr(code_cache.os, "geteuid", lambda: own + 1)
    folder = code_cache.cache_directory()
    assert folder.name.startswith("lfdm_ros_") and folder.parent == tmp_path and mode(folder) == 0o700
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "it belongs to another user" in said
    assert code_cache.cache_directory() == folder and not capsys.readouterr().err


def test_code_of_other_sources_goes_when_it_is_old_or_much(home, monkeypatch) -> None:
    monkeypatch.setattr(code_cache, "SIZE", 250)
    names = {"old": "0" * 20, "first": "1" * 20, "second": "2" * 20, "third": "3" * 20, "other": "notes"}
    for age, name in enumerate(("third", "second", "first", "old", "other")):
        folder = home / names[name]
        folder.mkdir(parents=True)
        (folder / "a.o").write_bytes(bytes(100))
        used = code_cache.time.time() - (code_cache.AGE + 1.0 if name in ("old", "other") else 60.0 * age)
        os.utime(folder, (used, used))
    home.chmod(0o700)
    code_cache.cached("a.o", lambda: b"code")
    assert {path.name for path in home.iterdir()} == {names["third"], names["second"], names["other"], code_cache.fingerprint()}


@pytest.mark.parametrize(("name", "line"), [("makes_one", "values = np.zeros(n)"), ("reshapes", "values = values.reshape(-1)")])
def test_what_needs_numba_when_it_runs_is_refused(module: str, tmp_path: Path, name: str, line: str) -> None:
    (tmp_path / f"{name}.py").write_text(TEXT.replace("    total = 0.0", f"    {line}\n    total = 0.0"))
    with pytest.raises(ValueError, match="outside"):
        native(name, (POINTER, INTEGER, REAL), REAL)
