"""Schedulers for the items of a study: in this process, in several, or on a Dask cluster with nothing else changed.

Random numbers belong to the items, so results do not depend on where an item is computed, nor on a repetition after its worker was lost
(bit for bit between machines whose processors run the same instructions: kernels are compiled for each).

Processes of this machine are a pool of the standard library: Dask is optional, and joblib neither says which item a result is of nor ends
its workers in the middle of one.
"""

import contextlib
import copyreg
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, TypeVar

from lfdm_ros import __version__
from lfdm_ros.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

TIMEOUT = 10.0  # [s] to reach a cluster
MAX_LOST_WORKERS = 10  # that one item may survive; beyond, the item itself is taken for the cause
LOCAL = "local:"


class Scheduler(AbstractContextManager["Scheduler"], Protocol):
    """Computes the items of a study; a context that ends with the work."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        """Yields number and result of each item as they complete, in any order. Closing the iterator drops unfinished items.

        Function, items and results must be picklable; an exception of `function` is raised here.

        Raises:
            InputError: the cluster is unreachable, or an item has cost it MAX_LOST_WORKERS workers.
        """
        ...


def get_scheduler(address: str | None = None, processes: int = 1) -> Scheduler:
    """Returns the scheduler for `--scheduler ADDRESS`.

    Args:
        address: None for this machine without Dask; tcp://HOST:PORT of a Dask scheduler; local:N for a cluster of N worker processes on
            this machine, to try things on.
        processes: without an address; 1 is this process, for work whose kernels use all cores already.

    Raises:
        InputError: Dask is not installed, nothing answers at the address, no workers, or workers with another lfdm_ros or Python.
    """
    if address is not None:
        return DaskScheduler(address)
    return LocalScheduler() if processes <= 1 else ProcessScheduler(processes)


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalScheduler(Scheduler):
    """Item after item in this process."""

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        for number, item in enumerate(items):
            yield number, function(item)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None


class ProcessScheduler(Scheduler):
    """Processes of this machine, one item each at a time. They end with the context, also in the middle of an item."""

    def __init__(self, count: int):
        # Fresh ones: a copy of a process whose kernels have threads may hang.
        context = multiprocessing.get_context("spawn")
        watched, self._line = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(count, context, _watch, (watched,))

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        futures = {self._pool.submit(function, item): number for number, item in enumerate(items)}
        try:
            for future in as_completed(futures):
                try:
                    result = future.result()
                except BrokenProcessPool:
                    raise InputError("a process of the study was killed (memory?); start again, what is done is kept") from None
                yield futures[future], result
        finally:
            for future in futures:
                future.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._line.close()
        self._pool.shutdown(cancel_futures=True)


def _watch(line: Connection) -> None:
    """Ends a worker when the main process closes the connection or has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the first one decides

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            line.recv()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class DaskScheduler(Scheduler):
    """A Dask cluster. The work of a lost worker is repeated by the others, or by its replacement."""

    def __init__(self, address: str):
        """Connects; see `get_scheduler`."""
        try:
            import dask
            import distributed
        except ImportError:
            raise InputError(f"--scheduler {address}: Dask is not installed; pip install 'lfdm-ros[cluster]', or "
                             "pip install dask distributed") from None
        self.address = address
        self._cluster: Any = None
        dask.config.set({"distributed.scheduler.allowed-failures": MAX_LOST_WORKERS})
        where: Any = address
        if address.startswith(LOCAL):
            # No memory limit: Dask would pause or restart workers by its own estimate of the available memory.
            where = self._cluster = distributed.LocalCluster(n_workers=_worker_count(address), threads_per_worker=1, memory_limit=0,
                                                             dashboard_address=":0")
        elif "://" not in address:
            raise InputError(f"--scheduler {address}: give tcp://HOST:PORT of a Dask scheduler, or local:2 for two processes here")
        try:
            self._client: Any = distributed.Client(where, timeout=TIMEOUT, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(f"--scheduler {address}: nothing answers there ({error or type(error).__name__}); start one with: "
                             "dask scheduler --host HOST --port PORT, and workers with: dask worker tcp://HOST:PORT --nthreads 1") from None
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    @property
    def connect_address(self) -> str:
        """The address of the cluster for clients and workers: tcp://HOST:PORT."""
        return str(self._client.scheduler.address)

    def workers(self) -> dict[str, int]:
        """Returns the process id of each worker by its address."""
        return dict(self._client.run(os.getpid))

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[tuple[int, Result]]:
        import distributed

        futures = {self._client.submit(_one_at_a_time, function, item, pure=False): number for number, item in enumerate(items)}
        try:
            for future in distributed.as_completed(futures, loop=self._client.loop):
                try:
                    result = future.result()
                except distributed.KilledWorker:
                    raise InputError(f"--scheduler {self.address}: {MAX_LOST_WORKERS} workers were lost one after the other at item "
                                     f"{futures[future]}; look at their logs (memory?)") from None
                except (distributed.CancelledError, distributed.comm.CommClosedError):
                    raise InputError(f"--scheduler {self.address}: the connection is lost; start again, what is done is kept") from None
                yield futures[future], result
        finally:
            if self._client.status == "running":
                self._client.cancel([future for future in futures if not future.done()])

    def close(self) -> None:
        """Disconnects; a local cluster ends."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _check_workers(self) -> None:
        found: Mapping[str, Any] = self._client.run(_installed, on_error="return")
        if not found:
            raise InputError(f"--scheduler {self.address}: no workers; start some with: dask worker {self.address} --nthreads 1")
        here = _installed()
        for worker, there in found.items():
            if isinstance(there, BaseException):
                # A worker without the package cannot even read the question.
                raise InputError(f"--scheduler {self.address}: worker {worker} cannot use lfdm_ros ({there}); install lfdm-ros "
                                 f"{__version__} in its environment")
            if there != here:
                differs = ", ".join(f"{name} {there.get(name)} instead of {here[name]}" for name in here if there.get(name) != here[name])
                raise InputError(f"--scheduler {self.address}: worker {worker} has {differs}; give all the same environment")


def _worker_count(address: str) -> int:
    count = address[len(LOCAL):]
    if not count.isdigit() or not 1 <= int(count) <= 1000:
        raise InputError(f"--scheduler {address}: expected local:N with N worker processes, for example local:2")
    return int(count)


def _installed() -> dict[str, str]:
    """Returns the versions that results depend on."""
    from importlib.metadata import version

    return {"lfdm_ros": __version__, "python": ".".join(map(str, sys.version_info[:2])),
            **{name: version(name) for name in ("numpy", "scipy", "pymc", "pytensor")}}


_WORKING = threading.Lock()


def _one_at_a_time(function: Callable[[Item], Result], item: Item) -> Result:
    # A worker of several threads would run several items at once in one process: PyTensor is not made for that, and the kernels use all
    # cores anyway.
    with _WORKING:
        return function(item)


def _read_only(values: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(values)


# Vehicles hold their parameters so, and Python cannot pickle it by itself.
copyreg.pickle(MappingProxyType, lambda view: (_read_only, (dict(view),)))
