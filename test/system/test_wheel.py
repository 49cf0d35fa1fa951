"""The wheel: what it asks of a machine, and a drive in an environment of its own, outside the source tree."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("lfdm_ros", "lfdm-lab")
# Of the symbols that manylinux_2_34 lets a wheel ask for, the latest.
ALLOWED = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29)}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build", reason="the extra build is not installed")
    if not Path(sys.prefix, "share", "rosidl_default_generators").is_dir():
        pytest.skip("the wheel is built with the ROS wheels, and this environment has none")
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        os.symlink(source, target)


@pytest.fixture(scope="module")
def outside(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """An environment with the locked packages and this wheel, which sees nothing of the source tree; returns run(command...)."""
    home = tmp_path_factory.mktemp("home")
    fresh = home / "venv"
    shutil.copytree(sys.prefix, fresh, symlinks=True, copy_function=link,
                    ignore=shutil.ignore_patterns("lfdm_ros_source.pth", "__editable__*"))
    kept = {key: value for key, value in os.environ.items()
            if key not in ("PYTHONPATH", "LD_LIBRARY_PATH", "AMENT_PREFIX_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE", "LFDM_PLUGINS")}
    environment = {**kept, "PATH": f"{fresh / 'bin'}{os.pathsep}{os.defpath}"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(fresh / "bin" / command[0]), *command[1:]], cwd=home, env=environment, capture_output=True, text=True,
                              check=False)

    for pip in (("uninstall", "-q", "-y", *OURS), ("install", "-q", "--no-deps", "--no-index", str(wheel))):
        if pip[0] == "install":
            assert run("python", "-c", "import lfdm_ros").returncode == 1
        done = run("python", "-m", "pip", *pip)
        assert done.returncode == 0, done.stderr
    return run


def test_it_has_messages_cockpit_and_configuration_and_no_bytecode(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("lfdm_ros/msg/_vehicle_state.py", "lfdm_ros/py.typed", "lfdm_ros/cockpit/page/index.html", "radar_msgs/msg/_radar_scan.py",
                 "share/lfdm_ros/config/stacks/autonomy.yaml", "share/lfdm_ros/launch/autonomy.launch.py",
                 "share/lfdm_ros/requirements.txt"):
        assert any(found.endswith(name) for found in names), name
    assert not [name for name in names if name.endswith(".pyc")]


def test_it_asks_for_no_later_c_library_than_its_name_may_say(wheel: Path, tmp_path: Path) -> None:
    if not shutil.which("readelf"):
        pytest.skip("no readelf, of binutils")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    libraries = [*tmp_path.rglob("*.so")]
    assert len(libraries) > 20
    for library in libraries:
        shown = subprocess.run(["readelf", "-V", str(library)], capture_output=True, text=True, check=True).stdout
        for name, version in re.findall(r"\b(GLIBC|GLIBCXX)_([\d.]+)", shown):
            assert tuple(map(int, version.split("."))) <= ALLOWED[name], f"{library.name}: {name}_{version}"


def test_it_drives_outside_the_source_tree(outside: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """By its own messages on its own graph; then without ROS."""
    where = outside("python", "-c", "import lfdm_ros, radar_msgs; from lfdm_ros.resources import share_directory as share; "
                                    "import sys; print(*lfdm_ros.__path__, share(), *radar_msgs.__path__, sys.prefix, sep='\\n')")
    *paths, prefix = where.stdout.splitlines()
    assert where.returncode == 0 and len(paths) == 3 and all(path.startswith(prefix) for path in paths), where.stdout + where.stderr
    recorded = outside("lfdm", "demo", "--record-only", "drives")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    shown = outside("lfdm", "bag", "info", "drives/test/sine_steer")
    assert "lfdm_ros/msg/VehicleState" in shown.stdout, shown.stderr
    for command in (("up", "simulator", "--set", "vehicle_simulator.stepping=lockstep", "--speed", "0", "--duration", "2"),
                    ("cockpit", "simulator", "--port", "0", "--duration", "1")):
        done = outside("lfdm", *command)
        assert done.returncode == 0, done.stdout + done.stderr
    driven = outside("lfdm", "drive", "nato_lane_change", "--model", "eight_dof")
    assert driven.returncode == 0 and "end of the path" in driven.stdout, driven.stdout + driven.stderr
