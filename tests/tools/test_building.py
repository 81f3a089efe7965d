"""Sources become builds that may be run, for every GPU that is known; no GPU is needed for that."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.judge_steps import Builder, Steps
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.background import Background
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Device, Refused
from astra_vgpu.ground.cubin import read_cubin
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import SPECS, GpuSpec

IDLE = Background(lambda: None)


@pytest.fixture(scope="module")
def task() -> Task:
    return find_task("silu_and_mul")


def builder(task: Task, device: Device) -> Builder:
    return Builder(task, "sglang", device, Stop(), lambda _: None)


@pytest.mark.parametrize(
    "gpu",
    [
        pytest.param(gpu, marks=[pytest.mark.second_tier] if gpu.key == "l40s" else [], id=gpu.key)
        for gpu in SPECS.values()
    ],
)
def test_each_known_gpu_gets_builds_audits_and_plans(task: Task, gpu: GpuSpec) -> None:
    device = Device(kind="cuda", name=gpu.name, arch=gpu.arch, spec=gpu.key)
    source = (task.folder / "script" / "fitted.cu").read_text()
    steps = Steps()
    built = builder(task, device).build(source, steps, (), IDLE)
    assert isinstance(built, Build), built
    assert [step.name for step in steps.done()] == ["build", "audit"]
    assert read_cubin(built.cubin.read_bytes()).compute == gpu.compute
    plans = Runner(task, device).record(built, [case for case, _ in task.demo])
    assert len(plans) == len(task.demo)
    for plan in plans:
        assert isinstance(plan, LaunchPlan), plan
        assert len(plan.kernels) == 1


def test_what_the_guard_refuses_is_not_built(task: Task) -> None:
    steps = Steps()
    refused = builder(task, virtual_device("h200")).guard("#include <thread>\n", steps)
    assert isinstance(refused, Refused) and refused.gate == "guard"
    assert [step.name for step in steps.done()] == ["guard"]


def test_a_baseline_that_does_not_build_is_bad_input(task: Task) -> None:
    broken = builder(task, virtual_device("h200"))
    broken.baseline = "no C++ at all\n"
    with pytest.raises(BadInput, match="the sglang baseline of silu_and_mul does not build"):
        broken.baseline_build()
