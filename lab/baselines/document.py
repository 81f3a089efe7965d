"""docs/research/baselines.md from measured comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import MeasuredTime, candidate_id
from astra_vgpu.ground.errors import BadInput
from lab.baselines.evidence import Comparison, Evidence

FLOORS = ("streaming", "empty", "sweep")
ALIKE = 0.05
"""How near the streaming kernel's bytes must be to the contract's least, to compare their times."""
WITHIN = 0.05
"""How near a baseline must come to the kernel that it stands for."""
HEAD = """\
# Baselines

How close our baselines are to the kernels they stand for, and how our best kernels compare with
those. Written by `python -m lab.baselines show` from {files},
measured on {devices}. Times are microseconds per launch, L2 cold, by the judge's own
method (CUDA-graph replay over rotated buffers, ABBA blocks). The outputs of the second kernel were
compared with the float64 oracle. A ratio is the time of the first kernel over the time of the
second, with its 95 % interval.

The other projects' kernels are taken from packages that the user installs; none is in this
repository:

- *headers, sglang*: FlashInfer's kernel templates, built here with the task's flags
  (flashinfer-python 0.3.1, September 2025).
- *headers, today*, *headers-pdl*: the same, from today's version (flashinfer-python 0.7.2).
- *library, sglang*: machine code from SGLang's compiled library of September 2025, which
  upstream built without fast math (sgl-kernel 0.3.12).
- *library, today*: the same sources from today's library, which upstream builds with fast math for
  this architecture: the flags that our tasks use for baseline and candidates (sglang-kernel
  0.4.10).
- *jit*, *jit-pdl*: what SGLang compiles at run time today, with its flags (sglang 0.5.23). pdl:
  with programmatic dependent launch, as upstream launches it; another kernel then runs between all
  launches and its time is subtracted.
- *triton*, *triton-pdl*: Triton kernels that SGLang launches today for small calls (sglang 0.5.23),
  as machine code made by Triton.

Two kernels of ours give lower bounds: *streaming* moves the task's mix of reads and writes without
computing anything, in the fastest of four layouts; *empty* is a launch that does nothing.

Not measured here: FlashInfer's CuTe-DSL kernels (*cute*), which SGLang 0.5.23 prefers for rmsnorm
and fused_add_rmsnorm (FlashInfer 0.7.2 uses the norms of its headers only if NVIDIA's cutlass-dsl
package is missing); rows of more than 8192 elements with the run-time kernel, which rejects them;
and SGLang's router, a Triton kernel for all of topk_softmax. [over-today.md](over-today.md) has
what was measured of them, and lab/rivals.toml lists all kernels that engines launch.
merge_state_v2 has no header and no run-time kernel: upstream's machine code is the only original.
Today's FlashInfer headers need the folder cccl next to include.

The compiled library of 2025 has no rotary_embedding (SGLang used vLLM's), and its topk_softmax
takes no bias; today's has no rope with the cache write. It launches one kernel for
rope_and_kv_write; the two that our baseline reproduces are in two cubins, as are those of
qk_rmsnorm_rope, whose norm requires equally spaced rows: SGLang copied query and key for it. In
September 2025, topk_softmax used two kernels for 512 experts and selected one expert at a time, and
moe_align_block_size had no second block that fills the padding; our baselines reproduce the
versions of late 2025. FlashInfer's headers of 2025 rotate with a float32 table, whereas that of
rotary_embedding has the tensors' dtype, and they cannot write the cache of rope_and_kv_write.

Where our baseline is not within 5 % of SGLang's of 2025: moe_sum_reduce is up to 9 % faster in
calls of few tokens (upstream computes addresses from five 64-bit strides) and 6 % slower at 2048;
per_token_group_quant_fp8 is up to 6 % faster than the sources of that kernel in today's library,
of which the one of 2025 was built without fast math; per_token_quant_fp8 uses the corrected
algorithm; topk_softmax with 160 experts is 12 to 17 % faster than today's library, which selects
two experts per round, as ours does, and 28 to 33 % faster than that of 2025, which selects one;
moe_align_block_size is within 5 % of today's library, and up to 13 % faster than that of 2025,
whose counting block fills the padding as well. The comparison with these two libraries (on an
H100) showed that both baselines were too slow or too fast: with 160 experts topk_softmax took 1.34
to 1.39 times as long as upstream's of 2025 and 1.62 to 1.69 times as long as today's, and
moe_align_block_size 0.57 to 0.78 of upstream's time in large calls, because nvcc unrolled our
loops over the ids and not upstream's. The H200's figures for them are for those earlier versions.
rope_and_kv_write's baseline is two kernels in sequence; the library of 2025 has a single kernel
for it that takes half the time (2.07 times as fast as the sequence, 0.96 to 3.2 by case).

To repeat it, with the wheels unpacked:

    python -m lab.baselines extract sgl_kernel/common_ops.abi3.so -o cubins
    python -m lab.baselines translate sglang/kernels/ops -o triton-made
    python -m lab.baselines cute flashinfer -o cute-made
    python -m lab.baselines measure -o baselines.json \\
        --flashinfer flashinfer-0.3.1/include --flashinfer-today flashinfer/data/include \\
        --sglang sglang/kernels/jit --library cubins --library-today cubins-today \\
        --triton triton-made --cute cute-made
    python -m lab.baselines show baselines.json > docs/research/baselines.md

`show --cases` prints the times of every case, with their intervals.

With `--winners FOLDER` (`python -m lab.winner_files`), only the live runs' winners are timed, side
by side with today's kernels. `check` instead of `measure -o FILE` checks the results of the kernels
that have source on the virtual GPU.
"""


def document(files: Sequence[tuple[str, Evidence]], cases: bool = False) -> str:
    """Markdown; `files` are names and what they hold. Two devices are never in one table. With
    `cases` every case's times stand there, else a line for each pair of kernels."""
    names = ", ".join(f"`{name}`" for name, _ in files)
    devices = sorted({one.device.name for _, one in files})
    found = [(one.device.name, c) for _, one in files for c in one.comparisons]
    lines = [HEAD.format(files=names, devices=", ".join(devices))]
    for device, task in dict.fromkeys((device, c.task) for device, c in found):
        mine = [c for on, c in found if (on, c.task) == (device, task)]
        where = f", on {device}" if len(devices) > 1 else ""
        lines += [f"## {task}{where}", "", *_task(mine, cases)]
    return "\n".join(lines).rstrip()


def _task(found: Sequence[Comparison], cases: bool) -> Iterator[str]:
    ours = [c for c in found if c.first.name == "sglang"]
    if ours:
        yield from _what_ours_is(ours)
        yield "Our `sglang` baseline over other projects' kernels; above 1: theirs is faster:"
        yield ""
        yield from _table(ours, True) if cases else ()
    for comparison in ours:
        yield _nearness(comparison)
    yield from [""] * bool(ours)
    imprecise = [c for c in found if c.second.name == "sglang" and c.first.tier not in FLOORS]
    if imprecise:
        yield (
            "Other projects' kernels that do not meet the contract, over ours; below 1: theirs"
            " is faster:"
        )
        yield ""
        yield from _table(imprecise, False) if cases else map(_over, imprecise)
        yield ""
    theirs = [c for c in found if c.second.name == "best" and c.first.tier not in FLOORS]
    if theirs:
        yield "Our best over theirs:"
        yield ""
        yield from _table(theirs, False) if cases else ()
    yield from (_over(comparison) for comparison in theirs if comparison.cases)
    yield from [""] * bool(theirs)
    yield from _floors([c for c in found if c.first.tier in FLOORS and c.cases], cases)
    for comparison in found:
        if comparison.failure:
            yield f"- {comparison.second.name} over {comparison.first.name}: {comparison.failure}"


def _over(comparison: Comparison) -> str:
    worst = min(comparison.cases, key=lambda case: case.ratio)
    return (
        f"- over {_title(comparison, second=False)}: weighted geometric mean"
        f" **{mean_ratio(comparison):.3f}**, lowest {worst.ratio:.3f} ({worst.case.label})"
    )


def _what_ours_is(ours: Sequence[Comparison]) -> Iterator[str]:
    """What it reproduces, where it differs from that, and whether it has changed since."""
    try:
        task = find_task(ours[0].task)
    except BadInput:  # a task of the user's own that is not here
        return
    yield f"Our baseline reproduces {task.provenance['baseline'].removesuffix('.')}."
    now = candidate_id(task.baseline)
    if measured := {c.first.content for c in ours} - {now}:
        earlier = "`, `".join(sorted(measured))
        yield f"An earlier version, `{earlier}`, was measured; today's is `{now}`."
    yield ""


def _floors(found: Sequence[Comparison], cases: bool) -> Iterator[str]:
    """What no kernel of the contract is expected to be faster than, by case."""
    if not found:
        return
    contract, mine = find_task(found[0].task), found[0].second.name
    rows, shares = list[str](), dict[str, float]()
    for label, case in {case.case.label: case for c in found for case in c.cases}.items():
        least = contract.least_bytes(case.case)
        empty = next((x.baseline_us for x, _ in _of(found, "empty", label)), None)
        streams = [*_of(found, "streaming", label)]
        if not streams:
            rows += [f"| {label} | {least:,} | {_us(empty)} | | {case.median_us:.2f} | |"]
            continue
        fastest, moved = min(streams, key=lambda one: one[0].ratio / one[1])
        if abs(least / moved - 1) < ALIKE:
            shares[label] = fastest.ratio * least / moved
        share = f"{shares[label]:.1%}" if label in shares else ""
        rows.append(
            f"| {label} | {least:,} | {_us(empty)} | {fastest.baseline_us:.2f}"
            f" | {fastest.median_us:.2f} | {share} |"
        )
    if not cases:
        if shares:
            low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
            yield (
                f"Ours (`{mine}`) reaches {shares[low]:.0%} ({low}) to {shares[high]:.0%} ({high})"
                " of the speed of *streaming*."
            )
            yield ""
        return
    yield f"Ours (`{mine}`) and its lower bounds:"
    yield ""
    yield f"| case | bytes that must move | empty kernel | streaming | {mine} | of streaming |"
    yield "|---|---|---|---|---|---|"
    yield from [*rows, ""]


def _us(time_us: float | None) -> str:
    return "" if time_us is None else f"{time_us:.2f}"


def _of(found: Sequence[Comparison], tier: str, label: str) -> Iterator[tuple[MeasuredTime, int]]:
    """A case in the comparisons of a tier, with the bytes that their first kernel moves."""
    for comparison in found:
        if comparison.first.tier == tier:
            moved = comparison.first_bytes or (0,) * len(comparison.cases)
            for case, size in zip(comparison.cases, moved, strict=True):
                if case.case.label == label:
                    yield case, size


def _table(found: Sequence[Comparison], second: bool) -> Iterator[str]:
    measured = [c for c in found if c.cases]
    titles = [_title(c, second=second) for c in measured]
    yield f"| case | {' | '.join(titles)} |"
    yield "|---|" + "---|" * len(measured)
    labels = dict.fromkeys(case.case.label for c in measured for case in c.cases)
    for label in labels:
        cells = []
        for comparison in measured:
            case = next((x for x in comparison.cases if x.case.label == label), None)
            cells.append(
                f"{case.baseline_us:.2f} : {case.median_us:.2f} = {case.ratio:.3f}"
                f" ({case.ratio_low:.3f} to {case.ratio_high:.3f})"
                if case
                else "not supported"
            )
        yield f"| {label} | {' | '.join(cells)} |"
    yield ""


def _nearness(comparison: Comparison) -> str:
    if not comparison.cases:
        return f"- {_title(comparison, second=True)}: not measured"
    farthest = max(comparison.cases, key=lambda case: abs(math.log(case.ratio)))
    beyond = sum(abs(math.log(case.ratio)) > math.log(1 + WITHIN) for case in comparison.cases)
    within = (
        f"beyond {WITHIN:.0%} in {beyond} of {len(comparison.cases)} cases"
        if beyond
        else f"within {WITHIN:.0%} on every case"
    )
    return (
        f"- {_title(comparison, second=True)} (`{comparison.second.content}`): {within};"
        f" farthest {farthest.case.label} at {farthest.ratio:.3f}, weighted geometric mean"
        f" {mean_ratio(comparison):.3f}"
    )


def _title(comparison: Comparison, *, second: bool) -> str:
    kernel = comparison.second if second else comparison.first
    return f"{kernel.name}, {kernel.tier}"


def mean_ratio(comparison: Comparison) -> float:
    """Geometric mean by the cases' weights."""
    total = sum(case.weight for case in comparison.cases)
    return math.exp(sum(c.weight * math.log(c.ratio) for c in comparison.cases) / total)
