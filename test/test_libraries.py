"""Imports that need care."""

import subprocess
import sys

PACKAGE = """
from pathlib import Path
from arviz import part
tried = Path(__file__).with_name("tried")
n = len(tried.read_text()) if tried.exists() else 0
tried.write_text("x" * (n + 1))
if n < {failures}:
    raise FileNotFoundError("daily_warning.tmp")
"""


def imported(folder, failures):
    package = folder / str(failures) / "arviz"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE.format(failures=failures))
    (package / "part.py").write_text("")
    program = f"import sys; sys.path.insert(0, {str(package.parent)!r}); from lfdm_ros.libraries import arviz; print(arviz().part.__name__)"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_an_import_that_met_another_process_is_tried_again(tmp_path):
    assert imported(tmp_path, 2).stdout == "arviz.part\n"


def test_a_file_that_stays_away_is_told(tmp_path):
    assert "daily_warning.tmp" in imported(tmp_path, 99).stderr
