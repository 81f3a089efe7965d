"""Ranks in task.toml: what it says, and what is refused with a line that names the file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_chat.agents.prompt import ranks, taxes
from astra_chat.agents.prompt_section import ChatContext
from astra_chat.agents.run_state import RunState
from astra_chat.tools.ranks.groups import contract_of
from astra_chat.tools.task.folder import Task, find_task, load_task
from astra_chat.tools.task.ranks import of_all, of_rank
from astra_chat.tools.task.shipped import ranks_task_names, shipped_folder
from astra_vgpu.ground.errors import BadInput

NAME = "allreduce_add_rmsnorm"


@pytest.fixture
def task() -> Task:
    return find_task(NAME)


def test_one_ranks_launcher_gets_arrays_of_pointers(task: Task) -> None:
    inputs, state, residual, *_ = task.args
    assert [(a.dtype, a.shape) for a in (inputs, state)] == [("int64", ("ranks",))] * 2
    assert residual.dtype == "bfloat16"
    assert [s.name for s in task.scalars] == ["rank", "eps"]
    case = next(case for case in task.check if case.dims["ranks"] == 4)
    contract = contract_of(task)
    assert contract.shared.arg.bytes_of(case) == case.dims["tokens"] * case.dims["h"] * 2
    assert [contract.role_of(a.name) for a in (inputs, state, residual)] == ["read", "state", None]
    assert of_rank(case, 3).scalars == {"rank": 3.0}
    assert of_all(of_rank(case, 3)) == case


def test_every_case_is_there_for_each_number_of_ranks(task: Task) -> None:
    two, four = ([c.dims for c, _ in task.bench if c.dims["ranks"] == n] for n in (2, 4))
    assert [{**dims, "ranks": 4} for dims in two] == four
    with pytest.raises(BadInput, match="2 or 4 ranks, not 3"):
        contract_of(task).require(3)


@pytest.mark.parametrize("name", ranks_task_names())
def test_shipped_tasks_say_what_ranks_hold(name: str) -> None:
    contract = contract_of(find_task(name))
    assert contract.numbers == (2, 4)
    assert {peer.role for peer in contract.peers} == {"read", "state"}
    assert contract.alike


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ranks = [2, 4]", "ranks = [4, 2]", "ranks must be in ascending order"),
        ("ranks = [2, 4]", "ranks = [1]", "greater than or equal to 2|at least 2"),
        ("ranks = [2, 4]", "", "ranks is missing"),
        ("timeout_s = 20", "timeout_s = 0", "timeout_s"),
        ('each_rank = "read"', 'each_rank = "state"', "the ranks exchange nothing"),
        ('each_rank = "read"', 'each_rank = "all"', "each_rank|role"),
        ('alike = ["residual", "out"]', 'alike = ["weight"]', "alike: weight is not a result"),
        ("timeout_s = 20", "timeout = 20", "timeout"),
        ("schema = 2", "schema = ", r"task\.toml"),
    ],
)
def test_a_wrong_contract_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    folder = tmp_path / "task"
    shutil.copytree(shipped_folder(NAME), folder)
    text = (folder / "task.toml").read_text()
    assert old in text
    (folder / "task.toml").write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=said):
        load_task(folder)


def test_prompts_say_what_ranks_hold_and_pay(task: Task) -> None:
    context = ChatContext(task, task.baseline, "sglang", "two H200s")
    held, paid = ranks(context, RunState()), taxes(context, RunState())
    assert held is not None and paid is not None
    for said in ("- inputs: one pointer per rank", '"state"', "st.release.sys", "alike on all"):
        assert said in held.text
    for said in ("tax_barriers", "tax_links", "tax_launches", "2511.02168"):
        assert said in paid.text
    plain = ChatContext(find_task("rmsnorm"), "", "sglang", "one H200")
    assert ranks(plain, RunState()) is None
    assert taxes(plain, RunState()) is None
