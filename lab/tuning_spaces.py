"""Tuning spaces of the shipped kernels: which of their constants are left open.

The sources stay as they are shipped; here stand the marks that are put into them, each an exact
piece of the source and what takes its place. A winner's constants are its own. A baseline has few:
its loops get an unroll count and its kernel launch bounds, so its starting point is not its code.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.tuning.space import Space, read_space
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class Marked:
    """A shipped kernel, and the marks for it."""

    file: str
    """In the task's folder."""
    edits: tuple[tuple[str, str], ...]


SPACES = {
    "silu_and_mul/winner": Marked(
        "script/fitted.cu",
        (
            ("kSmallBlock = 128;", "kSmallBlock = 128;  // tune: 32 64 96 192 256"),
            ("kLargeBlock = 512;", "kLargeBlock = 512;  // tune: 128 256 1024"),
            (
                "kResidentThreads = 132 * 2048;",
                "kResidentThreads = 270336;  // tune: 33792 67584 135168 540672 1081344\n"
                "// require: kSmallBlock <= kLargeBlock\n//",
            ),
        ),
    ),
    "silu_and_mul/baseline": Marked(
        "baseline.cu",
        (
            (
                "constexpr int kMaxThreads = 1024;",
                "constexpr int kMaxThreads = 1024;  // tune: 64 96 128 192 256 384 512 768\n"
                "constexpr int kUnroll = 1;  // tune: 2 4 8\n"
                "constexpr int kMinBlocks = 1;  // tune: 2 3 4\n"
                "// require: kMaxThreads * kMinBlocks <= 2048",
            ),
            (
                "__global__ void silu",
                "__global__ void __launch_bounds__(kMaxThreads, kMinBlocks) silu",
            ),
            (
                "#pragma unroll 1\n  for (int index = thread; index < d",
                "#pragma unroll kUnroll\n  for (int index = thread; index < d",
            ),
        ),
    ),
    "fused_add_rmsnorm/winner": Marked(
        "script/fitted.cu",
        (
            ("kFewThreads = 512;", "kFewThreads = 512;  // tune: 128 192 256 384 640 768"),
            ("kFewRows = 2 * 132;", "kFewRows = 264;  // tune: 1 66 132 528 1056 2112\n//"),
            ("kL2Bytes = 60 * 1000 * 1000;", "kL2Bytes = 60000000;  // tune: 1000000 30000000\n//"),
        ),
    ),
    "fused_add_rmsnorm/baseline": Marked(
        "baseline.cu",
        (
            (
                "constexpr int kMaxThreads = 1024;",
                "constexpr int kMaxThreads = 1024;  // tune: 128 256 384 512 640 768\n"
                "constexpr int kUnrollAdd = 4;  // tune: 1 2\n"
                "constexpr int kUnrollScale = 4;  // tune: 1 2\n"
                "constexpr int kMinBlocks = 1;  // tune: 2",
            ),
            (
                "__global__ void fused",
                "__global__ void __launch_bounds__(kMaxThreads, kMinBlocks) fused",
            ),
            (
                "  float squares = 0.0f;\n  for (int round",
                "  float squares = 0.0f;\n#pragma unroll kUnrollAdd\n  for (int round",
            ),
            (
                "+ eps);\n\n  for (int round",
                "+ eps);\n\n#pragma unroll kUnrollScale\n  for (int round",
            ),
        ),
    ),
    "merge_state_v2/winner": Marked(
        "script/fitted.cu",
        (
            ("kSmallBlock = 128;", "kSmallBlock = 128;  // tune: 32 64 256"),
            ("kBlock = 256;", "kBlock = 256;  // tune: 512"),
            ("kLargeBlock = 512;", "kLargeBlock = 512;  // tune: 256 1024"),
            ("kSmallCall = 65536;", "kSmallCall = 65536;  // tune: 4096 16384 32768 131072\n//"),
        ),
    ),
    "merge_state_v2/baseline": Marked(
        "baseline.cu",
        (
            (
                "constexpr unsigned kThreads = 128;",
                "constexpr unsigned kThreads = 128;  // tune: 32 64 96 192 256 384 512 768 1024\n"
                "constexpr unsigned kEach = 1;  // tune: 2 4 8\n"
                "constexpr int kMinBlocks = 1;  // tune: 2 4\n"
                "// require: kThreads * kMinBlocks <= 2048",
            ),
            (
                "__global__ void merge",
                "__global__ void __launch_bounds__(kThreads, kMinBlocks) merge",
            ),
            (
                "  const unsigned index = blockIdx.x * kThreads + threadIdx.x;",
                "#pragma unroll\n  for (unsigned turn = 0; turn < kEach; ++turn) {\n"
                "  const unsigned index = (blockIdx.x * kEach + turn) * kThreads + threadIdx.x;",
            ),
            (
                "out_lse[row] = logf(total) + max_lse;\n}",
                "out_lse[row] = logf(total) + max_lse;\n}\n}",
            ),
            (
                "blocks = (packs + kThreads - 1) / kThreads;",
                "blocks = (packs + kThreads * kEach - 1) / (kThreads * kEach);",
            ),
        ),
    ),
}


def space_of(name: str) -> Space:
    """The space of this name. Raises BadInput where there is none, or where the kernel no longer
    holds what a mark is for."""
    if name not in SPACES:
        raise BadInput(f"no space '{name}': there are {', '.join(SPACES)}")
    marked = SPACES[name]
    path = find_task(name.partition("/")[0]).folder / marked.file
    source = path.read_text()
    for old, new in marked.edits:
        if source.count(old) != 1:
            raise BadInput(
                f"{path.name} of {name} does not contain '{old}' exactly once: change its marks"
            )
        source = source.replace(old, new)
    return read_space(source)
