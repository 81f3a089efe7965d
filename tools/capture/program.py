"""The user's program, run with the recorder in each of its Pythons. What the recorders
wrote is folded into captured calls.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import BadInput

INSIDE = Path(__file__).resolve().parent / "inside"
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
TORCH_OP = re.compile(r"[A-Za-z_]\w*::\w+(\.\w+)?")


def operator_name(text: str) -> str:
    """ "module:function", or "space::name" for torch.ops.space.name. Raises BadInput."""
    dotted = re.fullmatch(r"torch\.ops\.(\w+)\.(\w+(?:\.\w+)?)", text)
    name = f"{dotted[1]}::{dotted[2]}" if dotted else text
    if not (FUNCTION.fullmatch(name) or TORCH_OP.fullmatch(name)):
        raise BadInput(
            f"--op {text}: write module:function, module:Class.method, or torch.ops.space.name"
        )
    if name.startswith("__main__:"):
        raise BadInput(
            f"--op {text}: a function defined in the script itself cannot be wrapped; move it to a"
            " module that the script imports"
        )
    return name


def capture(command: Sequence[str], names: Sequence[str], contents: Path | None) -> Calls:
    """Run the command and return the calls of these operators. Raises BadInput where it cannot be
    started, or where none of them was ever called: the message says why."""
    with tempfile.TemporaryDirectory(prefix="astra-capture-") as scratch:
        journal = Path(scratch) / "journal"
        journal.mkdir()
        if contents:
            contents.mkdir(parents=True, exist_ok=True)
        settings = Path(scratch) / "settings.json"
        settings.write_text(
            json.dumps(
                {
                    "journal": str(journal),
                    "contents": str(contents.resolve()) if contents else None,
                    "functions": [name for name in names if "::" not in name],
                    "torch_ops": [name for name in names if "::" in name],
                }
            )
        )
        ended = _run(command, settings)
        found = journals(journal)
    calls = folded(found, names, command, ended)
    if contents is None:
        calls = _without_contents(calls)
    if not any(operator.count for operator in calls.operators):
        raise BadInput(_nothing(calls, found))
    return calls


def _run(command: Sequence[str], settings: Path) -> str:
    """Run it to its end, also through Ctrl-C, which it gets itself; how it ended."""
    paths = [str(INSIDE), *filter(None, [os.environ.get("PYTHONPATH")])]
    recorded = {"PYTHONPATH": os.pathsep.join(paths), "ASTRA_CAPTURE": str(settings)}
    program = shutil.which(command[0])
    if program is None:
        raise BadInput(f"program '{command[0]}' not found")
    try:
        process = subprocess.Popen([program, *command[1:]], env={**os.environ, **recorded})
    except OSError as error:
        raise BadInput(f"{command[0]} cannot be started: {error.strerror}") from None
    with _ended(process):
        code = process.wait()
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Whatever interrupts us ends the program, which may still write what it saw."""
    try:
        yield
    except KeyboardInterrupt:
        process.terminate()
        process.wait()


def _without_contents(calls: Calls) -> Calls:
    operators = [
        one.model_copy(
            update={"calls": tuple(c.model_copy(update={"contents": ""}) for c in one.calls)}
        )
        for one in calls.operators
    ]
    return calls.model_copy(update={"operators": tuple(operators)})


def _nothing(calls: Calls, found: Sequence[ProcessJournal]) -> str:
    """Why no call was seen, in one line."""
    ended = f"the program ended with {calls.ended}"
    if not found:
        return (
            f"no Python process of the program loaded the recorder ({ended}): it is not a Python"
            " program, or Python's -I, -E or -S disables PYTHONPATH or sitecustomize"
        )
    reasons = [_reason(operator.name, calls, found) for operator in calls.operators]
    return f"{'; '.join(reasons)}; {ended}"


def _reason(name: str, calls: Calls, found: Sequence[ProcessJournal]) -> str:
    operator = calls.operator(name)
    missing = next((j.missing[name] for j in found if name in j.missing), "")
    wrapped = any(line["name"] == name for j in found for line in j.operators.values())
    if operator.traced:
        return (
            f"torch.compile traced {name} into a graph ({counted(operator.traced, 'time')}), and"
            " the compiled code no longer calls it: capture without torch.compile"
            " (set TORCH_COMPILE_DISABLE=1)"
        )
    if operator.unreadable:
        return f"{operator.unreadable} calls of {name} could not be read: {operator.trouble}"
    if missing:
        return f"{name}: {missing}"
    if name.startswith("aten::"):
        return (
            f"{name} was not called through torch.ops: torch's own functions do not pass"
            " through it; give the function, such as torch:mm"
        )
    if "::" not in name and not wrapped:
        return f"the program never imported {name.partition(':')[0]}"
    return f"{name} was never called"


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
