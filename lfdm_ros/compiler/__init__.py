"""CasADi functions as machine code: graph -> tangents, packing, jumps -> emitter on a builder -> LLVM -> cache. Independent of the
models."""

from lfdm_ros.compiler.code_cache import cache_directory
from lfdm_ros.compiler.emitter import Code
from lfdm_ros.compiler.functions import CompiledFunction, compiled, compiled_with_jacobian, compiled_with_tangents

__all__ = ["Code", "CompiledFunction", "cache_directory", "compiled", "compiled_with_jacobian", "compiled_with_tangents"]
