"""Values replaced in the text of a task.toml."""

from __future__ import annotations

import tomllib

import pytest

from astra_chat.tools.task.toml_edits import (
    with_dim,
    with_fields,
    with_pair,
    with_rows,
    without_comments,
)

TEXT = """# A contract.
name = "f"  # its name
bench = [
    # Decode.
    { n = 1, s = "]" },  # one
]

# The rest.
scalars = [{ name = "eps", value = 1e-6 }]

# MARK: legal range
# of n
[dims.n]
min = 1
max = 9  # at most

[dims]
m = { values = [3] }
"""


def test_a_list_is_replaced_and_nothing_else() -> None:
    text = with_rows(TEXT, "bench", ["{ n = 2 }", "{ n = 3 }"], "seen")
    assert tomllib.loads(text)["bench"] == [{"n": 2}, {"n": 3}]
    head, tail = TEXT.index("bench"), TEXT.index("\n\n# The rest")
    assert text.startswith(TEXT[:head]) and text.endswith(TEXT[tail:])


def test_tables_of_a_list_are_replaced_and_comments_between_them_stay() -> None:
    tables = TEXT.replace(TEXT[TEXT.index("bench") : TEXT.index("# The rest")], "")
    tables += "\n[[bench]]\nn = 1\n\n# Prefill.\n[[bench]]\nn = 2\n\n[last]\nx = 1\n"
    text = with_rows(tables, "bench", ["{ n = 5 }"], "seen")
    loaded = tomllib.loads(text)
    assert loaded["bench"] == [{"n": 5}] and loaded["last"] == {"x": 1}
    assert "# Prefill." in text and loaded["dims"]["n"] == {"min": 1, "max": 9}
    assert text.index("bench = [") < text.index("# MARK") < text.index("[dims.n]")


@pytest.mark.parametrize(("name", "dim"), [("n", {"min": 2, "max": 4}), ("m", {"min": 1})])
def test_a_dim_is_replaced(name: str, dim: dict[str, int]) -> None:
    text = with_dim(TEXT, name, dim)
    before = tomllib.loads(TEXT)
    before["dims"][name] = dim
    assert tomllib.loads(text) == before


def test_a_dim_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        with_dim(TEXT, "k", {"min": 1})


def test_fields_of_an_inline_table_are_replaced_or_added() -> None:
    text = with_fields(TEXT, ("scalars", 0), {"value": 0.5, "others": [1.0]})
    text = with_fields(text, ("scalars", 0), {"value": 0.25})
    scalar = {"name": "eps", "value": 0.25, "others": [1.0]}
    assert tomllib.loads(text)["scalars"] == [scalar]


def test_marked_comments_go_and_others_stay() -> None:
    text = without_comments(TEXT, ("dims", "n"), "MARK")
    assert text == TEXT.replace("# MARK: legal range\n", "")
    assert without_comments(TEXT, ("name",), "its") == TEXT.replace("  # its name", "")


def test_a_pair_is_added_or_replaced() -> None:
    text = with_pair(TEXT, "reference", "m:f", "name")
    assert tomllib.loads(text)["reference"] == "m:f" and '# its name\nreference = "m:f"\n' in text
    assert with_pair(text, "reference", "m:g", "name") == text.replace("m:f", "m:g")
