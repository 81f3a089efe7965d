"""What models and people are told of a contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.contract_text import (
    argument_text,
    codes_text,
    domain_lines,
    scalar_text,
    types_text,
)
from astra_chat.tools.task.folder import find_task, load_task
from tests.tools.task.contracts import write_contract


def test_all_of_a_contract_is_told(tmp_path: Path) -> None:
    task = load_task(write_contract(tmp_path / "task"))
    cache, key, slot, bias, scratch = map(argument_text, task.args)
    assert "T [blocks, block_size, heads * head_size], readwrite" in cache
    assert "strides in elements [key_stride_0, key_stride_1, 1]" in key and "2 bytes" in key
    assert "0 <= value < blocks * block_size (an index into cache), no number twice" in slot
    assert "or -1 for no entry" in slot and "may be a null pointer" in bias
    aligned = task.args[1].model_copy(update={"stride_alignment_bytes": 4})
    assert "1], each free stride a multiple of 4 bytes, values" in argument_text(aligned)
    assert "values from -8 to 8" in bias
    assert "workspace of the caller (its contents are unspecified)" in scratch
    assert types_text(task).count("T ") == 3 and "I int32" in types_text(task)
    assert codes_text(task) == "dtype: 1 float16, 0 float32. i_dtype: 8 int64, 7 int32."
    lines = domain_lines(task)
    assert "head_size: one of 8, 16, 64, 128, 256" in lines
    assert "block_size: 16 to 64, a multiple of 16" in lines
    assert "always rot_dim <= head_size" in lines
    assert scalar_text(task.scalars[0]) == "causal: bool, one of true, false"


def test_a_shipped_task_reads_as_before() -> None:
    task = find_task("fused_add_rmsnorm")
    assert argument_text(task.args[0]) == (
        "input: T [tokens, h], readwrite, aligned to 16 bytes, row stride input_stride elements"
        " (at least one row), values up to 1e+16, plus the special values NaN, infinities and the"
        " dtype's largest number"
    )
    assert codes_text(task) == "dtype: 0 float32, 1 float16, 2 bfloat16."
    assert types_text(task) == "float16, bfloat16, float32"
    assert scalar_text(task.scalars[0]).startswith("eps: float, 1e-06 in most cases")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            "no_nan",
            "plus infinities and the dtype's largest number as special values, but no NaN",
        ),
        ("minus_inf", "values up to 10000, plus negative infinity, but no NaN"),
        ("finite", "values up to 10000, no NaN or infinity"),
    ],
)
def test_legal_values_beside_finite_numbers_are_named(values: str, words: str) -> None:
    arg = Arg.model_validate(
        {
            "name": "x",
            "dtype": "T",
            "shape": ["n"],
            "access": "read",
            "largest": 1e4,
            "values": values,
        }
    )
    assert words in argument_text(arg)
