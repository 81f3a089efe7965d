"""ranks.toml: what it says, and what is refused with a line that names the place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from astra_vgpu.ground.errors import BadInput
from lab.ranks.__main__ import TASK
from astra_chat.tools.task.ranks import load_ranks


def test_one_ranks_launcher_gets_arrays_of_pointers() -> None:
    found = load_ranks(TASK)
    inputs, state, residual, *_ = found.task.args
    assert [(a.dtype, a.shape) for a in (inputs, state)] == [("int64", ("ranks",))] * 2
    assert residual.dtype == "bfloat16"
    assert [s.name for s in found.task.scalars] == ["rank", "eps"]
    case = found.cases("check", 4)[1]
    assert found.shared.arg.bytes_of(case) == case.dims["tokens"] * case.dims["h"] * 2
    assert found.of_rank(case, 3).scalars == {"rank": 3.0}


def test_every_case_is_there_for_each_number_of_ranks() -> None:
    found = load_ranks(TASK)
    two, four = (found.cases("bench", ranks) for ranks in (2, 4))
    assert [{**c.dims, "ranks": 4} for c in two] == [c.dims for c in four]
    assert len(two) + len(four) == len(found.task.bench)
    with pytest.raises(BadInput, match="has 2 or 4 ranks, not 3"):
        found.require_ranks(3)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ranks = [2, 4]", "ranks = [4, 2]", "ranks must ascend"),
        ("ranks = [2, 4]", "ranks = [1]", "greater than or equal to 2"),
        ("timeout_s = 20", "timeout_s = 0", "timeout_s"),
        ('each_rank = "read"', 'each_rank = "state"', "the ranks exchange nothing"),
        ('each_rank = "read"', 'each_rank = "all"', "each_rank|role"),
        ('alike = ["residual", "out"]', 'alike = ["weight"]', "alike: weight is no result"),
        ("timeout_s = 20", "timeout = 20", "timeout"),
        ("schema = 2", "schema = ", "ranks.toml"),
    ],
)
def test_a_wrong_contract_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    folder = tmp_path / "task"
    shutil.copytree(TASK, folder)
    text = (folder / "ranks.toml").read_text()
    assert old in text
    (folder / "ranks.toml").write_text(text.replace(old, new))
    with pytest.raises(BadInput, match=said):
        load_ranks(folder)


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"ranks\.toml is missing"):
        load_ranks(tmp_path)
