"""A function as a batch kernel computes it: in lanes."""

import ctypes

import casadi as ca
import numpy as np

from lfdm_ros.compiler import machine_code
from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.graph import VALUE, graph_of


def evaluate(function: ca.Function, points: np.ndarray, real: str = "double", lanes: int = 1) -> np.ndarray:
    """The first result of a function of one vector, on `lanes` points at once, as a batch kernel computes."""
    graph = graph_of(function)
    code = Code(graph, {"x": "ptr", "y": "ptr"}, real=real, lanes=lanes)
    double = code.value.replace(real, "double")
    for i, node in enumerate(graph.inputs[0]):
        code.bind(node, code.cast(code.load("%x", i, double), double, code.value))
    code.emit(graph.reachable(graph.outputs[0]))
    code.store(code.cast(code.get(graph.outputs[0][0], VALUE), code.value, double), "%y", 0, double)
    machine = machine_code.MachineCode(machine_code.compile_text(code.text("f", machine_code.TRIPLE)))
    call = machine.function("f", [ctypes.c_void_p] * 2)
    result = np.empty(points.shape[1])
    for k in range(0, len(result), lanes):
        block = np.ascontiguousarray(points[:, k:k + lanes])
        call(block.ctypes.data, result[k:].ctypes.data)
    return result
