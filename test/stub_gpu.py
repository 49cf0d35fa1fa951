"""A GPU that is none: the driver of `stub_cuda.c`, whose kernels are the PTX of a launcher's modules as C."""

import ctypes
import tempfile
from pathlib import Path

import c_compiler
from ptx import Kernel

from lfdm_ros.backends import cuda_driver

NAMES = "launches", "links", "allocations", "pinned", "streams", "contexts"


class StubGpu:
    """Devices of a driver; `modules` are what was loaded."""

    def __init__(self, folder: Path):
        self.path = folder / "libstub_cuda.so"
        self._library = c_compiler.library(self.path, "-D_GNU_SOURCE", Path(__file__).with_name("stub_cuda.c"))
        self._library.stub_set.argtypes = [ctypes.c_int] * 4 + [ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
        self.modules: dict[str, ctypes.CDLL] = {}
        self._maker = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int))(self._make)
        self._library.stub_maker(self._maker)
        self.set()

    def set(self, devices: int = 1, capability: tuple[int, int] = (9, 0), processors: int = 2, memory: int = 2**30, fail_at: int = 0,
            code: int = 0) -> None:
        """From now on; `fail_at`: the call of memory, copy, launch or waiting from which on all return `code`."""
        self._library.stub_set(devices, *capability, processors, memory, fail_at, code)
        self.loaded: list[str] = []
        cuda_driver.devices.cache_clear()

    def counts(self) -> dict[str, int]:
        numbers = (ctypes.c_int * len(NAMES))()
        self._library.stub_counts(numbers)
        return dict(zip(NAMES, numbers))

    def _make(self, ptx: bytes, sizes: "ctypes._Pointer[ctypes.c_int]") -> int:
        text = ptx.decode()
        self.loaded.append(text)
        kernel = Kernel(text)
        for i, size in enumerate([*kernel.sizes, 0]):
            sizes[i] = size
        if text not in self.modules:
            self.modules[text] = kernel.build(Path(tempfile.mkdtemp(dir=self.path.parent)))
        return ctypes.cast(self.modules[text].launch, ctypes.c_void_p).value or 0
