"""Launch plans of trusted host code by stream capture, for kernels that are not built here.

Machine code of another library, or Triton's: its host code loads a module of its own and
cannot be linked with the fake runtime. It runs in a process of its own on a real GPU
(cuda_record.py), captured into CUDA graphs with its arguments at other addresses each
time; the plan is what the captures agree on, as with the recorder's. Nothing here holds up against
hostile host code.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan import report
from astra_chat.tools.plan.audit import audit
from astra_chat.tools.plan.model import LaunchPlan, PlanValue
from astra_chat.tools.plan.parameter_reads import unread_parameters
from astra_chat.tools.plan.relocate import Ranges, Seen, Unrepeatable, relocate
from astra_chat.tools.plan.stand_ins import Addresses, usual_buffers
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.devices import gpu_uuid
from astra_chat.tools.system.gpu_lock import lease
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, Worker, signal_name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Device
from astra_vgpu.ground.cubin import Cubin, read_cubin
from astra_vgpu.ground.elf import ElfError
from astra_vgpu.ground.errors import AstraError, BadInput
from astra_vgpu.ground.gpu_specs import spec

CHILD = "lab.baselines.cuda_record"
LAB = Path(__file__).parents[1]
"""What a sandboxed process does not see by itself, unlike Astra's own folders."""
CAPTURE_TIMEOUT_S = 60.0


class RecordRequest(PlanValue):
    """Which launcher to capture, on which cases."""

    task: Path
    library: Path
    index: int
    """Number of the GPU, as CUDA counts."""
    seed: Seed
    cases: tuple[Case, ...]


class Capture(PlanValue):
    """One captured call."""

    arguments: dict[str, int]
    """Address of each argument's first element."""
    nodes: tuple[Annotated[report.AnyNode, Field(discriminator="kind")], ...]


class Captures(PlanValue):
    """All captured calls of a case, or why no plan can hold them."""

    index: int
    captures: tuple[Capture, ...] = ()
    refused: str = ""


def capture_plans(
    task: Task,
    library: Path,
    cubin: Path,
    cases: Sequence[Case],
    device: Device,
    seed: Seed,
    stop: Stop | None = None,
    *,
    ptx: str = "",
) -> tuple[LaunchPlan, ...]:
    """A plan for each case, in their order.

    `library` exports the task's launcher and is linked with NVIDIA's runtime; the kernels that it
    launches are in `cubin`. What their `ptx`, where there is any, does not read of a parameter may
    hold anything: padding has what the stack held, an address in one capture and none in the next.
    Raises BadInput for what no plan can hold or another cubin, AstraError where the process fails,
    and Cancelled.
    """
    try:
        held = replace(read_cubin(cubin.read_bytes()), variables={})
    except (ElfError, OSError) as error:
        raise BadInput(f"{cubin} cannot be read: {error}") from None
    request = RecordRequest(
        task=task.folder, library=library, index=device.index, seed=seed, cases=tuple(cases)
    )
    captures = _captured(request, task, device, stop or Stop())
    draws, unread = seed.of("unset bytes").random(), unread_parameters(ptx, held, held.kernels)
    return tuple(
        _plan(task, case, held, device, found, draws, unread)
        for case, found in zip(cases, captures, strict=True)
    )


def _captured(request: RecordRequest, task: Task, device: Device, stop: Stop) -> list[Captures]:
    captures: list[Captures] = []
    read = (request.library.parent, task.folder.resolve(), LAB)
    sandbox = SandboxPolicy(read=read, write=(), gpu=True)
    work = f"capturing the launcher of {task.name}"
    with (
        lease(gpu_uuid(device.index), work, False, stop, lambda _: None),
        Worker(CHILD, sandbox=sandbox) as worker,
    ):
        worker.ask(request.model_dump(mode="json"), CAPTURE_TIMEOUT_S, stop)
        try:
            for line in worker.reports():
                fields = {name: value for name, value in line.items() if name != "kind"}
                captures.append(Captures.model_validate_json(json.dumps(fields)))
            end = worker.finish()
        except StepTimeout:
            raise AstraError(f"{work} took more than {CAPTURE_TIMEOUT_S:.0f} s") from None
        except ValidationError as error:
            raise AstraError(f"{work}: {error.errors()[0]['msg']}") from None
    if len(captures) < len(request.cases):
        how = f"{signal_name(end.returncode)}: {end.output.strip()[-300:]}"
        raise AstraError(f"{work} ended early ({how})")
    return captures


def _plan(
    task: Task,
    case: Case,
    cubin: Cubin,
    device: Device,
    captures: Captures,
    draws: random.Random,
    unread: Mapping[str, Ranges],
) -> LaunchPlan:
    buffers, label = usual_buffers(task, case), f"{task.name} {case.label}"
    if captures.refused:
        raise BadInput(f"{label}: {captures.refused}")
    # Nothing is undefined: the captures' patterns are no byte that all of them could hold by turns.
    patterns = draws.sample(range(256), len(captures.captures))
    seen = [
        Seen(_called(capture), Addresses(capture.arguments, ()), {}, pattern)
        for capture, pattern in zip(captures.captures, patterns, strict=True)
    ]
    try:
        _require_kernels(seen, cubin)
        nodes = relocate(seen, buffers, cubin, unread)
    except Unrepeatable as error:
        raise BadInput(f"{label}: {error}") from None
    if what := audit(nodes, cubin, buffers, spec(device.spec)):
        raise BadInput(f"{label}: {what}")
    return LaunchPlan(case=case, nodes=nodes)


def _called(capture: Capture) -> report.Called:
    return report.Called(
        kind="call", index=0, nodes=capture.nodes, status=0, left=0, strayed=0, refused="", error=""
    )


def _require_kernels(seen: Sequence[Seen], cubin: Cubin) -> None:
    """Raises Unrepeatable where a kernel is not the cubin's."""
    for node in (node for one in seen for node in one.called.nodes):
        if isinstance(node, report.Kernel):
            kernel = cubin.kernels.get(node.kernel)
            if kernel is None or kernel.parameter_bytes != len(node.parameters):
                raise Unrepeatable(f"the cubin has no kernel {node.kernel} with such parameters")
