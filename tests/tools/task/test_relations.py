"""Extents that do not meet a relation are changed until they do."""

from __future__ import annotations

import pytest

from astra_chat.tools.task.contract import Dim
from astra_chat.tools.task.relations import broken, settled

DIMS = {
    "a": Dim(min=1, max=100),
    "b": Dim(min=4, max=64, multiple_of=4),
    "c": Dim.model_validate({"values": [8, 16, 128]}),
}


@pytest.mark.parametrize(
    ("relation", "keep"),
    [
        ("a <= b", ()),
        ("a <= b", ("a",)),
        ("a >= b + 8", ()),
        ("a == b * 2", ()),
        ("b * 2 == a", ()),
        ("a % b == 0", ()),
        ("a % 3 == 1", ()),
        ("a < c", ("a",)),
        ("b != c", ()),
        ("c > a", ("a",)),
        ("a * b >= 1", ()),
    ],
)
def test_one_dim_is_set(relation: str, keep: tuple[str, ...]) -> None:
    start = {"a": 50, "b": 16, "c": 16}
    found = settled([relation], DIMS, start, "float16", keep)
    assert found is not None and not broken([relation], found)
    assert all(DIMS[name].allows(extent, "float16") for name, extent in found.items())
    assert all(found[name] == start[name] for name in keep)


def test_what_holds_stays_as_it_is() -> None:
    start = {"a": 50, "b": 16, "c": 16}
    assert settled(["a >= b"], DIMS, start, "float16") == start


def test_several_relations_and_none() -> None:
    both = ["a <= b", "a % 2 == 0"]
    assert settled(both, DIMS, {"a": 51, "b": 16, "c": 8}, "float16") == {"a": 16, "b": 16, "c": 8}
    assert settled(["a > 1000"], DIMS, {"a": 5, "b": 4, "c": 8}, "float16") is None
    assert settled(["a * a == 2"], DIMS, {"a": 5, "b": 4, "c": 8}, "float16") is None
    assert broken(["a // (b - 4) > 1"], {"a": 1, "b": 4}) != ""
