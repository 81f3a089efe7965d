"""Planted faults of kernels over several GPUs, and of ranks: each must be found, none may hang."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from astra_chat.tools.descriptions import describe
from astra_chat.tools.ranks.group import RankGroup
from astra_chat.tools.ranks.groups import RankNumbers
from astra_chat.tools.ranks.judge import RanksJudge
from astra_chat.tools.task.shipped import shipped_folder
from astra_vgpu.ground.errors import AstraError

BASELINE, PULL, BY_SIZE = "baseline.cu", "script/pull.cu", "script/by_size.cu"
REFUSED, WRONG, TIMED_OUT, CRASHED = "refused", "wrong", "timed_out", "crashed"
OUT = (
    "    call.out[row + i] = __float2bfloat16_rn(sums[i] * scale *"
    " __bfloat162float(call.weight[i]));"
)
WAIT = "while (static_cast<int32_t>(load_acquire(reached) - number) < 0) {"
STORE = 'asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");'
ALL_TWO_SHOTS = (
    "if (numbers <= kMostPushed) return push_kernel<kRanks>;",
    "if (numbers > 0) return two_shot_kernel<kRanks>;",
)


@dataclass(frozen=True)
class PlantedFault:
    """One wrong kernel: an edit of a kernel of the task."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    outcomes: tuple[str, ...] = (WRONG,)
    """Outcomes that find it."""

    def source(self, judge: RanksJudge) -> str:
        """Returns the kernel's text. Raises AstraError where an edit does not fit it any more."""
        text = (judge.task.folder / self.file).read_text()
        for old, new in self.edits:
            if old not in text:
                raise AstraError(f"planted fault '{self.name}': {self.file} has no '{old}'")
            text = text.replace(old, new)
        return text


def _fault(name: str, file: str, *edits: tuple[str, str], by: str = WRONG) -> PlantedFault:
    return PlantedFault(name, file, edits, (by,))


FAULTS = (
    _fault(
        "barrier: none after the reads, a peer's next input is read",
        BASELINE,
        ("  barrier(call, passed + 2);", "  __syncthreads();"),
        ("= passed + 2", "= passed + 1"),
    ),
    _fault("barrier: signals are sent, never waited for", BASELINE, (WAIT, "{"), by=REFUSED),
    _fault(
        "barrier: one rank leaves before the last one",
        BASELINE,
        ("  barrier(call, passed + 2);", "  if (call.rank != 1) barrier(call, passed + 2);"),
        by=TIMED_OUT,
    ),
    _fault(
        "barrier: rank 0 signals no peer",
        BASELINE,
        ("    store_release(&", "    if (call.rank != 0) store_release(&"),
        by=TIMED_OUT,
    ),
    _fault("reuse: flags do not count the calls", BASELINE, ("= passed + 2;", "= 0;")),
    _fault("reuse: flags count to two", PULL, ("calls = number;", "calls = number % 2;")),
    _fault("reuse: one slot for the rows of two calls", PULL, ("number % 2;", "0;")),
    _fault(
        "reuse: pushed words carry the same mark in every call",
        BY_SIZE,
        ("static_cast<uint64_t>(number) << 32", "1ull << 32"),
        ("static_cast<uint32_t>(first >> 32) != number", "(first >> 32) != 1"),
        ("static_cast<uint32_t>(second >> 32) != number", "(second >> 32) != 1"),
    ),
    _fault(
        "stale: the preceding call's slot is read",
        PULL,
        ("peer->rows[blockIdx.x][place]", "peer->rows[blockIdx.x][1 - place]"),
    ),
    _fault(
        "stale: results are copied before the owner has sent them",
        BY_SIZE,
        ALL_TWO_SHOTS,
        ("    if (threadIdx.x == 0) wait_for(&signals.finished, number);\n", ""),
    ),
    _fault(
        "stale: the owner adds before its peers have begun",
        BY_SIZE,
        ALL_TWO_SHOTS,
        (
            "    if (threadIdx.x < kRanks) wait_for(&signals.started[threadIdx.x], number);\n"
            "    __syncthreads();\n    if (used) {\n#pragma unroll\n      for (int rank = 0;",
            "    if (used) {\n#pragma unroll\n      for (int rank = 0;",
        ),
    ),
    _fault(
        "wrong rank: the rank's own row is used instead of a peer's",
        PULL,
        (": peer->rows[blockIdx.x][place][vector]", ": own->rows[blockIdx.x][place][vector]"),
    ),
    _fault(
        "wrong rank: the flag of another rank is set",
        PULL,
        ("started[call.rank], number", "started[threadIdx.x], number"),
        by=TIMED_OUT,
    ),
    _fault(
        "wrong rank: rank 1 rounds differently",
        BASELINE,
        (OUT, f"{OUT.replace('_rn', '_rz')}\n    if (call.rank != 0) {OUT.strip()}"),
    ),
    _fault(
        "wrong rank: a peer is counted twice",
        BASELINE,
        ("[rank]);\n      sum", "[rank | 1]);\n      sum"),
    ),
    _fault(
        "one-sided: rank 1 returns once it has sent its row",
        PULL,
        (
            "  if (threadIdx.x < kRanks) {\n    while",
            "  if (call.rank == 1) {\n    if (threadIdx.x == 0) signals.calls = number;\n"
            "    return;\n  }\n"
            "  if (threadIdx.x < kRanks) {\n    while",
        ),
    ),
    _fault(
        "input: the rank overwrites its own input",
        BASELINE,
        (
            "    sums[i] = sum;",
            "    sums[i] = sum;\n    const_cast<__nv_bfloat16*>(reinterpret_cast<const"
            " __nv_bfloat16*>(call.inputs[call.rank]))[row + i] = __float2bfloat16_rn(sum);",
        ),
    ),
    _fault(
        "scope: release for this GPU only",
        BASELINE,
        ("st.release.sys", "st.release.gpu"),
        by=REFUSED,
    ),
    _fault(
        "scope: acquire for this GPU only", PULL, ("ld.acquire.sys", "ld.acquire.gpu"), by=REFUSED
    ),
    _fault(
        "order: a relaxed store signals", PULL, ("st.release.sys", "st.relaxed.sys"), by=REFUSED
    ),
    _fault(
        "order: a relaxed load waits", BASELINE, ("ld.acquire.sys", "ld.relaxed.sys"), by=REFUSED
    ),
    _fault(
        "order: __threadfence() before a volatile flag",
        BASELINE,
        (STORE, "__threadfence();\n  *reinterpret_cast<volatile uint32_t*>(address) = value;"),
        by=REFUSED,
    ),
    _fault("order: a plain store signals", PULL, (STORE, "*address = value;"), by=REFUSED),
)


@dataclass(frozen=True)
class Tried:
    """A planted fault that was judged."""

    name: str
    found: bool
    said: str


def _last(action: int) -> Callable[[RankGroup], None]:
    return lambda group: group.processes[-1].send_signal(action)


RANK_FAULTS: tuple[tuple[str, str, Callable[[RankGroup], None]], ...] = (
    ("rank: killed during the calls", CRASHED, _last(signal.SIGKILL)),
    ("rank: stopped during the calls", TIMED_OUT, _last(signal.SIGSTOP)),
)
"""What happens to the last rank of the baseline, and the outcome that says so."""


def tried(judge: RanksJudge, only: str) -> Iterator[Tried]:
    """Judges every planted fault in the group that is timed, then the baseline while something
    happens to a rank.

    Args:
        judge: Of the task; its contract's limit of time ends what hangs.
        only: Faults whose names contain this are tried.

    Yields:
        Each fault, and whether it was found.
    """
    judge.ranks.numbers = RankNumbers((judge.ranks.numbers.timed,), judge.ranks.numbers.timed)
    for fault in FAULTS:
        if only in fault.name:
            yield _judged(judge, fault.name, fault.source(judge), fault.outcomes)
    for name, outcome, action in RANK_FAULTS:
        if only in name:
            usual = judge.ranks
            judge.ranks = replace(usual, after_start=action)
            yield _judged(judge, name, judge.baseline, (outcome,))
            judge.ranks = usual


def _judged(judge: RanksJudge, name: str, source: str, outcomes: tuple[str, ...]) -> Tried:
    found = judge.check(source).outcome
    said = describe(found).replace("\n", " ")
    return Tried(name, found.kind in outcomes, f"{found.kind}: {said}")


PLAIN = "allreduce_add_rmsnorm"
MOST = """__device__ __forceinline__ float block_most(float value) {
  __shared__ float warps_most[kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (threadIdx.x % kWarp == 0) warps_most[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = threadIdx.x % kWarp < blockDim.x / kWarp ? warps_most[threadIdx.x % kWarp] : 0.0f;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

template <int kRanks>
__device__ __forceinline__ void reduce_and_norm"""
CODED = """for (int i = 0; i < kVector; ++i) {
      sums[i] *= scale * weights[i];
      most = fmaxf(most, fabsf(sums[i]));
    }
  }
  const float unit = block_most(most) / 448.0f;
  const float inverse = unit > 0.0f ? 1.0f / unit : 0.0f;
  if (used) {
    __nv_fp8_e4m3 codes[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) codes[i] = __nv_fp8_e4m3(sums[i] * inverse);
    uint2 packed;
    memcpy(&packed, codes, sizeof(packed));
    call.codes[at] = packed;
  }
  if (threadIdx.x == 0) call.scales[blockIdx.x] = unit;
"""
EDITS = (
    ("#include <cuda_bf16.h>\n", "#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"),
    ("  __nv_bfloat16* out;\n", "  uint2* codes;\n  float* scales;\n"),
    ("template <int kRanks>\n__device__ __forceinline__ void reduce_and_norm", MOST),
    ("  if (used) {\n    float weights", "  float most = 0.0f;\n  if (used) {\n    float weights"),
    (
        "for (int i = 0; i < kVector; ++i) sums[i] *= scale * weights[i];\n"
        "    reinterpret_cast<uint4*>(call.out)[at] = rounded(sums);\n  }\n",
        CODED,
    ),
    ("cudaError_t allreduce_add_rmsnorm(", "cudaError_t allreduce_add_rmsnorm_quant_fp8("),
    ("void* out,", "void* output_q, void* output_s,"),
    (
        "static_cast<__nv_bfloat16*>(out),",
        "static_cast<uint2*>(output_q), static_cast<float*>(output_s),",
    ),
)


def quantised() -> str:
    """Returns the kernel's text. Raises AstraError where an edit does not fit it any more."""
    text = (shipped_folder(PLAIN) / "script" / "pull.cu").read_text()
    for old, new in EDITS:
        if text.count(old) != 1:
            raise AstraError(f"pull.cu has no single '{old}'")
        text = text.replace(old, new)
    return text
