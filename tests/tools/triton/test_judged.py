"""Triton candidates are judged like CUDA ones: honest ones are correct, planted faults are refused.

Every test compiles with Triton, and is skipped where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from astra_chat.session.export import export_best
from astra_chat.tools.descriptions import describe
from astra_chat.tools.judge import Judge
from astra_chat.tools.policy.source_guard import guard_beside
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.task.shipped import task_folder
from astra_chat.tools.triton.translated import MOST_BYTES, cuda_source, translated
from astra_chat.tools.types import BuildFailed, Correct, Crashed, Refused, Timed, Unsafe, Wrong
from astra_vgpu.ground.errors import BadInput
from tests.tools.triton.faults import FAULTS, HONEST
from tests.tools.triton.samples import SOURCES, edited

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.second_tier,
]


NAMED = [(task, name) for task, kernels in HONEST.items() for name in kernels]
PLANTED = [(task, name) for task, kernels in FAULTS.items() for name in kernels]
Judges = Callable[[str], Judge]


@pytest.fixture(scope="module")
def judges() -> Iterator[Judges]:
    made = dict[str, Judge]()

    def of(name: str) -> Judge:
        if name not in made:
            task = load_task(task_folder(name))
            made[name] = Judge(task, pick_device("virtual"), trust=True)
        return made[name]

    yield of
    for judge in made.values():
        judge.close()


def test_there_are_enough_of_them() -> None:
    """The tiers judge a few of them; `pytest tests/tools/triton/test_judged.py` judges all."""
    assert len(NAMED) >= 20 and len(PLANTED) >= 30


@pytest.mark.parametrize(("task", "name"), NAMED)
def test_honest_kernels_are_correct(judges: Judges, task: str, name: str) -> None:
    found = judges(task).check(edited(task, HONEST[task][name]))
    assert isinstance(found.outcome, Correct), describe(found.outcome)
    assert found.evidence is not None and found.check is not None
    assert "_kernel<" in found.evidence.plans[0].launches
    assert not found.check.never_launched, "every compiled kernel is judged"


@pytest.mark.parametrize(("task", "name"), PLANTED)
def test_planted_faults_are_refused(judges: Judges, task: str, name: str) -> None:
    found = judges(task).check(edited(task, FAULTS[task][name])).outcome
    assert isinstance(found, Wrong | Unsafe | Crashed), describe(found)


def test_one_is_evaluated_beside_the_baseline(judges: Judges) -> None:
    found = judges("moe_sum_reduce").evaluate(SOURCES["moe_sum_reduce"])
    assert isinstance(found.outcome, Timed), describe(found.outcome)
    assert 0.3 < found.outcome.ratio < 3


def test_what_triton_cannot_compile_is_a_failed_build(judges: Judges) -> None:
    source = edited("moe_sum_reduce", (("[BLOCK], dtype", "[BLOCK + 1], dtype"),))
    found = judges("moe_sum_reduce").check(source).outcome
    assert isinstance(found, BuildFailed) and "power of 2" in found.log, describe(found)


def test_what_the_guard_refuses_is_not_compiled(judges: Judges) -> None:
    found = judges("moe_sum_reduce").check(f"import os\n{SOURCES['moe_sum_reduce']}").outcome
    assert isinstance(found, Refused) and found.gate == "guard"


def test_the_text_is_a_candidate_of_its_own() -> None:
    """It is the same whenever it is made, and the guard of CUDA sources lets it pass."""
    task = load_task(task_folder("moe_sum_reduce"))
    text = translated(SOURCES["moe_sum_reduce"], task, "sm_90")
    assert isinstance(text, str) and guard_beside(text, task, task.baseline, MOST_BYTES) == ()
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


def test_products_of_matrices_use_instructions_that_nvcc_builds() -> None:
    """Triton would choose wgmma here, which needs sm_90a."""
    text = translated(SOURCES["gemv_bf16"], load_task(task_folder("gemv_bf16")), "sm_90")
    assert isinstance(text, str) and "mma.sync" in text and "wgmma" not in text
