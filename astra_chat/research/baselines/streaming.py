"""What memory gives a task's mix of reads and writes: a kernel that streams as many bytes.

Every large argument is cut into pieces as long as the smallest of them. A thread loads the same
16-byte vector of every piece that the contract reads and stores one to every piece that it writes.
Nothing is computed and no row has an end, so a kernel of the contract is not expected to be faster
at sizes that memory bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import Case

SMALL = 16
"""Arguments so many times smaller than the largest are left out."""


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
    Variant(512, 1), Variant(256, 2, evict_first=True), Variant(256, 4), Variant(512, 2, True)
)  # fmt: skip


def streaming_source(task: Task, variant: Variant) -> str:
    """A .cu file with the task's launcher; strided arguments are taken as contiguous."""
    pieces = _pieces(task)
    reads = [(arg, i) for arg, count in pieces for i in range(count) if arg.read]
    writes = [(arg, i) for arg, count in pieces for i in range(count) if arg.written]
    unit = min(pieces, key=lambda piece: piece[1])[0]
    extent = " * ".join(f"({extent})" for extent in unit.shape)
    item = "(dtype == 0 ? 4 : 2)" if unit.dtype == "T" else "4"
    lines = ["  Pieces pieces;", f"  pieces.vectors = {extent} * {item} / 16;"]
    for kind, chosen in (("from", reads), ("to", writes)):
        for index, (arg, part) in enumerate(chosen):
            base = f"(uint4*){arg.name}" if kind == "to" else f"(const uint4*){arg.name}"
            lines.append(f"  pieces.{kind}[{index}] = {base} + {part} * pieces.vectors;")
    in_place = all(arg.read for arg, _ in writes)
    return _TEMPLATE.format(
        variant=variant, reads=len(reads), writes=len(writes), prototype=prototype(task),
        body="\n".join(lines), in_place=int(in_place), name=task.name,
        put="__stcs(address, value);" if variant.evict_first else "*address = value;",
    )  # fmt: skip


def streamed_bytes(task: Task, case: Case) -> int:
    """What the streaming kernel of a task moves on a case."""
    return sum(arg.bytes_of(case) * (int(arg.read) + int(arg.written)) for arg, _ in _pieces(task))


def _pieces(task: Task) -> list[tuple[Arg, int]]:
    """The large arguments, and into how many pieces each is cut."""
    case = max((case for case, _ in task.bench), key=task.least_bytes)
    sizes = {arg.name: arg.bytes_of(case) for arg in task.args}
    largest = max(sizes.values())
    large = [arg for arg in task.args if sizes[arg.name] * SMALL >= largest]
    unit = min(sizes[arg.name] for arg in large)
    return [(arg, sizes[arg.name] // unit) for arg in large]


_TEMPLATE = """\
// A kernel that moves the bytes of {name} and computes nothing: {reads} pieces read, {writes}
// written, {variant.threads} threads, {variant.each} vectors of 16 bytes each.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {{

constexpr int kReads = {reads}, kWrites = {writes};
constexpr int kThreads = {variant.threads}, kEach = {variant.each};
constexpr bool kInPlace = {in_place};

struct Pieces {{
  const uint4* from[kReads];
  uint4* to[kWrites];
  int64_t vectors;
}};

__device__ __forceinline__ void put(uint4* address, const uint4& value) {{
  {put}
}}

// What is written in place is what another piece held: values stay values of the case.
__global__ void __launch_bounds__(kThreads) stream_kernel(const Pieces pieces) {{
  const int64_t first = blockIdx.x * static_cast<int64_t>(kThreads * kEach) + threadIdx.x;
  uint4 value[kEach][kReads];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {{
    const int64_t at = first + i * kThreads;
#pragma unroll
    for (int r = 0; r < kReads; ++r) {{
      if (at < pieces.vectors) value[i][r] = pieces.from[r][at];
    }}
  }}
#pragma unroll
  for (int i = 0; i < kEach; ++i) {{
    const int64_t at = first + i * kThreads;
    if (at >= pieces.vectors) continue;
#pragma unroll
    for (int w = 0; w < kWrites; ++w) {{
      uint4 all = value[i][(w + 1) % kReads];
#pragma unroll
      for (int r = 0; r < kReads && !kInPlace; ++r) {{
        if (r == (w + 1) % kReads) continue;
        all.x ^= value[i][r].x;
        all.y ^= value[i][r].y;
        all.z ^= value[i][r].z;
        all.w ^= value[i][r].w;
      }}
      put(pieces.to[w] + at, all);
    }}
  }}
}}

}}  // namespace

{prototype} {{
{body}
  const int64_t span = kThreads * kEach;
  const unsigned blocks = static_cast<unsigned>((pieces.vectors + span - 1) / span);
  stream_kernel<<<blocks, kThreads, 0, stream>>>(pieces);
  return cudaGetLastError();
}}
"""
