"""Launch of kernels with a thread for each vehicle on all GPUs, in chunks of vehicles.

Copies of the next and the last chunk overlap with computation, and a batch may be larger than the GPU's memory.
"""

import ctypes
import hashlib
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lfdm_ros.backends.cuda_driver import OUT_OF_MEMORY, Device, DriverError, Stream, devices
from lfdm_ros.backends.trajectory_kernels import once
from lfdm_ros.compiler.code_cache import cached
from lfdm_ros.compiler.reading import WIDTH
from lfdm_ros.compiler.tables import stored_table
from lfdm_ros.errors import InputError

MIN_CAPABILITY = 7, 5  # compute capability of the PTX target
BLOCK = 128  # threads of a block
RESIDENT = 256  # threads of an SM at 255 registers each
CHUNK = 2**27  # bytes of a chunk on host and device each
STEPS = 2 * 10**9  # vehicle steps of a launch, about 1 s: below the watchdog of a display driver, and Ctrl-C works
STREAMS = 2


def usable_devices() -> tuple[Device, ...]:
    """Returns the supported GPUs. Raises InputError: none, with the reason in one line."""
    installed = devices()
    usable = tuple(device for device in installed if device.capability >= MIN_CAPABILITY)
    if not usable:
        raise InputError(f"{installed[0].name} has compute capability {'.'.join(map(str, installed[0].capability))}; the kernels need "
                         f"{'.'.join(map(str, MIN_CAPABILITY))} (Turing, 2018) or later; run on the processor (backend cpu)")
    return usable


# -- Arguments of a kernel, in its order ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Array:
    array: np.ndarray


@dataclass(frozen=True)
class ByVehicle(_Array):
    """An array whose last axis is the vehicle; `numbers`: its rows that are table numbers; the tables are of type `real`."""

    numbers: tuple[int, ...] = ()
    real: str = "double"


@dataclass(frozen=True)
class Shared(_Array):
    """An array that all vehicles read."""


@dataclass(frozen=True)
class ByValue(_Array):
    """An array passed by value."""


@dataclass(frozen=True)
class Result(_Array):
    """An output array whose last axis is the vehicle; a null pointer if of size 0."""


VEHICLES = object()  # the number of vehicles of a chunk
TABLE_POINTERS = object()  # three pointers: addresses of the tables, their last rows, their count
Argument = Any  # one of those, or a number of ctypes


@dataclass(frozen=True)
class _Call:
    """Arguments of one call and their layout in a stream's memory: shared, by vehicle, results, tables."""

    arguments: Sequence[Argument]
    steps: int  # of each vehicle

    def arrays(self, kind: type[_Array]) -> list[np.ndarray]:
        """Returns the arrays of a kind of argument, in order."""
        return [argument.array for argument in self.arguments if isinstance(argument, kind)]

    @cached_property
    def vehicles(self) -> int:
        """Number of vehicles of the call."""
        return int(self.arrays(Result)[0].shape[-1])

    @cached_property
    def shared_size(self) -> int:
        """Bytes of the shared arrays."""
        return sum(_whole(a.nbytes) for a in self.arrays(Shared))

    @cached_property
    def _tables(self) -> dict[float, np.ndarray]:
        """Tables that vehicles read, by number; first the one for unknown numbers."""
        tables = {-1.0: stored_table(-1.0)}
        for argument in self.arguments:
            if isinstance(argument, ByVehicle) and argument.numbers:
                tables = {-1.0: stored_table(-1.0, argument.real)}
                used = np.unique(argument.array[list(argument.numbers)])
                tables |= {number: stored_table(number, argument.real) for number in used[np.isfinite(used)].tolist()}
        return tables

    @cached_property
    def _table_sizes(self) -> tuple[int, int, int]:
        """Bytes of all tables, of the first, and an upper bound for those of one vehicle."""
        sizes = [_whole(a.nbytes) + 16 for a in self._tables.values()]
        rows = sum(len(argument.numbers) for argument in self.arguments if isinstance(argument, ByVehicle))
        return sum(sizes), sizes[0], rows * max(sizes)

    def size(self, vehicles: int) -> int:
        """Returns the bytes for a number of vehicles."""
        arrays = [*self.arrays(ByVehicle), *self.arrays(Result)]
        everything, first, each = self._table_sizes
        return (self.shared_size + sum(_whole(math.prod(a.shape[:-1]) * vehicles * a.itemsize) for a in arrays)
                + 8 + min(everything, first + each * vehicles))

    def chunk(self, device: Device, free: int, workers: int) -> int:
        """Returns the number of vehicles of a launch, in whole waves if possible, within the limits of memory and time."""
        wave, limit = RESIDENT * device.multiprocessors, int(0.4 * free)
        count = min(-(-self.vehicles // workers), max(wave, STEPS // max(1, self.steps)))
        while count > 1 and self.size(count) > (min(CHUNK, limit) if count > wave else limit):
            count = count // 2 if count < 2 * wave else count - wave
        return count - count % wave if count > wave else count

    def views(self, stream: Stream, vehicles: int) -> tuple[dict[int, tuple[np.ndarray, int]], int, int, int]:
        """Returns the arrays in a stream's memory by index of the argument, each with its offset [bytes]; and the offsets of the arrays by
        vehicle, results and tables."""
        begin, buffer, arrays = 0, np.frombuffer(stream.buffer(), np.uint8), dict[int, tuple[np.ndarray, int]]()
        ends = []
        for kind in (Shared, ByVehicle, Result):
            for i, argument in enumerate(self.arguments):
                if isinstance(argument, kind):
                    array = argument.array
                    shape = array.shape if kind is Shared else (*array.shape[:-1], vehicles)
                    size = math.prod(shape) * array.itemsize
                    arrays[i] = buffer[begin:begin + size].view(array.dtype).reshape(shape), begin
                    begin += _whole(size)
            ends.append(begin)
        return arrays, ends[0], ends[1], ends[2]

    def start(self, device: Device, kernel: int, stream: Stream, first: int, end: int, new: bool) -> None:
        """Queues vehicles first ... end - 1: copies, kernel, copies back; `new`: copies the shared arrays too."""
        count, base = end - first, stream.address.value
        views, by_vehicle, results, tables = self.views(stream, count)
        last, pointers = tables, [0, 0, 0]
        for i, argument in enumerate(self.arguments):
            if isinstance(argument, Shared) and new:
                views[i][0][...] = argument.array
            elif isinstance(argument, ByVehicle):
                views[i][0][...] = argument.array[..., first:end]
                if argument.numbers:
                    pointers, last = self._write_tables(views[i][0], argument, np.frombuffer(stream.buffer(), np.uint8), base, tables)
        stream.send(0 if new else by_vehicle, results)
        if last > tables:
            stream.send(tables, last)
        values: list[Any] = []
        for i, argument in enumerate(self.arguments):
            if i in views:
                values.append(ctypes.c_uint64(base + views[i][1] if argument.array.size else 0))
            elif argument is TABLE_POINTERS:
                values += map(ctypes.c_uint64, pointers)
            elif isinstance(argument, ByValue):
                values.append((ctypes.c_char * argument.array.nbytes).from_buffer_copy(argument.array.tobytes()))
            else:
                values.append(ctypes.c_int64(count) if argument is VEHICLES else argument)
        device.launch(kernel, -(-count // BLOCK), BLOCK, values, stream)
        stream.fetch(results, tables)

    def _write_tables(self, rows: np.ndarray, argument: ByVehicle, buffer: np.ndarray, base: int, begin: int) -> tuple[list[int], int]:
        """Writes the tables of a chunk's vehicles from `begin` on, and their new numbers to `rows`: from 1, 0 without a table.

        Returns the three pointers, and the end of the tables.
        """
        used = np.unique(rows[list(argument.numbers)])
        numbers = used[np.isfinite(used)].astype(float)
        arrays = [self._tables[number] for number in (-1.0, *numbers.tolist())]
        count = len(arrays)
        heads, place = buffer[begin:begin + 8 * (2 * count + 1)].view(np.int64), begin + 8 * (2 * count + 1)
        for k, array in enumerate(arrays):
            heads[k], heads[count + k] = base + place, len(array) - WIDTH
            buffer[place:place + array.nbytes] = array.view(np.uint8)
            place += _whole(array.nbytes)
        heads[2 * count] = count
        for row in argument.numbers:
            rows[row] = np.where(np.isin(rows[row], numbers), np.searchsorted(numbers, rows[row]) + 1.0, 0.0)
        return [base + begin, base + begin + 8 * count, base + begin + 16 * count], place

    def store_results(self, stream: Stream, first: int, end: int) -> None:
        """Stores the results of vehicles first ... end - 1 in the arrays of `Result`."""
        views = self.views(stream, end - first)[0]
        for i, argument in enumerate(self.arguments):
            if isinstance(argument, Result):
                argument.array[..., first:end] = views[i][0]


def _whole(size: int) -> int:
    """Rounds bytes up to a multiple of 8."""
    return -(-size // 8) * 8


# -- Streams and devices --------------------------------------------------------------------------------------------------------


class StreamPool:
    """Pool of idle streams of all devices: page-locked memory takes longer to allocate than a chunk to run."""

    def __init__(self) -> None:
        self._lock, self._free = threading.Lock(), defaultdict[Device, list[Stream]](list)

    def size(self, device: Device) -> int:
        """Returns the bytes of a device in the pool."""
        with self._lock:
            return sum(stream.size for stream in self._free[device])

    def release(self, device: Device) -> bool:
        """Frees the idle streams of the current device; returns False if there are none."""
        with self._lock:
            free = self._free.pop(device, [])
        for stream in free:
            stream.close()
        return bool(free)

    @contextmanager
    def streams(self, device: Device, size: Callable[[int], int], vehicles: int) -> Iterator[tuple[list[Stream], int]]:
        """Yields streams of the current device and the number of vehicles that fit into each, at most `vehicles`.

        `size`: bytes for a number of vehicles. Raises InputError: memory for one vehicle is missing.
        """
        streams: list[Stream] = []
        try:
            while len(streams) < STREAMS:
                with self._lock:
                    free = self._free[device]
                    stream = free.pop() if free else None
                streams.append(stream or Stream(device))
                try:
                    streams[-1].reserve(size(vehicles))
                except DriverError as error:
                    if error.code != OUT_OF_MEMORY:
                        raise
                    streams.pop().close()
                    if self.release(device):
                        continue
                    if streams:  # goes on with one stream
                        break
                    if vehicles <= 1:
                        raise InputError(f"{device.name} is out of memory: one run needs {size(1) / 2**20:.3g} MiB; keep fewer samples or "
                                         "states, or run on the processor (backend cpu)") from None
                    vehicles = max(1, vehicles // 2)
            yield streams, vehicles
        except BaseException:
            # They may still run work of the failed call.
            for stream in streams:
                with suppress(DriverError):
                    stream.wait()
                    stream.close()
            raise
        with self._lock:
            self._free[device] += streams


POOL = StreamPool()


@once
def _load(device: Device, ptx: str, name: str) -> int:
    """Returns the handle of a kernel on the current device, with its machine code in the code cache."""
    key = f"{device.driver.version}|{device.capability}|{ptx}"
    return device.kernel(cached(f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin", lambda: device.linked(ptx)), name)


class GpuKernel:
    """A kernel of a PTX module on all usable GPUs. Raises InputError: no GPU, or the driver rejects it, with the driver's message."""

    def __init__(self, ptx: str, name: str):
        self._ptx, self._name, self._devices = ptx, name, usable_devices()
        for device in self._devices:
            with device.current():
                _load(device, ptx, name)

    def run(self, arguments: Sequence[Argument], steps: int) -> None:
        """Runs all vehicles and fills the arrays of `Result`; `steps`: of each vehicle, limits the vehicles of a launch. Thread-safe.
        Raises InputError: the driver fails, with its message."""
        call, lock, done = _Call(arguments, steps), threading.Lock(), 0

        def following(size: int) -> tuple[int, int]:
            """Returns the next range of vehicles, empty at the end."""
            nonlocal done
            with lock:
                first, done = done, min(done + size, call.vehicles)
                return first, done

        if len(self._devices) == 1:
            self._work(self._devices[0], call, following)
            return
        with ThreadPoolExecutor(len(self._devices), thread_name_prefix="lfdm_ros_gpu") as pool:
            for future in [pool.submit(self._work, device, call, following) for device in self._devices]:
                future.result()

    def _work(self, device: Device, call: _Call, following: Callable[[int], tuple[int, int]]) -> None:
        with device.current():
            kernel = _load(device, self._ptx, self._name)
            size = call.chunk(device, device.free_memory() + POOL.size(device), len(self._devices))
            with POOL.streams(device, call.size, size) as (streams, size):
                waiting: dict[Stream, tuple[int, int]] = {}
                unsent, turn = set(streams), 0
                while True:
                    stream = streams[turn % len(streams)]
                    turn += 1
                    if stream in waiting:
                        stream.wait()
                        call.store_results(stream, *waiting.pop(stream))
                    first, end = following(size)
                    if first < end:
                        call.start(device, kernel, stream, first, end, stream in unsent)
                        unsent.discard(stream)
                        waiting[stream] = first, end
                    elif not waiting:
                        return
