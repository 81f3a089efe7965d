"""Where in a TOML file a value stands."""

from __future__ import annotations

import tomllib

import pytest

from astra_chat.tools.task.toml_lines import line_of
from tests.tools.task.contracts import CONTRACT

TEXT = '''\
# comment = 1
a = 1
"b c" = """
x = 2
"""
list = [
    { n = 1, m = [1, 2] },  # { n = 3 }
    { n = "}", m = [
        3,
      ] },
]
[t.u]
v.w = 'it''
when = 1979-05-27 07:32:00
[[many]]
x = 1
[[many]]
x = 2
[many.sub]
y = 3
'''.replace("'it''", "'it'")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 2),
        (("b c",), 3),
        (("list",), 6),
        (("list", 0, "m", 1), 7),
        (("list", 1), 8),
        (("list", 1, "m", 0), 9),
        (("t", "u", "v", "w"), 13),
        (("t", "u", "when"), 14),
        (("many", 0, "x"), 16),
        (("many", 1, "x"), 18),
        (("many", 1, "sub", "y"), 20),
        (("list", 1, "missing"), 8),
        (("t", "u", "missing"), 12),
        (("missing",), None),
    ],
)
def test_lines(path: tuple[str | int, ...], line: int | None) -> None:
    tomllib.loads(TEXT)
    assert line_of(TEXT, path) == line


def test_every_value_of_a_contract_has_a_line() -> None:
    lines = CONTRACT.splitlines()
    for at, row in enumerate(tomllib.loads(CONTRACT)["args"]):
        found = line_of(CONTRACT, ("args", at, "name"))
        assert found is not None and f'"{row["name"]}"' in lines[found - 1]


def test_what_is_no_toml_has_no_lines() -> None:
    assert line_of("a = = 1", ("a",)) in {None, 1} and line_of("= 1", ("a",)) is None
