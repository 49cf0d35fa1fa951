"""The checks of the environment fail when they should, in one line, and the lists that describe the package agree."""

import ast
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lfdm_ros import environment
from lfdm_ros.cli import doctor
from lfdm_ros.cli.main import main

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "lfdm_ros" / "environment.py"
needs_source_tree = pytest.mark.skipif(not (ROOT / "pyproject.toml").is_file(), reason="not in the source tree")


def run_script(*args: str, **variables: str) -> subprocess.CompletedProcess:
    """Runs the script as make does, isolated from everything that is installed."""
    return subprocess.run([sys.executable, "-S", str(SCRIPT), *args], capture_output=True, text=True, timeout=120,
                          env={"PATH": os.environ["PATH"], **variables}, check=False)


def test_script_is_silent_where_all_is_well() -> None:
    done = run_script()
    assert done.returncode == 0
    assert done.stdout == "" and done.stderr == ""


@pytest.mark.parametrize(("variables", "named", "fix"), [
    ({"CXX": "no-such-compiler"}, "no C++ compiler (no-such-compiler)", "build-essential"),
    ({"RMW_IMPLEMENTATION": "rmw_cyclonedds_cpp"}, "RMW_IMPLEMENTATION=rmw_cyclonedds_cpp", "unset RMW_IMPLEMENTATION"),
])
def test_script_names_a_failure_and_its_fix_in_one_line(variables: dict, named: str, fix: str) -> None:
    done = run_script(**variables)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert named in done.stderr and fix in done.stderr


def test_python_out_of_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1, "final", 0))
    check = environment.check_python()
    assert check.status == "fail" and "3.9.1" in check.detail and "PYTHON=" in check.fix


def test_range_of_pythons_is_that_of_the_package() -> None:
    declared = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    assert ((3, int(declared[1])), (3, int(declared[2]) - 1)) == environment.PYTHONS


def test_missing_modules_and_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment.util, "find_spec", lambda name: None)
    assert environment.check_venv_module().status == "fail"
    assert environment.check_prefix().status == "fail"
    monkeypatch.setattr(environment.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert environment.check_headers().status == "fail"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "make and no git" in environment.check_tools().detail


def test_script_can_be_read_by_old_pythons() -> None:
    """Else they would answer with a traceback instead of the line about their version."""
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 7))


def test_no_network_is_one_line() -> None:
    done = run_script(sys.executable, str(ROOT / "requirements.txt"), PIP_CONFIG_FILE=os.devnull,
                      PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "no network?" in done.stderr and "PIP_INDEX_URL" in done.stderr


@pytest.mark.parametrize(("variable", "value", "status"), [
    ("ROS_DOMAIN_ID", "17", "ok"),
    ("ROS_DOMAIN_ID", "150", "warn"),
    ("ROS_DOMAIN_ID", "seven", "fail"),
    ("ROS_DOMAIN_ID", "233", "fail"),
    ("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST", "ok"),
    ("ROS_AUTOMATIC_DISCOVERY_RANGE", "localhost", "fail"),
    ("ROS_LOCALHOST_ONLY", "1", "warn"),
])
def test_discovery(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, status: str) -> None:
    for name in ("ROS_DOMAIN_ID", "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    assert environment.check_discovery().status == status


def test_shared_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FASTDDS_BUILTIN_TRANSPORTS", raising=False)
    (tmp_path / "fastrtps_port7400").touch()
    assert "1 Fast DDS files" in environment.check_shared_memory(str(tmp_path)).detail
    assert environment.check_shared_memory(str(tmp_path / "missing")).status == "warn"
    monkeypatch.setattr(environment, "SHARED_MEMORY_MIB", 1e12)
    assert environment.check_shared_memory(str(tmp_path)).status == "warn"


def test_lock_differences_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("packaging")
    monkeypatch.setattr(environment, "ros_from_wheels", lambda: True)
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==0.1 \\\n    --hash=sha256:00\nno-such-package[extra, another]==1.0\nother==2 ; python_full_version < '3'\n")
    check = environment.check_lock(lock)
    assert check.status == "warn"
    assert "instead of 0.1" in check.detail and "no-such-package is missing" in check.detail
    assert "other" not in check.detail


def test_broken_library_fails() -> None:
    check = environment.check_imports(["json", "no_such_library"])
    assert check.status == "fail" and "no_such_library" in check.detail


def test_doctor(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    good = environment.Check("one", "ok", "fine")
    monkeypatch.setattr(doctor, "checks", lambda: [good, environment.Check("two", "warn", "so so", "do this")])
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and [check["name"] for check in report["checks"]] == ["one", "two"]
    monkeypatch.setattr(doctor, "checks", lambda: [good, environment.Check("two", "fail", "broken", "do that")])
    assert main(["doctor"]) == 2
    assert "do that" in capsys.readouterr().out


def test_where_a_wheel_was_installed_nothing_is_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Makefile, no compiler, no headers are needed there, and the fix is a command that exists."""
    monkeypatch.setattr(environment, "from_source", lambda: False)
    monkeypatch.setattr(environment, "ros_from_wheels", lambda: True)
    monkeypatch.setattr(environment, "read_lock", lambda path: [("numpy", "0.1", ""), ("no-such-package", "1", "")])
    monkeypatch.setattr(environment, "MESSAGES", (("lfdm_ros.no_such", "Message"),))
    monkeypatch.setattr(environment, "IMPORTS", ("no_such_library",))
    monkeypatch.setenv("CXX", "no-such-compiler")
    found = {check.name: check for check in doctor.checks()}
    assert not {"compiler", "python headers", "make, git", "venv module"} & found.keys()
    assert "pip install -r" in found["locked versions"].fix and "pip install" in found["messages"].fix
    assert not any("make" in check.fix.split() for check in found.values())


def test_doctor_survives_another_middleware() -> None:
    """rcl ends the process that imports rclpy then; the table must come all the same."""
    pytest.importorskip("rclpy")
    done = subprocess.run([sys.executable, "-m", "lfdm_ros.cli", "doctor"], capture_output=True, text=True, check=False, cwd=ROOT,
                          env={**os.environ, "RMW_IMPLEMENTATION": "rmw_none"}, timeout=120)
    assert done.returncode == 2
    assert "unset RMW_IMPLEMENTATION" in done.stdout and "kernel cache" in done.stdout


def test_doctor_finds_this_environment_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rclpy")
    assert [check for check in doctor.checks() if check.status == "fail"] == []


def test_a_workspace_is_no_other_ros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("AMENT_PREFIX_PATH", os.pathsep.join([str(tmp_path), sys.prefix]))
    assert environment.check_sourced_ros().status == "ok"
    (tmp_path / "share" / "rclpy").mkdir(parents=True)
    check = environment.check_sourced_ros()
    assert check.status == "fail" and f"AMENT_PREFIX_PATH={tmp_path}" in check.detail and "unset AMENT_PREFIX_PATH" in check.fix


# -- Lists that must agree ------------------------------------------------------------------------------------------------


@needs_source_tree
def test_lock_covers_the_direct_dependencies_and_names_no_index() -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert "://" not in text and "--index" not in text and "--find-links" not in text
    locked = {name.lower() for name, _, _ in environment.read_lock(ROOT / "requirements.txt")}
    declared = set(re.findall(r'^\s+"([A-Za-z][\w-]*)[=<>]*[^"]*",', (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    direct = {name.lower() for name in declared if name.startswith("ros-") or name in ("numba", "pymc", "rosbags", "cmake")}
    assert len(direct) > 30
    assert direct <= locked


def test_package_xml_declares_every_ros_package_that_is_imported() -> None:
    declared = {element.text for element in ElementTree.parse(ROOT / "package.xml").getroot() if element.tag.endswith("depend")}
    imported = set()
    for path in [*(path for room in ("ros", "nodes", "stacks") for path in ROOT.glob(f"lfdm_ros/{room}/*.py")), *ROOT.glob("launch/*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.split(".")[0])
            elif isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
    ros = {name for name in imported if name.endswith("_msgs") or name in ("builtin_interfaces", "launch", "launch_ros", "rclpy",
                                                                          "rcl_interfaces", "std_srvs", "tf2_ros")}
    assert "rclpy" in ros
    assert ros <= declared
