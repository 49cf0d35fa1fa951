"""The reference pages are what the declarations give."""

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("name", ["cli", "parameters", "topics"])
def test_the_documentation_shows_the_declarations(name: str) -> None:
    """In a process of its own: other tests register parts, which are then among the choices."""
    command = f"python -m lfdm_lab.{name}_page > docs/reference/{name}.md"
    page = subprocess.run([sys.executable, "-m", f"lfdm_lab.{name}_page"], capture_output=True, text=True, check=True).stdout
    assert (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8") == page, command
