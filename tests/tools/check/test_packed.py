"""Kernels that go by where arguments lie to each other, judged on the virtual GPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.compare import compare
from astra_chat.tools.check.compute_sanitizer import sanitize_cuda
from astra_chat.tools.check.sweep import Sweep
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import Judge
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device, virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, find_task, load_task
from astra_chat.tools.task.placement import packed_pads
from astra_chat.tools.types import Case, Device, Timed, Unsafe, Wrong

DEVICE = virtual_device("h200")
ROTARY = find_task("rotary_embedding")
CASE = Case(
    dims={"tokens": 3, "heads": 4, "kv_heads": 2, "head_size": 8, "rot_dim": 8, "max_position": 9},
    dtype="bfloat16",
    seed=1,
)
CASES = [
    CASE.model_copy(update={"packed": "apart"}),
    packed_pads(ROTARY, CASE, [16]),
    CASE.model_copy(update={"packed": "tensors"}),
    CASE.model_copy(update={"packed": "neighbours"}),
]
APART, ROWS, TENSORS, NEIGHBOURS = range(4)
BEGIN = "  const auto with = [&](auto zero) {"
BEYOND = """  const char* after_query = static_cast<char*>(query) + {} * (dtype == 0 ? 4 : 2);
  if (key == after_query) key = nullptr;
"""
BEHIND_ROW = ROTARY.baseline.replace(BEGIN, BEYOND.format("heads * query_stride_1") + BEGIN)
BEHIND_TENSOR = ROTARY.baseline.replace(BEGIN, BEYOND.format("tokens * query_stride_0") + BEGIN)
ROTATED = "  if (key.data != nullptr) rotate_heads<T, kNeox>(key, cos_row, half);\n"
STRAY = """  if (key.data != nullptr && blockIdx.x + 1 < gridDim.x)
    key.data[blockIdx.x * key.token_stride + 16] = T();
"""
INTO_VALUE = ROTARY.baseline.replace(ROTATED, ROTATED + STRAY)
"""It writes behind the key's row, where the value lies in a packed qkv."""
BEHIND_BUFFER = INTO_VALUE.replace(" && blockIdx.x + 1 < gridDim.x", "")
"""It does so behind the last row, too: where arguments lie apart that is nobody's memory."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    made = Oracle(ROTARY)
    yield made
    made.close()


def verdicts(
    task: Task, oracle: Oracle, source: str, cases: list[Case], device: Device = DEVICE
) -> list[object]:
    built = build(task, source, device)
    assert isinstance(built, Build), built
    oracle_cases = oracle.oracle_cases(cases, Stop())
    runs = Runner(task, device).run(built, oracle_cases, "check")
    return [compare(task, run) if isinstance(run, CaseRun) else run for run in runs]


def wrong(found: list[object]) -> list[int]:
    return [place for place, one in enumerate(found) if isinstance(one, Wrong)]


@pytest.mark.second_tier
def test_the_baseline_is_right_wherever_its_arguments_lie(oracle: Oracle) -> None:
    found = verdicts(ROTARY, oracle, ROTARY.baseline, CASES)
    assert len(found) == 4 and not wrong(found), found
    assert not any(isinstance(one, Unsafe) for one in found)


@pytest.mark.parametrize(("source", "place"), [(BEHIND_ROW, ROWS), (BEHIND_TENSOR, TENSORS)])
def test_a_kernel_that_leaves_out_what_begins_behind_the_query(
    oracle: Oracle, source: str, place: int
) -> None:
    found = verdicts(ROTARY, oracle, source, CASES)
    assert wrong(found) == [place]
    one = found[place]
    assert isinstance(one, Wrong) and one.argument == "key" and one.reason == "value"


@pytest.mark.second_tier
def test_a_write_where_the_value_lies_is_outside(oracle: Oracle) -> None:
    found = verdicts(ROTARY, oracle, INTO_VALUE, [CASES[ROWS]])
    (one,) = found
    assert isinstance(one, Wrong) and one.reason == "write_outside", found


@pytest.mark.second_tier
def test_calls_in_place(tmp_path: Path) -> None:
    """A contract as that of rmsnorm, whose callers may pass one pointer for input and output."""
    shutil.copytree(find_task("rmsnorm").folder, tmp_path / "task")
    toml = tmp_path / "task" / "task.toml"
    same = 'same = ["out", "input"]\nscalars = ['
    toml.write_text(toml.read_text().replace("scalars = [", same, 1))
    task = load_task(tmp_path / "task")
    case = Case(dims={"tokens": 3, "h": 300}, dtype="bfloat16", seed=1)
    cases = [case, case.model_copy(update={"packed": "same"})]
    right = task.baseline
    begin = right.index("{", right.index('extern "C"')) + 1
    skips = right[:begin] + " if (out == input) return cudaSuccess;" + right[begin:]
    with closing(Oracle(task)) as made:
        found = verdicts(task, made, right, cases)
        assert len(found) == 2 and all(isinstance(one, float) for one in found), found
        assert wrong(verdicts(task, made, skips, cases)) == [1]


@pytest.mark.second_tier
@pytest.mark.parametrize("source", [BEHIND_ROW, BEHIND_TENSOR])
def test_the_judge_finds_it_at_the_first_evaluation(source: str) -> None:
    """Its own cases are calls whose arguments lie apart: the drawn ones find it."""
    task = ROTARY.model_copy(update={"check": ROTARY.check[1:2], "demo": ROTARY.demo[:1]})
    with Judge(task, DEVICE) as judge:
        outcome = judge.evaluate(source).outcome
    assert isinstance(outcome, Wrong) and outcome.argument == "key", outcome
    assert outcome.case.packed in ("rows", "tensors", "neighbours")


@pytest.mark.gpu
def test_on_a_gpu_as_on_the_virtual_one(oracle: Oracle) -> None:
    device = pick_device("cuda")
    found = verdicts(ROTARY, oracle, ROTARY.baseline, CASES, device)
    assert len(found) == 4 and all(isinstance(one, float) for one in found), found
    for source, place in ((BEHIND_ROW, ROWS), (BEHIND_TENSOR, TENSORS)):
        assert wrong(verdicts(ROTARY, oracle, source, CASES, device)) == [place]
    (one,) = verdicts(ROTARY, oracle, INTO_VALUE, [CASES[ROWS]], device)
    assert isinstance(one, Wrong) and one.reason == "write_outside", one


@pytest.mark.gpu
@pytest.mark.parametrize("source", [BEHIND_ROW, BEHIND_TENSOR])
def test_a_sweep_has_packed_cases(oracle: Oracle, source: str) -> None:
    device = pick_device("cuda")
    built, runner = build(ROTARY, source, device), Runner(ROTARY, device)
    assert isinstance(built, Build), built
    result = Sweep(runner, oracle, Entropy("5").cases).doubtful(runner, built)
    assert isinstance(result, tuple), result
    assert any(one.case.packed in ("rows", "tensors") for one in result[1])


@pytest.mark.gpu
def test_nvidia_s_tools_see_packed_calls(oracle: Oracle) -> None:
    device = pick_device("cuda")
    oracle_cases = oracle.oracle_cases(CASES, Stop())
    for source in (ROTARY.baseline, BEHIND_BUFFER):
        built = build(ROTARY, source, device)
        assert isinstance(built, Build), built
        found = sanitize_cuda(Runner(ROTARY, device), built, oracle_cases)
        assert (found is None) == (source != BEHIND_BUFFER), found


@pytest.mark.gpu
def test_packed_calls_take_as_long_as_others() -> None:
    """Timed cases of this task lie in one buffer; the same calls with arguments apart do not."""
    packed = ROTARY.demo[1]
    apart = (packed[0].model_copy(update={"packed": "apart"}), packed[1])
    task = ROTARY.model_copy(update={"check": ROTARY.check[:3], "bench": (packed, apart)})
    with Judge(task, pick_device("cuda")) as judge:
        outcome = judge.evaluate(task.baseline).outcome
    assert isinstance(outcome, Timed) and outcome.verdict == "tie", outcome
    one, other = outcome.cases
    assert one.median_us == pytest.approx(other.median_us, rel=0.05)
