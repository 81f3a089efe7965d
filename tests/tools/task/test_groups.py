"""What a contract may not say of arguments that lie in one buffer: one line each, at load."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.task.contract_text import domain_lines
from astra_chat.tools.task.folder import find_task, load_task
from astra_chat.tools.task.groups import Group
from astra_vgpu.ground.errors import BadInput
from tests.tools.task.contracts import write_contract

WRONG = [
    ('packed = ["cache", "keys"]', "packed.0: no argument is named 'keys'"),
    ('packed = [["cache", "key"], ["key", "cache"]]', "'cache' is given twice"),
    ('packed = ["key", "key"]', "'key' is given twice"),
    (
        'packed = ["key", "bias"]',
        "key and bias must have the same dtype: key is T, bias is float32",
    ),
    ('packed = ["key", "slot"]', "'slot' contains indices into a tensor"),
    ('packed = ["key"]', "at least 2 items"),
    ('packed = [{ args = ["cache", "key"], then = "head_size" }]', "first stride is free"),
    ('packed = [{ args = ["cache", "key"], then = "headsize" }]', "'headsize' in"),
    ('packed = "key"', "valid tuple"),
    ('same = ["cache", "key"]', "same.0: cache and key must have the same shape"),
]


@pytest.mark.parametrize(("line", "what"), WRONG)
def test_what_cannot_be_is_named(tmp_path: Path, line: str, what: str) -> None:
    folder = write_contract(tmp_path / "task", ("flops =", f"{line}\nflops ="))
    with pytest.raises(BadInput) as error:
        load_task(folder)
    lines = str(error.value).splitlines()
    assert any(what in one and "task.toml" in one for one in lines), lines


def test_two_results_by_one_pointer_overlap(tmp_path: Path) -> None:
    task = find_task("fused_add_rmsnorm")
    text = (task.folder / "task.toml").read_text()
    for name in ("baseline.cu", "reference.py"):
        (tmp_path / name).write_text((task.folder / name).read_text())
    changed = text.replace("packed = [", "same = [", 1)
    (tmp_path / "task.toml").write_text(changed)
    with pytest.raises(BadInput, match="outputs overlap: input and residual are both written"):
        load_task(tmp_path)


def test_the_contracts_of_packed_qkv_name_it() -> None:
    assert find_task("rotary_embedding").packed == (
        Group(args=("query", "key"), then="kv_heads * head_size"),
    )
    assert find_task("rope_and_kv_write").packed == (Group(args=("query", "key", "value")),)
    assert find_task("qk_rmsnorm_rope").packed[0].args == ("query", "key")
    for name in ("fused_add_rmsnorm", "fused_add_rmsnorm_quant_fp8"):
        assert find_task(name).packed == (Group(args=("input", "residual")),)


def test_models_are_told() -> None:
    lines = domain_lines(find_task("rotary_embedding"))
    assert any("query and key may be views of one buffer" in line for line in lines)
    assert not any("one buffer" in line for line in domain_lines(find_task("silu_and_mul")))
