"""A back end of your own for batches of vehicles, in one file: the same equations on NumPy arrays, without a compiler.

    export LFDM_PLUGINS=examples/numpy_backend.py LFDM_BACKEND=numpy
    lfdm calibrate hmmwv_demo --bag ... --out result        # as ever, a hundred times as slow
"""

from types import SimpleNamespace

import numpy as np

from lfdm_ros.backends import ARRAYS, BatchBackend, register_backend
from lfdm_ros.models import functions_of


def compile_batch(model, precision, separate_inputs, prescribed):
    """run(...) of `lfdm_ros.backends.RunBatch`: one NumPy operation for all vehicles at a time."""
    equations, real = functions_of(model, ARRAYS), np.dtype(precision)
    places = [[state.name for state in model.states].index(name) for name in prescribed]
    driven = len(model.inputs)

    def run(parameters, start, inputs, hold, substeps, h, rows, observed, keep):
        q = equations.prepare(SimpleNamespace(**{field.name: column for field, column in zip(model.parameters, parameters.astype(real))}))
        table = inputs.astype(real) if separate_inputs else np.repeat(inputs.astype(real)[:, :, None], start.shape[1], axis=2)
        x, kept = list(start.astype(real)), np.empty((len(table), len(rows), start.shape[1]))
        for k, sample in enumerate(table):
            for place, series in zip(places, sample[driven:]):
                x[place] = series
            kept[k] = [x[row] for row in rows]
            if k + 1 == len(table):
                break
            rise = (table[k + 1] - sample) / substeps
            for i in range(substeps):
                held = sample[:driven] + (0.0 if hold else i + equations.input_time) * rise[:driven]
                for place, series, slope in zip(places, sample[driven:], rise[driven:]):
                    x[place] = series + i * slope
                x = [np.broadcast_to(value, start.shape[1:]) for value in equations.step(tuple(x), tuple(held), q, real.type(h))]
        errors = np.where(np.isnan(observed)[:, :, None], 0.0, kept - np.nan_to_num(observed)[:, :, None])
        return (errors**2).sum(axis=0).T, kept.transpose(2, 0, 1) if keep else None

    return run


NUMPY = BatchBackend("numpy", "the equations on NumPy arrays", compile_batch)
register_backend(NUMPY)
