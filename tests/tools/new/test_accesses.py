"""Places in tokens: the element of a pointer, what becomes of it, and the data of a tensor."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.accesses import (
    Uses,
    after_fields,
    data_of,
    element,
    is_unary,
    record_access,
)


@pytest.mark.parametrize(
    ("after", "reads", "writes"),
    [
        (["=", "1"], False, True),
        (["=", "=", "1"], True, False),
        (["+", "=", "1"], True, True),
        (["+", "1"], True, False),
        (["-", "-"], True, True),
        ([";"], True, False),
    ],
)
def test_what_follows_an_element(after: list[str], reads: bool, writes: bool) -> None:
    uses = Uses()
    record_access(uses, [";", "x", "[", "0", "]", *after, ";"], 1, 5)
    assert (uses.reads, uses.writes) == (reads, writes)


def test_elements_by_their_type() -> None:
    assert element("const int64_t * __restrict__") == "int64_t"
    assert element("typename T *") == "T" and element("at::Half*") == "at::Half"


def test_the_data_of_a_tensor() -> None:
    texts = ["x", ".", "data_ptr", "<", "float", ">", "(", ")", "+", "1", ";"]
    uses = Uses()
    assert data_of(uses, texts, 0) == (0, 8) and uses.elements == ["float"]
    assert data_of(Uses(), ["x", ".", "size", "(", ")", ";"], 0)[0] == -1


def test_fields_and_signs() -> None:
    assert after_fields(["x", ".", "y", "[", "1", "]", ";"], 1) == 6
    assert is_unary(["=", "*", "x"], 1) and not is_unary(["a", "&", "x"], 1)


def test_uses_add_up() -> None:
    uses = Uses(reads=True, elements=["float"])
    uses.add(Uses(writes=True, unclear={"f"}, elements=["float", "int"]))
    assert uses.reads and uses.writes and uses.unclear == {"f"}
    assert uses.elements == ["float", "int"]
