"""Who may import whom, beyond the contracts of pyproject.toml that `make lint` holds."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "lfdm_ros"
ROS_ROOMS = ("ros", "nodes", "stacks")
GENERATED = {"lfdm_ros.msg", "lfdm_ros.srv", "lfdm_ros.action"}


@cache
def imports(path: Path) -> set[str]:
    """The dotted names that a module imports, at its top or inside functions."""
    package = path.relative_to(ROOT).parent.parts
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[:len(package) - node.level + 1], *filter(None, [node.module])]) if node.level else node.module
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def test_only_nodes_import_the_generated_messages() -> None:
    """import-linter does not see them: they are not in the source tree."""
    offenders = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in PACKAGE.rglob("*.py") if path.parent.name not in ROS_ROOMS
        for name in imports(path) if any(name == g or name.startswith(g + ".") for g in GENERATED)]
    assert not offenders


def test_models_import_the_standard_library_only() -> None:
    outside = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (PACKAGE / "models").rglob("*.py") for name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("lfdm_ros.models", "lfdm_ros.errors", "lfdm_ros.plugins"))}
    assert not outside


def test_nodes_are_imported_by_the_command_line_inside_functions_only() -> None:
    """`lfdm simulate` and `lfdm calibrate` work where there is no rclpy."""
    for path in (PACKAGE / "cli").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                text = ast.unparse(node)
                assert not re.search(rf"lfdm_ros\.({'|'.join(ROS_ROOMS)})\b", text), f"{path.name}: {text}"


def test_vehicles_come_without_what_few_of_them_need() -> None:
    """Every command loads vehicles; SciPy's optimizers or a registry of units would be most of its start."""
    code = "import sys; from lfdm_ros.vehicles import *; load_vehicle('hmmwv'); print({'scipy.optimize', 'pint'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "set()"


@pytest.mark.parametrize("node", ["vehicle_simulator", "hil_bridge", "joystick", "dashboard"])
def test_nodes_that_do_not_plan_come_without_the_controller(node) -> None:
    """It would be a third of their start and memory."""
    code = (f"import sys, lfdm_ros.nodes.{node}; "
            "print([name for name in sys.modules if name.startswith(('lfdm_ros.control', 'piqp', 'scipy.interpolate'))])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


def test_recordings_are_refused_and_a_density_is_known_without_pymc() -> None:
    """A calibration imports it when its arguments and recordings have been found to do: a mistake should not cost its seconds. Least
    squares, recordings on trial and tables of a study need none of it; its import and its compiler would be seconds of each."""
    code = ("import sys, lfdm_ros.calibration.run; print(sorted({'pymc', 'arviz', 'matplotlib'} & set(sys.modules))); "
            "import lfdm_ros.calibration.scoring, lfdm_ros.calibration.stage, lfdm_ros.calibration.sbc, lfdm_ros.samplers.least_squares; "
            "print(sorted({'pymc', 'pytensor', 'arviz'} & set(sys.modules)))")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.split() == ["[]", "[]"]
