"""A driver of CUDA without a GPU."""

from collections.abc import Iterator

import c_compiler
import pytest
from stub_gpu import StubGpu

from lfdm_ros.backends import cuda_driver, gpu_launch


@pytest.fixture(scope="session")
def stub_driver(tmp_path_factory) -> StubGpu:
    if c_compiler.CC is None:
        pytest.skip("no C compiler")
    return StubGpu(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def gpu(stub_driver: StubGpu, monkeypatch) -> Iterator[StubGpu]:
    """One device of two SMs, as long as a test runs."""
    monkeypatch.setenv(cuda_driver.VARIABLE, str(stub_driver.path))
    monkeypatch.setattr(gpu_launch, "POOL", gpu_launch.StreamPool())
    stub_driver.set()
    yield stub_driver
    cuda_driver.devices.cache_clear()
