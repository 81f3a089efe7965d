"""A case as a user types it and as a reproduce line shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from astra_chat.tools.task.case_text import case_text, read_case
from astra_chat.tools.task.contract import Scalar
from astra_chat.tools.task.folder import find_task, load_task, task_names
from astra_chat.tools.task.launcher import prototype
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput
from tests.tools.task.contracts import CONTRACT, write_contract

TASK = find_task("silu_and_mul")
CASE = Case(dims={"tokens": 3, "d": 24}, dtype="float16", seed=7)


@pytest.mark.parametrize("name", task_names())
def test_every_case_of_a_task_comes_back(name: str) -> None:
    task = find_task(name)
    for case in (*task.check, *(case for case, _ in task.bench)):
        varied = case.model_copy(update={"seed": -5})
        assert read_case(task, case_text(case)) == case
        assert read_case(task, case_text(varied)) == varied


def test_the_form_is_that_of_task_toml() -> None:
    assert case_text(CASE) == '{ tokens = 3, d = 24, dtype = "float16", seed = 7 }'


def test_scalars_are_written_as_their_types() -> None:
    case = CASE.model_copy(update={"scalars": {"neox": 0.0, "step": 3.0, "eps": 1.0}})
    kinds = [Scalar(name=n, type=t, value=1) for n, t in (("neox", "bool"), ("step", "int64_t"))]
    text = case_text(case, kinds)
    assert "scalars = { neox = false, step = 3, eps = 1.0 }" in text


def test_pads_and_scalars_come_back() -> None:
    task = find_task("fused_add_rmsnorm")
    strided = next(arg.name for arg in task.args if arg.strided)
    case = task.check[0].model_copy(update={"pads": {strided: 8}, "offset": 2})
    assert read_case(task, case_text(case)) == case


def test_all_that_schema_2_says_of_a_case_comes_back(tmp_path: Path) -> None:
    task = load_task(write_contract(tmp_path / "task"))
    for case in task.check:
        assert read_case(task, case_text(case)) == case
        assert read_case(task, case.model_dump_json()) == case
    whole = case_text(task.check[2])
    assert 'I = "int32"' in whole and "key = [4, 2]" in whole and 'absent = ["bias"]' in whole
    follows = "{ tokens = 1, heads = 1, head_size = 8, rot_dim = 2, blocks = 1, block_size = 16,"
    assert read_case(task, follows + ' T = "float32" }').types == {"I": "int64"}
    with pytest.raises(BadInput, match="must give I"):
        read_case(task, follows + ' T = "float16" }')
    with pytest.raises(BadInput, match="dtype"):
        read_case(task, follows + ' I = "int64" }')


def test_a_task_without_variables_needs_no_dtype(tmp_path: Path) -> None:
    fixed = [("types = [", "# types = ["), ('dtype = "T"', 'dtype = "float32"')]
    fixed += [('dtype = "T"', 'dtype = "float32"'), ('dtype = "I"', 'dtype = "int64"')]
    text = CONTRACT
    for old, new in fixed:
        text = text.replace(old, new, 1)
    rows = text.splitlines()
    stated = re.compile(r', (T|I|dtype) = "[a-z0-9]+"')
    text = "\n".join(stated.sub("", row) if "tokens =" in row else row for row in rows)
    folder = write_contract(tmp_path / "task")
    (folder / "task.toml").write_text(text)
    task = load_task(folder)
    assert task.variables == () and task.check[0].dtype == "float32"
    assert "int dtype" not in prototype(task)
    assert read_case(task, case_text(task.check[0])) == task.check[0]


@pytest.mark.parametrize(
    "text",
    [
        '{ tokens = 3, d = 24, dtype = "float16", seed = 7 }',
        '{"tokens": 3, "d": 24, "dtype": "float16", "seed": 7}',
        CASE.model_dump_json(),
        json.dumps({"dims": {"tokens": 3, "d": 24}, "dtype": "float16", "seed": 7}),
    ],
)
def test_toml_and_json_are_read(text: str) -> None:
    assert read_case(TASK, text) == CASE


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3x24 float16", "neither TOML nor JSON"),
        ("3", "not a table"),
        ("{ tokens = 3, d = 24 }", "dtype: it is missing"),
        ("{ tokens = 3, d = 24, dtype = float16 }", "neither TOML nor JSON"),
        ('{ tokens = 3, d = 7, dtype = "float16" }', "d = 7 is outside"),
        ('{ tokens = 3, dtype = "float16" }', "dims"),
        ('{ tokens = 3, d = 24, dtype = "float16", sead = 7 }', "sead: unknown key sead"),
        ('{"dims": 3}', "dims: "),
    ],
)
def test_another_form_is_refused_with_the_right_one(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_case(TASK, text)
    assert problem in str(caught.value) and "\n" not in str(caught.value)
    assert """'{ tokens = 1, d = 8, dtype = "float16" }'""" in str(caught.value)
