"""What a function allocates and returns becomes results and a workspace of the contract."""

from __future__ import annotations

from astra_chat.tools.new.made_tensors import MadeTensors, made_in
from astra_chat.tools.types import Case


def call(rows: int, width: int, said: str) -> MadeTensors:
    return MadeTensors(Case(dims={"rows": rows, "width": width}, dtype="float16"), said)


def test_returned_tensors_are_results_and_the_rest_is_a_workspace() -> None:
    said = "allocates 6 [{0}, {1}]\nallocates 5 [{0}]\nreturns 1\nreturns -1"
    calls = [call(r, w, said.format(r, -(-w // 64))) for r, w in ((3, 64), (17, 96), (5, 1000))]
    found = made_in(calls)
    (out, same) = found.returned
    assert out is not None and (out.dtype, out.shape, out.doubts) == ("float16", ("rows",), ())
    assert same is None and found.known
    assert found.workspace == "ceil_div(4*(rows*ceil_div(width, 64)), 256)*256"


def test_what_only_some_calls_allocate_counts_where_they_do() -> None:
    calls = [
        call(3, 64, "allocates 6 [0]"),
        call(17, 96, "allocates 6 [1632]"),
        call(5, 1000, "allocates 6 [5000]"),
    ]
    assert made_in(calls).workspace == "ceil_div(4*(rows*width), 256)*256"
    assert made_in([call(3, 64, "allocates 6 [0]")]).workspace == ""


def test_a_size_that_follows_from_nothing_is_the_most_and_doubtful() -> None:
    calls = [call(3, 64, "allocates 0 [1000]"), call(17, 96, "allocates 0 [77]")]
    found = made_in(calls)
    assert not found.known and found.workspace == "1024"
