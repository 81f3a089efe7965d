"""Mutants: faults drawn evenly over the operators, built together in few files.

All mutants of a file share one nvcc call, each in a namespace of its own with a launcher of its own
name (after Untch, Offutt and Harrold's mutant schemata, ISSTA 1993): twelve mutants cost two or
three compilations instead of twelve. A file that does not compile in a namespace is compiled as it
is, once for each mutant.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from astra_chat.tools.build.bound_launcher import launcher_within, needs_launcher
from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.cpp_tokens import tokens
from astra_chat.tools.mutation.operators import EditableCode, Fault, faults
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import BuildFailed, Device, sha256_of

DEFAULT_COUNT = 12
BATCH = 13
"""Mutants of one file: DEFAULT_COUNT, and the source itself."""
TRIES = 4
"""Times that a file is built again without the mutants that nvcc refused."""


@dataclass(frozen=True)
class Mutant:
    """A baseline with one fault."""

    operator: str
    line: int
    before: str
    """The line as it is in the baseline."""
    after: str
    source: str

    @property
    def name(self) -> str:
        """What it is, for people, the same wherever it is drawn: its place tells two apart."""
        if not self.line:  # the whole source
            return self.operator
        return f"{self.operator} in line {self.line}: {self.after}"


def mutants(source: str, count: int, scalars: Sequence[str] = (), seed: int = 0) -> list[Mutant]:
    """At most `count` faults of a source, drawn evenly over the operators, each source once.

    The same seed draws the same ones; a smaller count draws the first of a larger one.
    """
    rng = random.Random(seed)
    by_operator: dict[str, list[Fault]] = {}
    for fault in faults(source, scalars):
        by_operator.setdefault(fault.operator, []).append(fault)
    piles = list(by_operator.values())
    rng.shuffle(piles)
    for pile in piles:
        rng.shuffle(pile)
    mutants_by_name: dict[str, Mutant] = {}
    while any(piles) and len(mutants_by_name) < count:
        for pile in piles:
            if pile and len(mutants_by_name) < count:
                mutant = _mutant(source, pile.pop())
                mutants_by_name.setdefault(_essence(mutant.source), mutant)
    return list(mutants_by_name.values())


def _mutant(source: str, fault: Fault) -> Mutant:
    changed = fault.edit.apply(source)
    line = source.count("\n", 0, fault.edit.start)
    return Mutant(
        fault.operator,
        line + 1,
        source.splitlines()[line].strip(),
        changed.splitlines()[line].strip(),
        changed,
    )


def _essence(source: str) -> str:
    """Equal for sources of the same tokens."""
    return sha256_of("\0".join(token.text for token in tokens(source)))


@dataclass(frozen=True)
class BuiltMutant:
    """A mutant and its build, whose launcher has a name of its own."""

    mutant: Mutant
    build: Build
    entry: str


def build_mutants(
    task: Task, drawn: Sequence[Mutant], device: Device, stop: Stop
) -> list[BuiltMutant]:
    """Build them; those that are no C++ are dropped."""
    batches = [list(drawn[i : i + BATCH]) for i in range(0, len(drawn), BATCH)]
    all_built: list[BuiltMutant] = []
    alone: list[Mutant] = []
    for _ in range(TRIES):
        texts = [_together(task, batch) for batch in batches]
        builds = build_all(task, texts, device, stop, launchers=False)
        again: list[list[Mutant]] = []
        for batch, built in zip(batches, builds, strict=True):
            if isinstance(built, Build):
                all_built += [BuiltMutant(m, built, _entry(task, i)) for i, m in enumerate(batch)]
            elif isinstance(built, BuildFailed):
                good = _without_bad(task, batch, built.log)
                again += [good] if good else []
                alone += batch if good is None else []
        batches = again
        if not batches:
            break
    for mutant, built in zip(
        alone, build_all(task, [mutant.source for mutant in alone], device, stop), strict=True
    ):
        all_built += [BuiltMutant(mutant, built, task.entry)] if isinstance(built, Build) else []
    order = {mutant: index for index, mutant in enumerate(drawn)}
    return sorted(all_built, key=lambda one: order[one.mutant])


def _without_bad(task: Task, batch: list[Mutant], log: str) -> list[Mutant] | None:
    """The mutants of a file that nvcc did not name; None where it named none of them, or all."""
    ends = []
    lines = _headers(task, batch).count("\n")
    for index, mutant in enumerate(batch):
        lines += _wrapped(task, index, mutant.source).count("\n")
        ends.append(lines)
    named = {
        next((i for i, end in enumerate(ends) if int(line) <= end), -1)
        for line in re.findall(r"^line (\d+): (?:error|catastrophic)", log, re.MULTILINE)
    } - {-1}
    good = [m for i, m in enumerate(batch) if i not in named]
    return good if named and (good or len(batch) == 1) else None


def _together(task: Task, batch: Sequence[Mutant]) -> str:
    """One source with a launcher for each mutant."""
    wrapped = (_wrapped(task, i, m.source) for i, m in enumerate(batch))
    return _headers(task, batch) + "".join(wrapped)


def _headers(task: Task, batch: Sequence[Mutant]) -> str:
    """What all mutants of a file include."""
    included = _includes(_with_launcher(task, 0, batch[0].source))
    return "\n".join([*included, "#include <cuda_fp16.h>", ""])


def _with_launcher(task: Task, index: int, source: str) -> str:
    """A source, and after it the launcher that a [binding] says, unless it has one."""
    if not needs_launcher(task, source):
        return source
    return source + launcher_within(task, source, _space(index), _table(index))


def _wrapped(task: Task, index: int, source: str) -> str:
    """A mutant in a namespace of its own, line by line where it was. What it exports gets names of
    its own."""
    source = _with_launcher(task, index, source)
    code = EditableCode(source)
    exported = {task.entry, *_exported(source)}
    for token in reversed(code):
        if token.text in exported and token.kind == "name":
            end = token.at + len(token.text)
            source = source[: token.at] + f"{token.text}_mutant_{index}" + source[end:]
    lines = source.split("\n")
    for token in tokens(source):
        if token.kind == "directive" and token.text == "include":
            lines[token.line - 1] = ""
    table = ["#undef ASTRA_OPERATORS", f'#define ASTRA_OPERATORS "{_table(index)}"']
    return "\n".join(
        [*(table if task.binding else ()), f"namespace {_space(index)} {{", *lines, "}", ""]
    )


def _exported(source: str) -> Iterator[str]:
    """Names of the functions that a source declares extern "C", each by itself."""
    found = list(tokens(source))
    for at, token in enumerate(found[:-1]):
        if token.text == "extern" and found[at + 1].text == '"C"':
            for name, opened in pairwise(found[at + 2 :]):
                if name.text in ("{", ";", "="):
                    break
                if opened.text == "(" and name.kind == "name" and name.text[:2] != "__":
                    yield name.text
                    break


def _space(index: int) -> str:
    return f"astra_mutant_{index}"


def _table(index: int) -> str:
    """The table in which a mutant registers its operators."""
    return f"astra_operators_{index}"


def _includes(source: str) -> list[str]:
    lines = source.split("\n")
    includes = [
        lines[token.line - 1]
        for token in tokens(source)
        if token.kind == "directive" and token.text == "include"
    ]
    return list(dict.fromkeys(includes))


def _entry(task: Task, index: int) -> str:
    return f"{task.entry}_mutant_{index}"


STOP = "assert(0);"
"""On host and device alike; <cassert> declares it."""
HEADER = "#include <cassert>\n"
_BEFORE_BLOCK = (")", "else", "do", "try", ";", "{", "}", ":", "]", "const", "noexcept", "mutable")


def probe(source: str, changed: str) -> str | None:
    """The source with a stop at the start of the innermost block that a change stands in; None
    where it stands in none. A statement without braces counts as the block around it."""
    pairs = enumerate(zip(source, changed, strict=False))
    place = next((at for at, (a, b) in pairs if a != b), min(len(source), len(changed)))
    code = EditableCode(source)
    inner = next(_blocks(code, place), None)
    if inner is None:
        return None
    at = code.end(inner)
    return f"{HEADER}{source[:at]} {STOP}{source[at:]}"


def _blocks(code: EditableCode, place: int) -> Iterator[int]:
    """Tokens behind which a statement may stand, of the blocks around a place, innermost first: the
    opening brace, or the last label of a switch."""
    index = next((at for at, token in enumerate(code) if token.at >= place), len(code))
    while (index := code.around(index)) >= 0:
        if code.text(code.opening(index - 1) - 1) == "switch":
            if (label := _last_label(code, index, place)) is not None:
                yield label
        elif code.text(index) == "{" and code.text(index - 1) in _BEFORE_BLOCK:
            yield index


def _last_label(code: EditableCode, index: int, place: int) -> int | None:
    """The colon of the last case of a switch before a place."""
    found, in_label = None, False
    for at in range(index + 1, len(code)):
        if code.start(at) >= place:
            break
        if code.around(at) == index:
            in_label = in_label or code.text(at) in ("case", "default")
            if in_label and code.text(at) == ":":
                found, in_label = at, False
    return found
