"""What the recorder's processes wrote, folded into captured calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_chat.tools.capture.calls import (
    Calls,
    SeenCall,
    SeenOperator,
    SeenTensor,
    SeenValue,
    alignment_of,
)

Line = dict[str, Any]


@dataclass
class ProcessJournal:
    """The last word of one process on everything."""

    argv: list[str] = field(default_factory=list)
    torch: str = ""
    replays: int = 0
    ended: bool = False
    missing: dict[str, str] = field(default_factory=dict)
    operators: dict[int, Line] = field(default_factory=dict)
    entries: dict[tuple[int, int], Line] = field(default_factory=dict)
    counters: dict[int, Line] = field(default_factory=dict)
    pid: str = ""

    def take(self, line: Line) -> None:
        """One more line of the journal."""
        match line["kind"]:
            case "start":
                self.argv = line["argv"]
            case "operator":
                self.operators[line["operator"]] = line
            case "entry":
                self.entries[line["operator"], line["number"]] = line
            case "counters":
                self.counters[line["operator"]] = line
            case "missing":
                self.missing[line["name"]] = line["why"]
            case "torch":
                self.torch, self.replays = line["version"], line["replays"]
            case "end":
                self.ended = True


def journals(folder: Path) -> list[ProcessJournal]:
    """The journals of all processes, in the order of their first lines."""
    paths = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_ctime_ns)
    found = []
    for path in paths:
        journal = ProcessJournal(pid=path.stem)
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # a process that was killed may leave half a line
                journal.take(json.loads(line))
        found.append(journal)
    return found


def folded(
    found: Sequence[ProcessJournal], names: Sequence[str], program: Sequence[str], ended: str
) -> Calls:
    """All processes' calls, those of one operator together."""
    used = [journal for journal in found if journal.operators]
    return Calls(
        program=tuple(program),
        ended=ended,
        whole=all(journal.ended for journal in used),
        torch=next((journal.torch for journal in found if journal.torch), ""),
        graph_replays=sum(journal.replays for journal in found),
        operators=tuple(_operator(name, found) for name in names),
    )


def _operator(name: str, found: Sequence[ProcessJournal]) -> SeenOperator:
    own = [
        (journal, number, line)
        for journal in found
        for number, line in journal.operators.items()
        if line["name"] == name
    ]
    calls: dict[str, SeenCall] = {}
    counters = [journal.counters.get(number, {}) for journal, number, _ in own]
    for journal, number, _ in own:
        for (operator, entry), line in journal.entries.items():
            if operator == number and line["count"]:
                call = _call(line, f"{journal.pid}-{operator}-{entry}.pt")
                _add(calls, call)
    return SeenOperator(
        name=name,
        declared=next((line["declared"] for _, _, line in own), ""),
        calls=tuple(sorted(calls.values(), key=lambda call: -call.count)),
        trouble=next((c["trouble"] for c in counters if c.get("trouble")), ""),
        **{
            counter: sum(c.get(counter, 0) for c in counters)
            for counter in ("traced", "in_graphs", "beyond", "unreadable")
        },
    )


def _add(calls: dict[str, SeenCall], call: SeenCall) -> None:
    """Calls that several processes made, or that reached one operator in two ways, are one."""
    key = json.dumps([dict(_shapes(call)), {n: v.value for n, v in call.values.items()}])
    if key in calls:
        call = _together(calls[key], call)
    calls[key] = call


def _together(one: SeenCall, other: SeenCall) -> SeenCall:
    """What holds of the calls of both."""
    tensors = {n: _both_tensors(t, other.tensors[n]) for n, t in one.tensors.items()}
    values = {}
    for name, value in one.values.items():
        counts = Counter(dict(value.counts))
        counts.update(dict(other.values[name].counts))
        values[name] = value.model_copy(update={"counts": tuple(counts.most_common())})
    added = {"count": one.count + other.count, "looked": one.looked + other.looked}
    return one.model_copy(update={**added, "tensors": tensors, "values": values})


def _both_tensors(one: SeenTensor, other: SeenTensor) -> SeenTensor:
    seen = [tensor.values for tensor in (one, other) if tensor.values]
    known = [tensor.written for tensor in (one, other) if tensor.written is not None]
    return one.model_copy(
        update={
            "values": seen[0].also(seen[-1]) if seen else None,
            "written": any(known) if known else None,
            "alignment_bytes": min(one.alignment_bytes, other.alignment_bytes),
        }
    )


def _shapes(call: SeenCall) -> Iterator[tuple[str, Any]]:
    for name, tensor in call.tensors.items():
        kept = ("shape", "strides", "dtype", "device", "buffer", "offset_bytes")
        yield name, tensor.model_dump(include=set(kept))


def _call(line: Line, contents: str) -> SeenCall:
    tensors, values = dict[str, SeenTensor](), dict[str, SeenValue]()
    for name, one in line["args"].items():
        if "shape" in one:
            seen = {"values": line["values"].get(name), "written": line["written"].get(name)}
            alignment = alignment_of(line["address_bits"][name])
            tensors[name] = SeenTensor(**one, **seen, alignment_bytes=alignment)
        else:
            counts = tuple((number, count) for number, count in line["floats"].get(name, ()))
            values[name] = SeenValue(**one, counts=counts)
    results = {n: SeenTensor(**one) for n, one in (line["results"] or {}).items() if "shape" in one}
    return SeenCall(
        count=line["count"],
        looked=line["looked"],
        tensors=tensors,
        values=values,
        results=results,
        contents=contents if line["looked"] else "",
    )
