"""Binding of the CUDA Driver API: devices, memory, streams, kernels. Needs NVIDIA's driver only.

LFDM_CUDA_LIBRARY names another library than libcuda.so.1.
"""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from lfdm_ros.errors import InputError

VARIABLE = "LFDM_CUDA_LIBRARY"
LIBRARY = "libcuda.so.1"
OUT_OF_MEMORY = 2
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76  # CUdevice_attribute
_PTX = 1  # CUjitInputType

_ADDRESS = c_uint64  # of a device
_ARGUMENTS: dict[str, Sequence[Any]] = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuGetErrorString": [c_int, POINTER(c_char_p)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuMemAlloc_v2": [POINTER(_ADDRESS), c_size_t],
    "cuMemFree_v2": [_ADDRESS],
    "cuMemAllocHost_v2": [POINTER(c_void_p), c_size_t],
    "cuMemFreeHost": [c_void_p],
    "cuMemcpyHtoDAsync_v2": [_ADDRESS, c_void_p, c_size_t, c_void_p],
    "cuMemcpyDtoHAsync_v2": [c_void_p, _ADDRESS, c_size_t, c_void_p],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamSynchronize": [c_void_p],
    "cuStreamDestroy_v2": [c_void_p],
    "cuLinkCreate_v2": [c_uint, c_void_p, c_void_p, POINTER(c_void_p)],
    "cuLinkAddData_v2": [c_void_p, c_int, c_char_p, c_size_t, c_char_p, c_uint, c_void_p, c_void_p],
    "cuLinkComplete": [c_void_p, POINTER(c_void_p), POINTER(c_size_t)],
    "cuLinkDestroy": [c_void_p],
    "cuModuleLoadData": [POINTER(c_void_p), c_char_p],
    "cuModuleGetFunction": [POINTER(c_void_p), c_void_p, c_char_p],
    "cuLaunchKernel": [c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)],
}


class DriverError(InputError):
    """A call of the driver failed. `code`: CUresult."""

    def __init__(self, call: str, code: int, text: str):
        super().__init__(f"{call}: {text} (CUDA error {code})")
        self.code = code


class CudaDriver:
    """The loaded library. Raises InputError: no driver, or no device."""

    def __init__(self, path: str):
        try:
            self._library = ctypes.CDLL(path)
            for name, arguments in _ARGUMENTS.items():
                function = getattr(self._library, name)
                function.argtypes, function.restype = arguments, c_int
        except (OSError, AttributeError) as error:
            raise InputError(f"no driver of NVIDIA: {error}; install it, or run on the processor (backend cpu)") from None
        self.call("cuInit", 0)
        version, count = c_int(), c_int()
        self.call("cuDriverGetVersion", byref(version))
        self.call("cuDeviceGetCount", byref(count))
        self.version = version.value
        self.count = count.value
        if not self.count:
            raise InputError("NVIDIA's driver finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES, or run on the processor "
                             "(backend cpu)")

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function. Raises DriverError with the driver's own text."""
        code = getattr(self._library, name)(*arguments)
        if code:
            text = c_char_p()
            description = not self._library.cuGetErrorString(code, byref(text)) and text.value
            raise DriverError(name, code, description.decode() if description else "unknown error")


@dataclass(frozen=True, eq=False)
class Device:
    """A GPU with its primary context, shared with other libraries of this process."""

    driver: CudaDriver
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    context: int

    @classmethod
    def opened(cls, driver: CudaDriver, number: int) -> "Device":
        device, name, context = c_int(), ctypes.create_string_buffer(256), c_void_p()
        driver.call("cuDeviceGet", byref(device), number)
        driver.call("cuDeviceGetName", name, len(name), device)

        def attribute(which: int) -> int:
            value = c_int()
            driver.call("cuDeviceGetAttribute", byref(value), which, device)
            return value.value

        driver.call("cuDevicePrimaryCtxRetain", byref(context), device)
        return cls(driver, name.value.decode(), (attribute(_MAJOR), attribute(_MINOR)), attribute(_MULTIPROCESSORS), context.value or 0)

    @contextmanager
    def current(self) -> Iterator[None]:
        """Sends the calls of this thread to this device."""
        self.driver.call("cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            self.driver.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def free_memory(self) -> int:
        """Returns the free memory of the current device [bytes]."""
        free, total = c_size_t(), c_size_t()
        self.driver.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value

    def linked(self, ptx: str) -> bytes:
        """Returns the machine code of a PTX module for the current device."""
        state, cubin, size = c_void_p(), c_void_p(), c_size_t()
        self.driver.call("cuLinkCreate_v2", 0, None, None, byref(state))
        try:
            text = ptx.encode() + b"\0"
            self.driver.call("cuLinkAddData_v2", state, _PTX, text, len(text), b"lfdm_ros", 0, None, None)
            self.driver.call("cuLinkComplete", state, byref(cubin), byref(size))
            return ctypes.string_at(cubin.value or 0, size.value)
        finally:
            self.driver.call("cuLinkDestroy", state)

    def kernel(self, cubin: bytes, name: str) -> int:
        """Returns the handle of a kernel; its module stays loaded."""
        module, function = c_void_p(), c_void_p()
        self.driver.call("cuModuleLoadData", byref(module), cubin)
        self.driver.call("cuModuleGetFunction", byref(function), module, name.encode())
        return function.value or 0

    def launch(self, kernel: int, blocks: int, threads: int, arguments: Sequence[Any], stream: "Stream") -> None:
        """Starts a kernel; arguments are values of ctypes."""
        pointers = (c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        self.driver.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, stream.handle, pointers, None)


class Stream:
    """A CUDA stream with buffers on host and device: in order by itself, concurrent with others."""

    def __init__(self, device: Device):
        self.device, self.size = device, 0
        self.handle, self.address, self._host = c_void_p(), _ADDRESS(), c_void_p()
        device.driver.call("cuStreamCreate", byref(self.handle), 1)  # does not wait for the default stream

    def reserve(self, size: int) -> None:
        """Allocates at least `size` bytes on host and device. Raises DriverError: out of memory, with no memory allocated."""
        if size <= self.size:
            return
        self.release()
        self.device.driver.call("cuMemAlloc_v2", byref(self.address), size)
        try:
            # Page-locked, otherwise copies wait for the kernels of the other stream.
            self.device.driver.call("cuMemAllocHost_v2", byref(self._host), size)
        except DriverError:
            self.device.driver.call("cuMemFree_v2", self.address)
            raise
        self.size = size

    def release(self) -> None:
        """Frees the memory."""
        if self.size:
            self.size = 0
            self.device.driver.call("cuMemFree_v2", self.address)
            self.device.driver.call("cuMemFreeHost", self._host)

    def close(self) -> None:
        """Frees the memory and destroys the stream."""
        self.release()
        self.device.driver.call("cuStreamDestroy_v2", self.handle)

    def buffer(self) -> Any:
        """Returns the host's memory."""
        return (ctypes.c_char * self.size).from_address(self._host.value or 0)

    def send(self, first: int, end: int) -> None:
        """Starts the copy of bytes first ... end - 1 to the device."""
        host, device = (self._host.value or 0) + first, self.address.value + first
        self.device.driver.call("cuMemcpyHtoDAsync_v2", device, host, end - first, self.handle)

    def fetch(self, first: int, end: int) -> None:
        """Starts the copy of bytes first ... end - 1 from the device."""
        host, device = (self._host.value or 0) + first, self.address.value + first
        self.device.driver.call("cuMemcpyDtoHAsync_v2", host, device, end - first, self.handle)

    def wait(self) -> None:
        """Waits for the end of all queued work."""
        self.device.driver.call("cuStreamSynchronize", self.handle)


@cache
def devices() -> tuple[Device, ...]:
    """Opens the GPUs of this machine, cached. Raises InputError: no driver, no device, or a failing one; with the reason."""
    driver = CudaDriver(os.environ.get(VARIABLE) or LIBRARY)
    return tuple(Device.opened(driver, i) for i in range(driver.count))


# CUDA contexts do not survive a fork: in the child the driver is not initialised.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=devices.cache_clear)
