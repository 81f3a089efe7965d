"""A contract that contradicts itself is refused at load, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.task.contradictions import legal_points, problems
from astra_chat.tools.task.folder import load_task
from astra_vgpu.ground.errors import BadInput
from tests.tools.task.contracts import CONTRACT, write_contract

SHAPE = 'shape = ["tokens", "heads", "head_size"]'
WRITTEN = 'dtype = "T", shape = ["blocks", "block_size", "heads * head_size"], access = "readwrite"'
CODES = WRITTEN + ', judged = {{ by = "quantized", group = {}, scale = "{}" }}'
INT8 = CODES.replace('"T"', '"int8"')
WRONG = [
    ('below = "blocks * block_size"', 'below = "blocks * block_size + 1"', "has .* entries"),
    ('below = "blocks * block_size", kind', 'below = "tokens - 1", kind', "the index needs"),
    ('"slots", none = -1', '"slots", none = 3', "3 is also a valid index"),
    ('"slots", none', '"slots", from = -5000000000, none', "does not fit in int32"),
    ('table = "cache"', 'table = "values"', "no argument is named 'values'"),
    ('strides = ["free", "free", 1]', 'strides = ["free", "head_size - 1", 1]', "must skip"),
    ('strides = ["free", "free", 1]', 'strides = ["free", 1]', "2 strides for 3 axes"),
    ('strides = ["free", "free", 1]', "strides = [1, 1, 1]", "must skip"),
    (SHAPE, 'shape = ["tokens", "heads", "head_size - rot_dim - 1"]', "less than 0"),
    (SHAPE, 'shape = ["tokens", "heads", "head_size // (heads - 1)"]', "divides by zero: with"),
    (SHAPE, 'shape = ["tokens", "heads", "head_sizes"]', "'head_sizes' in"),
    (SHAPE, 'shape = ["tokens", "heads", "head_size *"]', "is not an expression"),
    (SHAPE, 'shape = ["tokens * 576460752303423488", "heads", "head_size"]', "2\\^63"),
    ('flops = "tokens', 'flops = "rot_dim // (tokens - 1)', "divides by zero"),
    ('"rot_dim % 2 == 0"', '"rot_dim > 500"', "no valid dims meet 'rot_dim > 500'"),
    ('"rot_dim % 2 == 0"', '"rot % 2 == 0"', "'rot' in"),
    ('"rot_dim % 2 == 0"', '"rot_dim % 2"', "is not a relation"),
    ("tokens = { min = 1, max = 16 }", "tokens = { min = 9, max = 8 }", "min 9 is more than max 8"),
    ("multiple_of = 16", "multiple_of = 100", "no multiple of 100"),
    ('I = "int64" }, {', 'J = "int64" }, {', "same variables"),
    ('name = "slot", dtype = "I"', 'name = "slot", dtype = "Q"', "'Q' is not one of"),
    ('access = "readwrite"', 'access = "readwrite", weight = true', 'its access must be "read"'),
    (
        'name = "slot", dtype = "I"',
        'name = "slot", dtype = "T"',
        "index is only for integers that are read",
    ),
    ('name = "bias"', 'name = "key"', "'key' is given twice"),
    ('name = "bias", dtype = "float32"', 'name = "bias", dtype = "int8", largest = 1', "integers"),
    ('access = "workspace"', 'access = "workspace", largest = 2', "a workspace cannot have"),
    ("optional = true", "optional = true, stride_alignment_bytes = 8", "has no free stride"),
    ("range = [-8, 8]", "range = [8, 8]", "no numbers between 8 and 8"),
    ("range = [-8, 8]", "range = [-8, 8], largest = 3", "give range without largest"),
    ("range = [-8, 8]", 'range = [-8, 8], values = "any"', "values must be minus_inf or finite"),
    (
        'access = "workspace"',
        'access = "workspace", values = "finite"',
        "only for floats that are read",
    ),
    ("optional = true", 'optional = true, judged = { by = "exact" }', "not written"),
    ('access = "readwrite"', 'access = "readwrite", judged = { by = "quantized" }', "a scale"),
    (WRITTEN, WRITTEN + ', judged = { by = "distribution" }', "draws need probabilities"),
    (WRITTEN, CODES.format(["1", "1"], "bias"), "group has 2 extents, but 'cache' has 3 axes"),
    (
        WRITTEN,
        CODES.format(["1", "1", "8"], "bias"),
        "codes must have 8 bits, but 'cache' is float16",
    ),
    (
        WRITTEN,
        INT8.format(["1", "1", "8"], "bias"),
        "'cache' into 64 groups, but 'bias' has 2 scales, with tokens = ",
    ),
    (WRITTEN, INT8.format(["1", "1", "heads - heads"], "bias"), "the group size is 0 with"),
    ('access = "readwrite"', 'access = "read"', "writes no argument"),
    ("float32 = { rtol", "bfloat16 = { rtol", "missing for float32"),
    ("values = [true, false]", "values = [false]", "outside range or not listed in values"),
    ("dtypes", "dtypes", ""),
]


@pytest.mark.parametrize(("old", "new", "why"), WRONG[:-1])
def test_one_line_with_the_place(tmp_path: Path, old: str, new: str, why: str) -> None:
    folder = write_contract(tmp_path / "task", (old, new))
    with pytest.raises(BadInput, match=why) as caught:
        load_task(folder)
    first = str(caught.value).splitlines()[0]
    number = first.split(", line ")[1].split(":")[0]
    assert first.startswith(str(folder / "task.toml"))
    lines = (folder / "task.toml").read_text().splitlines()
    wrong = next(i for i, line in enumerate(lines, 1) if new.splitlines()[0] in line)
    assert abs(int(number) - wrong) <= 9, (first, wrong)


def test_all_at_once(tmp_path: Path) -> None:
    folder = write_contract(
        tmp_path / "task",
        ('"free", "free", 1', '"free", 1'),
        ('"cache", table', '"c", table'),
        ("rot_dim % 2 == 0", "rot % 2 == 0"),
        ('flops = "tokens', 'flops = "token'),
    )
    with pytest.raises(BadInput) as caught:
        load_task(folder)
    lines = str(caught.value).splitlines()
    text = CONTRACT.splitlines()
    for word, field in (
        ("2 strides", "strides"),
        ("'c'", "index"),
        ("'rot'", "require"),
        ("'token'", "flops"),
    ):
        line = next(line for line in lines if word in line)
        number = int(line.split(", line ")[1].split(":")[0])
        assert field in text[number - 1], line


def test_an_honest_contract_has_none(tmp_path: Path) -> None:
    task = load_task(write_contract(tmp_path / "task"))
    assert problems(task) == []
    for combination in task.combinations:
        points = list(legal_points(task, combination))
        assert len(points) > 50
        for dims in points:
            task.require_legal(combination.case(dims))
