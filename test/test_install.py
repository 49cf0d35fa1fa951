"""What docs/install.md tells people to install is what the package declares."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info < (3, 11):
    pytest.skip("reads TOML", allow_module_level=True)
import tomllib

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = [f"{major}.{minor}" for major in range(30) for minor in range(120)]


def requirements(texts: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in map(Requirement, texts)}


DECLARED = requirements(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
LINES = re.findall(r"^ +pip install --only-binary :all: (.+)$", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", LINES)
def test_the_line_for_pip_takes_no_version_that_the_package_refuses(line: str) -> None:
    told = requirements(shlex.split(line))
    assert told.keys() <= DECLARED.keys()
    for name, requirement in told.items():
        taken = list(requirement.specifier.filter(VERSIONS))
        assert taken and list(DECLARED[name].specifier.filter(taken)) == taken, name


def test_there_is_such_a_line() -> None:
    assert len(LINES) == 1
