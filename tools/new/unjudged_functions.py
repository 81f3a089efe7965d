"""Functions of a user's file that no call of the task runs: a candidate leaves them as they are.

A file may export several functions, and a task is about one. Callers keep using the others, and
nothing of those is judged. So a candidate may drop them, but not change what they run: their host
code, the host functions that they call, and the device code of the kernels that they name.
"""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.build.same_code import same_code
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.new.callable import HostText, callable_functions, other_functions
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Finding
from astra_vgpu.ground.cubin import read_cubin
from astra_vgpu.ground.errors import BadInput


def changed_functions(build: Build, task: Task, source: str, baseline: Build) -> list[Finding]:
    """Findings, one of each such function that the candidate has and changes."""
    others = other_functions(task, baseline.source)
    if not others:
        return []
    try:
        kept = callable_functions(source)
        texts = [
            (HostText(own), HostText(theirs))
            for own, theirs in (
                (source, baseline.source),
                (build.expanded("host"), baseline.expanded("host")),
            )
        ]
    except BadInput as error:
        return [Finding(line=1, what=f"another function of the file cannot be read: {error}")]
    own, found = texts[0][0], list[Finding]()
    present = [name for name, one in others.items() if own.line(one.name) or name in kept]
    kernels = list(_changed_kernels(build, baseline)) if present else []
    for name in present:
        function = others[name].name
        other = kept[name].name if name in kept and kept[name].name != function else None
        what = other or next(_changed(function, texts, kernels), None)
        if what is not None:
            line = own.line(other or function) or 1
            found.append(Finding(line=line, what=_text(name, function, what, task)))
    return found


def _changed(
    function: str, texts: list[tuple[HostText, HostText]], kernels: list[str]
) -> Iterator[str]:
    """Names of host functions and kernels that it reaches and that differ from the baseline's."""
    for own, theirs in texts:
        mine, before = own.reached(function), theirs.reached(function)
        yield from (name for name in before if mine.get(name) != before[name])
        yield from (name for name in mine if name not in before)
        named = {word for words in mine.values() for word in words}
        yield from (name for name in kernels if name in named)


def _changed_kernels(build: Build, baseline: Build) -> Iterator[str]:
    """Names of kernels that both have, by their mangled names, with other device code."""
    own, theirs = (read_cubin(one.cubin.read_bytes()).kernels for one in (build, baseline))
    same = same_code(build, baseline)
    yield from dict.fromkeys(kernel_name(name) for name in own if name in theirs.keys() - same)


def _text(name: str, function: str, what: str, task: Task) -> str:
    called = task.binding.called if task.binding else ""
    where = "" if what in (name, function) else f": it runs `{what}`"
    return (
        f"function {name} differs from the baseline's{where}, but no call of the task runs it, so"
        f" it is not judged: leave it and everything that it runs unchanged, and give `{called}`"
        " functions and kernels of its own"
    )
