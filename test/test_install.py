"""What docs/howto/install.md tells people to install is what the package declares."""

import re
import shlex
import shutil
import subprocess
import sys
import tarfile
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
LINES = re.findall(r"^ +pip install --only-binary :all: (.+)$", (ROOT / "docs" / "howto" / "install.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("line", LINES)
def test_the_line_for_pip_takes_no_version_that_the_package_refuses(line: str) -> None:
    told = requirements(shlex.split(line))
    assert told.keys() <= DECLARED.keys()
    for name, requirement in told.items():
        taken = list(requirement.specifier.filter(VERSIONS))
        assert taken and list(DECLARED[name].specifier.filter(taken)) == taken, name


def test_there_is_such_a_line() -> None:
    assert len(LINES) == 1


def test_the_source_archive_has_the_whole_tree(tmp_path: Path) -> None:
    """Messages, CMake, configuration, tests: `pip install` of the archive builds what `pip install` of the tree does."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not in a git checkout")
    tracked = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    tree = tmp_path / "tree"
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    subprocess.run([sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(tmp_path)], cwd=tree, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert sorted(name for name in tracked if name not in packed and not name.startswith((".ci/", ".git"))) == []
