"""C of ours made into libraries and programs, as strictly as compilers go."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

CC = shutil.which("gcc") or shutil.which("cc")
STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
VECTORS = ("-DLFDM_VECTORS", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
           "-freciprocal-math", "-fno-if-conversion")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler")


def build(out: Path, *arguments: object) -> Path:
    """Compiles and links; what the compiler says is the failure."""
    assert CC
    done = subprocess.run([CC, *STRICT, *map(str, arguments), "-o", str(out), "-lm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return out


def library(out: Path, *arguments: object) -> ctypes.CDLL:
    return ctypes.CDLL(str(build(out, "-shared", "-fPIC", *arguments)))
