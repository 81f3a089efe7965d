"""A basic block as C: statements for each lane, fused into loops, between calls for the warp.

Registers and temporaries are variables x0, x1, ... of a lane; X0, X1, ... are the arrays of all
lanes. A variable gets an array only where it must outlive a loop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

LOOP_STATEMENTS = 48
"""Most statements in a loop: more would only spill."""
_SCALAR = re.compile(r"\bx(\d+)\b")
_ARRAY = re.compile(r"\bX(\d+)\b")
_LANE = re.compile(r"\bl\b")


@dataclass(frozen=True)
class Step:
    """A statement for each lane, or, with `warp`, one for all of them."""

    text: str
    """The expression that the target takes; without a target a whole statement."""
    target: int | None = None
    guard: str = ""
    """Condition of a lane; where it is false the target keeps its old value."""
    masked: bool = False
    """Whether lanes that are not active keep the target's old value."""
    warp: bool = False
    scalar: bool = False
    """The host compiler cannot vectorise it: it stays in a loop of its own."""

    @property
    def scalars(self) -> set[int]:
        keeps = {self.target} if self.target is not None and (self.guard or self.masked) else set()
        return {int(n) for n in _SCALAR.findall(self.text + " " + self.guard)} | keeps

    @property
    def arrays(self) -> set[int]:
        return {int(n) for n in _ARRAY.findall(self.text)}


@dataclass
class Variables:
    """All variables of a kernel, by number."""

    types: list[str] = field(default_factory=list)
    crossing: set[int] = field(default_factory=set)
    """Variables that live across basic blocks, in the warp's memory."""
    uniform: dict[int, str] = field(default_factory=dict)
    """Constants that are equal in all lanes: number to expression, in order of definition."""

    def new(self, c_type: str, *, crossing: bool = False) -> int:
        self.types.append(c_type)
        if crossing:
            self.crossing.add(len(self.types) - 1)
        return len(self.types) - 1

    def array(self, number: int) -> str:
        return f"R->x{number}" if number in self.crossing else f"X{number}"


def find_uniform(blocks: Iterable[Sequence[Step]], variables: Variables) -> None:
    """Notes the variables whose one definition depends on no lane and on nothing that changes."""
    steps = [step for block in blocks for step in block]
    written = Counter(step.target for step in steps if step.target is not None)
    fixed = {n for step in steps if step.warp for n in step.arrays}
    candidates = [
        step
        for step in steps
        if step.target is not None
        and written[step.target] == 1
        and not step.guard
        and step.target not in fixed
        and not _LANE.search(step.text)
    ]
    changed = True
    while changed:
        changed = False
        for step in candidates:
            assert step.target is not None
            sources = step.scalars - {step.target}
            if step.target not in variables.uniform and sources <= variables.uniform.keys():
                variables.uniform[step.target] = step.text
                changed = True


def block_text(steps: Sequence[Step], variables: Variables) -> list[str]:
    """Lines of C."""
    steps = [s for s in steps if s.target is None or s.target not in variables.uniform]
    runs = _runs(steps)
    arrays = _arrays(runs, variables)
    lines = [
        f"{variables.types[n]} X{n}[LANES] ALIGNED;" for n in sorted(arrays - variables.crossing)
    ]
    for run in runs:
        if run[0].warp:
            lines.append(_with_arrays(run[0].text, variables))
        else:
            lines += _loop(run, arrays | variables.crossing, variables)
    return lines


def _runs(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps that share a loop; a warp's step is alone."""
    runs: list[list[Step]] = []
    for step in steps:
        last = runs[-1] if runs else None
        joins = (
            last is not None
            and not step.warp
            and not last[0].warp
            and last[0].scalar == step.scalar
            and len(last) < LOOP_STATEMENTS
        )
        if joins and last is not None:
            last.append(step)
        else:
            runs.append([step])
    return runs


def _arrays(runs: Sequence[Sequence[Step]], variables: Variables) -> set[int]:
    """Variables that need an array in this block: a warp's step names it, or several loops do."""
    loops: Counter[int] = Counter()
    named: set[int] = set()
    for run in runs:
        if run[0].warp:
            named |= run[0].arrays
        touched = {n for s in run for n in (*s.scalars, s.target) if n is not None}
        loops.update(touched)
    several = {n for n, count in loops.items() if count > 1}
    return (named | several) - variables.uniform.keys()


def _with_arrays(text: str, variables: Variables) -> str:
    return _ARRAY.sub(lambda match: variables.array(int(match[1])), text)


def _loop(run: Sequence[Step], arrays: set[int], variables: Variables) -> list[str]:
    declared: set[int] = set()
    body: list[str] = []
    if any(step.masked for step in run):
        body.append("const uint32_t act = kept >> l & 1;")
    for step in run:
        for number in sorted(step.scalars - declared - variables.uniform.keys()):
            known = f" = {variables.array(number)}[l]" if number in arrays else " = 0"
            body.append(f"{variables.types[number]} x{number}{known};")
            declared.add(number)
        body.append(_statement(step, declared, variables))
        if step.target is not None:
            declared.add(step.target)
    written = {step.target for step in run if step.target is not None}
    body += [f"{variables.array(n)}[l] = x{n};" for n in sorted(written & arrays)]
    return ["LOOP {", *(f"  {line}" for line in body), "}"]


def _statement(step: Step, declared: set[int], variables: Variables) -> str:
    if step.target is None:
        return step.text
    name = f"x{step.target}"
    conditions = [c for c in ("act" if step.masked else "", step.guard) if c]
    if conditions:
        return f"{name} = {' & '.join(conditions)} ? {step.text} : {name};"
    prefix = "" if step.target in declared else f"{variables.types[step.target]} "
    return f"{prefix}{name} = {step.text};"
