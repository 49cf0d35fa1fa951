"""Builds lfdm_ros for pip, in an environment that has the ROS 2 wheels (requirements.txt).

colcon reads package.xml and CMakeLists.txt and ignores this file. Here the same CMake project is installed into a staging
prefix, and the wheel carries that prefix: the Python package as a package, the rest (libraries, executables, share/ with the
ament index) as data files below sys.prefix, which is where the ROS wheels look for them. So do the packages of interfaces/, of which there
are no wheels; a ROS installation has them, and colcon does not look for packages inside a package.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# One build tree for each Python: CMake caches what it found of the interpreter.
BUILD = ROOT / "build" / str(sys.implementation.cache_tag)
STAGE = BUILD / "prefix"
INTERFACES = sorted(path.parent for path in ROOT.glob("interfaces/*/package.xml"))
PACKAGES = {ROOT: "lfdm_ros", **{path: path.name for path in INTERFACES}}


def version() -> str:
    """The version has one home, lfdm_ros/__init__.py; package.xml repeats it and a test compares the two."""
    text = (ROOT / "lfdm_ros" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert match, "lfdm_ros/__init__.py has no __version__"
    return match[1]


def missing_interfaces():
    """Yields the folders of the interface packages that no wheel has brought."""
    for path in INTERFACES:
        try:
            importlib.metadata.distribution(f"ros-{path.name.replace('_', '-')}")
        except importlib.metadata.PackageNotFoundError:
            yield path


class CMakeBuild(build_py):
    """Runs CMake into the staging prefix and takes the package and the data files from there."""

    def run(self) -> None:
        if not Path(sys.prefix, "share", "rosidl_default_generators").is_dir():
            sys.exit("lfdm_ros: this environment has no ROS 2 wheels; first run: pip install -r requirements.txt")
        # pip isolates a build through PYTHONPATH, but the message generators are part of the ROS wheels, which are in the
        # environment itself; cmake and ninja are wheels there too.
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        env["PATH"] = os.pathsep.join([str(Path(sys.prefix, "bin")), env.get("PATH", os.defpath)])

        def cmake(*args: object) -> None:
            command = ["cmake", *map(str, args)]
            if subprocess.run(command, env=env, check=False).returncode:
                sys.exit("lfdm_ros: failed (its output is above): " + " ".join(command))

        shutil.rmtree(STAGE, ignore_errors=True)
        for source, tree in ((ROOT, BUILD / "cmake"), *((path, BUILD / path.name) for path in missing_interfaces())):
            cmake(
                "-S", source, "-B", tree, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF",
                f"-DCMAKE_INSTALL_PREFIX={STAGE}", f"-DPython3_EXECUTABLE={sys.executable}",
                f"-DCMAKE_PROJECT_INCLUDE={ROOT / 'cmake' / 'pypi_wheels.cmake'}")
            cmake("--build", tree, "--parallel")
            cmake("--install", tree)
            package = next(STAGE.glob("lib/python*/site-packages")) / PACKAGES[source]
            shutil.rmtree(Path(self.build_lib, package.name), ignore_errors=True)
            for compiled in package.rglob("__pycache__"):  # pip makes it for the place of installation
                shutil.rmtree(compiled)
            self.copy_tree(str(package), str(Path(self.build_lib, package.name)))
        self.distribution.data_files = [*self.staged_files()]

    def staged_files(self):
        """Yields (folder below sys.prefix, [file]) of all that is not Python package, header or CMake export."""
        for path in [*STAGE.glob("lib/*.so"), *STAGE.glob("lib/lfdm_ros/*"), *STAGE.glob("share/**/*")]:
            folder = path.parent.relative_to(STAGE)
            if path.is_file() and "cmake" not in folder.parts:
                yield str(folder), [str(path.relative_to(ROOT))]

    def get_outputs(self, include_bytecode: bool = True) -> list:
        return [str(path) for path in Path(self.build_lib).rglob("*") if path.is_file()]


class BinaryDistribution(Distribution):
    """Makes the wheel's tag name this Python and platform: the generated message modules are compiled."""

    def has_ext_modules(self) -> bool:
        return True


setup(version=version(), packages=[*PACKAGES.values()], package_dir={path.name: str(path.relative_to(ROOT)) for path in INTERFACES},
      cmdclass={"build_py": CMakeBuild}, distclass=BinaryDistribution)
