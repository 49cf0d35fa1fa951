"""An optimal control problem's stage as a CasADi graph: dynamics, costs and constraints; sparse matrices filled from its dense blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import casadi as ca
import numpy as np
from scipy import sparse

from lfdm_ros.backends.casadi_backend import OPERATIONS, casadi_model
from lfdm_ros.compiler import CompiledFunction, compiled_with_jacobian
from lfdm_ros.models import Model


def pairs(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns places of dense blocks, one a stage: (stages, rows), (stages, columns) -> twice (stages, rows, columns)."""
    full = np.broadcast_arrays(rows[:, :, None], columns[:, None, :])
    return full[0], full[1]


class SparseEntries:
    """A matrix whose entries are given block after block, in the order that the blocks were declared in; none twice.

    Attributes:
        matrix: scipy's, by columns; `fill` writes to it.
    """

    def __init__(self, blocks: Sequence[tuple[np.ndarray, np.ndarray]], shape: tuple[int, int]):
        """Analyses the structure. blocks: rows and columns of their entries, of any shape."""
        rows, columns = (np.concatenate([np.asarray(block[i]).ravel() for block in blocks]) for i in range(2))
        self.matrix = sparse.csc_matrix((np.arange(1.0, len(rows) + 1.0), (rows, columns)), shape=shape)
        self.matrix.sort_indices()
        self._order = self.matrix.data.astype(int) - 1

    def ordered(self, *blocks: np.ndarray) -> np.ndarray:
        """Returns the entries of these blocks in the matrix's own order."""
        return np.concatenate([block.ravel() for block in blocks])[self._order]

    def fill(self, *blocks: np.ndarray) -> sparse.csc_matrix:
        """Returns the matrix with these blocks."""
        self.matrix.data[:] = self.ordered(*blocks)
        return self.matrix


@dataclass(frozen=True)
class StageNames:
    """Names of what a stage function takes: states beside the model's, controls, numbers of the vehicle and of the stage."""

    states: tuple[str, ...]
    controls: tuple[str, ...]
    vehicle: tuple[str, ...]
    stage: tuple[str, ...]


def stage_function(model: Model, names: StageNames, build: Callable[[Any], Any], substeps: int) -> ca.Function:
    """Returns f(z, w, p, k, c) -> [z at the end of the stage; residuals; rows], the latter two at its start.

    Args:
        model: the predicting one.
        names: z = the model's states and `names.states`; w, k, c by name; p the model's parameters.
        build: on the operations of `m`, gives inputs(steering, pedal), residuals(stage) and rows(stage); a stage has z, w, k, c, the
            wheels' `loads`, the ground's `friction`, z at its `end`, and its `duration`.
        substeps: steps of the model of c.step seconds each in a stage; the commands move linearly.
    """
    functions = casadi_model(model)
    problem = build(OPERATIONS)

    def symbols(fields: Sequence[str], prefix: str) -> tuple[ca.SX, SimpleNamespace]:
        vector = ca.SX.sym(prefix, len(fields))
        return vector, SimpleNamespace(**{name: vector[i] for i, name in enumerate(fields)})

    n = len(model.states)
    z, zs = symbols([*(f.name for f in model.states), *names.states], "z")
    w, ws = symbols(names.controls, "w")
    k, ks = symbols(names.vehicle, "k")
    c, cs = symbols(names.stage, "c")
    p = ca.SX.sym("p", len(model.parameters))

    x, road = z[:n], getattr(zs, "road_steering", None)
    for i in range(substeps):
        time = (i + functions.input_time) * cs.step
        steering, pedal = zs.steering + time * ws.steering_rate, zs.pedal + time * ws.pedal_rate
        if road is not None:
            # Towards the command in the middle of the step, exactly; the wheels take the mean of the step.
            before, road = road, steering + (road - steering) * cs.decay
            steering = 0.5 * (before + road)
        x = functions.step(x, ca.vertcat(*problem.inputs(steering, pedal)), p, cs.step)
    duration = substeps * cs.step
    end = [x, zs.steering + duration * ws.steering_rate, zs.pedal + duration * ws.pedal_rate, *([] if road is None else [road])]

    now = zs.steering if road is None else zs.road_steering
    inputs = ca.vertcat(*problem.inputs(now, zs.pedal))
    loads, friction = functions.wheel_loads(z[:n], inputs, p), functions.friction(z[:n], inputs, p)
    at_end = ca.vertcat(*end)
    stage = SimpleNamespace(z=zs, w=ws, k=ks, c=cs, loads=[loads[i] for i in range(4)], friction=friction, duration=duration,
                            end=SimpleNamespace(**{name: at_end[i] for i, name in enumerate(vars(zs))}))
    values = ca.vertcat(at_end, *problem.residuals(stage), *problem.rows(stage))
    return ca.Function(f"stage_{functions.stem}", [z, w, p, k, c], [ca.densify(values)], ["z", "w", "p", "k", "c"], ["values"])


def compiled_stage(function: ca.Function) -> CompiledFunction:
    """Compiles f(z, w, p, k, c) -> (values, exact Jacobian by z and w, padded to a multiple of 8 columns) as machine code."""
    return compiled_with_jacobian(function, (0, 1))
