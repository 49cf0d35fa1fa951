"""Fixtures shared by all tests."""

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import domains
import pictures
import pytest

ROOT = Path(__file__).resolve().parent

# Before anything loads rclpy.
os.environ["ROS_DOMAIN_ID"] = str(domains.own())
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.pop("ROS_LOCALHOST_ONLY", None)
# The store of a calibrator has one writer, and tests run in several processes.
os.environ["ROS_HOME"] = tempfile.mkdtemp(prefix="ros_home_")


def pytest_unconfigure() -> None:
    """Removes logs and stores of the nodes of this process."""
    shutil.rmtree(os.environ["ROS_HOME"], ignore_errors=True)


def pytest_report_header() -> str:
    """What the last bits of this run's numbers hang on."""
    import numpy as np
    from threadpoolctl import threadpool_info

    from lfdm_ros.compiler.machine_code import common, here

    kernels = sorted({str(pool["architecture"]) for pool in threadpool_info() if "architecture" in pool})
    return (f"NumPy {np.__version__}, OpenBLAS for {', '.join(kernels) or '?'}; code for {common().cpu} (what drives) and "
            f"{here().cpu} (batches)")


# The longest files, longest first: of several processes none is left alone with one of them at the end.
LONG = ("test_demo", "test_sbc", "test_calibrator_recordings", "test_stacks", "test_fuzz", "test_controller", "test_reference",
        "test_calibrate", "test_examples", "test_variants", "test_manoeuvring", "test_continuation", "test_bench", "test_optimality",
        "test_rivals", "test_shared_control_node", "test_least_squares", "test_nuts")


# What is imported to collect the tests stays: looking through it for garbage meanwhile, and with every collection later, finds none.
gc.disable()


def pytest_collection_finish() -> None:
    """What there is now is no garbage; of what tests make there may be."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long files first."""
    place = {name: index for index, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONG)))


@pytest.fixture(scope="session", autouse=True)
def _no_lines_of_progress() -> None:
    """However slow the machine is, what a command says on stderr is its own."""
    from lfdm_ros.cli import common

    common.LINE_PERIOD = 1e6


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The recorded vehicles; docs/tutorials/recordings.md says where each set is published."""
    path = Path(os.environ.get("LFDM_REFERENCE_DATA", ROOT / ".." / "shared" / "data")).resolve()
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set LFDM_REFERENCE_DATA")
    return path


# -- The small problem of calibrations (small_problem.py): made once, and solved once by the quickest way -------------------------------


@pytest.fixture(scope="session")
def bags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bags of the small problem by name."""
    from small_problem import MANOEUVRES, write_bag

    folder = tmp_path_factory.mktemp("bags")
    return {name: write_bag(folder / f"{name}_bag", name) for name in MANOEUVRES}


@pytest.fixture(scope="session")
def quick(bags: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The small problem by least squares, 100 draws of 2 chains: directory and summary."""
    from small_problem import RECIPE

    from lfdm_ros.calibration import calibrate, load_recipe

    folder = tmp_path_factory.mktemp("quick")
    (folder / "small.yaml").write_text(RECIPE)
    with pictures.left_out():
        summary = calibrate(load_recipe(folder / "small.yaml"), list(bags.values()), folder / "out", sampler="least_squares")
    return folder / "out", summary


@pytest.fixture(scope="session")
def hmmwv(reference_data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Bags of the three recordings of paper 000."""
    from lfdm_ros.bags import import_recording
    from lfdm_ros.resources import find_config

    folder, source = tmp_path_factory.mktemp("hmmwv"), reference_data / "sbel_hmmwv_bayes_calibration"
    if not source.is_dir():
        pytest.skip(f"no recordings of the HMMWV at {source}")
    bags = [folder / name for name in ("acc", "rr_1", "simp_ramp")]
    for bag in bags:
        import_recording(source / f"{bag.name}.csv", find_config("recordings", "sbel_hmmwv"), bag)
    return bags


@pytest.fixture
def without_pictures() -> Iterator[None]:
    """Reports that this process writes meanwhile have no pictures."""
    with pictures.left_out():
        yield


@pytest.fixture
def recipe_file(tmp_path: Path) -> Path:
    """The recipe of the small problem."""
    from small_problem import RECIPE

    path = tmp_path / "small.yaml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def truth() -> dict[str, float]:
    """The parameters of the vehicle that was recorded, as far as the recipe asks for them."""
    from small_problem import TRUTH

    return {"longitudinal_stiffness": TRUTH["longitudinal_stiffness_front"],
            **{name: value for name, value in TRUTH.items() if name.startswith("cornering")}}


@pytest.fixture(scope="session")
def compiled() -> None:
    """What the process that learns the ground would compile as the first one on a machine."""
    import numpy as np

    from lfdm_ros.ground.friction_estimator import MeasuredDrive
    from lfdm_ros.ground.learned_ground import DriveSegment, GroundPrior, LearnedGround, LearnerSettings
    from lfdm_ros.vehicles import load_vehicle

    vehicle, settings = load_vehicle("hmmwv"), LearnerSettings()
    times, inputs = 0.01 * np.arange(61), np.zeros((61, 3))
    states = {name: np.zeros(61) for name in ("y", "yaw", "vy", "yaw_rate")} | {"x": 10.0 * times, "vx": np.full(61, 10.0)}
    states |= {f"omega_{wheel}": states["vx"] / vehicle.parameters["wheel_radius"] for wheel in ("fl", "fr", "rl", "rr")}
    assert LearnedGround(vehicle, GroundPrior.of(settings), settings).estimate(DriveSegment(MeasuredDrive(times, inputs, states), 0.4)) >= 0


@pytest.fixture(scope="session")
def stub_driver(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A driver of CUDA without a GPU; skips where no C compiler is."""
    import c_compiler
    from stub_gpu import StubGpu

    if c_compiler.CC is None:
        pytest.skip("no C compiler")
    return StubGpu(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def gpu(stub_driver: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One device of two SMs, as long as a test runs."""
    from lfdm_ros.backends import cuda_driver, gpu_launch

    monkeypatch.setenv(cuda_driver.VARIABLE, str(stub_driver.path))
    monkeypatch.setattr(gpu_launch, "POOL", gpu_launch.StreamPool())
    stub_driver.set()
    yield stub_driver
    cuda_driver.devices.cache_clear()
