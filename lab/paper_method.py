"""The Astra paper's timing on its twelve cases:
`python -m lab.paper_method RUN... > paper-method.json`.

Times the tiers `paper` and `sglang`, the scripted run's winner, and those of the live runs RUN.

After 20 launches to warm up, it takes the mean of 100 launches, each with an event pair around it.
A C loop launches on the same buffers, so a small call costs as much as the event pair (about 5 us
on an H200), and its data is in the L2; the paper launched through torch, which adds about the same
again. Prints JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.build.hosted import hosted_library
from astra_chat.tools.build.nvcc import build_all, require_build
from astra_chat.tools.recordings.reading import expanded
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import call_values, prototype
from astra_chat.tools.types import Case, Device, Value, candidate_id
from astra_vgpu.ground.errors import AstraError, BadInput
from astra_vgpu.ground.gpu_specs import spec
from lab.commands import one_line_errors, read_document

SCHEMA = "astra-chat/paper-method/1"
WARMUPS, LAUNCHES = 20, 100
COLD_REPLAYS = 15
ALIGNMENT_BYTES = 256

PAPER_SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "silu_and_mul": ((16, 4096), (32, 5120), (64, 8192), (16, 12288)),
    "fused_add_rmsnorm": ((256, 4096), (1024, 4096), (128, 11008), (512, 14336)),
    "merge_state_v2": ((512, 32, 256), (512, 40, 128), (768, 32, 256), (512, 64, 128)),
}
"""The four shapes that the paper gives for each of its kernels; float16."""


class EventTime(Value):
    """Mean of LAUNCHES event pairs, us."""

    task: str
    case: Case
    kernel: str
    """A tier of baseline, "best", or a live run's name."""
    content: str
    mean_us: float
    median_us: float
    cold_us: float
    """Beside it: a launch in a CUDA graph over buffers that leave the L2 between their turns; the
    median of COLD_REPLAYS. In a process without torch."""


class PaperMethod(Value):
    device: Device
    times: tuple[EventTime, ...]


def paper_cases(task: Task) -> list[Case]:
    """The paper's four cases of a task; none for a task that is not the paper's."""
    shapes = PAPER_SHAPES.get(task.name, ())
    return [
        Case(dims=dict(zip(task.dims, shape, strict=True)), dtype="float16") for shape in shapes
    ]


def looped(task: Task, source: str) -> str:
    """A kernel's source with a loop of launches after it, and buffers for that loop.

    Buffers hold 0x3c in every byte: about 1.06 as half, a small number in the other dtypes.
    """
    inner = prototype(task)
    parameters = inner[inner.index("(") + 1 : inner.rindex(")")]
    names = ", ".join(parameter.split()[-1].lstrip("*") for parameter in parameters.split(", "))
    moved = ", ".join(
        f"{'' if arg.written else '(const void*)'}((char*){arg.name} + i * strides[{index}])"
        for index, arg in enumerate(task.args)
    )
    rest = ", ".join(names.split(", ")[len(task.args) : -1])
    return source + _LOOP.format(
        parameters=parameters, names=names, entry=task.entry, moved=f"{moved}, {rest}"
    )


def measure(task: Task, device: Device, kernels: Sequence[tuple[str, str]]) -> list[EventTime]:
    """Time (name, source) pairs on the paper's cases. Raises BadInput where one does not build."""
    built = build_all(task, [looped(task, source) for _, source in kernels], device)
    found = []
    for (name, source), result in zip(kernels, built, strict=True):
        build = require_build(result, f"{name} of {task.name}")
        library = ctypes.CDLL(str(hosted_library(build)))
        library.astra_buffer.restype = ctypes.c_void_p
        for case in paper_cases(task):
            us = _events(library, task, case)
            found.append(
                EventTime(
                    task=task.name,
                    case=case,
                    kernel=name,
                    content=candidate_id(source),
                    mean_us=statistics.mean(us),
                    median_us=statistics.median(us),
                    cold_us=_cold(library, task, case, device),
                )
            )
    return found


def _events(library: ctypes.CDLL, task: Task, case: Case) -> list[float]:
    """One time for each launch, us. Raises AstraError where a launch fails."""
    addresses = [library.astra_buffer(ctypes.c_int64(arg.bytes_of(case))) for arg in task.args]
    us = (ctypes.c_float * LAUNCHES)()
    values = call_values(task, case, addresses, 0)
    status = library.astra_events(WARMUPS, LAUNCHES, us, *values)
    for address in addresses:
        library.astra_free(ctypes.c_void_p(address))
    if status:
        raise AstraError(f"{task.name} on {case.label} ended with CUDA error {status}")
    return list(us)


def _cold(library: ctypes.CDLL, task: Task, case: Case, device: Device) -> float:
    """us of one launch in a graph over rotated buffers. Raises AstraError where it fails."""
    sizes = [-(-arg.bytes_of(case) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for arg in task.args]
    sets = max(20, 2 * spec(device.spec).l2_bytes // sum(sizes) + 2)
    addresses = [library.astra_buffer(ctypes.c_int64(sets * size)) for size in sizes]
    us = (ctypes.c_float * COLD_REPLAYS)()
    strides = (ctypes.c_int64 * len(sizes))(*sizes)
    values = call_values(task, case, addresses, 0)
    status = library.astra_cold(COLD_REPLAYS, sets, strides, us, *values)
    for address in addresses:
        library.astra_free(ctypes.c_void_p(address))
    if status:
        raise AstraError(f"{task.name} on {case.label} ended with CUDA error {status}")
    return float(statistics.median(us))


def read(path: Path) -> PaperMethod:
    """What `main` printed. Raises BadInput."""
    return read_document(path, SCHEMA, PaperMethod, "times")


@one_line_errors()
def main() -> None:
    from astra_chat.tools.system.devices import pick_device
    from astra_chat.tools.task.folder import find_task
    from astra_chat.transcript.reader import read as read_transcript
    from astra_chat.transcript.summary import summarize
    from lab.baselines.beside import best_side, tier_side
    from lab.winners import fastest, source_of

    parser = argparse.ArgumentParser(prog="python -m lab.paper_method", description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="transcripts")
    parser.add_argument("--device", default="cuda")
    asked = parser.parse_args()
    device = pick_device(asked.device)
    if device.kind != "cuda":
        raise BadInput("event pairs are measured on a GPU: --device cuda")
    summaries = [(path, summarize(read_transcript(path).records)) for path in expanded(asked.runs)]
    live = [(path, one.task, found) for path, one in summaries if (found := fastest(one))]
    times: list[EventTime] = []
    for name in PAPER_SHAPES:
        task = find_task(name)
        sides = [tier_side(task, "paper"), tier_side(task, "sglang"), best_side(task)]
        kernels = [(side.kernel.name, side.source) for side in sides]
        kernels += [
            (path.name.partition(".")[0], source_of(path, found.candidate))
            for path, of, found in live
            if of == name
        ]
        times += measure(task, device, kernels)
    dumped = PaperMethod(device=device, times=tuple(times)).model_dump(mode="json")
    print(json.dumps({"schema": SCHEMA, **dumped}))


_LOOP = """

#include <vector>

extern "C" void* astra_buffer(int64_t bytes) {{
  void* address = nullptr;
  if (cudaMalloc(&address, bytes) == cudaSuccess) cudaMemset(address, 0x3c, bytes);
  return address;
}}

extern "C" void astra_free(void* address) {{ cudaFree(address); }}

extern "C" int astra_events(int warmups, int launches, float* us, {parameters}) {{
  std::vector<cudaEvent_t> starts(launches), ends(launches);
  for (int i = 0; i < launches; ++i) {{
    cudaEventCreate(&starts[i]);
    cudaEventCreate(&ends[i]);
  }}
  int status = 0;
  for (int i = -warmups; i < launches && !status; ++i) {{
    if (i >= 0) cudaEventRecord(starts[i], stream);
    status = {entry}({names});
    if (i >= 0) cudaEventRecord(ends[i], stream);
  }}
  if (!status) status = cudaStreamSynchronize(stream);
  for (int i = 0; i < launches; ++i) {{
    if (!status) status = cudaEventElapsedTime(&us[i], starts[i], ends[i]);
    us[i] *= 1000.0f;
    cudaEventDestroy(starts[i]);
    cudaEventDestroy(ends[i]);
  }}
  return status;
}}

extern "C" int astra_cold(int replays, int sets, const int64_t* strides, float* us, {parameters}) {{
  cudaStream_t side;
  cudaGraph_t graph;
  cudaGraphExec_t all;
  cudaEvent_t start, end;
  cudaEventCreate(&start);
  cudaEventCreate(&end);
  cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  int status = {entry}({names});
  if (!status) status = cudaDeviceSynchronize();
  if (!status) status = cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal);
  for (int64_t i = 0; i < sets && !status; ++i) status = {entry}({moved}, side);
  if (!status) status = cudaStreamEndCapture(side, &graph);
  if (!status) status = cudaGraphInstantiate(&all, graph, 0ull);
  for (int replay = -1; replay < replays && !status; ++replay) {{
    cudaEventRecord(start, side);
    cudaGraphLaunch(all, side);
    cudaEventRecord(end, side);
    status = cudaStreamSynchronize(side);
    float ms = 0.0f;
    if (!status) status = cudaEventElapsedTime(&ms, start, end);
    if (replay >= 0) us[replay] = 1000.0f * ms / sets;
  }}
  cudaStreamDestroy(side);
  return status;
}}
"""


if __name__ == "__main__":
    main()
