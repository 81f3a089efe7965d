"""Control flow of a PTX function: its loops, and where the ways of a branch meet again."""

from __future__ import annotations

from dataclasses import dataclass


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
