"""Mutants: faults drawn evenly over the operators, built together in few files.

All mutants of a file share one nvcc call, each in a namespace of its own with a launcher of its own
name (after Untch, Offutt and Harrold's mutant schemata, ISSTA 1993): twelve mutants cost two or
three compilations instead of twelve.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

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
    for _ in range(TRIES):
        builds = build_all(task, [_together(task, b) for b in batches], device, stop)
        again: list[list[Mutant]] = []
        for batch, built in zip(batches, builds, strict=True):
            if isinstance(built, Build):
                all_built += [BuiltMutant(m, built, _entry(task, i)) for i, m in enumerate(batch)]
            elif isinstance(built, BuildFailed):
                again += _without_bad(task, batch, built.log)
        batches = again
        if not batches:
            break
    order = {mutant: index for index, mutant in enumerate(drawn)}
    return sorted(all_built, key=lambda one: order[one.mutant])


def _without_bad(task: Task, batch: list[Mutant], log: str) -> list[list[Mutant]]:
    """The mutants of a file that nvcc did not name; all apart where it named none of them."""
    ends = []
    lines = len(_includes(batch[0].source)) + 1
    for index, mutant in enumerate(batch):
        lines += _wrapped(task, index, mutant.source).count("\n")
        ends.append(lines)
    named = {
        next((i for i, end in enumerate(ends) if int(line) <= end), -1)
        for line in re.findall(r"^line (\d+): (?:error|catastrophic)", log, re.MULTILINE)
    } - {-1}
    good = [m for i, m in enumerate(batch) if i not in named]
    if named:
        return [good] if good else []
    return [[mutant] for mutant in batch] if len(batch) > 1 else []


def _together(task: Task, batch: Sequence[Mutant]) -> str:
    """One source with a launcher for each mutant."""
    headers = "\n".join([*_includes(batch[0].source), "#include <cuda_fp16.h>", ""])
    return headers + "".join(_wrapped(task, i, m.source) for i, m in enumerate(batch))


def _wrapped(task: Task, index: int, source: str) -> str:
    """A mutant in a namespace of its own, line by line where it was."""
    for token in reversed(EditableCode(source)):
        if token.text == task.entry and token.kind == "name":
            end = token.at + len(token.text)
            source = source[: token.at] + _entry(task, index) + source[end:]
    lines = source.split("\n")
    for token in tokens(source):
        if token.kind == "directive" and token.text == "include":
            lines[token.line - 1] = ""
    return "\n".join([f"namespace astra_mutant_{index} {{", *lines, "}", ""])


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
