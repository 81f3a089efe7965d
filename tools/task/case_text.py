"""A case as text, in the form of task.toml: { tokens = 3, d = 24, dtype = "float16" }."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from astra_chat.tools.task.contract import Scalar
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.groups import in_rows
from astra_chat.tools.task.placement import packed_pads, then_of
from astra_chat.tools.task.task_file import case_fields
from astra_chat.tools.types import Case
from astra_chat.tools.wording import choices, invalid
from astra_vgpu.ground.errors import BadInput

_TYPES: dict[str, type[float]] = {"float": float, "bool": bool, "int64_t": int}


def case_text(case: Case, scalars: Sequence[Scalar] = ()) -> str:
    """One line of TOML that `read_case` reads as the same case; `scalars` are the task's, of which
    bools are written as true and false, and integers without a point."""
    fields = case.model_dump(exclude_defaults=True)
    kinds = {scalar.name: scalar.type for scalar in scalars}
    for name, value in fields.get("scalars", {}).items():
        fields["scalars"][name] = _TYPES[kinds.get(name, "float")](value)
    flat = {**fields.pop("dims"), **fields.pop("types", {}), **fields}
    return _inline(flat)


def read_case(task: Task, text: str) -> Case:
    """A case of the task from text: a table as in task.toml, or JSON as evaluations have it.

    Raises BadInput that says what is wrong and shows the form.
    """
    try:
        fields = _fields(text)
        if "dims" not in fields:
            fields = case_fields(fields, task.dims, task.types, task.dtypes[0])
        _require_dtype(task, fields.get("dtype"))
        case = _case(task, fields)
        task.require_legal(case)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        raise BadInput(f"--case {text}: {place}: {invalid(first)}; {_form(task)}") from None
    except ValueError as error:
        raise BadInput(f"--case {text}: {error}; {_form(task)}") from None
    return case


def _require_dtype(task: Task, dtype: object) -> None:
    """Raise ValueError for one that the task has not: its few are named, not all that there are."""
    if isinstance(dtype, str) and dtype not in task.dtypes:
        raise ValueError(f"this task has no dtype {dtype}{choices(dtype, task.dtypes)}")


def _case(task: Task, fields: dict[str, Any]) -> Case:
    """`packed = true` stands for rows beside each other, or for tensors one behind the other where
    rows cannot lie so; pads that the text does not state are those that go with it."""
    if fields.get("packed") is False:
        fields = {**fields, "packed": "apart"}
    if fields.get("packed") is True:
        by_name = {arg.name: arg for arg in task.args}
        able = any(in_rows([by_name[name] for name in group.args]) for group in task.packed)
        fields = {**fields, "packed": "rows" if able or not task.packed else "tensors"}
    case = Case.model_validate(fields)
    if case.packed == "rows" and not (case.pad or case.pads):
        then = [then_of(task, group, case) for group in task.packed]
        return packed_pads(task, case, then)
    return case


def _fields(text: str) -> dict[str, Any]:
    """Raises ValueError where it is neither JSON nor TOML."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            value = tomllib.loads(f"case = {text.strip()}")["case"]
        except (ValueError, RecursionError):
            raise ValueError("neither TOML nor JSON") from None
    if not isinstance(value, dict):
        raise ValueError("not a table")
    return value


def _form(task: Task) -> str:
    return f"write it as in task.toml: '{case_text(task.check[0], task.scalars)}'"


def _inline(table: dict[str, Any]) -> str:
    pairs = (f"{name} = {_value(value)}" for name, value in table.items())
    return f"{{ {', '.join(pairs)} }}"


def _value(value: Any) -> str:
    return _inline(value) if isinstance(value, dict) else json.dumps(value)
