"""An FMU as a plant, with a plant file that maps its variables to outputs, and steering, throttle and brake to its inputs.

    fmu: vehicle.fmu
    step: 0.001
    variables: {v: {variable: chassis.v_x, unit: km/h}, psi: {variable: "yaw angle", unit: deg}}
    constants: {ratio: "16", to_axle: 1.3 m}
    inputs: {SteeringWheelAngle: {value: -steering * 7.8, unit: rad}, AccPedal: throttle, BrakePedal: brake}
    outputs: {vx: v, yaw: -psi, x: ref_frame.pos.x, yaw_rate: {variable: r, unit: deg/s}}
    start: {chassis.v0: vx}
    parameters: {m: 1500 kg}

Expressions are those of recordings (`lfdm_ros.bags.expressions`): in SI units, with the dimension of their target.
"""

import ast
import json
import math
import operator
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lfdm_ros import documents
from lfdm_ros.bags import expressions
from lfdm_ros.bags.expressions import Quantity, describe
from lfdm_ros.bags.mapping import number_and_unit, read_constants, read_quantity
from lfdm_ros.bags.mapping_keys import Key, names
from lfdm_ros.errors import InputError, prefixing, quote, suggest
from lfdm_ros.models.declaration import INPUTS, OUTPUTS
from lfdm_ros.plants import fmu_child
from lfdm_ros.plants.fmu import Fmu, FmuSystem, Scale, Variable, read_fmu, read_ssp
from lfdm_ros.plants.fmu_child import HEAD, LARGEST
from lfdm_ros.plants.plant import REQUIRED, PlantFailed, PlantType, WrongStart, require_outputs
from lfdm_ros.units import unit_scale

_CHILD = "lfdm_ros.plants.fmu_child"
_GRACE = 1.0  # [s] for a process to end by itself
_TIMED_STEPS = 1000  # for which the timeout of an answer is given


class FmuProcess:
    """An FMU, or a system of several, in a separate process, started by `reset` and again after a crash."""

    def __init__(self, fmu: Fmu | FmuSystem, step: float, timeout: float, parameters: Sequence[tuple[Variable, float]],
                 start: Sequence[Variable], inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        """Unpacks the FMU.

        Args:
            step: [s] of communication. timeout: [s] of the wall clock for an answer to 1000 steps at most.
            parameters: with values in the FMU's units, set at each reset. start, inputs: variables to set; outputs: variables to read.

        Raises:
            InputError: as `Fmu.unpack`.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="lfdm_fmu_")
        folder = Path(self._folder.name).resolve()
        parts = list(fmu.parts)

        def place(variable: Variable) -> tuple[int, str, int]:
            return parts.index(variable.part), variable.type, variable.reference

        tasks = []
        for k, (name, part) in enumerate(fmu.parts.items()):
            root = folder / str(k)
            library = part.unpack(root)
            resources = (root / "resources").as_uri() if part.version == "2.0" else f"{root / 'resources'}{os.sep}"
            tasks.append({"part": name, "library": str(library), "version": part.version[0], "token": part.token,
                          "name": name or part.name or part.identifier, "resources": resources})
        alone = next(iter(fmu.parts.values())) if len(parts) == 1 else None
        values = [*fmu.values, *parameters]
        self._task = str(folder / "task.json")
        task = json.dumps({
            "parts": tasks, "step": step, "slopes": alone is not None and alone.input_derivatives,
            "whole": alone is not None and alone.variable_step, "passes": fmu.passes,
            "links": [{"source": place(link.source), "target": place(link.target), "factor": link.factor, "offset": link.offset}
                      for link in fmu.links],
            "parameters": [place(variable) for variable, _ in values], "values": [value for _, value in values],
            "start": list(map(place, start)), "inputs": list(map(place, inputs)), "outputs": list(map(place, outputs))})
        Path(self._task).write_text(task, encoding="utf-8")
        self._name, self._timeout, self._step, self._steps = fmu.path.name, timeout, step, 0
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._answer = struct.Struct(f"<{len(outputs)}d")

    def reset(self, start: Sequence[float]) -> tuple[float, ...]:
        """Restarts at time 0 with start values in the FMU's units; returns the outputs. Raises PlantFailed."""
        if self._child is None:
            self._launch()
        self._steps = 0
        return self._request("was loaded and initialised", fmu_child.RESET, start)

    def advance(self, first: Sequence[float], last: Sequence[float], steps: int) -> tuple[float, ...]:
        """Advances with inputs from first to last; returns the outputs. Raises PlantFailed: it crashed, hangs, or refused."""
        if self._child is None:
            raise PlantFailed(f"{self._name} does not run any more; reset it")
        outputs = self._request("was stepped", fmu_child.ADVANCE, (*first, *last), steps)
        self._steps += steps
        return outputs

    def _launch(self) -> None:
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # preserves message boundaries
        # In a new session, as Ctrl-C is for the parent only. The output of its code is discarded.
        self._child = subprocess.Popen(
            [sys.executable, "-m", _CHILD, str(there.fileno()), self._task], cwd=self._folder.name,
            pass_fds=[there.fileno()], start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))))})
        there.close()
        self._connection = here
        weakref.finalize(self, _end, self._child, here)

    def _request(self, doing: str, task: int, numbers: Sequence[float], steps: int = 0) -> tuple[float, ...]:
        """Sends a task with its numbers and returns the answer. Raises PlantFailed."""
        assert self._connection is not None and self._child is not None
        at = f" at {self._steps * self._step:g} s" if self._steps else ""
        timeout = self._timeout * max(1.0, steps / _TIMED_STEPS)  # many steps on a busy machine are no hang
        self._connection.settimeout(timeout)
        try:
            self._connection.send(HEAD.pack(task, steps) + struct.pack(f"<{len(numbers)}d", *numbers))
            answer = self._connection.recv(LARGEST)
        except TimeoutError:
            self.close(0.0)
            raise PlantFailed(f"{self._name} hangs: no answer in {timeout:g} s while it {doing}{at}",
                              self._steps * self._step) from None
        except OSError:
            answer = b""
        except BaseException:  # Ctrl-C: a late answer must not be taken for that of the next request
            self.close(0.0)
            raise
        if not answer:
            status = self.close()
            how = signal.strsignal(-status) if status < 0 else f"status {status}"
            raise PlantFailed(f"{self._name} crashed while it {doing}{at}: {how}", self._steps * self._step)
        if answer[:1] == fmu_child.FAILED:
            raise PlantFailed(f"{self._name}: {answer[1:].decode('utf-8', 'replace')}", self._steps * self._step)
        return self._answer.unpack_from(answer, 1)

    def close(self, grace: float = _GRACE) -> int:
        """Ends the process, by force after a time [s]; returns its status, below 0: by that signal."""
        child, connection, self._child, self._connection = self._child, self._connection, None, None
        return 0 if child is None or connection is None else _end(child, connection, grace)


def _end(child: subprocess.Popen[bytes], connection: socket.socket, grace: float = _GRACE) -> int:
    connection.close()
    try:
        return child.wait(grace)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # with the processes it has started
        return child.wait()


KEYS = (
    Key("fmu", "vehicle.fmu", "the FMU, or an SSP of several connected ones with variables COMPONENT.NAME; relative to the plant file"),
    Key("step", "1 ms", "of communication; a bare number is in s. Default: the FMU's if at most 10 ms, else 1 ms"),
    Key("timeout", "10 s", "of the wall clock for an answer to 1000 steps at most; in proportion for more"),
    Key("inputs", "{PEDAL: EXPRESSION}", "inputs of the FMU, from `steering`, `throttle` and `brake`; default: those with these names"),
    Key("outputs", "{vx: EXPRESSION}", f"outputs of the plant, from variables of the FMU; required are {', '.join(REQUIRED)}; default: "
        "those with these names"),
    Key("start", "{V0: EXPRESSION}", "start values of the FMU, from `x`, `y`, `yaw` and `vx` of the start"),
    Key("parameters", "{m: 1500 kg}", "values of the FMU's parameters"),
    Key("variables", "{v: {variable: chassis.v_x, unit: km/h}}", "names in expressions for variables that are no identifiers"),
    Key("constants", "{ratio: \"16\"}", "numbers with a unit, for expressions"),
)
_VALUE_KEYS = ("variable", "value", "unit")
_SERIES = ("unwrap", "first", "gradient", "savgol_derivative", "east", "north")  # functions of whole recordings
_OUTPUT_UNITS = {field.name: field.unit for field in OUTPUTS}
_COMMANDS = {field.name: field.unit for field in INPUTS}
_PLACE = {"x": "m", "y": "m", "yaw": "rad", "vx": "m/s"}
_SAME_PLACE, _SAME_SPEED = 1e-9, 0.1  # [m, rad], [m/s]
_DEFAULT_STEP, _LARGEST_DEFAULT_STEP, _TIMEOUT = 1e-3, 0.01, 10.0  # [s]

_CONSTANTS = {"pi": math.pi, "nan": math.nan}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne}

_PLAIN: Scale = (1.0, 0.0, None)

Dimensions = Mapping[str, Any]  # of the names in expressions; None: any


def require_dimension(dimension: Any, target: Scale, unit: str, where: str) -> None:
    """Raises InputError, after `where`: a dimension other than the target's; None is compatible with all."""
    if dimension is not None and target[2] is not None and dimension != target[2]:
        raise InputError(f"{where}: {describe(dimension)} where {describe(target[2])} ({unit}) is expected")


class _Formula:
    """Expressions, each converted to the unit of its target, as one function of the numbers of `names`."""

    def __init__(self, names: Sequence[str], dimensions: Dimensions, constants: Mapping[str, Quantity]) -> None:
        self._names, self._quantities = tuple(names), {name: Quantity(1.0, dimensions[name]) for name in names} | dict(constants)
        self._constants, self._parts = constants, list[ast.expr]()

    def add(self, tree: ast.expr, target: Scale, unit: str, where: str, bare: Scale = _PLAIN) -> None:
        """Adds an expression. target: scale of the target. unit: its unit for messages. bare: scale of a bare number in the target's unit.
        Raises InputError: after `where`: an unknown name, a function of recordings, or another dimension."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SERIES:
                raise InputError(f"{where}: {node.func.id} is of whole recordings, and a plant is stepped; write it without")
        for name in sorted(expressions.names(tree) - self._quantities.keys()):
            raise InputError(f"{where}: no variable or constant {quote(name)}{suggest(name, self._quantities, 'there are: ')}")
        with prefixing(where, ValueError):
            dimension = expressions.evaluate(tree, np.zeros(1), self._quantities.__getitem__).dimension
        require_dimension(dimension, target, unit, where)
        value: ast.expr = tree
        if dimension is None and bare[:2] != (1.0, 0.0):
            value = ast.BinOp(ast.BinOp(value, ast.Mult(), ast.Constant(bare[0])), ast.Add(), ast.Constant(bare[1]))
        if dimension is not None and target[:2] != (1.0, 0.0):
            value = ast.BinOp(ast.BinOp(value, ast.Sub(), ast.Constant(target[1])), ast.Div(), ast.Constant(target[0]))
        self._parts.append(value)

    def compiled(self) -> Callable[..., tuple[float, ...]]:
        """Returns a function of the names' numbers, in their order."""
        parts = [self._of(part) for part in self._parts]
        return lambda *numbers: tuple(part(numbers) for part in parts)

    def _of(self, node: ast.expr) -> Callable[[Sequence[float]], float]:
        """Compiles an expression of `expressions.parse` to a function of the numbers."""
        if isinstance(node, ast.Constant):
            return _constant(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name | ast.Attribute):
            name = ast.unparse(node)
            if name in self._names:
                return itemgetter(self._names.index(name))
            return _constant(float(self._constants[name].values) if name in self._constants else _CONSTANTS[name])
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            called, parts = expressions.FUNCTIONS[node.func.id], [self._of(argument) for argument in node.args]
            return lambda numbers: float(called.apply(np.zeros(1), *(Quantity(part(numbers)) for part in parts)).values)
        if isinstance(node, ast.BoolOp):
            parts, every = [self._of(value) for value in node.values], all if isinstance(node.op, ast.And) else any
            return lambda numbers: every(part(numbers) for part in parts)
        if isinstance(node, ast.UnaryOp):
            change, operand = _OPERATORS[type(node.op)], self._of(node.operand)
            return lambda numbers: change(operand(numbers))
        assert isinstance(node, ast.BinOp | ast.Compare)
        kind, second = (node.ops[0], node.comparators[0]) if isinstance(node, ast.Compare) else (node.op, node.right)
        combine, left, right = _OPERATORS[type(kind)], self._of(node.left), self._of(second)
        return lambda numbers: combine(left(numbers), right(numbers))


def _constant(value: float) -> Callable[[Sequence[float]], float]:
    return lambda _numbers: value


class _Reader:
    """Reader of the keys of a plant file and its FMU."""

    def __init__(self, items: Mapping[str, Any], where: str) -> None:
        self.items, self.where = documents.mapping(dict(items), where, ("fmu",), names(KEYS)), where
        folder = Path(where).parent
        path = folder / documents.text(self.items["fmu"], f"{where}: fmu")
        try:
            self.fmu: Fmu | FmuSystem = read_ssp(path) if path.suffix == ".ssp" else read_fmu(path)
        except InputError as error:
            raise InputError(str(error) if path == Path(where) else f"{where}: fmu: {error}") from None
        self.constants = read_constants(self._section("constants"), f"{where}: constants")
        self.named: dict[str, tuple[Variable, Scale]] = {}
        for name, value in self._section("variables").items():
            place = f"{where}: variables.{name}"
            if not name.isidentifier():
                raise InputError(f"{place}: {quote(name)} cannot be used in an expression; write letters, digits and _")
            entry = documents.mapping(value, place, optional=("variable", "unit")) if isinstance(value, dict) else {"unit": value}
            self.named[name] = self._scaled(str(entry.get("variable", name)), entry.get("unit"), place)

    def _section(self, key: str) -> dict[str, Any]:
        section = self.items.get(key)
        if section is not None and not isinstance(section, dict):
            raise InputError(f"{self.where}: {key} must map names to values")
        for owner, entry in (("", section or {}), *((f".{name}", value) for name, value in (section or {}).items())):
            for name, value in entry.items() if isinstance(entry, dict) else ():
                # YAML reads {x: max(a, b)} as {x: "max(a", "b)": null}.
                if value is None and (")" in str(name) or (owner and name not in _VALUE_KEYS)):
                    raise InputError(f"{self.where}: {key}{owner}: {quote(name)} has no value; within braces an expression with a comma "
                                     "needs quotes")
        return {str(name): value for name, value in (section or {}).items()}

    def _scaled(self, name: str, unit: Any, where: str) -> tuple[Variable, Scale]:
        variable = self.fmu.variable(name, where)
        return variable, self.fmu.scale(variable, None if unit is None else str(unit), where)

    def seconds(self, key: str, default: float) -> float:
        """Returns a time [s]; a bare number is in s. Raises InputError: it is not above 0."""
        value, where = self.items.get(key, default), f"{self.where}: {key}"
        time = documents.number(value, where) if isinstance(value, (int, float)) else read_quantity(value, "s", where)
        if not time > 0.0:
            raise InputError(f"{where} is {quote(value)}; give more than 0")
        return time

    def targets(self, key: str, arguments: Mapping[str, str], default: Mapping[str, str],
                causalities: tuple[str, ...]) -> tuple[list[Variable], Callable[..., tuple[float, ...]]]:
        """Reads a section that maps variables of the FMU to expressions of `arguments`, names with units."""
        formula = _Formula(tuple(arguments), {name: unit_scale(unit)[2] for name, unit in arguments.items()}, self.constants)
        variables = []
        for name, value in (self._section(key) if key in self.items else default).items():
            where = f"{self.where}: {key}.{name}"
            entry = documents.mapping(value, where, ("value",), ("unit",)) if isinstance(value, dict) else {"value": value}
            variable, scale = self._scaled(name, entry.get("unit"), where)
            if variable.causality not in causalities:
                raise InputError(f"{where}: {quote(name)} of {self.fmu.path.name} is of causality {variable.causality}, which cannot be "
                                 f"set here; it must be one of {', '.join(causalities)}")
            formula.add(_expression(entry["value"], where), scale, str(entry.get("unit") or variable.unit), where)
            variables.append(variable)
        return variables, formula.compiled()

    def outputs(self) -> tuple[tuple[str, ...], list[tuple[Variable, Scale]], Callable[..., tuple[float, ...]]]:
        """Returns names of outputs, the variables in their expressions, and the function from these numbers [SI] to the outputs."""
        section = self._section("outputs") if "outputs" in self.items else {
            name: name for name in _OUTPUT_UNITS if name in self.fmu.variables and self.fmu.variables[name].causality == "output"}
        require_outputs(tuple(section), f"{self.where}: outputs")
        read, parsed = dict(self.named), []
        for name, value in section.items():
            where = f"{self.where}: outputs.{name}"
            entry = documents.mapping(value, where, optional=_VALUE_KEYS) if isinstance(value, dict) else {"value": value}
            if ("variable" in entry) == ("value" in entry):
                raise InputError(f"{where}: give variable or value, and a unit where the FMU has none")
            text = str(entry.get("variable", entry.get("value")))
            if "variable" in entry or (text in self.fmu.variables and text not in self.named):  # a name of any form
                itself = f"{name} itself"  # no identifier, hence unique
                read[itself] = self._scaled(text, entry.get("unit"), where)
                tree: ast.expr = ast.Name(itself, ast.Load())
            else:
                tree = _expression(text, where)
                for used in expressions.names(tree) - read.keys() - self.constants.keys():
                    if used not in self.fmu.variables:
                        raise InputError(f"{where}: no variable or constant {quote(used)}"
                                         f"{suggest(used, [*self.named, *self.constants, *self.fmu.variables])}")
                    read[used] = self._scaled(used, None, where)
            parsed.append((name, tree, entry.get("unit") if "value" in entry else None, where))
        formula = _Formula(tuple(read), {name: scale[2] for name, (_, scale) in read.items()}, self.constants)
        for name, tree, unit, where in parsed:
            target, bare = unit_scale(_OUTPUT_UNITS[name]), _PLAIN
            if unit is not None:
                with prefixing(where, ValueError):
                    bare = unit_scale(str(unit))
                require_dimension(bare[2], target, _OUTPUT_UNITS[name], where)
            formula.add(tree, target, _OUTPUT_UNITS[name], where, bare)
        return tuple(name for name, *_ in parsed), list(read.values()), formula.compiled()

    def parameters(self) -> list[tuple[Variable, float]]:
        """Returns the parameters set by the file, with values in the FMU's units."""
        parameters = []
        for name, value in self._section("parameters").items():
            where = f"{self.where}: parameters.{name}"
            variable, scale = self._scaled(name, None, where)
            if isinstance(value, (int, float)):  # in the FMU's unit
                parameters.append((variable, documents.number(value, where)))
                continue
            quantity = number_and_unit(value, where)
            require_dimension(quantity.dimension, scale, variable.unit, where)
            parameters.append((variable, (float(quantity.values) - scale[1]) / scale[0]))
        return parameters


def _expression(value: Any, where: str) -> ast.expr:
    with prefixing(where, ValueError):
        return expressions.parse(str(value))


class FmuPlant:
    """An FMU as a plant (`lfdm_ros.plants.plant.Plant`). If it starts at another pose than requested, its outputs are transformed there."""

    def __init__(self, items: Mapping[str, Any], where: str) -> None:
        """Reads the keys of a plant file and the FMU, and unpacks it; its code runs from `reset` on.

        Args:
            items: by KEYS. where: the file, for messages; `fmu` is relative to it.

        Raises:
            InputError: an unknown key or variable, a unit of another dimension, a damaged FMU: one line with file and key.
        """
        reader = _Reader(items, where)
        self.fmu, self._where = reader.fmu, where
        default_step = reader.fmu.step if reader.fmu.step <= _LARGEST_DEFAULT_STEP else _DEFAULT_STEP
        self.dt = reader.seconds("step", default_step)
        inputs, self._inputs = reader.targets("inputs", _COMMANDS, {name: name for name in _COMMANDS if name in reader.fmu.variables},
                                              ("input",))
        if not inputs:
            raise InputError(f"{where}: inputs: none, so nothing drives it; {reader.fmu.path.name} has the inputs "
                             + (", ".join(v.name for v in reader.fmu.variables.values() if v.causality == "input") or "none"))
        defaults = {f"start.{name}": name for name in _PLACE if f"start.{name}" in reader.fmu.variables}
        start, self._start = reader.targets("start", _PLACE, defaults, ("parameter", "structuralParameter", "input", "local", "output"))
        self.output_names, read, self._convert = reader.outputs()
        self._scales = [(factor, offset) for _, (factor, offset, _) in read]
        set_values = reader.parameters()
        linked = [v.name for v in inputs if any(v == link.target for link in self.fmu.links)]
        if linked:
            raise InputError(f"{where}: inputs: {', '.join(linked)} of {reader.fmu.path.name} is connected within it; leave it out")
        self.parameters: dict[str, float] = {
            **{name: float(v.start) for name, v in self.fmu.variables.items()
               if v.causality == "parameter" and documents.is_number(v.start)},
            **{".".join(filter(None, (v.part, v.name))): value for v, value in (*self.fmu.values, *set_values)}}
        # True if start values depend on the speed: then another speed at the start is a wrong unit.
        self._by_speed = self._apply("start", self._start, (0.0, 0.0, 0.0, 1.0)) != self._apply("start", self._start, (0.0, 0.0, 0.0, 2.0))
        self._process = FmuProcess(self.fmu, self.dt, reader.seconds("timeout", _TIMEOUT), set_values, start, inputs,
                                   [variable for variable, _ in read])
        self._pose = [self.output_names.index(name) for name in ("x", "y", "yaw", "vx")]
        self._transform: tuple[float, float, float] | None = None
        self.outputs = np.full(len(self.output_names), math.nan)

    def reset(self, *, x: float, y: float, yaw: float, vx: float) -> None:
        """Restarts, as `Plant.reset`."""
        self._transform = None
        self._set_outputs(self._process.reset(self._apply("start", self._start, (x, y, yaw, vx))))
        there = self.outputs[self._pose]
        if abs(there[3] - vx) > _SAME_SPEED:
            message = f"{self._where}: start: {self.fmu.path.name} begins at {there[3]:.3g} m/s instead of {vx:g} m/s; "
            if self._by_speed:
                raise WrongStart(message + "look at the units of start and of vx")
            raise InputError(message + "set one of its start values from vx")
        if np.abs(there[:3] - (x, y, yaw)).max() > _SAME_PLACE:
            turn = yaw - there[2]
            c, s = math.cos(turn), math.sin(turn)
            self._transform = x - c * there[0] + s * there[1], y - s * there[0] - c * there[1], turn
            self._transform_pose()

    def advance(self, u0: ArrayLike, u1: ArrayLike, n: int) -> None:
        """Advances n steps, as `Plant.advance`; an FMU without input derivatives gets the inputs at the middle of each step."""
        if n < 1:
            return
        first = self._apply("inputs", self._inputs, np.asarray(u0, float).tolist())
        last = first if u1 is u0 else self._apply("inputs", self._inputs, np.asarray(u1, float).tolist())
        self._set_outputs(self._process.advance(first, last, n))
        if self._transform is not None:
            self._transform_pose()

    def close(self) -> None:
        """Ends the process of the FMU."""
        self._process.close()

    def _set_outputs(self, values: Sequence[float]) -> None:
        numbers = [factor * value + offset for value, (factor, offset) in zip(values, self._scales)]
        self.outputs[:] = self._apply("outputs", self._convert, numbers)

    def _apply(self, key: str, formula: Callable[..., tuple[float, ...]], numbers: Sequence[float]) -> tuple[float, ...]:
        try:
            return tuple(map(float, formula(*numbers)))
        except (ArithmeticError, TypeError, ValueError) as error:  # a division by 0, a root of a negative number
            values = ", ".join(f"{number:g}" for number in numbers)
            raise PlantFailed(f"{self._where}: {key} cannot be computed of {values}: {error}") from None

    def _transform_pose(self) -> None:
        """Transforms the pose from the FMU's frame to that of the run."""
        assert self._transform is not None
        x, y, turn = self._transform
        c, s = math.cos(turn), math.sin(turn)
        i, j, k, _ = self._pose
        there = self.outputs[[i, j]]
        self.outputs[i], self.outputs[j] = x + c * there[0] - s * there[1], y + s * there[0] + c * there[1]
        self.outputs[k] += turn


FMU_PLANT = PlantType("fmu", "an FMU of FMI 2.0 or 3.0 by its variables", FmuPlant)
