"""Occupancies and launch errors of the recorder beside a real driver's, on drawn questions.

`launch_rules_h100.json` holds what an H100 answered; with `-m gpu` the GPU at hand is asked too.
"""

from __future__ import annotations

import ctypes
import json
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.plan.model import KernelNode, LaunchPlan
from astra_chat.tools.plan.record import record
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Device, sha256_of
from astra_vgpu.ground.gpu_specs import GpuSpec, spec
from astra_vgpu.ground.toolkit import find_toolkit

HERE = Path(__file__).parent
SOURCE = (HERE / "launch_rules.cu").read_text()
VIRTUAL = Device(kind="virtual", name="virtual GPU", arch="sm_90", spec="h100")
TASK = find_task("silu_and_mul")
SEEDS, OCCUPANCY, ERRORS, PLAIN = range(1, 33), 8, 16, 24
"""The last: errors of cudaLaunchKernel, which <<<>>> calls, rather than of cudaLaunchKernelEx."""
ANSWERS, FIELDS = 64, 8
"""Questions of one call, and the numbers that describe each."""
Answers = tuple[tuple[int, ...], tuple[int, ...]]
"""The answers, and what was asked."""


def built(device: Device) -> Build:
    found = build(TASK, SOURCE, device)
    assert isinstance(found, Build), found
    return found


def recorded(
    gpu: GpuSpec, arch: str, kinds: tuple[int, ...] = (OCCUPANCY, ERRORS)
) -> dict[str, Answers]:
    """What the recorder answers, by "seed,kind"."""
    cases = [
        Case(dims={"tokens": seed, "d": kind}, dtype="float16") for seed in SEEDS for kind in kinds
    ]
    library = built(VIRTUAL.model_copy(update={"arch": arch}))
    plans = record(library, TASK, cases, gpu, random.Random(1))
    assert isinstance(plans, tuple), plans
    return {f"{p.case.dims['tokens']},{p.case.dims['d']}": told(p) for p in plans}


def told(plan: LaunchPlan) -> Answers:
    """The answers travel as the parameters of the last kernel."""
    node = plan.nodes[-1]
    assert isinstance(node, KernelNode) and node.kernel.startswith("_Z4tell")
    return split(node.parameters)


def split(content: bytes) -> Answers:
    numbers = struct.unpack_from(f"<{ANSWERS * (1 + FIELDS)}i", content)
    return numbers[:ANSWERS], numbers[ANSWERS:]


def digest(questions: tuple[int, ...]) -> str:
    return sha256_of(json.dumps(list(questions)))[:16]


def compare(ours: dict[str, Answers], theirs: dict[str, tuple[list[int], str]]) -> dict[str, int]:
    """How many answers of each kind were compared; all of them are equal.

    The kernel with clusters has clusters of two: of larger ones, how many run at once depends on
    how a GPU's multiprocessors are grouped, which the recorder cannot know."""
    counted, off = {"8": 0, "16": 0, "24": 0}, []
    for name, (answers, questions) in ours.items():
        expected, asked = theirs[name]
        assert digest(questions) == asked, "the same questions"
        for i, (answer, wanted) in enumerate(zip(answers, expected, strict=True)):
            question = questions[i * FIELDS : (i + 1) * FIELDS]
            counted[name.split(",")[1]] += 1
            if answer != wanted:
                off.append((name, i, answer, wanted, question))
    assert not off, f"{len(off)} differ: {off[:40]}"
    return counted


def test_answers_equal_those_of_an_h100() -> None:
    seen: dict[str, Any] = json.loads((HERE / "launch_rules_h100.json").read_text())
    registers = {r.kernel: r.registers for r in built(VIRTUAL).resources}
    if registers != seen["registers"]:
        pytest.skip("another compiler gives the kernels other registers")
    theirs = seen["answers"]
    counted = compare(recorded(spec("h100"), "sm_90"), theirs)
    assert counted["8"] == 2048 and counted["16"] == 2048
    values = [value for answers, _ in theirs.values() for value in answers]
    assert {0, 1, 2, 32, -1, -720, -912} <= set(values), "the questions reach every rule"


def test_a_plain_launch_beyond_an_extent_is_an_invalid_value() -> None:
    """cudaLaunchKernel answers as cudaLaunchKernelEx does, on an H200 with CUDA 13.0."""
    kinds = recorded(spec("h100"), "sm_90", (PLAIN,)).values()
    values = {value for answers, _ in kinds for value in answers}
    assert -1 in values and -9 not in values


def with_cudas_own_runtime(device: Device, folder: Path) -> ctypes.CDLL:
    """What the judge builds is linked with the recorder's runtime, which launches nothing."""
    toolkit, library = find_toolkit(), folder / "launch_rules.so"
    command = [toolkit.nvcc, *TASK.flags, f"-arch={device.arch}", f"-ccbin={toolkit.cxx}"]
    options = ["-shared", "-Xcompiler=-fPIC", "-o", library, HERE / "launch_rules.cu"]
    subprocess.run([*command, *options], check=True)
    return ctypes.CDLL(str(library))


@pytest.mark.gpu
def test_answers_equal_those_of_the_gpu_here(tmp_path: Path) -> None:
    device = pick_device("cuda")
    library = with_cudas_own_runtime(device, tmp_path)
    library.answers_of_driver.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    theirs = {}
    for seed in SEEDS:
        for kind in (OCCUPANCY, ERRORS, PLAIN):
            room = (ctypes.c_int32 * (ANSWERS * (1 + FIELDS)))()
            assert library.answers_of_driver(seed, kind, room) == 0
            answers, questions = split(bytes(room))
            theirs[f"{seed},{kind}"] = (list(answers), digest(questions))
    kinds = (OCCUPANCY, ERRORS, PLAIN)
    counted = compare(recorded(spec(device.spec), device.arch, kinds), theirs)
    assert min(counted.values()) >= 1000
