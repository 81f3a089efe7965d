"""The user's program, run with the recorder in each of its Pythons."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from astra_chat.tools.capture.calls import Calls
from astra_chat.tools.capture.journals import ProcessJournal, folded, journals
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
