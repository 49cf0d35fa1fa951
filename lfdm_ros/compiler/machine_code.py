"""LLVM text to machine code in this process, through the LLVM of llvmlite; object code is cached on disk."""

import ctypes
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import llvmlite.binding as llvm

from lfdm_ros.compiler.code_cache import cached
from lfdm_ros.errors import InputError

POINTER, INTEGER, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
TRIPLE = llvm.get_process_triple()


@dataclass(frozen=True)
class CodeTarget:
    """A processor as LLVM names it: triple, name, and features such as "+avx2,-avx512f"."""

    triple: str
    cpu: str
    features: str = ""

    def lanes(self, real: str = "double", registers: int = 2) -> int:
        """Returns the count of numbers of a type in `registers` vector registers; two hide more latency than one."""
        features = self.features.split(",")
        size = 64 if "+avx512f" in features else 32 if "+avx2" in features else 16  # [bytes]; SSE2 and NEON
        return registers * size // {"double": 8, "float": 4}[real]

    def machine(self, **place: Any) -> llvm.TargetMachine:
        """Returns LLVM's target machine; `place`: options of code placement."""
        if self.triple == TRIPLE:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
        else:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(self.triple).create_target_machine(cpu=self.cpu, features=self.features, opt=2, **place)


# For all GPUs since Turing, 2018; the driver compiles it for the installed one.
GPU = CodeTarget("nvptx64-nvidia-cuda", "sm_75", "+ptx70")

# Length of a module above which LLVM's vectorisation is disabled: it takes minutes and adds hardly any vectors to the packed ones.
_LARGE = 1_000_000


class MachineCode:
    """A loaded object. Its functions keep it alive."""

    def __init__(self, data: bytes):
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(f'target triple = "{TRIPLE}"\n'), _host().machine(jit=True))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Returns the address of a function in this process."""
        return int(self._engine.get_function_address(name))

    def function(self, name: str, arguments: Sequence[type], result: type | None = None) -> Callable[..., Any]:
        """Returns a function of the object; a call releases the GIL."""
        call = ctypes.CFUNCTYPE(result, *arguments)(self.address(name))
        call.code = self  # type: ignore[attr-defined]
        return call


def machine_code(key: str, text: Callable[[], str], target: CodeTarget | None = None) -> MachineCode:
    """Returns the object of a key from the cache, or else compiled from `text()`, by default for `common()`.

    The key must include everything the text depends on except the sources of models and back ends, versions and target.
    """
    return MachineCode(object_code(key, text, target or common()))


def object_code(key: str, text: Callable[[], str], target: CodeTarget, linked: bool = False) -> bytes:
    """Returns the object of a key as `machine_code` keeps it, for any target; `linked` as in `compile_text`."""
    return _cached(f"{key}|linked|{target.triple}" if linked else key, target, "o", lambda: compile_text(text(), target, linked))


def _cached(key: str, target: CodeTarget, ending: str, make: Callable[[], bytes]) -> bytes:
    parts = [key, version("llvmlite"), version("casadi"), target.cpu, target.features]
    return cached(f"{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:32]}.{ending}", make)


def compile_text(text: str, target: CodeTarget | None = None, linked: bool = False) -> bytes:
    """Compiles an LLVM module, for `here()` unless another target is given.

    Returns the object: for this process or, `linked`, position-independent.
    """
    machine = (target or here()).machine(**({"reloc": "pic", "codemodel": "default"} if linked else {"jit": True}))
    return bytes(machine.emit_object(_optimised(text, machine)))


def assembly(key: str, text: Callable[[], str], target: CodeTarget) -> str:
    """Returns the assembly of a key from the cache, or else compiled from `text()`; for a GPU, PTX."""
    return _cached(key, target, "s", lambda: str(target.machine().emit_assembly(_optimised(text(), target.machine()))).encode()).decode()


def _optimised(text: str, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # The four wheels give parallel instructions, which become vectors: a third off one vehicle's step. The loops are too large to unroll.
    options.slp_vectorization = len(text) < _LARGE and machine.triple != GPU.triple
    options.loop_vectorization = options.loop_unrolling = False
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return module


TARGET = "LFDM_TARGET"
NATIVE = "native"
# Levels of x86-64 for the variable LFDM_TARGET, with the processor features that code uses.
LEVELS = {"x86-64-v2": "+sse4.2", "x86-64-v3": "+avx2,+fma,+bmi2", "x86-64-v4": "+avx2,+fma,+bmi2,+avx512f,+avx512dq,+avx512vl,+avx512bw"}
COMMON = "x86-64-v3"


@cache
def here() -> CodeTarget:
    """Returns the target of the fastest code, for batches and derivatives of trajectories: this machine's processor, or the x86-64 level of
    the variable LFDM_TARGET. Raises InputError: LFDM_TARGET is not a level, or not supported here."""
    requested = os.environ.get(TARGET) or NATIVE
    return _host() if requested == NATIVE else _level(requested)


@cache
def common() -> CodeTarget:
    """Returns the target of all other code, such as driving: x86-64 level 3 (AVX2 and FMA), for identical runs on all such machines;
    elsewhere, or with LFDM_TARGET, that of `here()`."""
    if os.environ.get(TARGET) or lacking(COMMON):
        return here()
    return _level(COMMON)


def _host() -> CodeTarget:
    return CodeTarget(TRIPLE, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())


def _level(name: str) -> CodeTarget:
    if name not in LEVELS:
        raise InputError(f"{TARGET} is {name!r}; give one of {', '.join((NATIVE, *LEVELS))}")
    missing = lacking(name)
    if missing:
        raise InputError(f"{TARGET} is {name}, but this processor ({llvm.get_host_cpu_name()}) lacks {', '.join(missing)}; "
                         f"give {NATIVE} or a lower level")
    return CodeTarget(TRIPLE, name, LEVELS[name])


def lacking(level: str) -> list[str]:
    """Returns the features of a level of x86-64 that this machine's processor lacks, by the names of LLVM."""
    has = llvm.get_host_cpu_features()
    return [feature[1:] for feature in LEVELS[level].split(",") if not has.get(feature[1:])]
