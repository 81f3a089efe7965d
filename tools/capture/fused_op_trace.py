"""SGLang's trace of fused operators, read as captured calls.

SGLang keeps it in memory: `enable_fused_op_trace()`, then `get_fused_op_trace()`, a list of records
with the fields `op`, `backend` and `tensor_args`, texts such as "torch.bfloat16[128, 4096]". A file
of it is what `msgspec.json.encode(get_fused_op_trace())` gives, or the same record by record, one a
line. It holds no strides, names and scalars: tensors are contiguous and in the operator's order.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from astra_chat.tools.capture.calls import Calls, SeenCall, SeenOperator, SeenTensor, read_calls
from astra_chat.tools.case import Value
from astra_vgpu.ground.errors import BadInput, reading

TENSOR = re.compile(r"torch\.(\w+)\[([\d, ]*)\]")


class TraceRecord(Value):
    """One call of a fused operator."""

    op: str
    backend: str
    tensor_args: tuple[str, ...]


RECORDS = TypeAdapter(tuple[TraceRecord, ...])


def read_any(path: Path) -> Calls:
    """Read a file of captured calls, or a trace of SGLang's. Raises BadInput."""
    with reading(path):
        text = path.read_text().strip()
    records = _records(text)
    return read_calls(path) if records is None else calls_of(path, records)


def _records(text: str) -> tuple[TraceRecord, ...] | None:
    """None: the text is something else."""
    try:
        if text.startswith("["):
            return RECORDS.validate_json(text)
        return RECORDS.validate_python([json.loads(line) for line in text.splitlines()])
    except (ValueError, ValidationError, RecursionError):
        return None


def calls_of(path: Path, records: tuple[TraceRecord, ...]) -> Calls:
    """The trace as captured calls: equal records together. Raises BadInput."""
    counts: dict[str, Counter[tuple[str, ...]]] = {}
    for record in records:
        counts.setdefault(record.op, Counter())[record.tensor_args] += 1
    if not counts:
        raise BadInput(f"{path}: the trace has no records")
    operators = tuple(
        SeenOperator(
            name=name,
            shapes_only=True,
            calls=tuple(
                SeenCall(count=count, tensors=_tensors(path, args), values={})
                for args, count in found.most_common()
            ),
        )
        for name, found in counts.items()
    )
    return Calls(program=("sglang",), ended="exit code 0", operators=operators)


def _tensors(path: Path, args: tuple[str, ...]) -> dict[str, SeenTensor]:
    found = {}
    for at, text in enumerate(args):
        match = TENSOR.fullmatch(text)
        if match is None:
            raise BadInput(f"{path}: '{text}' is not a tensor such as torch.bfloat16[128, 4096]")
        shape = tuple(int(extent) for extent in match[2].replace(" ", "").split(",") if extent)
        strides, dense = list[int](), 1
        for extent in reversed(shape):
            strides.insert(0, dense)
            dense *= extent
        found[f"arg{at}"] = SeenTensor(
            shape=shape, strides=tuple(strides), dtype=match[1], device="cuda", buffer=at
        )
    return found
