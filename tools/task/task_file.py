"""task.toml as the fields of a Task, and what is wrong with it, with its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from astra_chat.tools.task.domain import Place
from astra_chat.tools.task.toml_lines import line_of
from astra_chat.tools.wording import invalid

SECTIONS = ("check", "bench", "demo")
FIRST_VARIABLE = "T"
Types = Sequence[Mapping[str, Any]]


class Contradictions(ValueError):
    """Problems of a contract as a whole."""

    def __init__(self, problems: Sequence[tuple[Place, str]]) -> None:
        super().__init__("; ".join(what for _, what in problems))
        self.problems = tuple(problems)


def task_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Task from a task.toml of any schema. Raises ValueError."""
    fields, dims = dict(raw), raw.get("dims", {})
    if "dtypes" in raw and "types" in raw:
        raise ValueError(
            "give either dtypes or types, not both: dtypes is the short form for a single type"
            " variable, T"
        )
    if "dtypes" in raw:
        dtypes = fields.pop("dtypes")
        if not isinstance(dtypes, list) or not dtypes:
            raise ValueError("dtypes must be a list of at least one dtype")
        fields["types"] = [{FIRST_VARIABLE: dtype} for dtype in dtypes]
    elif "types" not in raw:
        if raw.get("schema") == 1:
            raise ValueError("dtypes is missing")
        fields["types"] = [{}]
    types = fields["types"]
    if not isinstance(types, list) or not all(isinstance(one, dict) for one in types) or not types:
        raise ValueError('types must be a list of tables, such as { T = "float16", I = "int64" }')
    fields["args"] = _with_usual_scalars(raw)
    for section in SECTIONS:
        rows = raw.get(section, [])
        if not isinstance(rows, list) or not isinstance(dims, dict):
            raise ValueError(f"dims must be a table, and {section} a list")
        fields[section] = [
            _weighted(row, list(dims), types, _fixed_dtype(raw), section) for row in rows
        ]
    return fields


def case_fields(
    row: dict[str, Any], dims: Iterable[str], types: Types, fixed: Any = None
) -> dict[str, Any]:
    """A flat row of task.toml, {tokens, d, dtype, ...}, as the fields of a Case.

    Type variables are there by name, or follow from the others; `fixed` is the dtype of a case
    without any.
    """
    fields: dict[str, Any] = {"dims": {d: row[d] for d in dims if d in row}}
    fields |= {k: v for k, v in row.items() if k not in fields["dims"] and k != "weight"}
    variables = list(dict.fromkeys(name for one in types for name in one))
    given = {name: fields.pop(name) for name in variables if name in fields}
    given |= fields.get("types", {}) if isinstance(fields.get("types"), dict) else {}
    if variables and "dtype" in fields:
        given[variables[0]] = fields["dtype"]
    legal = [one for one in types if all(one.get(name) == given[name] for name in given)]
    if len(legal) == 1 and variables:
        given = {**legal[0]}
    if not variables:
        fields.setdefault("dtype", fixed)
    elif variables[0] in given:
        fields["dtype"] = given.pop(variables[0])
    return fields | ({"types": given} if given else {})


def _with_usual_scalars(raw: dict[str, Any]) -> Any:
    """Arguments that know the integer scalars' usual values, which extents may name."""
    scalars, args = raw.get("scalars", []), raw.get("args")
    if not isinstance(scalars, list) or not isinstance(args, list):
        return args
    usual = {
        one["name"]: one["value"]
        for one in scalars
        if isinstance(one, dict) and one.get("type") == "int64_t" and {"name", "value"} <= set(one)
    }
    if not usual:
        return args
    return [{**arg, "usual_scalars": usual} if isinstance(arg, dict) else arg for arg in args]


def _fixed_dtype(raw: dict[str, Any]) -> Any:
    """The dtype of the first result."""
    args = [arg for arg in raw.get("args", []) if isinstance(arg, dict)]
    written = (arg.get("dtype") for arg in args if arg.get("access") in ("write", "readwrite"))
    return next(written, None)


def _weighted(row: Any, dims: list[str], types: Types, fixed: Any, section: str) -> Any:
    """A row of a list of cases; those that are timed have a weight."""
    if not isinstance(row, dict):
        return row
    fields = case_fields(row, dims, types, fixed)
    return fields if section == "check" else (fields, row.get("weight", 1.0))


def problems_of(error: ValidationError) -> list[tuple[Place, str]]:
    """Everything that a validation found, with its places in task.toml."""
    found: list[tuple[Place, str]] = []
    errors = error.errors(include_url=False)
    for one in errors:
        if one["type"] == "too_short" and any(_below(other["loc"], one["loc"]) for other in errors):
            continue  # it has entries, all of them wrong
        whole = one.get("ctx", {}).get("error")
        if isinstance(whole, Contradictions):
            found += whole.problems
        else:
            found.append((_in_the_file(one["loc"]), invalid(one)))
    return list({(place, what): None for place, what in found})


def _below(location: tuple[str | int, ...], above: tuple[str | int, ...]) -> bool:
    return len(location) > len(above) and location[: len(above)] == above


def _in_the_file(location: tuple[str | int, ...]) -> Place:
    """A field's place: cases are flat there, and those that are timed no pairs."""
    if location and location[0] in SECTIONS:
        pair = location[0] != "check" and len(location) > 2
        rest = location[3:] if pair else location[2:]
        return (*location[:2], *(part for part in rest if part != "dims"))
    return location


def problem_lines(path: Path, text: str, problems: Sequence[tuple[Place, str]]) -> str:
    """A line for each problem: file, line, field and what is wrong."""
    lines = []
    for place, what in problems:
        line = line_of(text, place)
        field = ".".join(str(part) for part in place) or "task"
        lines.append((line or 0, f"{path}{f', line {line}' if line else ''}: {field}: {what}"))
    return "\n".join(line for _, line in sorted(lines, key=lambda pair: pair[0]))
