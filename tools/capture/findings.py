"""What captured calls say, in lines: how often, views of one buffer, contradictions, and what could
not be seen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from astra_chat.tools.capture.calls import Calls, SeenCall, SeenOperator, SeenTensor, SeenValues
from astra_chat.tools.wording import counted

SHOWN = 5
"""Calls in the summary."""


def summary(operator: SeenOperator) -> Iterator[str]:
    """What was captured, for a reader."""
    different = len(operator.calls)
    yield f"{operator.name}: {counted(operator.count, 'call')}, {different:,} different"
    for call in operator.calls[:SHOWN]:
        yield f"  {call.count:,}: {call_text(call)}"
    if different > SHOWN:
        yield f"  and {different - SHOWN:,} more"


def call_text(call: SeenCall) -> str:
    """A call in a line: x bfloat16 [16, 4096], causal = True."""
    tensors = [_tensor_text(name, tensor) for name, tensor in call.tensors.items()]
    shown = {name: seen.value for name, seen in call.values.items() if seen.value is not None}
    return ", ".join([*tensors, *(f"{name} = {value}" for name, value in shown.items())])


def _tensor_text(name: str, tensor: SeenTensor) -> str:
    dense = 1
    contiguous = True
    for extent, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        contiguous = contiguous and (stride == dense or extent == 1)
        dense *= extent
    strides = "" if contiguous else f" strides {list(tensor.strides)}"
    return f"{name} {tensor.dtype} {list(tensor.shape)}{strides}"


def unseen(calls: Calls) -> Iterator[str]:
    """What is not in the counts, a line each."""
    for one in calls.operators:
        if not one.count:
            yield f"{one.name} was never called"
        if one.traced:
            yield (
                f"torch.compile traced {one.name} into a graph {counted(one.traced, 'time')}:"
                " its calls in compiled code may be missing (set TORCH_COMPILE_DISABLE=1 to capture"
                " them all)"
            )
        if one.in_graphs:
            yield (
                f"{one.name}: captured into CUDA graphs: {counted(one.in_graphs, 'call')};"
                f" graphs replayed: {counted(calls.graph_replays, 'time')}; replays are not"
                " captured, and the values of these calls are unknown"
            )
        if one.beyond:
            kinds = counted(len(one.calls), "kind")
            yield (
                f"{one.name}: {counted(one.beyond, 'call')} beyond the first {kinds} were not"
                " recorded"
            )
        if one.unreadable:
            yield f"{one.name}: {counted(one.unreadable, 'call')} could not be read: {one.trouble}"
    if not calls.whole:
        yield (
            "a process of the program did not exit by itself: calls from its last second may be"
            " missing"
        )
    if calls.ended != "exit code 0":
        yield f"the program ended with {calls.ended}: its calls up to then are recorded"


def contradictions(operator: SeenOperator) -> Iterator[str]:
    """Where calls contradict what an operator of torch.ops declares, a line each."""
    if "::" not in operator.name or not operator.declared:
        return
    mutable = mutable_names(operator.declared)
    written = {n for call in operator.calls for n, t in call.tensors.items() if t.written}
    for name in sorted(written - mutable):
        yield (
            f"{operator.name} writes '{name}', but its schema says that it does not:"
            f" {operator.declared}"
        )
    aliases = {pair for call in operator.calls for pair in aliases_of(call)}
    views = returns_views(operator.declared)
    for result, name in sorted(aliases):
        if not views:
            yield (
                f"{operator.name} returns memory of '{name}' as {result}, but its schema"
                f" says that it does not: {operator.declared}"
            )


def mutable_names(schema: str) -> set[str]:
    """Arguments that an operator's schema declares as written: Tensor(a!) out."""
    inside = schema.partition("(")[2].rpartition("->")[0]
    return set(re.findall(r"Tensor\([^()]*!\)(?:\[\])?\??\s+(\w+)", inside))


def returns_views(schema: str) -> bool:
    """Whether results are declared as views of arguments: -> Tensor(a)."""
    return "Tensor(" in schema.rpartition("->")[2]


def aliases_of(call: SeenCall) -> Iterator[tuple[str, str]]:
    """Results that are views of an argument, with the argument."""
    for result, tensor in call.results.items():
        for name, argument in call.tensors.items():
            if argument.buffer == tensor.buffer and tensor.shape != (0,):
                yield result, name
                break


def views(operator: SeenOperator) -> Iterator[str]:
    """Arguments that were views of one buffer, a line for each combination."""
    counts: dict[tuple[str, ...], int] = {}
    for call in operator.calls:
        for group in groups_of(call):
            counts[group] = counts.get(group, 0) + call.count
    for group, count in counts.items():
        yield f"{' and '.join(group)} were views of one buffer in {counted(count, 'call')}"


INTEGERS = ("int8", "uint8", "int16", "int32", "int64")


def integer_ranges(operator: SeenOperator) -> Iterator[str]:
    """A line for each tensor of integers: its least and greatest number, its order, and which
    extents are above all of its numbers."""
    names = {
        name: None
        for call in operator.calls
        for name, tensor in call.tensors.items()
        if tensor.dtype in INTEGERS and tensor.values
    }
    for name in names:
        pairs = [
            (call, values)
            for call in operator.calls
            if (tensor := call.tensors.get(name)) and (values := tensor.values)
        ]
        least = min(v.least for _, v in pairs if v.least is not None)
        greatest = max(v.greatest for _, v in pairs if v.greatest is not None)
        kinds = [
            kind
            for kind in ("sorted", "permutation", "unique")
            if all(getattr(values, kind) for _, values in pairs)
        ]
        above = set.intersection(*(_above(call, name, v) for call, v in pairs))
        words = [f"{name} contains {least:g} to {greatest:g}", *kinds]
        words += [f"below {', '.join(sorted(above))}"] if above else []
        yield ", ".join(words)


def _above(call: SeenCall, name: str, values: SeenValues) -> set[str]:
    """Extents of the call's other tensors that are above these values."""
    return {
        f"{other}.shape[{axis}]"
        for other, tensor in call.tensors.items()
        for axis, extent in enumerate(tensor.shape)
        if other != name and extent > (values.greatest or 0)
    }


def groups_of(call: SeenCall) -> list[tuple[str, ...]]:
    """Arguments with elements that share a buffer, in the order in which they lie."""
    buffers: dict[int, list[str]] = {}
    for name, tensor in call.tensors.items():
        if 0 not in tensor.shape:
            buffers.setdefault(tensor.buffer, []).append(name)
    return [
        tuple(sorted(names, key=lambda name: call.tensors[name].offset_bytes))
        for names in buffers.values()
        if len(names) > 1
    ]
