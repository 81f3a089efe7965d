"""A case as a user types it and as a reproduce line shows it."""

from __future__ import annotations

import json

import pytest

from astra_chat.tools.errors import BadInput
from astra_chat.tools.task.case_text import case_text, read_case
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Case

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


def test_pads_and_scalars_come_back() -> None:
    task = find_task("fused_add_rmsnorm")
    strided = next(arg.name for arg in task.args if arg.strided)
    case = task.check[0].model_copy(update={"pads": {strided: 8}, "offset": 2})
    assert read_case(task, case_text(case)) == case


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
        ("{ tokens = 3, d = 24 }", "dtype: Field required"),
        ("{ tokens = 3, d = 24, dtype = float16 }", "neither TOML nor JSON"),
        ('{ tokens = 3, d = 7, dtype = "float16" }', "d = 7 is outside"),
        ('{ tokens = 3, dtype = "float16" }', "dims"),
        ('{ tokens = 3, d = 24, dtype = "float16", sead = 7 }', "sead: Extra inputs"),
        ('{"dims": 3}', "dims: "),
    ],
)
def test_another_form_is_refused_with_the_right_one(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_case(TASK, text)
    assert problem in str(caught.value) and "\n" not in str(caught.value)
    assert """'{ tokens = 1, d = 8, dtype = "float16" }'""" in str(caught.value)
