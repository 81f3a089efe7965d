"""Order of basic blocks in which divergent lanes of a warp reconverge.

A scheduler that always runs the earliest block with pending lanes, in a weak topological order
(F. Bourdoncle, "Efficient chaotic iteration strategies with widenings", 1993), reconverges lanes
without post-dominators or a stack: loops are contiguous and a loop's exits come after its body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Graph = Sequence[Sequence[int]]
"""Successors of each vertex."""


def weak_topological_order(successors: Graph, entry: int = 0) -> list[int]:
    """Vertices reachable from `entry`: components contiguous, each head first, exits after."""
    order: list[int] = []

    def visit(vertices: set[int], roots: Sequence[int]) -> None:
        for head, *rest in _Components(vertices, successors).found_from(roots):
            order.append(head)
            if rest:
                visit(set(rest), [v for v in successors[head] if v in rest])

    visit(set(range(len(successors))), [entry])
    return order


def shared_latches(successors: Graph, meets: Sequence[bool]) -> dict[int, list[int]]:
    """Back edges of loops whose lanes go on together: by loop head, the vertices where they begin.

    Lanes at a loop's head run before those that are still in its body. Where a loop has several
    back edges the first to come back would pass the head alone: a full warp's shuffle there would
    miss the others. So lanes wait for those that come back without meeting other lanes on their
    way. `meets` says in which vertices lanes meet: shuffles, votes, barriers.
    """
    joined: dict[int, list[int]] = {}

    def visit(vertices: set[int], roots: Sequence[int]) -> None:
        for head, *rest in _Components(vertices, successors).found_from(roots):
            body = set(rest)
            if any(meets[vertex] for vertex in (head, *rest)):
                back = [v for v in (head, *rest) if head in successors[v]]
                alone = [v for v in back if not any(meets[r] for r in _onward(v, body, successors))]
                if len(alone) > 1:
                    joined[head] = alone
            if rest:
                visit(body, [v for v in successors[head] if v in body])

    visit(set(range(len(successors))), [0])
    return joined


def _onward(vertex: int, body: set[int], successors: Graph) -> set[int]:
    """What a loop's lanes may still run that do not take the back edge of this vertex."""
    seen: set[int] = set()
    left = [v for v in successors[vertex] if v in body]
    while left:
        at = left.pop()
        if at not in seen:
            seen.add(at)
            left += [v for v in successors[at] if v in body]
    return seen


def components(successors: Graph) -> list[list[int]]:
    """The strongly connected parts of a graph, in topological order."""
    vertices = range(len(successors))
    return _Components(set(vertices), successors).found_from(vertices)


class _Components:
    """Strongly connected components of a part of a graph (R. Tarjan, "Depth-first search and
    linear graph algorithms", 1972), without recursion."""

    def __init__(self, vertices: set[int], successors: Graph) -> None:
        self._vertices, self._successors = vertices, successors
        self._number: dict[int, int] = {}
        self._low: dict[int, int] = {}
        self._stack: list[int] = []
        self._found: list[list[int]] = []

    def found_from(self, roots: Sequence[int]) -> list[list[int]]:
        """Components in topological order, each with the vertex that was reached first in front."""
        for root in roots:
            if root not in self._number:
                self._walk(root)
        return self._found[::-1]

    def _walk(self, root: int) -> None:
        work = [self._enter(root)]
        while work:
            vertex, rest = work[-1]
            step = next((v for v in rest if v in self._vertices), None)
            if step is None:
                work.pop()
                self._close(vertex, work[-1][0] if work else None)
            elif step not in self._number:
                work.append(self._enter(step))
            elif step in self._stack:
                self._low[vertex] = min(self._low[vertex], self._number[step])

    def _enter(self, vertex: int) -> tuple[int, Iterator[int]]:
        self._number[vertex] = self._low[vertex] = len(self._number)
        self._stack.append(vertex)
        return vertex, iter(self._successors[vertex])

    def _close(self, vertex: int, parent: int | None) -> None:
        if parent is not None:
            self._low[parent] = min(self._low[parent], self._low[vertex])
        if self._low[vertex] == self._number[vertex]:
            at = self._stack.index(vertex)
            self._found.append(self._stack[at:])
            del self._stack[at:]
