"""Files for releases and forges agree with the package: versions, commands, stacks, the pip command."""

import importlib.metadata
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import lfdm_ros
from lfdm_lab.cli_page import parser_of
from lfdm_ros.stacks.stack import load_stack

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    lab = re.search(r'^version = "(.+)"$', (ROOT / "lab" / "pyproject.toml").read_text(), re.MULTILINE)
    assert lab and citation["version"] == lab[1] == lfdm_ros.__version__
    assert citation["cff-version"] == "1.2.0" and {"title", "message", "authors", "license"} <= citation.keys()


def test_the_change_log_is_one() -> None:
    """Keep a Changelog: the unreleased part first, then versions, the newest first, each dated but the first of all."""
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert titles[0] == "[Unreleased]" and f"[{lfdm_ros.__version__}]" in titles[1]
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\](?: - \d{4}-\d\d-\d\d)?", title) for title in titles[1:])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_existing_commands(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text())["jobs"]
    lines = [line for job in jobs.values() for step in job["steps"] for line in step.get("run", "").splitlines()]
    if path.stem == "nightly":
        fuzzed = next(line for line in lines if "fuzz" in line)
        lines += [fuzzed.replace("${{ matrix.command }}", command) for command in jobs["fuzz"]["strategy"]["matrix"]["command"]]
        lines.remove(fuzzed)
    assert lines
    for line in lines:
        words = shlex.split(line)
        program = words[0].removeprefix(".venv/bin/")
        if program == "make":
            assert words[1] in TARGETS, line
        elif program == "lfdm":
            parser_of(words[1]).parse_args(words[2:])
        else:
            assert not program.startswith((".ci/", "src/")) or (ROOT / program.removeprefix("src/lfdm_ros/")).is_file(), line
    pythons = [job["strategy"]["matrix"]["python"] for job in jobs.values() if "python" in job.get("strategy", {}).get("matrix", {})]
    assert all(versions == ["3.10", "3.11", "3.12", "3.13"] for versions in pythons)


def test_the_commit_hook_runs_the_linters() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    run = {re.sub(r" --\S+", "", line) for line in re.findall(r"@(?:\$\(VENV\)/bin/|(?=\.ci/))(.+)", recipe)}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {re.sub(r" --\S+", "", hook["entry"].removeprefix(".venv/bin/")) for hook in hooks} == run


def test_containers_have_the_packages_of_the_page_and_stacks_that_load() -> None:
    line = re.search(r"^ +(pip install --only-binary :all: .+)$", (ROOT / "docs" / "howto" / "install.md").read_text(), re.MULTILINE)
    script = ROOT / "docker" / "workspace"
    assert line and line[1] in script.read_text().splitlines()
    subprocess.run(["bash", "-n", str(script)], check=True)
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    assert list(services) == ["simulator", "controller", "cockpit"]
    nodes = []
    for service in services.values():
        name, *words = shlex.split(service["command"].removeprefix("lfdm "))
        arguments = parser_of(name).parse_args(words)
        if name == "up":
            nodes += [node.executable for node in load_stack(ROOT / words[0].removeprefix("src/lfdm_ros/")).nodes]
        else:
            assert arguments.attach
    shared = [node.executable for node in load_stack("shared_human").nodes]
    assert sorted(nodes) == sorted(shared)
    json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())


def test_a_debian_package_of_what_is_installed(tmp_path: Path) -> None:
    """A trial: files below /opt/ros/jazzy, dependencies of package.xml by their Debian names, those by pip in words."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb on the PATH")
    (tmp_path / "prefix" / "share" / "ament_index").mkdir(parents=True)
    (tmp_path / "prefix" / "share" / "ament_index" / "marker").write_text("here")
    deb = tmp_path / "a.deb"
    assert subprocess.run([ROOT / ".ci" / "deb", tmp_path, deb], capture_output=True, check=False).returncode == 1  # no prefix
    subprocess.run([ROOT / ".ci" / "deb", tmp_path / "prefix", deb], capture_output=True, check=True)
    field = {name: subprocess.run(["dpkg-deb", "--field", deb, name], capture_output=True, text=True, check=True).stdout.strip()
             for name in ("Version", "Depends", "Description")}
    assert field["Version"] == f"{lfdm_ros.__version__}-0"
    assert {"ros-jazzy-rclpy", "ros-jazzy-tf2-msgs", "python3-numpy"} <= set(field["Depends"].split(", "))
    assert "pymc" in field["Description"] and "pymc" not in field["Depends"]
    subprocess.run(["dpkg-deb", "--extract", deb, tmp_path / "root"], check=True)
    assert (tmp_path / "root" / "opt" / "ros" / "jazzy" / "share" / "ament_index" / "marker").read_text() == "here"


def test_the_audit_finds_locked_versions_inside_an_advisory(tmp_path: Path) -> None:
    """Ranges and lists of versions by the OSV schema, as JSON and as YAML; a withdrawn one and other registries are no finding."""
    lock, folder = tmp_path / "lock.txt", tmp_path / "advisories"
    lock.write_text("Some_Pack==1.10.0 ; python_version < '3.12' \\\n    --hash=sha256:0\nother[x]==2.0\nfresh==1.2 \\\n")

    def advise(number: int, name: str, events: list[dict[str, str]], **more: object) -> None:
        part = {"package": {"ecosystem": "PyPI", "name": name}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
        part |= {key: more.pop(key) for key in ("versions", "package") if key in more}
        text = {"id": f"OWN-{number}", "modified": "2026-01-02T00:00:00Z", "affected": [part], **more}
        (folder / f"{number}").with_suffix((".json", ".yaml")[number % 2]).write_text((json.dumps, yaml.safe_dump)[number % 2](text))

    def audit() -> tuple[int, str]:
        done = subprocess.run([sys.executable, ROOT / ".ci" / "audit", lock, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert audit()[0] == 1 and "no advisories" in audit()[1]
    folder.mkdir()
    advise(0, "some-pack", [{"introduced": "0"}, {"fixed": "1.9"}])
    advise(1, "some-pack", [{"introduced": "1.10.1"}])
    advise(2, "other", [{"introduced": "1.0"}, {"last_affected": "1.9"}, {"introduced": "2.1"}, {"fixed": "2.2"}])
    advise(3, "other", [{"introduced": "0"}], withdrawn="2026-01-03T00:00:00Z")
    advise(4, "fresh", [{"introduced": "0"}], package={"ecosystem": "npm", "name": "fresh"})
    assert audit() == (0, "3 pinned versions, 5 advisories, the newest of 2026-01-02: 0 apply\n")
    advise(5, "Some.Pack", [{"introduced": "1.2"}, {"fixed": "1.10.1"}], aliases=["CVE-1"], summary="Reads a\nfile.")
    advise(6, "other", [{"introduced": "0"}, {"last_affected": "2.0"}])
    advise(7, "fresh", [], versions=["1.1", "1.2"])
    status, text = audit()
    assert status == 1
    assert text.splitlines()[:-1] == ["fresh 1.2: OWN-7: ", "other 2.0: OWN-6: ", "some-pack 1.10.0: OWN-5, CVE-1: Reads a file."]


def test_the_bill_of_materials_has_the_locked_packages_of_this_machine() -> None:
    done = subprocess.run([sys.executable, "-m", "lfdm_lab.sbom"], capture_output=True, text=True, check=True)
    made = json.loads(done.stdout)
    versions = {part["name"]: part["version"] for part in made["components"]}
    assert made["bomFormat"] == "CycloneDX" and len(versions) == len(made["components"]) > 100
    for name in ("numpy", "casadi", "pymc", "ros-rclpy"):
        assert versions[name] == importlib.metadata.version(name)
    assert all(part["hashes"] and part["licenses"][0]["license"]["name"] for part in made["components"])
    lost = [part["name"] for part in made["components"] if part["licenses"][0]["license"]["name"] == "unknown"]
    assert len(lost) < 0.05 * len(versions), lost
