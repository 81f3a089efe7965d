"""What faster kernels are worth in a whole layer: one decode step of a Qwen3 MoE layer as a CUDA
graph, with SGLang's kernels and with the winners of live runs.

    python -m lab.decode_layer measure FILE... -o LAYER.json    # on a GPU
    python -m lab.decode_layer show LAYER.json                  # the table

FILE: transcripts, as of live_runs. Six tasks of ours run in the layer (decode_step.py) in
serving order; all else, matrix products and attention above all, is torch's. A third graph has
torch's part alone: what is left is what kernels can win.

Graphs are replayed by turns in random order, each between two events, their inputs restored before.
Weights of a layer exceed the L2, so they come from memory as when a model's layers follow one
another. Intervals are 95 % over blocks of one replay of each graph, by Student's t on logarithms.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.session.export import export_best
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.types import Value, candidate_id
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import module_file
from astra_chat.transcript.turns import texts
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors
from lab.live_runs import load
from lab.result_tables import table_row
from lab.winners import fastest

if TYPE_CHECKING:
    import torch

    from lab.decode_step import Kernels, RunnableLayer

TASKS = (
    "fused_add_rmsnorm",
    "qk_rmsnorm_rope",
    "topk_softmax",
    "moe_align_block_size",
    "silu_and_mul",
    "moe_sum_reduce",
)
TOKENS = (1, 8, 64)
BLOCKS, WARMUPS = 200, 20
STUDENT_95 = 1.972
"""Quantile 0.975 of Student's t with 199 degrees of freedom."""
AGREE = 0.05
"""How far the two layers' results may lie apart in bfloat16, as a share of the largest output."""
Arm = Literal["before", "after", "torch"]


class Step(Value):
    """One decode step of so many requests; microseconds are medians."""

    tokens: int
    before_us: float
    after_us: float
    torch_us: float
    """Microseconds without our kernels: matrix products, attention and torch's own kernels."""
    ratio: float
    ratio_low: float
    ratio_high: float
    apart: float
    """Largest difference of the two results, as a share of the largest output."""


class DecodeLayer(Value):
    """All steps on one GPU, and the kernels after."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/decode-layer/1"] = Field(alias="schema")
    gpu: str
    torch: str
    candidates: dict[str, str]
    steps: tuple[Step, ...]


def winners(paths: Sequence[Path]) -> dict[str, str]:
    """Source of each task's winner from `sglang`: the fastest that these runs found, as a GPU
    measured it where one did. Raises BadInput where a task has none."""
    found: dict[str, tuple[float, str]] = {}
    for run in load(paths):
        best, task = fastest(run.summary), run.summary.task
        if task not in TASKS or best is None or run.arm[0] != "sglang":
            continue
        measured = [ratio for gpu in run.measured if (ratio := run.ratio_on(gpu))]
        speed = (max(measured, default=0.0), best.candidate)
        if task not in found or speed[0] > found[task][0]:
            sources = texts(read(run.path).records).values()
            found[task] = speed[0], next(s for s in sources if candidate_id(s) == speed[1])
    if missing := [task for task in TASKS if task not in found]:
        raise BadInput(f"no run found a kernel of {', '.join(missing)}")
    return {task: source for task, (_, source) in found.items()}


def modules(sources: Mapping[str, str], folder: Path, arch: str) -> Kernels:
    """Each task's kernel as a user of a winner gets it. Raises AstraError."""
    import tvm_ffi

    def made(name: str) -> Callable[..., Any]:
        task = find_task(name)
        export_best(task, sources[name], folder / name, arch=arch)
        module = tvm_ffi.load_module(str(folder / name / module_file(task.entry)))
        found: Callable[..., Any] = getattr(module, task.entry)
        return found

    with ThreadPoolExecutor() as pool:
        return dict(zip(sources, pool.map(made, sources), strict=True))


def graph_of(layer: RunnableLayer, kernels: Kernels) -> torch.cuda.CUDAGraph:
    """Returns a CUDA graph of one step, warmed up on a stream of its own as torch asks for."""
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            layer.restore()
            layer.step(kernels)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer.step(kernels)
    return graph


def measured(tokens: int, arms: Mapping[Arm, Kernels], draws: random.Random) -> Step:
    """Time all arms by turns. Raises BadInput where the two layers' results lie apart."""
    import torch

    from lab.decode_step import RunnableLayer

    layer = RunnableLayer(tokens)
    layer.route(arms["before"])
    graphs = {arm: graph_of(layer, kernels) for arm, kernels in arms.items()}
    results = []
    for arm in ("before", "after"):
        layer.restore()
        graphs[arm].replay()
        torch.cuda.synchronize()
        results.append(layer.result.float().clone())
    apart = float((results[0] - results[1]).abs().max() / results[0].abs().max())
    if not apart <= AGREE:
        raise BadInput(f"{tokens} tokens: the layers' results lie {apart:.3f} apart")
    spent: dict[Arm, list[float]] = {arm: [] for arm in graphs}
    for block in range(WARMUPS + BLOCKS):
        for arm in draws.sample(list(graphs), len(graphs)):
            layer.restore()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            graphs[arm].replay()
            end.record()
            torch.cuda.synchronize()
            if block >= WARMUPS:
                spent[arm].append(start.elapsed_time(end) * 1e3)
    logs = [math.log(b / a) for b, a in zip(spent["before"], spent["after"], strict=True)]
    middle = statistics.mean(logs)
    half = STUDENT_95 * statistics.stdev(logs) / math.sqrt(len(logs))
    before, after, alone = (statistics.median(spent[arm]) for arm in ("before", "after", "torch"))
    return Step(
        tokens=tokens,
        before_us=before,
        after_us=after,
        torch_us=alone,
        ratio=math.exp(middle),
        ratio_low=math.exp(middle - half),
        ratio_high=math.exp(middle + half),
        apart=apart,
    )


def measure(paths: Sequence[Path], out: Path, tokens: Sequence[int]) -> None:
    """Time the layer with and without the winners of these runs, and write `out`. Raises
    AstraError."""
    import torch

    device = pick_device("cuda")
    torch.cuda.set_device(device.index)
    after = winners(paths)
    before = {task: baseline_source(find_task(task), "sglang") for task in TASKS}
    with tempfile.TemporaryDirectory(prefix="astra-layer-") as folder:
        made = [
            modules(sources, Path(folder) / name, device.arch)
            for name, sources in (("before", before), ("after", after))
        ]
        arms: dict[Arm, Kernels] = {"before": made[0], "after": made[1], "torch": {}}
        steps = tuple(measured(count, arms, random.Random(count)) for count in tokens)
    found = DecodeLayer(
        schema="astra-chat/decode-layer/1",
        gpu=device.name,
        torch=torch.__version__,
        candidates={task: candidate_id(source) for task, source in after.items()},
        steps=steps,
    )
    write_whole(out, found.model_dump_json(indent=1).encode())
    print(document(found), file=sys.stderr)


def read_layer(path: Path) -> DecodeLayer:
    """Read what `measure` wrote. Raises BadInput."""
    try:
        return DecodeLayer.model_validate_json(read_recorded(path))
    except (OSError, ValidationError) as error:
        raise BadInput(
            f"{path} contains no measurement of a decode layer: {type(error).__name__}"
        ) from None


def document(layer: DecodeLayer) -> str:
    heads = ("tokens", "before, us", "after, us", "torch's part, us", "layer faster by", "kernels")
    rows = [table_row(*heads), table_row(*["---"] * len(heads))]
    for one in layer.steps:
        kernels = (one.before_us - one.torch_us, one.after_us - one.torch_us)
        rows.append(
            table_row(
                str(one.tokens),
                f"{one.before_us:.1f}",
                f"{one.after_us:.1f}",
                f"{one.torch_us:.1f}",
                f"{one.ratio:.3f} ({one.ratio_low:.3f} to {one.ratio_high:.3f})",
                f"{kernels[0]:.1f} : {kernels[1]:.1f} = {kernels[0] / kernels[1]:.2f}",
            )
        )
    return "\n".join(rows)


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.decode_layer")
    commands = parser.add_subparsers(dest="what", required=True)
    made = commands.add_parser("measure")
    made.add_argument("files", nargs="+", type=Path, metavar="FILE")
    made.add_argument("-o", "--out", type=Path, required=True)
    made.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    shown = commands.add_parser("show")
    shown.add_argument("layer", type=Path, metavar="LAYER.json")
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.files, given.out, given.tokens)
    else:
        print(document(read_layer(given.layer)))


if __name__ == "__main__":
    main()
