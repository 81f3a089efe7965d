"""Poison in the shared memory of every SM: what a kernel finds there before it wrote is no result.

Hardware leaves what the last block had there, often zeros, so a kernel that forgot to write passes
by luck; compute-sanitizer's initcheck looks at global memory only.
"""

from __future__ import annotations

import ctypes

import torch

THREADS = 1024
BLOCKS_PER_SM = 2
"""One fills an SM; with a second wave none is left out, however blocks are spread."""
MOST_SHARED = "shared_memory_per_block_optin"
"""A device's property that torch gives and its type hints forget."""
MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
"""The driver's number of that attribute of a function."""
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry fill(.param .u32 pattern, .param .u32 size)
{
  .reg .u32 %r<7>;
  .reg .pred %done;
  ld.param.u32 %r1, [pattern];
  ld.param.u32 %r2, [size];
  mov.u32 %r3, %tid.x;
  shl.b32 %r3, %r3, 2;
  mov.u32 %r4, room;
  mov.u32 %r5, %ntid.x;
  shl.b32 %r5, %r5, 2;
again:
  setp.ge.u32 %done, %r3, %r2;
  @%done bra end;
  add.u32 %r6, %r4, %r3;
  st.volatile.shared.u32 [%r6], %r1;
  add.u32 %r3, %r3, %r5;
  bra again;
end:
  ret;
}
\0"""


class Dirt:
    """Made before the process is locked: the driver compiles the kernel."""

    def __init__(self) -> None:
        found = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._bytes = int(getattr(found, MOST_SHARED))
        self._blocks = BLOCKS_PER_SM * int(found.multi_processor_count)
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._fill = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
        self._do("cuModuleGetFunction", ctypes.byref(self._fill), module, b"fill")
        self._do("cuFuncSetAttribute", self._fill, MAX_DYNAMIC_SHARED_SIZE_BYTES, self._bytes)

    def spread(self, pattern: int, stream: int) -> None:
        """Fill the shared memory of all SMs, on this stream, with the 16-bit pattern, its sign
        turned: what a kernel carries from there past its outputs must not look untouched."""
        pattern ^= 0x8000
        values = (ctypes.c_uint32(pattern << 16 | pattern), ctypes.c_uint32(self._bytes))
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(value) for value in values))
        self._do(
            "cuLaunchKernel", self._fill, self._blocks, 1, 1, THREADS, 1, 1, self._bytes,
            ctypes.c_void_p(stream), arguments, None,
        )  # fmt: skip

    def _do(self, name: str, *arguments: object) -> None:
        if status := getattr(self._driver, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {status}")
