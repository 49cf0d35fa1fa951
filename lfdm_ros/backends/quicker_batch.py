"""The quicker of two back ends for each batch, by measurement: a launch costs more than a small batch does on the processor."""

import sys
import time
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np

from lfdm_ros.backends.trajectory_kernels import cores
from lfdm_ros.errors import InputError

Run = Callable[..., tuple[np.ndarray, np.ndarray | None]]  # `RunBatch`


class QuickerBatch:
    """Runs each batch on the processor or on the GPU, whichever takes less time by its size; once for each model both are measured.

    The two differ in the last bits, and which runs hangs on the load of the machine: name one of them where runs are to be the same.
    Without a usable GPU all run on the processor, and a line on stderr says why.
    """

    FEWEST = 256  # vehicles of a batch that may go to a GPU
    _STEPS = 100  # of a measurement

    def __init__(self, cpu: Run, make_gpu: Callable[[], Any]):
        """Takes the processor's `RunBatch`, and a function that makes the GPU's or raises InputError."""
        self._cpu, self._make_gpu = cpu, make_gpu
        self._costs: tuple[float, float, float] | None = None

    @cached_property
    def _gpu(self) -> Any:
        try:
            return self._make_gpu()
        except InputError as error:
            _say(f"note: back end auto: {error}; batches run on the processor")
            return None

    def __call__(self, parameters: np.ndarray, start: np.ndarray, inputs: np.ndarray, hold: bool, substeps: int, h: float,
                 rows: np.ndarray, observed: np.ndarray, keep: bool) -> tuple[np.ndarray, np.ndarray | None]:
        arguments = (parameters, start, inputs, hold, substeps, h, rows, observed, keep)
        n, steps = parameters.shape[1], substeps * (len(inputs) - 1)
        if n < self.FEWEST or not len(rows) or self._gpu is None:
            return self._cpu(*arguments)
        try:
            if self._costs is None:
                self._costs = self._measured(arguments)
            step, launch, gpu_step = self._costs
            waves = -(-n // self._gpu.resident)
            if launch + gpu_step * steps * waves < step * steps * n:
                return self._gpu(*arguments)
        except InputError as error:
            _say(f"note: back end auto: {error}; batches run on the processor")
            self._costs = 0.0, 1.0, 0.0
        return self._cpu(*arguments)

    def _measured(self, arguments: tuple[Any, ...]) -> tuple[float, float, float]:
        """Returns seconds of a vehicle's step on the processor, of a launch, and of a step of all that the GPU holds at a time."""
        parameters, start, inputs, hold, substeps, h, rows, observed, _ = arguments
        n = min(parameters.shape[1], 64 * cores())

        def seconds(run: Run, samples: int) -> float:
            table = np.ascontiguousarray(inputs[:samples, ..., :n] if inputs.ndim == 3 else inputs[:samples])
            own, first = (np.ascontiguousarray(a[:, :n]) for a in (parameters, start))
            begin = time.perf_counter()
            run(own, first, table, hold, substeps, h, rows, np.ascontiguousarray(observed[:samples]), False)
            return time.perf_counter() - begin

        samples = min(len(inputs), 1 + -(-self._STEPS // substeps))
        steps = substeps * (samples - 1)
        seconds(self._gpu, 1)  # loads the module
        launch = min(seconds(self._gpu, 1) for _ in range(3))
        gpu = min(seconds(self._gpu, samples) for _ in range(3))
        cpu = min(seconds(self._cpu, samples) for _ in range(3))
        return cpu / (steps * n), launch, max(gpu - launch, 0.0) / steps


@cache  # once for each reason
def _say(line: str) -> None:
    print(line, file=sys.stderr)
