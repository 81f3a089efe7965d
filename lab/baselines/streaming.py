"""What memory gives a task's mix of reads and writes: a kernel that streams as many bytes.

Every large argument is cut into pieces about as long as the smallest of them; of one that another
argument indexes as many rows count as there are indices. A thread loads the same 16-byte vector of
every piece that the contract reads and stores one to every piece that it writes. Nothing is
computed and no row has an end, so a kernel of the contract is not expected to be faster at sizes
that memory bounds. Where the contract only reads what is large, loads are volatile: without a use
the assembler would leave them out.

Where the data says what must be read, a sweep in launchers/ reads just that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from astra_chat.tools.build.cpp_expressions import cpp
from astra_chat.tools.task.expressions import evaluate
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.task.launcher import dtype_parameter, prototype
from astra_chat.tools.types import DTYPE_CODES, DTYPES, ITEM_BYTES, Case

LAUNCHERS = Path(__file__).with_name("launchers")
SMALL = 16
"""Arguments so many times smaller than the largest are left out."""
NEAR = (0.9, 1.1)
"""Bounds of the streaming kernel's bytes over those that the contract must move, on the largest
timed case."""


@dataclass(frozen=True)
class Variant:
    """How the streaming kernel is laid out: no one layout is best for every mix and size."""

    threads: int
    each: int
    """Vectors of a piece that one thread moves."""
    evict_first: bool = False
    """Stores are marked as streaming."""

    @property
    def name(self) -> str:
        return f"{self.threads}x{self.each}{' cs' if self.evict_first else ''}"


VARIANTS = (
    Variant(512, 1),
    Variant(256, 2, evict_first=True),
    Variant(256, 4),
    Variant(512, 2, True),
)


def streams(task: Task) -> bool:
    """Whether the streaming kernel moves about what the contract must."""
    case = _largest(task)
    return NEAR[0] <= streamed_bytes(task, case) / task.least_bytes(case) <= NEAR[1]


def streaming_source(task: Task, variant: Variant) -> str:
    """A .cu file with the task's launcher; strided arguments are taken as contiguous."""
    lines, pieces, ways = list[str](), 0, list[str]()
    for arg, count in _pieces(task):
        extents = " * ".join(f"({cpp(extent, str)})" for extent in _moved_extents(task, arg))
        lines.append(f"  const int64_t of_{arg.name} = {extents} * {_item(task, arg)} / 16;")
        lines.append(f"  for (int i = 0; i < {count}; ++i) {{")
        lines.append(f"    const int64_t each = of_{arg.name} / {count};")
        lines.append(f"    pieces.at[{pieces} + i] = (uint4*){arg.name} + i * each;")
        lines.append(f"    pieces.vectors[{pieces} + i] = each;")
        lines.append("  }")
        pieces += count
        ways += [f"{{{int(_read(task, arg))}, {int(arg.written)}}}"] * count
    return _TEMPLATE.format(
        variant=variant,
        pieces=pieces,
        ways=", ".join(ways),
        prototype=prototype(task),
        body="\n".join(lines),
        name=task.name,
        cs=".cs" if variant.evict_first else "",
        volatile="" if any(arg.written for arg, _ in _pieces(task)) else ".volatile",
    )


def sweep_source(task: Task) -> str | None:
    """A .cu file that reads what a call must read, where the data says what that is."""
    path = LAUNCHERS / f"{task.name}.sweep.cu"
    return path.read_text() if path.is_file() else None


def empty_source(task: Task) -> str:
    """A .cu file whose launcher launches one block of a kernel that does nothing."""
    return _EMPTY.format(prototype=prototype(task))


def streamed_bytes(task: Task, case: Case) -> int:
    """What the streaming kernel of a task moves on a case."""
    return sum(
        _moved_bytes(task, arg, case) * (int(_read(task, arg)) + int(arg.written))
        for arg, _ in _pieces(task)
    )


def _largest(task: Task) -> Case:
    """Returns the timed case that must move the most bytes."""
    return max((case for case, _ in task.bench), key=task.least_bytes)


def _pieces(task: Task) -> list[tuple[Arg, int]]:
    """The large arguments that are read or written, and into how many pieces each is cut."""
    case = _largest(task)
    sizes = {
        arg.name: _moved_bytes(task, arg, case)
        for arg in task.args
        if (arg.read or arg.written) and arg.present(case)
    }
    largest = max(sizes.values())
    large = [arg for arg in task.args if sizes.get(arg.name, 0) * SMALL >= largest]
    unit = min(sizes[arg.name] for arg in large)
    return [(arg, max(1, round(sizes[arg.name] / unit))) for arg in large]


def _index(task: Task, arg: Arg) -> Arg | None:
    """The argument that says which entries are meant of a table, or of another one as long."""
    shapes = {one.name: one.shape for one in task.args}
    for other in task.args:
        index = other.index
        if index is not None and index.table is not None:
            axes = slice(index.table_axes)
            if arg.shape[axes] == shapes[index.table][axes]:
                return other
    return None


def _read(task: Task, arg: Arg) -> bool:
    """Entries of a table that is written are replaced: what they held is not read."""
    return arg.read and not (arg.written and _index(task, arg) is not None)


def _moved_extents(task: Task, arg: Arg) -> tuple[str, ...]:
    """Its shape; of a table the entries that are indexed."""
    indices = _index(task, arg)
    if indices is None or indices.index is None:
        return arg.shape
    return (*indices.shape, *arg.shape[indices.index.table_axes :])


def _moved_bytes(task: Task, arg: Arg, case: Case) -> int:
    names = arg.names_in(case)
    extents = (evaluate(extent, names) for extent in _moved_extents(task, arg))
    return math.prod(extents) * ITEM_BYTES[arg.dtype_of(case)] if arg.present(case) else 0


def _item(task: Task, arg: Arg) -> str:
    """Bytes of an element, as C++."""
    if arg.dtype in DTYPES:
        return str(ITEM_BYTES[arg.dtype])
    code = dtype_parameter(arg.dtype)
    *others, last = dict.fromkeys(types[arg.dtype] for types in task.types)
    chosen = "".join(f"{code} == {DTYPE_CODES[d]} ? {ITEM_BYTES[d]} : " for d in others)
    return f"({chosen}{ITEM_BYTES[last]})"


_EMPTY = """\
// What no kernel is faster than: one launch of nothing.

#include <cstdint>
#include <cuda_runtime.h>

__global__ void empty_kernel() {{}}

{prototype} {{
  empty_kernel<<<1, 32, 0, stream>>>();
  return cudaGetLastError();
}}
"""

_TEMPLATE = """\
// A kernel that moves the bytes of {name} and computes nothing: {pieces} pieces,
// {variant.threads} threads, {variant.each} vectors of 16 bytes each.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {{

constexpr int kPieces = {pieces}, kThreads = {variant.threads}, kEach = {variant.each};
struct Way {{ bool read, written; }};

struct Pieces {{
  uint4* at[kPieces];
  int64_t vectors[kPieces];
}};

// Volatile: no load is left out or moved behind a store.
__device__ __forceinline__ uint4 load(const uint4* address) {{
  uint4 value;
  asm volatile("ld{volatile}.global.v4.u32 {{%0, %1, %2, %3}}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(address));
  return value;
}}

__device__ __forceinline__ void store(uint4* address, const uint4& value) {{
  asm volatile("st.global{cs}.v4.u32 [%0], {{%1, %2, %3, %4}};"
               :: "l"(address), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w) : "memory");
}}

// A block moves its share of each piece. What is read and written gets back what it held; what is
// only written gets the exclusive or of all that the thread has read beside it.
__global__ void __launch_bounds__(kThreads) stream_kernel(const Pieces pieces) {{
  uint4 value[kEach][kPieces];
  constexpr uint4 kNone{{0, 0, 0, 0}};
  constexpr Way kWays[kPieces] = {{{ways}}};
  int64_t from[kPieces], end[kPieces];
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {{
    from[p] = pieces.vectors[p] * blockIdx.x / gridDim.x + threadIdx.x;
    end[p] = pieces.vectors[p] * (blockIdx.x + 1) / gridDim.x;
  }}
#pragma unroll
  for (int i = 0; i < kEach; ++i) {{
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {{
      const int64_t at = from[p] + i * kThreads;
      value[i][p] = kWays[p].read && at < end[p] ? load(pieces.at[p] + at) : kNone;
    }}
  }}
#pragma unroll
  for (int i = 0; i < kEach; ++i) {{
    uint4 all = kNone;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {{
      all.x ^= value[i][p].x;
      all.y ^= value[i][p].y;
      all.z ^= value[i][p].z;
      all.w ^= value[i][p].w;
    }}
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {{
      const int64_t at = from[p] + i * kThreads;
      if (kWays[p].written && at < end[p]) {{
        store(pieces.at[p] + at, kWays[p].read ? value[i][p] : all);
      }}
    }}
  }}
}}

}}  // namespace

{prototype} {{
  Pieces pieces;
{body}
  int64_t longest = 0;
  for (const int64_t vectors : pieces.vectors) longest = vectors > longest ? vectors : longest;
  const int64_t span = kThreads * kEach;
  const unsigned blocks = static_cast<unsigned>((longest + span - 1) / span);
  if (blocks == 0) return cudaSuccess;
  stream_kernel<<<blocks, kThreads, 0, stream>>>(pieces);
  return cudaGetLastError();
}}
"""
