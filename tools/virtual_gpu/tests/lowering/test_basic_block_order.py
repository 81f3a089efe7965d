"""Weak topological order on random graphs, by its definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_vgpu.lowering.basic_block_order import (
    shared_latches,
    weak_topological_order,
)

GRAPHS = st.integers(1, 9).flatmap(
    lambda size: st.lists(
        st.lists(st.integers(0, size - 1), max_size=3), min_size=size, max_size=size
    )
)


def reachable(graph: list[list[int]], start: int) -> set[int]:
    seen, work = {start}, [start]
    while work:
        for vertex in graph[work.pop()]:
            if vertex not in seen:
                seen.add(vertex)
                work.append(vertex)
    return seen


@given(GRAPHS)
def test_it_lists_what_the_entry_reaches_once(graph: list[list[int]]) -> None:
    order = weak_topological_order(graph)
    assert order[0] == 0 and sorted(order) == sorted(reachable(graph, 0))


@given(GRAPHS)
def test_loops_are_contiguous_and_exits_follow(graph: list[list[int]]) -> None:
    """Vertices on a common cycle stand together; every edge between such groups goes forward."""
    order = weak_topological_order(graph)
    reach = {v: reachable(graph, v) for v in order}
    group = {v: frozenset(u for u in order if u in reach[v] and v in reach[u]) for v in order}
    runs = [group[v] for i, v in enumerate(order) if i == 0 or group[order[i - 1]] != group[v]]
    assert len(runs) == len(set(runs))
    place = {v: i for i, v in enumerate(order)}
    for v in order:
        for u in graph[v]:
            assert place[u] > place[v] or group[u] == group[v]


def test_an_if_with_its_cold_side_placed_behind() -> None:
    """The join runs last wherever the text puts it."""
    assert weak_topological_order([[2, 1], [3], [1], []]) == [0, 2, 1, 3]


def test_a_loop_with_a_break_ends_before_its_exit() -> None:
    graph = [[1], [2, 4], [3, 4], [1], []]
    assert weak_topological_order(graph) == [0, 1, 2, 3, 4]


@pytest.mark.second_tier
def test_deep_graphs_do_not_recurse() -> None:
    count = 20_000
    graph = [[n + 1] for n in range(count)] + [[]]
    assert weak_topological_order(graph) == list(range(count + 1))


# A loop 1, 2, 3: from 2 back to its head, or by 3, or out.
TWO_BACK_EDGES = [[1], [2, 4], [1, 3], [1], []]


def test_lanes_that_come_back_another_way_are_waited_for() -> None:
    """The loop ends in an if, as nvcc writes it: a shuffle in its head is for all lanes."""
    assert shared_latches(TWO_BACK_EDGES, [False, True, False, False, False]) == {1: [2, 3]}


def test_lanes_do_not_wait_for_those_who_meet_on_their_way_back() -> None:
    """An inner loop that has the outer one's head: its lanes go round until all have left it."""
    assert shared_latches(TWO_BACK_EDGES, [False, True, False, True, False]) == {}
    assert shared_latches(TWO_BACK_EDGES, [False] * 5) == {}, "where none meet, none wait"


def test_one_back_edge_stays_as_it_is() -> None:
    assert shared_latches([[1], [2, 3], [1], []], [True] * 4) == {}
