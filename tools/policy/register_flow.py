"""What special registers decide in a kernel, by the structure of its PTX: no line or file counts.

Two are let pass where what is computed from them stays where it belongs.

libcu++'s waits (cuda::barrier, cuda::pipeline) poll, and sleep longer the longer they have waited.
For that they read %globaltimer. It is let pass where the time decides how long a thread sleeps
within a loop that polls, and nothing else:

- What is computed from the time is used by arithmetic, by nanosleep and by branches alone.
- Such a branch stands in a loop that polls. What it chooses between is arithmetic and sleeping,
  ends where its ways meet again and goes round no loop; what is computed there counts as computed
  from the time.

So no value that leaves the loop, no store and no way out of the loop depends on the time.

grid.sync() of cooperative groups finds its barrier by %envreg1 and %envreg2. They are let pass
where they give an address that is added to by atomics and loaded from, and where what is loaded is
used by arithmetic and by branches alone. Such a branch goes round a loop that loads, or chooses
between going on and a trap. So what stood in the barrier decides how long a thread waits there, and
nothing else.

Besides, a wait at an mbarrier may give up: what it returns has to decide something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from astra_chat.tools.policy.ptx_audit import bodies

TIMER = re.compile(r"%globaltimer(_lo|_hi)?\b")
BARRIER_OF_GRID = re.compile(r"%envreg[012]\b")
_PURE = re.compile(
    r"(mov|cvt|add|addc|sub|subc|mul|mul24|mad|mad24|madc|div|rem|abs|neg|min|max|shl|shr|shf|and|or"
    r"|xor|not|cnot|lop3|bfe|bfi|prmt|setp|set|selp|slct|sad|nanosleep)(\.|$)"
)
_POLL = re.compile(
    r"mbarrier\.(try_wait|test_wait)\b|(ld\.(\w+\.)*?(acquire|relaxed|volatile)|atom)\b[\w.:]*"
)
_WAIT = re.compile(r"mbarrier\.(try_wait|test_wait)\b")
_LOAD = re.compile(r"ld\.(\w+\.)*?(acquire|relaxed|volatile)\b")
_ATOMIC = re.compile(r"(atom|red)\.[\w.:]*\badd\b")
_ADDRESS = re.compile(r"\[[^\]]*\]")
_LABEL = re.compile(r"\s*([\w$%]+)\s*:(?!:)")
_NAME = re.compile(r"[%$A-Za-z_][\w$%]*")
_GUARD = re.compile(r"@\s*!?\s*([\w$%]+)\s+")
_JUMP = re.compile(r"bra(\.uni)?\s+([\w$%]+)")
_ENDS = re.compile(r"(ret|exit)\b")
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
        writes = _PURE.match(self.opcode) or self.opcode.startswith(("ld.", "atom."))
        if not writes or self.opcode.startswith("nanosleep"):
            return "", operands
        first = re.match(r"\{[^}]*\}|[^,]*", operands)
        assert first is not None  # it may match nothing
        return first[0], operands[first.end() :]


def only_sleeps(ptx: str) -> bool:
    """Whether some function reads the timer, and each that does sleeps by it while it polls."""
    return _each(ptx, TIMER, _Pauses)


def only_grid_sync(ptx: str) -> bool:
    """Whether some function reads where the grid's barrier is, and each that does waits there."""
    return _each(ptx, BARRIER_OF_GRID, _WaitsForGrid)


def ignored_wait(ptx: str) -> str | None:
    """A wait at an mbarrier whose result nothing depends on; None where there is none. The virtual
    GPU never gives up a wait, and a GPU does so after some time."""
    for body in bodies(ptx):
        if "mbarrier.t" in body:
            steps, labels = _read(body)
            after = Graph.of([_after(at, step, labels) for at, step in enumerate(steps)]).after
            for at, step in enumerate(steps):
                if _WAIT.match(step.opcode) and not _decides(steps, after, at):
                    return step.opcode
    return None


def _decides(steps: Sequence[_Step], after: Sequence[Sequence[int]], wait: int) -> bool:
    """Whether what a wait returns reaches more than arithmetic."""
    waiting = [(at, name) for name in _result(steps[wait]) for at in after[wait]]
    seen = set(waiting)
    while waiting:
        at, name = waiting.pop()
        if at == len(steps):
            continue
        step, result = steps[at], _result(steps[at])
        uses = name in step.used - result
        if uses and (step.guard == name or not _PURE.match(step.opcode)):
            return True
        names = set(step.written) if uses else set[str]()
        if step.guard or name not in step.written | result:
            names.add(name)
        new = {(other, one) for other in after[at] for one in names} - seen
        seen |= new
        waiting += new
    return False


def _result(step: _Step) -> set[str]:
    """What a wait at an mbarrier returns in; nothing of any other instruction."""
    first = _NAME.match(step.text.partition(" ")[2]) if _WAIT.match(step.opcode) else None
    return {first[0]} if first else set()


def _each(ptx: str, source: re.Pattern[str], flow: type[_Flow]) -> bool:
    found = [_holds(body, source, flow) for body in bodies(ptx) if source.search(body)]
    return bool(found) and all(found)


def _holds(body: str, source: re.Pattern[str], flow: type[_Flow]) -> bool:
    steps, labels = _read(body)
    if len(steps) > MOST_STATEMENTS:
        return False
    graph = Graph.of([_after(at, step, labels) for at, step in enumerate(steps)])
    return flow(steps, graph, source).holds()


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
    """What a register flows into."""

    def __init__(self, steps: list[_Step], graph: Graph, source: re.Pattern[str]) -> None:
        self._steps, self._graph, self._source = steps, graph, source
        self._meets = immediate_postdominators(graph)
        self._known: set[str] = set()
        """Registers with something computed from it."""
        self._chosen: set[int] = set()
        """Statements that a branch on it chooses."""

    def holds(self) -> bool:
        before = (-1, -1)
        while before != (now := (len(self._known), len(self._chosen))):
            before = now
            if not all(self._passes(at, step) for at, step in enumerate(self._steps)):
                return False
        return True

    def _passes(self, at: int, step: _Step) -> bool:
        reads = bool(self._source.search(step.text))
        if not (reads or at in self._chosen or step.used & self._known):
            return True
        if _JUMP.match(step.text):
            return step.guard not in self._known or self._chooses(at)
        if not (_PURE.match(step.opcode) or self._also(at, step)):
            return False
        if reads and not step.opcode.startswith("mov."):
            return False
        self._known |= step.written
        return True

    def _chooses(self, at: int) -> bool:
        """Note what the branch chooses between; False where that is more than is let pass."""
        meet = self._meets.get(at)
        if meet is None or meet >= len(self._steps):
            return False
        region = set(_between(self._graph, at, meet))
        self._chosen |= region
        return self._may_choose(at, region)

    def _also(self, at: int, step: _Step) -> bool:
        """Whether a statement that is no arithmetic is let pass."""
        raise NotImplementedError

    def _may_choose(self, at: int, region: set[int]) -> bool:
        """Whether a branch may choose between these statements, as far as where it stands goes."""
        raise NotImplementedError


class _Pauses(_Flow):
    """The timer, by which a thread sleeps while it polls."""

    def __init__(self, steps: list[_Step], graph: Graph, source: re.Pattern[str]) -> None:
        super().__init__(steps, graph, source)
        loops = components(graph)
        polls = (loop for loop in loops if any(_POLL.match(steps[at].text) for at in loop))
        self._polling = {at for loop in polls for at in loop}

    def _also(self, at: int, step: _Step) -> bool:
        return False

    def _may_choose(self, at: int, region: set[int]) -> bool:
        return at in self._polling and at not in region


class _WaitsForGrid(_Flow):
    """The address of the grid's barrier, at which a thread waits."""

    def _also(self, at: int, step: _Step) -> bool:
        if step.opcode.startswith("trap"):
            return True
        if _LOAD.match(step.opcode):
            return bool(self._in_address(step))
        data = set(_NAME.findall(_ADDRESS.sub("", step.text.partition(",")[2])))
        return bool(
            _ATOMIC.match(step.opcode)
            and at not in self._chosen
            and step.guard not in self._known
            and self._in_address(step)
            and not data & self._known
        )

    def _in_address(self, step: _Step) -> set[str]:
        return set(_NAME.findall(" ".join(_ADDRESS.findall(step.text)))) & self._known

    def _may_choose(self, at: int, region: set[int]) -> bool:
        loads = any(_LOAD.match(self._steps[one].opcode) for one in region)
        return at not in region or loads


def _between(graph: Graph, start: int, end: int) -> Iterator[int]:
    """Statements on the ways from behind `start` to before `end`."""
    waiting, seen = [*graph.after[start]], {end}
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            yield at
            waiting += graph.after[at]


# Control flow of a PTX function: its loops, and where the ways of a branch meet again.


@dataclass(frozen=True)
class Graph:
    """Nodes 0 to n - 1 and the end, n, which has no successor."""

    after: list[list[int]]
    before: list[list[int]]

    @classmethod
    def of(cls, after: list[list[int]]) -> Graph:
        """`after`: the successors of each node but the end; a node without any ends."""
        end = len(after)
        whole = [[min(node, end) for node in nodes] or [end] for nodes in after]
        before: list[list[int]] = [[] for _ in range(end + 1)]
        for node, nodes in enumerate(whole):
            for other in nodes:
                before[other].append(node)
        return cls([*whole, []], before)


def components(graph: Graph) -> list[list[int]]:
    """The loops: sets of nodes that all reach each other, of two nodes or of one that reaches
    itself."""
    order = _finished(graph.after, range(len(graph.after)))
    seen = [False] * len(order)
    found: list[list[int]] = []
    for root in reversed(order):
        members, waiting = list[int](), [] if seen[root] else [root]
        while waiting:
            node = waiting.pop()
            if not seen[node]:
                seen[node] = True
                members.append(node)
                waiting += [other for other in graph.before[node] if not seen[other]]
        if len(members) > 1 or (members and members[0] in graph.after[members[0]]):
            found.append(members)
    return found


def immediate_postdominators(graph: Graph) -> dict[int, int]:
    """For each node that reaches the end the first node that every way from it goes through.

    Source: Cooper, Harvey and Kennedy, A Simple, Fast Dominance Algorithm, on the reversed graph.
    """
    end = len(graph.after) - 1
    order = _finished(graph.before, [end])
    number = {node: place for place, node in enumerate(order)}
    found = {end: end}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [other for other in graph.after[node] if other in found]
            meet = known[0]
            for other in known[1:]:
                meet = _meet(meet, other, found, number)
            changed |= found.get(node) != meet
            found[node] = meet
    return {node: meet for node, meet in found.items() if node != end}


def _meet(one: int, other: int, found: dict[int, int], number: dict[int, int]) -> int:
    while one != other:
        while number[one] < number[other]:
            one = found[one]
        while number[other] < number[one]:
            other = found[other]
    return one


def _finished(edges: list[list[int]], roots: list[int] | range) -> list[int]:
    """Nodes in the order in which a search in depth leaves them."""
    order: list[int] = []
    seen = [False] * len(edges)
    for root in roots:
        stack = [] if seen[root] else [(root, iter(edges[root]))]
        seen[root] = True
        while stack:
            node, others = stack[-1]
            following = next((other for other in others if not seen[other]), None)
            if following is None:
                order.append(node)
                stack.pop()
            else:
                seen[following] = True
                stack.append((following, iter(edges[following])))
    return order
