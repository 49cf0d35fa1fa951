"""Process of an FMU, or of several connected ones: loads their libraries and steps them on request of the parent. Crashes and hangs of
foreign code stay here.

    python -m lfdm_ros.plants.fmu_child DESCRIPTOR TASK.json

Imports the standard library only, for a fast start. The task comes from `FmuProcess`; requests are `HEAD` and doubles, answers OK and the
outputs, or FAILED and a text.
"""

import contextlib
import ctypes
import json
import os
import socket
import struct
import sys
import threading
import time
from ctypes import byref, c_bool, c_char_p, c_double, c_int, c_size_t, c_uint32, c_void_p
from typing import Any

LARGEST = 1 << 17  # bytes of a message
HEAD = struct.Struct("<Bi")  # request and number of steps
RESET, ADVANCE = range(2)
OK, FAILED = b"\0", b"\1"
_GOOD = (0, 1)  # statuses: OK, warning
_STATUS = {2: "discard", 3: "error", 4: "fatal", 5: "pending"}
_NUMBERS: dict[str, Any] = {
    "Float64": c_double, "Float32": ctypes.c_float, "Int8": ctypes.c_int8, "UInt8": ctypes.c_uint8, "Int16": ctypes.c_int16,
    "UInt16": ctypes.c_uint16, "Int32": ctypes.c_int32, "UInt32": ctypes.c_uint32, "Int64": ctypes.c_int64, "UInt64": ctypes.c_uint64,
    "Boolean": c_bool}
_OF_FMI_2: dict[str, tuple[str, Any]] = {"Float64": ("Real", c_double), "Int32": ("Integer", c_int), "Boolean": ("Boolean", c_int)}
_LOG_2 = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_int, c_char_p, c_char_p, c_void_p)  # as printf, with the first further argument
_LOG_3 = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)


class Failed(Exception):
    """A call refused by the FMU, named in the text."""


class _Callbacks(ctypes.Structure):
    _fields_ = [("logger", _LOG_2), ("allocate", c_void_p), ("free", c_void_p), ("finished", c_void_p), ("environment", c_void_p)]


class Values:
    """Variables of several instances, set or read together; each is [part, type, reference]."""

    def __init__(self, instances: "list[Instance]", variables: list[tuple[int, str, int]]) -> None:
        self._count, self._groups = len(variables), []
        parts = list(dict.fromkeys(part for part, _, _ in variables))
        for part, kind in sorted(dict.fromkeys((part, kind) for part, kind, _ in variables), key=lambda group: parts.index(group[0])):
            instance, places = instances[part], [i for i, (of, other, _) in enumerate(variables) if (of, other) == (part, kind)]
            try:
                name, number = _OF_FMI_2[kind] if instance.version == 2 else (kind, _NUMBERS[kind])
            except KeyError:
                raise Failed(f"variables of type {kind} are unknown") from None
            references = (c_uint32 * len(places))(*(variables[i][2] for i in places))
            count, values = c_size_t(len(places)), (number * len(places))()
            arguments = (references, count, values) if instance.version == 2 else (references, count, values, count)
            self._groups.append((instance, name, places, arguments, kind.startswith("Float")))

    def set(self, numbers: Any) -> None:
        """Sets all values (n,), rounded for integer types."""
        for instance, name, places, arguments, real in self._groups:
            values = [numbers[i] for i in places]
            if not real and not all(abs(number) < 2**31 for number in values):  # also refuses NaN
                raise Failed(f"{next(n for n in values if not abs(n) < 2**31):g} for a whole number")
            arguments[2][:] = values if real else [round(number) for number in values]
            instance.call(f"Set{name}", *arguments)

    def set_slopes(self, slopes: list[float]) -> None:
        """Sets the time derivatives of the real inputs, FMI 2.0."""
        for instance, _, places, (references, count, values, *_), real in self._groups:
            if real:
                values[:] = [slopes[i] for i in places]
                instance.call("SetRealInputDerivatives", references, count, (c_int * len(places))(*[1] * len(places)), values)

    def get(self) -> list[float]:
        """Returns all values (n,)."""
        numbers = [0.0] * self._count
        for instance, name, places, arguments, _ in self._groups:
            instance.call(f"Get{name}", *arguments)
            for place, value in zip(places, arguments[2]):
                numbers[place] = float(value)
        return numbers


class Instance:
    """A co-simulation instance of FMI 2.0 or 3.0; every refused call raises Failed, with the name of the part in a system."""

    def __init__(self, task: dict[str, Any], step: float) -> None:
        self._task, self.version, self._message, self._step = task, int(task["version"]), "", step
        self._part = f"{task['part']}: " if task["part"] else ""
        self._slave: c_void_p | None = None
        self._runs = False  # initialised, without a failed call since
        try:
            self._library = ctypes.CDLL(task["library"], mode=os.RTLD_LOCAL | os.RTLD_NOW)
        except OSError as error:
            text = str(error).replace(task["library"], os.path.basename(task["library"]))
            raise Failed(f"{self._part}its library cannot be loaded: {text}") from None
        self._functions: dict[str, Any] = {}
        if self.version == 2:
            libc = ctypes.CDLL(None)
            self._log: Any = _LOG_2(self._on_log_2)
            self._callbacks = _Callbacks(self._log, ctypes.cast(libc.calloc, c_void_p), ctypes.cast(libc.free, c_void_p), None, None)
        else:
            self._log = _LOG_3(lambda environment, status, category, text: self._on_log(status, text))
        self.count = 0  # steps done

    def _on_log_2(self, environment: Any, name: Any, status: int, category: Any, text: bytes | None, first: int | None) -> None:
        bad = status not in _GOOD
        self._on_log(status, ctypes.string_at(first) if bad and text == b"%s" and first else text)

    def _on_log(self, status: int, text: bytes | None) -> None:
        if status not in _GOOD and text:
            self._message = " ".join(text.decode("utf-8", "replace").split())[:200]

    def _function(self, name: str, result: Any = c_int) -> Any:
        if name not in self._functions:
            try:
                self._functions[name] = getattr(self._library, f"fmi{self.version}{name}")
            except AttributeError:
                raise Failed(f"{self._part}its library lacks fmi{self.version}{name}") from None
            self._functions[name].restype = result
        return self._functions[name]

    def call(self, name: str, *arguments: Any) -> None:
        """Calls fmi2NAME or fmi3NAME on the instance."""
        self._message = ""
        status = self._function(name)(self._slave, *arguments)
        if status not in _GOOD:
            self._runs = False
            raise Failed(f"{self._part}fmi{self.version}{name} at {self.count * self._step:g} s: {_STATUS.get(status, status)}"
                         + (f", {self._message}" if self._message else ""))

    def instantiate(self) -> None:
        """Creates a new instance at time 0, as few FMUs support a reset."""
        self.free()
        self.count = 0
        create = self._function("Instantiate" if self.version == 2 else "InstantiateCoSimulation", c_void_p)
        name, token, resources = (str(self._task[key]).encode() for key in ("name", "token", "resources"))
        self._message = ""
        if self.version == 2:
            instance = create(name, c_int(1), token, resources, byref(self._callbacks), c_int(0), c_int(0))
        else:
            no = c_bool(False)
            instance = create(name, token, resources, no, no, no, no, None, c_size_t(0), None, self._log, None)
        if not instance:
            raise Failed(f"{self._part}it refuses to be instantiated"
                         + (f": {self._message}" if self._message else "; a wrong GUID or token, or no licence"))
        self._slave = c_void_p(instance)
        if self.version == 2:
            self.call("SetupExperiment", c_int(0), c_double(0.0), c_double(0.0), c_int(0), c_double(0.0))

    def initialise(self) -> None:
        """Enters initialization mode."""
        if self.version == 2:
            self.call("EnterInitializationMode")
        else:
            self.call("EnterInitializationMode", c_bool(False), c_double(0.0), c_double(0.0), c_bool(False), c_double(0.0))

    def run(self) -> None:
        """Exits initialization mode."""
        self.call("ExitInitializationMode")
        self._runs = True

    def free(self) -> None:
        """Terminates and frees the instance, if any."""
        if self._slave is not None:
            slave, self._slave = self._slave, None
            if self._runs:
                self._function("Terminate")(slave)
            self._runs = False
            self._function("FreeInstance", None)(slave)

    def do_step(self, span: float, steps: int) -> None:
        """Advances by a time [s], counted as `steps`."""
        now = c_double(self.count * self._step)
        if self.version == 2:
            self.call("DoStep", now, c_double(span), c_int(1))
        else:
            event, ended, early, reached = c_bool(), c_bool(), c_bool(), c_double()
            self.call("DoStep", now, c_double(span), c_bool(True), byref(event), byref(ended), byref(early), byref(reached))
            if ended.value:
                raise Failed(f"{self._part}it ended the simulation at {now.value + span:g} s")
        self.count += steps


class ConnectedInstances:
    """One or several connected FMUs, coupled explicitly (Jacobi): in a step each uses the outputs of the others at its start."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._task, self._step = task, float(task["step"])
        self._instances = [Instance(part, self._step) for part in task["parts"]]
        self._parameters, self._start, self._inputs, self._outputs = (
            Values(self._instances, task[name]) for name in ("parameters", "start", "inputs", "outputs"))
        links = task["links"]
        self._sources, self._targets = (Values(self._instances, [link[end] for link in links]) for end in ("source", "target"))
        self._scales = [(link["factor"], link["offset"]) for link in links]

    def reset(self, start: Any) -> None:
        """Restarts at time 0 with start values."""
        self.free()
        for instance in self._instances:
            instance.instantiate()
        self._parameters.set(self._task["values"])
        self._start.set(start)
        for instance in self._instances:
            instance.initialise()
        for _ in self._instances[1:]:  # longest possible chain
            self._pass_on(1)
        for instance in self._instances:
            instance.run()

    def _pass_on(self, times: int) -> None:
        for _ in range(times if self._scales else 0):
            self._targets.set([factor * value + offset for value, (factor, offset) in zip(self._sources.get(), self._scales)])

    def free(self) -> None:
        """Ends all instances."""
        for instance in self._instances:
            instance.free()

    def advance(self, steps: int, first: Any, last: Any) -> None:
        """Advances by steps with inputs (nu,) linear from first to last. An FMU with input derivatives gets their slopes, others the inputs
        at the middle of each step."""
        with_slopes = self._task["slopes"]
        parts = 1 if with_slopes and self._task["whole"] else steps
        span = steps * self._step / parts
        slopes = [(b - a) / (steps * self._step) for a, b in zip(first, last)]
        changing = any(slopes)
        for i in range(parts):
            if i == 0 or changing:
                share = (i if with_slopes else i + 0.5) / parts
                self._inputs.set([a + (b - a) * share for a, b in zip(first, last)] if changing else last)
                if with_slopes:
                    self._inputs.set_slopes(slopes)
            self._pass_on(self._task["passes"])
            for instance in self._instances:
                instance.do_step(span, steps // parts)

    def outputs(self) -> list[float]:
        """Returns the present outputs (ny,)."""
        return self._outputs.get()


def serve(parent: socket.socket, task: dict[str, Any]) -> None:
    """Answers requests until the parent closes the connection."""
    system: ConnectedInstances | None = None
    while message := parent.recv(LARGEST):
        request, steps = HEAD.unpack_from(message)
        numbers = struct.unpack_from(f"<{(len(message) - HEAD.size) // 8}d", message, HEAD.size)
        try:
            system = system or ConnectedInstances(task)
            if request == RESET:
                system.reset(numbers)
            else:
                half = len(numbers) // 2
                system.advance(steps, numbers[:half], numbers[half:])
            outputs = system.outputs()
            answer = OK + struct.pack(f"<{len(outputs)}d", *outputs)
        except Failed as error:
            answer = FAILED + str(error).encode()
        parent.send(answer)
    if system is not None:
        system.free()


def end_with(parent: int) -> None:
    """Ends this process after its parent, also while native code runs."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(OSError):  # the parent has ended
        with open(sys.argv[2], encoding="utf-8") as file:
            task_of_parent = json.load(file)
        serve(socket.socket(fileno=int(sys.argv[1])), task_of_parent)
