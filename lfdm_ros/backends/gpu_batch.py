"""Batches of vehicles on NVIDIA's GPUs: the kernel of the processor's batches with a thread for each vehicle.

A thread runs its vehicle through all samples, with the state in registers; memory is read at samples only. Vehicles go over in chunks:
while one chunk runs, the next is copied there and the last one back, so a batch may be larger than the GPU's memory. All GPUs share them.
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

import numpy as np

from lfdm_ros.backends.casadi_backend import casadi_model
from lfdm_ros.backends.cuda_driver import OUT_OF_MEMORY, Device, DriverError, Stream, devices
from lfdm_ros.backends.steps import HALF_IMPLICIT, step_of
from lfdm_ros.backends.trajectory_kernels import batch_text, once
from lfdm_ros.compiler.code_cache import store, stored
from lfdm_ros.compiler.machine_code import GPU, assembly
from lfdm_ros.compiler.reading import WIDTH
from lfdm_ros.compiler.tables import stored_table
from lfdm_ros.errors import InputError
from lfdm_ros.models import Model

LEAST_CAPABILITY = 7, 5  # of GPU, for which the kernels are written
BLOCK = 128  # threads of a block
RESIDENT = 256  # threads that an SM holds at 255 registers each
CHUNK = 2**27  # bytes of a chunk's memory, on each side
STEPS = 2 * 10**9  # of a launch: about a second, after which a screen's driver would end it, and Ctrl-C is heard
STREAMS = 2
REALS = {"float64": "double", "float32": "float"}


def usable_devices() -> tuple[Device, ...]:
    """Returns the GPUs that the kernels run on. Raises InputError: none, with the reason in one line."""
    found = devices()
    usable = tuple(device for device in found if device.capability >= LEAST_CAPABILITY)
    if not usable:
        raise InputError(f"{found[0].name} has compute capability {'.'.join(map(str, found[0].capability))}; the kernels need "
                         f"{'.'.join(map(str, LEAST_CAPABILITY))} (Turing, 2018) or later; run on the processor (backend cpu)")
    return usable


def batch_ptx(model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...] = ()) -> str:
    """Returns the PTX module of a model's batch kernel. Raises InputError: the model calls functions that have no instructions there."""
    real = REALS[precision]
    driven = [[field.name for field in model.states].index(name) for name in prescribed]
    ptx = assembly(f"gpu batch {casadi_model(model).digest} {real} {separate_inputs} {driven}",
                   lambda: batch_text(model, real, separate_inputs, HALF_IMPLICIT, 1, driven, threads=True), GPU)
    called = sorted({line.split()[-1].rstrip("(,") for line in ptx.splitlines() if line.strip().startswith(".extern .func")})
    if called:
        raise InputError(f"model '{model.name}' calls {', '.join(called)}, for which a GPU has no instructions; run on the processor "
                         "(backend cpu)")
    return ptx


@once
def _kernel(device: Device, ptx: str, name: str) -> int:
    """Loads a kernel on a device that is current; its machine code is kept in the code cache."""
    key = f"{device.driver.version}|{device.capability}|{ptx}"
    place = f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
    cubin = stored(place)
    if cubin is None:
        cubin = device.linked(ptx)
        store(place, cubin)
    return device.kernel(cubin, name)


class StreamPool:
    """Streams of all devices that nobody uses at present: page-locked memory takes longer to get than a chunk to run."""

    def __init__(self) -> None:
        self._lock, self._free = threading.Lock(), defaultdict[Device, list[Stream]](list)

    def size(self, device: Device) -> int:
        """Returns the bytes of a device that are kept."""
        with self._lock:
            return sum(stream.size for stream in self._free[device])

    def release(self, device: Device) -> bool:
        """Gives back what is kept of the current device; returns False where that was nothing."""
        with self._lock:
            kept = self._free.pop(device, [])
        for stream in kept:
            stream.close()
        return bool(kept)

    @contextmanager
    def streams(self, device: Device, size: Callable[[int], int], vehicles: int) -> Iterator[tuple[list[Stream], int]]:
        """Yields streams of the current device and the number of vehicles that fit into each, `vehicles` where memory allows.

        `size`: bytes for a number of vehicles. Raises InputError: not even one block fits.
        """
        taken: list[Stream] = []
        try:
            while len(taken) < STREAMS:
                with self._lock:
                    free = self._free[device]
                    stream = free.pop() if free else None
                taken.append(stream or Stream(device))
                try:
                    taken[-1].reserve(size(vehicles))
                except DriverError as error:
                    if error.code != OUT_OF_MEMORY:
                        raise
                    taken.pop().close()
                    if self.release(device):
                        continue
                    if taken:  # one stream has to do
                        break
                    if vehicles <= 1:
                        raise InputError(f"{device.name} is out of memory: one run needs {size(1) / 2**20:.3g} MiB; keep fewer samples or "
                                         "states, or run on the processor (backend cpu)") from None
                    vehicles = max(1, vehicles // 2)
            yield taken, vehicles
        except BaseException:
            # They may still be at work for a call that is over.
            for stream in taken:
                with suppress(DriverError):
                    stream.wait()
                    stream.close()
            raise
        with self._lock:
            self._free[device] += taken


POOL = StreamPool()


def _table_columns(model: Model) -> tuple[int, ...]:
    """Returns the columns of the parameters that are numbers of arrays. Raises InputError: an array's number is computed."""
    graph = step_of(model, HALF_IMPLICIT).graph
    columns = {node: column for column, node in enumerate(graph.inputs[2])}
    numbers = {node.arguments[0] for node in graph.nodes if node.operation == "table"}
    if not numbers <= columns.keys():
        raise InputError(f"model '{model.name}' computes which array it reads; run on the processor (backend cpu)")
    return tuple(sorted(columns[node] for node in numbers))


@dataclass(frozen=True)
class _Tables:
    """Arrays that vehicles read, by numbers among their parameters; those of a chunk go over with it, numbered from 1, and at 0 that of
    a number that none has."""

    columns: tuple[int, ...]
    real: str

    def sizes(self, parameters: np.ndarray) -> list[int]:
        """Returns the bytes of each array that vehicles read, with address and last row."""
        return [_whole(stored_table(number, self.real).nbytes) + 16 for number in self._numbers(parameters)]

    def size(self, sizes: Sequence[int], vehicles: int) -> int:
        """Returns bytes that hold the arrays of any chunk of so many vehicles."""
        return 8 + min(sum(sizes), sizes[0] + len(self.columns) * vehicles * max(sizes))

    def write(self, parameters: np.ndarray, place: np.ndarray, address: int) -> tuple[list[int], int]:
        """Writes the arrays of a chunk's vehicles to `place` (bytes), which will be at an address, and their new numbers to `parameters`.

        Returns the addresses of addresses, last rows and count, and the number of bytes written.
        """
        numbers = self._numbers(parameters)
        arrays = [stored_table(number, self.real) for number in numbers]
        count = len(arrays)
        heads = place[:8 * (2 * count + 1)].view(np.int64)
        begin = heads.nbytes
        for k, array in enumerate(arrays):
            heads[k], heads[count + k] = address + begin, len(array) - WIDTH
            place[begin:begin + array.nbytes] = array.view(np.uint8)
            begin += _whole(array.nbytes)
        heads[2 * count] = count
        for column in self.columns:
            own = parameters[column]
            parameters[column] = np.where(np.isin(own, numbers[1:]), np.searchsorted(numbers[1:], own) + 1.0, 0.0)
        return [address, address + 8 * count, address + 16 * count], begin

    def _numbers(self, parameters: np.ndarray) -> list[float]:
        used = np.unique(parameters[list(self.columns)])
        return [-1.0, *used[np.isfinite(used)].tolist()]


def _whole(size: int) -> int:
    """Rounds bytes up to whole numbers."""
    return -(-size // 8) * 8


@dataclass(frozen=True)
class _Call:
    """Arguments and results of one call, and where they lie in a stream's memory: numbers of 8 bytes, what all vehicles share first."""

    arrays: Sequence[np.ndarray]  # (R, N) each, copied by vehicle; parameters first
    shared: Sequence[np.ndarray]  # copied once
    results: Sequence[np.ndarray]  # (R, N) each
    separate_inputs: bool
    numbers: tuple[int, int, int, float, float]  # samples, substeps, channels, step, rise
    tables: _Tables

    @property
    def vehicles(self) -> int:
        return self.arrays[0].shape[1]

    @cached_property
    def shared_size(self) -> int:
        """Bytes of what all vehicles share."""
        return sum(a.nbytes for a in self.shared)

    @cached_property
    def vehicle_size(self) -> int:
        """Bytes of one vehicle, without the arrays that it reads."""
        return 8 * sum(len(a) for a in (*self.arrays, *self.results))

    @cached_property
    def table_sizes(self) -> list[int]:
        """Bytes of the arrays that vehicles read."""
        return self.tables.sizes(self.arrays[0])

    def size(self, vehicles: int) -> int:
        """Returns the bytes for a number of vehicles."""
        return self.shared_size + self.vehicle_size * vehicles + self.tables.size(self.table_sizes, vehicles)

    def chunk(self, device: Device, free: int, workers: int) -> int:
        """Returns how many vehicles go over at a time: whole waves where there are that many, as memory and time allow."""
        wave, most = RESIDENT * device.multiprocessors, int(0.4 * free)
        samples, substeps = self.numbers[:2]
        count = min(-(-self.vehicles // workers), max(wave, STEPS // max(1, samples * substeps)))
        while count > 1 and self.size(count) > (CHUNK if count > wave else most):
            count = count // 2 if count < 2 * wave else count - wave
        return count - count % wave if count > wave else count


class GpuBatch:
    """Runs batches of one model as `RunBatch` says; raises InputError where the driver fails, with its own text."""

    def __init__(self, model: Model, precision: str, separate_inputs: bool, prescribed: tuple[str, ...]):
        self._devices = usable_devices()
        self._separate, self._ptx = separate_inputs, batch_ptx(model, precision, separate_inputs, prescribed)
        self._tables = _Tables(_table_columns(model), REALS[precision])
        for device in self._devices:  # what cannot be loaded is said now
            with device.current():
                _kernel(device, self._ptx, "batch")

    @property
    def resident(self) -> int:
        """Vehicles that all GPUs hold at a time."""
        return sum(RESIDENT * device.multiprocessors for device in self._devices)

    def __call__(self, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
                 rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]:
        samples, channels, n = len(inputs), len(rows), parameters.shape[1]
        sums = np.empty((channels, n))
        kept = np.empty((samples * channels, n)) if keep else np.empty((0, n))
        by_vehicle = [parameters, start, *([inputs.reshape(-1, n)] if self._separate else [])]
        call = _Call(by_vehicle, [*([] if self._separate else [inputs]), rows, observed], [sums, kept], self._separate,
                     (samples, substeps, channels, h, 0.0 if hold else 1.0 / substeps), self._tables)
        if n and channels:
            self._run(call)
        return sums.T, kept.reshape(samples, channels, n).transpose(2, 0, 1) if keep else None

    def _run(self, call: _Call) -> None:
        lock, done = threading.Lock(), 0

        def chunk(size: int) -> tuple[int, int]:
            """Returns the next vehicles; none where the first is not before the end."""
            nonlocal done
            with lock:
                first, done = done, min(done + size, call.vehicles)
                return first, done

        if len(self._devices) == 1:
            self._work(self._devices[0], call, chunk)
            return
        with ThreadPoolExecutor(len(self._devices), thread_name_prefix="lfdm_ros_gpu") as pool:
            for future in [pool.submit(self._work, device, call, chunk) for device in self._devices]:
                future.result()

    def _work(self, device: Device, call: _Call, following: Callable[[int], tuple[int, int]]) -> None:
        with device.current():
            kernel = _kernel(device, self._ptx, "batch")
            size = call.chunk(device, device.free_memory() + POOL.size(device), len(self._devices))
            with POOL.streams(device, call.size, size) as (streams, size):
                waiting: dict[Stream, tuple[int, int]] = {}
                unsent = set(streams)
                for stream in _alternating(streams):
                    if stream in waiting:
                        stream.wait()
                        _take(stream, call, *waiting.pop(stream))
                    first, end = following(size)
                    if first < end:
                        _start(device, kernel, stream, call, first, end, stream in unsent)
                        unsent.discard(stream)
                        waiting[stream] = first, end
                    elif not waiting:
                        return


def _alternating(streams: Sequence[Stream]) -> Iterator[Stream]:
    while True:
        yield from streams


def _views(stream: Stream, call: _Call, vehicles: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yields the arrays in a stream's memory and where each begins [bytes]: shared, by vehicle, results; then the bytes that are left."""
    begin, buffer = 0, np.frombuffer(stream.buffer(), np.uint8)
    for array, shape in (*((a, a.shape) for a in call.shared), *((a, (len(a), vehicles)) for a in (*call.arrays, *call.results))):
        size = 8 * math.prod(shape)
        yield buffer[begin:begin + size].view(array.dtype).reshape(shape), begin
        begin += size
    yield buffer[begin:], begin


def _start(device: Device, kernel: int, stream: Stream, call: _Call, first: int, end: int, new: bool) -> None:
    """Starts vehicles first ... end - 1: copies, kernel, copies back; `new`: what is shared is not there yet."""
    count, base = end - first, stream.address.value
    views = list(_views(stream, call, count))
    shared, arrays = views[:len(call.shared)], views[len(call.shared):len(call.shared) + len(call.arrays)]
    results, (rest, at_rest) = views[-3:-1], views[-1]
    if new:
        for (view, _), array in zip(shared, call.shared):
            view[...] = array
    for (view, _), array in zip(arrays, call.arrays):
        view[...] = array[:, first:end]
    fields, used = call.tables.write(arrays[0][0], rest, base + at_rest)
    stream.send(0 if new else call.shared_size, results[0][1])
    stream.send(at_rest, at_rest + used)
    inputs = arrays[2] if call.separate_inputs else shared[0]
    places = [base + at for _, at in (*arrays[:2], inputs, *shared[-2:], *results)]
    if not results[1][0].size:
        places[-1] = 0
    samples, substeps, channels, h, rise = call.numbers
    device.launch(kernel, -(-count // BLOCK), BLOCK, [*map(ctypes.c_uint64, places),
                  *map(ctypes.c_int64, (count, samples, substeps, channels, 0, count)), ctypes.c_double(h), ctypes.c_double(rise),
                  *map(ctypes.c_uint64, fields)], stream)
    stream.fetch(results[0][1], at_rest)


def _take(stream: Stream, call: _Call, first: int, end: int) -> None:
    """Copies the results of vehicles first ... end - 1 to where the caller gets them."""
    views = list(_views(stream, call, end - first))
    for (view, _), array in zip(views[-3:-1], call.results):
        array[:, first:end] = view
