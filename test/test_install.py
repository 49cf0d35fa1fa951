"""What docs/howto/install.md tells people to install is what the package declares."""

import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info < (3, 11):
    pytest.skip("reads TOML", allow_module_level=True)
import tomllib

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = [f"{major}.{minor}" for major in range(30) for minor in range(120)]


def requirements(texts: list[str]) -> dict[str, Requirement]:
    return {canonicalize_name(r.name): r for r in map(Requirement, texts)}


# Of rosdistro's python.yaml, by the name of the package on an index; config/rosdep.yaml has the others.
ROSDISTRO = {"casadi": "casadi-pip", "matplotlib": "python3-matplotlib", "numba": "python3-numba", "numpy": "python3-numpy",
             "packaging": "python3-packaging", "pillow": "python3-pil", "pyyaml": "python3-yaml", "rosbags": "python3-rosbags-pip",
             "scipy": "python3-scipy", "tornado": "python3-tornado",
             "hypothesis": "python3-hypothesis", "psutil": "python3-psutil", "pytest": "python3-pytest"}
OWN = {key: {entry["pip"]["packages"][0] for entry in systems.values()}
       for key, systems in yaml.safe_load((ROOT / "config" / "rosdep.yaml").read_text()).items()}
# rclpy brings the middleware. Python of the tests is the project's own choice, and packaging comes with others.
BROUGHT, UNDECLARED = {"ros-rmw-fastrtps-cpp"}, {"packaging"}
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
    """It has what package.xml has by pip, and what the distribution has in versions that the package refuses."""
    assert len(LINES) == 1
    by_pip = {name for names in OWN.values() for name in names} | {name for name, key in ROSDISTRO.items() if key.endswith("-pip")}
    assert requirements(shlex.split(LINES[0])).keys() == by_pip | {"numpy", "numba"}


def test_every_dependency_has_a_rosdep_key_in_package_xml() -> None:
    keys: dict[str, set[str]] = {"exec": set(), "test": set()}
    for element in ElementTree.parse(ROOT / "package.xml").getroot():
        kind = "test" if element.tag == "test_depend" else "exec"
        if element.tag.endswith("depend") and element.text:
            keys[kind].add(element.text)
    assert all(key == f"python3-{min(names)}-pip" and len(names) == 1 for key, names in OWN.items())
    own = {min(names): key for key, names in OWN.items()}
    wheels = {name for name in DECLARED if name.startswith("ros-")}
    assert {name.removeprefix("ros-").replace("-", "_") for name in wheels - BROUGHT} <= keys["exec"]
    wanted = {own.get(name) or ROSDISTRO[name] for name in (DECLARED.keys() - wheels) | UNDECLARED}
    assert {key for key in keys["exec"] if key.startswith("python3-") or key.endswith("-pip")} == wanted
    assert {key for key in keys["test"] if key.startswith("python3-")} == {ROSDISTRO[name] for name in ("hypothesis", "psutil", "pytest")}


@pytest.mark.parametrize("path", ["docs/howto/install.md", "docker/workspace"])
def test_what_rosdep_is_told_to_skip_is_what_pip_installs(path: str) -> None:
    told = re.search(r'rosdep install .*--skip-keys "(.+)"', (ROOT / path).read_text())
    assert told and set(told[1].split()) == OWN.keys() | {key for key in ROSDISTRO.values() if key.endswith("-pip")}


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
