"""A file of captured calls: which calls of some operators a program made, without the contents of
their tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from astra_chat.tools.case import Value
from astra_chat.tools.wording import invalid
from astra_vgpu.ground.errors import BadInput, reading

SCHEMA = "astra-chat/calls/1"
MOST_ALIGNMENT_BYTES = 256
LINE = 200
"""Characters of a line of the file: a tensor stands on one."""


class SeenValues(Value):
    """What the numbers of a tensor were in the calls that were looked at."""

    least: float | None = None
    """The least number, of floats the least finite one; None: there was none."""
    greatest: float | None = None
    nan: bool = False
    infinity: bool = False
    minus_infinity: bool = False
    sorted: bool = False
    """Integers: each row ascends."""
    unique: bool = False
    """Integers: no number from 0 on was there twice."""
    permutation: bool = False
    """Integers: each row holds the same run of numbers, in some order."""
    negative_share: float = 0.0
    """Integers: the largest share of numbers below 0 in a call."""

    def also(self, other: SeenValues) -> SeenValues:
        """What holds of the numbers of both."""
        ends = {
            "least": [v for v in (self.least, other.least) if v is not None],
            "greatest": [v for v in (self.greatest, other.greatest) if v is not None],
        }
        return SeenValues(
            least=min(ends["least"], default=None),
            greatest=max(ends["greatest"], default=None),
            nan=self.nan or other.nan,
            infinity=self.infinity or other.infinity,
            minus_infinity=self.minus_infinity or other.minus_infinity,
            sorted=self.sorted and other.sorted,
            unique=self.unique and other.unique,
            permutation=self.permutation and other.permutation,
            negative_share=max(self.negative_share, other.negative_share),
        )


class SeenTensor(Value):
    """A tensor of a call."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    dtype: str
    device: str
    buffer: int
    """Number of its storage: tensors of a call with one number are views of one buffer."""
    offset_bytes: int = 0
    """From the first element of the call's tensors in that buffer to its own."""
    alignment_bytes: int = 1
    """The largest power of two, up to 256, that divided its address in all of these calls."""
    values: SeenValues | None = None
    """None: nobody looked, as the tensor is empty, very large, or in a CUDA graph."""
    written: bool | None = None
    """Whether a call changed it. None: nobody knows."""


class SeenValue(Value):
    """An argument that is no tensor."""

    type: str
    """Python's name of the type."""
    value: int | str | bool | tuple[int, ...] | None = None
    counts: tuple[tuple[float, int], ...] = ()
    """Floats: the numbers that were passed, and how often; at most 8."""


class SeenCall(Value):
    """Equal calls: shapes, strides, dtypes, devices, places to each other, and all values but
    floats."""

    count: int = Field(ge=1)
    looked: int = 0
    """In so many of them the values were looked at."""
    tensors: dict[str, SeenTensor]
    values: dict[str, SeenValue]
    results: dict[str, SeenTensor] = Field(default_factory=dict)
    """Tensors that it returned; one that is a view of an argument has the argument's buffer."""
    contents: str = ""
    """File of the tensors of the first call (`--contents`), beside the file of the calls."""


class SeenOperator(Value):
    """An operator, and its calls."""

    name: str
    """ "module:function" or "space::name"."""
    declared: str = ""
    """The schema of a torch.ops operator, or the signature of a function."""
    calls: tuple[SeenCall, ...]
    traced: int = 0
    """Calls by torch.compile, which take the operator into a graph and have no data."""
    in_graphs: int = 0
    """Calls while a CUDA graph was captured: counted once, however often it is replayed."""
    beyond: int = 0
    """Calls beyond the largest number of different ones."""
    unreadable: int = 0
    trouble: str = ""
    """Why calls could not be read."""

    shapes_only: bool = False
    """From a trace that has no results, values and strides."""

    @property
    def count(self) -> int:
        return sum(call.count for call in self.calls)


class Calls(Value):
    """Captured calls of a program."""

    schema_name: Literal["astra-chat/calls/1"] = Field(default="astra-chat/calls/1", alias="schema")
    program: tuple[str, ...]
    ended: str
    """How the program ended: "exit code 0"."""
    whole: bool = True
    """Whether all processes ended as they should: else the last second of counts may be lost."""
    torch: str = ""
    graph_replays: int = 0
    """Replays of CUDA graphs: calls in them cannot be seen."""
    operators: tuple[SeenOperator, ...]

    def operator(self, name: str | None = None) -> SeenOperator:
        """The operator of this name, or the only one. Raises BadInput."""
        names = ", ".join(one.name for one in self.operators)
        found = [one for one in self.operators if name in (None, one.name)]
        if len(found) != 1:
            what = f"no operator '{name}'" if name else f"{len(self.operators)} operators"
            raise BadInput(f"{what} in the captured calls ({names}): choose one with --calls-of")
        return found[0]


def alignment_of(address_bits: int) -> int:
    """The alignment of addresses that are or-ed together."""
    return math.gcd(address_bits, MOST_ALIGNMENT_BYTES) or MOST_ALIGNMENT_BYTES


def read_calls(path: Path) -> Calls:
    """Read a file of captured calls. Raises BadInput."""
    with reading(path):
        text = path.read_text()
    try:
        return Calls.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"{part}: " for part in [".".join(map(str, first["loc"]))] if part)
        why = f"{place}{invalid(first)}"
        raise BadInput(f"{path} is not a capture file ({SCHEMA}): {why}") from None


def calls_text(calls: Calls) -> str:
    """The file's text: a line for each tensor, short enough to read."""
    data = calls.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return "\n".join(_lines({"schema": SCHEMA, **data}, "")) + "\n"


def _lines(value: Any, indent: str) -> Iterator[str]:
    """JSON of which what fits a line stands on one."""
    whole = json.dumps(value)
    if len(whole) + len(indent) <= LINE or not isinstance(value, dict | list):
        yield whole
        return
    inner, is_table = indent + "  ", isinstance(value, dict)
    pairs = list(value.items()) if isinstance(value, dict) else [("", one) for one in value]
    yield "{" if is_table else "["
    for at, (name, one) in enumerate(pairs):
        first, *rest = _lines(one, inner)
        head = f"{inner}{json.dumps(name)}: " if is_table else inner
        lines = [head + first, *rest]
        yield from lines[:-1]
        yield lines[-1] + ("," if at < len(pairs) - 1 else "")
    yield indent + ("}" if is_table else "]")
