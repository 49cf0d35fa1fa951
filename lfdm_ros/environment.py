"""Checks of the machine: by `make` before the setup, by `lfdm doctor` on demand.

As a script, `python lfdm_ros/environment.py` makes the checks that need nothing installed, and prints each failure as one
line with its fix. For that it uses only the standard library, and syntax that older Pythons can still read.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import util
from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Tuple

PYTHONS = ((3, 10), (3, 13))  # first and last that the locked wheels are made for
RMW = "rmw_fastrtps_cpp"  # the only one that the wheels bring
SHARED_MEMORY_MIB = 64
IMPORTS = ("numpy", "scipy", "llvmlite", "casadi", "pymc", "arviz", "h5netcdf", "matplotlib", "pint", "yaml", "rosbags")
# One message of each package that is generated here, where no ROS installation has it.
MESSAGES = (("lfdm_ros.msg", "VehicleState"), ("tf2_msgs.msg", "TFMessage"), ("ackermann_msgs.msg", "AckermannDriveStamped"),
            ("grid_map_msgs.msg", "GridMap"), ("radar_msgs.msg", "RadarScan"))


class Check(NamedTuple):
    """One finding; `status` is "ok", "warn" (works, but) or "fail"; `fix` is empty when there is nothing to do."""

    name: str
    status: str
    detail: str
    fix: str = ""


def ros_from_wheels() -> bool:
    """Returns True where rclpy is a wheel in this Python environment, False where it belongs to a ROS 2 installation or is missing."""
    spec = util.find_spec("rclpy")
    return spec is not None and Path(spec.origin or "/").is_relative_to(sys.prefix)


def from_source() -> bool:
    """Returns True in the source tree, which `make` sets up; False where a wheel, or a ROS 2 workspace, was installed."""
    return Path(__file__).resolve().parent.parent.joinpath("Makefile").is_file()


def reinstall() -> str:
    """Returns the command that repairs the environment."""
    if from_source():
        return "make clean install"
    lock = Path(sys.prefix, "share", "lfdm_ros", "requirements.txt")
    return "pip install -r {}, or install its packages at other versions on purpose".format(lock)


# -- Needed before anything is installed ------------------------------------------------------------------------------------


def check_python() -> Check:
    """Checks the interpreter's version."""
    first, last = (".".join(map(str, version)) for version in PYTHONS)
    detail = "Python {}.{}.{}".format(*sys.version_info[:3])
    if PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return Check("python", "ok", detail)
    names = ["python3.{}".format(minor) for minor in range(PYTHONS[1][1], PYTHONS[0][1] - 1, -1)]
    found = next((name for name in names if _runs(name)), "")
    fix = "make PYTHON={} ...".format(found) if found else "install one, then: make PYTHON=python{} ...".format(last)
    return Check("python", "fail", "{} does not fit, {} to {} do".format(detail, first, last), fix)


def check_platform() -> Check:
    """Checks the platform: the ROS wheels exist for Linux on x86-64 with glibc 2.28 or later."""
    libc, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ") if sys.platform == "linux" else ("", "", "")
    machine = os.uname().machine if hasattr(os, "uname") else "unknown"
    detail = "{} {} {} {}".format(sys.platform, machine, libc, version).strip()
    new_enough = libc == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 28)
    if new_enough and machine == "x86_64":
        return Check("platform", "ok", detail)
    return Check("platform", "fail", "no ROS 2 wheels for {}".format(detail),
                 "use Linux x86-64 with glibc 2.28 or later, or a ROS 2 Jazzy installation with colcon (docs/howto/install.md)")


def check_venv_module() -> Check:
    """Checks for venv and pip: Debian and Ubuntu split venv and pip's bootstrap off into a package of their own."""
    missing = [name for name in ("venv", "ensurepip") if util.find_spec(name) is None]
    if not missing:
        return Check("venv module", "ok", "venv and ensurepip are there")
    fix = "sudo apt install python{}.{}-venv, or your system's equivalent".format(*sys.version_info[:2])
    return Check("venv module", "fail", "this Python has no module {}".format(" and ".join(missing)), fix)


def check_compiler() -> Check:
    """Checks for a compiler: the messages' type support is C and C++."""
    compilers = [(os.environ.get("CC", "cc"), "C"), (os.environ.get("CXX", "c++"), "C++")]
    missing = ["{} compiler ({})".format(kind, name) for name, kind in compilers if not shutil.which(name.split()[0])]
    if not missing:
        return Check("compiler", "ok", ", ".join(str(shutil.which(name.split()[0])) for name, _ in compilers))
    return Check("compiler", "fail", "no {} found".format(" and no ".join(missing)),
                 "sudo apt install build-essential, or your system's equivalent; or set CC and CXX")


def check_headers() -> Check:
    """Checks for Python's headers, against which the messages' modules are compiled."""
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if header.is_file():
        return Check("python headers", "ok", str(header.parent))
    fix = "sudo apt install python{}.{}-dev, or your system's equivalent".format(*sys.version_info[:2])
    return Check("python headers", "fail", "no {}".format(header), fix)


def check_tools() -> Check:
    """Checks for make and git; cmake and ninja come as wheels."""
    missing = [name for name in ("make", "git") if not shutil.which(name)]
    if not missing:
        return Check("make, git", "ok", "found")
    return Check("make, git", "fail", "no {} found".format(" and no ".join(missing)), "sudo apt install " + " ".join(missing))


def check_sourced_ros() -> Check:
    """Checks that no other ROS is sourced, which would put its rclpy, messages and libraries before those of the wheels. A workspace on top
    of the wheels has no rclpy of its own."""
    prefixes = [path for path in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
                if Path(path, "share", "rclpy").is_dir() and Path(path) != Path(sys.prefix)]
    modules = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and Path(path, "rclpy").is_dir()]
    if not prefixes and not modules:
        return Check("other ROS", "ok", "none in this shell")
    variable, found = ("AMENT_PREFIX_PATH", prefixes) if prefixes else ("PYTHONPATH", modules)
    return Check("other ROS", "fail", "a ROS installation is sourced in this shell ({}={})".format(variable, found[0]),
                 "open a shell without it (or: unset AMENT_PREFIX_PATH PYTHONPATH LD_LIBRARY_PATH), or build there with colcon")


def check_rmw() -> Check:
    """Checks that RMW_IMPLEMENTATION names an installed middleware."""
    chosen = os.environ.get("RMW_IMPLEMENTATION", "")
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) + [sys.prefix]
    index = "share/ament_index/resource_index/packages"
    if not chosen or chosen == RMW or any(Path(prefix, index, chosen).is_file() for prefix in prefixes if prefix):
        return Check("middleware", "ok", chosen or "{} (default)".format(RMW))
    return Check("middleware", "fail", "RMW_IMPLEMENTATION={}, but only {} is there".format(chosen, RMW),
                 "unset RMW_IMPLEMENTATION")


# -- Once it is installed ---------------------------------------------------------------------------------------------------


def check_prefix() -> Check:
    """Reports the origin of ROS: wheels in a virtual environment, or a ROS 2 installation."""
    if util.find_spec("rclpy") is None:
        return Check("ROS 2", "fail", "rclpy is not installed for {}".format(sys.executable),
                     "{}, or source your ROS 2 installation".format("make install" if from_source() else reinstall()))
    if not ros_from_wheels():
        return Check("ROS 2", "ok", "a ROS 2 installation ({})".format(os.environ.get("ROS_DISTRO", "ROS_DISTRO not set")))
    if sys.prefix == sys.base_prefix:
        return Check("ROS 2", "warn", "wheels outside a virtual environment ({})".format(sys.prefix),
                     "make install" if from_source() else "python3 -m venv, and install there")
    return Check("ROS 2", "ok", "wheels in {}".format(sys.prefix))


# Name, version and environment marker of a requirement in a lock.
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)\s*(?:;\s*(.+?))?\s*\\?$", re.MULTILINE)


def read_lock(path: Path) -> List[Tuple[str, str, str]]:
    """Returns the (name, version, environment marker) entries of a requirements lock."""
    return [(name, version, marker or "") for name, version, marker in PINNED.findall(path.read_text(encoding="utf-8"))]


def check_lock(path: Path) -> Check:
    """Checks installed versions against the lock; a ROS 2 installation has its own versions."""
    from importlib import metadata

    if not ros_from_wheels():
        return Check("locked versions", "ok", "not used with a ROS 2 installation")
    try:
        from packaging.markers import Marker
    except ImportError:
        return Check("locked versions", "fail", "packaging is missing", reinstall())
    wrong, count = [], 0
    for name, version, marker in read_lock(path):
        if marker and not Marker(marker).evaluate():
            continue
        count += 1
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append("{} is missing".format(name))
            continue
        if installed != version:
            wrong.append("{} {} instead of {}".format(name, installed, version))
    if not wrong:
        return Check("locked versions", "ok", "{} packages as in {}".format(count, path.name))
    more = "; {} more".format(len(wrong) - 4) if len(wrong) > 4 else ""
    return Check("locked versions", "warn", "; ".join(wrong[:4]) + more, reinstall())


def check_imports(names: Iterable[str] = IMPORTS) -> Check:
    """Checks the libraries of the core by importing them."""
    found: Dict[str, str] = {}
    for name in names:
        try:
            found[name] = str(getattr(importlib.import_module(name), "__version__", ""))
        except Exception as error:  # a broken binary raises anything from ImportError to OSError
            return Check("libraries", "fail", "import {}: {}".format(name, _first_line(error)),
                         reinstall() if ros_from_wheels() else "docs/howto/install.md names the Python packages that rosdep does not know")
    return Check("libraries", "ok", ", ".join("{} {}".format(name, version).strip() for name, version in found.items()))


def check_messages() -> Check:
    """Checks the generated messages and their compiled type support."""
    for module, name in MESSAGES:
        try:
            message = getattr(importlib.import_module(module), name)
            importlib.import_module("rclpy.type_support").check_for_type_support(message)
        except Exception as error:  # rclpy raises its own types when a library does not load
            return Check("messages", "fail", "{}: {}".format(module, _first_line(error)),
                         "make install" if from_source() and ros_from_wheels() else
                         "pip install --force-reinstall --no-deps lfdm-ros" if ros_from_wheels() else
                         "rosdep install, colcon build and source install/setup.bash")
    return Check("messages", "ok", ", ".join(module for module, _ in MESSAGES) + " with type support")


def check_discovery() -> Check:
    """Reports the range of discovery of other ROS nodes."""
    domain = os.environ.get("ROS_DOMAIN_ID", "") or "0"
    reach = os.environ.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "") or "SUBNET"
    if not domain.isdigit() or int(domain) > 232:
        return Check("discovery", "fail", "ROS_DOMAIN_ID={} is no domain".format(domain), "export ROS_DOMAIN_ID=0 (to 101)")
    if reach not in ("OFF", "LOCALHOST", "SUBNET", "SYSTEM_DEFAULT"):
        return Check("discovery", "fail", "ROS_AUTOMATIC_DISCOVERY_RANGE={} is not known".format(reach),
                     "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST")
    if int(domain) > 101:
        return Check("discovery", "warn", "domain {} takes ports that Linux hands out to others".format(domain),
                     "export ROS_DOMAIN_ID=0 (to 101)")
    if os.environ.get("ROS_LOCALHOST_ONLY"):
        return Check("discovery", "warn", "ROS_LOCALHOST_ONLY is deprecated and overrides ROS_AUTOMATIC_DISCOVERY_RANGE",
                     "unset ROS_LOCALHOST_ONLY")
    heard = {"SUBNET": "nodes of other machines are heard too", "LOCALHOST": "only this machine"}.get(reach, "as configured")
    return Check("discovery", "ok", "domain {}, {}: {}".format(domain, reach, heard))


def check_shared_memory(path: str = "/dev/shm") -> Check:
    """Checks the shared memory: Fast DDS passes messages through shared memory; a full one makes publishers fail."""
    if "UDP" in os.environ.get("FASTDDS_BUILTIN_TRANSPORTS", ""):
        return Check("shared memory", "ok", "not used (FASTDDS_BUILTIN_TRANSPORTS)")
    fix = "export FASTDDS_BUILTIN_TRANSPORTS=UDPv4, or enlarge {}".format(path)
    try:
        free = shutil.disk_usage(path).free / 2**20
        left_over = sum(1 for name in os.listdir(path) if name.startswith("fastrtps_"))
    except OSError as error:
        return Check("shared memory", "warn", _first_line(error), fix)
    detail = "{:.0f} MiB free in {}, {} Fast DDS files".format(free, path, left_over)
    if free < SHARED_MEMORY_MIB:
        return Check("shared memory", "warn", detail, fix + "; with no ROS running: rm {}/fastrtps_*".format(path))
    return Check("shared memory", "ok", detail)


TO_RUN: Tuple[Callable[[], Check], ...] = (check_python, check_platform, check_sourced_ros, check_rmw)
BEFORE_INSTALL: Tuple[Callable[[], Check], ...] = (
    *TO_RUN[:2], check_venv_module, check_compiler, check_headers, check_tools, *TO_RUN[2:])


def probe_index(python: str, lock: Path) -> Check:
    """Fetches the smallest locked package with the pip of a new environment, so with the user's own pip configuration.

    A missing network is reported in seconds and in one line, where an install would retry for minutes.
    """
    name, version = next((name, version) for name, version, marker in read_lock(lock) if name == "iniconfig")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--disable-pip-version-check",
             "--retries", "1", "--timeout", "15", "--dest", folder, "{}=={}".format(name, version)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode == 0:
        return Check("package index", "ok", "reachable")
    fix = "connect, or point pip at a mirror or a folder of wheels (PIP_INDEX_URL, PIP_FIND_LINKS, pip.conf); then run make again"
    offline = re.search(r"(?i)connection|resolution|resolve|timed? ?out|unreachable|proxy|from versions: none", done.stdout)
    if offline:
        return Check("package index", "fail", "pip reaches no package index (no network?)", fix)
    return Check("package index", "fail", "pip: " + (done.stdout.strip().splitlines() or ["failed"])[-1], fix)


def _runs(command: str) -> bool:
    """Checks that a command starts: version managers put commands on PATH that only report a missing installation."""
    if not shutil.which(command):
        return False
    return subprocess.run([command, "-S", "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def main(argv: List[str]) -> int:
    """Runs the checks before an install; with arguments PYTHON LOCK probes the index with that Python's pip."""
    checks = [probe_index(argv[0], Path(argv[1]))] if argv else [check() for check in BEFORE_INSTALL]
    failures = [check for check in checks if check.status == "fail"]
    for check in failures:
        print("lfdm_ros: {}; fix: {}".format(check.detail, check.fix), file=sys.stderr)
    return 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
