"""Triton candidates are judged like CUDA ones: honest ones are correct, planted faults are refused.

Every test compiles with Triton, and is skipped where it is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from astra_chat.session.export import export_best
from astra_chat.tools.descriptions import describe
from astra_chat.tools.judge import Judge
from astra_chat.tools.policy.beside_baseline import guard
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.task.shipped import task_folder
from astra_chat.tools.triton.translated import MOST_BYTES, cuda_source, translated
from astra_chat.tools.types import BuildFailed, Correct, Refused, Timed, Unsafe, Wrong
from astra_vgpu.ground.errors import BadInput
from tests.tools.triton.samples import SOURCES, Edits, edited

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.second_tier,
]


@pytest.fixture(scope="module")
def judges() -> Iterator[dict[str, Judge]]:
    made = {
        name: Judge(load_task(task_folder(name)), pick_device("virtual"), trust=True)
        for name in SOURCES
    }
    yield made
    for judge in made.values():
        judge.close()


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_honest_kernels_are_correct(judges: dict[str, Judge], name: str) -> None:
    found = judges[name].check(SOURCES[name])
    assert isinstance(found.outcome, Correct), describe(found.outcome)
    assert found.evidence is not None and found.check is not None
    assert f"{name}_kernel<" in found.evidence.plans[0].launches
    assert not found.check.never_launched, "every compiled kernel is judged"


def test_one_is_evaluated_beside_the_baseline(judges: dict[str, Judge]) -> None:
    found = judges["moe_sum_reduce"].evaluate(SOURCES["moe_sum_reduce"])
    assert isinstance(found.outcome, Timed), describe(found.outcome)
    assert 0.3 < found.outcome.ratio < 3


MOE: dict[str, Edits] = {
    "no mask": ((", mask=mask, other=0.0", ""), (", mask=mask)", ")")),
    "wrong stride": (("token * hidden + columns, y", "token * (hidden + 1) + columns, y"),),
    "one expert less": (("range(experts)", "range(experts - 1)"),),
    "sum in bfloat16": (("to(tl.float32)\n    y", "to(tl.bfloat16).to(tl.float32)\n    y"),),
    "rounded before the scale": (
        ("y = total *", "y = total.to(input_ptr.dtype.element_ty).to(tl.float32) *"),
    ),
    "32-bit offset": (("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"),),
    "short grid": (("triton.cdiv(hidden, BLOCK)", "max(hidden // BLOCK, 1)"),),
    "race between blocks": (
        ("triton.cdiv(hidden, BLOCK))", "triton.cdiv(hidden, BLOCK) + 1)"),
        ("tl.program_id(1) * BLOCK", "tl.maximum(tl.program_id(1) - 1, 0) * BLOCK"),
        ("y = total * scale", "y = total * scale + tl.program_id(1) * 0.001"),
    ),
    "added to what was there": (("tl.store(", "tl.atomic_add("),),
    "wrong for one number": (
        ("y = total * scale", "y = total * scale\n    if hidden == 7168:\n        y = total * 2.5"),
    ),
    "right for multiples of 16 only": (
        ("experts, hidden, scale, BLOCK=", "experts, hidden - hidden % 16, scale, BLOCK="),
    ),
}
RMSNORM: dict[str, Edits] = {
    "eps hard-coded": (("/ h + eps", "/ h + 1e-6"),),
    "no mask of the store": (("element_ty), mask=mask)", "element_ty))"),),
    "stride of the other tensor": (("row * out_stride", "row * input_stride"),),
    "mean over the block": (("axis=0) / h", "axis=0) / BLOCK"),),
    "rounded before the weight": (
        ("x * scale * w", "(x * scale).to(out_ptr.dtype.element_ty).to(tl.float32) * w"),
    ),
    "long rows not launched": (
        ("    BLOCK = max", "    if h > 16384:\n        return\n    BLOCK = max"),
    ),
    "one size with another eps": (
        ("    rmsnorm_kernel[", "    eps = 1e-6 if h == 7168 else eps\n    rmsnorm_kernel["),
    ),
}


@pytest.mark.parametrize("fault", sorted(MOE))
def test_planted_faults_are_refused(judges: dict[str, Judge], fault: str) -> None:
    source = edited("moe_sum_reduce", MOE[fault])
    found = judges["moe_sum_reduce"].check(source).outcome
    assert isinstance(found, Wrong | Unsafe), describe(found)


@pytest.mark.in_full
@pytest.mark.parametrize("fault", sorted(RMSNORM))
def test_planted_faults_of_a_norm_are_refused(judges: dict[str, Judge], fault: str) -> None:
    found = judges["rmsnorm"].check(edited("rmsnorm", RMSNORM[fault])).outcome
    assert isinstance(found, Wrong | Unsafe), describe(found)


def test_what_triton_cannot_compile_is_a_failed_build(judges: dict[str, Judge]) -> None:
    source = edited("moe_sum_reduce", (("[BLOCK], dtype", "[BLOCK + 1], dtype"),))
    found = judges["moe_sum_reduce"].check(source).outcome
    assert isinstance(found, BuildFailed) and "power of 2" in found.log, describe(found)


def test_what_the_guard_refuses_is_not_compiled(judges: dict[str, Judge]) -> None:
    found = judges["moe_sum_reduce"].check(f"import os\n{SOURCES['moe_sum_reduce']}").outcome
    assert isinstance(found, Refused) and found.gate == "guard"


def test_the_text_is_a_candidate_of_its_own() -> None:
    """It is the same whenever it is made, and the guard of CUDA sources lets it pass."""
    task = load_task(task_folder("moe_sum_reduce"))
    text = translated(SOURCES["moe_sum_reduce"], task, "sm_90")
    assert isinstance(text, str) and guard(text, task, task.baseline, MOST_BYTES) == ()
    assert "moe_sum_reduce_kernel<__nv_bfloat16, 256, 4, true>" in text
    assert text == cuda_source(SOURCES["moe_sum_reduce"], task, "sm_90")
    with pytest.raises(BadInput, match=r"candidate [0-9a-f]{12}: line 3: import os"):
        cuda_source(f"\n\nimport os\n{SOURCES['moe_sum_reduce']}", task, "sm_90")


def test_a_winner_is_exported_as_cuda(tmp_path: Path) -> None:
    task = load_task(task_folder("moe_sum_reduce"))
    export_best(task, SOURCES["moe_sum_reduce"], tmp_path, arch="sm_90")
    assert (tmp_path / "best.py").read_text() == SOURCES["moe_sum_reduce"]
    assert (tmp_path / "best.cu").read_text().startswith("// Triton's machine code")
    assert (tmp_path / "moe_sum_reduce.so").is_file()
