"""Python functions of numbers and arrays as machine code, by numba, from the cache of compiled code.

numba translates code that is not in the cache; code from the cache needs no import of numba (0.4 s). Functions called in a loop, such as a
model's steps, are passed as addresses, so that the code is valid in every process.
"""

import hashlib
import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lfdm_ros.compiler.machine_code import INTEGER, POINTER, REAL, machine_code

_NAMES: dict[type, str] = {POINTER: "voidptr", INTEGER: "int64", REAL: "float64"}
_LLVM: dict[type, str] = {POINTER: "ptr", INTEGER: "i64", REAL: "double"}


@cache
def native(module: str, arguments: Sequence[type], result: type, sources: Sequence[str] = (), entry: str = "entry") -> Callable[..., Any]:
    """Returns a function of a module as machine code; a call releases the GIL.

    Args:
        module: its name; it is imported only if its code is not cached.
        arguments, result: POINTER, INTEGER or REAL; the function makes arrays of addresses by numba's `carray`.
        sources: further modules its code depends on.
        entry: name of the function.

    Raises:
        ValueError: the function creates or reshapes an array.
    """
    texts = [Path(found.origin).read_bytes() for name in (module, *sources) if (found := importlib.util.find_spec(name)) and found.origin]
    digest = hashlib.sha256(b"\0".join(texts)).hexdigest()
    key = f"native {module} {entry} {digest} numba {version('numba')} {[_LLVM[a] for a in arguments]} {_LLVM[result]}"
    return machine_code(key, lambda: _text(module, entry, arguments, result)).function("entry", list(arguments), result)


def addresses(*arguments: Any) -> list[Any]:
    """Returns the arguments of a call, with addresses of arrays, which must outlive the call. Raises ValueError: an array is not
    contiguous."""
    if not all(a.flags.c_contiguous for a in arguments if isinstance(a, np.ndarray)):
        raise ValueError("machine code takes contiguous arrays")
    return [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]


def _text(module: str, entry: str, arguments: Sequence[type], result: type) -> str:
    """Returns the LLVM module of a function under the name `entry` with the parts of numba it needs, without Python."""
    from numba import cfunc, types

    signature = getattr(types, _NAMES[result])(*(getattr(types, _NAMES[a]) for a in arguments))
    compiled = cfunc(signature, nopython=True, error_model="numpy")(getattr(importlib.import_module(module), entry))
    text = compiled.inspect_llvm()
    if re.search(r"@(NRT_(MemInfo_alloc|Allocate)|numba_attempt_nocopy_reshape)", text):
        raise ValueError(f"{module}: its arrays come from outside, in their shape: numba is not there where the code comes from the cache")
    # numba's function returns through a pointer, with a status; its wrapper for callers with the GIL is removed.
    name = re.search(r"^define .*@(\S+?)\(ptr [^,]*%retptr", text, re.MULTILINE)
    assert name, "numba no longer writes functions as it did"
    text = re.sub(r"^define (?:linkonce_odr |dso_local |weak_odr )*", "define internal ", text, flags=re.MULTILINE)
    text = re.sub(r"^(@\S+ = )common ", r"\1internal ", text, flags=re.MULTILINE)
    kinds = [_LLVM[a] for a in arguments]
    given, returned = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(kinds)), _LLVM[result]
    return f"""{text}
define {returned} @entry({given}) {{
  %value = alloca {returned}
  %ended = alloca ptr
  %status = call i32 @{name[1]}(ptr %value, ptr %ended, {given})
  %r = load {returned}, ptr %value
  ret {returned} %r
}}
"""
