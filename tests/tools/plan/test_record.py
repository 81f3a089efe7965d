"""Real launchers, built by nvcc and recorded: the shipped kernels, honest ones, and attacks."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.plan.model import (
    ArgumentAddress,
    CopyNode,
    KernelNode,
    LaunchPlan,
    MemsetNode,
    PointerRelocation,
    TensorMapRelocation,
    TiledTensorMap,
    VariableAddress,
)
from astra_chat.tools.plan.record import record
from astra_chat.tools.plan.stand_ins import Argument, Buffer, Buffers
from astra_chat.tools.task.folder import Task, find_task, task_names
from astra_chat.tools.types import Case, Crashed, Device, Refused, TimedOut
from astra_vgpu.ground.cubin import read_cubin
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import find_toolkit
from tests.sglang_kernels.shipped import kernels

H200 = spec("h200")
VIRTUAL = Device(kind="virtual", name="virtual GPU", arch="sm_90", spec="h200")
Recorded = tuple[LaunchPlan, ...] | Refused | Crashed | TimedOut
Record = Callable[[str], Recorded]


def nodes_of(recorded: Recorded, number: int = 1) -> tuple[object, ...]:
    assert isinstance(recorded, tuple), recorded
    return recorded[number].nodes


def kernel_of(recorded: Recorded, number: int = 1) -> KernelNode:
    node = nodes_of(recorded, number)[0]
    assert isinstance(node, KernelNode)
    return node


def pointers(node: KernelNode) -> dict[int, tuple[str, int]]:
    """Name and offset of what each parameter word points to."""
    return {
        r.at: (r.to.name, r.to.offset) for r in node.relocations if isinstance(r, PointerRelocation)
    }


@pytest.mark.parametrize("name", task_names())
@pytest.mark.second_tier
def test_every_shipped_kernel_has_plans(name: str) -> None:
    task = find_task(name)
    builds = build_all(task, list(kernels(task).values()), VIRTUAL)
    good = [b for b in builds if isinstance(b, Build)]  # each script has one that does not build
    assert len(good) >= len(builds) - 1
    cases = [*task.check, *(case for case, _ in task.bench)][::3]
    for build in good:
        plans = record(build, task, cases, H200, random.Random(11))
        assert isinstance(plans, tuple), plans
        assert [plan.case for plan in plans] == cases
        named = {r.kernel for r in build.resources}
        for plan in plans:
            written = {arg.name for arg in task.args if arg.written and arg.present(plan.case)}
            assert plan.kernels and {k.kernel for k in plan.kernels} <= named
            reached = {to for k in plan.kernels for to, _ in pointers(k).values()}
            assert written <= reached
            assert LaunchPlan.model_validate_json(plan.model_dump_json()) == plan


def test_the_baseline_of_silu_and_mul_launches_what_its_source_says() -> None:
    """One block per token, a thread per vector of 16 bytes, at most 1,024."""
    task = find_task("silu_and_mul")
    (build,) = build_all(task, [task.baseline], VIRTUAL)
    assert isinstance(build, Build)
    plans = record(build, task, task.check, H200, random.Random(2))
    assert isinstance(plans, tuple)
    for plan in plans:
        (node,) = plan.kernels
        tokens, d = plan.case.dims["tokens"], plan.case.dims["d"]
        vectors = d // (4 if plan.case.dtype == "float32" else 8)
        assert node.grid == (tokens, 1, 1) and node.block == (min(vectors, 1024), 1, 1)
        assert pointers(node) == {0: ("out", 0), 8: ("input", 0)}
        assert node.parameters == bytes(16) + d.to_bytes(4, "little")


@pytest.mark.second_tier
def test_the_baseline_of_fused_add_rmsnorm_asks_for_its_shared_memory() -> None:
    task = find_task("fused_add_rmsnorm")
    (build,) = build_all(task, [task.baseline], VIRTUAL)
    assert isinstance(build, Build)
    case = Case(dims={"tokens": 3, "h": 16384}, dtype="bfloat16")
    plans = record(build, task, [case], H200, random.Random(2))
    assert kernel_of(plans, 0).dynamic_shared_bytes == (32 + 16384) * 4
    assert kernel_of(plans, 0).block == (32, 32, 1)


def test_a_plan_depends_on_nothing_drawn(built: Build) -> None:
    task = find_task("silu_and_mul").model_copy(update={"entry": "padded"})
    first, *others = (record(built, task, [CASE], H200, random.Random(seed)) for seed in range(3))
    assert isinstance(first, tuple) and others == [first, first]


def test_padding_is_undefined(recorded: Record) -> None:
    node = kernel_of(recorded("padded"))
    assert pointers(node) == {0: ("out", 16), 16: ("input", 0)}
    assert node.undefined == ((12, 4), (25, 7))
    assert node.parameters == bytes(8) + (2304).to_bytes(4, "little") + bytes(12) + b"x" + bytes(7)


def test_padding_that_holds_rests_of_other_frames_is_undefined(recorded: Record) -> None:
    node = kernel_of(recorded("padded_in_old_frames"))
    assert pointers(node) == {0: ("out", 0), 16: ("input", 0)}
    assert (12, 4) in node.undefined and node.parameters[24:25] == b"y"


def test_large_parameters_and_the_end_of_an_argument(recorded: Record) -> None:
    node = kernel_of(recorded("large_parameters"))
    assert len(node.parameters) == 5008 and node.parameters[4999] == 7
    assert pointers(node) == {5000: ("out", 5 * 2304 * 2)}


def test_a_kernels_pointer_may_lie_before_its_argument(recorded: Record) -> None:
    assert pointers(kernel_of(recorded("pointer_before"), 0)) == {
        0: ("out", 0),
        8: ("input", -4096 * 4),
    }


def test_a_null_pointer_stays_null(recorded: Record) -> None:
    node = kernel_of(recorded("null_pointer"))
    assert pointers(node) == {0: ("out", 0)} and node.parameters[8:] == bytes(8) + b"\3\0\0\0"
    assert nodes_of(recorded("nothing")) == ()


def test_what_is_asked_and_set_once_is_in_force_at_every_launch(recorded: Record) -> None:
    plans = recorded("once")
    for number in (0, 1):
        node = kernel_of(plans, number)
        assert node.grid == (132, 1, 1) and node.shared_carveout == 75
        assert node.dynamic_shared_bytes == 100_000
    assert isinstance(plans, tuple)
    facts = {fact.name: fact.value for fact in plans[1].facts}
    assert facts == {"cudaDevAttrMultiProcessorCount": 132}


def test_device_properties_in_a_static(recorded: Record) -> None:
    plans = recorded("properties")
    assert kernel_of(plans).grid == (132 * 8, 1, 1), "2,048 threads of an SM in blocks of 256"
    assert isinstance(plans, tuple)
    names = [fact.name for fact in plans[0].facts]
    assert "cudaGetDeviceProperties" in names
    assert any(name.startswith("blocks per SM of _Z6stagedPf, 256 threads") for name in names)


def test_launch_attributes(recorded: Record) -> None:
    first, second = nodes_of(recorded("attributed"))
    assert isinstance(first, KernelNode) and isinstance(second, KernelNode)
    assert first.programmatic and first.cluster == (2, 1, 1) and not first.cooperative
    assert second.cooperative and second.cluster is None and not second.programmatic


def test_memsets_and_copies(recorded: Record) -> None:
    out, source = (ArgumentAddress(name=name, offset=0) for name in ("out", "input"))
    row = 2304 * 2
    assert nodes_of(recorded("memory")) == (
        MemsetNode(target=out, value=0x5A, width_bytes=row),
        MemsetNode(target=out, value=0, width_bytes=8, height=5, pitch_bytes=row),
        CopyNode(target=out, source=ArgumentAddress(name="input", offset=4), width_bytes=16),
        CopyNode(
            target=out,
            source=source,
            width_bytes=8,
            height=5,
            target_pitch_bytes=row,
            source_pitch_bytes=2 * row,
        ),
    )


def test_the_address_of_a_variable_kept_in_a_static(recorded: Record) -> None:
    relocations = kernel_of(recorded("variable")).relocations
    assert relocations[0] == PointerRelocation(at=0, to=VariableAddress(name="table", offset=20))


def test_a_tensor_map_is_its_arguments(recorded: Record) -> None:
    node = kernel_of(recorded("tensor_map"))
    assert node.relocations[0] == TensorMapRelocation(
        at=48,  # ptxas aligns the map in constant memory, where parameters begin at 0x210
        map=TiledTensorMap(
            data_type=6,
            address=ArgumentAddress(name="input", offset=0),
            global_dim=(4608, 5),
            global_strides=(9216,),
            box_dim=(64, 1),
            element_strides=(1, 1),
            interleave=0,
            swizzle=3,
            l2_promotion=2,
            oob_fill=0,
        ),
    )
    assert node.undefined == ((0, 48),) and node.parameters == bytes(184)


def recorded_with(built: Build, entry: str, buffers: Buffers) -> KernelNode:
    task = find_task("silu_and_mul").model_copy(update={"entry": entry})
    plans = record(built, task, [CASE], H200, random.Random(4), buffers=[buffers])
    return kernel_of(plans, 0)


def test_arguments_that_are_views_of_one_buffer_keep_their_distance(built: Build) -> None:
    views = Buffers((Buffer(4096),), (Argument("out", 144, 0, 1024), Argument("input", 288, 0)))
    node = recorded_with(built, "pointer_difference", views)
    assert pointers(node) == {8: ("out", 0)} and node.parameters[:2] == b"\x00\x04"


def test_an_argument_that_is_null_stays_null(built: Build) -> None:
    null = Buffers((Buffer(144),), (Argument("out", 144, 0), Argument("input", 0, None)))
    node = recorded_with(built, "simple", null)
    assert pointers(node) == {0: ("out", 0)} and node.parameters[8:16] == bytes(8)


def test_a_launcher_may_look_at_the_alignment_of_an_address(built: Build) -> None:
    for remainder in (0, 48, 1008):
        arguments = (Argument("out", 144, 0), Argument("input", 288, 1))
        buffers = Buffers((Buffer(144), Buffer(288, remainder)), arguments)
        assert recorded_with(built, "by_alignment", buffers).grid == (1 + remainder, 1, 1)


def other_cubin(built: Build, folder: Path, source: str, arch: str) -> Build:
    """The build with another cubin in the place of its own."""
    shutil.copytree(built.folder, folder / "build")  # makes `folder` too
    (folder / "unit.cu").write_text(source)
    command = [str(find_toolkit().nvcc), f"-arch={arch}", "-cubin", "unit.cu", "-o"]
    cubin = str(folder / "build" / "kernel.cubin")
    subprocess.run([*command, cubin], cwd=folder, check=True, timeout=120)
    return replace(built, folder=folder / "build")


GHOST = 'extern "C" __global__ void ghost() {}'
SIMPLE: Task = find_task("silu_and_mul").model_copy(update={"entry": "simple"})
CASE = Case(dims={"tokens": 3, "d": 24}, dtype="float16")


def refusal(build: Build) -> str:
    outcome = record(build, SIMPLE, [CASE], H200, random.Random(1))
    assert isinstance(outcome, Refused)
    return outcome.findings[0].what


def test_a_cubin_that_does_not_fit_is_refused(built: Build, tmp_path: Path) -> None:
    other = other_cubin(built, tmp_path / "arch", GHOST, "sm_80")
    assert "the cubin is for sm_80, but the GPU is sm_90" in refusal(other)
    lacking = other_cubin(built, tmp_path / "lacks", GHOST, "sm_90")
    assert "a kernel that is not in the cubin" in refusal(lacking)
    path = other.folder / "kernel.cubin"
    path.write_bytes(b"no cubin")
    assert "cannot be read" in refusal(other)
    path.unlink()
    assert "cannot be read" in refusal(other)


def test_parameters_beyond_the_limit_are_refused(built: Build, tmp_path: Path) -> None:
    """ptxas refuses them, so the attribute in a real cubin is changed: EIATTR_CBANK_PARAM_SIZE."""
    shutil.copytree(built.folder, tmp_path / "build")
    path = tmp_path / "build" / "kernel.cubin"
    content = path.read_bytes()
    size = read_cubin(content).kernels["_Z5large5LargePf"].parameter_bytes
    old, new = (b"\x03\x19" + n.to_bytes(2, "little") for n in (size, 32_765))
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))
    assert "takes 32,765 parameter bytes" in refusal(replace(built, folder=tmp_path / "build"))


def test_a_library_with_another_runtime_is_our_mistake(built: Build, tmp_path: Path) -> None:
    shutil.copytree(built.folder, tmp_path / "build")
    library = tmp_path / "build" / "kernel.so"
    library.write_bytes(library.read_bytes().replace(b"libvcudart.so", b"libcudart13.so"))
    with pytest.raises(AstraError, match="not linked with the fake CUDA runtime"):
        record(replace(built, folder=tmp_path / "build"), SIMPLE, [CASE], H200, random.Random(1))


def test_a_library_that_does_not_load_is_refused(built: Build) -> None:
    outcome = record(
        built, SIMPLE.model_copy(update={"entry": "missing"}), [CASE], H200, random.Random(1)
    )
    assert isinstance(outcome, Refused)
    assert "does not load" in outcome.findings[0].what and "missing" in outcome.findings[0].what
