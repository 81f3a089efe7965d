"""Arguments that callers pass as views of one buffer, or by one pointer: what a contract says of
them, and what it may not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import Field, model_validator

from astra_chat.tools.task.contract import Arg, Name
from astra_chat.tools.task.expressions import Extent
from astra_chat.tools.types import Value

Problem = tuple[tuple[str | int, ...], str]
"""Where in task.toml something stands, and what is wrong with it."""


class Group(Value):
    """Arguments in the order in which they lie."""

    args: tuple[Name, ...] = Field(min_length=2)
    then: Extent = "0"
    """Elements of each row that follow the last argument's, for tensors that the launcher does not
    take: the value of a packed qkv."""

    @model_validator(mode="before")
    @classmethod
    def _of_names(cls, raw: Any) -> Any:
        return {"args": raw} if isinstance(raw, list | tuple) else raw


def groups_of(raw: Any) -> Any:
    """A list of groups; a single group may stand as a list of its names."""
    if isinstance(raw, list) and raw and all(isinstance(name, str) for name in raw):
        return [raw]
    return raw


def in_rows(args: Sequence[Arg]) -> bool:
    """Whether rows of the arguments may lie beside each other: the caller chooses how far apart the
    rows of each of them lie."""
    return all(0 in arg.free_axes for arg in args)


def group_problems(
    args: Sequence[Arg], packed: Sequence[Group], same: Sequence[Group]
) -> Iterator[Problem]:
    """What the contract's groups say that cannot be."""
    for field, groups in (("packed", packed), ("same", same)):
        counts = Counter(name for group in groups for name in group.args)
        for at, group in enumerate(groups):
            for what in _of_group(args, group, counts, by_one_pointer=field == "same"):
                yield (field, at), what


def _of_group(
    args: Sequence[Arg], group: Group, counts: Counter[str], *, by_one_pointer: bool
) -> Iterator[str]:
    by_name = {arg.name: arg for arg in args}
    for name in dict.fromkeys(group.args):
        if name not in by_name:
            yield f"no argument is named '{name}'"
        elif counts[name] > 1:
            yield f"'{name}' is given twice: its elements would overlap"
    members = [by_name[name] for name in group.args if name in by_name]
    if len(members) < len(group.args):
        return
    names = " and ".join(group.args)
    if indexed := next((arg.name for arg in members if arg.index), None):
        yield f"'{indexed}' contains indices into a tensor: such arguments need their own buffers"
    elif len({arg.dtype for arg in members}) > 1:
        dtypes = ", ".join(f"{arg.name} is {arg.dtype}" for arg in members)
        yield f"{names} must have the same dtype: {dtypes}"
    if by_one_pointer:
        yield from _of_one_pointer(members, names)
    elif in_rows(members) and len({arg.shape[0] for arg in members}) > 1:
        yield f"rows of {names} are adjacent, so their first extents must be equal"
    if group.then != "0" and (by_one_pointer or not in_rows(members)):
        yield "`then` requires arguments whose first stride is free"


def _of_one_pointer(members: Sequence[Arg], names: str) -> Iterator[str]:
    if len({arg.shape for arg in members}) > 1:
        yield f"{names} must have the same shape"
    if sum(arg.access != "read" for arg in members) > 1:
        written = " and ".join(arg.name for arg in members if arg.access != "read")
        yield f"outputs overlap: {written} are both written"
