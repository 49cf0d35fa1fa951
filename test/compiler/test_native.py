"""Python functions as machine code from the cache."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.parametrize(("name", "line"), [("makes_one", "values = np.zeros(n)"), ("reshapes", "values = values.reshape(-1)")])
def test_what_needs_numba_when_it_runs_is_refused(module: str, tmp_path: Path, name: str, line: str) -> None:
    (tmp_path / f"{name}.py").write_text(TEXT.replace("    total = 0.0", f"    {line}\n    total = 0.0"))
    with pytest.raises(ValueError, match="outside"):
        native(name, (POINTER, INTEGER, REAL), REAL)
