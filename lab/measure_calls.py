"""What a call costs the host beside what it takes the GPU, as somebody who uses a winner sees it:
`python -m lab.measure_calls TASK KERNEL --trust`.

KERNEL is exported as a run's winner is (docs/use-the-winner.md) and called on the first timed case,
in a process without Astra: by tvm-ffi, as an operator of PyTorch, through torch.compile, and in a
CUDA graph of a hundred calls. Calls follow each other without a wait, so that the larger of the
host's and the GPU's time is what one takes; the median of several such rows is told.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from astra_chat.session.export import export_best
from astra_chat.session.export_example import call_arguments
from astra_chat.tools.system.devices import gpu_uuid, pick_device
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Device
from astra_vgpu.ground.errors import AstraError, BadInput
from lab.commands import one_line_errors

TIMEOUT_S = 300.0
CHILD = """
import json, statistics, time
import torch, tvm_ffi
import load_example, torch_op

CALLS, ROWS = 200, 15  # more calls in flight would wait for room in the driver's queue
tensors = load_example.inputs("cuda")
module = tvm_ffi.load_module("./{entry}.so")
operator = torch.ops.astra.{entry}

def by_tvm_ffi(tensors): module.{entry}({arguments})
def by_torch(tensors): operator({arguments})
compiled = torch.compile(by_torch)

def row_us(call, calls):
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        call(tensors)
    issued = time.perf_counter()
    torch.cuda.synchronize()
    ended = time.perf_counter()
    return 1e6 * (issued - began) / calls, 1e6 * (ended - began) / calls

def timed(call, calls=CALLS, each=1):
    row_us(call, calls)
    rows = [row_us(call, calls) for _ in range(ROWS)]
    return [statistics.median(row[part] for row in rows) / each for part in (0, 1)]

found = {{"tvm-ffi": timed(by_tvm_ffi), "PyTorch operator": timed(by_torch),
         "torch.compile": timed(compiled)}}
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for _ in range(100):
        by_torch(tensors)
found["CUDA graph of 100"] = timed(lambda _: graph.replay(), CALLS // 100, 100)
print(json.dumps({{"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "us": found}}))
"""
"""Prints the microseconds of a call by each way: until it is issued, and until it is done."""


def measure(task: Task, source: str, device: Device) -> str:
    """A Markdown table. The kernel's launcher runs as anybody's code does: be sure of it. Raises
    AstraError where the kernel or its process fails."""
    with tempfile.TemporaryDirectory(prefix="astra-calls-") as folder:
        export_best(task, source, Path(folder), arch=device.arch)
        script = CHILD.format(entry=task.entry, arguments=call_arguments(task))
        with lease(gpu_uuid(device.index), "timing calls", True, Stop()):
            try:
                done = subprocess.run(
                    [sys.executable, "-c", script],
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise AstraError(f"the calls took more than {TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise AstraError(f"the calls failed: {(done.stderr.strip() or 'no message')[-300:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    lines = [
        f"{task.name}, {task.bench[0][0].named}, {found['gpu']}, torch {found['torch']}",
        "",
        "| a call through | issued after, us | done after, us |",
        "|---|---|---|",
        *(
            f"| {way} | {issued:.2f} | {done_us:.2f} |"
            for way, (issued, done_us) in found["us"].items()
        ),
    ]
    return "\n".join(lines)


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.measure_calls")
    parser.add_argument("task")
    parser.add_argument("kernel", type=Path)
    parser.add_argument("--trust", action="store_true", help="KERNEL runs without isolation")
    given = parser.parse_args()
    if not given.trust:
        raise BadInput("KERNEL's launcher runs without isolation: read it, then add --trust")
    device = pick_device("auto")
    if device.kind != "cuda":
        raise BadInput("calls are timed on a GPU, and this machine has none")
    try:
        source = given.kernel.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{given.kernel} cannot be read: {error}") from None
    print(measure(find_task(given.task), source, device))


if __name__ == "__main__":
    main()
