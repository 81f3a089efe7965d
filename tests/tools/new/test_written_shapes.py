"""Shapes that calls tell."""

from __future__ import annotations

from astra_chat.tools.case import Case
from astra_chat.tools.new.draft import Tensor
from astra_chat.tools.new.written_shapes import doubted, same_sizes


def test_a_number_that_all_cases_have_as_a_size_is_in_doubt() -> None:
    cases = [Case(dims={"b": b, "t": 2, "c": 2, "d": 16}, dtype="float32") for b in (1, 3)]
    same = same_sizes(cases)
    assert same == {"2": ["t", "c"], "16": ["d"]}
    result = Tensor("mean", "write", shape=("b", "2"))
    assert doubted(result, "b*2", same).doubts == ("is 2 this number, or t or c?",)
    assert doubted(result, "b*8", same) == result == doubted(result, None, same)
