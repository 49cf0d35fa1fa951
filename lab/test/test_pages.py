"""The reference pages agree with the declarations."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMES = ("cli", "parameters", "topics")
# In a process of its own: other tests register parts, which are then among the choices.
WRITE = """
import runpy, sys
from contextlib import redirect_stdout
for name in sys.argv[2:]:
    with open(f"{sys.argv[1]}/{name}.md", "w", encoding="utf-8") as page, redirect_stdout(page):
        runpy.run_module(f"lfdm_lab.{name}_page", run_name="__main__")
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of newly generated pages."""
    folder = tmp_path_factory.mktemp("pages")
    subprocess.run([sys.executable, "-c", WRITE, str(folder), *NAMES], check=True)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_documentation_shows_the_declarations(name: str, pages: Path) -> None:
    command = f"python -m lfdm_lab.{name}_page > docs/reference/{name}.md"
    assert (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8") == (pages / f"{name}.md").read_text(encoding="utf-8"), command
