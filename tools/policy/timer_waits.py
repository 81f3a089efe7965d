"""What a kernel's timer decides, by the structure of its PTX and nothing that names a line or file.

libcu++'s waits (cuda::barrier, cuda::pipeline) poll, and sleep longer the longer they have waited.
For that they read %globaltimer. It is let pass where the time decides how long a thread sleeps
within a loop that polls, and nothing else:

- What is computed from the time is used by arithmetic, by nanosleep and by branches alone.
- Such a branch stands in a loop that polls. What it chooses between is arithmetic and sleeping,
  ends where its ways meet again and goes round no loop; what is computed there counts as computed
  from the time.

So no value that leaves the loop, no store and no way out of the loop depends on the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from astra_chat.tools.policy.control_graph import Graph, components, immediate_postdominators
from astra_chat.tools.policy.ptx_audit import bodies

TIMER = re.compile(r"%globaltimer(_lo|_hi)?\b")
_PURE = re.compile(
    r"(mov|cvt|add|addc|sub|subc|mul|mul24|mad|mad24|madc|div|rem|abs|neg|min|max|shl|shr|shf|and|or"
    r"|xor|not|cnot|lop3|bfe|bfi|prmt|setp|set|selp|slct|sad|nanosleep)(\.|$)"
)
_POLL = re.compile(
    r"mbarrier\.(try_wait|test_wait)\b|(ld\.(\w+\.)*?(acquire|relaxed|volatile)|atom)\b[\w.:]*"
)
_LABEL = re.compile(r"\s*([\w$%]+)\s*:(?!:)")
_NAME = re.compile(r"[%$A-Za-z_][\w$%]*")
_GUARD = re.compile(r"@\s*!?\s*([\w$%]+)\s+")
_JUMP = re.compile(r"bra(\.uni)?\s+([\w$%]+)")
_ENDS = re.compile(r"(ret|exit|trap)\b")
MOST_STATEMENTS = 200_000
"""More are not looked through."""


@dataclass(frozen=True)
class _Step:
    """An instruction; `text` without labels and guard."""

    guard: str
    text: str

    @property
    def opcode(self) -> str:
        return self.text.split(None, 1)[0] if self.text else ""

    @property
    def written(self) -> frozenset[str]:
        return frozenset(_NAME.findall(self._operands()[0]))

    @property
    def used(self) -> frozenset[str]:
        return frozenset(_NAME.findall(self._operands()[1])) | ({self.guard} - {""})

    def _operands(self) -> tuple[str, str]:
        words = self.text.split(None, 1)
        operands = words[1] if len(words) > 1 else ""
        if not _PURE.match(self.opcode) or self.opcode.startswith("nanosleep"):
            return "", operands
        first = re.match(r"\{[^}]*\}|[^,]*", operands)
        assert first is not None  # it may match nothing
        return first[0], operands[first.end() :]


def only_sleeps(ptx: str) -> bool:
    """Whether some function reads the timer, and each that does sleeps by it while it polls."""
    found = [_only_sleeps(body) for body in bodies(ptx) if TIMER.search(body)]
    return bool(found) and all(found)


def _only_sleeps(body: str) -> bool:
    steps, labels = _read(body)
    if len(steps) > MOST_STATEMENTS:
        return False
    graph = Graph.of([_after(at, step, labels) for at, step in enumerate(steps)])
    polling = {
        at
        for component in components(graph)
        if any(_POLL.match(steps[at].text) for at in component)
        for at in component
    }
    return _Flow(steps, graph, frozenset(polling)).holds()


def _read(body: str) -> tuple[list[_Step], dict[str, int]]:
    """The statements of a body in order, and which of them each label stands before."""
    steps: list[_Step] = []
    labels: dict[str, int] = {}
    for statement in body.split(";"):
        text = statement
        while match := re.match(r"\s*[{}]", text) or _LABEL.match(text):
            if match.re is _LABEL:
                labels[match[1]] = len(steps)
            text = text[match.end() :]
        text = " ".join(text.split())
        if text and not text.startswith("."):
            guard = _GUARD.match(text)
            steps.append(_Step(guard[1] if guard else "", text[guard.end() if guard else 0 :]))
    return steps, labels


def _after(at: int, step: _Step, labels: dict[str, int]) -> list[int]:
    """Statements that may come next; one behind the last is the end."""
    jump = _JUMP.match(step.text)
    if step.opcode.startswith("brx"):
        return sorted(set(labels.values()))
    ends = bool(_ENDS.match(step.text))
    after = [labels[jump[2]]] if jump and jump[2] in labels else []
    return after if (jump or ends) and not step.guard else [*after, at + 1]


class _Flow:
    """What the time flows into."""

    def __init__(self, steps: list[_Step], graph: Graph, polling: frozenset[int]) -> None:
        self._steps, self._graph, self._polling = steps, graph, polling
        self._meets = immediate_postdominators(graph)
        self._timed: set[str] = set()
        self._chosen: set[int] = set()
        """Statements that a branch on the time chooses."""

    def holds(self) -> bool:
        known = (-1, -1)
        while known != (known := (len(self._timed), len(self._chosen))):
            for at, step in enumerate(self._steps):
                if not self._passes(at, step):
                    return False
        return True

    def _passes(self, at: int, step: _Step) -> bool:
        reads = bool(TIMER.search(step.text))
        depends = reads or at in self._chosen or bool(step.used & self._timed)
        if not depends:
            return True
        if _JUMP.match(step.text):
            return step.guard not in self._timed or self._chooses(at)
        if not _PURE.match(step.opcode) or (reads and not step.opcode.startswith("mov.")):
            return False
        self._timed |= step.written
        return True

    def _chooses(self, at: int) -> bool:
        """Note what the branch chooses between; False where that is more than a pause."""
        meet = self._meets.get(at)
        if at not in self._polling or meet is None or meet >= len(self._steps):
            return False
        region = set(_between(self._graph, at, meet))
        self._chosen |= region
        return at not in region


def _between(graph: Graph, start: int, end: int) -> Iterator[int]:
    """Statements on the ways from behind `start` to before `end`."""
    waiting, seen = [*graph.after[start]], {end}
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            yield at
            waiting += graph.after[at]
