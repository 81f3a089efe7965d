"""What the judge uses of the virtual GPU. All but the ground (astra_vgpu.ground) is imported here.

A name is loaded when it is first asked for: whole engines stand behind some of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astra_vgpu.c_engine.build import source_folder
    from astra_vgpu.gpu import SAMPLE_INSTRUCTIONS, VirtualGpu
    from astra_vgpu.launch.engines import NOT_COMPILED, c_sources, compile_sources, kernel_of
    from astra_vgpu.launch.sampled_launches import Parts
    from astra_vgpu.lowering.early_access import EarlyAccesses, LaunchParameters, early_accesses
    from astra_vgpu.lowering.variable_stores import (
        loaded_parameters,
        stored_parameters,
        written_variables,
    )
    from astra_vgpu.memory.buffers import Buffer, StoreWatch
    from astra_vgpu.memory.early_accesses import ALLOWED, WAIT, WHEN
    from astra_vgpu.memory.sparse import zeroed
    from astra_vgpu.memory.stored_spans import Span, StoredSpans
    from astra_vgpu.model.constants import FITTED
    from astra_vgpu.model.estimate import Estimate, estimate
    from astra_vgpu.model.launch_price import second_launch_us
    from astra_vgpu.model.occupancy import MAX_THREADS, blocks_per_sm, launch_error
    from astra_vgpu.model.ratio_interval import (
        ALIKE,
        COVERAGE,
        SHARED,
        SPREAD,
        judged,
        ratio_interval,
    )
    from astra_vgpu.model.reachable import reachable_us
    from astra_vgpu.model.time_split import PARTS
    from astra_vgpu.ptx.debug_lines import INLINED, WAITED
    from astra_vgpu.ptx.lexer import PtxSyntaxError
    from astra_vgpu.ptx.some_kernels import with_kernels
    from astra_vgpu.runtime.calls import INVALID_SYMBOL, INVALID_VALUE, UNKNOWN_FUNCTION, CallsOnGpu
    from astra_vgpu.runtime.cudart_binding import device_bytes
    from astra_vgpu.runtime.cudart_build import HEADER, LIBRARY, ensure_runtime, header_text
    from astra_vgpu.sass.disassembly import OPTIONS
    from astra_vgpu.sass.early_loads import early_loads
    from astra_vgpu.sass.functional_units import UNITS
    from astra_vgpu.types import ENGINES, Counters, Dim3, Engine, Fault, PtxUnsupported, titled

HOMES = {
    "c_engine.build": ("source_folder",),
    "gpu": ("SAMPLE_INSTRUCTIONS", "VirtualGpu"),
    "launch.engines": ("NOT_COMPILED", "c_sources", "compile_sources", "kernel_of"),
    "launch.sampled_launches": ("Parts",),
    "lowering.early_access": ("EarlyAccesses", "LaunchParameters", "early_accesses"),
    "lowering.variable_stores": ("loaded_parameters", "stored_parameters", "written_variables"),
    "memory.buffers": ("Buffer", "StoreWatch"),
    "memory.early_accesses": ("ALLOWED", "WAIT", "WHEN"),
    "memory.sparse": ("zeroed",),
    "memory.stored_spans": ("Span", "StoredSpans"),
    "model.constants": ("FITTED",),
    "model.estimate": ("Estimate", "estimate"),
    "model.launch_price": ("second_launch_us",),
    "model.occupancy": ("MAX_THREADS", "blocks_per_sm", "launch_error"),
    "model.ratio_interval": ("ALIKE", "COVERAGE", "SHARED", "SPREAD", "judged", "ratio_interval"),
    "model.reachable": ("reachable_us",),
    "model.time_split": ("PARTS",),
    "ptx.debug_lines": ("INLINED", "WAITED"),
    "ptx.lexer": ("PtxSyntaxError",),
    "ptx.some_kernels": ("with_kernels",),
    "runtime.calls": ("INVALID_SYMBOL", "INVALID_VALUE", "UNKNOWN_FUNCTION", "CallsOnGpu"),
    "runtime.cudart_binding": ("device_bytes",),
    "runtime.cudart_build": ("HEADER", "LIBRARY", "ensure_runtime", "header_text"),
    "sass.disassembly": ("OPTIONS",),
    "sass.early_loads": ("early_loads",),
    "sass.functional_units": ("UNITS",),
    "types": ("ENGINES", "Counters", "Dim3", "Engine", "Fault", "PtxUnsupported", "titled"),
}
"""Modules of astra_vgpu, and what is taken from each: what type checkers read above."""
HOME_OF = {name: home for home, names in HOMES.items() for name in names}

if not TYPE_CHECKING:  # else a name that is not there would be Any

    def __getattr__(name: str) -> Any:
        if name not in HOME_OF:
            raise AttributeError(f"the adapter to the virtual GPU has no '{name}'")
        return getattr(import_module(f"astra_vgpu.{HOME_OF[name]}"), name)
