"""Plans by stream capture on a real GPU: those of the recorder, where both can be had."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.build.hosted import hosted_library
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan import report
from astra_chat.tools.plan.model import KernelNode, LaunchPlan, Node
from astra_chat.tools.plan.parameter_reads import unread_parameters
from astra_chat.tools.plan.record import record
from astra_chat.tools.system.devices import cuda_device, virtual_device
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Device
from astra_vgpu.ground.cubin import read_cubin
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec
from lab.baselines import captured as module
from lab.baselines.captured import Capture, Captures, capture_plans

SILU = find_task("silu_and_mul")


def built(source: str, device: Device) -> Build:
    made = build(SILU, source, device)
    assert isinstance(made, Build), made
    return made


def defined(node: Node, recorded: Node | None = None) -> Node:
    """Without the bytes that no kernel reads, which the recorder knows, of `node` itself or of
    another: a capture has there what the host happened to leave, also an argument's address."""
    if not isinstance(node, KernelNode):
        return node
    content, own = bytearray(node.parameters), recorded or node
    relocations = node.relocations
    for start, length in own.undefined if isinstance(own, KernelNode) else ():
        content[start : start + length] = bytes(length)
        relocations = tuple(r for r in relocations if not start <= r.at < start + length)
    kept = {"parameters": bytes(content), "undefined": (), "relocations": relocations}
    return node.model_copy(update=kept)


@pytest.mark.gpu
@pytest.mark.parametrize("name", task_names())
def test_a_captured_launcher_has_the_recorded_plan(name: str) -> None:
    device, task = cuda_device(0), find_task(name)
    made = build(task, task.baseline, device)
    assert isinstance(made, Build), made
    cases = task.check[:12]
    recorded = record(made, task, cases, spec(device.spec), random.Random(1))
    assert isinstance(recorded, tuple), recorded
    library = hosted_library(made)
    captured = capture_plans(
        task, library, made.cubin, cases, device, Seed("a"), ptx=made.ptx.read_text()
    )
    for one, other in zip(captured, recorded, strict=True):
        assert one.case == other.case
        same = list(map(defined, one.nodes, other.nodes))
        assert same == list(map(defined, other.nodes))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("launched", "words"),
    [
        (
            "void* p; cudaGetSymbolAddress(&p, own); fill<<<1, 32, 0, stream>>>((float*)p);",
            "points to device memory that is not an argument",
        ),
        ("fill<<<1, 4096, 0, stream>>>((float*)out);", "returned CUDA error 1"),
        (
            "cudaMemcpyAsync(out, &tokens, 8, cudaMemcpyHostToDevice, stream);",
            "a copy that is not between two places in device memory",
        ),
    ],
)
def test_what_no_plan_can_hold_is_refused(launched: str, words: str) -> None:
    source = (
        "#include <cuda_runtime.h>\n#include <cstdint>\n__device__ float own[64];\n"
        "__global__ void fill(float* to) { to[threadIdx.x] = 1; }\n"
        'extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens,'
        " int64_t d, int dtype, cudaStream_t stream) {\n"
        f"{launched} return cudaGetLastError(); }}\n"
    )
    device = cuda_device(0)
    made = built(source, device)
    library = hosted_library(made)
    with pytest.raises(BadInput, match=words):
        capture_plans(SILU, library, made.cubin, SILU.check[:1], device, Seed("a"))


@pytest.mark.gpu
def test_kernels_of_another_cubin_are_refused() -> None:
    device, norm = cuda_device(0), find_task("fused_add_rmsnorm")
    other = build(norm, norm.baseline, device)
    assert isinstance(other, Build)
    library = hosted_library(built(SILU.baseline, device))
    with pytest.raises(BadInput, match="the cubin has no kernel"):
        capture_plans(SILU, library, other.cubin, SILU.check[:1], device, Seed("a"))


def test_what_captures_agree_on_is_the_plan() -> None:
    """Captures as the process would send them, made from a recorded plan."""
    device = virtual_device("h200")
    made, case = built(SILU.baseline, device), SILU.check[3]
    recorded = record(made, SILU, [case], spec("h200"), random.Random(1))
    assert isinstance(recorded, tuple), recorded
    (node,) = recorded[0].nodes
    assert isinstance(node, KernelNode)

    def captures(*places: dict[str, int]) -> Captures:
        told = Captures(index=0, captures=tuple(capture(node, place) for place in places))
        return Captures.model_validate_json(json.dumps(told.model_dump(mode="json")))

    def planned(found: Captures) -> LaunchPlan:
        cubin = replace(read_cubin(made.cubin.read_bytes()), variables={})
        return module._plan(SILU, case, cubin, device, found, random.Random(2), {})

    first, second, third = ({"out": n << 20, "input": (n + 5) << 21} for n in (7, 20, 33))
    same = LaunchPlan(case=case, nodes=(defined(node),))
    assert planned(captures(first, second, third)) == same
    with pytest.raises(BadInput, match="depends on the addresses"):
        shifted = captures({**third, "out": third["out"] + 8}).captures[0]
        other = shifted.model_copy(update={"arguments": third})
        two = captures(first, second).captures
        planned(Captures(index=0, captures=(*two, other)))
    with pytest.raises(BadInput, match="what it said"):
        planned(Captures(index=0, refused="what it said"))


def test_padding_that_the_ptx_does_not_read_may_hold_anything() -> None:
    """Also an argument's address in one capture: what the host's stack held before."""
    device, task = virtual_device("h200"), find_task("qk_rmsnorm_rope")
    made, case = build(task, task.baseline, device), task.check[4]
    assert isinstance(made, Build), made
    recorded = record(made, task, [case], spec("h200"), random.Random(1))
    assert isinstance(recorded, tuple), recorded
    node = next(n for n in recorded[0].nodes if isinstance(n, KernelNode) and n.undefined)
    draws, captures = random.Random(3), []
    for n in (7, 20, 33):
        places = {arg.name: (n + 5 * i) << 24 for i, arg in enumerate(task.args)}
        one = capture(node, places)
        (kernel,) = one.nodes
        assert isinstance(kernel, report.Kernel)
        content = bytearray(kernel.parameters)
        for start, length in node.undefined:
            content[start : start + length] = draws.randbytes(length)
        kernel = kernel.model_copy(update={"parameters": bytes(content)})
        captures.append(one.model_copy(update={"nodes": (kernel,)}))
    cubin = replace(read_cubin(made.cubin.read_bytes()), variables={})
    found = Captures(index=0, captures=tuple(captures))
    unread = unread_parameters(made.ptx.read_text(), cubin, cubin.kernels)
    plan = module._plan(task, case, cubin, device, found, draws, unread)
    assert [defined(one, node) for one in plan.nodes] == [defined(node)]
    with pytest.raises(BadInput, match="depends on the addresses"):
        module._plan(task, case, cubin, device, found, draws, {})


def capture(node: KernelNode, places: dict[str, int]) -> Capture:
    """The node as a graph holds it, with the arguments at these places."""
    from astra_chat.tools.runners.cuda_plans import parameter_bytes

    bare = defined(node)
    assert isinstance(bare, KernelNode)
    content = parameter_bytes(bare, lambda to: places[to.name] + to.offset, random.Random(0))
    fields = node.model_dump(exclude={"kind", "parameters", "relocations", "undefined"})
    kernel = report.Kernel(kind="kernel", parameters=content, maps=(), **fields)
    return Capture(arguments=places, nodes=(kernel,))


def test_a_file_that_is_no_cubin_is_refused(tmp_path: Path) -> None:
    cubin = tmp_path / "kernel.cubin"
    cubin.write_text("text")
    with pytest.raises(BadInput, match="cannot be read"):
        capture_plans(SILU, tmp_path, cubin, SILU.check[:1], virtual_device("h200"), Seed("a"))
