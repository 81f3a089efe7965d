"""Poison in the shared memory of every SM and on its threads' stacks; inputs that arrive late.

Hardware leaves what the last block had there, often zeros, so a kernel that reads uninitialized
shared memory may pass by luck; compute-sanitizer's initcheck covers global memory only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

THREADS = 1024
BLOCKS_PER_SM = 2
"""One fills an SM; with a second wave none is left out, however blocks are spread."""
MAX_SHARED = "shared_memory_per_block_optin"
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
.visible .entry litter(.param .u32 pattern)
{
  .local .align 8 .b8 stack[1024];
  .reg .u32 %r<3>;
  .reg .u64 %a<4>;
  .reg .pred %more;
  ld.param.u32 %r1, [pattern];
  mov.u32 %r2, 0;
  mov.u64 %a1, stack;
  cvta.local.u64 %a1, %a1;
further:
  cvt.u64.u32 %a2, %r2;
  add.u64 %a3, %a1, %a2;
  st.volatile.u32 [%a3], %r1;
  add.u32 %r2, %r2, 4;
  setp.lt.u32 %more, %r2, 1024;
  @%more bra further;
  ret;
}
\0"""
HOPPER = 9
"""Compute capability from which programmatic launches are."""
DELIVERS = (
    b".version 7.8\n.target sm_%d0\n" % HOPPER
    + b"""
.address_size 64
.visible .entry deliver(.param .u64 list, .param .u32 count)
{
  .reg .u32 %r<9>;
  .reg .u64 %a<12>;
  .reg .u16 %h1;
  .reg .pred %p<3>;
  griddepcontrol.launch_dependents;
  nanosleep.u32 50000;
  ld.param.u64 %a1, [list];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %nctaid.x;
  mad.lo.u32 %r2, %r4, %r3, %r2;
  mul.lo.u32 %r3, %r3, %r5;
  cvt.u64.u32 %a2, %r2;
  cvt.u64.u32 %a3, %r3;
next:
  ld.global.v2.u64 {%a4, %a5}, [%a1];
  ld.global.u64 %a6, [%a1+16];
  mov.u64 %a7, %a2;
more:
  setp.ge.u64 %p1, %a7, %a6;
  @%p1 bra done;
  add.u64 %a8, %a5, %a7;
  ld.global.u8 %h1, [%a8];
  add.u64 %a9, %a4, %a7;
  st.global.u8 [%a9], %h1;
  add.u64 %a7, %a7, %a3;
  bra more;
done:
  add.u64 %a1, %a1, 32;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra next;
  ret;
}
\0"""
)
"""Lets what follows begin at once, if that was launched programmatically, and copies 50 us later: a
list of target, source, bytes and nothing, each of 64 bits."""
DELIVERING_THREADS = 256


def copies(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> torch.Tensor:
    """The list of `Poison.deliver`, on the device: all tensors are flat and of bytes."""
    pairs = zip(targets, sources, strict=True)
    rows = [[to.data_ptr(), of.data_ptr(), of.numel(), 0] for to, of in pairs]
    return torch.tensor(rows, device="cuda")


class Poison:
    """Made before the process is locked: the driver compiles the kernels."""

    delivers: bool
    """Whether this GPU knows programmatic launches."""

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._bytes = int(getattr(properties, MAX_SHARED))
        self._blocks = BLOCKS_PER_SM * int(properties.multi_processor_count)
        self._driver = ctypes.CDLL("libcuda.so.1")
        module, self._fill = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(PTX))
        self._do("cuModuleGetFunction", ctypes.byref(self._fill), module, b"fill")
        self._litter, self._deliver = ctypes.c_void_p(), ctypes.c_void_p()
        self._do("cuModuleGetFunction", ctypes.byref(self._litter), module, b"litter")
        self.delivers = properties.major >= HOPPER
        if self.delivers:
            self._do("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(DELIVERS))
            self._do("cuModuleGetFunction", ctypes.byref(self._deliver), module, b"deliver")
        self._do("cuFuncSetAttribute", self._fill, MAX_DYNAMIC_SHARED_SIZE_BYTES, self._bytes)

    def spread(self, pattern: int, stream: int) -> None:
        """Fill the shared memory of all SMs, and all stacks, on this stream, with the 16-bit
        pattern, its sign turned: what a kernel carries from there past its outputs must not look
        untouched."""
        pattern ^= 0x8000
        word = ctypes.c_uint32(pattern << 16 | pattern)
        self._launch(self._litter, (self._blocks, THREADS, 0), stream, word)
        whole = (self._blocks, THREADS, self._bytes)
        self._launch(self._fill, whole, stream, word, ctypes.c_uint32(self._bytes))

    def deliver(self, list_of_copies: torch.Tensor, stream: int) -> None:
        """Copy on this stream what `copies` listed, by a kernel for which launches that need not
        wait do not wait: one that reads its inputs at once does not find them."""
        size = (self._blocks // BLOCKS_PER_SM, DELIVERING_THREADS, 0)
        at = ctypes.c_uint64(list_of_copies.data_ptr())
        count = ctypes.c_uint32(len(list_of_copies))
        self._launch(self._deliver, size, stream, at, count)

    def _launch(
        self, kernel: ctypes.c_void_p, size: tuple[int, int, int], stream: int, *values: Any
    ) -> None:
        """`size`: blocks, threads of each, bytes of dynamic shared memory."""
        blocks, threads, shared = size
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self._do(
            "cuLaunchKernel",
            kernel,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            shared,
            ctypes.c_void_p(stream),
            arguments,
            None,
        )

    def _do(self, name: str, *arguments: object) -> None:
        if status := getattr(self._driver, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {status}")
